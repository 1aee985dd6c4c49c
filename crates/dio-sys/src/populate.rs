//! Pages for memory that will be stored into.

use std::io;
use std::ops::Range;

use rustix::mm::{Advice, madvise};

/// Has the kernel give the pages that begin in a range of addresses memory, as if each had been
/// stored into (`MADV_POPULATE_WRITE`, Linux 5.14). The bytes stay as they are. The range must
/// begin on a page.
///
/// # Errors
/// EINVAL before Linux 5.14; ENOMEM where nothing is mapped, or where there is no memory; EFAULT
/// where the range may not be stored into; others of `madvise(2)`.
pub fn populate(addresses: Range<usize>) -> io::Result<()> {
    let start = std::ptr::with_exposed_provenance_mut(addresses.start);
    // SAFETY: no byte changes, whatever is mapped there, and the kernel checks the addresses. It
    // does what a store of the old value into each page would do.
    unsafe { madvise(start, addresses.len(), Advice::LinuxPopulateWrite)? };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_stay_and_what_is_not_mapped_is_an_error() {
        let mut memory = vec![7u8; 3 * 4096];
        let start = memory.as_mut_ptr().expose_provenance().next_multiple_of(4096);
        populate(start..start + 8192).unwrap();
        assert!(memory.iter().all(|byte| *byte == 7));
        assert!(populate(4096..8192).is_err());
    }
}
