//! Tests of the inside of a reader. The others are in `tests/stream_read.rs`.

use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::io::Errno;

use super::*;
use crate::engine::{Blocking, Medium, Op, Route};
use crate::geometry::Geometry;
use crate::{Io, Limits, OpenOptions};

const LEN: u64 = 400_000;

/// A file that seems to end at `cut` when the block there is first read, and at `LEN` before and
/// afterwards: it was cut off and has grown again, or was written a little at a time.
#[derive(Debug)]
struct Growing {
    cut: u64,
    read: AtomicBool,
    asked: AtomicBool,
    after: AtomicU64,
}

fn byte(at: u64) -> u8 {
    (at % 251) as u8
}

impl Medium for Growing {
    fn transfer(&self, op: &mut Op) -> Result<usize, Errno> {
        let mut at = op.position();
        let last = at + op.remaining() as u64;
        let cut = (at..last).contains(&self.cut) && !self.read.swap(true, Ordering::SeqCst);
        self.after.fetch_add(u64::from(at > self.cut), Ordering::SeqCst);
        let end = last.min(if cut { self.cut } else { LEN });
        let skip = op.skip;
        for slice in op.mem.as_mut().expect("a read has memory").slices_mut(skip).iter_mut() {
            for place in slice.iter_mut().take(end.saturating_sub(at) as usize) {
                *place = byte(at);
                at += 1;
            }
        }
        Ok((at - op.position()) as usize)
    }

    fn size(&self) -> io::Result<u64> {
        let cut = self.read.load(Ordering::SeqCst) && !self.asked.swap(true, Ordering::SeqCst);
        Ok(if cut { self.cut } else { LEN })
    }

    fn descriptor(&self, _route: Route) -> io::Result<BorrowedFd<'_>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn set_size(&self, _size: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn allocate(&self, _range: Range<u64>, _extend: bool) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn punch(&self, _range: Range<u64>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Reads such a file to its end and checks everything. True if something behind the cut was read
/// before the consumer came to it.
fn grows_under_the_read_ahead(io: &Io, cut: u64) -> bool {
    let geometry = Geometry::fixed(512, 512).unwrap();
    let medium =
        Arc::new(Growing { cut, read: false.into(), asked: false.into(), after: 0.into() });
    let file = OpenOptions::new().read(true).io(io).open_medium(
        "growing",
        Arc::clone(&medium) as Arc<dyn Medium>,
        geometry,
    );
    let limits = ReadAhead { min: 4096, max: 32 << 10, request: 4096, lent: 0 };
    let mut reader = Reader::with_read_ahead(file.unwrap(), limits).unwrap();
    let mut found = vec![0; cut as usize];
    reader.read_exact(&mut found).unwrap();
    let patience = std::time::Instant::now();
    while medium.after.load(Ordering::SeqCst) < 2 && patience.elapsed().as_millis() < 100 {
        std::thread::yield_now();
    }
    let ahead = medium.after.load(Ordering::SeqCst) >= 2;
    reader.read_to_end(&mut found).unwrap();
    let expected: Vec<u8> = (0..found.len() as u64).map(byte).collect();
    assert!(found == expected, "bytes are missing within the {} that were read", found.len());
    // If nothing behind the cut had been read, the reader may report that the file ends there: it
    // did then.
    assert!(
        found.len() == LEN as usize || !ahead && found.len() == cut as usize,
        "{} of {LEN}",
        found.len()
    );
    ahead
}

#[test]
fn nothing_is_passed_over_when_the_file_grows_under_the_read_ahead() {
    let io =
        Io::with_engine(Limits::default(), "blocking", |_| Box::new(Blocking::new(16))).unwrap();
    // On a busy machine the consumer may come to the cut before anything behind it has been
    // requested. If all requests are finished whenever the reader looks, they go out in the same
    // batches each time, and the cut may be at the end of one.
    let met =
        (0..100).any(|attempt| grows_under_the_read_ahead(&io, 300_500 + 4096 * (attempt % 8)));
    assert!(met, "nothing was ever read behind the cut: hardly a test");
}
