//! File systems mounted over the directory of a comparison: dio's, and others for comparison.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::Result;
use crate::lab::Lab;
use crate::tool::{find, tool};

/// A file system server that provides a directory under another path.
#[derive(Clone, Copy)]
pub(super) enum Server {
    /// `dio mount` with these options.
    Dio(&'static str),
    Bindfs,
    /// libfuse's example of a low-level file system, which keeps a descriptor for each inode.
    PassthroughLl,
}

impl Server {
    /// The program.
    pub(super) fn program(self) -> &'static str {
        match self {
            Server::Dio(_) => "dio",
            Server::Bindfs => "bindfs",
            Server::PassthroughLl => "passthrough_ll",
        }
    }

    /// The mount command as a reader would type it.
    pub(super) fn shown(self) -> String {
        match self {
            Server::Dio(options) => format!("dio mount -o {options} $DIR $DIR-mnt"),
            Server::Bindfs => "bindfs --multithreaded $DIR $DIR-mnt".to_string(),
            Server::PassthroughLl => "passthrough_ll -o source=$DIR $DIR-mnt".to_string(),
        }
    }

    fn command(self, lab: &Lab, at: &Path) -> Result<Command> {
        if let Server::Dio(options) = self {
            let mut command = tool(&lab.dio);
            command.args(["mount", "-f", "-o", options]).arg(&lab.dir).arg(at);
            return Ok(command);
        }
        let program =
            find(self.program()).ok_or_else(|| format!("{} is not here", self.program()))?;
        // passthrough_ll needs the greatest possible number of descriptors.
        let mut command = tool("sh");
        command.args(["-c", "ulimit -n $(ulimit -Hn); exec \"$0\" \"$@\""]).arg(program).arg("-f");
        match self {
            Server::PassthroughLl => command.arg("-o").arg(format!("source={}", lab.dir.display())),
            _ => command.arg("--multithreaded").arg(&lab.dir),
        };
        command.arg(at);
        Ok(command)
    }
}

/// MiB that are written and read before the measurements: more than a server handles at a time.
const WARM_UP: u32 = 128;

/// A mount; unmounted when dropped.
pub(super) struct ComparedMount {
    server: Child,
    at: PathBuf,
}

/// The mount point, beside the directory, not below it.
pub(super) fn mount_point(lab: &Lab) -> PathBuf {
    PathBuf::from(format!("{}-mnt", lab.dir.display()))
}

impl ComparedMount {
    pub(super) fn new(lab: &Lab, server: Server) -> Result<ComparedMount> {
        let at = mount_point(lab);
        fs::create_dir_all(&at)?;
        let below = fs::metadata(&lab.dir)?.dev();
        if fs::metadata(&at)?.dev() != below {
            return Err(format!("something is mounted on {} already", at.display()).into());
        }
        let child = server.command(lab, &at)?.stdout(Stdio::null()).spawn()?;
        let (mut mounted, begun) = (ComparedMount { server: child, at }, Instant::now());
        while fs::metadata(&mounted.at)?.dev() == below {
            if let Some(status) = mounted.server.try_wait()? {
                return Err(format!("{}: {status}", server.program()).into());
            }
            if begun.elapsed() > Duration::from_secs(20) {
                return Err("the mount did not come".into());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(mounted)
    }

    /// Makes the server write and read for a while, so that its memory has been touched. The first
    /// use of a page is costly, especially in a virtual machine, and is not part of the comparison.
    pub(super) fn warm_up(&self) -> Result<()> {
        let path = self.at.join("warm-up");
        let mut buffer = vec![1; 1 << 20];
        let mut file =
            fs::File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
        (0..WARM_UP).try_for_each(|_| file.write_all(&buffer))?;
        file.sync_all()?;
        drop(file);
        let mut file = fs::File::open(&path)?;
        while file.read(&mut buffer)? > 0 {}
        drop(file);
        Ok(fs::remove_file(path)?)
    }

    /// CPU time of the server so far, in seconds (proc_pid_stat(5): utime and stime).
    pub(super) fn cpu(&self) -> Result<f64> {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.server.id()))?;
        let fields: Vec<&str> =
            text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok());
        let both = ticks(11).zip(ticks(12)).ok_or("no times in /proc/PID/stat")?;
        Ok((both.0 + both.1) / rustix::param::clock_ticks_per_second() as f64)
    }

    /// Resident memory of the server, in bytes, now.
    pub(super) fn memory(&self) -> Result<f64> {
        self.status("VmRSS:")
    }

    /// The most resident memory that the server has had so far, in bytes.
    pub(super) fn peak(&self) -> Result<f64> {
        self.status("VmHWM:")
    }

    fn status(&self, name: &str) -> Result<f64> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.server.id()))?;
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        let kib = line.split_whitespace().next().and_then(|kib| kib.parse::<f64>().ok());
        Ok(kib.ok_or_else(|| format!("no {name} in /proc/PID/status"))? * 1024.0)
    }

    /// Whether the server ends within `limit`.
    fn ends(&mut self, limit: Duration) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < limit {
            if !matches!(self.server.try_wait(), Ok(None)) {
                return true;
            }
            thread::sleep(Duration::from_millis(5));
        }
        false
    }
}

impl Drop for ComparedMount {
    fn drop(&mut self) {
        // A failed server or a mount in use must neither stop the comparison nor remain.
        if tool("umount")
            .arg(&self.at)
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
            && self.ends(Duration::from_secs(60))
        {
            return;
        }
        eprintln!("benchsuite: {} did not unmount: detached", self.at.display());
        let _ = tool("umount").arg("-l").arg(&self.at).stderr(Stdio::null()).status();
        if !self.ends(Duration::from_secs(5)) {
            let _ = self.server.kill();
            let _ = self.server.wait();
        }
    }
}
