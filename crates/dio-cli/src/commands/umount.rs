//! `dio umount`: unmounts file systems of dio, including those whose server is gone.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use dio_mount::control;
use dio_mount::session::{self, Unmount};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, pidfd_open};

use super::mount::{MountFailure, helper};
use crate::grammar::{Grammar, Program, Refusal, help, hidden, switch, value, version};

/// The longest wait for the end of a server, in seconds: ample for the dirty data it may hold and a
/// slow disk.
const PATIENCE: i64 = 60;

/// The parsed command line.
#[derive(Debug, Default)]
struct UmountArgs {
    mountpoints: Vec<OsString>,
    lazy: bool,
    /// Whether umount(8) called the program.
    by_umount: bool,
    /// The mount namespace to unmount in, as a file.
    namespace: Option<PathBuf>,
}

const DETAILS: &str = "The command returns when everything that programs wrote is in the source. \
                       Mounts whose server is gone can be unmounted too.";

fn grammar() -> Grammar<UmountArgs> {
    Grammar::<UmountArgs>::new("umount", "Unmount directories that dio mounted", DETAILS)
        .literal()
        .flags([
            switch(
                "-l, --lazy",
                "Detach a mount that is in use; it ends with its last user",
                |umount| {
                    umount.lazy = true;
                },
            ),
            hidden(switch("--by-umount", "Called by umount(8)", |umount| umount.by_umount = true)),
            hidden(value("--namespace=FILE", "Unmount in that mount namespace", |umount, file| {
                umount.namespace = Some(file.into());
            })),
            help("-h, --help"),
            version("-V, --version"),
        ])
        .operands(&[("<MOUNTPOINT>...", "Where they are mounted")], |umount, operand| {
            umount.mountpoints.push(operand);
            Ok(())
        })
}

pub(crate) const PROGRAM: Program =
    Program { name: "umount", describe: |_| grammar().describe(), run };

/// Unmounts every operand, even if another fails. The statuses are those of `umount(8)`: 0; 1 for
/// an invalid command line; 32 if something stays mounted.
fn run(_: &str, line: Vec<OsString>) -> ExitCode {
    let args = grammar().resolve(line, |args| match args.mountpoints.is_empty() {
        true => Err(Refusal::usage("MOUNTPOINT is missing")),
        false => Ok(args),
    });
    let args = match args {
        Ok(args) => args,
        Err(status) => return status,
    };
    let name = if args.by_umount { helper::UMOUNT } else { "dio umount" };
    if let Some(Err(failure)) = args.namespace.as_deref().map(helper::enter) {
        return failure.told_by(name);
    }
    let how = if args.lazy { Unmount::Lazy } else { Unmount::Idle };
    let mut status = ExitCode::SUCCESS;
    for mountpoint in args.mountpoints.iter().map(Path::new) {
        if let Err(failure) = unmount(mountpoint, how) {
            status = failure.told_by(name);
        }
    }
    status
}

fn unmount(mountpoint: &Path, how: Unmount) -> Result<(), MountFailure> {
    let mount = session::find(mountpoint)?;
    let server = (how == Unmount::Idle).then(|| server_of(&mount.at)).flatten();
    session::unmount(&mount.at, how)?;
    if let Some(server) = server {
        wait_for(&server);
    }
    Ok(())
}

/// Returns the server of a mount, if it answers.
fn server_of(mountpoint: &Path) -> Option<OwnedFd> {
    let server = control::connect(mountpoint).ok()?.server();
    pidfd_open(server, PidfdFlags::empty()).ok()
}

/// Waits until the server has written everything and ended. The server continues if the mount is
/// visible in another mount namespace, and then there is nothing to wait for.
fn wait_for(server: &OwnedFd) {
    let patience = Timespec { tv_sec: PATIENCE, tv_nsec: 0 };
    // An error, such as a signal whose handler returns, also ends the wait.
    let _ = poll(&mut [PollFd::new(server, PollFlags::IN)], Some(&patience));
}
