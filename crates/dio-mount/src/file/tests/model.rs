//! Compares files with a model in memory: whatever handles are open in whatever modes, a file holds
//! what its writers wrote.

use std::path::Path;

use dio_test::{Rng, Seed, file_systems};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use super::*;

const INODES: u64 = 2;
const LONGEST: u64 = 3 << 20;

struct Open {
    handle: u64,
    ino: u64,
    flags: OFlags,
    /// Offset of the next sequential request.
    at: u64,
}

struct Player {
    bench: Bench,
    rng: Rng,
    model: Vec<Vec<u8>>,
    open: Vec<Open>,
    /// Number of steps so far.
    steps: u32,
}

impl Player {
    fn new(directory: &Path, rng: Rng, policy: LockPolicy, passthrough: bool) -> Player {
        // Native handles use passthrough only if the bench allows it.
        let bench =
            Bench::new(directory, Settings { native: true, ..settings() }, policy, passthrough);
        (0..INODES).for_each(|ino| std::fs::write(bench.path(ino), b"").unwrap());
        Player { bench, rng, model: vec![Vec::new(); INODES as usize], open: Vec::new(), steps: 0 }
    }

    fn play(&mut self, steps: u32) {
        for _ in 0..steps {
            self.steps += 1;
            if self.open.is_empty() || self.open.len() < 6 && self.rng.bool(0.05) {
                self.open_one();
                continue;
            }
            let which = self.rng.range_usize(0..self.open.len());
            match self.rng.range(0..100) {
                0..40 => self.read(which),
                40..75 => self.write(which),
                75..80 => self.set_size(which),
                80..85 => self.allocate(which),
                85..88 => self.copy(which),
                88..91 => self.seek(which),
                91..95 => self.sync(which),
                _ => self.close(which),
            }
        }
        while !self.open.is_empty() {
            self.close(0);
        }
        self.bench.files.settle_all();
        for (ino, model) in self.model.iter().enumerate() {
            let found = std::fs::read(self.bench.path(ino as u64)).unwrap();
            compare(&found, model, "at the end");
        }
    }

    fn open_one(&mut self) {
        let ino = self.rng.range(0..INODES);
        let mut flags =
            *self.rng.pick(&[OFlags::RDONLY, OFlags::WRONLY, OFlags::RDWR, OFlags::RDWR]);
        flags |= *self.rng.pick(&[
            OFlags::empty(),
            OFlags::empty(),
            OFlags::empty(),
            OFlags::DIRECT,
            OFlags::DSYNC,
        ]);
        let mode = *self.rng.pick(&Mode::ALL);
        let handle = self.bench.open(ino, flags, mode).unwrap();
        self.open.push(Open { handle, ino, flags, at: 0 });
    }

    fn close(&mut self, which: usize) {
        let open = self.open.swap_remove(which);
        self.bench.files.flush(open.handle).unwrap();
        self.bench.files.release(open.handle);
    }

    /// Chooses an offset and a length: often the continuation of the last request, often small,
    /// sometimes anywhere in whole blocks, or across the end.
    fn range(&mut self, which: usize) -> (u64, u64) {
        let size = self.model[self.open[which].ino as usize].len() as u64;
        let offset = match self.rng.range(0..14) {
            0..6 => self.open[which].at,
            10.. => self.rng.range(0..size + 1) & !4095,
            6 => size,
            7 => size.saturating_sub(self.rng.range(0..5000)),
            _ => self.rng.range(0..size + 10_000),
        };
        let len = match self.rng.range(0..8) {
            0..3 => 4096,
            3..5 => self.rng.range(1..9000),
            5 => self.rng.range(1..200_000),
            6 => 128 << 10,
            _ => 1 << 20,
        };
        if offset + len > LONGEST { (self.rng.range(0..LONGEST / 2), len) } else { (offset, len) }
    }

    fn may(&self, which: usize, access: OFlags) -> bool {
        let have = self.open[which].flags & OFlags::RWMODE;
        have == OFlags::RDWR || have == access
    }

    fn read(&mut self, which: usize) {
        if !self.may(which, OFlags::RDONLY) {
            return;
        }
        let (offset, len) = self.range(which);
        let Open { handle, ino, .. } = self.open[which];
        let found = self.bench.read(handle, ino, offset, len as u32).unwrap();
        let model = &self.model[ino as usize];
        let end = model.len().min((offset + len) as usize);
        let expected = model.get(offset as usize..end).unwrap_or(&[]);
        compare(&found, expected, &format!("step {}, read of {len} at {offset}", self.steps));
        self.open[which].at = offset + len;
    }

    fn write(&mut self, which: usize) {
        if !self.may(which, OFlags::WRONLY) {
            return;
        }
        let (mut offset, len) = self.range(which);
        let Open { handle, ino, flags, .. } = self.open[which];
        let bytes = self.rng.bytes(len as usize);
        let append = self.rng.bool(0.1) && !self.bench.is_by_the_kernel(handle);
        let how = WriteProperties {
            flags: flags | if append { OFlags::APPEND } else { OFlags::empty() },
            ..PLAIN
        };
        assert_eq!(self.bench.write(handle, ino, offset, &bytes, how), Ok(len as u32));
        let model = &mut self.model[ino as usize];
        if append {
            offset = model.len() as u64;
        }
        let end = (offset + len) as usize;
        if model.len() < end {
            model.resize(end, 0);
        }
        model[offset as usize..end].copy_from_slice(&bytes);
        self.open[which].at = end as u64;
        self.check_size(ino);
    }

    fn check_size(&self, ino: u64) {
        // The order matters: bytes that are pending now and written before the next line are in the
        // size.
        let pending = self.bench.files.size_of(ino).unwrap_or(0);
        let told = pending.max(std::fs::metadata(self.bench.path(ino)).unwrap().len());
        assert_eq!(told, self.model[ino as usize].len() as u64, "step {}", self.steps);
    }

    fn set_size(&mut self, which: usize) {
        let Open { handle, ino, .. } = self.open[which];
        let size = self.rng.range(0..self.model[ino as usize].len() as u64 + 20_000).min(LONGEST);
        self.bench.files.set_size(ino, Some(handle), size, &self.bench.opener(ino)).unwrap();
        self.model[ino as usize].resize(size as usize, 0);
        self.check_size(ino);
    }

    fn allocate(&mut self, which: usize) {
        if !self.may(which, OFlags::WRONLY) {
            return;
        }
        let (offset, len) = self.range(which);
        let Open { handle, ino, .. } = self.open[which];
        use FallocateFlags as F;
        let modes = [
            F::empty(),
            F::KEEP_SIZE,
            F::PUNCH_HOLE | F::KEEP_SIZE,
            F::ZERO_RANGE,
            F::ZERO_RANGE | F::KEEP_SIZE,
        ];
        let mode = *self.rng.pick(&modes);
        match self.bench.files.allocate(handle, mode.bits() as i32, offset, len) {
            // The file system does not support the mode, or not for this range.
            Err(Errno::OPNOTSUPP | Errno::INVAL) => return,
            other => other.unwrap(),
        }
        let model = &mut self.model[ino as usize];
        let (offset, end) = (offset as usize, (offset + len) as usize);
        if !mode.contains(F::KEEP_SIZE) && model.len() < end {
            model.resize(end, 0);
        }
        if mode.intersects(F::PUNCH_HOLE | F::ZERO_RANGE) {
            let (offset, end) = (offset.min(model.len()), end.min(model.len()));
            model[offset..end].fill(0);
        }
        self.check_size(ino);
    }

    fn copy(&mut self, which: usize) {
        let to = self.rng.range_usize(0..self.open.len());
        if !self.may(which, OFlags::RDONLY) || !self.may(to, OFlags::WRONLY) {
            return;
        }
        let ((from_at, len), (to_at, _)) = (self.range(which), self.range(to));
        let (from, to) = (&self.open[which], &self.open[to]);
        if to_at + len > LONGEST
            || from.ino == to.ino && from_at < to_at + len && to_at < from_at + len
        {
            return;
        }
        let model = &self.model[from.ino as usize];
        let (start, end) =
            (model.len().min(from_at as usize), model.len().min((from_at + len) as usize));
        let bytes = model[start..end].to_vec();
        // File systems that share blocks copy whole blocks first. The first request includes bytes
        // after the end.
        let (mut copied, mut asked) = (0, len);
        while copied < bytes.len() as u64 {
            let count = self.bench.files.copy_range(
                from.handle,
                from_at + copied,
                to.handle,
                to_at + copied,
                asked,
            );
            match count.unwrap_or_else(|errno| panic!("step {}: {errno}", self.steps)) {
                0 => break,
                count => copied += count,
            }
            asked = bytes.len() as u64 - copied;
        }
        assert_eq!(copied as usize, bytes.len());
        let (model, to_at) = (&mut self.model[to.ino as usize], to_at as usize);
        if !bytes.is_empty() {
            let size = model.len().max(to_at + bytes.len());
            model.resize(size, 0);
            model[to_at..to_at + bytes.len()].copy_from_slice(&bytes);
        }
        let ino = to.ino;
        self.check_size(ino);
    }

    fn seek(&mut self, which: usize) {
        let Open { handle, ino, .. } = self.open[which];
        let model = &self.model[ino as usize];
        let offset = self.rng.range(0..model.len() as u64 + 100);
        let size = model.len() as u64;
        match self.bench.files.seek(handle, offset, 4) {
            // A hole may hold only zeros.
            Ok(hole) if hole < size => {
                let end = match self.bench.files.seek(handle, hole, 3) {
                    Ok(data) => data,
                    Err(errno) => {
                        assert_eq!(errno, Errno::NXIO);
                        size
                    }
                };
                assert!(model[hole as usize..end as usize].iter().all(|byte| *byte == 0));
            }
            Ok(hole) => assert_eq!(hole, size),
            Err(errno) => assert!(errno == Errno::NXIO && offset >= size),
        }
    }

    fn sync(&mut self, which: usize) {
        let handle = self.open[which].handle;
        match self.rng.range(0..3) {
            0 => self.bench.files.sync(handle, true).unwrap(),
            1 => self.bench.files.sync(handle, false).unwrap(),
            _ => self.bench.files.flush(handle).unwrap(),
        }
    }
}

#[track_caller]
fn compare(found: &[u8], expected: &[u8], what: &str) {
    let first = found.iter().zip(expected).position(|(found, expected)| found != expected);
    assert_eq!(first, None, "{what}: first difference of {} bytes", found.len());
    assert_eq!(found.len(), expected.len(), "{what}");
}

fn play_all(policy: LockPolicy, passthrough: bool) {
    let seed = Seed::new();
    for (number, fs) in file_systems().iter().enumerate() {
        for round in 0..4 {
            let directory = fs.dir();
            let rng = seed.stream(number as u64 * 100 + round);
            println!("{} round {round}", fs.name);
            Player::new(directory.path(), rng, policy, passthrough).play(600);
        }
    }
}

#[test]
fn files_are_as_their_writers_made_them() {
    play_all(LockPolicy::Range, false);
}

#[test]
fn files_are_as_their_writers_made_them_under_file_locks() {
    play_all(LockPolicy::WholeFile, false);
}

#[test]
fn files_are_as_their_writers_made_them_where_the_kernel_helps_itself() {
    play_all(LockPolicy::Range, true);
}
