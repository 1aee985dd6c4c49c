//! The processes of the hostile user during an attack.

use std::io::{self, BufRead, BufReader, PipeReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::attack::READY;
use crate::Result;

/// How long killed processes may take to end. The kernel breaks a lease after 45 seconds.
const ENDING: Duration = Duration::from_secs(60);

/// Numbers of requests of all processes so far.
#[derive(Default)]
struct CrowdCounts {
    done: AtomicU64,
    failed: AtomicU64,
}

impl CrowdCounts {
    /// Adds a line that a process reports: the numbers of requests that ended and that failed.
    fn add(&self, line: &str) {
        let mut numbers = line.split_whitespace().map(str::parse);
        if let (Some(Ok(done)), Some(Ok(failed))) = (numbers.next(), numbers.next()) {
            self.done.fetch_add(done, Ordering::Relaxed);
            self.failed.fetch_add(failed, Ordering::Relaxed);
        }
    }
}

/// All processes of an attack. They are killed when this is dropped.
pub(super) struct Crowd {
    /// The process that holds leases or locks; it is killed first, since the others wait for them.
    holder: Option<Child>,
    processes: Vec<Child>,
    counts: Arc<CrowdCounts>,
}

impl Crowd {
    /// Starts the holder, if there is one, which runs [`super::attack::hold`], and waits until it
    /// holds its leases or locks. Then it starts the processes that run [`super::attack::serve`].
    pub(super) fn start(
        holder: Option<Command>,
        processes: impl Iterator<Item = Command>,
    ) -> Result<Crowd> {
        let mut crowd = Crowd { holder: None, processes: Vec::new(), counts: Arc::default() };
        if let Some(mut command) = holder {
            let holder =
                crowd.holder.insert(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?);
            let mut line = String::new();
            let output = holder.stdout.as_mut().ok_or("the process that holds has no output")?;
            BufReader::new(output).read_line(&mut line)?;
            if line.trim() != READY {
                return Err("the process that holds leases or locks could not start".into());
            }
        }
        let (reader, writer) = io::pipe()?;
        // All processes begin when this pipe is closed. Processes that began earlier would take
        // processor time from the start of the others.
        let (gate, begin) = io::pipe()?;
        for mut command in processes {
            crowd
                .processes
                .push(command.stdin(gate.try_clone()?).stdout(writer.try_clone()?).spawn()?);
        }
        drop(begin);
        crowd.listen(reader);
        Ok(crowd)
    }

    /// Adds up the reports of the processes until the last of them has ended.
    fn listen(&self, reader: PipeReader) {
        let counts = self.counts.clone();
        thread::spawn(move || {
            BufReader::new(reader)
                .lines()
                .map_while(io::Result::ok)
                .for_each(|line| counts.add(&line))
        });
    }

    /// Numbers of requests that ended and that failed so far.
    pub(super) fn requests(&self) -> (u64, u64) {
        (self.counts.done.load(Ordering::Relaxed), self.counts.failed.load(Ordering::Relaxed))
    }

    /// Fails if a process has ended by itself, because then the attack is not complete.
    pub(super) fn still_attacks(&mut self) -> Result<()> {
        for child in self.holder.iter_mut().chain(&mut self.processes) {
            if let Some(status) = child.try_wait()? {
                return Err(format!("a process of the hostile user ended: {status}").into());
            }
        }
        Ok(())
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        end_all(self.holder.iter_mut());
        end_all(self.processes.iter_mut());
    }
}

/// Kills processes and waits until they have ended; prints a message if one does not end.
pub(super) fn end_all<'a>(children: impl IntoIterator<Item = &'a mut Child>) {
    let mut children: Vec<&mut Child> = children.into_iter().collect();
    for child in &mut children {
        // The process may have ended by itself.
        let _ = child.kill();
    }
    let begun = Instant::now();
    for child in children {
        while matches!(child.try_wait(), Ok(None)) {
            if begun.elapsed() > ENDING {
                eprintln!("benchsuite: the killed process {} does not end", child.id());
                break;
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// A command that runs this program as another user. That user need not have access to the
/// program's directory, since the path is the kernel's own link to the file.
pub(super) fn as_user(id: u32, subcommand: &str, dir: &Path) -> Command {
    let mut command = Command::new("/proc/self/exe");
    // The standard library clears the supplementary groups when root becomes another user.
    command.uid(id).gid(id).current_dir("/").arg(subcommand).arg(dir);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_all_processes_add_up() {
        let counts = CrowdCounts::default();
        ["3 1", "40 0", "", "what?", "5"].iter().for_each(|line| counts.add(line));
        assert_eq!((counts.done.into_inner(), counts.failed.into_inner()), (43, 1));
    }

    #[test]
    fn an_attack_that_ends_by_itself_is_noticed_and_one_that_lasts_is_ended() {
        let sleeper = || {
            let mut command = Command::new("sleep");
            command.arg("1000");
            command
        };
        let mut crowd = Crowd::start(None, [sleeper(), sleeper()].into_iter()).expect("starts");
        crowd.still_attacks().expect("both sleep");
        let begun = Instant::now();
        drop(crowd);
        assert!(begun.elapsed() < Duration::from_secs(30));
        let mut crowd =
            Crowd::start(None, [Command::new("true"), sleeper()].into_iter()).expect("starts");
        while crowd.still_attacks().is_ok() {
            thread::sleep(Duration::from_millis(1));
        }
        assert!(
            Crowd::start(Some(Command::new("true")), [].into_iter()).is_err(),
            "the holder said nothing"
        );
    }
}
