//! fsx checks the contents of one file under all its operations, including mappings, in random
//! order.

use std::process::Command;

use crate::judge_support::{DIO, built, each_mode, succeeds};
use dio_test::{Seed, is_root, judge_fully, judged, skip};

/// All operations of fsx, with weights; sizes of any alignment.
const SETTINGS: &str = "
flen = 1048576

[opsize]
min = 0
max = 200000
align = 1

[weights]
close_open = 1
read = 10
write = 10
mapread = 10
mapwrite = 10
invalidate = 1
truncate = 4
fsync = 0.3
fdatasync = 0.3
posix_fallocate = 1
punch_hole = 1
sendfile = 2
posix_fadvise = 1
copy_file_range = 2
";

/// The same for a user. The kernel does not pass the files of a user through (passthrough needs
/// root), so accesses to mappings go through the server too.
#[test]
fn nor_does_a_user_who_runs_it_below_dio_run() {
    let Some(fsx) = built("fsx") else { return };
    if !is_root() {
        skip!("a device for a user takes root");
        return;
    }
    let operations = if judge_fully() { "200000" } else { "2000" };
    let seed = Seed::new();
    for (fs, mode) in judged() {
        let scratch = fs.dir();
        let at = |name: &str| scratch.path().join(name);
        std::fs::write(at("fsx.toml"), SETTINGS).unwrap();
        dio_test::copy_program(&fsx, at("fsx"));
        dio_test::copy_program(DIO, at("dio"));
        let script = format!(
            "chmod 755 .; mkdir d; chown nobody:nogroup d; mknod -m 666 fuse c 10 229; mount --bind fuse /dev/fuse
             exec setpriv --reuid nobody --regid nogroup --clear-groups ./dio run -o {mode} --dir d -- \
                 ./fsx -N {operations} -S {} -f fsx.toml -P d d/file",
            seed.value() >> 1
        );
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-ec", &script]).current_dir(scratch.path());
        succeeds(&mut command, &format!("{mode} on {}, as a user", fs.name));
    }
}

#[test]
fn no_operation_finds_anything_but_what_was_written() {
    let Some(fsx) = built("fsx") else { return };
    let operations = if judge_fully() { "200000" } else { "4000" };
    let seed = Seed::new();
    each_mode(|stage| {
        let artifacts = stage.beside("artifacts");
        let settings = artifacts.join("fsx.toml");
        std::fs::write(&settings, SETTINGS).unwrap();
        let mut command = Command::new(&fsx);
        command.args(["-N", operations, "-S", &(seed.value() >> 1).to_string()]);
        command.arg("-f").arg(&settings).arg("-P").arg(&artifacts).arg(stage.at("file"));
        succeeds(&mut command, &stage.name);
        stage.unmount();
    });
}
