//! `dio wal archive`: finished segments, copied for good.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use dio::block::Pool;
use dio_bench::units::size;
use dio_wal::format::{SEGMENT_HEADER, SegmentHeader, segment_name, segment_number};
use dio_wal::storage::Storage;
use dio_wal::{Identity, Layout, Lsn, Reader, WalError};
use serde_json::json;

use super::overlay::Overlay;
use super::{CommandError, DAMAGED, SOUND, Source, is_damage, open};

/// Bytes copied at once.
const STEP: usize = 1 << 20;

/// Copy the finished segments of a log to another directory, and with --follow those that are finished from then on
///
/// A segment is finished when the log goes on behind it and says that all of it is durable: what is copied never changes
/// again. A copy is made durable and read again, record by record, before it gets its name, so that there is never a part of
/// one; one that is there already is left alone, and what was interrupted is begun again. The directory of copies is a log
/// itself, for 'dio wal verify' and the others, as far as it goes. Segments that were truncated before they were copied
/// are told, and make the status 1. A program that truncates its log should do so behind what is archived.
#[derive(Debug, clap::Args)]
pub(super) struct ArchiveArgs {
    #[command(flatten)]
    source: Source,

    /// Directory of the copies, which must exist
    #[arg(value_name = "DEST")]
    destination: PathBuf,

    /// Go on with the segments that are finished from then on, until interrupted
    #[arg(short, long)]
    follow: bool,

    /// With --follow, look for new ones so many times a second
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rate: u32,

    /// Print a JSON object on a line for each segment, and one at the end
    #[arg(long)]
    json: bool,
}

/// Archives; the status says whether all that was ever finished is there.
pub(super) fn run(args: &ArchiveArgs) -> Result<u8, CommandError> {
    let log = args.source.storage()?;
    let copies = open(&args.destination, true)?;
    if !copies.lock().map_err(CommandError::system("lock", &args.destination))? {
        let path = args.destination.display();
        return Err(CommandError::Other(format!("'{path}' is in use by another archiver")));
    }
    let mut reader = Reader::open_on(Arc::clone(&log), Lsn(u64::MAX)).map_err(args.source.failed())?;
    let mut archive = Archive::new(args, log, copies, &reader)?;
    loop {
        let read = read_on(&mut reader);
        if let Err(error @ (WalError::Truncated { .. } | WalError::Damaged { .. })) = &read
            && !args.follow
        {
            return Err(args.source.failed()(error.clone()));
        }
        if read.is_err() {
            reader = Reader::open_on(Arc::clone(&archive.log), Lsn(u64::MAX)).map_err(args.source.failed())?;
            read_on(&mut reader).map_err(args.source.failed())?;
        }
        archive.copy_up_to(reader.known_durable())?;
        if !args.follow {
            return archive.finish();
        }
        std::thread::sleep(Duration::from_secs(1) / args.rate);
    }
}

fn read_on(reader: &mut Reader) -> Result<(), WalError> {
    while reader.next_entry()?.is_some() {}
    Ok(())
}

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
    /// Segments that were truncated before they were copied.
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
        let mut archive =
            Archive { args, log, copies, layout, identity, next: 0, copied: 0, there: 0, missed: Vec::new() };
        let there = numbers(&*archive.copies).map_err(CommandError::system("read", &args.destination))?;
        archive.there = there.len() as u64;
        archive.next = match there.last() {
            Some(last) => {
                archive.check_whose(*last)?;
                last + 1
            }
            None => {
                let numbers = numbers(&*archive.log).map_err(CommandError::system("read", &args.source.directory))?;
                numbers.first().copied().unwrap_or(0)
            }
        };
        Ok(archive)
    }

    /// Copies of another log must not be mixed with those of this one.
    fn check_whose(&self, number: u64) -> Result<(), CommandError> {
        let path = self.args.destination.join(segment_name(number));
        let file = self.copies.open(&segment_name(number), false).map_err(CommandError::system("open", &path))?;
        let mut bytes = [0; SEGMENT_HEADER];
        let count = file.read_at(&mut bytes, 0).map_err(CommandError::system("read", &path))?;
        match SegmentHeader::decode(&bytes[..count]) {
            Ok(header) if header.identity == self.identity => Ok(()),
            Ok(header) => Err(CommandError::Other(format!(
                "'{}' belongs to the log {}, and this one is {}: archive it elsewhere",
                path.display(),
                header.identity,
                self.identity
            ))),
            Err(fault) => Err(CommandError::Other(format!("'{}': {fault}", path.display()))),
        }
    }

    /// Copies the segments that end at or below a place.
    fn copy_up_to(&mut self, durable: Lsn) -> Result<(), CommandError> {
        while self.layout.first(self.next + 1) <= durable.0 {
            let number = self.next;
            match self.copy(number) {
                Ok(()) => self.tell(number)?,
                Err(error) => {
                    // One that was truncated meanwhile, and perhaps is another segment by now.
                    let there =
                        numbers(&*self.log).map_err(CommandError::system("read", &self.args.source.directory))?;
                    if there.contains(&number) {
                        return Err(error);
                    }
                    eprintln!("dio: segment '{}' was truncated before it was archived", segment_name(number));
                    self.missed.push(number);
                }
            }
            self.next += 1;
        }
        Ok(())
    }

    fn copy(&mut self, number: u64) -> Result<(), CommandError> {
        let name = segment_name(number);
        let part = format!("{name}.part");
        let from = self.args.source.directory.join(&name);
        let to = self.args.destination.join(&part);
        let source = self.log.open(&name, false).map_err(CommandError::system("open", &from))?;
        let target = self.copies.create(&part).map_err(CommandError::system("create", &to))?;
        target.allocate(self.layout.segment()).map_err(CommandError::system("allocate space for", &to))?;
        let block = self.layout.block();
        let step = (STEP as u64).max(block) / block * block;
        let pool = Pool::new(step as usize, 1).map_err(CommandError::system("map memory for", &to))?;
        let mut memory = pool.try_take().expect("nobody else takes from this pool");
        let mut at = 0;
        while at < self.layout.segment() {
            let count = step.min(self.layout.segment() - at) as usize;
            let bytes = &mut memory.bytes_mut()[..count];
            let read = source.read_at(bytes, at).map_err(CommandError::system("read", &from))?;
            if read < count {
                return Err(CommandError::Other(format!("'{}' ends at byte {}", from.display(), at + read as u64)));
            }
            target.write_at(bytes, at, false).map_err(CommandError::system("write", &to))?;
            at += count as u64;
        }
        target.sync_all().map_err(CommandError::system("sync", &to))?;
        drop(target);
        self.check(number, &name, &part)?;
        self.copies.rename(&part, &name).map_err(CommandError::system("rename", &to))?;
        self.copies.sync().map_err(CommandError::system("sync", &self.args.destination))?;
        self.copied += 1;
        Ok(())
    }

    /// Reads a copy from the disk, in its place in the log: every record of it, those too that begin or end outside.
    fn check(&self, number: u64, name: &str, part: &str) -> Result<(), CommandError> {
        let (log, copies) = (Arc::clone(&self.log), Arc::clone(&self.copies));
        let overlay = Overlay { log, copies, name: name.to_owned(), part: part.to_owned() };
        let (from, end) = (Lsn(self.layout.first(number)), Lsn(self.layout.first(number + 1)));
        let failed = self.args.source.failed();
        match read_through(Arc::new(overlay), from, end) {
            Ok(()) => return Ok(()),
            Err(error) if !is_damage(&error) => return Err(failed(error)),
            Err(_) => {}
        }
        // Which of the two is it?
        read_through(Arc::clone(&self.log), from, end).map_err(failed)?;
        let path = self.args.destination.join(part);
        Err(CommandError::Other(format!("'{}' is read from its disk otherwise than it was written", path.display())))
    }

    fn tell(&self, number: u64) -> Result<(), CommandError> {
        let (from, to, bytes) = (self.layout.first(number), self.layout.first(number + 1), self.layout.segment());
        let name = segment_name(number);
        let text = match self.args.json {
            true => json!({"type": "segment", "name": name, "number": number, "from": from, "to": to, "bytes": bytes})
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
                "archived_up_to": layout.first(*next),
            })
            .to_string(),
            false => {
                format!("{copied} segments copied, {there} were there; archived up to LSN {}", layout.first(*next))
            }
        };
        writeln!(std::io::stdout(), "{text}").map_err(CommandError::Standard)?;
        Ok(if missed.is_empty() { SOUND } else { DAMAGED })
    }
}

/// Reads the records between two places.
fn read_through(storage: Arc<dyn Storage>, from: Lsn, end: Lsn) -> Result<(), WalError> {
    let mut reader = Reader::open_on(storage, from)?;
    while let Some(entry) = reader.next_entry()? {
        if entry.end >= end {
            return Ok(());
        }
    }
    reader.check_end()?;
    // All of it was durable.
    let (number, offset) = reader.layout().locate(reader.position().0);
    Err(WalError::Damaged { segment: segment_name(number), offset, lsn: reader.position(), durable: end })
}

fn numbers(storage: &dyn Storage) -> std::io::Result<Vec<u64>> {
    let mut numbers: Vec<u64> = storage.list()?.iter().filter_map(|name| segment_number(name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}
