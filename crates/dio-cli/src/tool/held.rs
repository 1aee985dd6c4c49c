//! Bytes that wait in buffers before they reach a file: how long they may wait, and what happens to
//! them at a signal.
//!
//! A file is written in large blocks in the background, which is fast and goes unnoticed while
//! bytes keep coming. When they stop coming, a process that follows the file (`tail -f`) needs the
//! bytes so far, and a process that a signal ends must write them first. `cat` and `uniq` have one
//! output ([`HeldOutput::wait_for`]); `tee` has many and performs each step ([`HeldOutput::next`])
//! itself.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use dio::stream::{Input, Output};
use signal_hook::consts::SIGINT;
use signal_hook::{flag, low_level};

use crate::stop;

/// The input pauses when it delivers nothing for this long.
const PAUSE: Duration = Duration::from_millis(200);

/// The longest time that bytes wait while the input trickles without pausing.
const LONGEST: Duration = Duration::from_secs(1);

/// The time that a signalled process has to write what it holds, unless it is signalled again. A
/// blocked pipe could make it last forever.
const GRACE: Duration = Duration::from_secs(3);

/// The action before the next read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Read: input is available.
    Read,
    /// Write out the held bytes, then ask again.
    Flush,
    /// Nothing is held and nothing came for a while: check the outputs, then ask again.
    Idle,
    /// Write out the held bytes, then end by this signal.
    End(i32),
}

/// The end that failed, and the error.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The input could not be read.
    Read(io::Error),
    /// The output failed.
    Write(io::Error),
}

/// Decides when held bytes are written out.
#[derive(Debug)]
pub(crate) struct HeldOutput {
    /// The arrival time of the oldest byte since the last flush.
    since: Option<Instant>,
    /// Bytes that arrived since then.
    bytes: u64,
    /// The outputs write blocks of this many bytes by themselves.
    block: u64,
    signals: Signals,
}

impl HeldOutput {
    /// Creates the state for outputs that write blocks of `block` bytes by themselves. From now on,
    /// signals that end the process are caught, except SIGINT if it is to be ignored.
    pub(crate) fn new(block: usize, ignore_interrupts: bool) -> HeldOutput {
        HeldOutput {
            since: None,
            bytes: 0,
            block: block as u64,
            signals: Signals::catch(ignore_interrupts),
        }
    }

    /// Records that `bytes` were passed to the outputs.
    pub(crate) fn passed(&mut self, bytes: usize) {
        self.since.get_or_insert_with(Instant::now);
        self.bytes += bytes as u64;
    }

    /// Records that nothing is held any more.
    pub(crate) fn flushed(&mut self) {
        self.since = None;
        self.bytes = 0;
    }

    /// Waits for `input`, at most until held bytes are due.
    ///
    /// # Errors
    /// Errors of `poll(2)`.
    pub(crate) fn next(&mut self, input: &Input) -> io::Result<Next> {
        if let Some(signal) = self.signals.caught() {
            return Ok(Next::End(signal));
        }
        if self.since.is_some_and(|since| since.elapsed() >= LONGEST) {
            if self.bytes < self.block {
                return Ok(Next::Flush);
            }
            // Full blocks were written as they filled, so the bytes held now are younger.
            (self.since, self.bytes) = (Some(Instant::now()), 0);
        }
        if input.ready_within(PAUSE)? {
            return Ok(Next::Read);
        }
        Ok(if self.since.is_some() { Next::Flush } else { Next::Idle })
    }

    /// Waits until `input` can be read. Meanwhile held bytes are flushed to the only output. A
    /// caught signal ends the process after that flush.
    ///
    /// # Errors
    /// Errors of `poll(2)` and of writing.
    pub(crate) fn wait_for(&mut self, input: &Input, output: &mut Output) -> Result<(), Broken> {
        loop {
            match self.next(input).map_err(Broken::Read)? {
                Next::Read => return Ok(()),
                Next::Idle => {}
                Next::Flush => {
                    output.flush().map_err(Broken::Write)?;
                    self.flushed();
                }
                Next::End(signal) => {
                    output.finish().map_err(Broken::Write)?;
                    let _ = low_level::emulate_default_handler(signal);
                }
            }
        }
    }
}

/// The signals that end a process, caught so that held bytes are written first.
#[derive(Debug)]
struct Signals {
    /// The signal that was caught; 0 for none.
    caught: Arc<AtomicUsize>,
}

impl Signals {
    fn catch(ignore_interrupts: bool) -> Signals {
        let signals = Signals { caught: Arc::default() };
        let Ok((mut receiver, sender)) = UnixStream::pair() else { return signals };
        let caught_ones = stop::that_end().filter(|&signal| signal != SIGINT || !ignore_interrupts);
        for signal in caught_ones.clone() {
            // A signal that cannot be handled keeps its default, which ends the process.
            let Ok(sender) = sender.try_clone() else { continue };
            let _ = flag::register_usize(signal, Arc::clone(&signals.caught), signal as usize);
            let _ = low_level::pipe::register(signal, sender);
        }
        let caught = Arc::clone(&signals.caught);
        let thread = thread::Builder::new().name("signals".into()).spawn(move || {
            if receiver.read_exact(&mut [0]).is_ok()
                && receiver.set_read_timeout(Some(GRACE)).is_ok()
            {
                // This read returns after the timeout or at the next signal.
                let _ = receiver.read_exact(&mut [0]);
                let _ = low_level::emulate_default_handler(caught.load(Ordering::Relaxed) as i32);
            }
        });
        if thread.is_err() {
            // Without the thread, only a second signal ends a process that a blocked pipe holds up.
            // That is no reason to fail now.
            let once = Arc::new(AtomicBool::new(false));
            for signal in caught_ones {
                let _ = flag::register_conditional_default(signal, Arc::clone(&once));
                let _ = flag::register(signal, Arc::clone(&once));
            }
        }
        signals
    }

    fn caught(&self) -> Option<i32> {
        match self.caught.load(Ordering::Relaxed) {
            0 => None,
            signal => Some(signal as i32),
        }
    }
}
