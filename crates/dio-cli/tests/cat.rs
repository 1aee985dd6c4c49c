//! `cat` against the system's: every byte of output and message, the status, and every file that is
//! left behind must be the same.

use std::fmt::Write as _;
use std::path::Path;

use crate::pass::{MIB, Seed, file_systems, same, same_on, text};

/// All sets of the ten option letters, each in a random order, on files whose last line continues
/// in the next file.
#[test]
fn every_set_of_flags_does_what_gnu_does() {
    let seed = Seed::new();
    let mut rng = seed.rng();
    let files: Vec<Vec<u8>> = (0..4).map(|_| text(&mut rng, 600)).collect();
    let setup = |dir: &Path| {
        for (number, bytes) in files.iter().enumerate() {
            std::fs::write(dir.join(format!("f{number}")), bytes).unwrap();
        }
    };
    let mut script = String::new();
    for set in 0..1 << 10 {
        let mut letters: Vec<char> = "AbeEnstTuv"
            .chars()
            .enumerate()
            .filter(|(at, _)| set & (1 << at) != 0)
            .map(|(_, letter)| letter)
            .collect();
        for at in (1..letters.len()).rev() {
            letters.swap(at, rng.range_usize(0..at + 1));
        }
        let flags: String = letters.iter().collect();
        let flags = if flags.is_empty() { flags } else { format!("-{flags}") };
        writeln!(script, "cat {flags} f0 - f1 f2 <f3 || echo failed {flags}").unwrap();
    }
    same(&setup, &script);
}

#[test]
fn long_names_may_be_shortened_and_stand_anywhere() {
    let setup = |dir: &Path| std::fs::write(dir.join("f"), "a\t\r\n\n\n\u{1}ä\nb").unwrap();
    for options in [
        "f --number",
        "--number f --show-ends",
        "f --number-nonblank --number -n",
        "--squeeze-blank f --show-tabs",
        "--show-nonprinting f",
        "--show-all f -s",
        "--show-a f",
        "--sq --number-n f",
        "-n -n -b -b -s -s f f",
        "-n -- f",
        "-- -n f",
        "-nx f",
        "--nonsense f",
        "--number=3 f",
        "-h",
        "-V",
        "-",
        "- -",
        "f - nope f",
    ] {
        same(&setup, &format!("cat {options} <f"));
    }
}

/// Contents that end at all positions around the size of a block, through files, pipes and
/// redirections.
#[test]
fn contents_of_every_kind_arrive_on_every_file_system() {
    let seed = Seed::new();
    for fs in file_systems() {
        let mut rng = seed.rng();
        let sizes: &[usize] = match fs.name.as_str() {
            "host" => &[
                0,
                1,
                2,
                511,
                512,
                4095,
                4096,
                4097,
                65_536,
                65_537,
                MIB - 1,
                MIB,
                MIB + 1,
                3 * MIB + 77,
            ],
            _ => &[4097, MIB - 1, MIB + 1, 3 * MIB + 77],
        };
        for &size in sizes {
            let (mut bytes, other) = (text(&mut rng, size), text(&mut rng, 1000));
            if rng.bool(0.5) {
                bytes = rng.bytes(size);
            }
            let setup = |dir: &Path| {
                std::fs::write(dir.join("a"), &bytes).unwrap();
                std::fs::write(dir.join("b"), &other).unwrap();
            };
            let script =
                "cat a >o1; cat b a b a >o2; cat a | cat >o3; cat <a | cat - b >o4; cat -n a >o5; cat -A <a >o6
                          cat b - b <a >>o7; cat a >>o7; cat a - <b | cat -bs | cat >o8; cat o1 o2 | cat | cat | cksum";
            same_on(&fs, &setup, script);
        }
    }
}

#[test]
fn each_mode_gives_the_same_bytes() {
    let seed = Seed::new();
    let bytes = seed.rng().bytes(2 * MIB + 999);
    for fs in file_systems() {
        let dir = fs.dir();
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("a"), &bytes).unwrap();
        for flags in [
            "--mode auto",
            "--mode direct",
            "--mode uncached",
            "--mode cached",
            "--block 64K --depth 2",
        ] {
            let out = std::fs::File::create(path("out")).unwrap();
            let mut cat = crate::pass::tool("cat");
            cat.args(flags.split(' ')).args([path("a"), path("a")]).stdout(out);
            assert!(cat.status().unwrap().success(), "{} {flags}", fs.name);
            let out = std::fs::read(path("out")).unwrap();
            assert!(
                out == [&bytes[..], &bytes[..]].concat(),
                "{} {flags}: {} bytes",
                fs.name,
                out.len()
            );
        }
    }
}

#[test]
fn descriptors_are_used_where_they_stand_and_left_behind_what_was_used() {
    let seed = Seed::new();
    for fs in file_systems() {
        let mut rng = seed.rng();
        for size in [10, 5000, MIB + 5, 2 * MIB] {
            let bytes = text(&mut rng, size);
            let setup = |dir: &Path| std::fs::write(dir.join("a"), &bytes).unwrap();
            let skip = "dd bs=3 count=1 of=/dev/null status=none";
            let script = format!(
                "({skip}; cat; cat; echo end) <a >o1
                 ({skip}; cat -n - a -; echo end) <a >o2
                 (echo 1234567; cat a; echo 89; cat a) >o3
                 (echo 1234567; cat a; echo 89) >>o3
                 (cat a; cat a) 1<>o4; (printf xyz; cat) <o3 1<>o4
                 (cat | cat; cat a) <a >o5
                 cat a >/dev/null; cat </dev/null >o6; cat /dev/null - /dev/null <a | tail -c 100"
            );
            same_on(&fs, &setup, &script);
        }
    }
}

#[test]
fn holes_are_zeros() {
    for fs in file_systems() {
        let setup = |dir: &Path| {
            let file = std::fs::File::create(dir.join("holes")).unwrap();
            file.set_len(5 * MIB as u64 + 13).unwrap();
            std::os::unix::fs::FileExt::write_all_at(&file, b"middle\n", 2 * MIB as u64 - 3)
                .unwrap();
        };
        same_on(
            &fs,
            &setup,
            "cat holes >o1; cat -A holes | cksum; cat <holes | cat >o2; cat -sb holes >o3",
        );
    }
}

#[test]
fn files_of_the_kernel_have_no_size() {
    let script =
        "cat /proc/version /proc/filesystems; cat -n /proc/version; cat /proc/cpuinfo | wc -l
                  cat </proc/version; cat /sys/kernel/mm/transparent_hugepage/hpage_pmd_size >o1";
    same(&|_| {}, script);
}

#[test]
fn what_cannot_be_read_is_told_and_the_rest_follows() {
    let setup = |dir: &Path| {
        std::fs::write(dir.join("f"), "one\ntwo").unwrap();
        std::fs::write(dir.join("a b"), "three").unwrap();
        std::fs::create_dir(dir.join("dir")).unwrap();
        std::os::unix::fs::symlink("loop", dir.join("loop")).unwrap();
    };
    for script in [
        "cat f nope f",
        "cat dir f 'no such' 'a:b' $'x\\ny' f",
        "cat f dir/x f/x loop f",
        "cat . <f",
        "cat - <dir",
        "cat -n f dir 'a b' - nope <dir",
        "cat -- -n",
        "cat ''",
        "cat nope; echo $?",
        "cat -E dir nope >/dev/full; echo $?",
    ] {
        same(&setup, script);
    }
}

#[test]
fn a_file_is_not_copied_into_itself() {
    let setup = |dir: &Path| {
        std::fs::write(dir.join("f"), "hi\n").unwrap();
        std::fs::write(dir.join("g"), "ho\n").unwrap();
        std::fs::write(dir.join("empty"), "").unwrap();
        std::fs::hard_link(dir.join("f"), dir.join("link")).unwrap();
        std::os::unix::fs::symlink("f", dir.join("symlink")).unwrap();
    };
    for script in [
        "cat f >>f",
        "cat g f g >>f",
        "cat link >>f; cat symlink >>f; cat -n f >>f",
        "cat - <f >>f",
        "cat <f 1<>f",
        "(dd bs=3 count=1 of=/dev/null status=none; cat g - g) <f 1<>f",
        "(dd bs=2 count=1 of=/dev/null status=none; cat) <f 1<>f",
        "cat empty >>empty; cat empty f empty >>empty",
        "cat f >f",
        "printf ho | cat - f >>f",
        "cat f g > g",
    ] {
        same(&setup, script);
    }
}

#[test]
fn an_output_that_fails_ends_it() {
    let setup = |dir: &Path| {
        std::fs::write(dir.join("f"), "one\ntwo").unwrap();
        std::fs::write(dir.join("big"), vec![b'x'; 3 * MIB]).unwrap();
        std::fs::write(dir.join("empty"), "").unwrap();
    };
    for script in [
        "cat f nope >/dev/full; echo $?",
        "cat big big >/dev/full; echo $?",
        "cat -n big >/dev/full; echo $?",
        "cat big | cat >/dev/full; echo ${PIPESTATUS[@]}",
        "cat f 1<f; echo $?",
        "cat big 1<f; echo $?",
        "cat big | cat 1<big; echo $?",
        "cat empty 1<f; echo $?",
        "cat empty nope >/dev/full; echo $?",
        // When the reader of a pipe goes away, SIGPIPE ends the writer, which prints nothing.
        "cat big | head -c 10; echo ${PIPESTATUS[@]}",
        "cat -A big | head -c 10; echo ${PIPESTATUS[@]}",
        "cat /dev/zero | cat | head -c 10 | od -c; echo ${PIPESTATUS[@]}",
        "cat /dev/zero | cat -v | head -c 10; echo ${PIPESTATUS[@]}",
        "cat /dev/zero | head -c 5000000 | cksum",
        "ulimit -f 1000; trap '' XFSZ; cat -v big big >limited; echo $?",
    ] {
        same(&setup, script);
    }
}
