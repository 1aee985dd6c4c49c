//! Outputs that are complete are written out and closed behind the back of who cuts the input,
//! several at a time: each waits for the storage, which has time for more than one.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use parking_lot::Mutex;

use crate::tool::{Tool, are_descriptors_few};

use super::failure::{Failure, Run};
use super::target::Target;

/// Outputs that are closed at a time. Each may have the buffers of a stream.
const THREADS: usize = 4;

/// The first output that failed, by its number.
type First = Arc<Mutex<Option<(u64, Failure)>>>;

/// Closes outputs.
#[derive(Debug)]
pub(super) struct Background {
    tool: Tool,
    /// None once it has finished, and where descriptors are few. The channel holds nothing: the
    /// sender waits for a free thread, so memory is bounded.
    sender: Option<SyncSender<(u64, Target)>>,
    receiver: Arc<Mutex<Receiver<(u64, Target)>>>,
    threads: Vec<JoinHandle<()>>,
    first: First,
}

impl Background {
    /// Where descriptors are few, each output is closed before the next one is opened.
    pub(super) fn new(tool: &Tool) -> Background {
        let (sender, receiver) = sync_channel(0);
        let (sender, receiver) = ((!are_descriptors_few()).then_some(sender), Arc::new(Mutex::new(receiver)));
        Background { tool: tool.clone(), sender, receiver, threads: Vec::new(), first: First::default() }
    }

    /// Closes an output, the sooner or later. `number` is its place among all outputs.
    ///
    /// # Errors
    /// What closing the first of them that failed answered; all are closed then.
    pub(super) fn close(&mut self, number: u64, target: Target) -> Run<()> {
        let Some(sender) = &self.sender else { return target.close(&self.tool) };
        if self.threads.len() < THREADS {
            let (tool, receiver, first) = (self.tool.clone(), Arc::clone(&self.receiver), Arc::clone(&self.first));
            let thread = std::thread::Builder::new().name("close".into());
            match thread.spawn(move || work(&tool, &receiver, &first)) {
                Ok(thread) => self.threads.push(thread),
                Err(_) if self.threads.is_empty() => return target.close(&self.tool),
                Err(_) => {}
            }
        }
        // Threads end only when the sender is gone.
        sender.send((number, target)).expect("a thread receives");
        // Which one was the first is known when all are closed.
        let failed = self.first.lock().is_some();
        if failed { self.finish() } else { Ok(()) }
    }

    /// Waits for all.
    ///
    /// # Errors
    /// What closing the first of them that failed answered.
    pub(super) fn finish(&mut self) -> Run<()> {
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

fn work(tool: &Tool, receiver: &Mutex<Receiver<(u64, Target)>>, first: &First) {
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
