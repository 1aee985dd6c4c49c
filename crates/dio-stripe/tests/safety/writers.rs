//! Proves that nothing that a program writes while its file becomes striped, or stops to be so, is
//! lost.

use crate::{Other, Place, bytes, contents, first, writer};
use dio::OpenOptions;
use dio::names;
use dio::stripe::{ReplaceGuard, apply_default, create, remove};
use dio_stripe::{exclude_other_writers, set_default};
use dio_test::file_systems;
use rustix::io::Errno;
use std::fs;
use std::io::Write;

/// If another process has an empty file open, for reading or writing, the file's name is not given
/// to a striped file. Data that the process then writes is there.
#[test]
fn an_empty_file_that_somebody_has_open_is_not_striped() {
    for fs in file_systems() {
        let place = Place::on(&fs);
        for how in ["<", ">", ">>", "<>"] {
            let path = place.path("file");
            fs::write(&path, "").unwrap();
            let other = Other::with(&path, how);
            let error = create(&path, &place.plan()).unwrap_err();
            assert_eq!(error.errno(), Errno::BUSY, "{}: {error}", fs.name);
            assert!(error.to_string().contains("has it open"), "{error}");
            set_default(&place.dir, &place.plan()).unwrap();
            assert!(apply_default(&path).unwrap().is_none());
            let file = OpenOptions::new().write(true).create(true).open(&path).unwrap();
            assert!(file.layout().is_none(), "it stays the file that the other one has");
            drop(file);
            assert_eq!(place.objects(), 0);
            fs::remove_file(place.path(".dio-stripe")).unwrap();
            assert_eq!(fs::read_dir(&place.dir).unwrap().count(), 3, "nothing is left behind");
            let writes = how != "<";
            other.end(if writes { "text" } else { "" });
            assert_eq!(fs::read_to_string(&path).unwrap(), if writes { "text\n" } else { "" });
            fs::remove_file(&path).unwrap();
        }
        let path = place.path("file");
        fs::write(&path, "").unwrap();
        Other::with(&path, "<").end("");
        create(&path, &place.plan()).unwrap();
        remove(&path).unwrap();
    }
}

/// A thread opens the file by its name and writes, while it is being striped repeatedly: no line is
/// ever lost.
#[test]
fn what_is_written_while_a_file_is_striped_is_not_lost() {
    let place = first();
    let (path, plan) = (place.path("file"), place.plan());
    for round in 0..20u64 {
        fs::write(&path, "").unwrap();
        let striped = std::thread::scope(|scope| {
            let maker = scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_micros(round * 60));
                create(&path, &plan).is_ok()
            });
            let mut plain = fs::OpenOptions::new().append(true).open(&path).unwrap();
            plain.write_all(b"text").unwrap();
            drop(plain);
            maker.join().unwrap()
        });
        // Either the descriptor came first and the text was appended to it, or the text came first.
        let found = fs::read(&path).unwrap();
        assert!(
            found.ends_with(b"text"),
            "round {round}: striped {striped}, {} bytes",
            found.len()
        );
        fs::remove_file(&path).unwrap();
        for name in ["a", "b"] {
            fs::read_dir(place.path(name))
                .unwrap()
                .for_each(|object| fs::remove_file(object.unwrap().path()).unwrap());
        }
    }
}

/// While a process has the file open for writing, or the file changes, its name is not given to
/// another file.
#[test]
fn a_file_that_is_written_to_keeps_its_name() {
    for fs in file_systems() {
        let place = Place::on(&fs);
        let [path, new] = ["file", "new"].map(|name| place.path(name));
        fs::write(&path, "old").unwrap();
        fs::write(&new, "new").unwrap();
        let give =
            |hold: &ReplaceGuard| hold.give_name_to(&new, fs::File::open(&new).unwrap(), &path);
        let other = Other::with(&path, "<>");
        let error = ReplaceGuard::against_writers(&path).unwrap_err();
        assert!(
            error.errno() == Errno::BUSY && error.to_string().contains("open for writing"),
            "{error}"
        );
        other.end("");
        let reader = Other::with(&path, "<");
        let hold = ReplaceGuard::against_writers(&path).unwrap();
        assert!(hold.is_undisturbed());
        std::thread::scope(|scope| {
            let comes = scope.spawn(|| {
                fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b" text")
            });
            while hold.is_undisturbed() {
                std::thread::yield_now();
            }
            let error = give(&hold).unwrap_err();
            assert_eq!(error.errno(), Errno::BUSY, "{error}");
            drop(hold);
            comes.join().unwrap().unwrap();
        });
        reader.end("");
        let hold = ReplaceGuard::against_writers(&path).unwrap();
        assert!(give(&hold).unwrap());
        drop(hold);
        assert_eq!(
            (fs::read(&path).unwrap(), fs::read(&new).unwrap()),
            (b"new".to_vec(), b"old text".to_vec())
        );
        // Another file has the name by now.
        fs::write(place.path("third"), "third").unwrap();
        let hold = ReplaceGuard::against_writers(&path).unwrap();
        fs::rename(place.path("third"), &path).unwrap();
        assert_eq!(give(&hold).unwrap_err().errno(), Errno::BUSY);
        assert_eq!(
            (fs::read(&path).unwrap(), fs::read(&new).unwrap()),
            (b"third".to_vec(), b"old text".to_vec())
        );
    }
}

/// Until it is certain that a new striped file stays, a caller who opens it waits. If it does not
/// stay, the caller gets an error.
#[test]
fn nobody_writes_to_a_file_that_may_be_taken_back() {
    let place = first();
    let path = place.path("file");
    create(&path, &place.plan()).unwrap();
    let made = writer(&path).unwrap();
    let other = writer(&path).unwrap();
    let error = exclude_other_writers(&made).unwrap_err();
    assert!(
        error.errno() == Errno::BUSY && error.to_string().contains("open for writing"),
        "{error}"
    );
    drop(other);
    exclude_other_writers(&made).unwrap();
    assert_eq!(writer(&path).unwrap_err().errno(), Errno::BUSY);
    let outcome = std::thread::scope(|scope| {
        let coming = scope.spawn(|| writer(&path));
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert!(!coming.is_finished());
        remove(&path).unwrap();
        drop(made);
        coming.join().unwrap()
    });
    assert_eq!(outcome.unwrap_err().errno(), Errno::STALE);
}

/// While an empty file is striped, some threads open it for reading, so that the new file is
/// sometimes taken back, and one thread opens it for writing. Every write to the striped file that
/// was acknowledged is there.
#[test]
fn what_is_written_to_a_file_that_was_striped_a_moment_ago_is_not_lost() {
    let place = first();
    let (path, plan) = (place.path("file"), place.plan());
    let (mut both, mut back) = (0, 0);
    for round in 0..60u64 {
        fs::write(&path, "").unwrap();
        let over = std::sync::atomic::AtomicBool::new(false);
        let order = std::sync::atomic::Ordering::SeqCst;
        let (made, written) = std::thread::scope(|scope| {
            let maker = scope.spawn(|| create(&path, &plan).is_ok());
            scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_micros(50 * round));
                drop(fs::File::open(&path));
            });
            let writing = scope.spawn(|| {
                while !over.load(order) {
                    // The test waits for the descriptor, because opening the empty file would
                    // itself disturb the creation.
                    if fs::metadata(&path).is_ok_and(|found| found.len() == 0) {
                        continue;
                    }
                    if let Ok(file) = writer(&path)
                        && file.layout().is_some()
                    {
                        file.write_at(&bytes(round, 10_000), 0).unwrap();
                        return true;
                    }
                }
                false
            });
            let made = maker.join().unwrap();
            over.store(true, order);
            (made, writing.join().unwrap())
        });
        if written {
            assert!(contents(&path) == bytes(round, 10_000), "round {round}: striped {made}");
        }
        (both, back) = (both + usize::from(written), back + usize::from(!made));
        let _ = names::unlink(&path);
        assert_eq!(
            (place.objects(), fs::read_dir(&place.dir).unwrap().count()),
            (0, 2),
            "nothing is left behind"
        );
    }
    println!("written in {both} rounds of 60, taken back in {back}");
}
