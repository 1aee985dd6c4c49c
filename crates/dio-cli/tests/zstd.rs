//! `dio zstd` beside the zstd command: each reads what the other wrote, names and lists are the
//! same, and messages are the same where that is sensible.

use std::fs;
use std::path::Path;

use dio_test::{Rng, Soak};

use crate::compress_support::{
    Seen, Tree, Whose, compressed, contents, differing, inputs, piped, scratch, script, seen, text,
    well, word,
};

/// Makes files for every situation.
fn prepare(dir: &Path) {
    let put = |name: &str, bytes: &[u8]| fs::write(dir.join(name), bytes).unwrap();
    let a = text(288_894);
    let zst = piped("zstd", &["-qc", "--stream-size=288894"], &a);
    let unsized_ = piped("zstd", &["-qc", "--no-check"], &a);
    let wide = piped("zstd", &["-qc", "--long=28"], &a);
    for name in ["a", "b", "d/x", "d/e/y"] {
        fs::create_dir_all(dir.join("d/e")).unwrap();
        put(name, &a);
    }
    put("a.zst", &zst);
    put("c.tzst", &zst);
    put("stream.zst", &unsized_);
    put("wide.zst", &wide);
    put("two.zst", &[&zst[..], b"\x50\x2a\x4d\x18\x02\0\0\0ab", &zst].concat());
    put("mixed.zst", &[&zst[..], &unsized_].concat());
    put("garb.zst", &[&zst[..], b"garbage"].concat());
    put("trunc.zst", &zst[..1000]);
    let mut bad = zst.clone();
    let end = bad.len();
    bad[end - 2] ^= 1;
    put("bad.zst", &bad);
    put("empty", b"");
    put("empty.zst", &piped("zstd", &["-qc"], b""));
    put("short.zst", b"XX");
    std::os::unix::fs::symlink("a", dir.join("lnk")).unwrap();
    let touched = std::process::Command::new("sh")
        .args(["-c", "touch -h -d 2020-01-01T00:00:00Z * d/* d/e/*"])
        .current_dir(dir)
        .status();
    assert!(touched.unwrap().success());
}

fn run(whose: Whose, text: &str) -> Seen {
    run_in(whose, &prepare, text)
}

fn run_in(whose: Whose, prepare: &dyn Fn(&Path), text: &str) -> Seen {
    let dir = scratch();
    prepare(dir.path());
    seen(script(whose, dir.path(), text), dir.path())
}

/// Removes the parts of the output that may differ: ratios and compressed sizes, because the
/// library's version differs, and the offset of damage.
fn common(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let line = line.split(", at byte ").next().unwrap_or_default().trim_end();
        let line = &line.replace(".zst/.tzst/.gz/.tgz/.lzma/.xz/.txz/.lz4/.tlz4", ".zst/.tzst");
        let line = match line.split_once('%') {
            Some((name, rest)) => {
                let kept =
                    name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == ' ');
                format!("{kept} R% {}", rest.rsplit_once(',').map_or("", |(_, target)| target))
            }
            None => line.to_owned(),
        };
        // The banner of -v.
        if !line.starts_with("***") {
            out += &(line + "\n");
        }
    }
    out
}

#[track_caller]
fn same(text: &str) {
    compare(text, &run(Whose::System, text), &run(Whose::Ours, text));
}

#[track_caller]
fn compare(text: &str, theirs: &Seen, ours: &Seen) {
    let differ = theirs.status != ours.status
        || common(&theirs.out) != common(&ours.out)
        || common(&theirs.err) != common(&ours.err)
        || theirs.files != ours.files;
    assert!(!differ, "{text}\ntheirs {theirs:#?}\nours {ours:#?}");
}

#[test]
fn files_become_what_the_command_makes_of_them() {
    for text in [
        "zstd b",
        "zstd -f a",
        "zstd -q b",
        "zstd -f a b",
        "zstd -q --rm b",
        "zstd --rm -f a b",
        "zstd -o out b",
        "zstd -fo a.zst b",
        "zstd -d -f a.zst",
        "unzstd -f a.zst c.tzst",
        "zstd -d --rm -f a.zst",
        "zstd -dq c.tzst",
        "zstd -d a.zst -o out",
        "zstd -rq d",
        "zstd -q --output-dir-mirror out d/x d/e/y",
        "mkdir out; zstd -q --output-dir-flat out d/x d/e/y",
        "zstd -f lnk",
        "zstd empty -f",
        "zstd -d empty.zst -f",
        "zstd -qf --exclude-compressed a.zst b",
        "zstd -19 -qf b; zstd -qf --fast=3 a",
        "zstd -q -20 --ultra b",
        "zstd -q --zstd=wlog=18,strat=3 b",
        "zstd -q --long b -T2",
        "printf 'b\\nempty\\n' > list; zstd -qf --filelist list",
        "zstd -qd two.zst mixed.zst",
        "cp a.zst n.zstd; zstd -d n.zstd",
        "zstd -qf --fast=200000 a",
        "zstd -qf --fast=1K a",
        "zstd -f -D d/x a; zstd -dfq -D d/x a.zst",
        "zstd -qdkf --pass-through short.zst garb.zst",
    ] {
        same(text);
    }
}

#[test]
fn what_is_left_alone_is_told_alike() {
    for text in [
        "zstd a",
        "zstd -q a",
        "zstd -qq a",
        "zstd nofile",
        "zstd nofile b",
        "zstd .",
        "zstd lnk",
        "zstd b -o b",
        "zstd -d trunc.zst",
        "zstd -d bad.zst",
        "zstd -d garb.zst",
        "zstd -d short.zst",
        "zstd -t empty",
        "zstd -t a.zst",
        "ln -s a.zst l.zst; zstd -l l.zst",
        "ln -s self self; zstd -l self a.zst",
        "ln -s a.zst l.zst; zstd -lf l.zst",
        "mkdir e; zstd -r lnk e",
        "mkdir e; zstd -r --exclude-compressed lnk e",
        "ln -s a.zst l.zst; zstd --exclude-compressed l.zst",
        "mkdir e; zstd -lr lnk e",
        "zstd -l --exclude-compressed a.zst",
        "zstd -t a.zst two.zst",
        "zstd -t trunc.zst a.zst",
        "zstd -t a two.zst",
        "zstd -l a.zst two.zst stream.zst mixed.zst empty.zst",
        "zstd -l stream.zst",
        "zstd -lv a.zst two.zst stream.zst wide.zst",
        "zstd -l < a.zst",
        "zstd a b -o out",
        "mkdir none; zstd -r none",
        "mkdir none; zstd -d -r none",
        "mkdir none; zstd -qr none",
        "mkdir none; zstd -qqrc none",
        "mkdir none; zstd -rf none a -o out",
        "zstd -r lnk",
        "mkdir k.zst; zstd --exclude-compressed k.zst b",
        "zstd -f -D a a",
        "zstd -f -D a b a",
        "zstd -f -D lnk a",
        "zstd -df short.zst",
        "zstd -tf short.zst",
        "zstd -df garb.zst -o out",
    ] {
        same(text);
    }
}

#[test]
fn streams_are_alike() {
    for text in [
        "zstd < a | zstd -d | cksum",
        "zstd -c a b | zstd -dc | cksum",
        "zstd -T0 -v < a 2> /dev/null | zstd -dq | cksum",
        "zstdcat a.zst two.zst | cksum",
        "zstd -dcf a | cksum",
        "zstd -dc a",
        "zstd -df < a | cksum",
        "printf a | zstd -df",
        "zstd -df --no-pass-through < a",
        "echo a | zstd -dfo out",
        "zstd -dcf garb.zst | tail -c 20",
        "(cat a.zst; printf y) | zstd -df | tail -c 5",
        "(cat a.zst; printf 'P*M') | zstd -df | tail -c 5",
        "(cat a.zst; head -c 3000000 /dev/zero; cat a) | zstd -df | cksum",
        "zstd -qt --pass-through a garb.zst",
        "zstd -dc --pass-through a a.zst | cksum",
        "zstd -dc trunc.zst | wc -c",
        "zstdcat --test garb.zst short.zst a",
        "zstdcat -o out a; zstdcat -o out2 short.zst",
        "zstdcat --no-pass-through a",
        "yes | head -c 20000000 | zstd -1 | zstd -d | cksum",
        "(yes | head -c 100000; sleep 0.1; echo end) | zstd | (sleep 0.1; zstd -d) | cksum",
        "zstd -d --long=28 wide.zst -c | cksum",
        "zstd -d -M256M wide.zst -c | cksum",
        "cat two.zst mixed.zst | zstd -d | cksum",
        "zstd --stream-size=288894 < a > out.zst; zstd -lq out.zst | cut -c 1-40",
    ] {
        same(text);
    }
}

#[test]
fn a_dictionary_that_is_no_regular_file_is_refused() {
    for text in ["cat b | zstd -f -D /dev/stdin a", "zstd -f -D d a"] {
        let (theirs, ours) = (run(Whose::System, text), run(Whose::Ours, text));
        assert_eq!(
            (common(&theirs.err), &theirs.files),
            (common(&ours.err), &ours.files),
            "{text}"
        );
        assert_eq!(ours.status.0, Some(1), "{text}: {ours:?}");
    }
}

#[test]
fn a_window_larger_than_allowed_is_refused_with_the_cure() {
    for text in ["zstd -d wide.zst", "zstd -dM128M wide.zst", "zstd -t --long=27 wide.zst"] {
        let ours = run(Whose::Ours, text);
        assert_eq!(ours.status.0, Some(1), "{text}");
        assert!(
            ours.err.contains("Frame requires too much memory for decoding"),
            "{text}: {}",
            ours.err
        );
        assert!(
            ours.err.contains("268435456") && !ours.files.contains_key("wide"),
            "{text}: {ours:?}"
        );
    }
}

#[test]
fn dictionaries_are_shared() {
    let dir = scratch();
    fs::create_dir(dir.path().join("in")).unwrap();
    for number in 0..300 {
        let record = format!(
            "{{\"name\": \"user {number}\", \"mail\": \"user{number}@example.org\", \"age\": \
             {number}}}\n"
        );
        fs::write(dir.path().join(format!("in/{number}")), record.repeat(3)).unwrap();
    }
    let trained = script(Whose::System, dir.path(), "zstd -q --train in/* -o dict --maxdict=4000")
        .status()
        .unwrap();
    assert!(trained.success());
    well(dir.path(), "zstd -q -D dict in/7 -o ours.zst");
    let theirs = script(
        Whose::System,
        dir.path(),
        "zstd -q -D dict in/7 -o theirs.zst; zstd -dq -D dict ours.zst -c | cmp - in/7",
    );
    assert!({ theirs }.status().unwrap().success());
    well(dir.path(), "zstd -dq -D dict theirs.zst -c | cmp - in/7");
    let without = script(Whose::Ours, dir.path(), "zstd -dqc ours.zst").output().unwrap();
    assert_eq!(without.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&without.stderr).contains("Dictionary mismatch"),
        "{without:?}"
    );
}

#[test]
fn both_read_what_the_other_wrote() {
    let dir = scratch();
    for (name, bytes) in inputs() {
        fs::write(dir.path().join(name), &bytes).unwrap();
        for how in
            ["-1", "-3", "-9", "--fast=5", "-3 --long=24 --no-check", "--single-thread", "-T3 -B1M"]
        {
            let ours = well(dir.path(), &format!("zstd -q {how} -c {name}"));
            assert!(piped("zstd", &["-dc"], &ours) == bytes, "{name} {how} from a file");
            let ours = well(dir.path(), &format!("cat {name} | zstd -q {how}"));
            assert!(piped("zstd", &["-dc"], &ours) == bytes, "{name} {how} from a pipe");
        }
        fs::write(dir.path().join("theirs.zst"), piped("zstd", &["-c", "-T2"], &bytes)).unwrap();
        assert!(well(dir.path(), "unzstd -q -c theirs.zst") == bytes, "{name} of the command's");
        assert!(
            well(dir.path(), "cat theirs.zst theirs.zst | zstdcat")
                == [&bytes[..], &bytes].concat(),
            "{name} twice"
        );
        well(
            dir.path(),
            &format!("zstd -q {name} && zstd -dqf {name}.zst -o back && cmp {name} back"),
        );
    }
}

#[test]
fn zeros_become_holes() {
    let dir = scratch();
    let file = fs::File::create(dir.path().join("sparse")).unwrap();
    file.set_len(50 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"in the middle", 20_000_000).unwrap();
    well(
        dir.path(),
        "zstd -q sparse && zstd -dq sparse.zst -o holes && zstd -dq --no-sparse sparse.zst -o full",
    );
    well(
        dir.path(),
        "cmp sparse holes && cmp sparse full && zstd -dcq --sparse sparse.zst > redirected && cmp \
         sparse redirected",
    );
    let blocks = |name: &str| {
        std::os::unix::fs::MetadataExt::blocks(&fs::metadata(dir.path().join(name)).unwrap())
    };
    assert!(blocks("holes") < 2000, "{}", blocks("holes"));
    assert!(blocks("redirected") < 2000, "{}", blocks("redirected"));
    assert!(blocks("full") >= 50 << 11, "{}", blocks("full"));
}

/// A random frame, which may be a skippable one.
fn frame(rng: &mut Rng) -> Vec<u8> {
    if rng.bool(0.05) {
        return b"\x50\x2a\x4d\x18\x02\0\0\0ab".to_vec();
    }
    let contents = contents(rng);
    piped(
        "zstd",
        &["-qc", *rng.pick(&["-1", "-3", "-9", "--fast=5", "--no-check", "--long=20"])],
        &contents,
    )
}

/// A random command line.
fn command(rng: &mut Rng, tree: &Tree) -> String {
    let options = [
        "-q",
        "-q",
        "-qq",
        "-f",
        "-f",
        "-k",
        "--rm",
        "-d",
        "-d",
        "-df",
        "-dqf",
        "-t",
        "-l",
        "-c",
        "-r",
        "-o out",
        "-o a",
        "-1",
        "-9",
        "-19",
        "--fast",
        "--fast=7",
        "--long",
        "--long=20",
        "-T2",
        "-T0",
        "--no-check",
        "--check",
        "--sparse",
        "--no-sparse",
        "--exclude-compressed",
        "--output-dir-flat out",
        "--output-dir-mirror out",
        "--no-progress",
        "--pass-through",
        "--no-pass-through",
        "--single-thread",
        "-B1M",
        "-M64MB",
        "--ultra -20",
        "--no-content-size",
        "--content-size",
        "--stdout",
        "--decompress",
        "--test",
        "--force",
        "--quiet",
        "--size-hint=1000",
        "-z",
    ];
    let mut words =
        vec![format!("timeout 5 {}", rng.pick(&["zstd", "zstd", "zstd", "unzstd", "zstdcat"]))];
    words.extend((0..rng.range(0..4)).map(|_| (*rng.pick(&options)).to_owned()));
    for _ in 0..rng.range(0..4) {
        words.push(if rng.bool(0.05) {
            "-".to_owned()
        } else {
            word(rng.pick(&tree.names).as_str())
        });
    }
    format!("{} < {}", words.join(" "), tree.input(rng))
}

#[test]
fn an_output_that_is_one_of_several_inputs_is_refused_before_anything_is_written() {
    for text in [
        "zstd -qf -o a b a",
        "zstd -qf -o ./a b a",
        "ln a l; zstd -qf -o l b a",
        "zstd -df -o a.zst two.zst a.zst",
    ] {
        let seen = run(Whose::Ours, text);
        assert_eq!(seen.status.0, Some(1), "{text}: {}", seen.err);
        assert!(seen.err.contains("will overwrite the input file"), "{text}: {}", seen.err);
        let untouched = run(Whose::Ours, if text.contains("ln ") { "ln a l" } else { "true" });
        assert_eq!(seen.files, untouched.files, "{text}");
    }
}

#[test]
fn soak_command_lines_do_what_they_do_to_zstd() {
    Soak::of(6).for_each(|seed| some_command_lines(&mut seed.rng()));
}

/// Runs four random command lines in a tree.
fn some_command_lines(rng: &mut Rng) {
    let pool = [
        "a",
        "k",
        "k.zst",
        "b.zst",
        "c.tzst",
        "n.zstd",
        "sp ace",
        "x.zst.zst",
        ".zst",
        "d/x",
        "d/y.zst",
        "d/e/z",
    ];
    let tree = Tree::new(rng, &pool, |rng, name| match name {
        "a" | "k" | "sp ace" | "d/x" | "d/e/z" if rng.bool(0.9) => contents(rng),
        _ if rng.bool(0.1) => contents(rng),
        _ => compressed(rng, frame),
    });
    for _ in 0..4 {
        let text = command(rng, &tree);
        let [theirs, ours] =
            [Whose::System, Whose::Ours].map(|whose| run_in(whose, &|dir| tree.make(dir), &text));
        // The tests above compare messages. The status of any error is 1.
        let differ = (theirs.status.0 == Some(0)) != (ours.status.0 == Some(0))
            || common(&theirs.out) != common(&ours.out)
            || theirs.files != ours.files;
        // dio does not write through a link whose target does not exist.
        let through_link = theirs
            .files
            .keys()
            .any(|name| !ours.files.contains_key(name) && tree.is_behind_link(name));
        // A target does not appear before it is complete, even if the source is a link to it.
        let through_link = through_link || text.contains("-o a") && tree.is_behind_link("a");
        // A source is removed only with --rm.
        let lost =
            theirs.files.keys().find(|name| !ours.files.contains_key(*name) && tree.has(name));
        assert!(lost.is_none(), "{text}: {lost:?} is gone\n{}", ours.err);
        assert!(
            !differ || through_link || is_deliberate(&text, &theirs, &ours),
            "{text}\ntheirs {:?}\n{}{}\nours {:?}\n{}{}\n{}",
            theirs.status,
            theirs.out,
            theirs.err,
            ours.status,
            ours.out,
            ours.err,
            differing(&theirs, &ours)
        );
    }
}

/// Whether docs/gnu/zstd.md documents this difference, or the command crashed.
fn is_deliberate(text: &str, theirs: &Seen, ours: &Seen) -> bool {
    let waits = [theirs, ours].iter().any(|seen| seen.status.0 == Some(124));
    let crashed = theirs.status.0.is_none_or(|status| status > 128);
    // The programs differ in how much they write before damage, in what is left of a target, and in
    // how they treat an answer from a pipe. The command cannot make holes in a pipe, nor read its
    // standard input twice. --long does not reduce the permitted window.
    let failed = theirs.status.0 != Some(0) && ours.status.0 == Some(1);
    // The command detects that only by names, and destroys a source that has another name.
    let both = ours.err.contains("cannot be used with");
    // If the name of a source begins with a dot, the command ignores --output-dir-mirror.
    let hidden = text.contains("--output-dir-mirror") && text.contains("'.zst'");
    // The order of directory entries determines what goes to standard output.
    // Or in what several files become.
    let sizes = |seen: &Seen| -> Vec<String> {
        seen.files
            .iter()
            .map(|(name, what)| {
                format!("{name} {what}").split(',').next().unwrap_or_default().to_owned()
            })
            .collect()
    };
    let order =
        text.contains(" -r") && theirs.out.len() == ours.out.len() && sizes(theirs) == sizes(ours);
    // The command makes the directory of --output-dir-mirror though no source is left for it.
    let emptied = text.contains("--output-dir-mirror") && text.contains("--exclude-compressed");
    // The library refuses reserved bits that version 1.5.4 ignores.
    let reserved = ours.err.contains("Data corruption detected");
    // A window that --long does not reduce; with -qq there is no message.
    let window = text.contains("--long") && theirs.err.is_empty();
    // No holes can be made; with -q there is no message.
    let holes = text.contains("--sparse")
        && theirs.err.is_empty()
        && theirs.status.0.is_some_and(|status| status > 2);
    // A checksum that exists is verified in spite of --no-check.
    let verified = text.contains("--no-check") && ours.err.contains("doesn't match checksum");
    let itself = ours.err.contains("Refusing to open an output file which will overwrite the input \
                                    file")
        // The command reads what it writes where one of several inputs is the output, which is not
        // there before.
        || text.contains("-o a") && ours.err.contains("can't stat a :");
    waits
        || both
        || crashed
        || failed
        || itself
        || verified
        || hidden
        || emptied
        || reserved
        || window
        || holes
        || order && theirs.status == ours.status
        || [
            "Proceed?",
            "overwrite (y/n)",
            "Sparse skip error",
            "Final skip error",
            "error 37 : Read error",
            "requires too much memory",
        ]
        .iter()
        .any(|said| theirs.err.contains(said))
}
