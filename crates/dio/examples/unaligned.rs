//! Measures the cost of misaligned requests: requests of 64 MiB that begin at a multiple of 1 MiB
//! in memory and in the file, beside requests that begin one byte later in both. The latter are
//! copied through aligned blocks.
//!
//! `cargo run --release -p dio --example unaligned -- DIRECTORY`, or a file that `dio stripe set`
//! has made.

use std::path::PathBuf;
use std::time::Instant;

use dio::{File, Mode, OpenOptions};

const REQUEST: usize = 64 << 20;
const ALIGN: usize = 1 << 20;
/// Requests of a run, and runs of each kind.
const REQUESTS: u64 = 8;
const RUNS: usize = 9;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let given = PathBuf::from(std::env::args_os().nth(1).ok_or("a directory or a file is needed")?);
    let path = if given.is_dir() { given.join("dio-unaligned") } else { given.clone() };
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .mode(Mode::Concurrent)
        .open(&path)?;
    let mut memory = vec![0x5a; REQUEST + 2 * ALIGN];
    let start = memory.as_ptr().align_offset(ALIGN);
    for at in 0..=REQUESTS {
        file.write_at(&memory[start..start + REQUEST], at * REQUEST as u64)?;
    }
    file.sync_all()?;
    for direction in ["write", "read"] {
        let mut rates = [Vec::new(), Vec::new()];
        for run in 0..RUNS {
            // By turns, each round beginning with the other.
            for shift in [run % 2, 1 - run % 2] {
                rates[shift].push(rate(
                    &file,
                    &mut memory[start + shift..][..REQUEST],
                    shift as u64,
                    direction,
                )?);
            }
        }
        let [aligned, unaligned] = &rates;
        let quotients =
            unaligned.iter().zip(aligned).map(|(unaligned, aligned)| unaligned / aligned).collect();
        println!(
            "{direction}: aligned {:.0} MiB/s, unaligned {:.0} MiB/s, ratio {:.2}",
            median(aligned.clone()),
            median(unaligned.clone()),
            median(quotients)
        );
    }
    drop(file);
    if path != given {
        std::fs::remove_file(&path)?;
    }
    Ok(())
}

/// MiB per second of requests that begin `shift` bytes behind a boundary.
fn rate(
    file: &File,
    memory: &mut [u8],
    shift: u64,
    direction: &str,
) -> Result<f64, dio::FileError> {
    let begin = Instant::now();
    for number in 0..REQUESTS {
        let offset = number * REQUEST as u64 + shift;
        if direction == "write" {
            file.write_at(memory, offset)?
        } else {
            file.read_exact_at(memory, offset)?
        }
    }
    file.sync_data()?;
    Ok(((REQUESTS * REQUEST as u64) >> 20) as f64 / begin.elapsed().as_secs_f64())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
