//! The directories that relative paths begin in: followed from call to call, because a process that
//! has ended cannot be asked any more.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

/// The working directory and the open directories of each process that was seen.
#[derive(Debug)]
pub(super) struct Directories {
    /// Where this process is, and so the command when it starts.
    own: PathBuf,
    processes: HashMap<u32, Process>,
}

#[derive(Clone, Debug)]
struct Process {
    working: PathBuf,
    /// By descriptor. One that was closed stays until its number is used again.
    open: HashMap<u32, PathBuf>,
}

impl Process {
    /// A process that is seen for the first time and may still run: one that made the command, or
    /// that ran before it was watched.
    fn running(pid: u32, own: &Path) -> Process {
        let proc = PathBuf::from(format!("/proc/{pid}"));
        let working = fs::read_link(proc.join("cwd")).unwrap_or_else(|_| own.to_owned());
        let mut open = HashMap::new();
        for entry in fs::read_dir(proc.join("fd")).into_iter().flatten().flatten() {
            let fd = entry.file_name().to_str().and_then(|name| name.parse().ok());
            let is_directory = fs::metadata(entry.path()).is_ok_and(|file| file.is_dir());
            if let (Some(fd), true, Ok(path)) = (fd, is_directory, fs::read_link(entry.path())) {
                open.insert(fd, path);
            }
        }
        Process { working, open }
    }
}

impl Directories {
    pub(super) fn new() -> Directories {
        let own = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        Directories { own, processes: HashMap::new() }
    }

    fn of(&mut self, pid: u32) -> &mut Process {
        let own = &self.own;
        self.processes.entry(pid).or_insert_with(|| Process::running(pid, own))
    }

    /// A process makes a child, or a thread, which is no process of its own.
    pub(super) fn fork(&mut self, pid: u32, child: u32) {
        if child != pid {
            let copy = self.of(pid).clone();
            self.processes.insert(child, copy);
        }
    }

    /// The path of a file that a process opened by `path`, which begins in its directory `base`, or
    /// in the working directory.
    pub(super) fn absolute(&mut self, pid: u32, base: Option<u32>, path: &[u8]) -> Vec<u8> {
        let process = self.of(pid);
        let base = base.map_or(Some(&process.working), |fd| process.open.get(&fd));
        let path = Path::new(OsStr::from_bytes(path));
        // Where the directory is not known, the path says what it can.
        let path = base.map_or_else(|| path.to_owned(), |base| base.join(path));
        plain(&path).into_os_string().into_vec()
    }

    /// A process opened a directory.
    pub(super) fn opened(&mut self, pid: u32, fd: u32, path: &[u8]) {
        self.of(pid).open.insert(fd, Path::new(OsStr::from_bytes(path)).to_owned());
    }

    /// A process got another descriptor of a file.
    pub(super) fn duplicate(&mut self, pid: u32, old: u32, new: u32) {
        let open = &mut self.of(pid).open;
        match open.get(&old).cloned() {
            Some(path) => open.insert(new, path),
            None => open.remove(&new),
        };
    }

    /// A process changed its working directory.
    pub(super) fn change(&mut self, pid: u32, path: &[u8]) {
        let process = self.of(pid);
        process.working = process.working.join(OsStr::from_bytes(path));
    }

    /// A process changed its working directory to one that it had open.
    pub(super) fn change_to_open(&mut self, pid: u32, fd: u64) {
        let process = self.of(pid);
        if let Some(path) = process.open.get(&(fd as u32)) {
            process.working.clone_from(path);
        }
    }
}

/// A path without the components that say nothing, and without `..`, where that is possible.
/// Programs that walk trees open the directory above a directory by `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        let has_name = matches!(plain.components().next_back(), Some(Component::Normal(_)));
        if component == Component::ParentDir && has_name {
            plain.pop();
        } else {
            plain.push(component);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_begin_where_the_process_is() {
        let working = Process { working: "/home".into(), open: HashMap::new() };
        let processes = HashMap::from([(1, working)]);
        let mut directories = Directories { own: "/".into(), processes };
        let at = |directories: &mut Directories, pid, base, path: &str| {
            String::from_utf8(directories.absolute(pid, base, path.as_bytes())).unwrap()
        };
        assert_eq!(at(&mut directories, 1, None, "a"), "/home/a");
        directories.change(1, b"here");
        directories.opened(1, 3, b"/srv");
        directories.duplicate(1, 3, 9);
        assert_eq!(at(&mut directories, 1, Some(9), "../home/./b"), "/home/b");
        directories.duplicate(1, 7, 8);
        assert_eq!(at(&mut directories, 1, Some(9), "a"), "/srv/a");
        assert_eq!(at(&mut directories, 1, Some(8), "a"), "a");
        directories.fork(1, 2);
        directories.fork(1, 1);
        directories.change(1, b"/elsewhere");
        assert_eq!(at(&mut directories, 1, None, "a"), "/elsewhere/a");
        assert_eq!(at(&mut directories, 2, None, "a"), "/home/here/a");
        assert_eq!(at(&mut directories, 2, None, "/a"), "/a");
        assert_eq!(at(&mut directories, 2, Some(3), "b/c"), "/srv/b/c");
        assert_eq!(at(&mut directories, 2, Some(4), "b"), "b");
        directories.change_to_open(2, 3);
        assert_eq!(at(&mut directories, 2, None, "a"), "/srv/a");
    }
}
