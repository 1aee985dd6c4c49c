//! Shared by the tests of `dio run`.

#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use dio_test::{Output, file_systems, is_root, run, skip};
use tempfile::TempDir;

pub const DIO: &str = env!("CARGO_BIN_EXE_dio");

/// A directory that any user may enter, with the directory `d` in it.
pub struct Scratch(pub TempDir);

impl Scratch {
    pub fn new() -> Scratch {
        Scratch::on(&file_systems()[0])
    }

    pub fn on(fs: &dio_test::TestFs) -> Scratch {
        let scratch = Scratch(fs.dir());
        fs::set_permissions(scratch.0.path(), PermissionsExt::from_mode(0o755)).unwrap();
        fs::create_dir(scratch.at("d")).unwrap();
        scratch
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    /// Returns the command `dio run --dir d …`, run in the scratch directory.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(DIO);
        command.args(["run", "--dir", "d"]).args(words).current_dir(self.at("")).env("LC_ALL", "C");
        command
    }

    #[track_caller]
    pub fn well(&self, words: &[&str]) -> String {
        let output = run(&mut self.command(words));
        assert!(output.status.success() && output.stderr.is_empty(), "{words:?}: {output:?}");
        output.stdout
    }

    pub fn script(&self, script: &str) -> Output {
        run(&mut self.command(&["--", "sh", "-c", script]))
    }

    /// Number of mounts of dio below this directory that are visible outside of the command.
    pub fn mounted(&self) -> usize {
        let place = self.at("");
        mounts()
            .lines()
            .filter(|line| line.contains("fuse.dio") && line.contains(place.to_str().unwrap()))
            .count()
    }

    /// Process IDs of the servers of this directory, found by their command lines.
    pub fn servers(&self) -> Vec<u32> {
        let place = self.at("d");
        let ours = |pid: &u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
            words.contains(&&b"run-server"[..])
                && words.contains(&place.as_os_str().as_encoded_bytes())
        };
        let names = fs::read_dir("/proc").unwrap().flatten();
        names.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(ours).collect()
    }

    /// Waits until no server is left, which should take only moments.
    #[track_caller]
    pub fn no_server_stays(&self) {
        let patience = Instant::now() + Duration::from_secs(20);
        while !self.servers().is_empty() {
            assert!(Instant::now() < patience, "a server stays: {:?}", self.servers());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

pub fn mounts() -> String {
    fs::read_to_string("/proc/self/mountinfo").unwrap()
}

/// Whether these tests can mount. If not, prints that they are skipped.
pub fn can_mount() -> bool {
    if !is_root() {
        skip!("private mounts need root here");
    }
    is_root()
}
