//! Proves that ordinary users run commands and ask for statistics without root.

use crate::run::count;
use crate::run_support::*;
use dio_test::{Output, run};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

/// Runs a script as a user, with a copy of `dio` that the user can run, and a `/dev/fuse` of the
/// given mode.
fn as_user(scratch: &Scratch, mode: &str, script: &str) -> Output {
    let dio = scratch.at("dio");
    if !dio.exists() && fs::hard_link(DIO, &dio).is_err() {
        dio_test::copy_program(DIO, &dio);
    }
    let owned = run(Command::new("chown").arg("nobody:nogroup").arg(scratch.at("d")));
    assert!(owned.status.success(), "{owned:?}");
    let prepare = format!(
        "rm -f fuse; mknod -m {mode} fuse c 10 229; mount --bind fuse /dev/fuse;
         exec setpriv --reuid nobody --regid nogroup --clear-groups sh -c '{script}'"
    );
    run(Command::new("unshare")
        .args(["-m", "sh", "-ec", &prepare])
        .current_dir(scratch.at(""))
        .env("LC_ALL", "C"))
}

#[test]
fn users_need_no_root() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    fs::write(scratch.at("d/of_root"), "readable").unwrap();
    let script = "./dio run -o cio --dir d -- sh -ec \"id -un; id -gn; cat d/of_root; echo; echo \
                  mine > d/mine; grep -c $PWD/d.*fuse.dio /proc/self/mountinfo; grep CapEff \
                  /proc/self/status; ln -s mine d/link; chmod 640 d/mine; mv d/link d/l; exit 5\"";
    let output = as_user(&scratch, "666", script);
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    assert_eq!(
        output.stdout, "nobody\nnogroup\nreadable\n1\nCapEff:\t0000000000000000\n",
        "{output:?}"
    );
    let mine = fs::metadata(scratch.at("d/mine")).unwrap();
    assert_eq!((mine.uid(), mine.gid(), mine.mode() & 0o777), (65534, 65534, 0o640));
    assert_eq!(fs::read_link(scratch.at("d/l")).unwrap(), Path::new("mine"));
    scratch.no_server_stays();
}

#[test]
fn users_ask_for_statistics_too() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let script = "export DIO_RUNTIME_DIR=$PWD/d/of_user; mkdir -m 700 $DIO_RUNTIME_DIR; mkdir d/data
                  ./dio run -o cio --dir d/data -- sh -c \"echo x > d/data/f; ./dio stat --json d/data; echo; read end\" < gate &
                  exec 3> gate; sleep 1
                  ./dio stat --json --pid $!; echo end >&3; wait";
    run(Command::new("mkfifo").args(["-m", "666"]).arg(scratch.at("gate")));
    let output = as_user(&scratch, "666", script);
    let writes: Vec<u64> = output
        .stdout
        .lines()
        .filter(|line| !line.is_empty())
        .map(|line| count(line, "write"))
        .collect();
    assert_eq!(writes, [1, 1], "{output:?}");
}

#[test]
fn where_users_may_not_the_cure_is_told() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let output = as_user(&scratch, "600", "./dio run --dir d true");
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    assert!(
        output.stderr.contains("/dev/fuse: Permission denied")
            && output.stderr.contains("chmod 666"),
        "{output:?}"
    );
    // The limit applies in the namespace where it is set and in all namespaces below it.
    let refused = "unshare -Ur sh -c \"echo 0 > /proc/sys/user/max_user_namespaces; exec setpriv \
                   --bounding-set -all --inh-caps -all ./dio run --dir d true\"";
    let output = as_user(&scratch, "666", refused);
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    assert!(output.stderr.contains("max_user_namespaces"), "{output:?}");
    scratch.no_server_stays();
}
