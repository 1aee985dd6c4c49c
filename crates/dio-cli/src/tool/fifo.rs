//! Opens a FIFO in a process whose signal handlers only set a flag.

use std::os::fd::OwnedFd;
use std::time::Duration;

use dio::stream::pipe::wait_readable;
use dio_sys::uninterrupted;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use super::errno_of;
use crate::stop::Stop;

/// The time between two checks for a request to stop.
const PAUSE: Duration = Duration::from_millis(50);

/// Opens a FIFO: calls `open` with a flag to add to its own. A plain open waits for the other end
/// (`fifo(7)`), and the kernel resumes that wait after a signal whose handler returns. So the FIFO
/// is opened without waiting, and the state of the other end is polled.
///
/// # Errors
/// Errors of `open`; ECANCELED once a stop is requested.
pub(crate) fn open_fifo(
    stop: &Stop,
    mut open: impl FnMut(OFlags) -> Result<OwnedFd, Errno>,
) -> Result<OwnedFd, Errno> {
    let fd = loop {
        match uninterrupted(|| open(OFlags::NONBLOCK)) {
            // No process has it open for reading.
            Err(Errno::NXIO) if stop.asked() => return Err(Errno::CANCELED),
            Err(Errno::NXIO) => std::thread::sleep(PAUSE),
            opened => break opened?,
        }
    };
    // For reading, the open succeeds without a writer. A FIFO that never had a writer is not at its
    // end, so wait for one.
    let flags = fcntl_getfl(&fd)?;
    while !flags.contains(OFlags::WRONLY)
        && !wait_readable(&fd, Some(PAUSE)).map_err(|error| errno_of(&error))?
    {
        if stop.asked() {
            return Err(Errno::CANCELED);
        }
    }
    fcntl_setfl(&fd, flags - OFlags::NONBLOCK)?;
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    #[test]
    fn both_ends_are_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fifo");
        mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
        let open = |flags: OFlags| {
            open_fifo(Stop::on_signals(), |more| {
                rustix::fs::open(&path, flags | more, Mode::empty())
            })
        };
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut text = String::new();
                std::fs::File::from(open(OFlags::RDONLY).unwrap())
                    .read_to_string(&mut text)
                    .unwrap();
                text
            });
            std::thread::sleep(4 * PAUSE);
            assert!(!reader.is_finished(), "nobody has written");
            std::fs::File::from(open(OFlags::WRONLY).unwrap()).write_all(b"words").unwrap();
            assert_eq!(reader.join().unwrap(), "words");
        });
        // A writer that writes nothing still produces an end of file.
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut bytes = Vec::new();
                std::fs::File::from(open(OFlags::RDONLY).unwrap()).read_to_end(&mut bytes).unwrap()
            });
            drop(open(OFlags::WRONLY).unwrap());
            assert_eq!(reader.join().unwrap(), 0);
        });
    }
}
