//! Why a directory could not be mounted, served or unmounted, and the cure where one is known.

use std::io;
use std::path::{Path, PathBuf};

use dio::file::{words, words_of};
use rustix::io::Errno;

/// Why a directory could not be mounted, served or unmounted. The text is in the manner of
/// `mount(8)`: place, then reason.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    /// The source cannot be opened.
    #[error("{}: {}", .path.display(), source_words(*.errno))]
    Source {
        /// As it was given.
        path: PathBuf,
        /// What opening it answered.
        errno: Errno,
    },
    /// The mount point cannot be opened.
    #[error("{}: {}", .path.display(), point_words(*.errno))]
    MountPoint {
        /// As it was given.
        path: PathBuf,
        /// What opening it answered.
        errno: Errno,
    },
    /// The mount point is a mount whose server is gone.
    #[error("{}: a mount whose server is gone", .path.display())]
    Stale {
        /// The mount point.
        path: PathBuf,
    },
    /// The source would contain its own mount, and that one its own, without end.
    #[error("{}: mount point lies below the source {}", .path.display(), .source_path.display())]
    Below {
        /// The mount point.
        path: PathBuf,
        /// The directory above it.
        source_path: PathBuf,
    },
    /// This source is mounted on this place.
    #[error("{}: {source_name} already mounted on {}", .path.display(), .path.display())]
    Already {
        /// The mount point.
        path: PathBuf,
        /// The source as the table of mounts shows it.
        source_name: String,
    },
    /// Another server of dio's writes to this source.
    #[error("{}: already served, and written to, at {}", .path.display(), .at.display())]
    Second {
        /// The source.
        path: PathBuf,
        /// Where it is mounted.
        at: PathBuf,
        /// Where it was to be mounted.
        wanted: PathBuf,
    },
    /// The device through which the kernel hands over requests cannot be opened.
    #[error("/dev/fuse: {}", words(*.errno))]
    Device {
        /// What opening it answered.
        errno: Errno,
    },
    /// Neither may this process mount, nor is there a program that may do it for users.
    #[error("{}: permission denied: only root can mount", .path.display())]
    Permission {
        /// The mount point.
        path: PathBuf,
    },
    /// An option that takes root.
    #[error("only root can use the option '{option}'")]
    OnlyRoot {
        /// The option.
        option: String,
    },
    /// `fusermount3` refused.
    #[error("{}: {said}", .path.display())]
    Refused {
        /// The mount point.
        path: PathBuf,
        /// Its message.
        said: String,
    },
    /// `mount(2)` failed.
    #[error("{}: mount(2) system call failed: {}", .path.display(), words(*.errno))]
    Mount {
        /// The mount point.
        path: PathBuf,
        /// What it answered.
        errno: Errno,
    },
    /// The kernel and the server did not come to terms.
    #[error("{}: the kernel does not serve this mount: {}", .path.display(), words_of(.error))]
    Handshake {
        /// The mount point.
        path: PathBuf,
        /// What went wrong.
        error: io::Error,
    },
    /// The mount stood and did not answer.
    #[error("{}: the mount does not answer: {}", .path.display(), words(*.errno))]
    Answer {
        /// The mount point.
        path: PathBuf,
        /// What asking it for its attributes answered.
        errno: Errno,
    },
    /// The tree of the source cannot be served.
    #[error("{}: {}", .path.display(), words(*.errno))]
    Serve {
        /// The source.
        path: PathBuf,
        /// What went wrong.
        errno: Errno,
    },
    /// There is no mount.
    #[error("{}: not mounted", .path.display())]
    NotMounted {
        /// The place.
        path: PathBuf,
    },
    /// There is a mount, but not one of dio.
    #[error("{}: {kind} is mounted here, not dio", .path.display())]
    NotOurs {
        /// The mount point.
        path: PathBuf,
        /// The type of the file system that is mounted on top.
        kind: String,
    },
    /// Files are open below the mount, or a process has its directory there.
    #[error("{}: target is busy", .path.display())]
    Busy {
        /// The mount point.
        path: PathBuf,
    },
    /// Unmounting failed otherwise.
    #[error("{}: cannot unmount: {}", .path.display(), words(*.errno))]
    Unmount {
        /// The mount point.
        path: PathBuf,
        /// What `umount2(2)` answered.
        errno: Errno,
    },
    /// Serving ended with an error instead of by unmounting.
    #[error("{}: serving ended: {}", .path.display(), words_of(.error))]
    Served {
        /// The mount point.
        path: PathBuf,
        /// What went wrong.
        error: io::Error,
    },
}

impl MountError {
    /// What helps, in a few words, where that is known.
    pub fn cure(&self) -> Option<String> {
        let text = match self {
            MountError::Stale { path } => format!("unmount it first: dio umount {}", path.display()),
            MountError::Below { source_path, .. } => {
                format!("mount elsewhere, or mount {} over itself", source_path.display())
            }
            MountError::Device { errno } => device_cure(*errno)?.to_owned(),
            MountError::Mount { errno: Errno::NODEV, .. } => "load the kernel's module: modprobe fuse".to_owned(),
            MountError::Permission { .. } => {
                "mount as root, or install fusermount3 (Debian's package fuse3), which mounts for users".to_owned()
            }
            MountError::OnlyRoot { .. } => "leave it away, or mount as root".to_owned(),
            MountError::Refused { said, .. } if said.contains("user_allow_other") => {
                "leave allow_other away, or have root put user_allow_other into /etc/fuse.conf".to_owned()
            }
            MountError::Refused { said, .. } if said.contains("/dev/fuse: Permission") => {
                "have root let users open it: chmod 666 /dev/fuse".to_owned()
            }
            MountError::Busy { path } => {
                format!("end what uses it (fuser -vm {0}), or detach it: dio umount -l {0}", path.display())
            }
            MountError::NotOurs { path, .. } => format!("use umount {}", path.display()),
            MountError::Second { at, wanted, .. } => format!(
                "show that mount here too: mount --bind {} {}; give files modes of their own by rules; or mount with -o ro",
                at.display(),
                wanted.display()
            ),
            _ => return None,
        };
        Some(text)
    }

    /// The error with its cure in one line.
    pub fn with_cure(&self) -> String {
        match self.cure() {
            Some(cure) => format!("{self} ({cure})"),
            None => self.to_string(),
        }
    }

    pub(super) fn unmount(path: &Path, errno: Errno) -> MountError {
        let path = path.to_path_buf();
        match errno {
            Errno::BUSY => MountError::Busy { path },
            Errno::INVAL | Errno::NOENT => MountError::NotMounted { path },
            errno => MountError::Unmount { path, errno },
        }
    }
}

fn source_words(errno: Errno) -> String {
    match errno {
        Errno::NOENT => "source directory does not exist".to_owned(),
        Errno::NOTDIR => "source is not a directory".to_owned(),
        errno => format!("cannot open the source: {}", words(errno)),
    }
}

fn point_words(errno: Errno) -> String {
    match errno {
        Errno::NOENT => "mount point does not exist".to_owned(),
        Errno::NOTDIR => "mount point is not a directory".to_owned(),
        errno => format!("cannot open the mount point: {}", words(errno)),
    }
}

fn device_cure(errno: Errno) -> Option<&'static str> {
    match errno {
        Errno::NOENT | Errno::NODEV | Errno::NXIO => {
            Some("load the kernel's module, modprobe fuse; in a container, hand the device in: --device /dev/fuse")
        }
        Errno::ACCESS | Errno::PERM => {
            Some("mount as root, or install fusermount3 (Debian's package fuse3), which mounts for users")
        }
        _ => None,
    }
}
