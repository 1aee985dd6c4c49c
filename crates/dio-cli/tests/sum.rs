//! Digests, and the messages about them, equal those of the system's tools and of the standards,
//! for every size and kind of input.

use crate::sums::{Place, noise};

const FAMILY: [&str; 7] =
    ["md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum", "b2sum"];

/// Sizes around the boundaries of digest blocks, device blocks and requests.
const SIZES: [usize; 14] = [
    0,
    1,
    55,
    56,
    64,
    4095,
    4096,
    65_535,
    65_537,
    (1 << 20) - 1,
    1 << 20,
    (1 << 20) + 1,
    5 << 20,
    (5 << 20) + 4097,
];

fn sizes() -> (Place, String) {
    let place = Place::new();
    let bytes = noise(SIZES[SIZES.len() - 1]);
    for size in SIZES {
        place.write(format!("f{size}"), &bytes[..size]);
    }
    (place, SIZES.map(|size| format!("f{size}")).join(" "))
}

#[test]
fn every_digest_of_every_size_is_the_systems() {
    let (place, files) = sizes();
    for command in FAMILY {
        place.same(&format!("{command} {files}"));
    }
    for algorithm in ["sm3", "crc", "bsd", "sysv", "blake2b", "md5"] {
        place.same(&format!("cksum -a {algorithm} {files}"));
    }
    place.same(&format!("sum {files}"));
    place.same(&format!("sum -s {files}"));
    place.same(&format!("b2sum -l 104 {files}"));
}

/// Digests for which no tool is installed: zlib's `crc32` is compared with the trailer of `gzip`,
/// the other digests with their known values.
#[test]
fn digests_without_a_tool_of_the_system() {
    let (place, _) = sizes();
    for size in [1, 4096, 5 << 20] {
        let mut gzip = std::process::Command::new("gzip");
        let zipped = gzip
            .args(["-c", &format!("f{size}")])
            .current_dir(place.path())
            .output()
            .unwrap()
            .stdout;
        let crc: [u8; 4] = zipped[zipped.len() - 8..zipped.len() - 4].try_into().unwrap();
        let crc = u32::from_le_bytes(crc);
        assert_eq!(
            place.dio(&format!("sum -a crc32b f{size}")).text(),
            format!("{crc} {size} f{size}\n")
        );
        let bytes = std::fs::read(place.path().join(format!("f{size}"))).unwrap();
        let blake3 = blake3::hash(&bytes).to_hex();
        assert_eq!(
            place.own("b3sum", &[format!("f{size}").into()], b"").text(),
            format!("{blake3}  f{size}\n")
        );
    }
    place.write("check", "123456789").write("empty", "");
    assert_eq!(place.dio("sum -a crc32c check").text(), "CRC32C (check) = e3069283\n");
    assert_eq!(place.dio("sum -a xxh3 --untagged empty").text(), "2d06800538d394c2  empty\n");
    assert_eq!(
        place.dio("b3sum -l 8 empty").text(),
        "af1349b9f5f9a1a6  empty\n",
        "the length of b3sum is in bytes, as the reference tool's"
    );
}

/// A large file takes another path through the program than a pipe does, or than several digests
/// together do.
#[test]
fn every_way_comes_to_the_same() {
    let place = Place::new();
    for size in [5 << 20, 8 << 20, (9 << 20) + 12_345] {
        let bytes = noise(size);
        place.write("f", &bytes);
        for algorithm in
            ["blake3", "crc", "crc32b", "crc32c", "sysv", "bsd", "xxh3", "md5", "sha256"]
        {
            let args = |block: &str| ["-a", algorithm, "--block", block].map(Into::into).to_vec();
            let piped = place.own("sum", &args("1M"), &bytes);
            let piped =
                piped.text().split([' ', '\n']).find(|word| word.len() > 3 || algorithm.len() == 4);
            for line in [
                format!("sum -a {algorithm} f"),
                format!("sum -a {algorithm} --block 4K f"),
                format!("sum -a {algorithm} --block 12K f"),
                format!("sum -a {algorithm} --mode cached f"),
                format!("sum -a {algorithm},sha1 f"),
            ] {
                let seen = place.dio(&line);
                let digest = piped.unwrap();
                assert!(seen.text().contains(digest), "{line} of {size}: {seen:?}, not {digest}");
            }
        }
    }
}

#[test]
fn many_digests_are_made_in_one_read() {
    let (place, _) = sizes();
    let alone: String = ["md5", "sha256", "crc", "blake3"]
        .map(|algorithm| place.dio(&format!("sum -a {algorithm} f5242880")).text().to_owned())
        .concat();
    for line in ["-a md5,sha256,crc,blake3 f5242880", "-a md5 -a sha256,crc -a blake3,md5 f5242880"]
    {
        let together = place.dio(&format!("sum {line} --receipt receipt"));
        assert_eq!(together.text(), alone);
        let receipt = std::fs::read_to_string(place.path().join("receipt")).unwrap();
        assert!(
            receipt.contains("\"bytes_read\":5242880")
                || receipt.contains("\"bytes_read\": 5242880"),
            "{receipt}"
        );
    }
    let all = place.dio("sum -a all f4096");
    assert_eq!(all.text().lines().count(), 15, "{all:?}");
}

#[test]
fn standard_input() {
    let place = Place::new();
    place.write("a", "from a file");
    let large = noise((3 << 20) + 5);
    for command in FAMILY.into_iter().chain(["cksum", "sum", "sum -s", "cksum -a sm3"]) {
        for input in [&b""[..], b"x", &large] {
            place.same_with(command, &[], input);
            place.same_with(command, &[b"-"], input);
            place.same_with(command, &[b"a", b"-", b"a"], input);
            place.same_with(command, &[b"-", b"-"], input);
        }
    }
}

#[test]
fn names_and_formats() {
    let place = Place::new();
    let names: [&[u8]; 12] = [
        b"a",
        b" b",
        b"back\\slash",
        b"new\nline",
        b"\nfirst",
        b"cr\r",
        b"*star",
        b"tab\t",
        b"\xff\xfe",
        b"-dash",
        b"a) = 0",
        "grüße".as_bytes(),
    ];
    for name in names {
        place.write(
            std::ffi::OsStr::new(
                &std::os::unix::ffi::OsStringExt::from_vec(name.to_vec()) as &std::ffi::OsString
            ),
            name,
        );
    }
    for options in [
        "md5sum --",
        "md5sum -b --",
        "md5sum -t --",
        "md5sum --tag --",
        "md5sum -z --",
        "md5sum --tag -z --",
        "md5sum -b -t --",
        "md5sum -t -b --",
        "md5sum -t --tag --",
        "b2sum -l 8 --",
        "b2sum --tag -l 8 --",
        "b2sum --tag -l 512 --",
        "b2sum -l 0 --tag --",
        "cksum --",
        "cksum -z --",
        "cksum -a sha1 --",
        "cksum -a sha1 --untagged --",
        "cksum -a sha1 --untagged --tag --",
        "cksum -a sha1 -z --",
        "cksum -a bsd --",
        "cksum -a sysv -z --",
        "cksum -a blake2b -l 16 --",
        "cksum -a sha1 -a sha256 --",
        "sum --",
        "sum -s -r --",
        "sum --sysv --",
    ] {
        place.same_with(options, &names, b"");
        place.same_with(options, &names[..1], b"");
    }
}

#[test]
fn files_that_cannot_be_read() {
    let place = Place::new();
    place.write("a", "a").write("b", "b");
    std::fs::create_dir(place.path().join("d")).unwrap();
    for command in ["md5sum", "cksum", "sum", "b2sum", "cksum -a sm3"] {
        // cksum 9.1 takes a directory for an empty file; other versions of it do not.
        let directory = if command == "cksum" { "" } else { "d" };
        place.same(&format!("{command} a nope b {directory} a"));
        place.same(&format!("{command} nope"));
        place.same_with(command, &[b"", b"no such", b"a", b"it's", b"n\no", b"$x"], b"");
    }
}

#[test]
fn command_lines_that_make_no_sense() {
    let place = Place::new();
    place.write("a", "a");
    for line in [
        "md5sum --tag -t a",
        "md5sum -z -c a",
        "md5sum --tag -c a",
        "md5sum -c -t --tag a",
        "md5sum -b -c a",
        "md5sum -t -c a",
        "md5sum --ignore-missing a",
        "md5sum --status a",
        "md5sum --warn a",
        "md5sum -w a",
        "md5sum --quiet a",
        "md5sum --strict a",
        "md5sum --ignore-missing --quiet --strict a",
        "md5sum -x a",
        "md5sum --foo a",
        "md5sum -l 8 a",
        "md5sum --zero=1 a",
        "b2sum -l 7 a",
        "b2sum -l 1024 a",
        "b2sum -l x a",
        "b2sum -l -8 a",
        "b2sum -l 8K a",
        "b2sum -l 99999999999999999999999 a",
        "b2sum --length",
        "cksum --algorithm",
        "cksum -c -a crc a",
        "cksum -c -a bsd a",
        "cksum -l 8 a",
        "cksum -l 8 -a md5 a",
        "cksum -z -c a",
    ] {
        place.same(line);
    }
    let list = place.dio("cksum -a md5,sha1 a");
    assert!(
        list.errors().starts_with("dio cksum: invalid argument ‘md5,sha1’ for ‘--algorithm’\n"),
        "{list:?}"
    );
    let wrong = place.dio("sum -a md5,nope a");
    assert_eq!(wrong.status, Some(1));
    assert!(
        wrong.errors().starts_with("dio sum: invalid argument ‘nope’ for ‘--algorithm’\n"),
        "{wrong:?}"
    );
    for (line, message) in [
        ("sum --raw a a", "the --raw option is not supported with multiple files"),
        ("sum --raw -a md5,sha1 a", "the --raw option is not supported with several digests"),
    ] {
        let wrong = place.dio(line);
        assert_eq!((wrong.status, wrong.errors()), (Some(1), &*format!("dio sum: {message}\n")));
    }
}

/// The system's coreutils may be too old for these options.
#[test]
fn raw_and_base64() {
    let place = Place::new();
    place.write("a", "abc");
    let md5 = [
        0x90, 0x01, 0x50, 0x98, 0x3c, 0xd2, 0x4f, 0xb0, 0xd6, 0x96, 0x3f, 0x7d, 0x28, 0xe1, 0x7f,
        0x72,
    ];
    assert_eq!(place.dio("cksum -a md5 --raw a").out, md5);
    assert_eq!(place.dio("cksum --raw a").out, 1_219_131_554u32.to_be_bytes());
    assert_eq!(place.dio("cksum -a md5 --base64 a").text(), "MD5 (a) = kAFQmDzST7DWlj99KOF/cg==\n");
    assert_eq!(
        place.dio("cksum -a md5 --untagged --base64 a").text(),
        "kAFQmDzST7DWlj99KOF/cg==  a\n"
    );
    assert_eq!(
        place.dio("cksum -a md5 --untagged -b a").text(),
        "900150983cd24fb0d6963f7d28e17f72 *a\n"
    );
    assert_eq!(place.dio("b3sum --no-names -l 4 a").text(), "6437b3ac\n");
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let place = Place::new();
    place.write("a", "abc");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_dio"));
    let run =
        command.args(["md5sum", "a"]).current_dir(place.path()).stdout(full).output().unwrap();
    assert_eq!(run.status.code(), Some(1));
    assert_eq!(
        String::from_utf8_lossy(&run.stderr),
        "dio md5sum: write error: No space left on device\n"
    );
}

#[test]
fn the_page_cache_is_left_alone() {
    let place = Place::new();
    place.write("f", noise(6 << 20));
    let file = std::fs::File::open(place.path().join("f")).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let before = dio::residency::resident_pages(&file).unwrap();
    if before > 0 {
        eprintln!("SKIPPED: the file system keeps pages ({before})");
        return;
    }
    for line in ["md5sum f", "sum -a md5,sha256 f", "b3sum f", "cksum f f"] {
        assert_eq!(place.dio(line).status, Some(0));
        assert_eq!(dio::residency::resident_pages(&file).unwrap(), 0, "{line}");
    }
}
