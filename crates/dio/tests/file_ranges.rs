//! Many ranges in one call: which one failed, when it stops, and that nothing stays in flight. That
//! the right bytes are moved is shown in `file_model.rs`.

mod common;

use std::sync::Arc;

use common::{Hooked, engines, io_of, sim_disk, sim_geometry};
use dio::engine::OpKind;
use dio::file::{RangesError, ReadRange, WriteRange, read_ranges, write_ranges};
use dio::{File, Io, Limits, OpenOptions};
use rustix::io::Errno;

const BLOCK: usize = 4096;

fn open(io: &Io, dir: &tempfile::TempDir, blocks: usize) -> File {
    let path = dir.path().join("file");
    std::fs::write(&path, vec![7; blocks * BLOCK]).unwrap();
    OpenOptions::new().read(true).write(true).io(io).open(path).unwrap()
}

fn all<'a>(file: &'a File, buffers: &'a mut [Vec<u8>]) -> Vec<ReadRange<'a>> {
    let ranges = buffers.iter_mut().enumerate();
    ranges
        .map(|(index, buffer)| ReadRange { file, offset: (index * BLOCK) as u64, buffer })
        .collect()
}

#[test]
fn thousands_of_ranges_are_read_and_written_at_any_depth() {
    for engine in engines() {
        let io = io_of(engine, Limits::default());
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let file = open(&io, &dir, 0);
        for depth in [1, 7, 100, 5000] {
            let blocks: Vec<Vec<u8>> =
                (0..3000).map(|index| vec![(index % 251) as u8 + 1; BLOCK]).collect();
            file.set_size(0).unwrap();
            let ranges: Vec<WriteRange<'_>> = blocks
                .iter()
                .enumerate()
                .rev()
                .map(|(index, bytes)| WriteRange {
                    file: &file,
                    offset: (index * BLOCK) as u64,
                    bytes,
                })
                .collect();
            write_ranges(&ranges, depth, &mut || false).unwrap();
            let mut read = vec![vec![0; BLOCK]; 3001];
            let counts = read_ranges(&mut all(&file, &mut read), depth, &mut || false).unwrap();
            assert_eq!((counts[0], counts[2999], counts[3000]), (BLOCK, BLOCK, 0));
            assert!(read[..3000] == blocks);
        }
        assert_eq!(file.counters().written.total(), 4 * 3000 * BLOCK as u64);
        assert_eq!(file.counters().read.total(), 4 * 3000 * BLOCK as u64);
    }
}

#[test]
fn an_error_names_the_first_range_that_failed_and_later_calls_work() {
    let hooked = Hooked::new(sim_disk(512, 1).file(&[])).before(|op| {
        let bad = [40, 300, 301].map(|block| block * BLOCK as u64).contains(&op.offset);
        (bad && op.kind == OpKind::Read).then_some(Err(Errno::IO))
    });
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .io(&io_of("blocking", Limits::default()))
        .open_medium("file", Arc::new(hooked), sim_geometry(512))
        .unwrap();
    file.write_at(&vec![3; 400 * BLOCK], 0).unwrap();
    let mut read = vec![vec![0; BLOCK]; 400];
    match read_ranges(&mut all(&file, &mut read), 64, &mut || false) {
        Err(RangesError::Failed { index: 40, error }) => {
            assert_eq!((error.errno(), error.offset()), (Errno::IO, Some(40 * BLOCK as u64)));
        }
        other => panic!("{other:?}"),
    }
    let counts = read_ranges(&mut all(&file, &mut read[..40]), 64, &mut || false).unwrap();
    assert_eq!(counts, [BLOCK; 40]);
}

#[test]
fn it_stops_when_it_is_told_to() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let file = open(&Io::shared().unwrap(), &dir, 500);
    let (mut read, mut asked) = (vec![vec![0; BLOCK]; 500], 0);
    let stopped = read_ranges(&mut all(&file, &mut read), 4, &mut || {
        asked += 1;
        asked > 10
    });
    let Err(RangesError::Stopped { done }) = stopped else { panic!("{stopped:?}") };
    assert!(done[0] == Some(BLOCK) && done[499].is_none(), "{done:?}");
    for (done, buffer) in done.iter().zip(&read) {
        let byte = if done.is_some() { 7 } else { 0 };
        assert!(buffer.iter().all(|found| *found == byte), "{done:?}");
    }
    let bytes = [1; 100];
    let ranges = [WriteRange { file: &file, offset: 3, bytes: &bytes }];
    let stopped = write_ranges(&ranges, 4, &mut || true);
    let Err(RangesError::Stopped { done }) = stopped else { panic!("{stopped:?}") };
    assert_eq!(done, [None]);
    // A range that is begun is finished, so that whoever goes on makes progress.
    let (mut large, mut small) = (vec![0; 400 * BLOCK + 1], vec![0; BLOCK]);
    let mut ranges = [
        ReadRange { file: &file, offset: 0, buffer: &mut large[1..] },
        ReadRange { file: &file, offset: 0, buffer: &mut small },
    ];
    let stopped = read_ranges(&mut ranges, 1, &mut || true);
    let Err(RangesError::Stopped { done }) = stopped else { panic!("{stopped:?}") };
    assert_eq!(done, [Some(400 * BLOCK), None]);
}

#[test]
fn what_is_not_allowed_is_refused() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let file = open(&Io::shared().unwrap(), &dir, 1);
    let only_read = OpenOptions::new().read(true).open(dir.path().join("file")).unwrap();
    let bytes = vec![1; BLOCK];
    let write = |file, offset| WriteRange { file, offset, bytes: &bytes };
    for (ranges, index, errno) in [
        ([write(&file, 0), write(&only_read, 0)], 1, Errno::BADF),
        ([write(&file, u64::MAX - 5), write(&file, 0)], 0, Errno::FBIG),
    ] {
        match write_ranges(&ranges, 8, &mut || false) {
            Err(RangesError::Failed { index: found, error }) => {
                assert_eq!((found, error.errno()), (index, errno));
            }
            other => panic!("{other:?}"),
        }
    }
    let mut buffer = vec![0; BLOCK];
    let mut ranges = [ReadRange { file: &file, offset: u64::MAX, buffer: &mut buffer }];
    let refused = read_ranges(&mut ranges, 8, &mut || false);
    assert!(matches!(refused, Err(RangesError::Failed { index: 0, .. })), "{refused:?}");
    read_ranges(&mut [], 8, &mut || false).unwrap();
    write_ranges(&[], 8, &mut || false).unwrap();
}

#[test]
fn threads_that_read_and_write_the_same_ranges_do_not_wait_for_each_other() {
    let limits = Limits { bounce_blocks: 3, depth: 4, ..Limits::default() };
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let file = open(&Io::new(limits).unwrap(), &dir, 64);
    std::thread::scope(|scope| {
        for thread in 0..6u8 {
            let file = &file;
            scope.spawn(move || {
                let bytes = vec![thread + 1; 3 * BLOCK];
                for round in 0..40 {
                    let at = |index: usize| ((index * 7 + round) % 60 * BLOCK) as u64;
                    let mut buffers = vec![vec![0; 3 * BLOCK + 1]; 8];
                    // Misaligned memory and ranges, so that blocks to bounce through run out.
                    let mut reads: Vec<ReadRange<'_>> = buffers
                        .iter_mut()
                        .enumerate()
                        .map(|(index, buffer)| ReadRange {
                            file,
                            offset: at(index) + 5,
                            buffer: &mut buffer[1..],
                        })
                        .collect();
                    read_ranges(&mut reads, 8, &mut || false).unwrap();
                    let writes: Vec<WriteRange<'_>> = (0..8)
                        .map(|index| WriteRange { file, offset: at(index), bytes: &bytes })
                        .collect();
                    write_ranges(&writes, 8, &mut || false).unwrap();
                }
            });
        }
    });
}
