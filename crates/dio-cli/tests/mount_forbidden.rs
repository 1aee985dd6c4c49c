//! Proves that a mount permits nothing that the mount of the source, or a mount below the source,
//! forbids.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use dio_test::run;
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::mount_support::*;

const FORBIDDEN: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV).union(MountFlags::NOEXEC);

/// Makes a program with the set-user-id bit and a capability, a device, and a script.
fn prepare(place: &Path) {
    fs::create_dir_all(place).unwrap();
    fs::copy("/usr/bin/id", place.join("id")).unwrap();
    fs::set_permissions(place.join("id"), Permissions::from_mode(0o4755)).unwrap();
    assert!(
        run(Command::new("setcap").arg("cap_net_raw+ep").arg(place.join("id"))).status.success()
    );
    fs::set_permissions(place.join("id"), Permissions::from_mode(0o4755)).unwrap();
    mknodat(CWD, place.join("zero"), FileType::CharacterDevice, Mode::from(0o666), makedev(1, 5))
        .unwrap();
    fs::set_permissions(place.join("zero"), Permissions::from_mode(0o666)).unwrap();
}

fn has_capability(path: &Path) -> bool {
    rustix::fs::getxattr(path, "security.capability", &mut [0; 64]).is_ok()
}

#[test]
fn what_a_mount_below_the_source_forbids_is_forbidden_below_dio() {
    let Some(scene) = Scene::new() else { return };
    let below = scene.source.join("below");
    fs::create_dir(&below).unwrap();
    mount("none", &below, "tmpfs", MountFlags::empty(), None).unwrap();
    prepare(&below);
    let remount = |flags| rustix::mount::mount_remount(&below, flags, "").unwrap();
    remount(FORBIDDEN);
    let seen = scene.at.join("below");
    let mode = || fs::metadata(seen.join("id")).unwrap().mode() & 0o7777;

    // For dio's own mount, root permits set-id bits and devices.
    good(&mut scene.mount("-o cio,suid,dev"));
    assert_eq!(mode(), 0o0644, "no bit of what is forbidden is shown");
    assert!(!has_capability(&seen.join("id")));
    let refused =
        |result: io::Result<()>| result.unwrap_err().raw_os_error().map(Errno::from_raw_os_error);
    assert_eq!(refused(Command::new(seen.join("id")).status().map(drop)), Some(Errno::ACCESS));
    assert_eq!(refused(File::open(seen.join("zero")).map(drop)), Some(Errno::NXIO));
    // Listing a directory returns attributes too.
    let listed = run(Command::new("ls").arg("-l").arg(&seen)).stdout;
    assert!(listed.contains("-rw-r--r--") && !listed.contains("rws"), "{listed}");
    // Changed flags take effect as soon as the mount point is looked up again. The kernel keeps the
    // number of a device with its inode.
    remount(MountFlags::empty());
    until("all is allowed", || mode() == 0o4755);
    assert!(run(&mut Command::new(seen.join("id"))).status.success());
    remount(MountFlags::NOSUID);
    until("set-id bits are hidden", || mode() == 0o0755);
    good(dio("umount", "").arg(&scene.at));

    // Without these options, dio's mount permits neither set-id bits nor devices: the kernel
    // refuses them, but they are visible, so an archive of the tree is complete.
    good(&mut scene.mount("-o cio"));
    remount(FORBIDDEN);
    until("what the mount forbids itself is shown", || mode() == 0o4644);
    assert_eq!(refused(File::open(seen.join("zero")).map(drop)), Some(Errno::ACCESS));
    good(dio("umount", "").arg(&scene.at));
    unmount(&below, UnmountFlags::empty()).unwrap();
}

#[test]
fn what_the_mount_of_the_source_forbids_is_forbidden_below_dio() {
    let Some(scene) = Scene::new() else { return };
    let outer = scene.path("outer");
    fs::create_dir(&outer).unwrap();
    mount("none", &outer, "tmpfs", MountFlags::NOEXEC, None).unwrap();
    let inner = outer.join("inner");
    prepare(&inner);
    fs::write(inner.join("file"), "").unwrap();
    for (options, is_refused) in [("-o cio", true), ("-o cio,exec", false)] {
        good(dio("mount", options).args([&inner, &scene.at]));
        assert_eq!(Command::new(scene.at.join("id")).output().is_err(), is_refused, "{options}");
        good(dio("umount", "").arg(&scene.at));
    }
    unmount(&outer, UnmountFlags::empty()).unwrap();
}
