//! The file systems under the tests: loop images and a tmpfs, mounted where only the tests can
//! access them.
//!
//! `test` starts a second instance of this program in a mount and a process namespace of its
//! own. The second instance mounts and runs `cargo test`. When it ends, the kernel kills what is
//! left in the process namespace and drops the mounts with the namespace; the loop devices are
//! set to detach when unmounted, and their images have no name any more. The second instance
//! cannot outlive the first: the kernel sends it SIGKILL when the first one dies of anything.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Error;
use crate::cluster;
use crate::python;
use crate::tool::{cargo, is_root, quiet, tool};

/// Size of each file system, bytes; the images are sparse.
const SIZE: u64 = 1 << 30;

/// One kind of file system to test on.
struct FileSystemKind {
    /// Name of the file system in tests.
    name: &'static str,
    /// The type given to mount(8).
    fstype: &'static str,
    /// The program that formats the image and its options; empty when there is no image.
    format: &'static [&'static str],
    /// Options of the mount.
    options: &'static str,
}

const KINDS: &[FileSystemKind] = &[
    FileSystemKind {
        name: "ext4",
        fstype: "ext4",
        format: &["mkfs.ext4", "-q", "-F"],
        options: "loop",
    },
    FileSystemKind {
        name: "ext4-journal",
        fstype: "ext4",
        format: &["mkfs.ext4", "-q", "-F"],
        options: "loop,data=journal",
    },
    FileSystemKind {
        name: "xfs",
        fstype: "xfs",
        format: &["mkfs.xfs", "-q", "-f", "-m", "reflink=1"],
        options: "loop",
    },
    FileSystemKind {
        name: "btrfs",
        fstype: "btrfs",
        format: &["mkfs.btrfs", "-q", "-f"],
        options: "loop",
    },
    FileSystemKind { name: "tmpfs", fstype: "tmpfs", format: &[], options: "size=1g,mode=1777" },
];

/// The names of the file systems that are mounted for the tests.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|kind| kind.name)
}

/// The file to which the tests write their skips, below the scratch directory.
pub(crate) fn skip_log(dir: &Path) -> PathBuf {
    dir.join("skipped")
}

/// The reason why file systems cannot be mounted privately here, if there is one.
pub(crate) fn obstacle() -> Option<String> {
    if !is_root() {
        return Some("need root".to_owned());
    }
    quiet(private_namespace().arg("true")).err().map(|e| format!("no private mounts: {e}"))
}

/// The beginning of a command line that runs a program in its own mount and process namespace
/// and kills it, with all its descendants, when this process dies.
fn private_namespace() -> Command {
    let mut command = tool("setpriv");
    command.args(["--pdeathsig", "KILL", "unshare", "--mount", "--propagation", "private"]);
    command.args(["--pid", "--fork", "--kill-child", "--mount-proc", "--"]);
    command
}

/// The command that runs the tests of `runner` with `args` and with all temporary files below
/// `dir`. With `mounts`, which is false if there is an [`obstacle`], the tests get mounted file
/// systems.
pub(crate) fn test_command(
    runner: &str,
    dir: &Path,
    mounts: bool,
    args: &[String],
) -> Result<Command, Error> {
    if !mounts {
        return test_on(runner, dir, "", args);
    }
    let mut command = private_namespace();
    command.arg(std::env::current_exe()?).arg("test-inside").arg(runner).arg(dir);
    command.arg("--").args(args);
    Ok(command)
}

/// Mounts everything below `dir` and runs the tests there. Reports every file system that cannot be
/// mounted.
pub(crate) fn test_inside(runner: &str, dir: &Path, args: &[String]) -> Result<bool, Error> {
    let mut list = Vec::new();
    for kind in KINDS {
        match mount(kind, dir) {
            Ok(path) => list.push(format!("{}={}", kind.name, path.display())),
            Err(e) => {
                eprintln!("SKIPPED: file system {}: {e}", kind.name);
                let mut log = OpenOptions::new().create(true).append(true).open(skip_log(dir))?;
                writeln!(log, "file system {}: {e}", kind.name)?;
            }
        }
    }
    println!("file systems: {}", list.join(" "));
    Ok(test_on(runner, dir, &list.join(":"), args)?.status()?.success())
}

fn mount(kind: &FileSystemKind, dir: &Path) -> Result<PathBuf, Error> {
    let place = dir.join(kind.name);
    fs::create_dir(&place)?;
    let mut command = tool("mount");
    command.args(["-t", kind.fstype, "-o", kind.options]);
    let Some((program, options)) = kind.format.split_first() else {
        quiet(command.arg(kind.name).arg(&place))?;
        return Ok(place);
    };
    let image = dir.join(format!("{}.img", kind.name));
    File::create_new(&image)?.set_len(SIZE)?;
    let mounted = quiet(tool(program).args(options).arg(&image))
        .and_then(|()| quiet(command.arg(&image).arg(&place)));
    // The loop device holds the image open. Without a name, the image disappears after the tests.
    fs::remove_file(&image)?;
    mounted.map(|()| place)
}

/// The tests of `runner`, `cargo`, `python` or `cluster`, in the environment that `dio-test`
/// documents.
fn test_on(
    runner: &str,
    dir: &Path,
    file_systems: &str,
    args: &[String],
) -> Result<Command, Error> {
    if dir.to_str().is_none_or(|d| d.contains(':')) {
        return Err(format!("{}: a colon or no UTF-8 in the path", dir.display()).into());
    }
    // Temporary files are below `dir` too, so that tests which are killed leave no files.
    let (host, temporary) = (dir.join("host"), dir.join("tmp"));
    fs::create_dir(&host)?;
    fs::create_dir(&temporary)?;
    let mut command = match runner {
        "python" => python::pytest(args),
        "cluster" => cluster::cargo_test(args),
        _ => cargo_test(args),
    };
    command
        .env("DIO_TEST_FS", file_systems)
        .env("DIO_TEST_DIR", host)
        .env("DIO_SKIP_LOG", skip_log(dir))
        .env("TMPDIR", temporary);
    Ok(command)
}

/// `cargo test` of the whole workspace, unless `args` name a package.
fn cargo_test(args: &[String]) -> Command {
    let mut command = cargo();
    command.arg("test");
    if !args
        .iter()
        .any(|a| matches!(a.as_str(), "-p" | "--package" | "--workspace") || a.starts_with("-p="))
    {
        command.arg("--workspace");
    }
    command.args(["--no-fail-fast", "--color=never"]).args(args);
    command.env("CARGO_TERM_QUIET", "false");
    command
}
