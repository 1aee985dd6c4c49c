//! From pipe to pipe: the kernel hands pages over instead of copying bytes (`splice(2)`).

use std::io;
use std::os::fd::BorrowedFd;

use dio::file::{Class, Counters};
use dio::stream::{Input, Output};
use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::pipe::{SpliceFlags, splice};

use crate::tool::Tool;

/// Most bytes asked for at a time; a pipe holds no more without privilege (`pipe(7)`).
const MOST: usize = 1 << 20;

/// Whether both ends are pipes.
pub(super) fn possible(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> bool {
    let is_pipe = |fd| rustix::fs::fstat(fd).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo);
    is_pipe(from) && is_pipe(to)
}

/// Moves everything, until the end or until the kernel declines to go on, which is no error: whoever reads `from` next
/// finds what is left. Fails if `to` does.
pub(super) fn all(tool: &Tool, from: &Input, to: &Output) -> io::Result<()> {
    let mut counters = Counters::default();
    let moved = loop {
        match splice(from.descriptor(), None, to.descriptor(), None, MOST, SpliceFlags::MOVE) {
            Ok(0) => break Ok(()),
            Ok(count) => {
                counters.read_requests += 1;
                counters.write_requests += 1;
                counters.read.add(Class::Piped, count as u64);
                counters.written.add(Class::Piped, count as u64);
                tool.progressed(count as u64);
            }
            Err(Errno::INTR) => {}
            Err(Errno::PIPE) => break Err(Errno::PIPE.into()),
            // A non-blocking pipe, or a kernel that cannot.
            Err(_) => break Ok(()),
        }
    };
    tool.ledger().count(&counters);
    moved
}
