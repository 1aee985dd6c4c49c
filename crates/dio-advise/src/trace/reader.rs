//! Reads a trace.

use std::io::{self, Read};

use super::encode::{Expected, Named, Payload};
use super::event::Event;
use super::frame::{FRAME_HEADER, FRAME_MAX, MAGIC, VERSION};

/// Why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file does not begin as a trace does.
    #[error("it is no trace")]
    Foreign,
    /// The trace has a version that this program does not know.
    #[error("it is a trace of version {0}, and this version of dio knows those up to {VERSION}")]
    Version(u32),
    /// Bytes of the trace have changed since they were written.
    #[error("it is damaged at byte {offset}: {what}; the events before that are sound")]
    Damaged {
        /// Where the damaged frame begins.
        offset: u64,
        /// The fault.
        what: &'static str,
    },
    /// It cannot be read.
    #[error("{0}")]
    Io(#[source] io::Error),
}

/// How a trace ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceEnd {
    /// With the last frame.
    Whole,
    /// In the middle of a frame: it was cut, or it still grows.
    Cut,
}

/// Reads a trace from its beginning and passes each event of its whole frames to `take`. Each
/// thread and file that a request names was passed on before it.
///
/// # Errors
/// See [`TraceError`]. The events before the error were passed on.
pub fn read(mut input: impl Read, mut take: impl FnMut(Event)) -> Result<TraceEnd, TraceError> {
    let mut head = [0; MAGIC.len() + 4];
    match fill(&mut input, &mut head)? {
        0 => return Err(TraceError::Foreign),
        length if !head[..length].starts_with(&MAGIC[..length.min(MAGIC.len())]) => {
            return Err(TraceError::Foreign);
        }
        length if length < head.len() => return Ok(TraceEnd::Cut),
        _ => {}
    }
    match little(&head[MAGIC.len()..]) {
        1..=VERSION => {}
        other => return Err(TraceError::Version(other)),
    }
    let (mut offset, mut payload) = (head.len() as u64, Vec::new());
    let mut named = Named::default();
    loop {
        let damaged = |what| TraceError::Damaged { offset, what };
        let mut header = [0; FRAME_HEADER];
        match fill(&mut input, &mut header)? {
            0 => return Ok(TraceEnd::Whole),
            FRAME_HEADER => {}
            _ => return Ok(TraceEnd::Cut),
        }
        let (length, sum) = (little(&header[..4]) as usize, little(&header[4..]));
        if length > FRAME_MAX {
            return Err(damaged("a frame is too long"));
        }
        payload.resize(length, 0);
        if fill(&mut input, &mut payload)? < length {
            return Ok(TraceEnd::Cut);
        }
        if crc32c::crc32c(&payload) != sum {
            return Err(damaged("a checksum is wrong"));
        }
        let (mut rest, mut expected) = (Payload(&payload), Expected::default());
        while !rest.0.is_empty() {
            take(
                rest.event(&mut named, &mut expected)
                    .ok_or_else(|| damaged("an event is unknown"))?,
            );
        }
        offset += (FRAME_HEADER + length) as u64;
    }
}

/// Reads until the buffer is full or the input ends; returns the number of bytes read.
fn fill(input: &mut impl Read, buffer: &mut [u8]) -> Result<usize, TraceError> {
    let mut length = 0;
    while length < buffer.len() {
        let read = || input.read(&mut buffer[length..]);
        match dio_sys::uninterrupted(read).map_err(TraceError::Io)? {
            0 => break,
            count => length += count,
        }
    }
    Ok(length)
}

fn little(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().expect("four bytes"))
}
