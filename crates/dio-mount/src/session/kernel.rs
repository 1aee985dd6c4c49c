//! Mounts by `mount(2)`, or through `fusermount3` if this process lacks the privilege. Both return
//! the device of one mount.

use std::ffi::CString;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use dio_sys::fd_path;
use rustix::fs::{FileType, Mode, OFlags, fstatvfs, open};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{geteuid, getgid, getuid};

use super::table::KIND;
use super::{MountError, MountTarget, flags};
use crate::errno::errno_of;
use crate::options::MountOptions;

const DEVICE: &str = "/dev/fuse";

/// The names of the program that mounts for users, of libfuse 3 and of libfuse 2. The absolute
/// paths are for a PATH that does not contain it.
const FUSERMOUNT: &[&str] =
    &["fusermount3", "/usr/bin/fusermount3", "/bin/fusermount3", "fusermount", "/bin/fusermount"];

/// Mounts, and returns the device from which the requests of this mount are read.
pub(super) fn mount(target: &MountTarget, options: &MountOptions) -> Result<OwnedFd, MountError> {
    // Root of a user namespace of its own can mount there; users who are not root cannot mount
    // anywhere.
    if geteuid().is_root() {
        match by_ourselves(target, options) {
            Err(MountError::Mount { errno: Errno::PERM, .. }) => {}
            other => return other,
        }
    }
    by_fusermount(target, options)
}

/// Whether threads can open the device again for themselves.
pub(super) fn can_clone() -> bool {
    open_device().is_ok()
}

fn open_device() -> Result<OwnedFd, Errno> {
    open(DEVICE, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
}

fn by_ourselves(target: &MountTarget, options: &MountOptions) -> Result<OwnedFd, MountError> {
    let device = open_device().map_err(|errno| MountError::Device { errno })?;
    let failed = |errno| MountError::Mount { path: target.mountpoint.clone(), errno };
    let data = format!(
        "fd={},rootmode={:o},user_id={},group_id={}{}",
        device.as_raw_fd(),
        FileType::Directory.as_raw_mode(),
        getuid().as_raw(),
        getgid().as_raw(),
        flags::data(options),
    );
    let data = CString::new(data).map_err(|_| failed(Errno::INVAL))?;
    // By descriptor: the path may lead to another directory by now.
    let point = fd_path(&target.point);
    let below = fstatvfs(&target.source).map_err(failed)?.f_flag;
    let flags = flags::of(options, below);
    rustix::mount::mount(options.source_name.as_str(), point, KIND, flags, data.as_c_str())
        .map_err(failed)?;
    Ok(device)
}

/// Mounts by `fusermount3`, which passes the open device through a socket. It finds the socket's
/// descriptor number in the environment. The socket is its standard input, a descriptor that a
/// child has anyway.
fn by_fusermount(target: &MountTarget, options: &MountOptions) -> Result<OwnedFd, MountError> {
    let failed = |errno| MountError::Mount { path: target.mountpoint.clone(), errno };
    let list = flags::for_users(options, fstatvfs(&target.source).map_err(failed)?.f_flag)?;
    let (ours, theirs) = UnixStream::pair().map_err(|error| failed(errno_of(error)))?;
    let said = fusermount(|command| {
        let theirs = theirs.try_clone()?;
        command.args(["-o", &list, "--"]).arg(&target.mountpoint);
        command.env("_FUSE_COMMFD", "0").stdin(Stdio::from(OwnedFd::from(theirs)));
        Ok(())
    });
    drop(theirs);
    match said {
        Ok(output) if output.status.success() => received(&ours).map_err(failed),
        Ok(output) => Err(refusal(&target.mountpoint, &output)),
        Err(Errno::NOENT) => Err(MountError::Permission { path: target.mountpoint.clone() }),
        Err(errno) => Err(failed(errno)),
    }
}

/// Unmounts a mount that the user made through `fusermount3`.
pub(super) fn unmount_by_fusermount(mountpoint: &Path, lazy: bool) -> Result<(), MountError> {
    let said = fusermount(|command| {
        command.arg("-u").args(lazy.then_some("-z")).arg("--").arg(mountpoint).stdin(Stdio::null());
        Ok(())
    });
    match said {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => match refusal(mountpoint, &output) {
            MountError::Refused { said, path } if said.contains("busy") => {
                Err(MountError::Busy { path })
            }
            refused => Err(refused),
        },
        Err(_) => Err(MountError::Unmount { path: mountpoint.to_path_buf(), errno: Errno::PERM }),
    }
}

/// Runs the first program of [`FUSERMOUNT`] that exists; `NOENT` if none does.
fn fusermount(mut prepare: impl FnMut(&mut Command) -> io::Result<()>) -> Result<Output, Errno> {
    for program in FUSERMOUNT {
        let mut command = Command::new(program);
        command.env("LC_ALL", "C").stdout(Stdio::null()).stderr(Stdio::piped());
        prepare(&mut command).map_err(errno_of)?;
        match command.output() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => return other.map_err(errno_of),
        }
    }
    Err(Errno::NOENT)
}

/// Makes an error from the program's message, without the program's name.
fn refusal(mountpoint: &Path, output: &Output) -> MountError {
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said.lines().last().unwrap_or("fusermount3 failed without a word");
    let said = line.split_once(": ").map_or(line, |(_, said)| said).to_owned();
    MountError::Refused { path: mountpoint.to_path_buf(), said }
}

/// Receives the descriptor that was sent through the socket.
fn received(socket: &UnixStream) -> Result<OwnedFd, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    // The program has ended, so the message must have arrived.
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, flags)?;
    let passed = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    passed.ok_or(Errno::PROTO)
}
