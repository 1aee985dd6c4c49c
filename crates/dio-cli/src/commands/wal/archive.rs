//! `dio wal archive`: copies finished segments to another directory.

use crate::quote::quoted;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use dio::block::Pool;
use dio_common::units::size;
use dio_wal::format::{SEGMENT_HEADER_BYTES, SegmentHeader, segment_name, segment_number};
use dio_wal::storage::Storage;
use dio_wal::{HeaderFault, Identity, Layout, Lsn, Reader, WalError};
use serde_json::json;

use super::overlay::Overlay;
use super::{CommandError, DAMAGED, LogArgs, SOUND, is_damage, open};

/// Bytes copied at a time.
const STEP: usize = 1 << 20;

/// Copy the finished segments of a log to another directory, and with --follow those that are
/// finished from then on
///
/// A segment is finished when the log continues behind it and all of it is durable; it never
/// changes again. A copy is made durable and read again, record by record, before it gets its name,
/// so no name leads to a part of a segment. A copy that exists is left alone, and an interrupted
/// one is made again. The directory of copies is itself a log for 'dio wal verify' and the other
/// commands. Segments that were truncated before they were copied are reported, and the status is
/// 1. A program should truncate only segments that are archived.
#[derive(Debug, clap::Args)]
pub(super) struct ArchiveArgs {
    #[command(flatten)]
    source: LogArgs,

    /// Directory of the copies, which must exist
    #[arg(value_name = "DEST")]
    destination: PathBuf,

    /// Also copy the segments that are finished from then on, until interrupted
    #[arg(short, long)]
    follow: bool,

    /// With --follow, look for finished segments N times a second
    #[arg(
        long,
        value_name = "N",
        default_value_t = 5,
        value_parser = clap::value_parser!(u32).range(1..=1000)
    )]
    rate: u32,

    /// Print a JSON object on a line for each segment, and one at the end
    #[arg(long)]
    json: bool,
}

/// Archives segments. The exit status says whether all segments that ever were finished are in the
/// archive.
pub(super) fn run(args: &ArchiveArgs) -> Result<u8, CommandError> {
    let log = args.source.storage()?;
    let copies = open(&args.destination, true)?;
    if !copies.lock().map_err(CommandError::system("lock", &args.destination))? {
        let path = quoted(&args.destination);
        return Err(CommandError::Other(format!("{path} is in use by another archiver")));
    }
    let reader = Reader::open_on(Arc::clone(&log), Lsn(u64::MAX)).map_err(args.source.failed())?;
    let mut archive = Archive::new(args, log, copies, &reader)?;
    loop {
        // Read once for each round: a writer may append faster than this loop copies.
        let bounds = reader.bounds().map_err(args.source.failed())?;
        archive.copy_up_to(bounds.known_durable)?;
        if !args.follow {
            return archive.finish();
        }
        std::thread::sleep(Duration::from_secs(1) / args.rate);
    }
}

/// Limit for missing segments in a row that are listed one by one. A longer run is represented by
/// its first and last segment, because a forged mark can make it arbitrarily long.
const MISSED_LISTED_MAX: u64 = 1000;

/// One run of the command.
struct Archive<'a> {
    args: &'a ArchiveArgs,
    log: Arc<dyn Storage>,
    copies: Arc<dyn Storage>,
    layout: Layout,
    identity: Identity,
    /// The segment to copy next.
    next: u64,
    copied: u64,
    there: u64,
    /// Segments that were truncated or lost before they were copied.
    missed: Vec<u64>,
}

impl<'a> Archive<'a> {
    fn new(
        args: &'a ArchiveArgs,
        log: Arc<dyn Storage>,
        copies: Arc<dyn Storage>,
        reader: &Reader,
    ) -> Result<Archive<'a>, CommandError> {
        let (layout, identity) = (reader.layout(), reader.identity());
        let mut archive = Archive {
            args,
            log,
            copies,
            layout,
            identity,
            next: 0,
            copied: 0,
            there: 0,
            missed: Vec::new(),
        };
        let there =
            numbers(&*archive.copies).map_err(CommandError::system("read", &args.destination))?;
        archive.there = there.len() as u64;
        archive.next = match there.last() {
            Some(last) => {
                archive.check_whose(*last)?;
                last + 1
            }
            None => {
                let numbers = numbers(&*archive.log)
                    .map_err(CommandError::system("read", &args.source.directory))?;
                let first = numbers.first().copied().unwrap_or(0);
                let from_beginning = Reader::open_on(Arc::clone(&archive.log), Lsn(0))
                    .map_err(args.source.failed())?;
                if let Some(gap) = from_beginning.lost_beginning().map_err(args.source.failed())? {
                    // No mark says that these segments were truncated, so they count as missing.
                    let lost = layout.segment_of(gap.from.0);
                    archive.miss(lost, first.saturating_sub(1).max(lost));
                }
                first
            }
        };
        Ok(archive)
    }

    /// Checks that a copy belongs to this log, so that copies of two logs are not mixed.
    fn check_whose(&self, number: u64) -> Result<(), CommandError> {
        let header = self.header(&segment_name(number))?;
        let path = self.args.destination.join(segment_name(number));
        if header.number != number || !header.layout.is_segment_possible(number) {
            return Err(CommandError::Other(format!(
                "{} is segment {} by its header: take it away, or archive elsewhere",
                quoted(path),
                segment_name(header.number)
            )));
        }
        if header.identity != self.identity {
            return Err(CommandError::Other(format!(
                "{} belongs to the log {}, and this one is {}: archive it elsewhere",
                quoted(path),
                header.identity,
                self.identity
            )));
        }
        Ok(())
    }

    /// Reads the header of a copy.
    fn header(&self, name: &str) -> Result<SegmentHeader, CommandError> {
        let path = self.args.destination.join(name);
        let file = self.copies.open(name, false).map_err(CommandError::system("open", &path))?;
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        let count = file.read_at(&mut bytes, 0).map_err(CommandError::system("read", &path))?;
        let header = SegmentHeader::decode(&bytes[..count]);
        header.map_err(|fault| CommandError::Other(format!("{}: {fault}", quoted(path))))
    }

    /// Copies the segments that end at or before `durable`.
    fn copy_up_to(&mut self, durable: Lsn) -> Result<(), CommandError> {
        while self.layout.segment_start(self.next + 1) <= durable.0 {
            let number = self.next;
            match self.copy(number) {
                Ok(()) => self.tell(number)?,
                Err(error) => {
                    // The segment may have been truncated meanwhile, and its file reused for
                    // another one.
                    let there = numbers(&*self.log)
                        .map_err(CommandError::system("read", &self.args.source.directory))?;
                    if there.contains(&number) {
                        return Err(error);
                    }
                    // The incomplete copy is useless.
                    let _ = self.copies.delete(&part_name(number));
                    let behind =
                        there.into_iter().find(|listed| *listed > number).unwrap_or(u64::MAX);
                    self.next = behind.min(self.layout.segment_of(durable.0));
                    self.miss(number, self.next - 1);
                    continue;
                }
            }
            self.next += 1;
        }
        Ok(())
    }

    /// Reports that the segments from `first` to `last` are missing.
    fn miss(&mut self, first: u64, last: u64) {
        if last - first < MISSED_LISTED_MAX {
            self.missed.extend(first..=last);
        } else {
            self.missed.extend([first, last]);
        }
        let why = "truncated before it was archived, or lost";
        match first == last {
            true => eprintln!("dio: segment '{}' is missing: {why}", segment_name(first)),
            false => {
                eprintln!(
                    "dio: the segments '{}' to '{}' are missing: {why}",
                    segment_name(first),
                    segment_name(last)
                );
            }
        }
    }

    fn copy(&mut self, number: u64) -> Result<(), CommandError> {
        let name = segment_name(number);
        let part = part_name(number);
        let from = self.args.source.directory.join(&name);
        let to = self.args.destination.join(&part);
        let source = self.log.open(&name, false).map_err(CommandError::system("open", &from))?;
        let target = self.copies.create(&part).map_err(CommandError::system("create", &to))?;
        target
            .allocate(self.layout.segment_bytes())
            .map_err(CommandError::system("allocate space for", &to))?;
        let block = self.layout.block_bytes();
        let step = (STEP as u64).max(block) / block * block;
        let pool =
            Pool::new(step as usize, 1).map_err(CommandError::system("map memory for", &to))?;
        let mut memory = pool.try_take().expect("nobody else takes from this pool");
        let mut at = 0;
        while at < self.layout.segment_bytes() {
            let count = step.min(self.layout.segment_bytes() - at) as usize;
            let bytes = &mut memory.bytes_mut()[..count];
            let read = source.read_at(bytes, at).map_err(CommandError::system("read", &from))?;
            if read < count {
                let fault = HeaderFault::Length(at + read as u64);
                return Err(self.args.source.failed()(WalError::Header { segment: name, fault }));
            }
            target.write_at(bytes, at, false).map_err(CommandError::system("write", &to))?;
            at += count as u64;
        }
        target.sync_all().map_err(CommandError::system("sync", &to))?;
        drop(target);
        // The file of a truncated segment may be reused for another one at any time, but the name
        // of a segment is never used again. If the name still exists, all bytes read so far belong
        // to this segment.
        let there = numbers(&*self.log)
            .map_err(CommandError::system("read", &self.args.source.directory))?;
        if !there.contains(&number) {
            return Err(self.truncated(number));
        }
        self.check(number, &name, &part)?;
        self.copies.rename(&part, &name).map_err(CommandError::system("rename", &to))?;
        self.copies.sync().map_err(CommandError::system("sync", &self.args.destination))?;
        self.copied += 1;
        Ok(())
    }

    fn truncated(&self, number: u64) -> CommandError {
        let (lsn, start) =
            (Lsn(self.layout.segment_start(number)), Lsn(self.layout.segment_start(number + 1)));
        self.args.source.failed()(WalError::Truncated { lsn, start })
    }

    /// Reads a copy back from the disk as a part of the log: its header and all its records,
    /// including those that begin or end in neighbouring segments.
    fn check(&self, number: u64, name: &str, part: &str) -> Result<(), CommandError> {
        let own = |header: SegmentHeader| {
            (header.identity, header.layout, header.number) == (self.identity, self.layout, number)
        };
        let (from, end) =
            (Lsn(self.layout.segment_start(number)), Lsn(self.layout.segment_start(number + 1)));
        let failed = self.args.source.failed();
        let mut why = String::from("its header is another one");
        if self.header(part).is_ok_and(own) {
            let (log, copies) = (Arc::clone(&self.log), Arc::clone(&self.copies));
            let overlay = Overlay { log, copies, name: name.to_owned(), part: part.to_owned() };
            match read_through(Arc::new(overlay), from, end) {
                Ok(()) => return Ok(()),
                Err(error) if !is_damage(&error) => return Err(failed(error)),
                Err(error) => why = error.to_string(),
            }
        }
        // If the log itself is damaged there, this fails with its error; otherwise the copy is bad.
        read_through(Arc::clone(&self.log), from, end).map_err(failed)?;
        let path = self.args.destination.join(part);
        Err(CommandError::Other(format!(
            "{} is read from its disk otherwise than it was written: {why}",
            quoted(path)
        )))
    }

    fn tell(&self, number: u64) -> Result<(), CommandError> {
        let (from, to, bytes) = (
            self.layout.segment_start(number),
            self.layout.segment_start(number + 1),
            self.layout.segment_bytes(),
        );
        let name = segment_name(number);
        let text = match self.args.json {
            true => json!({
                "type": "segment", "name": name, "number": number, "from": from, "to": to,
                "bytes": bytes
            })
            .to_string(),
            false => format!("{name}  {}  LSN {from} to {to}", size(bytes)),
        };
        let mut out = std::io::stdout().lock();
        writeln!(out, "{text}").and_then(|()| out.flush()).map_err(CommandError::Standard)
    }

    fn finish(self) -> Result<u8, CommandError> {
        let Archive { copied, there, next, missed, layout, .. } = &self;
        let text = match self.args.json {
            true => json!({
                "type": "summary",
                "copied": copied,
                "there_before": there,
                "missed": missed.iter().map(|number| segment_name(*number)).collect::<Vec<_>>(),
                "archived_up_to": layout.segment_start(*next),
            })
            .to_string(),
            false => {
                format!(
                    "{copied} segments copied, {there} were there; archived up to LSN {}",
                    layout.segment_start(*next)
                )
            }
        };
        writeln!(std::io::stdout(), "{text}").map_err(CommandError::Standard)?;
        Ok(if missed.is_empty() { SOUND } else { DAMAGED })
    }
}

/// Reads the records of a segment, from its start to its end.
fn read_through(storage: Arc<dyn Storage>, from: Lsn, end: Lsn) -> Result<(), WalError> {
    let mut reader = Reader::open_on(storage, from)?;
    if reader.position() >= end {
        // The segment is gone: the reader started behind it, and has read nothing of it.
        return Err(WalError::Truncated { lsn: from, start: reader.position() });
    }
    while let Some(entry) = reader.next_entry()? {
        if entry.end >= end {
            return Ok(());
        }
    }
    reader.check_end()?;
    // The whole segment was durable, so an earlier end is damage.
    let (number, offset) = reader.layout().locate(reader.position().0);
    Err(WalError::Damaged {
        segment: segment_name(number),
        offset,
        lsn: reader.position(),
        durable: end,
    })
}

/// The name of a copy until it is complete.
fn part_name(number: u64) -> String {
    segment_name(number) + ".part"
}

fn numbers(storage: &dyn Storage) -> std::io::Result<Vec<u64>> {
    let mut numbers: Vec<u64> =
        storage.list()?.iter().filter_map(|name| segment_number(name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use std::io;
    use std::path::Path;

    use dio_wal::storage::{BlockSizes, SegmentFile};
    use dio_wal::{Log, Options};

    use super::*;

    /// A log that runs a hook when one of its segments has just been opened.
    struct Hooked {
        log: Arc<dyn Storage>,
        name: String,
        hook: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    }

    impl Storage for Hooked {
        fn open(&self, name: &str, write: bool) -> io::Result<Arc<dyn SegmentFile>> {
            let file = self.log.open(name, write);
            if name == self.name
                && let Some(hook) = self.hook.lock().take()
            {
                hook();
            }
            file
        }

        fn list(&self) -> io::Result<Vec<String>> {
            self.log.list()
        }

        fn block_sizes(&self, name: &str) -> io::Result<BlockSizes> {
            self.log.block_sizes(name)
        }

        fn lock(&self) -> io::Result<bool> {
            unreachable!("an archiver only reads")
        }

        fn unlock(&self) {}

        fn create(&self, _: &str) -> io::Result<Arc<dyn SegmentFile>> {
            unreachable!("an archiver only reads")
        }

        fn rename(&self, _: &str, _: &str) -> io::Result<()> {
            unreachable!("an archiver only reads")
        }

        fn delete(&self, _: &str) -> io::Result<()> {
            unreachable!("an archiver only reads")
        }

        fn sync(&self) -> io::Result<()> {
            unreachable!("an archiver only reads")
        }

        fn fill_random(&self, _: &mut [u8]) -> io::Result<()> {
            unreachable!("an archiver only reads")
        }
    }

    fn append(log: &Log, upto: u64) -> Lsn {
        let mut last = log.end();
        while log.end().0 < upto {
            last = log.append(&[7; 3000]).unwrap();
            log.commit(last).unwrap();
        }
        last
    }

    /// Archives a log, and calls `happens` when segment 2 has just been opened. Returns the numbers
    /// of the segments copied, and of those missed.
    fn archive(
        directory: &Path,
        happens: impl FnOnce(&Log) + Send + 'static,
    ) -> (Vec<u64>, Vec<u64>) {
        let (from, to) = (directory.join("log"), directory.join("copies"));
        std::fs::create_dir(&from).unwrap();
        std::fs::create_dir(&to).unwrap();
        let mut options = Options::new();
        options.segment(64 << 10).buffer(16 << 10).block(512).idle_mark(None);
        let log = Arc::new(Log::open(&from, &options).unwrap());
        append(&log, 500 << 10);
        let source = LogArgs { directory: from.clone(), cached: false };
        let args =
            ArchiveArgs { source, destination: to.clone(), follow: false, rate: 5, json: true };
        let reader = Reader::open_on(args.source.storage().unwrap(), Lsn(u64::MAX)).unwrap();
        let durable = reader.bounds().unwrap().known_durable;
        let own = Arc::clone(&log);
        let hook: Box<dyn FnOnce() + Send> = Box::new(move || happens(&own));
        let hooked = Hooked {
            log: args.source.storage().unwrap(),
            name: segment_name(2),
            hook: Mutex::new(Some(hook)),
        };
        let mut archive =
            Archive::new(&args, Arc::new(hooked), open(&to, true).unwrap(), &reader).unwrap();
        archive.copy_up_to(durable).unwrap();
        let there = numbers(&*archive.copies).unwrap();
        assert!(
            std::fs::read_dir(&to)
                .unwrap()
                .all(|entry| entry.unwrap().path().extension().unwrap() == "wal")
        );
        (there, archive.missed)
    }

    /// The copies end before the segment during which the log was truncated: directly before it, or
    /// one segment earlier if checking that one had already read on. All other segments are
    /// reported as missed.
    fn is_a_beginning(all: &[u64], there: &[u64], missed: &[u64]) {
        assert!((1..=2).contains(&there.len()), "{there:?} {missed:?}");
        assert_eq!((there, missed), all.split_at(there.len()));
    }

    #[test]
    fn a_segment_that_is_used_again_while_it_is_copied_is_no_copy() {
        let quiet = tempfile::tempdir_in("/var/tmp").unwrap();
        let (all, missed) = archive(quiet.path(), |_| {});
        assert!(all.len() >= 6 && missed.is_empty(), "{all:?} {missed:?}");
        // The segment is truncated, and its file reused, before it is read.
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let (there, missed) = archive(dir.path(), |log| {
            log.truncate_before(append(log, 501 << 10)).unwrap();
            log.truncate_before(append(log, 900 << 10)).unwrap();
        });
        is_a_beginning(&all, &there, &missed);
        // The segment is truncated, but its file still has the old contents. The archiver cannot
        // detect whether they changed meanwhile, and rejects the copy.
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let (there, missed) =
            archive(dir.path(), |log| log.truncate_before(append(log, 501 << 10)).unwrap());
        is_a_beginning(&all, &there, &missed);
    }
}
