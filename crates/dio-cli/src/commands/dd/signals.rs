//! SIGUSR1 asks how far the copy is, SIGINT ends it with a report.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use dio_sys::uninterrupted;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGINT, SIGUSR1};
use signal_hook::{flag, low_level};

use super::account::Account;
use crate::stop::that_end;

/// The input pauses when it gives nothing for this long.
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// What a thread of its own makes of signals: the copy may be blocked in a read or write when they
/// come.
#[derive(Debug)]
pub(super) struct Signals {
    shared: Arc<Shared>,
    /// Readable once the copy is to stop.
    woken: UnixStream,
    /// Keeps it from being that where there is no thread.
    _quiet: Option<UnixStream>,
}

#[derive(Debug)]
struct Shared {
    stop: Arc<AtomicBool>,
    /// The copy may be blocked in a write that nobody takes. Nothing is then left to be written
    /// elsewhere.
    writing: AtomicBool,
}

impl Signals {
    /// Handles the signals from now on, but SIGINT not where it is ignored. Where no thread can be
    /// had, nobody reports: SIGUSR1 does nothing, and SIGINT just ends the process.
    ///
    /// # Errors
    /// What making sockets or a handler answers.
    pub(super) fn handle(account: &Arc<Account>) -> io::Result<Signals> {
        let shared = Arc::new(Shared { stop: Arc::default(), writing: AtomicBool::new(false) });
        let (usr1, told_usr1) = UnixStream::pair()?;
        let (int, told_int) = UnixStream::pair()?;
        let (woken, wake) = UnixStream::pair()?;
        let quiet = wake.try_clone()?;
        let heeded = that_end().any(|signal| signal == SIGINT);
        let (account, theirs) = (Arc::clone(account), Arc::clone(&shared));
        let int = heeded.then_some(int);
        let watch = move || watch(&account, &theirs, &usr1, int, wake);
        // First the thread: a signal that nobody waits for would end nothing.
        if std::thread::Builder::new().name("signals".to_owned()).spawn(watch).is_err() {
            flag::register(SIGUSR1, Arc::default())?;
            return Ok(Signals { shared, woken, _quiet: Some(quiet) });
        }
        low_level::pipe::register(SIGUSR1, told_usr1)?;
        if heeded {
            // In this order: the second signal finds the flag that the first one set, and ends the
            // process.
            flag::register_conditional_default(SIGINT, Arc::clone(&shared.stop))?;
            flag::register(SIGINT, Arc::clone(&shared.stop))?;
            low_level::pipe::register(SIGINT, told_int)?;
        }
        Ok(Signals { shared, woken, _quiet: None })
    }

    /// Whether the copy is to stop.
    pub(super) fn stop(&self) -> bool {
        self.shared.stop.load(SeqCst)
    }

    /// Waits until `fd` can be read; false when the copy is to stop. `idle` is called once when
    /// nothing comes for [`PAUSE`].
    ///
    /// # Errors
    /// What `poll(2)` answers.
    pub(super) fn wait_for(&self, fd: BorrowedFd<'_>, idle: &mut dyn FnMut()) -> Result<bool, Errno> {
        let mut both = [PollFd::from_borrowed_fd(fd, PollFlags::IN), PollFd::new(&self.woken, PollFlags::IN)];
        let mut pause = Some(PAUSE);
        loop {
            match uninterrupted(|| poll(&mut both, pause.as_ref())) {
                Err(errno) => return Err(errno),
                Ok(0) => {
                    pause = None;
                    idle();
                }
                Ok(_) => return Ok(both[1].revents().is_empty() && !self.stop()),
            }
        }
    }

    /// Runs a write that may wait for whoever takes the bytes.
    pub(super) fn while_writing<T>(&self, write: impl FnOnce() -> T) -> T {
        self.shared.writing.store(true, SeqCst);
        let result = write();
        self.shared.writing.store(false, SeqCst);
        result
    }

    /// Ends the process by the signal that asked for it, after the report; returns if there was
    /// none.
    pub(super) fn die_if_asked(&self) {
        if self.stop() {
            let _ = low_level::emulate_default_handler(SIGINT);
        }
    }
}

/// Answers signals until the process ends. Without `int`, SIGINT is ignored.
fn watch(account: &Account, shared: &Shared, usr1: &UnixStream, mut int: Option<UnixStream>, wake: UnixStream) {
    let mut wake = Some(wake);
    loop {
        let mut ends = vec![PollFd::new(usr1, PollFlags::IN)];
        ends.extend(int.as_ref().map(|int| PollFd::new(int, PollFlags::IN)));
        if uninterrupted(|| poll(&mut ends, None)).is_err() {
            return;
        }
        let [asked, stopped] = [0, 1].map(|end| ends.get(end).is_some_and(|end| !end.revents().is_empty()));
        if asked && drain(usr1) {
            account.report();
        }
        if stopped {
            int = None;
            shared.stop.store(true, SeqCst);
            // Closing it is what wakes a copy that waits for something to read.
            drop(wake.take());
            stop(account, shared);
        }
    }
}

/// Takes what handlers wrote; false when there is nothing.
fn drain(from: &UnixStream) -> bool {
    matches!(rustix::io::read(from.as_fd(), &mut [0; 64][..]), Ok(count) if count > 0)
}

/// The copy notices by itself, unless it is blocked where nothing but its end helps.
fn stop(account: &Account, shared: &Shared) {
    std::thread::sleep(std::time::Duration::from_millis(20));
    if shared.writing.load(SeqCst) {
        account.report();
        let _ = low_level::emulate_default_handler(SIGINT);
    }
}
