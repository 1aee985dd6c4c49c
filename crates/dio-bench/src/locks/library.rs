//! Blocks on the library's own locks in the processes of a command, as far as they are programs of dio.
//!
//! `dio bench locks` names a file in the environment, and every program of dio that ends of its own accord adds a line to it. Other
//! programs that use the library do not know of that.

use std::fs::OpenOptions;
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::path::Path;

use dio::lock::{LockClass, waits_of_this_process};
use rustix::fs::{MemfdFlags, memfd_create};
use serde::{Deserialize, Serialize};

/// The variable that names the file.
const VARIABLE: &str = "DIO_LOCKS_TO";

/// Most that is read.
const MOST: u64 = 16 << 20;

/// Blocks of one class in one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Told {
    class: String,
    blocks: u64,
    nanos: u64,
}

/// What a process says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Line {
    program: String,
    pid: u32,
    waits: Vec<Told>,
}

/// Blocks by what asked for the lock.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// `read`, `write`, `resize` or `misaligned`.
    pub class: String,
    /// Times that a thread was blocked.
    pub blocks: u64,
    /// The same for each second.
    pub blocks_per_second: f64,
    /// Time of all waits together, in seconds.
    pub waited_seconds: f64,
}

/// The library's locks in the processes of a command.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Library {
    /// Processes that told of theirs: those of dio that ended of their own accord.
    pub processes: u64,
    /// Their blocks by class; classes without any are left out.
    pub rows: Vec<Row>,
}

/// Tells of this process where that was asked for; called at its end. The servers of mounts are asked otherwise.
pub fn tell() {
    let Some(path) = std::env::var_os(VARIABLE) else { return };
    let mut words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let (program, command) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    if ["mount", "run", "run-server"].contains(&command.as_str()) || program.contains("mount.fuse") {
        return;
    }
    let waits = waits_of_this_process();
    let told = |class: LockClass| {
        let waits = waits.get(class);
        Told { class: class.name().to_owned(), blocks: waits.waits, nanos: waits.wait_nanos }
    };
    let waits = LockClass::ALL.into_iter().map(told).filter(|told| told.blocks > 0).collect();
    let line = Line { program: format!("{program} {command}"), pid: std::process::id(), waits };
    // In one piece, behind those of others; there is nobody to tell that it failed.
    let text = serde_json::to_string(&line).unwrap_or_default() + "\n";
    let _ = append(Path::new(&path), &text);
}

fn append(path: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new().append(true).open(path)?.write_all(text.as_bytes())
}

/// The file to which processes tell: it has no name but that of our descriptor.
#[derive(Debug)]
pub(super) struct Ear(std::fs::File);

impl Ear {
    /// # Errors
    /// What `memfd_create(2)` answers.
    pub(super) fn new() -> io::Result<Ear> {
        Ok(Ear(memfd_create("dio-locks", MemfdFlags::CLOEXEC)?.into()))
    }

    /// The variable of the environment for a command.
    pub(super) fn variable(&self) -> (&'static str, String) {
        (VARIABLE, format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd()))
    }

    /// What was told, with rates of so many seconds.
    pub(super) fn finish(mut self, seconds: f64) -> Library {
        let mut text = String::new();
        // Where it cannot be read nobody has told anything.
        let _ = self.0.rewind().and_then(|()| (&self.0).take(MOST).read_to_string(&mut text));
        summed(&text, seconds)
    }
}

fn summed(text: &str, seconds: f64) -> Library {
    let lines: Vec<Line> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let row = |class: LockClass| {
        let told = || lines.iter().flat_map(|line| &line.waits).filter(move |told| told.class == class.name());
        let blocks = told().map(|told| told.blocks).sum::<u64>();
        let waited_seconds = told().map(|told| told.nanos).sum::<u64>() as f64 / 1e9;
        let blocks_per_second = if seconds > 0.0 { blocks as f64 / seconds } else { 0.0 };
        Row { class: class.name().to_owned(), blocks, blocks_per_second, waited_seconds }
    };
    let rows = LockClass::ALL.into_iter().map(row).filter(|row| row.blocks > 0).collect();
    Library { processes: lines.len() as u64, rows }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_processes_tell_is_summed_up_by_class() {
        let ear = Ear::new().unwrap();
        let (_, path) = ear.variable();
        let line = |blocks| {
            let told = Told { class: "write".to_owned(), blocks, nanos: 500_000_000 };
            serde_json::to_string(&Line { program: "dio cp".to_owned(), pid: 1, waits: vec![told] }).unwrap() + "\n"
        };
        append(Path::new(&path), &line(3)).unwrap();
        append(Path::new(&path), &line(5)).unwrap();
        append(Path::new(&path), "half a li").unwrap();
        let library = ear.finish(2.0);
        assert_eq!(library.processes, 2);
        let expected = Row { class: "write".to_owned(), blocks: 8, blocks_per_second: 4.0, waited_seconds: 1.0 };
        assert_eq!(library.rows, [expected]);
    }
}
