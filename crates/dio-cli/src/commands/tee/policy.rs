//! Decides what to do when an output fails.

use dio_sys::start::pipes_were_ignored;
use rustix::io::Errno;

use crate::grammar::Choice;

/// The modes of `--output-error`, and the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputError {
    /// A closed pipe ends the process by SIGPIPE. Other errors are reported, and the other outputs
    /// continue.
    Sigpipe,
    /// Every error is reported, and the other outputs continue.
    Warn,
    /// As `Warn`, but a closed pipe is no error.
    WarnNopipe,
    /// Every error is reported and ends the process.
    Exit,
    /// As `Exit`, but a closed pipe is no error.
    ExitNopipe,
}

/// Consequence of a failed write for the process. The output itself is given up in each case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteFailureAction {
    /// The process ends by SIGPIPE.
    Signal,
    /// The process continues without a message.
    Silent,
    /// The process reports the error and continues; the exit status will be 1.
    Tell,
    /// The process reports the error and exits with status 1.
    Exit,
}

/// Words of the command line.
pub(super) const MODES: &[Choice<OutputError>] = &[
    ("warn", OutputError::Warn, ""),
    ("warn-nopipe", OutputError::WarnNopipe, ""),
    ("exit", OutputError::Exit, ""),
    ("exit-nopipe", OutputError::ExitNopipe, ""),
];

impl OutputError {
    /// The default mode. If SIGPIPE is ignored, a closed pipe is no error, because no signal can
    /// report it.
    pub(super) fn by_default() -> OutputError {
        if pipes_were_ignored() { OutputError::WarnNopipe } else { OutputError::Sigpipe }
    }

    /// Returns whether an error of opening a file ends the process.
    pub(super) fn exits(self) -> bool {
        matches!(self, OutputError::Exit | OutputError::ExitNopipe)
    }

    /// Returns whether outputs without a reader are removed silently, as soon as that is noticed.
    pub(super) fn forgives_pipes(self) -> bool {
        matches!(self, OutputError::WarnNopipe | OutputError::ExitNopipe)
    }

    /// Returns the consequence of a failed write.
    pub(super) fn on_write(self, error: Errno) -> WriteFailureAction {
        let pipe = error == Errno::PIPE;
        match self {
            OutputError::Sigpipe if pipe => WriteFailureAction::Signal,
            OutputError::WarnNopipe | OutputError::ExitNopipe if pipe => WriteFailureAction::Silent,
            OutputError::Exit | OutputError::ExitNopipe => WriteFailureAction::Exit,
            OutputError::Sigpipe | OutputError::Warn | OutputError::WarnNopipe => {
                WriteFailureAction::Tell
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::meant;

    #[test]
    fn words_may_be_abbreviated() {
        let of = |word: &str| {
            meant("--output-error", word.as_ref(), MODES).map_err(|refusal| refusal.to_string())
        };
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
            (Sigpipe, WriteFailureAction::Tell, WriteFailureAction::Signal),
            (Warn, WriteFailureAction::Tell, WriteFailureAction::Tell),
            (WarnNopipe, WriteFailureAction::Tell, WriteFailureAction::Silent),
            (Exit, WriteFailureAction::Exit, WriteFailureAction::Exit),
            (ExitNopipe, WriteFailureAction::Exit, WriteFailureAction::Silent),
        ] {
            assert_eq!((mode.on_write(full), mode.on_write(pipe)), (on_full, on_pipe), "{mode:?}");
            assert_eq!(mode.exits(), matches!(on_full, WriteFailureAction::Exit), "{mode:?}");
        }
    }
}
