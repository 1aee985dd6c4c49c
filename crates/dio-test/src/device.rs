//! Block devices over files.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Bytes written at a time.
const PIECE: usize = 1 << 20;

/// A loop device over a file full of bytes that must never become visible. Dropping it takes it
/// down.
#[derive(Debug)]
pub struct LoopDevice {
    path: PathBuf,
    size: u64,
}

impl LoopDevice {
    /// The byte that fills a new device.
    pub const GARBAGE: u8 = 0xaa;

    /// Makes a device of `size` bytes in blocks of `block` bytes, over the new file `image`. If
    /// that is not possible, prints that the test is skipped.
    ///
    /// # Panics
    /// When the file cannot be made.
    #[track_caller]
    #[must_use]
    pub fn new(image: &Path, size: u64, block: u32) -> Option<LoopDevice> {
        File::create(image).and_then(|file| file.set_len(size)).expect("a place for the file");
        let mut attach = Command::new("losetup");
        attach.args(["--find", "--show", "--sector-size"]).arg(block.to_string()).arg(image);
        match crate::run(&mut attach) {
            output if output.status.success() => {
                let device = LoopDevice { path: output.stdout.trim().into(), size };
                device.fill(LoopDevice::GARBAGE);
                Some(device)
            }
            output => {
                crate::skip!("no loop device can be set up: {}", output.stderr.trim());
                None
            }
        }
    }

    /// The path of the device.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of the device as text.
    ///
    /// # Panics
    /// Never: the names of loop devices are plain.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.to_str().expect("a plain name")
    }

    /// Fills the whole device with a byte, durably.
    ///
    /// # Panics
    /// On any I/O error.
    #[track_caller]
    pub fn fill(&self, byte: u8) {
        let device = OpenOptions::new().write(true).open(&self.path).expect("a device of ours");
        let piece = vec![byte; PIECE];
        let mut at = 0;
        while at < self.size {
            let most = (self.size - at).min(PIECE as u64);
            device.write_all_at(&piece[..most as usize], at).expect("a device of ours");
            at += most;
        }
        device.sync_all().expect("a device of ours");
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        // A program that examines new devices may have it open for a moment: the kernel takes it
        // down when that program closes it.
        crate::run(Command::new("losetup").arg("--detach").arg(&self.path));
    }
}
