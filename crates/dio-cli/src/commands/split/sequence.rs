//! Outputs that follow each other: each is complete before the next is begun.

use super::background::Background;
use super::cut::{Cut, CutAction};
use super::failure::SplitResult;
use super::pieces::Maker;
use super::target::{InputPart, PieceOutput};

/// The receiver of the parts that the input is cut into.
pub(super) trait PartReceiver {
    /// Writes bytes of an output.
    fn put(&mut self, cut: &Cut, part: InputPart<'_>) -> SplitResult<()>;

    /// Handles a pause of the input; with `all`, writes everything that can be written.
    fn idle(&mut self, all: bool) -> SplitResult<()>;

    /// Returns whether no further input is needed.
    fn done(&self) -> bool;

    /// Handles the end of the input.
    fn finish(&mut self) -> SplitResult<()>;
}

/// Files or commands, written one after the other.
#[derive(Debug)]
pub(super) struct Sequence {
    maker: Maker,
    background: Background,
    /// The total number of outputs, if it is known and empty ones are wanted.
    wanted: Option<u64>,
    /// The number of the last output, if it is known.
    last: Option<u64>,
    /// The number of outputs that were created or skipped, which is the number of the next.
    next: u64,
    current: Option<(u64, PieceOutput)>,
}

impl Sequence {
    pub(super) fn new(maker: Maker, count: Option<u64>, elide_empty: bool) -> Sequence {
        let wanted = count.filter(|_| !elide_empty);
        let background = Background::new(maker.tool());
        Sequence {
            maker,
            background,
            wanted,
            last: count.map(|count| count - 1),
            next: 0,
            current: None,
        }
    }

    fn close(&mut self) -> SplitResult<()> {
        match self.current.take() {
            None => Ok(()),
            Some((piece, target)) if target.waits() => self.background.close(piece, target),
            Some((_, target)) => target.close(self.maker.tool()),
        }
    }

    /// A failed run reports the error of its first output that failed, even if that of a later one
    /// was noticed earlier.
    fn first_failure(&mut self, result: SplitResult<()>) -> SplitResult<()> {
        result.or_else(|failure| {
            self.background.finish()?;
            Err(failure)
        })
    }

    fn open(&mut self, piece: u64) -> SplitResult<()> {
        self.close()?;
        let made = self.maker.make(|| Ok(false))?;
        self.current = Some((piece, PieceOutput::new(self.maker.tool(), made)?));
        self.next = piece + 1;
        Ok(())
    }

    fn write(&mut self, cut: &Cut, part: InputPart<'_>) -> SplitResult<()> {
        if self.current.as_ref().is_none_or(|(piece, _)| *piece != cut.piece) {
            self.make_empty(cut.piece)?;
            self.open(cut.piece)?;
        }
        let tool = self.maker.tool().clone();
        let (_, target) = self.current.as_mut().expect("it was opened above");
        target.write(&tool, part, cut.ends)?;
        if cut.ends { self.close() } else { Ok(()) }
    }

    /// Creates the outputs before `piece` that got no bytes.
    fn make_empty(&mut self, piece: u64) -> SplitResult<()> {
        if self.wanted.is_some() {
            while self.next < piece {
                self.open(self.next)?;
            }
        }
        Ok(())
    }
}

impl PartReceiver for Sequence {
    fn put(&mut self, cut: &Cut, part: InputPart<'_>) -> SplitResult<()> {
        debug_assert!(cut.action == CutAction::Put || cut.action == CutAction::PutKept);
        let put = self.write(cut, part);
        self.first_failure(put)
    }

    fn idle(&mut self, all: bool) -> SplitResult<()> {
        let tool = self.maker.tool().clone();
        self.current.as_mut().map_or(Ok(()), |(_, target)| target.flush(&tool, all))
    }

    fn done(&self) -> bool {
        self.current
            .as_ref()
            .is_some_and(|(piece, target)| self.last == Some(*piece) && target.reader_gone())
    }

    fn finish(&mut self) -> SplitResult<()> {
        let made = self.wanted.map_or(Ok(()), |wanted| self.make_empty(wanted));
        let closed = made.and_then(|()| self.close());
        self.first_failure(closed)?;
        self.background.finish()?;
        self.maker.flush()
    }
}

impl Drop for Sequence {
    /// Writes the received bytes even if the run fails; the reason was already reported.
    fn drop(&mut self) {
        let _ = self.close();
        let _ = self.background.finish();
    }
}
