//! Mounting, serving and unmounting.
//!
//! A [`Place`] is the source and the mount point, both opened before anything is mounted.
//! [`Session`] mounts it (by `mount(2)`, or through `fusermount3` for users), serves it with
//! threads of their own and ends when it is unmounted, by whomever. [`Unmounter`] takes it down
//! from any thread. `table` reads what is mounted; it also knows mounts whose server is gone.

mod error;
pub(crate) mod flags;
mod kernel;
mod place;
pub mod table;
mod unmount;

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use dio_fuse::{BackgroundSession, Filesystem, Notifier, SessionConfig, UserLimits};
use rustix::fs::{Dev, stat};
use rustix::io::Errno;

use crate::options::Options;

pub use error::MountError;
pub use flags::{change_flags, is_kernel_option};
pub use place::Place;
pub use unmount::{Unmount, Unmounter, find, unmount};

/// A connection to the kernel that is served by threads of its own until its mount is gone.
///
/// Dropped, it goes on: only unmounting ends it.
#[derive(Debug)]
pub struct Serving {
    threads: BackgroundSession,
    name: PathBuf,
}

impl Serving {
    /// Serves what was mounted through `device` with `filesystem`. `connected` gets the means to
    /// notify the kernel before the first request comes. With `clone` each thread reads from a
    /// descriptor of its own (`FUSE_DEV_IOC_CLONE`, fuse(4)), for which this process must be able
    /// to open the device.
    pub(crate) fn start<F: Filesystem>(
        device: OwnedFd,
        clone: bool,
        options: &Options,
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

    /// Waits until the mount is gone and everything that was acknowledged is written.
    ///
    /// # Errors
    /// [`MountError::Served`] if serving ended otherwise.
    pub fn wait(self) -> Result<(), MountError> {
        let Serving { threads, name } = self;
        threads.join().map_err(|error| MountError::Served { path: name, error })
    }
}

/// What each user of a shared mount may occupy: three quarters of the threads, and half of `limit=`
/// by requests that wait.
fn user_limits(options: &Options) -> UserLimits {
    let waiting_bytes = usize::try_from(options.settings.limit / 2).unwrap_or(usize::MAX);
    UserLimits { threads: (options.threads * 3 / 4).max(1), waiting_bytes }
}

/// A mount of ours, served until it is unmounted.
///
/// Dropped, it goes on: only unmounting ends it.
#[derive(Debug)]
pub struct Session {
    serving: Serving,
    unmounter: Unmounter,
}

impl Session {
    /// Mounts `place` and serves it with `filesystem`, as [`Serving::start`]; returns when the
    /// mount answers.
    ///
    /// # Errors
    /// See [`MountError`]. Nothing stays mounted then.
    pub(crate) fn start<F: Filesystem>(
        place: &Place,
        options: &Options,
        filesystem: F,
        connected: impl FnOnce(Notifier),
    ) -> Result<Session, MountError> {
        let device = kernel::mount(place, options)?;
        let mut undo = Undo::new(place)?;
        let serving = Serving::start(device, kernel::can_clone(), options, filesystem, connected)?;
        answers(&undo.0.mountpoint, undo.0.device)?;
        Ok(Session { serving, unmounter: undo.disarm() })
    }

    /// Where it is mounted.
    pub fn mountpoint(&self) -> &Path {
        &self.unmounter.mountpoint
    }

    /// The device number of the mount, as `stat(2)` shows it.
    pub fn device(&self) -> Dev {
        self.unmounter.device
    }

    /// What takes the mount down.
    pub fn unmounter(&self) -> Unmounter {
        self.unmounter.clone()
    }

    /// Waits for the end, as [`Serving::wait`].
    ///
    /// # Errors
    /// As [`Serving::wait`].
    pub fn wait(self) -> Result<(), MountError> {
        self.serving.wait()
    }
}

/// Asks the mount for its attributes, as any program would.
fn answers(mountpoint: &Path, device: Dev) -> Result<(), MountError> {
    let errno = match stat(mountpoint) {
        Ok(found) if found.st_dev == device => return Ok(()),
        // Something else was mounted over it meanwhile.
        Ok(_) => Errno::BUSY,
        Err(errno) => errno,
    };
    // Somebody was faster and has unmounted it: it stood, and ends as it does at any later time.
    if table::mounts().is_ok_and(|mounts| mounts.iter().all(|mount| mount.device != device)) {
        return Ok(());
    }
    Err(MountError::Answer { path: mountpoint.to_path_buf(), errno })
}

/// Takes a new mount down again unless it is disarmed.
struct Undo(Unmounter, bool);

impl Undo {
    fn new(place: &Place) -> Result<Undo, MountError> {
        let failed = |error: io::Error| MountError::Mount {
            path: place.mountpoint.clone(),
            errno: Errno::from_io_error(&error).unwrap_or(Errno::NOENT),
        };
        let found = table::mounted_on(&place.mountpoint).and_then(|mount| mount.ok_or(io::ErrorKind::NotFound.into()));
        let device = found.map_err(failed)?.device;
        Ok(Undo(Unmounter { mountpoint: place.mountpoint.clone(), device }, true))
    }

    fn disarm(&mut self) -> Unmounter {
        self.1 = false;
        self.0.clone()
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        if self.1 {
            // There is an error to tell already.
            let _ = self.0.unmount(Unmount::Lazy);
        }
    }
}

#[cfg(test)]
mod tests;
