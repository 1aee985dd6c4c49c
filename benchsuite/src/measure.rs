//! One measured run of a command.

use std::fs::{self, File};
use std::io::{Read, Seek};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use dio_bench::measure::MachineCpu;
use dio_common::memory::of_machine;
use wait4::Wait4;

use crate::Result;
use crate::tool::{output, tool};
use dio_bench::suite::Sample;
use dio_common::size::GIB;

/// A command that was started and is being timed.
pub(crate) struct Running {
    child: Child,
    started: Instant,
    before: MachineCpu,
    stdout: File,
    stderr: File,
    name: String,
}

/// The resource usage and the output of a finished command.
pub(crate) struct Finished {
    /// `wall_seconds`, `cpu_seconds`, `machine_cpu_seconds`, …: see [`crate::report::METRICS`].
    pub(crate) sample: Sample,
    pub(crate) stdout: String,
}

/// Runs `command` to its end. An exit status other than 0 is an error that quotes the end of its
/// messages.
pub(crate) fn measure(command: &mut Command) -> Result<Finished> {
    start(command)?.finish()
}

/// Starts `command` with its output redirected to unnamed files, so that it never blocks on a pipe.
pub(crate) fn start(command: &mut Command) -> Result<Running> {
    let (stdout, stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
    command.stdin(Stdio::null()).stdout(stdout.try_clone()?).stderr(stderr.try_clone()?);
    let name = command.get_program().display().to_string();
    let before = MachineCpu::now()?;
    let started = Instant::now();
    let child = command.spawn().map_err(|e| format!("{name}: {e}"))?;
    Ok(Running { child, started, before, stdout, stderr, name })
}

impl Running {
    pub(crate) fn finish(mut self) -> Result<Finished> {
        // wait4 counts the command and all its descendants that were waited for, such as the
        // commands of a shell.
        let used = self.child.wait4()?;
        let wall = self.started.elapsed().as_secs_f64();
        let after = MachineCpu::now()?;
        if !used.status.success() {
            let text = text_of(&mut self.stderr)?;
            let end: Vec<&str> = text.trim().lines().rev().take(3).collect();
            return Err(format!("{}: {}: {}", self.name, used.status, end.join(" / ")).into());
        }
        let (user, system) = (used.rusage.utime.as_secs_f64(), used.rusage.stime.as_secs_f64());
        let sample = Sample::from([
            ("wall_seconds", wall),
            ("user_seconds", user),
            ("system_seconds", system),
            ("cpu_seconds", user + system),
            ("machine_cpu_seconds", after.busy - self.before.busy),
            ("steal_seconds", after.steal - self.before.steal),
            ("peak_rss_bytes", used.rusage.maxrss as f64),
            ("dirty_bytes", dirty_bytes()),
        ]);
        Ok(Finished { sample, stdout: text_of(&mut self.stdout)? })
    }
}

fn text_of(file: &mut File) -> Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Bytes that still have to be written to the disk: work that a copy left undone.
fn dirty_bytes() -> f64 {
    ["Dirty", "Writeback"].map(|name| of_machine(name).unwrap_or(0)).into_iter().sum::<u64>() as f64
}

/// Adds the costs of a run per GiB of data, and its speed.
pub(crate) fn per_gib(sample: &mut Sample, bytes: u64) {
    let gib = bytes as f64 / GIB as f64;
    sample.insert("cpu_seconds_per_gib", sample["cpu_seconds"] / gib);
    sample.insert("machine_cpu_seconds_per_gib", sample["machine_cpu_seconds"] / gib);
    sample.insert("mib_per_second", gib * 1024.0 / sample["wall_seconds"]);
}

/// Writes all dirty data back and empties the caches.
pub(crate) fn cool() -> Result<()> {
    rustix::fs::sync();
    fs::write("/proc/sys/vm/drop_caches", "3").map_err(|e| format!("drop_caches: {e}"))?;
    // The journal, and a file system mounted with `discard`, may still be working on removed files.
    thread::sleep(Duration::from_secs(1));
    Ok(())
}

/// Pages of `files` in the page cache, as `fincore` of util-linux counts them.
pub(crate) fn resident_pages<P: AsRef<Path>>(files: impl IntoIterator<Item = P>) -> Result<f64> {
    let mut files = files.into_iter().peekable();
    let mut pages = 0.0;
    while files.peek().is_some() {
        let mut fincore = tool("fincore");
        fincore.args(["--noheadings", "--raw", "--output", "PAGES"]);
        // The length of a command line is limited.
        files.by_ref().take(500).for_each(|file| {
            fincore.arg(file.as_ref());
        });
        let text = output(&mut fincore)?;
        pages += text.lines().filter_map(|line| line.trim().parse::<f64>().ok()).sum::<f64>();
    }
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use super::{measure, resident_pages};
    use crate::tool::tool;

    #[test]
    fn time_of_a_shells_children_is_counted() {
        let spin = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
        let used = measure(tool("sh").args(["-c", &format!("sh -c '{spin}'; echo done")]))
            .expect("runs")
            .sample;
        assert!(used["cpu_seconds"] > 0.02, "{used:?}");
        assert!(used["wall_seconds"] >= used["user_seconds"] * 0.5, "{used:?}");
        assert!(used["peak_rss_bytes"] > 100_000.0, "{used:?}");
    }

    #[test]
    fn output_is_kept_and_failure_is_an_error_with_its_message() {
        assert_eq!(measure(tool("echo").arg("hello")).expect("runs").stdout, "hello\n");
        let error = measure(tool("sh").args(["-c", "echo no luck >&2; exit 3"]))
            .err()
            .expect("fails")
            .to_string();
        assert!(error.contains("no luck") && error.contains('3'), "{error}");
    }

    #[test]
    fn resident_pages_follow_the_cache() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), vec![1; 40960]).expect("written");
        assert_eq!(resident_pages([file.path()]).expect("fincore runs"), 40960.0 / 4096.0);
    }
}
