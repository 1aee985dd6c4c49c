//! Finds out how I/O to a path really behaves, by kernel queries and by trials on a temporary file.
//!
//! A successful `open(O_DIRECT)` or an accepted flag proves nothing, so the trials count resident
//! pages. In a writable directory they use a nameless file of a few MiB, which cannot be left
//! behind. An existing file or a device is never written: up to 1 MiB that was not in the cache is
//! read, and its pages are removed from the cache again. For a striped file, this is done with each
//! object.

mod answer;
mod device;
mod ring;
mod sharing;
mod stripes;
mod trial;
mod trial_file;

use crate::quote::named;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};

pub use crate::geometry::Mount;
pub use answer::{Answer, Kind};
pub use device::Device;
pub use ring::Ring;
pub use sharing::{Overwrites, Rates, Sharing};
pub use stripes::{Object, Stripes};
pub use trial::Trials;

use crate::file::words_of as words;
use crate::geometry::{FileSystem, Geometry};

/// The results for one path.
#[derive(Debug, Clone)]
pub struct Report {
    /// The path as given.
    pub path: PathBuf,
    /// The kind of file at the path.
    pub kind: Kind,
    /// The file system by its magic number; `None` for a block device.
    pub file_system: Option<FileSystem>,
    /// The mount that contains it; `None` for a block device, or if `/proc` does not list it.
    pub mount: Option<Mount>,
    /// Alignments and sizes of the file, the device, or a file created in the directory; or the
    /// reason why they are unknown.
    pub geometry: Result<Geometry, String>,
    /// The block device below, or the reason why it is unknown.
    pub device: Result<Device, String>,
    /// The results of the trials.
    pub trials: Trials,
    /// The objects of a striped file, or the reason why they are unknown; `None` for any other
    /// file. For a striped file, `geometry` and `trials` are those of the whole file; file system,
    /// mount and device are those of its descriptor.
    pub stripes: Option<Result<Stripes, String>>,
    /// The io_uring features that this process may use; independent of the path.
    pub io_uring: Ring,
}

/// The reasons why a path cannot be probed at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// It cannot be found or opened.
    #[error("cannot open {}: {source}", named(path))]
    Open {
        /// The path as given.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// It contains no data that could be read or written in blocks.
    #[error("{} is neither a file, a directory nor a block device", named(path))]
    NoStorage {
        /// The path as given.
        path: PathBuf,
    },
}

/// Finds out how I/O to `path` really behaves. Symbolic links are followed.
///
/// In a writable directory this takes about half a second, and writes several times to files of at
/// most some 10 MiB.
///
/// # Errors
/// If the path cannot be opened, or names a pipe, socket or character device. Any other failure
/// becomes an [`Answer::Unknown`] or a missing part of the report.
pub fn probe(path: &Path) -> Result<Report, ProbeError> {
    let open_failed =
        |errno: rustix::io::Errno| ProbeError::Open { path: path.to_owned(), source: errno.into() };
    // O_PATH needs no permission on the file itself and has no effect on devices.
    let place = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
        .map_err(open_failed)?;
    let stat = rustix::fs::fstat(&place).map_err(open_failed)?;
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::BlockDevice => Kind::BlockDevice,
        _ => {
            return Err(ProbeError::NoStorage { path: path.to_owned() });
        }
    };
    // The mount that contains a device node is not related to the device.
    let mount = match kind {
        Kind::BlockDevice => None,
        Kind::File | Kind::Directory => Mount::of(&place),
    };
    let stripes = if kind == Kind::File { Stripes::of(path) } else { None };
    let (geometry, trials) = match (&stripes, kind) {
        (Some(Ok(stripes)), _) => (stripes.geometry(), stripes.trials()),
        (_, Kind::Directory) => of_directory(path),
        (_, Kind::File | Kind::BlockDevice) => trial::on_existing_file(path, &place),
    };
    Ok(Report {
        path: path.to_owned(),
        kind,
        file_system: match kind {
            Kind::BlockDevice => None,
            Kind::File | Kind::Directory => FileSystem::of(place.as_fd()).ok(),
        },
        device: Device::below(kind, &stat, mount.as_ref()),
        mount,
        geometry,
        trials,
        stripes,
        io_uring: Ring::probe(),
    })
}

/// Runs the trials on a temporary file, if one can be created.
fn of_directory(path: &Path) -> (Result<Geometry, String>, Trials) {
    match trial_file::create(path) {
        Ok(file) => {
            let geometry = Geometry::of(file.as_fd()).map_err(|error| words(&error));
            let trials = trial::on_own_file(path, &file, geometry.as_ref().ok());
            (geometry, trials)
        }
        Err(error) => {
            let reason = format!("no file can be created in it: {}", words(&error));
            (Err(reason.clone()), Trials::unknown(&reason))
        }
    }
}

#[cfg(test)]
mod tests;
