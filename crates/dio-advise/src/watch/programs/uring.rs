//! The programs that watch requests to io_uring.
//!
//! When a watched process submits a request, an entry is made for it, by the address of the
//! kernel's own structure. When it completes, in whatever task, the entry is made a record.

use super::super::assembler::{Assembler, Helper, If, Reg, Width};
use super::super::btf::{Layout, UringLayout};
use super::super::calls::URING;
use super::super::record::at;
use super::maps::{Maps, NEW, NEW_OF_DEVICES};
use super::parts::{
    KEY, count_loss, load_numbers, look_up_current, look_up_task, opened_file, reserve_zeroed,
    submit,
};
use Reg::{R0, R1, R2, R3, R4, R7, R8, R9, R10};
use Width::{U8, U32, U64};

/// So many requests may be in flight; of more, records are lost.
pub(in super::super) const ENTRIES: u32 = 16_384;

/// The parts of an entry: when the request was submitted, the numbers of the process (above) and
/// the thread (below), the descriptor of the file (-1 if it is registered with the ring), the
/// operation (below) and its flags (above), the bytes and the position, and the program's name.
mod entry {
    pub(super) const STARTED: i16 = 0;
    pub(super) const NUMBERS: i16 = 8;
    pub(super) const FD: i16 = 16;
    pub(super) const OPERATION: i16 = 24;
    pub(super) const LENGTH: i16 = 32;
    pub(super) const POSITION: i16 = 40;
    pub(super) const NAME: i16 = 48;
    pub(super) const BYTES: i16 = 64;
}
/// The bytes of an entry.
pub(in super::super) const ENTRY_BYTES: usize = entry::BYTES as usize;

/// The place of the entry on the stack, in bytes below its end.
const ENTRY: i16 = KEY + entry::BYTES;

/// The operations of io_uring that are recorded (`IORING_OP_READV` and so on).
const READS_AND_WRITES: [i32; 6] = [1, 2, 4, 5, 22, 23];
const FSYNC: i32 = 3;

/// `REQ_F_FIXED_FILE`: the file is one that is registered with the ring.
const REGISTERED_FILE: i32 = 1;

fn store_entry(code: &mut Assembler, part: i16, from: Reg) {
    code.store(U64, R10, part - ENTRY, from);
}

/// Leaves the program unless the current task or the first one of its process is watched: requests
/// may be submitted by a thread of the kernel that belongs to the process (`SQPOLL`).
fn leave_unless_process_is_watched(code: &mut Assembler, maps: &Maps, layout: &Layout) {
    look_up_current(code, maps);
    code.jump_if(R0, If::NotEqual, 0, "watched");
    code.call(Helper::CurrentTask);
    code.load(U64, R2, R0, layout.task_leader);
    look_up_task(code, maps, 0);
    code.jump_if(R0, If::NotEqual, 0, "watched");
    code.jump("out");
    code.label("watched");
}

/// Begins an entry on the stack, with the numbers of the current task.
fn begin_entry(code: &mut Assembler, maps: &Maps, layout: &Layout) {
    load_numbers(code, maps, layout);
    for part in (0..entry::BYTES).step_by(8) {
        code.store_number(U64, R10, part - ENTRY, 0);
    }
    store_entry(code, entry::NUMBERS, R7);
}

/// Keeps the entry for the request at `R9`, and ends the program.
fn keep_entry(code: &mut Assembler, maps: &Maps) {
    code.call(Helper::Time);
    store_entry(code, entry::STARTED, R0);
    code.stack(R1, ENTRY - entry::NAME);
    code.set(R2, i32::from(entry::BYTES - entry::NAME));
    code.call(Helper::ProgramName);
    code.store(U64, R10, -KEY, R9);
    code.map(R1, maps.in_flight);
    code.stack(R2, KEY);
    code.stack(R3, ENTRY);
    code.set(R4, 0);
    code.call(Helper::MapUpdate);
    code.jump_if(R0, If::Equal, 0, "out");
    count_loss(code, maps);
    code.label("out");
    code.exit();
}

/// Takes the entry of the request at `R9` back to the stack, and makes a record of it, whose
/// address is in `R8` afterwards; leaves the program if there is none.
fn take_entry(code: &mut Assembler, maps: &Maps) {
    code.store(U64, R10, -KEY, R9);
    code.map(R1, maps.in_flight);
    code.stack(R2, KEY);
    code.call(Helper::MapLookup);
    code.jump_if(R0, If::Equal, 0, "out");
    for part in (0..entry::BYTES).step_by(8) {
        code.load(U64, R1, R0, part);
        store_entry(code, part, R1);
    }
    code.map(R1, maps.in_flight);
    code.stack(R2, KEY);
    code.call(Helper::MapDelete);
    reserve_zeroed(code, maps);
    code.call(Helper::Time);
    code.store(U64, R8, at::END, R0);
    code.store_number(U32, R8, at::NUMBER, URING as i32);
    // The thread's number comes before that of the process in both.
    for (part, to) in [
        (entry::STARTED, at::START),
        (entry::NUMBERS, at::TID),
        (entry::FD, at::ARGUMENTS),
        (entry::OPERATION, at::ARGUMENTS + 8),
        (entry::LENGTH, at::ARGUMENTS + 16),
        (entry::POSITION, at::ARGUMENTS + 24),
        (entry::NAME, at::NAME),
        (entry::NAME + 8, at::NAME + 8),
    ] {
        code.load(U64, R1, R10, part - ENTRY);
        code.store(U64, R8, to, R1);
    }
}

/// At `io_uring_submit_req`, with the request: keeps an entry for those that move bytes of files or
/// sync them.
pub(in super::super) fn uring_submitted(
    maps: &Maps,
    layout: &Layout,
    uring: &UringLayout,
) -> Vec<u64> {
    let mut code = Assembler::default();
    code.load(U64, R9, R1, 0);
    code.load(U8, R8, R9, uring.operation);
    for operation in READS_AND_WRITES.into_iter().chain([FSYNC]) {
        code.jump_if(R8, If::Equal, operation, "recorded");
    }
    code.jump("out");
    code.label("recorded");
    leave_unless_process_is_watched(&mut code, maps, layout);
    begin_entry(&mut code, maps, layout);
    code.set(R1, -1);
    code.load(U64, R2, R9, uring.flags);
    code.jump_if(R2, If::Bits, REGISTERED_FILE, "registered");
    code.load(U32, R1, R9, uring.descriptor);
    code.label("registered");
    store_entry(&mut code, entry::FD, R1);
    code.copy(R1, R9);
    code.jump_if(R8, If::Equal, FSYNC, "syncs");
    code.set(R2, uring.read_write as i32);
    code.call_kernel(layout.cast);
    code.load(U32, R1, R0, uring.length);
    code.load(U64, R2, R0, uring.position);
    code.jump("filled");
    code.label("syncs");
    code.set(R2, uring.sync as i32);
    code.call_kernel(layout.cast);
    code.load(U32, R1, R0, uring.sync_flags);
    code.shift_left(R1, 32);
    code.or_reg(R8, R1);
    code.load(U64, R1, R0, uring.sync_length);
    code.load(U64, R2, R0, uring.sync_position);
    code.label("filled");
    store_entry(&mut code, entry::LENGTH, R1);
    store_entry(&mut code, entry::POSITION, R2);
    store_entry(&mut code, entry::OPERATION, R8);
    keep_entry(&mut code, maps);
    code.finish()
}

/// At `io_uring_complete`, with the ring and the request: passes on a record. What was new to the
/// page cache in the call of the current task so far is counted for the request.
pub(in super::super) fn uring_completed(
    maps: &Maps,
    layout: &Layout,
    uring: &UringLayout,
) -> Vec<u64> {
    let mut code = Assembler::default();
    code.load(U64, R9, R1, 8);
    take_entry(&mut code, maps);
    look_up_current(&mut code, maps);
    code.jump_if(R0, If::Equal, 0, "elsewhere");
    let of_devices = at::FILE + at::NEW_OF_DEVICES;
    for (from, to) in [(NEW, at::NEW), (NEW_OF_DEVICES, of_devices)] {
        code.load(U64, R1, R0, from);
        code.store(U32, R8, to, R1);
        code.store_number(U64, R0, from, 0);
    }
    code.label("elsewhere");
    code.copy(R1, R9);
    code.set(R2, uring.request as i32);
    code.call_kernel(layout.cast);
    code.load(U32, R1, R0, uring.result);
    code.shift_left(R1, 32);
    code.shift_right_signed(R1, 32);
    code.store(U64, R8, at::RESULT, R1);
    code.load(U64, R1, R0, uring.file);
    code.jump_if(R1, If::Equal, 0, "no file");
    opened_file(&mut code, layout, at::FILE, "no file");
    code.label("no file");
    submit(&mut code, maps);
    code.finish()
}
