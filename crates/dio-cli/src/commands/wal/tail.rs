//! `dio wal tail`: prints the last records of a log, and those appended later.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dio_wal::storage::Storage;
use dio_wal::{Lsn, Reader, WalError};

use super::show::{Headers, Printer, RecordForm};
use super::{CommandError, DAMAGED, LogArgs, SOUND, explain, parse_lsn};

/// Distance before the end, in bytes, at which the search for the last records starts. If that
/// yields too few, the distance is multiplied by eight, and so on.
const FIRST_LOOK: u64 = 64 << 10;
/// If nothing new arrives for this time, the end of the log is checked; then again after twice the
/// time, and so on.
const END_CHECK_DELAY: Duration = Duration::from_secs(2);

/// Print the last records of a log, and with --follow those that are appended from then on
///
/// Records are printed when they are whole. The last ones may not be durable yet: a power cut may
/// still take them, and others may come in their place. A reader that truncation overtakes says so
/// and goes on with what is there.
#[derive(Debug, clap::Args)]
pub(super) struct TailArgs {
    #[command(flatten)]
    source: LogArgs,

    /// Go on with the records that are appended from then on, until interrupted
    #[arg(short, long)]
    follow: bool,

    /// Begin with the last N records
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10, conflicts_with = "from")]
    count: u64,

    /// Begin with the record at this LSN, or the next one behind it
    #[arg(long, value_name = "LSN", value_parser = parse_lsn)]
    from: Option<Lsn>,

    /// With --follow, look for new records so many times a second
    #[arg(
        long,
        value_name = "N",
        default_value_t = 20,
        value_parser = clap::value_parser!(u32).range(1..=10_000)
    )]
    rate: u32,

    #[command(flatten)]
    form: RecordForm,
}

/// Prints records; with `--follow`, until it is interrupted.
pub(super) fn run(args: &TailArgs) -> Result<u8, CommandError> {
    let failed = args.source.failed();
    let storage = args.source.storage()?;
    // The end is read only once: a writer may append faster than this command reads.
    let last = Reader::open_damaged_on(Arc::clone(&storage), Lsn(u64::MAX)).map_err(&failed)?;
    let now = last.bounds().map_err(&failed)?.end;
    let from = match args.from {
        Some(from) => from,
        None => last_records(&storage, args.count, now).map_err(&failed)?,
    };
    let mut reader = Reader::open_damaged_on(Arc::clone(&storage), from).map_err(&failed)?;
    let mut out = Out {
        printer: Printer::new(args.form, reader.layout()),
        headers: Headers::new(&args.source),
    };
    let mut status = SOUND;
    loop {
        let outcome = match args.follow {
            true => follow(args, &mut reader, &mut out),
            false => print_until(now, &mut reader, &mut out),
        };
        match outcome {
            Err(FollowError::Log(error @ WalError::Truncated { .. })) => {
                eprintln!("dio: overtaken: {}", explain(&args.source.directory, &error));
                status = status.max(DAMAGED);
                let position = reader.position();
                reader =
                    Reader::open_damaged_on(Arc::clone(&storage), position).map_err(&failed)?;
                out.headers = Headers::new(&args.source);
            }
            Err(trouble) => return Err(trouble.told(args)),
            Ok(()) => break,
        }
    }
    out.headers.tell(&reader, &mut out.printer, Lsn(u64::MAX))?;
    Ok(if out.headers.any() { DAMAGED } else { status })
}

/// An error that ends following.
enum FollowError {
    Log(WalError),
    Output(CommandError),
}

impl FollowError {
    fn told(self, args: &TailArgs) -> CommandError {
        match self {
            FollowError::Log(error) => args.source.failed()(error),
            FollowError::Output(error) => error,
        }
    }
}

/// Prints records and damaged headers.
struct Out<'a> {
    printer: Printer,
    headers: Headers<'a>,
}

/// Prints the records that begin before `upto`. Returns whether an entry was read.
fn print(reader: &mut Reader, upto: Lsn, out: &mut Out<'_>) -> Result<bool, FollowError> {
    let Out { printer, headers } = out;
    let mut any = false;
    while reader.position() < upto
        && let Some(entry) = reader.next_entry().map_err(FollowError::Log)?
    {
        any = true;
        if entry.lsn >= upto {
            break;
        }
        if entry.mark.is_none() {
            printer.entry(&entry).map_err(FollowError::Output)?;
        }
    }
    headers.tell(reader, printer, reader.position()).map_err(FollowError::Output)?;
    printer.flush().map_err(FollowError::Output)?;
    Ok(any)
}

fn follow(args: &TailArgs, reader: &mut Reader, out: &mut Out<'_>) -> Result<(), FollowError> {
    let (mut quiet, mut doubt) = (Instant::now(), END_CHECK_DELAY);
    loop {
        if print(reader, Lsn(u64::MAX), out)? {
            (quiet, doubt) = (Instant::now(), END_CHECK_DELAY);
        } else if quiet.elapsed() > doubt {
            // This reads what follows the end, so it is done rarely.
            reader.check_end().map_err(FollowError::Log)?;
            (quiet, doubt) = (Instant::now(), doubt * 2);
        }
        std::thread::sleep(Duration::from_secs(1) / args.rate);
    }
}

/// Prints the records below `end`, and checks what follows them: damage there is an error, and so
/// is a failed read.
fn print_until(end: Lsn, reader: &mut Reader, out: &mut Out<'_>) -> Result<(), FollowError> {
    print(reader, end, out)?;
    match reader.check_end() {
        // Records that were appended since were not requested.
        Err(WalError::Truncated { .. }) if reader.position() >= end => Ok(()),
        outcome => outcome.map_err(FollowError::Log),
    }
}

/// The LSN at which the last `count` records before `end` begin.
fn last_records(storage: &Arc<dyn Storage>, count: u64, end: Lsn) -> Result<Lsn, WalError> {
    if count == 0 {
        return Ok(end);
    }
    let mut look = FIRST_LOOK;
    loop {
        let from = Lsn(end.0.saturating_sub(look));
        let mut reader = Reader::open_damaged_on(Arc::clone(storage), from)?;
        let mut last = std::collections::VecDeque::new();
        while let Some(record) = reader.next()?.filter(|record| record.lsn < end) {
            last.push_back(record.lsn);
            if last.len() as u64 > count {
                last.pop_front();
            }
        }
        if last.len() as u64 == count || from == Lsn(0) {
            return Ok(last.front().copied().unwrap_or(from));
        }
        look = look.saturating_mul(8);
    }
}
