//! Plain descriptors of all kinds: real pipes, sockets and terminals, blocking and non-blocking.

use std::fs::File;
use std::io::{IoSliceMut, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use dio::stream::pipe;
use dio_test::{Rng, Seed};
use parking_lot::Mutex;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::pipe::pipe as new_pipe;
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};

const MIB: usize = 1 << 20;

fn make_non_blocking(fd: impl AsFd) {
    let flags = fcntl_getfl(&fd).unwrap();
    fcntl_setfl(&fd, flags | OFlags::NONBLOCK).unwrap();
}

/// Channels that pass bytes in one direction: name, reader, writer.
fn channels() -> Vec<(&'static str, OwnedFd, OwnedFd)> {
    let (reader, writer) = new_pipe().unwrap();
    let (one, other) = UnixStream::pair().unwrap();
    vec![("pipe", reader, writer), ("socket", one.into(), other.into())]
}

/// The master and the slave of a terminal.
fn terminal() -> (OwnedFd, OwnedFd) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let slave = ioctl_tiocgptpeer(&master, flags).unwrap();
    (master, slave)
}

/// Reads to the end in pieces of any size, sometimes after a delay, so that the writer finds the
/// channel full.
fn read_slowly(fd: &OwnedFd, rng: &mut Rng, end: usize) -> Vec<u8> {
    let (mut all, mut buffer) = (Vec::new(), vec![0; 100_000]);
    while all.len() < end {
        if rng.bool(0.1) {
            thread::sleep(Duration::from_millis(1));
        }
        let most = rng.range_usize(1..buffer.len());
        match pipe::read(fd, &mut buffer[..most]).unwrap() {
            0 => break,
            count => all.extend_from_slice(&buffer[..count]),
        }
    }
    all
}

/// Held by tests that depend on how large pipes may be: one of them uses up the allowance of an
/// ordinary user.
static ALLOWANCE: Mutex<()> = Mutex::new(());

#[test]
fn pipes_grow_to_what_is_wanted_and_never_shrink() {
    let _allowance = ALLOWANCE.lock();
    let (reader, writer) = new_pipe().unwrap();
    assert_eq!(pipe::capacity(&reader), Some(64 << 10));
    assert_eq!(pipe::enlarge(&reader, 256 << 10), Some(256 << 10));
    assert_eq!(pipe::enlarge(&writer, 4096), Some(256 << 10));
    // All of it fits without a read.
    pipe::write_all(&writer, &vec![1; 256 << 10]).unwrap();
    assert!(!pipe::wait_writable(&writer, Some(Duration::ZERO)).unwrap());
    let largest: usize =
        std::fs::read_to_string("/proc/sys/fs/pipe-max-size").unwrap().trim().parse().unwrap();
    assert_eq!(pipe::enlarge(&reader, usize::MAX), Some(largest));
}

#[test]
fn only_pipes_have_a_capacity() {
    let file = tempfile::tempfile().unwrap();
    let (socket, _other) = UnixStream::pair().unwrap();
    assert_eq!((pipe::capacity(&file), pipe::enlarge(&file, MIB)), (None, None));
    assert_eq!((pipe::capacity(&socket), pipe::enlarge(&socket, MIB)), (None, None));
}

/// The capabilities that exempt from the limit belong to a thread, so a new thread drops them.
#[test]
fn a_user_with_many_pipes_gets_less_without_an_error() {
    let _allowance = ALLOWANCE.lock();
    let pages: usize = std::fs::read_to_string("/proc/sys/fs/pipe-user-pages-soft")
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let most = pages * rustix::param::page_size() / MIB;
    if !(1..=300).contains(&most) {
        dio_test::skip!("pipes of a user may hold {most} MiB");
        return;
    }
    let sizes = thread::spawn(move || {
        use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
        let mut sets = capabilities(None).unwrap();
        sets.effective -= CapabilitySet::SYS_RESOURCE | CapabilitySet::SYS_ADMIN;
        set_capabilities(None, sets).unwrap();
        let pipes: Vec<_> = (0..most + 2).map(|_| new_pipe().unwrap()).collect();
        pipes.iter().map(|(reader, _)| pipe::enlarge(reader, MIB).unwrap()).collect::<Vec<_>>()
    });
    let sizes = sizes.join().unwrap();
    assert_eq!(sizes[0], MIB);
    assert!(*sizes.last().unwrap() < MIB, "{sizes:?}");
}

#[test]
fn waiting_ends_with_bytes_an_end_or_the_time() {
    for (name, reader, writer) in channels() {
        let start = Instant::now();
        assert!(!pipe::wait_readable(&reader, Some(Duration::from_millis(30))).unwrap(), "{name}");
        assert!(start.elapsed() >= Duration::from_millis(30), "{name}");
        assert!(pipe::wait_writable(&writer, Some(Duration::MAX)).unwrap(), "{name}");
        pipe::write_all(&writer, b"x").unwrap();
        assert!(pipe::wait_readable(&reader, None).unwrap(), "{name}");
        assert_eq!(pipe::read(&reader, &mut [0; 9]).unwrap(), 1, "{name}");
        let late = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            drop(writer);
        });
        assert!(pipe::wait_readable(&reader, Some(Duration::from_secs(20))).unwrap(), "{name}");
        assert_eq!(pipe::read(&reader, &mut [0; 9]).unwrap(), 0, "{name}");
        late.join().unwrap();
    }
}

#[test]
fn every_byte_passes_whichever_side_does_not_block() {
    let seed = Seed::new();
    let bytes = seed.stream(0).bytes(2 * MIB + 77);
    for which in 0..4 {
        for (name, reader, writer) in channels() {
            if which & 1 != 0 {
                make_non_blocking(&reader);
            }
            if which & 2 != 0 {
                make_non_blocking(&writer);
            }
            let (mut rng, mut reading) = (seed.stream(1), seed.stream(2));
            let read = thread::scope(|scope| {
                scope.spawn(|| {
                    let mut rest = &bytes[..];
                    while !rest.is_empty() {
                        let (part, more) =
                            rest.split_at(rng.range_usize(1..300_000).min(rest.len()));
                        pipe::write_all(&writer, part).unwrap();
                        rest = more;
                    }
                    drop(writer);
                });
                read_slowly(&reader, &mut reading, usize::MAX)
            });
            assert!(read == bytes, "{name} {which}: {} bytes of {}", read.len(), bytes.len());
        }
    }
}

#[test]
fn a_reader_that_is_gone_is_an_error_also_for_who_waits() {
    for (name, reader, writer) in channels() {
        make_non_blocking(&writer);
        thread::scope(|scope| {
            let write = scope.spawn(|| pipe::write_all(&writer, &vec![0; 8 * MIB]));
            thread::sleep(Duration::from_millis(20));
            drop(reader);
            let error = write.join().unwrap().unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe, "{name}");
        });
    }
}

#[test]
fn a_terminal_gives_lines_and_an_end_that_is_not_the_last() {
    let (master, slave) = terminal();
    make_non_blocking(&slave);
    let typing = thread::spawn(move || {
        for text in ["one\n", "\x04", "two\n"] {
            thread::sleep(Duration::from_millis(20));
            pipe::write_all(&master, text.as_bytes()).unwrap();
        }
        master
    });
    let mut buffer = [0; 100];
    for line in ["one\n", "", "two\n"] {
        let count = pipe::read(&slave, &mut buffer).unwrap();
        assert_eq!(&buffer[..count], line.as_bytes());
    }
    drop(typing.join().unwrap());
}

#[test]
fn a_slow_terminal_is_waited_for() {
    let (master, slave) = terminal();
    make_non_blocking(&slave);
    let seed = Seed::new();
    // Letters only, because a terminal interprets control characters.
    let text: Vec<u8> = seed.stream(0).bytes(200_000).iter().map(|byte| b'a' + byte % 26).collect();
    let shown = thread::scope(|scope| {
        scope.spawn(|| pipe::write_all(&slave, &text).unwrap());
        read_slowly(&master, &mut seed.stream(1), text.len())
    });
    assert!(shown == text);
}

/// Moves `bytes` from one file, pipe or socket to another, with threads at both ends. Returns the
/// bytes that arrived.
fn spliced(
    from: &OwnedFd,
    to: OwnedFd,
    feed: Option<(OwnedFd, &[u8])>,
    drain: Option<&OwnedFd>,
    rng: &mut Rng,
) -> (u64, Vec<u8>) {
    thread::scope(|scope| {
        if let Some((fd, bytes)) = feed {
            scope.spawn(move || pipe::write_all(&fd, bytes).unwrap());
        }
        let splice = scope.spawn(move || pipe::splice_all(from, &to, u64::MAX).unwrap());
        let read = drain.map_or(Vec::new(), |fd| read_slowly(fd, rng, usize::MAX));
        (splice.join().unwrap(), read)
    })
}

#[test]
fn splicing_passes_everything_between_pipes_and_sockets() {
    let seed = Seed::new();
    let bytes = seed.stream(0).bytes(MIB + 4099);
    for which in 0..8 {
        let ((from_name, from, feed), (to_name, drain, to)) =
            (channels().swap_remove(which & 1), channels().swap_remove(which >> 1 & 1));
        if which & 4 != 0 {
            make_non_blocking(&from);
            make_non_blocking(&to);
        }
        let (moved, read) =
            spliced(&from, to, Some((feed, &bytes)), Some(&drain), &mut seed.stream(1));
        assert_eq!(moved, bytes.len() as u64, "{from_name} to {to_name}");
        assert!(read == bytes, "{from_name} to {to_name}, {which}");
    }
}

#[test]
fn splicing_to_and_from_files_uses_their_positions_and_falls_back() {
    let seed = Seed::new();
    let bytes = seed.stream(0).bytes(300_001);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    for append in [false, true] {
        // splice(2) refuses files in append mode.
        std::fs::write(&path, b"head").unwrap();
        let mut file = File::options().write(true).append(append).open(&path).unwrap();
        file.seek(std::io::SeekFrom::Start(4)).unwrap();
        let (reader, writer) = new_pipe().unwrap();
        let (moved, _) =
            spliced(&reader, file.into(), Some((writer, &bytes)), None, &mut seed.stream(1));
        assert_eq!(moved, bytes.len() as u64);
        let written = std::fs::read(&path).unwrap();
        assert!(written[..4] == *b"head" && written[4..] == bytes, "append {append}");
    }
    // Neither descriptor is a pipe.
    let mut from = File::open(&path).unwrap();
    from.seek(std::io::SeekFrom::Start(4)).unwrap();
    let copy = directory.path().join("copy");
    let to = File::create(&copy).unwrap();
    assert_eq!(pipe::splice_all(&from, &to, 1000).unwrap(), 1000);
    assert_eq!(pipe::splice_all(&from, &to, u64::MAX).unwrap(), bytes.len() as u64 - 1000);
    assert!(std::fs::read(&copy).unwrap() == bytes);
    // From a file to a pipe.
    let mut from = File::open(&path).unwrap();
    from.read_exact(&mut [0; 4]).unwrap();
    let (reader, writer) = new_pipe().unwrap();
    let (moved, read) = spliced(&from.into(), writer, None, Some(&reader), &mut seed.stream(1));
    assert_eq!(moved, bytes.len() as u64);
    assert!(read == bytes);
}

#[test]
fn one_read_fills_several_pieces_of_memory() {
    let (reader, writer) = new_pipe().unwrap();
    make_non_blocking(&reader);
    let late = thread::spawn(move || {
        thread::sleep(Duration::from_millis(20));
        pipe::write_all(&writer, b"0123456789").unwrap();
        writer
    });
    let (mut first, mut second) = ([0; 4], [0; 100]);
    let mut pieces = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
    assert_eq!(pipe::read_vectored(&reader, &mut pieces).unwrap(), 10);
    assert_eq!((&first, &second[..6]), (b"0123", &b"456789"[..]));
    drop(late.join().unwrap());
    assert_eq!(pipe::read_vectored(&reader, &mut [IoSliceMut::new(&mut first)]).unwrap(), 0);
}

#[test]
fn no_more_is_spliced_than_was_asked() {
    let (reader, mut writer) =
        new_pipe().map(|(reader, writer)| (reader, File::from(writer))).unwrap();
    let (out, into) = new_pipe().unwrap();
    writer.write_all(b"0123456789").unwrap();
    assert_eq!(pipe::splice_all(&reader, &into, 4).unwrap(), 4);
    assert_eq!(pipe::splice_all(&reader, &into, 0).unwrap(), 0);
    let mut buffer = [0; 20];
    assert_eq!(pipe::read(&out, &mut buffer).unwrap(), 4);
    assert_eq!(&buffer[..4], b"0123");
    drop(writer);
    assert_eq!(pipe::splice_all(&reader, &into, 100).unwrap(), 6);
    drop(out);
    let error = pipe::splice_all(File::open("/dev/zero").unwrap(), &into, 100).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
}
