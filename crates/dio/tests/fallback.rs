//! If io_uring is refused, files still work, and [`dio::Io::engine_reason`] says why.
//!
//! Each refusal applies to a process of its own: this test program starts itself again for one
//! test, with a variable that names the refusal.

mod common;

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::fill;
use dio::queue::Queue;
use dio::stream::Writer;
use dio::{Io, Limits, OpenOptions};
use dio_test::file_systems;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit};

const VARIABLE: &str = "DIO_TEST_REFUSE";

fn refuse(call: libc::c_long, errno: Errno) {
    dio_sys::refuse_system_call(call, errno).unwrap();
}

/// Writes and reads in every mode with small requests. Returns the final contents of the files.
fn work(io: &Io) -> Vec<Vec<u8>> {
    let mut contents = Vec::new();
    for fs in file_systems() {
        let dir = fs.dir();
        for mode in common::MODES {
            let path = dir.path().join("file");
            let mut options = OpenOptions::new();
            let file =
                options.read(true).write(true).create(true).mode(mode).io(io).open(&path).unwrap();
            let mut bytes = vec![0; 300_000];
            fill(&mut bytes, 1, 0);
            file.write_at(&bytes, 0).unwrap();
            file.write_at(&bytes[..5000], 70_001).unwrap();
            file.sync_data().unwrap();
            let mut back = vec![0; 300_001];
            assert_eq!(file.read_at(&mut back, 0).unwrap(), 300_000);
            bytes[70_001..75_001].copy_from_slice(&back[..5000]);
            assert!(back[..300_000] == bytes, "{} {mode:?}", fs.name);
            contents.push(back);
            // Rings need worker threads for extending a file, and for writing into space that was
            // only allocated.
            let path = dir.path().join(format!("{mode:?}"));
            let file = Arc::new(options.open(&path).unwrap());
            let mut stream = Writer::new(Arc::clone(&file)).unwrap();
            stream.write_all(&bytes.repeat(8)).unwrap();
            stream.finish().unwrap();
            enqueue(io, &file, 2_400_000usize.next_multiple_of(1 << 20) as u64);
            contents.push(std::fs::read(&path).unwrap());
        }
    }
    contents
}

/// Allocates space behind `start` and fills it through a queue.
fn enqueue(io: &Io, file: &Arc<dio::File>, start: u64) {
    const BLOCK: usize = 64 << 10;
    let end = start + 8 * BLOCK as u64;
    file.set_size(end).unwrap();
    // Not every file system can allocate.
    let _ = file.allocate(start..end, false);
    let mut queue = Queue::new(io, BLOCK, 4).unwrap();
    let mut over = Vec::new();
    for turn in 0..8u64 {
        if queue.in_flight() == 4 {
            queue.wait(1, &mut over).unwrap();
            over.iter().for_each(|over| assert_eq!(*over.outcome.as_ref().unwrap(), BLOCK));
            over.clear();
        }
        let mut block = queue.block().unwrap();
        block.push(&vec![turn as u8 + 1; BLOCK]);
        queue.write(file, block, start + turn * BLOCK as u64, BLOCK, turn).unwrap();
    }
    queue.wait(4, &mut over).unwrap();
    over.iter().for_each(|over| assert_eq!(*over.outcome.as_ref().unwrap(), BLOCK));
}

fn small_limits() -> Limits {
    Limits { depth: 4, request: 8192, bounce_block: 4096, bounce_blocks: 8, idle_engines: 1 }
}

/// The test that runs in a process of its own. It does nothing if no refusal is requested.
#[test]
fn in_a_process_of_its_own() {
    let Ok(what) = std::env::var(VARIABLE) else { return };
    let expected = common::has_uring().then(|| work(&common::io_of("uring", small_limits())));
    match what.as_str() {
        "eperm" => refuse(libc::SYS_io_uring_setup, Errno::PERM),
        "enosys" => refuse(libc::SYS_io_uring_setup, Errno::NOSYS),
        "enomem" => refuse(libc::SYS_io_uring_setup, Errno::NOMEM),
        // As on a kernel that is older than IORING_REGISTER_PROBE.
        "register" => refuse(libc::SYS_io_uring_register, Errno::INVAL),
        // The resources for a ring exist when rings are probed, and are gone when a ring is made.
        "later" | "threads" | "threads later" => {}
        "memlock" => {
            let limit = Rlimit { current: Some(4096), maximum: Some(4096) };
            rustix::process::setrlimit(Resource::Memlock, limit).unwrap();
        }
        other => panic!("nothing known to refuse as {other}"),
    }
    let start = Instant::now();
    let new_io = || Io::new(small_limits()).unwrap();
    let (io, contents) = match what.as_str() {
        "threads" => without_more_threads(|| {
            let io = new_io();
            let contents = work(&io);
            (io, contents)
        }),
        "threads later" => {
            let io = new_io();
            let contents = without_more_threads(|| work(&io));
            (io, contents)
        }
        _ => {
            let io = new_io();
            if what == "later" {
                refuse(libc::SYS_io_uring_setup, Errno::PERM);
            }
            let contents = work(&io);
            (io, contents)
        }
    };
    let elapsed = start.elapsed();
    assert!(elapsed < Duration::from_secs(60), "{what}: it took {elapsed:?}");
    assert!(
        expected.is_none_or(|expected| expected == contents),
        "the engines leave different bytes"
    );
    println!("engine {}: {}", io.engine_name(), io.engine_reason().unwrap_or("no reason"));
}

/// Calls `work` in a new thread, after which the user gets no further threads. Worker threads
/// belong to the thread that submits, and stay: this thread has none, and gets none.
fn without_more_threads<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| {
        let (limit, limited) = std::sync::mpsc::channel();
        let thread = scope.spawn(move || {
            limited.recv().unwrap();
            work()
        });
        rustix::process::setrlimit(Resource::Nproc, Rlimit { current: Some(1), maximum: Some(1) })
            .unwrap();
        let another = std::thread::Builder::new().spawn(|| ());
        assert!(another.is_err(), "the limit does not hold for this user");
        limit.send(()).unwrap();
        thread.join().unwrap()
    })
}

/// Starts this program again for that test. Returns its output.
fn in_own_process(what: &str, arrange: impl FnOnce(&mut Command)) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "in_a_process_of_its_own", "--nocapture", "--test-threads=1"]);
    command.env(VARIABLE, what).env_remove("DIO_ENGINE");
    arrange(&mut command);
    let output = dio_test::run(&mut command);
    assert!(output.status.success(), "{what}: {}\n{}", output.stdout, output.stderr);
    output.stdout
}

#[test]
fn a_seccomp_filter_is_named_as_the_reason() {
    for (what, words) in [
        (
            "eperm",
            "engine blocking: io_uring is refused: a security policy (seccomp filter?) forbids it",
        ),
        (
            "enosys",
            "engine blocking: io_uring is refused: the kernel has no io_uring, or a seccomp filter \
             hides it",
        ),
        (
            "enomem",
            "engine blocking: io_uring is refused: RLIMIT_MEMLOCK leaves no memory for a ring",
        ),
        ("register", "engine blocking: this kernel's io_uring lacks IORING_REGISTER_PROBE"),
    ] {
        if !common::has_uring() && what == "register" {
            continue;
        }
        let said = in_own_process(what, |_| {});
        assert!(said.contains(words), "{what}: {said}");
    }
}

/// Rings are refused after they were probed: the results are the same, on threads.
#[test]
fn rings_that_are_refused_later_become_threads() {
    in_own_process("later", |_| {});
}

/// A user may lock hardly any memory: registered buffers are refused, and rings may be; the bytes
/// are the same.
#[test]
fn an_ordinary_user_without_locked_memory_gets_the_same_bytes() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not root: run as the user who is here");
        in_own_process("memlock", |_| {});
        return;
    }
    let said = as_ordinary_user("memlock");
    assert!(said.contains("engine uring") || said.contains("RLIMIT_MEMLOCK"), "{said}");
}

/// If the kernel may start no worker thread for a ring (`ulimit -u`), requests that need one would
/// never complete. So the ring is refused; if the lack shows only later, the calling thread does
/// the work.
#[test]
fn rings_without_worker_threads_do_not_hang() {
    if !rustix::process::geteuid().is_root() {
        dio_test::skip!("becoming a user of few threads needs root");
        return;
    }
    let said = as_ordinary_user("threads");
    assert!(said.contains("engine blocking: io_uring"), "{said}");
    assert!(!common::has_uring() || said.contains("RLIMIT_NPROC (ulimit -u) is 1"), "{said}");
    let said = as_ordinary_user("threads later");
    assert!(!common::has_uring() || said.contains("engine uring"), "{said}");
}

/// Runs the test in a process of its own, as a user who is not root.
fn as_ordinary_user(what: &str) -> String {
    // Directories to which the other user may write.
    let places: Vec<_> = file_systems().iter().map(|fs| (fs.name.clone(), fs.dir())).collect();
    let list: Vec<String> = places
        .iter()
        .map(|(name, dir)| {
            std::os::unix::fs::chown(dir.path(), Some(NOBODY), Some(NOBODY)).unwrap();
            format!("{name}={}", dir.path().display())
        })
        .collect();
    // The other user may not be able to enter the directory of the program.
    let program = places[0].1.path().join("test");
    common::copy_of_this_program(&program);
    in_own_process(what, |command| {
        let mut own = Command::new(&program);
        own.args(command.get_args()).uid(NOBODY).gid(NOBODY).current_dir("/");
        own.env(VARIABLE, what).env_remove("DIO_ENGINE");
        own.env("DIO_TEST_FS", list[1..].join(":")).env("DIO_TEST_DIR", places[0].1.path());
        *command = own;
    })
}

const NOBODY: u32 = 65_534;
