//! `dio-mpi sync` under `mpirun`, judged by rsync: random trees become like others, whatever was
//! there; nothing is removed too early, or because of an error.

mod common;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::{
    MIB, SMALL_PIECE, assert_same, in_namespace, make_tree, mpirun, pieces_noted, ranks_of, signal,
    written,
};
use dio_test::{Output, Rng, Seed, file_systems, is_root, random_file, run, until};

fn sync(dir: &Path, ranks: u32, words: &[&str]) -> Output {
    run(mpirun(dir, ranks).arg("sync").args(words))
}

fn start(dir: &Path, words: &[&str]) -> Child {
    common::start(dir, 4, &[&["sync"], words].concat())
}

/// Names that trees have in common, so that types collide.
const NAMES: [&[u8]; 8] = [b"a", b"b", b"c d", b"\xff\n", b"-n", b"f", b".g", b"\xc3\xa4"];

/// Makes an entry of any type under a name that is free. Size and time decide the contents of a
/// file, so that files that are equal for rsync -a are equal.
fn make(path: &Path, rng: &mut Rng, depth: u32, files: &mut Vec<PathBuf>) {
    let seconds = 1_000_000_000 + rng.range(0..3);
    // Other entries may have taken the names of files since.
    files.retain(|file| file.symlink_metadata().is_ok_and(|found| found.is_file()));
    let time = UNIX_EPOCH + Duration::new(seconds, [0, 123_456_789][rng.range_usize(0..2)]);
    match rng.range(0..12) {
        0..5 if depth > 0 => {
            fs::create_dir(path).unwrap();
            for name in NAMES {
                if rng.bool(0.5) {
                    make(&path.join(OsStr::from_bytes(name)), rng, depth - 1, files);
                }
            }
        }
        5 => symlink(["x", "y/z", "."][rng.range_usize(0..3)], path).unwrap(),
        6 => {
            let path = rustix::path::Arg::into_c_str(path).unwrap();
            let mode = rustix::fs::Mode::from_bits_retain(0o640);
            rustix::fs::mkfifoat(rustix::fs::CWD, path, mode).unwrap();
        }
        7 | 8 if !files.is_empty() => {
            return fs::hard_link(rng.pick(files), path).unwrap();
        }
        _ => {
            let size = rng.range_usize(0..4) * 3000;
            fs::write(path, Rng::new(seconds + size as u64).bytes(size)).unwrap();
            files.push(path.to_owned());
        }
    }
    decorate(path, rng, time);
}

/// Gives an entry random attributes.
fn decorate(path: &Path, rng: &mut Rng, time: SystemTime) {
    let kind = path.symlink_metadata().unwrap().file_type();
    if is_root() {
        lchown(path, Some([0, 12][rng.range_usize(0..2)]), Some(34)).unwrap();
    }
    if kind.is_symlink() {
        return;
    }
    let mode = [0o755, 0o700, 0o2750, 0o1777][rng.range_usize(0..4)];
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    if kind.is_fifo() {
        return;
    }
    for name in ["user.one", "user.two"] {
        if rng.bool(0.2) {
            let flags = rustix::fs::XattrFlags::empty();
            rustix::fs::setxattr(path, name, &rng.bytes(5), flags).unwrap();
        }
    }
    if rng.bool(0.1) {
        let set = |what: &str| run(Command::new("setfacl").args(["-m", what, "--"]).arg(path));
        // Not every file system has ACLs.
        set("u:65534:rx");
        if kind.is_dir() {
            set("d:u:12:rwx");
        }
    }
    File::open(path).unwrap().set_modified(time).unwrap();
}

/// All paths below a directory, those above before those below.
fn below(dir: &Path) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        paths.push(entry.path());
        if entry.file_type().unwrap().is_dir() {
            paths.extend(below(&entry.path()));
        }
    }
    paths.sort();
    paths
}

/// Replaces, removes, adds and changes entries at random.
fn disturb(root: &Path, rng: &mut Rng) {
    let root = &root.canonicalize().unwrap();
    let mut files = Vec::new();
    for path in below(root) {
        let Ok(found) = path.symlink_metadata() else { continue };
        // A link to "." may have taken the name of a directory above.
        let directory = path.parent().unwrap();
        if directory.canonicalize().unwrap() != directory {
            continue;
        }
        match rng.range(0..12) {
            0 | 1 => {
                remove(&path);
                make(&path, rng, 2, &mut files);
            }
            2 => remove(&path),
            3 => decorate(&path, rng, found.modified().unwrap()),
            4 => {
                let name = OsStr::from_bytes(NAMES[rng.range_usize(0..NAMES.len())]);
                let other = path.with_file_name(name);
                if !other.exists() && other.symlink_metadata().is_err() {
                    fs::rename(&path, other).unwrap();
                }
            }
            _ => {}
        }
    }
}

fn remove(path: &Path) {
    match path.symlink_metadata().unwrap().is_dir() {
        true => fs::remove_dir_all(path).unwrap(),
        false => fs::remove_file(path).unwrap(),
    }
}

fn plant(root: &Path, rng: &mut Rng) {
    fs::create_dir(root).unwrap();
    let mut files = Vec::new();
    for number in 0..6 {
        make(&root.join(format!("top{number}")), rng, 4, &mut files);
    }
}

/// What a change of a tree would change here: names, inodes and times.
fn state_of(root: &Path) -> Vec<(PathBuf, u64, i64, i64)> {
    let state = |path: PathBuf| {
        let found = path.symlink_metadata().unwrap();
        (path, found.ino(), found.ctime(), found.ctime_nsec())
    };
    below(root).into_iter().map(state).collect()
}

/// The names in a report, without those that are only made for a while.
fn told(output: &Output) -> Vec<String> {
    let lines = output.stdout.lines().filter(|line| !line.contains("/.dio-"));
    let mut lines: Vec<String> = lines.map(str::to_owned).collect();
    lines.sort();
    lines.dedup();
    lines
}

#[test]
fn random_trees_become_like_others_and_what_is_right_stays() {
    let seed = Seed::new();
    for (number, fs) in file_systems().into_iter().enumerate() {
        let scratch = fs.dir();
        let dir = scratch.path();
        let rounds = if number == 0 { &[1, 2, 4, 4][..] } else { &[2, 4] };
        for (round, ranks) in rounds.iter().copied().enumerate() {
            let mut rng = seed.stream((number * 10 + round) as u64);
            plant(&dir.join("from"), &mut rng);
            if round % 2 == 0 {
                plant(&dir.join("to"), &mut rng);
            } else {
                run(Command::new("cp").args(["-a", "from", "to"]).current_dir(dir));
                disturb(&dir.join("to"), &mut rng);
            }
            let before = state_of(&dir.join("to"));
            let linked = ["from", "to"].into_iter().flat_map(|tree| below(&dir.join(tree)));
            let linked = linked.filter(|path| path.symlink_metadata().unwrap().nlink() > 1).count();
            let planned = sync(dir, ranks, &["--delete", "--dry-run", "from", "to"]);
            assert!(planned.status.success(), "{}: {planned:?}", fs.name);
            assert_eq!(state_of(&dir.join("to")), before, "a dry run changes nothing");
            let done = sync(dir, ranks, &["-v", "--delete", "from", "to/"]);
            assert!(done.status.success(), "{}: {done:?}", fs.name);
            assert_same(dir, "from", "to");
            let did = told(&done);
            let plan = told(&planned);
            let left: Vec<_> = plan.iter().filter(|line| !did.contains(line)).collect();
            let more: Vec<_> = did.iter().filter(|line| !plan.contains(line)).collect();
            // A name is right when another name of its inode was seen to, or becomes its link.
            let several = left.len() <= 2 * linked && more.len() <= 2 * linked;
            let same = left.is_empty() && more.is_empty();
            assert!(same || several, "{left:?} were planned, {more:?} were not: {done:?}");
            disturb(&dir.join("from"), &mut rng);
            let done = sync(dir, ranks, &["--delete", "--receipt=receipt", "from/", "to"]);
            assert!(done.status.success(), "{}: {done:?}", fs.name);
            assert_same(dir, "from", "to");
            let files = |path: &PathBuf| !path.symlink_metadata().unwrap().is_dir();
            let state = || -> Vec<_> {
                state_of(&dir.join("to")).into_iter().filter(|(path, ..)| files(path)).collect()
            };
            let before = state();
            for words in [&["-v", "--delete", "from", "to"][..], &["-cv", "from", "to"]] {
                let again = sync(dir, ranks, words);
                assert!(again.status.success() && again.stdout.is_empty(), "{again:?}");
                assert_eq!(state(), before, "nothing has changed");
            }
            fs::remove_dir_all(dir.join("from")).unwrap();
            fs::remove_dir_all(dir.join("to")).unwrap();
        }
    }
}

#[test]
fn checksum_finds_what_size_and_time_hide() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    fs::create_dir(dir.join("from")).unwrap();
    for (name, size) in [("small", 5000), ("large", 70 * MIB + 5), ("same", 3 * MIB)] {
        random_file(dir.join("from").join(name), size, 1);
    }
    assert!(sync(dir, 2, &["from", "to"]).status.success());
    let inode = |name: &str| dir.join("to").join(name).metadata().unwrap().ino();
    let same = inode("same");
    for name in ["small", "large"] {
        let path = dir.join("to").join(name);
        let time = path.metadata().unwrap().modified().unwrap();
        let file = File::options().write(true).open(path).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"harm", 4095).unwrap();
        file.set_modified(time).unwrap();
    }
    assert!(sync(dir, 2, &["--receipt=receipt", "from", "to"]).status.success());
    let receipt = || fs::read_to_string(dir.join("receipt")).unwrap();
    assert_eq!(written(&receipt()), 0);
    let done = sync(dir, 2, &["--checksum", "--receipt=receipt", "from", "to"]);
    assert!(done.status.success(), "{done:?}");
    assert_same(dir, "from", "to");
    assert_eq!(written(&receipt()), 5000 + 70 * MIB + 5);
    assert!(receipt().contains("\"command\": \"sync\""), "{}", receipt());
    assert_eq!(inode("same"), same);
}

#[test]
fn nothing_is_removed_after_an_error_or_below_what_cannot_be_read() {
    if !is_root() {
        return dio_test::skip!("another user is needed");
    }
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    for name in ["from/closed/f", "from/open/f", "to/closed/old", "to/open/old", "to/old"] {
        fs::create_dir_all(dir.join(name).parent().unwrap()).unwrap();
        fs::write(dir.join(name), name).unwrap();
    }
    for path in below(dir).iter().chain([&dir.to_owned()]) {
        chown(path, Some(65_534), Some(65_534)).unwrap();
    }
    fs::set_permissions(dir.join("from/closed"), fs::Permissions::from_mode(0o000)).unwrap();
    let as_nobody = |words: &[&str]| {
        let plain = mpirun(dir, 2);
        let mut command = dio_test::as_user("nobody", plain.get_program());
        command.args(plain.get_args()).args(words).current_dir(dir).env("TMPDIR", dir);
        run(&mut command)
    };
    let failed = as_nobody(&["sync", "--delete", "from", "to"]);
    assert_eq!(failed.status.code(), Some(1), "{failed:?}");
    let told = "dio-mpi sync: cannot access 'from/closed': Permission denied\n";
    assert_eq!(failed.stderr.matches(told).count(), 1, "{failed:?}");
    let told = "dio-mpi sync: not everything was copied: nothing is removed\n";
    assert_eq!(failed.stderr.matches(told).count(), 1, "{failed:?}");
    for kept in ["to/closed", "to/open/old", "to/old"] {
        assert!(dir.join(kept).exists(), "{kept}");
    }
    assert!(dir.join("to/open/f").exists(), "the others are copied");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    fs::create_dir_all(dir.join("tree/inner/deep")).unwrap();
    fs::write(dir.join("tree/file"), "x").unwrap();
    fs::write(dir.join("file"), "x").unwrap();
    for (words, told) in [
        (&["--delete", "--no-sync", "tree", "to"][..], "--delete needs what --no-sync leaves out"),
        (&["tree", "file", "to"], "extra operand"),
        (&["tree"], "missing destination file operand"),
        (&["tree", "tree/inner/deep"], "cannot copy a directory, 'tree', into itself"),
        (&["--delete", "tree/inner", "tree"], "nothing is removed from 'tree'"),
        (&["tree", "file"], "cannot overwrite non-directory 'file' with directory 'tree'"),
        (&["--delete", "file", "tree"], "cannot overwrite directory 'tree' with non-directory"),
        (&["--delete", "none", "tree"], "cannot stat 'none'"),
    ] {
        let refused = sync(dir, 2, words);
        assert_eq!(refused.status.code(), Some(1), "{words:?}: {refused:?}");
        assert!(refused.stderr.contains(told), "{words:?}: {refused:?}");
    }
    assert!(dir.join("tree/inner/deep").exists() && dir.join("tree/file").exists());
    // Nothing was copied before it was refused, also where links lead there.
    symlink("tree/inner", dir.join("inside")).unwrap();
    for (words, told) in [
        (&["--delete", "inside/", "tree"][..], "nothing is removed from 'tree'"),
        (&["tree", "inside/"], "cannot copy a directory, 'tree', into itself, 'inside/'"),
    ] {
        let refused = sync(dir, 2, words);
        assert_eq!(refused.status.code(), Some(1), "{words:?}: {refused:?}");
        assert!(refused.stderr.contains(told), "{words:?}: {refused:?}");
    }
    let inside = ["tree/file", "tree/inner", "tree/inner/deep"].map(|name| dir.join(name));
    assert_eq!(below(&dir.join("tree")), inside);
    assert_eq!(sync(dir, 2, &["--resume", "tree", "to"]).status.code(), Some(2));
    assert!(!dir.join("to").exists());
    // Without --delete, a part of a tree may be copied over it.
    assert!(sync(dir, 2, &["tree/inner", "tree"]).status.success());
    assert!(dir.join("tree/deep").is_dir());
    // A single file, and a target that is a link to a file elsewhere.
    symlink("file", dir.join("link")).unwrap();
    assert!(sync(dir, 2, &["--delete", "tree/file", "link"]).status.success());
    assert!(dir.join("link").symlink_metadata().unwrap().is_file());
    assert_same(dir, "tree/file", "link");
}

#[test]
fn a_killed_job_removes_nothing_early_and_goes_on() {
    let seed = Seed::new();
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    make_tree(&dir.join("from"), &seed);
    let mut rng = seed.stream(7);
    for round in 0..4 {
        let extra = dir.join("to/extra");
        for number in 0..50 {
            let below = extra.join(format!("e{number}"));
            fs::create_dir_all(&below).unwrap();
            (0..20).for_each(|file| fs::write(below.join(format!("f{file}")), "x").unwrap());
        }
        // A directory where the source has a file.
        fs::create_dir_all(dir.join("to/large1/inner")).unwrap();
        let count = || below(&extra).len();
        assert_eq!(count(), 1050);
        let words = match round % 2 {
            0 => vec!["--delete", "--limit", "60M", "from", "to"],
            _ => vec!["--delete", "--journal", "journal", "--limit", "60M", "from", "to"],
        };
        let job = start(dir, &words);
        until("the ranks copy", || ranks_of(job.id()).len() == 4 && dir.join("to/d1").exists());
        std::thread::sleep(Duration::from_millis(rng.range(0..1500)));
        let victims = ranks_of(job.id());
        match round {
            0 => victims.iter().for_each(|rank| signal(*rank, rustix::process::Signal::KILL)),
            _ => {
                let victim = victims[rng.range_usize(0..victims.len())];
                signal(victim, rustix::process::Signal::KILL);
            }
        }
        assert!(!job.wait_with_output().unwrap().status.success());
        assert_eq!(count(), 1050, "nothing is removed before all is copied");
        let rest = sync(dir, 1 + rng.range(0..4) as u32, &words);
        assert!(rest.status.success(), "{rest:?}");
        assert_same(dir, "from", "to");
        if round % 2 == 1 {
            fs::remove_dir_all(dir.join("journal")).unwrap();
        }
        // Some of it is as it should be in the next round.
        for name in ["d0", "d1", "large1", "large2"] {
            remove(&dir.join("to").join(name));
        }
    }
}

#[test]
fn large_files_are_shared_and_large_trees_are_removed_by_all() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    fs::create_dir(dir.join("from")).unwrap();
    random_file(dir.join("from/large"), 300 * MIB + 1, 5);
    for number in 0..100 {
        let below = dir.join(format!("to/extra/d{number}/e"));
        fs::create_dir_all(&below).unwrap();
        (0..100).for_each(|file| fs::write(below.join(format!("f{file}")), "x").unwrap());
    }
    let done = sync(dir, 4, &["-v", "--delete", "--receipt=receipt", "from", "to"]);
    assert!(done.status.success(), "{done:?}");
    assert_same(dir, "from", "to");
    assert_eq!(done.stdout.matches("removed 'to/extra/").count(), 100 * 102);
    let receipt = fs::read_to_string(dir.join("receipt")).unwrap();
    let of_ranks = receipt.split("\"ranks\"").nth(1).unwrap();
    let wrote = of_ranks.lines().filter_map(|l| l.trim().strip_prefix("\"bytes_written\": "));
    assert!(wrote.filter(|bytes| !bytes.starts_with("0")).count() >= 2, "{of_ranks}");
}

#[test]
fn a_source_that_a_mount_put_into_the_target_stays() {
    if !is_root() {
        return dio_test::skip!("a mount is needed");
    }
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    for name in ["to/a/inner/sub/kept", "to/a/old", "from"] {
        fs::create_dir_all(dir.join(name)).unwrap();
    }
    fs::write(dir.join("to/a/inner/file"), "x").unwrap();
    for ranks in [1, 3] {
        let plain = mpirun(dir, ranks);
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", "mount --bind to/a/inner from && exec \"$0\" \"$@\""]);
        command.arg(plain.get_program()).args(plain.get_args()).current_dir(dir);
        let refused = run(command.args(["sync", "--delete", "from", "to"]));
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        let told = "nothing is removed from 'to/a/inner', because the source, 'from', is in it";
        assert!(refused.stderr.contains(told), "{refused:?}");
        assert!(dir.join("to/a/inner/sub/kept").exists() && dir.join("to/a/inner/file").exists());
        // What is not the source is removed.
        assert!(!dir.join("to/a/old").exists() && dir.join("to/sub/kept").exists());
    }
}

#[test]
fn a_source_that_has_the_name_of_its_mount_in_the_target_is_not_written_to() {
    if !is_root() {
        return dio_test::skip!("a mount is needed");
    }
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    for name in ["to/a/inner/a/inner/deep", "to/a/inner/a/other", "from"] {
        fs::create_dir_all(dir.join(name)).unwrap();
    }
    for name in ["", "a/", "a/inner/", "a/inner/deep/", "a/other/"] {
        fs::write(dir.join("to/a/inner").join(name).join("file"), name).unwrap();
    }
    let source = dir.join("to/a/inner");
    let before = (state_of(&source), source.metadata().unwrap().mtime_nsec());
    for command in ["sync", "sync --delete", "sync -c", "cp -aT"] {
        for ranks in [1, 3] {
            let script = format!("mount --bind to/a/inner from; $MPI {command} from to");
            let refused = in_namespace(dir, ranks, &script);
            assert_eq!(refused.status.code(), Some(1), "{command}: {refused:?}");
            let told = "cannot copy a directory, 'from', into itself, 'to/a/inner'";
            assert_eq!(refused.stderr.matches(told).count(), 1, "{command}: {refused:?}");
            let after = (state_of(&source), source.metadata().unwrap().mtime_nsec());
            assert_eq!(after, before, "{command}: {refused:?}");
            // All else is copied.
            for copy in ["to/file", "to/a/file", "to/a/other/file"] {
                fs::remove_file(dir.join(copy)).unwrap();
            }
        }
    }
}

#[test]
fn a_part_of_the_source_that_a_mount_put_into_the_target_stays() {
    if !is_root() {
        return dio_test::skip!("a mount is needed");
    }
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    for name in ["from/part/deep", "from/same/deep", "to/same", "to/other/here", "top"] {
        fs::create_dir_all(dir.join(name)).unwrap();
    }
    for name in ["part/file", "part/deep/file", "same/file", "same/deep/file", "file"] {
        fs::write(dir.join("from").join(name), name).unwrap();
    }
    let state = || (state_of(&dir.join("from")), dir.join("from").metadata().unwrap().mtime_nsec());
    let before = state();
    let into = |target: &str| format!("cannot copy a directory, 'from', into itself, '{target}'");
    let removed = "nothing is removed from 'to/other/here', because the source, 'from', is in it";
    for ranks in [1, 3] {
        for (mount, command, told) in [
            // Under a name that the source has too, or has not, and as the target itself.
            ("from/part to/same", "sync from to", into("to/same")),
            ("from/part to/same", "cp -aT from to", into("to/same")),
            ("from/part to/other/here", "sync --delete from to", removed.to_owned()),
            ("from/part/deep top", "sync --delete from top", into("top")),
            ("from/part/deep top", "cp -aT from top", into("top")),
        ] {
            let script = format!("mount --bind {mount}; $MPI {command}");
            let refused = in_namespace(dir, ranks, &script);
            assert_eq!(refused.status.code(), Some(1), "{command}: {refused:?}");
            assert_eq!(refused.stderr.matches(&told).count(), 1, "{command}: {refused:?}");
            assert_eq!(state(), before, "{command}: {refused:?}");
        }
        assert!(dir.join("to/part/deep/file").exists());
    }
}

#[test]
fn a_dry_run_tells_which_names_become_links() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    for name in ["from/d", "from/new", "to/d"] {
        fs::create_dir_all(dir.join(name)).unwrap();
    }
    let groups = [["a1", "a2"], ["d/c1", "c2"], ["e1", "d/e2"], ["new/g1", "new/g2"], ["h1", "h2"]];
    for [one, other] in groups {
        fs::write(dir.join("from").join(one), one).unwrap();
        fs::hard_link(dir.join("from").join(one), dir.join("from").join(other)).unwrap();
    }
    symlink("a1", dir.join("from/link")).unwrap();
    // Both are wrong; one is missing and one wrong; both are right, but two files; all is right.
    for name in ["a1", "a2", "c2"] {
        fs::write(dir.join("to").join(name), "wrong").unwrap();
    }
    run(Command::new("cp").args(["-p", "from/e1", "to/e1"]).current_dir(dir));
    run(Command::new("cp").args(["-p", "from/d/e2", "to/d/e2"]).current_dir(dir));
    run(Command::new("cp").args(["-a", "from/h1", "from/h2", "to"]).current_dir(dir));
    let lines = |output: &Output| {
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        // Either of two files that are right becomes the link.
        let mut lines: Vec<String> =
            output.stdout.lines().map(|line| line.replace("d/e2", "e1")).collect();
        lines.sort();
        lines
    };
    let planned = [1, 3].map(|ranks| lines(&sync(dir, ranks, &["--dry-run", "from", "to"])));
    let done = lines(&sync(dir, 3, &["-v", "from", "to"]));
    assert_eq!(planned, [done.clone(), done.clone()]);
    assert_same(dir, "from", "to");
    for (name, count) in [("a1", 1), ("a2", 1), ("d/c1", 1), ("c2", 1), ("e1", 1), ("new/g2", 1)] {
        let line = format!("'from/{name}' -> 'to/{name}'");
        assert_eq!(done.iter().filter(|told| **told == line).count(), count, "{done:?}");
    }
    assert!(!done.iter().any(|line| line.contains("/h")), "{done:?}");
}

/// Makes a target like its source, with a journal.
const LARGE: [&str; 8] =
    ["--journal", "journal", "--receipt", "receipt", "--limit", "40M", "from", "to"];

/// Kills it once so many pieces are noted; returns how many are then.
fn kill_large(dir: &Path, pieces: u64) -> u64 {
    let job = start(dir, &LARGE);
    until("pieces are noted", || pieces_noted(&dir.join("journal")) >= pieces);
    ranks_of(job.id()).iter().for_each(|rank| signal(*rank, rustix::process::Signal::KILL));
    assert!(!job.wait_with_output().unwrap().status.success());
    pieces_noted(&dir.join("journal"))
}

/// Completes it; returns how many bytes were written.
fn complete_large(dir: &Path, ranks: u32) -> u64 {
    let done = sync(dir, ranks, &LARGE);
    assert!(done.status.success(), "{done:?}");
    assert_same(dir, "from", "to");
    written(&fs::read_to_string(dir.join("receipt")).unwrap())
}

#[test]
fn a_large_file_that_was_cut_short_is_gone_on_in() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    fs::create_dir_all(dir.join("from")).unwrap();
    random_file(dir.join("from/large"), 30 * SMALL_PIECE, 5);
    let sh = |script: &str| {
        let done = run(Command::new("sh").args(["-ec", script]).current_dir(dir));
        assert!(done.status.success(), "{done:?}");
    };
    let target = || dir.join("to/large");
    // Another file may get the same inode number.
    let born = || target().metadata().and_then(|found| found.created()).ok();
    // What a target may get from its directory, or from somebody else.
    sh("mkdir to; setfacl -m d:u:12:rwx to; setfattr -n user.x -v y from/large");
    let noted = kill_large(dir, 3);
    let before = born();
    sh("setfattr -n user.other -v z to/large");
    assert_eq!(complete_large(dir, 3), (30 - noted) * SMALL_PIECE, "{noted} pieces were noted");
    assert_eq!((born(), complete_large(dir, 2)), (before, 0));
    let is_made_again = |change: &str| {
        let before = born();
        sh(change);
        let job = start(dir, &LARGE);
        until("it is made again", || born().is_some_and(|born| Some(born) != before));
        ranks_of(job.id()).iter().for_each(|rank| signal(*rank, rustix::process::Signal::KILL));
        job.wait_with_output().unwrap();
    };
    // One that was complete is not gone on in, nor one that is shorter, or has a name more.
    is_made_again("printf harm | dd of=to/large bs=1000 seek=1 conv=notrunc status=none");
    for change in ["truncate -s 1 to/large", "ln to/large other"] {
        sh("rm -r to journal");
        assert!(kill_large(dir, 1) < 30);
        is_made_again(change);
    }
}
