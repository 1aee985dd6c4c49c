//! How long the tool of dio takes for a part of what a command read.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use dio_advise::predict::{ToolRun, ToolSample, Workload};
use dio_advise::speed::measure_filter;
use rustix::fs::MemfdFlags;

use crate::commands::run::own_program;

/// So many bytes of the input are tried, and a part of them alone. It is not tried on fewer than
/// that part.
const SAMPLE_BYTES: usize = 32 << 20;
/// So many bytes for sort, which is fast, and writes what its memory does not hold to temporary
/// files: with `-S 30M`, a trial of 32 MiB expected 0.35 s for 200 MB that took 0.57 s.
const SAMPLE_BYTES_OF_SORT: usize = 128 << 20;
const SHORT_PART: usize = 4;
const LEAST_BYTES: usize = SAMPLE_BYTES / 32;

/// The tool runs so often on each; the fastest run counts.
const RUNS: usize = 2;

/// Gives the workload the time of its tool, if that depends on the bytes. Without it, for example
/// because the command has removed its input, the tool is taken to compute as the program did.
pub(super) fn take(workload: &mut Workload, arguments: &[OsString]) {
    let sample = workload.input_of_tool().and_then(|(tool, input)| {
        let most = if tool == "sort" { SAMPLE_BYTES_OF_SORT } else { SAMPLE_BYTES };
        let bytes = beginning(input, most).ok().filter(|bytes| bytes.len() >= LEAST_BYTES)?;
        let options = options(tool, arguments);
        let short = &bytes[..bytes.len() / SHORT_PART];
        let [short, long] = [short, &bytes].map(|bytes| fastest_run(tool, &options, bytes).ok());
        Some(ToolSample { short: short?, long: long? })
    });
    if let Some(sample) = sample {
        workload.set_sample(sample);
    }
}

/// Runs a tool on bytes.
fn fastest_run(tool: &str, options: &[&OsString], bytes: &[u8]) -> io::Result<ToolRun> {
    let run = || {
        let mut command = own_program();
        command.arg(tool).args(options);
        if matches!(tool, "gzip" | "zstd") {
            command.arg("-c");
        }
        measure_filter(command, in_memory(bytes)?)
    };
    let mut fastest = run()?;
    for _ in 1..RUNS {
        let (seconds, cpu_seconds) = run()?;
        fastest = (fastest.0.min(seconds), fastest.1.min(cpu_seconds));
    }
    let (seconds, cpu_seconds) = fastest;
    Ok(ToolRun { bytes: bytes.len() as u64, seconds, cpu_seconds })
}

/// Words among the arguments of a tool on which depends how long it computes. What names files is
/// none of them.
fn options<'a>(tool: &str, arguments: &'a [OsString]) -> Vec<&'a OsString> {
    let mut options = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.to_str() {
            Some(text) if tool == "sort" => match sort_option(text) {
                Taken::No => {}
                Taken::Alone => options.push(word),
                Taken::WithNext => options.extend([word].into_iter().chain(words.next())),
            },
            Some(text) if is_level(text) => options.push(word),
            _ => {}
        }
    }
    options
}

/// Whether a word of a command line is taken.
#[derive(Debug, PartialEq, Eq)]
enum Taken {
    No,
    Alone,
    WithNext,
}

/// Whether a word is an option of sort that says how lines are compared, or how much memory and
/// which directory it has.
fn sort_option(word: &str) -> Taken {
    let Some(letters) = word.strip_prefix('-') else { return Taken::No };
    match letters.chars().next() {
        Some('k' | 't' | 'S' | 'T') if letters.len() == 1 => Taken::WithNext,
        Some('k' | 't' | 'S' | 'T') => Taken::Alone,
        Some(_) if letters.chars().all(|letter| "bdfgiMhnRrVsuz".contains(letter)) => Taken::Alone,
        _ => Taken::No,
    }
}

/// Whether a word is an option that says how well to compress, such as `-9`.
fn is_level(word: &str) -> bool {
    let digits = word.strip_prefix('-').unwrap_or_default();
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number || matches!(word, "--best" | "--fast")
}

/// The first bytes of a file. Nothing of the file comes into the page cache.
fn beginning(path: &Path, most: usize) -> io::Result<Vec<u8>> {
    let file = dio::OpenOptions::new().read(true).mode(dio::Mode::Direct).open(path)?;
    let mut bytes = vec![0; most];
    let mut length = 0;
    while length < bytes.len() {
        match file.read_at(&mut bytes[length..], length as u64)? {
            0 => break,
            count => length += count,
        }
    }
    bytes.truncate(length);
    Ok(bytes)
}

/// A file in memory.
fn in_memory(bytes: &[u8]) -> io::Result<File> {
    let memory: OwnedFd = rustix::fs::memfd_create("dio-sample", MemfdFlags::CLOEXEC)?;
    let mut memory = File::from(memory);
    memory.write_all(bytes)?;
    memory.seek(SeekFrom::Start(0))?;
    Ok(memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_sort_that_name_files_are_left_out() {
        let words = ["sort", "-rn", "-k", "2,3", "-t,", "-S", "30M", "-o", "out", "-oout", "in"];
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        assert_eq!(options("sort", &words), ["-rn", "-k", "2,3", "-t,", "-S", "30M"]);
        for word in ["-no", "-c", "--output=x", "-m", "--files0-from=x"] {
            assert_eq!(sort_option(word), Taken::No, "{word}");
        }
    }

    #[test]
    fn levels_are_told_from_other_options() {
        for word in ["-9", "-19", "--best"] {
            assert!(is_level(word), "{word}");
        }
        for word in ["-", "-S", "--", "9", "-9k", "file"] {
            assert!(!is_level(word), "{word}");
        }
    }
}
