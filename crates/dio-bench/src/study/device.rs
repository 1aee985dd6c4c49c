//! Block devices whose contents may be lost.

use std::fs::OpenOptions;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::OFlags;

use crate::BenchError;
use crate::undo::Undo;

/// A loop device with direct I/O over a file, detached when dropped.
#[derive(Debug)]
pub(crate) struct Loop {
    device: PathBuf,
    _undo: Undo,
}

impl Loop {
    /// Creates a loop device over a file, which must be filled: reads of unwritten extents would
    /// never reach the device below.
    pub(crate) fn over(image: &Path) -> Result<Loop, BenchError> {
        let mut attach = Command::new("losetup");
        attach.args(["--find", "--show", "--direct-io=on"]).arg(image);
        let detach =
            |said: &str| Undo::by(["losetup".into(), "--detach".into(), said.trim().into()]);
        let (said, undo) = Undo::of(&mut attach, detach)?;
        Ok(Loop { device: PathBuf::from(said.trim()), _undo: undo })
    }

    /// The device's path.
    pub(crate) fn device(&self) -> &Path {
        &self.device
    }
}

/// Checks that a path is a block device, large enough and not in use, since its contents will be
/// overwritten.
pub(crate) fn check_device(device: &Path, bytes: u64) -> Result<(), BenchError> {
    let failed = |operation| BenchError::system(operation, device);
    if !std::fs::metadata(device).map_err(failed("look at"))?.file_type().is_block_device() {
        return Err(BenchError::Asked(format!("'{}' is no block device", device.display())));
    }
    // An exclusive open fails while a file system on the device is mounted (open(2), O_EXCL without
    // O_CREAT).
    let exclusive = OFlags::EXCL.bits().cast_signed();
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(exclusive)
        .open(device)
        .map_err(failed("open"))?;
    let size = dio_sys::block_device_size(file.as_fd()).map_err(failed("ask the size of"))?;
    if size < bytes {
        return Err(BenchError::Asked(format!(
            "'{}' has {size} bytes, and {bytes} are needed",
            device.display()
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_devices_that_nobody_uses_are_taken() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "precious").unwrap();
        let error = check_device(&path, 1).unwrap_err();
        assert!(error.to_string().ends_with("is no block device"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }
}
