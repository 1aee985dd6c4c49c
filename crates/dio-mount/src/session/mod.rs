//! Mounting, serving and unmounting.
//!
//! A [`MountTarget`] is the source and the mount point, both opened before anything is mounted.
//! [`MountSession`] mounts it (by `mount(2)`, or through `fusermount3` for users), serves it with
//! threads of its own, and ends when any process unmounts it. [`Unmounter`] unmounts it from any
//! thread. `table` reads the table of mounts, which also contains mounts whose server is gone.

mod error;
pub(crate) mod flags;
mod kernel;
pub mod table;
mod target;
mod unmount;

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use dio_fuse::{BackgroundSession, Filesystem, Notifier, SessionConfig, UserLimits};
use rustix::fs::{Dev, stat};
use rustix::io::Errno;

use crate::options::MountOptions;

pub use error::MountError;
pub use flags::{change_flags, is_kernel_option};
pub use target::MountTarget;
pub use unmount::{Unmount, Unmounter, find, unmount};

/// A connection to the kernel, served by threads of its own until its mount is gone.
///
/// Dropping this does not end it: only unmounting does.
#[derive(Debug)]
pub struct Serving {
    threads: BackgroundSession,
    name: PathBuf,
}

impl Serving {
    /// Serves the mount of `device` with `filesystem`. `connected` receives the notifier before the
    /// first request arrives. With `clone`, each thread reads from a descriptor of its own
    /// (`FUSE_DEV_IOC_CLONE`, fuse(4)); this process must be able to open the device for that.
    pub(crate) fn start<F: Filesystem>(
        device: OwnedFd,
        clone: bool,
        options: &MountOptions,
        filesystem: F,
        connected: impl FnOnce(Notifier),
    ) -> Result<Serving, MountError> {
        let name = PathBuf::from(&options.source_name);
        let failed = |error| MountError::Handshake { path: name.clone(), error };
        let user_limits = options.allow_other.then(|| user_limits(options));
        let config = SessionConfig { threads: options.threads, clone_device: clone, user_limits };
        let session = dio_fuse::Session::from_fd(filesystem, device, config).map_err(failed)?;
        connected(session.notifier());
        let threads = session.spawn().map_err(failed)?;
        Ok(Serving { threads, name })
    }

    /// Waits until the mount is gone and all acknowledged data is written.
    ///
    /// # Errors
    /// [`MountError::Served`] if serving ended for another reason.
    pub fn wait(self) -> Result<(), MountError> {
        let Serving { threads, name } = self;
        threads.join().map_err(|error| MountError::Served { path: name, error })
    }
}

/// The limits for each user of a shared mount: three quarters of the threads, and half of `limit=`
/// for requests that wait.
fn user_limits(options: &MountOptions) -> UserLimits {
    let waiting_bytes = usize::try_from(options.settings.limit / 2).unwrap_or(usize::MAX);
    UserLimits { threads: (options.threads * 3 / 4).max(1), waiting_bytes }
}

/// A mount of this process, served until it is unmounted.
///
/// Dropping this does not end it: only unmounting does.
#[derive(Debug)]
pub struct MountSession {
    serving: Serving,
    unmounter: Unmounter,
}

impl MountSession {
    /// Mounts `target` and serves it with `filesystem`, as [`Serving::start`]; returns when the
    /// mount answers.
    ///
    /// # Errors
    /// See [`MountError`]. Nothing stays mounted then.
    pub(crate) fn start<F: Filesystem>(
        target: &MountTarget,
        options: &MountOptions,
        filesystem: F,
        connected: impl FnOnce(Notifier),
    ) -> Result<MountSession, MountError> {
        let device = kernel::mount(target, options)?;
        let mut undo = Undo::new(target)?;
        let serving = Serving::start(device, kernel::can_clone(), options, filesystem, connected)?;
        answers(&undo.0.mountpoint, undo.0.device)?;
        Ok(MountSession { serving, unmounter: undo.disarm() })
    }

    /// The mount point.
    pub fn mountpoint(&self) -> &Path {
        &self.unmounter.mountpoint
    }

    /// The device number of the mount, as `stat(2)` shows it.
    pub fn device(&self) -> Dev {
        self.unmounter.device
    }

    /// Returns a handle that unmounts this mount.
    pub fn unmounter(&self) -> Unmounter {
        self.unmounter.clone()
    }

    /// Waits for the end, as [`Serving::wait`] does.
    ///
    /// # Errors
    /// As [`Serving::wait`].
    pub fn wait(self) -> Result<(), MountError> {
        self.serving.wait()
    }
}

/// Requests the attributes of the mount, as any program would.
fn answers(mountpoint: &Path, device: Dev) -> Result<(), MountError> {
    let errno = match stat(mountpoint) {
        Ok(found) if found.st_dev == device => return Ok(()),
        // Another file system was mounted over it meanwhile.
        Ok(_) => Errno::BUSY,
        Err(errno) => errno,
    };
    // If another process has unmounted it meanwhile, that is no error: the session then ends as
    // after any later unmount.
    if table::mounts().is_ok_and(|mounts| mounts.iter().all(|mount| mount.device != device)) {
        return Ok(());
    }
    Err(MountError::Answer { path: mountpoint.to_path_buf(), errno })
}

/// Unmounts a new mount when dropped, unless it is disarmed.
struct Undo(Unmounter, bool);

impl Undo {
    fn new(target: &MountTarget) -> Result<Undo, MountError> {
        let failed = |error: io::Error| MountError::Mount {
            path: target.mountpoint.clone(),
            errno: Errno::from_io_error(&error).unwrap_or(Errno::NOENT),
        };
        let found = table::mounted_on(&target.mountpoint)
            .and_then(|mount| mount.ok_or(io::ErrorKind::NotFound.into()));
        let device = found.map_err(failed)?.device;
        Ok(Undo(Unmounter { mountpoint: target.mountpoint.clone(), device }, true))
    }

    fn disarm(&mut self) -> Unmounter {
        self.1 = false;
        self.0.clone()
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        if self.1 {
            // The caller has an error to report already.
            let _ = self.0.unmount(Unmount::Lazy);
        }
    }
}

#[cfg(test)]
mod tests;
