//! How this process gets to objects: by their names, unless those lead through a mount that it serves itself.
//!
//! A server that opened a file below its own mount would ask itself, and wait for the answer with the thread that is to give it.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, Weak};

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
