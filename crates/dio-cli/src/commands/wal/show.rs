//! Prints records on standard output: as lines, as JSON, or raw.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Stdout, Write};

use dio_wal::{BadHeader, Gap, Layout, LogEntry, Lsn, Reader, WalError};
use serde_json::{Value, json};

use super::{CommandError, LogArgs, explain};

/// Bytes of a record in one line of hexadecimal digits.
const HEX_LINE: usize = 16;

/// How records are shown.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(super) struct RecordForm {
    /// Show the bytes of each record too, in hexadecimal and as text
    #[arg(long)]
    hex: bool,

    /// Write the bytes of the records and nothing else
    #[arg(long, conflicts_with_all = ["hex", "json"])]
    raw: bool,

    /// Print each record as one JSON object on one line; with --hex its bytes too
    #[arg(long)]
    json: bool,
}

/// Prints records.
pub(super) struct Printer {
    form: RecordForm,
    layout: Layout,
    headed: bool,
    out: BufWriter<Stdout>,
}

impl Printer {
    pub(super) fn new(form: RecordForm, layout: Layout) -> Printer {
        Printer {
            form,
            layout,
            headed: false,
            out: BufWriter::with_capacity(1 << 16, io::stdout()),
        }
    }

    pub(super) fn entry(&mut self, entry: &LogEntry<'_>) -> Result<(), CommandError> {
        let written = match self.form {
            RecordForm { raw: true, .. } if entry.mark.is_some() => Ok(()),
            RecordForm { raw: true, .. } => self.out.write_all(entry.payload),
            RecordForm { json: true, .. } => {
                let value = self.to_json(entry);
                writeln!(self.out, "{value}")
            }
            _ => self.line(entry),
        };
        written.map_err(CommandError::Standard)
    }

    fn line(&mut self, entry: &LogEntry<'_>) -> io::Result<()> {
        if !std::mem::replace(&mut self.headed, true) {
            let segment = "segment";
            writeln!(
                self.out,
                "{:>14}  {segment:<16}  {:>10}  {:>9}  checksum",
                "LSN", "offset", "bytes"
            )?;
        }
        let (number, offset) = self.layout.locate(entry.lsn.0);
        write!(
            self.out,
            "{:>14}  {number:016x}  {offset:>10}  {:>9}  {:08x} good",
            entry.lsn.0,
            entry.payload.len(),
            entry.crc
        )?;
        match entry.mark {
            Some(mark) => {
                writeln!(
                    self.out,
                    "  mark: durable {}, start {}, opening {:016x}",
                    mark.durable, mark.start, mark.incarnation
                )?;
            }
            None => writeln!(self.out)?,
        }
        if self.form.hex && entry.mark.is_none() {
            hex(&mut self.out, entry.payload)?;
        }
        Ok(())
    }

    fn to_json(&self, entry: &LogEntry<'_>) -> Value {
        let (number, offset) = self.layout.locate(entry.lsn.0);
        let mut value = json!({
            "type": if entry.mark.is_some() { "mark" } else { "record" },
            "lsn": entry.lsn.0,
            "end": entry.end.0,
            "bytes": entry.payload.len(),
            "segment": dio_wal::format::segment_name(number),
            "offset": offset,
            "crc32c": format!("{:08x}", entry.crc),
            "checksum": "good",
        });
        if let Some(mark) = entry.mark {
            value["durable"] = mark.durable.into();
            value["start"] = mark.start.into();
            value["opening"] = format!("{:016x}", mark.incarnation).into();
        } else if self.form.hex {
            let digits: String = entry.payload.iter().map(|byte| format!("{byte:02x}")).collect();
            value["data"] = digits.into();
        }
        value
    }

    /// Prints a part of the log that cannot be read, and the reason.
    pub(super) fn gap(&mut self, gap: &Gap, reason: &str) -> Result<(), CommandError> {
        let Gap { from, to, segment, offset } = gap;
        let written = match self.form {
            // Raw output has no place for a message; the gap is reported on standard error.
            RecordForm { raw: true, .. } => Ok(()),
            RecordForm { json: true, .. } => {
                let value = json!({
                    "type": "damage", "lsn": from.0, "end": to.0, "segment": segment, "offset": offset, "reason": reason,
                });
                writeln!(self.out, "{value}")
            }
            _ => {
                let number = segment.trim_end_matches(".wal");
                let bytes = to.0 - from.0;
                writeln!(
                    self.out,
                    "{:>14}  {number}  {offset:>10}  {bytes:>9}  DAMAGED: {reason}",
                    from.0
                )
            }
        };
        written.map_err(CommandError::Standard)
    }

    pub(super) fn flush(&mut self) -> Result<(), CommandError> {
        self.out.flush().map_err(CommandError::Standard)
    }
}

/// Reports segments with invalid headers, each once. Sound records in them are printed like others.
pub(super) struct Headers<'a> {
    source: &'a LogArgs,
    /// Number of bad headers that the reader has met, and how many of these were reported.
    met: usize,
    told: usize,
    /// Bad headers that were not reported yet, ordered by their LSN and then in the order in which
    /// they were met.
    waiting: BTreeMap<(Lsn, usize), BadHeader>,
}

impl<'a> Headers<'a> {
    pub(super) fn new(source: &'a LogArgs) -> Headers<'a> {
        Headers { source, met: 0, told: 0, waiting: BTreeMap::new() }
    }

    /// Whether any bad header was reported.
    pub(super) fn any(&self) -> bool {
        self.told > 0
    }

    /// Reports the bad headers at or before LSN `upto` that were not reported yet.
    pub(super) fn tell(
        &mut self,
        reader: &Reader,
        printer: &mut Printer,
        upto: Lsn,
    ) -> Result<(), CommandError> {
        for bad in reader.bad_headers_since(self.met) {
            self.waiting.insert((bad.first, self.met), bad);
            self.met += 1;
        }
        while let Some(entry) = self.waiting.first_entry().filter(|entry| entry.key().0 <= upto) {
            let BadHeader { segment, first, fault } = entry.remove();
            self.told += 1;
            printer.gap(
                &Gap { from: first, to: first, segment: segment.clone(), offset: 0 },
                &fault.to_string(),
            )?;
            printer.flush()?;
            eprintln!(
                "dio: {}",
                explain(&self.source.directory, &WalError::Header { segment, fault })
            );
        }
        Ok(())
    }
}

/// Writes bytes in the format of `hexdump -C`.
fn hex(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    for (number, line) in bytes.chunks(HEX_LINE).enumerate() {
        let digits: String = line.iter().map(|byte| format!(" {byte:02x}")).collect();
        let shown = |byte: &u8| {
            if byte.is_ascii_graphic() || *byte == b' ' { char::from(*byte) } else { '.' }
        };
        let text: String = line.iter().map(shown).collect();
        writeln!(out, "    {:08x} {digits:<48}  |{text}|", number * HEX_LINE)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_in_lines_of_sixteen() {
        let mut out = Vec::new();
        hex(&mut out, b"0123456789abcdef\n").unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(
            text,
            "    00000000  30 31 32 33 34 35 36 37 38 39 61 62 63 64 65 66  \
             |0123456789abcdef|\n    00000010  0a                                               \
             |.|\n"
        );
    }
}
