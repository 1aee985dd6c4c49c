//! What a benchmark set up in the system, mounts, loop devices and limits, and how it is taken down
//! again, however it ends.

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

/// Attempts to take something down, and the time between them: what was used a moment ago may still
/// be busy.
const ATTEMPTS: u32 = 50;
const PAUSE: Duration = Duration::from_millis(100);

/// Takes something down; the flag says that it may still be in use by this process, which is about
/// to end.
type Call = dyn Fn(bool) -> Result<(), String> + Send + Sync;

/// Something that is to be taken down.
struct Step {
    /// No two things that were set up have the same, however alike they are.
    number: u64,
    call: Arc<Call>,
    /// Everything else is slow, or waits for ever, as long as it is there.
    ahead: bool,
    /// A thread is at it.
    claimed: bool,
}

/// What there is to be taken down, in the order in which it was set up.
struct Steps {
    list: Vec<Step>,
    last: u64,
}

/// The steps, and who waits for a thread that is at one.
struct Registry {
    steps: Mutex<Steps>,
    released: Condvar,
}

/// Those of the process.
static REGISTRY: Registry = Registry::new();

/// A step that this thread is at, and no other.
struct Claim<'a> {
    registry: &'a Registry,
    number: u64,
    call: Arc<Call>,
    done: bool,
}

impl Drop for Claim<'_> {
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
        Registry { steps: Mutex::new(Steps { list: Vec::new(), last: 0 }), released: Condvar::new() }
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

    /// Takes a step for this thread, when nobody else is at it any more; `None` if it is done. Two
    /// that took down the same loop device would be one too many: the second would get at whatever
    /// somebody else has attached there meanwhile.
    fn claim(&self, number: u64) -> Option<Claim<'_>> {
        let mut steps = self.steps();
        loop {
            let step = steps.list.iter_mut().find(|step| step.number == number)?;
            if !step.claimed {
                step.claimed = true;
                return Some(Claim { registry: self, number, call: Arc::clone(&step.call), done: false });
            }
            self.released.wait(&mut steps);
        }
    }

    /// Takes something down if nobody has yet. Between two attempts another thread may, so that a
    /// process that is ended by a signal does in a hurry what is still busy. What cannot be taken
    /// down stays known.
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

    /// Takes down whatever is there, the last first, in a hurry; what is left is returned, and why.
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

/// Something that is taken down when dropped, by [`undo_rest`] or by [`undo_all`].
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
    /// `words` is the command that takes it down.
    pub(crate) fn by<const N: usize>(words: [OsString; N]) -> Undo {
        Undo::by_either(words.clone(), words)
    }

    /// As [`by`](Self::by), with another command for when it may still be in use.
    pub(crate) fn by_either<const N: usize, const M: usize>(words: [OsString; N], hurried: [OsString; M]) -> Undo {
        Undo::calling(move |hurry| if hurry { run(&hurried) } else { run(&words) })
    }

    /// `call` takes it down; the flag says that it may still be in use by this process, which is
    /// about to end.
    pub(crate) fn calling(call: impl Fn(bool) -> Result<(), String> + Send + Sync + 'static) -> Undo {
        REGISTRY.add(false, Arc::new(call))
    }

    /// As [`calling`](Self::calling), for what would hold up everything else that is to be taken
    /// down.
    pub(crate) fn calling_ahead(call: impl Fn(bool) -> Result<(), String> + Send + Sync + 'static) -> Undo {
        REGISTRY.add(true, Arc::new(call))
    }

    /// A mount, which another may have taken down before.
    pub(crate) fn unmounting(at: &Path) -> Undo {
        let at = PathBuf::from(at);
        Undo::calling(move |hurry| {
            let flags = if hurry { UnmountFlags::DETACH } else { UnmountFlags::empty() };
            match unmount(&at, flags | UnmountFlags::NOFOLLOW) {
                // Nothing is mounted there, or there is no such place (umount(2)).
                Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(()),
                Err(errno) => Err(format!("cannot unmount '{}': {}", at.display(), std::io::Error::from(errno))),
            }
        })
    }

    /// Runs the command that sets something up; `undo` makes of what it said how that is taken
    /// down. A signal that comes meanwhile waits until both are known; Ctrl-C, which goes to all
    /// processes of the terminal, does not reach the command.
    ///
    /// # Errors
    /// The command cannot be started, or did not end well: then nothing was set up.
    pub(crate) fn of(command: &mut Command, undo: impl FnOnce(&str) -> Undo) -> Result<(String, Undo), BenchError> {
        let _turn = SETTING_UP.lock();
        let shown = command.get_program().to_string_lossy().into_owned();
        let output = command.process_group(0).stdin(Stdio::null()).output();
        let said = said(&shown, output)?;
        let undo = undo(&said);
        Ok((said, undo))
    }

    /// Takes it down.
    ///
    /// # Errors
    /// What was said at the last attempt; it is tried again at the end of the process.
    pub(crate) fn now(self) -> Result<(), BenchError> {
        let undo = ManuallyDrop::new(self);
        undo.registry.perform(undo.number, false).map_err(BenchError::Asked)
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        // What fails is tried again by `undo_rest` or `undo_all`, which tell if it is left for
        // good.
        let _ = self.registry.perform(self.number, false);
    }
}

/// Runs a command that takes something down.
fn run(words: &[OsString]) -> Result<(), String> {
    let output = Command::new(&words[0]).args(&words[1..]).process_group(0).stdin(Stdio::null()).output();
    let said = match output {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    let shown: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    Err(format!("'{}' failed: {said}", shown.join(" ")))
}

/// Held while something is being set up, of which nobody knows yet how it is taken down.
static SETTING_UP: Mutex<()> = Mutex::new(());

/// Tells what was set up and is still there.
fn tell(failed: &[String]) {
    failed.iter().for_each(|text| eprintln!("dio: not taken down: {text}"));
}

/// Takes down what could not be taken down in its time, for a process whose work is done.
pub fn undo_rest() {
    tell(&REGISTRY.all());
}

/// Takes everything down, the last first: for a process that is about to end by a signal. Nothing
/// is set up any more.
pub fn undo_all() {
    std::mem::forget(SETTING_UP.lock());
    tell(&REGISTRY.all());
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// One of a test's own: what other tests set up is not touched.
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
        let number = undo.number;
        thread::scope(|scope| {
            let slow = scope.spawn(|| undo.now());
            thread::sleep(2 * PAUSE);
            REGISTRY.perform(number, true).unwrap();
            assert!(!busy.exists());
            // The other one finds nothing to take down; what it says no longer counts.
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
        // One that looks like it is another one.
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
        assert_eq!(*order.lock(), [("second", false), ("first", true), ("third", true), ("second", true)]);
    }

    #[test]
    fn a_mount_that_is_gone_is_taken_down() {
        let directory = tempfile::tempdir().unwrap();
        let begin = std::time::Instant::now();
        Undo::unmounting(&directory.path().join("nothing")).now().unwrap();
        assert!(begin.elapsed() < PAUSE * ATTEMPTS / 2);
    }
}
