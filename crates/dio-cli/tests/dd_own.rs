//! Behaviour of `dd` that cannot be compared byte for byte: signals, closed pipes, full disks,
//! memory and requests.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use crate::own::Mounted;
use dio_test::{file_systems, resident_pages};
use rustix::process::{Pid, Signal, kill_process};

const MIB: u64 = 1 << 20;

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

/// The lines of the report that count records.
fn records(text: &str) -> Vec<&str> {
    text.lines().filter(|line| line.contains(" records ")).collect()
}

/// A dd that reads from and writes to pipes.
struct Running(Child);

impl Running {
    fn start(operands: &str, out: Stdio) -> Running {
        Running(
            dd(operands).stdin(Stdio::piped()).stdout(out).stderr(Stdio::piped()).spawn().unwrap(),
        )
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    /// Waits until the process catches the signal, has read everything that was written to it, and
    /// waits for more.
    fn settle(&self, signal: Signal) {
        let pid = Pid::from_child(&self.0);
        crate::own::until_caught(pid, signal);
        if let Some(stdin) = &self.0.stdin {
            crate::own::until("it has read everything", || crate::own::waiting(stdin) == 0);
        }
        crate::own::until_asleep(pid);
    }

    /// Reads the next `bytes` bytes of standard error.
    fn hear(&mut self, bytes: usize) -> String {
        let mut text = vec![0; bytes];
        self.0.stderr.as_mut().unwrap().read_exact(&mut text).unwrap();
        String::from_utf8(text).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn usr1_is_answered_while_dd_waits_for_input() {
    let mut running = Running::start("bs=4 status=noxfer", Stdio::piped());
    running.write(b"abcdefg");
    let mut out = [0; 7];
    running.0.stdout.as_mut().unwrap().read_exact(&mut out).unwrap();
    running.settle(Signal::USR1);
    running.signal(Signal::USR1);
    let report = "1+1 records in\n1+1 records out\n";
    assert_eq!(running.hear(report.len()), report);
    drop(running.0.stdin.take());
    assert_eq!(running.hear(report.len()), report);
    assert!(running.0.wait().unwrap().success());
}

#[test]
fn usr1_is_answered_while_nobody_takes_the_output() {
    let mut running = Running(
        dd("if=/dev/zero bs=64k status=noxfer")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    crate::own::until("it writes", || crate::own::waiting(running.0.stdout.as_ref().unwrap()) > 0);
    running.settle(Signal::USR1);
    running.signal(Signal::USR1);
    let report = running.hear(26);
    assert!(report.contains("+0 records in\n"), "{report}");
    // SIGINT ends it there, with a report.
    running.signal(Signal::INT);
    let mut rest = String::new();
    running.0.stderr.take().unwrap().read_to_string(&mut rest).unwrap();
    assert!(rest.contains("records out\n"), "{rest}");
    assert_eq!(running.0.wait().unwrap().signal(), Some(Signal::INT.as_raw()));
}

#[test]
fn an_interrupt_leaves_what_was_read_in_the_file_and_reports_it() {
    let dir = file_systems()[0].dir();
    let out = dir.path().join("out");
    let mut running = Running::start(&format!("ibs=4 of={}", out.display()), Stdio::null());
    running.write(b"abcdefghij");
    running.settle(Signal::INT);
    running.signal(Signal::INT);
    let status = running.0.wait().unwrap();
    let mut text = String::new();
    running.0.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(status.signal(), Some(Signal::INT.as_raw()), "{text}");
    assert_eq!(records(&text), ["2+1 records in", "0+1 records out"]);
    assert!(text.contains("10 bytes copied, "), "{text}");
    assert_eq!(std::fs::read(&out).unwrap(), b"abcdefghij");
}

#[test]
fn what_was_read_is_in_the_file_while_dd_waits_for_more() {
    for fs in file_systems() {
        let dir = fs.dir();
        let out = dir.path().join("out");
        let mut running = Running::start(&format!("bs=512 of={}", out.display()), Stdio::null());
        let bytes: Vec<u8> = (0..2_000_000_u32).map(|at| (at / 7) as u8).collect();
        let mut end = 0;
        for count in [100, 1_000_000, 999_900] {
            running.write(&bytes[end..end + count]);
            end += count;
            let there = || std::fs::read(&out).is_ok_and(|found| found == bytes[..end]);
            crate::own::until(&format!("{}: {end} bytes are in the file", fs.name), there);
        }
        // Even SIGKILL does not lose these bytes.
        running.signal(Signal::KILL);
        running.0.wait().unwrap();
        assert!(std::fs::read(&out).unwrap() == bytes, "{}", fs.name);
    }
}

#[test]
fn a_closed_pipe_ends_dd_as_it_ends_every_tool() {
    let mut child = dd("if=/dev/zero bs=64k count=1000")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.signal(), Some(Signal::PIPE.as_raw()));
    assert_eq!(said(&output), "");
}

#[test]
fn a_full_disk_is_told_with_what_reached_it() {
    for format in
        [&["mkfs.ext4", "-q", "-F"][..], &["mkfs.xfs", "-q", "-f"], &["mkfs.btrfs", "-q", "-f"]]
    {
        let Some(small) = Mounted::new(format, 320 * MIB) else { continue };
        let dir = file_systems()[0].dir();
        let (large, out) = (dir.path().join("large"), small.path.join("out"));
        File::create(&large).unwrap().set_len(400 * MIB).unwrap();
        for (more, word) in [("bs=1M", "error writing"), ("obs=4k conv=fsync", "writing to")] {
            let output = dd(&format!("if={} of={} {more}", large.display(), out.display()))
                .output()
                .unwrap();
            let text = said(&output);
            assert_eq!(output.status.code(), Some(1), "{text}");
            let told = format!("dio dd: {word} '{}': No space left on device\n", out.display());
            assert!(text.starts_with(&told), "{format:?} {more}: {text}");
            let bytes: u64 =
                text.lines().last().unwrap().split(' ').next().unwrap().parse().unwrap();
            assert_eq!(out.metadata().unwrap().len(), bytes, "{format:?} {more}: {text}");
            assert!(bytes > 100 * MIB, "{format:?} {more}: {text}");
            std::fs::remove_file(&out).unwrap();
        }
        std::fs::write(&out, "old").unwrap();
        small.remount_read_only();
        let output = dd(&format!("of={}", out.display())).stdin(Stdio::null()).output().unwrap();
        assert_eq!(
            said(&output),
            format!("dio dd: failed to open '{}': Read-only file system\n", out.display())
        );
        assert_eq!(output.status.code(), Some(1));
    }
}

fn receipt(dir: &Path, operands: &str) -> serde_json::Value {
    let output = dd(&format!("--receipt receipt {operands}")).current_dir(dir).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    crate::own::json(&std::fs::read_to_string(dir.join("receipt")).unwrap())
}

/// Whether the file system is ext4 or xfs, by the numbers of `statfs(2)`.
fn bypasses_the_cache(path: &Path) -> bool {
    [0xef53, 0x5846_5342].contains(&(rustix::fs::statfs(path).unwrap().f_type as u64))
}

#[test]
fn small_blocks_are_large_requests_and_leave_the_page_cache_alone() {
    for fs in file_systems().iter().filter(|fs| bypasses_the_cache(&fs.path)) {
        let dir = fs.dir();
        let path = |name: &str| -> PathBuf { dir.path().join(name) };
        crate::own::random_file(path("in"), 9 * MIB + 5, 5);
        crate::own::cold(&path("in"));
        for operands in ["bs=512", "bs=1", "ibs=7 obs=1000", "bs=512 conv=sparse"] {
            let seen = receipt(dir.path(), &format!("if=in of=out conv=fsync {operands}"));
            let resident = (resident_pages(path("in")), resident_pages(path("out")));
            assert_eq!(resident, (0, 0), "{operands} on {}", fs.name);
            crate::own::same_bytes(path("in"), path("out"));
            crate::own::cold(&path("in"));
            assert_eq!(crate::own::number(&seen, "bytes_written"), 9 * MIB + 5);
            // The end of the target may be read in order to be patched.
            let read = crate::own::number(&seen, "bytes_read");
            assert!(
                (9 * MIB + 5..9 * MIB + 8192).contains(&read),
                "{operands} on {}: {read} bytes read",
                fs.name
            );
            let requests = crate::own::number(&seen, "requests.read")
                + crate::own::number(&seen, "requests.write");
            assert!(requests < 60, "{operands}: {requests} requests");
        }
        // One block is read without the megabytes behind it.
        let seen = receipt(dir.path(), "if=in of=out bs=512 count=1 skip=3");
        assert!(crate::own::number(&seen, "bytes_read") <= 8192, "{seen:?}");
    }
}

#[test]
fn huge_blocks_take_no_more_memory() {
    let dir = file_systems()[0].dir();
    crate::own::random_file(dir.path().join("in"), 3 * MIB, 6);
    let script = "ulimit -v 4000000; \"$0\" dd if=in of=out bs=100G; cat in | \"$0\" dd bs=100G \
                  iflag=fullblock of=out2";
    let mut bash = Command::new("bash");
    let output = bash
        .args(["-c", script, env!("CARGO_BIN_EXE_dio")])
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert_eq!(
        records(&said(&output)),
        ["0+1 records in", "0+1 records out", "0+1 records in", "0+1 records out"]
    );
    crate::own::same_bytes(dir.path().join("in"), dir.path().join("out"));
    crate::own::same_bytes(dir.path().join("in"), dir.path().join("out2"));
}

#[test]
fn progress_is_shown_once_a_second_in_place() {
    let mut running = Running::start("bs=4 status=progress", Stdio::null());
    let (start, mut blocks) = (std::time::Instant::now(), 0);
    while crate::own::waiting(running.0.stderr.as_ref().unwrap()) == 0 {
        assert!(start.elapsed() < crate::own::PATIENCE, "no progress is shown");
        running.write(b"abcd");
        blocks += 1;
        std::thread::sleep(Duration::from_millis(100));
    }
    let most = start.elapsed().as_secs();
    drop(running.0.stdin.take());
    let mut text = String::new();
    running.0.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    let seconds = text
        .strip_prefix('\r')
        .and_then(|text| text.split(" bytes copied, ").nth(1)?.split(" s, ").next());
    let seconds: u64 =
        seconds.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{text:?}"));
    assert!((1..=most.max(1)).contains(&seconds) && text.contains(" s, 0.0 kB/s"), "{text:?}");
    let end =
        format!("\n{blocks}+0 records in\n{blocks}+0 records out\n{} bytes copied, ", blocks * 4);
    assert!(text.contains(&end), "{text:?}");
}

#[test]
fn progress_is_shown_while_a_slow_pipe_takes_the_output() {
    let dir = file_systems()[0].dir();
    crate::own::random_file(dir.path().join("in"), 3 * MIB, 13);
    let mut command = dd(&format!("if={} bs=1 status=progress", dir.path().join("in").display()));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    crate::own::until("it waits for the reader", || crate::own::waiting(&out) >= 64 << 10);
    std::thread::sleep(Duration::from_millis(1100));
    let mut taken = vec![0; 16 << 10];
    out.read_exact(&mut taken).unwrap();
    crate::own::until("progress is shown", || crate::own::waiting(&err) > 0);
    let left = crate::own::waiting(&out);
    out.read_to_end(&mut taken).unwrap();
    assert!(left > 0 && taken.len() as u64 == 3 * MIB && child.wait().unwrap().success());
    let mut text = String::new();
    err.read_to_string(&mut text).unwrap();
    assert!(text.starts_with('\r') && text.ends_with(" MB/s\n"), "{text:?}");
}

/// A file of `blocks` blocks of 4 KiB on btrfs, and its original contents. The blocks in `bad` no
/// longer match their checksums, so that reading them fails.
fn damaged(blocks: u64, bad: &[u64]) -> Option<(Mounted, PathBuf, Vec<u8>)> {
    let btrfs = Mounted::new(&["mkfs.btrfs", "-q", "-f", "-d", "single"], 320 * MIB)?;
    let file = btrfs.path.join("in");
    crate::own::random_file(&file, blocks * 4096, 11);
    let bytes = std::fs::read(&file).unwrap();
    rustix::fs::sync();
    crate::own::until("it can be unmounted", || btrfs.unmount());
    let mut image = std::fs::read(&btrfs.image).unwrap();
    for block in bad {
        let start = *block as usize * 4096;
        let part = &bytes[start..start + 4096];
        let places: Vec<usize> =
            (0..image.len()).step_by(4096).filter(|at| &image[*at..at + 4096] == part).collect();
        assert_eq!(places.len(), 1, "one copy of the block");
        image[places[0] + 100] ^= 0xff;
    }
    std::fs::write(&btrfs.image, image).unwrap();
    let mounted = Command::new("mount")
        .args(["-o", "loop"])
        .arg(&btrfs.image)
        .arg(&btrfs.path)
        .status()
        .unwrap();
    assert!(mounted.success());
    Some((btrfs, file, bytes))
}

#[test]
fn records_that_cannot_be_read_are_passed_over_as_gnu_does() {
    let Some((btrfs, file, _)) = damaged(700, &[3, 300, 301, 699]) else { return };
    for operands in [
        "bs=4k conv=noerror,sync",
        "bs=4k conv=noerror",
        "ibs=4k obs=64k conv=noerror,sync",
        "ibs=4k obs=10k conv=noerror,swab",
        "bs=4k skip=3 conv=noerror,sync count=299",
        "bs=16k conv=noerror,sync",
        "bs=4k",
        "obs=4k ibs=8k",
        "bs=1M",
        "bs=4k skip=4",
        "bs=4k conv=noerror,sync,sparse",
        "bs=4k conv=noerror,sync status=none",
        "bs=4k conv=noerror status=noxfer",
    ] {
        let out = btrfs.path.join("out");
        let mut both = Vec::new();
        for program in ["dd", env!("CARGO_BIN_EXE_dio")] {
            let mut command = Command::new(program);
            if program != "dd" {
                command.arg("dd");
            }
            command.arg(format!("if={}", file.display())).arg(format!("of={}", out.display()));
            let output = command
                .args(operands.split_whitespace())
                .env("LC_ALL", "C.UTF-8")
                .output()
                .unwrap();
            let text: Vec<String> = said(&output)
                .lines()
                .map(|line| line.split(" copied, ").next().unwrap().replace("dio dd: ", "dd: "))
                .collect();
            both.push((output.status.code(), text, std::fs::read(&out).unwrap()));
            std::fs::remove_file(&out).unwrap();
        }
        assert_eq!((&both[0].0, &both[0].1), (&both[1].0, &both[1].1), "{operands}");
        assert!(
            both[0].2 == both[1].2,
            "{operands}: {} and {} bytes",
            both[0].2.len(),
            both[1].2.len()
        );
    }
}

#[test]
fn a_file_that_grows_is_read_to_its_end() {
    let dir = file_systems()[0].dir();
    let log = dir.path().join("log");
    // The file is larger than a pipe's capacity, so dd is still busy with its first bytes when more
    // are appended.
    crate::own::random_file(&log, 3 * MIB + 100, 7);
    let mut dd = dd(&format!("if={} bs=512 status=noxfer", log.display()));
    let mut child = dd.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    crate::own::until("it writes", || crate::own::waiting(child.stdout.as_ref().unwrap()) > 0);
    File::options()
        .append(true)
        .open(&log)
        .unwrap()
        .write_all(&vec![b'b'; 2 * MIB as usize])
        .unwrap();
    let mut read = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut read).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(read == std::fs::read(&log).unwrap(), "{} bytes", read.len());
}
