//! `dio gzip` beside GNU gzip: the same commands in the same directories must leave the same files,
//! messages and statuses.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use dio_test::{Rng, Soak};

use crate::compress_support::{
    Seen, Tree, Whose, compressed, contents, differing, inputs, permit, piped, scratch, script,
    seen, text, well, word,
};

/// Makes files for every situation.
fn prepare(dir: &Path) {
    let at = |name: &str| dir.join(name);
    let a = text(23_893);
    let gz = piped("gzip", &["-nc"], &a);
    let put = |name: &str, bytes: &[u8]| fs::write(at(name), bytes).unwrap();
    for name in ["a", "b", "c.tgz1", "no such:file", "s", "t"] {
        put(name, &a);
    }
    for name in ["a.gz", "b2.gz", "c.tgz", "d-gz", "f.Z", "up.GZ"] {
        put(name, &gz);
    }
    put("e", b"");
    put("e.gz", b"");
    put("two.gz", &[&gz[..], &gz].concat());
    put("garb.gz", &[&gz[..], b"garbage\n"].concat());
    put("zer.gz", &[&gz[..], &[0; 20]].concat());
    put("tr.gz", &gz[..1000]);
    let changed = |at: usize, bytes: &[u8]| {
        let mut all = gz.clone();
        all[at..at + bytes.len()].copy_from_slice(bytes);
        all
    };
    put("crc.gz", &changed(gz.len() - 8, b"XX"));
    put("len.gz", &changed(gz.len() - 3, b"XX"));
    put("both.gz", &changed(gz.len() - 5, b"XX"));
    put("m1.gz", b"\x1f\x8b\x07");
    put("m2.gz", b"\x1f\x8b\x08\x20aaaaaaaaaaaaaaaaa");
    put("m3.gz", b"\x1f\x8b\x08\xc0aaaaaaaaaaaaaaaaa");
    put("m4.gz", b"\x1f\x8b\x08\0aaaaaaaaaaaaaaaaa");
    put("m5.gz", b"\x1f\x8b\x08\0aaaa");
    put("m6.gz", b"\x1f");
    put("m7.gz", b"\x1fx");
    put("n.gz", &[b"\x1f\x8b\x08\x08aaaa\0\x03../../evil\0", &gz[10..]].concat());
    symlink("a", at("lnk")).unwrap();
    fs::create_dir_all(at("d/e")).unwrap();
    put("d/x", &a);
    put("d/e/y", &a);
    fs::hard_link(at("b"), at("b9")).unwrap();
    let touched = "touch -h -d 2020-01-01T00:00:00Z * d/* d/e/*";
    assert!(Command::new("sh").args(["-c", touched]).current_dir(dir).status().unwrap().success());
    permit(&at("s"), 0o4755);
    permit(&at("t"), 0o1644);
    permit(&at("a"), 0o640);
    rustix::fs::mknodat(rustix::fs::CWD, at("ff"), rustix::fs::FileType::Fifo, 0o644.into(), 0)
        .unwrap();
}

fn run(whose: Whose, prepare: &dyn Fn(&Path), text: &str) -> Seen {
    let dir = scratch();
    prepare(dir.path());
    seen(script(whose, dir.path(), text), dir.path())
}

/// Removes the parts of the output that differ from GNU's: ratios and sizes of compressed files,
/// and the offset of damage.
fn common(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let line = line.split(", at byte ").next().unwrap_or_default();
        let words =
            line.split([' ', '\t']).map(|word| if word.ends_with('%') { "R%" } else { word });
        let mut words: Vec<&str> = words.collect();
        words.retain(|word| !word.is_empty());
        out += &(words.join(" ") + "\n");
    }
    out
}

#[track_caller]
fn same(text: &str) {
    compare(text, &run(Whose::System, &prepare, text), &run(Whose::Ours, &prepare, text));
}

#[track_caller]
fn compare(text: &str, gnu: &Seen, dio: &Seen) {
    // GNU gzip processes a directory in the file system's order, and dio in the order of the names.
    let any_order = text.contains(" -r");
    let common = |text: &str| {
        let mut lines: Vec<String> = common(text).lines().map(str::to_owned).collect();
        if any_order {
            lines.sort();
        }
        lines
    };
    let differ = gnu.status != dio.status
        || common(&gnu.out) != common(&dio.out)
        || common(&gnu.err) != common(&dio.err)
        || gnu.files != dio.files;
    assert!(
        !differ,
        "{text}\nGNU {:?}\n{}{}\ndio {:?}\n{}{}\n{}",
        gnu.status,
        gnu.out,
        gnu.err,
        dio.status,
        dio.out,
        dio.err,
        differing(gnu, dio)
    );
}

#[test]
fn files_are_replaced_as_gnu_does() {
    for text in [
        "gzip d/x",
        "gzip -k a",
        "gzip -kf a",
        "gzip a",
        "gzip -v d/x",
        "gzip -kv d/x",
        "gzip -kv e -f",
        "gzip -d b2.gz",
        "gzip -d a.gz",
        "gzip -df a.gz",
        "gzip -dv b2.gz",
        "gunzip b2",
        "gzip -dfv a.gz d-gz f.Z c.tgz up.GZ",
        "gzip -df garb.gz zer.gz two.gz",
        "gzip -d crc.gz; gzip -d len.gz; gzip -d both.gz; gzip -d tr.gz; gzip -d m4.gz; gzip -d \
         m5.gz",
        "gzip -dN n.gz; ls ..| grep evil",
        "gzip -dkN a.gz -f",
        "gzip -n d/x; gzip -dN d/x.gz",
        "gzip d/x; mv d/x.gz d/z.gz; gzip -dN d/z.gz",
        "gzip d/x; mv d/x.gz d/z.gz; gzip -d d/z.gz",
        "gzip --best -k d/x; gzip --fast -c d/x | gzip -t",
        "gzip -9 -1 --st d/x | gzip -t; gzip -c5 d/x | gzip -d | cksum",
        "gzip -S .foo d/x; gunzip -S .foo d/x; gzip -S .foo d/x; gunzip -S .foo d/x.foo",
        "gzip -S z d/x; gunzip -S z d/xz",
        "gzip --synchronous d/x; gunzip --synchronous d/x",
        "gzip -f s t lnk b",
        "chmod 444 d/x; gzip d/x",
        "gzip -m d/x; gzip -dN d/x.gz",
    ] {
        same(text);
    }
}

#[test]
fn what_is_left_alone_is_told_as_gnu_does() {
    for text in [
        "gzip a.gz",
        "gzip c.tgz b2.gz -v",
        "gzip -q a.gz b2.gz",
        "gzip -d c.tgz1 nofile",
        "gunzip nofile",
        "zcat nofile",
        "gzip nofile a.gz",
        "gzip -q a; gzip -qd c.tgz1",
        "gzip .",
        "gzip lnk",
        "gzip b",
        "gzip ff s t",
        "gzip -qf ff",
        "gzip 'no such:file' nofile",
        "gzip -t ''",
        "gzip '' nofile",
        "mkdir b2; gunzip b2.gz",
        "mkdir b2; gunzip -f b2.gz",
        "mkdir d/x.gz; gzip d/x",
        "gzip -r d",
        "gzip -rv d",
        "gzip -r d/e/y d",
        "gzip -r d/x d/e d",
        "gzip -r d; gzip -rdv d",
        "gzip -rt d",
        "gzip -rd d; gzip -rdv d",
        "gzip -dv -S .bar b2.gz",
        "gzip -a -kf a",
        "GZIP=-9 gzip -kf a",
        "GZIP=-qv gzip -k d/x",
        "GZIP=-vq gzip -k d/x",
    ] {
        same(text);
    }
}

#[test]
fn lists_and_tests_are_gnus() {
    for text in [
        "gzip -t a.gz b2.gz",
        "gzip -tv a.gz nofile.gz",
        "gzip -t a",
        "gzip -t e.gz",
        "gzip -tv garb.gz",
        "gzip -t garb.gz",
        "gzip -t zer.gz",
        "gzip -t tr.gz",
        "gzip -tv crc.gz",
        "mkdir v; cp a v/a.gz; cp e v/e.gz; gzip -tv v/a.gz; gzip -tv v/e.gz; gzip -dv v/a.gz; \
         gzip -lv v/a.gz",
        "cp b2.gz stdin.gz; cp a stdin; gzip -tv stdin.gz; gzip -dfv stdin.gz; gzip -v stdin",
        "gzip -t len.gz",
        "gzip -t m1.gz m2.gz m3.gz",
        "gzip -t m4.gz",
        "gzip -t m5.gz",
        "gzip -t m6.gz",
        "gzip -t m7.gz",
        "gzip -tv < a.gz",
        "gzip -tv < garb.gz",
        "gzip -l a.gz",
        "gzip -l b2.gz a.gz",
        "gzip -ql b2.gz a.gz",
        "gzip -lv b2.gz a.gz",
        "gzip -lvN n.gz",
        "gzip -lN n.gz",
        "gzip -l a",
        "gzip -l tr.gz",
        "gzip -l garb.gz",
        "gzip -l < a.gz",
        "gzip -l nofile b2.gz",
        "gzip -lS .tgz c.tgz",
    ] {
        same(text);
    }
}

#[test]
fn streams_are_gnus() {
    for text in [
        "(gzip < a; echo yyy) | gzip -cdf | tail -c 10",
        "(gzip < a; head -c 500000 /dev/zero; gzip < a) | gzip -cdf | tail -c +23894 | head -c \
         500000 | cksum",
        "(gzip < a; printf '\\0\\0y') | gzip -cdf | tail -c 3 | od -c",
        "(gzip < a; printf '\\37') | gzip -cdf | tail -c 3 | od -c",
        "(gzip < a; printf '\\1') | gzip -dc | cksum",
        "(echo 1 | gzip; printf '\\1') | gzip -dc",
        "(echo 1 | gzip; printf '\\37') | gzip -dc",
        "(echo 1 | gzip; printf '\\37\\213') | gzip -dcf",
        "(echo 1 | gzip; printf '\\1\\0') | gzip -dc",
        "(echo 1 | gzip; printf '\\0\\1') | gzip -dc",
        "(echo 1 | gzip; echo yyy) | gzip -tf",
        "printf a | gzip -dc",
        "printf '\\0' | gzip -dc",
        "printf a | gzip -dcf",
        "gzip -dcf garb.gz | tail -c 20",
        "gzip -dfk garb.gz",
        "gzip -df < a | cksum",
        "gzip -dcfv a e d/x | cksum; gzip -dcfvk a | cksum; gzip -tfv a",
        "gunzip -kf < /dev/null",
        "gzip -df garb.gz - < a | cksum",
        "gzip -tf < a",
        "gzip < a | gzip -d | cksum",
        "gzip -c a b9 | gzip -dc | cksum",
        "gzip -c lnk | gzip -dc | cksum",
        "gzip a - < b | gzip -d | cksum",
        "gzip -d - < b2.gz | cksum",
        "gzip -dv < a.gz | cksum",
        "zcat b2 a.gz | cksum",
        "zcat a",
        "zcat -f a a.gz two.gz | cksum",
        "zcat -f e.gz e",
        "zcat -f m6.gz m7.gz | od -c",
        "gzip -dc garb.gz | cksum",
        "gzip -d < a",
        "gzip -dcv a.gz | cksum",
        "gzip -c a > /dev/full",
        "gzip -dc a.gz > /dev/full",
        "gzip < a > /dev/full",
        "yes | head -c 30000000 | gzip -1 | gzip -dc | cksum",
        "(yes | head -c 100000; sleep 0.1; echo end) | gzip | (sleep 0.1; gzip -dc) | cksum",
        "gzip -dc nofile a.gz | cksum",
        "cat a.gz b2.gz | gzip -dc | cksum",
    ] {
        same(text);
    }
}

#[test]
fn command_lines_that_make_no_sense_are_refused_as_gnu_does() {
    for text in [
        "gzip --nosuch",
        "gzip -y",
        "gzip -0 a",
        "gunzip --nosuch",
        "gzip -S '' a",
        "gzip -S",
        "gzip -b",
        "gzip -Z",
        "gzip --n a.gz",
        "gzip --li a.gz",
        "gzip --help=3",
        "GZIP=-c gzip a",
        "GZIP=--stdout gzip a",
        "GZIP='-9 foo' gzip a",
        "gzip -S 0123456789012345678901234567890123456789 a",
    ] {
        same(text);
    }
}

#[test]
fn both_read_what_the_other_wrote() {
    let dir = scratch();
    for (name, bytes) in inputs() {
        fs::write(dir.path().join(name), &bytes).unwrap();
        for level in ["-1", "-6", "-9", "-12"] {
            if level == "-12" && bytes.len() > 2_000_000 {
                continue;
            }
            let ours = well(dir.path(), &format!("gzip {level} -c {name}"));
            assert!(piped("gzip", &["-dc"], &ours) == bytes, "{name} {level} from a file");
            let ours = well(dir.path(), &format!("cat {name} | gzip {level} -p 3"));
            assert!(piped("gzip", &["-dc"], &ours) == bytes, "{name} {level} from a pipe");
            assert!(piped("gzip", &["-t"], &ours).is_empty());
        }
        fs::write(dir.path().join("theirs.gz"), piped("gzip", &["-c"], &bytes)).unwrap();
        assert!(well(dir.path(), "gunzip -c theirs.gz") == bytes, "{name} of GNU's");
        assert!(
            well(dir.path(), "cat theirs.gz theirs.gz | zcat") == [&bytes[..], &bytes].concat(),
            "{name} twice"
        );
        well(
            dir.path(),
            &format!("gzip -k {name} && mv {name} old && gunzip {name}.gz && cmp {name} old"),
        );
    }
}

/// A member as compressed by GNU gzip.
fn member(rng: &mut Rng) -> Vec<u8> {
    let contents = contents(rng);
    piped("gzip", &[*rng.pick(&["-nc", "-1c", "-9c"])], &contents)
}

/// A random command line.
fn command(rng: &mut Rng, tree: &Tree) -> String {
    let options = [
        "-k",
        "-f",
        "-c",
        "-d",
        "-d",
        "-t",
        "-l",
        "-r",
        "-n",
        "-N",
        "-v",
        "-q",
        "-1",
        "-9",
        "--fast",
        "--best",
        "-kf",
        "-dc",
        "-dk",
        "-dkf",
        "-df",
        "-dcf",
        "-dN",
        "-lv",
        "-tv",
        "-m",
        "-M",
        "-S .foo",
        "-S .gz",
        "-S z",
        "--rsyncable",
        "--synchronous",
        "--stdout",
        "--uncompress",
        "--keep",
        "--force",
        "--no-name",
        "--quiet",
        "--ascii",
    ];
    let mut words =
        vec![format!("timeout 5 {}", rng.pick(&["gzip", "gzip", "gzip", "gunzip", "zcat"]))];
    words.extend((0..rng.range(0..4)).map(|_| (*rng.pick(&options)).to_owned()));
    for _ in 0..rng.range(0..4) {
        let name = rng.pick(&tree.names);
        words.push(match rng.range(0..12) {
            0 => "-".to_owned(),
            // Some words omit the suffix of an existing file.
            1 => word(name.rsplit_once('.').map_or(&name[..], |(stem, _)| stem)),
            _ => word(name),
        });
    }
    format!("{} < {}", words.join(" "), tree.input(rng))
}

#[test]
fn soak_command_lines_do_what_they_do_to_gnu_gzip() {
    Soak::of(6).for_each(|seed| some_command_lines(&mut seed.rng()));
}

/// Runs four random command lines in a tree.
fn some_command_lines(rng: &mut Rng) {
    let pool = [
        "a",
        "k",
        "k.gz",
        "b.gz",
        "c.tgz",
        "d-gz",
        "e.z",
        "f.Z",
        "g.taz",
        "h_z",
        "up.GZ",
        "sp ace",
        "x.gz.gz",
        ".gz",
        "a.foo",
        "d/x",
        "d/y.gz",
        "d/e/z",
        "d/e/x.gz",
        "no.name.gz",
    ];
    let tree = Tree::new(rng, &pool, |rng, name| match name {
        "a" | "k" | "sp ace" | "d/x" | "d/e/z" if rng.bool(0.9) => contents(rng),
        _ if rng.bool(0.1) => contents(rng),
        _ => compressed(rng, member),
    });
    for _ in 0..4 {
        let text = command(rng, &tree);
        let [gnu, dio] =
            [Whose::System, Whose::Ours].map(|whose| run(whose, &|dir| tree.make(dir), &text));
        if !is_deliberate(&text, &gnu, &dio) {
            compare(&text, &gnu, &dio);
        }
    }
}

/// Whether docs/gnu/gzip.md documents this difference.
fn is_deliberate(text: &str, gnu: &Seen, dio: &Seen) -> bool {
    let said = |what: &str| gnu.err.contains(what);
    // GNU gzip stops at damaged data, and loses the lines of a list that it has not written yet.
    let ends = [
        "unexpected end of file",
        "invalid compressed data",
        "not in gzip format",
        "-- not supported",
        "Is a directory",
    ];
    let damage = ends.into_iter().any(|what| said(what) || dio.err.contains(what));
    let several =
        text.split_whitespace().filter(|word| !word.starts_with('-') || *word == "-").count() > 5;
    // The programs differ in how much they write before damage. A distance that reaches before the
    // first byte is damage that GNU gzip detects only by the checksum.
    let distance = said("--crc error") && dio.err.contains("--format violated");
    let damage = damage && (several || text.contains(" -r") || gnu.out != dio.out || distance);
    let waits = dio.status.0 == Some(124);
    // Sizes of files with several members differ from those of GNU gzip 1.12, which prints nothing
    // at all with -c.
    let lists = text.contains(" -l") && gnu.status == dio.status && gnu.files == dio.files;
    // The order of directory entries determines what goes to standard output.
    let order = text.contains(" -r") && gnu.out.len() == dio.out.len() && gnu.files == dio.files;
    // If a directory is found only by its name with a suffix, GNU gzip reads it by the name without
    // the suffix.
    let elsewhere = text.contains(" -r")
        && said(".gz: No such file or directory")
        && !dio.err.contains(&gnu.err);
    order && gnu.out != dio.out
        || elsewhere
        || damage
        || said("trailing zero bytes ignored")
        || said("file size changed while zipping")
        || waits
        || lists
}
