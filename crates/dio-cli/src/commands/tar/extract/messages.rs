//! Messages about members, in GNU tar's words.

use std::ffi::CStr;
use std::fmt::Display;

use rustix::io::Errno;

use super::super::quoting::{escaped, harmless};
use super::super::run::TarRun;
use super::super::warnings::Warning;
use crate::quote::words;

/// Prints messages about one member.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemberMessages<'a> {
    pub(super) run: &'a TarRun,
    /// The name of the member in the target directory.
    pub(super) name: &'a [u8],
}

impl MemberMessages<'_> {
    /// Prints an error about the member.
    pub(super) fn error(&self, what: impl Display) {
        self.run.error(format_args!("{}: {what}", escaped(self.name)));
    }

    /// Prints a warning about the member; the exit status does not change.
    pub(super) fn warn(&self, kind: Warning, what: impl Display) {
        self.run.warn(kind, format_args!("{}: {what}", escaped(self.name)));
    }

    /// Reports that an existing file stays, as the options demand; by default only with `-v`.
    pub(super) fn skipped(&self) {
        match self.run.options.verbose {
            0 => self.warn(Warning::ExistingFile, "skipping existing file"),
            _ => self.run.note(format_args!("{}: skipping existing file", escaped(self.name))),
        }
    }

    /// Reports that the age of the existing file cannot be determined.
    pub(super) fn unasked(&self, errno: Errno) {
        self.run.note(format_args!(
            "{}: Warning: Cannot stat: {}",
            escaped(self.name),
            words(errno)
        ));
    }

    /// Reports that the step `what` failed.
    pub(super) fn cannot(&self, what: impl Display, errno: Errno) {
        match errno {
            Errno::XDEV => self.error(format_args!(
                "Cannot {what}: A symbolic link leads out of the target directory"
            )),
            errno => self.error(format_args!("Cannot {what}: {}", words(errno))),
        }
    }

    pub(super) fn owner(&self, uid: u32, gid: u32, set: Result<(), Errno>) {
        if let Err(errno) = set {
            self.cannot(format_args!("change ownership to uid {uid}, gid {gid}"), errno);
        }
    }

    pub(super) fn mode(&self, mode: u32, set: Result<(), Errno>) {
        if let Err(errno) = set {
            self.cannot(format_args!("change mode to {}", permissions(mode)), errno);
        }
    }

    pub(super) fn times(&self, set: Result<(), Errno>) {
        if let Err(errno) = set {
            self.cannot("utime", errno);
        }
    }

    /// Reports a failure to set an extended attribute, which is no error, as in GNU tar.
    pub(super) fn attribute(&self, call: &str, name: &CStr, set: Result<(), Errno>) {
        if let Err(errno) = set {
            let (name, file) = (text(name.to_bytes()), text(self.name));
            let what = format!(
                "{call}: Cannot set '{name}' extended attribute for file '{file}': {}",
                words(errno)
            );
            self.run.warn(Warning::XattrWrite, what);
        }
    }

    /// Reports a failure to set an ACL, or to remove it if `sets` is false.
    pub(super) fn acl(&self, sets: bool, done: Result<(), Errno>) {
        if let Err(errno) = done {
            let doing = match sets {
                true => "acl_set_file_at: Cannot set POSIX ACLs",
                false => "acl_delete_def_file_at: Cannot drop default POSIX ACLs",
            };
            let file = text(self.name);
            self.run.warn(
                Warning::XattrWrite,
                format_args!("{doing} for file '{file}': {}", words(errno)),
            );
        }
    }
}

/// Formats text for a message that already has quotation marks.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&harmless(bytes)).into_owned()
}

/// Formats a mode as `ls -l` shows it, without the file type.
pub(crate) fn permissions(mode: u32) -> String {
    let bit = |bit: u32, c: char| if mode & bit != 0 { c } else { '-' };
    let last =
        |x: u32, special: u32, both: char, only: char| match (mode & x != 0, mode & special != 0) {
            (true, true) => both,
            (false, true) => only,
            (true, false) => 'x',
            (false, false) => '-',
        };
    let (user, group) = (last(0o100, 0o4000, 's', 'S'), last(0o10, 0o2000, 's', 'S'));
    let other = last(1, 0o1000, 't', 'T');
    [
        bit(0o400, 'r'),
        bit(0o200, 'w'),
        user,
        bit(0o40, 'r'),
        bit(0o20, 'w'),
        group,
        bit(4, 'r'),
        bit(2, 'w'),
        other,
    ]
    .iter()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_shown_as_ls_does() {
        for (mode, text) in [
            (0o644, "rw-r--r--"),
            (0o7777, "rwsrwsrwt"),
            (0o7000, "--S--S--T"),
            (0o4755, "rwsr-xr-x"),
        ] {
            assert_eq!(permissions(mode), text);
        }
    }
}
