//! Proves that mount(8), lines of fstab and fusermount3 mount with dio, and who may pass the mount.

use crate::mount_support::*;
use dio_test::{Output, run, skip};
use std::fs::{self};
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;

/// Runs a script in a mount namespace of its own. `begin` prepares it. If `begin` exits with status
/// 77, this prints that the test is skipped and returns `None`.
fn alone(scene: &Scene, begin: &str, script: &str) -> Option<Output> {
    let script =
        format!("set -e; mkdir -p $DIR/over; mount -t tmpfs none $DIR/over\n{begin}\n{script}");
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "bash", "-c", &script]);
    command
        .env("DIO", env!("CARGO_BIN_EXE_dio"))
        .env("DIR", scene.dir.path())
        .env("LC_ALL", "C.UTF-8");
    let output = run(command.env("SOURCE", &scene.source).env("AT", &scene.at));
    if output.status.code() == Some(77) {
        skip!("what the test needs cannot be set up: {}", output.stderr);
        return None;
    }
    Some(output)
}

/// As `alone`, with the helpers of mount(8) and umount(8) installed.
fn with_helpers(scene: &Scene, script: &str) -> Option<Output> {
    let begin = r#"
        mkdir "$DIR/over/upper" "$DIR/over/work"
        sbin=$(readlink -f /sbin)
        mount -t overlay none -o "lowerdir=$sbin,upperdir=$DIR/over/upper,workdir=$DIR/over/work" "$sbin" || exit 77
        "$DIO" install-mount-helper --force > "$DIR/installed"
    "#;
    let output = alone(scene, begin, script)?;
    let installed = fs::read_to_string(scene.path("installed")).unwrap();
    assert!(installed.starts_with("/sbin/mount.fuse.dio -> "), "{installed}");
    Some(output)
}

#[test]
fn mount_finds_the_helper_by_the_type() {
    let Some(scene) = Scene::new() else { return };
    let script = r#"
        mount -t fuse.dio -o cio,noexec,cached=*.ctl "$SOURCE" "$AT"
        findmnt -n -o FSTYPE,SOURCE,OPTIONS "$AT"
        cat "$AT/file"
        umount "$AT"
        ! mountpoint -q "$AT"
        mount -t fuse.dio -o cioo "$SOURCE" "$AT" || echo "status $?"
        mount -s -t fuse.dio -o cioo,auto "$SOURCE" "$AT"
        mount -o remount,cached "$AT"
        mount -o remount,ro "$AT"
        touch "$AT/new" 2> /dev/null || echo "read-only"
        umount -l "$AT"
        mount -f -t fuse.dio "$SOURCE" "$AT"
        ! mountpoint -q "$AT"
        mount -t fuse.dio "$SOURCE/none" "$AT" || echo "status $?"
        "$DIO" install-mount-helper --force > /dev/null
        rm /sbin/mount.fuse.dio; touch /sbin/mount.fuse.dio
        "$DIO" install-mount-helper --force || echo "status $?"
    "#;
    let Some(output) = with_helpers(&scene, script) else { return };
    assert!(output.status.success(), "{output:?}");
    let lines: Vec<&str> = output.stdout.lines().collect();
    let words: Vec<&str> = lines[0].split_whitespace().collect();
    assert_eq!(words[..2], ["fuse.dio", scene.source.to_str().unwrap()]);
    assert!(words[2].contains("noexec"), "{words:?}");
    assert_eq!(lines[1..], ["from the source", "status 1", "read-only", "status 32", "status 32"]);
    for word in [
        "mount.fuse.dio: unknown option 'cioo'",
        "mount.fuse.dio: ",
        "source directory does not exist",
        "/sbin/mount.fuse.dio: ",
    ] {
        assert!(output.stderr.contains(word), "`{word}` is not in {output:?}");
    }
}

/// Root of another user namespace controls what a path refers to in that namespace, so root's
/// `mount -N` must not follow it there.
#[test]
fn mounts_of_another_user_namespace_are_not_entered() {
    let Some(scene) = Scene::new() else { return };
    let script = r#"
        unshare --user --map-root-user --mount sh -c 'echo > "$DIR/ready"; exec sleep 60' & other=$!
        for _ in $(seq 100); do [ -e "$DIR/ready" ] && break; sleep 0.1; done
        [ -e "$DIR/ready" ] || exit 77
        "$DIO" mount --namespace="/proc/$other/ns/mnt" "$SOURCE" "$AT" || echo "status $?"
        kill $other
        unshare --mount sleep 60 & own=$!
        sleep 1
        "$DIO" mount --fake --namespace="/proc/$own/ns/mnt" "$SOURCE" "$AT" && echo "own"
        kill $own
    "#;
    let Some(output) = alone(&scene, "", script) else { return };
    assert_eq!(output.stdout, "status 32\nown\n", "{output:?}");
    assert!(output.stderr.contains("belongs to another user namespace"), "{output:?}");
}

/// `suid`, `dev` and `exec` never reach the helper: libmount does not pass on options that are
/// defaults.
#[test]
fn by_mount_suid_and_dev_are_on_unless_they_are_turned_off() {
    let Some(scene) = Scene::new() else { return };
    let (source, at) = (scene.source.display(), scene.at.display());
    let lines = ["defaults,cio", "cio,nosuid", "cio,user", "cio,users,suid"];
    for (number, line) in lines.iter().enumerate() {
        let table = format!("{source} {at} fuse.dio noauto,{line} 0 0\n");
        fs::write(scene.path(&format!("fstab{number}")), table).unwrap();
    }
    let script = r#"
        shown() { findmnt -n -o VFS-OPTIONS "$AT" | sed 's/,relatime//'; }
        mount -t fuse.dio -o cio,suid,dev "$SOURCE" "$AT"; shown
        mount -o remount,nosuid "$AT"; shown
        mount -o remount,cached "$AT"; shown
        mount -o remount,suid,nodev,noexec,ro "$AT"; shown
        mount -o remount,dev,exec,rw "$AT"; shown
        cp "$(command -v id)" "$SOURCE/id"; chmod 4755 "$SOURCE/id" "$DIR"; mknod -m 666 "$SOURCE/null" c 1 3
        umount "$AT"; mount -t fuse.dio -o allow_other "$SOURCE" "$AT"
        setpriv --reuid 65534 --regid 65534 --clear-groups "$AT/id" -u
        setpriv --reuid 65534 --regid 65534 --clear-groups cat "$AT/null"
        umount "$AT"
        for number in 0 1 2 3; do mount -T "$DIR/fstab$number" "$AT"; shown; umount "$AT"; done
        mount -T "$DIR/fstab1" "$AT"; mount -T "$DIR/fstab1" -o remount "$AT"; shown
        mount -T "$DIR/fstab1" -o remount,suid "$AT"; shown
        "$DIO" mount -o remount,nodev "$AT"; shown
        "$DIO" mount -o remount,cio "$AT"; shown
        umount "$AT"
        "$DIO" mount "$SOURCE" "$AT"; shown; umount "$AT"
    "#;
    let Some(output) = with_helpers(&scene, script) else { return };
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let expected = "rw rw,nosuid rw,nosuid ro,nodev,noexec rw 0 rw rw,nosuid \
                    rw,nosuid,nodev,noexec rw,nodev,noexec rw,nosuid rw rw,nodev rw,nodev \
                    rw,nosuid,nodev";
    assert_eq!(output.stdout.lines().collect::<Vec<_>>().join(" "), expected);
}

#[test]
fn a_line_in_fstab_mounts() {
    let Some(scene) = Scene::new() else { return };
    let line = "defaults,noauto,nofail,_netdev,x-systemd.automount,cio=*.ibd:*.dbf,dio=redo/*,threads=2,allow_other";
    let over_itself = "auto,cio,comment=x,user";
    let (source, at) = (scene.source.display(), scene.at.display());
    let table = format!(
        "{source} {at} fuse.dio {line} 0 0\n{source}/deep {source}/deep fuse.dio {over_itself} 0 \
         0\n"
    );
    fs::write(scene.path("fstab"), table).unwrap();
    let script = r#"
        mount -T "$DIR/fstab" "$AT"
        findmnt -n -o FSTYPE,OPTIONS "$AT"
        cat "$AT/deep/file"
        umount "$AT"
        mount -T "$DIR/fstab" -a
        ! mountpoint -q "$AT"
        findmnt -n -o FSTYPE,OPTIONS "$SOURCE/deep"
        mount -T "$DIR/fstab" -a
        cat "$SOURCE/deep/file"
        umount "$SOURCE/deep"
        ! mountpoint -q "$SOURCE/deep"
    "#;
    let Some(output) = with_helpers(&scene, script) else { return };
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let lines: Vec<&str> = output.stdout.lines().collect();
    assert!(lines[0].starts_with("fuse.dio ") && lines[0].contains("allow_other"), "{lines:?}");
    assert!(
        lines[2].starts_with("fuse.dio ") && lines[2].contains("noexec"),
        "`user` implies it: {lines:?}"
    );
    assert_eq!((lines[1], lines[3], lines.len()), ("from below", "from below", 4));
}

#[test]
fn users_mount_through_fusermount3() {
    let Some(scene) = Scene::new() else { return };
    if !Command::new("fusermount3").arg("-V").output().is_ok_and(|output| output.status.success()) {
        skip!("fusermount3 is not installed");
        return;
    }
    dio_test::copy_program(env!("CARGO_BIN_EXE_dio"), scene.path("dio"));
    for path in [scene.dir.path(), &scene.source, &scene.at] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        chown(path, Some(65534), Some(65534)).unwrap();
    }
    // On most systems users can open the device.
    let begin = r#"
        mknod -m 666 "$DIR/over/fuse" c 10 229 && mount --bind "$DIR/over/fuse" /dev/fuse || exit 77
        user() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
        DIO=$DIR/dio
    "#;
    let script = r#"
        user "$DIO" mount -o suid "$SOURCE" "$AT" || echo "suid $?"
        user "$DIO" mount -o cio,noatime,relatime "$SOURCE" "$AT"
        findmnt -n -o FSTYPE,OPTIONS "$AT" 2>/dev/null || grep " $AT " /proc/self/mountinfo
        user cat "$AT/file"
        user "$DIO" mount -o remount,cached "$AT" 2> "$DIR/remount" || echo "remount $?"
        cat "$AT/file" 2>/dev/null || echo "root is another user too"
        user "$DIO" umount "$AT"
        ! grep -q " $AT " /proc/self/mountinfo
        grep -qx user_allow_other /etc/fuse.conf 2>/dev/null && echo "allow_other 32" ||
            user "$DIO" mount -o allow_other "$SOURCE" "$AT" || echo "allow_other $?"
        user "$DIO" mount "$SOURCE" "$AT"
        "$DIO" umount "$AT"
        ! grep -q " $AT " /proc/self/mountinfo
        chmod 600 /dev/fuse
        user "$DIO" mount "$SOURCE" "$AT" || echo "device $?"
    "#;
    let Some(output) = alone(&scene, begin, script) else { return };
    assert!(output.status.success(), "{output:?}");
    let lines: Vec<&str> = output.stdout.lines().collect();
    assert!(lines[1].contains("fuse.dio") && lines[1].contains("nosuid,nodev"), "{lines:?}");
    assert_eq!(lines[0], "suid 1");
    assert_eq!(lines[2..4], ["from the source", "root is another user too"], "{output:?}");
    assert_eq!(lines[4..], ["allow_other 32", "device 32"], "{output:?}");
    for words in ["only root can use the option 'suid'", "/etc/fuse.conf", "chmod 666 /dev/fuse"] {
        assert!(output.stderr.contains(words), "`{words}` is not in {output:?}");
    }
}

/// The source has no ACLs, and a file system of the kernel is mounted below it. Other users can
/// access what modes permit, and nothing of the kernel's file system through the server.
#[test]
fn others_reach_what_has_no_acls_and_nothing_of_the_kernels() {
    let Some(scene) = Scene::new() else { return };
    for path in [scene.dir.path(), &scene.at] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    good(Command::new("mount").args(["-t", "ramfs", "ramfs"]).arg(&scene.source));
    fs::write(scene.source.join("file"), "text\n").unwrap();
    fs::create_dir_all(scene.source.join("kernel/covered")).unwrap();
    fs::create_dir(scene.source.join("below")).unwrap();
    good(Command::new("mount").args(["--bind", "/proc"]).arg(scene.source.join("kernel")));
    good(Command::new("mount").args(["-t", "ramfs", "ramfs"]).arg(scene.source.join("below")));
    fs::write(scene.source.join("below/file"), "from below\n").unwrap();
    let _server = scene.foreground(&mut scene.mount("-f -o cio,allow_other"));
    for (name, text) in [("file", "text\n"), ("below/file", "from below\n")] {
        let output = run(dio_test::as_user("nobody", "cat").arg(scene.at.join(name)));
        assert_eq!((output.status.code(), output.stdout.as_str()), (Some(0), text), "{output:?}");
    }
    let output = run(dio_test::as_user("nobody", "ls").arg(scene.at.join("kernel")));
    assert_eq!(
        (output.status.code(), output.stdout.as_str()),
        (Some(0), "covered\n"),
        "{output:?}"
    );
    let refused = run(dio("mount", "-f").arg("/proc/sys").arg(scene.path("at")));
    assert_ne!(refused.status.code(), Some(0), "{refused:?}");
}
