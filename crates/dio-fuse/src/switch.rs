//! Switches of the kernel that count while a mount is made: for requests by io_uring
//! (`Documentation/filesystems/fuse/fuse-io-uring.rst`, Linux 6.14), and for large requests
//! (Linux 6.13).

use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use dio::names::FileId;
use rustix::fs::{FlockOperation, flock};
use rustix::process::geteuid;

/// The switch for requests by io_uring, off by default. Requests of a connection that has agreed on
/// io_uring go on coming so when it is off again (`fuse_uring_cmd`, fs/fuse/dev_uring.c).
const RINGS: &str = "/sys/module/fuse/parameters/enable_uring";

/// The limit for pages of a request, 256 by default. A connection keeps the limit with which it was
/// made (`fuse_conn_init`, fs/fuse/inode.c).
const PAGES: &str = "/proc/sys/fs/fuse/max_pages_limit";

/// Largest request, in bytes, that the kernel sends to a mount that was made while [`SwitchesOn`]
/// existed.
pub const REQUEST_BYTES_MAX: u32 = 4 << 20;

/// Locked while a switch is on. Only root may write to its directory, so nobody else can hold it.
const LOCK: &str = "/run/dio-fuse-io-uring.lock";

/// How often, and how long in between, the lock is asked for while another mount is made.
const TRIES: u32 = 200;
const PAUSE: Duration = Duration::from_millis(10);

/// A switch that gets its old value back when this is dropped.
#[derive(Debug)]
struct Switched {
    path: &'static str,
    before: String,
}

impl Switched {
    /// Writes `value`. Returns `None` if that is not possible.
    fn new(path: &'static str, before: String, value: &str) -> Option<Switched> {
        fs::write(path, value).ok()?;
        Some(Switched { path, before })
    }
}

impl Drop for Switched {
    fn drop(&mut self) {
        let _ = fs::write(self.path, self.before.trim());
    }
}

/// The kernel's switches for requests by io_uring and for large requests, on as long as this
/// exists; then they are as they were before. The fields are in the order in which they end.
#[derive(Debug)]
pub struct SwitchesOn {
    _rings: Option<Switched>,
    _pages: Option<Switched>,
    has_rings: bool,
    _lock: Lock,
}

impl SwitchesOn {
    /// Whether a mount that is made now can have its requests by io_uring.
    pub fn has_rings(&self) -> bool {
        self.has_rings
    }
}

/// The file that is locked, so that no other mount turns a switch off meanwhile.
#[derive(Debug)]
struct Lock(#[expect(dead_code, reason = "it is locked")] File);

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = dio::names::unlink(Path::new(LOCK));
    }
}

/// Pages of a request of [`REQUEST_BYTES_MAX`].
fn pages_max() -> u32 {
    REQUEST_BYTES_MAX / rustix::param::page_size() as u32
}

/// Locks the file, unless it is locked, or was removed by the process that had it locked.
fn locked() -> Option<File> {
    let mut options = File::options();
    let lock = options.write(true).create(true).truncate(false).mode(0o600).open(LOCK).ok()?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive).ok()?;
    let own = FileId::of_open(&lock).ok()?;
    fs::metadata(LOCK).is_ok_and(|found| FileId::of_metadata(&found) == own).then_some(lock)
}

/// Turns the kernel's switches on for a mount that is made while the result exists: the one for
/// large requests, and with `rings` the one for requests by io_uring. Others that turn them on are
/// waited for, two seconds at most. Returns `None` if this process may not turn them on, because it
/// is not root's. A switch that the kernel does not have is passed over. Whether requests come by
/// io_uring, and how large they may be, is shown by the kernel's `FUSE_INIT` request.
#[must_use]
pub fn switch_on(rings: bool) -> Option<SwitchesOn> {
    if !geteuid().is_root() {
        return None;
    }
    // A process holds the lock while it mounts, and no longer.
    let lock = (0..TRIES).find_map(|_| {
        let lock = locked();
        if lock.is_none() {
            sleep(PAUSE);
        }
        lock
    })?;
    let lock = Lock(lock);
    let limit = fs::read_to_string(PAGES).ok();
    let limit = limit.filter(|limit| limit.trim().parse().is_ok_and(|at: u32| at < pages_max()));
    let pages = limit.and_then(|limit| Switched::new(PAGES, limit, &pages_max().to_string()));
    let state = if rings { fs::read_to_string(RINGS).ok() } else { None };
    let is_off = state.as_ref().is_some_and(|state| state.trim() == "N");
    let has_rings = state.is_some();
    let rings = state.filter(|_| is_off).and_then(|state| Switched::new(RINGS, state, "1"));
    let has_rings = has_rings && (!is_off || rings.is_some());
    Some(SwitchesOn { _rings: rings, _pages: pages, has_rings, _lock: lock })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_are_on_while_a_mount_is_made_and_then_as_they_were() {
        let state = |path| fs::read_to_string(path).ok();
        let before = (state(RINGS), state(PAGES));
        let Some(on) = switch_on(true) else {
            return dio_test::skip!("only root may turn the switches on");
        };
        if on.has_rings() {
            assert_eq!(state(RINGS).as_deref(), Some("Y\n"));
        }
        if let Some(limit) = state(PAGES) {
            assert!(limit.trim().parse::<u32>().unwrap() >= pages_max(), "{limit}");
        }
        let first = (on._rings.is_some(), on._pages.is_some());
        // Another mount waits until this one is made.
        let other = std::thread::spawn(|| {
            switch_on(true).map(|on| (on._rings.is_some(), on._pages.is_some()))
        });
        sleep(3 * PAUSE);
        assert!(!on.has_rings() || state(RINGS).as_deref() == Some("Y\n"));
        drop(on);
        assert_eq!(other.join().unwrap(), Some(first));
        assert!(first == (false, false) || before == (state(RINGS), state(PAGES)));
    }
}
