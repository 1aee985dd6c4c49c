//! The kernel's structures, tracepoints and functions: read from the description of its types that
//! the kernel carries (`Documentation/bpf/btf.rst`), because each kernel has them in its own way.

use std::fs;

/// Numbers of types, and offsets in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    /// The tracepoints at the entry and the exit of system calls, and at the start of a task.
    pub(super) enter: u32,
    pub(super) exit: u32,
    pub(super) fork: u32,
    /// The tracepoint where a task ends, while it still has its files.
    pub(super) ended: u32,
    /// The tracepoints where a folio is added to the page cache, where a page that a thread touches
    /// in mapped memory is looked for, and where cached pages around such a page are mapped.
    pub(super) added: u32,
    pub(super) fault: u32,
    pub(super) mapped: u32,
    /// The tracepoint where a folio gets dirty.
    pub(super) dirtied: u32,
    /// The function that gives a pointer a type.
    pub(super) cast: u32,
    /// `struct file`, and a structure that begins with a pointer to one.
    pub(super) file: u32,
    pub(super) file_pointer: u32,
    /// The thread's number in the outermost namespace.
    pub(super) task_number: i16,
    /// The thread's number, and the first thread of its process.
    pub(super) task_pid: i16,
    pub(super) task_leader: i16,
    /// How many namespaces of processes a number's own is within.
    pub(super) pid_level: i16,
    /// The number as each of the namespaces has it, outermost first, and the bytes of one.
    pub(super) pid_numbers: i16,
    pub(super) pid_number_bytes: i16,
    /// How often the task has slept.
    pub(super) task_sleeps: i16,
    pub(super) task_files: i16,
    pub(super) files_table: i16,
    pub(super) table_size: i16,
    pub(super) table_files: i16,
    pub(super) file_inode: i16,
    pub(super) file_flags: i16,
    pub(super) file_position: i16,
    pub(super) inode_mode: i16,
    pub(super) inode_super: i16,
    pub(super) inode_number: i16,
    pub(super) inode_size: i16,
    pub(super) super_device: i16,
    pub(super) mapping_host: i16,
    pub(super) folio_mapping: i16,
    pub(super) folio_index: i16,
    pub(super) folio_flags: i16,
    /// The lowest byte of this is the binary logarithm of the pages of a large folio.
    pub(super) folio_order: i16,
    /// The flag of a large folio, by its number.
    pub(super) head_flag: u32,
    /// Of requests to io_uring; `None` if this kernel has them otherwise.
    pub(super) uring: Option<UringLayout>,
    pub(super) iterate: Option<Iterate>,
}

/// The functions that make, advance and end an iterator over numbers; by these a loop is verified
/// once, and not for each number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Iterate {
    pub(super) new: u32,
    pub(super) next: u32,
    pub(super) destroy: u32,
}

impl Iterate {
    fn of(types: &Types<'_>) -> Option<Iterate> {
        let function = |name: &str| types.number(FUNCTION, name);
        Some(Iterate {
            new: function("bpf_iter_num_new")?,
            next: function("bpf_iter_num_next")?,
            destroy: function("bpf_iter_num_destroy")?,
        })
    }
}

/// The requests of io_uring (`struct io_kiocb`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UringLayout {
    /// The tracepoints where a request is submitted, and where it completes.
    pub(super) submitted: u32,
    pub(super) completed: u32,
    /// `struct io_kiocb`, and what begins it in requests that read or write and in those that sync.
    pub(super) request: u32,
    pub(super) read_write: u32,
    pub(super) sync: u32,
    /// Of the request. Its flags say whether the descriptor is one of the process.
    pub(super) operation: i16,
    pub(super) flags: i16,
    pub(super) descriptor: i16,
    pub(super) result: i16,
    pub(super) file: i16,
    /// Of one that reads or writes.
    pub(super) length: i16,
    pub(super) position: i16,
    /// Of one that syncs.
    pub(super) sync_length: i16,
    pub(super) sync_position: i16,
    pub(super) sync_flags: i16,
}

impl UringLayout {
    fn of(types: &Types<'_>) -> Option<UringLayout> {
        let at = |structure: &str, member: &str| types.offset(structure, member);
        let result = at("io_kiocb", "cqe")?;
        Some(UringLayout {
            submitted: types.number(TYPEDEF, "btf_trace_io_uring_submit_req")?,
            completed: types.number(TYPEDEF, "btf_trace_io_uring_complete")?,
            request: types.number(STRUCT, "io_kiocb")?,
            read_write: types.number(STRUCT, "io_rw")?,
            sync: types.number(STRUCT, "io_sync")?,
            operation: at("io_kiocb", "opcode")?,
            flags: at("io_kiocb", "flags")?,
            descriptor: result + at("io_cqe", "fd")?,
            result: result + at("io_cqe", "res")?,
            file: at("io_kiocb", "file")?,
            length: at("io_rw", "len")?,
            position: at("io_rw", "kiocb")? + at("kiocb", "ki_pos")?,
            sync_length: at("io_sync", "len")?,
            sync_position: at("io_sync", "off")?,
            sync_flags: at("io_sync", "flags")?,
        })
    }
}

impl Layout {
    /// Reads the layout of the running kernel.
    ///
    /// # Errors
    /// A description of what is missing.
    pub(super) fn of_kernel() -> Result<Layout, String> {
        const PATH: &str = "/sys/kernel/btf/vmlinux";
        let bytes = fs::read(PATH).map_err(|error| format!("{PATH}: {error}"))?;
        let types = Types::of(&bytes).ok_or_else(|| format!("{PATH} cannot be understood"))?;
        let at = |structure: &str, member: &str| {
            types
                .offset(structure, member)
                .ok_or_else(|| format!("struct {structure} has no {member}"))
        };
        let number = |kind, name: &str| {
            types.number(kind, name).ok_or_else(|| format!("the kernel has no {name}"))
        };
        Ok(Layout {
            enter: number(TYPEDEF, "btf_trace_sys_enter")?,
            exit: number(TYPEDEF, "btf_trace_sys_exit")?,
            fork: number(TYPEDEF, "btf_trace_sched_process_fork")?,
            ended: number(TYPEDEF, "btf_trace_sched_process_exit")?,
            added: number(TYPEDEF, "btf_trace_mm_filemap_add_to_page_cache")?,
            fault: number(TYPEDEF, "btf_trace_mm_filemap_fault")?,
            mapped: number(TYPEDEF, "btf_trace_mm_filemap_map_pages")?,
            dirtied: number(TYPEDEF, "btf_trace_writeback_dirty_folio")?,
            cast: number(FUNCTION, "bpf_rdonly_cast")?,
            file: number(STRUCT, "file")?,
            file_pointer: number(STRUCT, "kiocb")?,
            task_number: at("task_struct", "pid")?,
            task_pid: at("task_struct", "thread_pid")?,
            task_leader: at("task_struct", "group_leader")?,
            pid_level: at("pid", "level")?,
            pid_numbers: at("pid", "numbers")?,
            pid_number_bytes: types.bytes("upid").ok_or("the kernel has no struct upid")?,
            task_sleeps: at("task_struct", "nvcsw")?,
            task_files: at("task_struct", "files")?,
            files_table: at("files_struct", "fdt")?,
            table_size: at("fdtable", "max_fds")?,
            table_files: at("fdtable", "fd")?,
            file_inode: at("file", "f_inode")?,
            file_flags: at("file", "f_flags")?,
            file_position: at("file", "f_pos")?,
            inode_mode: at("inode", "i_mode")?,
            inode_super: at("inode", "i_sb")?,
            inode_number: at("inode", "i_ino")?,
            inode_size: at("inode", "i_size")?,
            super_device: at("super_block", "s_dev")?,
            mapping_host: at("address_space", "host")?,
            folio_mapping: at("folio", "mapping")?,
            folio_index: at("folio", "index")?,
            folio_flags: at("folio", "flags")?,
            folio_order: at("folio", "_flags_1")?,
            head_flag: types.constant("pageflags", "PG_head").ok_or("no PG_head")?,
            uring: UringLayout::of(&types),
            iterate: Iterate::of(&types),
        })
    }
}

const STRUCT: u32 = 4;
const UNION: u32 = 5;
const ENUM: u32 = 6;
const TYPEDEF: u32 = 8;
const FUNCTION: u32 = 12;

/// The types of a description.
struct Types<'a> {
    strings: &'a [u8],
    /// The bytes of each type and all after it. The first type has number 1.
    all: Vec<&'a [u8]>,
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The kind of a type, the number of its members, and its flag.
fn info(bytes: &[u8]) -> Option<(u32, usize, bool)> {
    let info = word(bytes, 4)?;
    Some((info >> 24 & 0x1f, info as usize & 0xffff, info >> 31 != 0))
}

impl<'a> Types<'a> {
    fn of(bytes: &'a [u8]) -> Option<Types<'a>> {
        let head = word(bytes, 4)? as usize;
        let part = |at: usize| {
            let (offset, length) = (word(bytes, at)? as usize, word(bytes, at + 4)? as usize);
            bytes.get(head + offset..head + offset + length)
        };
        let (mut rest, strings) = (part(8)?, part(16)?);
        let mut all = vec![&bytes[..0]];
        while !rest.is_empty() {
            all.push(rest);
            let (kind, count, _) = info(rest)?;
            // What follows the first 12 bytes of a type, by its kind.
            let more = match kind {
                1 | 14 | 17 => 4,
                3 => 12,
                STRUCT | UNION | 15 | 19 => 12 * count,
                ENUM | 13 => 8 * count,
                2 | 7..=12 | 16 | 18 => 0,
                _ => return None,
            };
            rest = rest.get(12 + more..)?;
        }
        Some(Types { strings, all })
    }

    fn name(&self, at: u32) -> &'a [u8] {
        let rest = self.strings.get(at as usize..).unwrap_or_default();
        rest.split(|byte| *byte == 0).next().unwrap_or_default()
    }

    /// The number of the type of this kind and name.
    fn number(&self, kind: u32, name: &str) -> Option<u32> {
        let found = self.all.iter().position(|bytes| {
            info(bytes).is_some_and(|(found, ..)| found == kind)
                && word(bytes, 0).is_some_and(|found| self.name(found) == name.as_bytes())
        })?;
        u32::try_from(found).ok()
    }

    /// The value of a constant of an enumeration.
    fn constant(&self, enumeration: &str, constant: &str) -> Option<u32> {
        let found = self.all[self.number(ENUM, enumeration)? as usize];
        let (_, count, _) = info(found)?;
        (0..count).find_map(|number| {
            let name = self.name(word(found, 12 + 8 * number)?);
            (name == constant.as_bytes()).then(|| word(found, 16 + 8 * number)).flatten()
        })
    }

    /// The size of a structure.
    fn bytes(&self, structure: &str) -> Option<i16> {
        let found = self.all[self.number(STRUCT, structure)? as usize];
        i16::try_from(word(found, 8)?).ok()
    }

    /// The offset of a member of a structure, in bytes.
    fn offset(&self, structure: &str, member: &str) -> Option<i16> {
        let found = self.all[self.number(STRUCT, structure)? as usize];
        i16::try_from(self.member(found, member.as_bytes(), 8)? / 8).ok()
    }

    /// The offset of a member in bits. Members of structures without a name count as those of the
    /// structure around them, `depth` of these at most.
    fn member(&self, bytes: &[u8], wanted: &[u8], depth: u32) -> Option<u32> {
        let (kind, count, has_bit_fields) = info(bytes)?;
        if !matches!(kind, STRUCT | UNION) || depth == 0 {
            return None;
        }
        (0..count).find_map(|number| {
            let at = 12 + 12 * number;
            let (name, id) = (word(bytes, at)?, word(bytes, at + 4)? as usize);
            let offset = word(bytes, at + 8)?;
            let offset = if has_bit_fields { offset & 0xff_ffff } else { offset };
            match self.name(name) {
                b"" => Some(offset + self.member(self.all.get(id)?, wanted, depth - 1)?),
                name => (name == wanted).then_some(offset),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_the_running_kernel_are_found() {
        let Ok(layout) = Layout::of_kernel() else {
            return println!("skipped: the kernel does not describe its structures");
        };
        assert!(layout.exit != layout.enter && layout.file_inode > 0 && layout.inode_size > 0);
        assert_eq!(layout.inode_mode % 2, 0);
    }

    #[test]
    fn what_is_no_description_is_refused() {
        assert!(Types::of(b"").is_none());
        assert!(Types::of(&[0xff; 64]).is_none());
    }
}
