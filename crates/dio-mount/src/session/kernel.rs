//! Mounting by `mount(2)`, or through `fusermount3` where that takes rights we lack. Both give the
//! device of one mount.

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
use super::{MountError, Place, flags};
use crate::errno::errno_of;
use crate::options::Options;

const DEVICE: &str = "/dev/fuse";

/// The name of the program that mounts for users, with libfuse 3 and with libfuse 2 before it,
/// wherever PATH points.
const FUSERMOUNT: &[&str] =
    &["fusermount3", "/usr/bin/fusermount3", "/bin/fusermount3", "fusermount", "/bin/fusermount"];

/// Mounts, and returns the device through which the kernel hands over the requests of this mount.
pub(super) fn mount(place: &Place, options: &Options) -> Result<OwnedFd, MountError> {
    // A user who is root in a namespace of his own can mount there; one who is not cannot anywhere.
    if geteuid().is_root() {
        match by_ourselves(place, options) {
            Err(MountError::Mount { errno: Errno::PERM, .. }) => {}
            other => return other,
        }
    }
    by_fusermount(place, options)
}

/// Whether threads can open the device once more for themselves.
pub(super) fn can_clone() -> bool {
    open_device().is_ok()
}

fn open_device() -> Result<OwnedFd, Errno> {
    open(DEVICE, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
}

fn by_ourselves(place: &Place, options: &Options) -> Result<OwnedFd, MountError> {
    let device = open_device().map_err(|errno| MountError::Device { errno })?;
    let failed = |errno| MountError::Mount { path: place.mountpoint.clone(), errno };
    let data = format!(
        "fd={},rootmode={:o},user_id={},group_id={}{}",
        device.as_raw_fd(),
        FileType::Directory.as_raw_mode(),
        getuid().as_raw(),
        getgid().as_raw(),
        flags::data(options),
    );
    let data = CString::new(data).map_err(|_| failed(Errno::INVAL))?;
    // By descriptor: the name may mean something else by now.
    let point = fd_path(&place.point);
    let below = fstatvfs(&place.source).map_err(failed)?.f_flag;
    let flags = flags::of(options, below);
    rustix::mount::mount(options.source_name.as_str(), point, KIND, flags, data.as_c_str()).map_err(failed)?;
    Ok(device)
}

/// `fusermount3` mounts and passes the open device through a socket, whose number it finds in the
/// environment. It gets the socket for its standard input, which a child has anyway.
fn by_fusermount(place: &Place, options: &Options) -> Result<OwnedFd, MountError> {
    let failed = |errno| MountError::Mount { path: place.mountpoint.clone(), errno };
    let list = flags::for_users(options, fstatvfs(&place.source).map_err(failed)?.f_flag)?;
    let (ours, theirs) = UnixStream::pair().map_err(|error| failed(errno_of(error)))?;
    let said = fusermount(|command| {
        let theirs = theirs.try_clone()?;
        command.args(["-o", &list, "--"]).arg(&place.mountpoint);
        command.env("_FUSE_COMMFD", "0").stdin(Stdio::from(OwnedFd::from(theirs)));
        Ok(())
    });
    drop(theirs);
    match said {
        Ok(output) if output.status.success() => received(&ours).map_err(failed),
        Ok(output) => Err(refusal(&place.mountpoint, &output)),
        Err(Errno::NOENT) => Err(MountError::Permission { path: place.mountpoint.clone() }),
        Err(errno) => Err(failed(errno)),
    }
}

/// Unmounts as the user who mounted through `fusermount3`.
pub(super) fn unmount_by_fusermount(mountpoint: &Path, lazy: bool) -> Result<(), MountError> {
    let said = fusermount(|command| {
        command.arg("-u").args(lazy.then_some("-z")).arg("--").arg(mountpoint).stdin(Stdio::null());
        Ok(())
    });
    match said {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => match refusal(mountpoint, &output) {
            MountError::Refused { said, path } if said.contains("busy") => Err(MountError::Busy { path }),
            refused => Err(refused),
        },
        Err(_) => Err(MountError::Unmount { path: mountpoint.to_path_buf(), errno: Errno::PERM }),
    }
}

/// Runs the first of [`FUSERMOUNT`] that is there; `NOENT` if none is.
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

/// Its message without its name.
fn refusal(mountpoint: &Path, output: &Output) -> MountError {
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said.lines().last().unwrap_or("fusermount3 failed without a word");
    let said = line.split_once(": ").map_or(line, |(_, said)| said).to_owned();
    MountError::Refused { path: mountpoint.to_path_buf(), said }
}

/// The descriptor that lies in the socket.
fn received(socket: &UnixStream) -> Result<OwnedFd, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    // The program has ended: what it had to send is there.
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, flags)?;
    let passed = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    passed.ok_or(Errno::PROTO)
}
