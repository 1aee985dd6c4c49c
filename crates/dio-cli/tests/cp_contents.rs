//! Contents: sizes around every boundary, holes, devices, pipes, and files whose size is not that
//! of their contents.

use std::os::unix::fs::MetadataExt;

use crate::support::{Scratch, case, each};

#[test]
fn sizes() {
    for size in [
        0u64, 1, 41, 511, 512, 513, 4095, 4096, 4097, 65536, 262_143, 262_144, 262_145, 1_048_577,
        5_000_001,
    ] {
        // Contents without repetition that are the same in both trees.
        let setup = format!("seq 1000000 | head -c {size} >f; head -c 300000 /dev/zero >longer");
        each(&setup, &["", "-p", "--sparse=always", "--sparse=never", "--reflink=never"], "f new");
        case(&setup, "f longer").same();
    }
}

/// Blocks on the disk, in units of 512 bytes.
fn blocks(scratch: &Scratch, name: &str) -> u64 {
    std::fs::metadata(scratch.path().join(name)).unwrap().blocks()
}

#[test]
fn holes() {
    let scratch = Scratch::new();
    let sh = |script: &str| {
        let status = std::process::Command::new("sh")
            .args(["-ec", script])
            .current_dir(scratch.path())
            .status();
        assert!(status.unwrap().success(), "{script}");
    };
    sh("truncate -s 20M hole; echo middle | dd of=hole bs=1M seek=7 conv=notrunc status=none
        head -c 3000000 /dev/zero >zeros; echo end >>zeros; head -c 2000000 /dev/zero >allzeros; truncate -s 1G empty; sync");
    let dio = scratch.dio();
    let cp = |args: &str| sh(&format!("{} cp {args}", dio.display()));
    for (args, source, most, least) in [
        ("", "hole", 64, 0),
        ("--sparse=always", "hole", 64, 0),
        ("--sparse=never", "hole", u64::MAX, 40_000),
        ("--sparse=always", "zeros", 64, 0),
        ("", "zeros", u64::MAX, 5_000),
        ("--sparse=always", "allzeros", 0, 0),
        ("", "empty", 0, 0),
    ] {
        cp(&format!("{args} {source} copy"));
        sh(&format!("cmp {source} copy"));
        let used = blocks(&scratch, "copy");
        assert!((least..=most).contains(&used), "{args} {source}: {used} blocks");
        sh("rm copy");
    }
    // When the target was longer, holes must not expose its old contents.
    sh("head -c 30000000 /dev/urandom >copy");
    cp("hole copy");
    sh("cmp hole copy");
}

#[test]
fn sources_without_a_size() {
    case("true", "/proc/self/status new").dio();
    case("true", "/proc/version new").same();
    case("mkfifo p; (echo through the pipe >p &) >/dev/null 2>&1", "p new").same();
    each("true", &["-r --no-preserve=mode", "-a"], "/proc/sys/kernel/ostype new");
    case("true", "/dev/null new").same();
}

#[test]
fn a_clone_or_an_error() {
    let case = case("head -c 100000 /bin/bash >f", "--reflink=always f new");
    let (gnu, dio) = (case.gnu(), case.dio());
    assert_eq!((gnu.status, gnu.err), (dio.status, dio.err));
}

#[test]
fn a_full_disk() {
    let outcome = case("echo x >f", "f /dev/full").dio();
    let gnu = case("echo x >f", "f /dev/full").gnu();
    assert_eq!((outcome.status, outcome.err), (gnu.status, gnu.err));
}
