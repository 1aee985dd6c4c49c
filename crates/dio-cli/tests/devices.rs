//! Devices, pipes, sockets and terminals as input or output: records are whole and complete, as
//! with GNU dd.

use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::own::MIB;
use dio_test::{LoopDevice, Rng, Soak, file_systems};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

fn dd(operands: &str) -> Command {
    let mut dd = Command::new(env!("CARGO_BIN_EXE_dio"));
    dd.arg("dd")
        .args(operands.split_whitespace())
        .env("LC_ALL", "C.UTF-8")
        .env_remove("DIO_ENGINE");
    dd
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The two ends of a connection that keeps the boundaries of writes.
fn packets() -> (OwnedFd, OwnedFd) {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
}

/// Returns all packets that arrive at one end until the other end is closed.
fn received(end: &OwnedFd) -> Vec<Vec<u8>> {
    let (mut all, mut buffer) = (Vec::new(), vec![0; 1 << 20]);
    loop {
        match rustix::io::read(end, &mut buffer[..]).unwrap() {
            0 => return all,
            count => all.push(buffer[..count].to_vec()),
        }
    }
}

/// The completions of a ring interrupt the thread that made the ring. That must not make records
/// short; only the size of the copy would show it.
#[test]
fn devices_give_whole_records_whatever_is_written_meanwhile() {
    for (number, fs) in file_systems().into_iter().enumerate() {
        let dir = fs.dir();
        let out = dir.path().join("out");
        for (operands, full) in [
            ("if=/dev/urandom bs=4M count=12", "12+0 records in"),
            ("if=/dev/urandom ibs=3M obs=1M count=9", "9+0 records in"),
            ("if=/dev/urandom bs=1M skip=3 count=24 conv=sync", "24+0 records in"),
            ("if=/dev/zero bs=1M count=48", "48+0 records in"),
        ] {
            for _ in 0..if number == 0 { 3 } else { 1 } {
                let output = dd(&format!("{operands} of={}", out.display())).output().unwrap();
                assert_eq!(
                    said(&output).lines().next(),
                    Some(full),
                    "{operands} on {}: {output:?}",
                    fs.name
                );
                assert!(
                    !said(&output).contains("partial read"),
                    "{operands} on {}: {output:?}",
                    fs.name
                );
                let bytes = std::fs::read(&out).unwrap();
                assert!(bytes.len() as u64 >= 24 * MIB, "{operands}: {} bytes", bytes.len());
                let zeros =
                    bytes.chunks(4096).filter(|block| block.iter().all(|byte| *byte == 0)).count();
                let expected = if operands.contains("zero") { bytes.len() / 4096 } else { 0 };
                assert_eq!(zeros, expected, "blocks of zeros with {operands} on {}", fs.name);
            }
        }
    }
}

#[test]
fn a_device_is_overwritten_to_the_last_byte() {
    let dir = file_systems()[0].dir();
    let Some(device) = LoopDevice::new(&dir.path().join("image"), 32 * MIB, 512) else { return };
    for _ in 0..3 {
        device.fill(LoopDevice::GARBAGE);
        let output =
            dd(&format!("if=/dev/zero of={} bs=4M count=8", device.name())).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let bytes = std::fs::read(device.path()).unwrap();
        let old = bytes.iter().filter(|byte| **byte != 0).count();
        assert_eq!((bytes.len() as u64, old), (32 * MIB, 0), "old bytes are left: {output:?}");
    }
}

/// A read from a device of an unknown kind is never continued, so nothing may interrupt it.
#[test]
fn the_thread_that_reads_records_has_no_ring() {
    let dir = file_systems()[0].dir();
    let out = dir.path().join("out");
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut command = dd(&format!("bs=4k of={}", out.display()));
    let mut child =
        command.stdin(Stdio::from(OwnedFd::from(theirs))).stderr(Stdio::piped()).spawn().unwrap();
    drop(command);
    let bytes = vec![7; 3 * MIB as usize];
    (&ours).write_all(&bytes).unwrap();
    crate::own::until("it has written some", || crate::own::length(&out) >= MIB);
    let open = std::fs::read_dir(format!("/proc/{}/fd", child.id())).unwrap();
    let open: Vec<_> =
        open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok()).collect();
    assert!(!open.iter().any(|file| file.to_string_lossy().contains("io_uring")), "{open:?}");
    drop(ours);
    assert!(child.wait().unwrap().success());
    assert!(std::fs::read(&out).unwrap() == bytes);
}

/// Each record is written as one packet, as a tape, or another device that keeps boundaries, would
/// receive it.
#[test]
fn each_write_to_a_device_is_a_record_of_the_size_asked_for() {
    let dir = file_systems()[0].dir();
    crate::own::random_file(dir.path().join("in"), 70_000, 12);
    for operands in [
        "bs=1000",
        "bs=10k",
        "obs=10k",
        "ibs=3 obs=1000 count=999",
        "bs=1000 conv=swab",
        "bs=4096 conv=sync",
        "bs=1",
        "ibs=7 obs=5 count=100",
    ] {
        let mut both = Vec::new();
        for program in ["dd", env!("CARGO_BIN_EXE_dio")] {
            let (ours, theirs) = packets();
            let mut command = Command::new(program);
            if program != "dd" {
                command.arg("dd");
            }
            let one = if operands == "bs=1" { "count=100" } else { "conv=notrunc" };
            command
                .args(operands.split_whitespace())
                .args([one, "if=in", "status=none"])
                .current_dir(dir.path());
            let mut child = command.stdout(Stdio::from(theirs)).spawn().unwrap();
            drop(command);
            let packets = received(&ours);
            assert!(child.wait().unwrap().success());
            both.push(packets);
        }
        let sizes: Vec<Vec<usize>> =
            both.iter().map(|packets| packets.iter().map(Vec::len).collect()).collect();
        assert_eq!(sizes[0], sizes[1], "{operands}");
        assert!(both[0] == both[1], "{operands}");
    }
}

/// The same for an archive: each read from a tape returns one record.
#[test]
fn an_archive_on_a_device_has_records_of_the_size_asked_for() {
    let dir = file_systems()[0].dir();
    std::fs::create_dir(dir.path().join("tree")).unwrap();
    crate::own::random_file(dir.path().join("tree/large"), MIB + 5, 14);
    std::fs::write(dir.path().join("tree/small"), "small").unwrap();
    for options in ["", "-b 1", "-b 7", "--record-size=64k"] {
        let sizes = ["tar", env!("CARGO_BIN_EXE_dio")].map(|program| {
            let (ours, theirs) = packets();
            let mut command = Command::new(program);
            if program != "tar" {
                command.arg("tar");
            }
            command
                .args(["-cf", "-"])
                .args(options.split_whitespace())
                .arg("tree")
                .current_dir(dir.path());
            let mut child = command.stdout(Stdio::from(theirs)).spawn().unwrap();
            drop(command);
            let all = received(&ours);
            assert!(child.wait().unwrap().success());
            all.iter().map(Vec::len).collect::<Vec<_>>()
        });
        assert_eq!(sizes[0], sizes[1], "tar {options}");
    }
}

/// The source of the bytes of a case.
#[derive(Clone, Debug)]
enum Source {
    File(Vec<u8>),
    Zero,
    /// A loop device filled with a pattern.
    Device,
    /// Each piece is written after the previous one has been read.
    Pipe(Vec<Vec<u8>>),
    Stream(Vec<Vec<u8>>),
    Packets(Vec<Vec<u8>>),
    /// Lines that are typed at a terminal.
    Terminal(Vec<Vec<u8>>),
}

/// The target of the bytes of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    File,
    Pipe,
    Packets,
    Null,
    Full,
    /// A loop device that is smaller than some of the data written to it.
    Device,
}

#[derive(Debug)]
struct Case {
    source: Source,
    target: Target,
    operands: String,
}

/// The loop devices for a run of cases, if there can be any.
struct Devices {
    from: Option<LoopDevice>,
    to: Option<LoopDevice>,
}

const FROM: u64 = 3 * MIB;
const TO: u64 = MIB;

impl Devices {
    fn new(dir: &Path) -> Devices {
        let from = LoopDevice::new(&dir.join("from"), FROM, 512);
        if let Some(device) = &from {
            let bytes: Vec<u8> = (0..FROM).map(|at| (at * 31 % 251) as u8).collect();
            std::fs::write(device.path(), bytes).unwrap();
        }
        Devices { from, to: LoopDevice::new(&dir.join("to"), TO, 512) }
    }
}

/// The outcome of a run.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    pub(crate) status: Option<i32>,
    pub(crate) err: String,
    pub(crate) out: Vec<Vec<u8>>,
}

fn pieces(rng: &mut Rng, most: usize) -> Vec<Vec<u8>> {
    (0..rng.range(0..8))
        .map(|_| {
            let length = *rng.pick(&[1, 3, 100, 511, 512, 513, 1000, 4000, most]);
            rng.bytes(length)
        })
        .collect()
}

fn lines(rng: &mut Rng) -> Vec<Vec<u8>> {
    let line = |rng: &mut Rng| {
        let mut line: Vec<u8> = (0..rng.range(0..200)).map(|_| *rng.pick(b"abc XYZ")).collect();
        line.push(b'\n');
        line
    };
    (0..rng.range(0..10)).map(|_| line(rng)).collect()
}

impl Case {
    fn new(rng: &mut Rng, devices: &Devices) -> Case {
        let size = *rng.pick(&[0, 1, 511, 512, 5000, 70_000, 1_500_000]);
        let source = match rng.range(0..9) {
            0 => Source::File(rng.bytes(size)),
            1..3 => Source::Zero,
            3 if devices.from.is_some() => Source::Device,
            4 => Source::Stream(pieces(rng, 4000)),
            5 => Source::Packets(pieces(rng, 100_000)),
            6 => Source::Terminal(lines(rng)),
            _ => Source::Pipe(pieces(rng, 50_000)),
        };
        let all = [
            Target::File,
            Target::File,
            Target::Pipe,
            Target::Packets,
            Target::Null,
            Target::Full,
            Target::Device,
        ];
        let mut target = *rng.pick(&all[..if devices.to.is_some() { 7 } else { 6 }]);
        // One read of a stream socket returns all pieces that have arrived by then, so only full
        // records can be compared.
        let stream = matches!(source, Source::Stream(_));
        if stream && matches!(target, Target::Full | Target::Device) {
            target = Target::File;
        }
        let mut operands = operands(
            rng,
            matches!(source, Source::Zero | Source::Device | Source::File(_)),
            target,
        );
        if stream {
            operands.push_str(" iflag=fullblock");
        }
        Case { source, target, operands }
    }
}

fn operands(rng: &mut Rng, large: bool, target: Target) -> String {
    let mut all = Vec::new();
    let sizes: &[&str] = match (large, target) {
        (true, Target::Packets) => &["1000", "4k", "10k", "100000"],
        (true, _) => &["1000", "4k", "64k", "300k", "1M", "3M"],
        (false, _) => &["1", "2", "7", "100", "512", "1000", "4k", "100000"],
    };
    let sides: &[&str] = if rng.bool(0.6) { &["bs"] } else { &["ibs", "obs"] };
    all.extend(sides.iter().map(|name| format!("{name}={}", rng.pick(sizes))));
    // An endless source needs a limit.
    if large || rng.bool(0.3) {
        all.push(format!("count={}", rng.pick(&["0", "1", "2", "3", "5", "1000B"])));
    }
    if rng.bool(0.2) {
        all.push(format!("skip={}", rng.pick(&["1", "2", "700B"])));
    }
    let seeks = matches!(target, Target::File | Target::Device);
    if seeks && rng.bool(0.2) {
        all.push(format!("seek={}", rng.pick(&["1", "2", "700B"])));
    }
    let mut conv = vec!["notrunc"];
    conv.extend(
        [("sync", 0.3), ("swab", 0.2), ("ucase", 0.1), ("block", 0.1)]
            .iter()
            .filter_map(|(word, chance)| rng.bool(*chance).then_some(*word)),
    );
    if seeks && rng.bool(0.2) {
        conv.push(*rng.pick(&["fsync", "fdatasync", "sparse"]));
    }
    // The number of records read before a write fails may differ in this case: docs/gnu/dd.md.
    conv.retain(|word| *word != "block" || !matches!(target, Target::Full | Target::Device));
    all.push(format!("conv={} cbs={}", conv.join(","), rng.pick(&["10", "100"])));
    if rng.bool(0.3) && !matches!(target, Target::Full | Target::Device) {
        all.push("iflag=fullblock".to_owned());
    }
    all.join(" ")
}

/// The master and the slave end of a terminal that does not echo.
fn terminal() -> (OwnedFd, OwnedFd) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY;
    let slave = rustix::fs::open(name, flags, rustix::fs::Mode::empty()).unwrap();
    let mut modes = tcgetattr(&slave).unwrap();
    modes.local_modes -= LocalModes::ECHO;
    tcsetattr(&slave, OptionalActions::Now, &modes).unwrap();
    (master, slave)
}

/// Writes each piece when the previous one has been read at `reader`, so that each piece is a read
/// of its own. Stops when the program ends.
fn dribble(pieces: &[Vec<u8>], writer: &OwnedFd, reader: impl AsFd, over: &AtomicBool) {
    for piece in pieces {
        let mut rest = &piece[..];
        while !rest.is_empty() {
            match rustix::io::write(writer, rest) {
                Ok(count) => rest = &rest[count..],
                Err(_) => return,
            }
        }
        while crate::own::waiting(&reader) > 0 {
            if over.load(Ordering::SeqCst) {
                return;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}

/// Feeds a program through its standard input, until all bytes are written or the program has
/// ended.
fn feed(source: &Source, ends: (OwnedFd, OwnedFd), over: &AtomicBool) {
    let (writer, reader) = ends;
    match source {
        Source::Pipe(pieces) => {
            // The program holds the only reading end, so that a write fails once the program has
            // ended.
            drop(reader);
            dribble(pieces, &writer, &writer, over);
        }
        Source::Stream(pieces) => dribble(pieces, &writer, &reader, over),
        Source::Packets(pieces) => {
            drop(reader);
            let _ = pieces.iter().try_for_each(|piece| rustix::io::write(&writer, piece).map(drop));
        }
        Source::Terminal(lines) => {
            // The end-of-input character, as many times as the program asks for it.
            let text = [lines.concat(), vec![4; 8]].concat();
            let _ = rustix::io::write(&writer, &text);
            while !over.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        Source::File(_) | Source::Zero | Source::Device => {}
    }
}

impl Case {
    /// The messages, without the number of records read when a write failed: docs/gnu/dd.md.
    fn told(seen: &Seen) -> String {
        let lines =
            seen.err.lines().filter(|line| seen.status == Some(0) || !line.ends_with("records in"));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The command line, without the program's name.
    fn words(&self, devices: &Devices) -> Vec<String> {
        let name = |device: &Option<LoopDevice>| device.as_ref().unwrap().name().to_owned();
        let mut words: Vec<String> = self.operands.split_whitespace().map(str::to_owned).collect();
        words.push("status=noxfer".to_owned());
        words.extend(match &self.source {
            Source::File(_) => Some("if=in".to_owned()),
            Source::Zero => Some("if=/dev/zero".to_owned()),
            Source::Device => Some(format!("if={}", name(&devices.from))),
            _ => None,
        });
        words.extend(match self.target {
            Target::File => Some("of=out".to_owned()),
            Target::Null => Some("of=/dev/null".to_owned()),
            Target::Full => Some("of=/dev/full".to_owned()),
            Target::Device => Some(format!("of={}", name(&devices.to))),
            Target::Pipe | Target::Packets => None,
        });
        words
    }

    /// The standard input of the case: the writing end, and the reading end, which the program gets
    /// as well.
    fn input(&self) -> Option<(OwnedFd, OwnedFd)> {
        match self.source {
            Source::Pipe(_) => {
                rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).ok().map(|(r, w)| (w, r))
            }
            Source::Stream(_) => {
                UnixStream::pair().ok().map(|(one, other)| (one.into(), other.into()))
            }
            Source::Packets(_) => Some(packets()),
            Source::Terminal(_) => Some(terminal()),
            Source::File(_) | Source::Zero | Source::Device => None,
        }
    }

    /// Runs `program` (GNU's, or dio with an engine) and returns the outcome.
    fn run(&self, dir: &Path, devices: &Devices, program: &str, engine: Option<&str>) -> Seen {
        if let Source::File(bytes) = &self.source {
            std::fs::write(dir.join("in"), bytes).unwrap();
        }
        std::fs::write(dir.join("out"), vec![b'x'; 2000]).unwrap();
        if let (Target::Device, Some(device)) = (self.target, &devices.to) {
            device.fill(LoopDevice::GARBAGE);
        }
        let mut command = Command::new(program);
        if engine.is_some() {
            command.arg("dd");
        }
        command.args(self.words(devices)).current_dir(dir).env("LC_ALL", "C.UTF-8");
        command.env("DIO_ENGINE", engine.unwrap_or_default()).stderr(Stdio::piped());
        let input = self.input();
        command.stdin(
            input.as_ref().map_or(Stdio::null(), |(_, reader)| reader.try_clone().unwrap().into()),
        );
        let packets = (self.target == Target::Packets).then(packets);
        command.stdout(match (&packets, self.target) {
            (Some((_, theirs)), _) => Stdio::from(theirs.try_clone().unwrap()),
            (None, Target::Pipe) => Stdio::piped(),
            _ => Stdio::null(),
        });
        let child = command.spawn().unwrap();
        drop(command);
        let over = AtomicBool::new(false);
        std::thread::scope(|threads| {
            let taken = packets.map(|(ours, theirs)| {
                drop(theirs);
                threads.spawn(move || received(&ours))
            });
            let over = &over;
            threads.spawn(move || input.map(|ends| feed(&self.source, ends, over)));
            let output = child.wait_with_output().unwrap();
            over.store(true, Ordering::SeqCst);
            let out = match (taken, self.target, &devices.to) {
                (Some(taken), ..) => taken.join().unwrap(),
                (_, Target::Device, Some(device)) => vec![std::fs::read(device.path()).unwrap()],
                (_, Target::File, _) => vec![std::fs::read(dir.join("out")).unwrap()],
                _ => vec![output.stdout.clone()],
            };
            Seen {
                status: output.status.code(),
                err: said(&output).replace("dio dd: ", "dd: "),
                out,
            }
        })
    }
}

/// Every record, message and byte must be the same as GNU's, with both engines.
#[test]
fn soak_copies_between_all_kinds_of_files_are_as_gnus() {
    let dir = file_systems()[0].dir();
    let devices = Devices::new(dir.path());
    for seed in Soak::of(120) {
        let mut rng = seed.stream(0);
        let case = Case::new(&mut rng, &devices);
        let gnu = case.run(dir.path(), &devices, "dd", None);
        for engine in ["uring", "blocking"] {
            let dio = case.run(dir.path(), &devices, env!("CARGO_BIN_EXE_dio"), Some(engine));
            let sizes = |seen: &Seen| seen.out.iter().map(Vec::len).collect::<Vec<_>>();
            let brief = |case: &Case| {
                let source: String = format!("{:?}", case.source).chars().take(300).collect();
                format!("{:?} {} from {source}", case.target, case.operands)
            };
            assert_eq!(
                (gnu.status, Case::told(&gnu)),
                (dio.status, Case::told(&dio)),
                "{engine}, {}",
                brief(&case)
            );
            assert_eq!(sizes(&gnu), sizes(&dio), "{engine}, {}", brief(&case));
            assert!(gnu.out == dio.out, "bytes differ: {engine}, {}", brief(&case));
        }
    }
}
