//! Tests of open files without a kernel above them: the tests send what it would send.

mod beside;
mod change;
mod faults;
mod model;
mod parallel;

use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dio::lock::LockPolicy;
use rustix::fs::OFlags;
use rustix::io::Result;

use super::interface::WriteProperties;
use super::modes::KernelRoute;
use super::shared::Backing;
use super::{Files, Opened};
use crate::options::{Live, Mode, Rules, Settings, ThrottleSettings};
use crate::stats::{Event, Stats};

/// Settings with read-ahead and write-behind on, and low limits.
pub(super) fn settings() -> Settings {
    Settings {
        rules: Rules { rules: Vec::new(), default: Mode::Direct },
        read_ahead: (64 << 10, 4 << 20),
        write_behind: 4 << 20,
        direct_from: 256 << 10,
        limit: 64 << 20,
        gather: false,
        native: false,
        throttle: ThrottleSettings::default(),
    }
}

/// A plain write.
const PLAIN: WriteProperties =
    WriteProperties { flags: OFlags::empty(), cache: false, kill_privileges: false };

/// The files of a directory, named by small numbers.
struct Bench {
    files: Files,
    stats: Arc<Stats>,
    directory: PathBuf,
}

impl Bench {
    fn new(
        directory: &std::path::Path,
        settings: Settings,
        policy: LockPolicy,
        passthrough: bool,
    ) -> Bench {
        let stats = Stats::new();
        let files = Files::new(
            Live::new(settings),
            policy,
            Arc::clone(&stats),
            passthrough,
            Arc::default(),
        );
        Bench { files, stats, directory: directory.to_owned() }
    }

    fn path(&self, ino: u64) -> PathBuf {
        self.directory.join(ino.to_string())
    }

    fn opener(&self, ino: u64) -> impl Fn(OFlags) -> Result<OwnedFd> {
        let path = self.path(ino);
        move |flags| rustix::fs::open(&path, flags | OFlags::CLOEXEC, rustix::fs::Mode::empty())
    }

    /// An open of the superuser.
    fn wanted(ino: u64, path: &Path) -> super::Wanted<'_> {
        super::Wanted { ino, path, user: 0 }
    }

    fn open(&self, ino: u64, flags: OFlags, mode: Mode) -> Result<u64> {
        let fd = super::descriptors::open_for(&self.opener(ino), flags)?;
        let opening = self.files.0.open_request(mode, flags);
        let opened: Opened =
            self.files
                .0
                .enter(&Bench::wanted(ino, &self.path(ino)), fd, opening, &|_| Ok(Backing(None)))?;
        Ok(opened.handle)
    }

    fn route(&self, handle: u64) -> KernelRoute {
        self.files.0.handle(handle).unwrap().route
    }

    /// Whether the kernel does the I/O of a handle itself.
    fn is_by_the_kernel(&self, handle: u64) -> bool {
        matches!(self.route(handle), KernelRoute::Source | KernelRoute::Native)
    }

    /// Reads as a program does. For a handle that is passed through, this reads the page cache of
    /// the source, as the kernel would.
    fn read(&self, handle: u64, ino: u64, offset: u64, size: u32) -> Result<Vec<u8>> {
        if self.is_by_the_kernel(handle) {
            let mut bytes = vec![0; size as usize];
            let file = std::fs::File::open(self.path(ino)).unwrap();
            let mut done = 0;
            while done < bytes.len() {
                match file.read_at(&mut bytes[done..], offset + done as u64).unwrap() {
                    0 => break,
                    count => done += count,
                }
            }
            bytes.truncate(done);
            return Ok(bytes);
        }
        let mut answer = None;
        let cache = self.route(handle) == KernelRoute::Cache;
        self.files
            .read(handle, offset, size, cache, |result| answer = Some(result.map(<[u8]>::to_vec)));
        answer.expect("every read is answered")
    }

    fn write(
        &self,
        handle: u64,
        ino: u64,
        offset: u64,
        bytes: &[u8],
        how: WriteProperties,
    ) -> Result<u32> {
        if self.is_by_the_kernel(handle) {
            let file = std::fs::File::options().write(true).open(self.path(ino)).unwrap();
            file.write_all_at(bytes, offset).unwrap();
            return Ok(bytes.len() as u32);
        }
        let (tell, told) = std::sync::mpsc::channel();
        self.files.write(handle, offset, bytes, how, move |outcome| tell.send(outcome).unwrap());
        told.recv().expect("every write is answered")
    }

    fn events(&self, event: Event) -> u64 {
        self.stats.snapshot().total.events.get(event)
    }
}
