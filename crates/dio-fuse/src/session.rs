//! A connection to the kernel, from the first request to the last.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use parking_lot::RwLock;
use rustix::io::Errno;
use zerocopy::IntoBytes;

use crate::abi::{self, InitOut, opcode};
use crate::channel::{Buffer, Channel, Received};
use crate::config::{KernelConfig, Negotiated};
use crate::dispatch::{Dispatcher, MountedFilesystem};
use crate::error_counts::ErrorCounts;
use crate::filesystem::Filesystem;
use crate::interrupts::{Interrupts, ThreadSlot};
use crate::notify::Notifier;
use crate::request::Message;
use crate::ring::{self, QueueThreads};
use crate::types::Version;
use crate::user_shares::{UserLimits, UserShares};

/// Threads that read from the device while requests come through io_uring. Each message on the
/// device is then served at once.
const DEVICE_THREADS: usize = 2;

/// How a session is served.
///
/// If [`InitFlags::FUSE_OVER_IO_URING`](crate::InitFlags::FUSE_OVER_IO_URING) is negotiated, each
/// thread has a ring and serves the requests of its processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionConfig {
    /// Number of threads, at least one. Each thread serves one request at a time. While all of them
    /// wait, no message is read, not even an interrupt. So there should be more threads than
    /// requests that may wait for each other or for a user.
    ///
    /// With io_uring there are at least eight threads for each processor, and interrupts are always
    /// read. But the kernel sends no interrupt for a signal that arrives before a thread has taken
    /// the request.
    pub threads: usize,
    /// Each thread reads from its own descriptor (`FUSE_DEV_IOC_CLONE`, fuse(4)). This process must
    /// be able to open `/dev/fuse` for that.
    pub clone_device: bool,
    /// The limits for each user other than the superuser and the user of this process; `None` for
    /// no limits. With io_uring the kernel assigns requests to threads, so this has no effect.
    pub user_limits: Option<UserLimits>,
}

/// A mount whose features are negotiated. Dropping it ends the connection.
#[derive(Debug)]
pub struct Session<F: Filesystem> {
    filesystem: Arc<MountedFilesystem<F>>,
    channel: Channel,
    config: SessionConfig,
    negotiated: Negotiated,
}

impl<F: Filesystem> Session<F> {
    /// Takes over the device of a mount, and negotiates features with the kernel.
    ///
    /// # Errors
    /// The error of [`Filesystem::init`]; `NotConnected` if the mount is gone; `Unsupported` for a
    /// kernel before Linux 5.4 (7.31); `InvalidData` if the first request is not `FUSE_INIT`, for
    /// example because the device was in use.
    pub fn from_fd(
        filesystem: F,
        device: OwnedFd,
        config: SessionConfig,
    ) -> io::Result<Session<F>> {
        let mut filesystem = MountedFilesystem(filesystem);
        let channel = Channel::new(Arc::new(device), Arc::default());
        let negotiated = negotiate(&mut filesystem.0, &channel)?;
        Ok(Session { filesystem: Arc::new(filesystem), channel, config, negotiated })
    }

    /// Returns a notifier for this mount.
    pub fn notifier(&self) -> Notifier {
        Notifier::new(self.channel.device())
    }

    /// Starts threads that serve the requests.
    ///
    /// # Errors
    /// Those of cloning the device, `mmap(2)` and starting threads. The caller must then unmount,
    /// which ends the threads that were started.
    pub fn spawn(self) -> io::Result<BackgroundSession> {
        let errors = Arc::clone(&self.channel.errors);
        let rings = self
            .negotiated
            .over_io_uring
            .then(|| QueueThreads::new(self.config.threads))
            .transpose()?;
        let count = if rings.is_some() { DEVICE_THREADS } else { self.config.threads.max(1) };
        let interrupts =
            Arc::new(Interrupts::new(count + rings.as_ref().map_or(0, QueueThreads::threads)));
        let limits = self.config.user_limits.filter(|_| rings.is_none());
        let shares = limits.map(|limits| Arc::new(UserShares::new(limits, count)));
        let workers = self.workers(count, &interrupts, shares)?;
        // No thread serves before all are started.
        let gate = Arc::new(RwLock::new(false));
        let mut open = gate.write();
        let mut threads = Vec::with_capacity(count);
        for (number, mut worker) in workers.into_iter().enumerate() {
            let gate = Arc::clone(&gate);
            let serve = move || {
                let may = *gate.read();
                if may { worker.serve() } else { Ok(()) }
            };
            threads.push(thread::Builder::new().name(format!("fuse-{number}")).spawn(serve)?);
        }
        *open = true;
        drop(open);
        if let Some(queue_threads) = &rings {
            let device = self.channel.device();
            threads.extend(ring::start(
                queue_threads,
                device,
                self.negotiated.max_payload,
                |number, reply_slot| {
                    let channel = Channel::with_reply_slot(
                        Arc::clone(device),
                        Arc::clone(&errors),
                        reply_slot,
                    );
                    self.dispatcher(channel, &interrupts, count + number, None)
                },
            )?);
        }
        Ok(BackgroundSession { threads, errors })
    }

    fn workers(
        &self,
        count: usize,
        interrupts: &Arc<Interrupts>,
        shares: Option<Arc<UserShares>>,
    ) -> io::Result<Vec<DeviceWorker<F>>> {
        let (first, errors) = (self.channel.device(), &self.channel.errors);
        let busy = Arc::new(AtomicUsize::new(0));
        let worker = |thread| {
            let device = match thread {
                1.. if self.config.clone_device => {
                    Arc::new(dio_sys::fuse::clone_device(first.as_fd())?)
                }
                _ => Arc::clone(first),
            };
            let channel = Channel::new(device, Arc::clone(errors));
            let dispatcher = self.dispatcher(channel, interrupts, thread, shares.clone());
            Ok(DeviceWorker {
                dispatcher,
                buffer: Buffer::new(self.negotiated.max_write)?,
                busy: Arc::clone(&busy),
                threads: count,
            })
        };
        (0..count).map(worker).collect()
    }

    fn dispatcher(
        &self,
        channel: Channel,
        interrupts: &Arc<Interrupts>,
        thread: usize,
        shares: Option<Arc<UserShares>>,
    ) -> Dispatcher<F> {
        Dispatcher {
            filesystem: Arc::clone(&self.filesystem),
            channel: Arc::new(channel),
            interrupts: Arc::clone(interrupts),
            thread,
            negotiated: self.negotiated,
            shares,
        }
    }
}

/// The threads that serve a mount until it is gone. They continue if this is dropped.
#[derive(Debug)]
pub struct BackgroundSession {
    threads: Vec<JoinHandle<io::Result<()>>>,
    errors: Arc<ErrorCounts>,
}

impl BackgroundSession {
    /// Waits until the mount is gone and [`Filesystem::destroy`] is done.
    ///
    /// # Errors
    /// The first error that a thread got from the device.
    pub fn join(self) -> io::Result<()> {
        let mut result = Ok(());
        for thread in self.threads {
            let ended = thread
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("the file system panicked at its end")));
            result = result.and(ended);
        }
        result
    }

    /// The counts of errors, which are updated while the threads serve.
    pub fn errors(&self) -> Arc<ErrorCounts> {
        Arc::clone(&self.errors)
    }
}

/// A thread that serves the requests from the device.
#[derive(Debug)]
struct DeviceWorker<F: Filesystem> {
    dispatcher: Dispatcher<F>,
    buffer: Buffer,
    /// Threads of the connection that serve a request at the moment.
    busy: Arc<AtomicUsize>,
    /// All threads that read from the device.
    threads: usize,
}

impl<F: Filesystem> DeviceWorker<F> {
    fn serve(&mut self) -> io::Result<()> {
        while self.dispatcher.channel.receive(&mut self.buffer)? == Received::Message {
            self.busy.fetch_add(1, Ordering::Relaxed);
            self.dispatcher.handle_in_turn(self.buffer.message());
            // Until now no thread could take a request that has arrived.
            let all_were_busy = self.busy.fetch_sub(1, Ordering::Relaxed) == self.threads;
            if all_were_busy && self.dispatcher.channel.is_pending() {
                self.dispatcher.filesystem.0.queued();
            }
        }
        Ok(())
    }
}

/// Receives the first request and replies to it.
fn negotiate(filesystem: &mut impl Filesystem, channel: &Channel) -> io::Result<Negotiated> {
    let mut buffer = Buffer::new(0)?;
    loop {
        if channel.receive(&mut buffer)? == Received::End {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let odd =
            |_| io::Error::new(io::ErrorKind::InvalidData, "the kernel's greeting is cut short");
        let message = Message::parse(buffer.message()).map_err(|malformed| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("no greeting of the kernel: {malformed}"),
            )
        })?;
        let refuse = |errno| channel.reply(message.header.unique, Err(errno));
        if message.header.opcode != opcode::INIT {
            refuse(Errno::IO);
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the device is in use: no greeting of the kernel",
            ));
        }
        let version = KernelConfig::version(message.body)
            .inspect_err(|_| refuse(Errno::IO))
            .map_err(|_| odd(()))?;
        if version.0 > abi::MAJOR {
            // The kernel then sends the request again in this version (`Version negotiation` of
            // include/uapi/linux/fuse.h).
            let reply = InitOut { major: abi::MAJOR, minor: abi::MINOR, ..InitOut::default() };
            channel.reply(message.header.unique, Ok(&[reply.as_bytes()]));
            continue;
        }
        if version < Version(abi::MAJOR, abi::OLDEST_MINOR) {
            refuse(Errno::PROTO);
            let Version(major, minor) = version;
            let said = format!(
                "the kernel speaks FUSE {major}.{minor}, which is older than 7.31 (Linux 5.4)"
            );
            return Err(io::Error::new(io::ErrorKind::Unsupported, said));
        }
        let mut config = KernelConfig::parse(message.body)
            .inspect_err(|_| refuse(Errno::IO))
            .map_err(|_| odd(()))?;
        let slot = ThreadSlot::default();
        if let Err(error) = filesystem.init(&message.request(&slot), &mut config) {
            refuse(Errno::from_io_error(&error).unwrap_or(Errno::IO));
            return Err(error);
        }
        channel.reply(message.header.unique, Ok(&[config.reply().as_bytes()]));
        return Ok(config.negotiated());
    }
}

#[cfg(test)]
mod tests;
