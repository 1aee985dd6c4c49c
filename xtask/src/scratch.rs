//! A directory that is removed when this process ends, however it ends.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::Error;

/// Waits for the end of its input, which comes when the process that holds the other end of the
/// pipe is gone, and removes the directory. Dying tests may still be writing into it, so the
/// removal is repeated for ten seconds.
const REMOVE_AT_END: &str = r#"cat >/dev/null; n=0
until rm -rf -- "$1" 2>/dev/null; do
    n=$((n+1)); [ $n -lt 100 ] || exit 1; sleep 0.1
done"#;

/// A temporary directory. A child process removes it as soon as this process drops it, exits or is
/// killed, also by SIGKILL. The child has a process group of its own, so that Ctrl-C does not reach
/// it.
pub(crate) struct Scratch {
    path: PathBuf,
    remover: Child,
}

impl Scratch {
    /// Creates a directory below `parent`.
    pub(crate) fn new(parent: &Path) -> Result<Scratch, Error> {
        let dir = tempfile::Builder::new()
            .prefix("dio-xtask-")
            .tempdir_in(parent)
            .map_err(|e| format!("{}: {e}", parent.display()))?;
        let remover = Command::new("sh")
            .args(["-c", REMOVE_AT_END, "sh"])
            .arg(dir.path())
            .stdin(Stdio::piped())
            // A process that reads this program's output must not wait for the removal.
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(|e| format!("sh: {e}"))?;
        Ok(Scratch { path: TempDir::keep(dir), remover })
    }

    /// The path of the directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(self.remover.stdin.take());
        match self.remover.wait() {
            Ok(status) if status.success() => {}
            _ => eprintln!("xtask: {} could not be removed", self.path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::time::{Duration, Instant};

    use super::*;

    /// Variable with the parent directory of a scratch directory that `holder` keeps until it is
    /// killed.
    const PARENT: &str = "XTASK_SCRATCH_PARENT";

    /// Does nothing in an ordinary run.
    #[test]
    fn holder() {
        let Some(parent) = std::env::var_os(PARENT) else {
            return;
        };
        let scratch = Scratch::new(Path::new(&parent)).unwrap();
        std::fs::write(scratch.path().join("file"), b"x").unwrap();
        println!("ready");
        std::thread::sleep(Duration::from_secs(600));
    }

    #[test]
    fn the_directory_is_gone_after_a_kill() {
        let parent = tempfile::tempdir().unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "scratch::tests::holder", "--nocapture"])
            .env(PARENT, parent.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|l| l.contains("ready")), "no directory was made");
        let entries = || std::fs::read_dir(parent.path()).unwrap().count();
        assert_eq!(entries(), 1);
        child.kill().unwrap();
        child.wait().unwrap();
        let patience = Instant::now() + Duration::from_secs(60);
        while entries() > 0 && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(entries(), 0);
    }

    #[test]
    fn the_directory_is_gone_after_the_drop() {
        let parent = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(parent.path()).unwrap();
        let path = scratch.path().to_path_buf();
        std::fs::create_dir(path.join("inner")).unwrap();
        std::fs::write(path.join("inner/file"), b"x").unwrap();
        drop(scratch);
        assert!(!path.exists());
        assert!(parent.path().exists());
    }
}
