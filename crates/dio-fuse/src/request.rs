//! Decodes the parts of a message from the kernel.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;

use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::abi::{self, InHeader};
use crate::interrupts::ThreadSlot;
use crate::types::RequestId;

/// Why a message cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    /// The header is incomplete, so there is no number to reply to.
    #[error("shorter than a header")]
    NoHeader,
    /// The length of the request with this number is not the one in its header, or is too small for
    /// its operation.
    #[error("request {0} is cut short")]
    Short(u64),
}

/// Header, body and extensions of a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message<'a> {
    pub(crate) header: InHeader,
    pub(crate) body: Body<'a>,
    extensions: &'a [u8],
}

impl<'a> Message<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Message<'a>, Malformed> {
        let (header, rest) = InHeader::read_from_prefix(bytes).map_err(|_| Malformed::NoHeader)?;
        let short = Malformed::Short(header.unique);
        if header.len as usize != bytes.len() {
            return Err(short);
        }
        let extensions = usize::from(header.total_extlen) * 8;
        let body = rest.len().checked_sub(extensions).ok_or(short)?;
        let (body, extensions) = rest.split_at(body);
        Ok(Message { header, body: Body(body), extensions })
    }

    /// The request as the methods of the file system get it.
    pub(crate) fn request(&self, slot: &'a ThreadSlot) -> Request<'a> {
        Request { header: self.header, extensions: self.extensions, slot }
    }
}

/// The caller and the number of a request.
#[derive(Debug)]
pub struct Request<'a> {
    header: InHeader,
    extensions: &'a [u8],
    slot: &'a ThreadSlot,
}

impl Request<'_> {
    /// The number of the request.
    pub fn unique(&self) -> RequestId {
        RequestId(self.header.unique)
    }

    /// User (`fsuid`) of the caller.
    pub fn uid(&self) -> u32 {
        self.header.uid
    }

    /// Group (`fsgid`) of the caller.
    pub fn gid(&self) -> u32 {
        self.header.gid
    }

    /// Thread of the caller (as of `gettid(2)`); 0 for the kernel, and for threads that this
    /// process cannot see.
    pub fn pid(&self) -> u32 {
        self.header.pid
    }

    /// Supplementary groups of the caller. The kernel sends only one: the group of the directory in
    /// which something is created, if the caller has it (`FUSE_CREATE_SUPP_GROUP`; mknod, mkdir,
    /// symlink, create and tmpfile). Malformed groups are skipped.
    pub fn groups(&self) -> impl Iterator<Item = u32> {
        let groups = Extensions(self.extensions).find(|(kind, _)| *kind == abi::EXT_GROUPS);
        let groups = groups.and_then(|(_, bytes)| u32::read_from_prefix(bytes).ok());
        let (count, groups) = groups.unwrap_or((0, &[]));
        groups
            .chunks_exact(4)
            .take(count as usize)
            .filter_map(|bytes| u32::read_from_bytes(bytes).ok())
    }

    /// Whether the program that waits for the reply has received a signal. The request should then
    /// end early with `EINTR`, if that affects no other program. Methods that wait check this,
    /// until they return. [`Filesystem::interrupt`](crate::Filesystem::interrupt) is called when it
    /// becomes true.
    pub fn is_interrupted(&self) -> bool {
        self.slot.is_interrupted(self.header.unique)
    }
}

/// The extensions of a request. Iterates over kind and contents of each, up to the first malformed
/// one.
struct Extensions<'a>(&'a [u8]);

impl<'a> Iterator for Extensions<'a> {
    type Item = (u32, &'a [u8]);

    fn next(&mut self) -> Option<(u32, &'a [u8])> {
        let (header, _) = abi::ExtHeader::read_from_prefix(self.0).ok()?;
        // Each extension is padded to 8 bytes, and its size includes the padding.
        let size = header.size as usize;
        let contents = self.0.get(size_of::<abi::ExtHeader>()..size)?;
        self.0 = &self.0[size..];
        Some((header.kind, contents))
    }
}

/// The bytes behind the header. Each method takes a value from the front.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Body<'a>(pub(crate) &'a [u8]);

/// The body ends too early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooShort;

impl<'a> Body<'a> {
    /// Takes a structure.
    pub(crate) fn take<T: FromBytes + KnownLayout + Immutable>(&mut self) -> Result<T, TooShort> {
        let (value, rest) = T::read_from_prefix(self.0).map_err(|_| TooShort)?;
        self.0 = rest;
        Ok(value)
    }

    /// Takes a name, without the zero byte that ends it.
    pub(crate) fn name(&mut self) -> Result<&'a OsStr, TooShort> {
        let name = CStr::from_bytes_until_nul(self.0).map_err(|_| TooShort)?;
        self.0 = &self.0[name.count_bytes() + 1..];
        Ok(OsStr::from_bytes(name.to_bytes()))
    }

    /// Takes `count` bytes.
    pub(crate) fn bytes(&mut self, count: u32) -> Result<&'a [u8], TooShort> {
        let (bytes, rest) = self.0.split_at_checked(count as usize).ok_or(TooShort)?;
        self.0 = rest;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::message;

    #[test]
    fn a_message_is_what_its_header_says() {
        let bytes = message(1, 7, &[], b"name\0");
        let parsed = Message::parse(&bytes).unwrap();
        assert_eq!(
            (parsed.header.opcode, parsed.header.unique, parsed.body.0),
            (1, 7, &b"name\0"[..])
        );
        assert_eq!(Message::parse(&bytes[..39]).unwrap_err(), Malformed::NoHeader);
        assert_eq!(Message::parse(&bytes[..44]).unwrap_err(), Malformed::Short(7));
        let mut longer = bytes.clone();
        longer.push(0);
        assert_eq!(Message::parse(&longer).unwrap_err(), Malformed::Short(7));
    }

    /// As Linux 6.18 sends it: `mkdir` by a caller whose supplementary group 50 is that of the
    /// directory.
    #[test]
    fn the_group_of_the_directory_is_found_in_the_extensions() {
        let words =
            |words: &[u32]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
        let group = words(&[16, abi::EXT_GROUPS, 1, 50]);
        let context = words(&[16, 1, 0, 0]);
        let slot = ThreadSlot::default();
        for extensions in [group.clone(), [context, group.clone()].concat()] {
            let bytes = message(9, 2, &extensions, b"\xed\x01\0\0\x12\0\0\0new\0");
            let message = Message::parse(&bytes).unwrap();
            assert_eq!(message.body.0.len(), 12, "the extensions are no part of the body");
            assert_eq!(message.request(&slot).groups().collect::<Vec<_>>(), [50]);
        }
        let too_many = words(&[16, abi::EXT_GROUPS, 9, 50]);
        let bytes = message(9, 2, &too_many, b"");
        assert_eq!(
            Message::parse(&bytes).unwrap().request(&slot).groups().collect::<Vec<_>>(),
            [50]
        );
    }

    #[test]
    fn extensions_longer_than_the_message_are_malformed() {
        let mut bytes = message(9, 2, &[], b"1234");
        bytes[36] = 1;
        assert_eq!(Message::parse(&bytes).unwrap_err(), Malformed::Short(2));
    }

    proptest! {
        #[test]
        fn no_extensions_are_too_odd(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let slot = ThreadSlot::default();
            let padded: Vec<u8> =
                bytes.iter().copied().chain([0; 8]).take(bytes.len().div_ceil(8) * 8).collect();
            let whole = message(9, 2, &padded, b"");
            let groups = Message::parse(&whole).unwrap().request(&slot).groups().count();
            prop_assert!(groups <= bytes.len() / 4);
        }
    }
}
