//! The programs that watch requests of asynchronous I/O, `io_submit(2)`: other programs go on in
//! these at its calls.
//!
//! A record is passed on when a request is submitted, and one when its result is fetched. The
//! kernel's own completion of the request cannot be watched everywhere.

use super::super::assembler::{Assembler, Helper, If, Reg, Width};
use super::super::btf::{Iterate, Layout};
use super::super::calls::{AIO_BEGUN, AIO_DONE};
use super::super::record::at;
use super::maps::Maps;
use super::parts::{
    FD, FREE, count_loss, file_of_descriptor, fill_thread, load_argument, load_numbers, pass_on,
    reserve_zeroed,
};
use Reg::{R0, R1, R2, R3, R6, R8, R9, R10};
use Width::{U16, U32, U64};

/// Places on the stack, in bytes below its end: the address of a request, the iterator over the
/// requests, and the request or the result itself.
const ADDRESS: i16 = FREE + 8;
const ITERATOR: i16 = FREE + 16;
const CONTENTS: i16 = ITERATOR + IOCB_BYTES;

/// `struct iocb` (`include/uapi/linux/aio_abi.h`): its bytes, and where its parts are.
const IOCB_BYTES: i16 = 64;
const IOCB_OPERATION: i16 = 16;
const IOCB_DESCRIPTOR: i16 = 20;
const IOCB_LENGTH: i16 = 32;
const IOCB_POSITION: i16 = 40;

/// `struct io_event`
const EVENT_BYTES: i16 = 32;
const EVENT_REQUEST: i16 = 8;
const EVENT_RESULT: i16 = 16;

/// Begins a loop over as many things as `R3` says. `R9` has their number, from 0.
fn begin_loop(code: &mut Assembler, iterate: &Iterate) {
    code.stack(R1, ITERATOR);
    code.set(R2, 0);
    code.call_kernel(iterate.new);
    code.label("next");
    code.stack(R1, ITERATOR);
    code.call_kernel(iterate.next);
    code.jump_if(R0, If::Equal, 0, "out");
    code.load(U32, R9, R0, 0);
}

/// Reads bytes of the program's memory at `R3` to a place on the stack.
fn read_memory(code: &mut Assembler, bytes: i16, to: i16) {
    code.stack(R1, to);
    code.set(R2, bytes.into());
    code.call(Helper::ReadUser);
    code.jump_if(R0, If::NotEqual, 0, "out");
}

/// Adds `R9` times this power of two to `R3`.
fn add_index(code: &mut Assembler, power: i32) {
    code.copy(R1, R9);
    code.shift_left(R1, power);
    code.add_reg(R3, R1);
}

/// Begins a record, whose address is in `R8` afterwards.
fn begin_record(code: &mut Assembler, maps: &Maps, layout: &Layout, number: u32) {
    reserve_zeroed(code, maps);
    load_numbers(code, maps, layout);
    fill_thread(code);
    code.load(U64, R1, R8, at::END);
    code.store(U64, R8, at::START, R1);
    code.store_number(U32, R8, at::NUMBER, number as i32);
}

/// Passes on the record, and goes on with the next thing; ends the program after the last one.
fn end_loop(code: &mut Assembler, maps: &Maps, iterate: &Iterate) {
    pass_on(code);
    code.jump("next");
    code.label("lost");
    count_loss(code, maps);
    code.label("out");
    code.stack(R1, ITERATOR);
    code.call_kernel(iterate.destroy);
    code.exit();
}

/// At the entry of `io_submit(2)`: passes on a record of each request.
pub(in super::super) fn aio_submitted(maps: &Maps, layout: &Layout, iterate: &Iterate) -> Vec<u64> {
    let mut code = Assembler::default();
    code.copy(R6, R1);
    load_argument(&mut code, R3, 2);
    begin_loop(&mut code, iterate);
    load_argument(&mut code, R3, 3);
    add_index(&mut code, 3);
    read_memory(&mut code, 8, ADDRESS);
    code.load(U64, R3, R10, -ADDRESS);
    read_memory(&mut code, IOCB_BYTES, CONTENTS);
    begin_record(&mut code, maps, layout, AIO_BEGUN);
    for (width, from, to) in [
        (U32, IOCB_DESCRIPTOR - CONTENTS, at::ARGUMENTS),
        (U16, IOCB_OPERATION - CONTENTS, at::ARGUMENTS + 8),
        (U64, IOCB_LENGTH - CONTENTS, at::ARGUMENTS + 16),
        (U64, IOCB_POSITION - CONTENTS, at::ARGUMENTS + 24),
        (U64, -ADDRESS, at::RESULT),
    ] {
        code.load(width, R1, R10, from);
        code.store(U64, R8, to, R1);
    }
    code.load(U32, R1, R10, IOCB_DESCRIPTOR - CONTENTS);
    code.store(U64, R10, -FD, R1);
    file_of_descriptor(&mut code, layout, at::FILE, "no file");
    end_loop(&mut code, maps, iterate);
    code.finish()
}

/// At the exit of `io_getevents(2)`: passes on a record of each result.
pub(in super::super) fn aio_completed(maps: &Maps, layout: &Layout, iterate: &Iterate) -> Vec<u64> {
    let mut code = Assembler::default();
    code.copy(R6, R1);
    // An error is a negative number, so there is nothing to iterate over.
    code.load(U64, R3, R6, 8);
    begin_loop(&mut code, iterate);
    load_argument(&mut code, R3, 4);
    add_index(&mut code, 5);
    read_memory(&mut code, EVENT_BYTES, CONTENTS);
    begin_record(&mut code, maps, layout, AIO_DONE);
    for (from, to) in [(EVENT_REQUEST, at::ARGUMENTS), (EVENT_RESULT, at::RESULT)] {
        code.load(U64, R1, R10, from - CONTENTS);
        code.store(U64, R8, to, R1);
    }
    end_loop(&mut code, maps, iterate);
    code.finish()
}
