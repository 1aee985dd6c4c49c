//! From pipe to pipe: the kernel moves pages instead of copying bytes (`splice(2)`).

use std::io;
use std::os::fd::BorrowedFd;

use dio::file::{Class, Counters};
use dio::stream::pipe;
use rustix::fs::FileType;
use rustix::io::Errno;

use crate::tool::{Sink, Source, Tool};

/// Maximum number of bytes per call. A pipe holds no more without privileges (`pipe(7)`).
const MOST: usize = 1 << 20;

/// Returns whether both ends are pipes.
pub(super) fn possible(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> bool {
    let is_pipe = |fd| {
        rustix::fs::fstat(fd)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo)
    };
    is_pipe(from) && is_pipe(to)
}

/// Moves bytes until the input ends or the kernel refuses to continue. A refusal is no error: the
/// rest can still be read from `from`. Fails if `to` has no reader (EPIPE).
pub(super) fn all(tool: &Tool, from: &mut Source, to: &mut Sink) -> io::Result<()> {
    let (mut read, mut written) = (Counters::default(), Counters::default());
    let moved = loop {
        match pipe::splice(from.descriptor(), to.descriptor(), MOST) {
            Ok(0) => break Ok(()),
            Ok(count) => {
                read.read_requests += 1;
                written.write_requests += 1;
                read.read.add(Class::Piped, count as u64);
                written.written.add(Class::Piped, count as u64);
                tool.progressed(count as u64);
            }
            Err(Errno::PIPE) => break Err(Errno::PIPE.into()),
            // The kernel does not support this splice.
            Err(_) => break Ok(()),
        }
    };
    from.also_moved(&read);
    to.also_moved(&written);
    moved
}
