//! How the kernel does the I/O of a handle, and what that means for the other handles of the inode.
//!
//! | mode | path of the I/O | flags of the open reply |
//! |---|---|---|
//! | direct, concurrent, auto | every request comes to this server | `FOPEN_DIRECT_IO` |
//! | the same, for a reader that gathers | the kernel's cache of this mount, dropped behind the reader | none |
//! | auto, privileged, for writing only | the kernel writes the source itself; dropped behind the writer | `FOPEN_PASSTHROUGH` |
//! | cached, privileged | the kernel reads, writes and maps the source itself | `FOPEN_PASSTHROUGH` |
//! | concurrent, privileged, `native`, with `O_DIRECT` | the kernel reads and writes the source itself, past the page cache | `FOPEN_PASSTHROUGH` |
//! | cached otherwise | the kernel's cache of this mount; pages that it lacks come from this server | none, or `FOPEN_KEEP_CACHE` |
//!
//! The kernel has rules (`fs/fuse/iomode.c`). While one handle of an inode is passed through, all
//! its handles must be, with the same backing file. No handle can be passed through while another
//! one uses the kernel's cache of the mount, even if only for a mapping. So the first open of an
//! inode decides until the last handle is closed: the inode is *backed* or *apart*.
//!
//! While an inode is apart, a mapping of a handle whose requests come to this server uses the
//! kernel's cache of the mount. The kernel keeps that cache coherent with requests: it writes dirty
//! pages back before a request, and drops the pages that a write covers. If the inode is backed,
//! the kernel maps the source itself, which the server cannot observe. So the server neither reads
//! ahead nor writes behind for a backed inode.

use dio::lock::LockPolicy;
use dio_fuse::FopenFlags;
use rustix::fs::OFlags;

use crate::options::Mode;

/// The path that the I/O of a handle takes in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KernelRoute {
    /// Every read and write comes to this server.
    Requests,
    /// Reads and writes go to the kernel's cache of the mount. Pages that it lacks are read from
    /// this server, and everything written is sent to it.
    Cache,
    /// The kernel reads, writes and maps the source, through its page cache.
    Source,
    /// The kernel reads and writes the source past its page cache: it opens the backing file with
    /// the flags of the program (`fuse_passthrough_open`, fs/fuse/passthrough.c).
    Native,
}

/// The mode, flags and settings with which a handle is opened.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenRequest {
    pub(super) mode: Mode,
    pub(super) flags: OFlags,
    pub(super) policy: LockPolicy,
    /// Readers may use the kernel's cache of the mount, which gathers small requests into large
    /// ones.
    pub(super) gather: bool,
    /// The kernel may itself do the I/O of a handle that is opened with `O_DIRECT`.
    pub(super) native: bool,
    /// The server limits how fast programs read and write, so their requests must come to it.
    pub(super) throttled: bool,
}

/// The state of an inode and of its other handles that matters when a handle is opened.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InodeState {
    /// The kernel has a backing file for the inode.
    pub(super) backed: bool,
    /// A handle may write. While a reader gathers, the kernel admits one writer at a time; so no
    /// reader starts to gather while there are writers.
    pub(super) writers: bool,
    /// The file system reports the alignment that direct I/O needs. On other file systems only the
    /// server would notice that I/O is not direct.
    pub(super) reported: bool,
}

impl OpenRequest {
    /// Returns the path of the handle's I/O. A program may use any alignment with `O_DIRECT`, which
    /// the source would not accept; so such requests come to this server in any mode, unless the
    /// handle is native.
    pub(super) fn route(&self, inode: InodeState) -> KernelRoute {
        match self.mode {
            Mode::Cached if self.flags.contains(OFlags::DIRECT) => KernelRoute::Requests,
            Mode::Cached if inode.backed => KernelRoute::Source,
            Mode::Cached => KernelRoute::Cache,
            _ if self.streams() && inode.backed => KernelRoute::Source,
            _ if self.is_native(inode) && inode.backed => KernelRoute::Native,
            _ if self.gathers() && !inode.backed && !inode.writers => KernelRoute::Cache,
            Mode::Direct | Mode::Concurrent | Mode::Auto => KernelRoute::Requests,
        }
    }

    /// Returns the request reduced to what a striped file supports.
    pub(super) fn of_striped(self) -> OpenRequest {
        let mode = if self.mode == Mode::Concurrent { Mode::Concurrent } else { Mode::Direct };
        OpenRequest { mode, gather: false, native: false, ..self }
    }

    fn gathers(&self) -> bool {
        self.gather && !self.writes() && self.is_buffered()
    }

    /// Whether the kernel should do the I/O on the source itself, if it can.
    pub(super) fn wants_backing(&self, inode: InodeState) -> bool {
        let wanted = self.mode == Mode::Cached || self.streams() || self.is_native(inode);
        wanted && !self.throttled
    }

    /// The server enforces single-writer semantics, so the kernel can do only concurrent I/O
    /// itself.
    fn is_native(&self, inode: InodeState) -> bool {
        self.native && self.mode == Mode::Concurrent && !self.is_buffered() && inode.reported
    }

    /// Whether the handle streams: it is in auto mode, only for writing, and has neither `O_DIRECT`
    /// nor `O_DSYNC`. Such programs nearly always write in order, and often in small pieces. Hybrid
    /// I/O lets the kernel gather the pieces, and drops the pages behind the writer.
    pub(super) fn streams(&self) -> bool {
        let only_writes = self.flags & OFlags::RWMODE == OFlags::WRONLY;
        self.mode == Mode::Auto
            && only_writes
            && self.is_buffered()
            && !self.flags.intersects(OFlags::DSYNC)
    }

    /// Whether the handle is for writing.
    pub(super) fn writes(&self) -> bool {
        self.flags & OFlags::RWMODE != OFlags::RDONLY
    }

    /// Returns the flags of the open reply, except `FOPEN_PASSTHROUGH`, which goes with the backing
    /// file. `unchanged` states that the kernel's cached pages of the inode still match the source.
    ///
    /// With file locks, too, the kernel admits all writers that do not extend the file: the server
    /// then counts the writers that wait (`turns`).
    pub(super) fn flags(&self, route: KernelRoute, unchanged: bool) -> FopenFlags {
        let flags = match route {
            KernelRoute::Requests => {
                FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
            }
            KernelRoute::Cache if unchanged => FopenFlags::FOPEN_KEEP_CACHE,
            KernelRoute::Cache | KernelRoute::Source | KernelRoute::Native => FopenFlags::empty(),
        };
        // The close of a handle that cannot write has no error to report.
        if self.writes() { flags } else { flags | FopenFlags::FOPEN_NOFLUSH }
    }

    /// Whether a write excludes all other I/O of its file until it is written.
    pub(super) fn excludes_all(&self) -> bool {
        self.mode != Mode::Concurrent && self.policy == LockPolicy::WholeFile
    }

    /// Returns the I/O mode of the handle's requests, which applies unless the inode is cached or
    /// hybrid I/O decides.
    pub(super) fn io_mode(&self) -> dio::Mode {
        if self.mode == Mode::Concurrent { dio::Mode::Concurrent } else { dio::Mode::Direct }
    }

    /// Whether reads may be answered from read-ahead, and writes acknowledged before they are
    /// written. A program that uses `O_DIRECT` wants to deal with the device itself.
    pub(super) fn is_buffered(&self) -> bool {
        !self.flags.contains(OFlags::DIRECT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open_request(mode: Mode, flags: OFlags) -> OpenRequest {
        OpenRequest {
            mode,
            flags,
            policy: LockPolicy::Range,
            gather: false,
            native: false,
            throttled: false,
        }
    }

    #[test]
    fn passthrough_is_for_cached_handles_of_backed_inodes() {
        for mode in Mode::ALL {
            for backed in [false, true] {
                let cached = mode == Mode::Cached;
                let inode = InodeState { backed, writers: false, reported: true };
                let route = open_request(mode, OFlags::RDWR).route(inode);
                let expected = [
                    KernelRoute::Requests,
                    if backed { KernelRoute::Source } else { KernelRoute::Cache },
                ][usize::from(cached)];
                assert_eq!(route, expected, "{mode:?} {backed}");
                assert_eq!(open_request(mode, OFlags::RDWR).wants_backing(inode), cached);
                assert_eq!(
                    open_request(mode, OFlags::RDWR | OFlags::DIRECT).route(inode),
                    KernelRoute::Requests
                );
            }
        }
    }

    #[test]
    fn what_is_throttled_comes_to_the_server() {
        for (mode, flags) in [
            (Mode::Cached, OFlags::RDWR),
            (Mode::Auto, OFlags::WRONLY),
            (Mode::Concurrent, OFlags::RDWR | OFlags::DIRECT),
        ] {
            let inode = InodeState { backed: false, writers: false, reported: true };
            let free = OpenRequest { native: true, ..open_request(mode, flags) };
            assert!(free.wants_backing(inode), "{mode:?}");
            assert!(!OpenRequest { throttled: true, ..free }.wants_backing(inode), "{mode:?}");
        }
    }

    #[test]
    fn who_only_reads_closes_without_asking() {
        for route in [KernelRoute::Requests, KernelRoute::Cache, KernelRoute::Source] {
            let asks = |flags| {
                !open_request(Mode::Direct, flags)
                    .flags(route, false)
                    .contains(FopenFlags::FOPEN_NOFLUSH)
            };
            assert_eq!(
                [OFlags::RDONLY, OFlags::WRONLY, OFlags::RDWR].map(asks),
                [false, true, true],
                "{route:?}"
            );
        }
    }

    #[test]
    fn hybrid_writers_are_passed_through_unless_they_read_or_sync() {
        let route = |flags| {
            open_request(Mode::Auto, flags).route(InodeState {
                backed: true,
                writers: true,
                reported: true,
            })
        };
        assert_eq!(route(OFlags::WRONLY), KernelRoute::Source);
        for more in [
            OFlags::RDWR,
            OFlags::WRONLY | OFlags::DIRECT,
            OFlags::WRONLY | OFlags::DSYNC,
            OFlags::RDONLY,
        ] {
            assert_eq!(route(more), KernelRoute::Requests);
        }
    }

    #[test]
    fn native_is_who_asks_for_direct_io_in_concurrent_mode_where_it_is_direct() {
        let native = |mode, flags| OpenRequest { native: true, ..open_request(mode, flags) };
        let direct = OFlags::RDWR | OFlags::DIRECT;
        let inode = |backed, reported| InodeState { backed, writers: true, reported };
        let wanted = native(Mode::Concurrent, direct);
        assert!(wanted.wants_backing(inode(false, true)));
        assert_eq!(wanted.route(inode(true, true)), KernelRoute::Native);
        assert_eq!(wanted.route(inode(false, true)), KernelRoute::Requests);
        assert_eq!(wanted.route(inode(true, false)), KernelRoute::Requests);
        assert!(!wanted.wants_backing(inode(false, false)));
        for other in [
            native(Mode::Direct, direct),
            native(Mode::Concurrent, OFlags::RDWR),
            open_request(Mode::Concurrent, direct),
        ] {
            assert!(!other.wants_backing(inode(false, true)));
            assert_eq!(other.route(inode(true, true)), KernelRoute::Requests);
        }
    }

    #[test]
    fn only_readers_gather_and_only_where_nobody_writes() {
        let inode = |writers| InodeState { backed: false, writers, reported: true };
        let gather = |flags, writers| {
            OpenRequest { gather: true, ..open_request(Mode::Direct, flags) }.route(inode(writers))
        };
        assert_eq!(gather(OFlags::RDONLY, false), KernelRoute::Cache);
        assert_eq!(gather(OFlags::RDONLY, true), KernelRoute::Requests);
        for flags in [OFlags::RDWR, OFlags::WRONLY, OFlags::RDONLY | OFlags::DIRECT] {
            assert_eq!(gather(flags, false), KernelRoute::Requests);
        }
    }
}
