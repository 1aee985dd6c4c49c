//! Signals: SIGUSR1 prints the statistics so far, SIGINT ends the copy with a report.

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

/// If the input gives nothing for this long, it counts as paused.
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// Handles signals in a thread of its own, because the copy may be blocked in a read or write when
/// they come.
#[derive(Debug)]
pub(super) struct Signals {
    shared: Arc<SignalState>,
    /// Becomes readable when the copy has to stop.
    woken: UnixStream,
    /// If there is no thread, this other end keeps `woken` from becoming readable.
    _quiet: Option<UnixStream>,
}

#[derive(Debug)]
struct SignalState {
    stop: Arc<AtomicBool>,
    /// The copy may be blocked in a write that has no reader. No other bytes are waiting to be
    /// written then.
    writing: AtomicBool,
}

impl Signals {
    /// Handles the signals from now on; SIGINT only if it is not ignored. If no thread can be
    /// started, there are no reports: SIGUSR1 does nothing, and SIGINT ends the process.
    ///
    /// # Errors
    /// A socket or a handler could not be made.
    pub(super) fn handle(account: &Arc<Account>) -> io::Result<Signals> {
        let shared =
            Arc::new(SignalState { stop: Arc::default(), writing: AtomicBool::new(false) });
        let (usr1, told_usr1) = UnixStream::pair()?;
        let (int, told_int) = UnixStream::pair()?;
        let (woken, wake) = UnixStream::pair()?;
        let quiet = wake.try_clone()?;
        let heeded = that_end().any(|signal| signal == SIGINT);
        let (account, theirs) = (Arc::clone(account), Arc::clone(&shared));
        let int = heeded.then_some(int);
        let watch = move || watch(&account, &theirs, &usr1, int, wake);
        // The thread is started first: without it, a handled signal would have no effect.
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

    /// Returns whether the copy has to stop.
    pub(super) fn stop(&self) -> bool {
        self.shared.stop.load(SeqCst)
    }

    /// Waits until `fd` can be read; returns false when the copy has to stop. `idle` is called once
    /// if nothing comes for [`PAUSE`].
    ///
    /// # Errors
    /// `poll(2)` failed.
    pub(super) fn wait_for(
        &self,
        fd: BorrowedFd<'_>,
        idle: &mut dyn FnMut(),
    ) -> Result<bool, Errno> {
        let mut both =
            [PollFd::from_borrowed_fd(fd, PollFlags::IN), PollFd::new(&self.woken, PollFlags::IN)];
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

    /// Runs a write that may wait for a reader.
    pub(super) fn while_writing<T>(&self, write: impl FnOnce() -> T) -> T {
        self.shared.writing.store(true, SeqCst);
        let result = write();
        self.shared.writing.store(false, SeqCst);
        result
    }

    /// If SIGINT stopped the copy, ends the process by that signal, after the report. Otherwise
    /// returns.
    pub(super) fn die_if_asked(&self) {
        if self.stop() {
            let _ = low_level::emulate_default_handler(SIGINT);
        }
    }
}

/// Handles signals until the process ends. Without `int`, SIGINT is not handled.
fn watch(
    account: &Account,
    shared: &SignalState,
    usr1: &UnixStream,
    mut int: Option<UnixStream>,
    wake: UnixStream,
) {
    let mut wake = Some(wake);
    loop {
        let mut ends = vec![PollFd::new(usr1, PollFlags::IN)];
        ends.extend(int.as_ref().map(|int| PollFd::new(int, PollFlags::IN)));
        if uninterrupted(|| poll(&mut ends, None)).is_err() {
            return;
        }
        let [asked, stopped] =
            [0, 1].map(|end| ends.get(end).is_some_and(|end| !end.revents().is_empty()));
        if asked && drain(usr1) {
            account.report();
        }
        if stopped {
            int = None;
            shared.stop.store(true, SeqCst);
            // Closing this end wakes a copy that waits for input.
            drop(wake.take());
            stop(account, shared);
        }
    }
}

/// Reads the bytes that handlers wrote; returns false if there are none.
fn drain(from: &UnixStream) -> bool {
    matches!(rustix::io::read(from.as_fd(), &mut [0; 64][..]), Ok(count) if count > 0)
}

/// Ends the process if the copy is blocked in a write. Otherwise the copy notices the stop by
/// itself.
fn stop(account: &Account, shared: &SignalState) {
    std::thread::sleep(std::time::Duration::from_millis(20));
    if shared.writing.load(SeqCst) {
        account.report();
        let _ = low_level::emulate_default_handler(SIGINT);
    }
}
