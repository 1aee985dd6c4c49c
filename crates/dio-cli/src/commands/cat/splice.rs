//! From pipe to pipe: the kernel hands pages over instead of copying bytes (`splice(2)`).

use std::io;
use std::os::fd::BorrowedFd;

use dio::file::{Class, Counters};
use dio::stream::pipe;
use rustix::fs::FileType;
use rustix::io::Errno;

use crate::tool::{Sink, Source, Tool};

/// Most bytes asked for at a time; a pipe holds no more without privilege (`pipe(7)`).
const MOST: usize = 1 << 20;

/// Whether both ends are pipes.
pub(super) fn possible(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> bool {
    let is_pipe = |fd| rustix::fs::fstat(fd).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo);
    is_pipe(from) && is_pipe(to)
}

/// Moves everything, until the end or until the kernel declines to go on, which is no error:
/// whoever reads `from` next finds what is left. Fails if `to` does.
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
            // A kernel that cannot.
            Err(_) => break Ok(()),
        }
    };
    from.also_moved(&read);
    to.also_moved(&written);
    moved
}
