//! A connection to the kernel, from the first request to the last.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::{self, JoinHandle};

use rustix::io::Errno;
use zerocopy::IntoBytes;

use crate::abi::{self, InitOut, opcode};
use crate::channel::{Buffer, Channel, Faults, Received};
use crate::config::{Agreed, KernelConfig};
use crate::dispatch::{Desk, Served};
use crate::filesystem::Filesystem;
use crate::interrupts::{Interrupts, Slot};
use crate::notify::Notifier;
use crate::request::Message;
use crate::ring::{self, Shape};
use crate::types::Version;

/// Threads that read from the device while requests come by rings: what comes there is answered at once, or not at all.
const DEVICE_THREADS: usize = 2;

/// How a connection is served.
///
/// With [`InitFlags::FUSE_OVER_IO_URING`](crate::InitFlags::FUSE_OVER_IO_URING) in the handshake, each thread has a ring and serves what is asked on its
/// processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Threads, each of which handles one request at a time; at least one. While all of them wait, nothing comes in, interrupts
    /// neither: there should be more than requests that may wait for each other or for a user. With rings there are eight for
    /// each processor at least, and interrupts come in all the time, but the kernel makes none of a signal that comes while
    /// the request has not been taken.
    pub threads: usize,
    /// Each thread reads from a descriptor of its own (`FUSE_DEV_IOC_CLONE`, fuse(4)), for which this process must be able to
    /// open `/dev/fuse`.
    pub clone: bool,
}

/// A mount whose kernel has been greeted. Dropped, the connection ends.
#[derive(Debug)]
pub struct Session<F: Filesystem> {
    filesystem: Arc<Served<F>>,
    channel: Channel,
    config: Config,
    agreed: Agreed,
}

impl<F: Filesystem> Session<F> {
    /// Takes over the device of a mount, and agrees with the kernel on how to go on.
    ///
    /// # Errors
    /// What [`Filesystem::init`] answers; `NotConnected` if the mount is gone; `Unsupported` for a kernel before Linux 5.4
    /// (7.31); `InvalidData` if the first request is another, as of a device that was in use.
    pub fn from_fd(filesystem: F, device: OwnedFd, config: Config) -> io::Result<Session<F>> {
        let mut filesystem = Served(filesystem);
        let channel = Channel::new(Arc::new(device), Arc::default());
        let agreed = greet(&mut filesystem.0, &channel)?;
        Ok(Session { filesystem: Arc::new(filesystem), channel, config, agreed })
    }

    /// What tells the kernel something without being asked.
    pub fn notifier(&self) -> Notifier {
        Notifier::new(self.channel.device())
    }

    /// Begins to serve, with threads of its own.
    ///
    /// # Errors
    /// What cloning the device, `mmap(2)` and starting threads answer. The mount is to be taken down then, which ends what
    /// threads there are.
    pub fn spawn(self) -> io::Result<BackgroundSession> {
        let faults = Arc::clone(&self.channel.faults);
        let rings = self.agreed.over_io_uring.then(|| Shape::new(self.config.threads)).transpose()?;
        let count = if rings.is_some() { DEVICE_THREADS } else { self.config.threads.max(1) };
        let interrupts = Arc::new(Interrupts::new(count + rings.as_ref().map_or(0, Shape::threads)));
        let workers = self.workers(count, &interrupts)?;
        // None begins before all are there.
        let gate = Arc::new(RwLock::new(false));
        let mut open = gate.write().unwrap_or_else(PoisonError::into_inner);
        let mut threads = Vec::with_capacity(count);
        for (number, mut worker) in workers.into_iter().enumerate() {
            let gate = Arc::clone(&gate);
            let serve = move || {
                let may = *gate.read().unwrap_or_else(PoisonError::into_inner);
                if may { worker.serve() } else { Ok(()) }
            };
            threads.push(thread::Builder::new().name(format!("fuse-{number}")).spawn(serve)?);
        }
        *open = true;
        drop(open);
        if let Some(shape) = &rings {
            let device = self.channel.device();
            threads.extend(ring::start(shape, device, self.agreed.max_payload, |number, outbox| {
                let channel = Channel::into_outbox(Arc::clone(device), Arc::clone(&faults), outbox);
                self.desk(channel, &interrupts, count + number)
            })?);
        }
        Ok(BackgroundSession { threads, faults })
    }

    fn workers(&self, count: usize, interrupts: &Arc<Interrupts>) -> io::Result<Vec<Worker<F>>> {
        let (first, faults) = (self.channel.device(), &self.channel.faults);
        let busy = Arc::new(AtomicUsize::new(0));
        let worker = |thread| {
            let device = match thread {
                1.. if self.config.clone => Arc::new(dio_sys::fuse::clone_device(first.as_fd())?),
                _ => Arc::clone(first),
            };
            let desk = self.desk(Channel::new(device, Arc::clone(faults)), interrupts, thread);
            Ok(Worker { desk, buffer: Buffer::new(self.agreed.max_write)?, busy: Arc::clone(&busy), threads: count })
        };
        (0..count).map(worker).collect()
    }

    fn desk(&self, channel: Channel, interrupts: &Arc<Interrupts>, thread: usize) -> Desk<F> {
        Desk {
            filesystem: Arc::clone(&self.filesystem),
            channel: Arc::new(channel),
            interrupts: Arc::clone(interrupts),
            thread,
            agreed: self.agreed,
        }
    }
}

/// Threads that serve until the mount is gone. Dropped, they go on.
#[derive(Debug)]
pub struct BackgroundSession {
    threads: Vec<JoinHandle<io::Result<()>>>,
    faults: Arc<Faults>,
}

impl BackgroundSession {
    /// Waits until the mount is gone and [`Filesystem::destroy`] is done.
    ///
    /// # Errors
    /// The first of what reading from the device answered to any thread.
    pub fn join(self) -> io::Result<()> {
        let mut result = Ok(());
        for thread in self.threads {
            let ended = thread.join().unwrap_or_else(|_| Err(io::Error::other("the file system panicked at its end")));
            result = result.and(ended);
        }
        result
    }

    /// What has gone wrong so far.
    pub fn faults(&self) -> Arc<Faults> {
        Arc::clone(&self.faults)
    }
}

/// One thread that serves.
#[derive(Debug)]
struct Worker<F: Filesystem> {
    desk: Desk<F>,
    buffer: Buffer,
    /// Threads of the connection that handle a request.
    busy: Arc<AtomicUsize>,
    /// All of them.
    threads: usize,
}

impl<F: Filesystem> Worker<F> {
    fn serve(&mut self) -> io::Result<()> {
        while self.desk.channel.receive(&mut self.buffer)? == Received::Message {
            self.busy.fetch_add(1, Ordering::Relaxed);
            self.desk.handle(self.buffer.message());
            // Until now nobody could take what lies there.
            let all_were_busy = self.busy.fetch_sub(1, Ordering::Relaxed) == self.threads;
            if all_were_busy && self.desk.channel.is_pending() {
                self.desk.filesystem.0.queued();
            }
        }
        Ok(())
    }
}

/// The first request and its answer.
fn greet(filesystem: &mut impl Filesystem, channel: &Channel) -> io::Result<Agreed> {
    let mut buffer = Buffer::new(0)?;
    loop {
        if channel.receive(&mut buffer)? == Received::End {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let odd = |_| io::Error::new(io::ErrorKind::InvalidData, "the kernel's greeting is cut short");
        let message = Message::parse(buffer.message()).map_err(|malformed| {
            io::Error::new(io::ErrorKind::InvalidData, format!("no greeting of the kernel: {malformed}"))
        })?;
        let refuse = |errno| channel.answer(message.header.unique, Err(errno));
        if message.header.opcode != opcode::INIT {
            refuse(Errno::IO);
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the device is in use: no greeting of the kernel"));
        }
        let version = KernelConfig::version(message.body).inspect_err(|_| refuse(Errno::IO)).map_err(|_| odd(()))?;
        if version.0 > abi::MAJOR {
            // It asks again in this version (`Version negotiation` of include/uapi/linux/fuse.h).
            let answer = InitOut { major: abi::MAJOR, minor: abi::MINOR, ..InitOut::default() };
            channel.answer(message.header.unique, Ok(&[answer.as_bytes()]));
            continue;
        }
        if version < Version(abi::MAJOR, abi::OLDEST_MINOR) {
            refuse(Errno::PROTO);
            let Version(major, minor) = version;
            let said = format!("the kernel speaks FUSE {major}.{minor}, which is older than 7.31 (Linux 5.4)");
            return Err(io::Error::new(io::ErrorKind::Unsupported, said));
        }
        let mut config = KernelConfig::parse(message.body).inspect_err(|_| refuse(Errno::IO)).map_err(|_| odd(()))?;
        let slot = Slot::default();
        if let Err(error) = filesystem.init(&message.request(&slot), &mut config) {
            refuse(Errno::from_io_error(&error).unwrap_or(Errno::IO));
            return Err(error);
        }
        channel.answer(message.header.unique, Ok(&[config.answer().as_bytes()]));
        return Ok(config.agreed());
    }
}

#[cfg(test)]
mod tests;
