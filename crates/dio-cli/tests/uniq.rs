//! `dio uniq` against the system's uniq.

use std::fs;
use std::path::Path;

use crate::pass::{Rng, Seed, file_systems, same, same_on};

/// Random lines that are often equal, wholly, except for case, in some fields, or in their
/// beginnings.
fn lines(rng: &mut Rng, length: usize, delimiter: u8) -> Vec<u8> {
    let mut text = Vec::with_capacity(length + 500_000);
    while text.len() < length {
        let line: Vec<u8> = match rng.range(0..12) {
            0 => Vec::new(),
            1 => rng.bytes(3),
            2 => "größe GRÖSSE".into(),
            3 => vec![b'x'; rng.range_usize(0..90)],
            4 if rng.bool(0.02) => vec![b'y'; rng.range_usize(60_000..200_000)],
            _ => (0..rng.range(1..6)).map(|_| *rng.pick(b"aAbB \t1\n\0")).collect(),
        };
        let times = match rng.range(0..20) {
            0 if line.len() < 100 => rng.range_usize(9..1200),
            1..8 => rng.range_usize(2..4),
            _ => 1,
        };
        text.extend([&line[..], &[delimiter]].concat().repeat(times));
    }
    text.truncate(length);
    text
}

fn options(rng: &mut Rng) -> String {
    let mut flags = String::new();
    let what = [
        "",
        "-c",
        "-d",
        "-u",
        "-D",
        "-cd",
        "-cu",
        "-du",
        "-Du",
        "-Dd",
        "--group",
        "--group=prepend",
        "--group=append",
        "--group=b",
        "--all-repeated=prepend",
        "--all-repeated=sep",
        "--all-repeated=none",
        "--all-repeated",
        "--repeated",
        "--unique -c",
        "--all-repeated=prepend -u",
        "-D --all-repeated=separate -D",
    ];
    flags += what[rng.range_usize(0..what.len())];
    for (chance, flag) in [
        (0.3, "-i"),
        (0.2, "-f"),
        (0.2, "-s"),
        (0.2, "-w"),
        (0.1, "-1"),
        (0.1, "+1"),
        (0.05, "-f0"),
        (0.05, "--skip-fields=2"),
        (0.05, "-w9999999999999999999999"),
    ] {
        if rng.bool(chance) {
            let value = if ["-f", "-s", "-w"].contains(&flag) {
                rng.range(0..4).to_string()
            } else {
                String::new()
            };
            flags += &format!(" {flag}{value}");
        }
    }
    flags
}

#[test]
fn random_runs() {
    let seed = Seed::new();
    let mut rng = seed.rng();
    let systems = file_systems();
    for round in 0..14 {
        let (delimiter, z) = [(b'\n', ""), (b'\n', ""), (0, "-z")][rng.range_usize(0..3)];
        let length = [0, 1, 2, 500, 30_000, 2_500_000][rng.range_usize(0..6)];
        let text = lines(&mut rng, length, delimiter);
        let mut script = String::from("export LC_ALL=C\n");
        for at in 0..14 {
            let (flags, from) = (options(&mut rng), rng.range(0..4));
            script += &match from {
                0 => format!("uniq {z} {flags} in out{at}\n"),
                1 => format!("uniq {z} {flags} < in > out{at}\n"),
                2 => format!("cat in | uniq {z} {flags} - out{at}\n"),
                _ => format!("uniq {flags} in {z} | cksum\n"),
            };
            script += "echo $?\n";
        }
        let setup = |directory: &Path| fs::write(directory.join("in"), &text).unwrap();
        same_on(&systems[round % systems.len()], &setup, &script);
    }
}

/// Runs each line of `lines` in a directory with a small file `in`.
fn each(lines: &str) {
    let setup =
        |directory: &Path| fs::write(directory.join("in"), "a b\na b\nA B\nx\ny y\nz y\n").unwrap();
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        for locale in ["C", "C.UTF-8"] {
            same(&setup, &format!("export LC_ALL={locale}; {line}; echo $?"));
        }
    }
}

#[test]
fn wrong_command_lines() {
    each(
        "uniq --group -c in
         uniq --group=both -D in
         uniq --group -d in
         uniq -u --group in
         uniq -c -D in
         uniq -cD --group=x in
         uniq --group=x -w y in
         uniq -w y --group=x in
         uniq --group= in
         uniq --all-repeated= in
         uniq --all-repeated=é in
         uniq --all-repeated=nonee in
         uniq -f x in
         uniq -s '' in
         uniq -w -1 in
         uniq -f 1k in
         uniq -f $'\\xff' in
         uniq -f=1 in
         uniq -s 1 -s x -s 2 in
         uniq in out more
         uniq --group -c in out more
         uniq +1 in out +2 more
         uniq -- in out +2
         uniq --foo in
         uniq --foo=x in
         uniq -q in
         uniq -cq in
         uniq --s in
         uniq --s=1 in
         uniq --c in
         uniq --count=1 in
         uniq -f
         uniq -1f
         uniq --skip-fields
         uniq -cw",
    );
}

#[test]
fn old_and_short_forms() {
    each(
        "uniq -1 in
         uniq -1c in
         uniq -c1 in
         uniq -c -1 +1 in
         uniq in +1 -i
         uniq in -f 5 -1
         uniq -1 -f 0 in
         uniq -1 -0 -c in
         uniq -f ' +1' -s +0 in
         uniq +1x
         uniq +
         uniq +99999999999999999999
         _POSIX2_VERSION=200112 uniq +1
         _POSIX2_VERSION=199209 uniq +1 in
         _POSIX2_VERSION=200809 uniq +1 in
         _POSIX2_VERSION=x uniq +1 in
         POSIXLY_CORRECT=1 uniq in -c
         POSIXLY_CORRECT=1 uniq -c in
         POSIXLY_CORRECT=1 uniq +1 -c in +1; cat +1
         uniq --r in
         uniq --re in
         uniq --rep in
         uniq --a in
         uniq --g in
         uniq --u in
         uniq --i in
         uniq --co in
         uniq --ch 1 in
         uniq --z in
         uniq --skip-c 1 --skip-f=1 in",
    );
}

#[test]
fn files_that_cannot_be_read_or_written() {
    each(
        "uniq nowhere
         uniq .
         uniq -c . out; ls
         uniq < .
         uniq nowhere out; ls
         uniq in nowhere/out
         uniq in .
         uniq '' out
         uniq in ''
         uniq \"it's\"
         uniq $'a\\nb'
         uniq <&-
         uniq in <&-
         uniq in >&-
         uniq /dev/null >&-
         uniq in out >&-; cat out
         uniq in /dev/full
         uniq -c in > /dev/full
         uniq /dev/null > /dev/full
         uniq -u in -
         uniq - - < in
         uniq -- - -- < in; cat -- --
         uniq in in; wc -c in
         uniq in > in; wc -c in
         uniq < in 1<> in; cat in
         echo before > out; uniq in >> out; cat out
         (head -n1 > /dev/null; uniq -c) < in
         (uniq; echo end) < in > out 2>&1; cat out
         uniq in | true",
    );
}

#[test]
fn a_final_line_without_its_end_gets_one() {
    for (content, flags) in [
        ("a", ""),
        ("a\na", "-c"),
        ("a\nb", "-D"),
        ("\n", "-c"),
        ("a\n\n", "--group=both"),
        ("a\0a", "-zc"),
    ] {
        let setup = |directory: &Path| fs::write(directory.join("in"), content).unwrap();
        same(
            &setup,
            &format!("uniq {flags} in; uniq {flags} < in | uniq -c; printf 'x\\nx' | uniq {flags}"),
        );
    }
}

#[test]
fn lines_longer_than_any_buffer() {
    for flags in ["", "-c", "-d", "-D", "--group", "-w 5 -c", "-s 3000000"] {
        let setup = |directory: &Path| {
            let long = vec![b'l'; 3 << 20];
            let mut other = long.clone();
            *other.last_mut().unwrap() = b'm';
            let text =
                [&long[..], b"\n", &long, b"\nshort\nshort\n", &long, b"\n", &other, b"\n", &other]
                    .concat();
            fs::write(directory.join("in"), text).unwrap();
        };
        same(&setup, &format!("uniq {flags} in out; cat in | uniq {flags} | cksum"));
    }
}
