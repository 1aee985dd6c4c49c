//! What the kernel is told of a handle, and what that means for the other handles of the inode.
//!
//! | mode | the kernel's way | its flags |
//! |---|---|---|
//! | direct, concurrent, auto | every request comes here | `FOPEN_DIRECT_IO` |
//! | the same, gathering | the kernel's cache of this mount, dropped behind the reader | none |
//! | auto, privileged, for writing only | the kernel writes the source itself; dropped behind the writer | `FOPEN_PASSTHROUGH` |
//! | cached, privileged | the kernel reads, writes and maps the source itself | `FOPEN_PASSTHROUGH` |
//! | concurrent, privileged, `native`, with `O_DIRECT` | the kernel reads and writes the source itself, past the page cache | `FOPEN_PASSTHROUGH` |
//! | cached otherwise | the kernel's cache of this mount; what it lacks comes from here | none, or `FOPEN_KEEP_CACHE` |
//!
//! The kernel has rules (`fs/fuse/iomode.c`): while one handle of an inode is passed through, all
//! must be, with the same backing file; none can be while a handle uses the cache of the mount, be
//! it for a mapping. So the first open of an inode decides for as long as any handle is open:
//! *backed* or *apart*.
//!
//! A mapping of a handle whose requests come here goes through the cache of the mount while the
//! inode is apart. The kernel keeps that coherent with requests: it writes dirty pages back before,
//! and drops the pages that a write covers. Backed, it would map the source itself, behind the
//! server's back; so of a backed inode nothing is read ahead or written behind here.

use dio::lock::LockPolicy;
use dio_fuse::FopenFlags;
use rustix::fs::OFlags;

use crate::options::Mode;

/// Which way the kernel takes for a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Every read and write comes here.
    Requests,
    /// Reads and writes go to the kernel's cache of the mount; what it lacks, and everything
    /// written, comes here.
    Cache,
    /// The kernel reads, writes and maps the source, through its page cache.
    Source,
    /// The kernel reads and writes the source past its page cache: it opens the backing file with
    /// the flags of the program (`fuse_passthrough_open`, fs/fuse/passthrough.c).
    Native,
}

/// How a handle is opened.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    pub(super) mode: Mode,
    pub(super) flags: OFlags,
    pub(super) policy: LockPolicy,
    /// Readers may go through the kernel's cache of the mount, which gathers small requests into
    /// large ones.
    pub(super) gather: bool,
    /// The kernel may do the I/O of who asks for `O_DIRECT` itself.
    pub(super) native: bool,
}

/// What an inode and its other handles mean for one that is opened.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Company {
    /// The kernel has a backing file for the inode.
    pub(super) backed: bool,
    /// Somebody may write. The kernel lets in one writer at a time while a reader gathers, so none
    /// begins to then.
    pub(super) writers: bool,
    /// The file system reports how direct I/O is to be aligned. Elsewhere nobody but the server
    /// would notice if it were not direct.
    pub(super) reported: bool,
}

impl Wish {
    /// The way of a handle of an inode that is backed, or not. With `O_DIRECT` any alignment is
    /// accepted, which the source would not do, so such requests come here in any mode, unless they
    /// are to be native.
    pub(super) fn way(&self, company: Company) -> Way {
        match self.mode {
            Mode::Cached if self.flags.contains(OFlags::DIRECT) => Way::Requests,
            Mode::Cached if company.backed => Way::Source,
            Mode::Cached => Way::Cache,
            _ if self.streams() && company.backed => Way::Source,
            _ if self.is_native(company) && company.backed => Way::Native,
            _ if self.gathers() && !company.backed && !company.writers => Way::Cache,
            Mode::Direct | Mode::Concurrent | Mode::Auto => Way::Requests,
        }
    }

    /// The wish as far as a striped file can fulfil it.
    pub(super) fn of_striped(self) -> Wish {
        let mode = if self.mode == Mode::Concurrent { Mode::Concurrent } else { Mode::Direct };
        Wish { mode, gather: false, native: false, ..self }
    }

    fn gathers(&self) -> bool {
        self.gather && !self.writes() && self.is_buffered()
    }

    /// Whether the kernel is to use the source itself where it can.
    pub(super) fn wants_backing(&self, company: Company) -> bool {
        self.mode == Mode::Cached || self.streams() || self.is_native(company)
    }

    /// Single-writer semantics are the server's work, so only concurrent I/O can be the kernel's.
    fn is_native(&self, company: Company) -> bool {
        self.native && self.mode == Mode::Concurrent && !self.is_buffered() && company.reported
    }

    /// Who writes only, and asks for nothing else, writes in order nearly always, and small pieces
    /// as often as not: hybrid I/O lets the kernel gather them, and drops them behind the writer.
    pub(super) fn streams(&self) -> bool {
        let only_writes = self.flags & OFlags::RWMODE == OFlags::WRONLY;
        self.mode == Mode::Auto && only_writes && self.is_buffered() && !self.flags.intersects(OFlags::DSYNC)
    }

    /// Whether the handle is for writing.
    pub(super) fn writes(&self) -> bool {
        self.flags & OFlags::RWMODE != OFlags::RDONLY
    }

    /// What the kernel is told, but for `FOPEN_PASSTHROUGH`, which goes with the backing file.
    /// `unchanged` says that what the kernel has cached of the inode still is what the source
    /// holds.
    ///
    /// With file locks too the kernel lets in all writers that make the file no longer: here it is
    /// seen who waits (`turns`).
    pub(super) fn flags(&self, way: Way, unchanged: bool) -> FopenFlags {
        let flags = match way {
            Way::Requests => FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES,
            Way::Cache if unchanged => FopenFlags::FOPEN_KEEP_CACHE,
            Way::Cache | Way::Source | Way::Native => FopenFlags::empty(),
        };
        // The close of who has not written has nothing to tell.
        if self.writes() { flags } else { flags | FopenFlags::FOPEN_NOFLUSH }
    }

    /// Whether a write keeps out all other I/O of its file until it is written.
    pub(super) fn excludes_all(&self) -> bool {
        self.mode != Mode::Concurrent && self.policy == LockPolicy::WholeFile
    }

    /// How the requests of a handle are done where nothing else speaks against it.
    pub(super) fn manner(&self) -> dio::Mode {
        if self.mode == Mode::Concurrent { dio::Mode::Concurrent } else { dio::Mode::Direct }
    }

    /// Whether requests may be answered from what was read ahead, or before they are written. With
    /// `O_DIRECT` a program wants to deal with the device itself.
    pub(super) fn is_buffered(&self) -> bool {
        !self.flags.contains(OFlags::DIRECT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(mode: Mode, flags: OFlags) -> Wish {
        Wish { mode, flags, policy: LockPolicy::Range, gather: false, native: false }
    }

    #[test]
    fn passthrough_is_for_cached_handles_of_backed_inodes() {
        for mode in Mode::ALL {
            for backed in [false, true] {
                let cached = mode == Mode::Cached;
                let company = Company { backed, writers: false, reported: true };
                let way = wish(mode, OFlags::RDWR).way(company);
                let expected = [Way::Requests, if backed { Way::Source } else { Way::Cache }][usize::from(cached)];
                assert_eq!(way, expected, "{mode:?} {backed}");
                assert_eq!(wish(mode, OFlags::RDWR).wants_backing(company), cached);
                assert_eq!(wish(mode, OFlags::RDWR | OFlags::DIRECT).way(company), Way::Requests);
            }
        }
    }

    #[test]
    fn who_only_reads_closes_without_asking() {
        for way in [Way::Requests, Way::Cache, Way::Source] {
            let asks = |flags| !wish(Mode::Direct, flags).flags(way, false).contains(FopenFlags::FOPEN_NOFLUSH);
            assert_eq!([OFlags::RDONLY, OFlags::WRONLY, OFlags::RDWR].map(asks), [false, true, true], "{way:?}");
        }
    }

    #[test]
    fn hybrid_writers_are_passed_through_unless_they_read_or_sync() {
        let way = |flags| wish(Mode::Auto, flags).way(Company { backed: true, writers: true, reported: true });
        assert_eq!(way(OFlags::WRONLY), Way::Source);
        for more in [OFlags::RDWR, OFlags::WRONLY | OFlags::DIRECT, OFlags::WRONLY | OFlags::DSYNC, OFlags::RDONLY] {
            assert_eq!(way(more), Way::Requests);
        }
    }

    #[test]
    fn native_is_who_asks_for_direct_io_in_concurrent_mode_where_it_is_direct() {
        let native = |mode, flags| Wish { native: true, ..wish(mode, flags) };
        let direct = OFlags::RDWR | OFlags::DIRECT;
        let company = |backed, reported| Company { backed, writers: true, reported };
        let wanted = native(Mode::Concurrent, direct);
        assert!(wanted.wants_backing(company(false, true)));
        assert_eq!(wanted.way(company(true, true)), Way::Native);
        assert_eq!(wanted.way(company(false, true)), Way::Requests);
        assert_eq!(wanted.way(company(true, false)), Way::Requests);
        assert!(!wanted.wants_backing(company(false, false)));
        for other in
            [native(Mode::Direct, direct), native(Mode::Concurrent, OFlags::RDWR), wish(Mode::Concurrent, direct)]
        {
            assert!(!other.wants_backing(company(false, true)));
            assert_eq!(other.way(company(true, true)), Way::Requests);
        }
    }

    #[test]
    fn only_readers_gather_and_only_where_nobody_writes() {
        let company = |writers| Company { backed: false, writers, reported: true };
        let gather = |flags, writers| Wish { gather: true, ..wish(Mode::Direct, flags) }.way(company(writers));
        assert_eq!(gather(OFlags::RDONLY, false), Way::Cache);
        assert_eq!(gather(OFlags::RDONLY, true), Way::Requests);
        for flags in [OFlags::RDWR, OFlags::WRONLY, OFlags::RDONLY | OFlags::DIRECT] {
            assert_eq!(gather(flags, false), Way::Requests);
        }
    }
}
