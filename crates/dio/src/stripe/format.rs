//! The stored texts: the descriptor of a striped file, the header of each object, the length record
//! of a device, and the default of a directory. Only this module knows their bytes.
//!
//! All are text, padded with newlines to a fixed length, so that a reader with another program can
//! tell what they are:
//!
//! ```text
//! dio striped file 1                 dio stripe object 2
//! # Its bytes are in …               id 0f…
//! id 0f…  (32 hexadecimal digits)    index 1
//! stripe 1048576                     objects 2
//! start 1048576                      stripe 1048576
//! target /mnt/a                      start 1048576
//! target /mnt/b                      head 4711 1700000000000000000 0
//! device /dev/disk/by-id/wwn-0x5     owner 1000
//! sum 89abcdef                       name /home/me/file
//!                                    sum 5d41402a
//! ```
//!
//! `head` is the inode of the descriptor ([`DescriptorInode`]: number, creation time, volume).
//! `name` is the name of the file when the header was written, left out if it is long: a header is
//! rewritten when a copy of the descriptor takes its place, and every disk rewrites its first 512
//! bytes as a whole.
//!
//! A header has 512 bytes; the stamp of the object (`stamp.rs`) follows. Objects of version 1 have
//! no stamp and a header of 4096 bytes.
//!
//! A `device` is itself the object. It has no owner and no size of its own. So its header has an
//! `owner` (a user ID), and the block at [`RECORD_AT`], between the header and [`Layout::start`],
//! holds a record of [`RECORD_LEN`] bytes with its lengths. Both count from the start of the
//! device: `durable` bytes were flushed, and `length` counts for the system with this boot ID
//! (`/proc/sys/kernel/random/boot_id`).
//!
//! ```text
//! dio stripe length 1
//! id 0f…
//! durable 1048576
//! length 5242880
//! boot 8e1f2c52-…
//! sum 0b3c88e1
//! ```
//!
//! The default of a directory names the inode of that directory ([`DirectoryInode`]). Defaults of
//! version 1 do not, and are not followed.
//!
//! ```text
//! dio stripe default 2
//! directory 4712 1700000000000000000 0
//! stripe 1048576
//! objects 2
//! target /mnt/a
//! target /mnt/b
//! sum 3e1f0a77
//! ```
//!
//! The number in the first line is the version; readers reject versions that they do not support.
//! `sum` is the CRC-32C of everything before it, first line and comments included. In paths, bytes
//! outside `!`…`~`, and `%`, are written as `%` and two hexadecimal digits. Unknown keys are
//! errors: a later version that needs more keys has a higher number.

mod text;

use std::path::{Path, PathBuf};

use super::head::{DescriptorInode, DirectoryInode};
use super::plan::StripePlan;
use crate::layout::{DEVICE_DATA_START_MIN, Layout, STRIPE_BYTES_MIN};
pub use text::FormatError;
use text::{escape, unescape, version_in};
pub(super) use text::{fields, number, push, seal};

/// Length of a descriptor in bytes. Few files have it by chance; each of those costs one small read
/// when it is opened.
pub const DESCRIPTOR_LEN: u64 = 8171;

/// Lengths in bytes that a descriptor may have after another program has written into it. An edit
/// changes little, and appended text is a line rather than a file. Files that have such a length by
/// chance cost a read each, also when a mount only lists them.
const DESCRIPTOR_LENGTHS: std::ops::RangeInclusive<u64> =
    DESCRIPTOR_LEN - 64..=DESCRIPTOR_LEN + 512;

/// Whether a file of this length in bytes may be a descriptor, damaged or not.
pub fn may_be_descriptor(len: u64) -> bool {
    DESCRIPTOR_LENGTHS.contains(&len)
}

/// Length in bytes of header and stamp of an object, with their padding. The rest up to
/// [`Layout::start`] is a hole.
pub const HEADER_LEN: u64 = STRIPE_BYTES_MIN;

/// Most bytes of a header without its padding: one disk sector.
const SECTOR_BYTES: usize = 512;

/// Offset of the length record on a device, in bytes. It has a block of its own, so that neither
/// the header nor a stripe is rewritten with it.
pub(super) const RECORD_AT: u64 = HEADER_LEN;

/// Length of that record in bytes: every disk rewrites that many as a whole.
pub(super) const RECORD_LEN: u64 = SECTOR_BYTES as u64;

const DESCRIPTOR_MAGIC: &str = "dio striped file ";
const HEADER_MAGIC: &str = "dio stripe object ";
const RECORD_MAGIC: &str = "dio stripe length ";
const DEFAULT_MAGIC: &str = "dio stripe default ";
/// Length of the default of a directory, in bytes.
pub(super) const DEFAULT_LEN: u64 = 8192;
const VERSION: u32 = 1;
/// The version of headers that are followed by a stamp.
const STAMPED_VERSION: u32 = 2;
/// The version of defaults that name the directory that they were made for.
const BOUND_DEFAULT_VERSION: u32 = 2;
const COMMENT: &str =
    "# The bytes of this file are in objects in the places named below; 'dio stripe show' has more. \
Copying or
# removing this text alone copies or removes none of them.
";

/// The key of a line, and a check of its value.
type LineKind = (&'static str, fn(&str) -> bool);

/// The identity of a striped file: 128 random bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Id(pub(super) [u8; 16]);

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::fmt::Debug for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Id({self})")
    }
}

impl Id {
    /// The name of an object in its target directory.
    pub fn object_name(&self, index: usize) -> String {
        format!(".dio-{self}.{index}")
    }

    /// The temporary name of a descriptor that has not got its own name yet.
    pub fn unfinished_name(&self) -> String {
        format!("{}.new", self.object_name(0))
    }

    /// Parses the output of `Display`.
    pub fn parse(text: &str) -> Option<Id> {
        let mut id = [0; 16];
        if text.len() != 32 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        for (index, byte) in id.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
        }
        Some(Id(id))
    }
}

/// The place of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StripeTarget {
    /// A file in this directory.
    Directory(PathBuf),
    /// This whole block device.
    Device(PathBuf),
}

impl StripeTarget {
    /// Its path.
    pub fn path(&self) -> &Path {
        match self {
            StripeTarget::Directory(path) | StripeTarget::Device(path) => path,
        }
    }
}

/// The descriptor of a striped file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// The identity of the file.
    pub id: Id,
    /// How the bytes are divided among the objects.
    pub layout: Layout,
    /// The targets of the objects, in order, as absolute paths. A directory may occur several
    /// times.
    pub targets: Vec<StripeTarget>,
}

/// The header of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The identity of its file.
    pub id: Id,
    /// The index of the object.
    pub index: usize,
    /// The layout of the file.
    pub layout: Layout,
    /// The inode of the descriptor of the file.
    pub head: DescriptorInode,
    /// The user ID of the owner of the file; only for an object on a device.
    pub owner: Option<u32>,
    /// The name of the file when the header was written.
    pub name: Option<PathBuf>,
    /// Whether a stamp follows, which detects an old copy of the object. Objects of version 1 have
    /// none.
    pub stamped: bool,
}

/// The length record of an object on a device, in bytes from the start of the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LengthRecord {
    /// The identity of the file.
    pub(super) id: Id,
    /// The length after a power cut.
    pub(super) durable: u64,
    /// The length while the same system runs.
    pub(super) length: u64,
    /// The boot ID of that system; empty if unknown.
    pub(super) boot: String,
}

impl Descriptor {
    /// Encodes it.
    ///
    /// # Errors
    /// [`FormatError::TooLong`].
    pub fn encode(&self) -> Result<Vec<u8>, FormatError> {
        let mut text = format!("{DESCRIPTOR_MAGIC}{VERSION}\n{COMMENT}");
        push(&mut text, "id", self.id);
        push(&mut text, "stripe", self.layout.stripe());
        push(&mut text, "start", self.layout.start());
        for target in &self.targets {
            let key = if matches!(target, StripeTarget::Device(_)) { "device" } else { "target" };
            push(&mut text, key, escape(target.path()));
        }
        seal(text, DESCRIPTOR_LEN)
    }

    /// Whether these bytes are a descriptor, of any version, damaged or not. This is the only rule
    /// for that: a descriptor must never be read or written as a plain file.
    ///
    /// They are if they begin as a descriptor. They also are if they have about its length, and
    /// either most of the fixed text is in its place, or two kinds of lines occur, anywhere, that
    /// only descriptors have. So a descriptor is recognised after some of its sectors are lost.
    pub fn is_one(bytes: &[u8]) -> bool {
        if bytes.starts_with(DESCRIPTOR_MAGIC.as_bytes()) {
            return true;
        }
        // Headers of objects have lines of the same kinds.
        if !may_be_descriptor(bytes.len() as u64) || bytes.starts_with(HEADER_MAGIC.as_bytes()) {
            return false;
        }
        let usual = format!("{DESCRIPTOR_MAGIC}{VERSION}\n{COMMENT}");
        let same = usual.bytes().zip(bytes).filter(|(usual, found)| usual == *found).count();
        let is_line = |line: &[u8], key: &str, is_value: fn(&str) -> bool| {
            let value =
                line.strip_prefix(key.as_bytes()).and_then(|value| std::str::from_utf8(value).ok());
            value.is_some_and(is_value)
        };
        let kinds: [LineKind; 3] = [
            ("id ", |value| Id::parse(value).is_some()),
            ("stripe ", |value| {
                value.parse::<u64>().is_ok_and(|size| size > 0 && size % STRIPE_BYTES_MIN == 0)
            }),
            ("start ", |value| {
                value.parse::<u64>().is_ok_and(|start| start > 0 && start % STRIPE_BYTES_MIN == 0)
            }),
        ];
        let has = |(key, is_value): &LineKind| {
            bytes.split(|byte| *byte == b'\n').any(|line| is_line(line, key, *is_value))
        };
        2 * same > usual.len() || kinds.iter().filter(|kind| has(kind)).count() > 1
    }

    /// Decodes it.
    ///
    /// # Errors
    /// [`FormatError`].
    pub fn decode(bytes: &[u8]) -> Result<Descriptor, FormatError> {
        let (mut id, mut stripe, mut start, mut targets) = (None, None, None, Vec::new());
        if let Some((own, behind)) = bytes.split_at_checked(DESCRIPTOR_LEN as usize)
            && !behind.is_empty()
        {
            return Err(match Descriptor::decode(own) {
                Ok(_) => FormatError::Longer,
                Err(error) => error,
            });
        }
        let damaged = |error| match error {
            FormatError::Foreign if Descriptor::is_one(bytes) => FormatError::Damaged,
            other => other,
        };
        for (key, value) in
            fields(bytes, DESCRIPTOR_MAGIC, VERSION, DESCRIPTOR_LEN).map_err(damaged)?
        {
            match key {
                "id" => id = Some(Id::parse(value).ok_or(FormatError::Senseless("the id"))?),
                "stripe" => stripe = Some(number(value)?),
                "start" => start = Some(number(value)?),
                "target" | "device" => {
                    let path = unescape(value).ok_or(FormatError::Senseless("a target"))?;
                    let target = if key == "device" {
                        StripeTarget::Device
                    } else {
                        StripeTarget::Directory
                    };
                    targets.push(target(path));
                }
                _ => return Err(FormatError::Senseless("an unknown key")),
            }
        }
        let (Some(id), Some(stripe), Some(start)) = (id, stripe, start) else {
            return Err(FormatError::Senseless("a key is missing"));
        };
        let layout =
            Layout::checked(stripe, targets.len(), start).map_err(FormatError::Senseless)?;
        let descriptor = Descriptor { id, layout, targets };
        if descriptor.has_devices() && start < DEVICE_DATA_START_MIN {
            return Err(FormatError::Senseless("the data begin at a wrong place"));
        }
        Ok(descriptor)
    }

    /// Whether the object is a device.
    pub fn is_device(&self, index: usize) -> bool {
        matches!(self.targets[index], StripeTarget::Device(_))
    }

    /// Whether any object is a device.
    pub fn has_devices(&self) -> bool {
        (0..self.targets.len()).any(|index| self.is_device(index))
    }

    /// The name of an object in its target directory.
    pub fn object_name(&self, index: usize) -> String {
        self.id.object_name(index)
    }

    /// The temporary name of the descriptor until the file is complete, in the directory of its own
    /// name.
    pub fn unfinished_name(&self) -> String {
        self.id.unfinished_name()
    }

    /// The path of an object, for this process.
    pub fn object_path(&self, index: usize) -> PathBuf {
        super::redirect::redirected(match &self.targets[index] {
            StripeTarget::Directory(path) => path.join(self.object_name(index)),
            StripeTarget::Device(path) => path.clone(),
        })
    }

    /// The header that an object of the file must have, if `head` is the inode of the descriptor.
    pub fn header(&self, index: usize, head: DescriptorInode) -> Header {
        Header {
            id: self.id,
            index,
            layout: self.layout,
            head,
            owner: None,
            name: None,
            stamped: true,
        }
    }
}

impl Header {
    /// Encodes it, without a stamp.
    ///
    /// # Errors
    /// None in practice: a header is short.
    pub fn encode(&self) -> Result<Vec<u8>, FormatError> {
        let version = if self.stamped { STAMPED_VERSION } else { VERSION };
        let mut text = format!("{HEADER_MAGIC}{version}\n");
        push(&mut text, "id", self.id);
        push(&mut text, "index", self.index);
        push(&mut text, "objects", self.layout.objects());
        push(&mut text, "stripe", self.layout.stripe());
        push(&mut text, "start", self.layout.start());
        push(&mut text, "head", self.head);
        self.owner.iter().for_each(|owner| push(&mut text, "owner", owner));
        let name =
            self.name.as_deref().map(|name| format!("name {}\n", escape(name))).unwrap_or_default();
        if text.len() + name.len() + "sum 01234567\n".len() <= SECTOR_BYTES {
            text.push_str(&name);
        }
        seal(text, if self.stamped { SECTOR_BYTES as u64 } else { HEADER_LEN })
    }

    /// Decodes it.
    ///
    /// # Errors
    /// [`FormatError`].
    pub fn decode(bytes: &[u8]) -> Result<Header, FormatError> {
        let (mut id, mut numbers, mut head, mut owner, mut name) =
            (None, [None; 4], None, None, None);
        // A header of any version is within these bytes; in version 1 only padding follows.
        let whole = bytes.get(..SECTOR_BYTES).unwrap_or(bytes);
        let stamped = version_in(whole, HEADER_MAGIC)
            .is_some_and(|version| version == STAMPED_VERSION.to_string());
        let version = if stamped { STAMPED_VERSION } else { VERSION };
        for (key, value) in fields(whole, HEADER_MAGIC, version, SECTOR_BYTES as u64)? {
            match ["index", "objects", "stripe", "start"].iter().position(|known| *known == key) {
                Some(place) => numbers[place] = Some(number(value)?),
                None if key == "id" => id = Id::parse(value),
                None if key == "head" => head = DescriptorInode::parse(value),
                None if key == "owner" => {
                    owner = Some(value.parse().map_err(|_| FormatError::Senseless("a number"))?);
                }
                None if key == "name" => {
                    name = Some(unescape(value).ok_or(FormatError::Senseless("a name"))?)
                }
                None => return Err(FormatError::Senseless("an unknown key")),
            }
        }
        let (Some(id), Some(head), [Some(index), Some(objects), Some(stripe), Some(start)]) =
            (id, head, numbers)
        else {
            return Err(FormatError::Senseless("a key is missing"));
        };
        let layout =
            Layout::checked(stripe, objects as usize, start).map_err(FormatError::Senseless)?;
        Ok(Header { id, index: index as usize, layout, head, owner, name, stamped })
    }
}

impl LengthRecord {
    /// Encodes it.
    pub(super) fn encode(&self) -> Result<Vec<u8>, FormatError> {
        let mut text = format!("{RECORD_MAGIC}{VERSION}\n");
        push(&mut text, "id", self.id);
        push(&mut text, "durable", self.durable);
        push(&mut text, "length", self.length);
        if !self.boot.is_empty() {
            push(&mut text, "boot", &self.boot);
        }
        seal(text, RECORD_LEN)
    }

    /// Decodes it.
    pub(super) fn decode(bytes: &[u8]) -> Result<LengthRecord, FormatError> {
        let (mut id, mut durable, mut length, mut boot) = (None, None, None, String::new());
        for (key, value) in fields(bytes, RECORD_MAGIC, VERSION, RECORD_LEN)? {
            match key {
                "id" => id = Id::parse(value),
                "durable" => durable = Some(number(value)?),
                "length" => length = Some(number(value)?),
                "boot" => boot = value.to_owned(),
                _ => return Err(FormatError::Senseless("an unknown key")),
            }
        }
        let (Some(id), Some(durable), Some(length)) = (id, durable, length) else {
            return Err(FormatError::Senseless("a key is missing"));
        };
        Ok(LengthRecord { id, durable, length, boot })
    }

    /// The length on the system with this boot ID: bytes that were not flushed before another boot
    /// may be lost.
    pub(super) fn length_in(&self, boot: &str) -> u64 {
        if !boot.is_empty() && self.boot == boot { self.length } else { self.durable }
    }
}

/// The default of a directory, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DefaultText {
    pub(super) plan: StripePlan,
    /// The directory that it was made for; `None` in version 1.
    pub(super) directory: Option<DirectoryInode>,
}

/// Encodes the default of a directory.
///
/// # Errors
/// [`FormatError::TooLong`] if the targets have too long names.
pub fn encode_default(
    plan: &StripePlan,
    directory: DirectoryInode,
) -> Result<Vec<u8>, FormatError> {
    DefaultText { plan: plan.clone(), directory: Some(directory) }.encode()
}

impl DefaultText {
    pub(super) fn encode(&self) -> Result<Vec<u8>, FormatError> {
        let version = if self.directory.is_some() { BOUND_DEFAULT_VERSION } else { VERSION };
        let mut text = format!("{DEFAULT_MAGIC}{version}\n");
        self.directory.iter().for_each(|directory| push(&mut text, "directory", directory.0));
        self.plan.stripe.iter().for_each(|stripe| push(&mut text, "stripe", stripe));
        self.plan.count.iter().for_each(|count| push(&mut text, "objects", count));
        self.plan.targets.iter().for_each(|target| push(&mut text, "target", escape(target)));
        seal(text, DEFAULT_LEN)
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<DefaultText, FormatError> {
        let (mut plan, mut directory) = (StripePlan::default(), None);
        let bound = version_in(bytes, DEFAULT_MAGIC)
            .is_some_and(|found| found == BOUND_DEFAULT_VERSION.to_string());
        let version = if bound { BOUND_DEFAULT_VERSION } else { VERSION };
        for (key, value) in fields(bytes, DEFAULT_MAGIC, version, DEFAULT_LEN)? {
            match key {
                "stripe" => plan.stripe = Some(number(value)?),
                "objects" => plan.count = Some(number(value)? as usize),
                "target" => {
                    plan.targets.push(unescape(value).ok_or(FormatError::Senseless("a target"))?)
                }
                "directory" if bound => {
                    directory = DescriptorInode::parse(value).map(DirectoryInode)
                }
                _ => return Err(FormatError::Senseless("an unknown key")),
            }
        }
        if bound && directory.is_none() {
            return Err(FormatError::Senseless("a key is missing"));
        }
        Ok(DefaultText { plan, directory })
    }
}

#[cfg(test)]
mod tests;
