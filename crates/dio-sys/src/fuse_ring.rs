//! FUSE over io_uring (`Documentation/filesystems/fuse/fuse-io-uring.rst`,
//! `include/uapi/linux/fuse.h` from 7.42 on). Requests arrive as completions of a ring, and the
//! system call that answers a request also waits for the next one.

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use io_uring::{IoUring, opcode, squeue, types};

/// `FUSE_IO_URING_CMD_REGISTER`.
const REGISTER: u32 = 1;
/// `FUSE_IO_URING_CMD_COMMIT_AND_FETCH`.
const COMMIT_AND_FETCH: u32 = 2;
/// Offset of `len` in `struct io_uring_sqe`, in bytes.
const SQE_LEN: usize = 24;
/// `IORING_ENTER_GETEVENTS`.
const GETEVENTS: u32 = 1;
/// Size of the submission queue; one command is queued at a time.
const ENTRIES: u32 = 2;

/// `struct fuse_uring_req_header`.
#[repr(C)]
#[derive(Debug)]
struct Headers {
    /// `in_out`: a `fuse_in_header` in requests, a `fuse_out_header` in answers.
    header: [u8; 128],
    /// `op_in`: the first part of the request's body, whose size depends on the request.
    operation: [u8; 128],
    ring: InOut,
}

impl Default for Headers {
    fn default() -> Headers {
        Headers { header: [0; 128], operation: [0; 128], ring: InOut::default() }
    }
}

/// `struct fuse_uring_ent_in_out`.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
struct InOut {
    flags: u64,
    commit_id: u64,
    payload_size: u32,
    padding: u32,
    reserved: u64,
}

const _: () = assert!(size_of::<Headers>() == 288);

/// Transfers requests of one queue, one request at a time. There is a queue for each processor; a
/// program's request is put into the queue of the processor on which the program runs.
///
/// Only the thread that made the ring may use it (`IORING_SETUP_SINGLE_ISSUER`).
pub struct FuseRing<M: StableMemory> {
    ring: IoUring<squeue::Entry128>,
    device: Arc<OwnedFd>,
    queue: u16,
    /// Range of the payload in the block.
    payload: Range<usize>,
    /// Invariant: while the kernel may write to it, nothing here reads or writes it, and it is not
    /// freed. That is the time from `register` or `answer` until the completion has been taken. The
    /// same holds for `block`.
    headers: Box<Headers>,
    /// The block, while the kernel may write to it; otherwise `None`.
    block: Option<M>,
    /// Address of the memory that was registered.
    start: usize,
    /// The kernel's identifier of the request that has arrived.
    commit_id: u64,
    /// The result of a completion that was found outside of `wait`.
    met: Option<i32>,
}

impl<M: StableMemory> std::fmt::Debug for FuseRing<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FuseRing(queue {})", self.queue)
    }
}

/// Memory that is lent to the kernel until a request has arrived.
///
/// # Safety
/// The bytes stay at their address while the value is moved, belong to it alone, and stay mapped
/// when it is forgotten.
pub unsafe trait StableMemory {
    /// Address of the first byte.
    fn address(&self) -> usize;

    /// The whole memory.
    fn bytes_mut(&mut self) -> &mut [u8];
}

/// A ring that exists and is not used.
pub struct Trial(#[expect(dead_code, reason = "it is there")] IoUring<squeue::Entry128>);

/// A request that has arrived.
#[derive(Debug)]
pub struct RingRequest<M> {
    /// The memory that was lent, with the payload of the request in the range given to
    /// [`FuseRing::new`].
    pub block: M,
    /// Length of the payload in bytes.
    pub payload: usize,
}

impl<M: StableMemory> FuseRing<M> {
    /// Makes a ring for requests of `queue`, on the mount of `device`. `payload` is the range of
    /// payloads of requests and answers in the block that is lent.
    ///
    /// # Errors
    /// Those of `io_uring_setup(2)`: `EPERM` where `kernel.io_uring_disabled` forbids it, `EINVAL`
    /// before Linux 6.1.
    pub fn new(device: Arc<OwnedFd>, queue: u16, payload: Range<usize>) -> io::Result<FuseRing<M>> {
        let ring = build()?;
        // Saves a lookup of the ring's descriptor at each system call. If it fails, the lookups
        // stay.
        let _ = ring.submitter().register_ring_fd();
        Ok(FuseRing {
            ring,
            device,
            queue,
            payload,
            headers: Box::default(),
            block: None,
            start: 0,
            commit_id: 0,
            met: None,
        })
    }

    /// Registers the ring with the kernel, and lends it `block`. The kernel serves no request
    /// before every queue has a ring. Returns false if the mount is gone.
    ///
    /// # Errors
    /// The kernel's: `EOPNOTSUPP` if rings are switched off (`fuse.enable_uring`) or `device` is no
    /// FUSE device, `EINVAL` if rings were not negotiated, the payload is too small or there is no
    /// such queue.
    ///
    /// # Panics
    /// If a block is lent already, or if `payload` is not inside this one.
    pub fn register(&mut self, mut block: M) -> io::Result<bool> {
        assert!(self.block.is_none(), "a place is registered once");
        self.start = block.bytes_mut().as_ptr().addr();
        let payload = &mut block.bytes_mut()[self.payload.clone()];
        let headers = (&raw mut *self.headers).cast();
        let vector = [
            libc::iovec { iov_base: headers, iov_len: size_of::<Headers>() },
            libc::iovec { iov_base: payload.as_mut_ptr().cast(), iov_len: payload.len() },
        ];
        let place = vector.as_ptr().expose_provenance() as u64;
        let mut entry = self.entry(REGISTER, 0).addr(Some(place)).build();
        // SAFETY: `Entry128` is `struct io_uring_sqe` and 64 bytes more (`repr(C)`), in which `len`
        // is a u32 at this offset; the crate leaves it 0 for commands.
        unsafe { (&raw mut entry).byte_add(SQE_LEN).cast::<u32>().write(vector.len() as u32) };
        self.push(&entry, block);
        // The kernel reads the vector during this call, and never again.
        self.look()?;
        let Some(number @ 1..) = self.met.map(i32::wrapping_neg) else { return Ok(true) };
        (self.met, self.block) = (None, None);
        over(number).map(|()| false)
    }

    /// Waits for the next request; `None` when the mount is gone.
    ///
    /// # Errors
    /// Other errors of `io_uring_enter(2)` and of the command.
    ///
    /// # Panics
    /// If the previous request was not answered.
    pub fn wait(&mut self) -> io::Result<Option<RingRequest<M>>> {
        assert!(self.block.is_some(), "the kernel has a place for a request");
        let result = loop {
            if let Some(result) = self.met.take().or_else(|| self.completed()) {
                break result;
            }
            passing(self.ring.submit_and_wait(1).map(drop))?;
        };
        let block = self.block.take().expect("asserted above");
        match -result {
            ..=0 => {
                let InOut { commit_id, payload_size, .. } = self.headers.ring;
                self.commit_id = commit_id;
                Ok(Some(RingRequest {
                    block,
                    payload: (payload_size as usize).min(self.payload.len()),
                }))
            }
            number => over(number).map(|()| None),
        }
    }

    /// Returns the header, and the first part of the body, of the request that has arrived.
    ///
    /// # Panics
    /// If no request has arrived.
    pub fn request(&self) -> (&[u8; 128], &[u8; 128]) {
        assert!(self.block.is_none(), "what the kernel may write to is not looked at");
        (&self.headers.header, &self.headers.operation)
    }

    /// Answers the request that has arrived, and asks for the next one. The answer is `header` (a
    /// `fuse_out_header`) and the first `payload` bytes of the payload range of `block`, which is
    /// lent again. Both happen in the next [`FuseRing::wait`], in one system call.
    ///
    /// # Panics
    /// If there is no request to answer, if the payload is longer than its range, or if the block
    /// is not the registered one.
    pub fn answer(&mut self, block: M, header: &[u8; 16], payload: usize) {
        assert!(self.block.is_none() && payload <= self.payload.len());
        // The kernel continues to use the registered memory.
        assert!(block.address() == self.start, "the block that was lent");
        self.headers.header[..header.len()].copy_from_slice(header);
        self.headers.ring =
            InOut { commit_id: self.commit_id, payload_size: payload as u32, ..InOut::default() };
        let entry = self.entry(COMMIT_AND_FETCH, self.commit_id).build();
        self.push(&entry, block);
    }

    /// Sends the answer, and returns whether the next request has arrived already.
    ///
    /// # Errors
    /// Those of `io_uring_enter(2)`.
    pub fn has_come(&mut self) -> io::Result<bool> {
        self.look()?;
        Ok(self.met.is_some())
    }

    fn entry(&self, command: u32, commit_id: u64) -> opcode::UringCmd80 {
        // `struct fuse_uring_cmd_req`: flags, commit_id, qid.
        let mut bytes = [0; 80];
        bytes[8..16].copy_from_slice(&commit_id.to_ne_bytes());
        bytes[16..18].copy_from_slice(&self.queue.to_ne_bytes());
        opcode::UringCmd80::new(types::Fd(self.device.as_raw_fd()), command).cmd(bytes)
    }

    fn push(&mut self, entry: &squeue::Entry128, block: M) {
        self.block = Some(block);
        // SAFETY: the kernel writes to headers and block. They stay at their addresses and
        // untouched until the completion has been taken, see the invariant; `drop` leaks them if it
        // never is.
        unsafe { self.ring.submission().push(entry) }.expect("no other command is under way");
    }

    /// Submits the queued command, and takes a completion if there is one.
    fn look(&mut self) -> io::Result<()> {
        let queued = self.ring.submission().len() as u32;
        // SAFETY: there is no argument; the queued command is sound, see `push`.
        let entered = unsafe { self.ring.submitter().enter::<()>(queued, 0, GETEVENTS, None) };
        passing(entered.map(drop))?;
        self.met = self.met.or_else(|| self.completed());
        Ok(())
    }

    fn completed(&mut self) -> Option<i32> {
        self.ring.completion().next().map(|completion| completion.result())
    }
}

impl<M: StableMemory> Drop for FuseRing<M> {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            // Closing the ring ends the command, but at an unknown time.
            std::mem::forget(block);
            std::mem::forget(std::mem::take(&mut self.headers));
        }
    }
}

/// Returns the result of `io_uring_enter(2)`, except for temporary errors, after which the caller
/// tries again.
fn passing(answer: io::Result<()>) -> io::Result<()> {
    match answer {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
        Err(error)
            if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY | libc::ENOMEM)) =>
        {
            std::thread::sleep(Duration::from_millis(1));
            Ok(())
        }
        other => other,
    }
}

/// Interprets the error with which a command ended: the mount is gone, or it is a real error.
fn over(number: i32) -> io::Result<()> {
    match number {
        libc::ENOTCONN | libc::ECONNABORTED | libc::ENODEV | libc::ECANCELED => Ok(()),
        number => Err(io::Error::from_raw_os_error(number)),
    }
}

/// Makes a ring that is not used, to find out whether one can be made.
///
/// # Errors
/// Those of [`FuseRing::new`].
pub fn trial() -> io::Result<Trial> {
    build().map(Trial)
}

/// Makes a ring with deferred task work: completions are processed when the thread looks for them,
/// without interrupting it. FUSE commands have 80 bytes, which need large entries.
fn build() -> io::Result<IoUring<squeue::Entry128>> {
    IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(ENTRIES)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 4096;

    // SAFETY: the vector owns its heap memory, which does not move and is not freed when it is
    // forgotten.
    unsafe impl StableMemory for Vec<u8> {
        fn address(&self) -> usize {
            self.as_ptr().addr()
        }

        fn bytes_mut(&mut self) -> &mut [u8] {
            self
        }
    }

    #[test]
    fn other_descriptors_are_refused() {
        if trial().is_err() {
            eprintln!("skipped: no io_uring here");
            return;
        }
        let file = tempfile::tempfile().unwrap();
        let mut ring = FuseRing::new(Arc::new(file.into()), 0, 0..PAGE).unwrap();
        let error = ring.register(vec![0; PAGE]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP));
        assert!(ring.block.is_none(), "nothing is lost with it");
    }
}
