//! The report for people.

use std::fmt::{self, Display, Formatter};

use dio::quote::{named, printable};
use dio_common::units::{seconds, size};

use super::{CallSizes, FileCalls, Saving, SizeCount, SizesReport};
use crate::trace::FileKind;

/// So many files are shown.
const FILES: usize = 20;

/// So many of the sizes of a group are shown.
const SIZES: usize = 3;

/// Characters of the longest bar of a histogram.
const BAR: u64 = 40;

impl Display for SizesReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.heading(f)?;
        for file in self.files.iter().take(FILES) {
            write!(f, "\n{file}")?;
        }
        if self.files.len() > FILES {
            writeln!(f, "\n{} more files", self.files.len() - FILES)?;
        }
        self.histogram(f)?;
        if !self.savings.is_empty() {
            writeln!(f)?;
        }
        for saving in self.savings.iter().take(FILES) {
            writeln!(f, "{saving}")?;
        }
        self.missing(f)
    }
}

impl SizesReport {
    fn heading(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let command = printable(&self.command.join(" "));
        let calls: u64 =
            self.files.iter().flat_map(|file| &file.calls).map(|call| call.count).sum();
        write!(f, "{command}: {} calls to {} files", thousands(calls), self.files.len())?;
        match self.seconds {
            Some(time) => writeln!(f, " in {}", seconds(time)),
            None => writeln!(f, "; the trace ends before the command did"),
        }
    }

    /// All calls that move bytes, by their size.
    fn histogram(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut powers: Vec<u64> = Vec::new();
        let calls = self.files.iter().flat_map(|file| &file.calls);
        let moves = |call: &&CallSizes| call.call.reads() || call.call.writes();
        for call in calls.filter(moves).filter(|call| !call.call.is_fault()) {
            powers.resize(powers.len().max(call.powers.len()), 0);
            powers.iter_mut().zip(&call.powers).for_each(|(sum, count)| *sum += count);
        }
        let Some(most) = powers.iter().max().filter(|most| **most > 0) else { return Ok(()) };
        writeln!(f, "\nReads and writes by the size that was asked for:")?;
        for (power, count) in powers.iter().enumerate().filter(|(_, count)| **count > 0) {
            let least = if power == 0 { 0 } else { 1_u64 << (power - 1) };
            let bar = "#".repeat((count * BAR).div_ceil(*most) as usize);
            writeln!(f, "  {:>8} {:>12} {bar}", size(least), thousands(*count))?;
        }
        Ok(())
    }

    /// What the report does not have.
    fn missing(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.lost > 0 {
            let lost = thousands(self.lost);
            writeln!(f, "\n{lost} calls are missing: they came faster than they were recorded")?;
        }
        if self.files_unseen > 0 {
            let files = thousands(self.files_unseen);
            writeln!(f, "\nnot in this report: what was new to the page cache, of {files} files")?;
        }
        for (call, count) in &self.unseen {
            let what = match *call {
                "mmap" if !self.sees_faults => {
                    "files were mapped: what was read or written in memory"
                }
                "mmap" => {
                    "files were mapped: what was read again in memory, or written again before it was \
                          written back,"
                }
                _ => "calls began asynchronous I/O, which",
            };
            writeln!(f, "\nnot in this report: {} {what} ({call})", thousands(*count))?;
        }
        Ok(())
    }
}

impl Display for FileCalls {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = if self.path.is_empty() { "(no name known)".into() } else { named(&self.path) };
        writeln!(f, "{name} ({})", size(self.size))?;
        let has_places = matches!(self.kind, FileKind::Regular | FileKind::BlockDevice);
        self.calls.iter().try_for_each(|call| {
            write!(f, "  ")?;
            call.row(f, has_places)?;
            writeln!(f)
        })
    }
}

impl CallSizes {
    /// Writes its line, with the part that was in sequence if the file has places.
    fn row(&self, f: &mut Formatter<'_>, has_places: bool) -> fmt::Result {
        let (program, name) = (printable(&self.program), self.call.name());
        write!(f, "{program:<15} {name:<15} {:>12}", thousands(self.count))?;
        if self.call.reads() || self.call.writes() {
            write!(f, " {:>9}", size(self.bytes))?;
            write!(f, " {:>9}", seconds(self.seconds))?;
            match has_places {
                true => write!(f, " {:>4.0} %", self.sequential * 100.0)?,
                false => write!(f, " {:>6}", "")?,
            }
            write!(f, "  {}", listed(&self.sizes, self.count))?;
            if self.cached > 0 {
                write!(f, "; {} new to the cache", size(self.cached))?;
            }
        } else {
            write!(f, " {:>9} {:>9}", "", seconds(self.seconds))?;
        }
        if self.errors > 0 {
            write!(f, "  ({} failed)", thousands(self.errors))?;
        }
        Ok(())
    }
}

/// The most frequent sizes with their part of the calls.
fn listed(sizes: &[SizeCount], count: u64) -> String {
    let one = |entry: &SizeCount| {
        let part = entry.count as f64 * 100.0 / count as f64;
        if entry.count == count {
            size(entry.bytes)
        } else {
            format!("{} ({part:.0} %)", size(entry.bytes))
        }
    };
    let mut text = sizes.iter().take(SIZES).map(one).collect::<Vec<_>>().join(", ");
    if sizes.len() > SIZES {
        text.push_str(", …");
    }
    text
}

impl Display for Saving {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let verb = if self.call.reads() { "reads" } else { "writes" };
        let (program, path) = (printable(&self.program), named(&self.path));
        let (asks, better) = (size(self.asks), size(self.better));
        let calls = thousands(self.calls);
        write!(f, "{program} {verb} {path} in {asks}; {better} would save {calls} calls")
    }
}

/// A number with its digits in groups of three.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
