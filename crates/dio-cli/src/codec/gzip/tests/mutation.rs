//! Inputs with random changes. For every input the decoder must end, and the bytes it reports as
//! sound must be correct.

use dio_test::{Rng, Soak};

use super::*;
use crate::codec::Damage;

/// The most bytes that deflate expands one byte to; it limits what a test has to hold.
const MOST_FROM_ONE: usize = 1032;

/// Decodes with and without threads; both must agree. Returns the output, how much of it is sound,
/// and whether decoding succeeded.
fn outcome(bytes: &[u8], rng: &mut Rng) -> (Vec<u8>, u64, bool) {
    let keep_damaged = rng.bool(0.3);
    let plain = decoded(bytes, &Decode { keep_damaged, ..Decode::default() });
    let how = Decode { workers: 2, keep_damaged, ..Decode::default() };
    let threads = decoded_by(bytes, &how, rng.range_usize(1..5000));
    let (out, result) = plain;
    assert_eq!(told(&result), told(&threads.1));
    if !keep_damaged && result.is_ok() {
        assert!(out == threads.0);
    }
    assert!(out.len() <= bytes.len() * MOST_FROM_ONE);
    match result {
        Ok(_) => (out, u64::MAX, true),
        Err(DecodeError::TrailingGarbage { offset, .. }) => {
            assert!(offset < bytes.len() as u64);
            (out, u64::MAX, false)
        }
        Err(DecodeError::Damaged { offset, sound, moved, .. }) => {
            assert!(
                offset <= bytes.len() as u64 && sound <= moved.written && moved.read <= offset + 8
            );
            (out, sound, false)
        }
        Err(DecodeError::NotInFormat) => {
            assert!(out.is_empty());
            (out, 0, false)
        }
        Err(other) => panic!("{other:?}"),
    }
}

/// Returns the part of a result that does not depend on how the input arrives.
fn told(result: &Result<CodecTotals, DecodeError>) -> String {
    match result {
        Ok(moved) => format!("{moved:?}"),
        // The message for invalid data depends on the step that found it.
        Err(DecodeError::Damaged { sound, what: Damage::Data(_), .. }) => format!("{sound} data"),
        Err(DecodeError::Damaged { sound, what, .. }) => format!("{sound} {what}"),
        Err(error) => error.to_string(),
    }
}

/// Asserts the properties of every outcome for an original of `data`.
fn sound(data: &[u8], (out, sound, whole): (Vec<u8>, u64, bool), changed: &str) {
    let sound = usize::try_from(sound).unwrap_or(usize::MAX).min(out.len());
    assert!(
        data.starts_with(&out[..sound]),
        "{changed}: {sound} bytes are called sound and are not"
    );
    assert!(!whole || data.starts_with(&out), "{changed}");
}

fn originals(rng: &mut Rng) -> Vec<(Vec<u8>, Vec<u8>)> {
    let length = rng.range_usize(1..9000);
    let data = if rng.bool(0.8) { text(length, rng) } else { rng.bytes(length) };
    let half = data.len() / 2;
    vec![
        (ours(&data, rng.range_usize(200..4000)), data.clone()),
        (members(&data, rng.range_usize(200..4000)), data.clone()),
        (foreign(&data, rng.range(0..10) as i32), data.clone()),
        (data.chunks(1000).flat_map(bgzf).chain(bgzf(b"")).collect(), data.clone()),
        ([foreign(&data[..half], 6), ours(&data[half..], 1000)].concat(), data),
    ]
}

#[test]
fn soak_flipped_bits() {
    for seed in Soak::of(150) {
        let mut rng = seed.rng();
        for (packed, data) in originals(&mut rng) {
            let mut bytes = packed.clone();
            for _ in 0..*rng.pick(&[1, 1, 1, 2, 5]) {
                let at = rng.range_usize(0..bytes.len());
                bytes[at] ^= 1 << rng.range(0..8);
            }
            sound(&data, outcome(&bytes, &mut rng), "flipped");
        }
    }
}

#[test]
fn soak_lost_added_and_overwritten_bytes() {
    for seed in Soak::of(150) {
        let mut rng = seed.rng();
        for (packed, data) in originals(&mut rng) {
            let at = rng.range_usize(0..packed.len());
            let length = rng.range_usize(1..64.min(packed.len() - at).max(1) + 1);
            let mut bytes = packed.clone();
            let what = match rng.range(0..4) {
                0 => {
                    bytes.truncate(at);
                    "truncated"
                }
                1 => {
                    bytes.drain(at..(at + length).min(packed.len()));
                    "lost"
                }
                2 => {
                    bytes.splice(at..at, rng.bytes(length));
                    "added"
                }
                _ => {
                    let end = (at + length).min(bytes.len());
                    let value = *rng.pick(&[0, 0xff, 0x1f]);
                    bytes[at..end].fill(value);
                    "overwritten"
                }
            };
            sound(&data, outcome(&bytes, &mut rng), what);
        }
    }
}

/// Complete members in any order are a valid stream; the sound bytes must come from them.
#[test]
fn soak_spliced_members() {
    for seed in Soak::of(150) {
        let mut rng = seed.rng();
        let parts: Vec<(Vec<u8>, Vec<u8>)> =
            originals(&mut rng).into_iter().chain(originals(&mut rng)).collect();
        let (one, two) = (rng.pick(&parts).clone(), rng.pick(&parts).clone());
        let cut = rng.range_usize(0..one.0.len() + 1);
        let from = rng.range_usize(0..two.0.len() + 1);
        let bytes = [&one.0[..cut], &two.0[from..]].concat();
        let (out, sound, _) = outcome(&bytes, &mut rng);
        let sound = usize::try_from(sound).unwrap_or(usize::MAX).min(out.len());
        let common = out[..sound].iter().zip(&one.1).take_while(|(a, b)| a == b).count();
        let rest = &out[common..sound];
        assert!(
            two.1.ends_with(rest)
                || one.1.starts_with(&out[..sound])
                || two.1.windows(rest.len()).any(|w| w == rest)
        );
    }
}

#[test]
fn soak_noise_behind_a_header() {
    for seed in Soak::of(300) {
        let mut rng = seed.rng();
        let length = rng.range_usize(0..3000);
        let mut bytes = rng.bytes(length);
        if rng.bool(0.9) {
            let flags = if rng.bool(0.5) { rng.range(0..32) as u8 } else { 0 };
            let header = [0x1f, 0x8b, 8, flags, 0, 0, 0, 0, 0, 3];
            bytes.splice(..0, header);
        }
        if rng.bool(0.3) {
            bytes.splice(..0, *b"\x1f\x8b\x08\x04\0\0\0\0\0\x03\x08\0IG\x04\0\xff\x02\0\0");
        }
        let (out, sound, _) = outcome(&bytes, &mut rng);
        assert!(sound == 0 || out.len() <= bytes.len() * MOST_FROM_ONE);
    }
}
