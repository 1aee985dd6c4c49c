//! Striped files on block devices, alone and together with directories, checked by the system's own
//! tools. The devices are full of old bytes that must never be visible.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::mount_support::Scene;
use dio_test::{LoopDevice, Mounted, Output, Rng, file_systems, run};
use serde_json::Value;

const SIZE: u64 = 16 << 20;

/// Two devices, the directories `a` and `b`, and bytes to store.
struct Rig {
    devices: [LoopDevice; 2],
    scratch: Box<dyn std::any::Any>,
    dir: PathBuf,
    bytes: Vec<u8>,
}

impl Rig {
    fn new() -> Option<Rig> {
        let scratch = file_systems()[0].dir();
        let dir = scratch.path().to_owned();
        ["a", "b"].iter().for_each(|name| fs::create_dir(dir.join(name)).unwrap());
        let bytes = Rng::new(7).bytes(9_876_543);
        fs::write(dir.join("bytes"), &bytes).unwrap();
        let device = |name, block| LoopDevice::new(&dir.join(name), SIZE, block);
        let devices = [device("0", 512)?, device("1", 4096)?];
        Some(Rig { devices, scratch: Box::new(scratch), dir, bytes })
    }

    fn device(&self, index: usize) -> &str {
        self.devices[index].name()
    }

    /// Runs a script in which `$D0` and `$D1` are the devices, `$T` is both, and `dio` is the
    /// program.
    fn try_script(&self, text: &str) -> Output {
        let mut shell = Command::new("bash");
        let program = env!("CARGO_BIN_EXE_dio");
        shell
            .arg("-c")
            .arg(format!("set -e -o pipefail; dio() {{ {program} \"$@\"; }}\n{text}"))
            .current_dir(&self.dir);
        let both = format!("{},{}", self.device(0), self.device(1));
        shell
            .env("D0", self.device(0))
            .env("D1", self.device(1))
            .env("T", both)
            .env("LC_ALL", "C.UTF-8");
        run(&mut shell)
    }

    #[track_caller]
    fn script(&self, text: &str) -> String {
        let output = self.try_script(text);
        assert!(output.status.success(), "{text}: {output:?}");
        output.stdout
    }

    /// Checks that a script fails and prints all of these words.
    #[track_caller]
    fn refused(&self, text: &str, words: &[&str]) {
        let output = self.try_script(text);
        assert!(!output.status.success(), "{text}: {output:?}");
        for word in words {
            assert!(output.stderr.contains(word), "{text}: no '{word}' in: {}", output.stderr);
        }
    }

    fn show(&self, file: &str) -> Value {
        let text = self.script(&format!("dio stripe show --json {file}"));
        serde_json::from_str::<Value>(&text).unwrap()[0].clone()
    }

    #[track_caller]
    fn holds(&self, file: &str, expected: &[u8]) {
        self.script(&format!("dio cp {file} back"));
        let back = fs::read(self.dir.join("back")).unwrap();
        let differs = back.iter().zip(expected).position(|(one, other)| one != other);
        assert!(
            back.len() == expected.len() && differs.is_none(),
            "{} bytes, first {differs:?}",
            back.len()
        );
        self.script(&format!(
            "dio stripe check -q {file}; test \"$(dio sha256sum {file} | cut -c-64)\" = \
            \"$(sha256sum back | cut -c-64)\""
        ));
    }
}

#[test]
fn bytes_go_to_devices_and_directories_and_come_back() {
    let Some(rig) = Rig::new() else { return };
    for targets in ["$T", "$D1,a,$D0,b", "a,$D0", "$D0"] {
        rig.devices.iter().for_each(|device| device.fill(LoopDevice::GARBAGE));
        rig.script(&format!("dio stripe set --force -S 64K -t {targets} file"));
        rig.holds("file", b"");
        rig.script("dio cp bytes file");
        rig.holds("file", &rig.bytes);
        let shown = rig.show("file");
        assert_eq!(
            (shown["bytes"].as_u64(), shown["sound"].as_bool()),
            (Some(rig.bytes.len() as u64), Some(true))
        );
        let sizes = shown["objects"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|object| object["device_bytes"] == SIZE);
        let devices = if targets == "$T" { 2 } else { targets.matches("$D").count() };
        assert_eq!(sizes.count(), devices, "{targets}: {shown}");
        let cache = rig.script("dio cache --json file; dio cp --receipt receipt bytes file >&2");
        let pages = &serde_json::from_str::<Value>(&cache).unwrap()["files"][0]["pages"];
        assert!(
            pages.as_u64().unwrap() < rig.bytes.len() as u64 / 4096 + 1024,
            "{targets}: {pages}"
        );
        let receipt = fs::read_to_string(rig.dir.join("receipt")).unwrap();
        let left = &serde_json::from_str::<Value>(&receipt).unwrap()["files"][1]["pages_after"];
        assert!(left.as_u64().is_some_and(|pages| pages < 2), "{targets}: {receipt}");
        // Parts of the file are overwritten. When it is truncated and then extended again, it has
        // zeros there.
        rig.script("dio dd if=bytes of=file bs=1000 seek=333 count=4444 conv=notrunc status=none");
        let mut expected = rig.bytes.clone();
        expected[333_000..4_777_000].copy_from_slice(&rig.bytes[..4_444_000]);
        rig.holds("file", &expected);
        rig.script("dio dd of=file bs=1 seek=1234567 count=0 status=none");
        expected.truncate(1_234_567);
        rig.holds("file", &expected);
        rig.script(
            "dio dd of=file bs=1 seek=5000001 count=0 conv=notrunc status=none
            printf end | dio dd of=file bs=1 seek=7654321 conv=notrunc status=none",
        );
        expected.resize(7_654_321, 0);
        expected.extend(b"end");
        rig.holds("file", &expected);
        rig.script("head -c 1000000 bytes | dio tee -a file >/dev/null");
        expected.extend(&rig.bytes[..1_000_000]);
        rig.holds("file", &expected);
        rig.script("dio stripe rm file; test ! -e file; test -b $D0; test -b $D1");
    }
    drop(rig.scratch);
}

/// When a device is full, the error names it and the first missing byte, and all bytes before that
/// are there.
#[test]
fn a_full_device_is_named_and_keeps_what_it_has() {
    let Some(rig) = Rig::new() else { return };
    rig.script("dio stripe set --force -S 64K -t $T file; cat bytes bytes bytes bytes > large");
    let no_space = ["No space left", rig.device(0)];
    rig.refused("dio cp large file", &no_space);
    rig.holds("file", b"");
    rig.refused("dio dd of=file bs=1M seek=100 count=0 status=none", &["No space left"]);
    rig.holds("file", b"");
    rig.refused("cat large | dio dd of=file bs=64K conv=notrunc status=none", &no_space[..1]);
    let written = rig.show("file")["bytes"].as_u64().unwrap() as usize;
    assert!((31 << 20..2 * SIZE as usize).contains(&written), "{written} bytes");
    let large = fs::read(rig.dir.join("large")).unwrap();
    rig.holds("file", &large[..written]);
    // Data that fits can be written then.
    rig.script("dio cp bytes file");
    rig.holds("file", &rig.bytes);
}

#[test]
fn what_is_in_use_or_holds_something_is_refused() {
    let Some(rig) = Rig::new() else { return };
    let before = |index: usize| fs::read(rig.device(index)).unwrap();
    let [zero, one] = [before(0), before(1)];
    rig.refused("dio stripe set -t $T file", &[rig.device(0), "not empty", "--force"]);
    rig.refused("dio stripe set --force -t $D0,$D0 file", &[rig.device(0), "it is given twice"]);
    rig.refused("dio stripe set --force -c 3 -t $D0,a file", &[rig.device(0), "a device is one"]);
    rig.refused(
        "ln -s $D1 link; dio stripe set --force -t $D1,link file",
        &["leads to the same place"],
    );
    rig.refused("mkdir d; dio stripe set --force -t $T d", &["a device holds one file"]);
    assert!(before(0) == zero && before(1) == one && !rig.dir.join("file").exists());
    assert_eq!(fs::read_dir(rig.dir.join("a")).unwrap().count(), 0);
    rig.devices.iter().for_each(|device| device.fill(0));
    rig.script("mkfs.ext4 -q $D0");
    rig.refused("dio stripe set -t $T file", &[rig.device(0), "not empty"]);
    rig.script("mkdir m; mount $D0 m; echo text > m/text");
    rig.refused("dio stripe set --force -t $D1,$D0 file", &[rig.device(0), "mounted", "unmount"]);
    assert_eq!(rig.script("cat m/text; umount m"), "text\n");
    // The target is given by a link, and the file keeps that name.
    rig.script(
        "dio stripe set --force -t $D0,link file; dio cp bytes file; dio stripe show file | grep \
         -q /link",
    );
    rig.refused(
        "dio stripe set -t $D0 other",
        &[rig.device(0), "object 0 of the striped file", "/file'"],
    );
    rig.script("test -z \"$(blkid -p $D0)\"");
    rig.refused("mount $D0 m", &[]);
    rig.holds("file", &rig.bytes);
    // When the file is removed, the devices are free again, and other programs recognise that.
    rig.script(
        "dio stripe rm file; test -z \"$(blkid -p $D0)\"; dio stripe set -t $T other; dio cp bytes \
         other",
    );
    rig.holds("other", &rig.bytes);
    rig.refused("dio cp --atomic bytes other", &["not supported"]);
    rig.holds("other", &rig.bytes);
    // The name of the file is lost, but not its contents.
    rig.script("rm other");
    rig.refused("dio stripe orphans $D0 $D1", &[]);
    let text = rig.try_script("dio stripe orphans $D0 $D1").stdout;
    assert!(
        text.contains("/other'") && text.contains(rig.device(0)) && text.contains(rig.device(1)),
        "{text}"
    );
    rig.script(
        "dio stripe orphans --rm -y $D0 $D1; dio stripe orphans $D0 $D1; dio stripe set -t $T \
         other",
    );
}

/// Nothing is left by which other programs would recognise the device as what it was before,
/// wherever its signature is: inside the space of an object's header (ext4), behind it (a disc
/// image), or at the end of the device (a RAID).
#[test]
fn what_a_device_was_before_is_gone_when_it_is_an_object() {
    let Some(rig) = Rig::new() else { return };
    let disc = "printf '\\1CD001\\1' | dd of=$D0 bs=1 seek=32768 conv=notrunc status=none";
    let raid = "printf '\\xfc\\x4e\\x2b\\xa9\\1' | dd of=$D0 bs=1 seek=$((SIZE - 65536)) \
                conv=notrunc status=none";
    for (make, probe) in [
        ("mkfs.ext4 -q -F $D0", "ext4"),
        ("mkfs.ext4 -q -F -b 4096 -O ^has_journal $D0", "ext4"),
        ("mkswap -q $D0", "swap"),
        (disc, "iso9660"),
        (raid, "raid"),
    ] {
        rig.devices[0].fill(0);
        let made = rig.try_script(&format!("SIZE={SIZE}; {make} && blkid -p $D0"));
        if !made.status.success() || !made.stdout.contains(probe) {
            dio_test::skip!("no device can be made by: {make}: {made:?}");
            continue;
        }
        rig.script("dio stripe set --force -S 64K -t $D0 file; test -z \"$(blkid -p $D0)\"");
        rig.script(
            "dio cp bytes file; test -z \"$(blkid -p $D0)\"; mkdir -p m; ! mount $D0 m 2>/dev/null",
        );
        rig.holds("file", &rig.bytes);
        rig.script("dio stripe rm file");
    }
}

#[test]
fn damaged_swapped_and_foreign_devices_are_errors_that_name_them() {
    let Some(rig) = Rig::new() else { return };
    rig.script("dio stripe set --force -S 64K -t $T file; dio cp bytes file");
    let device =
        |index: usize| File::options().read(true).write(true).open(rig.device(index)).unwrap();
    let mut block = vec![0; 8192];
    device(1).read_exact_at(&mut block, 0).unwrap();
    for (at, what) in [(40, "header"), (4096 + 40, "length record"), (4096 + 300, "length record")]
    {
        let mut damaged = block.clone();
        damaged[at] ^= 1;
        device(1).write_all_at(&damaged, 0).unwrap();
        for command in ["dio cat file", "dio cp bytes file", "dio stripe check file"] {
            rig.refused(command, &[rig.device(1), what, "checksum"]);
        }
    }
    device(1).write_all_at(&[7; 8192], 0).unwrap();
    rig.refused("dio cat file", &[rig.device(1), "is no object"]);
    device(1).write_all_at(&block, 0).unwrap();
    rig.holds("file", &rig.bytes);
    let mut other = vec![0; 8192];
    device(0).read_exact_at(&mut other, 0).unwrap();
    device(1).write_all_at(&other, 0).unwrap();
    rig.refused("dio cat file", &[rig.device(1), "is object 0 of this file"]);
    device(1).write_all_at(&block, 0).unwrap();
    // A copy of the descriptor permits reading but not writing. The owner of the copy has no
    // influence.
    rig.script("cp file copy");
    rig.holds("copy", &rig.bytes);
    rig.refused("dio cp bytes copy", &["copy of the descriptor"]);
    chown(rig.dir.join("copy"), Some(65534), None).unwrap();
    rig.refused("dio cat copy", &[rig.device(0), "belongs to another user"]);
    rig.refused("dio stripe rm copy", &[rig.device(0), "belongs to another user"]);
    rig.holds("file", &rig.bytes);
    rig.script("cp -p file moved; rm file");
    rig.refused("dio cp bytes moved", &["copy of the descriptor"]);
    rig.script("dio stripe adopt moved; dio dd if=bytes of=moved bs=1M conv=notrunc status=none");
    rig.holds("moved", &rig.bytes);
}

#[test]
fn migrations_lead_to_devices_and_back() {
    let Some(rig) = Rig::new() else { return };
    rig.script("dio stripe set -S 64K -t a,b file; dio cp bytes file; touch -d 2001-02-03 file");
    rig.refused("dio stripe migrate -t $T file", &["not empty"]);
    rig.holds("file", &rig.bytes);
    rig.script(
        "dio stripe migrate --force -S 128K -t $T file; test -z \"$(ls -A a b | grep dio)\"",
    );
    rig.holds("file", &rig.bytes);
    assert_eq!(rig.script("stat -c %.10y file"), "2001-02-03\n");
    rig.refused("dio stripe migrate --force -S 64K -t $T file", &["in use"]);
    rig.holds("file", &rig.bytes);
    rig.script(
        "mkdir c; dio stripe migrate -t a,b file; dio stripe migrate -t c,$D1 file; test -z \"$(ls \
         -A a b | grep dio)\"",
    );
    rig.refused("dio stripe migrate --force -t $D1 file", &["in use"]);
    rig.holds("file", &rig.bytes);
    rig.script(
        "dio stripe migrate -S 4K -t a,b file; dio stripe set -t $T other; dio stripe check -q \
         other",
    );
    rig.holds("file", &rig.bytes);
}

/// A process that writes to the file until it is told to end.
struct Writing(Child);

impl Writing {
    fn to(rig: &Rig, file: &str) -> Writing {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dio"));
        command
            .args(["dd", &format!("of={file}"), "bs=4096", "conv=notrunc", "status=none"])
            .current_dir(&rig.dir);
        Writing(command.stdin(Stdio::piped()).spawn().unwrap())
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

#[test]
fn one_process_writes_and_the_others_read() {
    let Some(rig) = Rig::new() else { return };
    rig.script("dio stripe set --force -S 64K -t $T file; dio cp bytes file");
    let writing = Writing::to(&rig, "file");
    let patience = Instant::now() + Duration::from_secs(30);
    while rig.try_script("dio dd if=/dev/null of=file conv=notrunc status=none").status.success() {
        assert!(Instant::now() < patience, "the writer does not open the file");
        std::thread::sleep(Duration::from_millis(20));
    }
    rig.refused("dio cp bytes file", &["busy", rig.device(0), "one writing process at a time"]);
    rig.refused("dio stripe migrate -t a file", &["open for writing"]);
    rig.holds("file", &rig.bytes);
    drop(writing);
    rig.script("dio cp bytes file");
    rig.holds("file", &rig.bytes);
    // A writer that is killed leaves the bytes that it has written. The next writer writes where it
    // stopped.
    rig.script("dio dd if=/dev/null of=file status=none");
    let mut writing = Writing::to(&rig, "file");
    writing.0.stdin.as_mut().unwrap().write_all(&rig.bytes[..8 << 20]).unwrap();
    let written = || rig.show("file")["bytes"].as_u64().unwrap() as usize;
    while written() < 1 << 20 {
        assert!(
            Instant::now() < patience,
            "others do not see what is written: {}",
            rig.show("file")
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    writing.0.kill().unwrap();
    drop(writing);
    let reached = written();
    rig.holds("file", &rig.bytes[..reached]);
    let at = format!("iflag=skip_bytes skip={reached} oflag=seek_bytes seek={reached}");
    rig.script(&format!("dio dd if=bytes of=file bs=64K {at} conv=notrunc status=none"));
    rig.holds("file", &rig.bytes);
}

#[test]
fn programs_see_it_through_a_mount() {
    let (Some(_scene), Some(rig)) = (Scene::new(), Rig::new()) else { return };
    let source = rig.dir.join("source");
    fs::create_dir(&source).unwrap();
    rig.script("dio stripe set --force -S 64K -t $D0,a,$D1 source/file");
    let mounted = Mounted::new(env!("CARGO_BIN_EXE_dio"), &source, "dio");
    let at = |text: &str| format!("M={}; {text}", mounted.path().display());
    rig.script(&at(
        "cat bytes > $M/file; cmp bytes $M/file; test $(stat -c %s $M/file) = $(stat -c %s bytes)",
    ));
    rig.script(&at("truncate -s 1000000 $M/file; truncate -s 2000000 $M/file; cp bytes expected
        truncate -s 1000000 expected; truncate -s 2000000 expected; cmp expected $M/file; sync $M/file"));
    rig.script(&at(
        "touch -d 2001-02-03 $M/file; test $(stat -c %.4y $M/file) = 2001; chown 65534 $M/file; chmod 600 $M/file
        cmp expected $M/file; echo more >> $M/file; test $(stat -c %.4y $M/file) != 2001; chown 0 $M/file",
    ));
    let open = File::options().read(true).write(true).open(mounted.path().join("file")).unwrap();
    fs::remove_file(mounted.path().join("file")).unwrap();
    let mut found = [0; 5];
    open.read_exact_at(&mut found, 2_000_000).unwrap();
    assert_eq!(&found, b"more\n");
    drop(open);
    let patience = Instant::now() + Duration::from_secs(30);
    while !rig.try_script("dio stripe set -t $T other").status.success() {
        assert!(Instant::now() < patience, "{:?}", rig.try_script("dio stripe set -t $T other"));
        std::thread::sleep(Duration::from_millis(50));
    }
    mounted.unmount();
    assert!(Path::new(rig.device(0)).exists() && Path::new(rig.device(1)).exists());
}
