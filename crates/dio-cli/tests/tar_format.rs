//! The reader and the writer of tar headers against GNU tar and Python's tarfile: their archives
//! are read entry for entry and made again byte for byte, and they read archives made by dio.

use std::collections::BTreeMap;
use std::fs;
use std::io::Cursor;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use crate::tar_support::{Member, read, read_headers, shell};
use dio_cli::commands::tar::format::{
    ArchiveEntry, Encoder, Entries, EntryKind, Format, Time, acl_to_text, block_extents, encode,
    end_of_archive, padding,
};
use dio_test::{Rng, Seed, file_systems, skip};
use rustix::fs::{CWD, FileType, Mode, mknodat};

/// All members of an archive, which must be sound.
fn read_sound(archive: &[u8]) -> Vec<Member> {
    let (members, notices, error) = read(archive);
    assert!(error.is_none(), "{error:?}");
    assert_eq!(notices, []);
    members
}

/// An archive with these members.
fn write(encoder: Encoder, members: &[Member]) -> Vec<u8> {
    let mut archive = Vec::new();
    for member in members {
        archive.extend(encoder.encode(&member.entry).unwrap());
        archive.extend_from_slice(&member.stored);
        archive.resize(archive.len() + padding(member.stored.len() as u64), 0);
    }
    let end = end_of_archive(archive.len() as u64, 20);
    archive.resize(archive.len() + end as usize, 0);
    archive
}

/// Removes the process ID from the name that GNU tar gives a sparse file for programs without
/// support for sparse files.
fn without_process_numbers(archive: &[u8]) -> Vec<u8> {
    let mut archive = archive.to_vec();
    for block in archive.chunks_exact_mut(512) {
        let Some(at) = memchr::memmem::find(&block[..100], b"GNUSparseFile.") else { continue };
        let start = at + b"GNUSparseFile.".len();
        let digits = block[start..100].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let mut name = block[..start].to_vec();
        name.push(b'0');
        name.extend_from_slice(&block[start + digits..100]);
        name.resize(100, 0);
        block[..100].copy_from_slice(&name);
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
    archive
}

/// Makes a tree with everything that an archive can hold.
fn make_tree(dir: &Path, rng: &mut Rng) {
    let deep = dir.join("tree").join("d".repeat(60)).join("e".repeat(60)).join("f".repeat(60));
    fs::create_dir_all(&deep).unwrap();
    let tree = dir.join("tree");
    fs::write(deep.join("deep"), rng.bytes(1500)).unwrap();
    for (name, size) in
        [("empty", 0), ("one", 1), ("block", 512), ("more", 513), ("large", 300_000)]
    {
        fs::write(tree.join(name), rng.bytes(size)).unwrap();
    }
    for length in [98, 99, 100, 101, 160, 240] {
        fs::write(tree.join("n".repeat(length)), b"long").unwrap();
        std::os::unix::fs::symlink("s".repeat(length), tree.join(format!("link{length}"))).unwrap();
    }
    fs::write(tree.join("grüße\n\\"), b"text").unwrap();
    fs::set_permissions(tree.join("one"), PermissionsExt::from_mode(0o6751)).unwrap();
    fs::set_permissions(tree.join("block"), PermissionsExt::from_mode(0o0)).unwrap();
    fs::hard_link(tree.join("more"), tree.join("zhard")).unwrap();
    fs::hard_link(tree.join("n".repeat(240)), tree.join("zlong")).unwrap();
    mknodat(CWD, tree.join("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    fs::write(tree.join("old"), b"").unwrap();
    fs::write(tree.join("new"), b"").unwrap();
    shell(
        dir,
        "touch -d '1960-02-03 04:05:06.789' tree/old; touch -d '2300-01-01' tree/new; touch -d @0 \
         tree/empty",
    );
    for (name, extents, size) in [
        ("holes", &[(8192u64, 4096u64), (65536, 100)][..], 65636),
        ("hollow", &[], 100_000),
        ("tail", &[(0, 4096)], 200_000),
        ("many", &Vec::from_iter((0..90).map(|n| (n * 16384, 4096))), 90 * 16384),
    ] {
        let file = fs::File::create(tree.join(name)).unwrap();
        for (offset, length) in extents {
            std::os::unix::fs::FileExt::write_all_at(&file, &rng.bytes(*length as usize), *offset)
                .unwrap();
        }
        file.set_len(size).unwrap();
    }
    if rustix::process::geteuid().is_root() {
        mknodat(
            CWD,
            tree.join("null"),
            FileType::CharacterDevice,
            Mode::RUSR,
            rustix::fs::makedev(1, 3),
        )
        .unwrap();
        mknodat(
            CWD,
            tree.join("disk"),
            FileType::BlockDevice,
            Mode::RUSR,
            rustix::fs::makedev(259, 70_000),
        )
        .unwrap();
        std::os::unix::fs::chown(tree.join("empty"), Some(3_000_000), Some(4_000_000_000)).unwrap();
        std::os::unix::fs::chown(tree.join("one"), Some(1), Some(2)).unwrap();
    } else {
        skip!("devices and owners need root");
    }
}

fn name_of(path: &[u8]) -> std::path::PathBuf {
    use std::os::unix::ffi::OsStrExt;
    std::ffi::OsStr::from_bytes(path.strip_suffix(b"/").unwrap_or(path)).into()
}

/// Compares the members with the files themselves.
fn agree_with_files(dir: &Path, members: &[Member], format: Format) {
    let mut seen = BTreeMap::new();
    for Member { entry, content, .. } in members {
        let path = dir.join(name_of(&entry.path));
        let real = fs::symlink_metadata(&path).unwrap();
        let kind = match real.mode() & 0o170_000 {
            _ if entry.kind == EntryKind::HardLink => {
                let first = fs::symlink_metadata(dir.join(name_of(&entry.link))).unwrap();
                assert_eq!((first.dev(), first.ino()), (real.dev(), real.ino()));
                EntryKind::HardLink
            }
            0o100_000 => EntryKind::Regular,
            0o040_000 => EntryKind::Directory,
            0o120_000 => EntryKind::Symlink,
            0o020_000 => EntryKind::Character,
            0o060_000 => EntryKind::Block,
            _ => EntryKind::Fifo,
        };
        let shown = path.display();
        assert_eq!(entry.kind, kind, "{shown}");
        assert_eq!(
            (entry.mode, entry.uid, entry.gid),
            (real.mode() & 0o7777, real.uid(), real.gid()),
            "{shown}"
        );
        let nanos = if format == Format::Pax { real.mtime_nsec() as u32 } else { 0 };
        assert_eq!(entry.mtime, Time { seconds: real.mtime(), nanos }, "{shown}");
        if entry.kind == EntryKind::Regular {
            assert_eq!(*content, fs::read(&path).unwrap(), "{shown}");
        }
        if entry.kind == EntryKind::Symlink {
            assert_eq!(name_of(&entry.link), fs::read_link(&path).unwrap());
        }
        if matches!(entry.kind, EntryKind::Character | EntryKind::Block) {
            let device = (rustix::fs::major(real.rdev()), rustix::fs::minor(real.rdev()));
            assert_eq!(entry.device, device, "{shown}");
        }
        seen.insert(path, ());
    }
    let found = shell(dir, "find tree -printf x").len();
    assert_eq!(seen.len(), found);
}

#[test]
fn archives_of_gnu_tar_are_read_and_made_again_byte_for_byte() {
    let seed = Seed::new();
    let fs = &file_systems()[0];
    let dir = fs.dir();
    make_tree(dir.path(), &mut seed.stream(0));
    for (options, format) in [
        ("--format=gnu", Format::Gnu),
        ("--format=gnu -S", Format::Gnu),
        ("--format=gnu --numeric-owner", Format::Gnu),
        ("--format=pax", Format::Pax),
        ("--format=pax -S", Format::Pax),
        ("--format=pax --numeric-owner --pax-option=delete=atime,delete=ctime", Format::Pax),
    ] {
        let archive = shell(dir.path(), &format!("tar {options} --sort=name -cf - tree"));
        let members = read_sound(&archive);
        agree_with_files(dir.path(), &members, format);
        let sparse = members.iter().filter(|member| member.entry.sparse.is_some()).count();
        // ext4 and xfs keep holes. On a file system that does not, no member is sparse.
        assert_eq!(sparse > 0, options.contains("-S"), "{options}: {sparse}");
        let again = write(Encoder { format, numeric_owner: options.contains("numeric") }, &members);
        let wanted = without_process_numbers(&archive);
        let differs = again.iter().zip(&wanted).position(|(a, b)| a != b);
        assert!(
            again == wanted,
            "{options}: {} and {} bytes, first different {differs:?}",
            again.len(),
            wanted.len()
        );
    }
}

#[test]
fn narrow_formats_hold_what_fits_and_refuse_the_rest_in_gnus_words() {
    let seed = Seed::new();
    let fs = &file_systems()[0];
    let dir = fs.dir();
    make_tree(dir.path(), &mut seed.stream(1));
    // A hard link to a member that could not be written is no hard link any more. GNU tar also
    // reports that long links are not dumped, but dumps a part of them. It does not enter a
    // directory whose name did not fit.
    shell(dir.path(), "rm tree/zlong tree/link1* tree/link240; rm -r tree/dd*");
    let link = ArchiveEntry {
        path: b"l".to_vec(),
        link: vec![b's'; 101],
        kind: EntryKind::Symlink,
        ..ArchiveEntry::default()
    };
    for format in [Format::Ustar, Format::V7] {
        let unfit = encode(&link, format).unwrap_err();
        assert_eq!(unfit.to_string(), "link name is too long; not dumped");
        assert_eq!(unfit.about(&link), Some(&link.link[..]));
    }
    let all = read_sound(&shell(dir.path(), "tar --format=gnu --sort=name -cf - tree"));
    for (name, format) in [("ustar", Format::Ustar), ("v7", Format::V7)] {
        let script = format!(
            "tar --format={name} --sort=name --no-check-device -cf a.tar tree 2>err || [ $? = 2 ]"
        );
        shell(dir.path(), &script);
        let archive = fs::read(dir.path().join("a.tar")).unwrap();
        let said = fs::read_to_string(dir.path().join("err")).unwrap();
        let mut ours = Vec::new();
        let mut words = String::new();
        for member in &all {
            match encode(&member.entry, format) {
                Ok(header) => {
                    ours.extend(header);
                    ours.extend_from_slice(&member.stored);
                    ours.resize(ours.len() + padding(member.stored.len() as u64), 0);
                }
                Err(unfit) => match unfit.about(&member.entry) {
                    None => words.push_str(&format!("tar: {unfit}\n")),
                    Some(name) => words
                        .push_str(&format!("tar: {}: {unfit}\n", String::from_utf8_lossy(name))),
                },
            }
        }
        ours.resize(ours.len() + end_of_archive(ours.len() as u64, 20) as usize, 0);
        words.push_str("tar: Exiting with failure status due to previous errors\n");
        assert_eq!(words, said, "{name}");
        let differs = ours.iter().zip(&archive).position(|(a, b)| a != b);
        assert!(
            ours == archive,
            "{name}: {} and {} bytes, first different {differs:?}",
            ours.len(),
            archive.len()
        );
    }
}

#[test]
fn every_form_of_sparse_file_is_read() {
    let seed = Seed::new();
    let fs = &file_systems()[0];
    let dir = fs.dir();
    make_tree(dir.path(), &mut seed.stream(2));
    for version in ["0.0", "0.1", "1.0"] {
        let script = format!("tar --format=pax -S --sparse-version={version} -cf - tree");
        let members = read_sound(&shell(dir.path(), &script));
        agree_with_files(dir.path(), &members, Format::Pax);
        assert!(members.iter().any(|member| member.entry.sparse.is_some()), "{version}");
    }
    // Sizes that are too large for octal digits.
    let big = dir.path().join("big");
    let file = fs::File::create(&big).unwrap();
    let at = (1u64 << 33) + 4096;
    std::os::unix::fs::FileExt::write_all_at(&file, b"far away", at).unwrap();
    for options in ["--format=gnu", "--format=pax"] {
        let archive = shell(dir.path(), &format!("tar {options} -S -cf - big"));
        let mut entries = Entries::new(Cursor::new(archive));
        let entry = entries.next_entry().unwrap().unwrap();
        assert_eq!((entry.size, entry.stored), (at + 8, 8), "{options}");
        assert_eq!(entry.sparse, Some(vec![(at, 8), (at + 8, 0)]));
        let mut data = [0; 20];
        assert_eq!(entries.read_stored(&mut data).unwrap(), 8);
        assert_eq!(&data[..8], b"far away");
        assert!(entries.next_entry().unwrap().is_none());
    }
}

#[test]
fn attributes_and_lists_are_those_of_gnu_tar() {
    let fs = &file_systems()[0];
    let dir = fs.dir();
    let set = "mkdir d; echo x > d/a; ln -s a d/s; setfattr -n user.one -v 1 d/a; setfattr -n \
               user.e=q% -v '' d/a; setfacl -m u:root:rwx,g:12345:r,m::rw d/a; setfacl -d -m \
               u:root:rx d";
    let output = Command::new("bash").args(["-ec", set]).current_dir(dir.path()).output().unwrap();
    if !output.status.success() {
        skip!("no extended attributes: {}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let archive = shell(dir.path(), "tar --acls --xattrs --sort=name -cf - d");
    let members = read_sound(&archive);
    let named =
        |name: &[u8]| &members.iter().find(|member| member.entry.path == name).unwrap().entry;
    let (a, d) = (named(b"d/a"), named(b"d/"));
    let value = |name: &str| xattr::get(dir.path().join("d"), name).unwrap();
    let value_of_a = xattr::get(dir.path().join("d/a"), "system.posix_acl_access").unwrap();
    assert_eq!(a.acl_access, value_of_a.and_then(|value| acl_to_text(&value)));
    assert_eq!(
        d.acl_default,
        value("system.posix_acl_default").and_then(|value| acl_to_text(&value))
    );
    let mut xattrs = a.xattrs.clone();
    xattrs.retain(|(name, _)| name.starts_with(b"user."));
    xattrs.sort();
    assert_eq!(xattrs, [(b"user.e=q%".to_vec(), vec![]), (b"user.one".to_vec(), b"1".to_vec())]);
    assert!(write(Encoder { format: Format::Pax, numeric_owner: false }, &members) == archive);
}

/// Python's list of an archive: name, type, size, mode, owner, time and link of each member.
fn python_lists(dir: &Path, archive: &str) -> Option<String> {
    let script = format!(
        "import tarfile\nfor m in tarfile.open('{archive}', errorlevel=2):\n    \
         print(ascii(m.name), m.type.decode(), m.size, m.mode, m.uid, m.gid, m.mtime, \
         ascii(m.linkname))"
    );
    let output = Command::new("python3").args(["-c", &script]).current_dir(dir).output();
    let Ok(output) = output else {
        skip!("no Python");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

/// A plain entry, and entries whose names, numbers or maps do not fit into a plain header.
fn entries_that_need_extensions() -> [ArchiveEntry; 6] {
    let time = Time { seconds: 1_600_000_000, nanos: 0 };
    let plain = ArchiveEntry {
        path: b"plain".to_vec(),
        mode: 0o640,
        uid: 7,
        gid: 8,
        mtime: time,
        ..ArchiveEntry::default()
    };
    [
        ArchiveEntry { size: 3, ..plain.clone() },
        ArchiveEntry {
            path: "p/".repeat(180).into_bytes(),
            kind: EntryKind::Directory,
            ..plain.clone()
        },
        ArchiveEntry {
            path: b"hard".to_vec(),
            kind: EntryKind::HardLink,
            link: "q/".repeat(90).into_bytes(),
            ..plain.clone()
        },
        ArchiveEntry { path: b"ids".to_vec(), uid: 4_000_000_000, gid: 3_000_000, ..plain.clone() },
        ArchiveEntry {
            path: b"before".to_vec(),
            mtime: Time { seconds: -5, nanos: 0 },
            ..plain.clone()
        },
        ArchiveEntry {
            path: b"huge".to_vec(),
            size: 1 << 40,
            sparse: Some(vec![(1 << 39, 512)]),
            ..plain.clone()
        },
    ]
}

#[test]
fn what_we_write_is_read_by_others() {
    let fs = &file_systems()[0];
    let dir = fs.dir();
    let entries = entries_that_need_extensions();
    for format in [Format::Gnu, Format::Pax] {
        let mut archive = Vec::new();
        for entry in &entries {
            archive.extend(encode(entry, format).unwrap());
            let data = entry
                .sparse
                .as_ref()
                .map_or(entry.size, |map| map.iter().map(|(_, length)| length).sum());
            archive.resize(archive.len() + data as usize + padding(data), 0);
        }
        archive.resize(archive.len() + end_of_archive(archive.len() as u64, 20) as usize, 0);
        assert_eq!(archive.len() % 10_240, 0);
        fs::write(dir.path().join("ours.tar"), &archive).unwrap();
        let listed =
            shell(dir.path(), "TZ=UTC tar --numeric-owner --full-time -tvf ours.tar | tr -s ' '");
        let long = ("p/".repeat(180), "q/".repeat(90));
        let wanted = format!(
            "-rw-r----- 7/8 3 2020-09-13 12:26:40 plain\ndrw-r----- 7/8 0 2020-09-13 12:26:40 \
             {}\nhrw-r----- 7/8 0 2020-09-13 12:26:40 hard link to {}\n-rw-r----- \
             4000000000/3000000 0 2020-09-13 12:26:40 ids\n-rw-r----- 7/8 0 1969-12-31 23:59:55 \
             before\n-rw-r----- 7/8 1099511627776 2020-09-13 12:26:40 huge\n",
            long.0, long.1
        );
        assert_eq!(String::from_utf8(listed).unwrap(), wanted);
        let Some(python) = python_lists(dir.path(), "ours.tar") else { continue };
        let lines: Vec<&str> = python.lines().collect();
        assert_eq!(lines.len(), entries.len());
        assert!(lines[0].starts_with("'plain' 0 3 416 7 8 1600000000"), "{}", lines[0]);
        assert!(lines[3].starts_with("'ids' 0 0 416 4000000000 3000000 "), "{}", lines[3]);
        assert!(lines[4].contains(" -5"), "{}", lines[4]);
        assert!(lines[5].contains(" 1099511627776 "), "{}", lines[5]);
        let ours = read_headers(&archive);
        for (read, entry) in ours.iter().zip(&entries) {
            let slashed = ArchiveEntry { path: read.path.clone(), ..entry.clone() };
            let seen =
                (read.kind, read.mode, read.uid, read.gid, read.size, read.mtime, &read.link);
            let made = (
                slashed.kind,
                entry.mode,
                entry.uid,
                entry.gid,
                entry.size,
                entry.mtime,
                &entry.link,
            );
            assert_eq!(seen, made);
        }
    }
}

#[test]
fn archives_of_python_are_read() {
    let fs = &file_systems()[0];
    let dir = fs.dir();
    let script = r"
import tarfile, io
for name, format in ('ustar', tarfile.USTAR_FORMAT), ('gnu', tarfile.GNU_FORMAT), ('pax', tarfile.PAX_FORMAT):
    headers = {'comment': 'all', 'gname': 'everyone'} if name == 'pax' else None
    with tarfile.open(name + '.tar', 'w', format=format, pax_headers=headers) as t:
        for n in range(40):
            i = tarfile.TarInfo('x/' * (n * 3) + 'f%d' % n if name != 'ustar' else 'f%d' % n)
            i.size, i.mode, i.uid, i.mtime, i.gname = n * 100, 0o600 + n, n * 5, 1600000000 + n, 'everyone'
            if name == 'pax': i.pax_headers = {'SCHILY.xattr.user.n': str(n), 'mtime': '1600000000.%02d' % n}
            t.addfile(i, io.BytesIO(bytes([n]) * i.size))
";
    match Command::new("python3").args(["-c", script]).current_dir(dir.path()).output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr))
        }
        Err(_) => {
            skip!("no Python");
            return;
        }
    }
    for name in ["ustar", "gnu", "pax"] {
        let members = read_sound(&fs::read(dir.path().join(format!("{name}.tar"))).unwrap());
        assert_eq!(members.len(), 40);
        for (n, Member { entry, content, .. }) in members.iter().enumerate() {
            let prefix = if name == "ustar" { String::new() } else { "x/".repeat(n * 3) };
            assert_eq!(entry.path, format!("{prefix}f{n}").into_bytes());
            assert_eq!(*content, vec![n as u8; n * 100]);
            assert_eq!((entry.mode, entry.uid), (0o600 + n as u32, n as u32 * 5));
            assert_eq!(entry.gname, b"everyone");
            if name == "pax" {
                assert_eq!(entry.xattrs, [(b"user.n".to_vec(), n.to_string().into_bytes())]);
                assert_eq!(
                    entry.mtime,
                    Time { seconds: 1_600_000_000, nanos: n as u32 * 10_000_000 }
                );
            } else {
                assert_eq!(entry.mtime.seconds, 1_600_000_000 + n as i64);
            }
        }
    }
}

#[test]
fn extents_are_widened_to_blocks() {
    assert_eq!(block_extents(&[(0, 10), (600, 10), (1000, 100)], 5000), [(0, 1536)]);
    assert_eq!(block_extents(&[(100, 10), (4096, 904)], 5000), [(0, 512), (4096, 904)]);
    assert_eq!(block_extents(&[(4990, 100), (6000, 5)], 5000), [(4608, 392)]);
    assert_eq!(block_extents(&[(0, 0)], 5000), []);
}
