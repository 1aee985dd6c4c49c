//! Makes the events of a trace out of records.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::SystemTime;

use rustix::fs::{OFlags, fstat};

use super::cost::Watching;
use super::directories::Directories;
use super::facts;
use super::in_flight::InFlight;
use super::mappings::Mappings;
use super::outcome::{Recorded, shell_status};
use crate::machine_id;
use crate::trace::{
    Call, Event, EventSink, FileInfo, FileKind, Heading, Request, WatchCost, name_number,
};
use crate::watch::{Record, SeenFile, Watched, monotonic};

/// Makes events of records.
pub(super) struct Collector<S> {
    sink: S,
    /// The first error of writing. The command goes on; nothing more is written.
    error: Option<io::Error>,
    own: u32,
    /// The monotonic clock at the beginning, in nanoseconds.
    began: u64,
    /// Threads, and the names that their programs had, which change when they execute one. The
    /// number is that in the trace.
    threads: HashMap<u32, Vec<(Vec<u8>, u32)>>,
    thread_count: u32,
    /// Only requests to files below this directory are recorded.
    within: Option<PathBuf>,
    /// Files by file system and inode: their numbers in the trace, `None` if they are not recorded,
    /// and whether their names are known.
    files: HashMap<(u32, u64), (Option<u32>, bool)>,
    file_count: u32,
    /// Directories by their names, those in which names were looked for among them, as `files`.
    searched: HashMap<Vec<u8>, Option<u32>>,
    /// Names of files by inode: of those that the command inherits, and those that were learned.
    inherited: HashMap<u64, Vec<u8>>,
    directories: Directories,
    in_flight: InFlight,
    mappings: Mappings,
    /// The calls of a thread that it was stopped at and that are not in the trace, by its number.
    stopped: HashMap<u32, u64>,
    /// Files of which the trace says that their pages in the page cache are not known.
    cache_unseen: HashSet<u32>,
    requests: u64,
    /// What watching adds to calls: to others, and to those that come densely, which the last one
    /// did or not.
    costs: [WatchCost; 2],
    is_dense: bool,
}

impl<S: EventSink> Collector<S> {
    /// For a command.
    pub(super) fn new(words: Vec<String>, watching: Watching, sink: S) -> io::Result<Collector<S>> {
        let mut heading = heading(words, watching);
        heading.memory = dio_common::memory::usable(0);
        Collector::with(heading, watching, sink, None)
    }

    /// For what ran already, described by `words`; with `within`, only for files below a directory.
    pub(super) fn attached(
        words: Vec<String>,
        watching: Watching,
        sink: S,
        within: Option<&Path>,
    ) -> io::Result<Collector<S>> {
        let mut heading = heading(words, watching);
        heading.attached = true;
        Collector::with(heading, watching, sink, within.map(Path::to_owned))
    }

    fn with(
        heading: Heading,
        watching: Watching,
        mut sink: S,
        within: Option<PathBuf>,
    ) -> io::Result<Collector<S>> {
        // The trace becomes visible when the command has started, with the first flush.
        sink.add(&Event::Heading(heading))?;
        Ok(Collector {
            sink,
            error: None,
            own: std::process::id(),
            began: monotonic(),
            threads: HashMap::new(),
            thread_count: 0,
            within,
            files: HashMap::new(),
            file_count: 0,
            searched: HashMap::new(),
            inherited: inherited(),
            directories: Directories::new(),
            in_flight: InFlight::default(),
            mappings: Mappings::default(),
            stopped: HashMap::new(),
            cache_unseen: HashSet::new(),
            requests: 0,
            costs: [watching.cost, watching.dense],
            is_dense: false,
        })
    }

    fn add(&mut self, event: &Event) {
        if self.error.is_none() {
            self.error = self.sink.add(event).err();
        }
    }

    /// Takes the name of a file that was learned elsewhere.
    pub(super) fn learn(&mut self, inode: u64, path: &Path) {
        self.inherited.insert(inode, path.as_os_str().as_bytes().to_vec());
    }

    pub(super) fn flush(&mut self) {
        if self.error.is_none() {
            self.error = self.sink.flush().err();
        }
    }

    pub(super) fn take(&mut self, record: &Record<'_>) {
        let (pid, path) = (record.pid, record.path.unwrap_or_default());
        if record.calls > 0 {
            *self.stopped.entry(record.tid).or_default() += u64::from(record.calls);
        }
        match record.what {
            Watched::Fork => {
                self.directories.fork(pid, record.result as u32);
                self.mappings.fork(pid, record.result as u32);
            }
            Watched::Chdir => self.directories.change(pid, path),
            Watched::Fchdir => self.directories.change_to_open(pid, record.arguments[0]),
            Watched::Duplicate => {
                if let Some((old, new)) = facts::duplicated(record) {
                    self.directories.duplicate(pid, old, new);
                }
            }
            _ if pid == self.own => {}
            Watched::Call(call) => {
                if call == Call::IoSubmit {
                    self.in_flight.add_cached(record.tid, facts::cached(record));
                }
                if let Some(request) = self.request(call, record) {
                    self.add_request(request);
                }
            }
            Watched::Uring => {
                let call = facts::uring_call(record);
                if let Some(request) = call.and_then(|call| self.request(call, record)) {
                    self.add_request(request);
                }
            }
            Watched::AioBegun => {
                let call = facts::aio_call(record);
                if let Some(request) = call.and_then(|call| self.request(call, record)) {
                    self.in_flight.add((pid, record.result as u64), record.tid, request);
                }
            }
            Watched::AioDone => {
                let key = (pid, record.arguments[0]);
                let end = record.end.saturating_sub(self.began);
                if let Some(request) = self.in_flight.take(key, record.result, end) {
                    self.add_request(request);
                }
            }
        }
    }

    fn add_request(&mut self, request: Request) {
        self.requests += 1;
        self.add(&Event::Request(request));
    }

    /// The request that a record tells of, if its file is recorded.
    fn request(&mut self, call: Call, record: &Record<'_>) -> Option<Request> {
        let path = (call == Call::Open).then(|| self.opened(record)).flatten();
        let mut offset = facts::offset(call, record);
        let file = match record.path.filter(|_| call.is_of_names()) {
            Some(path) => {
                let base = facts::base_descriptor(record);
                let path = self.directories.absolute(record.pid, base, path);
                if call == Call::Stat {
                    offset = name_number(&path);
                }
                self.directory_of(&path)
            }
            None => self.file_of(call, record, path),
        };
        let file = file?;
        if call == Call::Mmap && record.result > 0 {
            self.mappings.add(record.pid, record.result as u64, record.arguments[1], file);
        }
        let to = record.second.as_ref().and_then(|second| {
            let fd = facts::second_descriptor(call, record);
            self.file(second, record.pid, fd, None)
        });
        let thread = self.thread(record);
        self.add_circumstances(record, thread, [Some(file), to]);
        let end = record.end.saturating_sub(self.began);
        let start = if record.start == 0 { end } else { record.start.saturating_sub(self.began) };
        let open_flags = facts::open_flags(record);
        Some(Request {
            call,
            thread,
            file,
            offset,
            asked: facts::asked(call, record),
            flags: facts::flags(call, record),
            done: facts::done(call, record),
            cached: facts::cached(record),
            direct: open_flags.contains(OFlags::DIRECT),
            synced: open_flags.contains(OFlags::DSYNC),
            waited: record.has_slept,
            start,
            duration: end.saturating_sub(start),
            to,
            to_offset: to.and_then(|_| facts::offset_in_second(record)),
        })
    }

    /// Tells what the watching cost and did not see before a request.
    fn add_circumstances(&mut self, record: &Record<'_>, thread: u32, files: [Option<u32>; 2]) {
        if record.is_dense != self.is_dense {
            self.is_dense = record.is_dense;
            self.add(&Event::Cost(self.costs[usize::from(record.is_dense)]));
        }
        // This call has a request of its own.
        let calls = self.stopped.remove(&record.tid).map_or(0, |calls| calls - 1);
        if calls > 0 {
            self.add(&Event::Unrecorded { thread, calls });
        }
        if record.sees_cache {
            return;
        }
        for file in files.into_iter().flatten() {
            if self.cache_unseen.insert(file) {
                self.add(&Event::CacheUnseen { file });
            }
        }
    }

    /// The path by which a file was opened, as an absolute one.
    fn opened(&mut self, record: &Record<'_>) -> Option<Vec<u8>> {
        let path = record.path?;
        let path = self.directories.absolute(record.pid, facts::base_descriptor(record), path);
        if record.file.is_some_and(|file| file.is_directory()) {
            self.directories.opened(record.pid, record.result as u32, &path);
        }
        Some(path)
    }

    /// The number of the directory of a name.
    fn directory_of(&mut self, path: &[u8]) -> Option<u32> {
        let path = Path::new(OsStr::from_bytes(path)).parent()?.as_os_str().as_bytes().to_vec();
        if let Some(number) = self.searched.get(&path) {
            return *number;
        }
        let kind = FileKind::Other;
        let info = FileInfo { device: 0, inode: 0, kind, size: 0, path: path.clone() };
        let number = self.numbered(info);
        self.searched.insert(path, number);
        number
    }

    fn thread(&mut self, record: &Record<'_>) -> u32 {
        let names = self.threads.entry(record.tid).or_default();
        if let Some((_, number)) = names.iter().find(|(name, _)| name == record.name) {
            return *number;
        }
        let (number, name) = (self.thread_count, record.name.to_vec());
        names.push((name.clone(), number));
        self.thread_count += 1;
        self.add(&Event::Thread { tid: record.tid, pid: record.pid, name });
        number
    }

    /// The number of the file that a call is about; `None` if the call is about none.
    fn file_of(&mut self, call: Call, record: &Record<'_>, opened: Option<Vec<u8>>) -> Option<u32> {
        if matches!(call, Call::IoUringEnter | Call::IoSubmit) {
            return self.unseen(call);
        }
        if call == Call::Msync {
            return self.mappings.file(record.pid, record.arguments[0]);
        }
        let fd = facts::descriptor(call, record);
        self.file(record.file.as_ref()?, record.pid, fd, opened)
    }

    /// The number of a file, `None` if it is not recorded; `fd` is its descriptor in the process,
    /// and `path` a name of it, if these are known.
    fn file(
        &mut self,
        seen: &SeenFile,
        pid: u32,
        fd: Option<u64>,
        path: Option<Vec<u8>>,
    ) -> Option<u32> {
        let key = (seen.device, seen.inode);
        match self.files.get(&key) {
            // One whose name is learned later begins anew under it.
            Some((_, false)) if path.is_some() => {}
            Some((None, false)) => {}
            Some((number, _)) => return *number,
            None => {}
        }
        let path = path
            .or_else(|| fd.and_then(|fd| open_name(pid, fd, seen.inode)))
            .or_else(|| self.inherited.get(&seen.inode).cloned())
            .or_else(|| mapped_name(pid, seen.inode))
            .or_else(|| any_open_name(pid, seen.inode))
            .unwrap_or_default();
        let info = FileInfo {
            device: seen.device.into(),
            inode: seen.inode,
            kind: seen.kind(),
            size: seen.size,
            path,
        };
        if !seen.is_directory() || info.path.is_empty() {
            return self.add_file(key, info);
        }
        // Names may have been looked for in it before it was opened, and may be later.
        let path = info.path.clone();
        let number = match self.searched.get(&path) {
            Some(number) => *number,
            None => self.numbered(info),
        };
        self.searched.insert(path, number);
        self.files.insert(key, (number, true));
        number
    }

    /// The file that stands for all that a call begins without naming its files.
    fn unseen(&mut self, call: Call) -> Option<u32> {
        let key = (0, call as u64);
        if let Some((number, _)) = self.files.get(&key) {
            return *number;
        }
        let path = call.name().as_bytes().to_vec();
        let info = FileInfo { device: 0, inode: key.1, kind: FileKind::Other, size: 0, path };
        self.add_file(key, info)
    }

    fn add_file(&mut self, key: (u32, u64), info: FileInfo) -> Option<u32> {
        let has_name = !info.path.is_empty();
        let number = self.numbered(info);
        self.files.insert(key, (number, has_name));
        number
    }

    /// Adds a file to the trace if it is recorded; returns its number.
    fn numbered(&mut self, info: FileInfo) -> Option<u32> {
        let path = Path::new(OsStr::from_bytes(&info.path));
        if self.within.as_ref().is_some_and(|within| !path.starts_with(within)) {
            return None;
        }
        let number = self.file_count;
        self.file_count += 1;
        self.add(&Event::File(info));
        Some(number)
    }

    pub(super) fn end(mut self, status: ExitStatus, lost: u64) -> io::Result<Recorded> {
        if lost > 0 {
            self.add(&Event::Lost(lost));
        }
        let after = monotonic().saturating_sub(self.began);
        self.add(&Event::Ended { status: shell_status(status), after });
        self.flush();
        match self.error {
            Some(error) => Err(error),
            None => Ok(Recorded { status, requests: self.requests, lost, without_rights: None }),
        }
    }
}

fn heading(words: Vec<String>, watching: Watching) -> Heading {
    let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
    let began = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_secs());
    let mut heading = Heading::new(words, kernel, began, watching.cost);
    heading.machine = machine_id();
    heading.sees_io_uring = watching.sees.io_uring;
    heading.sees_aio = watching.sees.aio;
    heading.sees_faults = watching.sees.faults;
    heading
}

/// The names of this process's standard streams, which the command inherits, by inode.
fn inherited() -> HashMap<u64, Vec<u8>> {
    let name_of = |stream: BorrowedFd<'_>| {
        let name = fs::read_link(dio_sys::fd_path(stream)).ok()?;
        Some((fstat(stream).ok()?.st_ino, name.into_os_string().into_vec()))
    };
    let (input, output, errors) = (io::stdin(), io::stdout(), io::stderr());
    [input.as_fd(), output.as_fd(), errors.as_fd()].into_iter().filter_map(name_of).collect()
}

/// The name of an open file of a process, if the process still has this inode open there.
fn open_name(pid: u32, fd: u64, inode: u64) -> Option<Vec<u8>> {
    use std::os::unix::fs::MetadataExt;
    let link = format!("/proc/{pid}/fd/{fd}");
    let is_it = fs::metadata(&link).is_ok_and(|found| found.ino() == inode);
    let name = is_it.then(|| fs::read_link(&link).ok()).flatten()?;
    Some(name.into_os_string().into_vec())
}

/// The name of a file that a process has open by whatever descriptor.
fn any_open_name(pid: u32, inode: u64) -> Option<Vec<u8>> {
    let mut open = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
    open.find_map(|entry| open_name(pid, entry.file_name().to_str()?.parse().ok()?, inode))
}

/// The name of a file that a process has mapped.
fn mapped_name(pid: u32, inode: u64) -> Option<Vec<u8>> {
    let maps = fs::read(format!("/proc/{pid}/maps")).ok()?;
    let inode = inode.to_string();
    maps.split(|byte| *byte == b'\n').find_map(|line| {
        // Addresses, permissions, offset, device, inode, and the name after spaces.
        let mut fields = line.splitn(6, |byte| *byte == b' ');
        let is_it = fields.nth(4)? == inode.as_bytes();
        is_it.then(|| fields.next().map(|name| name.trim_ascii().to_vec())).flatten()
    })
}
