//! Decoding returns what was encoded.

use std::io::{self, BufRead, Cursor, Read};
use std::sync::mpsc::channel;
use std::time::Duration;

use dio_test::{Rng, Seed};

use super::super::encode::PIECE;
use super::super::feed::Feed;
use super::super::header::{self, TRAILER_LEN};
use super::*;
use crate::codec::gzip::encode;
use crate::codec::{Damage, EncodeError};

#[test]
fn every_size_level_and_number_of_workers() {
    let seed = Seed::new();
    let mut rng = seed.rng();
    for size in [0, 1, 2, 70_000, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 17] {
        let data = text(size, &mut rng);
        let levels: &[u8] = match size {
            0..=70_000 => &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 200],
            PIECE => &[0, 6],
            _ => &[1],
        };
        for (&level, members) in levels.iter().flat_map(|level| [(level, false), (level, true)]) {
            let mut first = Vec::new();
            encode(&mut &*data, &mut first, &Encode { level, members, ..Encode::default() })
                .expect("encodes");
            let mut second = Vec::new();
            let how = Encode { level, members, workers: 3, ..Encode::default() };
            let moved = encode(&mut Cursor::new(&data), &mut second, &how).expect("encodes");
            let expected = if members { size.div_ceil(PIECE).max(1) } else { 1 };
            assert_eq!((moved.read, moved.members), (size as u64, expected as u64));
            assert!(first == second, "the number of workers changes the output");
            let (out, result) = decoded(&first, &Decode { workers: 2, ..Decode::default() });
            let back = result.expect("decodes");
            assert_eq!((back.members, back.check), (moved.members, moved.check));
            assert!(out == data, "{size} bytes at level {level}");
        }
    }
}

#[test]
fn levels_make_a_difference_and_noise_hardly_grows() {
    let mut rng = Rng::new(5);
    let data = text(500_000, &mut rng);
    let size = |data: &[u8], level| {
        let mut out = Vec::new();
        encode(&mut &*data, &mut out, &Encode { level, ..Encode::default() }).expect("encodes");
        out.len()
    };
    let (stored, fast, usual, best) =
        (size(&data, 0), size(&data, 1), size(&data, 6), size(&data, 12));
    let sizes = (stored, fast, usual, best);
    assert!(
        stored > data.len() && fast < stored / 2 && usual < stored / 2 && best < usual.min(fast),
        "{sizes:?}"
    );
    let noise = rng.bytes(PIECE);
    assert!(size(&noise, 6) < PIECE + PIECE / 1000);
}

#[test]
fn members_can_be_found_by_their_headers() {
    let data = text(10_000, &mut Rng::new(1));
    let mut out = Vec::new();
    let how = Encode { name: Some(b"a name"), mtime: Some(77), members: true, ..Encode::default() };
    let moved = encode_pieces(&mut &*data, &mut out, &how, 1000).expect("encodes");
    assert_eq!(moved.members, 10);
    let mut at = 0;
    for number in 0..10 {
        let mut rest = &out[at..];
        let header = header::read(&mut Feed::new(&mut rest)).expect("a header");
        let first = number == 0;
        assert_eq!(header.name.as_deref(), first.then_some(&b"a name"[..]));
        assert_eq!(header.mtime, first.then_some(77));
        at += header.size.expect("a size") as usize;
    }
    assert_eq!(at, out.len());
    let (_, result) = decoded(&out, &Decode::default());
    let moved = result.expect("decodes");
    assert_eq!(
        (moved.name.as_deref(), moved.mtime, moved.read),
        (Some(&b"a name"[..]), Some(77), out.len() as u64)
    );
}

#[test]
fn members_of_all_kinds_one_after_the_other() {
    let seed = Seed::new();
    let mut rng = seed.rng();
    for _ in 0..30 {
        let (mut compressed, mut data) = (Vec::new(), Vec::new());
        for _ in 0..rng.range(1..12) {
            let size = *rng.pick(&[0, 1, 300, 5000, 50_000]);
            let part = if rng.bool(0.8) { text(size, &mut rng) } else { rng.bytes(size) };
            let member = match rng.range(0..6) {
                0 => ours(&part, 2000),
                5 => members(&part, 2000),
                1 => bgzf(&part),
                2 => foreign(&part, 0),
                _ => foreign(&part, rng.range(1..10) as i32),
            };
            compressed.extend(member);
            data.extend(part);
        }
        compressed.extend(vec![0; rng.range_usize(0..3) * 700]);
        decodes_to(&compressed, &data);
    }
}

#[test]
fn members_that_are_there_at_once_hide_no_others_and_no_damage() {
    let mut rng = Rng::new(12);
    for size in [0, 1, 300, 20_000] {
        let [one, other] = [(); 2].map(|()| text(size, &mut rng));
        for (first, second) in [(&one, &other), (&one, &one), (&other, &one)] {
            decodes_to(
                &[foreign(first, 6), foreign(second, 9)].concat(),
                &[&first[..], second].concat(),
            );
        }
        let packed = foreign(&one, 6);
        // Bytes behind a member that look like its trailer, and a trailer that does not match its
        // data.
        for behind in [&packed[packed.len() - TRAILER_LEN..], &packed[packed.len() - 4..]] {
            let (out, result) = decoded(&[&packed[..], b"x", behind].concat(), &Decode::default());
            assert!(matches!(result, Err(DecodeError::TrailingGarbage { .. })), "{result:?}");
            assert!(out == one);
        }
        let wrong =
            [&packed[..packed.len() - TRAILER_LEN], &trailer(b"something else")[..]].concat();
        let (_, result) = decoded(&wrong, &Decode::default());
        assert!(
            matches!(
                result,
                Err(DecodeError::Damaged { what: Damage::ChecksumAndLength { .. }, .. })
            ),
            "{result:?}"
        );
    }
}

#[test]
fn a_large_foreign_member_and_one_that_expands_enormously() {
    let mut rng = Rng::new(2);
    let data = text(3_000_000, &mut rng);
    decodes_to(&foreign(&data, 6), &data);
    let zeros = vec![0; 20_000_000];
    let member = foreign(&zeros, 9);
    assert!(member.len() < 30_000);
    decodes_to(&member, &zeros);
}

#[test]
fn optional_parts_of_the_header() {
    let data = text(5000, &mut Rng::new(3));
    let mut member =
        b"\x1f\x8b\x08\x1f\x01\x02\x03\x04\x02\x03\x05\0XY\x01\0zname\0a comment\0".to_vec();
    let crc = libdeflater::crc32(&member) as u16;
    member.extend(crc.to_le_bytes());
    member.extend(deflated(&data, 6));
    member.extend(trailer(&data));
    decodes_to(&member, &data);
    let moved = decoded(&member, &Decode::default()).1.expect("decodes");
    assert_eq!((moved.name.as_deref(), moved.mtime), (Some(&b"name"[..]), Some(0x0403_0201)));
}

/// A size in the header is only a hint; the data decides.
#[test]
fn sizes_that_are_not_true_do_no_harm() {
    let mut rng = Rng::new(4);
    let (a, b) = (text(3000, &mut rng), text(4000, &mut rng));
    let (one, two) = (members(&a, 1 << 20), members(&b, 1 << 20));
    let both = [a.clone(), b].concat();
    let lie = |size: usize| {
        let mut first = one.clone();
        first[16..20].copy_from_slice(&(size as u32).to_le_bytes());
        first
    };
    for size in [
        0,
        1,
        20,
        27,
        29,
        one.len() - 1,
        one.len() + 1,
        one.len() + 5,
        1_000_000,
        u32::MAX as usize,
    ] {
        decodes_to(&[lie(size), two.clone()].concat(), &both);
        decodes_to(&lie(size), &a);
    }
    // The same member twice under one size: the end looks right, but the first member ends earlier.
    let twice = [lie(2 * one.len()), one.clone(), two.clone()].concat();
    let (out, result) = decoded(&twice, &Decode { workers: 1, ..Decode::default() });
    match result {
        Err(DecodeError::Damaged { what: Damage::Header(_), sound: 0, .. }) => {
            assert!(out.is_empty())
        }
        other => panic!("{other:?}"),
    }
}

/// A size that also covers the next member, which has the same length and other contents. It must
/// be detected.
#[test]
fn a_size_that_hides_a_member_is_found_out() {
    let mut rng = Rng::new(6);
    let (a, b) = (text(3000, &mut rng), text(3000, &mut rng));
    let (mut one, two) = (members(&a, 1 << 20), members(&b, 1 << 20));
    let size = (one.len() + two.len()) as u32;
    one[16..20].copy_from_slice(&size.to_le_bytes());
    let (out, result) = decoded(&[one, two].concat(), &Decode { workers: 1, ..Decode::default() });
    match result {
        Err(DecodeError::Damaged { what: Damage::Header(_), sound: 0, .. }) => {
            assert!(out.is_empty())
        }
        other => panic!("{other:?}"),
    }
}

/// Every member has a size that is too large. What was read ahead for one must not be read again
/// for each.
#[test]
fn many_sizes_that_are_not_true_cost_little() {
    let mut one = members(b"x", 1 << 20);
    one[16..20].copy_from_slice(&1_000_000u32.to_le_bytes());
    let all = one.repeat(60_000);
    let start = std::time::Instant::now();
    decodes_to(&all, &b"x".repeat(60_000));
    // Reading a million bytes for each member took minutes.
    assert!(start.elapsed() < std::time::Duration::from_secs(20), "{:?}", start.elapsed());
}

/// Available input is decoded before waiting for more.
#[test]
fn a_slow_input_gives_what_it_has() {
    struct Slow(std::sync::mpsc::Receiver<Vec<u8>>, Vec<u8>);
    impl Read for Slow {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("not used"))
        }
    }
    impl BufRead for Slow {
        fn fill_buf(&mut self) -> io::Result<&[u8]> {
            if self.1.is_empty() {
                self.1 = self.0.recv().unwrap_or_default();
            }
            Ok(&self.1)
        }
        fn consume(&mut self, count: usize) {
            self.1.drain(..count);
        }
    }
    struct Told(std::sync::mpsc::Sender<Vec<u8>>);
    impl Write for Told {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.send(bytes.to_vec()).map_err(io::Error::other)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let stored = b"\x1f\x8b\x08\0\0\0\0\0\0\x03\x00\x05\x00\xfa\xffhello";
    let rest = [&b"\x01\x00\x00\xff\xff"[..], &trailer(b"hello")].concat();
    let ((give, input), (tell, told)) = (channel(), channel());
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            let how = Decode { workers: 1, ..Decode::default() };
            decode(&mut Slow(input, Vec::new()), &mut Told(tell), &how)
        });
        give.send(stored.to_vec()).expect("it reads");
        let mut seen = Vec::new();
        while seen.len() < 5 {
            seen.extend(
                told.recv_timeout(Duration::from_secs(60)).expect("what is there comes out"),
            );
        }
        assert_eq!(seen, b"hello");
        give.send(rest).expect("it reads");
        drop(give);
        assert_eq!(thread.join().expect("no panic").expect("decodes").written, 5);
    });
}

#[test]
fn errors_of_either_side_are_told_apart_and_a_stop_is_heard() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::HostUnreachable.into())
        }
    }
    let data = text(50_000, &mut Rng::new(6));
    let packed = foreign(&data, 6);
    for workers in [0, 2] {
        let how = Encode { workers, ..Encode::default() };
        let mut input = (&data[..]).chain(Broken);
        assert!(matches!(encode(&mut input, &mut Vec::new(), &how), Err(EncodeError::Read(_))));
        assert!(matches!(encode(&mut &data[..], &mut Full(100), &how), Err(EncodeError::Write(_))));
        let stopped = Encode { stop: Some(&|| true), ..how };
        assert!(matches!(
            encode(&mut &data[..], &mut Vec::new(), &stopped),
            Err(EncodeError::Stopped)
        ));

        let how = Decode { workers, ..Decode::default() };
        let mut input = io::BufReader::new((&packed[..1000]).chain(Broken));
        assert!(matches!(decode(&mut input, &mut Vec::new(), &how), Err(DecodeError::Read(_))));
        assert!(matches!(
            decode(&mut &packed[..], &mut Full(100), &how),
            Err(DecodeError::Write(_))
        ));
        let stopped = Decode { stop: Some(&|| true), ..how };
        assert!(matches!(
            decode(&mut &packed[..], &mut Vec::new(), &stopped),
            Err(DecodeError::Stopped)
        ));
    }
}

/// A writer that is killed between two writes must not leave a file that looks complete.
#[test]
fn no_write_ends_with_a_member_but_the_last() {
    struct Prefixes(Vec<u8>, Vec<usize>);
    impl Write for Prefixes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.extend_from_slice(bytes);
            self.1.push(self.0.len());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let data = text(9000, &mut Rng::new(7));
    for members in [false, true] {
        let mut output = Prefixes(Vec::new(), Vec::new());
        let how = Encode { members, ..Encode::default() };
        encode_pieces(&mut &data[..], &mut output, &how, 1000).expect("encodes");
        let Prefixes(bytes, mut ends) = output;
        assert_eq!(ends.pop(), Some(bytes.len()));
        let last = ends.pop().expect("several writes");
        assert_eq!(last, bytes.len() - 8);
        for end in ends.into_iter().chain([last]) {
            let (_, result) = decoded(&bytes[..end], &Decode::default());
            match result {
                Err(DecodeError::Damaged { what: Damage::UnexpectedEnd, offset, .. }) => {
                    assert_eq!(offset, end as u64)
                }
                other => panic!("{end}: {other:?}"),
            }
        }
    }
}
