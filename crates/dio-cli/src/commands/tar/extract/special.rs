//! Creates links, named pipes and devices.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};

use dio::names::FileId;
use rustix::fs::{AtFlags, FileType, Mode, Stat, linkat, makedev, mknodat, statat, symlinkat};
use rustix::io::Errno;

use super::super::format::EntryKind;
use super::file::tell;
use super::messages::MemberMessages;
use super::meta::Object;
use super::names::has_dot_dot;
use super::new_file::{self, ExistingOutcome};
use super::root::Dir;
use super::tree::{Member, Tree, hard_link_to};
use crate::tool::made::Special;

/// Attempts at creating a file whose name has to be cleared before.
const ATTEMPTS: u32 = 3;

impl Tree<'_> {
    /// Creates a file by one system call, and clears the name if it is taken. Returns true if the
    /// file was created.
    fn make(
        &mut self,
        member: &Member,
        (dir, name): (&Dir, &CStr),
        words: &MemberMessages<'_>,
        doing: &str,
        make: impl Fn() -> Result<(), Errno>,
    ) -> bool {
        let wanted = self.wanted(member);
        if let Err(refusal) = new_file::prepare(dir, name, wanted) {
            tell(refusal, words, doing);
            return false;
        }
        for _ in 0..ATTEMPTS {
            match make() {
                Ok(()) => return true,
                Err(Errno::EXIST) => {}
                Err(errno) => {
                    words.cannot(doing, errno);
                    return false;
                }
            }
            // An empty directory may be one into which a file is about to be written.
            self.crew.settle();
            match new_file::clear(dir, name, wanted) {
                ExistingOutcome::Clear => self.forget_paths(),
                ExistingOutcome::Skip => {
                    words.skipped();
                    return false;
                }
                ExistingOutcome::Blocked => break,
            }
        }
        words.cannot(doing, Errno::EXIST);
        false
    }

    /// The description, in GNU tar's words, of the step that failed when a symbolic link to
    /// `target` cannot be created. For a target that may lead out, GNU tar first opens a
    /// placeholder file.
    pub(super) fn making_symlink(&self, target: &[u8]) -> String {
        match !self.context.how.absolute && (target.starts_with(b"/") || has_dot_dot(target)) {
            true => "open".to_owned(),
            false => format!("create symlink to {}", crate::quote::marked(target)),
        }
    }

    /// Creates a symbolic link with its target unchanged, wherever it leads: no name is ever looked
    /// up through a link that leads out.
    pub(super) fn symlink(
        &mut self,
        member: &Member,
        dir: &Dir,
        name: &CStr,
        words: &MemberMessages<'_>,
    ) {
        let target = &member.entry.link;
        let doing = self.making_symlink(target);
        let Ok(link) = CString::new(target.as_slice()) else {
            return words.cannot(doing, Errno::INVAL);
        };
        // Cached paths may lead through the new link from now on.
        self.forget_paths();
        if !self.make(member, (dir, name), words, &doing, || symlinkat(&*link, dir, name)) {
            return;
        }
        let meta = self.meta(&member.entry);
        let special = Special { kind: FileType::Symlink, device: 0, link: Some(&link) };
        if let Some(made) = open_made(special, dir, name, words) {
            meta.apply_to_link(Object::NewFile(made.as_fd()), words);
        }
    }

    /// Creates a hard link to a file beneath the target directory, whether it was extracted or
    /// existed before. A symbolic link is linked itself, never its target.
    pub(super) fn hard_link(
        &mut self,
        member: &Member,
        dir: &Dir,
        name: &CStr,
        words: &MemberMessages<'_>,
    ) {
        let (doing, noted) = (hard_link_to(&member.link), self.context.noted.clone());
        let path = &member.link_path;
        let Some((parent, target)) = path.split() else {
            return words.cannot(doing, Errno::PERM);
        };
        if self.crew.is_under(&path.0) {
            self.crew.settle();
        }
        let from = match member.root.find_dir(parent) {
            Ok(from) => from,
            Err(errno) => return words.cannot(doing, errno),
        };
        if self.crew.meets(&from, &target, &path.0) {
            self.crew.settle();
        }
        let same = || {
            let stat = |dir: &Dir, name: &CStr| statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
            let identity = |stat: Stat| FileId::of(&stat);
            stat(&from, &target)
                .is_ok_and(|one| stat(dir, name).is_ok_and(|two| identity(one) == identity(two)))
        };
        if same() {
            return;
        }
        let mut link = || {
            self.make(member, (dir, name), words, &doing, || {
                linkat(&*from, &*target, dir, name, AtFlags::empty())
            })
        };
        match noted {
            Some(noted) => noted.linking(&from, &target, link),
            None => drop(link()),
        }
    }

    /// Creates a named pipe or a device.
    pub(super) fn node(
        &mut self,
        member: &Member,
        dir: &Dir,
        name: &CStr,
        words: &MemberMessages<'_>,
    ) {
        let (kind, doing) = match member.entry.kind {
            EntryKind::Fifo => (FileType::Fifo, "mkfifo"),
            EntryKind::Character => (FileType::CharacterDevice, "mknod"),
            _ => (FileType::BlockDevice, "mknod"),
        };
        let (major, minor) = member.entry.device;
        let device = if kind == FileType::Fifo { 0 } else { makedev(major, minor) };
        let private = Mode::from_bits_retain(0o600);
        if !self
            .make(member, (dir, name), words, doing, || mknodat(dir, name, kind, private, device))
        {
            return;
        }
        let meta = self.meta(&member.entry);
        if let Some(made) = open_made(Special { kind, device, link: None }, dir, name, words) {
            meta.apply(Object::NewFile(made.as_fd()), false, words);
        }
    }
}

/// Opens a file that was just created, with `O_PATH`. A failure is reported.
fn open_made(
    special: Special<'_>,
    dir: &Dir,
    name: &CStr,
    words: &MemberMessages<'_>,
) -> Option<OwnedFd> {
    match special.open(dir.as_fd(), name) {
        Ok((made, _)) => return Some(made),
        Err(Errno::STALE) => {
            words.error("Replaced while it was being extracted; its attributes were not set")
        }
        Err(errno) => words.cannot("stat", errno),
    }
    None
}
