//! A process that ran before it was watched.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use dio_common::processes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::watch::Watcher;

/// A process, by a descriptor, which does not become that of another process.
#[derive(Debug)]
pub(super) struct Running {
    pid: u32,
    process: OwnedFd,
}

impl Running {
    /// Watches all threads of a process.
    pub(super) fn watch(watcher: &Watcher, pid: u32) -> io::Result<Running> {
        let id = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
        let process = pidfd_open(id, PidfdFlags::empty())?;
        let mut watched = HashSet::new();
        // A thread that is watched has its new threads watched. One that was not yet may have made
        // some meanwhile, so the list is read until it has nothing new.
        loop {
            let before = watched.len();
            for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
                let name = entry?.file_name();
                let thread = name.to_str().and_then(|name| Pid::from_raw(name.parse().ok()?));
                let Some(thread) = thread.filter(|thread| watched.insert(*thread)) else {
                    continue;
                };
                match watcher.watch_thread(thread, true) {
                    // It has ended.
                    Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => {}
                    done => done?,
                }
            }
            if watched.len() == before {
                return Ok(Running { pid, process });
            }
        }
    }

    /// Its command line.
    pub(super) fn name(&self) -> String {
        let words = processes::command_line(self.pid);
        let words = words.iter().filter(|word| !word.is_empty());
        let words: Vec<_> = words.map(|word| String::from_utf8_lossy(word)).collect();
        format!("process {} ({})", self.pid, words.join(" "))
    }

    pub(super) fn has_ended(&self) -> bool {
        let mut fds = [PollFd::new(&self.process, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|count| count > 0)
    }
}
