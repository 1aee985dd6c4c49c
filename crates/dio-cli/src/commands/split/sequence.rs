//! Outputs that follow each other: one is complete before the next is begun.

use super::cut::{Action, Cut};
use super::failure::Run;
use super::pieces::Maker;
use super::target::{Part, Target};

/// Who takes what the input is cut into.
pub(super) trait Outlet {
    /// Writes bytes of an output.
    fn put(&mut self, cut: &Cut, part: Part<'_>) -> Run<()>;

    /// Nothing is coming now; `all` asks for everything that can be written to be written.
    fn idle(&mut self, all: bool) -> Run<()>;

    /// Nothing that may still come is of any use.
    fn done(&self) -> bool;

    /// The input has ended.
    fn finish(&mut self) -> Run<()>;
}

/// Files or commands one after the other.
#[derive(Debug)]
pub(super) struct Sequence {
    maker: Maker,
    /// How many outputs there are to be, if that is known and empty ones are wanted.
    wanted: Option<u64>,
    /// The last of the outputs, if their number is known.
    last: Option<u64>,
    /// How many outputs were made or passed over: the number of the next.
    next: u64,
    current: Option<(u64, Target)>,
}

impl Sequence {
    pub(super) fn new(maker: Maker, count: Option<u64>, elide_empty: bool) -> Sequence {
        let wanted = count.filter(|_| !elide_empty);
        Sequence { maker, wanted, last: count.map(|count| count - 1), next: 0, current: None }
    }

    fn close(&mut self) -> Run<()> {
        self.current.take().map_or(Ok(()), |(_, target)| target.close(self.maker.tool()))
    }

    fn open(&mut self, piece: u64) -> Run<()> {
        self.close()?;
        let made = self.maker.make(|| Ok(false))?;
        self.current = Some((piece, Target::new(self.maker.tool(), made)?));
        self.next = piece + 1;
        Ok(())
    }

    /// Makes the outputs before `piece` that got nothing.
    fn make_empty(&mut self, piece: u64) -> Run<()> {
        if self.wanted.is_some() {
            while self.next < piece {
                self.open(self.next)?;
            }
        }
        Ok(())
    }
}

impl Outlet for Sequence {
    fn put(&mut self, cut: &Cut, part: Part<'_>) -> Run<()> {
        debug_assert!(cut.action == Action::Put || cut.action == Action::PutKept);
        if self.current.as_ref().is_none_or(|(piece, _)| *piece != cut.piece) {
            self.make_empty(cut.piece)?;
            self.open(cut.piece)?;
        }
        let tool = self.maker.tool().clone();
        let (_, target) = self.current.as_mut().expect("it was opened above");
        target.write(&tool, part, cut.ends)?;
        if cut.ends { self.close() } else { Ok(()) }
    }

    fn idle(&mut self, all: bool) -> Run<()> {
        let tool = self.maker.tool().clone();
        self.current.as_mut().map_or(Ok(()), |(_, target)| target.flush(&tool, all))
    }

    fn done(&self) -> bool {
        self.current.as_ref().is_some_and(|(piece, target)| self.last == Some(*piece) && target.deaf())
    }

    fn finish(&mut self) -> Run<()> {
        if let Some(wanted) = self.wanted {
            self.make_empty(wanted)?;
        }
        self.close()?;
        self.maker.flush()
    }
}
