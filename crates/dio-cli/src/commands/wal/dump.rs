//! `dio wal dump`: prints the records of a log.

use dio_wal::{Lsn, Reader, WalError};

use super::show::{Headers, Printer, RecordForm};
use super::{CommandError, DAMAGED, LogArgs, SOUND, explain, is_damage, parse_lsn};

/// Print the records of a log: place, length, checksum
///
/// Damaged parts of the log are printed too, and the sound records behind them. The end is the LSN
/// of the next record. Records that a program appends meanwhile are printed only if they lie in
/// segments that existed at the start.
#[derive(Debug, clap::Args)]
pub(super) struct DumpArgs {
    #[command(flatten)]
    source: LogArgs,

    /// Begin with the record at this LSN, or the next one behind it
    #[arg(long, value_name = "LSN", default_value = "0", value_parser = parse_lsn)]
    from: Lsn,

    /// Leave out records that begin at this LSN or behind it
    #[arg(long, value_name = "LSN", value_parser = parse_lsn)]
    to: Option<Lsn>,

    /// Print at most so many records
    #[arg(short = 'n', long, value_name = "N")]
    count: Option<u64>,

    /// Print the marks too that the log writes for itself
    #[arg(long)]
    marks: bool,

    #[command(flatten)]
    form: RecordForm,
}

/// Prints the records. The exit status says whether all of them could be read.
pub(super) fn run(args: &DumpArgs) -> Result<u8, CommandError> {
    let failed = args.source.failed();
    let mut reader = Reader::open_damaged_on(args.source.storage()?, args.from).map_err(&failed)?;
    let mut printer = Printer::new(args.form, reader.layout());
    let mut headers = Headers::new(&args.source);
    let (mut left, mut status) = (args.count.unwrap_or(u64::MAX), SOUND);
    if args.from < reader.position()
        && let Some(gap) = reader.lost_beginning().map_err(&failed)?
    {
        let error =
            WalError::Missing { segment: gap.segment.clone(), offset: gap.offset, lsn: gap.from };
        printer.gap(&gap, "the beginning of the log is missing")?;
        printer.flush()?;
        eprintln!("dio: {}", explain(&args.source.directory, &error));
        status = DAMAGED;
    }
    let limit = args.to.map_or(reader.listed_end(), |to| to.min(reader.listed_end()));
    while left > 0 {
        // Bad headers that the reader has met ahead are printed at their positions in the log.
        headers.tell(&reader, &mut printer, reader.position())?;
        match reader.next_entry().map_err(&failed)? {
            Some(entry) if entry.lsn >= limit => break,
            Some(entry) => {
                if entry.mark.is_none() || args.marks {
                    printer.entry(&entry)?;
                    left -= u64::from(entry.mark.is_none());
                }
            }
            None => match pass(args, &mut reader, &mut printer)? {
                true => status = DAMAGED,
                false => break,
            },
        }
    }
    let end = args.to.filter(|_| left > 0).unwrap_or(if left > 0 {
        Lsn(u64::MAX)
    } else {
        reader.position()
    });
    headers.tell(&reader, &mut printer, end)?;
    printer.flush()?;
    Ok(if headers.any() { DAMAGED } else { status })
}

/// Called where no more record can be read: reports damage and skips it. Returns `false` at the end
/// of the log.
fn pass(args: &DumpArgs, reader: &mut Reader, printer: &mut Printer) -> Result<bool, CommandError> {
    let failed = args.source.failed();
    if args.to.is_some_and(|to| reader.position() >= to) {
        return Ok(false);
    }
    let error = match reader.check_end() {
        Ok(()) => return Ok(false),
        Err(error) if is_damage(&error) => error,
        Err(error) => return Err(failed(error)),
    };
    let reason =
        reader.diagnose().map_or_else(|error| error.to_string(), |fault| fault.to_string());
    printer.flush()?;
    eprintln!("dio: {}", explain(&args.source.directory, &error));
    match reader.skip_damage().map_err(&failed)? {
        Some(gap) => {
            printer.gap(&gap, &reason)?;
            Ok(true)
        }
        // There is no sound record behind the damage.
        None => Err(failed(WalError::clone(&error))),
    }
}
