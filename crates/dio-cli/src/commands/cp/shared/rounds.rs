//! Which process reads back which piece of a file.

use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex};

use super::super::checks::{Findings, WrittenPiece};
use super::super::error::CopyError;

/// Pieces of one file that a process has to read back at a time.
const PIECES_EACH: usize = 2;

/// What a process has found in a piece.
#[derive(Debug)]
pub(super) enum Answer {
    Same,
    /// The first byte that differs.
    Differs(u64),
    /// It could not open the file.
    Unopened,
    Failed(CopyError),
}

/// The pieces of one file that are on their way to other processes, or wait for that. No process
/// gets a piece that it has written.
pub(super) struct Round {
    waiting: VecDeque<WrittenPiece>,
    /// Processes that take a piece, each as often as it takes one.
    free: VecDeque<usize>,
    /// Processes that come in when another one cannot open the file.
    spare: VecDeque<usize>,
    /// Number of pieces that are on their way.
    out: usize,
    difference: Option<u64>,
    failure: Option<CopyError>,
}

impl Round {
    /// Makes a round in which processes get pieces in this order.
    pub(super) fn new(pieces: Vec<WrittenPiece>, order: Vec<usize>) -> Round {
        // One of them may be the one that has written the piece.
        let count = order.len().min(pieces.len() + 1);
        let mut free = VecDeque::from(order);
        let spare = free.split_off(count);
        let each = free.len();
        free = free.into_iter().cycle().take(each * PIECES_EACH).collect();
        let waiting = VecDeque::from(pieces);
        Round { waiting, free, spare, out: 0, difference: None, failure: None }
    }

    /// Takes out a piece and the process that gets it; `None` if there is nothing to give now.
    fn take_next(&mut self) -> Option<(usize, WrittenPiece)> {
        for at in 0..self.free.len() {
            let rank = self.free[at];
            let other = self.waiting.iter().position(|piece| piece.writer != Some(rank));
            if let Some(piece) = other.and_then(|place| self.waiting.remove(place)) {
                self.free.remove(at);
                self.out += 1;
                return Some((rank, piece));
            }
        }
        None
    }

    /// The process `rank` has answered for a piece.
    fn answered(&mut self, rank: usize, piece: WrittenPiece, answer: Answer) {
        self.out -= 1;
        match answer {
            Answer::Unopened => {
                self.free.retain(|one| *one != rank);
                self.free.extend(self.spare.pop_front());
                if self.failure.is_none() {
                    self.waiting.push_front(piece);
                }
                return;
            }
            Answer::Same => {}
            Answer::Differs(at) => {
                let lowest = self.difference.map_or(at, |known| known.min(at));
                self.difference = Some(lowest);
                // What is behind it need not be read.
                self.waiting.retain(|piece| piece.start() < lowest);
            }
            Answer::Failed(error) => self.fail(error),
        }
        self.free.push_back(rank);
    }

    /// Records the first failure. Nothing more is given out.
    fn fail(&mut self, error: CopyError) {
        self.waiting.clear();
        self.failure.get_or_insert(error);
    }

    /// Ends the round: what is still waiting, no other process that was asked could open. A known
    /// difference counts for more than a failure elsewhere, since the copy is wrong.
    fn end(&mut self) -> Result<Findings, CopyError> {
        match self.failure.take() {
            Some(error) if self.difference.is_none() => Err(error),
            _ => Ok(Findings {
                difference: self.difference,
                unchecked: std::mem::take(&mut self.waiting).into(),
            }),
        }
    }
}

/// What the thread that waits for a round has to do.
pub(super) enum Step {
    /// A piece goes to this process.
    Give(usize, WrittenPiece),
    /// Processes have to answer first.
    Wait,
    /// This was found; no piece is on its way.
    Done(Result<Findings, CopyError>),
}

/// A round that a thread waits for.
pub(super) struct RunningRound {
    state: Mutex<Round>,
    /// The processes have answered since the thread waited last.
    has_answers: Mutex<bool>,
    answered: Condvar,
}

impl RunningRound {
    pub(super) fn new(round: Round) -> RunningRound {
        let (state, has_answers) = (Mutex::new(round), Mutex::new(false));
        RunningRound { state, has_answers, answered: Condvar::new() }
    }

    /// What is to be done now.
    pub(super) fn step(&self) -> Step {
        let mut state = self.state.lock();
        match state.take_next() {
            Some((rank, piece)) => Step::Give(rank, piece),
            // Under the same lock, since an answer makes a process free for what is waiting.
            None if state.out == 0 => Step::Done(state.end()),
            None => Step::Wait,
        }
    }

    /// The process `rank` has answered for a piece.
    pub(super) fn answered(&self, rank: usize, piece: WrittenPiece, answer: Answer) {
        self.state.lock().answered(rank, piece, answer);
        *self.has_answers.lock() = true;
        self.answered.notify_all();
    }

    /// Waits for an answer.
    pub(super) fn wait(&self) {
        let mut has_answers = self.has_answers.lock();
        self.answered.wait_while(&mut has_answers, |has_answers| !*has_answers);
        *has_answers = false;
    }

    /// Has nothing more given out.
    pub(super) fn stop(&self) {
        self.state.lock().fail(CopyError::Interrupted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pieces with these writers, of ten bytes each.
    fn pieces(writers: &[Option<usize>]) -> Vec<WrittenPiece> {
        let piece = |(number, writer): (usize, &Option<usize>)| {
            let start = 10 * number as u64;
            let ranges = Vec::from_iter(Some(start..start + 10));
            WrittenPiece { ranges, writer: *writer, ..WrittenPiece::default() }
        };
        writers.iter().enumerate().map(piece).collect()
    }

    /// Ends a round in which each process answers by `answer`, in an order that `turn` decides.
    /// Returns which process got which piece, by its start, and the outcome.
    fn play(
        mut round: Round,
        mut turn: usize,
        answer: impl Fn(usize, u64) -> Answer,
    ) -> (Vec<(usize, u64)>, Result<Findings, CopyError>) {
        let (mut out, mut given) = (Vec::new(), Vec::new());
        loop {
            while let Some((rank, piece)) = round.take_next() {
                assert_ne!(piece.writer, Some(rank), "its writer gets it");
                given.push((rank, piece.start()));
                out.push((rank, piece));
            }
            assert_eq!(round.out, out.len());
            if out.is_empty() {
                return (given, round.end());
            }
            turn = turn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (rank, piece) = out.swap_remove((turn >> 33) % out.len());
            let answer = answer(rank, piece.start());
            round.answered(rank, piece, answer);
        }
    }

    #[test]
    fn each_piece_is_read_once_by_another_process_than_its_writer() {
        for ranks in 2..6 {
            for turn in 0..50 {
                let writers: Vec<_> = (0..turn % 20).map(|n| Some(n * 7 % ranks)).collect();
                let order = (0..ranks).map(|rank| (rank + turn) % ranks).collect();
                let round = Round::new(pieces(&writers), order);
                let (mut given, found) = play(round, turn, |_, _| Answer::Same);
                let found = found.unwrap();
                assert_eq!((found.difference, found.unchecked), (None, Vec::new()));
                given.sort_unstable_by_key(|(_, start)| *start);
                let starts: Vec<_> = given.into_iter().map(|(_, start)| start).collect();
                assert_eq!(starts, (0..writers.len() as u64).map(|n| 10 * n).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn the_lowest_difference_is_found() {
        for turn in 0..50 {
            let round = Round::new(pieces(&[Some(0); 20]), vec![2, 0, 1]);
            let answer = |_, start| match start {
                50 | 70 | 190 => Answer::Differs(start + 3),
                _ => Answer::Same,
            };
            let (given, found) = play(round, turn, answer);
            assert_eq!(found.unwrap().difference, Some(53));
            assert!((0..=5).all(|n| given.iter().any(|(_, start)| *start == 10 * n)), "{given:?}");
        }
    }

    #[test]
    fn what_one_process_cannot_open_goes_to_others_and_then_comes_back() {
        let unopened = |blind: fn(usize) -> bool| {
            move |rank, _: u64| if blind(rank) { Answer::Unopened } else { Answer::Same }
        };
        let round = || Round::new(pieces(&[Some(0)]), (0..5).collect());
        let (given, found) = play(round(), 1, unopened(|rank| rank < 4));
        assert!(found.unwrap().unchecked.is_empty());
        assert_eq!(given.last(), Some(&(4, 0)));
        let (given, found) = play(round(), 1, unopened(|_| true));
        assert_eq!(found.unwrap().unchecked, pieces(&[Some(0)]));
        assert!(given.iter().all(|(rank, _)| *rank != 0), "{given:?}");
        // There is no other process.
        let (given, found) = play(Round::new(pieces(&[Some(0)]), vec![0]), 1, unopened(|_| false));
        assert!(given.is_empty());
        assert_eq!(found.unwrap().unchecked.len(), 1);
    }

    #[test]
    fn after_a_failure_nothing_more_is_given_out() {
        let round = Round::new(pieces(&[Some(0); 40]), vec![1, 0]);
        let (given, found) =
            play(round, 1, |_, _| Answer::Failed(CopyError::Transfer("told".into())));
        assert_eq!(given.len(), PIECES_EACH);
        assert_eq!(found.unwrap_err().to_string(), "told");
        // A difference that was found before is told.
        let round = Round::new(pieces(&[Some(0); 2]), vec![1, 0]);
        let (_, found) = play(round, 1, |_, start| match start {
            0 => Answer::Differs(3),
            _ => Answer::Failed(CopyError::Interrupted),
        });
        assert_eq!(found.unwrap().difference, Some(3));
    }
}
