//! File systems mounted below the source.

use std::path::PathBuf;

use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, unmount};

use super::*;

/// A mount that is unmounted when this is dropped.
struct Mounted(PathBuf);

impl Mounted {
    /// Mounts a tmpfs, if this process may.
    fn new(path: PathBuf) -> Option<Mounted> {
        std::fs::create_dir_all(&path).unwrap();
        match mount("dio-test", &path, "tmpfs", MountFlags::empty(), None) {
            Ok(()) => Some(Mounted(path)),
            Err(errno) => {
                dio_test::skip!("cannot mount: {errno}");
                None
            }
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

#[test]
fn a_mount_below_the_source_is_entered_and_its_numbers_are_its_own() {
    everywhere(|place, source, names| {
        let Some(mounted) = Mounted::new(source.join("mounted")) else { return };
        std::fs::create_dir(mounted.0.join("directory")).unwrap();
        std::fs::write(mounted.0.join("directory/file"), b"mounted").unwrap();
        let root = names.lookup(ROOT, name("mounted")).unwrap();
        let directory = names.lookup(root.inode, name("directory")).unwrap();
        let file = names.lookup(directory.inode, name("file")).unwrap();
        assert_ne!(root.stat.st_dev, names.stat(ROOT).unwrap().st_dev, "{place}");
        assert!(file.stat.st_ino >> 48 > 0, "{place}: marked as of another file system");
        let unused = names.shared.lock().descriptors.halve();
        drop(unused);
        let text =
            std::io::read_to_string(File::from(names.open(file.inode, OFlags::RDONLY).unwrap()))
                .unwrap();
        assert_eq!(text, "mounted", "{place}");
        let made = new_file(names, directory.inode, "made");
        assert_eq!(names.path(made).unwrap(), Path::new("mounted/directory/made"), "{place}");
        assert_eq!(names.link(me(), made, ROOT, name("link")).unwrap_err(), Errno::XDEV, "{place}");
        // Descriptors that are no longer used are closed, so that the file system can be unmounted.
        for _ in 0..3 {
            let mut state = names.shared.lock();
            let unused = (state.descriptors.age(), state.mounts.rest());
            drop(state);
            drop(unused);
        }
        if names.shared.lock().mounts.opens_handles(0) {
            assert_eq!(
                names.stat(made).unwrap().st_nlink,
                1,
                "{place}: found by name, and again by handle"
            );
            for _ in 0..3 {
                let mut state = names.shared.lock();
                let unused = (state.descriptors.age(), state.mounts.rest());
                drop(state);
                drop(unused);
            }
            unmount(&mounted.0, UnmountFlags::empty()).unwrap();
            assert_eq!(names.stat(made).unwrap_err(), Errno::STALE, "{place}");
            assert_eq!(list(names, ROOT), ["mounted"], "{place}");
        }
    });
}

#[test]
fn a_directory_that_is_mounted_twice_is_two_and_a_file_is_one() {
    everywhere(|place, source, names| {
        for directory in ["a", "b"] {
            std::fs::create_dir(source.join(directory)).unwrap();
        }
        std::fs::write(source.join("a/file"), b"1").unwrap();
        match mount_bind(source.join("a"), source.join("b")) {
            Ok(()) => {}
            Err(errno) => return dio_test::skip!("cannot mount: {errno}"),
        }
        let _mounted = Mounted(source.join("b"));
        let [a, b] = ["a", "b"].map(|text| names.lookup(ROOT, name(text)).unwrap());
        assert_eq!(a.stat.st_ino, b.stat.st_ino, "{place}");
        assert_ne!(a.inode, b.inode, "{place}: a directory has one name only");
        let [one, two] =
            [a, b].map(|directory| names.lookup(directory.inode, name("file")).unwrap());
        assert_eq!(one.inode, two.inode, "{place}");
    });
}

#[test]
fn the_mount_that_is_served_shows_what_it_covers() {
    everywhere(|place, source, names| {
        std::fs::create_dir_all(source.join("point/below")).unwrap();
        let Some(mounted) = Mounted::new(source.join("point")) else { return };
        std::fs::create_dir(mounted.0.join("above")).unwrap();
        // The tmpfs stands for the mount that we serve.
        names.served_by(rustix::fs::stat(&mounted.0).unwrap().st_dev, || Forbidden::NOTHING);
        let point = names.lookup(ROOT, name("point")).unwrap();
        assert_eq!(point.stat.st_dev, names.stat(ROOT).unwrap().st_dev, "{place}");
        names.lookup(point.inode, name("below")).unwrap();
        assert_eq!(names.lookup(point.inode, name("above")).unwrap_err(), Errno::NOENT, "{place}");
        assert_eq!(list(names, point.inode), ["below"], "{place}");
    });
}
