//! The programs that watch system calls, and processes that make others.

use super::super::assembler::{Assembler, Helper, If, Reg, Width};
use super::super::btf::Layout;
use super::super::calls::{
    COMMANDS, DUPLICATES, FETCHES, FIRST_FILE, FORK, LOOKS, NAMES, NUMBERS, OFFSET_THIRD, OFFSETS,
    OPENS, PATH_FIRST, PATH_THIRD, RESULT, SECOND_FILE, SUBMITS,
};
use super::super::record::{BYTES, LOOK_BYTES, PATH_BYTES, SECOND_BYTES, at};
use super::batches::{DENSE, add_lane, add_to_batch, pass_on_own_batch, unless_dense};
use super::maps::{ENTERED, HAS_SLEPT, LEVEL, Maps, NEW, NEW_OF_DEVICES, SLEEPS};
use super::parts::{
    CREATE, FD, KEY, OPENED, file_of_descriptor, fill_thread, go_on_in, leave_unless_watched,
    load_argument, load_counter, load_number, load_numbers, look_up_task, reserve_empty, submit,
};
use Reg::{R0, R1, R2, R3, R6, R7, R8, R9, R10};
use Width::{U32, U64};

/// `ENOENT`
const ENOENT: i32 = 2;

/// Places on the stack, in bytes below its end: for the record when the call was entered, the new
/// pages, and whether the thread slept before it.
const STARTED: i16 = 32;
const ADDED: i16 = 40;
const ADDED_OF_DEVICES: i16 = 48;
const SLEPT: i16 = 72;

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

/// At `sys_enter`: notes in how many namespaces the namespace of the current task is, if it is
/// watched.
pub(in super::super) fn level(maps: &Maps, layout: &Layout) -> Vec<u64> {
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
pub(in super::super) fn enter(maps: &Maps, layout: &Layout) -> Vec<u64> {
    let mut code = Assembler::default();
    code.copy(R6, R1);
    code.load(U64, R8, R1, 8);
    leave_unless_of_interest(&mut code, maps);
    code.jump_if(R9, If::Bits, FETCHES, "out");
    leave_unless_watched(&mut code, maps);
    code.copy(R7, R0);
    // No program runs here then, soon.
    code.map_value(R1, maps.dense);
    code.load(U64, R1, R1, 0);
    code.jump_if(R1, If::Equal, DENSE as i32, "dense");
    code.call(Helper::Time);
    code.store(U64, R7, ENTERED, R0);
    code.store_number(U64, R7, NEW, 0);
    code.store_number(U64, R7, NEW_OF_DEVICES, 0);
    load_sleeps(&mut code, layout);
    code.load(U64, R1, R7, SLEEPS);
    code.subtract(R0, R1);
    code.store(U64, R7, HAS_SLEPT, R0);
    code.label("dense");
    code.jump_if(R9, If::Bits, SUBMITS, "submits");
    code.jump("out");
    code.label("submits");
    go_on_in(&mut code, maps.at_submission);
    code.label("out");
    code.exit();
    code.finish()
}

/// At `sched_process_fork`, with the parent and the child: the child of a watched task is watched,
/// and a record tells of it.
pub(in super::super) fn fork(maps: &Maps, layout: &Layout) -> Vec<u64> {
    let mut code = Assembler::default();
    code.copy(R6, R1);
    leave_unless_watched(&mut code, maps);
    code.load(U64, R2, R6, 8);
    look_up_task(&mut code, maps, CREATE);
    code.jump_if(R0, If::Equal, 0, "lost");
    pass_on_own_batch(&mut code, maps, layout);
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
pub(in super::super) fn exit(maps: &Maps, layout: &Layout) -> Vec<u64> {
    let mut code = Assembler::default();
    code.copy(R6, R1);
    add_to_batch(&mut code, maps, layout);
    load_argument(&mut code, R8, 0);
    leave_unless_of_interest(&mut code, maps);
    leave_unless_watched(&mut code, maps);
    code.copy(R7, R0);
    code.jump_if(R9, If::Bits, FETCHES, "fetches");
    for (from, to) in
        [(ENTERED, STARTED), (NEW, ADDED), (NEW_OF_DEVICES, ADDED_OF_DEVICES), (HAS_SLEPT, SLEPT)]
    {
        code.load(U64, R1, R7, from);
        code.store(U64, R10, -to, R1);
        code.store_number(U64, R7, from, 0);
    }
    load_sleeps(&mut code, layout);
    // Where calls are dense, it is not known when this one began, nor when the thread slept since
    // the last one.
    unless_dense(&mut code, maps, "entered");
    code.load(U64, R1, R7, SLEEPS);
    code.copy(R2, R0);
    code.subtract(R2, R1);
    code.store(U64, R10, -SLEPT, R2);
    code.store_number(U64, R10, -STARTED, 0);
    code.label("entered");
    code.store(U64, R7, SLEEPS, R0);
    code.store_number(U64, R10, -OPENED, 0);
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
    given_offsets(&mut code);
    code.jump("submit");
    code.label("fetches");
    go_on_in(&mut code, maps.at_completion);
    code.jump("out");
    code.label("submit");
    add_lane(&mut code, maps, layout, OPENED);
    submit(&mut code, maps);
    code.finish()
}

/// Leaves the program if the call turns out to be none that is recorded: if it looked at a name and
/// failed otherwise than by finding none, or did something else with a descriptor than to copy it
/// (`fcntl(2)`).
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
    code.label("of interest");
}

/// Fills in the path of the call, as far as `bytes` have room for it. `what` tells one of these
/// from another within a program.
fn read_path(code: &mut Assembler, bytes: i32, what: &str) {
    load_argument(code, R3, 2);
    for (bit, argument) in [(PATH_FIRST, 1), (PATH_THIRD, 3)] {
        let other = format!("{what} is not argument {argument}");
        code.copy(R1, R9);
        code.and(R1, bit);
        code.jump_if(R1, If::Equal, 0, &other);
        load_argument(code, R3, argument);
        code.label(&other);
    }
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
    code.jump_if(R9, If::Bits, LOOKS | NAMES, "name");
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

/// Fills in the offsets that a call with two files was given the addresses of, in place of the
/// positions of its files.
fn given_offsets(code: &mut Assembler) {
    let given = [(OFFSETS, 2, at::FILE), (OFFSETS, 4, at::SECOND), (OFFSET_THIRD, 3, at::FILE)];
    for (bit, argument, place) in given {
        let next = format!("no offset in argument {argument}");
        code.copy(R1, R9);
        code.and(R1, bit);
        code.jump_if(R1, If::Equal, 0, &next);
        load_argument(code, R3, argument);
        code.jump_if(R3, If::Equal, 0, &next);
        code.copy(R1, R8);
        code.add(R1, (place + at::POSITION).into());
        code.set(R2, 8);
        code.call(Helper::ReadUser);
        code.label(&next);
    }
}

/// Fills in what the kernel knows of the first or second file of the call, at a place of the
/// record.
fn file(code: &mut Assembler, layout: &Layout, number: usize, place: i16) {
    descriptor(code, number);
    for offset in (0..at::FILE_BYTES).step_by(8) {
        code.store_number(U64, R8, place + offset, 0);
    }
    file_of_descriptor(code, layout, place, &format!("no file {number}"));
}
