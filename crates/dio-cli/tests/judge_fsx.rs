//! fsx judges the contents of one file under every operation there is, mappings among them, in random order.

mod judge_support;

use std::process::Command;

use dio_test::{Seed, judge_fully};
use judge_support::{built, each_mode, succeeds};

/// Every operation that fsx knows, with weights; sizes of any alignment.
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
