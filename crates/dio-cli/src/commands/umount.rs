//! `dio umount`: takes mounts of dio down, also those whose server is gone.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use dio_mount::control;
use dio_mount::session::{self, Unmount};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, pidfd_open};

use super::mount::{Failure, helper};

/// Longest wait for the end of a server, in seconds: ample for the memory it may hold and a slow disk.
const PATIENCE: i64 = 60;

/// Unmount directories that dio mounted
///
/// The command returns when everything that programs wrote is in the source. Mounts whose server is gone can be unmounted too.
#[derive(clap::Args, Clone, Debug)]
pub struct UmountArgs {
    /// Where they are mounted
    #[arg(required = true, value_name = "MOUNTPOINT")]
    mountpoints: Vec<PathBuf>,

    /// Detach a mount that is in use; it ends with its last user
    #[arg(short, long)]
    lazy: bool,

    /// Called by umount(8)
    #[arg(long, hide = true)]
    by_umount: bool,

    /// File of a mount namespace to unmount in
    #[arg(long, hide = true, value_name = "FILE")]
    namespace: Option<PathBuf>,
}

/// Unmounts every operand, whatever becomes of the others; statuses are those of `umount(8)`: 0, 1 for a wrong command line,
/// 32 if something stays mounted.
#[must_use]
pub fn run(args: UmountArgs) -> ExitCode {
    let name = if args.by_umount { helper::UMOUNT } else { "dio umount" };
    if let Some(Err(failure)) = args.namespace.as_deref().map(helper::enter) {
        return failure.told_by(name);
    }
    let how = if args.lazy { Unmount::Lazy } else { Unmount::Idle };
    let mut status = ExitCode::SUCCESS;
    for mountpoint in &args.mountpoints {
        if let Err(failure) = unmount(mountpoint, how) {
            status = failure.told_by(name);
        }
    }
    status
}

fn unmount(mountpoint: &Path, how: Unmount) -> Result<(), Failure> {
    let mount = session::find(mountpoint)?;
    let server = (how == Unmount::Idle).then(|| server_of(&mount.at)).flatten();
    session::unmount(&mount.at, how)?;
    if let Some(server) = server {
        wait_for(&server);
    }
    Ok(())
}

/// The server of a mount, as far as it can be asked.
fn server_of(mountpoint: &Path) -> Option<OwnedFd> {
    let server = control::connect(mountpoint).ok()?.server();
    pidfd_open(server, PidfdFlags::empty()).ok()
}

/// Waits until the server has written everything and ended. It goes on if the mount can be seen elsewhere, from another mount
/// namespace; then there is nothing to wait for.
fn wait_for(server: &OwnedFd) {
    let patience = Timespec { tv_sec: PATIENCE, tv_nsec: 0 };
    // An error (a signal whose handler returns) ends the waiting like its end.
    let _ = poll(&mut [PollFd::new(server, PollFlags::IN)], Some(&patience));
}
