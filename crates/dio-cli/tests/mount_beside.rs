//! Other programs use the source of a mount beside it: by its own path, or through another mount.
//! What they have synced stays, and what was acknowledged through the mount is there.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::mount_support::*;
use dio_test::{Mounted, Rng, Seed, Soak, run};
use rustix::fs::OFlags;

const MODES: [&str; 5] = ["dio", "cio", "mode=auto", "cached", "cio,native"];

fn append(path: &Path) -> File {
    File::options().append(true).create(true).open(path).unwrap()
}

#[test]
fn what_others_append_and_sync_is_not_overwritten() {
    let Some(scene) = Scene::new() else { return };
    for mode in MODES {
        let mount = Mounted::new(env!("CARGO_BIN_EXE_dio"), &scene.source, mode);
        for len in [1000, 4096, 70_000] {
            let (at, source) = (mount.path().join("log"), scene.source.join("log"));
            let (mut ours, mut theirs) = (append(&at), append(&source));
            ours.write_all(&vec![b'A'; len]).unwrap();
            theirs.write_all(&vec![b'B'; len]).unwrap();
            theirs.sync_all().unwrap();
            ours.write_all(&vec![b'A'; len]).unwrap();
            drop((ours, theirs));
            let found = fs::read(&source).unwrap();
            let count = |byte| found.iter().filter(|found| **found == byte).count();
            assert_eq!(
                (count(b'A'), count(b'B'), found.len()),
                (2 * len, len, 3 * len),
                "{mode} {len}"
            );
            // For a while the kernel still resolves the name to this file.
            fs::remove_file(&source).unwrap();
        }
    }
}

/// The kernel caches the name for a second, and the server has the old file open.
#[test]
fn a_file_that_was_replaced_beside_the_mount_is_not_written_to_by_its_name() {
    let Some(scene) = Scene::new() else { return };
    for mode in MODES {
        let mount = Mounted::new(env!("CARGO_BIN_EXE_dio"), &scene.source, mode);
        let (at, source) = (mount.path().join("held"), scene.source.join("held"));
        fs::write(&source, "old").unwrap();
        let held = File::open(&at).unwrap();
        fs::remove_file(&source).unwrap();
        fs::write(&source, "new").unwrap();
        append(&at).write_all(b" and more").unwrap();
        assert_eq!(fs::read_to_string(&source).unwrap(), "new and more", "{mode}");
        drop(held);
    }
}

#[test]
fn a_source_is_written_to_through_one_mount() {
    let Some(scene) = Scene::new() else { return };
    good(&mut scene.mount("-o cio,fsname=elsewhere"));
    let (second, link, alias) = (scene.path("second"), scene.path("link"), scene.path("alias"));
    fs::create_dir(&second).unwrap();
    fs::create_dir(&alias).unwrap();
    std::os::unix::fs::symlink(&scene.source, &link).unwrap();
    rustix::mount::mount_bind(&scene.source, &alias).unwrap();
    for name in [&scene.source, &link, &alias] {
        let words =
            ["already served, and written to, at", scene.at.to_str().unwrap(), "mount --bind"];
        bad(dio("mount", "-o dio").args([name, &second]), 32, &words);
        assert!(!is_mounted(&second));
    }
    // A mount that only reads overwrites nothing.
    good(dio("mount", "-o ro").args([&scene.source, &second]));
    good(dio("umount", "").arg(&second));
    // A mount of the mount is served by the first server.
    good(dio("mount", "-o dio").args([&scene.at, &second]));
    append(&second.join("file")).write_all(b"more").unwrap();
    assert_eq!(fs::read_to_string(scene.at.join("file")).unwrap(), "from the source\nmore");
    good(dio("umount", "").args([&second, &scene.at]));
    good(&mut scene.mount("-o dio"));
}

/// Several `dio run` of one directory at the same time.
#[test]
fn runs_of_one_directory_append_behind_each_other() {
    let Some(scene) = Scene::new() else { return };
    let script =
        r#"exec 9>>log; for i in $(seq 200); do echo "$0 $i" >&9; done; echo "$0 once" >> log"#;
    let one = |name: &str, mode: &str| {
        let mut command = dio("run", &format!("-o {mode}"));
        command
            .arg("--dir")
            .arg(&scene.source)
            .args(["--", "sh", "-c", script, name])
            .current_dir(&scene.source);
        command.spawn().unwrap()
    };
    let runs = [one("a", "cio"), one("b", "dio"), one("c", "mode=auto")];
    for mut run in runs {
        assert!(run.wait().unwrap().success());
    }
    let text = fs::read_to_string(scene.source.join("log")).unwrap();
    for name in ["a", "b", "c"] {
        let lines: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix(name)).collect();
        let expected: Vec<String> =
            (1..=200).map(|i| format!(" {i}")).chain([" once".to_owned()]).collect();
        assert_eq!(lines, expected, "{name}");
    }
    assert_eq!(text.lines().count(), 3 * 201);
}

/// The bytes of a record: its writer, its number, its length, and bytes computed from these.
fn record(writer: usize, number: u32, len: usize) -> Vec<u8> {
    let mut bytes = vec![writer as u8];
    bytes.extend(number.to_le_bytes());
    bytes.extend((len as u32).to_le_bytes());
    bytes.extend((bytes.len()..len).map(|at| (at as u32 ^ number ^ writer as u32) as u8));
    bytes
}

/// Bytes before the records. Each writer has its own cells there, which are not aligned to blocks.
const CELLS: u64 = 40_000;

/// A program that appends records to a file and overwrites its cells through a path of its own, and
/// checks the source for what it has synced.
struct Program {
    number: usize,
    of: usize,
    name: PathBuf,
    source: PathBuf,
    cell: u64,
    rng: Rng,
    file: File,
    appends: File,
    records: u32,
    /// Contents of the cells that this program has written.
    cells: BTreeMap<u64, u8>,
}

impl Program {
    fn new(
        number: usize,
        of: usize,
        name: PathBuf,
        source: PathBuf,
        cell: u64,
        mut rng: Rng,
    ) -> Program {
        let (file, appends) = (open(&name, &mut rng), append(&name));
        Program {
            number,
            of,
            name,
            source,
            cell,
            rng,
            file,
            appends,
            records: 0,
            cells: BTreeMap::new(),
        }
    }

    fn run(mut self) -> u32 {
        for _ in 0..self.rng.range(20..120) {
            match self.rng.range(0..20) {
                0..9 => self.append(),
                9..17 => self.overwrite(),
                17 => {
                    self.file = open(&self.name, &mut self.rng);
                    self.appends = append(&self.name);
                }
                _ => self.sync(),
            }
        }
        self.sync();
        self.records
    }

    fn append(&mut self) {
        let len = match self.rng.range(0..6) {
            0..3 => self.rng.range_usize(9..400),
            3 => 4096,
            4 => 512 * self.rng.range_usize(1..100),
            _ => self.rng.range_usize(9..200_000),
        };
        let bytes = record(self.number, self.records, len);
        assert_eq!(self.appends.write(&bytes).unwrap(), len);
        self.records += 1;
    }

    fn overwrite(&mut self) {
        let cells = CELLS / self.cell / self.of as u64;
        let cell = self.rng.range(0..cells) * self.of as u64 + self.number as u64;
        let byte = self.rng.range(1..256) as u8;
        self.file.write_all_at(&vec![byte; self.cell as usize], cell * self.cell).unwrap();
        self.cells.insert(cell, byte);
    }

    /// After a sync, all data of this program is in the source, whatever other programs have
    /// written beside it.
    fn sync(&mut self) {
        self.file.sync_all().unwrap();
        self.appends.sync_data().unwrap();
        let source = File::open(&self.source).unwrap();
        let mut found = vec![0; self.cell as usize];
        for (cell, byte) in &self.cells {
            source.read_exact_at(&mut found, cell * self.cell).unwrap();
            assert!(
                found.iter().all(|found| found == byte),
                "cell {cell} of {}: {:?}",
                self.cell,
                self.name
            );
        }
    }
}

fn open(name: &Path, rng: &mut Rng) -> File {
    let flags = *rng.pick(&[OFlags::empty(), OFlags::empty(), OFlags::DSYNC]);
    File::options()
        .read(true)
        .write(true)
        .custom_flags(flags.bits().cast_signed())
        .open(name)
        .unwrap()
}

/// Runs programs on one file: through the mount of its directory, through the mount of the
/// directory above, and beside both.
fn play(scene: &Scene, seed: &Seed) {
    let mut rng = seed.rng();
    let (mode, above) = (*rng.pick(&MODES), *rng.pick(&MODES));
    let below = scene.source.join("deep");
    let mount = Mounted::new(env!("CARGO_BIN_EXE_dio"), &scene.source, above);
    let inner = Mounted::within(scene.dir.path(), env!("CARGO_BIN_EXE_dio"), &below, mode);
    let source = below.join("shared");
    fs::write(&source, vec![0; CELLS as usize]).unwrap();
    let names = [inner.path().join("shared"), mount.path().join("deep/shared"), source.clone()];
    let (of, cell) = (rng.range_usize(2..6), rng.range(1..3000));
    println!("{mode} below, {above} above, {of} programs, cells of {cell}");
    let records: Vec<u32> = std::thread::scope(|threads| {
        let programs: Vec<_> = (0..of)
            .map(|number| {
                let (name, rng) =
                    (names[number % names.len()].clone(), seed.stream(number as u64 + 1));
                let source = source.clone();
                threads.spawn(move || Program::new(number, of, name, source, cell, rng).run())
            })
            .collect();
        programs.into_iter().map(|program| program.join().unwrap()).collect()
    });
    drop((mount, inner));
    let found = fs::read(&source).unwrap();
    let (mut rest, mut next) = (&found[CELLS as usize..], vec![0u32; of]);
    while !rest.is_empty() {
        let at = found.len() - rest.len();
        let number = u32::from_le_bytes(rest[1..5].try_into().unwrap());
        let len = u32::from_le_bytes(rest[5..9].try_into().unwrap()) as usize;
        let writer = usize::from(rest[0]);
        assert!(writer < of && number == next[writer], "record {number} of {writer} at {at}");
        assert!(rest.len() >= len && rest[..len] == record(writer, number, len), "torn at {at}");
        next[writer] += 1;
        rest = &rest[len..];
    }
    assert_eq!(next, records);
    fs::remove_file(&source).unwrap();
}

#[test]
fn soak_programs_through_mounts_and_beside_them_lose_nothing_of_each_other() {
    let Some(scene) = Scene::new() else { return };
    for seed in Soak::of(4) {
        play(&scene, &seed);
    }
}

/// The program from the issue that reported the problem with appends.
#[test]
fn a_program_in_another_language_sees_the_same() {
    let Some(scene) = Scene::new() else { return };
    good(&mut scene.mount("-o cio"));
    let program = "import \
                   os,sys\nn=os.open(sys.argv[1],1089)\nos.write(n,b'A'*1000)\nm=os.open(sys.argv[2],1025)\nos.write(m,b'B'*1000)\nos.fsync(m)\nos.close(n)\nprint(open(sys.argv[2]).read().count('B'))";
    let said = run(Command::new("python3")
        .args(["-c", program])
        .args([scene.at.join("k"), scene.source.join("k")]));
    assert_eq!(said.stdout, "1000\n", "{said:?}");
}
