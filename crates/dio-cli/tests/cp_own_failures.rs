//! Errors that can be foreseen are found before the target is touched. Errors on the way are
//! reported, and the rest is copied.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use crate::own::{
    MIB, Mounted, Running, bad, cp, file_systems, good, is_root, names, os, run, same_bytes, skip,
    source,
};

/// Inode, times of modification and of change, and contents of a target that must not change.
#[track_caller]
fn state(path: &Path) -> (u64, [i64; 4], Vec<u8>) {
    let meta = path.metadata().unwrap();
    let contents = if meta.is_dir() { Vec::new() } else { std::fs::read(path).unwrap() };
    (meta.ino(), [meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec()], contents)
}

#[test]
fn foreseeable_failures_leave_the_target_as_it_was() {
    for fs in file_systems() {
        let dir = fs.dir();
        let path = |name: &str| dir.path().join(name);
        let (from, to) = (source(dir.path(), "from", 2 * MIB), source(dir.path(), "to", MIB));
        std::fs::create_dir_all(path("tree/sub")).unwrap();
        std::fs::hard_link(&from, path("link")).unwrap();
        let before = [&from, &to, &path("tree")].map(|path| state(path));
        for flags in ["", "--atomic", "--resume", "--mode uncached"] {
            bad(flags, &[&from, &from], "are the same file");
            bad(flags, &[&from, &path("link")], "are the same file");
            bad(&format!("-r {flags}"), &[&path("tree"), &to], "cannot overwrite non-directory");
            bad(&format!("-T {flags}"), &[&from, &path("tree")], "cannot overwrite directory");
            bad(
                &format!("-r {flags}"),
                &[&path("tree"), &path("tree/sub/x")],
                "cannot copy a directory",
            );
            bad(flags, &[&path("missing"), &to], "No such file or directory");
            bad(flags, &[&path("tree"), &to], "omitting directory");
        }
        let after = [&from, &to, &path("tree")].map(|path| state(path));
        assert!(before == after, "{}", fs.name);
        assert_eq!(names(dir.path()), ["from", "link", "to", "tree"], "{}", fs.name);
    }
}

#[test]
fn an_unreadable_source_is_found_before_the_target_is_touched() {
    if !is_root() {
        skip!("becoming nobody needs root");
        return;
    }
    let dir = file_systems()[0].dir();
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let program = dir.path().join("dio");
    dio_test::copy_program(env!("CARGO_BIN_EXE_dio"), &program);
    let (from, to) = (source(dir.path(), "from", MIB), source(dir.path(), "to", MIB));
    std::fs::set_permissions(&from, PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::set_permissions(&to, PermissionsExt::from_mode(0o666)).unwrap();
    let before = state(&to);
    let nobody = |flags: &str, from: &Path, to: &Path| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program).arg("cp");
        dio_test::run(command.args(flags.split_whitespace()).args([from, to]).current_dir("/"))
    };
    for flags in ["", "--atomic", "--resume"] {
        let output = nobody(flags, &from, &to);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(
            output.stderr.contains("cannot open") && output.stderr.contains("Permission denied"),
            "{output:?}"
        );
        assert!(state(&to) == before, "{flags}");
    }
    // A target without write permission, although its directory would permit replacing it.
    std::fs::set_permissions(&from, PermissionsExt::from_mode(0o644)).unwrap();
    std::fs::set_permissions(&to, PermissionsExt::from_mode(0o644)).unwrap();
    let before = state(&to);
    for flags in ["", "--atomic"] {
        let output = nobody(flags, &from, &to);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(output.stderr.contains("Permission denied"), "{output:?}");
        assert!(state(&to) == before, "{flags}");
    }
    // Without privileges, a copy that is permitted succeeds.
    let output = nobody("--verify --receipt -", &from, &dir.path().join("new"));
    assert!(output.status.success(), "{output:?}");
    same_bytes(&from, dir.path().join("new"));
}

#[test]
fn no_space_is_found_first_and_the_target_stays() {
    let elsewhere = file_systems()[0].dir();
    let large = elsewhere.path().join("large");
    std::fs::File::create(&large).unwrap().set_len(400 * MIB).unwrap();
    let holes = elsewhere.path().join("holes");
    let file = std::fs::File::create(&holes).unwrap();
    file.set_len(64 * MIB).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"x", 32 * MIB).unwrap();
    for format in
        [&["mkfs.ext4", "-q", "-F"][..], &["mkfs.xfs", "-q", "-f"], &["mkfs.btrfs", "-q", "-f"]]
    {
        let Some(small) = Mounted::new(format, 320 * MIB) else { continue };
        let to = source(&small.path, "to", MIB);
        let before = state(&to);
        for flags in ["", "--atomic", "--resume", "--mode uncached", "--mode cached"] {
            bad(&format!("--sparse=never {flags}"), &[&large, &to], "space");
            assert!(state(&to) == before, "{format:?} {flags}");
            bad(&format!("--sparse=never {flags}"), &[&large, &small.path.join("new")], "pace");
            assert!(!small.path.join("new").exists(), "{format:?} {flags}");
        }
        // A file of holes needs no space.
        good("", &[&holes, &to]);
        same_bytes(&holes, &to);
    }
}

#[test]
fn a_full_disk_in_a_tree_is_told_for_each_file_and_small_ones_still_go() {
    let Some(small) = Mounted::new(&["mkfs.ext4", "-q", "-F"], 64 * MIB) else { return };
    let elsewhere = file_systems()[0].dir();
    let tree = elsewhere.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    source(&tree, "a-large", 90 * MIB);
    source(&tree, "b-large", 95 * MIB);
    // Half of the file is a hole, so its size is set before its space is allocated.
    let half = source(&tree, "c-half", 80 * MIB);
    std::fs::File::options().write(true).open(&half).unwrap().set_len(160 * MIB).unwrap();
    for number in 0..20 {
        source(&tree, &format!("small{number}"), 1000 + number);
    }
    let to = small.path.join("to");
    let output = run("-r", &[&tree, &to]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    for name in ["a-large", "b-large", "c-half"] {
        assert!(
            output.stderr.lines().any(|line| line.contains(name) && line.contains("pace")),
            "{name}: {output:?}"
        );
        assert!(!to.join(name).exists(), "{name} is left: {output:?}");
    }
    assert_eq!(output.stderr.lines().count(), 3, "{output:?}");
    for number in 0..20 {
        let name = format!("small{number}");
        same_bytes(tree.join(&name), to.join(&name));
    }
}

/// With `--sparse=always`, blocks of zeros are to become holes, so space cannot be reserved first,
/// and the copy finds the disk full on the way.
#[test]
fn a_copy_that_finds_the_disk_full_ends_where_it_is_complete() {
    let Some(small) = Mounted::new(&["mkfs.ext4", "-q", "-F"], 64 * MIB) else { return };
    let elsewhere = file_systems()[0].dir();
    let (from, to) = (source(elsewhere.path(), "from", 90 * MIB), small.path.join("to"));
    for mode in ["direct", "uncached"] {
        bad(&format!("--sparse=always --mode {mode}"), &[&from, &to], "pace");
        let (whole, found) = (std::fs::read(&from).unwrap(), std::fs::read(&to).unwrap());
        assert!(
            found.len() > MIB as usize && found.len() < whole.len(),
            "{mode}: {} bytes",
            found.len()
        );
        assert!(whole.starts_with(&found), "{mode}: zeros that nobody wrote");
        std::fs::remove_file(&to).unwrap();
    }
}

#[test]
fn a_read_only_file_system_is_an_error_in_known_words() {
    let Some(disk) = Mounted::new(&["mkfs.ext4", "-q", "-F"], 64 * MIB) else { return };
    let elsewhere = file_systems()[0].dir();
    let (from, to) = (source(elsewhere.path(), "from", MIB), source(&disk.path, "to", MIB));
    let before = state(&to);
    disk.remount_read_only();
    for flags in ["", "--atomic", "--resume", "-f"] {
        bad(flags, &[&from, &to], "Read-only file system");
        bad(flags, &[&from, &disk.path.join("new")], "Read-only file system");
    }
    assert!(state(&to) == before);
    // Reading from a read-only file system works.
    good("--verify", &[&to, &elsewhere.path().join("back")]);
    same_bytes(&to, elsewhere.path().join("back"));
}

/// Starts a slow copy of a tree with one large file, and calls `what` on that file while it is
/// copied.
#[track_caller]
fn meanwhile(flags: &str, what: impl Fn(&Path)) -> (dio_test::Output, tempfile::TempDir) {
    let dir = file_systems()[0].dir();
    let tree = dir.path().join("tree");
    std::fs::create_dir_all(tree.join("sub")).unwrap();
    let large = source(&tree, "large", 16 * MIB);
    for number in 0..5 {
        source(&tree.join("sub"), &format!("f{number}"), 100 + number);
    }
    let running = Running::start(
        &format!("-r --reflink=never --limit 4M {flags}"),
        &[&tree, &dir.path().join("to")],
    );
    crate::own::until_moved(&running, 2 * MIB);
    what(&large);
    (running.end(), dir)
}

#[track_caller]
fn rest_is_copied(dir: &Path) {
    for number in 0..5 {
        let name = format!("sub/f{number}");
        same_bytes(dir.join("tree").join(&name), dir.join("to").join(&name));
    }
}

#[test]
fn a_source_that_changes_its_size_on_the_way_is_told_and_the_rest_is_copied() {
    for (flags, by, words) in [
        ("", -8 * MIB.cast_signed(), "shrank while it was read"),
        ("--atomic", -8 * MIB.cast_signed(), "shrank while it was read"),
        ("", 1, "grew while it was read"),
        ("--atomic", MIB.cast_signed(), "grew while it was read"),
    ] {
        let (output, dir) = meanwhile(flags, |large| {
            let file = std::fs::File::options().write(true).open(large).unwrap();
            file.set_len((16 * MIB).wrapping_add_signed(by)).unwrap();
        });
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert_eq!(output.stderr.lines().count(), 1, "{output:?}");
        assert!(
            output.stderr.contains(words) && output.stderr.contains("tree/large"),
            "{output:?}"
        );
        rest_is_copied(dir.path());
        let to = dir.path().join("to/large");
        if flags == "--atomic" {
            assert_eq!(names(&dir.path().join("to")), ["sub"], "no half file, no temporary name");
        } else {
            let beginning = to.metadata().unwrap().len();
            let same =
                dio_test::first_difference(dir.path().join("tree/large"), &to).unwrap_or(beginning);
            assert_eq!(same, beginning, "what is there is right");
        }
    }
}

#[test]
fn a_source_that_is_deleted_on_the_way_is_still_copied() {
    let (output, dir) = meanwhile("", |large| {
        std::fs::hard_link(large, large.with_file_name("../kept")).unwrap();
        std::fs::remove_file(large).unwrap();
    });
    assert!(output.status.success(), "{output:?}");
    same_bytes(dir.path().join("kept"), dir.path().join("to/large"));
    rest_is_copied(dir.path());
}

#[test]
fn verification_finds_what_changed_on_the_medium_and_says_where() {
    use std::os::unix::fs::FileExt;
    let spoil = |fs: &crate::own::TestFs| {
        let dir = fs.dir();
        let (from, to) = (source(dir.path(), "from", 8 * MIB + 77), dir.path().join("to"));
        good("--reflink=never --verify", &[&from, &to]);
        // Another writer damages the beginning while the rest is copied.
        let place = 300_000;
        std::fs::remove_file(&to).unwrap();
        let running = Running::start("--reflink=never --verify --limit 2M", &[&from, &to]);
        crate::own::until_moved(&running, 2 * MIB);
        let file = std::fs::File::options().write(true).open(&to).unwrap();
        file.write_all_at(b"spoiled", place).unwrap();
        file.sync_all().unwrap();
        let output = running.end();
        assert_eq!(output.status.code(), Some(1), "{}: {output:?}", fs.name);
        let first = dio_test::first_difference(&from, &to).unwrap();
        assert!((place..place + 7).contains(&first));
        let words = format!("{}' differs from its source at byte {first}:", to.display());
        assert!(output.stderr.contains(&words), "{}: {output:?}", fs.name);
    };
    let all = file_systems();
    std::thread::scope(|scope| all.iter().for_each(|fs| drop(scope.spawn(|| spoil(fs)))));
}

#[test]
fn verification_works_for_holes_trees_clones_and_what_has_no_size() {
    for fs in file_systems() {
        let dir = fs.dir();
        let tree = dir.path().join("tree");
        std::fs::create_dir(&tree).unwrap();
        for (number, size) in
            [0, 1, 511, 4097, 65_536, MIB - 1, 3 * MIB + 1].into_iter().enumerate()
        {
            source(&tree, &format!("f{number}"), size);
        }
        let hole = std::fs::File::create(tree.join("hole")).unwrap();
        hole.set_len(9 * MIB + 3).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&hole, b"end", 9 * MIB).unwrap();
        for (number, flags) in [
            "",
            "--sparse=always",
            "--sparse=never",
            "--mode uncached",
            "--mode cached",
            "--block 5000",
            "--atomic",
            "--resume",
        ]
        .iter()
        .enumerate()
        {
            let to = dir.path().join(format!("to{number}"));
            good(&format!("-r --verify {flags}"), &[&tree, &to]);
            for name in names(&tree) {
                same_bytes(tree.join(&name), to.join(&name));
            }
        }
        good("--verify", &[os("/proc/version"), &dir.path().join("version")]);
        same_bytes("/proc/version", dir.path().join("version"));
        let script = format!(
            "seq 500000 | '{}' cp --verify /dev/stdin '{}'",
            env!("CARGO_BIN_EXE_dio"),
            dir.path().join("piped").display()
        );
        assert!(
            Command::new("sh").args(["-c", &script]).status().unwrap().success(),
            "{}",
            fs.name
        );
        assert_eq!(dir.path().join("piped").metadata().unwrap().len(), 3_388_895);
        if !crate::own::in_memory(&fs) {
            assert_eq!(crate::own::resident_pages(dir.path().join("piped")), 0, "{}", fs.name);
        }
    }
}

#[test]
fn a_block_device_is_read_and_written_and_holes_become_zeros() {
    if !is_root() {
        skip!("loop devices need root");
        return;
    }
    let dir = file_systems()[0].dir();
    let backing = source(dir.path(), "backing", 16 * MIB);
    let attached = dio_test::run(Command::new("losetup").args(["--find", "--show"]).arg(&backing));
    if !attached.status.success() {
        skip!("no loop device: {}", attached.stderr.trim());
        return;
    }
    let device = std::path::PathBuf::from(attached.stdout.trim());
    let copied = std::panic::catch_unwind(|| {
        let image = dir.path().join("image");
        good("", &[&device, &image]);
        assert_eq!(image.metadata().unwrap().len(), 16 * MIB);
        same_bytes(&backing, &image);
        let sparse = dir.path().join("sparse");
        let file = std::fs::File::create(&sparse).unwrap();
        file.set_len(6 * MIB).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"data", 3 * MIB).unwrap();
        good("--verify", &[&sparse, &device]);
        let head = dir.path().join("head");
        let mut bytes = std::fs::read(&device).unwrap();
        bytes.truncate(6 * MIB as usize);
        std::fs::write(&head, bytes).unwrap();
        same_bytes(&sparse, &head);
        let large = source(dir.path(), "large", 17 * MIB);
        bad("", &[&large, &device], "space");
    });
    let detached = dio_test::run(Command::new("losetup").arg("--detach").arg(&device));
    assert!(detached.status.success(), "{detached:?}");
    copied.unwrap();
}

#[test]
fn a_command_line_that_makes_no_sense_is_status_1_in_known_words() {
    for (args, words) in [
        (&["--nonsense", "a", "b"][..], "unrecognized option '--nonsense'"),
        (&["-Q", "a", "b"], "invalid option -- 'Q'"),
        (&["--mode", "sideways", "a", "b"], "invalid value 'sideways'"),
        (&["--limit", "fast", "a", "b"], "invalid value 'fast'"),
        (&["--depth", "0", "a", "b"], "0"),
        (&["--block", "0", "a", "b"], "zero"),
        (&["--resume", "--atomic", "a", "b"], "--resume and --atomic cannot be used together"),
        (&["a"], "missing destination file operand after 'a'"),
        (&[], "missing file operand"),
    ] {
        let output = dio_test::run(cp().args(args));
        assert_eq!(output.status.code(), Some(1), "{args:?}: {output:?}");
        assert!(
            output.stderr.starts_with("dio cp: ") && output.stderr.contains(words),
            "{args:?}: {output:?}"
        );
        assert!(
            output.stderr.contains("Try 'dio cp --help' for more information."),
            "{args:?}: {output:?}"
        );
    }
    for args in [&["--help"][..], &["--version"]] {
        assert!(dio_test::run(cp().args(args)).status.success(), "{args:?}");
    }
    let program = || Command::new(env!("CARGO_BIN_EXE_dio"));
    assert!(dio_test::run(program().arg("--help")).status.success());
    assert_eq!(dio_test::run(program().arg("nonsense")).status.code(), Some(2));
}

/// It is no failure if a file cannot be synced: its copy is as durable as it can be.
#[test]
fn what_cannot_be_synced_is_copied_all_the_same() {
    let dir = file_systems()[0].dir();
    std::fs::write(dir.path().join("f"), "hello\n").unwrap();
    source(dir.path(), "large", 3 * MIB);
    let dio = env!("CARGO_BIN_EXE_dio");
    for (script, expected) in [
        ("$0 cp f /dev/null", ""),
        ("$0 cp large /dev/null", ""),
        ("$0 cp --atomic f /dev/null", ""),
        ("$0 cp f /dev/stdout | cat; exit ${PIPESTATUS[0]}", "hello\n"),
        ("$0 cp f /dev/fd/1 | cat; exit ${PIPESTATUS[0]}", "hello\n"),
        ("$0 cp large /dev/stdout | wc -c; exit ${PIPESTATUS[0]}", "3145728\n"),
        ("mkfifo fifo; cat fifo & $0 cp f fifo; s=$?; wait; exit $s", "hello\n"),
        ("$0 cp f >(cat); s=$?; sleep 0.1; exit $s", "hello\n"),
        ("$0 cp f /dev/null && $0 cp -r /dev/null made && test -c made", ""),
        // Files of proc(5) cannot be synced, nor written at an offset.
        ("$0 cp f /proc/self/comm", ""),
        ("$0 cp /proc/self/comm comm; cat comm", "dio\n"),
    ] {
        let mut bash = Command::new("bash");
        let output = dio_test::run(
            bash.args(["-c", script, dio]).current_dir(dir.path()).env_remove("DIO_ENGINE"),
        );
        assert!(output.status.success() && output.stderr.is_empty(), "{script}: {output:?}");
        assert_eq!(output.stdout, expected, "{script}");
        let _ = std::fs::remove_file(dir.path().join("fifo"));
    }
    let f = dir.path().join("f");
    bad(
        "--verify",
        &[&f, os("/dev/null")],
        "cannot verify '/dev/null': what it takes cannot be read back",
    );
    bad("", &[&f, os("/dev/full")], "error writing '/dev/full': No space left on device");
}
