//! Requests as Linux 6.18 sends them become calls of the file system; malformed messages do no
//! harm.

use std::ffi::OsStr;
use std::path::Path;

use parking_lot::Mutex;
use proptest::prelude::*;

use super::*;
use crate::abi::opcode;
use crate::flags::*;
use crate::testing::{Answer, Kernel, entry, longs, message, name, words};
use crate::types::*;

/// Records how it is called.
#[derive(Debug, Default)]
struct Recorder(Mutex<Vec<String>>);

macro_rules! note {
    ($self:ident, $($arg:tt)*) => {
        $self.0.lock().push(format!($($arg)*))
    };
}

impl Filesystem for Recorder {
    fn interrupt(&self, unique: RequestId) {
        note!(self, "interrupt {}", unique.0);
    }
    fn lookup(&self, by: &Request<'_>, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        assert_ne!(name, "panic", "as asked for");
        if name == "forget to answer" {
            return;
        }
        let who = (by.uid(), by.gid(), by.pid(), by.unique().0, by.is_interrupted());
        note!(self, "lookup {} {name:?} {who:?}", parent.0);
        reply.entry(&entry());
    }
    fn forget(&self, _: &Request<'_>, inode: INodeNo, count: u64) {
        assert_ne!(count, 99, "as asked for");
        note!(self, "forget {} {count}", inode.0);
    }
    fn setattr(&self, _: &Request<'_>, inode: INodeNo, changes: &Changes, reply: ReplyAttr) {
        note!(self, "setattr {} {changes:?}", inode.0);
        reply.error(Errno::PERM);
    }
    fn symlink(
        &self,
        _: &Request<'_>,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        note!(self, "symlink {} {name:?} {target:?}", parent.0);
        reply.entry(&entry());
    }
    fn mkdir(
        &self,
        by: &Request<'_>,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let groups: Vec<u32> = by.groups().collect();
        note!(self, "mkdir {} {name:?} {mode:o} {umask:o} {groups:?}", parent.0);
        reply.entry(&entry());
    }
    fn rename(
        &self,
        _: &Request<'_>,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        note!(self, "rename {} {name:?} {} {new_name:?} {}", parent.0, new_parent.0, flags.bits());
        reply.ok();
    }
    fn link(
        &self,
        _: &Request<'_>,
        inode: INodeNo,
        new_parent: INodeNo,
        new_name: &OsStr,
        reply: ReplyEntry,
    ) {
        note!(self, "link {} {} {new_name:?}", inode.0, new_parent.0);
        reply.entry(&entry());
    }
    fn open(
        &self,
        _: &Request<'_>,
        inode: INodeNo,
        flags: OpenFlags,
        kill: bool,
        reply: ReplyOpen,
    ) {
        note!(self, "open {} {:o} {kill}", inode.0, flags.0);
        reply.opened(FileHandle(1), FopenFlags::empty());
    }
    fn write(
        &self,
        _: &Request<'_>,
        inode: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        note!(
            self,
            "write {} {} {offset} {data:?} {} {:o} {owner:?}",
            inode.0,
            fh.0,
            write_flags.bits(),
            flags.0
        );
        reply.written(data.len() as u32);
    }
    fn setxattr(
        &self,
        _: &Request<'_>,
        inode: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        extra: SetxattrFlags,
        reply: ReplyEmpty,
    ) {
        note!(self, "setxattr {} {name:?} {value:?} {flags} {}", inode.0, extra.bits());
        reply.ok();
    }
    fn tmpfile(
        &self,
        _: &Request<'_>,
        parent: INodeNo,
        mode: u32,
        umask: u32,
        flags: OpenFlags,
        reply: ReplyCreate,
    ) {
        note!(self, "tmpfile {} {mode:o} {umask:o} {:o}", parent.0, flags.0);
        reply.created(&entry(), FileHandle(1), FopenFlags::empty());
    }
    fn statx(
        &self,
        _: &Request<'_>,
        inode: INodeNo,
        fh: Option<FileHandle>,
        flags: u32,
        mask: StatxMask,
        reply: ReplyStatx,
    ) {
        note!(self, "statx {} {fh:?} {flags:x} {:x}", inode.0, mask.bits());
        reply.error(Errno::IO);
    }
    fn ioctl(&self, _: &Request<'_>, inode: INodeNo, ioctl: &Ioctl<'_>, reply: ReplyIoctl) {
        note!(self, "ioctl {} {ioctl:?}", inode.0);
        if ioctl.command == 7 { reply.done(&[1, 2, 3, 4]) } else { reply.error(Errno::NOSYS) }
    }
    fn syncfs(&self, _: &Request<'_>, inode: INodeNo, reply: ReplyEmpty) {
        note!(self, "syncfs {}", inode.0);
        reply.ok();
    }
}

struct Scene {
    kernel: Kernel,
    dispatcher: Dispatcher<Recorder>,
}

impl Scene {
    fn new() -> Scene {
        let (kernel, channel) = Kernel::channel();
        let dispatcher = Dispatcher {
            filesystem: Arc::new(MountedFilesystem(Recorder::default())),
            channel,
            interrupts: Arc::new(Interrupts::new(1)),
            thread: 0,
            negotiated: Negotiated {
                max_write: 4096,
                max_payload: 4096,
                setxattr_ext: true,
                over_io_uring: false,
            },
            shares: None,
        };
        Scene { kernel, dispatcher }
    }

    /// The calls that a request makes, and the reply.
    fn call(&self, opcode: u32, body: &[u8]) -> (String, Answer) {
        self.dispatcher.handle(&message(opcode, 42, &[], body));
        let answer = self.kernel.answer();
        assert_eq!(answer.unique, 42);
        (self.calls().join(", "), answer)
    }

    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut *self.dispatcher.filesystem.0.0.lock())
    }
}

#[test]
fn requests_about_names_arrive_whole() {
    let scene = Scene::new();
    let called = |opcode, body: &[Vec<u8>]| scene.call(opcode, &body.concat()).0;
    let names = |text: &str| text.as_bytes().to_vec();
    assert_eq!(
        called(opcode::LOOKUP, &[names("a b\0")]),
        r#"lookup 5 "a b" (100, 200, 300, 42, false)"#
    );
    assert_eq!(
        called(opcode::SYMLINK, &[names("name\0to/this\0")]),
        r#"symlink 5 "name" "to/this""#
    );
    assert_eq!(
        called(opcode::RENAME, &[longs(&[9]), names("old\0new\0")]),
        r#"rename 5 "old" 9 "new" 0"#
    );
    let flags = words(&[2, 0]);
    assert_eq!(
        called(opcode::RENAME2, &[longs(&[9]), flags, names("old\0new\0")]),
        r#"rename 5 "old" 9 "new" 2"#
    );
    assert_eq!(called(opcode::LINK, &[longs(&[9]), names("new\0")]), r#"link 9 5 "new""#);
    assert_eq!(
        called(opcode::TMPFILE, &[words(&[0o20_200_002, 0o100_600, 0o22, 0]), names("/\0")]),
        "tmpfile 5 100600 22 20200002"
    );
    let group = [words(&[16, 32, 1, 50])].concat();
    scene.dispatcher.handle(&message(
        opcode::MKDIR,
        42,
        &group,
        &[words(&[0o755, 0o22]), names("new\0")].concat(),
    ));
    assert_eq!(scene.calls(), [r#"mkdir 5 "new" 755 22 [50]"#]);
}

#[test]
fn requests_about_data_arrive_whole() {
    let scene = Scene::new();
    let called = |opcode, body: &[Vec<u8>]| scene.call(opcode, &body.concat()).0;
    assert_eq!(called(opcode::OPEN, &[words(&[0o1002, 1])]), "open 5 1002 true");
    let write = [
        longs(&[3, 1 << 33]),
        words(&[4, 2 | 4]),
        longs(&[88]),
        words(&[0o40_001, 0]),
        b"data".to_vec(),
    ];
    assert_eq!(
        called(opcode::WRITE, &write),
        "write 5 3 8589934592 [100, 97, 116, 97] 6 40001 Some(LockOwner(88))"
    );
    let unowned = [longs(&[3, 0]), words(&[0, 1]), longs(&[88]), words(&[0, 0])];
    assert_eq!(called(opcode::WRITE, &unowned), "write 5 3 0 [] 1 0 None");
    let attribute = [words(&[3, 2, 1, 0]), b"user.x\0".to_vec(), b"a\0b".to_vec()];
    assert_eq!(called(opcode::SETXATTR, &attribute), r#"setxattr 5 "user.x" [97, 0, 98] 2 1"#);
    let mask = [words(&[1, 0]), longs(&[6]), words(&[0x2000, 0xfff])];
    assert_eq!(called(opcode::STATX, &mask), "statx 5 Some(FileHandle(6)) 2000 fff");
    assert_eq!(called(opcode::SYNCFS, &[longs(&[0])]), "syncfs 5");
}

/// As Linux 6.18 itself reads and sets the flags of an inode (`fuse_priv_ioctl`).
#[test]
fn an_ioctl_arrives_whole_and_is_answered_in_two_parts() {
    let scene = Scene::new();
    let flags =
        [longs(&[3]), words(&[0, 7]), longs(&[0]), words(&[4, 4]), b"data".to_vec()].concat();
    let (called, answer) = scene.call(opcode::IOCTL, &flags);
    let told = Ioctl { fh: FileHandle(3), command: 7, address: 0, data: b"data", answer_bytes: 4 };
    assert_eq!(called, format!("ioctl 5 {told:?}"));
    assert_eq!(answer.body, [words(&[0, 0, 0, 0]), vec![1, 2, 3, 4]].concat());
    let short =
        [longs(&[3]), words(&[0, 7]), longs(&[0]), words(&[5, 0]), b"data".to_vec()].concat();
    assert_eq!(scene.call(opcode::IOCTL, &short).1.error, -5);
}

#[test]
fn without_the_extension_a_setxattr_has_no_extra_flags() {
    let mut scene = Scene::new();
    scene.dispatcher.negotiated.setxattr_ext = false;
    let body = [words(&[1, 0]), b"user.x\0".to_vec(), b"v".to_vec()].concat();
    assert_eq!(scene.call(opcode::SETXATTR, &body).0, r#"setxattr 5 "user.x" [118] 0 0"#);
}

/// `struct fuse_setattr_in` with every field different.
fn setattr(valid: u32) -> Vec<u8> {
    let before_1970 = (-2_i64).cast_unsigned();
    let longs = longs(&[61, 62, 63, before_1970, 64, 65]);
    [words(&[valid, 0]), longs, words(&[750_000_000, 66, 67, 0o644, 0, 68, 69, 0])].concat()
}

#[test]
fn only_what_is_valid_of_setattr_is_told() {
    let scene = Scene::new();
    let told = |changes: Changes| format!("setattr 5 {changes:?}");
    let at =
        |seconds, nanoseconds| TimeOrNow::SpecificTime(system_time(seconds, nanoseconds).unwrap());
    assert_eq!(scene.call(opcode::SETATTR, &setattr(0)).0, told(Changes::default()));
    let all = Changes {
        mode: Some(0o644),
        uid: Some(68),
        gid: Some(69),
        size: Some(62),
        atime: Some(at(-2, 750_000_000)),
        mtime: Some(at(64, 66)),
        ctime: system_time(65, 67),
        fh: Some(FileHandle(61)),
        lock_owner: Some(LockOwner(63)),
        kill_suidgid: true,
    };
    // All but the bits for "now".
    let (called, answer) = scene.call(opcode::SETATTR, &setattr(0xe7f));
    assert_eq!((called, answer.error), (told(all), -1));
    let now =
        Changes { atime: Some(TimeOrNow::Now), mtime: Some(TimeOrNow::Now), ..Changes::default() };
    assert_eq!(scene.call(opcode::SETATTR, &setattr(0x1b0)).0, told(now));
}

#[test]
fn forgetting_has_no_answer() {
    let scene = Scene::new();
    scene.dispatcher.handle(&message(opcode::FORGET, 2, &[], &longs(&[3])));
    let nodes = [words(&[2, 0]), longs(&[7, 1, 8, 4])].concat();
    scene.dispatcher.handle(&message(opcode::BATCH_FORGET, 4, &[], &nodes));
    scene.dispatcher.handle(&message(opcode::FORGET, 6, &[], &longs(&[99])));
    scene.dispatcher.handle(&message(opcode::NOTIFY_REPLY, 8, &[], &[]));
    assert_eq!(scene.calls(), ["forget 5 3", "forget 7 1", "forget 8 4"]);
    assert_eq!(scene.dispatcher.channel.errors.panics(), 1);
    assert_eq!(scene.call(opcode::LOOKUP, b"x\0").1.error, 0, "it is the first answer");
}

#[test]
fn a_panic_answers_eio_and_is_counted() {
    let scene = Scene::new();
    assert_eq!(
        scene.call(opcode::LOOKUP, b"panic\0").1,
        Answer { error: -5, unique: 42, body: vec![] }
    );
    assert_eq!(scene.call(opcode::LOOKUP, b"forget to answer\0").1.error, -5);
    assert_eq!(scene.dispatcher.channel.errors.panics(), 1);
    assert_eq!(scene.call(opcode::LOOKUP, b"fine\0").1.error, 0);
}

#[test]
fn what_is_unknown_or_not_implemented_is_enosys() {
    let scene = Scene::new();
    for opcode in [0, 7, 31, 37, 39, 40, 48, 54, 4096, u32::MAX, opcode::READLINK, opcode::GETATTR]
    {
        assert_eq!(
            scene.call(opcode, &[0; 100]).1,
            Answer { error: -38, unique: 42, body: vec![] },
            "{opcode}"
        );
    }
    assert_eq!(scene.call(opcode::DESTROY, &[]).1.error, 0);
    assert_eq!(scene.dispatcher.channel.errors.malformed(), 0);
}

#[test]
fn an_interrupt_reaches_the_request_and_has_no_answer() {
    let scene = Scene::new();
    scene.dispatcher.handle(&message(opcode::INTERRUPT, 43, &[], &longs(&[42])));
    assert_eq!(scene.calls(), ["interrupt 42"]);
    assert!(scene.call(opcode::LOOKUP, b"x\0").0.ends_with("true)"));
    assert!(
        scene.call(opcode::LOOKUP, b"x\0").0.ends_with("true)"),
        "the number is that of the same request"
    );
    scene.dispatcher.handle(&message(opcode::LOOKUP, 44, &[], b"x\0"));
    assert!(scene.calls()[0].ends_with("false)"));
}

/// All opcodes that are decoded, each with a body that is long enough.
const TAKEN_APART: std::ops::RangeInclusive<u32> = 1..=53;

#[test]
fn truncated_requests_answer_eio_and_nothing_panics() {
    let scene = Scene::new();
    let names = b"one\0two\0";
    for opcode in TAKEN_APART.filter(|code| ![2, 42, 36, 41, 26].contains(code)) {
        let whole = [longs(&[0; 11]), names.to_vec()].concat();
        for length in 0..whole.len() {
            let (_, answer) = scene.call(opcode, &whole[..length]);
            assert!([0, -1, -5, -38].contains(&answer.error), "{opcode} {length} {answer:?}");
        }
    }
    assert_eq!(scene.dispatcher.channel.errors.panics(), 0);
    assert!(scene.dispatcher.channel.errors.malformed() > 500);
}

#[test]
fn a_message_that_lies_about_its_length_answers_eio() {
    let scene = Scene::new();
    let mut bytes = message(opcode::LOOKUP, 42, &[], b"x\0");
    bytes[0] += 1;
    scene.dispatcher.handle(&bytes);
    assert_eq!(scene.kernel.answer(), Answer { error: -5, unique: 42, body: vec![] });
    scene.dispatcher.handle(&bytes[..39]);
    assert_eq!(scene.dispatcher.channel.errors.malformed(), 2);
    assert_eq!(name(""), "");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]
    #[test]
    fn random_requests_panic_nowhere(
        opcode in 0_u32..56, body in proptest::collection::vec(any::<u8>(), 0..160), ext in 0_u16..4
    ) {
        let scene = Scene::new();
        let mut bytes = message(opcode, 42, &[], &body);
        bytes[36..38].copy_from_slice(&ext.to_ne_bytes());
        scene.dispatcher.handle(&bytes);
        prop_assert_eq!(scene.dispatcher.channel.errors.panics(), 0);
    }

    #[test]
    fn random_bytes_panic_nowhere(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let scene = Scene::new();
        scene.dispatcher.handle(&bytes);
        prop_assert_eq!(scene.dispatcher.channel.errors.panics(), 0);
    }
}
