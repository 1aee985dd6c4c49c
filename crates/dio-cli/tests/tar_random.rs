//! Random command lines of tar beside GNU tar must lead to the same archives, trees, lists,
//! messages and statuses. Randomly damaged archives must lead to an error message without a crash,
//! and nothing outside of the directory may change.

use std::fs;
use std::path::Path;
use std::process::Output;

use crate::support::{is_root, snapshot};
use crate::tar_random_lines::{Tree, create, lists, positional, read, set_up, shell, tree, word};
use dio_test::{Rng, Soak, file_systems};

/// The outcome of a run: status, output, and sorted messages, because threads print them in any
/// order.
type Seen = (Option<i32>, String, Vec<String>);

fn seen(output: &Output) -> Seen {
    let told = String::from_utf8_lossy(&output.stderr).replace(" or 'tar --usage'", "");
    let told = told.replace("gnu.tar", "archive").replace("dio.tar", "archive");
    // GNU tar prints an error for the member, and for some directories on its path that cannot be
    // made.
    let on_the_way = |line: &&str| !line.ends_with("Cannot mkdir: No such file or directory");
    let mut told: Vec<String> = told.lines().filter(on_the_way).map(str::to_owned).collect();
    told.sort();
    // How often GNU tar prints the same message depends on how often it tries.
    told.dedup();
    (output.status.code(), output.stdout.escape_ascii().to_string().replace("\\n", "\n"), told)
}

/// Makes an archive of the same tree with both programs, and compares the outcomes. Returns GNU's
/// archive.
fn archives(dir: &Path, command: &str) -> Option<Vec<u8>> {
    let [gnu, dio] = [false, true].map(|ours| {
        let name = if ours { "dio.tar" } else { "gnu.tar" };
        let _ = fs::remove_file(dir.join(name));
        let seen = seen(&shell(dir, &format!("A={name}; {command}"), ours));
        (seen, fs::read(dir.join(name)).ok())
    });
    assert_eq!(dio.0, gnu.0, "{command}");
    if command.contains("pax") {
        // GNU tar puts its process ID into the names of extended headers, so the lists of the
        // archives are compared.
        let [own, theirs] = ["dio.tar", "gnu.tar"]
            .map(|name| seen(&shell(dir, &format!("tar -tvvf {name} --full-time"), false)));
        assert_eq!(own, theirs, "{command}");
    } else {
        let differs = dio
            .1
            .iter()
            .flatten()
            .zip(gnu.1.iter().flatten())
            .position(|(one, other)| one != other);
        let lists = "diff <(tar -tvRf gnu.tar) <(tar -tvRf dio.tar); cmp -l gnu.tar dio.tar | head";
        assert!(
            dio.1 == gnu.1,
            "{command}: the archives differ at {differs:?}: {:?}",
            shell(dir, lists, false)
        );
    }
    gnu.1
}

#[test]
fn soak_archives_are_those_of_gnu() {
    for seed in Soak::of(12) {
        let rng = &mut seed.rng();
        let dir = file_systems()[0].dir();
        let tree = tree(rng, dir.path());
        for _ in 0..3 {
            lists(rng, dir.path(), &tree.names);
            let command = create(rng, &tree);
            archives(dir.path(), &command);
            // Each program reads the other's archive.
            let read =
                "tar -tvvf $A --full-time; mkdir o; tar -C o -xf $A; tar -C o -df $A; rm -rf o";
            if command.contains("t/") || command.contains("-P") || rng.bool(0.5) {
                continue;
            }
            let [gnu, dio] = [("dio.tar", false), ("gnu.tar", true)]
                .map(|(name, ours)| seen(&shell(dir.path(), &format!("A={name}; {read}"), ours)));
            assert_eq!(dio, gnu, "{command}; {read}");
        }
    }
}

/// A tree, without the times of directories, which GNU tar sets too early.
fn without_times(dir: &Path) -> Vec<(String, String)> {
    let plain = |what: String| {
        if what.starts_with("dir") { what.split(" mtime").next().unwrap().to_owned() } else { what }
    };
    snapshot(dir).into_iter().map(|(name, what)| (name, plain(what))).collect()
}

/// Makes files, directories and links in the places of members. None of them leads outside.
fn obstacles(rng: &mut Rng, names: &[String]) -> String {
    let mut script = String::new();
    for _ in 0..rng.range(0..5) {
        let name = word(rng.pick(names));
        let what = rng.pick(&[
            "mkdir -p",
            "echo old >",
            "ln -s a",
            "ln -s nowhere",
            "ln -s .",
            "ln -s other",
        ]);
        script += &format!(
            "mkdir -p \"$(dirname -- {name})\"; [ -e {name} -o -L {name} ] || {what} {name};"
        );
    }
    format!(
        "{{ set +e; {script} mkdir -p other; find . -exec touch -h -d @1400000000 {{}} +; }} \
         2>/dev/null; true;"
    )
}

#[test]
fn soak_archives_are_read_as_by_gnu() {
    if !is_root() {
        dio_test::skip!("owners are set by root");
        return;
    }
    for seed in Soak::of(12) {
        let rng = &mut seed.rng();
        let scratch = file_systems()[0].dir();
        let dir = scratch.path();
        let Tree { names, hard_links, .. } = tree(rng, dir);
        lists(rng, dir, &names);
        fs::write(dir.join("list3"), format!("{}\n{}\n", rng.pick(&names), rng.pick(&names)))
            .unwrap();
        let twice = rng.bool(0.3).then(|| word(rng.pick(&names)));
        let first = twice.clone().unwrap_or_default();
        let make = format!("tar -cf a.tar --format={} {first} t", rng.pick(&["gnu", "pax", "v7"]));
        let _ = shell(dir, &make, false);
        for _ in 0..4 {
            let obstacles = obstacles(rng, &names);
            let mut command = read(rng, &names, hard_links || twice.is_some());
            // If GNU tar reaches a directory a second time by a link, the directory ends with the
            // mode that GNU tar remembers.
            let obstacles = if command.contains(" -h") {
                obstacles.replace("ln -s . ", "ln -s other ")
            } else {
                obstacles
            };
            if twice.is_some() {
                // A member that is a link to itself stays; GNU tar removes it first and then has
                // none. When GNU tar reaches a directory for the second time, it forgets
                // --no-overwrite-dir.
                for flag in
                    [" -U", " --recursive-unlink", " --keep-newer-files", " --no-overwrite-dir"]
                {
                    command = command.replace(flag, "");
                }
            }
            let [gnu, dio] = [false, true].map(|ours| {
                let own = dir.join(if ours { "dio" } else { "gnu" });
                fs::create_dir(&own).unwrap();
                set_up(&own, &obstacles);
                let seen = seen(&shell(&own, &command, ours));
                let tree = without_times(&own);
                fs::remove_dir_all(&own).unwrap();
                (seen, tree)
            });
            assert_eq!(dio.0, gnu.0, "{make}; {obstacles} {command}");
            let differs = dio.1.iter().zip(&gnu.1).find(|(one, other)| one != other);
            assert!(dio.1 == gnu.1, "{make}; {obstacles} {command}: {differs:?}");
        }
    }
}

#[test]
fn soak_additions_are_those_of_gnu() {
    for seed in Soak::of(6) {
        let rng = &mut seed.rng();
        let dir = file_systems()[0].dir();
        let Tree { names, loops, .. } = tree(rng, dir.path());
        lists(rng, dir.path(), &names);
        set_up(dir.path(), "tar -cf other.tar t");
        let mut command = format!(
            "tar -cf $A --format={} -b {} --no-recursion t",
            rng.pick(&["gnu", "ustar", "v7"]),
            rng.pick(&[1, 3, 20])
        );
        // GNU tar skips a directory, with everything new in it, when the archive has entries below
        // it but not the directory itself.
        let tops: Vec<String> =
            names.iter().filter(|name| name.matches('/').count() <= 1).cloned().collect();
        let steps: Vec<u64> = (0..rng.range(1..4)).map(|_| rng.range(0..3)).collect();
        let appended = if steps.contains(&1) { &tops } else { &names };
        // The order determines which name of a file comes first, and no old format can hold a link
        // to a long name.
        let links =
            if names.iter().any(|name| name.len() > 90) { "--hard-dereference" } else { "" };
        for step in steps {
            let flags = rng.pick(&["", "-v", "-S", "--hard-dereference", "--no-recursion", "-h"]);
            let flags =
                if command.contains("gnu") && !(loops && *flags == "-h") { flags } else { "" };
            command += &match step {
                0 => format!(
                    "; tar -rf $A {flags} {} {}",
                    word(rng.pick(&appended[..])),
                    positional(rng, &names)
                ),
                // GNU tar adds the entries of the named directories even without recursion, in an
                // order of its own.
                1 => format!(
                    "; touch -hcd @1700000000 -- {}; tar -uf $A {links} t",
                    word(rng.pick(&names))
                ),
                _ => "; tar -Af $A other.tar".to_owned(),
            };
        }
        // The times of the tree must be the same for both programs.
        let command = format!(
            "find t -exec touch -h -d @1600000000 {{}} +; {{ {command}; }} >/dev/null 2>&1; tar \
             -tf $A | sort"
        );
        let [gnu, dio] = [("gnu.tar", false), ("dio.tar", true)].map(|(name, ours)| {
            let output = shell(dir.path(), &format!("A={name}; {command}"), ours);
            (seen(&output), seen(&shell(dir.path(), &format!("tar -tf {name} | sort"), false)))
        });
        assert_eq!(dio, gnu, "{command}");
    }
}

#[test]
fn soak_damage_is_told_and_nothing_else_touched() {
    for seed in Soak::of(10) {
        let rng = &mut seed.rng();
        let scratch = file_systems()[0].dir();
        let dir = scratch.path();
        let Tree { names, .. } = tree(rng, dir);
        let format = rng.pick(&["gnu", "pax", "ustar", "v7"]);
        let sparse = if matches!(*format, "gnu" | "pax") { "-S" } else { "" };
        let _ = shell(dir, &format!("tar -cf a.tar --format={format} {sparse} t"), false);
        let whole = fs::read(dir.join("a.tar")).unwrap();
        fs::create_dir(dir.join("outside")).unwrap();
        fs::write(dir.join("outside/file"), "kept").unwrap();
        for _ in 0..6 {
            let mut bytes = whole.clone();
            damage(rng, &mut bytes);
            fs::write(dir.join("b.tar"), &bytes).unwrap();
            let before = crate::archive::strict(&dir.join("outside"));
            fs::create_dir(dir.join("in")).unwrap();
            let flags = rng.pick(&[
                "",
                "--overwrite",
                "-i",
                "-h",
                "-k",
                "--recursive-unlink",
                "-p",
                "--xattrs --acls",
            ]);
            for command in [
                format!("tar -xf ../b.tar {flags}"),
                "tar -tvvf ../b.tar".into(),
                "tar -df ../b.tar".into(),
            ] {
                let command = format!("ulimit -v 4000000 -f 200000; timeout 60 {command}");
                let (status, _, told) = seen(&shell(&dir.join("in"), &command, true));
                assert!(
                    matches!(status, Some(0..=2)),
                    "{command}: {status:?} {told:?} {format} {names:?}"
                );
                assert!(
                    status != Some(2) || !told.is_empty(),
                    "{command}: nothing is told, {format}"
                );
                assert!(!told.iter().any(|line| line.contains("panicked")), "{command}: {told:?}");
            }
            assert_eq!(crate::archive::strict(&dir.join("outside")), before, "{flags} {format}");
            set_up(dir, "chmod -R u+rwx in; rm -rf in");
        }
    }
}

/// Damages an archive at a few offsets. Damaged headers get correct checksums again, because
/// otherwise only the checksum would be tested.
fn damage(rng: &mut Rng, bytes: &mut Vec<u8>) {
    for _ in 0..rng.range(1..6) {
        let blocks = bytes.len() / 512;
        let block = rng.range_usize(0..blocks.max(1)) * 512;
        let headers: Vec<usize> =
            (0..blocks).map(|at| at * 512).filter(|at| is_header(&bytes[*at..*at + 512])).collect();
        match rng.range(0..8) {
            0 => bytes.truncate(rng.range_usize(0..bytes.len()) + 1),
            1 => bytes[block..].iter_mut().take(512).for_each(|byte| *byte = 0),
            2 => {
                let at = rng.range_usize(0..bytes.len());
                bytes[at] ^= 1 << rng.range(0..8);
            }
            3 if !headers.is_empty() => {
                let (from, to) = (*rng.pick(&headers), *rng.pick(&headers));
                bytes.copy_within(from..from + 512, to);
            }
            _ if !headers.is_empty() => {
                let at = *rng.pick(&headers);
                let header = &mut bytes[at..at + 512];
                match rng.range(0..6) {
                    0 => header[156] = *rng.pick(b"0123456LKxgSVMD7\0Z"),
                    1 => header[..12].copy_from_slice(b"../outside/f"),
                    2 => header[157..167].copy_from_slice(b"../outside"),
                    3 => header[124..136].copy_from_slice(
                        rng.pick(&[
                            b"77777777777\0",
                            b"00000000001\0",
                            b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff",
                            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
                        ])
                        .as_slice(),
                    ),
                    4 => header[345] = b'/',
                    _ => {
                        let at = rng.range_usize(0..512);
                        header[at] = rng.range(0..256) as u8;
                    }
                }
                crate::archive::sign(header);
            }
            _ => {}
        }
        if bytes.len() < 512 {
            return;
        }
    }
}

fn is_header(block: &[u8]) -> bool {
    let text = std::str::from_utf8(&block[148..154]).unwrap_or_default();
    let sum: u32 = block
        .iter()
        .enumerate()
        .map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u32::from(*byte) })
        .sum();
    u32::from_str_radix(text.trim_matches(['\0', ' ']), 8) == Ok(sum) && block[0] != 0
}
