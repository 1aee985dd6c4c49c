//! How many requests of a striped file are in flight at once, on simulated disks: every target has
//! work, and a slow one stops the others only when the window is full.

mod common;

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use common::rig::{Rig, contents, tagged};
use common::{first_difference, sim_geometry};
use dio::engine::OpKind;
use dio::engine::sim::{SimDisk, SimDiskModel};
use dio::stream::{ReadAhead, Reader, WriteBehind, Writer};
use dio::transfer::{Copier, CopierJob, NoWatch, blocks_for};
use dio::{File, Limits, Mode, OpenOptions};

/// Stripe size of the files that are moved as a whole. One stripe is one request.
const PIECE: usize = 64 << 10;

/// Largest number of stripes in flight for a file that is not striped.
const PLAIN: usize = 8;

/// Disks that serve one request at a time, in a millisecond; optionally one of them takes longer.
fn of_slow_disks(objects: usize, slow: Option<(usize, Duration)>) -> Rig {
    let model = SimDiskModel { service: Duration::from_millis(1), ..SimDiskModel::default() };
    let mut rig = Rig::with(objects, PIECE as u64, &model, 1, Limits::default());
    if let Some((number, service)) = slow {
        rig.disks[number] = SimDisk::new(&rig.clock, SimDiskModel { service, ..model }, 9);
        rig.media[number] = rig.disks[number].file(&vec![0; rig.layout.start() as usize]);
    }
    rig
}

/// A plain file on a disk so fast that it never causes waits.
fn plain(rig: &Rig, contents: &[u8]) -> File {
    let model =
        SimDiskModel { service: Duration::from_micros(1), channels: 64, ..SimDiskModel::default() };
    let medium = SimDisk::new(
        &rig.clock,
        SimDiskModel { read_bandwidth: 1 << 40, write_bandwidth: 1 << 40, ..model },
        5,
    );
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(Mode::Direct).io(&rig.io);
    options.open_medium("plain", Arc::new(medium.file(contents)), sim_geometry(512)).unwrap()
}

/// Moves a whole file with the given bytes. Returns the bytes of memory used.
type Exercise = fn(&Rig, &Arc<File>, &[u8]) -> usize;

fn copier(rig: &Rig, source: &File, target: &File, bytes: &[u8]) -> usize {
    let blocks = blocks_for(source, Some(target), PIECE, 2 * PLAIN, 64 << 20);
    let ranges: Vec<_> = std::iter::once(0..bytes.len() as u64).collect();
    let job =
        CopierJob { source, target: Some(target), ranges: &ranges, pace: None, skip_zeros: false };
    let mut copier = Copier::new(&rig.io, PIECE, blocks).unwrap();
    copier.run(&job, &mut NoWatch).unwrap();
    copier.buffer_bytes()
}

fn write(file: &Arc<File>, bytes: &[u8]) -> usize {
    let behind = WriteBehind { block: PIECE, depth: PLAIN, ..WriteBehind::default() };
    let mut writer = Writer::with_write_behind(Arc::clone(file), behind).unwrap();
    bytes.chunks(10_000).for_each(|chunk| writer.write_all(chunk).unwrap());
    writer.finish().unwrap();
    writer.buffer_bytes()
}

/// Methods to write inside a file.
const INSIDE: [(&str, Exercise); 2] = [
    ("a writer", |_, file, bytes| {
        file.allocate(0..bytes.len() as u64, true).unwrap();
        write(file, bytes)
    }),
    ("a copy to it", |rig, file, bytes| {
        file.allocate(0..bytes.len() as u64, true).unwrap();
        copier(rig, &plain(rig, bytes), file, bytes)
    }),
];

/// Methods to read what is there.
const READING: [(&str, Exercise); 2] = [
    ("a reader", |_, file, bytes| {
        let ahead = ReadAhead { request: PIECE, min: PIECE, ..ReadAhead::for_file(file) };
        let mut reader =
            Reader::with_read_ahead(Arc::clone(file), ReadAhead { max: ahead.max / 16, ..ahead })
                .unwrap();
        let mut found = Vec::new();
        reader.read_to_end(&mut found).unwrap();
        assert_eq!(first_difference(&found, bytes), None);
        reader.buffer_bytes()
    }),
    ("a copy from it", |rig, file, bytes| {
        let target = plain(rig, &vec![0; bytes.len()]);
        let used = copier(rig, file, &target, bytes);
        assert_eq!(first_difference(&contents(&target), bytes), None);
        used
    }),
];

/// The activity of the disks during a transfer.
struct Seen {
    /// For each disk, its transfers: the times of submission, start and end.
    transfers: Vec<Vec<[Duration; 3]>>,
    /// Time from the first transfer to the last.
    took: Duration,
    memory: usize,
}

impl Seen {
    /// Moves a file of `rows` rows.
    fn of(rig: &Rig, rows: usize, way: Exercise, reads: bool) -> Seen {
        let bytes = tagged(3, 0, rows * rig.layout.row() as usize);
        let file = Arc::new(rig.open(Mode::Direct));
        if reads {
            file.write_at(&bytes, 0).unwrap();
        }
        let begin = rig.clock.now();
        let memory = way(rig, &file, &bytes);
        let kind = if reads { OpKind::Read } else { OpKind::Write };
        let of_disk = |disk: &SimDisk| {
            let trace = disk.trace().kind(kind).only(|entry| entry.issued >= begin);
            trace.entries.iter().map(|entry| [entry.issued, entry.start, entry.end]).collect()
        };
        let transfers: Vec<Vec<[Duration; 3]>> = rig.disks.iter().map(of_disk).collect();
        let all = || transfers.iter().flatten();
        let took = all().map(|it| it[2]).max().unwrap() - all().map(|it| it[0]).min().unwrap();
        assert_eq!(first_difference(&contents(&file), &bytes), None);
        Seen { transfers, took, memory }
    }

    /// The largest number of requests to all disks at a time, counted from their submission or from
    /// their start.
    fn most_at_once(&self, since: usize) -> usize {
        let all: Vec<_> = self.transfers.iter().flatten().collect();
        let at_once =
            |time: Duration| all.iter().filter(|it| it[since] <= time && time < it[2]).count();
        all.iter().map(|it| at_once(it[since])).max().unwrap_or(0)
    }

    fn busy(&self, disk: usize) -> f64 {
        let served: Duration = self.transfers[disk].iter().map(|it| it[2] - it[1]).sum();
        served.as_secs_f64() / self.took.as_secs_f64()
    }
}

/// However a file over sixteen targets is read or written, each target always has work.
#[test]
fn all_targets_are_busy_at_once() {
    let extending: (&str, Exercise) =
        ("a writer that extends", |_, file, bytes| write(file, bytes));
    let ways = INSIDE.map(|way| (way, false)).into_iter().chain(READING.map(|way| (way, true)));
    for ((name, way), reads) in ways.chain([(extending, false)]) {
        let rig = of_slow_disks(16, None);
        let seen = Seen::of(&rig, 40, way, reads);
        assert_eq!(seen.most_at_once(1), 16, "{name}: disks that are busy at once");
        for disk in 0..16 {
            assert!(
                seen.busy(disk) > 0.8,
                "{name}: disk{disk} was busy for {:.2} of the time",
                seen.busy(disk)
            );
        }
        let usual = 4 * 16 * PIECE;
        assert!(seen.memory <= 3 * usual, "{name}: {} bytes of memory", seen.memory);
    }
}

/// One of eight disks is fifty times slower. The other disks finish everything that fits into the
/// window before the slow disk finishes its first request. From then on the slow disk determines
/// the speed, and always has work. The requests in flight never take more memory than was reserved.
#[test]
fn a_slow_target_stops_the_others_only_when_the_window_is_full() {
    let service = Duration::from_millis(50);
    for ((name, way), reads) in
        INSIDE.map(|way| (way, false)).into_iter().chain(READING.map(|way| (way, true)))
    {
        for slow in [0, 5] {
            let rig = of_slow_disks(8, Some((slow, service)));
            let seen = Seen::of(&rig, 60, way, reads);
            let mut over: Vec<Duration> = seen.transfers[slow].iter().map(|it| it[2]).collect();
            over.sort();
            // A reader reads further ahead the longer it has read in order.
            let turn = if reads { 4 } else { 0 };
            let (then, nth) = (over[turn], turn + 1);
            let begin = seen.transfers.iter().flatten().map(|it| it[0]).min().unwrap();
            let done = |disk: usize| seen.transfers[disk].iter().filter(|it| it[2] <= then).count();
            let others: usize = (0..8).filter(|disk| *disk != slow).map(done).sum();
            // All stripes of a window of 32 except the four of the slow disk, and the stripes of
            // the rows before.
            assert!(
                others >= 28 + 7 * turn,
                "{name}: {others} requests were done with request {nth} of slow disk{slow}"
            );
            assert!(
                then - begin < service * nth as u32 * 11 / 10,
                "{name}: slow disk{slow} was not given work at once"
            );
            assert!(
                seen.busy(slow) > 0.97,
                "{name}: disk{slow} was busy for {:.3} of the time",
                seen.busy(slow)
            );
            let under_way = seen.most_at_once(0) * PIECE;
            assert!(
                under_way <= seen.memory,
                "{name}: {under_way} bytes under way in {} of memory",
                seen.memory
            );
            assert!(seen.memory <= 3 * 32 * PIECE, "{name}: {} bytes of memory", seen.memory);
        }
    }
}
