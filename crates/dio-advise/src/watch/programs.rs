//! The programs that run in the kernel.

use super::assembler::{Assembler, Helper, If, Reg, Width};
use super::btf::Layout;
use super::calls::{
    COMMANDS, DUPLICATES, FAULT, FIRST_FILE, FLAGS_THIRD, FORK, LOOKS, NUMBERS, OPEN_FILE, OPENS,
    PATH_FIRST, RESULT, SECOND_FILE,
};
use super::record::{BYTES, LOOK_BYTES, NAME_BYTES, PATH_BYTES, SECOND_BYTES, at};
use Reg::{R0, R1, R2, R3, R6, R7, R8, R9, R10};
use Width::{U16, U32, U64};

/// The descriptors of the maps, and what the programs are made for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Maps {
    pub(super) ring: i32,
    /// The watched tasks, each with what is known of it.
    pub(super) watched: i32,
    /// What is to be done of each system call.
    pub(super) kinds: i32,
    /// [`LOST`] and [`LEVEL`].
    pub(super) counters: i32,
    /// In how many namespaces of processes this process's own is.
    pub(super) level: u32,
}

/// The counters: records that found no room, and what [`level`] notes.
pub(super) const LOST: u32 = 0;
pub(super) const LEVEL: u32 = 1;
pub(super) const COUNTERS: u32 = 2;

/// What is known of a watched task: when it entered its call, 0 if it is in none; the pages of
/// ordinary files and of block devices that have been new to the page cache since; how often it had
/// slept when it left its last call, and whether it slept between that and this one.
const ENTERED: i16 = 0;
const NEW: i16 = 8;
const NEW_OF_DEVICES: i16 = 16;
const SLEEPS: i16 = 24;
const HAS_SLEPT: i16 = 32;
/// The bytes of this.
pub(super) const TASK_BYTES: usize = 40;

/// `ENOENT`
const ENOENT: i32 = 2;

/// Places on the stack, in bytes below its end: a key of a map, a value that was read, the
/// descriptor, and for the record when the call was entered and the new pages, or what was touched.
const KEY: i16 = 8;
const READ: i16 = 16;
const FD: i16 = 24;
const STARTED: i16 = 32;
const ADDED: i16 = 40;
const ADDED_OF_DEVICES: i16 = 48;
const FIRST: i16 = 56;
const COUNT: i16 = 64;
const SLEPT: i16 = 72;

/// Loads an argument of the call, from 1, or its number (0), out of the caller's `struct pt_regs`,
/// the first argument of the program. `R6` has the arguments of the program.
fn load_argument(code: &mut Assembler, to: Reg, argument: i32) {
    let offset = match argument {
        1 => 112,
        2 => 104,
        3 => 96,
        4 => 56,
        5 => 72,
        // The result took the place of `rax`; the number is in `orig_rax`.
        _ => 120,
    };
    code.load(U64, to, R6, 0);
    code.load(U64, to, to, offset);
}

/// Leaves the program unless the current task is watched; then `R0` has the address of what is
/// known of it.
fn leave_unless_watched(code: &mut Assembler, maps: &Maps) {
    code.call(Helper::CurrentTask);
    code.map(R1, maps.watched);
    code.copy(R2, R0);
    code.set(R3, 0);
    code.set(Reg::R4, 0);
    code.call(Helper::TaskStorage);
    code.jump_if(R0, If::Equal, 0, "out");
}

/// Leaves the program unless the system call, whose number is in `R8`, is watched; then `R9` has
/// its bits.
fn leave_unless_of_interest(code: &mut Assembler, maps: &Maps) {
    code.jump_if(R8, If::Greater, NUMBERS as i32 - 1, "out");
    code.store(U32, R10, -KEY, R8);
    code.map(R1, maps.kinds);
    code.stack(R2, KEY);
    code.call(Helper::MapLookup);
    code.jump_if(R0, If::Equal, 0, "out");
    code.load(U32, R9, R0, 0);
    code.jump_if(R9, If::Equal, 0, "out");
}

/// Loads into `R0` how often the current task has slept.
fn load_sleeps(code: &mut Assembler, layout: &Layout) {
    code.call(Helper::CurrentTask);
    code.load(U64, R0, R0, layout.task_sleeps);
}

/// Loads the number of the thread or process whose `struct pid` is at `from`, as this process's
/// namespace has it, which `/proc` has too. The kernel's own helper gives that of the outermost
/// namespace, which is another one in a container.
fn load_number(code: &mut Assembler, layout: &Layout, level: u32, from: Reg) {
    code.load(U64, from, from, layout.task_pid);
    code.load(U32, from, from, layout.pid_numbers + level as i16 * layout.pid_number_bytes);
}

/// Loads into `R7` the numbers of the current task: those of its process above, of its thread
/// below.
fn load_numbers(code: &mut Assembler, maps: &Maps, layout: &Layout) {
    code.call(Helper::CurrentTask);
    code.load(U64, R7, R0, layout.task_leader);
    load_number(code, layout, maps.level, R7);
    code.shift_left(R7, 32);
    load_number(code, layout, maps.level, R0);
    code.or_reg(R7, R0);
}

/// At `sys_enter`: notes in how many namespaces the namespace of the current task is, if it is
/// watched.
pub(super) fn level(maps: &Maps, layout: &Layout) -> Vec<u64> {
    let mut code = Assembler::default();
    leave_unless_watched(&mut code, maps);
    code.call(Helper::CurrentTask);
    code.load(U64, R7, R0, layout.task_pid);
    code.load(U32, R7, R7, layout.pid_level);
    load_counter(&mut code, maps, LEVEL);
    code.store(U64, R0, 0, R7);
    code.label("out");
    code.exit();
    code.finish()
}

/// At `sys_enter`, with the registers and the number of the call: notes the time.
pub(super) fn enter(maps: &Maps, layout: &Layout) -> Vec<u64> {
    let mut code = Assembler::default();
    code.load(U64, R8, R1, 8);
    leave_unless_of_interest(&mut code, maps);
    leave_unless_watched(&mut code, maps);
    code.copy(R7, R0);
    code.call(Helper::Time);
    code.store(U64, R7, ENTERED, R0);
    code.store_number(U64, R7, NEW, 0);
    code.store_number(U64, R7, NEW_OF_DEVICES, 0);
    load_sleeps(&mut code, layout);
    code.load(U64, R1, R7, SLEEPS);
    code.subtract(R0, R1);
    code.store(U64, R7, HAS_SLEPT, R0);
    code.label("out");
    code.exit();
    code.finish()
}

/// At `sched_process_fork`, with the parent and the child: the child of a watched task is watched,
/// and a record tells of it.
pub(super) fn fork(maps: &Maps, layout: &Layout) -> Vec<u64> {
    /// `BPF_LOCAL_STORAGE_GET_F_CREATE`
    const CREATE: i32 = 1;
    let mut code = Assembler::default();
    code.copy(R6, R1);
    leave_unless_watched(&mut code, maps);
    code.map(R1, maps.watched);
    code.load(U64, R2, R6, 8);
    code.set(R3, 0);
    code.set(Reg::R4, CREATE);
    code.call(Helper::TaskStorage);
    code.jump_if(R0, If::Equal, 0, "lost");
    load_numbers(&mut code, maps, layout);
    reserve_empty(&mut code, maps);
    code.store_number(U32, R8, at::NUMBER, FORK as i32);
    code.load(U64, R1, R6, 8);
    code.load(U64, R1, R1, layout.task_leader);
    load_number(&mut code, layout, maps.level, R1);
    code.store(U64, R8, at::RESULT, R1);
    submit(&mut code, maps);
    code.finish()
}

/// At `sys_exit`, with the registers and the result: passes on a record.
pub(super) fn exit(maps: &Maps, layout: &Layout) -> Vec<u64> {
    let mut code = Assembler::default();
    code.copy(R6, R1);
    load_argument(&mut code, R8, 0);
    leave_unless_of_interest(&mut code, maps);
    leave_unless_watched(&mut code, maps);
    code.copy(R7, R0);
    for (from, to) in
        [(ENTERED, STARTED), (NEW, ADDED), (NEW_OF_DEVICES, ADDED_OF_DEVICES), (HAS_SLEPT, SLEPT)]
    {
        code.load(U64, R1, R7, from);
        code.store(U64, R10, -to, R1);
        code.store_number(U64, R7, from, 0);
    }
    load_sleeps(&mut code, layout);
    code.store(U64, R7, SLEEPS, R0);
    leave_unless_recorded(&mut code);
    load_numbers(&mut code, maps, layout);
    reserve(&mut code, maps);
    fill(&mut code);
    file(&mut code, layout, 0, at::FILE);
    code.load(U64, R1, R10, -ADDED_OF_DEVICES);
    code.store(U32, R8, at::FILE + at::NEW_OF_DEVICES, R1);
    code.jump_if(R9, If::Bits, SECOND_FILE, "second");
    code.jump("submit");
    code.label("second");
    file(&mut code, layout, 1, at::SECOND);
    code.label("submit");
    submit(&mut code, maps);
    code.finish()
}

/// Loads the address of a counter into `R0`.
fn load_counter(code: &mut Assembler, maps: &Maps, counter: u32) {
    code.store_number(U32, R10, -KEY, counter as i32);
    code.map(R1, maps.counters);
    code.stack(R2, KEY);
    code.call(Helper::MapLookup);
    code.jump_if(R0, If::Equal, 0, "out");
}

/// Leaves the program if the call turns out to be none that is recorded: if it looked at a file by
/// a name that there is (who opens it next has the name in the kernel's cache then, so it costs
/// nothing of its own), or did something else with a descriptor than to copy it (`fcntl(2)`).
fn leave_unless_recorded(code: &mut Assembler) {
    code.jump_if(R9, If::Bits, LOOKS, "looks");
    code.jump_if(R9, If::Bits, COMMANDS, "commands");
    code.jump("of interest");
    code.label("commands");
    load_argument(code, R1, 2);
    for command in DUPLICATES {
        code.jump_if(R1, If::Equal, command, "of interest");
    }
    code.jump("out");
    code.label("looks");
    code.load(U64, R1, R6, 8);
    code.jump_if(R1, If::Equal, -ENOENT, "of interest");
    code.jump_if(R1, If::NotEqual, 0, "out");
    code.jump_if(R9, If::Bits, PATH_FIRST, "out");
    code.jump_if(R9, If::Bits, FLAGS_THIRD, "third");
    load_argument(code, R1, 4);
    code.jump("flags");
    code.label("third");
    load_argument(code, R1, 3);
    code.label("flags");
    code.jump_if(R1, If::Bits, OPEN_FILE, "of interest");
    code.jump("out");
    code.label("of interest");
}

fn count_loss(code: &mut Assembler, maps: &Maps) {
    load_counter(code, maps, LOST);
    code.set(R1, 1);
    code.add_atomically(R0, 0, R1);
}

/// Fills in the path of the call, as far as `bytes` have room for it. `what` tells one of these
/// from another within a program.
fn read_path(code: &mut Assembler, bytes: i32, what: &str) {
    let (first, read) = (format!("{what} first"), format!("{what} read"));
    load_argument(code, R3, 2);
    code.jump_if(R9, If::Bits, PATH_FIRST, &first);
    code.jump(&read);
    code.label(&first);
    load_argument(code, R3, 1);
    code.label(&read);
    code.store_number(U64, R8, at::PATH, 0);
    code.copy(R1, R8);
    code.add(R1, at::PATH.into());
    code.set(R2, bytes);
    code.call(Helper::ReadUserText);
}

/// Reserves the record, whose address is in `R8` afterwards, and fills in a path. The bits of the
/// call are in `R9`.
fn reserve(code: &mut Assembler, maps: &Maps) {
    let reserve = |code: &mut Assembler, bytes| {
        code.map(R1, maps.ring);
        code.set(R2, bytes);
        code.set(R3, 0);
        code.call(Helper::RingReserve);
        code.copy(R8, R0);
        code.jump_if(R8, If::Equal, 0, "lost");
    };
    // Each size has its own way through the program, as the verifier must know it: what is written
    // beyond the first file is written on one of them only.
    code.jump_if(R9, If::Bits, OPENS, "opens");
    code.jump_if(R9, If::Bits, SECOND_FILE, "two files");
    code.jump_if(R9, If::Bits, LOOKS, "name");
    reserve(code, BYTES);
    code.jump("reserved");
    code.label("name");
    reserve(code, BYTES + LOOK_BYTES);
    read_path(code, LOOK_BYTES, "name looked at");
    code.jump("reserved");
    code.label("two files");
    reserve(code, BYTES + SECOND_BYTES);
    code.jump("reserved");

    code.label("opens");
    code.load(U64, R1, R6, 8);
    code.jump_if(R1, If::SignedLess, 0, "out");
    reserve(code, BYTES + PATH_BYTES);
    read_path(code, PATH_BYTES, "name opened");
    code.label("reserved");
}

/// Fills in the time and the thread, whose number is in `R7`.
fn fill_thread(code: &mut Assembler) {
    code.call(Helper::Time);
    code.store(U64, R8, at::END, R0);
    code.store(U32, R8, at::TID, R7);
    code.shift_right(R7, 32);
    code.store(U32, R8, at::PID, R7);
    code.copy(R1, R8);
    code.add(R1, at::NAME.into());
    code.set(R2, NAME_BYTES);
    code.call(Helper::ProgramName);
}

/// Fills in what is known of the call itself.
fn fill(code: &mut Assembler) {
    fill_thread(code);
    code.load(U64, R1, R10, -STARTED);
    code.store(U64, R8, at::START, R1);
    load_argument(code, R1, 0);
    code.store(U32, R8, at::NUMBER, R1);
    code.load(U64, R1, R10, -ADDED);
    code.store(U32, R8, at::NEW, R1);
    code.load(U64, R1, R10, -SLEPT);
    code.store(U32, R8, at::SLEPT, R1);
    code.load(U64, R1, R6, 8);
    code.store(U64, R8, at::RESULT, R1);
    for argument in 1..=4 {
        load_argument(code, R1, argument);
        code.store(U64, R8, at::ARGUMENTS + 8 * (argument as i16 - 1), R1);
    }
}

/// Saves the descriptor of the first or the second file of the call; none is -1.
fn descriptor(code: &mut Assembler, file: usize) {
    let (mask, unit) = if file == 0 { (FIRST_FILE, 1) } else { (SECOND_FILE, 1 << 4) };
    let end = format!("descriptor {file}");
    code.copy(R2, R9);
    code.and(R2, mask);
    code.set(R1, -1);
    for argument in 1..=5 {
        let next = format!("{end}, not {argument}");
        code.jump_if(R2, If::NotEqual, argument * unit, &next);
        load_argument(code, R1, argument);
        code.jump(&end);
        code.label(&next);
    }
    code.jump_if(R2, If::NotEqual, RESULT * unit, &end);
    code.load(U64, R1, R6, 8);
    code.label(&end);
    // Descriptors have 32 bits; a negative one is a large number, beyond every table.
    code.shift_left(R1, 32);
    code.shift_right(R1, 32);
    code.store(U64, R10, -FD, R1);
}

/// Fills in what the kernel knows of the first or second file of the call, at a place of the
/// record.
fn file(code: &mut Assembler, layout: &Layout, number: usize, place: i16) {
    let none = format!("no file {number}");
    descriptor(code, number);
    for offset in (0..at::FILE_BYTES).step_by(8) {
        code.store_number(U64, R8, place + offset, 0);
    }
    // The table of descriptors of the task, and the entry in it.
    code.call(Helper::CurrentTask);
    code.load(U64, R1, R0, layout.task_files);
    code.jump_if(R1, If::Equal, 0, &none);
    code.load(U64, R1, R1, layout.files_table);
    code.jump_if(R1, If::Equal, 0, &none);
    code.load(U32, R2, R1, layout.table_size);
    code.load(U64, R3, R10, -FD);
    code.jump_if_reg(R3, If::AtLeast, R2, &none);
    code.load(U64, R1, R1, layout.table_files);
    code.shift_left(R3, 3);
    code.add_reg(R3, R1);
    code.stack(R1, READ);
    code.set(R2, 8);
    code.call(Helper::ReadKernel);
    code.jump_if(R0, If::NotEqual, 0, &none);
    code.load(U64, R1, R10, -READ);
    code.jump_if(R1, If::Equal, 0, &none);
    code.set(R2, layout.file as i32);
    code.call_kernel(layout.cast);
    // A file that another thread closed meanwhile reads as zeros or as the next one there.
    copy(code, U32, R0, layout.file_flags, place + at::FLAGS);
    copy(code, U64, R0, layout.file_position, place + at::POSITION);
    code.load(U64, R1, R0, layout.file_inode);
    inode(code, layout, place, &none);
    code.label(&none);
}

/// Fills in what the kernel knows of the inode at `R1`, or jumps.
fn inode(code: &mut Assembler, layout: &Layout, place: i16, none: &str) {
    code.jump_if(R1, If::Equal, 0, none);
    copy(code, U64, R1, layout.inode_number, place + at::INODE);
    copy(code, U64, R1, layout.inode_size, place + at::SIZE);
    copy(code, U16, R1, layout.inode_mode, place + at::MODE);
    code.load(U64, R1, R1, layout.inode_super);
    code.jump_if(R1, If::Equal, 0, none);
    copy(code, U32, R1, layout.super_device, place + at::DEVICE);
}

/// Copies a number to the record; those of 16 bits become such of 32.
fn copy(code: &mut Assembler, width: Width, from: Reg, offset: i16, to: i16) {
    code.load(width, R2, from, offset);
    code.store(if width == U16 { U32 } else { width }, R8, to, R2);
}

/// Reserves a record of one file without contents, whose address is in `R8` afterwards, and fills
/// in the time and the task, whose number is in `R7`.
fn reserve_empty(code: &mut Assembler, maps: &Maps) {
    code.map(R1, maps.ring);
    code.set(R2, BYTES);
    code.set(R3, 0);
    code.call(Helper::RingReserve);
    code.copy(R8, R0);
    code.jump_if(R8, If::Equal, 0, "lost");
    for offset in (0..BYTES as i16).step_by(8) {
        code.store_number(U64, R8, offset, 0);
    }
    fill_thread(code);
}

/// Passes on the record at `R8`, and ends the program.
fn submit(code: &mut Assembler, maps: &Maps) {
    code.copy(R1, R8);
    // Nobody is woken: the reader looks from time to time, which costs less.
    code.set(R2, 1);
    code.call(Helper::RingSubmit);
    code.jump("out");
    code.label("lost");
    count_loss(code, maps);
    code.label("out");
    code.exit();
}

/// Passes on a record of pages of the inode in `R9`; the first page and their number are on the
/// stack, and so are the new ones. `R7` has the task's number.
fn pass_on_pages(code: &mut Assembler, maps: &Maps, layout: &Layout) {
    reserve_empty(code, maps);
    code.store_number(U32, R8, at::NUMBER, FAULT as i32);
    for (from, width, to) in
        [(FIRST, U64, at::ARGUMENTS), (COUNT, U64, at::RESULT), (ADDED, U32, at::NEW)]
    {
        code.load(U64, R1, R10, -from);
        code.store(width, R8, to, R1);
    }
    code.copy(R1, R9);
    inode(code, layout, at::FILE, "no inode");
    code.label("no inode");
    submit(code, maps);
}

/// Leaves the program unless the mapping at `R1` is of a file; then `R9` has its inode and `R2` its
/// type and permissions.
fn load_inode(code: &mut Assembler, layout: &Layout) {
    code.jump_if(R1, If::Equal, 0, "out");
    code.load(U64, R9, R1, layout.mapping_host);
    code.jump_if(R9, If::Equal, 0, "out");
    code.load(U16, R2, R9, layout.inode_mode);
    code.and(R2, 0o170_000);
}

/// At `mm_filemap_add_to_page_cache`, with the folio: counts its pages for the call that the task
/// is in, or passes on a record if it is in none, because it touched mapped memory.
pub(super) fn added(maps: &Maps, layout: &Layout) -> Vec<u64> {
    let mut code = Assembler::default();
    code.load(U64, R6, R1, 0);
    leave_unless_watched(&mut code, maps);
    code.copy(R8, R0);
    // The number of its pages.
    code.set(R7, 1);
    code.load(U64, R1, R6, layout.folio_flags);
    code.shift_right(R1, layout.head_flag as i32);
    code.and(R1, 1);
    code.jump_if(R1, If::Equal, 0, "small");
    code.load(U64, R1, R6, layout.folio_order);
    code.and(R1, 0x3f);
    code.shift_left_by(R7, R1);
    code.label("small");
    code.load(U64, R1, R6, layout.folio_mapping);
    load_inode(&mut code, layout);
    code.copy(R3, R8);
    code.jump_if(R2, If::Equal, 0o100_000, "ordinary");
    code.jump_if(R2, If::NotEqual, 0o60_000, "out");
    code.load(U64, R1, R3, NEW_OF_DEVICES);
    code.add_reg(R1, R7);
    code.store(U64, R3, NEW_OF_DEVICES, R1);
    code.jump("out");
    code.label("ordinary");
    code.load(U64, R1, R3, ENTERED);
    code.jump_if(R1, If::Equal, 0, "outside");
    code.load(U64, R1, R3, NEW);
    code.add_reg(R1, R7);
    code.store(U64, R3, NEW, R1);
    code.jump("out");

    code.label("outside");
    code.load(U64, R1, R6, layout.folio_index);
    code.store(U64, R10, -FIRST, R1);
    code.store_number(U64, R10, -COUNT, 0);
    code.store(U64, R10, -ADDED, R7);
    load_numbers(&mut code, maps, layout);
    pass_on_pages(&mut code, maps, layout);
    code.finish()
}

/// At `mm_filemap_fault`, with the mapping and a page, or at `mm_filemap_map_pages`, with the
/// mapping and the first and the last page: passes on a record.
pub(super) fn touched(maps: &Maps, layout: &Layout, is_range: bool) -> Vec<u64> {
    let mut code = Assembler::default();
    code.copy(R6, R1);
    leave_unless_watched(&mut code, maps);
    code.load(U64, R1, R6, 0);
    load_inode(&mut code, layout);
    code.jump_if(R2, If::NotEqual, 0o100_000, "out");
    code.load(U64, R1, R6, 8);
    code.store(U64, R10, -FIRST, R1);
    code.set(R2, 1);
    if is_range {
        code.load(U64, R3, R6, 16);
        code.add_reg(R2, R3);
        code.subtract(R2, R1);
    }
    code.store(U64, R10, -COUNT, R2);
    code.store_number(U64, R10, -ADDED, 0);
    load_numbers(&mut code, maps, layout);
    pass_on_pages(&mut code, maps, layout);
    code.finish()
}
