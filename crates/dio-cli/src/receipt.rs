//! The receipt: the record of a run as one JSON object. All tools print the same object.
//!
//! | key | meaning |
//! |---|---|
//! | `command`, `version` | the tool, and the version of dio |
//! | `wall_seconds`, `cpu_seconds` | elapsed time; user and system time of the process |
//! | `durable` | whether everything written was on the medium on exit |
//! | `engine` | `uring` or `blocking` |
//! | `bytes_read`, `bytes_written` | bytes of contents, holes and clones not counted |
//! | `read`, `write` | those bytes by class: `direct`, `bounced`, `uncached`, `cached`, `piped` (pipes, terminals, sockets); beside them `reflinked` and `holes`, bytes that did not have to move |
//! | `requests` | `read`, `write` and `sync` requests to the kernel |
//! | `peak_buffer_bytes` | most memory in buffers at a time |
//! | `bytes_noted`, `files_noted` | with a journal: bytes and whole files that did not have to be moved or read, because an earlier attempt has noted them |
//! | `files` | for each file: `path`, `role` (`source` or `target`), `mode` (the class of most bytes, or `reflinked`), `reason` (why not direct, or null), `pages_before`, `pages_after` (resident pages, null where the kernel hides them) |

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use dio::file::{BytesByClass, Class, Counters, Reason};
use dio::names::resident_pages;
use parking_lot::{Mutex, MutexGuard};
use serde::{Serialize, Serializer};
use serde_json::Value;

/// Bytes by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Classes {
    /// Between the device and the program's memory.
    pub direct: u64,
    /// Through aligned memory of the program, copied once.
    pub bounced: u64,
    /// Through the page cache, dropped from it afterwards.
    pub uncached: u64,
    /// Through the page cache.
    pub cached: u64,
    /// Through pipes, terminals and sockets.
    pub piped: u64,
    /// Shared with the source instead of copied.
    pub reflinked: u64,
    /// Holes, which have no bytes on the disk.
    pub holes: u64,
}

impl Classes {
    fn add(&mut self, bytes: &BytesByClass) {
        self.direct += bytes.get(Class::Direct);
        self.bounced += bytes.get(Class::Bounced);
        self.uncached += bytes.get(Class::Uncached);
        self.cached += bytes.get(Class::Cached);
        self.piped += bytes.get(Class::Piped);
    }

    fn add_all(&mut self, other: &Classes) {
        self.direct += other.direct;
        self.bounced += other.bounced;
        self.uncached += other.uncached;
        self.cached += other.cached;
        self.piped += other.piped;
        self.reflinked += other.reflinked;
        self.holes += other.holes;
    }

    fn moved(&self) -> u64 {
        self.direct + self.bounced + self.uncached + self.cached + self.piped
    }
}

/// Requests to the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Requests {
    /// Reads.
    pub read: u64,
    /// Writes.
    pub write: u64,
    /// Syncs.
    pub sync: u64,
}

/// The role of a file in the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Read.
    Source,
    /// Written.
    Target,
}

/// The entry of one file.
#[derive(Clone, Debug, Serialize)]
pub struct FileLine {
    /// The path as it was given or found.
    #[serde(serialize_with = "as_text")]
    pub path: PathBuf,
    /// Whether the file was read or written.
    pub role: Role,
    /// The class of most of its bytes, or `reflinked`.
    pub mode: &'static str,
    /// The reason why it was not direct.
    pub reason: Option<&'static str>,
    /// Resident pages before the command touched it.
    pub pages_before: Option<u64>,
    /// Resident pages when the command was done.
    pub pages_after: Option<u64>,
}

impl FileLine {
    /// Describes a file by what was counted of it.
    pub(crate) fn of(path: &Path, role: Role, counters: &Counters) -> FileLine {
        let bytes = if role == Role::Source { &counters.read } else { &counters.written };
        let (mode, reason) =
            if bytes.total() == 0 { ("none", None) } else { dominant_class(bytes, counters) };
        let path = path.to_owned();
        FileLine { path, role, mode, reason, pages_before: None, pages_after: None }
    }
}

/// Serializes a path as text for JSON. Bytes that are not UTF-8 become replacement characters, as
/// in `dio probe --json`.
fn as_text<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&path.to_string_lossy())
}

/// The object that is printed.
#[derive(Debug, Serialize)]
struct Receipt<'a> {
    command: &'static str,
    version: &'static str,
    wall_seconds: f64,
    cpu_seconds: f64,
    durable: bool,
    engine: &'static str,
    bytes_read: u64,
    bytes_written: u64,
    read: Classes,
    write: Classes,
    requests: Requests,
    peak_buffer_bytes: u64,
    #[serde(flatten)]
    noted: Option<Noted>,
    files: &'a [FileLine],
}

/// What an earlier attempt has noted in a journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
struct Noted {
    bytes_noted: u64,
    files_noted: u64,
}

/// How bytes moved: the name of their class and, if it is not direct, the reason.
pub(crate) type ClassAndReason = (&'static str, Option<&'static str>);

/// Returns the class of most bytes, and the reason if it is not direct.
pub(crate) fn dominant_class(bytes: &BytesByClass, counters: &Counters) -> ClassAndReason {
    // Of equal counts the last one wins, so the better classes come last.
    let most =
        Class::ALL.into_iter().rev().max_by_key(|class| bytes.get(*class)).unwrap_or(Class::Direct);
    let reason =
        if most == Class::Direct { None } else { counters.main_reason().map(Reason::text) };
    (most.name(), reason)
}

/// Collects the contents of the receipt from several threads.
#[derive(Debug)]
pub struct Ledger {
    started: Instant,
    wanted: bool,
    totals: Mutex<Totals>,
}

#[derive(Debug, Default)]
struct Totals {
    read: Classes,
    write: Classes,
    requests: Requests,
    buffer_bytes: u64,
    peak_buffer_bytes: u64,
    noted: Option<Noted>,
    files: Vec<FileLine>,
}

impl Ledger {
    /// Creates a ledger that starts now. Unless a receipt is `wanted`, files are not listed, so
    /// memory does not grow with their number.
    pub fn new(wanted: bool) -> Ledger {
        Ledger { started: Instant::now(), wanted, totals: Mutex::default() }
    }

    /// Returns whether files are listed: counting their resident pages costs a system call each.
    pub fn wanted(&self) -> bool {
        self.wanted
    }

    /// Adds the counters of a file.
    pub fn count(&self, counters: &Counters) {
        let mut totals = self.lock();
        totals.read.add(&counters.read);
        totals.write.add(&counters.written);
        totals.requests.read += counters.read_requests;
        totals.requests.write += counters.write_requests;
        totals.requests.sync += counters.syncs;
    }

    /// Adds syncs that belong to no single file, such as those of a directory or a file system.
    pub fn count_syncs(&self, syncs: u64) {
        self.lock().requests.sync += syncs;
    }

    /// Adds bytes of holes that were preserved.
    pub fn count_holes(&self, bytes: u64) {
        let mut totals = self.lock();
        totals.read.holes += bytes;
        totals.write.holes += bytes;
    }

    /// Adds bytes that were cloned.
    pub fn count_reflinked(&self, bytes: u64) {
        let mut totals = self.lock();
        totals.read.reflinked += bytes;
        totals.write.reflinked += bytes;
    }

    /// Adds what an earlier attempt has noted. From then on the receipt says how much that is.
    pub fn count_noted(&self, bytes: u64, files: u64) {
        let mut totals = self.lock();
        let noted = totals.noted.get_or_insert_default();
        noted.bytes_noted += bytes;
        noted.files_noted += files;
    }

    /// Adds memory that is allocated for buffers.
    pub fn count_buffers(&self, bytes: u64) {
        let mut totals = self.lock();
        totals.buffer_bytes += bytes;
        totals.peak_buffer_bytes = totals.peak_buffer_bytes.max(totals.buffer_bytes);
    }

    /// Subtracts buffers that were released.
    pub fn release_buffers(&self, bytes: u64) {
        let mut totals = self.lock();
        totals.buffer_bytes = totals.buffer_bytes.saturating_sub(bytes);
    }

    /// Takes over what another ledger of this process has counted.
    pub fn absorb(&self, other: &Ledger) {
        let other = std::mem::take(&mut *other.lock());
        let mut totals = self.lock();
        totals.read.add_all(&other.read);
        totals.write.add_all(&other.write);
        totals.requests.read += other.requests.read;
        totals.requests.write += other.requests.write;
        totals.requests.sync += other.requests.sync;
        totals.peak_buffer_bytes += other.peak_buffer_bytes;
        totals.files.extend(other.files);
        drop(totals);
        if let Some(noted) = other.noted {
            self.count_noted(noted.bytes_noted, noted.files_noted);
        }
    }

    /// Lists a file.
    pub fn list(&self, line: impl FnOnce() -> FileLine) {
        if self.wanted {
            let line = line();
            self.lock().files.push(line);
        }
    }

    /// Counts the resident pages of all listed files again: pages that were dirty when a file was
    /// done may have been synced and dropped since.
    pub fn look_again(&self) {
        for line in &mut self.lock().files {
            // Pipes and devices are not opened a second time. A standard stream has no path; `-`
            // could also be the name of a file.
            if line.path != Path::new("-")
                && std::fs::metadata(&line.path).is_ok_and(|meta| meta.is_file())
                && let Ok(file) = std::fs::File::open(&line.path)
            {
                line.pages_after = resident_pages(&file).ok();
            }
        }
    }

    /// Returns the text of the receipt, and the files that it lists.
    ///
    /// # Errors
    /// Errors of the JSON serializer.
    pub fn text(
        &self,
        command: &'static str,
        engine: &'static str,
        durable: bool,
    ) -> io::Result<(Vec<u8>, Vec<PathBuf>)> {
        let mut totals = self.lock();
        totals.files.sort_by(|a, b| (&a.path, a.role as u8).cmp(&(&b.path, b.role as u8)));
        let receipt = Receipt {
            command,
            version: env!("CARGO_PKG_VERSION"),
            wall_seconds: self.started.elapsed().as_secs_f64(),
            cpu_seconds: cpu_seconds(),
            durable,
            engine,
            bytes_read: totals.read.moved(),
            bytes_written: totals.write.moved(),
            read: totals.read,
            write: totals.write,
            requests: totals.requests,
            peak_buffer_bytes: totals.peak_buffer_bytes,
            noted: totals.noted,
            files: &totals.files,
        };
        let mut text = serde_json::to_vec_pretty(&receipt)?;
        text.push(b'\n');
        Ok((text, totals.files.iter().map(|line| line.path.clone()).collect()))
    }

    fn lock(&self) -> MutexGuard<'_, Totals> {
        self.totals.lock()
    }
}

/// The receipt of a job: the sums of its processes' receipts, the files of all, each once, and in
/// `ranks` what each process did.
pub(crate) struct JobReceipt(Value);

/// It begins with its command, so that it is recognised as a receipt.
#[derive(Serialize)]
struct CommandFirst {
    command: Option<Value>,
    #[serde(flatten)]
    rest: Value,
}

impl JobReceipt {
    /// Joins the receipts of the processes of a job.
    pub(crate) fn of(parts: impl IntoIterator<Item = Value>, durable: bool) -> JobReceipt {
        let mut ranks: Vec<Value> = Vec::new();
        let (mut whole, mut files) = (Value::Null, Vec::new());
        for mut part in parts {
            if let Some(Value::Array(own)) = part.get_mut("files").map(Value::take) {
                files.extend(own);
            }
            ranks.push(part.clone());
            add(&mut whole, part);
        }
        let walls = ranks.iter().filter_map(|rank| rank["wall_seconds"].as_f64());
        whole["wall_seconds"] = walls.fold(0.0, f64::max).into();
        whole["durable"] = durable.into();
        whole["files"] = once(files).into();
        whole["ranks"] = ranks.into();
        JobReceipt(whole)
    }

    /// All of it, for what a command adds.
    pub(crate) fn whole_mut(&mut self) -> &mut Value {
        &mut self.0
    }

    /// Returns the text, and the files that it lists.
    ///
    /// # Errors
    /// Errors of the JSON serializer.
    pub(crate) fn text(self) -> io::Result<(Vec<u8>, Vec<PathBuf>)> {
        let JobReceipt(mut whole) = self;
        let path = |file: &Value| file["path"].as_str().map(PathBuf::from);
        let paths = whole["files"].as_array().into_iter().flatten().filter_map(path).collect();
        let command = whole.as_object_mut().and_then(|whole| whole.remove("command"));
        let mut text = serde_json::to_vec_pretty(&CommandFirst { command, rest: whole })?;
        text.push(b'\n');
        Ok((text, paths))
    }
}

/// Lists files of which several processes had parts once, in the order of their paths.
fn once(files: Vec<Value>) -> Vec<Value> {
    let mut listed: BTreeMap<(String, String, usize), Value> = BTreeMap::new();
    for (number, file) in files.into_iter().enumerate() {
        let text = |key: &str| file[key].as_str().unwrap_or_default().to_owned();
        let path = text("path");
        // Different names that are not UTF-8 may look the same.
        let number = if path.contains(char::REPLACEMENT_CHARACTER) { number } else { 0 };
        match listed.entry((path, text("role"), number)) {
            Entry::Vacant(free) => {
                free.insert(file);
            }
            Entry::Occupied(mut known) if known.get()["mode"] == "none" => {
                known.insert(file);
            }
            Entry::Occupied(_) => {}
        }
    }
    listed.into_values().collect()
}

/// Adds the numbers of one receipt to those of another. Of texts the first stays.
fn add(sum: &mut Value, part: Value) {
    match (sum, part) {
        (sum @ Value::Null, part) => *sum = part,
        (Value::Object(sum), Value::Object(part)) => {
            part.into_iter().for_each(|(key, value)| add(&mut sum[&key], value));
        }
        (sum @ Value::Number(_), Value::Number(part)) => match (sum.as_u64(), part.as_u64()) {
            (Some(a), Some(b)) => *sum = (a + b).into(),
            _ => {
                *sum = (sum.as_f64().unwrap_or(0.0) + part.as_f64().unwrap_or(0.0)).into();
            }
        },
        _ => {}
    }
}

/// Returns the user and system time of the process so far, in seconds (`clock_gettime(2)`,
/// `CLOCK_PROCESS_CPUTIME_ID`).
pub fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
