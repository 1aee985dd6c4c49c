//! How this process opens objects: by their names, unless these lead through a mount that it serves
//! itself.
//!
//! A server that opened a file below its own mount would wait for itself. Two servers that each
//! have objects below the mount of the other would wait for each other. Therefore a thread that
//! opens objects has a special name, and a thread that answers a request of such a thread does not
//! open objects itself.

use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use dio_sys::fd_path;
use parking_lot::RwLock;
use rustix::io::Errno;

static REDIRECTS: RwLock<Vec<(PathBuf, Weak<OwnedFd>)>> = RwLock::new(Vec::new());

/// A redirection of paths in this process, which ends when this is dropped.
#[derive(Clone, Debug)]
pub struct PathRedirect(#[expect(dead_code, reason = "it ends with this")] Arc<OwnedFd>);

/// From now on, this process looks up paths below `mounted`, an absolute path without links, below
/// `source`.
pub fn redirect_paths(mounted: &Path, source: OwnedFd) -> PathRedirect {
    let source = Arc::new(source);
    let mut redirects = REDIRECTS.write();
    redirects.retain(|(_, source)| source.strong_count() > 0);
    redirects.push((mounted.to_owned(), Arc::downgrade(&source)));
    PathRedirect(source)
}

/// The name of a thread (`PR_SET_NAME`) while it answers a request for which it opens objects.
const OPENING_OBJECTS: &CStr = c"dio-objects";

thread_local!(static REQUEST: RefCell<Option<Request>> = const { RefCell::new(None) });

struct Request {
    /// Thread ID of the caller that waits for the answer; 0 if it is not visible here.
    caller: u32,
    /// The name that this thread had before it opened objects; `None` if it has not opened any.
    before: Option<CString>,
}

/// Marks that this thread answers a request, until it is dropped.
#[derive(Debug)]
pub struct RequestMark(());

/// Marks that this thread of a server answers a request of the thread `caller`.
#[must_use]
pub fn begin_request(caller: u32) -> RequestMark {
    REQUEST.set(Some(Request { caller, before: None }));
    RequestMark(())
}

impl Drop for RequestMark {
    fn drop(&mut self) {
        if let Some(before) = REQUEST.take().and_then(|request| request.before) {
            // The name was valid before, so it can be set again.
            let _ = rustix::thread::set_name(&before);
        }
    }
}

/// Checks that this thread may open objects, and marks it as opening them.
///
/// # Errors
/// EDEADLK if this thread answers a thread of another server that opens objects: each could wait
/// for the other for ever.
pub(super) fn check_may_open_objects() -> Result<(), Errno> {
    REQUEST.with_borrow_mut(|request| {
        let Some(request) = request.as_mut().filter(|request| request.before.is_none()) else {
            return Ok(());
        };
        let name = std::fs::read(format!("/proc/{}/comm", request.caller)).unwrap_or_default();
        if name.trim_ascii_end() == OPENING_OBJECTS.to_bytes() {
            return Err(Errno::DEADLK);
        }
        let before = rustix::thread::name()?;
        rustix::thread::set_name(OPENING_OBJECTS)?;
        request.before = Some(before);
        Ok(())
    })
}

/// The path by which this process opens a file.
pub(super) fn redirected(path: PathBuf) -> PathBuf {
    let redirects = REDIRECTS.read();
    let leads = |(mounted, source): &(PathBuf, Weak<OwnedFd>)| {
        Some((path.strip_prefix(mounted).ok()?, mounted.as_os_str().len(), source.upgrade()?))
    };
    match redirects.iter().filter_map(leads).max_by_key(|(_, length, _)| *length) {
        Some((rest, _, source)) => fd_path(&*source).join(rest),
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
        assert_eq!(check_may_open_objects(), Ok(()), "nobody asks");
        let first = begin_request(0);
        assert_eq!((check_may_open_objects(), check_may_open_objects()), (Ok(()), Ok(())));
        assert_eq!(&*name(), OPENING_OBJECTS);
        let caller = own();
        let second = std::thread::spawn(move || {
            let _answering = begin_request(caller);
            check_may_open_objects()
        });
        assert_eq!(second.join().unwrap(), Err(Errno::DEADLK));
        drop(first);
        assert_ne!(&*name(), OPENING_OBJECTS);
        let third = std::thread::spawn(move || {
            let _answering = begin_request(caller);
            check_may_open_objects()
        });
        assert_eq!(third.join().unwrap(), Ok(()));
    }

    #[test]
    fn the_nearest_way_is_taken_as_long_as_it_is_there() {
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        std::fs::write(dir.path().join("below"), "text").unwrap();
        let open = || OwnedFd::from(std::fs::File::open(dir.path()).unwrap());
        let (far, near) = (
            redirect_paths(Path::new("/nowhere"), open()),
            redirect_paths(Path::new("/nowhere/near"), open()),
        );
        let read = |name: &str| std::fs::read_to_string(redirected(name.into())).ok();
        assert_eq!(read("/nowhere/near/below").as_deref(), Some("text"));
        assert_eq!(read("/nowhere/below").as_deref(), Some("text"));
        assert_eq!(redirected("/nowhere/nearer".into()).file_name().unwrap(), "nearer");
        assert_eq!(redirected("/elsewhere/below".into()), Path::new("/elsewhere/below"));
        drop(near);
        assert_eq!(read("/nowhere/near/below"), None);
        drop(far);
        assert_eq!(redirected("/nowhere/below".into()), Path::new("/nowhere/below"));
    }
}
