//! How long the tool of dio takes for a part of what a command read.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use dio_advise::predict::{ToolSample, Workload};
use dio_advise::speed::measure_filter;
use rustix::fs::MemfdFlags;

use crate::commands::run::own_program;

/// So many bytes of the input are tried, and it is not tried on fewer than this part of them.
const SAMPLE_BYTES: usize = 32 << 20;
const LEAST_BYTES: usize = SAMPLE_BYTES / 32;

/// Gives the workload the time of its tool, if that depends on the bytes. Without it, for example
/// because the command has removed its input, the tool is taken to compute as the program did.
pub(super) fn take(workload: &mut Workload, arguments: &[OsString]) {
    let sample = workload.input_of_tool().and_then(|(tool, input)| {
        let mut command = own_program();
        command.arg(tool).args(arguments.iter().filter(|word| word.to_str().is_some_and(is_level)));
        if matches!(tool, "gzip" | "zstd") {
            command.arg("-c");
        }
        let (input, bytes) = beginning(input).ok().filter(|(_, bytes)| *bytes >= LEAST_BYTES)?;
        let (seconds, cpu_seconds) = measure_filter(command, input).ok()?;
        Some(ToolSample { bytes: bytes as u64, seconds, cpu_seconds })
    });
    if let Some(sample) = sample {
        workload.set_sample(sample);
    }
}

/// Whether a word is an option that says how well to compress, such as `-9`.
fn is_level(word: &str) -> bool {
    let digits = word.strip_prefix('-').unwrap_or_default();
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number || matches!(word, "--best" | "--fast")
}

/// The first bytes of a file, in memory, and how many they are. Nothing of the file comes into the
/// page cache.
fn beginning(path: &Path) -> io::Result<(File, usize)> {
    let file = dio::OpenOptions::new().read(true).mode(dio::Mode::Direct).open(path)?;
    let mut bytes = vec![0; SAMPLE_BYTES];
    let mut length = 0;
    while length < bytes.len() {
        match file.read_at(&mut bytes[length..], length as u64)? {
            0 => break,
            count => length += count,
        }
    }
    let memory: OwnedFd = rustix::fs::memfd_create("dio-sample", MemfdFlags::CLOEXEC)?;
    let mut memory = File::from(memory);
    memory.write_all(&bytes[..length])?;
    memory.seek(SeekFrom::Start(0))?;
    Ok((memory, length))
}

#[cfg(test)]
mod tests {
    use super::*;

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
