//! Opens archives for reading, and decompresses them if necessary.

use std::ffi::OsStr;
use std::io::{self, BufRead, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::io::Errno;

use super::program::Decompressing;
use super::quoting::escaped;
use super::run::{EarlyEnd, TarRun};
use super::terms::Compression;
use crate::codec::pipe::Decompressor;
use crate::codec::{CodecTotals, DecodeError, gzip, zstd};
use crate::tool::{Source, errno_of};

/// Number of leading bytes that identify the compression.
const MAGIC: usize = 6;

/// An archive as a stream of blocks.
#[derive(Debug)]
pub(super) struct Archive {
    /// Bytes that were read to recognise the compression; the cursor is at the next byte to hand
    /// out.
    head: io::Cursor<Vec<u8>>,
    way: Backend,
    /// Whether parts may be skipped by seeking.
    may_seek: bool,
}

#[derive(Debug)]
enum Backend {
    Plain(Box<Source>),
    Program(Box<Decompressing>),
    Decompressor(Box<Decompressor<Source>>),
}

/// Opens the archive of the command line. Its compression is recognised unless an option names it.
///
/// # Errors
/// The archive cannot be opened or read; its decompression program cannot be started.
pub(super) fn open(run: &TarRun) -> Result<Archive, EarlyEnd> {
    let name = &run.options.archive;
    if name == "-" && rustix::termios::isatty(io::stdin()) {
        return Err(EarlyEnd::Fatal(
            "Refusing to read archive contents from terminal (missing -f option?)".into(),
        ));
    }
    open_named(run, name.as_ref(), run.options.compression.clone())
}

/// Opens the archive `name`. Its compression is recognised unless `compression` gives it.
///
/// # Errors
/// As [`open`].
pub(super) fn open_named(
    run: &TarRun,
    name: &Path,
    compression: Option<Compression>,
) -> Result<Archive, EarlyEnd> {
    let bytes = name.as_os_str().as_bytes();
    let mut source =
        run.tool.open(name).map_err(|error| EarlyEnd::on(bytes, "open", errno_of(&error)))?;
    let (head, found) = match compression {
        Some(compression) => (Vec::new(), Some(compression)),
        None => {
            recognise(&mut source).map_err(|error| EarlyEnd::on(bytes, "read", errno_of(&error)))?
        }
    };
    let way = match found {
        None => {
            let may_seek = run.options.may_seek;
            return Ok(Archive {
                head: io::Cursor::new(head),
                way: Backend::Plain(Box::new(source)),
                may_seek,
            });
        }
        Some(Compression::Gzip) => {
            let how = gzip::Decode { workers: workers(), ..gzip::Decode::default() };
            decompressor(bytes, source, head, move |read, write| gzip::decode(read, write, &how))?
        }
        Some(Compression::Zstd) => decompressor(bytes, source, head, |read, write| {
            zstd::decode(read, write, &zstd::Decode::default())
        })?,
        Some(Compression::Program(words)) => {
            Backend::Program(Box::new(Decompressing::start(run, &words, head, source)?))
        }
    };
    Ok(Archive { head: io::Cursor::default(), way, may_seek: false })
}

/// Number of threads that compress or decompress.
pub(super) fn workers() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Starts a decoder in its own threads; its input is `head` and then all of `source`.
fn decompressor<F>(
    name: &[u8],
    source: Source,
    head: Vec<u8>,
    decode: F,
) -> Result<Backend, EarlyEnd>
where
    F: FnOnce(
            &mut (dyn BufRead + Send),
            &mut (dyn Write + Send),
        ) -> Result<CodecTotals, DecodeError>
        + Send
        + 'static,
{
    let whole = move |read: &mut (dyn BufRead + Send), write: &mut (dyn Write + Send)| match head
        .is_empty()
    {
        true => decode(read, write),
        false => decode(&mut io::Cursor::new(head).chain(read), write),
    };
    let started = Decompressor::new(source, whole);
    Ok(Backend::Decompressor(Box::new(
        started.map_err(|error| EarlyEnd::on(name, "start a thread", errno_of(&error)))?,
    )))
}

/// Recognises the compression of a source. Returns it with the bytes that had to be consumed for
/// that.
fn recognise(source: &mut Source) -> io::Result<(Vec<u8>, Option<Compression>)> {
    let there = source.fill_buf()?;
    if there.len() >= MAGIC || there.is_empty() {
        return Ok((Vec::new(), compression_of(there)));
    }
    // A pipe may return fewer bytes than the magic number has.
    let mut head = Vec::new();
    source.by_ref().take(MAGIC as u64).read_to_end(&mut head)?;
    let found = compression_of(&head);
    Ok((head, found))
}

/// Recognises a compression by the first bytes, as GNU tar does (`src/buffer.c`).
fn compression_of(head: &[u8]) -> Option<Compression> {
    let program = |name: &str| Some(Compression::Program(vec![name.into()]));
    match head {
        [0x1f, 0x8b, ..] => Some(Compression::Gzip),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Compression::Zstd),
        [0x1f, 0x9d, ..] => program("compress"),
        [b'B', b'Z', b'h', ..] => program("bzip2"),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => program("xz"),
        [0x5d, 0, 0, ..] | [0xff, b'L', b'Z', b'M', b'A', ..] => program("lzma"),
        [b'L', b'Z', b'I', b'P', ..] => program("lzip"),
        [0x89, b'L', b'Z', b'O', 0, ..] => program("lzop"),
        _ => None,
    }
}

impl Archive {
    /// Whether the archive is compressed, so that it cannot be written to or positioned.
    pub(super) fn is_compressed(&self) -> bool {
        !matches!(self.way, Backend::Plain(_))
    }

    /// The source, if the archive is neither compressed nor partly in `head`: the chunks of the
    /// source, from its current position on, are then those of the archive.
    pub(super) fn source(&mut self) -> Option<&mut Source> {
        let all_read = self.head.position() == self.head.get_ref().len() as u64;
        match &mut self.way {
            Backend::Plain(source) if all_read => Some(source),
            _ => None,
        }
    }

    /// The reader for the bytes after `head`.
    fn behind_head(&mut self) -> &mut dyn BufRead {
        match &mut self.way {
            Backend::Plain(source) => &mut **source,
            Backend::Program(program) => &mut **program,
            Backend::Decompressor(decoder) => &mut **decoder,
        }
    }

    /// Ends reading. `complete` says that the end of the archive was reached; only then must the
    /// decompressor also have ended without error.
    ///
    /// # Errors
    /// Reading the source or decompressing failed.
    pub(super) fn close(self, run: &TarRun, complete: bool) -> Result<(), EarlyEnd> {
        let failed = |error: io::Error| match errno_of(&error) {
            Errno::PIPE => EarlyEnd::Told,
            errno => EarlyEnd::on(run.options.archive.as_bytes(), "close", errno),
        };
        match self.way {
            Backend::Plain(source) => source.close().map_err(failed),
            Backend::Program(program) => program.close(run, complete),
            Backend::Decompressor(decoder) if complete => {
                let (source, _) = decoder
                    .finish()
                    .map_err(|error| EarlyEnd::Fatal(damage(&run.options.archive, &error)))?;
                source.close().map_err(failed)
            }
            Backend::Decompressor(_) => Ok(()),
        }
    }
}

/// The message for an error in a compressed archive, with the position of the damage.
fn damage(archive: &OsStr, error: &io::Error) -> String {
    let name = escaped(archive.as_bytes());
    match error.get_ref().and_then(|inner| inner.downcast_ref::<DecodeError>()) {
        Some(damage) => format!("{name}: {damage}"),
        None => format!("{name}: Cannot read: {}", crate::quote::words(errno_of(error))),
    }
}

impl super::format::Archive for Archive {
    /// Seeks where that is possible, and reads otherwise.
    fn pass(&mut self, bytes: u64) -> io::Result<u64> {
        let in_head = bytes.min(self.head.get_ref().len() as u64 - self.head.position());
        self.head.set_position(self.head.position() + in_head);
        let rest = bytes - in_head;
        let passed = match &mut self.way {
            Backend::Plain(source) if self.may_seek => source.skip(rest)?,
            _ => io::copy(&mut self.behind_head().take(rest), &mut io::sink())?,
        };
        Ok(in_head + passed)
    }
}

impl Read for Archive {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.head.read(buffer)? {
            0 => self.behind_head().read(buffer),
            count => Ok(count),
        }
    }
}

impl BufRead for Archive {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.head.position() < self.head.get_ref().len() as u64 {
            return self.head.fill_buf();
        }
        self.behind_head().fill_buf()
    }

    fn consume(&mut self, count: usize) {
        if self.head.position() < self.head.get_ref().len() as u64 {
            return self.head.consume(count);
        }
        self.behind_head().consume(count);
    }
}
