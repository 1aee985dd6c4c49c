//! What the programs have in common.

use super::super::assembler::{Assembler, Helper, If, Reg, Width};
use super::super::btf::Layout;
use super::super::record::{BYTES, NAME_BYTES, at};
use super::maps::{LOST, Maps};
use Reg::{R0, R1, R2, R3, R6, R7, R8, R10};
use Width::{U16, U32, U64};

/// Places on the stack, in bytes below its end: a key of a map, and a descriptor. Each program has
/// its own places from [`FREE`] on.
pub(super) const KEY: i16 = 8;
pub(super) const FD: i16 = 16;
pub(super) const FREE: i16 = 16;
/// The address of the file with the saved descriptor, in [`file_of_descriptor`].
pub(super) const OPENED: i16 = 80;

/// `BPF_LOCAL_STORAGE_GET_F_CREATE`
pub(super) const CREATE: i32 = 1;

/// Loads into `R0` the address of what is known of the task in `R2`, 0 if it is not watched. With
/// [`CREATE`] it is watched from then on.
pub(super) fn look_up_task(code: &mut Assembler, maps: &Maps, flags: i32) {
    code.map(R1, maps.watched);
    code.set(R3, 0);
    code.set(Reg::R4, flags);
    code.call(Helper::TaskStorage);
}

/// As [`look_up_task`], for the current task.
pub(super) fn look_up_current(code: &mut Assembler, maps: &Maps) {
    code.call(Helper::CurrentTask);
    code.copy(R2, R0);
    look_up_task(code, maps, 0);
}

/// Leaves the program unless the current task is watched; then `R0` has the address of what is
/// known of it.
pub(super) fn leave_unless_watched(code: &mut Assembler, maps: &Maps) {
    look_up_current(code, maps);
    code.jump_if(R0, If::Equal, 0, "out");
}

/// Loads the number of the thread or process whose `struct pid` is at `from`, as this process's
/// namespace has it, which `/proc` has too. The kernel's own helper gives that of the outermost
/// namespace, which is another one in a container.
pub(super) fn load_number(code: &mut Assembler, layout: &Layout, level: u32, from: Reg) {
    code.load(U64, from, from, layout.task_pid);
    code.load(U32, from, from, layout.pid_numbers + level as i16 * layout.pid_number_bytes);
}

/// Loads into `R7` the numbers of the current task: those of its process above, of its thread
/// below.
pub(super) fn load_numbers(code: &mut Assembler, maps: &Maps, layout: &Layout) {
    code.call(Helper::CurrentTask);
    code.load(U64, R7, R0, layout.task_leader);
    load_number(code, layout, maps.level, R7);
    code.shift_left(R7, 32);
    load_number(code, layout, maps.level, R0);
    code.or_reg(R7, R0);
}

/// Loads the address of a counter into `R0`.
pub(super) fn load_counter(code: &mut Assembler, maps: &Maps, counter: u32) {
    code.store_number(U32, R10, -KEY, counter as i32);
    code.map(R1, maps.counters);
    code.stack(R2, KEY);
    code.call(Helper::MapLookup);
    code.jump_if(R0, If::Equal, 0, "out");
}

pub(super) fn count_loss(code: &mut Assembler, maps: &Maps) {
    load_counter(code, maps, LOST);
    code.set(R1, 1);
    code.add_atomically(R0, 0, R1);
}

/// Loads into `R1` the address of the open file with the descriptor in `R3`, of the task whose
/// table of files is in `R1`; jumps if there is none.
pub(super) fn file_pointer(code: &mut Assembler, layout: &Layout, none: &str) {
    code.load(U64, R1, R1, layout.files_table);
    code.jump_if(R1, If::Equal, 0, none);
    code.load(U32, R2, R1, layout.table_size);
    code.jump_if_reg(R3, If::AtLeast, R2, none);
    code.load(U64, R1, R1, layout.table_files);
    code.shift_left(R3, 3);
    code.add_reg(R1, R3);
    code.set(R2, layout.file_pointer as i32);
    code.call_kernel(layout.cast);
    code.load(U64, R1, R0, 0);
    code.jump_if(R1, If::Equal, 0, none);
}

/// Fills in the time and the thread, whose number is in `R7`.
pub(super) fn fill_thread(code: &mut Assembler) {
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

/// Fills in what the kernel knows of the inode at `R1`, or jumps.
pub(super) fn inode(code: &mut Assembler, layout: &Layout, place: i16, none: &str) {
    code.jump_if(R1, If::Equal, 0, none);
    copy(code, U64, R1, layout.inode_number, place + at::INODE);
    copy(code, U64, R1, layout.inode_size, place + at::SIZE);
    copy(code, U16, R1, layout.inode_mode, place + at::MODE);
    code.load(U64, R1, R1, layout.inode_super);
    code.jump_if(R1, If::Equal, 0, none);
    copy(code, U32, R1, layout.super_device, place + at::DEVICE);
}

/// Copies a number to the record; those of 16 bits become such of 32.
pub(super) fn copy(code: &mut Assembler, width: Width, from: Reg, offset: i16, to: i16) {
    code.load(width, R2, from, offset);
    code.store(if width == U16 { U32 } else { width }, R8, to, R2);
}

/// Reserves a record of one file without contents, whose address is in `R8` afterwards.
pub(super) fn reserve_zeroed(code: &mut Assembler, maps: &Maps) {
    code.map(R1, maps.ring);
    code.set(R2, BYTES);
    code.set(R3, 0);
    code.call(Helper::RingReserve);
    code.copy(R8, R0);
    code.jump_if(R8, If::Equal, 0, "lost");
    for offset in (0..BYTES as i16).step_by(8) {
        code.store_number(U64, R8, offset, 0);
    }
}

/// As [`reserve_zeroed`], with the time and the task, whose number is in `R7`.
pub(super) fn reserve_empty(code: &mut Assembler, maps: &Maps) {
    reserve_zeroed(code, maps);
    fill_thread(code);
}

/// Passes on the record at `R8`.
pub(super) fn pass_on(code: &mut Assembler) {
    code.copy(R1, R8);
    // Nobody is woken: the reader looks from time to time, which costs less.
    code.set(R2, 1);
    code.call(Helper::RingSubmit);
}

/// Passes on the record at `R8`, and ends the program.
pub(super) fn submit(code: &mut Assembler, maps: &Maps) {
    pass_on(code);
    code.jump("out");
    code.label("lost");
    count_loss(code, maps);
    code.label("out");
    code.exit();
}

/// Goes on in the only program of a map, if it is there, with the arguments of this one, which
/// `R6` has.
pub(super) fn go_on_in(code: &mut Assembler, programs: i32) {
    code.copy(R1, R6);
    code.map(R2, programs);
    code.set(R3, 0);
    code.call(Helper::TailCall);
}

/// Where `struct pt_regs` has the number of the call that a task is in, -1 if it is in none.
pub(super) const CALL_NUMBER: i16 = 120;

/// Loads an argument of the call, from 1, or its number (0), out of the caller's `struct pt_regs`,
/// the first argument of the program. `R6` has the arguments of the program.
pub(super) fn load_argument(code: &mut Assembler, to: Reg, argument: i32) {
    let offset = match argument {
        1 => 112,
        2 => 104,
        3 => 96,
        4 => 56,
        5 => 72,
        // The result took the place of `rax`; the number is in `orig_rax`.
        _ => CALL_NUMBER,
    };
    code.load(U64, to, R6, 0);
    code.load(U64, to, to, offset);
}

/// Fills in what the kernel knows of the file with the saved descriptor of the current task, if
/// there is one; `what` tells one of these from another within a program.
pub(super) fn file_of_descriptor(code: &mut Assembler, layout: &Layout, place: i16, what: &str) {
    // The table of descriptors of the task, and the entry in it.
    code.call(Helper::CurrentTask);
    code.load(U64, R1, R0, layout.task_files);
    code.jump_if(R1, If::Equal, 0, what);
    code.load(U64, R3, R10, -FD);
    file_pointer(code, layout, what);
    code.store(U64, R10, -OPENED, R1);
    opened_file(code, layout, place, what);
    code.label(what);
}

/// Fills in what the kernel knows of the open file whose address is in `R1`, or jumps.
pub(super) fn opened_file(code: &mut Assembler, layout: &Layout, place: i16, none: &str) {
    code.set(R2, layout.file as i32);
    code.call_kernel(layout.cast);
    // A file that another thread closed meanwhile reads as zeros or as the next one there.
    copy(code, U32, R0, layout.file_flags, place + at::FLAGS);
    copy(code, U64, R0, layout.file_position, place + at::POSITION);
    code.load(U64, R1, R0, layout.file_inode);
    inode(code, layout, place, none);
}
