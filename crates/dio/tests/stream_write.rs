//! The writer against a plain vector, on a real file: any mix of writes, seeks, chunks and flushes
//! leads to the same bytes.

use std::io::{Cursor, Read, Seek, SeekFrom, Write};
use std::sync::Arc;

use dio::stream::{ReadAhead, Reader, WriteBehind, Writer};
use dio::{Mode, OpenOptions};
use dio_test::Seed;

const BLOCK: usize = 16 << 10;

fn limits() -> WriteBehind {
    WriteBehind { block: BLOCK, depth: 4, striped_bytes_max: 0 }
}

#[test]
fn writes_and_seeks_leave_what_they_leave_in_memory() {
    for mode in [Mode::Direct, Mode::Uncached, Mode::Cached] {
        let seed = Seed::new();
        let mut random = seed.stream(0);
        let scratch = tempfile::tempdir_in("/var/tmp").unwrap();
        for round in 0..30 {
            let path = scratch.path().join(format!("file{round}"));
            let old = vec![0xEE; random.range(0..100_000) as usize];
            std::fs::write(&path, &old).unwrap();
            let file = OpenOptions::new().read(true).write(true).mode(mode).open(&path).unwrap();
            let mut writer = Writer::with_write_behind(file, limits()).unwrap();
            let mut model = Cursor::new(old);
            for step in 0..random.range(0..40) {
                match random.range(0..8) {
                    0 => {
                        let to = SeekFrom::Start(random.range(0..200_000));
                        assert_eq!(writer.seek(to).unwrap(), model.seek(to).unwrap());
                    }
                    1 => {
                        let to = SeekFrom::Start(random.range(0..12) * BLOCK as u64);
                        assert_eq!(writer.seek(to).unwrap(), model.seek(to).unwrap());
                    }
                    2 => writer.flush().unwrap(),
                    _ => {
                        let bytes =
                            vec![step as u8 + 1; random.range(0..3 * BLOCK as u64) as usize];
                        writer.write_all(&bytes).unwrap();
                        model.write_all(&bytes).unwrap();
                    }
                }
                assert_eq!(writer.position(), model.position(), "{seed:?}");
            }
            writer.finish().unwrap();
            drop(writer);
            assert!(
                std::fs::read(&path).unwrap() == model.into_inner(),
                "{mode:?} round {round} {seed:?}"
            );
        }
    }
}

#[test]
fn chunks_of_a_reader_are_written_without_a_copy() {
    let scratch = tempfile::tempdir_in("/var/tmp").unwrap();
    let (from, to) = (scratch.path().join("from"), scratch.path().join("to"));
    dio_test::random_file(&from, (5 << 20) + 777, 7);
    let source = Arc::new(OpenOptions::new().read(true).open(&from).unwrap());
    let target =
        Arc::new(OpenOptions::new().read(true).write(true).create(true).open(&to).unwrap());
    let ahead = ReadAhead { min: BLOCK, max: 4 * BLOCK, request: BLOCK, lent: 5 };
    let mut reader = Reader::with_read_ahead(Arc::clone(&source), ahead).unwrap();
    let mut writer = Writer::with_write_behind(Arc::clone(&target), limits()).unwrap();
    while let Some(chunk) = reader.next_chunk().unwrap() {
        writer.write_chunk(chunk).unwrap();
    }
    writer.finish().unwrap();
    dio_test::same_bytes(&from, &to);
    let counters = target.counters();
    assert_eq!(counters.written.total(), (5 << 20) + 777);
    assert_eq!(counters.written.get(dio::Class::Bounced), 0);
    // Writes that extend the file were joined.
    assert!(counters.write_requests < 5 * 64, "{counters:?}");
}

#[test]
fn an_error_comes_out_of_every_later_call() {
    let scratch = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = scratch.path().join("file");
    std::fs::write(&path, b"old").unwrap();
    let file = OpenOptions::new().read(true).open(&path).unwrap();
    let mut writer = Writer::with_write_behind(file, limits()).unwrap();
    let outcome = writer.write_all(&vec![1; 10 * BLOCK]).and_then(|()| writer.flush());
    let first = outcome.unwrap_err().to_string();
    assert_eq!(writer.write(&[1]).unwrap_err().to_string(), first);
    assert_eq!(writer.flush().unwrap_err().to_string(), first);
    assert_eq!(writer.finish().unwrap_err().to_string(), first);
    let mut left = String::new();
    std::fs::File::open(&path).unwrap().read_to_string(&mut left).unwrap();
    assert_eq!(left, "old");
}

#[test]
fn more_blocks_may_wait_than_one_request_can_hold() {
    let scratch = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = scratch.path().join("file");
    let file = OpenOptions::new().read(true).write(true).create(true).open(&path).unwrap();
    let mut writer = Writer::with_write_behind(
        file,
        WriteBehind { block: 4096, depth: 8192, striped_bytes_max: 0 },
    )
    .unwrap();
    let bytes: Vec<u8> = (0..8 << 20).flat_map(u32::to_ne_bytes).collect();
    writer.write_all(&bytes).unwrap();
    writer.finish().unwrap();
    assert!(std::fs::read(&path).unwrap() == bytes);
}

#[test]
fn an_idle_writer_does_not_keep_readers_from_what_was_there() {
    let scratch = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = scratch.path().join("file");
    dio_test::random_file(&path, 1 << 20, 7);
    let (said, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let file = Arc::new(OpenOptions::new().read(true).write(true).open(&path).unwrap());
        let mut writer = Writer::with_write_behind(Arc::clone(&file), limits()).unwrap();
        writer.seek(SeekFrom::End(0)).unwrap();
        writer.write_all(&vec![1; 4 * BLOCK]).unwrap();
        let count = file.read_at(&mut vec![0; 1 << 20], 0).unwrap();
        writer.finish().unwrap();
        said.send(count).unwrap();
    });
    assert_eq!(heard.recv_timeout(std::time::Duration::from_secs(60)), Ok(1 << 20));
}

#[test]
fn after_draining_nobody_waits_for_the_writer() {
    let scratch = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true);
    let other = options.open(scratch.path().join("file")).unwrap();
    let file = options.open(scratch.path().join("file")).unwrap();
    let mut writer = Writer::with_write_behind(file, limits()).unwrap();
    writer.write_all(&[1; 2 * BLOCK + 100]).unwrap();
    writer.drain().unwrap();
    // This thread would wait for itself. The block being filled is still in memory.
    other.set_size(2 * BLOCK as u64 + 1).unwrap();
    other.set_size(2 * BLOCK as u64).unwrap();
    writer.finish().unwrap();
    let mut bytes = vec![0; 3 * BLOCK];
    assert_eq!(other.read_at(&mut bytes, 0).unwrap(), 2 * BLOCK + 100);
    assert!(bytes[..2 * BLOCK + 100].iter().all(|byte| *byte == 1));
}
