//! Runs the loads by one way.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use dio::stream::{Reader, Writer};
use dio::{Mode, OpenOptions};
use serde::{Deserialize, Serialize};
use wait4::Wait4;

use super::files::{Extent, LARGE, LOADS, Load, SMALL_FILES, path_of, small_path, written_path};
use super::model::Operation;
use super::names;
use crate::noise::noise;

/// The fewest requests of a load, however long they take.
const REQUESTS_MIN: u64 = 3;

/// A paced load pauses so many times as long as the disk needs for a request.
const PACE: f64 = 3.0;

/// The file that tools write.
const WRITTEN_BY_TOOL: &str = "written-tool";

/// The time of one run of a load.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoadTimes {
    /// The operation.
    pub operation: Operation,
    /// Of `Work`, the name of the tool.
    #[serde(default)]
    pub tool: String,
    /// Bytes of a request.
    pub bytes: u64,
    /// Threads.
    pub threads: u32,
    /// Seconds of a request, of all threads together.
    pub seconds: f64,
    /// Seconds of processor time of a request.
    pub cpu_seconds: f64,
}

impl LoadTimes {
    /// The times of one thread.
    fn new(operation: Operation, bytes: u64, seconds: f64, cpu_seconds: f64) -> LoadTimes {
        LoadTimes { operation, tool: String::new(), bytes, threads: 1, seconds, cpu_seconds }
    }
}

/// Runs all loads on the files that [`prepare`](super::prepare) made, each until the limit or the
/// end of its file. The files must not be in the page cache; see [`evict`](super::evict). The
/// processor time of `servers`, processes that serve the requests, counts too.
///
/// # Errors
/// Those of the system.
pub fn measure(dir: &Path, extent: Extent, servers: &[u32]) -> io::Result<Vec<LoadTimes>> {
    let mut all: Vec<LoadTimes> = Vec::new();
    for (number, load) in LOADS.iter().enumerate() {
        let unpaced = all.last().map_or(0.0, |times| times.seconds);
        // Long loads show what the disk does when its own buffers are full.
        let is_long = load.bytes >= LARGE || load.operation == Operation::AppendAndSync;
        let limit = if is_long { extent.limit * 5 } else { extent.limit };
        let pause = unpaced * PACE;
        let run = Run { dir, number, load: *load, extent, limit, pause };
        let busy = busy_seconds(servers)?;
        let (seconds, requests) = run.run()?;
        let cpu_seconds = (busy_seconds(servers)? - busy) / requests.max(1) as f64;
        let Load { operation, bytes, threads } = *load;
        let times = LoadTimes::new(operation, bytes, seconds, cpu_seconds);
        all.push(LoadTimes { threads, ..times });
        run.settle()?;
    }
    Ok(all)
}

/// Reads and writes by the streams of the library, as the tools of dio do.
///
/// # Errors
/// Those of the library.
pub fn measure_tool(dir: &Path) -> io::Result<Vec<LoadTimes>> {
    let (source, target) = (large_file(dir), dir.join(WRITTEN_BY_TOOL));
    let requests = fs::metadata(&source)?.len() / LARGE;
    let mut buffer = noise(LARGE as usize);
    let times = |operation, busy: f64, began: Instant| -> io::Result<LoadTimes> {
        let count = requests as f64;
        let seconds = began.elapsed().as_secs_f64() / count;
        let cpu_seconds = (busy_seconds(&[])? - busy) / count;
        Ok(LoadTimes::new(operation, LARGE, seconds, cpu_seconds))
    };
    let (busy, began) = (busy_seconds(&[])?, Instant::now());
    let file = OpenOptions::new().read(true).mode(Mode::Direct).open(&source)?;
    let mut reader = Reader::new(Arc::new(file))?;
    for _ in 0..requests {
        reader.read_exact(&mut buffer)?;
    }
    drop(reader);
    let read = times(Operation::ReadInOrder, busy, began)?;
    let (busy, began) = (busy_seconds(&[])?, Instant::now());
    let file = OpenOptions::new().write(true).create_new(true).mode(Mode::Direct).open(&target)?;
    let file = Arc::new(file);
    let mut writer = Writer::new(Arc::clone(&file))?;
    for _ in 0..requests {
        writer.write_all(&buffer)?;
    }
    writer.finish()?;
    file.sync_data()?;
    let written = times(Operation::WriteInOrder, busy, began)?;
    fs::remove_file(target)?;
    Ok(vec![read, written])
}

/// Runs a command that does nothing below a mount.
///
/// # Errors
/// Those of the system; a command that fails is an error.
pub fn measure_start(command: Command) -> io::Result<LoadTimes> {
    let (seconds, cpu_seconds) = timed(command)?;
    Ok(LoadTimes::new(Operation::Start, 0, seconds, cpu_seconds))
}

/// Runs a tool on a file that is not in the page cache. `command` is the tool's, but for the file.
///
/// # Errors
/// Those of the system; a tool that fails is an error.
pub fn measure_work(dir: &Path, tool: &str, mut command: Command) -> io::Result<LoadTimes> {
    let source = large_file(dir);
    let bytes = fs::metadata(&source)?.len();
    command.arg(&source);
    let (seconds, cpu_seconds) = timed(command)?;
    let times = LoadTimes::new(Operation::Work, bytes, seconds, cpu_seconds);
    Ok(LoadTimes { tool: tool.to_owned(), ..times })
}

/// Copies a file that is not in the page cache. `command` is that of a tool, but for the two files.
///
/// # Errors
/// Those of the system; a tool that fails is an error.
pub fn measure_copy(dir: &Path, mut command: Command) -> io::Result<LoadTimes> {
    let (source, target) = (large_file(dir), dir.join(WRITTEN_BY_TOOL));
    command.arg(&source).arg(&target);
    let (seconds, cpu_seconds) = timed(command)?;
    fs::remove_file(target)?;
    let requests = (fs::metadata(&source)?.len() / LARGE) as f64;
    Ok(LoadTimes::new(Operation::Copy, LARGE, seconds / requests, cpu_seconds / requests))
}

/// Runs a tool that archives files in a new one. They are small and not in the page cache.
/// `command` is the tool's, but for the archive and the files.
///
/// # Errors
/// Those of the system; a tool that fails is an error.
pub fn measure_small_files(dir: &Path, mut command: Command) -> io::Result<LoadTimes> {
    let target = dir.join(WRITTEN_BY_TOOL);
    command.arg(&target).args((0..SMALL_FILES).map(|number| small_path(dir, number)));
    let (seconds, cpu_seconds) = timed(command)?;
    fs::remove_file(target)?;
    let files = SMALL_FILES as f64;
    Ok(LoadTimes::new(Operation::Open, 0, seconds / files, cpu_seconds / files))
}

/// Runs a tool that reads standard input, and writes what is thrown away. Returns its seconds, and
/// those of its processor time.
///
/// # Errors
/// Those of the system; a tool that fails is an error.
pub fn measure_filter(command: Command, input: File) -> io::Result<(f64, f64)> {
    timed_with(command, input.into())
}

/// Runs a command; returns its seconds, and those of its processor time.
fn timed(command: Command) -> io::Result<(f64, f64)> {
    timed_with(command, Stdio::null())
}

fn timed_with(mut command: Command, input: Stdio) -> io::Result<(f64, f64)> {
    let began = Instant::now();
    let ended = command.stdin(input).stdout(Stdio::null()).spawn()?.wait4()?;
    let seconds = began.elapsed().as_secs_f64();
    if !ended.status.success() {
        let name = command.get_args().next().unwrap_or_default().display();
        return Err(io::Error::other(format!("dio {name} failed: {}", ended.status)));
    }
    Ok((seconds, (ended.rusage.utime + ended.rusage.stime).as_secs_f64()))
}

/// The file that is read in order in large requests.
fn large_file(dir: &Path) -> PathBuf {
    LOADS
        .iter()
        .position(|load| load.operation == Operation::ReadInOrder && load.bytes == LARGE)
        .map(|number| path_of(dir, number))
        .expect("there is such a load")
}

/// Seconds of processor time that this process and its servers have used.
fn busy_seconds(servers: &[u32]) -> io::Result<f64> {
    let own = std::iter::once(std::process::id());
    own.chain(servers.iter().copied())
        .map(|pid| dio_sys::cpu_time(pid).map(|time| time.as_secs_f64()))
        .sum()
}

/// One run of one load.
struct Run<'a> {
    dir: &'a Path,
    number: usize,
    load: Load,
    extent: Extent,
    limit: Duration,
    /// Seconds between the requests of a paced load.
    pause: f64,
}

impl Run<'_> {
    /// Returns the seconds of a request, and the number of requests.
    fn run(&self) -> io::Result<(f64, u64)> {
        let path = path_of(self.dir, self.number);
        let read = |file: &mut File, buffer: &mut [u8]| file.read(buffer);
        let write = |file: &mut File, buffer: &mut [u8]| file.write(buffer);
        match self.load.operation {
            Operation::ReadInOrder => self.in_order(File::open(path)?, u64::MAX, read),
            Operation::ReadInOrderPaced => self.paced(File::open(path)?, u64::MAX, read),
            Operation::ReadAgain => {
                io::copy(&mut File::open(&path)?, &mut io::sink())?;
                self.in_order(File::open(path)?, u64::MAX, read)
            }
            Operation::WriteInOrder => {
                self.in_order(self.created()?, self.load.written_bytes(self.extent), write)
            }
            Operation::WriteInOrderPaced => {
                self.paced(self.created()?, self.load.written_bytes(self.extent), write)
            }
            Operation::ReadAtRandom | Operation::Overwrite => self.at_random(&path),
            Operation::Open => self.opening(),
            Operation::Look => self.looking(),
            Operation::Create
            | Operation::Rename
            | Operation::Remove
            | Operation::Change
            | Operation::List => names::measure(self.dir, self.load.operation, self.limit),
            Operation::AppendAndSync => self.appending(),
            Operation::Sync => self.syncing(),
            Operation::Copy => self.copying(&path),
            Operation::Start | Operation::Work => unreachable!("it is no load of the list"),
        }
    }

    fn created(&self) -> io::Result<File> {
        File::create(written_path(self.dir, self.number))
    }

    /// Makes requests one after the other until `most` bytes are moved or the time is over.
    fn in_order(
        &self,
        mut file: File,
        most: u64,
        request: impl Fn(&mut File, &mut [u8]) -> io::Result<usize>,
    ) -> io::Result<(f64, u64)> {
        let mut buffer = noise(self.load.bytes as usize);
        let (mut requests, mut moved) = (0, 0);
        let began = Instant::now();
        while moved < most && (requests < REQUESTS_MIN || began.elapsed() < self.limit) {
            match request(&mut file, &mut buffer)? {
                0 => break,
                count => moved += count as u64,
            }
            requests += 1;
        }
        drop(file);
        Ok((began.elapsed().as_secs_f64() / requests.max(1) as f64, requests))
    }

    /// The same with pauses, which do not count. Neither do the first requests, before which
    /// nothing could be read ahead.
    fn paced(
        &self,
        mut file: File,
        most: u64,
        request: impl Fn(&mut File, &mut [u8]) -> io::Result<usize>,
    ) -> io::Result<(f64, u64)> {
        let mut buffer = noise(self.load.bytes as usize);
        let mut times = Vec::new();
        let (mut moved, began) = (0, Instant::now());
        while moved < most && (times.len() < 2 || began.elapsed() < self.limit * 2) {
            let start = Instant::now();
            let count = request(&mut file, &mut buffer)?;
            times.push(start.elapsed().as_secs_f64());
            if count == 0 {
                break;
            }
            moved += count as u64;
            let end = Instant::now() + Duration::from_secs_f64(self.pause);
            while Instant::now() < end {
                std::hint::spin_loop();
            }
        }
        let counted = &times[(times.len() / 8).max(1).min(times.len() - 1)..];
        Ok((counted.iter().sum::<f64>() / counted.len() as f64, times.len() as u64))
    }

    /// Threads read or overwrite a file, no place twice.
    fn at_random(&self, path: &Path) -> io::Result<(f64, u64)> {
        let began = Instant::now();
        let counts = thread::scope(|scope| {
            let threads: Vec<_> = (0..u64::from(self.load.threads))
                .map(|thread| scope.spawn(move || self.part_at_random(path, thread, began)))
                .collect();
            let joined = threads.into_iter().map(|thread| {
                thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
            });
            joined.sum::<io::Result<u64>>()
        })?;
        Ok((began.elapsed().as_secs_f64() / counts.max(1) as f64, counts))
    }

    fn part_at_random(&self, path: &Path, thread: u64, began: Instant) -> io::Result<u64> {
        let is_write = self.load.operation == Operation::Overwrite;
        let file = File::options().read(!is_write).write(is_write).open(path)?;
        let mut buffer = noise(self.load.bytes as usize);
        let (threads, all) =
            (u64::from(self.load.threads), self.load.file_bytes(self.extent) / self.load.bytes);
        let mut requests = 0;
        for number in 0..all / threads {
            // Multiplying by an odd number visits each of 2^n places once.
            let place = (number * threads + thread + 1).wrapping_mul(0x9e37_79b1) % all;
            let offset = place * self.load.bytes;
            if is_write {
                rustix::io::pwrite(&file, &buffer, offset)?;
            } else {
                rustix::io::pread(&file, &mut *buffer, offset)?;
            }
            requests += 1;
            if requests >= REQUESTS_MIN && began.elapsed() > self.limit {
                break;
            }
        }
        Ok(requests)
    }

    fn opening(&self) -> io::Result<(f64, u64)> {
        let began = Instant::now();
        for number in 0..SMALL_FILES {
            File::open(small_path(self.dir, number))?.metadata()?;
        }
        let requests = SMALL_FILES as u64;
        Ok((began.elapsed().as_secs_f64() / requests as f64, requests))
    }

    fn looking(&self) -> io::Result<(f64, u64)> {
        let absent = self.dir.join("absent");
        let (mut requests, began) = (0, Instant::now());
        while requests < REQUESTS_MIN || began.elapsed() < self.limit {
            let _ = fs::symlink_metadata(&absent);
            requests += 1;
        }
        Ok((began.elapsed().as_secs_f64() / requests as f64, requests))
    }

    fn appending(&self) -> io::Result<(f64, u64)> {
        let mut file = self.created()?;
        let buffer = noise(self.load.bytes as usize);
        let (mut requests, began) = (0, Instant::now());
        while requests < REQUESTS_MIN || began.elapsed() < self.limit {
            file.write_all(&buffer)?;
            file.sync_data()?;
            requests += 1;
        }
        Ok((began.elapsed().as_secs_f64() / requests as f64, requests))
    }

    fn copying(&self, from: &Path) -> io::Result<(f64, u64)> {
        let length = self.load.file_bytes(self.extent);
        let began = Instant::now();
        let (from, to) = (File::open(from)?, self.created()?);
        let mut left = length;
        while left > 0 {
            match rustix::fs::copy_file_range(&from, None, &to, None, left as usize)? {
                0 => break,
                count => left -= (count as u64).min(left),
            }
        }
        drop(to);
        let requests = length / self.load.bytes;
        Ok((began.elapsed().as_secs_f64() / requests as f64, requests))
    }

    fn syncing(&self) -> io::Result<(f64, u64)> {
        let buffer = noise(self.load.bytes.min(1 << 20) as usize);
        let (mut requests, mut spent, began) = (0, 0.0, Instant::now());
        while requests < REQUESTS_MIN || began.elapsed() < self.limit {
            let mut file = self.created()?;
            for _ in 0..self.load.bytes / buffer.len() as u64 {
                file.write_all(&buffer)?;
            }
            let start = Instant::now();
            file.sync_data()?;
            spent += start.elapsed().as_secs_f64();
            requests += 1;
        }
        Ok((spent / requests as f64, requests))
    }

    /// Waits until nothing of what the load wrote is left for the disk to do.
    fn settle(&self) -> io::Result<()> {
        for path in [path_of(self.dir, self.number), written_path(self.dir, self.number)] {
            match File::open(path) {
                Ok(file) => rustix::fs::fdatasync(file.as_fd())?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
