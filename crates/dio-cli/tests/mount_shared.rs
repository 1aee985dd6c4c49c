//! Proves that a user of a shared mount cannot prevent other users from using it.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use dio_sys::{Lease, take_lease};
use dio_test::run;
use rustix::fs::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use crate::mount_support::*;

/// Makes the calling thread run as this user.
fn become_user(number: u32) {
    let (uid, gid) = (Uid::from_raw(number), Gid::from_raw(number));
    set_thread_groups(&[]).unwrap();
    set_thread_res_gid(gid, gid, gid).unwrap();
    set_thread_res_uid(uid, uid, uid).unwrap();
}

/// Opening a file on which another process has a lease waits until that process gives the lease up,
/// 45 seconds at most.
#[test]
fn requests_that_wait_for_long_leave_threads_to_others() {
    let Some(scene) = Scene::new() else { return };
    fs::set_permissions(scene.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&scene.source, fs::Permissions::from_mode(0o777)).unwrap();
    good(&mut scene.mount("-o cio,allow_other,threads=8"));
    let leased = scene.source.join("leased");
    fs::write(&leased, "x").unwrap();
    let held = File::options().read(true).write(true).open(&leased).unwrap();
    dio_test::while_busy(|| take_lease(held.as_fd(), Lease::Everybody)).unwrap();
    let opened = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let at = &scene.at;
        for _ in 0..20 {
            scope.spawn(|| {
                become_user(65_534);
                File::open(at.join("leased")).unwrap();
                opened.fetch_add(1, Ordering::Relaxed);
            });
        }
        std::thread::sleep(Duration::from_millis(300));
        let slowest = scope.spawn(|| {
            become_user(65_533);
            let mut slowest = Duration::ZERO;
            for number in 0..50 {
                let start = Instant::now();
                let path = at.join(format!("mine {number}"));
                fs::write(&path, "some bytes").unwrap();
                assert_eq!(fs::read_to_string(&path).unwrap(), "some bytes");
                fs::remove_file(&path).unwrap();
                slowest = slowest.max(start.elapsed());
            }
            slowest
        });
        let slowest = slowest.join().unwrap();
        let still_waiting = opened.load(Ordering::Relaxed) == 0;
        // All waiting requests continue now, and so do those that waited for a thread.
        drop(held);
        assert!(still_waiting, "nobody waited");
        assert!(slowest < Duration::from_secs(10), "another user's file took {slowest:?}");
    });
    assert_eq!(opened.into_inner(), 20);
    good(dio("umount", "").arg(&scene.at));
}

/// With rings, the kernel itself assigns requests to threads, so users have no shares of the
/// threads.
#[test]
fn who_asks_for_rings_of_a_shared_mount_is_warned_once() {
    let Some(scene) = Scene::new() else { return };
    let warning = "dio mount: warning: with io_uring the kernel gives requests to threads itself";
    let warnings = |said: &str| said.lines().filter(|line| line.starts_with(warning)).count();
    let fake = |options: &str| {
        let output = run(&mut scene.mount(&format!("--fake -o {options}")));
        assert!(output.status.success(), "{output:?}");
        output.stderr
    };
    let said = fake("cio,allow_other,io_uring");
    assert_eq!((warnings(&said), said.lines().count()), (1, 1), "{said}");
    for options in ["cio,io_uring", "cio,allow_other", "cio,allow_other,no_io_uring"] {
        assert_eq!(fake(options), "", "{options}");
    }
    // A second mount that writes to the source is refused, by the server in the background. So the
    // kernel's switch for rings, which affects the whole machine, is not changed.
    good(&mut scene.mount("-o cio,allow_other"));
    let second = scene.path("second");
    fs::create_dir(&second).unwrap();
    let refused = run(dio("mount", "-o cio,allow_other,io_uring").args([&scene.source, &second]));
    assert_eq!((refused.status.code(), warnings(&refused.stderr)), (Some(32), 1), "{refused:?}");
    good(dio("umount", "").arg(&scene.at));
}
