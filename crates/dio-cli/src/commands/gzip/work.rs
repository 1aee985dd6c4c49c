//! Compresses or decompresses the bytes of a source into a target.

use std::io::BufRead;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::list::ratio;
use super::member::{FirstHeader, Unsupported, first};
use super::{Fatal, GzipRun};
use crate::codec::{CodecTotals, Damage, DecodeError, EncodeError, gzip};
use crate::commands::compress::{OutputFile, Watched, WatchedSink, pass};
use crate::quote::words;
use crate::stop::Stop;
use crate::tool::held::Broken;
use crate::tool::{Source, errno_of};

/// A source to process.
pub(super) struct GzipJob<'a> {
    /// The name of the source in messages.
    pub(super) shown: &'a Path,
    /// The name for the header.
    pub(super) name: Option<Vec<u8>>,
    /// The modification time of the source.
    pub(super) mtime: Option<i64>,
    pub(super) is_stdin: bool,
}

/// The result of processing a source.
#[derive(Debug)]
pub(super) struct Account {
    pub(super) moved: CodecTotals,
    /// Whether garbage follows the last member; it was reported.
    pub(super) garbage: bool,
    /// Bytes of the first header and the trailer, which GNU gzip does not count as compressed data.
    header: u64,
}

impl Account {
    /// Returns how much smaller the compressed form is.
    pub(super) fn ratio(&self, decompressed: bool) -> String {
        let (large, small) = match decompressed {
            true => (self.moved.written, self.moved.read),
            false => (self.moved.read, self.moved.written),
        };
        ratio(i128::from(large) - (i128::from(small) - i128::from(self.header)), large)
    }
}

/// The outcome; errors have been reported.
pub(super) enum GzipOutcome {
    Well(Account),
    /// The input was damaged, and the part before the damage is kept.
    Salvaged(Account),
    Badly,
}

/// The most bytes that are examined before anything is created; no useful header is longer.
const LOOKED_AT: usize = 128 << 10;

impl GzipRun {
    /// Returns whether uncompressed data is passed on: a whole uncompressed file, or bytes behind
    /// the last member. For standard input, `-c` is implied.
    fn passes(&self, work: &GzipJob<'_>) -> bool {
        self.args.force && (self.to_stdout || work.is_stdin) && !self.args.list
    }

    /// Returns the header of the first member. An error has been reported.
    pub(super) fn first(&self, shown: &Path, source: &mut Source) -> Result<FirstHeader, ()> {
        let bytes = source.fill_buf().map_err(|error| self.failed(shown, errno_of(&error)))?;
        first(&bytes[..bytes.len().min(LOOKED_AT)]).map_err(|why| self.unsupported(shown, &why))
    }

    fn unsupported(&self, shown: &Path, why: &Unsupported) {
        let shown = shown.as_os_str().as_bytes();
        match why {
            Unsupported::Method(method) => {
                self.error(&[
                    shown,
                    format!(": unknown method {method} -- not supported").as_bytes(),
                ]);
            }
            Unsupported::Encrypted => self.error(&[shown, b" is encrypted -- not supported"]),
            Unsupported::Flags(flags) => {
                self.error(&[shown, format!(" has flags {flags:#x} -- not supported").as_bytes()]);
            }
        }
    }

    /// Compresses or decompresses a source into the target, to standard output, or to nothing.
    pub(super) fn process(
        &mut self,
        work: &GzipJob<'_>,
        source: &mut Source,
        target: Option<&OutputFile>,
    ) -> Result<GzipOutcome, Fatal> {
        let mut own = match target.map(|target| target.sink(&self.tool)).transpose() {
            Ok(own) => own,
            Err(error) => {
                self.failed(target.map_or(work.shown, OutputFile::path), errno_of(&error));
                return Ok(GzipOutcome::Badly);
            }
        };
        let nowhere = self.args.test || self.args.list;
        if own.is_none() && !nowhere && self.out.is_none() {
            let out = self.tool.stdout().map_err(|error| self.output_failed(errno_of(&error)));
            self.out = Some(out.map_err(|()| Fatal)?);
        }
        if !self.decompress {
            self.head(work);
        }
        let (tool, stop) = (self.tool.clone(), self.stop);
        let mut out = self.out.take();
        let sink = if nowhere { None } else { own.as_mut().or(out.as_mut()) };
        let mut sink = WatchedSink::new(sink, false);
        let mut input = Watched::new(&tool, source, stop);
        let done = match self.decompress {
            true => self.decode(work, &mut input, &mut sink),
            false => self.encode(work, &mut input, &mut sink),
        };
        let failed = sink.failed.take();
        self.out = out;
        if let Some(errno) = failed {
            return self.write_failed(target, errno);
        }
        if let Some(own) = own
            && let Err(error) = own.close()
        {
            return self.write_failed(target, errno_of(&error));
        }
        Ok(done)
    }

    /// With -v, prints the beginning of a file's line.
    fn head(&self, work: &GzipJob<'_>) {
        if self.verbose() && !work.is_stdin && !self.args.list {
            self.say(&[work.shown.as_os_str().as_bytes(), b":\t"]);
        }
    }

    fn write_failed(
        &self,
        target: Option<&OutputFile>,
        errno: rustix::io::Errno,
    ) -> Result<GzipOutcome, Fatal> {
        match target {
            Some(target) => {
                self.contents(target.path().as_os_str().as_bytes(), &words(errno));
                Ok(GzipOutcome::Badly)
            }
            None => {
                self.output_failed(errno);
                Err(Fatal)
            }
        }
    }

    fn encode(
        &self,
        work: &GzipJob<'_>,
        input: &mut Watched<'_>,
        sink: &mut WatchedSink<'_>,
    ) -> GzipOutcome {
        let mtime = work.mtime.filter(|_| self.keep_time);
        let seconds = mtime.and_then(|time| u32::try_from(time).ok()).filter(|time| *time > 0);
        if mtime.is_some() && seconds.is_none() {
            let shown = work.shown.as_os_str().as_bytes();
            self.warn(&[shown, b": warning: file timestamp out of range for gzip format"]);
        }
        let asked = self.stop;
        let stop = move || asked.is_some_and(Stop::asked);
        let how = gzip::Encode {
            level: self.level,
            workers: self.workers,
            name: work.name.as_deref(),
            mtime: seconds,
            members: self.args.members,
            stop: Some(&stop),
        };
        match gzip::encode(input, sink, &how) {
            Ok(moved) => {
                let header = 18 + work.name.as_ref().map_or(0, |name| name.len() as u64 + 1);
                GzipOutcome::Well(Account { moved, header, garbage: false })
            }
            Err(EncodeError::Read(error)) => self.read_failed(work, &error),
            // The sink has recorded a write error.
            Err(EncodeError::Write(_) | EncodeError::Stopped) => GzipOutcome::Badly,
        }
    }

    fn read_failed(&self, work: &GzipJob<'_>, error: &std::io::Error) -> GzipOutcome {
        if !self.stop.is_some_and(Stop::asked) {
            self.contents(work.shown.as_os_str().as_bytes(), &words(errno_of(error)));
        }
        GzipOutcome::Badly
    }

    fn decode(
        &self,
        work: &GzipJob<'_>,
        input: &mut Watched<'_>,
        sink: &mut WatchedSink<'_>,
    ) -> GzipOutcome {
        let shown = work.shown.as_os_str().as_bytes();
        let head = match input.peek(10) {
            Ok(bytes) => bytes,
            Err(error) => return self.read_failed(work, &error),
        };
        let is_gzip = head.starts_with(&[0x1f, 0x8b]);
        if self.passes(work) && !is_gzip {
            self.head(work);
            return self.pass(work, input, sink);
        }
        let header = match first(head) {
            Ok(first) => first,
            Err(why) => {
                self.unsupported(work.shown, &why);
                return GzipOutcome::Badly;
            }
        };
        if let (Some(extra), true) = (header.extra, self.verbose() && !self.args.list) {
            self.tell(&[shown, format!(": extra field of {extra} bytes ignored").as_bytes()]);
        }
        // As in GNU gzip, an input that is not gzip gets no line.
        if is_gzip {
            self.head(work);
        }
        let asked = self.stop;
        let stop = move || asked.is_some_and(Stop::asked);
        let how = gzip::Decode {
            workers: self.workers,
            keep_damaged: false,
            pass_trailing: self.passes(work),
            stop: Some(&stop),
        };
        let account = |moved| Account { moved, header: header.length + 8, garbage: false };
        match gzip::decode(input, sink, &how) {
            Ok(moved) => GzipOutcome::Well(account(moved)),
            Err(DecodeError::TrailingGarbage { moved, .. }) => self.garbage(work, account(moved)),
            Err(DecodeError::NotInFormat) => {
                self.contents(shown, "not in gzip format");
                GzipOutcome::Badly
            }
            Err(DecodeError::Damaged { offset, what, sound, moved }) => {
                self.damaged(shown, offset, &what);
                if !self.args.salvage {
                    return GzipOutcome::Badly;
                }
                let written = moved.written;
                self.tell(&[
                    shown,
                    format!(": {written} bytes were kept, {sound} of them are known to be sound")
                        .as_bytes(),
                ]);
                GzipOutcome::Salvaged(account(moved))
            }
            Err(DecodeError::Read(error)) => self.read_failed(work, &error),
            Err(DecodeError::Write(_) | DecodeError::Stopped) => GzipOutcome::Badly,
        }
    }

    /// Reports damage at a byte of the input, in GNU gzip's words.
    fn damaged(&self, shown: &[u8], offset: u64, what: &Damage) {
        let said = match what {
            Damage::UnexpectedEnd => "unexpected end of file",
            Damage::Data(_) => "invalid compressed data--format violated",
            Damage::Checksum { .. } => "invalid compressed data--crc error",
            Damage::ChecksumAndLength { .. } => {
                let checksum = format!("invalid compressed data--crc error, at byte {offset}");
                self.contents(shown, &checksum);
                "invalid compressed data--length error"
            }
            Damage::Length { .. } => "invalid compressed data--length error",
            Damage::Header(what) => what,
        };
        self.contents(shown, &format!("{said}, at byte {offset}"));
    }

    /// Reports garbage behind a sound stream.
    fn garbage(&self, work: &GzipJob<'_>, account: Account) -> GzipOutcome {
        self.warned.set(true);
        if !self.quiet() {
            let (name, shown) = (self.tool.name().as_bytes(), work.shown.as_os_str().as_bytes());
            self.say(&[
                b"\n",
                name,
                b": ",
                shown,
                b": decompression OK, trailing garbage ignored\n",
            ]);
        }
        if self.args.list {
            GzipOutcome::Badly
        } else {
            GzipOutcome::Well(Account { garbage: true, ..account })
        }
    }

    /// Passes on uncompressed bytes.
    fn pass(
        &self,
        work: &GzipJob<'_>,
        input: &mut Watched<'_>,
        sink: &mut WatchedSink<'_>,
    ) -> GzipOutcome {
        match pass(input, sink) {
            Ok(moved) => GzipOutcome::Well(Account { moved, header: 0, garbage: false }),
            Err(Broken::Read(error)) => self.read_failed(work, &error),
            // The sink has recorded a write error.
            Err(Broken::Write(_)) => GzipOutcome::Badly,
        }
    }

    /// Prints a line of the list.
    pub(super) fn listed_row(
        &mut self,
        name: &Path,
        account: &Account,
        work: &GzipJob<'_>,
    ) -> Result<(), Fatal> {
        let line = self.listed.row(&self.args, name, &account.moved, account.header, work.mtime);
        self.print(&line)
    }
}
