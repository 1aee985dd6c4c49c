//! What a benchmark set up in the system, mounts and loop devices, and the commands that take it down again, however it ends.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::BenchError;
use crate::commands::said;

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

    /// Runs the command that sets something up; `undo` makes of what it said how that is taken down. A signal that comes
    /// meanwhile waits until both are known; Ctrl-C, which goes to all processes of the terminal, does not reach the command.
    ///
    /// # Errors
    /// The command cannot be started, or did not end well: then nothing was set up.
    pub(crate) fn of(command: &mut Command, undo: impl FnOnce(&str) -> Undo) -> Result<(String, Undo), BenchError> {
        let _turn = SETTING_UP.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = command.get_program().to_string_lossy().into_owned();
        let output = command.process_group(0).stdin(Stdio::null()).output();
        let said = said(&shown, output)?;
        let undo = undo(&said);
        Ok((said, undo))
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

/// Runs the command if nobody has yet. The step stays in the list until it is done: a process that ends by a signal
/// meanwhile does it in a hurry instead of leaving what is still busy.
fn perform(step: &Step, hurry: bool) -> Result<(), String> {
    if !waiting().contains(step) {
        return Ok(());
    }
    let done = attempt(step, hurry);
    let mut waiting = waiting();
    if let Some(place) = waiting.iter().position(|other| other == step) {
        waiting.remove(place);
    }
    done
}

fn attempt(step: &Step, hurry: bool) -> Result<(), String> {
    let words = if hurry { &step.hurried } else { &step.words };
    let mut said = String::new();
    for _ in 0..ATTEMPTS {
        match Command::new(&words[0]).args(&words[1..]).process_group(0).stdin(Stdio::null()).output() {
            Ok(output) if output.status.success() => return Ok(()),
            Ok(output) => said = String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => said = error.to_string(),
        }
        thread::sleep(PAUSE);
    }
    let shown: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    Err(format!("'{}' failed: {said}", shown.join(" ")))
}

/// Held while something is being set up, of which nobody knows yet how it is taken down.
static SETTING_UP: Mutex<()> = Mutex::new(());

fn waiting() -> MutexGuard<'static, Vec<Step>> {
    static WAITING: Mutex<Vec<Step>> = Mutex::new(Vec::new());
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes everything down, the last first: for a process that is about to end by a signal. Nothing is set up any more.
pub fn undo_all() {
    std::mem::forget(SETTING_UP.lock());
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
    fn what_a_command_set_up_is_known_when_it_ends() {
        let directory = tempfile::tempdir().unwrap();
        let made = directory.path().join("made");
        let mut mkdir = Command::new("sh");
        mkdir.args(["-c", "mkdir \"$0\" && echo made"]).arg(&made);
        let undo = |_: &str| Undo::by(["rmdir".into(), made.clone().into()]);
        let (said, undo) = Undo::of(&mut mkdir, undo).unwrap();
        assert!(said == "made\n" && made.exists());
        drop(undo);
        assert!(!made.exists());
        let mut fails = Command::new("sh");
        let error = Undo::of(fails.args(["-c", "echo why >&2; exit 1"]), |_| unreachable!()).unwrap_err();
        assert_eq!(error.to_string(), "'sh' failed: why");
    }

    #[test]
    fn what_is_still_busy_stays_known() {
        let directory = tempfile::tempdir().unwrap();
        let busy = directory.path().join("busy");
        std::fs::create_dir_all(busy.join("used")).unwrap();
        let undo =
            Undo::by_either(["rmdir".into(), busy.clone().into()], ["rm".into(), "-r".into(), busy.clone().into()]);
        let step = undo.0.clone();
        thread::scope(|scope| {
            let slow = scope.spawn(|| undo.now());
            thread::sleep(2 * PAUSE);
            perform(&step, true).unwrap();
            assert!(!busy.exists());
            // The other one finds nothing to take down; what it says no longer counts.
            std::fs::create_dir(&busy).unwrap();
            slow.join().unwrap().unwrap();
        });
    }

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
