//! Loads that list and change names.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, RawDir};

use super::model::Operation;

/// So many files are made, renamed or removed, at most.
const FILES_MAX: usize = 300;

/// Bytes of the buffer of a call that lists a directory, as libraries have it.
const LISTED_BYTES: usize = 32 << 10;

/// Runs a load in a new directory within `dir`, which it removes. Returns the seconds of a call,
/// and the number of calls.
pub(super) fn measure(dir: &Path, operation: Operation, limit: Duration) -> io::Result<(f64, u64)> {
    let names = dir.join("names");
    fs::create_dir(&names)?;
    let measured = Names { dir: names.clone(), limit }.measure(operation);
    fs::remove_dir_all(names)?;
    measured
}

struct Names {
    dir: PathBuf,
    limit: Duration,
}

impl Names {
    fn path(&self, number: usize) -> PathBuf {
        self.dir.join(format!("file-{number:03}"))
    }

    fn make(&self, number: usize) -> io::Result<()> {
        File::options().write(true).create_new(true).open(self.path(number)).map(drop)
    }

    fn measure(&self, operation: Operation) -> io::Result<(f64, u64)> {
        if operation == Operation::Create {
            return self.timed(|number| self.make(number));
        }
        (0..FILES_MAX).try_for_each(|number| self.make(number))?;
        match operation {
            Operation::Rename => self.timed(|number| {
                let path = self.path(number);
                fs::rename(&path, path.with_extension("new"))
            }),
            Operation::Remove => self.timed(|number| fs::remove_file(self.path(number))),
            Operation::Change => {
                let mode = Mode::RUSR | Mode::WUSR;
                self.timed(|number| Ok(rustix::fs::chmod(self.path(number), mode)?))
            }
            _ => self.listing(),
        }
    }

    /// The time of a call for each file, as far as the limit allows.
    fn timed(&self, call: impl Fn(usize) -> io::Result<()>) -> io::Result<(f64, u64)> {
        let (mut calls, began) = (0, Instant::now());
        for number in 0..FILES_MAX {
            call(number)?;
            calls += 1;
            if began.elapsed() > self.limit {
                break;
            }
        }
        Ok((began.elapsed().as_secs_f64() / calls as f64, calls))
    }

    fn listing(&self) -> io::Result<(f64, u64)> {
        let mut buffer = Vec::with_capacity(LISTED_BYTES);
        let (mut calls, mut spent, began) = (0, Duration::ZERO, Instant::now());
        while calls == 0 || began.elapsed() < self.limit {
            let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
            let directory = rustix::fs::open(&self.dir, flags, Mode::empty())?;
            let start = Instant::now();
            let mut list = RawDir::new(directory.as_fd(), buffer.spare_capacity_mut());
            while let Some(entry) = list.next() {
                entry?;
            }
            spent += start.elapsed();
            // All names fit into the buffer; the second call finds the end.
            calls += 2;
        }
        Ok((spent.as_secs_f64() / calls as f64, calls))
    }
}
