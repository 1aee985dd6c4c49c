//! `dio wal salvage`: extracts the sound records of a damaged log.

use crate::quote::quoted;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use dio_wal::{BadHeader, Gap, Log, Lsn, Options, Record, Salvage, UnreadableRange, WalError};
use serde_json::{Value, json};

use super::{CommandError, DAMAGED, LogArgs, SOUND};
use crate::tool::target::naming::directory_of;

/// Bytes of appended records after which they are committed.
const COMMIT: u64 = 64 << 20;

/// Copy the sound records of a damaged log to a new log, or print their bytes
///
/// The damaged log is not changed. The output lists the ranges of LSNs that are lost. The new log
/// has an identity of its own, and its records have new LSNs; --map writes a list of old and new
/// LSNs. Blocks that the disk cannot read, and segments with untrustworthy headers, are skipped and
/// reported. Status 0: nothing is lost; 1: records are lost, or may be; 2: the log could not be
/// salvaged.
#[derive(Debug, clap::Args)]
pub(super) struct SalvageArgs {
    #[command(flatten)]
    source: LogArgs,

    /// Directory of the new log: it is created, or empty
    #[arg(value_name = "DEST", required_unless_present_any = ["raw", "dry_run"])]
    destination: Option<PathBuf>,

    /// Write the bytes of the sound records to standard output instead, and nothing else
    #[arg(long, conflicts_with_all = ["destination", "json", "dry_run"])]
    raw: bool,

    /// Only tell what is lost
    #[arg(long, conflicts_with = "destination")]
    dry_run: bool,

    /// Write a line of old and new LSN to this file for each record
    #[arg(long, value_name = "FILE", requires = "destination")]
    map: Option<PathBuf>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Salvages a log. The exit status says whether anything is lost.
pub(super) fn run(args: &SalvageArgs) -> Result<u8, CommandError> {
    let storage = args.source.storage()?;
    // The log is read twice, because its start is known only after all of it was read.
    let found =
        dio_wal::salvage::<WalError>(storage.clone(), |_| Ok(())).map_err(args.source.failed())?;
    let mut taken = match &args.destination {
        Some(path) => SalvageOutput::Log(Box::new(NewLog::create(path, args.map.as_ref())?)),
        None if args.raw => {
            SalvageOutput::Raw(BufWriter::with_capacity(1 << 20, std::io::stdout()))
        }
        None => SalvageOutput::Nothing,
    };
    if !matches!(taken, SalvageOutput::Nothing) {
        let take = |record: Record<'_>| {
            // Records appended since the first pass are left out, because the report does not
            // include them.
            if record.lsn < found.start || record.lsn >= found.to {
                return Ok(());
            }
            taken.take(record).map_err(SalvageFailure::Own)
        };
        dio_wal::salvage::<SalvageFailure>(storage, take).map_err(|failure| match failure {
            SalvageFailure::Log(error) => args.source.failed()(error),
            SalvageFailure::Own(error) => error,
        })?;
    }
    taken.finish()?;
    report(args, &found)?;
    let whole = found.unreadable.is_empty() && found.headers.is_empty();
    let sound = whole && found.gaps.is_empty() && found.below_start.is_empty();
    Ok(if sound { SOUND } else { DAMAGED })
}

/// An error of the log that is read, or of the output.
enum SalvageFailure {
    Log(WalError),
    Own(CommandError),
}

impl From<WalError> for SalvageFailure {
    fn from(error: WalError) -> SalvageFailure {
        SalvageFailure::Log(error)
    }
}

/// The destination of sound records.
enum SalvageOutput {
    Log(Box<NewLog>),
    Raw(BufWriter<std::io::Stdout>),
    Nothing,
}

impl SalvageOutput {
    fn take(&mut self, record: Record<'_>) -> Result<(), CommandError> {
        match self {
            SalvageOutput::Log(log) => log.take(record),
            SalvageOutput::Raw(out) => out.write_all(record.data).map_err(CommandError::Standard),
            SalvageOutput::Nothing => Ok(()),
        }
    }

    fn finish(self) -> Result<(), CommandError> {
        match self {
            SalvageOutput::Log(log) => log.finish(),
            SalvageOutput::Raw(mut out) => out.flush().map_err(CommandError::Standard),
            SalvageOutput::Nothing => Ok(()),
        }
    }
}

/// The new log that receives the sound records.
struct NewLog {
    log: Log,
    path: PathBuf,
    map: Option<(PathBuf, BufWriter<File>)>,
    since_commit: u64,
}

impl NewLog {
    fn create(path: &PathBuf, map: Option<&PathBuf>) -> Result<NewLog, CommandError> {
        match std::fs::create_dir(path) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                let mut names =
                    std::fs::read_dir(path).map_err(CommandError::system("read", path))?;
                if names.next().is_some() {
                    let path = quoted(path);
                    return Err(CommandError::Other(format!(
                        "{path} is not empty: a new log needs a directory of its own"
                    )));
                }
            }
            // Without the sync, a power cut could lose the directory and the log with it.
            other => other
                .map_err(CommandError::system("create", path))
                .and_then(|()| sync_directory_of(path))?,
        }
        let log = Log::open(path, &Options::new());
        let log = log.map_err(|source| CommandError::Log { directory: path.clone(), source })?;
        let map = match map {
            Some(path) => {
                let file = File::create(path).map_err(CommandError::system("create", path))?;
                sync_directory_of(path)?;
                Some((path.clone(), BufWriter::new(file)))
            }
            None => None,
        };
        Ok(NewLog { log, path: path.clone(), map, since_commit: 0 })
    }

    fn failed(&self) -> impl Fn(WalError) -> CommandError + use<> {
        let directory = self.path.clone();
        move |source| CommandError::Log { directory: directory.clone(), source }
    }

    fn take(&mut self, record: Record<'_>) -> Result<(), CommandError> {
        let lsn = self.log.append(record.data).map_err(self.failed())?;
        self.since_commit += record.data.len() as u64;
        if self.since_commit > COMMIT {
            self.log.commit(lsn).map_err(self.failed())?;
            self.since_commit = 0;
        }
        match &mut self.map {
            Some((path, out)) => {
                writeln!(out, "{} {lsn}", record.lsn).map_err(CommandError::system("write", path))
            }
            None => Ok(()),
        }
    }

    fn finish(self) -> Result<(), CommandError> {
        let failed = self.failed();
        if let Some((path, mut out)) = self.map {
            out.flush()
                .and_then(|()| out.get_ref().sync_all())
                .map_err(CommandError::system("write", &path))?;
        }
        self.log.close().map_err(failed)
    }
}

/// Makes the name of a file or directory durable.
fn sync_directory_of(path: &Path) -> Result<(), CommandError> {
    let parent = directory_of(path);
    let synced = File::open(parent).and_then(|parent| parent.sync_all());
    synced.map_err(CommandError::system("sync", parent))
}

fn report(args: &SalvageArgs, found: &Salvage) -> Result<(), CommandError> {
    let Salvage { start, records, bytes, to, gaps, below_start, unreadable, headers, .. } = found;
    for BadHeader { segment, fault, .. } in headers {
        let path = args.source.directory.join(segment);
        eprintln!("dio: header passed over: {}: {fault}", quoted(path));
    }
    for UnreadableRange { segment, offset, length } in unreadable {
        let path = args.source.directory.join(segment);
        eprintln!("dio: unreadable: {length} bytes at byte {offset} of {}", quoted(path));
    }
    for Gap { from, to, segment, offset } in gaps {
        let path = args.source.directory.join(segment);
        eprintln!("dio: lost: LSN {from} to {to}, from byte {offset} of {} on", quoted(path));
    }
    for Gap { from, to, segment, offset } in below_start {
        let path = args.source.directory.join(segment);
        eprintln!(
            "dio: damaged, and truncated: LSN {from} to {to}, from byte {offset} of {} on",
            quoted(path)
        );
    }
    let text = match (args.raw, args.json) {
        (true, _) => return Ok(()),
        (_, true) => format!("{:#}\n", to_json(found)),
        _ => {
            let lost = match (gaps.len(), unreadable.is_empty() && headers.is_empty()) {
                (0, true) if !below_start.is_empty() => {
                    "nothing is lost, but the log is damaged below its start".to_owned()
                }
                (0, true) => "nothing is lost".to_owned(),
                (0, false) => format!("nothing before LSN {to} is lost, what was behind it may be"),
                (gaps, _) => format!("{gaps} gaps"),
            };
            format!("{records} records of {bytes} bytes are sound, LSN {start} to {to}; {lost}\n")
        }
    };
    std::io::stdout().write_all(text.as_bytes()).map_err(CommandError::Standard)
}

fn to_json(found: &Salvage) -> Value {
    let lsn = |Lsn(lsn): Lsn| lsn;
    let told = |gaps: &[Gap]| -> Vec<Value> {
        let each = gaps.iter();
        each.map(|gap| json!({
            "from": lsn(gap.from), "to": lsn(gap.to), "segment": gap.segment, "offset": gap.offset
        }))
            .collect()
    };
    let unreadable: Vec<Value> = found
        .unreadable
        .iter()
        .map(|place| {
            json!({
                "segment": place.segment, "offset": place.offset, "length": place.length
            })
        })
        .collect();
    let headers: Vec<Value> = found
        .headers
        .iter()
        .map(|bad| {
            json!({
                "segment": bad.segment, "first_lsn": lsn(bad.first), "fault": bad.fault.to_string()
            })
        })
        .collect();
    json!({
        "records": found.records,
        "bytes": found.bytes,
        "start": lsn(found.start),
        "end": lsn(found.to),
        "known_durable": lsn(found.known_durable),
        "lost": told(&found.gaps),
        "damaged_below_start": told(&found.below_start),
        "unreadable": unreadable,
        "headers": headers,
    })
}
