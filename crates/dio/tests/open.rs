//! Opening files as an ordinary user: rights that were granted at the open remain, whatever the
//! file's permissions become.

mod common;

use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use dio::{Class, Need, OpenOptions};
use dio_sys::Lease;
use dio_test::file_systems;
use rustix::io::Errno;

const NOBODY: u32 = 65_534;
const VARIABLE: &str = "DIO_TEST_AS_NOBODY";

/// Runs one test of this program again as an unprivileged user, if this user is root. Returns
/// whether it did.
fn as_ordinary_user(test: &str) -> bool {
    if !rustix::process::geteuid().is_root() {
        return false;
    }
    let place = file_systems()[0].dir();
    std::os::unix::fs::chown(place.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    // The other user may not be able to enter the directory of the program.
    let program = place.path().join("test");
    common::copy_of_this_program(&program);
    let mut command = Command::new(program);
    command.args(["--exact", test, "--nocapture"]).uid(NOBODY).gid(NOBODY).current_dir("/");
    command.env(VARIABLE, "1").env("DIO_TEST_DIR", place.path()).env_remove("DIO_TEST_FS");
    let output = dio_test::run(&mut command);
    assert!(output.status.success(), "{}\n{}", output.stdout, output.stderr);
    true
}

/// A file that is created read-only, as a copy of a read-only file is, is still written directly.
#[test]
fn a_file_created_read_only_is_direct() {
    if as_ordinary_user("a_file_created_read_only_is_direct") {
        return;
    }
    let dir = file_systems()[0].dir();
    let direct = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .open(dir.path().join("probe"))
        .unwrap();
    let expected = direct.write_class();
    let path = dir.path().join("file");
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .permissions(0o400)
        .open(&path)
        .unwrap();
    assert_eq!(file.write_class(), expected);
    file.write_at(&[7; 5000], 0).unwrap();
    file.sync_data().unwrap();
    drop(file);
    assert_eq!(std::fs::read(&path).unwrap(), [7; 5000]);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o400);
}

/// Permissions that are removed while a file is open do not affect the handles that are open.
#[test]
fn a_file_made_read_only_while_open_is_still_written() {
    if as_ordinary_user("a_file_made_read_only_while_open_is_still_written") {
        return;
    }
    let dir = file_systems()[0].dir();
    let path = dir.path().join("file");
    std::fs::write(&path, [1; 8192]).unwrap();
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o400)).unwrap();
    file.write_at(&[7; 5000], 6000).unwrap();
    file.sync_all().unwrap();
    assert_eq!(file.size().unwrap(), 11_000);
    assert_eq!(std::fs::read(&path).unwrap()[6000..], [7; 5000]);
}

/// Running out of descriptors is an error with its cure, not a reason to fall back to the page
/// cache.
#[test]
fn too_many_open_files_is_an_error_at_once() {
    let dir = file_systems()[0].dir();
    let mut files = Vec::new();
    let (soft, hard) = (64, rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum);
    if std::env::var_os(VARIABLE).is_none() {
        // The limit applies to a whole process, so this test gets one of its own.
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "too_many_open_files_is_an_error_at_once"]).env(VARIABLE, "1");
        let output = dio_test::run(&mut command);
        assert!(output.status.success(), "{}\n{}", output.stdout, output.stderr);
        return;
    }
    let expected = OpenOptions::new()
        .write(true)
        .create(true)
        .open(dir.path().join("probe"))
        .unwrap()
        .write_class();
    let limit = rustix::process::Rlimit { current: Some(soft), maximum: hard };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
    let error = loop {
        let path = dir.path().join(format!("{}", files.len()));
        match OpenOptions::new().read(true).write(true).create(true).open(&path) {
            Ok(file) => {
                assert_eq!(file.write_class(), expected, "uncached for want of a descriptor");
                file.write_at(&[1; 700], 0).unwrap();
                files.push(file);
            }
            Err(error) => break error,
        }
        assert!(files.len() < 100);
    };
    assert_eq!(error.errno(), Errno::MFILE);
    assert!(error.cure().is_some_and(|cure| cure.contains("ulimit")), "{error}");
    drop(files);
    // Existing files are opened in another way.
    let mut files = Vec::new();
    std::fs::write(dir.path().join("old"), [1; 5000]).unwrap();
    let error = loop {
        match OpenOptions::new()
            .read(true)
            .write(true)
            .need(Need::Preferred)
            .open(dir.path().join("old"))
        {
            Ok(file) => {
                file.write_at(&[1; 700], 5000).unwrap();
                files.push(file);
            }
            Err(error) => break error,
        }
    };
    assert_eq!(error.errno(), Errno::MFILE, "{error}");
    assert!(files.iter().all(|file| file.counters().written.get(Class::Cached) == 0));
}

/// Opening a FIFO would wait for its other side, which may never come.
#[test]
fn what_has_no_blocks_is_refused_at_once() {
    let dir = file_systems()[0].dir();
    let (fifo, socket) = (dir.path().join("fifo"), dir.path().join("socket"));
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&fifo, &link).unwrap();
    let (send, receive) = std::sync::mpsc::channel();
    // If it waits, it does so for ever, beside the test.
    let paths = [fifo.clone(), socket, link.clone(), "/dev/null".into(), "/dev/tty".into()];
    let pair = fifo;
    std::thread::spawn(move || {
        for path in paths {
            for mode in common::MODES {
                for (read, write, create) in
                    [(true, false, false), (false, true, false), (true, true, true)]
                {
                    let mut options = OpenOptions::new();
                    options.read(read).write(write).create(create).mode(mode);
                    send.send(options.open(&path).unwrap_err()).unwrap();
                }
            }
        }
        // These fail as open(2) does.
        send.send(OpenOptions::new().read(true).no_follow(true).open(link).unwrap_err()).unwrap();
        send.send(OpenOptions::new().write(true).create_new(true).open(pair).unwrap_err()).unwrap();
    });
    let mut errors = Vec::new();
    loop {
        match receive.recv_timeout(std::time::Duration::from_secs(30)) {
            Ok(error) => errors.push(error),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break,
            Err(error) => panic!("after {errors:?}: {error}"),
        }
    }
    assert_eq!(errors.pop().map(|error| error.errno()), Some(Errno::EXIST));
    assert_eq!(errors.pop().map(|error| error.errno()), Some(Errno::LOOP));
    assert_eq!(errors.len(), 5 * common::MODES.len() * 3);
    for error in errors {
        assert_eq!(error.errno(), Errno::INVAL, "{error}");
        assert!(error.cure().is_some_and(|cure| cure.contains("regular file")), "{error}");
    }
}

/// A name may become that of a FIFO at any moment. If an open waits for it, it does so for ever.
#[test]
fn a_fifo_that_takes_a_name_is_not_waited_for() {
    let dir = file_systems()[0].dir();
    let (name, file, fifo) = (dir.path().join("n"), dir.path().join("file"), dir.path().join("p"));
    std::fs::write(&file, [7; 5000]).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).unwrap();
    std::fs::hard_link(&file, &name).unwrap();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for source in [&fifo, &file].into_iter().cycle() {
                if is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
                let other = dir.path().join("other");
                std::fs::hard_link(source, &other).unwrap();
                std::fs::rename(&other, &name).unwrap();
            }
        });
        let (mut opened, mut refused) = (0, 0);
        while opened < 500 || refused < 500 {
            match OpenOptions::new().read(true).write(refused % 2 == 0).open(&name) {
                Ok(file) => {
                    assert_eq!(file.size().unwrap(), 5000);
                    opened += 1;
                }
                Err(error) => {
                    assert_eq!(error.errno(), Errno::INVAL, "{error}");
                    refused += 1;
                }
            }
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

/// Whoever opens a file that another holds a lease on waits for its end, and then for the disk as
/// any other, also by io_uring.
#[test]
fn a_file_with_a_lease_is_opened_when_it_ends() {
    let dir = file_systems()[0].dir();
    let path = dir.path().join("leased");
    std::fs::write(&path, [7; 5000]).unwrap();
    for mode in common::MODES {
        let holder = std::fs::File::options().read(true).write(true).open(&path).unwrap();
        let taken = || dio_sys::take_lease(holder.as_fd(), Lease::Everybody);
        if let Err(error) = dio_test::while_busy(taken) {
            dio_test::skip!("no leases here: {error}");
            return;
        }
        std::thread::scope(|scope| {
            let open = scope.spawn(|| OpenOptions::new().read(true).mode(mode).open(&path));
            while dio_sys::has_lease(holder.as_fd(), Lease::Everybody).unwrap() {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            assert!(!open.is_finished());
            dio_sys::end_lease(holder.as_fd()).unwrap();
            let file = open.join().unwrap().unwrap();
            let flags = rustix::fs::fcntl_getfl(file.descriptor().unwrap()).unwrap();
            assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK), "{mode:?}");
            assert_eq!(file.size().unwrap(), 5000);
        });
    }
}

/// The POSIX locks on a file, of all processes that this one can see.
fn posix_locks(file: &std::fs::File) -> usize {
    let inode = format!(":{} ", rustix::fs::fstat(file).unwrap().st_ino);
    let all = std::fs::read_to_string("/proc/locks").unwrap();
    all.lines().filter(|line| line.contains(" POSIX ") && line.contains(&inode)).count()
}

/// A process loses its POSIX locks on a file when it closes any descriptor of it (`fcntl(2)`).
#[test]
fn opening_a_file_costs_the_process_no_lock() {
    for fs in file_systems() {
        let dir = fs.dir();
        // Of the second size is a file that says where a striped one is.
        for size in [100_000, dio::stripe::DESCRIPTOR_LEN as usize] {
            let path = dir.path().join(size.to_string());
            std::fs::write(&path, vec![7; size]).unwrap();
            let locked = std::fs::File::options().read(true).write(true).open(&path).unwrap();
            rustix::fs::fcntl_lock(&locked, rustix::fs::FlockOperation::LockExclusive).unwrap();
            let mut opened = Vec::new();
            for mode in common::MODES {
                for write in [false, true] {
                    let mut options = OpenOptions::new();
                    let file = options.read(true).write(write).mode(mode).open(&path).unwrap();
                    file.read_at(&mut [0; 100], 4097).unwrap();
                    if write {
                        file.write_at(b"any", 4099).unwrap();
                        file.sync_data().unwrap();
                    }
                    assert_eq!(posix_locks(&locked), 1, "{} {size} {mode:?} {write}", fs.name);
                    opened.push(file);
                }
            }
            drop(opened);
            assert_eq!(posix_locks(&locked), 0, "{}: the kernel has changed", fs.name);
        }
    }
}
