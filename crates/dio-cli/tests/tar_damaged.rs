//! The reader of tar headers on archives that are damaged or hostile, and on files that are no
//! archives.

use std::fs;
use std::io::Cursor;

use crate::tar_support::{read, read_headers, shell};
use dio_cli::commands::tar::format::{ArchiveEntry, Entries, Format, FormatError, encode, padding};
use dio_test::{Seed, file_systems};

/// An archive with one entry behind hand-made blocks.
fn with_extension(typeflag: u8, content: &[u8]) -> Vec<u8> {
    let mut archive = extension(typeflag, content.len() as u64);
    archive.extend_from_slice(content);
    archive.resize(archive.len() + padding(content.len() as u64), 0);
    archive.extend(
        encode(&ArchiveEntry { path: b"f".to_vec(), ..ArchiveEntry::default() }, Format::Ustar)
            .unwrap(),
    );
    archive.resize(archive.len() + 1024, 0);
    archive
}

/// The header of an extension that claims to have `size` bytes.
fn extension(typeflag: u8, size: u64) -> Vec<u8> {
    let entry = ArchiveEntry { path: b"ext".to_vec(), size, ..ArchiveEntry::default() };
    let mut block = encode(&entry, Format::Gnu).unwrap();
    block[156] = typeflag;
    seal(&mut block);
    block
}

fn seal(block: &mut [u8]) {
    block[148..156].fill(b' ');
    let sum: u32 = block[..512].iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

#[test]
fn hostile_headers_are_refused() {
    let record = |text: &str| {
        let mut length = text.len() + 3;
        length = text.len() + 2 + length.to_string().len();
        format!("{length} {text}\n")
    };
    let sparse = |map: &str, size: u64| {
        with_extension(
            b'x',
            (record(&format!("GNU.sparse.map={map}"))
                + &record(&format!("GNU.sparse.size={size}")))
                .as_bytes(),
        )
    };
    let damaged: [(&str, Vec<u8>); 7] = [
        ("a gigabyte of headers", extension(b'x', 1 << 30)),
        ("a long name of an exabyte", extension(b'L', i64::MAX as u64)),
        ("a size without end", with_extension(b'x', record("size=9223372036854775000").as_bytes())),
        ("overlapping extents", sparse("0,10,5,10", 100)),
        ("extents beyond the end", sparse("0,10", 5)),
        ("extents that overflow", sparse("18446744073709551615,10", 5)),
        ("data that is not there", sparse("0,10", 100)),
    ];
    for (what, archive) in damaged {
        let (members, _, error) = read(&archive);
        assert!(members.is_empty(), "{what}");
        assert!(matches!(error, Some(FormatError::Damaged { .. })), "{what}: {error:?}");
    }
    let many: Vec<u8> = (0..140_000).flat_map(|_| extension(b'x', 0)).collect();
    assert!(matches!(read(&many).2, Some(FormatError::Damaged { .. })), "headers upon headers");
    for (what, archive) in [
        ("half a header", &with_extension(b'x', b"")[..700]),
        ("a header that is not there", &with_extension(b'x', b"")[..512]),
        ("half an extension", &with_extension(b'x', &[b' '; 2000])[..1024]),
    ] {
        assert!(matches!(read(archive).2, Some(FormatError::Truncated { .. })), "{what}");
    }
    // Invalid records of a header are reported, and the entry is still there.
    for text in ["size=-1", "uid=x", "mtime=yesterday", "SCHILY.realsize=5"] {
        let (members, notices, error) = read(&with_extension(b'x', record(text).as_bytes()));
        assert!(error.is_none(), "{text}: {error:?}");
        assert_eq!((members.len(), notices.len()), (1, 1), "{text}: {notices:?}");
    }
    let (members, _, _) = read(&with_extension(b'x', record("path=a\0b").as_bytes()));
    assert_eq!(members[0].entry.path, b"a");
    let (members, _, _) = read(&with_extension(b'L', b"long\0er"));
    assert_eq!(members[0].entry.path, b"long");
}

#[test]
fn what_is_no_archive_is_told_as_gnu_does() {
    let words = |archive: &[u8]| {
        let (members, notices, _) = read(archive);
        (members.len(), notices.into_iter().map(|notice| notice.text).collect::<Vec<_>>())
    };
    let nonsense =
        ["This does not look like a tar archive".to_owned(), "Skipping to next header".to_owned()];
    assert_eq!(words(&[]), (0, nonsense[..1].to_vec()));
    assert_eq!(words(b"x"), (0, nonsense[..1].to_vec()));
    assert_eq!(words(&[b'x'; 10_240]), (0, nonsense.to_vec()));
    let sound = with_extension(b'x', b"");
    assert_eq!(words(&[&[b'x'; 1024][..], &sound].concat()), (1, nonsense.to_vec()));
    let torn = [&sound[..sound.len() - 1024], &[b'x'; 1024], &sound].concat();
    assert_eq!(words(&torn), (2, vec![nonsense[1].clone()]));
    assert_eq!(words(&sound[..sound.len() - 512]), (1, vec!["A lone zero block at 3".to_owned()]));
    assert_eq!(words(&sound[..sound.len() - 1024]), (1, vec![]));
    let two = [&sound[..], &sound].concat();
    assert_eq!(read_headers(&two).len(), 1);
    let mut all = Entries::new(Cursor::new(&two)).ignoring_zeros(true);
    assert_eq!(std::iter::from_fn(|| all.next_entry().unwrap()).count(), 2);
}

#[test]
fn damaged_archives_never_harm_the_reader() {
    let seed = Seed::new();
    let mut rng = seed.stream(3);
    let fs = &file_systems()[0];
    let dir = fs.dir();
    fs::create_dir(dir.path().join("t")).unwrap();
    let tree = dir.path().join("t");
    fs::write(tree.join("n".repeat(150)), rng.bytes(700)).unwrap();
    std::os::unix::fs::symlink("s".repeat(150), tree.join("link")).unwrap();
    let file = fs::File::create(tree.join("holes")).unwrap();
    for n in 0..30 {
        std::os::unix::fs::FileExt::write_all_at(&file, b"data", n * 8192).unwrap();
    }
    let archives: Vec<Vec<u8>> = [
        "--format=gnu -S",
        "--format=pax -S",
        "--format=pax -S --sparse-version=0.0",
        "--format=pax -S --sparse-version=0.1",
        "--format=ustar t/link --exclude=t/n*",
    ]
    .iter()
    .map(|options| {
        shell(dir.path(), &format!("tar {options} -b1 -cf - t 2>/dev/null || [ $? = 2 ]"))
    })
    .collect();
    let pieces: [&[u8]; 8] = [
        b"\xff\xff\xff\xff",
        b"99999999999",
        b"\n",
        b"GNU.sparse.",
        b"\x80\0\0\0",
        b"size=",
        b"0,",
        b"77777777777",
    ];
    for _ in 0..3000 {
        let mut archive = rng.pick(&archives).clone();
        for _ in 0..rng.range(1..6) {
            let at = rng.range_usize(0..archive.len());
            match rng.range(0..5) {
                0 => archive[at] = rng.range(0..256) as u8,
                1 => archive[at] ^= 1 << rng.range(0..8),
                2 => archive.truncate(at.max(1)),
                3 => {
                    let piece = rng.pick(&pieces);
                    let end = (at + piece.len()).min(archive.len());
                    archive[at..end].copy_from_slice(&piece[..end - at]);
                }
                _ => {
                    let block = at / 512 * 512;
                    let copy = archive[block..(block + 512).min(archive.len())].to_vec();
                    archive.splice(block..block, copy);
                }
            }
        }
        // With correct checksums the damage passes the first check.
        if rng.bool(0.8) {
            for block in archive.chunks_exact_mut(512).filter(|block| block[257..262] == *b"ustar")
            {
                seal(block);
            }
        }
        read_with_bounds(&archive);
    }
}

/// Reads everything, and checks that there are no more entries and no more data than the archive
/// has room for.
fn read_with_bounds(archive: &[u8]) {
    let mut entries = Entries::new(Cursor::new(archive));
    let (mut count, mut data) = (0, 0);
    let mut buffer = [0; 4096];
    while let Ok(Some(entry)) = entries.next_entry() {
        count += 1;
        assert!(!entry.path.contains(&0) && !entry.link.contains(&0));
        assert!(entry.mode <= 0o7777 && entry.mtime.nanos < 1_000_000_000);
        if let Some(map) = &entry.sparse {
            assert_eq!(map.iter().map(|(_, length)| length).sum::<u64>(), entry.stored);
            assert!(map.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
            assert!(map.last().is_none_or(|(offset, length)| offset + length <= entry.size));
        }
        // Holes may have any size, so only a part of them is read.
        for _ in 0..4 {
            if entries.read_content(&mut buffer).unwrap_or(0) == 0 {
                break;
            }
        }
        while let Ok(read @ 1..) = entries.read_stored(&mut buffer) {
            data += read;
        }
    }
    assert!(count <= archive.len() / 512 && data <= archive.len());
    assert!(entries.next_entry().unwrap().is_none(), "nothing comes after the end");
}
