//! `dd` against the system's: every byte of output and messages (except times), the status and the
//! allocated blocks must be the same.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::gnu::links;
use dio_test::{Rng, Seed, TestFs, file_systems};

/// The outcome of a run.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    pub(crate) status: Option<i32>,
    signal: Option<i32>,
    pub(crate) out: Vec<u8>,
    pub(crate) err: String,
    files: BTreeMap<String, Vec<u8>>,
}

/// Removes times and rates, which differ from run to run.
fn masked(text: &str) -> String {
    let mut all = String::new();
    for line in text.lines() {
        match line.find(" copied, ") {
            Some(at) => all.push_str(&line[..at + 8]),
            None => all.push_str(line),
        }
        all.push('\n');
    }
    all
}

/// Runs a bash script in a directory of its own, with the system's dd or with dio's. Also returns
/// the number of blocks of the file `out`.
fn run(fs: &TestFs, setup: &dyn Fn(&Path), script: &str, locale: &str, ours: bool) -> (Seen, u64) {
    let dir = fs.dir();
    setup(dir.path());
    let search = std::env::var("PATH").unwrap();
    let search = if ours { format!("{}:{search}", links(&["dd"]).display()) } else { search };
    let mut bash = Command::new("bash");
    bash.args(["-c", script]).current_dir(dir.path()).env("PATH", search).env("LC_ALL", locale);
    let output = bash.env_remove("DIO_ENGINE").stdin(Stdio::null()).output().unwrap();
    let (mut files, mut blocks) = (BTreeMap::new(), 0);
    for entry in std::fs::read_dir(dir.path()).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_file() {
            let name = entry.file_name().into_string().unwrap();
            if name == "out" {
                blocks = entry.metadata().unwrap().blocks();
            }
            files.insert(name, std::fs::read(entry.path()).unwrap());
        }
    }
    let (status, signal) = (output.status.code(), output.status.signal());
    let err = masked(&String::from_utf8(output.stderr).unwrap());
    (Seen { status, signal, out: output.stdout, err, files }, blocks)
}

/// Runs a script with both programs and checks that the outcomes are the same. Returns the number
/// of blocks of `out`, GNU's first.
#[track_caller]
fn same_on(fs: &TestFs, setup: &dyn Fn(&Path), script: &str, locale: &str) -> [u64; 2] {
    let (gnu, theirs) = run(fs, setup, script, locale, false);
    let (dio, ours) = run(fs, setup, script, locale, true);
    assert_eq!(gnu.err, dio.err, "messages (GNU left, dio right) on {} of\n{script}", fs.name);
    assert_eq!(
        (gnu.status, gnu.signal),
        (dio.status, dio.signal),
        "status on {} of\n{script}",
        fs.name
    );
    assert!(
        gnu.out == dio.out,
        "output on {} of\n{script}\n{}\n{}",
        fs.name,
        brief(&gnu.out),
        brief(&dio.out)
    );
    for (name, bytes) in &gnu.files {
        let seen = dio.files.get(name).map_or("none".to_owned(), |bytes| brief(bytes));
        let right = dio.files.get(name) == Some(bytes);
        assert!(right, "file {name} on {} of\n{script}\nGNU {}\ndio {seen}", fs.name, brief(bytes));
    }
    assert_eq!(gnu.files.len(), dio.files.len(), "files of\n{script}");
    [theirs, ours]
}

#[track_caller]
fn same(setup: &dyn Fn(&Path), script: &str) {
    same_on(&file_systems()[0], setup, script, "C.UTF-8");
}

fn brief(bytes: &[u8]) -> String {
    format!("{} bytes: {}", bytes.len(), bytes[..bytes.len().min(200)].escape_ascii())
}

fn hello(dir: &Path) {
    std::fs::write(dir.join("f"), "hello world\n").unwrap();
    std::fs::write(dir.join("a b"), "spaces\n").unwrap();
    std::fs::write(dir.join("ro"), "").unwrap();
    std::fs::create_dir(dir.join("dir")).unwrap();
    std::os::unix::fs::symlink("f", dir.join("link")).unwrap();
    std::fs::write(dir.join("all"), (0..=255).collect::<Vec<u8>>()).unwrap();
}

/// Compares each command alone, with standard input from the file `f`.
#[track_caller]
fn each(commands: &[&str]) {
    for operands in commands {
        same(&hello, &format!("dd {operands} <f; echo $?"));
    }
}

#[test]
fn numbers_and_words_are_understood_and_refused_as_gnu_does() {
    let numbers = "1 0 00 +1 1c 1w 1b 1k 1K 1kB 1KB 1KiB 1MB 2x3 2xk kx2 1xM b 1B 4cB 0x1 0x 00x1 \
                   x1 1x 1xx2 -1 1e3 1.5 1m 1g 1i 1Ki 1BB B BB 1KBB 8E 16E 9223372036854775807 \
                   9223372036854775808 99999999999999999999 99999999999999999999x0 it's a\\\\b";
    for number in numbers.split_whitespace() {
        let number = number.replace('\'', "'\\''");
        same(
            &hello,
            &format!("dd bs=2 count='{number}' <f; echo $?; dd skip='{number}' bs=1 if=f; echo $?"),
        );
        if !["8E", "9223372036854775807"].contains(&number.as_str()) {
            same(&hello, &format!("dd ibs='{number}' count=1 <f; echo $?"));
        }
    }
    let words = [
        "foo",
        "foo=1",
        "=1",
        "x=1=2",
        "IF=f",
        "''",
        "conv=",
        "conv=foo",
        "conv=lcase,",
        "conv=,",
        "conv=lcase,ucase",
        "conv=ascii,ebcdic",
        "conv=ibm,ascii",
        "conv=block,unblock cbs=3",
        "conv=block,unblock",
        "conv=ascii,block cbs=3",
        "conv=excl,nocreat",
        "iflag=foo",
        "oflag=",
        "oflag=fullblock",
        "iflag=direct,nocache",
        "oflag=nocache,direct",
        "status=foo",
        "status=",
        "status=none,noxfer",
        "status=progress status=none",
        "--foo",
        "-x",
        "-- foo",
        "--",
        "--help=3",
        "bs=3 bs=4",
        "ibs=5 bs=3",
        "if=nope if=f",
        "bs=0",
        "cbs=0",
        "iflag=text",
        "conv=syncx",
        "oflag=append of=nope/x",
    ];
    for word in words {
        for locale in ["C.UTF-8", "C"] {
            same_on(&file_systems()[0], &hello, &format!("dd {word} <f; echo $?"), locale);
        }
    }
}

#[test]
fn what_cannot_be_opened_or_reached_is_told_as_gnu_does() {
    each(&[
        "if=nope",
        "if=dir",
        "of=dir",
        "of=nope/x",
        "of=new conv=nocreat",
        "of=f conv=excl",
        "if=f iflag=directory",
        "iflag=directory",
        "if=link iflag=nofollow",
        "of=link oflag=nofollow",
        "if='it'\\''s'",
        "if=$'a\\nb'",
        "if='x y'",
        "of=f oflag=directory",
        "if='a b' skip=9",
        "if=f skip=3",
        "skip=3",
        "if=f skip=12 bs=1",
        "if=f skip=13 bs=1",
        "skip=7E bs=1",
        "if=f skip=7E bs=2",
        "of=new seek=7E bs=2",
        "of=new seek=7E bs=1",
        "seek=1 | cat",
        "conv=fsync | cat",
        "conv=fdatasync | cat",
        "of=/dev/null conv=fsync",
        "seek=1 conv=fsync | cat",
        "of=/dev/full",
        "of=/dev/full bs=5",
        "of=/dev/full obs=5",
        "of=/dev/full oflag=append",
        "if=/dev/null skip=3",
        "if=/dev/zero skip=3 count=2",
        "if=dir conv=notrunc count=1",
        "if=f skip=9 count=0",
        "if=f skip=9 status=none",
        "if=/proc/version bs=1 count=5",
        "if=/proc/version skip=3 bs=1 count=5",
        "iflag=nocache count=0 | cat",
        "oflag=nocache count=0 | cat",
        "if=f iflag=direct",
        "if=f of=g oflag=direct iflag=direct",
        "if=f of=g iflag=noatime,noctty,nonblock,dsync,sync oflag=dsync,noctty",
    ]);
    same(
        &hello,
        "head -c 3 f | dd skip=1; head -c 3 f | dd skip=3 bs=1; head -c 3 f | dd skip=4 bs=1; head \
         -c 3 f | dd skip=1 ibs=2",
    );
    if rustix::process::geteuid().is_root() {
        // dio is copied, because other users may not be able to enter the directory of the program.
        let refused =
            "mkdir bin; cp -L $(command -v dd) bin; chmod 711 .; export PATH=$PWD/bin:$PATH
                       setpriv --reuid=65534 --clear-groups dd if=f of=ro; echo $?
                       setpriv --reuid=65534 --clear-groups dd if=f of=none; echo $?";
        same(&hello, refused);
    } else {
        dio_test::skip!("running without privileges needs root");
    }
}

#[test]
fn code_pages_are_those_of_gnu() {
    each(&[
        "conv=ascii <all",
        "conv=ebcdic <all",
        "conv=ibm <all",
        "conv=ascii,lcase <all",
        "conv=ebcdic,ucase <all",
        "conv=ibm,lcase <all",
        "conv=ascii cbs=7 <all",
        "conv=ebcdic cbs=7 <all",
        "conv=ibm cbs=300 <all",
        "conv=swab,ascii ibs=3 <all",
        "conv=ucase <all",
        "conv=lcase <all",
    ]);
}

#[test]
fn records_of_slow_pipes_are_counted_as_they_come() {
    let operands = [
        "bs=5",
        "ibs=5",
        "ibs=5 obs=5",
        "bs=5 conv=ucase",
        "bs=5 iflag=fullblock",
        "bs=5 conv=sync",
        "bs=5 count=2",
        "bs=5 count=2 conv=swab",
        "bs=5 count=5B",
        "bs=5 count=5B iflag=fullblock",
        "bs=5 count=7B",
        "bs=5 skip=1",
        "bs=5 skip=1 iflag=fullblock",
        "bs=5 skip=4B",
        "bs=5 skip=2",
        "bs=5 skip=1 count=1",
        "bs=5 conv=noerror",
        "bs=5 conv=sparse",
        "ibs=5 obs=3 conv=sync",
        "ibs=2 conv=swab,sync",
        "ibs=3 conv=swab,sync",
        "ibs=5 cbs=2 conv=block",
        "ibs=3 cbs=2 conv=unblock,sync",
        "bs=5 status=none count=2",
        "bs=5 of=out",
        "bs=5 of=out conv=sync,sparse",
        "ibs=5 of=out conv=sync obs=2",
        "bs=3 count=1B",
        "bs=1000 count=1",
        "ibs=100000 obs=4",
        "bs=5 skip=6B",
        "bs=4 skip=5B count=1",
    ];
    let mut script = String::from(
        "slow() { sleep .5; printf abc; sleep .6; printf defg; sleep .6; printf hi; }\n",
    );
    for (at, operands) in operands.iter().enumerate() {
        // All commands run at the same time, each with its own files.
        script += &format!(
            "(slow | dd {} >out.{at} 2>err.{at}; sed -i 's/ copied.*//' err.{at}) &\n",
            operands.replace("of=out", &format!("of=of.{at}"))
        );
    }
    same(&hello, &(script + "wait"));
}

#[test]
fn descriptors_that_are_shared_go_on_where_dd_ended() {
    same(&|dir| std::fs::write(dir.join("s"), "0123456789abcdefghij").unwrap(), "
        (dd bs=2 count=1; dd bs=3 count=1 skip=1; dd ibs=3 count=4B; cat) <s | cat
        (dd bs=3 if=s; dd if=s bs=1 count=2; printf xx) >o; (dd if=s bs=2 skip=1 seek=1 count=1
        printf zz) 1<>o
        (dd if=s bs=7 count=2 conv=ucase; printf -- --) >>o
        dd if=s oflag=append conv=notrunc bs=3 >>o
        (dd bs=5 count=1 conv=noerror; cat) <s; (dd bs=4 if=/dev/zero count=2 conv=sparse; printf end) >p; dd if=s bs=8 count=1 status=none | dd bs=3 skip=1");
}

/// dio reads ahead. Still, the position of the descriptor and the reported records must be as if it
/// did not.
#[test]
fn a_failed_write_leaves_the_input_behind_the_record_that_failed() {
    let setup = |dir: &Path| std::fs::write(dir.join("s"), [b'x'; 50_000]).unwrap();
    for operands in [
        "ibs=512",
        "bs=512 skip=3",
        "bs=7",
        "obs=4096 ibs=1000 skip=1",
        "bs=4096 conv=sync",
        "ibs=1000 conv=sync iflag=fullblock",
        "bs=60000",
        "bs=60000 conv=sync",
        "ibs=300 conv=swab obs=1000",
    ] {
        same(
            &setup,
            &format!(
                "(dd {operands} of=/dev/full; echo $?; cat) <s; cat s | dd {operands} of=/dev/full"
            ),
        );
    }
}

#[test]
fn a_file_may_be_both_ends() {
    let setup = |dir: &Path| std::fs::write(dir.join("s"), "0123456789abcdefghij").unwrap();
    for operands in [
        "skip=1 bs=3 conv=notrunc",
        "seek=1 bs=2 conv=notrunc count=5",
        "skip=2 conv=notrunc,ucase ibs=3 obs=2",
        "conv=swab,notrunc bs=2",
        "skip=1 seek=3 bs=1 conv=notrunc count=4",
        "bs=1",
        "seek=1 bs=2 count=4",
        "oflag=append conv=notrunc bs=3 count=8",
        "seek=1 ibs=3 obs=5 conv=notrunc count=4",
        "conv=notrunc,ucase",
        "cbs=3 conv=notrunc,block ibs=2 obs=4 count=7",
        "conv=noerror",
        "conv=noerror,sync skip=1",
        "count=7B skip=7B ibs=64K obs=1000",
    ] {
        same(&setup, &format!("dd if=s of=s {operands}; echo $?; ln s t; dd if=s of=t {operands}"));
    }
}

#[test]
fn zeros_become_holes_as_with_gnu() {
    let seed = Seed::new();
    for fs in file_systems() {
        let mut rng = seed.rng();
        for _ in 0..12 {
            let pages: Vec<bool> = (0..rng.range_usize(1..60)).map(|_| rng.bool(0.5)).collect();
            let tail = rng.range_usize(0..5000);
            let mut bytes: Vec<u8> = pages
                .iter()
                .flat_map(|full| if *full { rng.bytes(16384) } else { vec![0; 16384] })
                .collect();
            bytes.extend(std::iter::repeat_n(if rng.bool(0.5) { 0 } else { 7 }, tail));
            let setup = |dir: &Path| std::fs::write(dir.join("in"), &bytes).unwrap();
            let size = rng.pick(&[
                "bs=512",
                "bs=4k",
                "bs=64k",
                "obs=16k",
                "obs=4k ibs=1000",
                "bs=1M",
                "obs=48k",
            ]);
            let more = rng.pick(&["", "seek=1", "count=3", "conv=sync", "conv=notrunc", "iseek=2"]);
            let script = format!(
                "{}dd conv=sparse {size} {more} of=out",
                if rng.bool(0.4) { "cat in | " } else { "<in " }
            );
            let pipe = script.starts_with("cat");
            let [theirs, ours] =
                if pipe && !size.starts_with("bs=512") && !size.starts_with("bs=4k") {
                    // The length of the records of a pipe depends on timing.
                    same_on(&fs, &setup, &(script + " iflag=fullblock"), "C.UTF-8")
                } else {
                    same_on(&fs, &setup, &script, "C.UTF-8")
                };
            // File systems may allocate as they like, but not blocks that were never written.
            assert!(ours <= theirs + 256, "{}: {ours} blocks, GNU {theirs}", fs.name);
        }
    }
}

/// Conversions with the probability of each.
const CONVERSIONS: [(&str, f64); 16] = [
    ("notrunc", 0.3),
    ("sync", 0.25),
    ("swab", 0.2),
    ("sparse", 0.25),
    ("noerror", 0.1),
    ("fsync", 0.05),
    ("fdatasync", 0.05),
    ("nocreat", 0.05),
    ("excl", 0.05),
    ("lcase", 0.08),
    ("ucase", 0.08),
    ("block", 0.12),
    ("unblock", 0.12),
    ("ascii", 0.06),
    ("ebcdic", 0.06),
    ("ibm", 0.06),
];

/// Random operands. Operands whose outcome depends on timing (records of long pipes) are left out.
fn operands(rng: &mut Rng, size: usize, pipe: bool) -> Vec<String> {
    let mut all = Vec::new();
    let small: &[&str] =
        &["1", "2", "3", "7", "64", "511", "512", "513", "1000", "1k", "4k", "2x80", "100000"];
    let sizes = if size < 30_000 { small } else { &small[4..] };
    for (name, chance) in [("bs", 0.5), ("ibs", 0.4), ("obs", 0.4)] {
        if rng.bool(chance) {
            all.push(format!("{name}={}", rng.pick(sizes)));
        }
    }
    let amounts = ["0", "1", "2", "10", "100", "5B", "700B", "3c", "1000B"];
    for (name, chance) in
        [("count", 0.4), ("skip", 0.2), ("iseek", 0.1), ("seek", 0.2), ("oseek", 0.1)]
    {
        if rng.bool(chance) {
            all.push(format!("{name}={}", rng.pick(&amounts)));
        }
    }
    let mut some = |name: &str, list: &[(&str, f64)], chance: f64| {
        let chosen: Vec<&str> = list
            .iter()
            .filter(|(_, chance)| rng.bool(*chance))
            .map(|(symbol, _)| *symbol)
            .collect();
        if !chosen.is_empty() && rng.bool(chance) {
            all.push(format!("{name}={}", chosen.join(",")));
        }
    };
    some("conv", &CONVERSIONS, 0.7);
    some(
        "iflag",
        &[
            ("fullblock", if pipe { 0.5 } else { 0.1 }),
            ("count_bytes", 0.1),
            ("skip_bytes", 0.1),
            ("nocache", 0.1),
            ("noatime", 0.1),
            ("noctty", 0.1),
        ],
        0.8,
    );
    some(
        "oflag",
        &[("seek_bytes", 0.1), ("nocache", 0.1), ("nofollow", 0.1), ("append", 0.05)],
        0.8,
    );
    some("status", &[("none", 0.1), ("noxfer", 0.1), ("progress", 0.1)], 1.0);
    if rng.bool(0.3) {
        all.push(format!("cbs={}", rng.pick(&["1", "3", "10", "80"])));
    }
    // With O_APPEND, GNU dd leaves out zeros that are not at the end.
    if all.iter().any(|operand| operand.contains("append")) {
        all.iter_mut().for_each(|operand| *operand = operand.replace("sparse", "notrunc"));
    }
    for at in (1..all.len()).rev() {
        all.swap(at, rng.range_usize(0..at + 1));
    }
    all
}

#[test]
fn operands_in_any_combination_do_what_gnu_does() {
    let seed = Seed::new();
    for (number, fs) in file_systems().into_iter().enumerate() {
        let mut rng = seed.stream(number as u64);
        for _ in 0..if number == 0 { 400 } else { 80 } {
            let size =
                *rng.pick(&[0, 1, 5, 511, 512, 513, 1000, 4096, 5000, 20_000, 60_000, 300_000]);
            let mut bytes = match rng.range(0..4) {
                0 => rng.bytes(size),
                1 => (0..size).map(|_| *rng.pick(b"abcXYZ  \n")).collect(),
                2 => vec![0; size],
                _ => (0..size / 512 + 1)
                    .flat_map(|_| if rng.bool(0.5) { vec![0; 512] } else { rng.bytes(300) })
                    .collect(),
            };
            bytes.truncate(size);
            let before = *rng.pick(&[None, Some(0), Some(1), Some(600), Some(9000)]);
            let setup = |dir: &Path| {
                std::fs::write(dir.join("in"), &bytes).unwrap();
                if let Some(before) = before {
                    std::fs::write(dir.join("out"), vec![b'x'; before]).unwrap();
                }
            };
            // Data that fits into a pipe arrives as a whole.
            let pipe = size <= 20_000 && rng.bool(0.4);
            let mut words = operands(&mut rng, size, pipe);
            if rng.bool(0.7) {
                words.push("of=out".to_owned());
            }
            let line = words.join(" ");
            let script = match (pipe, rng.bool(0.5)) {
                (true, _) => format!("cat in | (sleep .01; dd {line})"),
                (_, true) => format!("dd {line} <in"),
                (_, false) => format!("dd if=in {line}"),
            };
            same_on(&fs, &setup, &script, "C.UTF-8");
        }
    }
}
