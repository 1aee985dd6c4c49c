//! The commands, and the loop in which a rank takes part in one.

mod cp;
mod line;
mod sum;
mod tar;

use std::ffi::OsString;
use std::process::ExitCode;

use dio_cli::commands::cp::shared::{Tool, interrupted, set_program};

use crate::crew;
use crate::transport::Ranks;

const HELP: &str = "\
Copies of dio, shared by many processes on file systems that all of them mount

Usage: mpirun [-n RANKS] dio-mpi COMMAND ...
       srun [-n RANKS] dio-mpi COMMAND ...

Commands:
  cp    Copy files and trees, with the options of dio cp
  sync  Make a tree like another one, with what differs only
  cmp   Compare files and trees past the page cache
  sum   Compute or check digests, with the options of dio sum; of a directory,
        those of all files below it
  tar   Create (-c) or extract (-x) an archive, with the options of dio tar

Options of cp, sync, sum and tar -c:
  --journal DIR  Note in DIR what is done and durable; the same command with the
                 same journal goes on where it was cut short
  --threads N    Use N threads on each machine; else their number tunes itself
                 (also of cmp)

All ranks need the same working directory. See dio-mpi COMMAND --help.
";

/// Runs a command in this rank; returns its exit status.
#[must_use]
pub fn run(mut words: Vec<OsString>) -> ExitCode {
    set_program("dio-mpi");
    // From here on, signals are caught: a job that is told to stop while it starts stops in order.
    let _ = interrupted();
    let Some(mut ranks) = Ranks::begin() else {
        eprintln!("dio-mpi: MPI is initialized already");
        return ExitCode::from(2);
    };
    let first = ranks.rank() == 0;
    let command = if words.is_empty() { OsString::new() } else { words.remove(0) };
    let print = |refusal: &str| {
        if first {
            eprintln!("dio-mpi: {refusal}\nTry 'dio-mpi --help' for more information.");
        }
        ExitCode::from(if first { 2 } else { 0 })
    };
    match command.to_str() {
        Some("cp") => cp::run(&mut ranks, Tool::Cp, words),
        Some("sync") => cp::run(&mut ranks, Tool::Sync, words),
        Some("cmp") => cp::run(&mut ranks, Tool::Cmp, words),
        Some("sum") => crew::run::<sum::Sum>(&mut ranks, words),
        Some("tar") => crew::run::<tar::Tar>(&mut ranks, words),
        Some("-h" | "--help") => {
            if first {
                print!("{HELP}");
            }
            ExitCode::SUCCESS
        }
        Some("-V" | "--version") => {
            if first {
                println!("dio-mpi {}", env!("CARGO_PKG_VERSION"));
            }
            ExitCode::SUCCESS
        }
        Some("") => print("missing command"),
        _ => print(&format!("unknown command '{}'", command.display())),
    }
}
