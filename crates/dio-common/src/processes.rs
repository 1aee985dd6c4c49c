//! The processes of the machine, as `/proc` has them (`proc(5)`), and where programs are.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The numbers of all processes.
///
/// # Errors
/// `/proc` cannot be listed.
pub fn ids() -> io::Result<impl Iterator<Item = u32>> {
    let entries = fs::read_dir("/proc")?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()))
}

/// The words of the command line of a process; none if it has ended, or is a thread of the kernel.
#[must_use]
pub fn command_line(pid: u32) -> Vec<Vec<u8>> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    // Each word ends with a zero byte; programs that wrote a title there may have left that out.
    let words = line.strip_suffix(b"\0").unwrap_or(&line);
    if words.is_empty() {
        return Vec::new();
    }
    words.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect()
}

/// The fields of `/proc/PID/stat` (`proc_pid_stat(5)`) from the one with this number on, which is 3
/// (`state`) or more. They are counted from the end of the program's name, which may contain any
/// character. `None` if the text has no name.
#[must_use]
pub fn stat_fields(stat: &str, first: usize) -> Option<impl Iterator<Item = &str>> {
    Some(stat.rsplit_once(')')?.1.split_whitespace().skip(first.checked_sub(3)?))
}

/// A program in one of the directories of `PATH`, or else of `more`; one that is given by its whole
/// path is where that says.
#[must_use]
pub fn program(name: impl AsRef<Path>, more: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(more.iter().map(PathBuf::from));
    places.map(|place| place.join(&name)).find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_one_and_has_its_words() {
        let own = std::process::id();
        assert!(ids().unwrap().any(|id| id == own));
        let words: Vec<Vec<u8>> =
            std::env::args_os().map(|word| word.into_encoded_bytes()).collect();
        assert_eq!(command_line(own), words);
        assert!(command_line(u32::MAX).is_empty());
    }

    #[test]
    fn fields_are_counted_from_the_end_of_the_name() {
        let field = |stat, number| stat_fields(stat, number)?.next();
        assert_eq!(field("12 (a) b (c) S 2 0", 3), Some("S"));
        assert_eq!(field("12 (a) b (c) S 2 0", 4), Some("2"));
        assert_eq!(field("12 (a) b (c) S 2 0", 9), None);
        assert_eq!(field("12 (a", 3), None);
    }

    #[test]
    fn programs_are_found_in_the_path_and_beside_it() {
        assert!(program("sh", &[]).is_some());
        assert_eq!(program("no-such-program", &["/proc"]), None);
        assert_eq!(program("meminfo", &["/proc"]), Some("/proc/meminfo".into()));
        assert_eq!(program("/proc/meminfo", &[]), Some("/proc/meminfo".into()));
    }
}
