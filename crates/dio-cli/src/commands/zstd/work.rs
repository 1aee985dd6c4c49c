//! Compresses or decompresses the bytes of a source into a target.

use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::{Fatal, ZstdRun};
use crate::codec::{CodecTotals, Damage, DecodeError, EncodeError, zstd};
use crate::commands::compress::{OutputFile, Watched, WatchedSink, pass};
use crate::quote::words;
use crate::tool::held::Broken;
use crate::tool::{Sink, Source, errno_of};

/// The outcome; errors have been reported.
pub(super) enum ZstdOutcome {
    Well(CodecTotals),
    /// The input was damaged, and the part before the damage is kept.
    Salvaged(CodecTotals),
    Badly,
}

impl ZstdRun {
    /// Compresses or decompresses a source into the common target.
    pub(super) fn joined_process(
        &mut self,
        shown: &Path,
        size: Option<u64>,
        source: &mut Source,
    ) -> Result<ZstdOutcome, Fatal> {
        if self.args.test {
            let passes = self.plan.pass_through.unwrap_or(false);
            return Ok(self.work(shown, size, source, &mut WatchedSink::new(None, false), passes));
        }
        self.open_joined()?;
        let Some((target, mut sink)) = self.joined.take() else { return Err(Fatal) };
        let file = target.as_ref().is_some_and(OutputFile::is_regular);
        let asked = self.args.sparse == Some(true) && sink.file().is_some();
        let sparse = asked || (file && self.decompress() && self.args.sparse != Some(false));
        let mut watched = WatchedSink::new(Some(&mut sink), sparse);
        // By default, data that cannot be decompressed is passed on to standard output only.
        let passes = self.plan.pass_through.unwrap_or(self.args.force && target.is_none());
        let done = self.work(shown, size, source, &mut watched, passes);
        let (failed, zeros) = (watched.failed.take(), watched.zeros_at_end());
        let made_longer = lengthen(&mut sink, zeros).map_err(|error| errno_of(&error));
        if let Some(errno) = failed.or(made_longer.err()) {
            self.output_failed(target.as_ref(), errno);
            return Err(Fatal);
        }
        self.joined = Some((target, sink));
        if matches!(done, ZstdOutcome::Badly)
            && self.args.output.is_some()
            && self.total.wanted == 1
        {
            // The target cannot become complete.
            self.joined = None;
        }
        Ok(done)
    }

    /// Compresses or decompresses a source into a target of its own.
    pub(super) fn process(
        &mut self,
        shown: &Path,
        size: Option<u64>,
        source: &mut Source,
        to: Option<(Sink, &OutputFile)>,
    ) -> ZstdOutcome {
        let Some((mut sink, target)) = to else { return ZstdOutcome::Badly };
        let sparse = self.decompress() && self.args.sparse != Some(false) && target.is_regular();
        let mut watched = WatchedSink::new(Some(&mut sink), sparse);
        let passes = self.plan.pass_through.unwrap_or(false);
        let done = self.work(shown, size, source, &mut watched, passes);
        let (mut failed, zeros) = (watched.failed.take(), watched.zeros_at_end());
        if matches!(done, ZstdOutcome::Badly) && failed.is_none() {
            return ZstdOutcome::Badly;
        }
        if failed.is_none() {
            let closed = lengthen(&mut sink, zeros).and_then(|()| sink.close());
            failed = closed.err().map(|error| errno_of(&error));
        }
        match failed {
            Some(errno) => {
                self.output_failed(Some(target), errno);
                ZstdOutcome::Badly
            }
            None => done,
        }
    }

    /// Compresses or decompresses; `passes` says whether uncompressed data is passed on.
    fn work(
        &self,
        shown: &Path,
        size: Option<u64>,
        source: &mut Source,
        sink: &mut WatchedSink<'_>,
        passes: bool,
    ) -> ZstdOutcome {
        let mut input = Watched::new(&self.tool, source, self.stop);
        if self.decompress() {
            return self.decode(shown, &mut input, sink, passes);
        }
        match zstd::encode(&mut input, sink, &self.encode(size)) {
            Ok(moved) => ZstdOutcome::Well(moved),
            Err(EncodeError::Read(error)) => {
                if !self.stopped() {
                    // An error of the library has no errno.
                    let why = match error.kind() {
                        std::io::ErrorKind::InvalidInput if error.raw_os_error().is_none() => {
                            error.to_string()
                        }
                        _ => words(errno_of(&error)),
                    };
                    self.failed(shown, &format!("Read error : {why}"));
                }
                ZstdOutcome::Badly
            }
            // The sink has recorded a write error.
            Err(EncodeError::Write(_) | EncodeError::Stopped) => ZstdOutcome::Badly,
        }
    }

    fn read_failed(&self, shown: &Path, error: &std::io::Error) -> ZstdOutcome {
        if !self.stopped() {
            self.failed(shown, &format!("Read error : {}", words(errno_of(error))));
        }
        ZstdOutcome::Badly
    }

    fn decode(
        &self,
        path: &Path,
        input: &mut Watched<'_>,
        sink: &mut WatchedSink<'_>,
        passes: bool,
    ) -> ZstdOutcome {
        let shown = path.as_os_str().as_bytes();
        let head = match input.peek(4) {
            Ok(head) => head,
            Err(error) => return self.read_failed(path, &error),
        };
        let empty = head.is_empty();
        if passes && !empty && crate::codec::detect(head) != Some(crate::codec::Format::Zstd) {
            return self.pass(path, input, sink);
        }
        let short = head.len() < 4;
        let damaged = |parts: &[&[u8]]| {
            self.tool.fail();
            self.say(1, &[shown, b" : ", &parts.concat(), b" \n"]);
        };
        let how = zstd::Decode { pass_trailing: passes, ..self.plan.decode.clone() };
        match zstd::decode(input, sink, &how) {
            Ok(moved) => return ZstdOutcome::Well(moved),
            Err(DecodeError::Read(error)) => return self.read_failed(path, &error),
            Err(DecodeError::Write(_) | DecodeError::Stopped) => {}
            Err(DecodeError::NotInFormat) if short => self.failed(path, "unknown header"),
            Err(DecodeError::NotInFormat) => self.failed(path, "unsupported format"),
            Err(DecodeError::TrailingGarbage { offset, moved }) => {
                self.failed(path, &format!("unsupported format, at byte {offset}"));
                return self.salvaged(shown, moved.written, moved);
            }
            Err(DecodeError::Damaged { offset, what, sound, moved }) => {
                match &what {
                    Damage::UnexpectedEnd if empty => self.failed(path, "unexpected end of file"),
                    Damage::UnexpectedEnd => {
                        damaged(&[
                            format!("Read error (39) : premature end, at byte {offset}").as_bytes()
                        ]);
                    }
                    Damage::Header(what) | Damage::Data(what) => {
                        damaged(&[
                            format!("Decoding error (36) : {what}, at byte {offset}").as_bytes()
                        ]);
                    }
                    other => damaged(&[
                        format!("Decoding error (36) : {other}, at byte {offset}").as_bytes()
                    ]),
                }
                return self.salvaged(shown, sound, moved);
            }
        }
        ZstdOutcome::Badly
    }

    /// Handles a damaged input: decides whether the decoded part is kept.
    fn salvaged(&self, shown: &[u8], sound: u64, moved: CodecTotals) -> ZstdOutcome {
        if !self.args.salvage {
            return ZstdOutcome::Badly;
        }
        let written = moved.written;
        self.tell(
            1,
            &[
                shown,
                format!(": {written} bytes were kept, {sound} of them are known to be sound")
                    .as_bytes(),
            ],
        );
        ZstdOutcome::Salvaged(moved)
    }

    /// Passes on uncompressed bytes.
    fn pass(
        &self,
        shown: &Path,
        input: &mut Watched<'_>,
        sink: &mut WatchedSink<'_>,
    ) -> ZstdOutcome {
        match pass(input, sink) {
            Ok(moved) => ZstdOutcome::Well(moved),
            Err(Broken::Read(error)) => self.read_failed(shown, &error),
            // The sink has recorded a write error.
            Err(Broken::Write(_)) => ZstdOutcome::Badly,
        }
    }
}

/// Extends a file by the zeros that were skipped at its end, and continues behind them.
fn lengthen(sink: &mut Sink, zeros: u64) -> std::io::Result<()> {
    if zeros == 0 {
        return Ok(());
    }
    sink.flush()?;
    let end = sink.position() + zeros;
    dio::names::ftruncate(sink.descriptor(), end)?;
    sink.seek(end)
}
