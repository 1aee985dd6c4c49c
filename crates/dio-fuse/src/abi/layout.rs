//! A check of structures against the numbers of the C header.

/// Checks the size of a structure and the offsets of its fields at compile time.
macro_rules! layout {
    ($name:ty, $size:literal $(, $field:ident @ $offset:literal)*) => {
        const _: () = {
            assert!(size_of::<$name>() == $size);
            $(assert!(std::mem::offset_of!($name, $field) == $offset);)*
        };
    };
}
pub(crate) use layout;
