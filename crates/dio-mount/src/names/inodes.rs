//! The table of the inodes that the kernel holds: their identity in the source, and the name by
//! which each was last found. It makes no system calls.
//!
//! A record lives while the kernel holds its inode (`lookups`), or while another record has it as
//! its parent (`children`). So all ancestors of a record have records too. Numbers are never
//! reused.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use dio_sys::FileHandle;
use rustix::fs::FileType;
use rustix::io::{Errno, Result};

/// The number of an inode in the protocol with the kernel; 1 is the root. Numbers are never reused.
pub type InodeId = u64;

/// The root of every mount.
pub const ROOT: InodeId = 1;

/// Bits of `st_ino` below the index of the file system.
const NUMBER_BITS: u32 = 48;

/// No inode: the parent of a record whose directory is no longer known.
const NO_INODE: InodeId = 0;

/// Identifies an inode, together with its [`Handle`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct InodeKey {
    /// Index of its `st_dev`.
    pub(super) device: u32,
    /// For directories the index of the mount, for all others 0. A directory mounted at two mount
    /// points is two directories to the kernel, which allows a directory only one name. A file
    /// remains one file.
    pub(super) mount: u32,
    /// Its `st_ino`.
    pub(super) number: u64,
}

/// A [`FileHandle`] in as little memory as the handles of common file systems need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Handle {
    /// The file system has no handles.
    None,
    /// Up to 22 bytes (ext4 8, tmpfs and xfs 12, btrfs 20).
    Short { kind: u8, length: u8, bytes: [u8; 22] },
    /// A handle of any length.
    Long(Box<FileHandle>),
}

impl From<FileHandle> for Handle {
    fn from(handle: FileHandle) -> Handle {
        let mut bytes = [0; 22];
        let from = handle.bytes();
        match (u8::try_from(handle.kind()), bytes.get_mut(..from.len())) {
            (Ok(kind), Some(room)) => {
                room.copy_from_slice(from);
                Handle::Short { kind, length: from.len() as u8, bytes }
            }
            _ => Handle::Long(Box::new(handle)),
        }
    }
}

impl Handle {
    /// Returns the handle in the form of system calls.
    pub(super) fn full(&self) -> Option<FileHandle> {
        match self {
            Handle::None => None,
            Handle::Short { kind, length, bytes } => {
                FileHandle::new(i32::from(*kind), &bytes[..usize::from(*length).min(bytes.len())])
            }
            Handle::Long(handle) => Some(**handle),
        }
    }

    /// Whether both can belong to the same inode. If one inode has no handle, the key has to
    /// decide.
    pub(super) fn agrees(&self, other: &Handle) -> bool {
        matches!((self, other), (Handle::None, _) | (_, Handle::None)) || self == other
    }
}

/// The identity of an inode in the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InodeIdentity {
    pub(super) key: InodeKey,
    pub(super) handle: Handle,
    pub(super) kind: FileType,
    /// Index of the mount where it was found, and where its handle is opened.
    pub(super) mount: u32,
}

impl InodeIdentity {
    /// Whether both are the same inode.
    pub(super) fn same(&self, other: &InodeIdentity) -> bool {
        self.key == other.key && self.kind == other.kind && self.handle.agrees(&other.handle)
    }

    /// Returns the key of an entry of this directory on the same file system. `number_shown` is the
    /// entry's inode number in the dio mount.
    pub(super) fn key_below(&self, number_shown: u64, kind: FileType) -> InodeKey {
        let InodeKey { device, .. } = self.key;
        let mount = if kind == FileType::Directory { self.mount } else { 0 };
        // `shown` is its own inverse.
        InodeKey { device, mount, number: shown(device, number_shown) }
    }
}

/// Returns an inode number that is unique among all file systems of a dio mount.
pub(super) fn shown(device: u32, number: u64) -> u64 {
    number ^ (u64::from(device) << NUMBER_BITS)
}

/// An inode.
#[derive(Debug)]
pub(super) struct Record {
    /// Invariant: `id & 0xffff_ffff` is the record's slot plus one; the upper bits count how often
    /// the slot was used before.
    id: InodeId,
    pub(super) identity: InodeIdentity,
    /// The directory where it was last found, by `name`; [`NO_INODE`] if it is no longer known.
    pub(super) parent: InodeId,
    pub(super) name: Box<OsStr>,
    /// Lookups that the kernel was answered, minus those that it forgot.
    lookups: u64,
    /// Records whose `parent` is this one.
    children: u32,
    /// Whether it was looked up since [`Table::oldest_leaves`] last passed it.
    used: bool,
    /// Whether the kernel was asked to forget it.
    asked: bool,
    /// When the kernel was last answered a lookup of it, as [`Table::now`].
    told: u32,
}

/// A name that the kernel can forget without forgetting anything else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// The inode of that name.
    pub inode: InodeId,
    /// The directory with that name.
    pub parent: InodeId,
    /// The name.
    pub name: OsString,
}

/// All records.
#[derive(Debug)]
pub(super) struct Table {
    slots: Slots,
    /// Invariant: maps a key to the slot of the latest record with this key.
    by_key: HashMap<InodeKey, u32>,
    /// Bytes of names and long handles.
    outside: usize,
    /// The slot where the search for old records stopped.
    hand: usize,
    /// Records that were removed since [`Table::take_gone`].
    gone: Vec<InodeId>,
    /// Milliseconds since the beginning at the last [`Table::tick`]; they wrap around after 49
    /// days.
    now: u32,
}

/// Bytes of one entry of `by_key` at its average load.
const ENTRY: usize = 40;

impl Table {
    /// Makes a table with the root, which is never forgotten.
    pub(super) fn new(root: InodeIdentity) -> Table {
        let mut table = Table {
            slots: Slots::default(),
            by_key: HashMap::new(),
            outside: 0,
            hand: 0,
            gone: Vec::new(),
            now: 0,
        };
        let id = table.insert(root, NO_INODE, OsStr::new(""));
        debug_assert_eq!(id, ROOT);
        table
    }

    /// Returns the record of a number.
    ///
    /// # Errors
    /// `ESTALE` if there is none.
    pub(super) fn get(&self, id: InodeId) -> Result<&Record> {
        self.slots.get(slot_of(id)).filter(|record| record.id == id).ok_or(Errno::STALE)
    }

    fn get_mut(&mut self, id: InodeId) -> Option<&mut Record> {
        self.slots.get_mut(slot_of(id)).filter(|record| record.id == id)
    }

    /// Returns the number of the latest inode with this key.
    pub(super) fn find(&self, key: &InodeKey) -> Option<InodeId> {
        self.slots.get(*self.by_key.get(key)? as usize).map(|record| record.id)
    }

    /// Counts one more lookup of an inode that was found as `name` in `parent`; makes a record if
    /// there is none.
    pub(super) fn enter(
        &mut self,
        identity: InodeIdentity,
        parent: InodeId,
        name: &OsStr,
    ) -> InodeId {
        let known = self
            .find(&identity.key)
            .filter(|id| self.get(*id).is_ok_and(|r| r.identity.same(&identity)));
        match known {
            Some(id) => {
                self.visit(id, parent, name);
                id
            }
            None => {
                let id = self.insert(identity, NO_INODE, OsStr::new(""));
                self.visit(id, parent, name);
                id
            }
        }
    }

    /// Makes a record of a new inode without a name, and counts one lookup.
    pub(super) fn enter_unnamed(&mut self, identity: InodeIdentity) -> InodeId {
        let id = self.insert(identity, NO_INODE, OsStr::new(""));
        let counted = self.count(id);
        debug_assert!(counted.is_ok());
        id
    }

    /// Counts one more lookup of a known inode that was found as `name` in `parent`.
    pub(super) fn visit(&mut self, id: InodeId, parent: InodeId, name: &OsStr) {
        if self.count(id).is_ok() {
            self.place(id, parent, name);
        }
    }

    /// Counts one more lookup without a name.
    ///
    /// # Errors
    /// `ESTALE` if there is no such inode.
    pub(super) fn count(&mut self, id: InodeId) -> Result<()> {
        let now = self.now;
        let record = self.get_mut(id).ok_or(Errno::STALE)?;
        record.lookups += 1;
        (record.used, record.asked, record.told) = (true, false, now);
        Ok(())
    }

    /// Sets the time, in milliseconds since the beginning.
    pub(super) fn tick(&mut self, now: u32) {
        self.now = now;
    }

    /// Whether a lookup of this name was answered to the kernel with this inode within the last
    /// `milliseconds`, and the kernel still holds the inode.
    pub(super) fn was_told(
        &self,
        key: &InodeKey,
        parent: InodeId,
        name: &OsStr,
        milliseconds: u32,
    ) -> bool {
        self.find(key).and_then(|id| self.get(id).ok()).is_some_and(|record| {
            let held = record.lookups > 0 && !record.asked;
            let here = record.parent == parent && *record.name == *name;
            held && here && self.now.wrapping_sub(record.told) < milliseconds
        })
    }

    /// Returns the directory where an inode was last found.
    ///
    /// # Errors
    /// `ENOENT` for the root, `ESTALE` if it is not known.
    pub(super) fn above(&self, id: InodeId) -> Result<InodeId> {
        match self.get(id)?.parent {
            _ if id == ROOT => Err(Errno::NOENT),
            NO_INODE => Err(Errno::STALE),
            parent => Ok(parent),
        }
    }

    /// Records the name by which the inode can be found from now on.
    pub(super) fn place(&mut self, id: InodeId, parent: InodeId, name: &OsStr) {
        let Ok(record) = self.get(id) else { return };
        if id == ROOT || (record.parent == parent && *record.name == *name) {
            return;
        }
        let parent = if parent != id && self.get(parent).is_ok() { parent } else { NO_INODE };
        if record.identity.kind == FileType::Directory && record.parent != parent {
            self.break_circle(id, parent);
        }
        let renamed: Option<Box<OsStr>> =
            (*self.get(id).expect("it was there").name != *name).then(|| name.into());
        let record = self.get_mut(id).expect("it was there");
        let old = std::mem::replace(&mut record.parent, parent);
        let shorter = renamed.map(|name| std::mem::replace(&mut record.name, name));
        if let Some(before) = shorter {
            self.outside = self.outside + name.len() - before.len();
        }
        if let Some(record) = self.get_mut(parent) {
            record.children += 1;
        }
        if let Some(record) = self.get_mut(old) {
            record.children -= 1;
            self.remove_unheld(old);
        }
        self.remove_unheld(id);
    }

    /// Makes sure that no directory becomes its own ancestor. That can happen when directories are
    /// moved without the mount: then the record that closes the circle is out of date, and loses
    /// its parent.
    fn break_circle(&mut self, id: InodeId, parent: InodeId) {
        let mut at = parent;
        while let Ok(record) = self.get(at) {
            if record.parent == id {
                self.get_mut(at).expect("it was there").parent = NO_INODE;
                self.get_mut(id).expect("it is a parent").children -= 1;
                return;
            }
            at = record.parent;
        }
    }

    /// Counts `count` lookups that the kernel forgot.
    pub(super) fn forget(&mut self, id: InodeId, count: u64) {
        if let Some(record) = self.get_mut(id) {
            record.lookups = record.lookups.saturating_sub(count);
            self.remove_unheld(id);
        }
    }

    /// Removes and returns the list of records that were removed since the last call.
    pub(super) fn take_gone(&mut self) -> Vec<InodeId> {
        std::mem::take(&mut self.gone)
    }

    /// Removes a record that nothing holds, and then each ancestor that nothing holds any more.
    fn remove_unheld(&mut self, id: InodeId) {
        let mut next = id;
        while next != ROOT
            && let Some(record) = self.get_mut(next)
            && record.lookups == 0
            && record.children == 0
        {
            let (key, parent) = (record.identity.key, record.parent);
            let slot = slot_of(next);
            if self.by_key.get(&key) == Some(&(slot as u32)) {
                self.by_key.remove(&key);
            }
            let removed = self.slots.remove(slot);
            self.outside -= removed.outside();
            self.gone.push(next);
            next = parent;
            if let Some(record) = self.get_mut(next) {
                record.children -= 1;
            }
        }
    }

    fn insert(&mut self, identity: InodeIdentity, parent: InodeId, name: &OsStr) -> InodeId {
        let key = identity.key;
        let record = Record {
            id: NO_INODE,
            identity,
            parent,
            name: name.into(),
            lookups: 0,
            children: 0,
            used: true,
            asked: false,
            told: 0,
        };
        self.outside += record.outside();
        let id = self.slots.insert(record);
        self.by_key.insert(key, slot_of(id) as u32);
        id
    }

    /// Whether the kernel holds the inode.
    pub(super) fn is_held(&self, id: InodeId) -> bool {
        self.get(id).is_ok_and(|record| record.lookups > 0)
    }

    /// Returns the path from the root by which an inode was last found; empty for the root itself.
    pub(super) fn path(&self, id: InodeId) -> Option<PathBuf> {
        let mut names = Vec::new();
        let mut at = id;
        while at != ROOT {
            let record = self.get(at).ok()?;
            names.push(&*record.name);
            at = record.parent;
        }
        Some(names.into_iter().rev().collect())
    }

    /// Bytes that the records take.
    pub(super) fn bytes(&self) -> u64 {
        (self.slots.taken() * (size_of::<InodeSlot>() + ENTRY) + self.outside) as u64
    }

    /// The number of records, including the root.
    pub(super) fn len(&self) -> usize {
        self.slots.taken()
    }

    /// Returns up to `count` leaves that were not used recently. A leaf is returned once until it
    /// is looked up again. With `directories`, directories without records below them are leaves
    /// too.
    pub(super) fn oldest_leaves(&mut self, count: usize, directories: bool) -> Vec<Leaf> {
        let mut leaves = Vec::new();
        let slots = self.slots.len();
        // In the first round all records may be marked as used; it clears the marks.
        for _ in 0..2 * slots {
            if leaves.len() == count {
                break;
            }
            self.hand = (self.hand + 1) % slots;
            let Some(record) = self.slots.get_mut(self.hand) else { continue };
            let leaf = directories || record.identity.kind != FileType::Directory;
            if record.id == ROOT
                || record.parent == NO_INODE
                || record.lookups == 0
                || record.children > 0
                || !leaf
            {
                continue;
            }
            if record.asked || std::mem::take(&mut record.used) {
                continue;
            }
            record.asked = true;
            leaves.push(Leaf {
                inode: record.id,
                parent: record.parent,
                name: record.name.to_os_string(),
            });
        }
        leaves
    }

    /// Makes all leaves eligible for [`Table::oldest_leaves`] again.
    pub(super) fn ask_again(&mut self) {
        for slot in 0..self.slots.len() {
            if let Some(record) = self.slots.get_mut(slot) {
                record.asked = false;
            }
        }
    }
}

impl Record {
    /// Bytes on the heap, without the allocator's overhead.
    fn outside(&self) -> usize {
        let handle =
            if let Handle::Long(_) = self.identity.handle { size_of::<FileHandle>() } else { 0 };
        self.name.len() + handle
    }
}

fn slot_of(id: InodeId) -> usize {
    // NO_INODE leads to a slot that never exists.
    ((id & 0xffff_ffff) as usize).wrapping_sub(1)
}

/// Records in pages, so that growth moves no record. A free slot stores how often it was used.
#[derive(Debug, Default)]
struct Slots {
    pages: Vec<Vec<InodeSlot>>,
    free: Vec<u32>,
    len: usize,
}

#[derive(Debug)]
enum InodeSlot {
    Taken(Record),
    /// The upper half of the next number.
    Free(u32),
}

const PAGE: usize = 1024;

impl Slots {
    fn get(&self, slot: usize) -> Option<&Record> {
        match self.pages.get(slot / PAGE)?.get(slot % PAGE)? {
            InodeSlot::Taken(record) => Some(record),
            InodeSlot::Free(_) => None,
        }
    }

    fn get_mut(&mut self, slot: usize) -> Option<&mut Record> {
        match self.pages.get_mut(slot / PAGE)?.get_mut(slot % PAGE)? {
            InodeSlot::Taken(record) => Some(record),
            InodeSlot::Free(_) => None,
        }
    }

    fn insert(&mut self, mut record: Record) -> InodeId {
        let slot = match self.free.pop() {
            Some(slot) => slot as usize,
            None => {
                if self.len % PAGE == 0 {
                    self.pages.push(Vec::with_capacity(PAGE));
                }
                self.pages[self.len / PAGE].push(InodeSlot::Free(0));
                self.len += 1;
                self.len - 1
            }
        };
        let place = &mut self.pages[slot / PAGE][slot % PAGE];
        let InodeSlot::Free(round) = *place else { unreachable!("slot {slot} is free") };
        record.id = u64::from(round) << 32 | (slot as u64 + 1);
        let id = record.id;
        *place = InodeSlot::Taken(record);
        id
    }

    fn remove(&mut self, slot: usize) -> Record {
        let place = &mut self.pages[slot / PAGE][slot % PAGE];
        let round = match place {
            InodeSlot::Taken(record) => ((record.id >> 32) as u32).wrapping_add(1),
            InodeSlot::Free(_) => unreachable!("slot {slot} is taken"),
        };
        self.free.push(slot as u32);
        match std::mem::replace(place, InodeSlot::Free(round)) {
            InodeSlot::Taken(record) => record,
            InodeSlot::Free(_) => unreachable!("slot {slot} is taken"),
        }
    }

    /// The number of slots, used or free.
    fn len(&self) -> usize {
        self.len
    }

    /// The number of slots with a record. Free slots are reused before new ones are added.
    fn taken(&self) -> usize {
        self.len - self.free.len()
    }
}
