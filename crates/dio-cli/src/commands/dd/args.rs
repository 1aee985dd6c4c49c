//! The part of `dio dd`'s grammar that it shares with other tools. The operands have a grammar of
//! their own, see `operands`.

use std::ffi::OsString;

use crate::grammar::{Grammar, help, version};
use crate::tool::{IoArgs, io_flags};

/// Description of the operands for `--help`.
const OPERANDS: &str = "\
Operands:
  if=FILE, of=FILE    read from FILE instead of standard input, write to FILE instead of standard \
output
  bs=BYTES            size of the blocks read and written (default: 512); overrides ibs and obs
  ibs=BYTES           size of the blocks read
  obs=BYTES           size of the blocks written
  cbs=BYTES           size of the records of block, unblock, ascii, ebcdic and ibm
  count=N             copy N blocks of input
  skip=N (iseek=N)    pass over N blocks of input first
  seek=N (oseek=N)    pass over N blocks of output first
  conv=CONV,...       ascii ebcdic ibm block unblock lcase ucase sparse swab sync
                      excl nocreat notrunc noerror fdatasync fsync
  iflag=FLAG,...      direct directory dsync sync fullblock nonblock noatime nocache
                      noctty nofollow count_bytes skip_bytes
  oflag=FLAG,...      append direct directory dsync sync nonblock noatime nocache
                      noctty nofollow seek_bytes
  status=LEVEL        none, noxfer or progress

Numbers take suffixes: c (1) w (2) b (512) kB (1000) K (1024) MB M GB G and so on for T P E Z Y R Q,
KiB, MiB ...; NxM is a product. If N of count, skip or seek contains a B, it counts bytes, not \
blocks.

Blocks are what the result looks like; requests to the disk are of --block bytes, whatever bs is.
SIGUSR1 prints the statistics so far, SIGINT prints them and ends the copy.";

/// The parsed command line.
#[derive(Debug, Default)]
pub(super) struct DdArgs {
    pub(super) operands: Vec<OsString>,
    pub(super) io: IoArgs,
}

pub(super) fn grammar() -> Grammar<DdArgs> {
    let about = "Copy and convert a file, as the operands say, past the page cache";
    let details = "An existing output is written in place: a copy that is cut short leaves what it \
                   has written.";
    Grammar::<DdArgs>::new("dd", about, details)
        .flags(io_flags(|dd| &mut dd.io))
        .flags([help("-h, --help"), version("-V, --version")])
        .operands(
            &[("OPERAND...", "What to do: if=FILE of=FILE bs=BYTES count=N and others, see below")],
            |dd, operand| {
                dd.operands.push(operand);
                Ok(())
            },
        )
        .after(OPERANDS)
}
