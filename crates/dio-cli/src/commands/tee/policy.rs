//! What to do about an output that fails.

use dio_sys::start::pipes_were_ignored;
use rustix::io::Errno;

use crate::grammar::Choice;

/// The modes of `--output-error`, and what holds without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputError {
    /// A closed pipe ends the process by SIGPIPE; other errors are told, and the other outputs go
    /// on.
    Sigpipe,
    /// Every error is told, and the other outputs go on.
    Warn,
    /// The same, but a closed pipe is no error.
    WarnNopipe,
    /// Every error is told and ends the process.
    Exit,
    /// The same, but a closed pipe is no error.
    ExitNopipe,
}

/// What becomes of the process when a write failed; the output itself is given up in each case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It ends by SIGPIPE.
    Signal,
    /// It goes on and says nothing.
    Silent,
    /// It tells the error and goes on; the status will be 1.
    Tell,
    /// It tells the error and ends with status 1.
    Exit,
}

/// The words of the command line.
pub(super) const MODES: &[Choice<OutputError>] = &[
    ("warn", OutputError::Warn, ""),
    ("warn-nopipe", OutputError::WarnNopipe, ""),
    ("exit", OutputError::Exit, ""),
    ("exit-nopipe", OutputError::ExitNopipe, ""),
];

impl OutputError {
    /// What holds where nothing is said of it. Where SIGPIPE is ignored, no signal will tell of a
    /// closed pipe, so nothing does.
    pub(super) fn by_default() -> OutputError {
        if pipes_were_ignored() { OutputError::WarnNopipe } else { OutputError::Sigpipe }
    }

    /// Whether an error of opening a file ends the process.
    pub(super) fn exits(self) -> bool {
        matches!(self, OutputError::Exit | OutputError::ExitNopipe)
    }

    /// Whether outputs whose readers went away are to be forgotten, as soon as that is known.
    pub(super) fn forgives_pipes(self) -> bool {
        matches!(self, OutputError::WarnNopipe | OutputError::ExitNopipe)
    }

    /// What a failed write means.
    pub(super) fn on_write(self, error: Errno) -> Verdict {
        let pipe = error == Errno::PIPE;
        match self {
            OutputError::Sigpipe if pipe => Verdict::Signal,
            OutputError::WarnNopipe | OutputError::ExitNopipe if pipe => Verdict::Silent,
            OutputError::Exit | OutputError::ExitNopipe => Verdict::Exit,
            OutputError::Sigpipe | OutputError::Warn | OutputError::WarnNopipe => Verdict::Tell,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::meant;

    #[test]
    fn words_may_be_abbreviated() {
        let of = |word: &str| meant("--output-error", word.as_ref(), MODES).map_err(|refusal| refusal.to_string());
        for (word, mode) in [
            ("warn", OutputError::Warn),
            ("warn-", OutputError::WarnNopipe),
            ("warn-nopipe", OutputError::WarnNopipe),
            ("exit", OutputError::Exit),
            ("exit-no", OutputError::ExitNopipe),
        ] {
            assert_eq!(of(word), Ok(mode), "{word}");
        }
        for word in ["", "e", "w", "exi"] {
            assert!(of(word).unwrap_err().starts_with("ambiguous argument"), "{word}");
        }
        for word in ["x", "exits", "Warn"] {
            assert!(of(word).unwrap_err().starts_with("invalid argument"), "{word}");
        }
    }

    #[test]
    fn modes_differ_as_documented() {
        use OutputError::{Exit, ExitNopipe, Sigpipe, Warn, WarnNopipe};
        let (full, pipe) = (Errno::NOSPC, Errno::PIPE);
        for (mode, on_full, on_pipe) in [
            (Sigpipe, Verdict::Tell, Verdict::Signal),
            (Warn, Verdict::Tell, Verdict::Tell),
            (WarnNopipe, Verdict::Tell, Verdict::Silent),
            (Exit, Verdict::Exit, Verdict::Exit),
            (ExitNopipe, Verdict::Exit, Verdict::Silent),
        ] {
            assert_eq!((mode.on_write(full), mode.on_write(pipe)), (on_full, on_pipe), "{mode:?}");
            assert_eq!(mode.exits(), matches!(on_full, Verdict::Exit), "{mode:?}");
        }
    }
}
