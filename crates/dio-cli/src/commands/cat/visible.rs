//! Notation of unprintable bytes as in `cat -v`: `^X`, `^?`, `M-X`, `M-^X`.

use memchr::memchr_iter;

/// Number of bytes that are checked together: a power of two for which the compiler generates
/// vector instructions.
const RUN: usize = 32;

/// The notation of a byte: up to four characters, and their number.
#[derive(Clone, Copy)]
struct ByteNotation {
    text: [u8; 4],
    len: u8,
}

/// The notation of every byte; newlines and tabs are unchanged.
static SHOWN: [ByteNotation; 256] = table();

const fn table() -> [ByteNotation; 256] {
    let mut table = [ByteNotation { text: [0; 4], len: 0 }; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = shown(byte as u8);
        byte += 1;
    }
    table
}

const fn shown(byte: u8) -> ByteNotation {
    match byte {
        b'\n' | b'\t' | 32..127 => ByteNotation { text: [byte, 0, 0, 0], len: 1 },
        0..32 => ByteNotation { text: [b'^', byte + 64, 0, 0], len: 2 },
        127 => ByteNotation { text: *b"^?\0\0", len: 2 },
        128..160 => ByteNotation { text: [b'M', b'-', b'^', byte - 128 + 64], len: 4 },
        160..255 => ByteNotation { text: [b'M', b'-', byte - 128, 0], len: 3 },
        255 => ByteNotation { text: *b"M-^?", len: 4 },
    }
}

/// Appends `text` with all unprintable bytes made visible, except newlines. Tabs are made visible
/// only with `tabs`.
pub(super) fn all(text: &[u8], tabs: bool, out: &mut Vec<u8>) {
    if tabs { shown_runs::<true>(text, out) } else { shown_runs::<false>(text, out) }
}

fn shown_runs<const TABS: bool>(text: &[u8], out: &mut Vec<u8>) {
    let mut runs = text.chunks_exact(RUN);
    let mut plain_from = 0;
    let mut at = 0;
    for run in &mut runs {
        if !is_plain::<TABS>(run) {
            out.extend_from_slice(&text[plain_from..at]);
            each(run, TABS, out);
            plain_from = at + RUN;
        }
        at += RUN;
    }
    let rest = runs.remainder();
    // The last bytes can be checked together too, if the block reaches back over some bytes that
    // were already checked.
    if text.last_chunk::<RUN>().is_some_and(|last| is_plain::<TABS>(last)) || is_plain::<TABS>(rest)
    {
        out.extend_from_slice(&text[plain_from..]);
    } else {
        out.extend_from_slice(&text[plain_from..at]);
        each(rest, TABS, out);
    }
}

/// Returns whether every byte stays unchanged.
fn is_plain<const TABS: bool>(run: &[u8]) -> bool {
    let stays =
        |byte: u8| (byte.wrapping_sub(32) < 95) | (byte == b'\n') | (!TABS & (byte == b'\t'));
    run.iter().fold(true, |plain, &byte| plain & stays(byte))
}

/// Converts each byte by the table. Four bytes are always written and the surplus is cut off, which
/// avoids a copy of variable length.
fn each(text: &[u8], tabs: bool, out: &mut Vec<u8>) {
    let mut shown_text = [0; RUN * 4 + 4];
    for part in text.chunks(RUN) {
        let mut end = 0;
        for &byte in part {
            let shown = if byte == b'\t' && tabs {
                ByteNotation { text: *b"^I\0\0", len: 2 }
            } else {
                SHOWN[usize::from(byte)]
            };
            shown_text[end..end + 4].copy_from_slice(&shown.text);
            end += usize::from(shown.len);
        }
        out.extend_from_slice(&shown_text[..end]);
    }
}

/// Appends `text` with `^I` for each tab.
pub(super) fn tabs(text: &[u8], out: &mut Vec<u8>) {
    let mut start = 0;
    for tab in memchr_iter(b'\t', text) {
        out.extend_from_slice(&text[start..tab]);
        out.extend_from_slice(b"^I");
        start = tab + 1;
    }
    out.extend_from_slice(&text[start..]);
}
