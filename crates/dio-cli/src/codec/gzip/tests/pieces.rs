//! One member of many pieces, as other readers decode it, and pieces in a wrong order.

use dio_test::Soak;
use libdeflater::Decompressor;
use zlib_rs::{Inflate, InflateFlush};

use super::super::encode::PIECE;
use super::super::header::FIXED_LEN;
use super::super::tag::{TAG_LEN, TagFields};
use super::*;
use crate::codec::Damage;

/// Returns data of a random kind and length.
fn anything(length_max: usize, rng: &mut Rng) -> Vec<u8> {
    let length = rng.range_usize(0..length_max + 1);
    match rng.range(0..5) {
        0 => rng.bytes(length),
        1 => vec![b'x'; length],
        // Compressed data is stored unchanged, so tags occur in the middle of pieces.
        2 => ours(&text(length * 3, rng), 1 + length_max / 7),
        3 => [text(length / 2, rng), rng.bytes(length - length / 2)].concat(),
        _ => text(length, rng),
    }
}

/// Asserts that readers that only read one member get all of the data and leave nothing.
#[track_caller]
fn is_one_member(packed: &[u8], data: &[u8]) {
    let mut out = vec![0; data.len()];
    assert_eq!(Decompressor::new().gzip_decompress(packed, &mut out), Ok(data.len()));
    assert!(out == data);
    let (mut inflate, mut out) = (Inflate::new(false, 15), vec![0; data.len() + 1]);
    let result = inflate.decompress(&packed[10..], &mut out, InflateFlush::Finish);
    assert_eq!(result, Ok(Status::StreamEnd));
    assert_eq!(
        (inflate.total_in() as usize, inflate.total_out() as usize),
        (packed.len() - 18, data.len())
    );
    assert!(out[..data.len()] == *data);
}

#[test]
fn soak_one_member_is_read_by_all() {
    for seed in Soak::of(60) {
        let mut rng = seed.rng();
        let data = anything(60_000, &mut rng);
        let how = Encode {
            level: rng.range(0..13) as u8,
            workers: rng.range_usize(0..3),
            ..Encode::default()
        };
        let piece = match rng.range(0..4) {
            0 => rng.range_usize(1..200),
            // Pieces that end where the input ends.
            1 => (data.len() / rng.range_usize(1..5)).max(1),
            _ => rng.range_usize(1000..70_000),
        };
        let packed = ours_as(&data, piece, &how);
        is_one_member(&packed, &data);
        decodes_to(&packed, &data);
        let twice = [&packed[..], &packed].concat();
        decodes_to(&twice, &data.repeat(2));
    }
}

#[test]
fn large_pieces_are_one_member_at_every_level() {
    let mut rng = Rng::new(9);
    let data = [text(PIECE + 300_000, &mut rng), rng.bytes(300_000), vec![7; PIECE]].concat();
    for level in [0, 1, 2, 6, 9, 12] {
        is_one_member(
            &ours_as(&data, PIECE, &Encode { level, workers: 2, ..Encode::default() }),
            &data,
        );
    }
}

/// Returns the tags and the pieces behind them.
fn pieces(packed: &[u8]) -> Vec<(TagFields, Vec<u8>)> {
    let mut rest = &packed[10..];
    let mut pieces = Vec::new();
    while let Some(tag) = rest.first_chunk::<TAG_LEN>().and_then(TagFields::parse) {
        let end = TAG_LEN + tag.size;
        pieces.push((tag, rest[..end].to_vec()));
        rest = &rest[end..];
    }
    assert_eq!(rest.len(), 8);
    pieces
}

/// A tag holds the check value of everything before it, so a piece in a wrong position is never
/// correct.
#[test]
fn a_piece_that_is_missing_or_elsewhere_is_found_before_it_is_written() {
    let data = text(10_000, &mut Rng::new(10));
    let packed = ours(&data, 2000);
    let parts = pieces(&packed);
    assert_eq!(parts.len(), 6, "five are full, and the last is empty");
    let (head, tail) = (&packed[..10], &packed[packed.len() - 8..]);
    for order in [&[0, 2, 3, 4, 5][..], &[0, 2, 1, 3, 4, 5], &[0, 1, 1, 2, 3, 4, 5]] {
        let middle: Vec<u8> = order.iter().flat_map(|&number| parts[number].1.clone()).collect();
        let (out, result) =
            decoded(&[head, &middle, tail].concat(), &Decode { workers: 2, ..Decode::default() });
        let sound = 2000
            * order.iter().zip(0..).take_while(|(number, place)| *number == place).count() as u64;
        match result {
            Err(DecodeError::Damaged { what: Damage::Checksum { .. }, sound: told, .. }) => {
                assert_eq!(told, sound)
            }
            other => panic!("{order:?}: {other:?}"),
        }
        assert!(out == data[..sound as usize], "{order:?}");
    }
}

/// Wrong sizes in tags do no harm: the pieces are then read as a stream.
#[test]
fn tags_that_are_not_true_do_no_harm() {
    let data = text(9000, &mut Rng::new(11));
    let packed = ours(&data, 2000);
    let parts = pieces(&packed);
    for number in 0..parts.len() {
        let (tag, _) = parts[number];
        for lie in [
            TagFields { size: tag.size - 1, ..tag },
            TagFields { size: tag.size + 1, ..tag },
            TagFields { size: 0, ..tag },
            TagFields { size: 1 << 23, ..tag },
            TagFields { length: 1 << 23, ..tag },
            TagFields { is_last: !tag.is_last, size: tag.size + 1, ..tag },
        ] {
            let mut at = 10;
            let mut changed = packed.clone();
            parts[..number].iter().for_each(|(_, bytes)| at += bytes.len());
            changed[at..at + TAG_LEN].copy_from_slice(&lie.bytes());
            if number + 1 == parts.len() && !lie.is_last {
                continue;
            }
            let (out, result) = decoded(&changed, &Decode { workers: 2, ..Decode::default() });
            match result {
                Ok(_) => assert!(out == data, "{lie:?}"),
                Err(DecodeError::Damaged { sound, .. }) => {
                    assert!(data.starts_with(&out[..sound as usize]))
                }
                Err(other) => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn a_single_piece_has_a_tag_where_it_is_large() {
    let mut rng = Rng::new(8);
    for (size, tagged) in [(500 << 10, false), (600 << 10, true), (2 << 20, true)] {
        let noise = rng.bytes(size);
        let packed = ours(&noise, PIECE);
        is_one_member(&packed, &noise);
        assert_eq!(
            packed[FIXED_LEN..].first_chunk().and_then(TagFields::parse).is_some(),
            tagged,
            "{size}"
        );
        decodes_to(&packed, &noise);
    }
}
