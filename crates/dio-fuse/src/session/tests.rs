//! A session from negotiation to end, with a socket that replaces the device.

use std::ffi::OsStr;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::*;
use crate::flags::{InitFlags, WriteFlags};
use crate::reply::{ReplyEntry, ReplyWrite};
use crate::request::Request;
use crate::testing::{Kernel, longs, message, message_of, words};
use crate::types::{FileHandle, INodeNo, LockOwner, OpenFlags, RequestId};

#[derive(Debug)]
struct Simple {
    ended: Sender<()>,
    refuses: bool,
    woken: Mutex<bool>,
    wake: Condvar,
}

impl Simple {
    fn new() -> (Simple, Receiver<()>) {
        let (ended, end) = mpsc::channel();
        (Simple { ended, refuses: false, woken: Mutex::new(false), wake: Condvar::new() }, end)
    }
}

impl Filesystem for Simple {
    fn init(&mut self, _: &Request<'_>, config: &mut KernelConfig) -> io::Result<()> {
        if self.refuses {
            return Err(io::Error::from_raw_os_error(13));
        }
        config.set_max_write(64 << 10).expect("a possible size");
        config.add_capabilities(InitFlags::FUSE_ASYNC_READ).expect("it is offered");
        Ok(())
    }

    fn destroy(&mut self) {
        self.ended.send(()).expect("the test listens");
    }

    fn interrupt(&self, _: RequestId) {
        *self.woken.lock() = true;
        self.wake.notify_all();
    }

    /// Waits until it is interrupted.
    fn lookup(&self, request: &Request<'_>, _: INodeNo, _: &OsStr, reply: ReplyEntry) {
        let mut woken = self.woken.lock();
        while !*woken || !request.is_interrupted() {
            self.wake.wait_for(&mut woken, Duration::from_millis(10));
        }
        reply.error(Errno::INTR);
    }

    /// Replies with the distance of the bytes from a page boundary.
    fn write(
        &self,
        _: &Request<'_>,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        reply.written((data.as_ptr().addr() % dio::block::BLOCK_ALIGN) as u32);
    }
}

/// A kernel's `FUSE_INIT`: the version, and the first 32 flags that it offers.
fn greeting(major: u32, minor: u32, flags: InitFlags) -> Vec<u8> {
    let head = words(&[major, minor, 131_072, flags.bits() as u32]);
    let more = if minor >= 36 { vec![0; 48] } else { vec![] };
    message(opcode::INIT, 1, &[], &[head, more].concat())
}

const ONE: SessionConfig = SessionConfig { threads: 1, clone_device: false, user_limits: None };

#[test]
fn a_session_lasts_from_the_greeting_to_the_end_of_the_mount() {
    let (kernel, device) = Kernel::pair();
    let (simple, end) = Simple::new();
    kernel.ask(&greeting(7, 45, InitFlags::FUSE_ASYNC_READ | InitFlags::FUSE_INIT_EXT));
    let session = Session::from_fd(
        simple,
        device,
        SessionConfig { threads: 3, clone_device: false, user_limits: None },
    )
    .unwrap();
    let answer = kernel.answer();
    assert_eq!((answer.error, answer.unique, answer.body.len()), (0, 1, 64));
    let told = [
        words(&[7, 45, 131_072, 1 | 1 << 30]),
        [16_u16, 12].map(u16::to_ne_bytes).concat(),
        words(&[64 << 10, 1]),
    ];
    assert_eq!(answer.body[..28], told.concat());
    let notifier = session.notifier();
    let serving = session.spawn().unwrap();
    for size in [0_u32, 1, 4096, 65_536] {
        let head = [longs(&[3, 0]), words(&[size, 0]), longs(&[0]), words(&[0, 0])].concat();
        kernel.ask(&message(opcode::WRITE, 2, &[], &[head, vec![7; size as usize]].concat()));
        let answer = kernel.answer();
        assert_eq!(
            (answer.error, answer.body),
            (0, words(&[0, 0])),
            "the payload of {size} bytes is aligned"
        );
    }
    notifier.inval_inode(INodeNo(2), 0, 0).unwrap();
    assert_eq!(kernel.answer().error, 2);
    end.try_recv().expect_err("it has not ended");
    drop(kernel);
    serving.join().unwrap();
    end.try_recv().expect("the file system was told before join returned");
    assert_eq!(notifier.inval_inode(INodeNo(2), 0, 0).unwrap_err().raw_os_error(), Some(19));
}

#[test]
fn a_waiting_request_hears_of_its_interrupt() {
    let (kernel, device) = Kernel::pair();
    let (simple, _end) = Simple::new();
    kernel.ask(&greeting(7, 31, InitFlags::FUSE_ASYNC_READ));
    let session = Session::from_fd(
        simple,
        device,
        SessionConfig { threads: 2, clone_device: false, user_limits: None },
    )
    .unwrap();
    assert_eq!(kernel.answer().body[4..8], 31_u32.to_ne_bytes());
    let serving = session.spawn().unwrap();
    kernel.ask(&message(opcode::LOOKUP, 2, &[], b"x\0"));
    kernel.ask(&message(opcode::INTERRUPT, 3, &[], &longs(&[2])));
    let answer = kernel.answer();
    assert_eq!((answer.unique, answer.error), (2, -4));
    drop(kernel);
    serving.join().unwrap();
}

#[test]
fn a_user_leaves_threads_to_others_and_what_waits_can_be_interrupted() {
    let (kernel, device) = Kernel::pair();
    let (simple, _end) = Simple::new();
    kernel.ask(&greeting(7, 31, InitFlags::FUSE_ASYNC_READ));
    let limits = UserLimits { threads: 1, waiting_bytes: 1 << 20 };
    let config = SessionConfig { threads: 3, clone_device: false, user_limits: Some(limits) };
    let serving = Session::from_fd(simple, device, config).unwrap();
    assert_eq!(kernel.answer().error, 0);
    let serving = serving.spawn().unwrap();
    let user = rustix::process::geteuid().as_raw() + 100;
    // The first request occupies the share of its user until it is interrupted.
    for unique in [2, 4, 6] {
        kernel.ask(&message_of(user, opcode::LOOKUP, unique, b"x\0"));
    }
    // Another user is served meanwhile: the file system does not implement the operation, and
    // replies so.
    kernel.ask(&message_of(user + 1, opcode::STATFS, 8, &[]));
    assert_eq!((kernel.answer().unique), 8);
    kernel.ask(&message_of(user, opcode::INTERRUPT, 5, &longs(&[4])));
    let answer = kernel.answer();
    assert_eq!((answer.unique, answer.error), (4, -4));
    kernel.ask(&message_of(user, opcode::INTERRUPT, 3, &longs(&[2])));
    let answer = kernel.answer();
    assert_eq!((answer.unique, answer.error), (2, -4));
    kernel.ask(&message_of(user, opcode::INTERRUPT, 7, &longs(&[6])));
    let answer = kernel.answer();
    assert_eq!((answer.unique, answer.error), (6, -4));
    drop(kernel);
    serving.join().unwrap();
}

/// Holds a lookup until the test releases it.
#[derive(Debug)]
struct Held {
    go: Mutex<Receiver<()>>,
    begun: Sender<()>,
    queued: Arc<AtomicUsize>,
}

impl Filesystem for Held {
    fn queued(&self) {
        self.queued.fetch_add(1, Ordering::Relaxed);
    }

    fn lookup(&self, _: &Request<'_>, _: INodeNo, _: &OsStr, reply: ReplyEntry) {
        self.begun.send(()).unwrap();
        self.go.lock().recv().unwrap();
        reply.error(Errno::NOENT);
    }
}

#[test]
fn requests_that_find_all_threads_busy_are_told() {
    let (kernel, device) = Kernel::pair();
    let ((let_go, go), (begun, begins)) = (mpsc::channel(), mpsc::channel());
    let queued = Arc::new(AtomicUsize::new(0));
    kernel.ask(&greeting(7, 45, InitFlags::FUSE_INIT_EXT));
    let held = Held { go: Mutex::new(go), begun, queued: Arc::clone(&queued) };
    let session = Session::from_fd(held, device, ONE).unwrap();
    kernel.answer();
    let serving = session.spawn().unwrap();
    let lookup = |unique| kernel.ask(&message(opcode::LOOKUP, unique, &[], b"x\0"));
    let one = || {
        begins.recv().unwrap();
        let_go.send(()).unwrap();
    };
    lookup(2);
    one();
    assert_eq!(kernel.answer().unique, 2);
    // Once the thread has begun, it waits for this test, and not the other way round.
    lookup(3);
    begins.recv().unwrap();
    let before = queued.load(Ordering::Relaxed);
    lookup(4);
    lookup(5);
    let_go.send(()).unwrap();
    one();
    one();
    (3..6).for_each(|unique| assert_eq!(kernel.answer().unique, unique));
    drop(kernel);
    serving.join().unwrap();
    assert_eq!(queued.load(Ordering::Relaxed) - before, 2);
    assert!(before <= 1, "the first and the second came alone, or nearly: {before}");
}

#[test]
fn a_kernel_of_another_major_version_is_asked_to_try_again() {
    let (kernel, device) = Kernel::pair();
    let (simple, _end) = Simple::new();
    kernel.ask(&message(opcode::INIT, 1, &[], &words(&[8, 0])));
    kernel.ask(&greeting(7, 45, InitFlags::FUSE_ASYNC_READ | InitFlags::FUSE_INIT_EXT));
    Session::from_fd(simple, device, ONE).unwrap();
    assert_eq!(kernel.answer().body[..8], words(&[7, 45]));
    assert_eq!(kernel.answer().body[..8], words(&[7, 45]));
}

#[test]
fn what_cannot_be_agreed_on_is_refused_with_a_reason() {
    let refused = |message: &[u8], refuses| {
        let (kernel, device) = Kernel::pair();
        let (mut simple, end) = Simple::new();
        simple.refuses = refuses;
        kernel.ask(message);
        let error = Session::from_fd(simple, device, ONE).unwrap_err();
        end.try_recv().expect("the file system was told");
        (kernel.answer().error, error.to_string())
    };
    let (errno, said) = refused(&greeting(7, 30, InitFlags::empty()), false);
    assert!(errno == -71 && said.contains("7.30"), "{said}");
    let (errno, said) = refused(&greeting(6, 99, InitFlags::empty()), false);
    assert!(errno == -71 && said.contains("6.99"), "{said}");
    let (errno, _) = refused(&greeting(7, 45, InitFlags::FUSE_INIT_EXT), true);
    assert_eq!(errno, -13);
    let (errno, said) = refused(&message(opcode::LOOKUP, 9, &[], b"x\0"), false);
    assert!(errno == -5 && said.contains("in use"), "{said}");
    let (errno, said) = refused(&message(opcode::INIT, 9, &[], &words(&[7])), false);
    assert!(errno == -5 && said.contains("cut short"), "{said}");
}

#[test]
fn a_mount_that_is_gone_before_the_greeting_is_an_error() {
    let (kernel, device) = Kernel::pair();
    let (simple, _end) = Simple::new();
    drop(kernel);
    let error = Session::from_fd(simple, device, ONE).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotConnected);
}

#[test]
fn a_device_that_cannot_be_cloned_is_an_error_and_nothing_is_served() {
    let (kernel, device) = Kernel::pair();
    let (simple, end) = Simple::new();
    kernel.ask(&greeting(7, 45, InitFlags::FUSE_ASYNC_READ | InitFlags::FUSE_INIT_EXT));
    let session = Session::from_fd(
        simple,
        device,
        SessionConfig { threads: 2, clone_device: true, user_limits: None },
    )
    .unwrap();
    session.spawn().unwrap_err();
    end.try_recv().expect("the file system was told");
}
