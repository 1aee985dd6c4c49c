//! Names of a directory, with the attributes of each.

use rustix::io::Errno;

use dio_fuse::{INodeNo, ReplyDirectoryPlus};

use super::Mount;
use super::attributes::kind;
use crate::names::{InodeId, Name};

impl Mount {
    /// One name with its attributes; the kernel looks it up by this, except `.` and `..`. True when
    /// there is no room for it. `leased` becomes true when a lease was waited for in vain. The
    /// names after it come without attributes, so that a directory full of leases costs one wait a
    /// request.
    pub(super) fn add(
        &self,
        directory: InodeId,
        name: &Name,
        reply: &mut ReplyDirectoryPlus,
        leased: &mut bool,
    ) -> bool {
        if !reply.fits(&name.name) {
            return true;
        }
        let alone = |reply: &mut ReplyDirectoryPlus| {
            reply.add_name(INodeNo(name.number), name.next, kind(name.kind), &name.name)
        };
        // What the kernel knows and goes on to believe for a while takes it no request.
        if *leased || name.name == "." || name.name == ".." || self.names.was_told(directory, name, self.remember / 2) {
            return alone(reply);
        }
        let before = self.files.epoch();
        match self.names.lookup(directory, &name.name) {
            Ok(entry) => reply.add(name.next, &name.name, &self.entry(&entry, before)),
            // Gone since the directory was read.
            Err(Errno::NOENT) => false,
            // Whoever asks for its attributes is told.
            Err(errno) => {
                *leased |= errno == Errno::AGAIN;
                alone(reply)
            }
        }
    }
}
