//! Bytes that files have not got yet: for how long they may be kept back, and what a signal does
//! about them.
//!
//! A file is written in large blocks behind the producer's back, which is fast and which nobody
//! sees while bytes keep coming. When they stop, whoever follows the file (`tail -f`) wants what
//! there is; and a process that is told to end must not take it along. `cat` and `uniq` have one
//! output ([`Held::wait_for`]); `tee` has many, and takes each step ([`Held::next`]) itself.

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

/// The input pauses when it gives nothing for this long.
const PAUSE: Duration = Duration::from_millis(200);

/// Bytes of an input that trickles without ever pausing are kept no longer than this.
const LONGEST: Duration = Duration::from_secs(1);

/// A signalled process has this long to bring away what it holds, unless it is signalled again; a
/// blocked pipe could make it last for ever.
const GRACE: Duration = Duration::from_secs(3);

/// What to do before the next read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Read: something is there.
    Read,
    /// Write out what is held, then ask again.
    Flush,
    /// Nothing is held and nothing came for a while: look at the outputs, then ask again.
    Idle,
    /// Write out what is held, and end by this signal.
    End(i32),
}

/// The end at which bytes stopped passing, and why.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The input could not be read.
    Read(io::Error),
    /// The output failed.
    Write(io::Error),
}

/// Decides when held bytes are written out.
#[derive(Debug)]
pub(crate) struct Held {
    /// When the oldest of the bytes since the last flush came.
    since: Option<Instant>,
    /// Bytes since then.
    bytes: u64,
    /// So many are written without being told.
    block: u64,
    signals: Signals,
}

impl Held {
    /// For outputs that write blocks of `block` bytes by themselves. Signals that end the process
    /// are caught from now on, except SIGINT where it is to be ignored.
    pub(crate) fn new(block: usize, ignore_interrupts: bool) -> Held {
        Held { since: None, bytes: 0, block: block as u64, signals: Signals::catch(ignore_interrupts) }
    }

    /// `bytes` were passed to the outputs.
    pub(crate) fn passed(&mut self, bytes: usize) {
        self.since.get_or_insert_with(Instant::now);
        self.bytes += bytes as u64;
    }

    /// Nothing is held any more.
    pub(crate) fn flushed(&mut self) {
        self.since = None;
        self.bytes = 0;
    }

    /// Waits for `input`, as long as that is right.
    ///
    /// # Errors
    /// What `poll(2)` answers.
    pub(crate) fn next(&mut self, input: &Input) -> io::Result<Next> {
        if let Some(signal) = self.signals.caught() {
            return Ok(Next::End(signal));
        }
        if self.since.is_some_and(|since| since.elapsed() >= LONGEST) {
            if self.bytes < self.block {
                return Ok(Next::Flush);
            }
            // Blocks go out as they fill: what is held now is younger.
            (self.since, self.bytes) = (Some(Instant::now()), 0);
        }
        if input.ready_within(PAUSE)? {
            return Ok(Next::Read);
        }
        Ok(if self.since.is_some() { Next::Flush } else { Next::Idle })
    }

    /// Waits until `input` can be read. Meanwhile the only output gets what was held back; a caught
    /// signal ends the process once it has everything.
    ///
    /// # Errors
    /// What `poll(2)` and writing answer.
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
    /// 0 for none.
    caught: Arc<AtomicUsize>,
}

impl Signals {
    fn catch(ignore_interrupts: bool) -> Signals {
        let signals = Signals { caught: Arc::default() };
        let Ok((mut receiver, sender)) = UnixStream::pair() else { return signals };
        let caught_ones = stop::that_end().filter(|&signal| signal != SIGINT || !ignore_interrupts);
        for signal in caught_ones.clone() {
            // A signal that cannot be handled keeps its default, which is to end the process.
            let Ok(sender) = sender.try_clone() else { continue };
            let _ = flag::register_usize(signal, Arc::clone(&signals.caught), signal as usize);
            let _ = low_level::pipe::register(signal, sender);
        }
        let caught = Arc::clone(&signals.caught);
        let thread = thread::Builder::new().name("signals".into()).spawn(move || {
            if receiver.read_exact(&mut [0]).is_ok() && receiver.set_read_timeout(Some(GRACE)).is_ok() {
                // It ends with the time or with the next signal.
                let _ = receiver.read_exact(&mut [0]);
                let _ = low_level::emulate_default_handler(caught.load(Ordering::Relaxed) as i32);
            }
        });
        if thread.is_err() {
            // A blocked pipe is then ended by the second signal only; that is no reason to fail
            // now.
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
