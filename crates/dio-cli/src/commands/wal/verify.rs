//! `dio wal verify`: checks whether a log is sound.

use std::io::Write;

use dio_common::units::size;
use dio_wal::{SegmentStatus, Verification, verify};
use serde_json::{Value, json};

use super::{CommandError, DAMAGED, LogArgs, SOUND, explain};

/// Read a whole log and report whether it is sound
///
/// Checks the header of each segment, the checksum of each record, and the chain from record to
/// record. Also looks behind the end for a mark which says that more was durable: that proves
/// damage. Reading cannot show whether the last group is missing, if the log was in use within a
/// second before a power cut (see docs/wal.md). Status 0: sound; 1: damaged; 2: the log could not
/// be read.
#[derive(Debug, clap::Args)]
pub(super) struct VerifyArgs {
    #[command(flatten)]
    source: LogArgs,

    /// Print nothing; only the exit status counts
    #[arg(short, long, conflicts_with = "json")]
    quiet: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Verifies a log. The exit status says whether it is sound.
pub(super) fn run(args: &VerifyArgs) -> Result<u8, CommandError> {
    let found = verify(args.source.storage()?).map_err(args.source.failed())?;
    let damage = found.damage.as_ref().map(|error| explain(&args.source.directory, error));
    let text = match (args.quiet, args.json) {
        (true, _) => String::new(),
        (_, true) => format!("{:#}\n", to_json(&found, damage.as_deref())),
        _ => to_text(&found, damage.as_deref()),
    };
    std::io::stdout().write_all(text.as_bytes()).map_err(CommandError::Standard)?;
    Ok(if damage.is_some() { DAMAGED } else { SOUND })
}

fn to_text(found: &Verification, damage: Option<&str>) -> String {
    let Verification { read, .. } = found;
    let segments: Vec<&SegmentStatus> =
        found.segments.iter().filter(|segment| !segment.before).collect();
    let before = found.segments.len() - segments.len();
    let mut range = segments.len().to_string();
    if let (Some(first), Some(last)) = (segments.first(), segments.last()) {
        range = format!("{range}, {:x} to {:x}", first.number, last.number);
    }
    for (count, what) in
        [(before, "before them"), (found.spares, "spare"), (found.unfinished, "unfinished")]
    {
        if count > 0 {
            range = format!("{range}; {count} {what}");
        }
    }
    let sure = match read.ended {
        true => "all: the log ends with a mark that says so".to_owned(),
        false => format!(
            "LSN {}; what is behind was found whole, and more may have been there",
            read.known_durable
        ),
    };
    let verdict = damage.map_or("sound".to_owned(), |damage| format!("DAMAGED: {damage}"));
    format!(
        "log       {}\nblocks    {} in segments of {}\nsegments  {range}\nstart     LSN \
         {}\nend       LSN {} ({})\nrecords   {}, {} in {} groups of {} openings\ndurable   \
         {sure}\nverdict   {verdict}\n",
        found.identity,
        size(found.layout.block_bytes()),
        size(found.layout.segment_bytes()),
        read.start,
        read.end,
        found.at_end,
        read.records,
        size(read.bytes),
        found.marks,
        found.openings,
    )
}

fn to_json(found: &Verification, damage: Option<&str>) -> Value {
    let Verification { read, .. } = found;
    let segments: Vec<Value> = found
        .segments
        .iter()
        .map(|segment| {
            json!({
                "name": dio_wal::format::segment_name(segment.number),
                "number": segment.number,
                "bytes": segment.size,
                "first_lsn": found.layout.segment_start(segment.number),
                "before_the_log": segment.before,
                "fault": segment.fault.as_ref().map(ToString::to_string),
            })
        })
        .collect();
    json!({
        "sound": damage.is_none(),
        "damage": damage,
        "identity": found.identity.to_string(),
        "block_bytes": found.layout.block_bytes(),
        "segment_bytes": found.layout.segment_bytes(),
        "segments": segments,
        "spares": found.spares,
        "unfinished": found.unfinished,
        "start": read.start.0,
        "end": read.end.0,
        "at_end": found.at_end.to_string(),
        "records": read.records,
        "bytes": read.bytes,
        "groups": found.marks,
        "openings": found.openings,
        "known_durable": read.known_durable.0,
        "ends_with_a_mark": read.ended,
    })
}
