//! Keeps track of everything that a benchmark sets up in the system (mounts, loop devices, limits),
//! and undoes it however the benchmark ends.

use std::ffi::OsString;
use std::mem::ManuallyDrop;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use crate::BenchError;
use crate::commands::said;

/// Number of attempts to undo a step, and the time between them: a resource may still be busy
/// shortly after its use.
const ATTEMPTS: u32 = 50;
const PAUSE: Duration = Duration::from_millis(100);

/// Undoes a step. The flag says that this process is about to end and may still be using the
/// resource.
type Call = dyn Fn(bool) -> Result<(), String> + Send + Sync;

/// A step of the setup that has to be undone.
struct Step {
    /// A unique number; two equal steps have different numbers.
    number: u64,
    call: Arc<Call>,
    /// Whether to undo this step before all others: while it is in force, the others are slow or
    /// block for ever.
    ahead: bool,
    /// Whether a thread is undoing it now.
    claimed: bool,
}

/// The steps to undo, in the order of their setup.
struct Steps {
    list: Vec<Step>,
    last: u64,
}

/// The steps, with a condition variable for threads that wait for a claimed step.
struct Registry {
    steps: Mutex<Steps>,
    released: Condvar,
}

/// The steps of this process.
static REGISTRY: Registry = Registry::new();

/// A step that only this thread may undo now.
struct UndoClaim<'a> {
    registry: &'a Registry,
    number: u64,
    call: Arc<Call>,
    done: bool,
}

impl Drop for UndoClaim<'_> {
    fn drop(&mut self) {
        let mut steps = self.registry.steps();
        if self.done {
            steps.list.retain(|step| step.number != self.number);
        } else if let Some(step) = steps.list.iter_mut().find(|step| step.number == self.number) {
            step.claimed = false;
        }
        self.registry.released.notify_all();
    }
}

impl Registry {
    const fn new() -> Registry {
        Registry {
            steps: Mutex::new(Steps { list: Vec::new(), last: 0 }),
            released: Condvar::new(),
        }
    }

    fn steps(&self) -> MutexGuard<'_, Steps> {
        self.steps.lock()
    }

    fn add(&'static self, ahead: bool, call: Arc<Call>) -> Undo {
        let mut steps = self.steps();
        steps.last += 1;
        let number = steps.last;
        steps.list.push(Step { number, call, ahead, claimed: false });
        Undo { number, registry: self }
    }

    /// Claims a step for this thread, after waiting until no other thread is undoing it; `None` if
    /// it is undone already. Two threads must not detach the same loop device: the second one could
    /// hit a device that another program has attached under the same name in the meantime.
    fn claim(&self, number: u64) -> Option<UndoClaim<'_>> {
        let mut steps = self.steps();
        loop {
            let step = steps.list.iter_mut().find(|step| step.number == number)?;
            if !step.claimed {
                step.claimed = true;
                return Some(UndoClaim {
                    registry: self,
                    number,
                    call: Arc::clone(&step.call),
                    done: false,
                });
            }
            self.released.wait(&mut steps);
        }
    }

    /// Undoes a step unless it is undone already. Between two attempts another thread may claim it,
    /// so that a process that is ended by a signal can force the removal of a busy resource. A step
    /// that cannot be undone stays in the list.
    fn perform(&self, number: u64, hurry: bool) -> Result<(), String> {
        let mut said = String::new();
        for _ in 0..ATTEMPTS {
            let Some(mut claim) = self.claim(number) else { return Ok(()) };
            match (claim.call)(hurry) {
                Ok(()) => {
                    claim.done = true;
                    return Ok(());
                }
                Err(text) => said = text,
            }
            drop(claim);
            thread::sleep(PAUSE);
        }
        Err(said)
    }

    /// Undoes all steps in a hurry, the last one first. Returns the errors of the steps that
    /// remain.
    fn all(&self) -> Vec<String> {
        let mut failed = Vec::new();
        let mut tried = Vec::new();
        loop {
            let next = {
                let steps = self.steps();
                let left = || steps.list.iter().rev().filter(|step| !tried.contains(&step.number));
                left().find(|step| step.ahead).or_else(|| left().next()).map(|step| step.number)
            };
            let Some(number) = next else { return failed };
            tried.push(number);
            failed.extend(self.perform(number, true).err());
        }
    }
}

/// A step that is undone when this is dropped, by [`undo_rest`] or by [`undo_all`].
pub(crate) struct Undo {
    number: u64,
    registry: &'static Registry,
}

impl std::fmt::Debug for Undo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Undo({})", self.number)
    }
}

impl Undo {
    /// Registers a command that undoes a step.
    pub(crate) fn by<const N: usize>(words: [OsString; N]) -> Undo {
        Undo::by_either(words.clone(), words)
    }

    /// As [`by`](Self::by), with another command for a resource that may still be in use.
    pub(crate) fn by_either<const N: usize, const M: usize>(
        words: [OsString; N],
        hurried: [OsString; M],
    ) -> Undo {
        Undo::calling(move |hurry| if hurry { run(&hurried) } else { run(&words) })
    }

    /// Registers a function that undoes a step. Its flag says that this process is about to end and
    /// may still be using the resource.
    pub(crate) fn calling(
        call: impl Fn(bool) -> Result<(), String> + Send + Sync + 'static,
    ) -> Undo {
        REGISTRY.add(false, Arc::new(call))
    }

    /// As [`calling`](Self::calling), for a step that would delay the undoing of all others.
    pub(crate) fn calling_ahead(
        call: impl Fn(bool) -> Result<(), String> + Send + Sync + 'static,
    ) -> Undo {
        REGISTRY.add(true, Arc::new(call))
    }

    /// Registers a mount, which another process may unmount before.
    pub(crate) fn unmounting(at: &Path) -> Undo {
        let at = PathBuf::from(at);
        Undo::calling(move |hurry| {
            let flags = if hurry { UnmountFlags::DETACH } else { UnmountFlags::empty() };
            match unmount(&at, flags | UnmountFlags::NOFOLLOW) {
                // Nothing is mounted there, or the path does not exist (umount(2)).
                Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(()),
                Err(errno) => Err(format!(
                    "cannot unmount '{}': {}",
                    at.display(),
                    std::io::Error::from(errno)
                )),
            }
        })
    }

    /// Runs the command that sets something up; `undo` derives the undo step from its output. A
    /// signal that arrives meanwhile waits until both are done. Ctrl-C, which goes to all processes
    /// of the terminal, does not reach the command.
    ///
    /// # Errors
    /// When the command cannot be started or fails: then nothing was set up.
    pub(crate) fn of(
        command: &mut Command,
        undo: impl FnOnce(&str) -> Undo,
    ) -> Result<(String, Undo), BenchError> {
        let _turn = SETTING_UP.lock();
        let shown = command.get_program().to_string_lossy().into_owned();
        let output = command.process_group(0).stdin(Stdio::null()).output();
        let said = said(&shown, output)?;
        let undo = undo(&said);
        Ok((said, undo))
    }

    /// Undoes the step.
    ///
    /// # Errors
    /// The error of the last attempt; the step is tried again at the end of the process.
    pub(crate) fn now(self) -> Result<(), BenchError> {
        let undo = ManuallyDrop::new(self);
        undo.registry.perform(undo.number, false).map_err(BenchError::Asked)
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        // A failed step is tried again by `undo_rest` or `undo_all`, which report it if it fails
        // for good.
        let _ = self.registry.perform(self.number, false);
    }
}

/// Runs a command that undoes a step.
fn run(words: &[OsString]) -> Result<(), String> {
    let output =
        Command::new(&words[0]).args(&words[1..]).process_group(0).stdin(Stdio::null()).output();
    let said = match output {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    let shown: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    Err(format!("'{}' failed: {said}", shown.join(" ")))
}

/// Held while a command sets something up and its undo step is not registered yet.
static SETTING_UP: Mutex<()> = Mutex::new(());

/// Reports the steps that could not be undone.
fn tell(failed: &[String]) {
    failed.iter().for_each(|text| eprintln!("dio: not taken down: {text}"));
}

/// Undoes the steps that could not be undone earlier; for a process whose work is done.
pub fn undo_rest() {
    tell(&REGISTRY.all());
}

/// Undoes all steps, the last one first; for a process that is about to end by a signal. Nothing
/// can be set up afterwards.
pub fn undo_all() {
    std::mem::forget(SETTING_UP.lock());
    tell(&REGISTRY.all());
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// A registry of the test's own, so that the steps of other tests are not touched.
    fn registry() -> &'static Registry {
        Box::leak(Box::new(Registry::new()))
    }

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
        let error =
            Undo::of(fails.args(["-c", "echo why >&2; exit 1"]), |_| unreachable!()).unwrap_err();
        assert_eq!(error.to_string(), "'sh' failed: why");
    }

    #[test]
    fn what_is_still_busy_stays_known() {
        let directory = tempfile::tempdir().unwrap();
        let busy = directory.path().join("busy");
        std::fs::create_dir_all(busy.join("used")).unwrap();
        let undo = Undo::by_either(
            ["rmdir".into(), busy.clone().into()],
            ["rm".into(), "-r".into(), busy.clone().into()],
        );
        let number = undo.number;
        thread::scope(|scope| {
            let slow = scope.spawn(|| undo.now());
            thread::sleep(2 * PAUSE);
            REGISTRY.perform(number, true).unwrap();
            assert!(!busy.exists());
            // The other thread finds that the step is undone; its own error no longer counts.
            std::fs::create_dir(&busy).unwrap();
            slow.join().unwrap().unwrap();
        });
        assert!(busy.exists());
    }

    #[test]
    fn what_was_set_up_is_taken_down_once() {
        let directory = tempfile::tempdir().unwrap();
        let (one, two) = (directory.path().join("one"), directory.path().join("two"));
        std::fs::create_dir(&one).unwrap();
        std::fs::create_dir(&two).unwrap();
        let undo = |path: &Path| Undo::by(["rmdir".into(), path.into()]);
        drop(undo(&one));
        assert!(!one.exists());
        undo(&two).now().unwrap();
        assert!(!two.exists());
    }

    #[test]
    fn threads_at_once_take_down_once_and_wait_for_it() {
        let registry = registry();
        let count = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&count);
        let call = move |_: bool| {
            thread::sleep(PAUSE);
            counted.fetch_add(1, Ordering::SeqCst);
            Ok(())
        };
        let undo = registry.add(false, Arc::new(call));
        let number = undo.number;
        thread::scope(|scope| {
            for hurry in [false, true, true] {
                scope.spawn(move || registry.perform(number, hurry).unwrap());
            }
            undo.now().unwrap();
            assert_eq!(count.load(Ordering::SeqCst), 1);
        });
        assert_eq!(count.load(Ordering::SeqCst), 1);
        // A step that looks the same is a different step.
        let counted = Arc::clone(&count);
        let same = registry.add(
            false,
            Arc::new(move |_| {
                counted.fetch_add(1, Ordering::SeqCst);
                Ok(())
            }),
        );
        registry.perform(number, true).unwrap();
        assert_eq!(count.load(Ordering::SeqCst), 1);
        drop(same);
        assert_eq!(count.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn what_cannot_be_taken_down_is_tried_at_the_end_and_told() {
        let registry = registry();
        let order = Arc::new(Mutex::new(Vec::new()));
        let add = |name: &'static str, ahead: bool, result: fn(bool) -> Result<(), String>| {
            let order = Arc::clone(&order);
            registry.add(
                ahead,
                Arc::new(move |hurry| {
                    let mut order = order.lock();
                    if order.last() != Some(&(name, hurry)) {
                        order.push((name, hurry));
                    }
                    result(hurry)
                }),
            )
        };
        let stuck = |_: bool| Err("it is stuck".to_owned());
        let busy = |hurry: bool| if hurry { Ok(()) } else { Err("it is busy".to_owned()) };
        let first = add("first", true, |_| Ok(()));
        let second = add("second", false, busy);
        let third = add("third", false, stuck);
        assert!(second.now().unwrap_err().to_string().contains("it is busy"));
        std::mem::forget((first, third));
        assert_eq!(registry.all(), ["it is stuck"]);
        assert_eq!(
            *order.lock(),
            [("second", false), ("first", true), ("third", true), ("second", true)]
        );
    }

    #[test]
    fn a_mount_that_is_gone_is_taken_down() {
        let directory = tempfile::tempdir().unwrap();
        let begin = std::time::Instant::now();
        Undo::unmounting(&directory.path().join("nothing")).now().unwrap();
        assert!(begin.elapsed() < PAUSE * ATTEMPTS / 2);
    }
}
