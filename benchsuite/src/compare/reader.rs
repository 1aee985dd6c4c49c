//! The process that reads a cached hot set while another process copies, and the communication with
//! it.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Result;
use dio_bench::data::Random;
use dio_bench::histogram::Histogram;
use dio_bench::suite::Sample;
use dio_common::size::MIB;

/// Bytes of one read.
const PIECE: u64 = 4096;

/// The reader's side: fills the cache, and reads at random offsets; see [`measured`]. With `every`,
/// it reads so often, as a database does that has so many requests; otherwise it never rests.
pub(crate) fn serve(path: &Path, every: Option<Duration>) -> Result<()> {
    let file = File::open(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let pieces = file.metadata()?.len() / PIECE;
    // The kernel keeps pages as active from their second use on. Who never rests uses all of them
    // soon, and begins with that.
    let sweeps = if every.is_some() { 1 } else { 2 };
    (0..sweeps).try_for_each(|_| sweep(&file))?;
    measured(|stop| Ok(read_until(&file, pieces, every, stop)?))
}

/// The side of any neighbour, when its data are cached: prints `ready`, waits for a line, has
/// `work` done until standard input ends, and prints one JSON object of the times that it returns.
pub(super) fn measured(work: impl FnOnce(&AtomicBool) -> Result<Histogram> + Send) -> Result<()> {
    println!("ready");
    std::io::stdin().lock().read_line(&mut String::new())?;
    let stop = AtomicBool::new(false);
    let started = Instant::now();
    let latencies = thread::scope(|scope| {
        let working = scope.spawn(|| work(&stop).map_err(|error| error.to_string()));
        // The end of the input means that the parent wants the result, or has ended.
        let ended = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        stop.store(true, Ordering::Relaxed);
        let latencies = working.join().expect("the working thread does not panic")?;
        ended.map(|_| latencies).map_err(|error| error.to_string())
    })?;
    let result = json!({
        "reads_per_second": latencies.count() as f64 / started.elapsed().as_secs_f64(),
        "p50_nanoseconds": latencies.quantile(0.5),
        "p99_nanoseconds": latencies.quantile(0.99),
        "p999_nanoseconds": latencies.quantile(0.999),
        "max_nanoseconds": latencies.max(),
    });
    // The parent may have ended; then this returns an error, while println! would panic.
    Ok(writeln!(std::io::stdout(), "{result}")?)
}

fn sweep(file: &File) -> std::io::Result<()> {
    let mut buffer = vec![0; MIB as usize];
    let mut offset = 0;
    loop {
        match file.read_at(&mut buffer, offset)? {
            0 => return Ok(()),
            n => offset += n as u64,
        }
    }
}

fn read_until(
    file: &File,
    pieces: u64,
    every: Option<Duration>,
    stop: &AtomicBool,
) -> std::io::Result<Histogram> {
    let mut next = Instant::now();
    let mut random = Random::new(1);
    let mut latencies = Histogram::default();
    let mut buffer = [0; PIECE as usize];
    while !stop.load(Ordering::Relaxed) {
        if let Some(every) = every {
            next += every;
            thread::sleep(next.saturating_duration_since(Instant::now()));
        }
        let offset = random.below(pieces) * PIECE;
        let before = Instant::now();
        file.read_exact_at(&mut buffer, offset)?;
        latencies.add(before.elapsed().as_nanos() as u64);
    }
    Ok(latencies)
}

/// The parent's side: a running reader. It ends when this is dropped, because that ends its input.
pub(crate) struct ReaderProcess {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl ReaderProcess {
    /// Starts `command`, which must do as [`measured`] says, and waits until its hot set is cached.
    pub(crate) fn start(mut command: Command) -> Result<ReaderProcess> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let output = BufReader::new(child.stdout.take().ok_or("the reader has no output")?);
        let mut reader = ReaderProcess { input: child.stdin.take(), child, output };
        if reader.line()?.trim() != "ready" {
            return Err("the reader of the hot set could not start".into());
        }
        Ok(reader)
    }

    /// Starts the counting of reads.
    pub(crate) fn begin(&mut self) -> Result<()> {
        Ok(self.input.as_mut().ok_or("the reader has ended")?.write_all(b"begin\n")?)
    }

    /// Ends the reading and adds its rate and latencies to `sample`.
    pub(crate) fn end(mut self, sample: &mut Sample) -> Result<()> {
        self.input = None;
        let result: Value = serde_json::from_str(&self.line()?)?;
        for key in [
            "reads_per_second",
            "p50_nanoseconds",
            "p99_nanoseconds",
            "p999_nanoseconds",
            "max_nanoseconds",
        ] {
            sample.insert(key, result[key].as_f64().ok_or("the reader's report lacks a number")?);
        }
        Ok(())
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line)
    }
}

impl Drop for ReaderProcess {
    fn drop(&mut self) {
        self.input = None;
        // The reader ends by itself. Its result was read already, or is not needed.
        let _ = self.child.wait();
    }
}
