//! The directory that an archive is extracted into, and the lookup of names in it.
//!
//! Every name of an archive is resolved beneath the directory with `openat2(2)` and
//! `RESOLVE_BENEATH`. Symbolic links are followed as long as they stay inside, and refused (EXDEV)
//! where they leave it, whoever created them. If the kernel does not support `openat2`, or a
//! seccomp filter blocks it, this module resolves names in the same manner, one component at a
//! time. The resulting directories are held by descriptor: every file that is created, changed or
//! removed is a single component in a directory found this way.

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use dio::names::FileId;
use dio::names::{self, path_in};
use dio_sys::fd_path;
use rustix::fs::{
    CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2, readlinkat, stat,
};
use rustix::io::Errno;

use super::names::has_dot_dot;
pub(super) use crate::tool::deep::LONGEST;

/// Symbolic links that may be followed for one name, as in the kernel (`path_resolution(7)`).
const MOST_LINKS: u32 = 40;

/// Attempts at a resolution that other processes keep disturbing (`openat2(2)`: EAGAIN).
const ATTEMPTS: u32 = 64;

/// A directory opened with `O_PATH`: its entries can be used, but not listed.
#[derive(Debug)]
pub(crate) struct Dir {
    fd: OwnedFd,
    /// Device and inode, which identify the directory whatever its path.
    pub(crate) id: FileId,
    /// Whether files created in it are striped; determined before the first one.
    stripes: OnceLock<bool>,
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Dir {
    /// Wraps a directory descriptor.
    pub(super) fn of(fd: OwnedFd) -> Result<Arc<Dir>, Errno> {
        let stat = fstat(&fd)?;
        Ok(Arc::new(Dir { id: FileId::of(&stat), fd, stripes: OnceLock::new() }))
    }

    /// Whether new files in the directory are striped.
    pub(super) fn gives_stripes(&self) -> bool {
        let name = || path_in(self.fd.as_fd(), OsStr::new("."));
        *self.stripes.get_or_init(|| dio::names::has_default(name()))
    }
}

/// The directory that names are relative to.
#[derive(Debug)]
pub(crate) struct Root {
    dir: Arc<Dir>,
    /// `-P`: whether names may lead anywhere.
    anywhere: bool,
    /// Whether `openat2` turned out to be unavailable.
    by_hand: AtomicBool,
}

impl Root {
    /// Opens a directory by a name that the user gave. `anywhere` permits names that lead out of
    /// it.
    ///
    /// # Errors
    /// The errors of `open(2)`.
    pub(crate) fn open(from: impl AsFd, path: &CStr, anywhere: bool) -> Result<Root, Errno> {
        let fd =
            openat(from, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let dir = Dir::of(fd)?;
        // No name can lead out of the root directory.
        let top = stat(c"/").is_ok_and(|top| FileId::of(&top) == dir.id);
        Ok(Root { dir, anywhere: anywhere || top, by_hand: AtomicBool::new(false) })
    }

    /// The directory itself.
    pub(crate) fn dir(&self) -> &Arc<Dir> {
        &self.dir
    }

    /// Opens `path`, relative to this directory.
    ///
    /// # Errors
    /// EXDEV if the path leads out of the directory; the errors of `openat2(2)`.
    pub(crate) fn find(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        // `openat2` rejects flags that have no effect with `O_PATH`.
        let terminal = if flags.contains(OFlags::PATH) { OFlags::empty() } else { OFlags::NOCTTY };
        let flags = flags | OFlags::CLOEXEC | terminal;
        let path = if path.is_empty() { b"." } else { path };
        if self.anywhere {
            return openat(&*self.dir, path, flags, Mode::empty());
        }
        if !self.by_hand.load(Ordering::Relaxed) {
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
            for _ in 0..ATTEMPTS {
                match openat2(&*self.dir, path, flags, Mode::empty(), resolve) {
                    Err(Errno::AGAIN | Errno::INTR) => {}
                    // The call is refused by a seccomp filter, as container runtimes install it, or
                    // missing before Linux 5.6.
                    Err(Errno::NOSYS | Errno::PERM) => {
                        self.by_hand.store(true, Ordering::Relaxed);
                        return self.walk(path, flags);
                    }
                    other => return other,
                }
            }
        }
        self.walk(path, flags)
    }

    /// Opens the directory at `path`, for use as the parent of files.
    ///
    /// # Errors
    /// As [`Root::find`].
    pub(crate) fn find_dir(&self, path: &[u8]) -> Result<Arc<Dir>, Errno> {
        if path.is_empty() {
            return Ok(Arc::clone(&self.dir));
        }
        Dir::of(self.find(path, OFlags::PATH | OFlags::DIRECTORY)?)
    }

    /// Like [`Root::find_dir`]; also returns whether the directory may have other paths, because
    /// the path contains a link or this could not be determined.
    pub(crate) fn find_dir_and_way(&self, path: &[u8]) -> (Result<Arc<Dir>, Errno>, bool) {
        if !path.is_empty() && !self.by_hand.load(Ordering::Relaxed) {
            let inside = if self.anywhere { ResolveFlags::empty() } else { ResolveFlags::BENEATH };
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            match openat2(
                &*self.dir,
                path,
                flags,
                Mode::empty(),
                inside | ResolveFlags::NO_SYMLINKS,
            ) {
                Err(Errno::LOOP | Errno::AGAIN | Errno::INTR | Errno::NOSYS | Errno::PERM) => {}
                found => return (found.and_then(Dir::of), has_dot_dot(path)),
            }
        }
        (self.find_dir(path), true)
    }

    /// Opens a regular file or a directory for reading, and does not follow a link. Devices and
    /// pipes are rejected, because opening them may already have an effect.
    ///
    /// # Errors
    /// As [`Root::find`]; EINVAL for any other type of file.
    pub(crate) fn find_data(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let place = self.find(path, OFlags::PATH | OFlags::NOFOLLOW)?;
        match FileType::from_raw_mode(fstat(&place)?.st_mode) {
            FileType::RegularFile | FileType::Directory => dio_sys::reopen(&place, OFlags::RDONLY),
            _ => Err(Errno::INVAL),
        }
    }

    /// Opens the regular file at `path` and truncates it; links are followed. If a link names a
    /// file that does not exist, the file is created. `None` for other types of files.
    ///
    /// # Errors
    /// As [`Root::find`]; EISDIR for a directory.
    pub(crate) fn overwrite(&self, path: &[u8]) -> Result<Option<OwnedFd>, Errno> {
        let flags =
            OFlags::RDWR | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let found = match self.find(path, OFlags::PATH) {
            Err(Errno::NOENT) => self.make_through(path, flags | OFlags::CREATE)?,
            found => found?,
        };
        match FileType::from_raw_mode(fstat(&found)?.st_mode) {
            FileType::RegularFile => {
                names::openat(CWD, fd_path(&found), flags, Mode::empty()).map(Some)
            }
            FileType::Directory => Err(Errno::ISDIR),
            _ => Ok(None),
        }
    }

    /// Creates the file that the link at `path` names.
    fn make_through(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let private = Mode::from_bits_retain(0o600);
        if self.anywhere {
            return openat(&*self.dir, path, flags, private);
        }
        if self.by_hand.load(Ordering::Relaxed) {
            return Err(Errno::NOENT);
        }
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        for _ in 0..ATTEMPTS {
            match openat2(&*self.dir, path, flags, private, resolve) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                other => return other,
            }
        }
        Err(Errno::AGAIN)
    }

    /// Resolves a path as the kernel does with `RESOLVE_BENEATH`. A `..` returns to the directory
    /// that the walk came from, never to the current parent, so that concurrent renames cannot lead
    /// out.
    fn walk(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        if path.len() >= LONGEST {
            return Err(Errno::NAMETOOLONG);
        }
        let mut through: Vec<OwnedFd> = Vec::new();
        let mut links = 0;
        // The components still to resolve, in reverse order.
        let mut left = Vec::new();
        push(&mut left, path)?;
        let step = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        while let Some(component) = left.pop() {
            let here = through.last().map_or(self.dir.as_fd(), AsFd::as_fd);
            match component.to_bytes() {
                b"." => continue,
                b".." => {
                    through.pop().ok_or(Errno::XDEV)?;
                    continue;
                }
                _ => {}
            }
            let last = left.is_empty();
            if last && flags.contains(OFlags::NOFOLLOW) {
                return openat(here, &*component, flags, Mode::empty());
            }
            let found = openat(here, &*component, step, Mode::empty())?;
            let kind = FileType::from_raw_mode(fstat(&found)?.st_mode);
            match kind {
                FileType::Symlink => {
                    links += 1;
                    if links > MOST_LINKS {
                        return Err(Errno::LOOP);
                    }
                    let target = readlinkat(&found, c"", Vec::new())?;
                    push(&mut left, target.to_bytes())?;
                }
                FileType::Directory => through.push(found),
                _ if last => return reopen(here, &component, flags),
                _ => return Err(Errno::NOTDIR),
            }
        }
        let here = through.last().map_or(self.dir.as_fd(), AsFd::as_fd);
        openat(here, c".", flags, Mode::empty())
    }
}

/// Opens a file that was found not to be a link. If it has become one since, this fails.
fn reopen(dir: BorrowedFd<'_>, name: &CStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    openat(dir, name, flags | OFlags::NOFOLLOW, Mode::empty())
}

/// Pushes the components of `path` onto a stack, with the first on top.
fn push(stack: &mut Vec<CString>, path: &[u8]) -> Result<(), Errno> {
    if path.first() == Some(&b'/') {
        return Err(Errno::XDEV);
    }
    if path.last() == Some(&b'/') {
        stack.push(c".".to_owned());
    }
    for component in path.rsplit(|&byte| byte == b'/').filter(|component| !component.is_empty()) {
        stack.push(CString::new(component).map_err(|_| Errno::INVAL)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Links in the tree and their targets; `OUT` is a directory beside the tree.
    const LINKS: [(&str, &str); 12] = [
        ("l", "d"),
        ("d/up", ".."),
        ("d/e/upup", "../.."),
        ("d/e/out", "../../.."),
        ("abs", "OUT"),
        ("rel", "../out"),
        ("loop", "loop"),
        ("file", "d/f"),
        ("through", "d/e/../../d/./e"),
        ("magic", "/proc/self/root"),
        ("slash", "d/"),
        ("fileslash", "d/f/"),
    ];

    const NAMES: &str = " . d d/ d/e d/e/ l l/e l/f l/up/d d/e/upup/d/f d/e/upup d/e/out \
                         d/e/out/out abs abs/secret rel rel/secret loop loop/x file file/x through \
                         through/.. .. ../in d/../d d/../.. magic magic/etc none none/x d/f/ slash \
                         slash/e fileslash d//e / /d";

    fn id(root: &Root, name: &str, flags: OFlags) -> Result<u64, Errno> {
        root.find(name.as_bytes(), flags).map(|fd| fstat(fd).unwrap().st_ino)
    }

    /// Both implementations of the lookup give the same results.
    #[test]
    fn names_stay_beneath() {
        let scratch = tempfile::tempdir().unwrap();
        let (inside, outside) = (scratch.path().join("in"), scratch.path().join("out"));
        std::fs::create_dir_all(inside.join("d/e")).unwrap();
        std::fs::create_dir_all(&outside).unwrap();
        std::fs::write(inside.join("d/f"), "f").unwrap();
        std::fs::write(outside.join("secret"), "s").unwrap();
        for (name, target) in LINKS {
            symlink(target.replace("OUT", outside.to_str().unwrap()), inside.join(name)).unwrap();
        }
        let path = CString::new(inside.to_str().unwrap()).unwrap();
        let kernel = Root::open(CWD, &path, false).unwrap();
        let hand = Root::open(CWD, &path, false).unwrap();
        hand.by_hand.store(true, Ordering::Relaxed);
        for name in NAMES.split(' ') {
            for flags in [
                OFlags::PATH,
                OFlags::RDONLY,
                OFlags::PATH | OFlags::DIRECTORY,
                OFlags::PATH | OFlags::NOFOLLOW,
                OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK,
            ] {
                assert_eq!(id(&kernel, name, flags), id(&hand, name, flags), "{name:?} {flags:?}");
            }
        }
        let everything = OFlags::PATH | OFlags::DIRECTORY;
        for refused in ["abs", "rel", "d/e/out", "..", "../in", "/", "magic"] {
            assert_eq!(id(&kernel, refused, everything), Err(Errno::XDEV), "{refused}");
        }
        assert!(id(&kernel, "l/up/d", everything).is_ok());
    }
    /// No name can lead out of `/`, so links in it may lead anywhere.
    #[test]
    fn absolute_links_are_followed_in_the_root_directory() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::create_dir(scratch.path().join("d")).unwrap();
        symlink(scratch.path().join("d"), scratch.path().join("l")).unwrap();
        let root = Root::open(CWD, c"/", false).unwrap();
        let path = |name| {
            scratch
                .path()
                .strip_prefix("/")
                .unwrap()
                .join(name)
                .into_os_string()
                .into_encoded_bytes()
        };
        let (direct, _) = root.find_dir_and_way(&path("d"));
        let (linked, through_link) = root.find_dir_and_way(&path("l"));
        assert_eq!((linked.unwrap().id, through_link), (direct.unwrap().id, true));
    }

    #[test]
    fn devices_are_not_opened() {
        let root = Root::open(CWD, c"/dev", false).unwrap();
        assert_eq!(root.find_data(b"null").unwrap_err(), Errno::INVAL);
        assert!(root.find_data(b"").is_ok());
    }
}
