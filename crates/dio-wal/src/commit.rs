//! Commits as futures, for whatever runs them: only the standard library is used.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::error::WalError;

/// A commit that was asked for by [`crate::Log::commit_async`].
///
/// It ends when the record, and all before it, are durable, or when it is known that they will not be. Whether it is waited
/// for or dropped changes nothing of that: the flush was asked for when it was made.
#[derive(Debug)]
#[must_use = "what was appended is known to be durable only when the future has ended"]
pub struct Commit {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    outcome: Option<Result<(), WalError>>,
    /// Who waits. Invariant: `None` once there is an outcome.
    waker: Option<Waker>,
}

impl Commit {
    /// A commit, and what to call when it is over.
    pub(crate) fn new() -> (Commit, impl FnOnce(Result<(), WalError>) + Send + 'static) {
        let state = Arc::new(Mutex::new(State::default()));
        let told = Arc::clone(&state);
        let tell = move |outcome| {
            let mut state = lock(&told);
            state.outcome = Some(outcome);
            let waker = state.waker.take();
            // A waker may run anything, the drop of this very future too.
            drop(state);
            if let Some(waker) = waker {
                waker.wake();
            }
        };
        (Commit { state }, tell)
    }

    /// One that is over.
    pub(crate) fn over(outcome: Result<(), WalError>) -> Commit {
        Commit { state: Arc::new(Mutex::new(State { outcome: Some(outcome), waker: None })) }
    }
}

impl Future for Commit {
    type Output = Result<(), WalError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = lock(&self.state);
        if let Some(outcome) = &state.outcome {
            return Poll::Ready(outcome.clone());
        }
        match &mut state.waker {
            Some(waker) => waker.clone_from(context.waker()),
            None => state.waker = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

impl Drop for Commit {
    fn drop(&mut self) {
        // Nobody is to be woken for it any more; a waker may keep a task alive.
        let waker = lock(&self.state).waker.take();
        drop(waker);
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
