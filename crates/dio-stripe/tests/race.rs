//! Attacks by a user who may write to the directory of a file on which root works.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use dio::File;
use dio::stripe::{ReplaceGuard, StripePlan, inspect, remove};
use dio_stripe::migrate;
use dio_test::file_systems;
use rustix::io::Errno;

fn contents(path: &Path, len: usize) -> Vec<u8> {
    let (file, mut bytes) = (File::open(path).unwrap(), vec![0; len]);
    assert_eq!(file.size().unwrap(), len as u64);
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// While a file is moved, a user who may write to its directory replaces the new file by links. The
/// targets of the links are not written to, and the file does not become one that this user has
/// made.
#[test]
fn what_is_put_in_the_place_of_a_migrated_file_is_not_written_to() {
    let dir = file_systems()[0].dir();
    let targets: Vec<PathBuf> = ["a", "b"].map(|name| dir.path().join(name)).into();
    targets.iter().for_each(|target| fs::create_dir(target).unwrap());
    let plan = StripePlan { targets, stripe: Some(4096), ..StripePlan::default() };
    let (path, victim) = (dir.path().join("file"), dir.path().join("victim"));
    let (bytes, precious) = (vec![b'x'; 20_000], b"precious".to_vec());
    fs::write(&victim, &precious).unwrap();
    let new = dio_stripe::migration_name(&path).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let draft = dir.path().join("draft");
            for round in 0.. {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                if round % 2 == 0 {
                    let _ = std::os::unix::fs::symlink(&victim, &draft);
                } else {
                    let _ = fs::write(&draft, b"");
                }
                let _ = fs::rename(&draft, &new);
                let _ = fs::remove_file(&new);
            }
        });
        let _over = OnDrop(|| over.store(true, Ordering::Relaxed));
        let mut moved = 0;
        for _ in 0..60 {
            fs::write(&path, &bytes).unwrap();
            let outcome = migrate(&path, &plan, &|| false);
            let is_striped = inspect(&path).unwrap().is_some();
            // The error may be that the new file's name was replaced after the file had been moved.
            assert!(is_striped || outcome.is_err());
            assert!(contents(&path, bytes.len()) == bytes, "{outcome:?}");
            if is_striped {
                moved += 1;
                remove(&path).unwrap();
            }
            assert!(fs::read(&victim).unwrap() == precious);
        }
        println!("{moved} of 60 were moved");
    });
}

/// If several callers want to replace a file, only one can, and the file that takes the name must
/// be the one that this caller has made.
#[test]
fn one_takes_the_name_of_a_file_and_gives_it_to_what_he_has_made() {
    for fs in file_systems() {
        let place = fs.dir();
        let [path, new] = ["file", "new"].map(|name| place.path().join(name));
        fs::write(&path, "old").unwrap();
        fs::write(&new, "new").unwrap();
        let made = fs::File::open(&new).unwrap();
        let hold = ReplaceGuard::against_writers(&path).unwrap();
        let error = ReplaceGuard::against_writers(&path).unwrap_err();
        assert!(
            error.errno() == Errno::BUSY
                && error.to_string().contains("somebody else is replacing it"),
            "{error}"
        );
        // Meanwhile another process has put a file of its own under the name.
        fs::remove_file(&new).unwrap();
        assert_eq!(hold.give_name_to(&new, &made, &path).unwrap_err().errno(), Errno::BUSY);
        fs::write(&new, "another").unwrap();
        assert_eq!(hold.give_name_to(&new, &made, &path).unwrap_err().errno(), Errno::BUSY);
        assert_eq!(
            (fs::read(&path).unwrap(), fs::read(&new).unwrap()),
            (b"old".to_vec(), b"another".to_vec())
        );
        drop(hold);
        ReplaceGuard::against_writers(&path).unwrap();
    }
}
