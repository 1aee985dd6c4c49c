//! How the commands treat damaged striped files: they name the wrong object, end with status 1, and
//! return no bytes of anything but the file; and no command makes the damage worse.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::mount_support::Scene;
use crate::striped_support::{Pair, dio, good, lines};
use dio_test::{DAMAGES, Mounted, Rng, Soak, file_systems, run};

const FILE: &str = "striped/file";

fn objects(dir: &Path, file: &str) -> Vec<PathBuf> {
    dio::stripe::inspect(dir.join(file))
        .unwrap()
        .unwrap()
        .objects
        .into_iter()
        .map(|object| object.path)
        .collect()
}

/// The contents of each object and of the descriptor.
fn all_bytes(dir: &Path, objects: &[PathBuf]) -> Vec<Vec<u8>> {
    let all = objects.iter().cloned().chain([dir.join(FILE)]);
    all.map(|path| fs::read(path).unwrap_or_default()).collect()
}

/// Command lines of every tool that reads or writes files, each with the striped file as `F`.
fn command_lines() -> Vec<Vec<String>> {
    let lines = [
        "cat F",
        "cp F out",
        "cp contents F",
        "dd if=F of=out status=none",
        "dd if=F of=out bs=1000 skip=3 status=none",
        "dd if=contents of=F conv=notrunc status=none",
        "dd if=contents of=F bs=512 seek=7 status=none",
        "dd if=/dev/null of=F status=none",
        "tee F",
        "tee -a F",
        "sort F",
        "sort -m contents F",
        "sort -o F F",
        "uniq F",
        "sum F",
        "cksum F",
        "md5sum F",
        "sha256sum F",
        "b2sum F",
        "b3sum F",
        "tar -cf out F",
        "tar -cf out --sparse F",
        "tar -czf out contents F",
        "tar -tf F",
        "tar -xf F",
        "tar -rf F contents",
        "gzip F",
        "gzip -k F",
        "gzip -c F",
        "gunzip -c F",
        "gzip -t F",
        "gzip -l F",
        "zcat F",
        "zstd -q F",
        "zstd -c F",
        "zstd -d -c F",
        "zstd -t F",
        "zstd --list F",
        "split F out.",
        "split -n 3 F out.",
        "split -n r/3 F out.",
        "cache F",
        "stripe check F",
        "stripe check --repair F",
        "stripe migrate -t a F",
    ];
    let word = |word: &str| word.replace('F', FILE);
    lines.iter().map(|line| line.split(' ').map(word).collect()).collect()
}

/// Checks that every command ends with a status other than 0, with a message that starts with its
/// own name and names the object, and that nothing is changed or copied.
#[track_caller]
fn all_refuse(dir: &Path, named: &str) {
    let objects = objects(dir, FILE);
    let before = all_bytes(dir, &objects);
    let wrong: Vec<String> = command_lines()
        .iter()
        .filter_map(|args| {
            fs::read_dir(dir).unwrap().map(|entry| entry.unwrap()).for_each(|entry| {
                if entry.file_name().as_encoded_bytes().starts_with(b"out") {
                    fs::remove_file(entry.path()).unwrap();
                }
            });
            let output = dio(dir, &args.iter().map(String::as_str).collect::<Vec<_>>());
            let told = output.stderr.contains(named)
                || args[0] == "stripe" && output.stdout.contains(named);
            // As with GNU tar, an archive has the header of the file, and zeros in place of its
            // bytes.
            let copied = fs::read(dir.join("out")).unwrap_or_default();
            let copied = copied.windows(64).any(|some| some == &lines(1000)[..64])
                && !args.contains(&"-czf".to_owned());
            let changed = before != all_bytes(dir, &objects);
            let twice = output.stderr.matches(named).count() > 1 && args[0] != "stripe";
            let ours = output
                .stderr
                .lines()
                .filter(|line| line.contains(named))
                .all(|line| line.starts_with("dio"));
            if changed {
                fs::write(dir.join(FILE), before.last().unwrap()).unwrap();
            }
            let good = !output.status.success() && told && !copied && !changed && !twice && ours;
            (!good).then(|| format!("{args:?}: copied {copied}, changed {changed}: {output:?}"))
        })
        .collect();
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        command_lines().len(),
        wrong.join("\n")
    );
    assert_eq!(dio(dir, &["cat", FILE]).stdout, "");
}

#[test]
fn every_command_names_an_object_that_is_cut_off_old_swapped_or_missing() {
    let pair = Pair::on(&file_systems()[0], &lines(900_000));
    let dir = &pair.dir;
    let object = objects(dir, FILE)[1].clone();
    let (name, whole) = (object.to_str().unwrap(), fs::read(&object).unwrap());
    fs::OpenOptions::new().write(true).open(&object).unwrap().set_len(100_000).unwrap();
    all_refuse(dir, name);
    // The recorded size is the size that the file had.
    let shown = dio(dir, &["stripe", "show", "--json", FILE]).stdout;
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown[0]["bytes"].as_u64(), Some(lines(900_000).len() as u64), "{shown}");
    let told = dio(dir, &["stripe", "check", FILE]);
    assert!(
        told.stderr.contains("was cut off: it is 100000 bytes long") && !told.stdout.contains("OK"),
        "{told:?}"
    );
    fs::write(&object, &whole).unwrap();
    assert_eq!(good(dir, &["stripe", "check", FILE]).stdout, format!("{FILE}: OK\n"));
    // An older object of the same length.
    good(
        dir,
        &[
            "dd",
            "if=/dev/zero",
            &format!("of={FILE}"),
            "bs=4096",
            "count=1",
            "conv=notrunc",
            "status=none",
        ],
    );
    let today = fs::read(&object).unwrap();
    fs::write(&object, &whole).unwrap();
    all_refuse(dir, name);
    // Another object of the same file.
    fs::write(&object, fs::read(&objects(dir, FILE)[0]).unwrap()).unwrap();
    all_refuse(dir, name);
    fs::remove_file(&object).unwrap();
    all_refuse(dir, name);
    fs::write(&object, &today).unwrap();
    good(dir, &["stripe", "check", FILE]);
    // A forced repair keeps what is left.
    fs::write(&object, &whole[..100_000]).unwrap();
    let forced = good(dir, &["stripe", "check", "--repair", "--force", FILE]);
    assert!(forced.stdout.contains("what was left of it is the file"), "{forced:?}");
    good(dir, &["cat", FILE]);
}

/// A command that replaces the whole file does not need the old contents: it makes new objects, and
/// the old ones are removed with the file, unless one of them belongs to another file.
#[test]
fn a_damaged_file_can_be_replaced_as_a_whole() {
    let pair = Pair::on(&file_systems()[0], &lines(300_000));
    let dir = &pair.dir;
    for args in [
        &["cp", "--atomic", "contents", FILE][..],
        &["sort", "-o", FILE, "contents"],
        &["uniq", "contents", FILE],
        &["tar", "-cf", FILE, "contents"],
    ] {
        let all = objects(dir, FILE);
        let whole = fs::read(&all[1]).unwrap();
        fs::write(&all[1], fs::read(&all[0]).unwrap()).unwrap();
        let told = dio(dir, args);
        assert!(
            !told.status.success() && told.stderr.contains(all[1].to_str().unwrap()),
            "{args:?}: {told:?}"
        );
        assert!(all == objects(dir, FILE), "{args:?}");
        fs::write(&all[1], &whole[..100_000]).unwrap();
        good(dir, args);
        assert!(all.iter().all(|object| !object.exists()), "{args:?}");
        good(dir, &["stripe", "check", FILE]);
        assert_eq!(good(dir, &["stripe", "orphans", "a", "b", "c"]).stdout, "");
    }
}

#[test]
fn a_bad_byte_in_a_descriptor_does_not_make_it_an_ordinary_file() {
    let pair = Pair::on(&file_systems()[0], &lines(100_000));
    let dir = &pair.dir;
    let sound = fs::read(dir.join(FILE)).unwrap();
    for at in [0, 3, 9, 15, 17, 18] {
        let mut damaged = sound.clone();
        damaged[at] ^= 1;
        fs::write(dir.join(FILE), &damaged).unwrap();
        for args in
            [&["cat", FILE][..], &["cp", FILE, "out"], &["sum", FILE], &["stripe", "show", FILE]]
        {
            let told = dio(dir, args);
            assert!(
                told.status.code() == Some(1) && told.stdout.is_empty(),
                "byte {at}, {args:?}: {told:?}"
            );
            assert!(told.stderr.contains(FILE), "{told:?}");
        }
        assert!(fs::read(dir.join("out")).unwrap_or_default().is_empty());
    }
    // If another program appends to the descriptor, an error says so, and the appended text can be
    // removed.
    for more in
        ["x\n", "a longer line, as a log has them, of a program that knows nothing of stripes\n"]
    {
        fs::write(dir.join(FILE), [&sound[..], more.as_bytes()].concat()).unwrap();
        for args in command_lines() {
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let told = dio(dir, &args);
            assert!(
                !told.status.success() && !told.stdout.contains("dio striped"),
                "{args:?}: {told:?}"
            );
            assert!(told.stderr.contains("something was written behind it"), "{args:?}: {told:?}");
        }
        let now = fs::read(dir.join(FILE)).unwrap();
        assert!(now.len() == sound.len() + more.len() && now.starts_with(&sound));
    }
    fs::OpenOptions::new().write(true).open(dir.join(FILE)).unwrap().set_len(8171).unwrap();
    good(dir, &["stripe", "check", FILE]);
}

#[test]
fn a_file_with_a_target_away_is_removed_only_by_force() {
    let pair = Pair::on(&file_systems()[0], &lines(100_000));
    let dir = &pair.dir;
    fs::rename(dir.join("b"), dir.join("away")).unwrap();
    let told = dio(dir, &["stripe", "rm", FILE]);
    assert!(told.status.code() == Some(1) && told.stderr.contains("/b' is away"), "{told:?}");
    assert!(told.stderr.contains("--force") && dir.join(FILE).exists(), "{told:?}");
    fs::rename(dir.join("away"), dir.join("b")).unwrap();
    good(dir, &["stripe", "check", FILE]);
    fs::rename(dir.join("b"), dir.join("away")).unwrap();
    let told = dio(dir, &["stripe", "rm", "--force", FILE]);
    assert!(
        told.status.code() == Some(1)
            && told.stderr.contains("is missing")
            && !dir.join(FILE).exists(),
        "{told:?}"
    );
    fs::rename(dir.join("away"), dir.join("b")).unwrap();
    good(dir, &["stripe", "orphans", "--rm", "--yes", "a", "b", "c"]);
    assert_eq!(
        ["a", "b", "c"].map(|name| fs::read_dir(dir.join(name)).unwrap().count()),
        [0, 0, 0]
    );
}

/// A file whose objects would be lost is not replaced, just as it is not removed.
#[test]
fn a_file_with_a_target_away_is_not_replaced() {
    let pair = Pair::on(&file_systems()[0], &lines(100_000));
    let dir = &pair.dir;
    good(dir, &["tar", "-cf", "archive", "--transform", "s,contents,striped/file,", "contents"]);
    let descriptor = fs::read(dir.join(FILE)).unwrap();
    for mounted in [false, true] {
        fs::rename(dir.join("b"), dir.join("away")).unwrap();
        if mounted {
            // An empty directory, as there is at a mount point when nothing is mounted.
            fs::create_dir(dir.join("b")).unwrap();
        }
        for args in [
            &["cp", "--atomic", "contents", FILE][..],
            &["cp", "--remove-destination", "contents", FILE],
            &["cp", "contents", FILE],
            &["tar", "-xf", "archive"],
            &["sort", "-o", FILE, "contents"],
            &["tar", "-cf", FILE, "contents"],
            &["zstd", "-qf", "contents", "-o", FILE],
        ] {
            let told = dio(dir, args);
            let now = fs::read(dir.join(FILE)).unwrap();
            assert!(!told.status.success() && now == descriptor, "{args:?}: {told:?}");
            let away = dir.join("b");
            assert!(told.stderr.contains(away.to_str().unwrap()), "{args:?}: {told:?}");
        }
        if mounted {
            assert_eq!(fs::read_dir(dir.join("b")).unwrap().count(), 0);
            fs::remove_dir(dir.join("b")).unwrap();
        }
        fs::rename(dir.join("away"), dir.join("b")).unwrap();
        good(dir, &["stripe", "check", FILE]);
    }
    good(dir, &["cp", FILE, "back"]);
    assert!(fs::read(dir.join("back")).unwrap() == lines(100_000));
    assert_eq!(good(dir, &["stripe", "orphans", "a", "b", "c"]).stdout, "");
}

#[test]
fn targets_that_are_one_are_refused_and_those_on_one_disk_are_told() {
    let pair = Pair::on(&file_systems()[0], b"");
    let dir = &pair.dir;
    std::os::unix::fs::symlink("a", dir.join("link")).unwrap();
    for twice in ["a,a", "a,link", "a,b,./a"] {
        let told = dio(dir, &["stripe", "set", "-t", twice, "new"]);
        assert!(
            told.status.code() == Some(1) && told.stderr.contains("name each target once"),
            "{told:?}"
        );
        assert!(!dir.join("new").exists());
    }
    // If the command is refused, it prints no note.
    assert!(!dio(dir, &["stripe", "set", "-t", "a,b,a", "new"]).stderr.contains("same disk"));
    let told = good(dir, &["stripe", "set", "-t", "a,b", "new"]);
    assert_eq!(told.stderr, "dio stripe: note: 'b' is on the same disk as 'a'\n");
    assert_eq!(good(dir, &["stripe", "set", "-t", "a", "one"]).stderr, "");
}

/// A migration is killed at some of its calls: its remains are listed and removed, and the file is
/// whole.
#[test]
fn what_a_killed_migration_leaves_is_listed() {
    let pair = Pair::on(&file_systems()[0], &lines(300_000));
    let dir = &pair.dir;
    if !Command::new("strace")
        .args(["-o", "/dev/null", "true"])
        .status()
        .is_ok_and(|status| status.success())
    {
        return dio_test::skip!("strace is not there, or may not trace");
    }
    let mut left_some = 0;
    for point in [
        "linkat:2",
        "renameat2:1",
        "unlink:1",
        "pwritev2:2",
        "futimens:1",
        "utimensat:2",
        "fsync:4",
    ] {
        let (call, number) = point.split_once(':').unwrap();
        let mut strace = Command::new("strace");
        strace.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}")]);
        strace
            .arg(format!("--inject={call}:signal=KILL:when={number}"))
            .arg(env!("CARGO_BIN_EXE_dio"));
        strace.args(["stripe", "migrate", "-S", "32K", "-t", "b,c", FILE]).current_dir(dir);
        let output = run(strace.env("DIO_ENGINE", "blocking"));
        let killed = output.status.signal() == Some(9);
        let beside = dir.join("striped/.file.dio-migrate").exists();
        let listed = dio(dir, &["stripe", "orphans", "a", "b", "c"]);
        assert_eq!(
            listed.stdout.contains(".file.dio-migrate"),
            beside,
            "{point}, killed {killed}: {listed:?}"
        );
        assert!(listed.status.success() || killed, "{point}: {listed:?}");
        left_some += usize::from(beside);
        good(dir, &["stripe", "check", FILE]);
        good(dir, &["stripe", "orphans", "--age", "0", "--rm", "--yes", "a", "b", "c"]);
        assert!(!dir.join("striped/.file.dio-migrate").exists(), "{point}");
        let known = objects(dir, FILE).len();
        let there: usize =
            ["a", "b", "c"].iter().map(|name| fs::read_dir(dir.join(name)).unwrap().count()).sum();
        assert_eq!(there, known, "{point}");
        good(dir, &["cp", FILE, "back"]);
        assert!(fs::read(dir.join("back")).unwrap() == lines(300_000), "{point}");
    }
    assert!(left_some > 1, "no point was one that leaves anything");
}

/// Damages one of the files at random, as other programs might. Returns the kind of damage and the
/// file. `old` holds earlier contents of the files.
fn damage(rng: &mut Rng, all: &[PathBuf], old: &[Vec<u8>]) -> (&'static str, PathBuf) {
    let index = rng.range_usize(0..all.len() - 1);
    let (object, other) = (&all[index], &all[(index + 1) % (all.len() - 1)]);
    let descriptor = all.last().unwrap();
    match rng.range(0..DAMAGES + 2) {
        DAMAGES => {
            let (head, more) = (fs::read(descriptor).unwrap(), rng.range_usize(1..513));
            fs::write(descriptor, [head, rng.bytes(more)].concat()).unwrap();
            ("appended to", descriptor.clone())
        }
        way if way > DAMAGES => {
            let mut head = fs::read(descriptor).unwrap();
            let (from, len) = (rng.range_usize(0..400), rng.range_usize(1..20));
            head[from..from + len].copy_from_slice(&rng.bytes(len));
            fs::write(descriptor, head).unwrap();
            ("garbled", descriptor.clone())
        }
        way => (dio_test::damage(way, rng, object, other, &old[index]), object.clone()),
    }
}

/// A command line with the striped file: one of the command lines of every tool, or one with random
/// numbers and options.
fn command_line(rng: &mut Rng) -> Vec<String> {
    let (bs, few) = (512 << rng.range(0..9), rng.range(0..5));
    let line = match rng.range(0..10) {
        0 => format!("dd if=F of=out bs={bs} skip={few} count={} status=none", 1 + few),
        1 => format!(
            "dd if=F of=out ibs={} obs={bs} iflag=fullblock conv=swab status=none",
            100 + few
        ),
        2 => format!("dd if=contents of=F bs={bs} seek={few} count=3 conv=notrunc status=none"),
        3 => format!("split -b {} F out.", bs * 8),
        4 => format!("split -l {} F out.", 1000 + few * 777),
        5 => format!("tar -cf out --format={} F", rng.pick(&["gnu", "pax", "ustar", "oldgnu"])),
        6 => format!("sort {} F", rng.pick(&["-r", "-u", "-n", "-S1M", "-c", "-s"])),
        7 => format!("cat {} F", rng.pick(&["-n", "-A", "-E", "-s", "-b", "-v"])),
        8 => format!(
            "{} F",
            rng.pick(&[
                "zstd -3 -c",
                "gzip -1 -c",
                "uniq -c",
                "zstd -q -f",
                "gzip -f",
                "sha512sum"
            ])
        ),
        _ => return rng.pick(&command_lines()).clone(),
    };
    line.split(' ').map(|word| word.replace('F', FILE)).collect()
}

/// Whether these bytes contain a part of the contents.
fn has_contents(bytes: &[u8], contents: &[u8]) -> bool {
    bytes.windows(64).step_by(16).any(|some| contents.windows(64).any(|known| known == some))
}

/// Whatever is damaged and whichever command, or program through a mount, accesses it: there is an
/// error, no byte of another file is returned, and the damage gets no worse.
#[test]
fn soak_command_lines_on_damaged_striped_files() {
    let mounts = Scene::new().is_some();
    for seed in Soak::of(8) {
        let mut rng = seed.rng();
        let systems = file_systems();
        let pair = Pair::on(rng.pick(&systems), &lines(200_000));
        let dir = &pair.dir;
        let all: Vec<PathBuf> = objects(dir, FILE).into_iter().chain([dir.join(FILE)]).collect();
        let picture =
            || all.iter().map(|path| fs::read(path).unwrap_or_default()).collect::<Vec<_>>();
        let old = picture();
        good(
            dir,
            &[
                "dd",
                "if=/dev/zero",
                &format!("of={FILE}"),
                "bs=1000",
                "count=3",
                "conv=notrunc",
                "status=none",
            ],
        );
        let (whole, contents) = (picture(), dio(dir, &["cat", FILE]).stdout.into_bytes());
        assert!(contents[3000..] == lines(200_000)[3000..] && contents[..3000] == [0; 3000]);
        let (what, culprit) = damage(&mut rng, &all, &old);
        let damaged = picture();
        let context = format!("{what}: {}", culprit.display());
        for _ in 0..12 {
            let args = command_line(&mut rng);
            let told = dio(dir, &args.iter().map(String::as_str).collect::<Vec<_>>());
            let names = told.stderr.contains(culprit.to_str().unwrap())
                || told.stderr.contains("object ")
                || culprit == dir.join(FILE) && told.stderr.contains(FILE);
            assert!(!told.status.success() && names, "{context}: {args:?}: {told:?}");
            assert!(damaged == picture(), "{context}: {args:?}: something has changed");
            for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
                if entry.file_name().as_encoded_bytes().starts_with(b"out") {
                    let made = fs::read(entry.path()).unwrap();
                    assert!(
                        !has_contents(&made, &contents[4096..]),
                        "{context}: {args:?}: it has copied something"
                    );
                    fs::remove_file(entry.path()).unwrap();
                }
            }
        }
        if mounts {
            let mounted = Mounted::new(env!("CARGO_BIN_EXE_dio"), dir.join("striped"), "dio");
            let file = mounted.path().join("file");
            assert!(fs::read(&file).is_err(), "{context}: it is read through a mount");
            assert!(
                fs::OpenOptions::new().append(true).open(&file).is_err(),
                "{context}: it is opened for writing"
            );
            if what == "made longer"
                || what == "cut off" && fs::metadata(&culprit).unwrap().len() >= 1024
            {
                assert_eq!(fs::metadata(&file).unwrap().len(), contents.len() as u64, "{context}");
            }
            mounted.unmount();
            assert!(damaged == picture(), "{context}: something has changed through a mount");
        }
        all.iter().zip(&whole).for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
        good(dir, &["stripe", "check", FILE]);
        good(dir, &["cp", FILE, "back"]);
        assert!(fs::read(dir.join("back")).unwrap() == contents, "{context}: something got worse");
    }
}

/// A file whose objects would be lost is not replaced through a mount either, by `mv` or in the way
/// of programs that replace files.
#[test]
fn a_file_with_a_target_away_is_not_replaced_through_a_mount() {
    if Scene::new().is_none() {
        return;
    }
    let pair = Pair::on(&file_systems()[0], &lines(100_000));
    let (dir, mounted) =
        (&pair.dir, Mounted::new(env!("CARGO_BIN_EXE_dio"), pair.dir.join("striped"), "dio"));
    let at = |name: &str| mounted.path().join(name);
    fs::write(at("other"), "other").unwrap();
    fs::rename(dir.join("b"), dir.join("away")).unwrap();
    let replaced = fs::rename(at("other"), at("file"));
    assert!(replaced.is_err() && at("other").exists(), "{replaced:?}");
    assert!(fs::remove_file(at("file")).is_err());
    // Moving the file to another name does not lose it.
    fs::rename(at("file"), at("moved")).unwrap();
    fs::rename(at("moved"), at("file")).unwrap();
    fs::rename(dir.join("away"), dir.join("b")).unwrap();
    assert!(fs::read(at("file")).unwrap() == lines(100_000));
    // When the file is whole, it is replaced together with its objects.
    fs::rename(at("other"), at("file")).unwrap();
    assert_eq!(fs::read_to_string(at("file")).unwrap(), "other");
    mounted.unmount();
    assert_eq!(
        ["a", "b", "c"].map(|name| fs::read_dir(dir.join(name)).unwrap().count()),
        [0, 0, 0]
    );
}
