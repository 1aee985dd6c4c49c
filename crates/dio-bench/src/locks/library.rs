//! Blocks on the library's own locks in those processes of a command that are programs of dio: each
//! reports its own blocks when it ends ([`dio_common::lock_waits`]).

use std::io::{self, Read, Seek};
use std::os::fd::AsRawFd;

use dio::lock::LockClass;
use dio_common::lock_waits::{ProcessWaits, VARIABLE};
use rustix::fs::{MemfdFlags, memfd_create};
use serde::{Deserialize, Serialize};

/// The most bytes of reports that are read.
const MOST: u64 = 16 << 20;

/// Blocks of one kind of lock request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LibraryLockRow {
    /// `read`, `write`, `resize` or `misaligned`.
    pub class: String,
    /// Number of times that a thread was blocked.
    pub blocks: u64,
    /// Blocks per second.
    pub blocks_per_second: f64,
    /// Sum of the times of all waits, in seconds.
    pub waited_seconds: f64,
}

/// The library's locks in the processes of a command.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Library {
    /// Number of processes that reported: programs of dio that ended by themselves.
    pub processes: u64,
    /// Their blocks by class; classes without blocks are left out.
    pub rows: Vec<LibraryLockRow>,
}

/// The file that processes write their reports to. It has no name; they open it through our
/// descriptor in `/proc`.
#[derive(Debug)]
pub(super) struct ReportFile(std::fs::File);

impl ReportFile {
    /// # Errors
    /// Any error of `memfd_create(2)`.
    pub(super) fn new() -> io::Result<ReportFile> {
        Ok(ReportFile(memfd_create("dio-locks", MemfdFlags::CLOEXEC)?.into()))
    }

    /// The environment variable that tells a command where to report.
    pub(super) fn variable(&self) -> (&'static str, String) {
        (VARIABLE, format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd()))
    }

    /// The reports of a run of `seconds` seconds.
    pub(super) fn finish(mut self, seconds: f64) -> Library {
        let mut text = String::new();
        // If the file cannot be read, no process has reported.
        let _ = self.0.rewind().and_then(|()| (&self.0).take(MOST).read_to_string(&mut text));
        summed(&text, seconds)
    }
}

fn summed(text: &str, seconds: f64) -> Library {
    let lines: Vec<ProcessWaits> =
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let row = |class: LockClass| {
        let waits = || {
            lines
                .iter()
                .flat_map(|line| &line.waits)
                .filter(move |waits| waits.class == class.name())
        };
        let blocks = waits().map(|waits| waits.blocks).sum::<u64>();
        let waited_seconds = waits().map(|waits| waits.nanos).sum::<u64>() as f64 / 1e9;
        let blocks_per_second = if seconds > 0.0 { blocks as f64 / seconds } else { 0.0 };
        LibraryLockRow { class: class.name().to_owned(), blocks, blocks_per_second, waited_seconds }
    };
    let rows = LockClass::ALL.into_iter().map(row).filter(|row| row.blocks > 0).collect();
    Library { processes: lines.len() as u64, rows }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write;

    use dio_common::lock_waits::ClassWaits;

    use super::*;

    #[test]
    fn what_processes_tell_is_summed_up_by_class() {
        let ear = ReportFile::new().unwrap();
        let (_, path) = ear.variable();
        let line = |blocks| {
            let waits = vec![ClassWaits { class: "write".to_owned(), blocks, nanos: 500_000_000 }];
            serde_json::to_string(&ProcessWaits { program: "dio cp".to_owned(), pid: 1, waits })
                .unwrap()
                + "\n"
        };
        let text = line(3) + &line(5) + "half a li";
        OpenOptions::new().append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
        let library = ear.finish(2.0);
        assert_eq!(library.processes, 2);
        let expected = LibraryLockRow {
            class: "write".to_owned(),
            blocks: 8,
            blocks_per_second: 4.0,
            waited_seconds: 1.0,
        };
        assert_eq!(library.rows, [expected]);
    }
}
