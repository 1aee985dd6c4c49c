//! Several clients, some of them misbehaving, query a running server. No mount is needed for that:
//! a directory of any file system has a device number.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use dio::Class;
use dio_mount::control::{self, Commands, Control, ControlError, Exports, StartError};
use dio_mount::stats::{Operation, RequestKind, Stats};
use parking_lot::Mutex;

/// A control server without a mount.
struct Fake {
    dir: tempfile::TempDir,
    stats: Arc<Stats>,
    control: Control,
}

impl Fake {
    fn start() -> Fake {
        let dir = tempfile::tempdir().unwrap();
        let stats = Stats::new();
        stats.describe("mountpoint", dir.path().to_str().unwrap());
        let control = serve(dir.path(), &stats).unwrap();
        Fake { dir, stats, control }
    }

    fn sockets(&self) -> PathBuf {
        self.dir.path().join("run")
    }

    fn connect(&self) -> control::Client {
        control::connect_in(&self.sockets(), self.dir.path()).unwrap()
    }

    fn raw(&self) -> UnixStream {
        let stream = UnixStream::connect(self.control.socket()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }
}

fn serve(dir: &Path, stats: &Arc<Stats>) -> Result<Control, StartError> {
    let settings = Arc::new(Mutex::new("dio,readahead_max=8M".to_owned()));
    let shown = Arc::clone(&settings);
    let commands = Commands {
        settings: Box::new(move || shown.lock().clone()),
        set: Box::new(move |text| {
            if text.contains('?') {
                return Err(format!("unknown option '{text}'"));
            }
            *settings.lock() = text.to_owned();
            Ok(())
        }),
    };
    control::start_in(&dir.join("run"), dir, stats, commands, &Exports::default())
}

#[test]
fn a_client_gets_what_was_counted_and_changes_settings() {
    let fake = Fake::start();
    let mut client = fake.connect();
    let before = client.snapshot().unwrap();
    fake.stats.file(3, "data").read(Class::Direct, 4096, Duration::from_micros(90));
    drop(fake.stats.begin(Operation::Read));
    let after = client.snapshot().unwrap();
    let interval = after.since(Some(&before));
    assert_eq!(interval.change.total.bytes.get(RequestKind::Read), 4096);
    assert_eq!(interval.operation(Operation::Read).unwrap().count, 1);
    assert_eq!(interval.change.files[0].path, "data");
    assert_eq!(client.settings().unwrap(), "dio,readahead_max=8M");
    assert_eq!(client.set("cio").unwrap(), "cio");
    assert!(matches!(
        client.set("what?"),
        Err(ControlError::Refused(reason)) if reason == "unknown option 'what?'"
    ));
    assert_eq!(
        fake.connect().settings().unwrap(),
        "cio",
        "for others too, and a refused one changed nothing"
    );
}

#[test]
fn only_its_user_can_reach_the_socket() {
    let fake = Fake::start();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&fake.sockets()), mode(fake.control.socket())), (0o700, 0o600));
}

#[test]
fn rude_clients_keep_nobody_else_waiting() {
    let fake = Fake::start();
    // One client never sends a request, one sends half a request, and one sends many requests and
    // never reads the answers.
    let mut idle = fake.raw();
    let mut half = fake.raw();
    half.write_all(b"\"snap").unwrap();
    let deaf = fake.raw();
    deaf.set_nonblocking(true).unwrap();
    while (&deaf).write(&b"\"snapshot\"\n".repeat(100)).is_ok() {}
    let mut client = fake.connect();
    for _ in 0..50 {
        client.snapshot().unwrap();
    }
    half.write_all(b"shot\"\n\"settings\"\n").unwrap();
    let mut answers = BufReader::new(&half).lines();
    assert!(answers.next().unwrap().unwrap().starts_with(r#"{"ok":{"#));
    assert_eq!(answers.next().unwrap().unwrap(), r#"{"ok":"dio,readahead_max=8M"}"#);
    // The client that did not read gets all its answers if it reads after all.
    deaf.set_nonblocking(false).unwrap();
    deaf.shutdown(std::net::Shutdown::Write).unwrap();
    idle.write_all(b"\xff\xfe\n").unwrap();
    let mut answer = String::new();
    BufReader::new(&idle).read_line(&mut answer).unwrap();
    assert!(answer.contains("unknown request"), "{answer}");
}

#[test]
fn a_request_without_end_is_refused() {
    let fake = Fake::start();
    let mut stream = fake.raw();
    // The server stops reading long before everything is sent.
    let _ = stream.write_all(&vec![b'x'; 4 << 20]);
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text);
    assert!(text.is_empty() || text.contains("too long"), "{text}");
    assert_eq!(fake.connect().settings().unwrap(), "dio,readahead_max=8M");
}

#[test]
fn many_clients_come_and_the_silent_go() {
    let fake = Fake::start();
    let mut first = fake.connect();
    first.settings().unwrap();
    let mut crowd: Vec<control::Client> = (0..100).map(|_| fake.connect()).collect();
    for client in crowd.iter_mut().rev().take(20) {
        client.settings().unwrap();
    }
    assert!(
        matches!(first.settings(), Err(ControlError::Connection { .. })),
        "it was silent longest"
    );
}

#[test]
fn many_clients_at_once_get_whole_answers() {
    let fake = Fake::start();
    let files: Vec<_> = (0..64u64)
        .map(|inode| fake.stats.file(inode, "x".repeat(3000) + &inode.to_string()))
        .collect();
    files.iter().for_each(|file| file.read(Class::Cached, 1, Duration::ZERO));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut client = fake.connect();
                let mut last = client.snapshot().unwrap();
                for _ in 0..20 {
                    files[5].read(Class::Cached, 1, Duration::ZERO);
                    let now = client.snapshot().unwrap();
                    assert!(now.total.at_least(&last.total) && now.files.len() == 64);
                    last = now;
                }
            });
        }
    });
}

#[test]
fn the_end_of_the_server_is_told() {
    let fake = Fake::start();
    let mut client = fake.connect();
    client.snapshot().unwrap();
    let socket = fake.control.socket().to_owned();
    drop(fake.control);
    assert!(!socket.exists());
    assert!(matches!(client.snapshot(), Err(ControlError::Connection { .. })));
    let sockets = fake.dir.path().join("run");
    let error = control::connect_in(&sockets, fake.dir.path()).unwrap_err();
    assert!(matches!(&error, ControlError::NotDio { kind, .. } if !kind.is_empty()), "{error}");
    // The next server uses the same socket path.
    let again = serve(fake.dir.path(), &fake.stats).unwrap();
    assert_eq!(again.socket(), socket);
    control::connect_in(&sockets, fake.dir.path()).unwrap().snapshot().unwrap();
}

#[test]
fn servers_that_are_ending_or_crashed_are_in_nobodys_way() {
    let fake = Fake::start();
    let mut early = fake.connect();
    early.set("first").unwrap();
    // The kernel reuses the device number of a mount that is gone while the old server is still
    // ending.
    let second = serve(fake.dir.path(), &fake.stats).unwrap();
    assert_eq!(early.settings().unwrap(), "first", "who was connected stays so");
    fake.connect().set("second").unwrap();
    drop(early);
    let Fake { dir, control, stats, .. } = fake;
    drop(control);
    let sockets = dir.path().join("run");
    assert_eq!(control::connect_in(&sockets, dir.path()).unwrap().settings().unwrap(), "second");
    drop(second);
    assert!(control::connect_in(&sockets, dir.path()).is_err());
    let fake = Fake { control: serve(dir.path(), &stats).unwrap(), dir, stats };
    // A crash leaves a socket file on which no process listens.
    let socket = fake.control.socket().to_owned();
    let stats = Arc::clone(&fake.stats);
    let Fake { dir, control, .. } = fake;
    drop(control);
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    assert!(control::connect_in(&dir.path().join("run"), dir.path()).is_err());
    let _control = serve(dir.path(), &stats).unwrap();
    control::connect_in(&dir.path().join("run"), dir.path()).unwrap().settings().unwrap();
}

#[test]
fn what_is_not_there_is_said() {
    let error = control::connect("/no/such/path").unwrap_err();
    assert_eq!(error.to_string(), "cannot look at '/no/such/path': No such file or directory");
    let error = control::connect("/proc").unwrap_err();
    assert_eq!(error.to_string(), "'/proc' is not on a dio mount, but on proc");
}

/// Reading statistics under load does not change the counters.
#[test]
fn nothing_is_lost_while_it_is_asked() {
    let fake = Fake::start();
    let stop = AtomicBool::new(false);
    let counted: u64 = thread::scope(|scope| {
        let workers: Vec<_> = (0..4u64)
            .map(|worker| {
                let (stats, stop) = (&fake.stats, &stop);
                scope.spawn(move || {
                    let mut count = 0;
                    while !stop.load(Ordering::Relaxed) {
                        let file = stats.file(worker % 2, "shared");
                        let _timer = stats.begin(Operation::Write);
                        file.written(Class::Direct, 512, Duration::from_nanos(count));
                        count += 1;
                    }
                    count
                })
            })
            .collect();
        let mut client = fake.connect();
        let mut last = client.snapshot().unwrap();
        for _ in 0..30 {
            let now = client.snapshot().unwrap();
            let interval = now.since(Some(&last));
            assert!(now.total.at_least(&last.total) && interval.seconds > 0.0);
            last = now;
        }
        stop.store(true, Ordering::Relaxed);
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    let end = fake.connect().snapshot().unwrap();
    assert_eq!(end.total.requests.get(RequestKind::Write), counted);
    assert_eq!(end.total.bytes.get(RequestKind::Write), counted * 512);
    assert_eq!(end.operations["write"].count, counted);
}

/// A FUSE mount of dio's type whose server never answers: no operation below may depend on its
/// answers.
struct Mute {
    point: PathBuf,
    /// Closing it ends the server.
    device: Option<std::fs::File>,
}

impl Mute {
    /// Mounts; `None` where this process cannot mount.
    fn mount(point: &Path) -> Option<Mute> {
        std::fs::create_dir(point).unwrap();
        let device = std::fs::File::options().read(true).write(true).open("/dev/fuse").ok()?;
        let fd = std::os::fd::AsRawFd::as_raw_fd(&device);
        let data =
            std::ffi::CString::new(format!("fd={fd},rootmode=40000,user_id=0,group_id=0")).unwrap();
        let flags = rustix::mount::MountFlags::NOSUID | rustix::mount::MountFlags::NODEV;
        rustix::mount::mount("mute", point, "fuse.dio", flags, data.as_c_str()).ok()?;
        Some(Mute { point: point.to_owned(), device: Some(device) })
    }
}

impl Drop for Mute {
    fn drop(&mut self) {
        drop(self.device.take());
        let _ = rustix::mount::unmount(&self.point, rustix::mount::UnmountFlags::DETACH);
    }
}

#[test]
fn a_server_that_hangs_or_is_gone_is_told_from_one_that_answers() {
    let dir = tempfile::tempdir().unwrap();
    let point = dir.path().join("mnt");
    let Some(mut mute) = Mute::mount(&point) else {
        dio_test::skip!("FUSE cannot be mounted here");
        return;
    };
    let sockets = dir.path().join("run");
    let connect = || control::connect_in(&sockets, &point);
    assert!(matches!(connect().unwrap_err(), ControlError::Silent { .. }));
    // Statistics are available while the mount itself hangs.
    let stats = Stats::new();
    let commands = Commands { settings: Box::new(String::new), set: Box::new(|_| Ok(())) };
    let control =
        control::start_in(&sockets, &point, &stats, commands, &Exports::default()).unwrap();
    assert!(control.socket().file_name().unwrap().to_str().unwrap().starts_with("0:"));
    connect().unwrap().snapshot().unwrap();
    drop(control);
    drop(mute.device.take());
    let error = connect().unwrap_err();
    assert!(matches!(error, ControlError::Gone { .. }), "{error}");
}
