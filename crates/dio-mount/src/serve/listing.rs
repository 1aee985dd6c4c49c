//! Directory entries together with their attributes.

use rustix::io::Errno;

use dio_fuse::{INodeNo, ReplyDirectoryPlus};

use super::Mount;
use super::attributes::kind;
use crate::names::{InodeId, Name};

impl Mount {
    /// Adds one name with its attributes to the reply. For the kernel this is a lookup of the name,
    /// except for `.` and `..`. Returns true when the reply is full. Sets `leased` when a wait for
    /// a lease failed. The names after that one are added without attributes, so that a directory
    /// full of leased files costs one wait a request.
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
        // The kernel caches this name for some time yet, so no attributes are sent.
        if *leased
            || name.name == "."
            || name.name == ".."
            || self.names.was_told(directory, name, self.remember / 2)
        {
            return alone(reply);
        }
        let before = self.files.epoch();
        match self.names.lookup(directory, &name.name) {
            Ok(entry) => reply.add(name.next, &name.name, &self.entry(&entry, before)),
            // Removed since the directory was read.
            Err(Errno::NOENT) => false,
            // A later request for its attributes returns the error.
            Err(errno) => {
                *leased |= errno == Errno::AGAIN;
                alone(reply)
            }
        }
    }
}
