//! What a benchmark set up in the system, mounts and loop devices, and the commands that take it down again, however it ends.

use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::BenchError;

/// Attempts to take something down, and the time between them: what was used a moment ago may still be busy.
const ATTEMPTS: u32 = 50;
const PAUSE: Duration = Duration::from_millis(100);

/// How something is taken down.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    words: Vec<OsString>,
    /// Where it may still be in use by this process, which is about to end.
    hurried: Vec<OsString>,
}

/// Something that a command takes down: when dropped, or by [`undo_all`].
#[derive(Debug)]
pub(crate) struct Undo(Step);

impl Undo {
    /// `words` is the command that takes it down.
    pub(crate) fn by<const N: usize>(words: [OsString; N]) -> Undo {
        Undo::new(Step { words: words.to_vec(), hurried: words.to_vec() })
    }

    /// As [`by`](Self::by), with another command for when it may still be in use.
    pub(crate) fn by_either<const N: usize, const M: usize>(words: [OsString; N], hurried: [OsString; M]) -> Undo {
        Undo::new(Step { words: words.to_vec(), hurried: hurried.to_vec() })
    }

    fn new(step: Step) -> Undo {
        waiting().push(step.clone());
        Undo(step)
    }

    /// Takes it down.
    ///
    /// # Errors
    /// What the command said, at its last attempt.
    pub(crate) fn now(self) -> Result<(), BenchError> {
        perform(&self.0, false).map_err(BenchError::Asked)
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        // Not there any more if it was taken down before.
        let _ = perform(&self.0, false);
    }
}

/// Runs the command if nobody has yet.
fn perform(step: &Step, hurry: bool) -> Result<(), String> {
    {
        let mut waiting = waiting();
        let Some(place) = waiting.iter().position(|other| other == step) else { return Ok(()) };
        waiting.remove(place);
    }
    let words = if hurry { &step.hurried } else { &step.words };
    let mut said = String::new();
    for _ in 0..ATTEMPTS {
        match Command::new(&words[0]).args(&words[1..]).stdin(Stdio::null()).output() {
            Ok(output) if output.status.success() => return Ok(()),
            Ok(output) => said = String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => said = error.to_string(),
        }
        thread::sleep(PAUSE);
    }
    let shown: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    Err(format!("'{}' failed: {said}", shown.join(" ")))
}

fn waiting() -> MutexGuard<'static, Vec<Step>> {
    static WAITING: Mutex<Vec<Step>> = Mutex::new(Vec::new());
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes everything down, the last first: for a process that is about to end by a signal.
pub fn undo_all() {
    loop {
        let last = waiting().last().cloned();
        let Some(step) = last else { return };
        let _ = perform(&step, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_up_is_taken_down_once() {
        let directory = tempfile::tempdir().unwrap();
        let (one, two) = (directory.path().join("one"), directory.path().join("two"));
        std::fs::create_dir(&one).unwrap();
        std::fs::create_dir(&two).unwrap();
        let undo = |path: &std::path::Path| Undo::by(["rmdir".into(), path.into()]);
        drop(undo(&one));
        assert!(!one.exists());
        undo(&two).now().unwrap();
        assert!(!two.exists());
    }
}
