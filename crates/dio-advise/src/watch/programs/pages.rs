//! The programs that watch pages: those that come into the page cache, and those that are touched.

use super::super::assembler::{Assembler, Helper, If, Reg, Width};
use super::super::btf::Layout;
use super::super::calls::{FAULT, FETCHES, NUMBERS, WRITE_FAULT};
use super::super::record::at;
use super::batches::{pass_on_own_batch, touch_own_batch, unless_dense};
use super::maps::{ENTERED, Maps, NEW, NEW_OF_DEVICES};
use super::parts::{KEY, inode, leave_unless_watched, load_numbers, reserve_empty, submit};
use Reg::{R0, R1, R2, R3, R6, R7, R8, R9, R10};
use Width::{U16, U32, U64};

/// Places on the stack, in bytes below its end: what was touched, and the new pages.
const FIRST: i16 = 56;
const COUNT: i16 = 64;
const ADDED: i16 = 40;

/// Passes on a record of pages of the inode in `R9`; the first page and their number are on the
/// stack, and so are the new ones.
fn pass_on_pages(code: &mut Assembler, maps: &Maps, layout: &Layout, number: u32) {
    pass_on_own_batch(code, maps, layout);
    load_numbers(code, maps, layout);
    reserve_empty(code, maps);
    code.store_number(U32, R8, at::NUMBER, number as i32);
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

/// Jumps unless the current task, of which `R8` has what is known, is in a call that is watched.
fn leave_unless_in_call(code: &mut Assembler, maps: &Maps, label: &str) {
    code.load(U64, R1, R8, ENTERED);
    code.jump_if(R1, If::NotEqual, 0, "in a call");
    // Where calls are dense, their entries are not noted. A fault has no number of a call.
    unless_dense(code, maps, label);
    code.call(Helper::CurrentTask);
    code.copy(R1, R0);
    code.call(Helper::TaskRegisters);
    code.load(U64, R1, R0, super::parts::CALL_NUMBER);
    code.jump_if(R1, If::Greater, NUMBERS as i32 - 1, label);
    code.store(U32, R10, -KEY, R1);
    code.map(R1, maps.kinds);
    code.stack(R2, KEY);
    code.call(Helper::MapLookup);
    code.jump_if(R0, If::Equal, 0, label);
    code.load(U32, R1, R0, 0);
    code.jump_if(R1, If::Equal, 0, label);
    code.jump_if(R1, If::Bits, FETCHES, label);
    code.label("in a call");
}

/// Loads into `R7` the number of pages of the folio at `R6`.
fn load_page_count(code: &mut Assembler, layout: &Layout) {
    code.set(R7, 1);
    code.load(U64, R1, R6, layout.folio_flags);
    code.shift_right(R1, layout.head_flag as i32);
    code.and(R1, 1);
    code.jump_if(R1, If::Equal, 0, "small");
    code.load(U64, R1, R6, layout.folio_order);
    code.and(R1, 0x3f);
    code.shift_left_by(R7, R1);
    code.label("small");
}

/// At `writeback_dirty_folio`, with the folio and the mapping: passes on a record if the task is in
/// no call, because it wrote to mapped memory then. That says that it wrote to the folio once;
/// until the folio was written back and is protected anew, the kernel does not learn of more.
pub(in super::super) fn dirtied(maps: &Maps, layout: &Layout) -> Vec<u64> {
    let mut code = Assembler::default();
    code.load(U64, R6, R1, 0);
    code.load(U64, R9, R1, 8);
    leave_unless_watched(&mut code, maps);
    code.copy(R8, R0);
    leave_unless_in_call(&mut code, maps, "written in memory");
    code.jump("out");
    code.label("written in memory");
    code.copy(R1, R9);
    load_inode(&mut code, layout);
    code.jump_if(R2, If::NotEqual, 0o100_000, "out");
    load_page_count(&mut code, layout);
    code.load(U64, R1, R6, layout.folio_index);
    code.store(U64, R10, -FIRST, R1);
    code.store(U64, R10, -COUNT, R7);
    code.store_number(U64, R10, -ADDED, 0);
    pass_on_pages(&mut code, maps, layout, WRITE_FAULT);
    code.finish()
}

/// At `mm_filemap_add_to_page_cache`, with the folio: counts its pages for the call that the task
/// is in, or passes on a record if it is in none, because it touched mapped memory.
pub(in super::super) fn added(maps: &Maps, layout: &Layout) -> Vec<u64> {
    let mut code = Assembler::default();
    code.load(U64, R6, R1, 0);
    leave_unless_watched(&mut code, maps);
    code.copy(R8, R0);
    load_page_count(&mut code, layout);
    code.load(U64, R1, R6, layout.folio_mapping);
    load_inode(&mut code, layout);
    code.copy(R3, R8);
    code.jump_if(R2, If::Equal, 0o100_000, "ordinary");
    code.jump_if(R2, If::NotEqual, 0o60_000, "out");
    code.load(U64, R1, R3, NEW_OF_DEVICES);
    code.add_reg(R1, R7);
    code.store(U64, R3, NEW_OF_DEVICES, R1);
    code.jump("counted");
    code.label("ordinary");
    leave_unless_in_call(&mut code, maps, "outside");
    code.load(U64, R1, R8, NEW);
    code.add_reg(R1, R7);
    code.store(U64, R8, NEW, R1);
    code.label("counted");
    touch_own_batch(&mut code, maps, layout);
    code.jump("out");

    code.label("outside");
    code.load(U64, R1, R6, layout.folio_index);
    code.store(U64, R10, -FIRST, R1);
    code.store_number(U64, R10, -COUNT, 0);
    code.store(U64, R10, -ADDED, R7);
    pass_on_pages(&mut code, maps, layout, FAULT);
    code.finish()
}

/// At `mm_filemap_fault`, with the mapping and a page, or at `mm_filemap_map_pages`, with the
/// mapping and the first and the last page: passes on a record.
pub(in super::super) fn touched(maps: &Maps, layout: &Layout, is_range: bool) -> Vec<u64> {
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
    pass_on_pages(&mut code, maps, layout, FAULT);
    code.finish()
}
