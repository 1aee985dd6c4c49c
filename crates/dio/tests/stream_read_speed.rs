//! Speed of streams on a cold file of the host; run by hand:
//! `cargo test --release -p dio --test stream_read_speed -- --ignored --nocapture`.
//! `DIO_SPEED_MIB` is the size of the file in MiB, 1024 when not set.

use std::hint::black_box;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use dio::stream::{ReadAhead, Reader};
use dio::{File, Mode, OpenOptions};
use dio_test::Seed;

const MIB: u64 = 1 << 20;

fn report(what: &str, bytes: u64, work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    let rate = bytes as f64 / 1e6 / start.elapsed().as_secs_f64();
    println!("{what:<44} {rate:8.1} MB/s");
    rate
}

fn direct(path: &Path) -> Arc<File> {
    Arc::new(OpenOptions::new().read(true).mode(Mode::Direct).open(path).unwrap())
}

fn hop(reader: &mut Reader, places: impl Iterator<Item = u64>, len: usize) {
    let mut buffer = vec![0; len];
    for at in places {
        reader.seek(SeekFrom::Start(at)).unwrap();
        reader.read_exact(&mut buffer).unwrap();
        black_box(&buffer);
    }
}

#[test]
#[ignore = "takes seconds and the whole disk"]
fn speed() {
    let size = std::env::var("DIO_SPEED_MIB").map_or(1024, |text| text.parse().unwrap()) * MIB;
    let directory = tempfile::tempdir_in(std::env::var("DIO_TEST_DIR").unwrap_or("/var/tmp".into())).unwrap();
    let path = &directory.path().join("file");
    let file = OpenOptions::new().read(true).write(true).create(true).mode(Mode::Direct).open(path).unwrap();
    let block = Seed::fixed(1).rng().bytes(8 << 20);
    (0..size / block.len() as u64).for_each(|at| file.write_at(&block, at * block.len() as u64).unwrap());
    file.sync_all().unwrap();
    drop(file);
    for round in 0..2 {
        println!("round {round}");
        sequential(path, size);
        patterns(path, size);
        random(path, size);
    }
    small_steps(path);
    println!("{:?}", ReadAhead::for_file(&direct(path)));
}

fn sequential(path: &Path, size: u64) {
    report("forward, chunks", size, || {
        let mut reader = Reader::new(direct(path)).unwrap();
        while let Some(chunk) = reader.next_chunk().unwrap() {
            black_box(&chunk[0]);
        }
    });
    report("forward, 4 KiB", size, || {
        let mut reader = Reader::new(direct(path)).unwrap();
        let mut buffer = [0; 4096];
        while reader.read(&mut buffer).unwrap() > 0 {}
    });
    report("backward, 4 KiB", size, || {
        let mut reader = Reader::new(direct(path)).unwrap();
        hop(&mut reader, (1..=size / 4096).map(|step| size - step * 4096), 4096);
    });
}

fn patterns(path: &Path, size: u64) {
    let few = size / (64 << 10);
    report("strided, 4 KiB of 64 KiB (bytes wanted)", few * 4096, || {
        let mut reader = Reader::new(direct(path)).unwrap();
        hop(&mut reader, (0..few).map(|step| step * (64 << 10)), 4096);
    });
    report("strided, 64 KiB of 256 KiB (bytes wanted)", size / 4, || {
        let mut reader = Reader::new(direct(path)).unwrap();
        hop(&mut reader, (0..size / (256 << 10)).map(|step| step * (256 << 10)), 64 << 10);
    });
    for step in [4096u64, 64 << 10] {
        report(&format!("64 streams, one reader, {} KiB", step >> 10), size, || {
            let mut reader = Reader::new(direct(path)).unwrap();
            let places = (0..size / 64 / step).flat_map(|round| (0..64).map(move |s| s * (size / 64) + round * step));
            hop(&mut reader, places, step as usize);
        });
        report(&format!("64 streams, 64 readers, {} KiB", step >> 10), size, || {
            let file = direct(path);
            let limits = ReadAhead { max: 512 << 10, request: 128 << 10, ..ReadAhead::default() };
            let reader = |_| Reader::with_read_ahead(Arc::clone(&file), limits).unwrap();
            let mut readers: Vec<Reader> = (0..64).map(reader).collect();
            (0..64).for_each(|s| drop(readers[s].seek(SeekFrom::Start(s as u64 * (size / 64))).unwrap()));
            let mut buffer = vec![0; step as usize];
            for _ in 0..size / 64 / step {
                readers.iter_mut().for_each(|reader| reader.read_exact(&mut buffer).unwrap());
            }
        });
    }
}

fn random(path: &Path, size: u64) {
    let count = 8000;
    let places = || {
        let mut rng = Seed::fixed(5).rng();
        (0..count).map(move |_| rng.range(0..size / 4096) * 4096)
    };
    let file = direct(path);
    let mut buffer = vec![0; 8192];
    let aligned = buffer.as_ptr().align_offset(4096);
    let plain = report("random 4 KiB, read_at", count * 4096, || {
        places().for_each(|at| drop(file.read_at(&mut buffer[aligned..aligned + 4096], at).unwrap()));
    });
    let mut reader = Reader::new(file).unwrap();
    let stream = report("random 4 KiB, stream", count * 4096, || hop(&mut reader, places(), 4096));
    println!("  {:.3} of read_at; {:?}", stream / plain, reader.stats());
}

fn small_steps(path: &Path) {
    let bytes = 64 * MIB;
    report("1 byte, std::io::BufReader, cached", bytes, || {
        let mut file = std::fs::File::open(path).unwrap();
        std::io::copy(&mut Read::by_ref(&mut file).take(bytes), &mut std::io::sink()).unwrap();
    });
    report("1 byte, std::io::BufReader, cached", bytes, || {
        let mut reader = BufReader::new(std::fs::File::open(path).unwrap());
        let mut byte = [0];
        (0..bytes).for_each(|_| {
            reader.read_exact(&mut byte).unwrap();
            black_box(byte);
        });
    });
    report("1 byte, stream, cold", bytes, || {
        let mut reader = Reader::new(direct(path)).unwrap();
        let mut byte = [0];
        (0..bytes).for_each(|_| {
            assert_eq!(reader.read(&mut byte).unwrap(), 1);
            black_box(byte);
        });
    });
    report("lines, stream, cold", bytes, || {
        let reader = Reader::new(direct(path)).unwrap();
        black_box(reader.take(bytes).split(b'\n').count());
    });
}
