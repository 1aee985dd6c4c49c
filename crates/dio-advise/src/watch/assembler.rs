//! Makes instructions for `bpf(2)`.
//!
//! An instruction has 64 bits: the operation, the target and the source register, a signed offset
//! and a signed number (`Documentation/bpf/standardization/instruction-set.rst`).

use std::collections::HashMap;

/// A register. `R0` has the result of a call, `R1` to `R5` its arguments, which calls destroy;
/// `R10` is the end of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Reg {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

/// The width of an access to memory, with the bits of its operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Width {
    U32 = 0x00,
    U16 = 0x08,
    U8 = 0x10,
    U64 = 0x18,
}

/// The helper functions of the kernel that the programs call (`enum bpf_func_id`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(super) enum Helper {
    MapLookup = 1,
    MapUpdate = 2,
    MapDelete = 3,
    Time = 5,
    /// Goes on in another program, and does not return if there is one.
    TailCall = 12,
    ProgramName = 16,
    ReadUser = 112,
    ReadUserText = 114,
    RingOutput = 130,
    RingReserve = 131,
    RingSubmit = 132,
    TaskStorage = 156,
    CurrentTask = 158,
    /// The registers with which a task entered the kernel.
    TaskRegisters = 175,
}

/// Conditions of jumps, with the bits of their operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum If {
    Equal = 0x10,
    Greater = 0x20,
    /// Some of the bits are set.
    Bits = 0x40,
    NotEqual = 0x50,
    AtLeast = 0x30,
    SignedLess = 0xc0,
}

/// Instructions in the making.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    code: Vec<u64>,
    labels: HashMap<String, usize>,
    jumps: Vec<(usize, String)>,
}

impl Assembler {
    fn push(&mut self, operation: u8, target: Reg, source: u8, offset: i16, number: i32) {
        self.code.push(
            u64::from(operation)
                | u64::from(target as u8 | source << 4) << 8
                | u64::from(offset as u16) << 16
                | u64::from(number as u32) << 32,
        );
    }

    /// `target = source`
    pub(super) fn copy(&mut self, target: Reg, source: Reg) {
        self.push(0xbf, target, source as u8, 0, 0);
    }

    /// `target = number`
    pub(super) fn set(&mut self, target: Reg, number: i32) {
        self.push(0xb7, target, 0, 0, number);
    }

    /// `target += number`
    pub(super) fn add(&mut self, target: Reg, number: i32) {
        self.push(0x07, target, 0, 0, number);
    }

    /// `target += source`
    pub(super) fn add_reg(&mut self, target: Reg, source: Reg) {
        self.push(0x0f, target, source as u8, 0, 0);
    }

    /// `target -= source`
    pub(super) fn subtract(&mut self, target: Reg, source: Reg) {
        self.push(0x1f, target, source as u8, 0, 0);
    }

    /// `target &= number`
    pub(super) fn and(&mut self, target: Reg, number: i32) {
        self.push(0x57, target, 0, 0, number);
    }

    /// `target |= source`
    pub(super) fn or_reg(&mut self, target: Reg, source: Reg) {
        self.push(0x4f, target, source as u8, 0, 0);
    }

    /// `target <<= bits`
    pub(super) fn shift_left(&mut self, target: Reg, bits: i32) {
        self.push(0x67, target, 0, 0, bits);
    }

    /// `target <<= source`
    pub(super) fn shift_left_by(&mut self, target: Reg, source: Reg) {
        self.push(0x6f, target, source as u8, 0, 0);
    }

    /// `target >>= bits`
    pub(super) fn shift_right(&mut self, target: Reg, bits: i32) {
        self.push(0x77, target, 0, 0, bits);
    }

    /// `target >>= bits`, with the sign kept
    pub(super) fn shift_right_signed(&mut self, target: Reg, bits: i32) {
        self.push(0xc7, target, 0, 0, bits);
    }

    /// `target = address of stack - below`
    pub(super) fn stack(&mut self, target: Reg, below: i16) {
        self.copy(target, Reg::R10);
        self.add(target, -i32::from(below));
    }

    /// `target = *(base + offset)`
    pub(super) fn load(&mut self, width: Width, target: Reg, base: Reg, offset: i16) {
        self.push(0x61 | width as u8, target, base as u8, offset, 0);
    }

    /// `*(base + offset) = source`
    pub(super) fn store(&mut self, width: Width, base: Reg, offset: i16, source: Reg) {
        self.push(0x63 | width as u8, base, source as u8, offset, 0);
    }

    /// `*(base + offset) = number`
    pub(super) fn store_number(&mut self, width: Width, base: Reg, offset: i16, number: i32) {
        self.push(0x62 | width as u8, base, 0, offset, number);
    }

    /// `target *= number`
    pub(super) fn multiply(&mut self, target: Reg, number: i32) {
        self.push(0x27, target, 0, 0, number);
    }

    /// Stores `source` in the 64 bits at `base + offset` if these equal `R0`, as one operation;
    /// `R0` has what they were.
    pub(super) fn exchange_if_equal(&mut self, base: Reg, offset: i16, source: Reg) {
        self.push(0xdb, base, source as u8, offset, 0xf1);
    }

    /// Adds `source` to the 64 bits at `base + offset` as one operation.
    pub(super) fn add_atomically(&mut self, base: Reg, offset: i16, source: Reg) {
        self.push(0xdb, base, source as u8, offset, 0);
    }

    /// `target = ` the map with this descriptor
    pub(super) fn map(&mut self, target: Reg, fd: i32) {
        self.push(0x18, target, 1, 0, fd);
        self.code.push(0);
    }

    /// `target = ` the address of the only value of the map with this descriptor
    pub(super) fn map_value(&mut self, target: Reg, fd: i32) {
        self.push(0x18, target, 2, 0, fd);
        self.code.push(0);
    }

    pub(super) fn call(&mut self, helper: Helper) {
        self.push(0x85, Reg::R0, 0, 0, helper as i32);
    }

    /// Calls a function of the kernel by its number among the kernel's types.
    pub(super) fn call_kernel(&mut self, function: u32) {
        self.push(0x85, Reg::R0, 2, 0, function as i32);
    }

    /// Returns 0.
    pub(super) fn exit(&mut self) {
        self.set(Reg::R0, 0);
        self.push(0x95, Reg::R0, 0, 0, 0);
    }

    pub(super) fn jump(&mut self, label: &str) {
        self.jumps.push((self.code.len(), label.to_owned()));
        self.push(0x05, Reg::R0, 0, 0, 0);
    }

    pub(super) fn jump_if(&mut self, left: Reg, condition: If, number: i32, label: &str) {
        self.jumps.push((self.code.len(), label.to_owned()));
        self.push(0x05 | condition as u8, left, 0, 0, number);
    }

    pub(super) fn jump_if_reg(&mut self, left: Reg, condition: If, right: Reg, label: &str) {
        self.jumps.push((self.code.len(), label.to_owned()));
        self.push(0x0d | condition as u8, left, right as u8, 0, 0);
    }

    /// The next instruction is the target of jumps to this label.
    pub(super) fn label(&mut self, label: &str) {
        let before = self.labels.insert(label.to_owned(), self.code.len());
        assert!(before.is_none(), "two places for {label}");
    }

    /// The instructions.
    pub(super) fn finish(mut self) -> Vec<u64> {
        for (at, label) in &self.jumps {
            let target = self.labels[label];
            let distance = i16::try_from(target as i64 - *at as i64 - 1).expect("a short program");
            self.code[*at] |= u64::from(distance as u16) << 16;
        }
        self.code
    }
}
