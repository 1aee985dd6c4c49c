//! How this process gets to objects: by their names, unless those lead through a mount that it serves itself.
//!
//! A server that opened a file below its own mount would ask itself, and wait for the answer with the thread that is to give it.
//! So would two servers of which each has objects below the mount of the other: each thread that looks for an object has a name
//! that tells so, and a thread that answers one that has it does not look for objects itself.

use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, Weak};

use rustix::io::Errno;

static WAYS: RwLock<Vec<(PathBuf, Weak<OwnedFd>)>> = RwLock::new(Vec::new());

/// As long as this lives, names below a directory lead through another one, for this process.
#[derive(Clone, Debug)]
pub struct Way(#[expect(dead_code, reason = "it ends with this")] Arc<OwnedFd>);

/// What is below `mounted`, an absolute name without links, is looked for below `source` from now on.
pub fn reach_through(mounted: &Path, source: OwnedFd) -> Way {
    let source = Arc::new(source);
    let mut ways = WAYS.write().unwrap_or_else(PoisonError::into_inner);
    ways.retain(|(_, source)| source.strong_count() > 0);
    ways.push((mounted.to_owned(), Arc::downgrade(&source)));
    Way(source)
}

/// What a thread is called (`PR_SET_NAME`) while it answers a request for which it looks for objects.
const LOOKING: &CStr = c"dio-objects";

thread_local!(static REQUEST: RefCell<Option<Request>> = const { RefCell::new(None) });

struct Request {
    /// The thread that waits for the answer; 0 if it cannot be seen from here.
    caller: u32,
    /// What this thread was called before it looked for objects.
    before: Option<CString>,
}

/// While it lives, this thread answers a request.
#[derive(Debug)]
pub struct Answering(());

/// This thread of a server answers a request of another thread from now on.
#[must_use]
pub fn answer(caller: u32) -> Answering {
    REQUEST.set(Some(Request { caller, before: None }));
    Answering(())
}

impl Drop for Answering {
    fn drop(&mut self) {
        if let Some(before) = REQUEST.take().and_then(|request| request.before) {
            // It was called that before.
            let _ = rustix::thread::set_name(&before);
        }
    }
}

/// Whether this thread may look for objects.
///
/// # Errors
/// `EDEADLK` where it answers a thread of another server that looks for an object: one would lead to the other for ever.
pub(super) fn may_look() -> Result<(), Errno> {
    REQUEST.with_borrow_mut(|request| {
        let Some(request) = request.as_mut().filter(|request| request.before.is_none()) else { return Ok(()) };
        let name = std::fs::read(format!("/proc/{}/comm", request.caller)).unwrap_or_default();
        if name.trim_ascii_end() == LOOKING.to_bytes() {
            return Err(Errno::DEADLK);
        }
        let before = rustix::thread::name()?;
        rustix::thread::set_name(LOOKING)?;
        request.before = Some(before);
        Ok(())
    })
}

/// A name, as this process can use it.
pub(super) fn through(path: PathBuf) -> PathBuf {
    let ways = WAYS.read().unwrap_or_else(PoisonError::into_inner);
    let leads = |(mounted, source): &(PathBuf, Weak<OwnedFd>)| {
        Some((path.strip_prefix(mounted).ok()?, mounted.as_os_str().len(), source.upgrade()?))
    };
    match ways.iter().filter_map(leads).max_by_key(|(_, length, _)| *length) {
        Some((rest, _, source)) => Path::new(&format!("/proc/self/fd/{}", source.as_raw_fd())).join(rest),
        None => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_answers_one_that_looks_for_objects_does_not_look_for_objects() {
        let own = || rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        let name = || rustix::thread::name().unwrap();
        assert_eq!(may_look(), Ok(()), "nobody asks");
        let first = answer(0);
        assert_eq!((may_look(), may_look()), (Ok(()), Ok(())));
        assert_eq!(&*name(), LOOKING);
        let caller = own();
        let second = std::thread::spawn(move || {
            let _answering = answer(caller);
            may_look()
        });
        assert_eq!(second.join().unwrap(), Err(Errno::DEADLK));
        drop(first);
        assert_ne!(&*name(), LOOKING);
        let third = std::thread::spawn(move || {
            let _answering = answer(caller);
            may_look()
        });
        assert_eq!(third.join().unwrap(), Ok(()));
    }

    #[test]
    fn the_nearest_way_is_taken_as_long_as_it_is_there() {
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        std::fs::write(dir.path().join("below"), "text").unwrap();
        let open = || OwnedFd::from(std::fs::File::open(dir.path()).unwrap());
        let (far, near) =
            (reach_through(Path::new("/nowhere"), open()), reach_through(Path::new("/nowhere/near"), open()));
        let read = |name: &str| std::fs::read_to_string(through(name.into())).ok();
        assert_eq!(read("/nowhere/near/below").as_deref(), Some("text"));
        assert_eq!(read("/nowhere/below").as_deref(), Some("text"));
        assert_eq!(through("/nowhere/nearer".into()).file_name().unwrap(), "nearer");
        assert_eq!(through("/elsewhere/below".into()), Path::new("/elsewhere/below"));
        drop(near);
        assert_eq!(read("/nowhere/near/below"), None);
        drop(far);
        assert_eq!(through("/nowhere/below".into()), Path::new("/nowhere/below"));
    }
}
