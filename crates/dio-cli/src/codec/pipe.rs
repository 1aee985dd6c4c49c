//! An encoder behind `Write` and a decoder behind `Read`, each in a thread of its own beside the
//! workers it starts. They serve programs that produce or consume bytes one after the other, such
//! as an archiver.
//!
//! ```
//! use std::io::{BufReader, Cursor, Read, Write};
//! use dio_cli::codec::{gzip, pipe::{Compressor, Decompressor}};
//!
//! let encode = gzip::Encode { workers: 2, ..gzip::Encode::default() };
//! let mut compressor = Compressor::new(Vec::new(), move |read, write| {
//!     gzip::encode(read, write, &encode)
//! })?;
//! compressor.write_all(b"some bytes")?;
//! let (compressed, moved) = compressor.finish()?;
//! assert_eq!((moved.read, moved.written), (10, compressed.len() as u64));
//!
//! let input = BufReader::new(Cursor::new(compressed));
//! let mut text = String::new();
//! Decompressor::new(input, |read, write| gzip::decode(read, write, &gzip::Decode::default()))?
//!     .read_to_string(&mut text)?;
//! assert_eq!(text, "some bytes");
//! # Ok::<_, std::io::Error>(())
//! ```

use std::io::{self, BufRead, Read, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

use super::buffers::Buffers;
use super::{CodecTotals, DecodeError, EncodeError};

/// Bytes that pass from thread to thread at a time.
const BLOCK: usize = 256 << 10;
/// Blocks that may wait between the threads, so that both sides can be busy.
const DEPTH: usize = 4;

/// A message of the channel.
enum Message {
    /// A buffer, and the number of its bytes that are data.
    Bytes(Vec<u8>, usize),
    /// The regular end of the data. A channel that closes without it means that the writer failed
    /// midway.
    End,
}

/// Sends blocks to another thread.
struct Sender {
    channel: SyncSender<Message>,
    buffers: Arc<Buffers>,
    buffer: Vec<u8>,
    filled: usize,
}

/// The thread at the other end has gone.
#[derive(Debug)]
struct Disconnected;

impl Sender {
    fn put(&mut self, bytes: &[u8]) -> Result<usize, Disconnected> {
        if self.buffer.is_empty() {
            self.buffer = self.buffers.take(BLOCK);
        }
        let count = bytes.len().min(BLOCK - self.filled);
        self.buffer[self.filled..self.filled + count].copy_from_slice(&bytes[..count]);
        self.filled += count;
        if self.filled == BLOCK {
            self.send()?;
        }
        Ok(count)
    }

    fn send(&mut self) -> Result<(), Disconnected> {
        let (buffer, filled) = (std::mem::take(&mut self.buffer), std::mem::take(&mut self.filled));
        if filled == 0 {
            return Ok(());
        }
        self.channel.send(Message::Bytes(buffer, filled)).map_err(|_| Disconnected)
    }

    fn end(&mut self) -> Result<(), Disconnected> {
        self.send()?;
        self.channel.send(Message::End).map_err(|_| Disconnected)
    }
}

/// Receives blocks from another thread.
struct BlockReceiver {
    channel: Receiver<Message>,
    buffers: Arc<Buffers>,
    buffer: Vec<u8>,
    at: usize,
    filled: usize,
    ended: bool,
}

impl BlockReceiver {
    /// Returns the bytes that are available, waiting until there are some; returns none at the end.
    /// Fails if the sender disappeared before the end.
    fn fill(&mut self) -> Result<&[u8], Disconnected> {
        if self.at == self.filled && !self.ended {
            if !self.buffer.is_empty() {
                self.buffers.give(std::mem::take(&mut self.buffer));
            }
            (self.at, self.filled) = (0, 0);
            match self.channel.recv() {
                Ok(Message::Bytes(buffer, filled)) => (self.buffer, self.filled) = (buffer, filled),
                Ok(Message::End) => self.ended = true,
                Err(_) => return Err(Disconnected),
            }
        }
        Ok(&self.buffer[self.at..self.filled])
    }
}

fn channel() -> (Sender, BlockReceiver) {
    let (sender, receiver) = sync_channel(DEPTH);
    let buffers = Arc::new(Buffers::new());
    let taker = BlockReceiver {
        channel: receiver,
        buffers: Arc::clone(&buffers),
        buffer: Vec::new(),
        at: 0,
        filled: 0,
        ended: false,
    };
    (Sender { channel: sender, buffers, buffer: Vec::new(), filled: 0 }, taker)
}

/// The encoder's input.
struct EncoderInput(BlockReceiver);

impl Read for EncoderInput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let gone = |Disconnected| {
            io::Error::new(io::ErrorKind::UnexpectedEof, "the writer went away before the end")
        };
        let mut bytes = self.0.fill().map_err(gone)?;
        let count = bytes.read(buffer)?;
        self.0.at += count;
        Ok(count)
    }
}

/// The decoder's output. It forwards bytes at once, because the reader may be waiting for them.
struct DecoderOutput(Sender);

impl Write for DecoderOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let gone = |Disconnected| io::Error::from(io::ErrorKind::BrokenPipe);
        let count = self.0.put(bytes).map_err(gone)?;
        if count == bytes.len() {
            self.0.send().map_err(gone)?;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Joins the thread; a panic in it continues here.
fn join<R>(thread: JoinHandle<R>) -> R {
    thread.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload))
}

/// Compresses what is written to it and writes the result to `W`.
///
/// Memory: 6 blocks of 256 KiB in addition to the encoder's. An error of the encoder is returned by
/// a later write or by [`Compressor::finish`]. A compressor that is dropped without `finish` leaves
/// an incomplete stream.
#[derive(Debug)]
pub struct Compressor<W> {
    sender: Option<Sender>,
    thread: Option<JoinHandle<(W, Result<CodecTotals, EncodeError>)>>,
}

impl<W: Write + Send + 'static> Compressor<W> {
    /// Starts `encode`, which is [`gzip::encode`](super::gzip::encode) or a function like it, over
    /// `sink`.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn new<F>(mut sink: W, encode: F) -> io::Result<Compressor<W>>
    where
        F: FnOnce(
                &mut (dyn Read + Send),
                &mut (dyn Write + Send),
            ) -> Result<CodecTotals, EncodeError>
            + Send
            + 'static,
    {
        let (sender, taker) = channel();
        let work = move || {
            let result = encode(&mut EncoderInput(taker), &mut sink);
            (sink, result)
        };
        let thread = Builder::new().name("dio-encode".to_owned()).spawn(work)?;
        Ok(Compressor { sender: Some(sender), thread: Some(thread) })
    }

    /// Ends the stream and returns the sink, with everything written to it (but not flushed).
    ///
    /// # Errors
    /// The encoder's error.
    pub fn finish(mut self) -> io::Result<(W, CodecTotals)> {
        if let Some(mut sender) = self.sender.take() {
            // If the thread has gone, its result below gives the reason.
            let _ = sender.end();
        }
        let (sink, result) = join(self.thread.take().ok_or_else(failed_before)?);
        Ok((sink, result?))
    }

    /// Returns the reason why the encoder ended early.
    fn failure(&mut self) -> io::Error {
        self.sender = None;
        match self.thread.take().map(join) {
            Some((_, Err(error))) => error.into(),
            _ => failed_before(),
        }
    }
}

/// Returns the error for an encoder whose failure was already reported.
fn failed_before() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the encoder failed before")
}

impl<W: Write + Send + 'static> Write for Compressor<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sender = self.sender.as_mut().ok_or_else(failed_before)?;
        match sender.put(bytes) {
            Ok(count) => Ok(count),
            Err(Disconnected) => Err(self.failure()),
        }
    }

    /// Passes the bytes written so far to the encoder. It does not make the encoder emit them.
    fn flush(&mut self) -> io::Result<()> {
        let sender = self.sender.as_mut().ok_or_else(failed_before)?;
        match sender.send() {
            Ok(()) => Ok(()),
            Err(Disconnected) => Err(self.failure()),
        }
    }
}

impl<W> Drop for Compressor<W> {
    fn drop(&mut self) {
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Decompresses what it reads from `R`.
///
/// Memory: 6 blocks of 256 KiB in addition to the decoder's. An error of the decoder is returned at
/// its position, after the bytes decoded before it, as an [`io::Error`] with the [`DecodeError`]
/// inside; so is trailing garbage. When a decompressor is dropped before the end, its thread ends
/// by itself once the read that it waits for has returned.
#[derive(Debug)]
pub struct Decompressor<R> {
    taker: BlockReceiver,
    thread: Option<JoinHandle<(R, Result<CodecTotals, DecodeError>)>>,
    ended: Option<(R, Option<CodecTotals>)>,
}

impl<R: BufRead + Send + 'static> Decompressor<R> {
    /// Starts `decode`, which is [`gzip::decode`](super::gzip::decode) or a function like it, over
    /// `source`.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn new<F>(mut source: R, decode: F) -> io::Result<Decompressor<R>>
    where
        F: FnOnce(
                &mut (dyn BufRead + Send),
                &mut (dyn Write + Send),
            ) -> Result<CodecTotals, DecodeError>
            + Send
            + 'static,
    {
        let (sender, taker) = channel();
        let work = move || {
            let mut decoded = DecoderOutput(sender);
            let result = decode(&mut source, &mut decoded);
            if result.is_ok() {
                // If the reader has gone, the end marker is not needed.
                let _ = decoded.0.end();
            }
            (source, result)
        };
        let thread = Builder::new().name("dio-decode".to_owned()).spawn(work)?;
        Ok(Decompressor { taker, thread: Some(thread), ended: None })
    }

    /// Reads to the end, verifies all of it, and returns the source.
    ///
    /// # Errors
    /// The decoder's error, unless it was already returned.
    pub fn finish(mut self) -> io::Result<(R, CodecTotals)> {
        loop {
            let count = self.fill_buf()?.len();
            if count == 0 {
                break;
            }
            self.consume(count);
        }
        match self.ended.take() {
            Some((source, Some(moved))) => Ok((source, moved)),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "the decoder failed before")),
        }
    }

    /// Joins the decoder's thread and records its result.
    fn outcome(&mut self) -> io::Result<()> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        let (source, result) = join(thread);
        match result {
            Ok(moved) => self.ended = Some((source, Some(moved))),
            Err(error) => {
                self.ended = Some((source, None));
                return Err(error.into());
            }
        }
        Ok(())
    }
}

impl<R: BufRead + Send + 'static> Read for Decompressor<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

impl<R: BufRead + Send + 'static> BufRead for Decompressor<R> {
    /// After an error was returned, this returns an empty buffer, as at the end.
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let over = self.taker.fill().map_or(true, <[u8]>::is_empty);
        if over {
            self.taker.ended = true;
            self.outcome()?;
        }
        Ok(&self.taker.buffer[self.taker.at..self.taker.filled])
    }

    fn consume(&mut self, count: usize) {
        self.taker.at = (self.taker.at + count).min(self.taker.filled);
    }
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sender({} bytes)", self.filled)
    }
}

impl std::fmt::Debug for BlockReceiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Taker({} bytes)", self.filled - self.at)
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use std::io::{self, BufReader, Cursor, Read, Write};
    use std::sync::Arc;

    use dio_test::Rng;

    use super::{Compressor, Decompressor};
    use crate::codec::gzip::{Decode, Encode, decode, encode};
    use crate::codec::{Damage, DecodeError};

    const ENCODE: Encode<'static> =
        Encode { level: 1, workers: 2, name: None, mtime: None, members: false, stop: None };
    const DECODE: Decode<'static> =
        Decode { workers: 2, keep_damaged: false, pass_trailing: false, stop: None };

    fn compressed(data: &[u8], rng: &mut Rng) -> Vec<u8> {
        let mut compressor =
            Compressor::new(Vec::new(), |r, w| encode(r, w, &ENCODE)).expect("starts");
        let mut rest = data;
        while !rest.is_empty() {
            let count = rng.range_usize(0..400_000).min(rest.len());
            compressor.write_all(&rest[..count]).expect("writes");
            rest = &rest[count..];
        }
        let (out, moved) = compressor.finish().expect("finishes");
        assert_eq!((moved.read, moved.written), (data.len() as u64, out.len() as u64));
        out
    }

    fn decompressor(packed: &[u8]) -> Decompressor<BufReader<Cursor<Vec<u8>>>> {
        let source = BufReader::new(Cursor::new(packed.to_vec()));
        Decompressor::new(source, |r, w| decode(r, w, &DECODE)).expect("starts")
    }

    #[test]
    fn bytes_pass_both_ways() {
        let mut rng = Rng::new(1);
        for size in [0, 1, 256 << 10, 3_000_000] {
            let data = rng.bytes(size);
            let packed = compressed(&data, &mut rng);
            let mut reader = decompressor(&packed);
            let mut out = Vec::new();
            reader.read_to_end(&mut out).expect("reads");
            assert!(out == data);
            assert_eq!(reader.read(&mut [0; 10]).expect("reads on"), 0);
            let (_, moved) = reader.finish().expect("finishes");
            assert_eq!((moved.read, moved.written), (packed.len() as u64, size as u64));
            let (_, moved) = decompressor(&packed).finish().expect("finishes without being read");
            assert_eq!(moved.written, size as u64);
        }
    }

    #[test]
    fn damage_comes_out_in_its_place() {
        let mut rng = Rng::new(2);
        let data = rng.bytes(3_000_000);
        let mut packed = compressed(&data, &mut rng);
        packed.truncate(2_500_000);
        let mut reader = decompressor(&packed);
        let mut out = Vec::new();
        let error = reader.read_to_end(&mut out).expect_err("it is incomplete");
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        let inner = error.get_ref().and_then(|e| e.downcast_ref::<DecodeError>());
        assert!(matches!(
            inner,
            Some(DecodeError::Damaged { what: Damage::UnexpectedEnd, offset: 2_500_000, .. })
        ));
        assert!(out.len() > 2 << 20 && data.starts_with(&out));
        assert_eq!(reader.read(&mut [0; 10]).expect("an error is told once"), 0);
        assert!(reader.finish().is_err());

        let mut reader = decompressor(&[&compressed(b"abc", &mut rng)[..], b"garbage"].concat());
        let mut text = Vec::new();
        let error = reader.read_to_end(&mut text).expect_err("garbage");
        assert_eq!((&text[..], error.kind()), (&b"abc"[..], io::ErrorKind::InvalidData));
    }

    #[test]
    fn an_error_of_the_sink_reaches_whoever_writes() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let noise = Rng::new(3).bytes(1 << 20);
        let mut compressor = Compressor::new(Full, |r, w| encode(r, w, &ENCODE)).expect("starts");
        let error = (0..100)
            .find_map(|_| compressor.write_all(&noise).err())
            .expect("it must fail in the end");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(compressor.write(b"more").is_err() && compressor.finish().is_err());

        let mut compressor = Compressor::new(Full, |r, w| encode(r, w, &ENCODE)).expect("starts");
        compressor.write_all(b"little").expect("it is held");
        assert_eq!(compressor.finish().err().map(|e| e.kind()), Some(io::ErrorKind::StorageFull));
    }

    #[test]
    fn what_is_dropped_in_the_middle_leaves_no_whole_stream_and_no_thread_that_writes() {
        #[derive(Clone, Default)]
        struct Shared(Arc<Mutex<Vec<u8>>>);
        impl Write for Shared {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.lock().write(bytes)
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let sink = Shared::default();
        let mut compressor =
            Compressor::new(sink.clone(), |r, w| encode(r, w, &ENCODE)).expect("starts");
        compressor.write_all(&vec![1; 3 << 20]).expect("writes");
        drop(compressor);
        assert_eq!(Arc::strong_count(&sink.0), 1, "its thread is gone");
        let left = sink.0.lock().clone();
        assert!(left.is_empty() || decode(&mut &left[..], &mut io::sink(), &DECODE).is_err());

        let packed = compressed(&vec![7; 50_000_000], &mut Rng::new(4));
        let mut reader = decompressor(&packed);
        reader.read_exact(&mut [0; 100]).expect("reads");
        drop(reader);
    }
}
