//! Inputs and outputs over descriptors as a shell passes them to a program: files at a position,
//! files in append mode, pipes, files of the kernel.

use std::fs::{self, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::Command;
use std::time::Duration;

use dio::Class;
use dio::stream::{Input, Output, StreamOptions};
use dio_test::{file_systems, resident_pages};

const SMALL: StreamOptions = StreamOptions {
    mode: dio::Mode::Direct,
    need: dio::Need::Preferred,
    block: 16 << 10,
    depth: 4,
    small: 0,
    striped_bytes_max: 0,
    on_threads: false,
};

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 % 251) as u8).collect()
}

fn read_all(mut input: Input) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(chunk) = input.next_chunk().unwrap() {
        all.extend_from_slice(&chunk);
    }
    input.close().unwrap();
    all
}

#[test]
fn a_shared_descriptor_is_read_from_its_position_and_left_behind_what_was_read() {
    let scratch = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = scratch.path().join("file");
    let content = bytes(200_000);
    fs::write(&path, &content).unwrap();
    let mut shared = fs::File::open(&path).unwrap();
    shared.seek(SeekFrom::Start(1234)).unwrap();
    let mut input = Input::adopt(OwnedFd::from(shared.try_clone().unwrap()), "-", &SMALL).unwrap();
    let mut some = [0; 777];
    input.read_exact(&mut some).unwrap();
    assert_eq!((input.position(), input.len()), (2011, Some(200_000)));
    input.close().unwrap();
    assert_eq!(some[..], content[1234..2011]);
    let mut rest = Vec::new();
    shared.read_to_end(&mut rest).unwrap();
    assert!(rest == content[2011..]);
}

#[test]
fn a_shared_descriptor_is_written_at_its_position_and_left_behind_what_was_written() {
    let scratch = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = scratch.path().join("file");
    let mut shared = fs::File::create(&path).unwrap();
    shared.write_all(b"before ").unwrap();
    let mut output =
        Output::adopt(OwnedFd::from(shared.try_clone().unwrap()), "-", &SMALL).unwrap();
    output.write_all(&bytes(100_000)).unwrap();
    output.finish().unwrap();
    shared.write_all(b" after").unwrap();
    assert!(
        fs::read(&path).unwrap()
            == [b"before ".to_vec(), bytes(100_000), b" after".to_vec()].concat()
    );
}

#[test]
fn what_others_append_meanwhile_is_not_overwritten() {
    for fs in file_systems() {
        let dir = fs.dir();
        let path = dir.path().join("log");
        fs::write(&path, b"old\n").unwrap();
        dio::residency::evict(fs::File::open(&path).unwrap(), 0..4).unwrap();
        let append = || OpenOptions::new().append(true).open(&path).unwrap();
        let mut other = append();
        let mut output = Output::adopt(append().into(), "log", &SMALL).unwrap();
        for round in 0..40 {
            output.write_all(&[b'a'; 50_000]).unwrap();
            // In every other round, the end of the file is at the end of a block.
            let size = fs::metadata(&path).unwrap().len() as usize;
            let piece = if round % 2 == 0 { 777 } else { 4096 - size % 4096 };
            other.write_all(&vec![b'b'; piece]).unwrap();
        }
        output.finish().unwrap();
        let all = fs::read(&path).unwrap();
        let count = |byte| all.iter().filter(|found| **found == byte).count();
        assert_eq!((all.starts_with(b"old\n"), count(b'a')), (true, 2_000_000), "{}", fs.name);
        assert_eq!(count(b'b') + 2_000_004, all.len(), "{}", fs.name);
        let written = output.counters().written;
        assert_eq!(written.total(), 2_000_000);
        if fs.name == "ext4" {
            assert!(written.get(Class::Direct) > 1_000_000, "{}: {written:?}", fs.name);
        }
    }
}

#[test]
fn streams_leave_no_pages_on_any_file_system() {
    for fs in file_systems() {
        let dir = fs.dir();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::write(&from, bytes(3_000_001)).unwrap();
        rustix::fs::sync();
        let plain = fs::File::open(&from).unwrap();
        dio::residency::evict(&plain, 0..3_000_001).unwrap();
        let mut input = Input::open(&from, &SMALL).unwrap();
        let mut output = Output::adopt(fs::File::create(&to).unwrap().into(), &to, &SMALL).unwrap();
        while let Some(chunk) = input.next_chunk().unwrap() {
            output.write_chunk(chunk).unwrap();
        }
        input.close().unwrap();
        output.finish().unwrap();
        assert!(fs::read(&to).unwrap() == bytes(3_000_001), "{}", fs.name);
        dio::residency::evict(fs::File::open(&to).unwrap(), 0..3_000_001).unwrap();
        let mut again =
            Output::adopt(OpenOptions::new().write(true).open(&to).unwrap().into(), &to, &SMALL)
                .unwrap();
        again.seek(5).unwrap();
        again.write_all(&bytes(70_000)).unwrap();
        again.finish().unwrap();
        drop((again, output));
        if fs.name != "tmpfs" {
            assert_eq!((resident_pages(&from), resident_pages(&to)), (0, 0), "{}", fs.name);
        }
        let found = fs::read(&to).unwrap();
        assert!(
            found[5..70_005] == bytes(70_000) && found[70_005..] == bytes(3_000_001)[70_005..],
            "{}",
            fs.name
        );
    }
}

#[test]
fn nothing_is_waited_for_when_nothing_is_wanted() {
    let (reader, _writer) = std::io::pipe().unwrap();
    let mut input = Input::adopt(reader.into(), "-", &SMALL).unwrap();
    let (said, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || said.send(input.read(&mut []).unwrap()).unwrap());
    assert_eq!(heard.recv_timeout(Duration::from_secs(60)).unwrap(), 0);
}

#[test]
fn a_pipe_gives_what_is_there() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let mut input = Input::adopt(reader.into(), "pipe", &SMALL).unwrap();
    assert!(!input.ready_within(Duration::from_millis(10)).unwrap());
    writer.write_all(b"one").unwrap();
    assert!(input.ready_within(Duration::ZERO).unwrap());
    assert_eq!(&input.next_chunk().unwrap().unwrap()[..], b"one");
    writer.write_all(b"two three").unwrap();
    assert_eq!(input.skip(4).unwrap(), 4);
    drop(writer);
    assert_eq!(input.position(), 7);
    assert_eq!(input.counters().read.get(Class::Piped), 12);
    assert_eq!(read_all(input), b"three");
}

#[test]
fn a_pipe_takes_everything_and_tells_when_it_is_closed() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut output = Output::adopt(writer.into(), "pipe", &SMALL).unwrap();
    let taking = std::thread::spawn(move || {
        let mut taken = vec![0; 3_000_000];
        reader.read_exact(&mut taken).unwrap();
        taken
    });
    output.write_all(&bytes(3_000_000)).unwrap();
    assert!(taking.join().unwrap() == bytes(3_000_000));
    let error = output.write_all(b"more").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
    assert!(output.seek(0).is_err());
}

#[test]
fn files_of_the_kernel_are_read_although_they_have_no_size() {
    let input = Input::open("/proc/self/status", &SMALL).unwrap();
    assert!(input.file().is_none());
    assert!(read_all(input).starts_with(b"Name:"));
    assert!(Input::open("/proc", &SMALL).is_err());
}

#[test]
fn a_file_that_may_only_be_written_is_patched_all_the_same() {
    let scratch = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = scratch.path().join("file");
    fs::write(&path, bytes(50_000)).unwrap();
    let mut output =
        Output::adopt(OpenOptions::new().write(true).open(&path).unwrap().into(), &path, &SMALL)
            .unwrap();
    output.seek(10_001).unwrap();
    output.write_all(b"patch").unwrap();
    output.finish().unwrap();
    let mut expected = bytes(50_000);
    expected[10_001..10_006].copy_from_slice(b"patch");
    assert!(fs::read(&path).unwrap() == expected);
    let read_only = fs::File::open(&path).unwrap();
    assert_eq!(Output::adopt(read_only.into(), &path, &SMALL).unwrap_err().raw_os_error(), Some(9));
}

#[test]
fn a_file_that_grows_while_it_is_passed_on_does_not_starve_its_reader() {
    let scratch = tempfile::tempdir_in("/var/tmp").unwrap();
    let (from, to) = (scratch.path().join("from"), scratch.path().join("to"));
    fs::write(&from, bytes(5000)).unwrap();
    let mut input = Input::open(&from, &SMALL).unwrap();
    fs::write(&from, bytes(900_000)).unwrap();
    let mut output = Output::adopt(fs::File::create(&to).unwrap().into(), &to, &SMALL).unwrap();
    let (done, waiting) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        while let Some(chunk) = input.next_chunk().unwrap() {
            output.write_chunk(chunk).unwrap();
        }
        output.finish().unwrap();
        done.send(()).unwrap();
    });
    waiting.recv_timeout(Duration::from_secs(60)).expect("reader and writer wait for each other");
    assert!(fs::read(&to).unwrap() == bytes(900_000));
}

#[test]
fn what_is_not_open_for_reading_is_not_read() {
    let scratch = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = scratch.path().join("file");
    for content in [bytes(5000), Vec::new()] {
        fs::write(&path, &content).unwrap();
        let write_only = OpenOptions::new().write(true).open(&path).unwrap();
        let read =
            Input::adopt(write_only.into(), "-", &SMALL).and_then(|mut input| input.next_chunk());
        assert_eq!(read.unwrap_err().raw_os_error(), Some(9));
    }
}

#[test]
fn a_file_of_the_kernel_is_left_behind_what_was_read() {
    let mut shared = fs::File::open("/proc/self/limits").unwrap();
    let mut input = Input::adopt(OwnedFd::from(shared.try_clone().unwrap()), "-", &SMALL).unwrap();
    input.read_exact(&mut [0; 6]).unwrap();
    input.close().unwrap();
    let mut rest = String::new();
    shared.read_to_string(&mut rest).unwrap();
    assert!(
        rest.starts_with("Soft Limit") || rest.trim_start().starts_with("Soft Limit"),
        "{rest}"
    );
}

#[test]
fn options_without_sense_are_survived() {
    let scratch = tempfile::tempdir_in("/var/tmp").unwrap();
    let (path, copy) = (scratch.path().join("file"), scratch.path().join("copy"));
    fs::write(&path, bytes(50_000)).unwrap();
    for block in [0, 1, 4097, usize::MAX] {
        for depth in [0, 1, usize::MAX] {
            let how = StreamOptions { block, depth, ..SMALL };
            // Memory for all of it may not be available.
            let had = block != usize::MAX && depth != usize::MAX;
            match Input::open(&path, &how) {
                Ok(input) => assert!(read_all(input) == bytes(50_000), "{how:?}"),
                Err(error) => assert!(!had, "{how:?}: {error}"),
            }
            match Input::open("/proc/self/status", &how) {
                Ok(input) => assert!(read_all(input).starts_with(b"Name:"), "{how:?}"),
                Err(error) => assert!(!had, "{how:?}: {error}"),
            }
            for append in [false, true] {
                let file = OpenOptions::new()
                    .write(!append)
                    .append(append)
                    .create(true)
                    .open(&copy)
                    .unwrap();
                file.set_len(0).unwrap();
                match Output::adopt(file.into(), &copy, &how) {
                    Ok(mut output) => {
                        output.write_all(&bytes(50_000)).unwrap();
                        output.finish().unwrap();
                        assert!(fs::read(&copy).unwrap() == bytes(50_000), "{how:?}");
                    }
                    Err(error) => assert!(!had, "{how:?}: {error}"),
                }
            }
        }
    }
}

/// A query of a device's size moves the position of the descriptor, which is the only one available
/// here.
#[test]
fn a_device_that_may_not_be_opened_is_written_where_its_descriptor_is() {
    if !rustix::process::geteuid().is_root() {
        dio_test::skip!("loop devices need root");
        return;
    }
    let scratch = tempfile::tempdir_in("/var/tmp").unwrap();
    let backing = scratch.path().join("backing");
    fs::write(&backing, vec![0; 1 << 20]).unwrap();
    let attached = dio_test::run(Command::new("losetup").args(["--find", "--show"]).arg(&backing));
    if !attached.status.success() {
        dio_test::skip!("no loop devices: {}", attached.stderr);
        return;
    }
    let device = attached.stdout.trim().to_owned();
    let mut shared = OpenOptions::new().read(true).write(true).open(&device).unwrap();
    shared.seek(SeekFrom::Start(4096)).unwrap();
    let given = OwnedFd::from(shared.try_clone().unwrap());
    let written = std::thread::spawn(move || {
        // This changes the user of this thread only.
        rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(65534)).unwrap();
        let mut output = Output::adopt(given, "-", &SMALL)?;
        output.write_all(&bytes(100_000))?;
        output.finish()
    });
    let written = written.join();
    let position = shared.stream_position().unwrap();
    let mut held = vec![0; 100_000];
    std::os::unix::fs::FileExt::read_exact_at(&shared, &mut held, 4096).unwrap();
    drop(shared);
    dio_test::run(Command::new("losetup").arg("--detach").arg(&device));
    written.unwrap().unwrap();
    assert_eq!(position, 104_096);
    assert!(held == bytes(100_000));
}

/// As with `command > log 2>&1`: data that is held back must not be written over a message, nor the
/// other way round.
#[test]
fn messages_in_between_are_where_they_were_written() {
    if std::env::var_os("MESSAGES_IN_BETWEEN").is_some() {
        let shared = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
        let mut output = Output::adopt(shared, "-", &SMALL).unwrap();
        for len in [100, 70_000, 1, 40_000] {
            output.write_all(&bytes(len)).unwrap();
            rustix::io::write(std::io::stderr(), b"a message\n").unwrap();
        }
        output.finish().unwrap();
        return;
    }
    for append in [false, true] {
        let scratch = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = scratch.path().join("log");
        let log = OpenOptions::new().write(true).append(append).create(true).open(&path).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap());
        child
            .args(["--exact", "messages_in_between_are_where_they_were_written"])
            .env("MESSAGES_IN_BETWEEN", "1");
        child.stdin(log.try_clone().unwrap()).stderr(log).stdout(std::process::Stdio::null());
        assert!(child.status().unwrap().success());
        let held = fs::read(&path).unwrap();
        let expected: Vec<u8> = [100, 70_000, 1, 40_000]
            .into_iter()
            .flat_map(|len| [bytes(len), b"a message\n".to_vec()].concat())
            .collect();
        assert_eq!(held.len(), expected.len());
        assert!(append || held == expected);
    }
}

/// A caller that continues to write at a position behind the end would leave a hole.
#[test]
fn after_a_failure_the_position_is_not_behind_the_end_of_the_file() {
    if std::env::var_os("FAILING_WRITE").is_some() {
        let mut output =
            Output::adopt(std::io::stdin().as_fd().try_clone_to_owned().unwrap(), "-", &SMALL)
                .unwrap();
        let written = output.write_all(&bytes(200_000)).and_then(|()| output.finish());
        output.finish().unwrap_err();
        written.unwrap_err();
        return;
    }
    let scratch = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut log =
        OpenOptions::new().write(true).create_new(true).open(scratch.path().join("log")).unwrap();
    let mut child = Command::new("sh");
    child
        .args(["-c", "trap '' XFSZ; ulimit -f 64; exec \"$@\"", "sh"])
        .arg(std::env::current_exe().unwrap());
    child.args(["--exact", "after_a_failure_the_position_is_not_behind_the_end_of_the_file"]);
    child
        .env("FAILING_WRITE", "1")
        .stdin(log.try_clone().unwrap())
        .stdout(std::process::Stdio::null());
    assert!(child.status().unwrap().success());
    let size = log.metadata().unwrap().len();
    assert!(size < 200_000);
    assert_eq!(log.stream_position().unwrap(), size);
}
