//! A mount under load while programs and its server are killed, the disk is full now and then, and
//! memory is short: what was synced is there, every wait ends, and nothing leaks. For ten minutes:
//! `cargo xtask soak --minutes 10 soak_mount`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use dio_test::{MODES, MemoryGroup, Mounted, Rng, Soak, is_root, skip, until};
use rustix::fs::FallocateFlags;

use crate::fault_support::{DIO, Scene, dio, good};
use crate::mount_faults::{ext4, xfs};
use crate::own::MIB;

const CLIENTS: usize = 4;

/// The length of a record, which is no multiple of anything.
const RECORD: usize = 3001;

/// Appends records, syncs every fourth, and notes elsewhere how many are durable then. It ends
/// with the first error.
const CLIENT: &str = "
import os, sys
path, ledger, length = sys.argv[1:]
name = os.path.basename(path)
log = os.open(ledger, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
data = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
number = 0
while True:
    record = (f'{name} {number:08d} '.encode() * 300)[:int(length)]
    while record:
        record = record[os.write(data, record):]
    number += 1
    if number % 4 == 0:
        os.fsync(data)
        os.write(log, f'{name} {number}\\n'.encode())
";

/// A program that writes below the mount.
struct Client(Child);

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A directory below the mount, and what was promised of its files.
struct Work<'a> {
    scene: &'a Scene,
    ledger: PathBuf,
    files: u64,
}

impl Work<'_> {
    fn client(&mut self, at: &Path) -> Client {
        self.files += 1;
        let mut python = Command::new("python3");
        python.args(["-c", CLIENT]).arg(at.join(format!("f{}", self.files)));
        python.arg(&self.ledger).arg(RECORD.to_string());
        Client(python.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// How many records of each file are durable.
    fn promised(&self) -> BTreeMap<String, usize> {
        let text = fs::read_to_string(&self.ledger).unwrap_or_default();
        let of = |line: &str| {
            let (name, count) = line.split_once(' ')?;
            Some((name.to_owned(), count.parse().ok()?))
        };
        // A later line of a file counts more.
        text.lines().filter_map(of).collect()
    }

    /// Checks each record that was promised.
    #[track_caller]
    fn verify(&self, directory: &Path, seed: u64) {
        let promised = self.promised();
        assert!(!promised.is_empty(), "{} ({seed}): nothing was synced", self.scene.name);
        for (name, count) in promised {
            let found = fs::read(directory.join(&name)).unwrap();
            let about = format!("{} ({seed}): {name}: {count} records", self.scene.name);
            assert!(found.len() >= count * RECORD, "{about}: {} bytes", found.len());
            for (number, record) in found.chunks(RECORD).take(count).enumerate() {
                let expected = format!("{name} {number:08} ").repeat(300);
                assert!(record == &expected.as_bytes()[..RECORD], "{about}: record {number}");
            }
        }
    }
}

/// Descriptors that a server has open; none if it has ended.
fn descriptors(server: u32) -> usize {
    fs::read_dir(format!("/proc/{server}/fd")).map_or(0, Iterator::count)
}

/// Takes all space of a file system for a moment.
fn fill_up(volume: &Path, rng: &mut Rng) {
    let ballast = volume.join("ballast");
    // The programs may have filled it.
    let Ok(file) = File::create(&ballast) else { return };
    let (mut unit, mut taken) = (64 * MIB, 0);
    while unit >= 4096 {
        match rustix::fs::fallocate(&file, FallocateFlags::empty(), taken, unit) {
            Ok(()) => taken += unit,
            Err(_) => unit /= 2,
        }
    }
    std::thread::sleep(Duration::from_millis(rng.range(50..300)));
    fs::remove_file(ballast).unwrap();
}

/// A server from start to end.
fn life(scene: &Scene, program: &Path, seed: u64, rng: &mut Rng, length: Duration) {
    fs::create_dir(scene.source().join("load")).unwrap();
    let mut mounted = scene.mount_by(program, "limit=16M");
    let at = mounted.path().join("load");
    let ledger = scene.place().join("ledger");
    let _ = fs::remove_file(&ledger);
    let mut work = Work { scene, ledger, files: 0 };
    // Known to the server from here on.
    fs::metadata(&at).unwrap();
    let before = descriptors(mounted.server());
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| work.client(&at)).collect();
    let began = Instant::now();
    while began.elapsed() < length || work.promised().is_empty() {
        std::thread::sleep(Duration::from_millis(rng.range(20..200)));
        match rng.range(0..8) {
            0 => fill_up(&scene.volume.path, rng),
            1 => {
                let options = format!("remount,{}", rng.pick(&MODES));
                good(dio("mount").args(["-o", &options]).arg(mounted.path()));
            }
            _ => {
                let one = rng.range_usize(0..CLIENTS);
                clients[one] = work.client(&at);
            }
        }
        let server = mounted.server();
        assert!(descriptors(server) > 0, "{} ({seed}): the server has ended", scene.name);
    }
    if rng.range(0..2) == 0 {
        killed(&mut mounted, clients, &work, seed);
    } else {
        drop(clients);
        work.verify(&at, seed);
        fs::remove_dir_all(&at).unwrap();
        until("the server has closed what nobody uses", || {
            descriptors(mounted.server()) <= before + 4
        });
        mounted.unmount();
    }
    let _ = fs::remove_dir_all(scene.source().join("load"));
}

/// The server is killed: every program gets an error, and what was promised is in the source.
fn killed(mounted: &mut Mounted, mut clients: Vec<Client>, work: &Work<'_>, seed: u64) {
    mounted.kill();
    for client in &mut clients {
        // At the latest at its next sync.
        until("a program has got an error", || client.0.try_wait().unwrap().is_some());
    }
    drop(clients);
    good(dio("umount").arg("-l").arg(mounted.path()));
    work.verify(&work.scene.source().join("load"), seed);
}

#[test]
fn soak_mount_loses_nothing_while_all_is_killed_and_full() {
    if !is_root() {
        return skip!("mounting needs root");
    }
    let Some(group) = MemoryGroup::new(64 * MIB) else { return };
    let length = match std::env::var_os("DIO_SOAK_SECONDS") {
        Some(_) => Duration::from_secs(15),
        None => Duration::from_millis(1500),
    };
    for seed in Soak::of(2) {
        let mut rng = seed.rng();
        let mode = *rng.pick(&MODES);
        let volume = match rng.range(0..2) {
            0 => ext4(),
            _ => xfs(),
        };
        let Some(volume) = volume else { return };
        let scene = Scene::new(volume, mode);
        let program = scene.place().join("dio-in-group");
        // By another process: one that a test forks now would have the file open for writing.
        let script = format!(
            "printf '#!/bin/sh\\necho $$ > %s && exec %s \"$@\"\\n' {} {DIO} > {program} \
             && chmod +x {program}",
            group.procs().display(),
            program = program.display(),
        );
        good(Command::new("sh").args(["-c", &script]));
        for _ in 0..2 {
            life(&scene, &program, seed.value(), &mut rng, length);
        }
    }
}
