//! Pages for large memory that is about to be read into.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use super::BLOCK_ALIGN;

/// Less memory is not worth a thread, in bytes.
const BYTES_MIN: usize = 16 << 20;

/// Memory that one system call populates, in bytes: a few huge pages, so that a call is over soon.
const PIECE_BYTES: usize = 8 << 20;

/// Smaller pieces of memory are left alone: a system call for each would cost more than it gains.
const PART_BYTES_MIN: usize = 256 << 10;

/// Most threads that populate.
const THREADS_MAX: usize = 4;

/// Runs `work`, which is about to fill the memory at these addresses in this order, while other
/// threads have the kernel give it its pages. The bytes stay as they are.
///
/// The first request to a page that has never been used waits until the kernel has made it, and in
/// a virtual machine also until the host has: 3 ms for a huge page on a machine on which the disk
/// reads as much in 0.6 ms. Two processors make pages twice as fast as one, and requests to pages
/// that are there go on meanwhile. Memory that has its pages costs another thread up to 40 µs a
/// MiB, so this is to be called once for memory that is filled by many calls.
///
/// Without effect for little memory, before Linux 5.14 and where no thread can be started.
///
/// ```
/// use dio::block::with_pages;
///
/// let mut memory = vec![0u8; 64 << 20];
/// let start = memory.as_ptr().addr();
/// let addresses = start..start + memory.len();
/// with_pages(&[addresses], || memory.fill(1));
/// assert_eq!(memory[1 << 20], 1);
/// ```
pub fn with_pages<T>(addresses: &[Range<usize>], work: impl FnOnce() -> T) -> T {
    if addresses.iter().map(Range::len).sum::<usize>() < BYTES_MIN {
        return work();
    }
    let pieces = pieces_of(addresses);
    let (next, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let populate = || {
        while !is_over.load(Ordering::Relaxed)
            && let Some(piece) = pieces.get(next.fetch_add(1, Ordering::Relaxed))
        {
            // What has no pages now gets them when it is stored into.
            if dio_sys::populate(piece.clone()).is_err() {
                break;
            }
        }
    };
    let processors = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        /// Ends the threads, also if the work panics.
        struct End<'a>(&'a AtomicBool);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let _end = End(&is_over);
        for _ in 0..processors.min(THREADS_MAX).min(pieces.len()) {
            let thread = thread::Builder::new().name("dio-pages".into());
            if thread.spawn_scoped(scope, populate).is_err() {
                break;
            }
        }
        work()
    })
}

/// The pages of all parts, without those that have few, in pieces for one call each.
fn pieces_of(addresses: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut parts: Vec<Range<usize>> = Vec::new();
    for part in addresses.iter().filter(|part| !part.is_empty()) {
        let start = part.start - part.start % BLOCK_ALIGN;
        let end = part.end.next_multiple_of(BLOCK_ALIGN);
        match parts.last_mut() {
            Some(last) if (last.start..=last.end).contains(&start) => last.end = last.end.max(end),
            _ => parts.push(start..end),
        }
    }
    let large = parts.into_iter().filter(|part| part.len() >= PART_BYTES_MIN);
    let pieces = large.flat_map(|part| {
        let end = part.end;
        part.step_by(PIECE_BYTES).map(move |start| start..(start + PIECE_BYTES).min(end))
    });
    pieces.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_join_neighbours_and_leave_small_parts() {
        assert_eq!(pieces_of(&[]), []);
        let records: Vec<Range<usize>> =
            (0..1000).map(|number| 100 + number * 1000..1100 + number * 1000).collect();
        let joined = 0..1_003_520;
        assert_eq!(pieces_of(&records), [joined]);
        let far = [0..PART_BYTES_MIN, 1 << 30..(1 << 30) + 4096, 2 << 30..(2 << 30) + 20_000_000];
        let pieces = pieces_of(&far);
        assert_eq!(pieces[0], 0..PART_BYTES_MIN);
        assert_eq!(pieces.len(), 4);
        assert_eq!(pieces[3].end, ((2usize << 30) + 20_000_000).next_multiple_of(4096));
    }

    fn addresses_of(memory: &[u8]) -> Range<usize> {
        let start = memory.as_ptr().addr();
        start..start + memory.len()
    }

    #[test]
    fn memory_has_its_pages_and_its_bytes() {
        let mut memory = vec![0u8; 3 * BYTES_MIN];
        memory[5] = 5;
        let addresses = addresses_of(&memory);
        let answer = with_pages(&[addresses], || {
            memory[6] = 6;
            7
        });
        assert_eq!((answer, memory[5], memory[6], memory[7]), (7, 5, 6, 0));
    }

    #[test]
    fn a_panic_of_the_work_passes_through() {
        let memory = vec![0u8; BYTES_MIN];
        let work = || with_pages(&[addresses_of(&memory)], || panic!("the work"));
        assert!(std::panic::catch_unwind(work).is_err());
    }
}
