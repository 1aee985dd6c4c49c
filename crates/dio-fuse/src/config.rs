//! The negotiation of features and limits between the kernel and the server (`FUSE_INIT`).

use zerocopy::FromBytes;

use crate::abi::{self, InitIn, InitInMore, InitOut};
use crate::flags::InitFlags;
use crate::request::{Body, TooShort};
use crate::types::Version;

/// Largest write that can be negotiated, in bytes.
const WRITE_BYTES_MAX: u32 = 16 << 20;
/// Smallest write that the kernel accepts (`fuse_init_out.max_write`), in bytes.
const WRITE_BYTES_MIN: u32 = 4096;
/// `FILESYSTEM_MAX_STACK_DEPTH` of `include/linux/fs.h`.
const STACK_DEPTH_MAX: u32 = 2;

/// Features that are requested whenever the kernel offers them, because they do not concern the
/// file system.
const ALWAYS_REQUESTED: InitFlags = InitFlags::FUSE_BIG_WRITES
    .union(InitFlags::FUSE_MAX_PAGES)
    .union(InitFlags::FUSE_SETXATTR_EXT)
    .union(InitFlags::FUSE_INIT_EXT);

/// The features that the kernel offers, and the features that the file system requests.
///
/// Each setter returns the previous value, or, as its error, the nearest value that is possible.
#[derive(Debug, Clone)]
pub struct KernelConfig {
    capabilities: InitFlags,
    requested: InitFlags,
    version: Version,
    offered_readahead: u32,
    max_readahead: u32,
    max_background: u16,
    congestion_threshold: Option<u16>,
    max_write: u32,
    max_stack_depth: u32,
}

impl KernelConfig {
    /// Decodes the body of the kernel's first request.
    pub(crate) fn parse(mut body: Body<'_>) -> Result<KernelConfig, TooShort> {
        let head: InitIn = body.take()?;
        let low = InitFlags::from_bits_retain(head.flags.into());
        let mut capabilities = low;
        if low.contains(InitFlags::FUSE_INIT_EXT) {
            let more: InitInMore = body.take()?;
            capabilities |= InitFlags::from_bits_retain(u64::from(more.flags2) << 32);
        }
        Ok(KernelConfig {
            capabilities,
            requested: ALWAYS_REQUESTED & capabilities,
            version: Version(head.major, head.minor),
            offered_readahead: head.max_readahead,
            max_readahead: head.max_readahead,
            max_background: 16,
            congestion_threshold: None,
            max_write: 1 << 20,
            max_stack_depth: 0,
        })
    }

    /// Decodes only the version. In a request of another major version, no other fields are certain
    /// to be where they are in this one.
    pub(crate) fn version(mut body: Body<'_>) -> Result<Version, TooShort> {
        let [major, minor] = body.take::<VersionIn>()?.0;
        Ok(Version(major, minor))
    }

    /// The features that the kernel offers.
    pub fn capabilities(&self) -> InitFlags {
        self.capabilities - InitFlags::FUSE_INIT_EXT
    }

    /// The version that the kernel speaks.
    pub fn kernel_abi(&self) -> Version {
        self.version
    }

    /// Requests all features in `wanted`.
    ///
    /// # Errors
    /// The features in `wanted` that the kernel does not offer. None is requested then.
    pub fn add_capabilities(&mut self, wanted: InitFlags) -> Result<(), InitFlags> {
        let missing = wanted - self.capabilities;
        if !missing.is_empty() {
            return Err(missing);
        }
        self.requested |= wanted;
        Ok(())
    }

    /// Sets the largest write of one request, in bytes; 1 MiB if not set. The kernel may use less
    /// (`fs.fuse.max_pages_limit`).
    ///
    /// # Errors
    /// The nearest value between 4 KiB and 16 MiB.
    pub fn set_max_write(&mut self, bytes: u32) -> Result<u32, u32> {
        set(&mut self.max_write, bytes, WRITE_BYTES_MIN, WRITE_BYTES_MAX)
    }

    /// Sets how many bytes the kernel reads ahead at most; if not set, as many as it offers.
    ///
    /// # Errors
    /// The number that the kernel offers, if that is less.
    pub fn set_max_readahead(&mut self, bytes: u32) -> Result<u32, u32> {
        set(&mut self.max_readahead, bytes, 0, self.offered_readahead)
    }

    /// Sets how many requests that no program waits for may be in flight; 16 if not set.
    ///
    /// # Errors
    /// 1, if `requests` is 0.
    pub fn set_max_background(&mut self, requests: u16) -> Result<u16, u16> {
        set(&mut self.max_background, requests, 1, u16::MAX)
    }

    /// Sets how many of these requests make the kernel treat the device as congested; three
    /// quarters of the most that may be in flight if not set.
    ///
    /// # Errors
    /// 1, if `requests` is 0.
    pub fn set_congestion_threshold(&mut self, requests: u16) -> Result<u16, u16> {
        let mut threshold = self.congestion_threshold();
        let before = set(&mut threshold, requests, 1, u16::MAX)?;
        self.congestion_threshold = Some(threshold);
        Ok(before)
    }

    /// Sets how deep the mount may be stacked on backing files (see
    /// [`ReplyOpen::opened_passthrough`](crate::ReplyOpen::opened_passthrough)). With 1, backing
    /// files must not be on a stacked file system themselves. With 0, the default, there are no
    /// backing files.
    ///
    /// # Errors
    /// 2, which is the kernel's limit.
    pub fn set_max_stack_depth(&mut self, depth: u32) -> Result<u32, u32> {
        set(&mut self.max_stack_depth, depth, 0, STACK_DEPTH_MAX)
    }

    fn congestion_threshold(&self) -> u16 {
        let usual = (u32::from(self.max_background) * 3 / 4).max(1) as u16;
        self.congestion_threshold.unwrap_or(usual).min(self.max_background)
    }

    /// The reply to the kernel's first request.
    pub(crate) fn reply(&self) -> InitOut {
        let flags = self.requested.bits();
        InitOut {
            major: abi::MAJOR,
            minor: self.version.1.min(abi::MINOR),
            max_readahead: self.max_readahead,
            flags: flags as u32,
            max_background: self.max_background,
            congestion_threshold: self.congestion_threshold(),
            max_write: self.max_write,
            time_gran: 1,
            max_pages: u16::try_from(self.pages()).unwrap_or(u16::MAX),
            flags2: (flags >> 32) as u32,
            max_stack_depth: self.max_stack_depth,
            ..InitOut::default()
        }
    }

    /// Pages of the largest request or reply.
    fn pages(&self) -> u32 {
        self.max_write
            .max(self.max_readahead)
            .div_ceil(rustix::param::page_size() as u32)
            .min(u16::MAX.into())
    }

    /// The values that the serving threads use.
    pub(crate) fn negotiated(&self) -> Negotiated {
        Negotiated {
            max_write: self.max_write,
            // `max_payload_sz` of `fuse_uring_create` (fs/fuse/dev_uring.c).
            max_payload: self.max_write.max(self.pages() * rustix::param::page_size() as u32),
            setxattr_ext: self.requested.contains(InitFlags::FUSE_SETXATTR_EXT),
            over_io_uring: self.requested.contains(InitFlags::FUSE_OVER_IO_URING),
        }
    }
}

/// Negotiated values that the serving threads use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Negotiated {
    pub(crate) max_write: u32,
    /// Largest request or reply without headers, in bytes.
    pub(crate) max_payload: u32,
    pub(crate) setxattr_ext: bool,
    /// Requests come through io_uring.
    pub(crate) over_io_uring: bool,
}

#[derive(FromBytes, zerocopy::KnownLayout, zerocopy::Immutable)]
#[repr(C)]
struct VersionIn([u32; 2]);

/// Sets `place` and returns its previous value, or, as the error, the nearest value between `least`
/// and `most`.
fn set<T: Copy + Ord>(place: &mut T, value: T, least: T, most: T) -> Result<T, T> {
    let possible = value.min(most).max(least);
    if possible != value {
        return Err(possible);
    }
    Ok(std::mem::replace(place, value))
}

#[cfg(test)]
mod tests {
    use zerocopy::IntoBytes;

    use super::*;

    fn offer(minor: u32, flags: InitFlags) -> Vec<u8> {
        let head = InitIn { major: 7, minor, max_readahead: 131_072, flags: flags.bits() as u32 };
        let more = InitInMore { flags2: (flags.bits() >> 32) as u32, unused: [0; 11] };
        match minor {
            36.. => [head.as_bytes(), more.as_bytes()].concat(),
            _ => head.as_bytes().to_vec(),
        }
    }

    #[test]
    fn nothing_is_taken_that_is_not_offered() {
        let offered =
            InitFlags::FUSE_BIG_WRITES | InitFlags::FUSE_INIT_EXT | InitFlags::FUSE_PASSTHROUGH;
        let mut config = KernelConfig::parse(Body(&offer(45, offered))).unwrap();
        let both = InitFlags::FUSE_PASSTHROUGH | InitFlags::FUSE_POSIX_ACL;
        assert_eq!(config.add_capabilities(both), Err(InitFlags::FUSE_POSIX_ACL));
        assert_eq!(config.reply().flags2, 0);
        config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).unwrap();
        let reply = config.reply();
        assert_eq!((reply.flags, reply.flags2), (1 << 5 | 1 << 30, 1 << 5));
        assert!(!config.negotiated().setxattr_ext);
    }

    #[test]
    fn an_old_kernel_is_answered_in_its_own_version() {
        let config = KernelConfig::parse(Body(&offer(31, InitFlags::FUSE_MAX_PAGES))).unwrap();
        let reply = config.reply();
        assert_eq!((reply.major, reply.minor, reply.flags2), (7, 31, 0));
        let newer = KernelConfig::parse(Body(&offer(60, InitFlags::FUSE_INIT_EXT))).unwrap();
        assert_eq!(newer.reply().minor, abi::MINOR);
    }

    #[test]
    fn sizes_are_kept_between_their_limits() {
        let mut config = KernelConfig::parse(Body(&offer(45, InitFlags::FUSE_INIT_EXT))).unwrap();
        assert_eq!(config.set_max_write(0), Err(4096));
        assert_eq!(config.set_max_write(64 << 20), Err(16 << 20));
        assert_eq!(config.set_max_write(256 << 10), Ok(1 << 20));
        assert_eq!(config.set_max_readahead(1 << 20), Err(131_072));
        assert_eq!(config.set_max_background(0), Err(1));
        assert_eq!(config.set_max_background(64), Ok(16));
        assert_eq!(config.set_congestion_threshold(1000), Ok(48));
        assert_eq!(config.set_max_stack_depth(3), Err(2));
        let reply = config.reply();
        let page = rustix::param::page_size();
        assert_eq!(
            (reply.max_write, usize::from(reply.max_pages)),
            (256 << 10, (256 << 10) / page)
        );
        assert_eq!((reply.max_background, reply.congestion_threshold), (64, 64));
        config.set_max_write(200_000).unwrap();
        assert_eq!(
            config.negotiated().max_payload as usize,
            usize::from(config.reply().max_pages) * page
        );
        assert!(config.negotiated().max_payload >= 200_000);
    }

    #[test]
    fn a_cut_offer_is_malformed() {
        let whole = offer(45, InitFlags::FUSE_INIT_EXT);
        for length in 0..whole.len() {
            assert_eq!(
                KernelConfig::parse(Body(&whole[..length])).unwrap_err(),
                TooShort,
                "{length}"
            );
        }
    }
}
