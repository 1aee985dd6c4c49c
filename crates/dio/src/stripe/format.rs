//! What is kept: the descriptor of a striped file, and the header of each object. The one place that knows their bytes.
//!
//! Both are text (and so is what a directory keeps for its new files), padded with newlines to a fixed length, so that whoever comes upon one with another program sees what it is:
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
//! `head` is the inode of the descriptor ([`Head`]: number, birth, volume), and `name` what it was called when it was made, left out
//! where it is long: a header is rewritten when a copy of the descriptor takes its place, and what is within its first 512
//! bytes is rewritten as a whole by every disk.
//!
//! A header has 512 bytes; behind it is the object's stamp (`stamp.rs`). Objects of version 1 have none, and a header of 4096 bytes.
//!
//! A `device` is itself the object. It has no owner and no size of its own, so its header has an `owner` (a user), and between the
//! header and [`Layout::start`], in the block at [`RECORD_AT`], there is a record of [`RECORD_LEN`] bytes with its length. Both
//! lengths count from the start of the device: `durable` is what was flushed to it, and `length` what the system that was running
//! with this identity (`/proc/sys/kernel/random/boot_id`) could see.
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
//! The number in the first line is the version; a reader refuses one that it does not know. `sum` is the CRC-32C of
//! everything before it, first lines and comments included. Bytes of a path outside `!`…`~`, and `%`, are written `%` and two
//! hexadecimal digits. Unknown keys are refused: a later version that needs more says so by its number.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::create::Plan;
use super::head::Head;
use crate::layout::{DEVICE_DATA_START_MIN, Layout, STRIPE_BYTES_MIN};

/// Length of a descriptor in bytes. Few files have it by chance, and those cost one small read when they are opened.
pub const DESCRIPTOR_LEN: u64 = 8171;

/// Lengths that a descriptor may have got in bytes when another program has written into it. Who edits one changes little, and
/// what is appended is a line rather than a file. Each length in here costs a read of the files that have it by chance, also
/// when they are only listed below a mount.
const DESCRIPTOR_LENGTHS: std::ops::RangeInclusive<u64> = DESCRIPTOR_LEN - 64..=DESCRIPTOR_LEN + 512;

/// Whether a file of this length may be a descriptor, damaged or not.
pub fn may_be_descriptor(len: u64) -> bool {
    DESCRIPTOR_LENGTHS.contains(&len)
}

/// Length of what precedes the data of an object in bytes: its header and its stamp; what follows up to [`Layout::start`] is a
/// hole.
pub const HEADER_LEN: u64 = STRIPE_BYTES_MIN;

/// Most bytes of a header that are not padding.
const WHOLE: usize = 512;

/// Where the length record of a device is, in bytes: a block of its own, so that neither the header nor a stripe is rewritten with it.
pub(super) const RECORD_AT: u64 = HEADER_LEN;

/// Length of that record in bytes: what every disk rewrites as a whole.
pub(super) const RECORD_LEN: u64 = WHOLE as u64;

const DESCRIPTOR_MAGIC: &str = "dio striped file ";
const HEADER_MAGIC: &str = "dio stripe object ";
const RECORD_MAGIC: &str = "dio stripe length ";
const DEFAULT_MAGIC: &str = "dio stripe default ";
/// Length of a directory's default in bytes.
pub(super) const DEFAULT_LEN: u64 = 8192;
const VERSION: u32 = 1;
/// The version of headers behind which there is a stamp.
const STAMPED_VERSION: u32 = 2;
const COMMENT: &str =
    "# The bytes of this file are in objects in the places named below; 'dio stripe show' has more. Copying or
# removing this text alone copies or removes none of them.
";

/// What a line begins with, and what its value must be.
type LineKind = (&'static str, fn(&str) -> bool);

/// What makes the objects of a file its own.
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
    /// The name of an object in its target.
    pub fn object_name(&self, index: usize) -> String {
        format!(".dio-{self}.{index}")
    }

    /// The name of a descriptor that has not got its own yet.
    pub fn unfinished_name(&self) -> String {
        format!("{}.new", self.object_name(0))
    }

    /// Reads what `Display` has written.
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

/// Why what was kept cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// It begins like something else.
    #[error("it is none")]
    Foreign,
    /// Of a version that this program does not know.
    #[error("it is of version {0}, which this program does not know")]
    Version(String),
    /// Its checksum is wrong, or it is cut off.
    #[error("it is damaged: its checksum is wrong")]
    Damaged,
    /// Whole, and something is behind it.
    #[error("it is damaged: something was written behind it")]
    Longer,
    /// Whole, but senseless.
    #[error("it makes no sense: {0}")]
    Senseless(&'static str),
    /// The names of the targets do not fit.
    #[error("the names of the targets are too long together")]
    TooLong,
}

/// Where an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A file in this directory.
    Directory(PathBuf),
    /// The whole of this block device.
    Device(PathBuf),
}

impl Target {
    /// Its name.
    pub fn path(&self) -> &Path {
        match self {
            Target::Directory(path) | Target::Device(path) => path,
        }
    }
}

/// The descriptor of a striped file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// The identity of the file's objects.
    pub id: Id,
    /// How bytes are laid out.
    pub layout: Layout,
    /// Where the objects are, in order; absolute. A directory may come several times.
    pub targets: Vec<Target>,
}

/// What an object says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The identity of the file that it belongs to.
    pub id: Id,
    /// Which object it is.
    pub index: usize,
    /// The layout of the file.
    pub layout: Layout,
    /// Which inode the descriptor of the file is.
    pub head: Head,
    /// Whose the file is; of an object that is a device.
    pub owner: Option<u32>,
    /// What the file was called when this was written.
    pub name: Option<PathBuf>,
    /// Whether a stamp is behind it, which tells an old copy of the object; objects of the first version have none.
    pub stamped: bool,
}

/// How long an object is that is a device, in bytes from its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// The identity of the file.
    pub(super) id: Id,
    /// What is there after the power went.
    pub(super) durable: u64,
    /// What is there while the same system runs.
    pub(super) length: u64,
    /// Which system that is; nothing where it was not known.
    pub(super) boot: String,
}

impl Descriptor {
    /// Its bytes.
    ///
    /// # Errors
    /// [`FormatError::TooLong`].
    pub fn encode(&self) -> Result<Vec<u8>, FormatError> {
        let mut text = format!("{DESCRIPTOR_MAGIC}{VERSION}\n{COMMENT}");
        push(&mut text, "id", self.id);
        push(&mut text, "stripe", self.layout.stripe());
        push(&mut text, "start", self.layout.start());
        for target in &self.targets {
            let key = if matches!(target, Target::Device(_)) { "device" } else { "target" };
            push(&mut text, key, escape(target.path()));
        }
        seal(text, DESCRIPTOR_LEN)
    }

    /// Whether a file of these bytes is a descriptor, of whatever version, damaged or not. The one rule for that: what is a
    /// descriptor must never be read or written as an ordinary file.
    ///
    /// It is one if it begins as one, or has about the length of one, and most of the text that all begin with is in its place, or two
    /// kinds of the lines are there that only descriptors have, wherever they are. So what is left of one is known when some of
    /// its sectors are lost.
    pub fn is_one(bytes: &[u8]) -> bool {
        if bytes.starts_with(DESCRIPTOR_MAGIC.as_bytes()) {
            return true;
        }
        // An object has lines of the same kinds.
        if !may_be_descriptor(bytes.len() as u64) || bytes.starts_with(HEADER_MAGIC.as_bytes()) {
            return false;
        }
        let usual = format!("{DESCRIPTOR_MAGIC}{VERSION}\n{COMMENT}");
        let same = usual.bytes().zip(bytes).filter(|(usual, found)| usual == *found).count();
        let is_line = |line: &[u8], key: &str, is_value: fn(&str) -> bool| {
            let value = line.strip_prefix(key.as_bytes()).and_then(|value| std::str::from_utf8(value).ok());
            value.is_some_and(is_value)
        };
        let kinds: [LineKind; 3] = [
            ("id ", |value| Id::parse(value).is_some()),
            ("stripe ", |value| value.parse::<u64>().is_ok_and(|size| size > 0 && size % STRIPE_BYTES_MIN == 0)),
            ("start ", |value| value.parse::<u64>().is_ok_and(|start| start > 0 && start % STRIPE_BYTES_MIN == 0)),
        ];
        let has =
            |(key, is_value): &LineKind| bytes.split(|byte| *byte == b'\n').any(|line| is_line(line, key, *is_value));
        2 * same > usual.len() || kinds.iter().filter(|kind| has(kind)).count() > 1
    }

    /// Reads it back.
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
        for (key, value) in fields(bytes, DESCRIPTOR_MAGIC, VERSION, DESCRIPTOR_LEN).map_err(damaged)? {
            match key {
                "id" => id = Some(Id::parse(value).ok_or(FormatError::Senseless("the id"))?),
                "stripe" => stripe = Some(number(value)?),
                "start" => start = Some(number(value)?),
                "target" | "device" => {
                    let path = unescape(value).ok_or(FormatError::Senseless("a target"))?;
                    targets.push(if key == "device" { Target::Device(path) } else { Target::Directory(path) });
                }
                _ => return Err(FormatError::Senseless("an unknown key")),
            }
        }
        let (Some(id), Some(stripe), Some(start)) = (id, stripe, start) else {
            return Err(FormatError::Senseless("a key is missing"));
        };
        let layout = Layout::checked(stripe, targets.len(), start).map_err(FormatError::Senseless)?;
        let descriptor = Descriptor { id, layout, targets };
        if descriptor.has_devices() && start < DEVICE_DATA_START_MIN {
            return Err(FormatError::Senseless("the data begin at a wrong place"));
        }
        Ok(descriptor)
    }

    /// Whether an object is a device.
    pub fn is_device(&self, index: usize) -> bool {
        matches!(self.targets[index], Target::Device(_))
    }

    /// Whether any object is.
    pub fn has_devices(&self) -> bool {
        (0..self.targets.len()).any(|index| self.is_device(index))
    }

    /// The name of an object in its target.
    pub fn object_name(&self, index: usize) -> String {
        self.id.object_name(index)
    }

    /// The name of the descriptor itself as long as it is not known whether the file will be made, beside its own.
    pub fn unfinished_name(&self) -> String {
        self.id.unfinished_name()
    }

    /// Where an object is, for this process.
    pub fn object_path(&self, index: usize) -> PathBuf {
        super::reach::through(match &self.targets[index] {
            Target::Directory(path) => path.join(self.object_name(index)),
            Target::Device(path) => path.clone(),
        })
    }

    /// What an object of the file with this head must say of itself.
    pub fn header(&self, index: usize, head: Head) -> Header {
        Header { id: self.id, index, layout: self.layout, head, owner: None, name: None, stamped: true }
    }
}

impl Header {
    /// Its bytes, without a stamp.
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
        let name = self.name.as_deref().map(|name| format!("name {}\n", escape(name))).unwrap_or_default();
        if text.len() + name.len() + "sum 01234567\n".len() <= WHOLE {
            text.push_str(&name);
        }
        seal(text, if self.stamped { WHOLE as u64 } else { HEADER_LEN })
    }

    /// Reads it back.
    ///
    /// # Errors
    /// [`FormatError`].
    pub fn decode(bytes: &[u8]) -> Result<Header, FormatError> {
        let (mut id, mut numbers, mut head, mut owner, mut name) = (None, [None; 4], None, None, None);
        // Of whatever version, it is within these bytes; those of the first one are followed by padding alone.
        let whole = bytes.get(..WHOLE).unwrap_or(bytes);
        let stamped = version_in(whole, HEADER_MAGIC).is_some_and(|version| version == STAMPED_VERSION.to_string());
        let version = if stamped { STAMPED_VERSION } else { VERSION };
        for (key, value) in fields(whole, HEADER_MAGIC, version, WHOLE as u64)? {
            match ["index", "objects", "stripe", "start"].iter().position(|known| *known == key) {
                Some(place) => numbers[place] = Some(number(value)?),
                None if key == "id" => id = Id::parse(value),
                None if key == "head" => head = Head::parse(value),
                None if key == "owner" => {
                    owner = Some(value.parse().map_err(|_| FormatError::Senseless("a number"))?);
                }
                None if key == "name" => name = Some(unescape(value).ok_or(FormatError::Senseless("a name"))?),
                None => return Err(FormatError::Senseless("an unknown key")),
            }
        }
        let (Some(id), Some(head), [Some(index), Some(objects), Some(stripe), Some(start)]) = (id, head, numbers)
        else {
            return Err(FormatError::Senseless("a key is missing"));
        };
        let layout = Layout::checked(stripe, objects as usize, start).map_err(FormatError::Senseless)?;
        Ok(Header { id, index: index as usize, layout, head, owner, name, stamped })
    }
}

impl Record {
    /// Its bytes.
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

    /// Reads it back.
    pub(super) fn decode(bytes: &[u8]) -> Result<Record, FormatError> {
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
        Ok(Record { id, durable, length, boot })
    }

    /// The length for a system with this identity: what was not flushed before another one started may be lost.
    pub(super) fn length_in(&self, boot: &str) -> u64 {
        if !boot.is_empty() && self.boot == boot { self.length } else { self.durable }
    }
}

/// What a directory keeps for its new files, as bytes.
pub fn encode_default(plan: &Plan) -> Result<Vec<u8>, FormatError> {
    let mut text = format!("{DEFAULT_MAGIC}{VERSION}\n");
    plan.stripe.iter().for_each(|stripe| push(&mut text, "stripe", stripe));
    plan.count.iter().for_each(|count| push(&mut text, "objects", count));
    plan.targets.iter().for_each(|target| push(&mut text, "target", escape(target)));
    seal(text, DEFAULT_LEN)
}

/// Reads it back.
pub(super) fn decode_default(bytes: &[u8]) -> Result<Plan, FormatError> {
    let mut plan = Plan::default();
    for (key, value) in fields(bytes, DEFAULT_MAGIC, VERSION, DEFAULT_LEN)? {
        match key {
            "stripe" => plan.stripe = Some(number(value)?),
            "objects" => plan.count = Some(number(value)? as usize),
            "target" => plan.targets.push(unescape(value).ok_or(FormatError::Senseless("a target"))?),
            _ => return Err(FormatError::Senseless("an unknown key")),
        }
    }
    Ok(plan)
}

pub(super) fn push(text: &mut String, key: &str, value: impl std::fmt::Display) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{key} {value}");
}

/// Adds the checksum and fills up.
pub(super) fn seal(mut text: String, len: u64) -> Result<Vec<u8>, FormatError> {
    let sum = crc32c::crc32c(text.as_bytes());
    push(&mut text, "sum", format_args!("{sum:08x}"));
    let mut bytes = text.into_bytes();
    if bytes.len() as u64 > len {
        return Err(FormatError::TooLong);
    }
    bytes.resize(len as usize, b'\n');
    Ok(bytes)
}

/// The version in the first line of what begins with `magic`.
fn version_in<'a>(bytes: &'a [u8], magic: &str) -> Option<&'a str> {
    let rest = bytes.strip_prefix(magic.as_bytes())?;
    std::str::from_utf8(rest.split(|byte| *byte == b'\n').next()?).ok()
}

/// Checks the first line and the checksum; the keys and values between.
pub(super) fn fields<'a>(
    bytes: &'a [u8],
    magic: &str,
    known: u32,
    len: u64,
) -> Result<Vec<(&'a str, &'a str)>, FormatError> {
    if !bytes.starts_with(magic.as_bytes()) {
        return Err(FormatError::Foreign);
    }
    if bytes.len() as u64 != len {
        return Err(FormatError::Damaged);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| FormatError::Damaged)?;
    let (first, _) = text.split_once('\n').ok_or(FormatError::Damaged)?;
    let version = &first[magic.len()..];
    if version != known.to_string() {
        // Of another version only the first line is known to mean what it says here.
        let is_number = !version.is_empty() && version.bytes().all(|digit| digit.is_ascii_digit());
        return Err(if is_number { FormatError::Version(version.to_owned()) } else { FormatError::Damaged });
    }
    let (body, rest) = text.split_once("\nsum ").ok_or(FormatError::Damaged)?;
    let sealed = &bytes[..body.len() + 1];
    let (sum, padding) = rest.split_once('\n').ok_or(FormatError::Damaged)?;
    let sound = sum == format!("{:08x}", crc32c::crc32c(sealed)) && padding.bytes().all(|byte| byte == b'\n');
    if !sound {
        return Err(FormatError::Damaged);
    }
    let lines = body.lines().skip(1).filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split_once(' ').ok_or(FormatError::Senseless("a line without a value"))).collect()
}

pub(super) fn number(text: &str) -> Result<u64, FormatError> {
    text.parse().map_err(|_| FormatError::Senseless("a number"))
}

fn escape(path: &Path) -> String {
    let mut text = String::new();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'%' => text.push_str("%25"),
            b'!'..=b'~' => text.push(char::from(*byte)),
            _ => {
                let _ = write!(text, "%{byte:02x}");
            }
        }
    }
    text
}

fn unescape(text: &str) -> Option<PathBuf> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let [high, low, after @ ..] = rest else { return None };
        let digit = |byte: u8| char::from(byte).to_digit(16);
        bytes.push((digit(*high)? * 16 + digit(*low)?) as u8);
        rest = after;
    }
    let path = PathBuf::from(OsString::from_vec(bytes));
    path.is_absolute().then_some(path)
}

#[cfg(test)]
mod tests;
