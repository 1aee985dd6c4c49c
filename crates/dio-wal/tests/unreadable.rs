//! Salvage from a disk that cannot read some of its blocks: everything else is taken, and the
//! unreadable blocks are reported.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use dio_test::{Rng, Seed};
use dio_wal::format::segment_name;
use dio_wal::storage::{AtomicWrites, BlockSizes, Directory, Durability, SegmentFile, Storage};
use dio_wal::{Log, Lsn, Method, Options, UnreadableRange, WalError, salvage};
use rustix::io::Errno;

const BLOCK: u64 = 512;
const SEGMENT: u64 = 64 << 10;

/// A directory on a disk with bad blocks, given by file name.
struct Failing {
    below: Directory,
    bad: Vec<(String, Range<u64>)>,
    errno: Errno,
}

struct FailingFile {
    below: Arc<dyn SegmentFile>,
    bad: Vec<Range<u64>>,
    errno: Errno,
}

impl Storage for Failing {
    fn open(&self, name: &str, write: bool) -> io::Result<Arc<dyn SegmentFile>> {
        let bad = self
            .bad
            .iter()
            .filter(|(other, _)| other == name)
            .map(|(_, range)| range.clone())
            .collect();
        Ok(Arc::new(FailingFile { below: self.below.open(name, write)?, bad, errno: self.errno }))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.below.list()
    }

    fn lock(&self) -> io::Result<bool> {
        unreachable!("salvage only reads")
    }

    fn unlock(&self) {
        unreachable!("salvage only reads")
    }

    fn create(&self, _: &str) -> io::Result<Arc<dyn SegmentFile>> {
        unreachable!("salvage only reads")
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        unreachable!("salvage only reads")
    }

    fn delete(&self, _: &str) -> io::Result<()> {
        unreachable!("salvage only reads")
    }

    fn sync(&self) -> io::Result<()> {
        unreachable!("salvage only reads")
    }

    fn fill_random(&self, _: &mut [u8]) -> io::Result<()> {
        unreachable!("salvage only reads")
    }

    fn block_sizes(&self, name: &str) -> io::Result<BlockSizes> {
        self.below.block_sizes(name)
    }
}

impl SegmentFile for FailingFile {
    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<usize> {
        let range = offset..offset + out.len() as u64;
        if self.bad.iter().any(|bad| bad.start < range.end && range.start < bad.end) {
            // It is undefined which part was read.
            out.fill(0xaa);
            return Err(self.errno.into());
        }
        self.below.read_at(out, offset)
    }

    fn size(&self) -> io::Result<u64> {
        self.below.size()
    }

    fn allocate(&self, _: u64) -> io::Result<bool> {
        unreachable!("salvage only reads")
    }

    fn write_at(&self, _: &[u8], _: u64, _: bool) -> io::Result<Durability> {
        unreachable!("salvage only reads")
    }

    fn atomic_writes(&self, _: u64) -> AtomicWrites {
        unreachable!("salvage only reads")
    }

    fn write_atomic(&self, _: &[u8], _: u64, _: bool) -> io::Result<Durability> {
        unreachable!("salvage only reads")
    }

    fn sync(&self) -> io::Result<()> {
        unreachable!("salvage only reads")
    }

    fn sync_and_drop_cache(&self) -> io::Result<()> {
        unreachable!("salvage only reads")
    }

    fn sync_all(&self) -> io::Result<()> {
        unreachable!("salvage only reads")
    }
}

/// The start, the end and the bytes of each record.
fn fill(path: &Path, rng: &mut Rng) -> Vec<(u64, u64, Vec<u8>)> {
    let mut options = Options::new();
    options.segment(SEGMENT).buffer(16 << 10).block(BLOCK as u32).idle_mark(None);
    let log = Log::open(path, &options).unwrap();
    let mut records = Vec::new();
    for _ in 0..100 {
        let length = rng.range_usize(0..5000);
        let record = rng.bytes(length);
        let lsn = log.append(&record).unwrap();
        log.commit(lsn).unwrap();
        records.push((lsn.0, log.end().0, record));
    }
    log.close().unwrap();
    records
}

fn failing(path: &Path, bad: &[(u64, Range<u64>)], errno: Errno) -> Arc<Failing> {
    let below = Directory::open(path, true, Method::Fdatasync).unwrap();
    let bad = bad.iter().map(|(number, range)| (segment_name(*number), range.clone())).collect();
    Arc::new(Failing { below, bad, errno })
}

#[test]
fn all_but_the_unreadable_blocks_is_salvaged() {
    let seed = Seed::new();
    let mut rng = seed.rng();
    let dir = dio_test::file_systems()[0].dir();
    let records = fill(dir.path(), &mut rng);
    let layout = dio_wal::Layout::new(BLOCK as u32, SEGMENT).unwrap();
    // The header of one segment, a block within a record of another segment, and two blocks within
    // a record and behind it. The last block is not among the first blocks of its segment, because
    // it would then be reported as one range with the header.
    let inner = |at: &u64| (3 * BLOCK..SEGMENT - 3 * BLOCK).contains(&layout.locate(*at).1);
    let other = records[60..].iter().map(|record| record.1 - 8).find(inner).unwrap();
    let (one, other) = (layout.locate(records[20].0 + 30), layout.locate(other));
    let down = |at: u64| at / BLOCK * BLOCK;
    assert!(one.0 != other.0 && other.0 > 1, "{one:?} {other:?}");
    let bad = [
        (one.0, down(one.1)..down(one.1) + BLOCK),
        (other.0, down(other.1)..down(other.1) + 2 * BLOCK),
        (other.0, 0..BLOCK),
    ];
    for errno in [Errno::IO, Errno::NODATA] {
        let mut taken = Vec::new();
        let found = salvage::<WalError>(failing(dir.path(), &bad, errno), |record| {
            taken.push((record.lsn.0, record.data.to_vec()));
            Ok(())
        });
        let found = found.unwrap();
        // A record is lost if it, or the mark at the start of its group, has bytes in a bad block.
        let lost = |from: u64, to: u64| {
            (down(from)..to).step_by(BLOCK as usize).any(|at| {
                let (number, offset) = layout.locate(at);
                bad.iter().any(|(other, range)| *other == number && range.contains(&offset))
            })
        };
        let expected: Vec<(u64, Vec<u8>)> = records
            .iter()
            .filter(|(from, to, _)| !lost(*from, *to))
            .map(|(from, _, record)| (*from, record.clone()))
            .collect();
        assert!(taken == expected, "{} of {} records", taken.len(), expected.len());
        assert!(
            expected.len() < records.len() && expected.len() >= records.len() - 4,
            "{}",
            expected.len()
        );
        let told: Vec<UnreadableRange> = vec![
            UnreadableRange { segment: segment_name(one.0), offset: down(one.1), length: BLOCK },
            UnreadableRange { segment: segment_name(other.0), offset: 0, length: BLOCK },
            UnreadableRange {
                segment: segment_name(other.0),
                offset: down(other.1),
                length: 2 * BLOCK,
            },
        ];
        assert_eq!(found.unreadable, told);
        assert_eq!(found.gaps.len(), 2, "{:?}", found.gaps);
        assert_eq!(found.gaps[0].from, Lsn(records[19].1));
    }
}

#[test]
fn what_is_no_loss_of_the_disk_ends_the_work() {
    let dir = dio_test::file_systems()[0].dir();
    fill(dir.path(), &mut Seed::new().rng());
    let outcome =
        salvage::<WalError>(failing(dir.path(), &[(1, 4096..8192)], Errno::ACCESS), |_| Ok(()));
    assert!(matches!(outcome, Err(WalError::Io { .. })), "{outcome:?}");
}

#[test]
fn a_header_that_nothing_can_be_read_of_hides_no_log() {
    let mut rng = Seed::new().rng();
    let dir = dio_test::file_systems()[0].dir();
    let records = fill(dir.path(), &mut rng);
    let layout = dio_wal::Layout::new(BLOCK as u32, SEGMENT).unwrap();
    let last = layout.locate(records[99].0).0;
    let mut count = 0;
    let storage = failing(dir.path(), &[(last, 0..BLOCK), (last + 1, 0..BLOCK)], Errno::IO);
    let found = salvage::<WalError>(storage, |_| {
        count += 1;
        Ok(())
    });
    let found = found.unwrap();
    assert_eq!((count, found.gaps.len()), (100, 0), "{found:?}");
    assert_eq!(
        found.unreadable[0],
        UnreadableRange { segment: segment_name(last), offset: 0, length: BLOCK }
    );
}
