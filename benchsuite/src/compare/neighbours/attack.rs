//! The attacks of the hostile user, each made by many processes, and the work of one such process.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use dio_sys::{Lease, take_lease};
use rustix::fs::{AtFlags, FallocateFlags, FlockOperation, OFlags, StatxFlags, copy_file_range};
use rustix::process::{Signal, set_parent_process_death_signal};

use super::aligned::Aligned;
use crate::Result;
use dio_bench::data::Random;
use dio_common::size::MIB;

/// The directory, below that of the hostile user, in which it creates files; it is created anew for
/// each run.
pub(super) const WORK: &str = "work";
/// A file that the hostile user reads and copies.
pub(super) const BIG: &str = "big";
/// A directory with many names.
pub(super) const MANY: &str = "many";
/// A striped file with many objects.
pub(super) const WIDE: &str = "wide";
/// Striped files, one for each process, named by numbers.
pub(super) const LOCKED: &str = "locked";
/// The directory of their objects.
pub(super) const LOCKED_OBJECTS: &str = "locked-objects";

/// Bytes of a small request.
const SMALL: usize = 4096;
/// Bytes that a process writes in small requests before it returns to the beginning of its file.
const SMALL_FILE: u64 = MIB;
/// Bytes that `bigsync` writes before each sync.
const SYNCED: u64 = 16 * MIB;
/// Bytes of one `copy_file_range(2)`.
const COPIED: u64 = 16 * MIB;
/// Bytes that one `fallocate(2)` allocates.
const ALLOCATED: u64 = 64 * MIB;
/// How often a process reports its counts.
const REPORTED: Duration = Duration::from_millis(100);

/// What each process of the hostile user does, again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Attack {
    /// Asks for names that do not exist
    Stat,
    /// Makes a file, writes 4 KiB to it, removes it
    Create,
    /// Reads 4 KiB at random, O_DIRECT
    Read4k,
    /// Reads 1 MiB at random, O_DIRECT
    Read1m,
    /// Writes 4 KiB, O_DSYNC
    Dsync,
    /// Writes 4 KiB and syncs
    Fsync,
    /// Writes 16 MiB and syncs
    Bigsync,
    /// Copies 16 MiB by copy_file_range
    Copy,
    /// Allocates 64 MiB and gives them back
    Allocate,
    /// Lists a directory of 10,000 names
    List,
    /// Asks for the attributes of a striped file of many objects, up to 256
    Wide,
    /// Opens files on which the same user holds leases
    Lease,
    /// Appends to striped files whose objects the same user holds locked
    Lock,
}

impl Attack {
    /// The name in tables and on command lines.
    pub(super) fn name(self) -> String {
        self.to_possible_value().map_or(String::new(), |value| value.get_name().to_string())
    }

    /// Whether the attack concerns the underlying file system too. The other attacks concern
    /// features of dio only.
    pub(super) fn concerns_source(self) -> bool {
        !matches!(self, Attack::Wide | Attack::Lease | Attack::Lock)
    }

    /// Whether the attack needs a process that holds leases or locks in the source.
    pub(super) fn has_holder(self) -> bool {
        matches!(self, Attack::Lease | Attack::Lock)
    }
}

/// `hostile DIR ATTACK NUMBER`: waits for the end of its input, then attacks in DIR until it is
/// killed. Each line that it prints has the number of requests that ended, and of those that
/// failed, since the previous line.
pub(crate) fn serve(attack: Attack, dir: &Path, number: u32) -> Result<()> {
    // A request that never ends must not outlive the comparison.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let mut step = step(attack, dir, number)
        .map_err(|e| format!("{}: process {number}: {e}", attack.name()))?;
    io::copy(&mut io::stdin().lock(), &mut io::sink())?;
    let (mut done, mut failed, mut reported) = (0, 0, Instant::now());
    for turn in 0.. {
        match step(turn) {
            Ok(()) => done += 1,
            Err(_) => failed += 1,
        }
        if reported.elapsed() >= REPORTED {
            // A single write, because all processes share one pipe.
            io::stdout().write_all(format!("{done} {failed}\n").as_bytes())?;
            (done, failed, reported) = (0, 0, Instant::now());
        }
    }
    Ok(())
}

type Step = Box<dyn FnMut(u64) -> io::Result<()>>;

/// A function that makes the request of a turn.
fn step(attack: Attack, dir: &Path, number: u32) -> io::Result<Step> {
    let own = dir.join(WORK).join(format!("own.{number}"));
    match attack {
        Attack::Read4k | Attack::Read1m => {
            reads(dir, number, if attack == Attack::Read4k { SMALL as u64 } else { MIB })
        }
        Attack::Dsync | Attack::Fsync | Attack::Bigsync => writes(attack, &own),
        Attack::Copy | Attack::Allocate => allocates(attack, dir, &own),
        _ => Ok(names(attack, dir, number)),
    }
}

/// The attacks that work on names.
fn names(attack: Attack, dir: &Path, number: u32) -> Step {
    let (dir, work) = (dir.to_path_buf(), dir.join(WORK));
    let leased = leased(&dir, number);
    let locked = dir.join(LOCKED).join(number.to_string());
    match attack {
        Attack::Create => Box::new(move |turn| {
            let path = work.join(format!("new.{number}.{}", turn % 16));
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&path)?;
            file.write_all(&[7; SMALL])?;
            fs::remove_file(path)
        }),
        Attack::List => {
            Box::new(move |_| fs::read_dir(dir.join(MANY))?.try_for_each(|entry| entry.map(drop)))
        }
        Attack::Wide => Box::new(move |_| {
            let wide = dir.join(WIDE);
            let answer = rustix::fs::statx(
                rustix::fs::CWD,
                wide,
                AtFlags::STATX_FORCE_SYNC,
                StatxFlags::ALL,
            );
            Ok(answer.map(drop)?)
        }),
        Attack::Lease => Box::new(move |_| File::open(&leased).map(drop)),
        Attack::Lock => {
            Box::new(move |_| OpenOptions::new().append(true).open(&locked)?.write_all(&[7]))
        }
        _ => Box::new(move |turn| match fs::metadata(work.join(format!("none.{number}.{turn}"))) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            found => found.map(drop),
        }),
    }
}

fn reads(dir: &Path, number: u32, bytes: u64) -> io::Result<Step> {
    let direct = OFlags::DIRECT.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(direct).open(dir.join(BIG))?;
    let pieces = file.metadata()?.len() / bytes;
    let (mut random, mut memory) = (Random::new(number.into()), Aligned::new(bytes as usize));
    Ok(Box::new(move |_| file.read_exact_at(memory.bytes(), random.below(pieces) * bytes)))
}

fn own_file(own: &Path, flags: OFlags) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .custom_flags(flags.bits().cast_signed())
        .open(own)
}

fn writes(attack: Attack, own: &Path) -> io::Result<Step> {
    let flags = if attack == Attack::Dsync { OFlags::DSYNC } else { OFlags::empty() };
    let file = own_file(own, flags)?;
    if attack == Attack::Bigsync {
        let memory = vec![7; MIB as usize];
        return Ok(Box::new(move |_| {
            (0..SYNCED / MIB).try_for_each(|piece| file.write_all_at(&memory, piece * MIB))?;
            file.sync_all()
        }));
    }
    Ok(Box::new(move |turn| {
        file.write_all_at(&[7; SMALL], turn * SMALL as u64 % SMALL_FILE)?;
        if attack == Attack::Fsync { file.sync_all() } else { Ok(()) }
    }))
}

fn allocates(attack: Attack, dir: &Path, own: &Path) -> io::Result<Step> {
    if attack == Attack::Allocate {
        let file = own_file(own, OFlags::empty())?;
        return Ok(Box::new(move |_| {
            rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, ALLOCATED)?;
            file.set_len(0)
        }));
    }
    let (source, own) = (File::open(dir.join(BIG))?, own.to_path_buf());
    Ok(Box::new(move |_| {
        let target = own_file(&own, OFlags::empty())?;
        let (mut from, mut to) = (0, 0);
        Ok(copy_file_range(&source, Some(&mut from), &target, Some(&mut to), COPIED as usize)
            .map(drop)?)
    }))
}

fn leased(dir: &Path, number: u32) -> PathBuf {
    dir.join(WORK).join(format!("leased.{number}"))
}

/// `hold DIR ATTACK PROCESSES`: holds the leases or locks in DIR, the source, that all processes of
/// an attack will wait for. Prints a line when it holds them, and ends when its input ends.
pub(crate) fn hold(attack: Attack, dir: &Path, processes: u32) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let held = if attack == Attack::Lease { leases(dir, processes) } else { locks(dir) };
    let held = held.map_err(|e| format!("{}: the process that holds: {e}", attack.name()))?;
    writeln!(io::stdout(), "{READY}")?;
    io::stdin().lock().read_line(&mut String::new())?;
    drop(held);
    Ok(())
}

/// The line that [`hold`] prints.
pub(super) const READY: &str = "ready";

fn leases(dir: &Path, processes: u32) -> io::Result<Vec<File>> {
    let lease = |number| {
        let file = own_file(&leased(dir, number), OFlags::empty())?;
        take_lease(file.as_fd(), Lease::Everybody)?;
        Ok(file)
    };
    (0..processes).map(lease).collect()
}

fn locks(dir: &Path) -> io::Result<Vec<File>> {
    let lock = |entry: io::Result<fs::DirEntry>| {
        let file = OpenOptions::new().read(true).write(true).open(entry?.path())?;
        rustix::fs::fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(file)
    };
    let held: Vec<File> =
        fs::read_dir(dir.join(LOCKED_OBJECTS))?.map(lock).collect::<io::Result<_>>()?;
    if held.is_empty() { Err(io::Error::other("there are no objects to lock")) } else { Ok(held) }
}
