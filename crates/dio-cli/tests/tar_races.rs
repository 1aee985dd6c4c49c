//! Proves that `dio tar -x` writes to no other file while names are exchanged beside it.

use crate::archive::{Builder, THEN, strict};
use crate::support::is_root;
use crate::tar_hostile::Place;
use dio_test::until;
use rustix::fs::FileType;
use std::fs::Metadata;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Another process that keeps exchanging directories and links gains nothing.
#[test]
fn races_do_not_lead_out() {
    let place = Place::new();
    let mut build = Builder::new();
    for n in 0..1500 {
        build = build
            .dir(&format!("d/{n}"), 0o700)
            .file(&format!("d/{n}/f"), "x")
            .file("d/dir/inner", "x");
    }
    let archive = build.dir("d", 0o700).dir("d/dir", 0o700).end();
    let before = strict(&place.path("out"));
    std::fs::create_dir_all(place.path("jail/d/dir")).unwrap();
    symlink(place.out(), place.path("jail/e")).unwrap();
    let done = AtomicBool::new(false);
    let output = std::thread::scope(|scope| {
        scope.spawn(|| {
            let (d, e) = (place.path("jail/d"), place.path("jail/e"));
            while !done.load(Ordering::Relaxed) {
                let flags = rustix::fs::RenameFlags::EXCHANGE;
                let _ = rustix::fs::renameat_with(rustix::fs::CWD, &d, rustix::fs::CWD, &e, flags);
            }
        });
        let dio = Path::new(env!("CARGO_BIN_EXE_dio"));
        let output = place.extract(dio, &archive, &["--overwrite"], false);
        done.store(true, Ordering::Relaxed);
        output
    });
    assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"), "{output:?}");
    assert_eq!(before, strict(&place.path("out")));
}

/// A member that is made by a single system call, and a file by which another user replaces it.
struct Exchange {
    /// The kind of the member, and its target if it is a link.
    member: (u8, &'static str),
    /// The system call that makes the member.
    call: &'static str,
    /// Makes the replacement.
    other: fn(&Path),
}

const EXCHANGES: [Exchange; 4] = [
    Exchange {
        member: (b'2', "here"),
        call: "symlinkat",
        other: |path| symlink("there", path).unwrap(),
    },
    Exchange {
        member: (b'6', ""),
        call: "mknodat",
        other: |path| node(path, FileType::Fifo, 0, Some(65_534)),
    },
    Exchange {
        member: (b'6', ""),
        call: "mknodat",
        other: |path| {
            node(path, FileType::Fifo, 0, None);
            std::fs::hard_link(path, path.with_extension("second")).unwrap();
        },
    },
    // The archive has the device 0:0.
    Exchange {
        member: (b'3', ""),
        call: "mknodat",
        other: |path| node(path, FileType::CharacterDevice, 0x103, None),
    },
];

fn node(path: &Path, kind: FileType, device: u64, owner: Option<u32>) {
    rustix::fs::mknodat(rustix::fs::CWD, path, kind, 0o600.into(), device).unwrap();
    std::os::unix::fs::chown(path, owner, owner).unwrap();
}

/// Extracts a member while strace delays a system call, and replaces the new file after `wait`.
/// Returns the output and the metadata of the new file. The replacement must stay unchanged.
fn exchange(case: &Exchange, delay: &str, wait: Duration) -> (Output, Metadata) {
    let place = Place::new();
    let [made, other] = ["jail/made", "jail/other"].map(|name| place.path(name));
    (case.other)(&other);
    let before = other.symlink_metadata().unwrap();
    let ids: &[(&str, &[u8])] = &[("uid", b"1234"), ("gid", b"1234")];
    let (kind, link) = case.member;
    let archive = place.path("archive.tar");
    std::fs::write(&archive, Builder::new().pax(ids).named(kind, "made", link, 0o666, "").end())
        .unwrap();
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={},fchownat", case.call)]);
    strace.args([
        &format!("--inject={delay}"),
        env!("CARGO_BIN_EXE_dio"),
        "tar",
        "--mode=cached",
        "-xpf",
    ]);
    strace.arg(&archive).arg("-C").arg(place.path("jail")).env("LC_ALL", "C");
    let running = strace.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("it is made", || made.symlink_metadata().is_ok());
    std::thread::sleep(wait);
    let here = rustix::fs::CWD;
    rustix::fs::renameat_with(here, &made, here, &other, rustix::fs::RenameFlags::EXCHANGE)
        .unwrap();
    let output = running.wait_with_output().unwrap();
    let now = made.symlink_metadata().unwrap();
    let seen = |meta: &Metadata| (meta.ino(), meta.mode(), meta.uid(), meta.gid(), meta.mtime());
    assert_eq!(seen(&before), seen(&now), "{} of {:?}: {output:?}", case.call, case.member);
    (output, other.symlink_metadata().unwrap())
}

/// Links, pipes and devices get their attributes through a descriptor. A file that replaces one of
/// them in the meantime is not changed.
#[test]
fn what_takes_the_place_of_something_new_is_not_changed() {
    let traced = || {
        Command::new("strace")
            .args(["-o", "/dev/null", "true"])
            .status()
            .is_ok_and(|it| it.success())
    };
    if !is_root() || !traced() {
        return dio_test::skip!("it takes root, and strace that may trace");
    }
    std::thread::scope(|scope| {
        for case in &EXCHANGES {
            // The replacement happens before the new file is examined.
            scope.spawn(move || {
                let delay = format!("{}:delay_exit=2000000", case.call);
                let (output, made) = exchange(case, &delay, Duration::ZERO);
                let told = String::from_utf8_lossy(&output.stderr);
                assert!(told.contains("made: Replaced while it was being extracted"), "{told}");
                assert_eq!((output.status.code(), made.uid()), (Some(2), 0));
            });
            // The replacement happens later: the new file gets the attributes, wherever it is then.
            scope.spawn(move || {
                let (output, made) =
                    exchange(case, "fchownat:delay_enter=2000000", Duration::from_millis(500));
                assert!(
                    !output.status.success() || (made.uid(), made.mtime()) == (1234, THEN as i64),
                    "{output:?}"
                );
            });
        }
    });
}
