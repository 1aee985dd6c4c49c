//! Signals of the calling thread.

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// All signals of the calling thread are blocked as long as this exists, but for SIGKILL and
/// SIGSTOP. Those that come meanwhile arrive then (`pthread_sigmask(3)`).
pub struct SignalsBlocked {
    before: libc::sigset_t,
    /// It is about the thread that made it, so it must not be sent to another one.
    _of_thread: PhantomData<*const ()>,
}

impl fmt::Debug for SignalsBlocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignalsBlocked").finish_non_exhaustive()
    }
}

impl SignalsBlocked {
    /// Blocks them. Threads that are started meanwhile start with all signals blocked.
    ///
    /// # Errors
    /// Those of `pthread_sigmask(3)`.
    pub fn new() -> io::Result<SignalsBlocked> {
        let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        // SAFETY: the set is written to `all`.
        unsafe { libc::sigfillset(all.as_mut_ptr()) };
        // SAFETY: `all` was filled above, and the old set is written to `before`.
        let error =
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) };
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
        // SAFETY: the call has succeeded, so it has written the set.
        let before = unsafe { before.assume_init() };
        Ok(SignalsBlocked { before, _of_thread: PhantomData })
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        // SAFETY: `before` is a set that the system has given.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a signal has come that is blocked.
    fn waits(signal: i32) -> bool {
        let mut waiting = MaybeUninit::uninit();
        // SAFETY: the set is written to `waiting`, and read afterwards.
        unsafe {
            assert_eq!(libc::sigpending(waiting.as_mut_ptr()), 0);
            libc::sigismember(waiting.as_ptr(), signal) == 1
        }
    }

    #[test]
    fn a_signal_arrives_when_they_are_not_blocked_any_more() {
        // By default it is ignored, and it is kept all the same while it is blocked.
        let signal = libc::SIGWINCH;
        let blocked = SignalsBlocked::new().unwrap();
        assert!(!waits(signal));
        // SAFETY: it is a signal to this thread.
        assert_eq!(unsafe { libc::pthread_kill(libc::pthread_self(), signal) }, 0);
        assert!(waits(signal));
        drop(blocked);
        assert!(!waits(signal));
    }
}
