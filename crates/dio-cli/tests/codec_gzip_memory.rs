//! Memory stays within its bound whatever the input holds. This test has a process of its own,
//! because it measures the peak memory of the process.

use std::io::{self, BufReader, Read, repeat};

use dio_cli::codec::gzip::{Decode, Encode, decode, encode};
use dio_test::Rng;
use zlib_rs::{Deflate, DeflateFlush};

fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc is there");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

#[test]
fn large_inputs_and_bombs_take_a_bounded_amount() {
    const WORKERS: usize = 2;
    const PIECES: u64 = 2 * WORKERS as u64 + 2;
    let before = peak();

    // 300 MB are compressed and decompressed. Compressed zeros are small, so no memory of the test
    // itself grows.
    let mut packed = Vec::new();
    let how = Encode { workers: WORKERS, level: 1, ..Encode::default() };
    let noise = Rng::new(1).bytes(2 << 20);
    encode(&mut (&noise[..]).chain(repeat(0).take(300_000_000)), &mut packed, &how)
        .expect("encodes");
    let held = packed.len() as u64 + noise.len() as u64;
    let used = peak() - before - held;
    assert!(used < PIECES * (4 << 20) + (24 << 20), "encoding took {used} bytes");

    let how = Decode { workers: WORKERS, ..Decode::default() };
    let moved = decode(&mut BufReader::new(&packed[..]), &mut io::sink(), &how).expect("decodes");
    assert_eq!(moved.written, 300_000_000 + noise.len() as u64);

    // A single member, made by another encoder, that decompresses to about a thousand times its
    // size.
    let mut bomb = b"\x1f\x8b\x08\0\0\0\0\0\0\x03".to_vec();
    let mut deflate = Deflate::new(9, false, 15);
    let zeros = vec![0; 1 << 20];
    let mut room = vec![0; 1 << 16];
    for number in 0..300 {
        let flush = if number == 299 { DeflateFlush::Finish } else { DeflateFlush::SyncFlush };
        let at = deflate.total_out();
        deflate.compress(&zeros, &mut room, flush).expect("deflates");
        bomb.extend_from_slice(&room[..(deflate.total_out() - at) as usize]);
    }
    bomb.extend_from_slice(&[0; 8]);
    let result = decode(&mut BufReader::new(&bomb[..]), &mut io::sink(), &how);
    assert!(format!("{result:?}").contains("Checksum"), "{result:?}");

    // The same data under a header that claims a small size.
    let size = (bomb.len() + 10) as u32;
    let mut sized = b"\x1f\x8b\x08\x04\0\0\0\0\0\x03\x08\0IG\x04\0".to_vec();
    sized.extend_from_slice(&size.to_le_bytes());
    sized.extend_from_slice(&bomb[10..]);
    for keep_damaged in [false, true] {
        let result = decode(
            &mut BufReader::new(&sized[..]),
            &mut io::sink(),
            &Decode { keep_damaged, ..how },
        );
        assert!(format!("{result:?}").contains("Damaged"), "{result:?}");
    }
    let used = peak() - before - held - (bomb.len() + sized.len()) as u64;
    assert!(used < PIECES * (8 << 20) + (24 << 20), "decoding took {used} bytes");
}
