//! `-C`: whole lines up to a number of bytes.

use memchr::memrchr;

use super::cutter::{Cut, CutAction, Cutter, at_most};

/// `-C`: as many whole lines as fit into `each` bytes; a line that does not fit by itself is cut.
///
/// The last window of bytes is no exception: if the input fills it exactly and does not end with a
/// line end, its last line starts an output of its own, as in GNU split.
#[derive(Debug)]
pub(in crate::commands::split) struct LineBytes {
    separator: u8,
    each: u64,
    piece: u64,
    /// Bytes that the current output can still take; bytes set aside count as taken. Invariant: at
    /// least 1.
    room: u64,
    /// Whether a line ends in the current output, so that a partial line may have to wait for the
    /// next output.
    has_line: bool,
    /// The number of bytes set aside.
    kept: u64,
}

impl LineBytes {
    pub(in crate::commands::split) fn new(separator: u8, each: u64) -> LineBytes {
        LineBytes { separator, each, piece: 0, room: each, has_line: false, kept: 0 }
    }

    /// Begins the next output with the bytes set aside.
    fn next_piece(&mut self) {
        self.piece += 1;
        self.room = self.each - self.kept;
        self.has_line = false;
    }

    fn put_kept(&mut self) -> Cut {
        self.kept = 0;
        Cut { action: CutAction::PutKept, piece: self.piece, len: 0, ends: false }
    }
}

impl Cutter for LineBytes {
    fn cut(&mut self, chunk: &[u8]) -> Cut {
        let window = at_most(chunk, self.room);
        let full = window as u64 == self.room;
        let line_end = memrchr(self.separator, &chunk[..window]);
        let len = match line_end {
            // The bytes set aside begin a line that ends here, or begin an output.
            _ if self.kept > 0 && (line_end.is_some() || !self.has_line) => return self.put_kept(),
            Some(at) => at + 1,
            None if self.has_line => {
                let cut =
                    Cut { action: CutAction::Keep, piece: self.piece, len: window, ends: full };
                self.kept += window as u64;
                self.room -= window as u64;
                if full {
                    self.next_piece();
                }
                return cut;
            }
            None => window,
        };
        self.has_line |= line_end.is_some();
        self.room -= len as u64;
        let cut = Cut::put(self.piece, len, self.room == 0);
        if cut.ends {
            self.next_piece();
        }
        cut
    }

    fn end(&mut self) -> Option<Cut> {
        (self.kept > 0).then(|| self.put_kept())
    }
}
