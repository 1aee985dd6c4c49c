//! Writes out and closes complete outputs in the background, several at a time, while the main
//! thread cuts the input. Each close waits for the storage, which can serve several at once.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use parking_lot::Mutex;

use crate::tool::{Tool, are_descriptors_few};

use super::failure::{SplitFailure, SplitResult};
use super::target::PieceOutput;

/// The most outputs that are closed at a time. Each may have the buffers of a stream.
const THREADS: usize = 4;

/// The lowest-numbered output that failed, with its number.
type FirstFailure = Arc<Mutex<Option<(u64, SplitFailure)>>>;

/// Closes outputs.
#[derive(Debug)]
pub(super) struct Background {
    tool: Tool,
    /// `None` once it has finished, or if descriptors are few. The channel has no capacity: the
    /// sender waits for a free thread, so memory is bounded.
    sender: Option<SyncSender<(u64, PieceOutput)>>,
    receiver: Arc<Mutex<Receiver<(u64, PieceOutput)>>>,
    threads: Vec<JoinHandle<()>>,
    first: FirstFailure,
}

impl Background {
    /// Creates the threads' state. If descriptors are few, each output is closed before the next
    /// one is opened.
    pub(super) fn new(tool: &Tool) -> Background {
        let (sender, receiver) = sync_channel(0);
        let (sender, receiver) =
            ((!are_descriptors_few()).then_some(sender), Arc::new(Mutex::new(receiver)));
        Background {
            tool: tool.clone(),
            sender,
            receiver,
            threads: Vec::new(),
            first: FirstFailure::default(),
        }
    }

    /// Closes an output, possibly later. `number` is its position among all outputs.
    ///
    /// # Errors
    /// The error of the lowest-numbered output that failed; all are closed then.
    pub(super) fn close(&mut self, number: u64, target: PieceOutput) -> SplitResult<()> {
        let Some(sender) = &self.sender else { return target.close(&self.tool) };
        if self.threads.len() < THREADS {
            let (tool, receiver, first) =
                (self.tool.clone(), Arc::clone(&self.receiver), Arc::clone(&self.first));
            let thread = std::thread::Builder::new().name("close".into());
            match thread.spawn(move || work(&tool, &receiver, &first)) {
                Ok(thread) => self.threads.push(thread),
                Err(_) if self.threads.is_empty() => return target.close(&self.tool),
                Err(_) => {}
            }
        }
        // Threads end only when the sender is dropped.
        sender.send((number, target)).expect("a thread receives");
        // The lowest-numbered failure is known only when all are closed.
        let failed = self.first.lock().is_some();
        if failed { self.finish() } else { Ok(()) }
    }

    /// Waits until all outputs are closed.
    ///
    /// # Errors
    /// The error of the lowest-numbered output that failed.
    pub(super) fn finish(&mut self) -> SplitResult<()> {
        self.sender = None;
        for thread in self.threads.drain(..) {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
        match self.first.lock().take() {
            Some((_, failure)) => Err(failure),
            None => Ok(()),
        }
    }
}

fn work(tool: &Tool, receiver: &Mutex<Receiver<(u64, PieceOutput)>>, first: &FirstFailure) {
    loop {
        let received = receiver.lock().recv();
        let Ok((number, target)) = received else { return };
        if let Err(failure) = target.close(tool) {
            let mut first = first.lock();
            if first.as_ref().is_none_or(|(before, _)| *before > number) {
                *first = Some((number, failure));
            }
        }
    }
}
