//! The part of the programs that records calls in batches, while calls come densely.
//!
//! Then no program runs at the entry of calls, and a call whose thread, number, file, flags and
//! size are those of one of the thread's last calls adds a few bytes to the thread's batch, without
//! any look-up. Any other call, and one during which the thread slept or pages were new to the page
//! cache, passes the batch on and has a record of its own. So the order of a thread's calls stays.

use super::super::assembler::{Assembler, Helper, If, Reg, Width};
use super::super::btf::Layout;
use super::super::calls::{BATCH, IN_BATCHES};
use super::super::record::{at, batch};
use super::maps::{LOST, Maps};
use super::parts::{FREE, file_pointer, load_argument, load_counter};
use Reg::{R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10};
use Width::{U32, U64};

/// Places on the stack, in bytes below its end: the position, and the number of the lane.
const POSITION: i16 = FREE + 8;
const LANE: i16 = FREE + 16;

/// Loads into `to` the address of the place in which the task in `task` may have its batch.
fn load_batch(code: &mut Assembler, maps: &Maps, layout: &Layout, task: Reg, to: Reg) {
    code.load(U32, R1, task, layout.task_number);
    code.and(R1, batch::COUNT_MAX - 1);
    code.multiply(R1, batch::BYTES);
    code.map_value(to, maps.batches);
    code.add_reg(to, R1);
}

/// What the number in the map says: calls are recorded in batches; or they are no longer, and there
/// may be batches that were not passed on. Else there is none.
pub(in super::super) const DENSE: u32 = 1;
pub(in super::super) const WAS_DENSE: u32 = 2;

/// Jumps unless calls are recorded in batches.
pub(super) fn unless_dense(code: &mut Assembler, maps: &Maps, label: &str) {
    code.map_value(R1, maps.dense);
    code.load(U64, R1, R1, 0);
    code.jump_if(R1, If::NotEqual, DENSE as i32, label);
}

/// Passes on the batch at `R8`, which has calls.
fn pass_on_batch(code: &mut Assembler, maps: &Maps, what: &str) {
    let done = format!("passed on {what}");
    code.map(R1, maps.ring);
    code.copy(R2, R8);
    code.set(R3, batch::BYTES);
    code.set(R4, 1);
    code.call(Helper::RingOutput);
    code.jump_if(R0, If::Equal, 0, &done);
    load_counter(code, maps, LOST);
    code.load(U32, R1, R8, batch::CALLS);
    code.add_atomically(R0, 0, R1);
    code.label(&done);
    code.load(U32, R1, R8, batch::SEQUENCE);
    code.add(R1, 1);
    code.store(U32, R8, batch::SEQUENCE, R1);
    code.store_number(U32, R8, batch::CALLS, 0);
}

/// Loads into `R7` the current task, and into `R8` the address of its batch; jumps if it has none.
fn load_own_batch(code: &mut Assembler, maps: &Maps, layout: &Layout, none: &str) {
    code.call(Helper::CurrentTask);
    code.copy(R7, R0);
    load_batch(code, maps, layout, R7, R8);
    code.load(U64, R1, R8, batch::OWNER);
    code.jump_if_reg(R1, If::NotEqual, R7, none);
}

/// Passes on what the current task has in its batch, before a record that follows it.
pub(super) fn pass_on_own_batch(code: &mut Assembler, maps: &Maps, layout: &Layout) {
    code.map_value(R1, maps.dense);
    code.load(U64, R1, R1, 0);
    code.jump_if(R1, If::Equal, 0, "nothing before");
    load_own_batch(code, maps, layout, "nothing before");
    code.load(U32, R1, R8, batch::CALLS);
    code.jump_if(R1, If::Equal, 0, "nothing before");
    pass_on_batch(code, maps, "before another record");
    code.label("nothing before");
}

/// Adds the call to the batch of its thread and leaves the program, or passes the batch on and goes
/// on. `R6` has the arguments of the program.
pub(super) fn add_to_batch(code: &mut Assembler, maps: &Maps, layout: &Layout) {
    code.map_value(R1, maps.dense);
    code.load(U64, R9, R1, 0);
    code.jump_if(R9, If::Equal, 0, "one by one");
    load_own_batch(code, maps, layout, "one by one");
    code.jump_if(R9, If::NotEqual, DENSE as i32, "break");
    for (argument, to) in [(0, R3), (1, R4), (3, R5)] {
        load_argument(code, to, argument);
    }
    for lane in 0..batch::LANE_COUNT {
        let (next, place) = (format!("not lane {lane}"), batch::LANES + lane * batch::LANE_BYTES);
        code.load(U32, R1, R8, place + batch::NUMBER);
        code.jump_if_reg(R1, If::NotEqual, R3, &next);
        code.load(U64, R1, R8, place + batch::DESCRIPTOR);
        code.jump_if_reg(R1, If::NotEqual, R4, &next);
        code.load(U64, R1, R8, place + batch::ASKED);
        code.jump_if_reg(R1, If::NotEqual, R5, &next);
        code.copy(R9, R8);
        code.add(R9, place.into());
        code.store_number(U64, R10, -LANE, lane.into());
        code.jump("lane");
        code.label(&next);
    }
    code.jump("break");
    code.label("lane");
    leave_batch_unless_same(code, layout);
    add_entry(code);
    pass_on_batch(code, maps, "when full");
    code.jump("out");

    // What comes next of these calls has another lane.
    code.label("stale");
    code.load(U32, R1, R8, batch::CALLS);
    code.jump_if(R1, If::Equal, 0, "forget");
    pass_on_batch(code, maps, "when stale");
    code.label("forget");
    code.store_number(U32, R9, batch::NUMBER, -1);
    code.jump("one by one");
    code.label("break");
    code.load(U32, R1, R8, batch::CALLS);
    code.jump_if(R1, If::Equal, 0, "one by one");
    pass_on_batch(code, maps, "at another call");
    code.label("one by one");
}

/// Jumps to "stale" unless the file is that of the lane at `R9`, and nothing happened that a record
/// of its own must tell. Saves the position.
fn leave_batch_unless_same(code: &mut Assembler, layout: &Layout) {
    code.load(U32, R1, R8, batch::TOUCHED);
    code.jump_if(R1, If::NotEqual, 0, "stale");
    code.load(U64, R1, R7, layout.task_sleeps);
    code.load(U64, R2, R8, batch::SLEEPS);
    code.jump_if_reg(R1, If::NotEqual, R2, "stale");
    code.load(U64, R3, R9, batch::DESCRIPTOR);
    code.load(U64, R1, R7, layout.task_files);
    file_pointer(code, layout, "stale");
    code.load(U64, R2, R9, batch::FILE);
    code.jump_if_reg(R1, If::NotEqual, R2, "stale");
    code.load(U32, R2, R1, layout.file_flags);
    code.load(U32, R3, R9, batch::FLAGS);
    code.jump_if_reg(R2, If::NotEqual, R3, "stale");
    // A file that is opened after another one was closed may be at its address.
    code.load(U64, R2, R1, layout.file_inode);
    code.load(U64, R2, R2, layout.inode_number);
    code.load(U64, R3, R9, batch::INODE);
    code.jump_if_reg(R2, If::NotEqual, R3, "stale");
    code.load(U64, R2, R1, layout.file_position);
    // Of the calls that are recorded in batches, those with a position of their own have numbers
    // above 1.
    code.load(U32, R1, R9, batch::NUMBER);
    code.jump_if(R1, If::Greater, 1, "positioned");
    code.jump("position");
    code.label("positioned");
    load_argument(code, R2, 4);
    code.label("position");
    code.store(U64, R10, -POSITION, R2);
}

/// Adds the call, and leaves the program unless the batch at `R8` is full then. The first call of
/// the batch and the last one of a few have their times: the clock takes as long as all the rest.
fn add_entry(code: &mut Assembler) {
    code.load(U32, R7, R8, batch::CALLS);
    code.and(R7, batch::ENTRY_COUNT - 1);
    code.copy(R1, R7);
    code.and(R1, batch::TIMED - 1);
    code.set(R0, 0);
    code.jump_if(R7, If::Equal, 0, "timed");
    code.jump_if(R1, If::NotEqual, batch::TIMED - 1, "not timed");
    code.label("timed");
    code.call(Helper::Time);
    code.label("not timed");
    code.copy(R2, R7);
    code.multiply(R2, batch::ENTRY_BYTES.into());
    code.copy(R3, R8);
    code.add_reg(R3, R2);
    code.store(U64, R3, batch::ENTRIES + batch::END, R0);
    code.load(U64, R2, R10, -POSITION);
    code.store(U64, R3, batch::ENTRIES + batch::AT, R2);
    code.load(U64, R2, R6, 8);
    code.store(U32, R3, batch::ENTRIES + batch::RESULT, R2);
    code.load(U64, R2, R10, -LANE);
    code.store(U32, R3, batch::ENTRIES + batch::LANE, R2);
    code.add(R7, 1);
    code.store(U32, R8, batch::CALLS, R7);
    code.jump_if(R7, If::Equal, batch::ENTRY_COUNT, "full");
    code.jump_if(R7, If::NotEqual, 1, "out");
    // A program that another one takes the place of keeps its name for the calls that it made.
    code.copy(R1, R8);
    code.add(R1, batch::NAME.into());
    code.set(R2, super::super::record::NAME_BYTES);
    code.call(Helper::ProgramName);
    code.jump("out");
    code.label("full");
}

/// Makes the call of the record at `R8` one that the next calls may be like. `R9` has the bits of
/// the call, and the stack the address of its file.
pub(super) fn add_lane(code: &mut Assembler, maps: &Maps, layout: &Layout, opened: i16) {
    code.jump_if(R9, If::Bits, IN_BATCHES, "may have a lane");
    code.jump("no lane");
    code.label("may have a lane");
    unless_dense(code, maps, "no lane");
    code.call(Helper::CurrentTask);
    code.copy(R7, R0);
    load_batch(code, maps, layout, R7, R9);
    code.load(U64, R1, R9, batch::OWNER);
    code.jump_if_reg(R1, If::Equal, R7, "owned");
    code.set(R0, 0);
    code.exchange_if_equal(R9, batch::OWNER, R7);
    code.jump_if(R0, If::NotEqual, 0, "no lane");
    code.load(U64, R1, R8, at::TID);
    code.store(U64, R9, batch::TID, R1);
    code.store_number(U32, R9, batch::RECORD_NUMBER, BATCH as i32);
    code.store_number(U32, R9, batch::CALLS, 0);
    for lane in 0..batch::LANE_COUNT {
        let place = batch::LANES + lane * batch::LANE_BYTES;
        code.store_number(U32, R9, place + batch::NUMBER, -1);
    }
    code.label("owned");
    code.store_number(U32, R9, batch::TOUCHED, 0);
    code.load(U64, R1, R7, layout.task_sleeps);
    code.store(U64, R9, batch::SLEEPS, R1);
    code.load(U32, R2, R8, at::FILE + at::MODE);
    code.jump_if(R2, If::Equal, 0, "no lane");
    code.load(U32, R1, R9, batch::NEXT_LANE);
    code.jump_if(R1, If::Greater, i32::from(batch::LANE_COUNT) - 1, "first lane");
    code.jump("next lane");
    code.label("first lane");
    code.set(R1, 0);
    code.label("next lane");
    code.copy(R2, R1);
    code.add(R2, 1);
    code.store(U32, R9, batch::NEXT_LANE, R2);
    code.multiply(R1, batch::LANE_BYTES.into());
    code.add_reg(R9, R1);
    code.load(U64, R1, R10, -opened);
    code.store(U64, R9, batch::LANES + batch::FILE, R1);
    for (width, from, to) in [
        (U32, at::NUMBER, batch::NUMBER),
        (U64, at::ARGUMENTS, batch::DESCRIPTOR),
        (U64, at::ARGUMENTS + 16, batch::ASKED),
        (U64, at::FILE + at::INODE, batch::INODE),
        (U64, at::FILE + at::SIZE, batch::SIZE),
        (U32, at::FILE + at::DEVICE, batch::DEVICE),
        (U32, at::FILE + at::FLAGS, batch::FLAGS),
        (U32, at::FILE + at::MODE, batch::MODE),
    ] {
        code.load(width, R1, R8, from);
        code.store(width, R9, batch::LANES + to, R1);
    }
    code.label("no lane");
}

/// Has the next call of the current task recorded by itself, if it has a batch.
pub(super) fn touch_own_batch(code: &mut Assembler, maps: &Maps, layout: &Layout) {
    load_own_batch(code, maps, layout, "no batch");
    code.store_number(U32, R8, batch::TOUCHED, 1);
    code.label("no batch");
}

/// At `sched_process_exit`: passes on what the thread has left, and gives its place free.
pub(in super::super) fn ended(maps: &Maps, layout: &Layout) -> Vec<u64> {
    let mut code = Assembler::default();
    load_own_batch(&mut code, maps, layout, "out");
    code.load(U32, R1, R8, batch::CALLS);
    code.jump_if(R1, If::Equal, 0, "empty");
    pass_on_batch(&mut code, maps, "at the end");
    code.label("empty");
    code.store_number(U64, R8, batch::OWNER, 0);
    code.label("out");
    code.exit();
    code.finish()
}
