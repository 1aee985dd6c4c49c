//! Commits as futures for any executor. Only the standard library is used.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use crate::error::WalError;

/// A commit that [`crate::Log::commit_async`] has begun.
///
/// It is ready when the record, and all before it, are durable, or when they never will be. The
/// flush is requested when the future is made, so neither polling nor dropping the future affects
/// it.
#[derive(Debug)]
#[must_use = "the record is known to be durable only when the future is ready"]
pub struct CommitFuture {
    state: Arc<Mutex<FutureState>>,
}

#[derive(Debug, Default)]
struct FutureState {
    outcome: Option<Result<(), WalError>>,
    /// The task that waits. Invariant: `None` once there is an outcome.
    waker: Option<Waker>,
}

impl CommitFuture {
    /// Makes a future, and the function that makes it ready.
    pub(crate) fn new() -> (CommitFuture, impl FnOnce(Result<(), WalError>) + Send + 'static) {
        let state = Arc::new(Mutex::new(FutureState::default()));
        let shared = Arc::clone(&state);
        let complete = move |outcome| {
            let mut state = shared.lock();
            state.outcome = Some(outcome);
            let waker = state.waker.take();
            // A waker may run any code, even drop this very future, so the lock is released before.
            drop(state);
            if let Some(waker) = waker {
                waker.wake();
            }
        };
        (CommitFuture { state }, complete)
    }

    /// Makes a future that is ready.
    pub(crate) fn ready(outcome: Result<(), WalError>) -> CommitFuture {
        CommitFuture {
            state: Arc::new(Mutex::new(FutureState { outcome: Some(outcome), waker: None })),
        }
    }
}

impl Future for CommitFuture {
    type Output = Result<(), WalError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.state.lock();
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

impl Drop for CommitFuture {
    fn drop(&mut self) {
        // The task need not be woken any more, and a waker may keep it alive. The waker is dropped
        // after the lock is released.
        let waker = self.state.lock().waker.take();
        drop(waker);
    }
}
