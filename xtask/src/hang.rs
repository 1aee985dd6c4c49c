//! Test programs that hang: prints what their threads wait for, and kills them, so that the other
//! test programs can run.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::tool::{quiet, tool};

/// Longest time that a test program may print nothing. The harness itself prints a line when a test
/// takes a minute.
const PATIENCE: Duration = Duration::from_secs(180);

/// Lines of a thread's stack that are printed.
const FRAMES: usize = 16;

/// Watches the test programs below a process.
pub(crate) struct Watch {
    /// The process that runs the test programs, or that starts the process which does.
    above: u32,
    /// The last test program, and the time since when it has printed nothing.
    silent: Option<(u32, Instant)>,
}

impl Watch {
    pub(crate) fn new(above: u32) -> Watch {
        Watch { above, silent: None }
    }

    /// Records that the program has printed something.
    pub(crate) fn heard(&mut self) {
        self.silent = None;
    }

    /// Kills a test program that has been silent for too long. Must be called regularly.
    pub(crate) fn look(&mut self) {
        let processes = Processes::now();
        let Some(program) =
            processes.below(self.above).into_iter().find(|process| is_test(*process))
        else {
            self.silent = None;
            return;
        };
        match self.silent {
            Some((seen, since)) if seen == program => {
                if since.elapsed() >= PATIENCE {
                    println!(
                        "xtask: {} says nothing for {PATIENCE:?}; it is killed:",
                        name_of(program)
                    );
                    processes.below(program).into_iter().chain([program]).for_each(show);
                    if let Err(error) = quiet(tool("kill").args(["-KILL", &program.to_string()])) {
                        println!("xtask: {error}");
                    }
                    self.silent = None;
                }
            }
            _ => self.silent = Some((program, Instant::now())),
        }
    }
}

/// The parent of each process.
struct Processes(HashMap<u32, u32>);

impl Processes {
    fn now() -> Processes {
        let processes = numbers(Path::new("/proc"));
        Processes(
            processes
                .into_iter()
                .filter_map(|process| Some((process, parent_of(process)?)))
                .collect(),
        )
    }

    /// The descendants of a process, parents before their children.
    fn below(&self, process: u32) -> Vec<u32> {
        let mut found = vec![process];
        let mut next = 0;
        while let Some(parent) = found.get(next).copied() {
            let mut children: Vec<u32> =
                self.0.iter().filter(|(_, of)| **of == parent).map(|(child, _)| *child).collect();
            children.sort_unstable();
            found.extend(children);
            next += 1;
        }
        found.split_off(1)
    }
}

/// The names in a directory that are numbers.
fn numbers(directory: &Path) -> Vec<u32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Parses `1 (name) S 0 …`, see proc_pid_stat(5); the name may contain any characters.
fn parent_of(process: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

fn program_of(process: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{process}/exe")).ok()
}

/// Whether a process is a test program, judged by the directory in which cargo puts them.
fn is_test(process: u32) -> bool {
    program_of(process)
        .and_then(|program| Some(program.parent()?.ends_with("deps")))
        .unwrap_or(false)
}

fn name_of(process: u32) -> String {
    program_of(process).map_or_else(|| process.to_string(), |program| program.display().to_string())
}

/// Prints what each thread of a process waits for.
fn show(process: u32) {
    println!("xtask: process {process}, {}", name_of(process));
    let threads = PathBuf::from(format!("/proc/{process}/task"));
    for thread in numbers(&threads) {
        let said = |what: &str| {
            let text = fs::read_to_string(threads.join(thread.to_string()).join(what));
            text.map_or_else(|_| "?".to_owned(), |text| text.trim().to_owned())
        };
        println!(
            "xtask:   thread {thread} ({}): wchan {}, call {}",
            said("comm"),
            said("wchan"),
            said("syscall")
        );
        said("stack").lines().take(FRAMES).for_each(|frame| println!("xtask:     {frame}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn descendants_are_found_by_their_parents() {
        let me = std::process::id();
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let below = Processes::now().below(me);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(below.contains(&child.id()), "{below:?}");
    }

    #[test]
    fn this_is_a_test_program() {
        assert!(is_test(std::process::id()));
        assert!(!is_test(1));
        assert!(name_of(std::process::id()).contains("xtask"));
    }

    #[test]
    fn who_speaks_is_not_silent() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let mut watch = Watch::new(child.id());
        watch.look();
        assert_eq!(watch.silent, None, "sleep is no test program");
        watch.silent = Some((child.id(), Instant::now()));
        watch.heard();
        assert_eq!(watch.silent, None);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
