//! Alignment arithmetic.

/// `value` rounded up to a multiple of `align`, a power of two.
pub const fn align_up(value: u64, align: u64) -> u64 {
    (value + (align - 1)) & !(align - 1)
}

/// `value` rounded down to a multiple of `align`, a power of two.
pub const fn align_down(value: u64, align: u64) -> u64 {
    value & !(align - 1)
}
