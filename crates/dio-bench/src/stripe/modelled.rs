//! Modelled disks as directories: a file system on a loop device over each image of
//! [`disks`](super::disks).

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::disks::READY;
use super::plan::StripeBenchPlan;
use crate::BenchError;
use crate::data::Scratch;
use crate::study::device::Loop;
use crate::study::run_for_stdout;
use crate::undo::Undo;

/// The most KiB of a request to a loop device: as many as the kernel sends to a FUSE server in one
/// request.
const REQUEST_KIB: &str = "1024";

/// A child process that ends when its standard input ends.
#[derive(Debug)]
pub(super) struct Server(Child);

impl Server {
    /// Starts the child, and waits for the line that says that it is ready. Returns the rest of
    /// that line.
    pub(super) fn start(command: &mut Command) -> Result<(Server, String), BenchError> {
        let shown = PathBuf::from(command.get_program());
        // The child has a process group of its own: a key that interrupts this program must not end
        // the child before the mounts that depend on it.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut server = Server(command.spawn().map_err(BenchError::system("start", &shown))?);
        let mut line = String::new();
        if let Some(output) = server.0.stdout.take() {
            BufReader::new(output)
                .read_line(&mut line)
                .map_err(BenchError::system("hear from", &shown))?;
        }
        match line.trim().strip_prefix(READY) {
            Some(rest) => Ok((server, rest.trim().to_owned())),
            None => Err(BenchError::Asked(format!("'{}' did not begin to serve", shown.display()))),
        }
    }

    /// Tells the child that the setup on its disks is complete.
    fn begin(&mut self) -> Result<(), BenchError> {
        let told = self.0.stdin.as_mut().map_or(Ok(()), |input| input.write_all(b"\n"));
        told.map_err(BenchError::system("tell", Path::new("the modelled disks")))
    }

    /// The process id.
    pub(super) fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Modelled disks. They are taken down in the reverse order of their setup.
#[derive(Debug)]
pub(super) struct Modelled {
    /// One directory on each disk.
    pub(super) directories: Vec<PathBuf>,
    _mounts: Vec<Undo>,
    _images: Undo,
    _server: Server,
    _scratch: Scratch,
}

impl Modelled {
    /// Sets up this many disks.
    pub(super) fn set_up(plan: &StripeBenchPlan, disks: usize) -> Result<Modelled, BenchError> {
        let scratch = Scratch::new(&plan.directory)?;
        let images = scratch.path("images");
        make(&images)?;
        let timing = &plan.timing;
        let mut command = Command::new(&plan.program);
        command.args(["bench", "stripe-disks", "--at"]).arg(&images);
        command.args(["--disks", &disks.to_string(), "--bytes", &plan.image_bytes().to_string()]);
        command.args(["--service-seconds", &timing.service_seconds.to_string()]);
        command.args(["--read", &timing.read_bytes_per_second.to_string()]);
        command.args(["--write", &timing.write_bytes_per_second.to_string()]);
        let (mut server, _) = Server::start(&mut command)?;
        let undo_images = Undo::unmounting(&images);
        let (mut directories, mut mounts) = (Vec::new(), Vec::new());
        for disk in 0..disks {
            let at = scratch.path(&format!("disk{disk}"));
            make(&at)?;
            mounts.push(mount(&images.join(disk.to_string()), &at)?);
            directories.push(at);
        }
        mounts.reverse();
        server.begin()?;
        Ok(Modelled {
            directories,
            _mounts: mounts,
            _images: undo_images,
            _server: server,
            _scratch: scratch,
        })
    }
}

pub(super) fn make(directory: &Path) -> Result<(), BenchError> {
    std::fs::create_dir(directory).map_err(BenchError::system("create", directory))
}

/// Creates a file system on an image and mounts it.
fn mount(image: &Path, at: &Path) -> Result<Undo, BenchError> {
    let device = Loop::over(image)?;
    if let Some(name) = device.device().file_name() {
        let limit = Path::new("/sys/block").join(name).join("queue/max_sectors_kb");
        // If this fails, the kernel splits larger requests, with the same timing.
        let _ = std::fs::write(limit, REQUEST_KIB);
    }
    // The file system has no journal, and its tables are written in advance, so that only writes of
    // data take the disk's time.
    let options =
        ["-q", "-F", "-m", "0", "-O", "^has_journal", "-E", "lazy_itable_init=0,nodiscard"];
    run_for_stdout(Command::new("mkfs.ext4").args(options).arg(device.device()))?;
    let mut mount = Command::new("mount");
    mount.args(["-t", "ext4", "-o", "noatime"]).args([device.device(), at]);
    let (_, mounted) = Undo::of(&mut mount, |_| Undo::unmounting(at))?;
    // A device that is detached while it is in use disappears with its last user, in whatever way
    // that user ends.
    drop(device);
    Ok(mounted)
}
