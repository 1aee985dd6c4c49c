//! `dio zstd` beside the zstd command: what one writes the other reads, names and lists are the same, and so are the words
//! where that is sensible.

mod compress_support;

use std::fs;
use std::path::Path;

use compress_support::{Seen, Whose, inputs, piped, scratch, script, seen, text, well};

/// Files for every situation.
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
    let dir = scratch();
    prepare(dir.path());
    seen(script(whose, dir.path(), text), dir.path())
}

/// Ratios and compressed sizes are those of another version of the library; damage is told with its place.
fn common(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let line = line.split(", at byte ").next().unwrap_or_default().trim_end();
        let line = match line.split_once('%') {
            Some((name, rest)) => {
                let kept = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == ' ');
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
    let (theirs, ours) = (run(Whose::System, text), run(Whose::Ours, text));
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
        "zstd -t a.zst two.zst",
        "zstd -t trunc.zst a.zst",
        "zstd -t a two.zst",
        "zstd -l a.zst two.zst stream.zst mixed.zst empty.zst",
        "zstd -l stream.zst",
        "zstd -lv a.zst two.zst stream.zst wide.zst",
        "zstd -l < a.zst",
        "zstd a b -o out",
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
        "zstd -dc --pass-through a a.zst | cksum",
        "zstd -dc trunc.zst | wc -c",
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
fn a_window_larger_than_allowed_is_refused_with_the_cure() {
    for text in ["zstd -d wide.zst", "zstd -dM128M wide.zst", "zstd -t --long=27 wide.zst"] {
        let ours = run(Whose::Ours, text);
        assert_eq!(ours.status.0, Some(1), "{text}");
        assert!(ours.err.contains("Frame requires too much memory for decoding"), "{text}: {}", ours.err);
        assert!(ours.err.contains("268435456") && !ours.files.contains_key("wide"), "{text}: {ours:?}");
    }
}

#[test]
fn dictionaries_are_shared() {
    let dir = scratch();
    fs::create_dir(dir.path().join("in")).unwrap();
    for number in 0..300 {
        let record =
            format!("{{\"name\": \"user {number}\", \"mail\": \"user{number}@example.org\", \"age\": {number}}}\n");
        fs::write(dir.path().join(format!("in/{number}")), record.repeat(3)).unwrap();
    }
    let trained = script(Whose::System, dir.path(), "zstd -q --train in/* -o dict --maxdict=4000").status().unwrap();
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
    assert!(String::from_utf8_lossy(&without.stderr).contains("Dictionary mismatch"), "{without:?}");
}

#[test]
fn both_read_what_the_other_wrote() {
    let dir = scratch();
    for (name, bytes) in inputs() {
        fs::write(dir.path().join(name), &bytes).unwrap();
        for how in ["-1", "-3", "-9", "--fast=5", "-3 --long=24 --no-check", "--single-thread", "-T3 -B1M"] {
            let ours = well(dir.path(), &format!("zstd -q {how} -c {name}"));
            assert!(piped("zstd", &["-dc"], &ours) == bytes, "{name} {how} from a file");
            let ours = well(dir.path(), &format!("cat {name} | zstd -q {how}"));
            assert!(piped("zstd", &["-dc"], &ours) == bytes, "{name} {how} from a pipe");
        }
        fs::write(dir.path().join("theirs.zst"), piped("zstd", &["-c", "-T2"], &bytes)).unwrap();
        assert!(well(dir.path(), "unzstd -q -c theirs.zst") == bytes, "{name} of the command's");
        assert!(
            well(dir.path(), "cat theirs.zst theirs.zst | zstdcat") == [&bytes[..], &bytes].concat(),
            "{name} twice"
        );
        well(dir.path(), &format!("zstd -q {name} && zstd -dqf {name}.zst -o back && cmp {name} back"));
    }
}

#[test]
fn zeros_become_holes() {
    let dir = scratch();
    let file = fs::File::create(dir.path().join("sparse")).unwrap();
    file.set_len(50 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"in the middle", 20_000_000).unwrap();
    well(dir.path(), "zstd -q sparse && zstd -dq sparse.zst -o holes && zstd -dq --no-sparse sparse.zst -o full");
    well(
        dir.path(),
        "cmp sparse holes && cmp sparse full && zstd -dcq --sparse sparse.zst > redirected && cmp sparse redirected",
    );
    let blocks = |name: &str| std::os::unix::fs::MetadataExt::blocks(&fs::metadata(dir.path().join(name)).unwrap());
    assert!(blocks("holes") < 2000, "{}", blocks("holes"));
    assert!(blocks("redirected") < 2000, "{}", blocks("redirected"));
    assert!(blocks("full") >= 50 << 11, "{}", blocks("full"));
}
