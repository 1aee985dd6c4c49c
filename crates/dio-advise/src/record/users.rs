//! The processes that use files below a directory.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use dio_common::processes;
use nix::sys::fanotify::{EventFFlags, Fanotify, InitFlags, MarkFlags, MaskFlags};
use rustix::fs::CWD;

use super::running::Running;
use crate::watch::Watcher;

/// Whoever opens a file below a directory, from some time on, and whoever has one open then.
#[derive(Debug)]
pub(super) struct DirectoryUsers {
    directory: PathBuf,
    events: Fanotify,
    watched: HashMap<u32, Running>,
}

impl DirectoryUsers {
    /// Begins to look for the users of a directory.
    ///
    /// # Errors
    /// That it does not exist, or of `fanotify(7)`: it needs CAP_SYS_ADMIN.
    pub(super) fn of(directory: &Path) -> io::Result<DirectoryUsers> {
        let directory = fs::canonicalize(directory)?;
        let flags = InitFlags::FAN_CLASS_NOTIF
            | InitFlags::FAN_NONBLOCK
            | InitFlags::FAN_CLOEXEC
            | InitFlags::FAN_UNLIMITED_QUEUE;
        let events = Fanotify::init(flags, EventFFlags::O_RDONLY | EventFFlags::O_LARGEFILE)?;
        let mark = MarkFlags::FAN_MARK_ADD | MarkFlags::FAN_MARK_MOUNT;
        events.mark(mark, MaskFlags::FAN_OPEN, CWD, Some(&directory))?;
        Ok(DirectoryUsers { directory, events, watched: HashMap::new() })
    }

    /// The directory, without links.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Watches the processes that have a file below the directory open now.
    ///
    /// # Errors
    /// Those of reading `/proc`. A process that ends meanwhile is none.
    pub(super) fn watch_present(&mut self, watcher: &Watcher) -> io::Result<()> {
        for pid in processes::ids()? {
            let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
            let mut open = open.filter_map(|entry| fs::read_link(entry.path()).ok());
            if open.any(|path| self.is_below(&path)) {
                self.watch(watcher, pid);
            }
        }
        Ok(())
    }

    /// Watches the processes that have opened a file below the directory since the last time, and
    /// passes on the inodes and names of these files: who opened them may end before it is asked.
    pub(super) fn watch_new(&mut self, watcher: &Watcher, mut learn: impl FnMut(u64, &Path)) {
        while let Ok(events) = self.events.read_events() {
            if events.is_empty() {
                return;
            }
            for event in events {
                let Some(fd) = event.fd() else { continue };
                let path = fs::read_link(dio_sys::fd_path(fd)).ok();
                let path = path.filter(|path| self.is_below(path));
                if let (Some(path), Ok(pid)) = (path, u32::try_from(event.pid())) {
                    self.watch(watcher, pid);
                    if let Ok(found) = rustix::fs::fstat(fd) {
                        learn(found.st_ino, &path);
                    }
                }
            }
        }
    }

    /// The directory itself is below it, too: programs that list it begin there.
    fn is_below(&self, path: &Path) -> bool {
        path.starts_with(&self.directory)
    }

    fn watch(&mut self, watcher: &Watcher, pid: u32) {
        let is_known = self.watched.get(&pid).is_some_and(|process| !process.has_ended());
        if is_known || pid == std::process::id() {
            return;
        }
        // It may have ended.
        if let Ok(process) = Running::watch(watcher, pid) {
            self.watched.insert(pid, process);
        }
    }
}
