use std::io::{self, Write};

use dio_test::{Rng, Seed};

use super::frame::{FrameStart, begins};
use super::{Decode, Encode, decode, encode};
use crate::codec::{Damage, DecodeError};

fn packed(data: &[u8], how: &Encode) -> Vec<u8> {
    let mut out = Vec::new();
    let moved = encode(&mut &data[..], &mut out, how).unwrap();
    assert_eq!((moved.read, moved.written), (data.len() as u64, out.len() as u64));
    out
}

fn unpacked(data: &[u8]) -> Result<Vec<u8>, Box<(DecodeError, Vec<u8>)>> {
    let mut out = Vec::new();
    match decode(&mut &data[..], &mut out, &Decode::default()) {
        Ok(moved) => {
            assert_eq!((moved.read, moved.written), (data.len() as u64, out.len() as u64));
            Ok(out)
        }
        Err(error) => Err(Box::new((error, out))),
    }
}

/// Data that has matches and literals.
fn data(rng: &mut Rng, length: usize) -> Vec<u8> {
    let words: Vec<Vec<u8>> = (0..200).map(|n| rng.bytes(1 + n % 11)).collect();
    let mut data = Vec::with_capacity(length + 12);
    while data.len() < length {
        let word: &Vec<u8> = rng.pick(&words);
        data.extend_from_slice(word);
    }
    data.truncate(length);
    data
}

#[test]
fn what_is_encoded_is_decoded() {
    let mut rng = Seed::new().rng();
    for length in [0, 1, 1000, 65_536, 1 << 20, 5_000_001] {
        let data = data(&mut rng, length);
        for how in [
            Encode::default(),
            Encode {
                workers: 0,
                level: 1,
                checksum: false,
                size: Some(length as u64),
                ..Encode::default()
            },
            Encode { level: -5, long: Some(27), size: Some(length as u64), ..Encode::default() },
        ] {
            let packed = packed(&data, &how);
            let FrameStart::Frame(header) = begins(&packed) else { panic!("no frame: {how:?}") };
            // For an empty input the library determines the size by itself.
            let size = how.size.or((length == 0).then_some(0));
            assert_eq!((header.content, header.checksum), (size, how.checksum), "{how:?}");
            assert!(unpacked(&packed).unwrap() == data, "{length} bytes with {how:?}");
            let twice = [&packed[..], b"\x51\x2a\x4d\x18\x03\0\0\0abc", &packed].concat();
            assert!(
                unpacked(&twice).unwrap() == [&data[..], &data].concat(),
                "two frames of {length} bytes"
            );
        }
    }
}

#[test]
fn an_input_of_another_size_than_promised_is_refused() {
    for promised in [5, 7] {
        let how = Encode { size: Some(promised), ..Encode::default() };
        let error =
            io::Error::from(encode(&mut &b"sixsix"[..], &mut Vec::new(), &how).unwrap_err());
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
    }
}

#[test]
fn damage_is_told_with_its_place_and_the_sound_part_is_a_beginning() {
    let seed = Seed::new();
    let mut rng = seed.rng();
    let data = data(&mut rng, 3_000_000);
    let sound = packed(&data, &Encode::default());
    for _ in 0..150 {
        let mut broken = sound.clone();
        let at = rng.range_usize(0..broken.len());
        let bit = 1 << rng.range(0..8);
        broken[at] ^= bit;
        match unpacked(&broken).map_err(|told| *told) {
            Ok(out) => assert!(out == data, "other data from a change at {at}, {seed:?}"),
            Err((DecodeError::Damaged { offset, what, sound, moved }, out)) => {
                assert!(offset <= broken.len() as u64, "{at}: {what} at {offset}, {seed:?}");
                assert_eq!((sound, moved.written), (0, out.len() as u64));
                if (offset as usize) < at {
                    // Everything decoded before the block with the error is correct.
                    assert!(out == data[..out.len()], "{at}: {what} at {offset}, {seed:?}");
                }
            }
            Err((DecodeError::NotInFormat, out)) => {
                assert!(at < 5 && out.is_empty(), "{at}, {seed:?}")
            }
            Err((DecodeError::TrailingGarbage { .. }, _)) => {}
            Err((error, _)) => panic!("{at}: {error}, {seed:?}"),
        }
    }
}

/// The library accepts such frames: it does not compare the lengths where the last block is empty.
#[test]
fn a_frame_that_has_fewer_bytes_than_its_header_says_is_damaged() {
    // One segment of 128 bytes; no block of them, or one of one byte.
    let header = [0x28, 0xb5, 0x2f, 0xfd, 0x20, 0x80];
    for (blocks, length) in [(&[1, 0, 0][..], 0), (&[8, 0, 0, b'A', 1, 0, 0][..], 1)] {
        let (error, out) = *unpacked(&[&header[..], blocks].concat()).unwrap_err();
        let expected = Damage::Length { stored: 128, computed: length };
        assert!(
            matches!(&error, DecodeError::Damaged { what, sound: 0, .. } if *what == expected),
            "{error:?}"
        );
        assert_eq!(out, vec![b'A'; length as usize]);
    }
    // The library takes a size of all ones for none.
    let unknown = [&header[..4], &[0xc0, 0], &[0xff; 8][..], &[9, 0, 0, b'A']].concat();
    assert_eq!(unpacked(&unknown).unwrap(), b"A");
    let empty = [0x28, 0xb5, 0x2f, 0xfd, 0x20, 0, 1, 0, 0];
    assert!(unpacked(&empty).unwrap().is_empty());
}

#[test]
fn what_is_cut_short_gives_its_beginning() {
    let seed = Seed::new();
    let mut rng = seed.rng();
    let data = data(&mut rng, 2_000_000);
    let sound = packed(&data, &Encode::default());
    let cuts = (0..40).map(|_| rng.range_usize(4..sound.len())).chain([4, 5, sound.len() - 1]);
    for cut in cuts {
        let Err((error, out)) = unpacked(&sound[..cut]).map_err(|told| *told) else {
            panic!("{cut} bytes are enough, {seed:?}")
        };
        assert!(out == data[..out.len()], "{cut}, {seed:?}");
        assert!(
            matches!(error, DecodeError::Damaged { offset, what: Damage::UnexpectedEnd, .. }
                if offset == cut as u64),
            "{cut}: {error:?}, {seed:?}"
        );
    }
}

#[test]
fn noise_is_not_decoded() {
    let seed = Seed::new();
    let mut rng = seed.rng();
    for _ in 0..500 {
        let length = rng.range_usize(0..300);
        let mut noise = rng.bytes(length);
        if rng.bool(0.8) && noise.len() > 4 {
            noise[..4].copy_from_slice(&0xfd2f_b528u32.to_le_bytes());
        }
        // Decoding must end, and its output must not exceed what the input can expand to.
        if let Ok(out) = unpacked(&noise) {
            assert!(out.len() < 200 << 20, "{} bytes, {seed:?}", out.len());
        }
    }
}

#[test]
fn a_window_that_is_too_large_is_refused_by_its_size() {
    let how = Encode { long: Some(27), size: None, workers: 0, ..Encode::default() };
    let packed = packed(&vec![7; 1 << 20], &how);
    let little = Decode { memory: (1 << 27) - 1, ..Decode::default() };
    let error = decode(&mut &packed[..], &mut Vec::new(), &little).unwrap_err();
    assert!(
        matches!(error, DecodeError::Damaged { offset: 0, what: Damage::Header(_), .. }),
        "{error}"
    );
    assert!(
        decode(&mut &packed[..], &mut Vec::new(), &Decode { memory: 1 << 27, ..Decode::default() })
            .is_ok()
    );
}

#[test]
fn an_output_that_fails_ends_it() {
    struct Full(usize);
    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.0 < bytes.len() {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.0 -= bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut rng = Seed::new().rng();
    let data = data(&mut rng, 20_000_000);
    let packed = packed(&data, &Encode::default());
    for room in [0, 3 << 20, 19 << 20] {
        let error = decode(&mut &packed[..], &mut Full(room), &Decode::default()).unwrap_err();
        assert!(
            matches!(&error, DecodeError::Write(error)
                if error.kind() == io::ErrorKind::StorageFull),
            "{error:?}"
        );
    }
    let error =
        io::Error::from(encode(&mut &data[..], &mut Full(1000), &Encode::default()).unwrap_err());
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
}
