//! Finds the files that other processes map, from `/proc/PID/maps` (`proc_pid_maps(5)`).

use dio::names::FileId;
use std::collections::HashMap;
use std::fs::Metadata;
use std::io::{self, BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Files mapped by other processes at the moment of the scan.
pub(super) struct Mapped {
    /// The first process found to map each file.
    processes: HashMap<FileId, u32>,
    /// Number of processes whose mappings may not be read.
    pub(super) unreadable: u64,
}

impl Mapped {
    /// Reads the mappings of all processes listed in `proc`.
    pub(super) fn scan(proc: &Path) -> Self {
        let mut mapped = Self { processes: HashMap::new(), unreadable: 0 };
        let Ok(entries) = std::fs::read_dir(proc) else {
            // No mapping is known then; this counts as one unreadable process.
            mapped.unreadable = 1;
            return mapped;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Some(process) = name.to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            if process == std::process::id() {
                continue;
            }
            match mapped.read(&entry.path().join("maps"), process) {
                Ok(()) => {}
                // The process ended meanwhile.
                Err(error) if has_ended(&error) => {}
                Err(_) => mapped.unreadable += 1,
            }
        }
        mapped
    }

    /// A process that maps this file, if there is one.
    pub(super) fn process_mapping(&self, metadata: &Metadata) -> Option<u32> {
        self.processes.get(&FileId::of_metadata(metadata)).copied()
    }

    fn read(&mut self, maps: &Path, process: u32) -> io::Result<()> {
        for line in BufReader::new(std::fs::File::open(maps)?).split(b'\n') {
            let line = line?;
            let Some((identity, path)) = parse(&line) else {
                continue;
            };
            let is_new = !self.processes.contains_key(&identity);
            self.processes.entry(identity).or_insert(process);
            // On file systems without a device number of their own (btrfs, overlayfs), `stat`
            // reports another device than `maps`.
            if is_new && rustix::fs::major(identity.device()) == 0 {
                let path = Path::new(std::ffi::OsStr::from_bytes(path));
                if let Ok(metadata) = std::fs::metadata(path) {
                    let identity = FileId::of_metadata(&metadata);
                    self.processes.entry(identity).or_insert(process);
                }
            }
        }
        Ok(())
    }
}

fn has_ended(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

/// Parses a line `start-end perms offset major:minor inode   path` into the identity and path of
/// the file. `None` for memory that belongs to no file.
fn parse(line: &[u8]) -> Option<(FileId, &[u8])> {
    let mut fields = line.splitn(6, |byte| *byte == b' ');
    let device = std::str::from_utf8(fields.nth(3)?).ok()?;
    let inode = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    if inode == 0 {
        return None;
    }
    let (major, minor) = device.split_once(':')?;
    let major = u32::from_str_radix(major, 16).ok()?;
    let minor = u32::from_str_radix(minor, 16).ok()?;
    let path = fields.next().unwrap_or_default().trim_ascii_start();
    Some((FileId::from_numbers(rustix::fs::makedev(major, minor), inode), path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_device_inode_and_a_path_with_blanks() {
        let line = b"7f00-7f01 r-xp 00002000 fe:1f 1234                  /usr/lib/a b.so";
        let (identity, path) = parse(line).unwrap();
        assert_eq!(identity, FileId::from_numbers(rustix::fs::makedev(0xfe, 0x1f), 1234));
        assert_eq!(path, b"/usr/lib/a b.so");
    }

    #[test]
    fn memory_of_no_file_is_passed_over() {
        assert!(
            parse(b"7ffc-7ffd rw-p 00000000 00:00 0                          [stack]").is_none()
        );
        assert!(parse(b"7ffc-7ffd rw-p 00000000 00:00 0 ").is_none());
        assert!(parse(b"").is_none());
    }

    #[test]
    fn another_process_is_found_and_this_one_is_not() {
        let proc = tempfile::tempdir().unwrap();
        for (process, inode) in [(std::process::id(), 7), (4_000_000_001, 8)] {
            let directory = proc.path().join(process.to_string());
            std::fs::create_dir(&directory).unwrap();
            std::fs::write(directory.join("maps"), format!("1-2 r--p 0 fe:00 {inode}  /x\n"))
                .unwrap();
        }
        std::fs::create_dir(proc.path().join("4000000002")).unwrap();
        std::fs::create_dir(proc.path().join("self")).unwrap();
        let mapped = Mapped::scan(proc.path());
        let device = rustix::fs::makedev(0xfe, 0);
        assert_eq!(mapped.processes.get(&FileId::from_numbers(device, 8)), Some(&4_000_000_001));
        assert_eq!(mapped.processes.get(&FileId::from_numbers(device, 7)), None);
        assert_eq!(mapped.unreadable, 0);
    }
}
