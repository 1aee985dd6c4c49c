//! Damage is reported with its offset, and nothing damaged passes as sound.

use dio_test::Rng;

use super::*;
use crate::codec::Damage;

fn damage(result: Result<CodecTotals, DecodeError>) -> (u64, Damage, u64) {
    match result {
        Err(DecodeError::Damaged { offset, what, sound, .. }) => (offset, what, sound),
        other => panic!("{other:?}"),
    }
}

#[test]
fn nothing_and_something_else_are_not_gzip() {
    assert_eq!(damage(decoded(b"", &Decode::default()).1), (0, Damage::UnexpectedEnd, 0));
    assert_eq!(damage(decoded(b"\x1f", &Decode::default()).1), (1, Damage::UnexpectedEnd, 0));
    assert_eq!(damage(decoded(b"a", &Decode::default()).1), (1, Damage::UnexpectedEnd, 0));
    for other in [&b"\0"[..], b"hello", b"\x1f\x8c\x08", b"\x8b\x1f"] {
        assert!(matches!(decoded(other, &Decode::default()), (out, Err(DecodeError::NotInFormat))
                if out.is_empty()));
    }
}

#[test]
fn zeros_behind_the_last_member_are_padding_and_all_else_is_garbage() {
    let data = text(3000, &mut Rng::new(1));
    for member in [
        ours(&data, 1 << 20),
        ours(&data, 1000),
        members(&data, 1000),
        foreign(&data, 6),
        bgzf(&data),
    ] {
        for padding in [1, 2, 3, 512, 200_000] {
            decodes_to(&[&member[..], &vec![0; padding]].concat(), &data);
        }
        for garbage in
            [&b"xy"[..], b"x\0", b"\0x", b"garbage", b"\0\0\0\x1f\x8b\x08\0", b"\x1f\x8c\x08\0"]
        {
            for workers in [0, 2] {
                let how = Decode { workers, ..Decode::default() };
                let (out, result) = decoded(&[&member[..], garbage].concat(), &how);
                match result {
                    Err(DecodeError::TrailingGarbage { offset, moved }) => {
                        assert_eq!(
                            (offset, moved.read),
                            (member.len() as u64, member.len() as u64)
                        );
                    }
                    other => panic!("{garbage:?}: {other:?}"),
                }
                assert!(out == data);
                let how = Decode { pass_trailing: true, ..how };
                let (out, result) = decoded(&[&member[..], garbage].concat(), &how);
                assert_eq!(result.expect("decodes").read, (member.len() + garbage.len()) as u64);
                assert!(out == [&data[..], garbage].concat());
            }
        }
        for (byte, how) in [b"x", b"\x1f"]
            .iter()
            .zip([0, 2].map(|workers| Decode { workers, ..Decode::default() }))
        {
            let with_one = [&member[..], &byte[..]].concat();
            let (out, result) = decoded(&with_one, &how);
            assert_eq!(damage(result), (with_one.len() as u64, Damage::UnexpectedEnd, 3000));
            assert!(out == data);
            let (out, result) = decoded(&with_one, &Decode { pass_trailing: true, ..how });
            assert!(out == [&data[..], &byte[..]].concat() && result.is_ok());
        }
    }
}

/// RFC 1951 section 2: a distance never points before the first byte. Some decoders read zeros
/// there.
#[test]
fn a_distance_that_leads_before_the_first_byte_is_damage() {
    // The letter a, then a match of three bytes at distance five; the check value is that of
    // `a\0\0\0`.
    let member = *b"\x1f\x8b\x08\0\0\0\0\0\0\x03\x4b\x04\x92\0\x7a\x4f\xde\xa2\x04\0\0\0";
    for behind in [0, 1000] {
        for workers in [0, 2] {
            let (out, result) = decoded(
                &[&member[..], &vec![0; behind]].concat(),
                &Decode { workers, ..Decode::default() },
            );
            let (offset, what, sound) = damage(result);
            assert!(offset < member.len() as u64 && sound <= 1 && b"a".starts_with(&out[..]));
            assert!(matches!(what, Damage::Data(_)), "{what}");
        }
    }
}

#[test]
fn an_early_end_is_found_at_every_place() {
    let data = text(4000, &mut Rng::new(2));
    for member in [
        ours(&data, 1500),
        members(&data, 1500),
        foreign(&data, 6),
        [bgzf(&data), bgzf(b"")].concat(),
    ] {
        for length in 0..member.len() {
            let workers = length % 2;
            let (out, result) =
                decoded(&member[..length], &Decode { workers, ..Decode::default() });
            if result.as_ref().is_ok_and(|moved| moved.members > 0 && moved.read == length as u64) {
                // A cut between two members cannot be detected.
                assert!(data.starts_with(&out));
                continue;
            }
            let (offset, what, sound) = damage(result);
            assert_eq!((offset, what), (length as u64, Damage::UnexpectedEnd));
            assert!(data.starts_with(&out) && sound <= out.len() as u64);
        }
    }
}

/// As gzip does, the decoder writes what an incomplete file still contains.
#[test]
fn all_that_can_be_decoded_of_an_incomplete_member_is_written() {
    let data = text(1_000_000, &mut Rng::new(3));
    for member in
        [ours(&data, 1 << 20), ours(&data, 300_000), members(&data, 1 << 20), foreign(&data, 6)]
    {
        let (out, _) = decoded(&member[..member.len() / 2], &Decode::default());
        assert!(out.len() > 400_000 && data.starts_with(&out), "{}", out.len());
        let (out, _) = decoded(&member[..member.len() - 1], &Decode::default());
        assert!(out == data);
    }
}

#[test]
fn a_trailer_that_does_not_fit_is_told_at_its_place() {
    let data = text(6000, &mut Rng::new(4));
    // A piece has a check value of its own.
    for (member, sound) in [
        (ours(&data, 2000), 6000),
        (members(&data, 2000), 4000),
        (foreign(&data, 6), 0),
        (bgzf(&data), 0),
    ] {
        let at = member.len() - 8;
        let stored = u32::from_le_bytes(member[at..at + 4].try_into().expect("four bytes"));
        let mut wrong = member.clone();
        wrong[at] ^= 0x10;
        let expected = Damage::Checksum { stored: stored ^ 0x10, computed: stored };
        assert_eq!(damage(decoded(&wrong, &Decode::default()).1), (at as u64, expected, sound));
        let mut wrong = member.clone();
        wrong[at + 4] ^= 1;
        let (offset, what, of_it) = damage(decoded(&wrong, &Decode::default()).1);
        assert!(
            matches!(what, Damage::Length { stored, computed } if stored == computed ^ 1),
            "{what:?}"
        );
        assert_eq!((offset, of_it), (at as u64, sound));
        wrong[at] ^= 1;
        let (_, what, of_it) = damage(decoded(&wrong, &Decode::default()).1);
        assert!(matches!(what, Damage::ChecksumAndLength { .. }) && of_it == sound, "{what:?}");
    }
}

#[test]
fn of_a_damaged_member_something_is_written_only_if_asked_for() {
    let data = text(300_000, &mut Rng::new(5));
    for packed in [ours(&data, 100_000), members(&data, 100_000)] {
        // The middle of the data of the second piece; all pieces have about the same size.
        let middle = packed.len() / 3 + 10_000;
        damaged_in_the_middle(packed, middle, &data);
    }
}

fn damaged_in_the_middle(mut packed: Vec<u8>, middle: usize, data: &[u8]) {
    packed[middle..middle + 40].fill(0xff);
    for workers in [0, 2] {
        let how = Decode { workers, ..Decode::default() };
        let (out, result) = decoded(&packed, &how);
        assert!(out == data[..100_000], "{}", out.len());
        let (offset, _, sound) = damage(result);
        assert_eq!(sound, 100_000);
        assert!((middle as u64..middle as u64 + 100_000).contains(&offset), "{offset}");

        let (more, result) = decoded(&packed, &Decode { keep_damaged: true, ..how });
        let (again, _, sound) = damage(result);
        assert_eq!((again, sound), (offset, 100_000));
        assert!(
            more.len() > out.len() + 10_000 && more[..110_000] == data[..110_000],
            "{}",
            more.len()
        );
    }
}

#[test]
fn headers_that_are_not_supported_are_damage_only_behind_a_member() {
    let data = text(500, &mut Rng::new(6));
    let member = foreign(&data, 6);
    for (bad, what) in [
        (&b"\x1f\x8b\x07\0\0\0\0\0\0\0"[..], "unknown method 7 -- not supported"),
        (b"\x1f\x8b\x08\x20\0\0\0\0\0\0", "has flags 0x20 -- not supported"),
    ] {
        for before in
            [&member[..], &ours(&data, 1 << 20), &ours(&data, 200), &members(&data, 200), b""]
        {
            let (out, result) = decoded(&[before, bad].concat(), &Decode::default());
            let (offset, told, sound) = damage(result);
            assert_eq!(told, Damage::Header(what.into()));
            assert_eq!((out.len() as u64, offset / 4), (sound, (before.len() as u64 + 2) / 4));
            assert_eq!(sound, if before.is_empty() { 0 } else { 500 });
        }
    }
}
