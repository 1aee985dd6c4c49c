use super::parts::whole;
use super::*;

fn of(algorithm: Algorithm, bytes: &[u8]) -> String {
    whole(algorithm.into(), bytes).digits()
}

/// The vectors of the standards: RFC 1321, FIPS 180-4, RFC 7693, GB/T 32905, the catalogue of
/// parametrised CRCs (check value over "123456789"), the reference implementations of BLAKE3 and
/// xxHash.
#[test]
fn published_vectors() {
    for (algorithm, input, expected) in [
        (Algorithm::Md5, "abc", "900150983cd24fb0d6963f7d28e17f72"),
        (Algorithm::Md5, "", "d41d8cd98f00b204e9800998ecf8427e"),
        (Algorithm::Sha1, "abc", "a9993e364706816aba3e25717850c26c9cd0d89d"),
        (Algorithm::Sha224, "abc", "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7"),
        (
            Algorithm::Sha256,
            "abc",
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        ),
        (
            Algorithm::Sha384,
            "abc",
            "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7",
        ),
        (Algorithm::Sm3, "abc", "66c7f0f462eeedd9d1f2d46bdc10e4e24167c4875cf2f7a2297da02b8f4ba8e0"),
        (Algorithm::Blake3, "", "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"),
        (Algorithm::Crc32b, "123456789", "cbf43926"),
        (Algorithm::Crc32c, "123456789", "e3069283"),
        (Algorithm::Crc, "", "ffffffff"),
        (Algorithm::Xxh3, "", "2d06800538d394c2"),
    ] {
        assert_eq!(of(algorithm, input.as_bytes()), expected, "{algorithm:?} of {input:?}");
    }
    assert_eq!(
        of(Algorithm::Blake2b, b"abc"),
        "ba80a53f981c4d0d6a2797b69f12f6e94c212f14685ac4b74b12bb6fdbffa2d1\
         7d87c5392aab792dc252d5de4533cc9518d38aa8dbf1925ab92386edd4009923"
    );
    assert_eq!(
        of(Algorithm::Sha512, b"abc"),
        "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
         2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"
    );
}

#[test]
fn pieces_come_to_the_same_as_the_whole() {
    let bytes: Vec<u8> = (0u32..5000).map(|i| ((i * i) >> 3) as u8).collect();
    for algorithm in Algorithm::ALL {
        for piece in [1, 63, 64, 65, 127, 1000, 4999] {
            let mut hasher = Hasher::new(algorithm.into());
            bytes.chunks(piece).for_each(|piece| hasher.update(piece));
            let sum = hasher.finish();
            assert_eq!(sum, whole(algorithm.into(), &bytes), "{algorithm:?} by {piece}");
            assert_eq!(sum.bytes.len(), algorithm.bytes(), "{algorithm:?}");
            assert_eq!(sum.length, 5000);
        }
    }
}

#[test]
fn parts_joined_in_order_come_to_the_same_as_the_whole() {
    let bytes: Vec<u8> =
        (0u32..300_000).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let long = DigestKind { algorithm: Algorithm::Blake3, bytes: 131 };
    for kind in Algorithm::ALL
        .map(DigestKind::from)
        .into_iter()
        .chain([long])
        .filter(|kind| kind.in_parts())
    {
        for length in [1025, 2048, 2049, 4096, 65536, 65537, 70_000, 131_072, 262_144, 300_000] {
            // Parts of one length; of several lengths, as while a window grows; and of lengths that
            // are not powers of two.
            for sizes in [&[1024][..], &[65536], &[1024, 4096, 65536], &[3072], &[5120, 1024]] {
                let mut joiner = Joiner::new(kind);
                let (mut at, mut sizes) = (0, sizes.iter().cycle());
                while at < length {
                    let end = (at + sizes.next().unwrap()).min(length);
                    let part = part(kind, &bytes[at..end], at as u64).unwrap();
                    joiner.push(part, (end - at) as u64);
                    at = end;
                }
                match joiner.finish() {
                    Some(sum) => {
                        assert_eq!(sum, whole(kind, &bytes[..length]), "{kind:?} {length}")
                    }
                    None => {
                        assert!(length <= 65536 && length.is_power_of_two(), "{kind:?} {length}")
                    }
                }
            }
        }
    }
}

#[test]
fn parts_are_joined_to_larger_parts_and_read_again() {
    const PIECE: usize = 65536;
    let bytes: Vec<u8> =
        (0u32..300_000).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for kind in Algorithm::ALL.map(DigestKind::from).into_iter().filter(|kind| kind.in_parts()) {
        for length in [PIECE + 1, 2 * PIECE, 3 * PIECE + 1024, 300_000] {
            let mut whole_of_pieces = Joiner::new(kind);
            for (number, piece) in bytes[..length].chunks(PIECE).enumerate() {
                let mut joiner = Joiner::new(kind);
                for (at, block) in piece.chunks(3072).enumerate() {
                    let offset = (number * PIECE + at * 3072) as u64;
                    joiner.push(part(kind, block, offset).unwrap(), block.len() as u64);
                }
                let written = joiner.into_part().to_bytes();
                assert!(written.len() <= 40 * 17, "{kind:?}: {}", written.len());
                let read = DigestPart::from_bytes(kind, &written).unwrap();
                assert_eq!(read.to_bytes(), written);
                whole_of_pieces.push(read, piece.len() as u64);
            }
            let sum = whole_of_pieces.finish().unwrap();
            assert_eq!(sum, whole(kind, &bytes[..length]), "{kind:?} {length}");
        }
        assert!(DigestPart::from_bytes(kind, b"odd").is_none());
    }
}

#[test]
fn a_tree_is_cut_between_chunks_only() {
    assert!(part(Algorithm::Blake3.into(), b"x", 1000).is_none());
    assert!(part(Algorithm::Blake3.into(), b"x", 2048).is_some());
    assert!(part(Algorithm::Crc32c.into(), b"x", 1000).is_some());
}

#[test]
fn nothing_and_one_subtree_are_no_tree() {
    let kind = DigestKind::from(Algorithm::Blake3);
    assert!(Joiner::new(kind).finish().is_none());
    let mut joiner = Joiner::new(kind);
    joiner.push(part(kind, &[7; 1024], 0).unwrap(), 1024);
    assert!(joiner.finish().is_none());
    for kind in [Algorithm::Crc, Algorithm::Crc32b, Algorithm::Crc32c, Algorithm::Sysv]
        .map(DigestKind::from)
    {
        assert_eq!(Joiner::new(kind).finish(), Some(whole(kind, b"")), "{kind:?}");
    }
}

#[test]
fn the_length_is_part_of_posix_crc() {
    assert_ne!(of(Algorithm::Crc, &[0; 255]), of(Algorithm::Crc, &[0; 256]));
}

#[test]
fn lengths_of_blake2b() {
    for bytes in [1, 20, 32, 63, 64] {
        let kind = DigestKind { algorithm: Algorithm::Blake2b, bytes };
        assert_eq!(whole(kind, b"abc").bytes.len(), bytes);
    }
}

#[test]
fn names_are_unique_and_found() {
    for algorithm in Algorithm::ALL {
        assert_eq!(Algorithm::named(algorithm.name()), Some(algorithm));
    }
    assert_eq!(Algorithm::named("sha"), None);
}
