//! When a rank writes its notes.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{Journal, JournalError};

/// The shortest time between two notes in the journal.
const NOTE_EVERY: Duration = Duration::from_millis(200);

/// Notes what is durable, again and again in a thread of its own, since a sync takes long.
pub struct Noting {
    journal: Arc<Journal>,
    thread: Option<JoinHandle<Result<(), JournalError>>>,
    begun: Instant,
    pause: Duration,
}

impl Noting {
    /// Begins with a journal that has no notes to write yet.
    #[must_use]
    pub fn new(journal: Arc<Journal>) -> Noting {
        Noting { journal, thread: None, begun: Instant::now(), pause: NOTE_EVERY }
    }

    /// Starts to write notes if it is time, after `sync`. Returns what has failed.
    pub fn look(
        &mut self,
        sync: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> Option<String> {
        let mut failure = None;
        if self.thread.as_ref().is_some_and(JoinHandle::is_finished) {
            failure = self.end();
            // Syncs take a tenth of the time at most.
            self.pause = NOTE_EVERY.max(self.begun.elapsed() * 10);
            self.begun = Instant::now();
        }
        if self.thread.is_none() && self.begun.elapsed() >= self.pause && self.journal.waiting() > 0
        {
            failure = failure.or(self.start(sync));
        }
        failure
    }

    fn start(&mut self, sync: impl FnOnce() -> io::Result<()> + Send + 'static) -> Option<String> {
        let journal = Arc::clone(&self.journal);
        self.begun = Instant::now();
        let thread = std::thread::Builder::new().name("dio-journal".into());
        match thread.spawn(move || journal.write_notes(sync)) {
            Ok(thread) => self.thread = Some(thread),
            Err(error) => return Some(format!("cannot start a thread: {error}")),
        }
        None
    }

    fn end(&mut self) -> Option<String> {
        match self.thread.take()?.join() {
            Ok(written) => written.err().map(|error| error.to_string()),
            Err(_) => Some("the thread of the journal stopped".to_owned()),
        }
    }

    /// Writes the notes that are left. Returns what has failed.
    pub fn finish(&mut self, sync: impl FnOnce() -> io::Result<()>) -> Vec<String> {
        let ended = self.end();
        let written = self.journal.write_notes(sync).err().map(|error| error.to_string());
        ended.into_iter().chain(written).collect()
    }
}

/// The notes of a rank that reports what has failed at its end.
pub struct Notebook {
    noting: Noting,
    sync: Arc<dyn Fn() -> io::Result<()> + Send + Sync>,
    /// Why notes could not be written; each reason once.
    failures: Vec<String>,
}

impl Notebook {
    /// Begins with a journal that has no notes to write yet. `sync` makes durable what is to be
    /// noted.
    #[must_use]
    pub fn new(
        journal: Arc<Journal>,
        sync: Arc<dyn Fn() -> io::Result<()> + Send + Sync>,
    ) -> Notebook {
        Notebook { noting: Noting::new(journal), sync, failures: Vec::new() }
    }

    /// Starts to write notes if it is time.
    pub fn look(&mut self) {
        let sync = Arc::clone(&self.sync);
        let failed = self.noting.look(move || sync());
        failed.into_iter().for_each(|why| self.failed(why));
    }

    /// Writes the notes that are left. Returns why something could not be noted.
    #[must_use]
    pub fn finish(mut self) -> Vec<String> {
        let failed = self.noting.finish(&*self.sync);
        failed.into_iter().for_each(|why| self.failed(why));
        self.failures
    }

    fn failed(&mut self, why: String) {
        if !self.failures.contains(&why) {
            self.failures.push(why);
        }
    }
}
