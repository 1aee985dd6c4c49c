//! The load of a server for a while, by class of files.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::files::FileClass;
use super::system::DatabaseSystem;
use crate::trace::{Call, Event, EventSink, FileKind, Request};

/// The requests to the files of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassLoad {
    /// Requests that read.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes that were new to the page cache when they were read, with what was read ahead.
    pub new_to_cache: u64,
    /// Requests that write.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Writes that begin or end within a physical block of the disk.
    pub misaligned_writes: u64,
    /// Requests that were direct.
    pub direct: u64,
    /// Syncs, and writes that were synced by themselves.
    pub syncs: u64,
}

impl ClassLoad {
    /// The part of what was read that the page cache had.
    pub(super) fn cached_part(&self) -> Option<f64> {
        let read = self.read_bytes;
        (read > 0).then(|| 1.0 - (self.new_to_cache.min(read) as f64 / read as f64))
    }
}

/// The load of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DatabaseLoad {
    /// For how long it was watched.
    pub seconds: f64,
    /// By class of files.
    pub classes: BTreeMap<FileClass, ClassLoad>,
    /// Calls that begin I/O which this kernel does not tell of (io_uring, `io_submit`).
    pub unseen: u64,
    /// Calls that came faster than they were counted.
    pub lost: u64,
}

impl DatabaseLoad {
    pub(super) fn of(&self, class: FileClass) -> ClassLoad {
        self.classes.get(&class).copied().unwrap_or_default()
    }
}

/// Counts the requests of a server as they are recorded.
#[derive(Debug)]
pub struct LoadSink {
    system: DatabaseSystem,
    directory: PathBuf,
    physical_block: u64,
    /// The class of each file, by its number; `None` for files that are not the database's.
    files: Vec<Option<FileClass>>,
    /// The calls whose requests are not seen.
    hidden: Vec<Call>,
    load: DatabaseLoad,
}

impl LoadSink {
    /// Counts what is done to files below `directory`, on a disk with physical blocks of so many
    /// bytes.
    pub fn new(system: DatabaseSystem, directory: &Path, physical_block: u64) -> LoadSink {
        let directory = directory.to_owned();
        let physical_block = physical_block.max(1);
        let (files, hidden, load) = Default::default();
        LoadSink { system, directory, physical_block, files, hidden, load }
    }

    /// The counts so far.
    pub fn load(self) -> DatabaseLoad {
        self.load
    }

    fn request(&mut self, request: &Request) {
        if self.hidden.contains(&request.call) {
            self.load.unseen += 1;
            return;
        }
        let class = self.files.get(request.file as usize).copied().flatten();
        let (Some(class), Ok(done)) = (class, u64::try_from(request.done)) else { return };
        let counted = self.load.classes.entry(class).or_default();
        let end = request.offset.saturating_add(done);
        if request.call.writes() {
            counted.writes += 1;
            counted.written_bytes = counted.written_bytes.saturating_add(done);
            counted.syncs += u64::from(request.synced);
            let block = self.physical_block;
            let is_misaligned = request.offset % block != 0 || end % block != 0;
            counted.misaligned_writes += u64::from(is_misaligned);
        } else if request.call.reads() {
            counted.reads += 1;
            counted.read_bytes = counted.read_bytes.saturating_add(done);
            let new = request.cached;
            counted.new_to_cache = counted.new_to_cache.saturating_add(new);
        } else if request.call.syncs() {
            counted.syncs += 1;
        }
        let moves = request.call.writes() || request.call.reads();
        counted.direct += u64::from(request.direct && moves);
    }
}

impl EventSink for LoadSink {
    fn add(&mut self, event: &Event) -> io::Result<()> {
        match event {
            Event::File(file) => {
                let path = Path::new(OsStr::from_bytes(&file.path));
                let is_ours = matches!(file.kind, FileKind::Regular);
                let within = path.strip_prefix(&self.directory).ok().filter(|_| is_ours);
                // The log may be elsewhere, behind a link.
                let named = path.file_name().filter(|_| is_ours).map(Path::new);
                let class = within.map(|within| FileClass::of(self.system, within)).or_else(|| {
                    let is_log = |name: &&Path| is_log_name(self.system, name);
                    named.filter(is_log).map(|_| FileClass::Log)
                });
                self.files.push(class);
            }
            Event::Heading(heading) => {
                self.hidden = heading.hidden();
            }
            Event::Request(request) => self.request(request),
            Event::Lost(count) => self.load.lost += count,
            Event::Ended { after, .. } => self.load.seconds = *after as f64 / 1e9,
            _ => {}
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether a file has the name of a log's segment, wherever it is.
fn is_log_name(system: DatabaseSystem, name: &Path) -> bool {
    let name = name.to_str().unwrap_or_default();
    match system {
        DatabaseSystem::Postgresql => {
            name.len() == 24 && name.bytes().all(|one| one.is_ascii_hexdigit())
        }
        DatabaseSystem::Mariadb => name.starts_with("ib_logfile"),
    }
}
