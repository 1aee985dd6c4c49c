//! Zstandard decompression.

use std::borrow::Cow;
use std::io::{self, BufRead, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use ::zstd::zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, ResetDirective};

use dio_sys::uninterrupted;

use super::frame::{FrameStart, Header, LONGEST_HEADER, begins};
use super::words::words;
use crate::codec::{CodecTotals, Damage, DecodeError};

/// Options for decompressing.
#[derive(Clone, Debug)]
pub struct Decode {
    /// Frames that need a larger window than this many bytes are rejected.
    pub memory: u64,
    /// The dictionary that the data was compressed with.
    pub dictionary: Option<Arc<Vec<u8>>>,
    /// Passes on the bytes behind the last frame unchanged, instead of reporting them as garbage.
    pub pass_trailing: bool,
}

impl Default for Decode {
    /// The default of the `zstd` command: 128 MiB.
    fn default() -> Decode {
        Decode { memory: 128 << 20, dictionary: None, pass_trailing: false }
    }
}

/// Bytes of one output buffer.
const BUFFER: usize = 1 << 20;
const BUFFERS: usize = 4;

/// Input of up to a few of the library's blocks does not justify a thread.
const INLINE_BYTES_MAX: usize = 64 << 10;

/// Decompresses all frames of `input` and skips the skippable ones.
///
/// When it fails, everything decoded before the error has been written.
///
/// # Errors
/// See [`DecodeError`]. A checksum that does not match is reported at the end of its frame.
pub fn decode(
    input: &mut (dyn BufRead + Send),
    output: &mut (dyn Write + Send),
    how: &Decode,
) -> Result<CodecTotals, DecodeError> {
    if filled(input).map_err(DecodeError::Read)?.len() < INLINE_BYTES_MAX {
        return here(input, output, how);
    }
    match beside(input, output, how) {
        Some(decoded) => decoded,
        None => here(input, output, how),
    }
}

/// Decodes and writes in turn, in the calling thread.
fn here(
    input: &mut (dyn BufRead + Send),
    output: &mut (dyn Write + Send),
    how: &Decode,
) -> Result<CodecTotals, DecodeError> {
    Decoder::new(input, how)?.run(&mut SameThread { output, buffer: vec![0; BUFFER] })
}

/// Decodes in a new thread and writes in the calling one; returns `None`, with nothing done, if no
/// thread can be started.
fn beside(
    input: &mut (dyn BufRead + Send),
    output: &mut (dyn Write + Send),
    how: &Decode,
) -> Option<Result<CodecTotals, DecodeError>> {
    let (full, to_write) = sync_channel::<Vec<u8>>(BUFFERS);
    let (emptied, free) = sync_channel::<Vec<u8>>(BUFFERS);
    for _ in 0..BUFFERS {
        emptied.send(vec![0; BUFFER]).expect("there is room for all");
    }
    thread::scope(|threads| {
        let work =
            move || Decoder::new(input, how)?.run(&mut ToWriter { full, free, buffer: Vec::new() });
        let decoder =
            thread::Builder::new().name("zstd".into()).spawn_scoped(threads, work).ok()?;
        let mut failed = None;
        for buffer in to_write {
            if let Err(error) = output.write_all(&buffer) {
                failed = Some(DecodeError::Write(error));
                break;
            }
            // The send fails if the decoder has ended, which is harmless.
            let _ = emptied.send(buffer);
        }
        // The decoder ends when it can neither send a full buffer nor receive a free one.
        drop(emptied);
        let decoded = decoder.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Some(failed.map_or(decoded, Err))
    })
}

/// Returns the bytes that can be read, or none at the end.
fn filled(input: &mut (dyn BufRead + Send)) -> io::Result<&[u8]> {
    uninterrupted(|| input.fill_buf().map(drop))?;
    input.fill_buf()
}

/// The destination of decoded bytes.
trait DecodedOutput {
    /// Returns memory for the next bytes.
    fn buffer(&mut self) -> Result<&mut [u8], DecodeError>;
    /// Passes on the first `count` bytes of that memory.
    fn pass(&mut self, count: usize) -> Result<(), DecodeError>;
}

/// Writes to the output, in this thread.
struct SameThread<'a> {
    output: &'a mut (dyn Write + Send),
    buffer: Vec<u8>,
}

impl DecodedOutput for SameThread<'_> {
    fn buffer(&mut self) -> Result<&mut [u8], DecodeError> {
        Ok(&mut self.buffer)
    }
    fn pass(&mut self, count: usize) -> Result<(), DecodeError> {
        self.output.write_all(&self.buffer[..count]).map_err(DecodeError::Write)
    }
}

/// Sends to the thread that writes.
struct ToWriter {
    full: SyncSender<Vec<u8>>,
    free: Receiver<Vec<u8>>,
    buffer: Vec<u8>,
}

/// Returns the error for a writing thread that has failed; that thread reports the reason.
fn gone() -> DecodeError {
    DecodeError::Write(io::ErrorKind::BrokenPipe.into())
}

impl DecodedOutput for ToWriter {
    fn buffer(&mut self) -> Result<&mut [u8], DecodeError> {
        if self.buffer.is_empty() {
            self.buffer = self.free.recv().map_err(|_| gone())?;
            // The buffer has the length that it was filled to the last time.
            self.buffer.resize(BUFFER, 0);
        }
        Ok(&mut self.buffer)
    }
    fn pass(&mut self, count: usize) -> Result<(), DecodeError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.truncate(count);
        self.full.send(buffer).map_err(|_| gone())
    }
}

/// The state of decoding.
struct Decoder<'a> {
    input: &'a mut (dyn BufRead + Send),
    context: DCtx<'static>,
    memory: u64,
    pass_trailing: bool,
    /// Bytes of a frame's header that were taken from the input and not yet decoded.
    head: Vec<u8>,
    /// The offset in the input of the next byte to decode.
    offset: u64,
    /// Bytes in the output buffer.
    held: usize,
    /// Bytes of the output that belong to complete frames.
    sound: u64,
    moved: CodecTotals,
}

impl<'a> Decoder<'a> {
    fn new(input: &'a mut (dyn BufRead + Send), how: &Decode) -> Result<Decoder<'a>, DecodeError> {
        let mut context = DCtx::try_create()
            .ok_or_else(|| DecodeError::Read(io::ErrorKind::OutOfMemory.into()))?;
        let refused =
            |code| DecodeError::Read(io::Error::new(io::ErrorKind::InvalidInput, words(code)));
        // The library's maximum; [`Decode::memory`] is checked here instead.
        let most = if cfg!(target_pointer_width = "64") { 31 } else { 30 };
        context.set_parameter(DParameter::WindowLogMax(most)).map_err(refused)?;
        if let Some(dictionary) = &how.dictionary {
            context.load_dictionary(dictionary).map_err(refused)?;
        }
        let head = Vec::with_capacity(LONGEST_HEADER);
        Ok(Decoder {
            input,
            context,
            memory: how.memory,
            pass_trailing: how.pass_trailing,
            head,
            offset: 0,
            held: 0,
            sound: 0,
            moved: CodecTotals::default(),
        })
    }

    /// Decodes everything. If that fails, the bytes decoded before are still passed on.
    fn run(mut self, out: &mut impl DecodedOutput) -> Result<CodecTotals, DecodeError> {
        let ended = self.frames(out);
        if !matches!(ended, Err(DecodeError::Write(_))) && self.held > 0 {
            out.pass(self.held)?;
        }
        self.moved.read = self.offset;
        match ended {
            Ok(()) => Ok(self.moved),
            Err(DecodeError::Damaged { offset, what, sound, .. }) => {
                Err(DecodeError::Damaged { offset, what, sound, moved: self.moved })
            }
            Err(DecodeError::TrailingGarbage { offset, .. }) => {
                Err(DecodeError::TrailingGarbage { offset, moved: self.moved })
            }
            Err(error) => Err(error),
        }
    }

    fn frames(&mut self, out: &mut impl DecodedOutput) -> Result<(), DecodeError> {
        let mut any = false;
        loop {
            match self.begins()? {
                None if any => return Ok(()),
                None => return Err(self.damaged(Damage::UnexpectedEnd)),
                Some(FrameStart::Skippable(size)) => self.skip(size)?,
                Some(FrameStart::Frame(header)) => self.frame(&header, out)?,
                Some(_) if !any => return Err(DecodeError::NotInFormat),
                Some(_) if self.pass_trailing => return self.trailing(out),
                Some(_) => {
                    let moved = CodecTotals::default();
                    return Err(DecodeError::TrailingGarbage { offset: self.offset, moved });
                }
            }
            any = true;
        }
    }

    fn damaged(&self, what: Damage) -> DecodeError {
        DecodeError::Damaged {
            offset: self.offset,
            what,
            sound: self.sound,
            moved: CodecTotals::default(),
        }
    }

    /// Returns what comes next, with its header in `self.head`; `None` at the end of the input.
    fn begins(&mut self) -> Result<Option<FrameStart>, DecodeError> {
        self.head.clear();
        loop {
            let wanted = match begins(&self.head) {
                FrameStart::More(wanted) => wanted,
                other => return Ok(Some(other)),
            };
            let bytes = filled(self.input).map_err(DecodeError::Read)?;
            let count = bytes.len().min(wanted - self.head.len());
            if count == 0 {
                return match self.head.is_empty() {
                    true => Ok(None),
                    false if self.head.len() < 4 && self.pass_trailing && self.offset > 0 => {
                        Ok(Some(FrameStart::Other))
                    }
                    false if self.head.len() < 4 && self.moved.members == 0 => {
                        Err(DecodeError::NotInFormat)
                    }
                    false => {
                        self.offset += self.head.len() as u64;
                        Err(self.damaged(Damage::UnexpectedEnd))
                    }
                };
            }
            self.head.extend_from_slice(&bytes[..count]);
            self.input.consume(count);
        }
    }

    /// Passes on the rest of the input unchanged, beginning with the header bytes that were taken.
    fn trailing(&mut self, out: &mut impl DecodedOutput) -> Result<(), DecodeError> {
        let mut count = self.head.len();
        copy(&self.head, out, &mut self.held)?;
        while count > 0 {
            self.offset += count as u64;
            self.moved.written += count as u64;
            let bytes = filled(self.input).map_err(DecodeError::Read)?;
            count = bytes.len();
            copy(bytes, out, &mut self.held)?;
            self.input.consume(count);
        }
        self.sound = self.moved.written;
        Ok(())
    }

    /// Skips a frame of `size` bytes, whose header was taken.
    fn skip(&mut self, size: u64) -> Result<(), DecodeError> {
        let mut left = size - self.head.len() as u64;
        self.offset += self.head.len() as u64;
        while left > 0 {
            let count = filled(self.input)
                .map_err(DecodeError::Read)?
                .len()
                .min(usize::try_from(left).unwrap_or(usize::MAX));
            if count == 0 {
                return Err(self.damaged(Damage::UnexpectedEnd));
            }
            self.input.consume(count);
            self.offset += count as u64;
            left -= count as u64;
        }
        Ok(())
    }

    fn frame(&mut self, header: &Header, out: &mut impl DecodedOutput) -> Result<(), DecodeError> {
        if header.window > self.memory {
            let what = format!(
                "Frame requires too much memory for decoding: its window is of {} bytes, {} are \
                 allowed",
                header.window, self.memory
            );
            return Err(self.damaged(Damage::Header(what.into())));
        }
        // A previous frame may have been damaged. Resetting keeps the dictionary.
        let _ = self.context.reset(ResetDirective::SessionOnly);
        let head = std::mem::take(&mut self.head);
        let mut step = self.feed(&head, out)?;
        self.offset += head.len() as u64;
        self.head = head;
        // The library asks for the rest of a block, or of its header, so an error can name the
        // block.
        while let Some(wanted) = step {
            let input = filled(self.input).map_err(DecodeError::Read)?;
            if input.is_empty() {
                return Err(self.damaged(Damage::UnexpectedEnd));
            }
            let count = input.len().min(wanted.max(1));
            // A free function, because the input is borrowed while the context and the output
            // change.
            let fed = feed(
                &mut self.context,
                &input[..count],
                out,
                &mut self.held,
                &mut self.moved.written,
            );
            step = fed.map_err(|failed| self.told(failed))?;
            self.input.consume(count);
            self.offset += count as u64;
        }
        // The library does not compare the length where the last block is empty.
        let computed = self.moved.written - self.sound;
        if let Some(stored) = header.content.filter(|stored| *stored != computed) {
            return Err(self.damaged(Damage::Length { stored, computed }));
        }
        self.moved.members += 1;
        self.sound = self.moved.written;
        Ok(())
    }

    fn feed(
        &mut self,
        bytes: &[u8],
        out: &mut impl DecodedOutput,
    ) -> Result<Option<usize>, DecodeError> {
        let fed = feed(&mut self.context, bytes, out, &mut self.held, &mut self.moved.written);
        fed.map_err(|failed| self.told(failed))
    }

    fn told(&self, failed: Failed) -> DecodeError {
        match failed {
            Failed::Out(error) => error,
            Failed::Library(code) => self.damaged(Damage::Data(Cow::Borrowed(words(code)))),
        }
    }
}

/// Why a decoding step failed.
enum Failed {
    Library(usize),
    Out(DecodeError),
}

/// Copies bytes unchanged behind the `held` ones.
fn copy(
    mut bytes: &[u8],
    out: &mut impl DecodedOutput,
    held: &mut usize,
) -> Result<(), DecodeError> {
    while !bytes.is_empty() {
        let buffer = &mut out.buffer()?[*held..];
        let (now, later) = bytes.split_at(bytes.len().min(buffer.len()));
        buffer[..now.len()].copy_from_slice(now);
        let is_full = now.len() == buffer.len();
        *held += now.len();
        bytes = later;
        if is_full {
            out.pass(std::mem::take(held))?;
        }
    }
    Ok(())
}

/// Decodes all of `bytes`, which lie within one frame. Returns how many bytes the library needs
/// next, or `None` at the end of the frame.
fn feed(
    context: &mut DCtx<'_>,
    bytes: &[u8],
    out: &mut impl DecodedOutput,
    held: &mut usize,
    written: &mut u64,
) -> Result<Option<usize>, Failed> {
    let mut from = InBuffer::around(bytes);
    loop {
        let buffer = out.buffer().map_err(Failed::Out)?;
        let room = buffer.len();
        let mut to = OutBuffer::around_pos(buffer, *held);
        let wanted = context.decompress_stream(&mut to, &mut from).map_err(Failed::Library)?;
        let now = to.pos();
        *written += (now - *held) as u64;
        *held = now;
        let full = now == room;
        if full {
            out.pass(now).map_err(Failed::Out)?;
            *held = 0;
        }
        if wanted == 0 {
            return Ok(None);
        }
        if from.pos() == bytes.len() && !full {
            return Ok(Some(wanted));
        }
    }
}
