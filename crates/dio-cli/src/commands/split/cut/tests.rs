//! Compares the cutters with models that have the whole input at once.

use dio_test::{Rng, Seed};

use super::*;

/// Runs a cutter on an input in chunks of random sizes; returns the outputs with their numbers.
fn pieces(cutter: &mut dyn Cutter, input: &[u8], rng: &mut Rng) -> Vec<(u64, Vec<u8>)> {
    let mut outputs: Vec<(u64, Vec<u8>)> = Vec::new();
    let mut kept = Vec::new();
    let mut ended = None;
    let mut put = |cut: Cut, bytes: &[u8]| {
        assert!(ended.is_none_or(|ended| cut.piece > ended), "{cut:?} after {ended:?} ended");
        match outputs.iter_mut().find(|(piece, _)| *piece == cut.piece) {
            Some((_, output)) => output.extend_from_slice(bytes),
            None => outputs.push((cut.piece, bytes.to_vec())),
        }
        if cut.ends {
            ended = Some(cut.piece);
        }
    };
    let mut rest = input;
    while !rest.is_empty() {
        let mut chunk;
        (chunk, rest) =
            rest.split_at(rng.range_usize(1..rest.len() + 1).min(rng.range_usize(1..20)));
        while !chunk.is_empty() {
            let cut = cutter.cut(chunk);
            assert!(
                cut.len <= chunk.len() && (cut.len > 0 || cut.action == CutAction::PutKept),
                "{cut:?}"
            );
            let (front, behind) = chunk.split_at(cut.len);
            match cut.action {
                CutAction::Put => {
                    assert!(kept.is_empty(), "{cut:?} passes what is kept");
                    put(cut, front);
                }
                CutAction::Keep => kept.extend_from_slice(front),
                CutAction::PutKept => put(cut, &std::mem::take(&mut kept)),
                CutAction::Drop => {}
            }
            chunk = behind;
        }
    }
    if let Some(cut) = cutter.end() {
        assert_eq!(cut.action, CutAction::PutKept);
        put(cut, &std::mem::take(&mut kept));
    }
    assert!(kept.is_empty());
    outputs
}

fn lines(input: &[u8]) -> Vec<&[u8]> {
    input.split_inclusive(|byte| *byte == b'\n').collect()
}

fn numbered(outputs: impl IntoIterator<Item = Vec<u8>>) -> Vec<(u64, Vec<u8>)> {
    (0..).zip(outputs).collect()
}

fn input(rng: &mut Rng) -> Vec<u8> {
    let length = rng.range_usize(0..120);
    let often = [0.0, 0.02, 0.1, 0.3, 0.7][rng.range_usize(0..5)];
    (0..length)
        .map(|_| if rng.bool(often) { b'\n' } else { b'a' + rng.range(0..3) as u8 })
        .collect()
}

/// Runs `case` with many inputs and small numbers.
fn each_case(case: impl Fn(&[u8], u64, &mut Rng)) {
    let seed = Seed::new();
    let mut rng = seed.rng();
    for _ in 0..3000 {
        let input = input(&mut rng);
        let number = rng.range(1..25);
        case(&input, number, &mut rng);
    }
}

#[test]
fn bytes() {
    each_case(|input, each, rng| {
        let expected = numbered(input.chunks(each as usize).map(<[u8]>::to_vec));
        assert_eq!(pieces(&mut Bytes::new(each), input, rng), expected, "{each}");
    });
}

#[test]
fn whole_lines() {
    each_case(|input, each, rng| {
        let expected = numbered(lines(input).chunks(each as usize).map(|lines| lines.concat()));
        assert_eq!(pieces(&mut LineCut::new(b'\n', each), input, rng), expected, "{each}");
    });
}

#[test]
fn lines_in_turn() {
    each_case(|input, count, rng| {
        let mut expected =
            numbered(vec![Vec::new(); count.min(lines(input).len() as u64) as usize]);
        for (at, line) in lines(input).into_iter().enumerate() {
            expected[at % count as usize].1.extend_from_slice(line);
        }
        assert_eq!(pieces(&mut RoundRobin::new(b'\n', count), input, rng), expected, "{count}");
    });
}

#[test]
fn lines_within_bytes() {
    each_case(|input, each, rng| {
        let mut expected = Vec::new();
        let mut rest = input;
        while !rest.is_empty() {
            let window = rest.len().min(each as usize);
            let line_end = rest[..window].iter().rposition(|byte| *byte == b'\n');
            let taken = match line_end {
                Some(at) if window == each as usize => at + 1,
                _ => window,
            };
            expected.push(rest[..taken].to_vec());
            rest = &rest[taken..];
        }
        assert_eq!(
            pieces(&mut LineBytes::new(b'\n', each), input, rng),
            numbered(expected),
            "{input:?} {each}"
        );
    });
}

#[test]
fn shares_of_bytes() {
    each_case(|input, count, rng| {
        let shares = Shares::new(input.len() as u64, count);
        let found = pieces(&mut Chunks::new(shares, 0), input, rng);
        let each = (input.len() / count as usize).max(1);
        let mut expected = Vec::new();
        for piece in 0..count as usize {
            let start = (piece * each).min(input.len());
            let end = if piece + 1 == count as usize {
                input.len()
            } else {
                ((piece + 1) * each).min(input.len())
            };
            assert_eq!(
                (shares.start(piece as u64), shares.end(piece as u64)),
                (start as u64, end as u64)
            );
            if start < end {
                expected.push((piece as u64, input[start..end].to_vec()));
            }
        }
        assert_eq!(found, expected, "{count}");
    });
}

#[test]
fn shares_of_lines() {
    each_case(|input, count, rng| {
        let each = (input.len() as u64 / count).max(1);
        let mut expected: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut start = 0;
        for line in lines(input) {
            let piece = (start / each).min(count - 1);
            match expected.last_mut() {
                Some((last, output)) if *last == piece => output.extend_from_slice(line),
                _ => expected.push((piece, line.to_vec())),
            }
            start += line.len() as u64;
        }
        let shares = Shares::new(input.len() as u64, count);
        assert_eq!(
            pieces(&mut LineChunks::new(shares, b'\n', 0), input, rng),
            expected,
            "{input:?} {count}"
        );
    });
}

#[test]
fn what_an_input_has_grown_by_is_left_out() {
    let mut rng = Seed::new().rng();
    let shares = Shares::new(7, 2);
    let input = b"a\nb\nc\nd\ne\nf";
    let joined = |outputs: Vec<(u64, Vec<u8>)>| {
        outputs.into_iter().map(|(_, bytes)| bytes).collect::<Vec<_>>()
    };
    assert_eq!(
        joined(pieces(&mut Chunks::new(shares, 0), input, &mut rng)),
        [b"a\nb".to_vec(), b"\nc\nd".to_vec()]
    );
    let lines = joined(pieces(&mut LineChunks::new(shares, b'\n', 0), input, &mut rng));
    assert_eq!(lines, [b"a\nb\n".to_vec(), b"c\nd".to_vec()]);
}
