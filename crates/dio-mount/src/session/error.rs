//! Errors of mounting, serving and unmounting, with advice where there is any.

use std::io;
use std::path::{Path, PathBuf};

use dio::file::{words, words_of};
use rustix::io::Errno;

/// The reasons why a directory could not be mounted, served or unmounted. The text is formatted as
/// by `mount(8)`: the path, then the reason.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    /// The source cannot be opened.
    #[error("{}: {}", .path.display(), source_words(*.errno))]
    Source {
        /// The path as it was given.
        path: PathBuf,
        /// The error of opening it.
        errno: Errno,
    },
    /// The mount point cannot be opened.
    #[error("{}: {}", .path.display(), point_words(*.errno))]
    MountPoint {
        /// The path as it was given.
        path: PathBuf,
        /// The error of opening it.
        errno: Errno,
    },
    /// The mount point is a mount whose server is gone.
    #[error("{}: a mount whose server is gone", .path.display())]
    Stale {
        /// The mount point.
        path: PathBuf,
    },
    /// The mount point lies below the source, so the mount would contain itself, endlessly.
    #[error("{}: mount point lies below the source {}", .path.display(), .source_path.display())]
    Below {
        /// The mount point.
        path: PathBuf,
        /// The source, which contains the mount point.
        source_path: PathBuf,
    },
    /// This source is already mounted on this mount point.
    #[error("{}: {source_name} already mounted on {}", .path.display(), .path.display())]
    Already {
        /// The mount point.
        path: PathBuf,
        /// The source's name in the table of mounts.
        source_name: String,
    },
    /// Another dio server writes to this source.
    #[error("{}: already served, and written to, at {}", .path.display(), .at.display())]
    Second {
        /// The source.
        path: PathBuf,
        /// The other server's mount point.
        at: PathBuf,
        /// The requested mount point.
        wanted: PathBuf,
    },
    /// The device that transfers requests from the kernel cannot be opened.
    #[error("/dev/fuse: {}", words(*.errno))]
    Device {
        /// The error of opening it.
        errno: Errno,
    },
    /// This process may not mount, and there is no program that mounts for users.
    #[error("{}: permission denied: only root can mount", .path.display())]
    Permission {
        /// The mount point.
        path: PathBuf,
    },
    /// An option that only root may use.
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
        /// The error of `mount(2)`.
        errno: Errno,
    },
    /// The kernel and the server could not agree on the protocol.
    #[error("{}: the kernel does not serve this mount: {}", .path.display(), words_of(.error))]
    Handshake {
        /// The mount point.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// The mount was made but did not answer.
    #[error("{}: the mount does not answer: {}", .path.display(), words(*.errno))]
    Answer {
        /// The mount point.
        path: PathBuf,
        /// The error of `stat(2)` on the mount.
        errno: Errno,
    },
    /// The tree of the source cannot be served.
    #[error("{}: {}", .path.display(), words(*.errno))]
    Serve {
        /// The source.
        path: PathBuf,
        /// The error.
        errno: Errno,
    },
    /// There is no mount.
    #[error("{}: not mounted", .path.display())]
    NotMounted {
        /// The path.
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
    /// Files are open below the mount, or a process has its working directory there.
    #[error("{}: target is busy", .path.display())]
    Busy {
        /// The mount point.
        path: PathBuf,
    },
    /// Unmounting failed for another reason.
    #[error("{}: cannot unmount: {}", .path.display(), words(*.errno))]
    Unmount {
        /// The mount point.
        path: PathBuf,
        /// The error of `umount2(2)`.
        errno: Errno,
    },
    /// Serving ended with an error instead of by unmounting.
    #[error("{}: serving ended: {}", .path.display(), words_of(.error))]
    Served {
        /// The mount point.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
}

impl MountError {
    /// Returns short advice, where there is any.
    pub fn cure(&self) -> Option<String> {
        let text = match self {
            MountError::Stale { path } => {
                format!("unmount it first: dio umount {}", path.display())
            }
            MountError::Below { source_path, .. } => {
                format!("mount elsewhere, or mount {} over itself", source_path.display())
            }
            MountError::Device { errno } => device_cure(*errno)?.to_owned(),
            MountError::Mount { errno: Errno::NODEV, .. } => "load the kernel's module: modprobe \
                fuse"
                .to_owned(),
            MountError::Permission { .. } => "mount as root, or install fusermount3 (Debian's \
                                              package fuse3), which mounts for users"
                .to_owned(),
            MountError::OnlyRoot { .. } => "leave it away, or mount as root".to_owned(),
            MountError::Refused { said, .. } if said.contains("user_allow_other") => "leave \
                allow_other away, or have root put user_allow_other into /etc/fuse.conf"
                .to_owned(),
            MountError::Refused { said, .. } if said.contains("/dev/fuse: Permission") => {
                "have root let users open it: chmod 666 /dev/fuse".to_owned()
            }
            MountError::Busy { path } => {
                format!(
                    "end what uses it (fuser -vm {0}), or detach it: dio umount -l {0}",
                    path.display()
                )
            }
            MountError::NotOurs { path, .. } => format!("use umount {}", path.display()),
            MountError::Second { at, wanted, .. } => format!(
                "show that mount here too: mount --bind {} {}; give files modes of their own by \
                 rules; or mount with -o ro",
                at.display(),
                wanted.display()
            ),
            _ => return None,
        };
        Some(text)
    }

    /// Returns the error and its advice in one line.
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
        Errno::NOENT | Errno::NODEV | Errno::NXIO => Some(
            "load the kernel's module, modprobe fuse; in a container, hand the device in: --device \
             /dev/fuse",
        ),
        Errno::ACCESS | Errno::PERM => Some(
            "mount as root, or install fusermount3 (Debian's package fuse3), which mounts for \
             users",
        ),
        _ => None,
    }
}
