//! Writes a trace.

use std::io::{self, Write};

use super::encode::{Expected, encode};
use super::event::Event;
use super::frame::{FRAME_HEADER, FRAME_MAX, MAGIC, VERSION};
use super::sink::EventSink;

/// A frame is written when its payload is as long as this.
const FRAME_BYTES: usize = 64 << 10;

/// Writes events as frames: when one is full, and when it is flushed. What was added since is lost
/// if the writer is dropped.
#[derive(Debug)]
pub struct TraceWriter<W> {
    out: W,
    /// The frame, with room for its header.
    frame: Vec<u8>,
    expected: Expected,
}

impl<W: Write> TraceWriter<W> {
    /// Begins a trace.
    ///
    /// # Errors
    /// Those of writing.
    pub fn new(mut out: W) -> io::Result<TraceWriter<W>> {
        out.write_all(MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        Ok(TraceWriter { out, frame: vec![0; FRAME_HEADER], expected: Expected::default() })
    }

    /// Writes what was added, and returns what the trace was written to.
    ///
    /// # Errors
    /// As [`TraceWriter::flush`].
    pub fn finish(mut self) -> io::Result<W> {
        self.flush()?;
        Ok(self.out)
    }
}

impl<W: Write> EventSink for TraceWriter<W> {
    fn add(&mut self, event: &Event) -> io::Result<()> {
        encode(event, &mut self.expected, &mut self.frame);
        if self.frame.len() >= FRAME_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        let payload = &self.frame[FRAME_HEADER..];
        if payload.is_empty() {
            return Ok(());
        }
        if payload.len() > FRAME_MAX {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "an event of a trace is too long",
            ));
        }
        let (length, sum) = (payload.len() as u32, crc32c::crc32c(payload));
        self.frame[..4].copy_from_slice(&length.to_le_bytes());
        self.frame[4..FRAME_HEADER].copy_from_slice(&sum.to_le_bytes());
        self.out.write_all(&self.frame)?;
        self.frame.truncate(FRAME_HEADER);
        self.expected = Expected::default();
        self.out.flush()
    }
}
