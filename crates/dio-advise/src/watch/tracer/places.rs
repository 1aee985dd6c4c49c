//! Where a call moves bytes, as its arguments say.

use super::memory;
use crate::trace::Call;

/// A range of a file that a call reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Where it begins; `None` for the position of the open file.
    pub(super) offset: Option<u64>,
    pub(super) bytes: u64,
    pub(super) reads: bool,
}

/// The most that the kernel moves in one call (`MAX_RW_COUNT`).
const MOVED_MAX: u64 = 0x7fff_f000;

/// Buffers in a list, at most (`UIO_MAXIOV`).
const BUFFERS_MAX: u64 = 1024;

/// The ranges of the first and the second file of a call.
pub(super) fn places(call: Call, arguments: &[u64; 6], thread: u32) -> [Option<Place>; 2] {
    let at = |offset: Option<u64>, bytes: u64, reads: bool| {
        Some(Place { offset, bytes: bytes.min(MOVED_MAX), reads })
    };
    let buffers = || listed(thread, arguments[1], arguments[2]);
    // In place of an offset, some calls have the address of one, or none.
    let given =
        |address: u64| (address != 0).then(|| memory::read_number(thread, address)).flatten();
    // preadv2 and pwritev2 take this for the position.
    let offset = Some(arguments[3]).filter(|offset| *offset != u64::MAX);
    match call {
        Call::Read => [at(None, arguments[2], true), None],
        Call::Write => [at(None, arguments[2], false), None],
        Call::Pread => [at(Some(arguments[3]), arguments[2], true), None],
        Call::Pwrite => [at(Some(arguments[3]), arguments[2], false), None],
        Call::Readv => [at(None, buffers(), true), None],
        Call::Writev => [at(None, buffers(), false), None],
        Call::Preadv => [at(offset, buffers(), true), None],
        Call::Pwritev => [at(offset, buffers(), false), None],
        Call::Sendfile => {
            let bytes = arguments[3];
            [at(given(arguments[2]), bytes, true), at(None, bytes, false)]
        }
        Call::CopyFileRange | Call::Splice => {
            let (from, to) = (given(arguments[1]), given(arguments[3]));
            [at(from, arguments[4], true), at(to, arguments[4], false)]
        }
        _ => [None, None],
    }
}

/// The bytes of all buffers of a list (`struct iovec`).
fn listed(thread: u32, address: u64, count: u64) -> u64 {
    let mut list = vec![0; 16 * count.min(BUFFERS_MAX) as usize];
    let read = memory::read(thread, address, &mut list);
    let lengths = list[..read]
        .chunks_exact(16)
        .map(|buffer| u64::from_ne_bytes(buffer[8..].try_into().expect("eight bytes")));
    lengths.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_say_which_range_is_moved() {
        let own = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        let place = |offset, bytes, reads| Some(Place { offset, bytes, reads });
        let of = |call, arguments| places(call, &arguments, own);
        assert_eq!(of(Call::Read, [3, 0, 100, 7, 0, 0]), [place(None, 100, true), None]);
        assert_eq!(of(Call::Pwrite, [3, 0, 9, 7, 0, 0]), [place(Some(7), 9, false), None]);
        assert_eq!(of(Call::Read, [3, 0, u64::MAX, 0, 0, 0])[0].unwrap().bytes, MOVED_MAX);
        let buffers = [0_u64, 10, 0, 90];
        let list = buffers.as_ptr() as u64;
        assert_eq!(of(Call::Preadv, [3, list, 2, u64::MAX, 0, 0]), [place(None, 100, true), None]);
        assert_eq!(of(Call::Readv, [3, 8, 2, 0, 0, 0]), [place(None, 0, true), None]);
        let offset = 4096_u64;
        let copied = of(Call::CopyFileRange, [3, (&raw const offset) as u64, 4, 0, 50, 0]);
        assert_eq!(copied, [place(Some(4096), 50, true), place(None, 50, false)]);
        assert_eq!(of(Call::Fsync, [3, 0, 0, 0, 0, 0]), [None, None]);
    }
}
