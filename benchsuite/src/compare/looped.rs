//! A copy on a loop device in memory, where the CPU is the limit.

use std::env;
use std::fs::{self, File};
use std::path::Path;

use super::copy;
use crate::Result;
use crate::lab::Lab;
use crate::tool::{must, output, tool};
use dio_bench::suite::ComparisonReport;
use dio_common::size::{GIB, MIB};

/// Runs [`compare`] in a mount namespace of its own. However it ends, the mount ends with the
/// namespace, the loop device with the mount, and the unlinked image with the loop device.
pub(crate) fn enter(lab: &Lab) -> Result<()> {
    let mut options = lab.options.clone();
    options.dio = Some(lab.dio.clone());
    options.dir = lab.dir.clone();
    let mut inside = tool("unshare");
    inside
        .args(["--mount", "--propagation", "private", "--"])
        .arg(env::current_exe()?)
        .arg("loop-inside");
    let status = inside.args(options.to_args()).status().map_err(|e| format!("unshare: {e}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("in a mount namespace of its own: {status}").into())
    }
}

/// Creates the file system in memory, and compares there.
pub(crate) fn compare(lab: &Lab) -> Result<ComparisonReport> {
    ["losetup", "mkfs.ext4"].map(must).into_iter().collect::<Result<Vec<_>>>()?;
    let bytes = lab.options.size.unwrap_or(2 * GIB);
    let memory = tempfile::Builder::new().prefix("dio-benchsuite").tempdir_in("/dev/shm")?;
    let (image, mount) = (memory.path().join("image"), memory.path().join("mount"));
    fs::create_dir(&mount)?;
    // Room for source and target, and a tenth for the file system itself.
    File::create(&image)?.set_len(bytes * 2 + bytes / 10 + 64 * MIB)?;
    output(
        tool("mkfs.ext4")
            .args(["-q", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0"])
            .arg(&image),
    )?;
    output(tool("mount").args(["-o", "loop"]).arg(&image).arg(&mount))?;
    // The loop device keeps the image alive as long as it is mounted.
    let report =
        fs::remove_file(&image).map_err(Into::into).and_then(|()| inside(lab, &mount, bytes));
    output(tool("umount").arg(&mount))?;
    report
}

fn inside(lab: &Lab, mount: &Path, bytes: u64) -> Result<ComparisonReport> {
    fill(mount, bytes)?;
    copy::compare_on_memory(&lab.at(mount), bytes)
}

/// Writes every block of the file system once. tmpfs allocates its pages on first use, and the
/// first round would include that cost.
fn fill(mount: &Path, bytes: u64) -> Result<()> {
    let file = mount.join("fill");
    let mut dd = tool("dd");
    dd.args(["if=/dev/zero", "bs=1M", "oflag=direct", "conv=fsync", "status=none"]);
    output(dd.arg(format!("of={}", file.display())).arg(format!("count={}", bytes * 2 / MIB)))?;
    Ok(fs::remove_file(file)?)
}
