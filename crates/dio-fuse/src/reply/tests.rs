//! Bytes of replies, compared with layouts computed by hand from `include/uapi/linux/fuse.h`.

use std::time::Duration;

use rustix::io::Errno;

use super::*;
use crate::flags::{FopenFlags, StatxAttributes, StatxMask};
use crate::testing::{Answer, Kernel, attributes, entry, longs, name, words};
use crate::types::{FileAttr, FileHandle, FileType, INodeNo, Statx};

/// The message that the kernel gets when a reply is used.
fn sent(use_it: impl FnOnce(Reply)) -> Answer {
    let (kernel, channel) = Kernel::channel();
    use_it(Reply::new(&channel, 77));
    let answer = kernel.answer();
    assert_eq!(answer.unique, 77);
    answer
}

fn good(use_it: impl FnOnce(Reply)) -> Vec<u8> {
    let answer = sent(use_it);
    assert_eq!(answer.error, 0);
    answer.body
}

/// `struct fuse_attr` of [`attributes`] with `st_ino` 3.
fn attr() -> Vec<u8> {
    let times = longs(&[3, 11, 12, 13, (-2_i64).cast_unsigned(), 15]);
    let rest = words(&[14, 750_000_000, 16, 0o104_755, 19, 20, 21, 0, 22, 0]);
    [times, rest].concat()
}

/// `struct fuse_entry_out` of [`entry`].
fn entry_out() -> Vec<u8> {
    [longs(&[7, 8, 1, 3]), words(&[2, 4]), attr()].concat()
}

#[test]
fn success_is_a_header() {
    let (kernel, channel) = Kernel::channel();
    ReplyEmpty(Reply::new(&channel, 0x0102_0304)).ok();
    let mut bytes = [0; 100];
    let length = rustix::io::read(&kernel.0, &mut bytes).unwrap();
    assert_eq!(bytes[..length], [words(&[16, 0]), longs(&[0x0102_0304])].concat());
}

#[test]
fn an_error_is_a_negative_number_and_nothing_else() {
    for (errno, wire) in
        [(Errno::NOENT, -2), (Errno::RANGE, -34), (Errno::from_raw_os_error(511), -511)]
    {
        assert_eq!(
            sent(|reply| ReplyEmpty(reply).error(errno)),
            Answer { error: wire, unique: 77, body: vec![] }
        );
    }
    // Numbers that the kernel would refuse, so the caller would wait for ever: ERESTARTSYS,
    // ENOTSUPP.
    for internal in [512, 524, 4095] {
        assert_eq!(
            sent(|reply| ReplyData(reply).error(Errno::from_raw_os_error(internal))).error,
            -5
        );
    }
}

#[test]
fn what_is_dropped_answers_eio_and_what_is_answered_does_not() {
    assert_eq!(sent(drop), Answer { error: -5, unique: 77, body: vec![] });
    let (kernel, channel) = Kernel::channel();
    ReplyEmpty(Reply::new(&channel, 1)).ok();
    Reply::new(&channel, 2).skip_reply();
    ReplyDirectory::new(Reply::new(&channel, 3), 100).ok();
    assert_eq!([kernel.answer().unique, kernel.answer().unique], [1, 3]);
}

#[test]
fn bytes_go_as_they_are() {
    let bytes: Vec<u8> = (0..100_000_u32).map(|n| n as u8).collect();
    assert_eq!(good(|reply| ReplyData(reply).data(&bytes)), bytes);
    assert_eq!(good(|reply| ReplyData(reply).data(&[])), []);
    assert_eq!(good(|reply| ReplyXattr(reply).data(b"a\0b\0")), b"a\0b\0");
    assert_eq!(good(|reply| ReplyXattr(reply).size(9)), words(&[9, 0]));
}

#[test]
fn an_entry_has_its_node_apart_from_its_number() {
    assert_eq!(good(|reply| ReplyEntry(reply).entry(&entry())), entry_out());
    assert_eq!(entry_out().len(), 128);
    let nothing = [longs(&[0, 0, 5, 0]), words(&[6, 0]), vec![0; 88]].concat();
    assert_eq!(good(|reply| ReplyEntry(reply).negative(Duration::new(5, 6))), nothing);
}

#[test]
fn attributes_come_with_their_time() {
    let expected = [longs(&[1]), words(&[2, 0]), attr()].concat();
    assert_eq!(good(|reply| ReplyAttr(reply).attr(&Duration::new(1, 2), &attributes(3))), expected);
}

#[test]
fn statx_tells_when_it_was_created() {
    let attr = FileAttr { kind: FileType::CharDevice, rdev: 0x1203_0507, ..attributes(3) };
    let statx = Statx {
        attr,
        mask: StatxMask::BASIC_STATS | StatxMask::BTIME,
        attributes: StatxAttributes::APPEND,
        attributes_mask: StatxAttributes::APPEND | StatxAttributes::IMMUTABLE,
    };
    let told = good(|reply| ReplyStatx(reply).statx(&Duration::new(1, 2), &statx));
    let head = [longs(&[1]), words(&[2, 0]), longs(&[0, 0])].concat();
    let first = [words(&[0xfff, 22]), longs(&[0x20]), words(&[19, 20, 21])].concat();
    let mode = [0o024_755_u16.to_ne_bytes(), [0, 0]].concat();
    let numbers = longs(&[3, 11, 12, 0x30]);
    let time = |seconds: i64, nanoseconds| {
        [longs(&[seconds.cast_unsigned()]), words(&[nanoseconds, 0])].concat()
    };
    let times = [time(13, 14), time(17, 18), time(15, 16), time(-2, 750_000_000)].concat();
    let devices = words(&[0x305, 0x1_2007, 0, 0]);
    assert_eq!(told, [head, first, mode, numbers, times, devices, vec![0; 112]].concat());
    assert_eq!(told.len(), 288);
}

#[test]
fn an_open_file_is_never_backed_by_mistake() {
    let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
    let expected = [longs(&[9]), words(&[0x41, 0])].concat();
    assert_eq!(good(|reply| ReplyOpen(reply).opened(FileHandle(9), flags)), expected);
    let backed = flags | FopenFlags::FOPEN_PASSTHROUGH;
    assert_eq!(good(|reply| ReplyOpen(reply).opened(FileHandle(9), backed)), expected);
    let created = [entry_out(), expected].concat();
    assert_eq!(good(|reply| ReplyCreate(reply).created(&entry(), FileHandle(9), flags)), created);
    let file = tempfile::tempfile().unwrap();
    let refused = |reply: Reply| {
        let reply = ReplyOpen(reply);
        reply.open_backing(&file).expect_err("a socket takes no files");
        reply.error(Errno::PERM);
    };
    assert_eq!(sent(refused).error, -1);
}

#[test]
fn numbers_are_told_in_their_places() {
    assert_eq!(good(|reply| ReplyWrite(reply).written(5)), words(&[5, 0]));
    assert_eq!(good(|reply| ReplyLseek(reply).offset(1 << 40)), longs(&[1 << 40]));
    let figures = [longs(&[1, 2, 3, 4, 5]), words(&[6, 7, 8, 0, 0, 0, 0, 0, 0, 0])].concat();
    assert_eq!(good(|reply| ReplyStatfs(reply).statfs(1, 2, 3, 4, 5, 6, 7, 8)), figures);
}

#[test]
fn a_copy_is_told_in_32_bits_or_in_64() {
    let told = |bytes, wide| good(|reply| ReplyCopy::new(reply, wide).copied(bytes));
    assert_eq!(told(5, false), words(&[5, 0]));
    assert_eq!(told(1 << 40, true), longs(&[1 << 40]));
    assert_eq!(told(1 << 40, false), words(&[0xffff_f000, 0]));
}

#[test]
fn names_are_padded_and_the_room_is_kept() {
    let mut full = false;
    let told = good(|reply| {
        let mut reply = ReplyDirectory::new(reply, 24 + 8 + 24 + 16);
        assert!(!reply.add(INodeNo(3), 10, FileType::RegularFile, name("name")));
        assert!(!reply.add(INodeNo(4), 11, FileType::Directory, name("directory")));
        full = reply.add(INodeNo(5), 12, FileType::Directory, name(""));
        reply.ok();
    });
    assert!(full);
    let first = [longs(&[3, 10]), words(&[4, 8]), b"name\0\0\0\0".to_vec()].concat();
    let second = [longs(&[4, 11]), words(&[9, 4]), b"directory\0\0\0\0\0\0\0".to_vec()].concat();
    assert_eq!(told, [first, second].concat());
}

#[test]
fn names_come_with_what_they_stand_for_or_alone() {
    let told = good(|reply| {
        let mut reply = ReplyDirectoryPlus::new(reply, 128 + 24 + 8 + 128 + 24 + 8);
        assert!(!reply.add(10, name("12345678"), &entry()));
        assert!(reply.fits("12345678") && !reply.fits("123456789"));
        assert!(!reply.add_name(INodeNo(4), 11, FileType::Symlink, name("..")));
        assert!(!reply.fits("m") && reply.add(12, name("more"), &entry()));
        reply.ok();
    });
    let first = [entry_out(), longs(&[3, 10]), words(&[8, 8]), b"12345678".to_vec()].concat();
    let second =
        [vec![0; 128], longs(&[4, 11]), words(&[2, 10]), b"..\0\0\0\0\0\0".to_vec()].concat();
    assert_eq!(told, [first, second].concat());
}

#[test]
fn a_huge_room_is_not_allocated_at_once() {
    let reply = |reply| ReplyDirectory::new(reply, u32::MAX).ok();
    assert_eq!(good(reply), []);
}
