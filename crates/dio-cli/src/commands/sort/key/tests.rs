//! Properties of every order, checked with random lines and keys.

use std::cmp::Ordering;

use dio_test::{Rng, Seed};

use super::*;

/// Makes a line of pieces that matter to some kind of key.
fn line(rng: &mut Rng) -> Vec<u8> {
    let pieces: &[&[u8]] = &[
        b" ",
        b"\t",
        b":",
        b"-",
        b".",
        b"0",
        b"00",
        b"7",
        b"12",
        b"99999999999999999999",
        b"1e3",
        b"0x1F",
        b"nan",
        b"-inf",
        b"a",
        b"A",
        b"Ab",
        b"abcdefgh",
        b"~",
        b".tar",
        b"jan",
        b"Dec",
        b"K",
        b"M",
        b"\0",
        b"\x01",
        b"\xff",
        b"\xc3\xa9",
        b"_",
        b"\n",
        b"1e-4940",
        b"+3",
    ];
    (0..rng.range_usize(0..9))
        .flat_map(|_| pieces[rng.range_usize(0..pieces.len())])
        .copied()
        .collect()
}

fn kind(rng: &mut Rng) -> KeyKind {
    match rng.range(0..8) {
        0 | 1 => KeyKind::Text,
        2 => KeyKind::Numeric,
        3 => KeyKind::General,
        4 => KeyKind::Human,
        5 => KeyKind::Month,
        6 => KeyKind::Version,
        _ => KeyKind::Random(Shuffle::new([7; 16], rng.bool(0.5))),
    }
}

fn key(rng: &mut Rng) -> SortKey {
    let ignore =
        *rng.pick(&[Ignore::Nothing, Ignore::Nothing, Ignore::Nonprinting, Ignore::Nondictionary]);
    let span = Span {
        first_field: rng.bool(0.7).then(|| rng.range_usize(0..4)),
        first_byte: if rng.bool(0.3) { rng.range_usize(0..3) } else { 0 },
        skip_first: rng.bool(0.3),
        last_field: rng.bool(0.6).then(|| rng.range_usize(0..4)),
        last_byte: if rng.bool(0.3) { rng.range_usize(0..4) } else { 0 },
        skip_last: rng.bool(0.3),
    };
    SortKey {
        span,
        kind: kind(rng),
        view: View { ignore, fold: rng.bool(0.3) },
        reverse: rng.bool(0.3),
    }
}

fn order(rng: &mut Rng) -> Order {
    let keys: Vec<SortKey> = (0..rng.range(0..4)).map(|_| key(rng)).collect();
    let separator = if rng.bool(0.5) { Separator::Blanks } else { Separator::Byte(b':') };
    Order::by_keys(keys, separator, rng.bool(0.5), rng.bool(0.5))
}

#[test]
fn orders_are_orders_and_prefixes_agree_with_them() {
    let seed = Seed::new();
    let mut rng = seed.rng();
    for _ in 0..3000 {
        let order = order(&mut rng);
        let lines: Vec<Vec<u8>> = (0..12).map(|_| line(&mut rng)).collect();
        for a in &lines {
            assert_eq!(order.compare(a, a), Ordering::Equal, "{seed:?} {order:?} {a:?}");
            for b in &lines {
                let found = order.compare(a, b);
                let told =
                    || format!("{seed:?} {order:?}\n{}\n{}", a.escape_ascii(), b.escape_ascii());
                assert_eq!(found, order.compare(b, a).reverse(), "{}", told());
                match order.prefix(a).cmp(&order.prefix(b)) {
                    Ordering::Equal => assert_eq!(found, order.compare_rest(a, b), "{}", told()),
                    unequal => assert_eq!(found, unequal, "{}", told()),
                }
                // Without a last resort, lines are the same if and only if they compare equal.
                assert!(!order.same(a, b) || found.is_eq() || order.last_resort, "{}", told());
                assert!(order.same(a, b) || found.is_ne(), "{}", told());
                for c in &lines {
                    let through = found.is_le() && order.compare(b, c).is_le();
                    assert!(
                        !through || order.compare(a, c).is_le(),
                        "{}\n{}",
                        told(),
                        c.escape_ascii()
                    );
                }
            }
        }
    }
}

#[test]
fn a_prefix_reaches_into_later_keys_and_the_line() {
    let text = |field| Span {
        first_field: Some(field),
        first_byte: 0,
        skip_first: false,
        last_field: Some(field),
        last_byte: 0,
        skip_last: false,
    };
    let key =
        |field, kind| SortKey { span: text(field), kind, view: View::default(), reverse: false };
    let keys = vec![key(1, KeyKind::Text), key(0, KeyKind::Numeric)];
    let order = Order::by_keys(keys, Separator::Byte(b','), false, false);
    assert!(order.prefix(b"12,ab,x") < order.prefix(b"13,ab,a"));
    assert!(
        order.prefix(b"12,ab,x") > order.prefix(b"12,ab,a")
            || order.prefix(b"12,ab,x") == order.prefix(b"12,ab,a")
    );
    assert!(
        order.prefix(b"1,a,x") > order.prefix(b"1,a")
            && order.prefix(b"7,a") < order.prefix(b"7,b")
    );
    assert_eq!(Order::bytes(true).is_bytes(), Some(true));
    assert_eq!(order.is_bytes(), None);
}
