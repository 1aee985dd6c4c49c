//! fio writes blocks that carry their own checksums, from eight jobs at once, and verifies them.

use std::process::Command;

use crate::judge_support::{each_mode, succeeds};
use dio_test::judge_fully;

/// Variants of the test: name and fio options. Each job has a file of its own, except in `shared`.
const WAYS: &[(&str, &[&str])] = &[
    ("calls", &["--ioengine=psync", "--rw=randwrite", "--bsrange=512-128k", "--blockalign=512"]),
    ("direct", &["--ioengine=libaio", "--iodepth=8", "--direct=1", "--rw=randwrite", "--bs=4k"]),
    ("mapped", &["--ioengine=mmap", "--rw=randwrite", "--bs=4k"]),
    ("stream", &["--ioengine=psync", "--rw=write", "--bs=4k", "--fsync_on_close=1"]),
    (
        "shared",
        &["--ioengine=psync", "--rw=randwrite", "--bs=8k", "--filename=one", "--fallocate=none"],
    ),
];

#[test]
fn eight_jobs_read_what_they_wrote() {
    let size = if judge_fully() { "64m" } else { "4m" };
    each_mode(|stage| {
        for (name, special) in WAYS {
            let directory = stage.at(name);
            std::fs::create_dir(&directory).unwrap();
            let mut fio = Command::new("fio");
            fio.args(["--name=job", "--numjobs=8", "--group_reporting", "--output-format=terse"]);
            fio.args(["--verify=crc32c", "--do_verify=1", "--verify_fatal=1", "--verify_dump=0"]);
            fio.arg(format!("--size={size}"))
                .arg(format!("--offset_increment={}", if *name == "shared" { size } else { "0" }));
            fio.arg(format!("--directory={}", directory.display()))
                .args(*special)
                .current_dir(stage.beside("fio"));
            succeeds(&mut fio, &format!("{}, {name}", stage.name));
            std::fs::remove_dir_all(&directory).unwrap();
        }
        stage.unmount();
    });
}
