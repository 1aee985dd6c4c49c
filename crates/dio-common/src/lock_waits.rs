//! Waits for the library's own locks, which each program of dio reports when it ends.
//!
//! `dio bench locks` sets an environment variable, with the name of a file, for the command that it
//! runs. Every program of dio that runs below that command and ends by itself appends one line of
//! JSON to that file. Other programs that use the library report nothing.

use std::fs::OpenOptions;
use std::io::Write;

use dio::lock::{LockClass, waits_of_this_process};
use serde::{Deserialize, Serialize};

/// The environment variable that names the file.
pub const VARIABLE: &str = "DIO_LOCKS_TO";

/// Waits for locks of one class in one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassWaits {
    /// The name of the class ([`LockClass::name`]).
    pub class: String,
    /// Number of times that a thread was blocked.
    pub blocks: u64,
    /// Sum of all waits, in nanoseconds.
    pub nanos: u64,
}

/// The line of one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessWaits {
    /// The program and its command, such as `dio cp`.
    pub program: String,
    /// The process ID.
    pub pid: u32,
    /// Waits by class; classes without any are left out.
    pub waits: Vec<ClassWaits>,
}

/// Appends the line of this process to the file that the environment names, if it names one. The
/// program calls this at its end. Servers of mounts report nothing here, because their counters are
/// read while they run.
pub fn report_at_exit() {
    let Some(path) = std::env::var_os(VARIABLE) else { return };
    let mut words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let (program, command) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    if ["mount", "run", "run-server"].contains(&command.as_str()) || program.contains("mount.fuse")
    {
        return;
    }
    let counted = waits_of_this_process();
    let class_waits = |class: LockClass| {
        let stats = counted.get(class);
        ClassWaits { class: class.name().to_owned(), blocks: stats.waits, nanos: stats.wait_nanos }
    };
    let waits =
        LockClass::ALL.into_iter().map(class_waits).filter(|waits| waits.blocks > 0).collect();
    let line =
        ProcessWaits { program: format!("{program} {command}"), pid: std::process::id(), waits };
    let text = serde_json::to_string(&line).unwrap_or_default() + "\n";
    // One write, so that lines of several processes do not mix. An error cannot be reported at the
    // end of the program.
    let _ = OpenOptions::new()
        .append(true)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()));
}
