//! FUSE over io_uring (`Documentation/filesystems/fuse/fuse-io-uring.rst`,
//! `include/uapi/linux/fuse.h` from 7.42 on): requests come by completions of a ring, and the call
//! that answers one waits for the next.

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
/// Where `len` lies in `struct io_uring_sqe`.
const SQE_LEN: usize = 24;
/// `IORING_ENTER_GETEVENTS`.
const GETEVENTS: u32 = 1;
/// How many commands can be queued at a time; one is.
const ENTRIES: u32 = 2;

/// `struct fuse_uring_req_header`.
#[repr(C)]
#[derive(Debug)]
struct Headers {
    /// `in_out`: `fuse_in_header` on the way in, `fuse_out_header` on the way out.
    header: [u8; 128],
    /// `op_in`: the first part of the request's body, of a size that goes with the request.
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

/// One place at which the kernel can put one request of one queue at a time. There is a queue for
/// each processor; a program's request goes to that of the processor on which it runs.
///
/// Only the thread that made it may use it (`IORING_SETUP_SINGLE_ISSUER`).
pub struct FuseRing<M: StableMemory> {
    ring: IoUring<squeue::Entry128>,
    device: Arc<OwnedFd>,
    queue: u16,
    /// Where payloads lie in the block.
    payload: Range<usize>,
    /// Invariant: while the kernel may write to it, that is from `register` or `answer` until the
    /// completion has been taken, nothing here reads or writes it, and it is not freed; the same
    /// for `block`.
    headers: Box<Headers>,
    /// `Some` for just that time.
    block: Option<M>,
    /// Where the memory begins that the kernel was told of.
    start: usize,
    /// By which the kernel knows the request that has come.
    commit_id: u64,
    /// The result of a completion that was met while nobody waited for it.
    met: Option<i32>,
}

impl<M: StableMemory> std::fmt::Debug for FuseRing<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FuseRing(queue {})", self.queue)
    }
}

/// Memory that is lent to the kernel for as long as a request takes.
///
/// # Safety
/// The bytes stay at their address while the value is moved, belong to it alone, and stay mapped
/// when it is forgotten.
pub unsafe trait StableMemory {
    /// Address of the first byte.
    fn address(&self) -> usize;

    /// All of it.
    fn bytes_mut(&mut self) -> &mut [u8];
}

/// A ring that is there, no more.
pub struct Trial(#[expect(dead_code, reason = "it is there")] IoUring<squeue::Entry128>);

/// A request that has come.
#[derive(Debug)]
pub struct Arrived<M> {
    /// The memory that was lent, with the payload of the request where that was said to be.
    pub block: M,
    /// Bytes of payload.
    pub payload: usize,
}

impl<M: StableMemory> FuseRing<M> {
    /// A place for requests of `queue` of the mount of `device`. Payloads of requests and answers
    /// lie in `payload` of the block that is lent to it.
    ///
    /// # Errors
    /// What `io_uring_setup(2)` answers: `EPERM` where `kernel.io_uring_disabled` forbids it,
    /// `EINVAL` before Linux 6.1.
    pub fn new(device: Arc<OwnedFd>, queue: u16, payload: Range<usize>) -> io::Result<FuseRing<M>> {
        let ring = build()?;
        // Saves looking the ring up at each system call; a refusal costs just that.
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

    /// Tells the kernel of this place, and lends it `block`. Nothing is served before every queue
    /// has a place. False if the mount is gone.
    ///
    /// # Errors
    /// What the kernel answers: `EOPNOTSUPP` if rings are switched off (`fuse.enable_uring`) or
    /// `device` is none of FUSE, `EINVAL` if they were not agreed on, the payload is too small or
    /// there is no such queue.
    ///
    /// # Panics
    /// If there is a block already, or the payload does not lie in this one.
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
        // The vector is read here, and never again.
        self.look()?;
        let Some(number @ 1..) = self.met.map(i32::wrapping_neg) else { return Ok(true) };
        (self.met, self.block) = (None, None);
        over(number).map(|()| false)
    }

    /// Waits for the next request; `None` when the mount is gone.
    ///
    /// # Errors
    /// What `io_uring_enter(2)` and the command answer beyond that.
    ///
    /// # Panics
    /// If the request before has not been answered.
    pub fn wait(&mut self) -> io::Result<Option<Arrived<M>>> {
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
                Ok(Some(Arrived { block, payload: (payload_size as usize).min(self.payload.len()) }))
            }
            number => over(number).map(|()| None),
        }
    }

    /// Header, and first part of the body, of the request that has come.
    ///
    /// # Panics
    /// If none has.
    pub fn request(&self) -> (&[u8; 128], &[u8; 128]) {
        assert!(self.block.is_none(), "what the kernel may write to is not looked at");
        (&self.headers.header, &self.headers.operation)
    }

    /// Answers the request that has come with `header` (a `fuse_out_header`) and the first
    /// `payload` bytes of the payload in its block, which is lent again, and asks for the next.
    /// Both happen with [`FuseRing::wait`], in one system call.
    ///
    /// # Panics
    /// If there is nothing to answer, the payload is longer than agreed on, or the block is another
    /// one.
    pub fn answer(&mut self, block: M, header: &[u8; 16], payload: usize) {
        assert!(self.block.is_none() && payload <= self.payload.len());
        // The kernel goes on to use the memory that it was told of.
        assert!(block.address() == self.start, "the block that was lent");
        self.headers.header[..header.len()].copy_from_slice(header);
        self.headers.ring = InOut { commit_id: self.commit_id, payload_size: payload as u32, ..InOut::default() };
        let entry = self.entry(COMMIT_AND_FETCH, self.commit_id).build();
        self.push(&entry, block);
    }

    /// Sends the answer, and tells whether the next request has come with that.
    ///
    /// # Errors
    /// What `io_uring_enter(2)` answers.
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
        // SAFETY: headers and block, to which the kernel writes, stay where they are and untouched
        // until the completion has been taken, see the invariant; `drop` gives them up if it never
        // is.
        unsafe { self.ring.submission().push(entry) }.expect("no other command is under way");
    }

    /// Submits, and takes what has been completed with that.
    fn look(&mut self) -> io::Result<()> {
        let queued = self.ring.submission().len() as u32;
        // SAFETY: there is no argument; what is queued is sound, see `push`.
        passing(unsafe { self.ring.submitter().enter::<()>(queued, 0, GETEVENTS, None) }.map(drop))?;
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
            // Closing the ring ends the command at a time that nobody is told of.
            std::mem::forget(block);
            std::mem::forget(std::mem::take(&mut self.headers));
        }
    }
}

/// What `io_uring_enter(2)` answered, but for what passes: the caller asks again.
fn passing(answer: io::Result<()>) -> io::Result<()> {
    match answer {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY | libc::ENOMEM)) => {
            std::thread::sleep(Duration::from_millis(1));
            Ok(())
        }
        other => other,
    }
}

/// What a command ended with that brought nothing: the mount is gone, or it is an error.
fn over(number: i32) -> io::Result<()> {
    match number {
        libc::ENOTCONN | libc::ECONNABORTED | libc::ENODEV | libc::ECANCELED => Ok(()),
        number => Err(io::Error::from_raw_os_error(number)),
    }
}

/// A ring that is used for nothing, to see whether one can be made.
///
/// # Errors
/// As [`FuseRing::new`].
pub fn trial() -> io::Result<Trial> {
    build().map(Trial)
}

/// Completions then come when the thread looks for them, and cost it no interruption. Requests of
/// FUSE are commands of 80 bytes, for which entries are large.
fn build() -> io::Result<IoUring<squeue::Entry128>> {
    IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(ENTRIES)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 4096;

    // SAFETY: the vector owns its heap memory, which neither moves nor goes when it is forgotten.
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
