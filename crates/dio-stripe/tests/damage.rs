//! Damage to striped files: objects that are old, truncated, extended, swapped, missing or garbled,
//! and damaged descriptors. A read returns the bytes that were written, or an error that names the
//! object; and no attempt makes the damage worse.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use dio::names;
use dio::stripe::{Descriptor, ObjectState, StripePlan, create, inspect, remove, remove_forced};
use dio::{File, FileError, Mode, OpenOptions};
use dio_stripe::{allow_damaged, repair};
use dio_test::{DAMAGES, Rng, Soak, file_systems, fill};
use rustix::fs::CWD;
use rustix::io::Errno;

/// A directory with targets `a`, `b` and `c`, and a striped file over them.
struct Place {
    _scratch: Box<dyn std::any::Any>,
    dir: PathBuf,
    path: PathBuf,
}

impl Place {
    fn on(fs: &dio_test::TestFs) -> Place {
        let scratch = fs.dir();
        let dir = fs::canonicalize(scratch.path()).unwrap();
        ["a", "b", "c"].iter().for_each(|name| fs::create_dir(dir.join(name)).unwrap());
        let path = dir.join("file");
        let place = Place { _scratch: Box::new(scratch), dir, path };
        create(&place.path, &place.plan()).unwrap();
        place
    }

    /// A striped file of `len` bytes in such a directory.
    fn with(len: usize) -> Place {
        let place = Place::on(&file_systems()[0]);
        place.write(&bytes(1, len), 0);
        place
    }

    fn plan(&self) -> StripePlan {
        let targets = ["a", "b", "c"].map(|name| self.dir.join(name)).to_vec();
        StripePlan { stripe: Some(4096), targets, ..StripePlan::default() }
    }

    fn objects(&self) -> Vec<PathBuf> {
        inspect(&self.path)
            .unwrap()
            .unwrap()
            .objects
            .into_iter()
            .map(|object| object.path)
            .collect()
    }

    fn write(&self, bytes: &[u8], at: u64) {
        writer(&self.path).unwrap().write_at(bytes, at).unwrap();
    }

    /// The contents of all files, to be restored later.
    fn picture(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let all = self.objects().into_iter().chain([self.path.clone()]);
        all.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
    }

    /// Checks that the file cannot be opened in any way, and that the attempts change nothing.
    /// Returns the error.
    #[track_caller]
    fn refused(&self, culprit: &Path) -> FileError {
        let before = tree(&self.dir);
        let error = File::open(&self.path).unwrap_err();
        for other in [
            writer(&self.path).unwrap_err(),
            appender(&self.path).unwrap_err(),
            repair(&self.path).unwrap_err(),
        ] {
            assert_eq!((other.errno(), other.detail()), (error.errno(), error.detail()), "{other}");
        }
        let fd = fs::OpenOptions::new().read(true).write(true).open(&self.path).unwrap();
        assert_eq!(names::ftruncate(&fd, 0), Err(error.errno()));
        names::objects(&fd).unwrap_err();
        assert!(
            error.to_string().contains(culprit.to_str().unwrap()) && error.cure().is_some(),
            "{error}"
        );
        let report = inspect(&self.path).unwrap().unwrap();
        let wrong: Vec<_> =
            report.objects.iter().filter(|object| object.state != ObjectState::Sound).collect();
        assert!(
            !report.is_sound() && wrong.iter().any(|object| object.path == culprit),
            "{wrong:?}"
        );
        assert!(before == tree(&self.dir), "looking at it has changed it");
        error
    }
}

/// All files below a directory.
fn tree(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(tree(&path)),
            false => found.push((path.clone(), fs::read(&path).unwrap())),
        }
    }
    found.sort();
    found
}

fn bytes(tag: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    fill(&mut bytes, tag, 0);
    bytes
}

fn writer(path: &Path) -> Result<File, FileError> {
    OpenOptions::new().read(true).write(true).open(path)
}

fn appender(path: &Path) -> Result<File, FileError> {
    OpenOptions::new().write(true).mode(Mode::Cached).open(path)
}

fn contents(path: &Path) -> Result<Vec<u8>, FileError> {
    let file = File::open(path)?;
    let mut bytes = vec![0; file.size()? as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

fn cut(path: &Path, len: u64) {
    fs::OpenOptions::new().write(true).open(path).unwrap().set_len(len).unwrap();
}

#[test]
fn an_object_that_was_restored_from_an_old_copy_is_told() {
    for fs in file_systems() {
        for stale in 0..3 {
            let place = Place::on(&fs);
            place.write(&bytes(1, 100_000), 0);
            let object = place.objects()[stale].clone();
            let yesterday = fs::read(&object).unwrap();
            // The write changes other objects only, and no lengths.
            place.write(&bytes(2, 4096), 4096 * (stale as u64 + 1));
            let today = fs::read(&object).unwrap();
            let whole = contents(&place.path).unwrap();
            fs::write(&object, &yesterday).unwrap();
            let error = place.refused(&object);
            assert!(
                error.errno() == Errno::STALE
                    && error.to_string().contains("older than the others"),
                "{error}"
            );
            // The damage has not become worse.
            fs::write(&object, &today).unwrap();
            assert!(contents(&place.path).unwrap() == whole, "{}", fs.name);
            place.write(b"more", 100_000);
        }
    }
}

#[test]
fn an_object_that_was_cut_off_or_made_longer_is_told() {
    for fs in file_systems() {
        let place = Place::on(&fs);
        place.write(&bytes(1, 3 << 20), 0);
        let object = place.objects()[1].clone();
        let sound = fs::read(&object).unwrap();
        for len in [100_000, sound.len() as u64 - 1, 4096, 1000, 0] {
            cut(&object, len);
            place.refused(&object);
            // The size is still reported correctly, as long as the stamp is intact.
            if len >= 1024 {
                assert_eq!(names::stat(&place.path).unwrap().st_size, 3 << 20, "cut to {len}");
                assert_eq!(inspect(&place.path).unwrap().unwrap().size, 3 << 20, "cut to {len}");
            }
            fs::write(&object, &sound).unwrap();
        }
        for more in [1, 100_000] {
            fs::write(&object, [&sound[..], &vec![7; more]].concat()).unwrap();
            let error = place.refused(&object);
            assert_eq!(error.errno(), Errno::UCLEAN, "{error}");
            assert_eq!(inspect(&place.path).unwrap().unwrap().size, 3 << 20, "{more} more");
        }
        // The object that holds the end of a file which ends within a row.
        let odd = place.dir.join("odd");
        create(&odd, &place.plan()).unwrap();
        writer(&odd).unwrap().write_at(&bytes(2, 2 * 4096 * 3 + 4096 + 77), 0).unwrap();
        let end = inspect(&odd).unwrap().unwrap().objects[1].path.clone();
        let len = fs::metadata(&end).unwrap().len();
        for other in [len - 50, len + 2000] {
            cut(&end, other);
            assert_eq!(
                names::stat(&odd).unwrap().st_size,
                2 * 4096 * 3 + 4096 + 77,
                "{other} of {len}"
            );
            assert_eq!(
                inspect(&odd).unwrap().unwrap().size,
                2 * 4096 * 3 + 4096 + 77,
                "{other} of {len}"
            );
        }
        remove(&odd).unwrap();
        fs::write(&object, &sound).unwrap();
        assert!(contents(&place.path).unwrap() == bytes(1, 3 << 20));
        // A caller who wants what is left can have it.
        cut(&object, 100_000);
        allow_damaged(&place.path).unwrap();
        let left = contents(&place.path).unwrap();
        assert!(
            left.len() > 280_000 && left.len() < 300_000 && bytes(1, 3 << 20).starts_with(&left),
            "{}",
            left.len()
        );
        assert!(inspect(&place.path).unwrap().unwrap().is_sound());
        place.write(b"more", left.len() as u64);
    }
}

#[test]
fn a_stamp_or_a_header_that_is_damaged_is_told() {
    let place = Place::with(100_000);
    let object = place.objects()[2].clone();
    let sound = fs::read(&object).unwrap();
    for at in (0..1024).step_by(7) {
        let mut damaged = sound.clone();
        damaged[at] ^= 1;
        fs::write(&object, &damaged).unwrap();
        File::open(&place.path).map(drop).unwrap_err();
    }
    place.refused(&object);
    fs::write(&object, &sound).unwrap();
    assert!(contents(&place.path).unwrap() == bytes(1, 100_000));
    // Two objects are swapped.
    let [one, two] =
        [&place.objects()[0], &place.objects()[1]].map(|object| fs::read(object).unwrap());
    fs::write(&place.objects()[0], &two).unwrap();
    fs::write(&place.objects()[1], &one).unwrap();
    assert_eq!(place.refused(&place.objects()[0]).errno(), Errno::STALE);
}

/// As [`an_object_that_was_restored_from_an_old_copy_is_told`], while a writer has the file open,
/// and after that writer was killed.
#[test]
fn an_old_object_is_told_while_the_file_is_open() {
    let place = Place::with(100_000);
    let object = place.objects()[0].clone();
    let (yesterday, file) = (fs::read(&object).unwrap(), writer(&place.path).unwrap());
    file.write_at(&bytes(3, 50_000), 0).unwrap();
    file.sync_data().unwrap();
    let report = inspect(&place.path).unwrap().unwrap();
    assert!(report.open && report.is_sound());
    let today = fs::read(&object).unwrap();
    fs::write(&object, &yesterday).unwrap();
    assert_eq!(File::open(&place.path).unwrap_err().errno(), Errno::STALE);
    fs::write(&object, &today).unwrap();
    // A copy that was made while the file was open is restored after it was closed.
    drop(file);
    assert!(!inspect(&place.path).unwrap().unwrap().open);
    fs::write(&object, &today).unwrap();
    let error = place.refused(&object);
    assert!(error.to_string().contains("before the file was closed"), "{error}");
}

/// Several threads open the file for writing, write and close it, while other threads read: no
/// thread gets an error about damage.
#[test]
fn writers_and_readers_at_once_find_no_damage() {
    let place = Place::with(200_000);
    let path = &place.path;
    std::thread::scope(|scope| {
        for number in 0..3u64 {
            scope.spawn(move || {
                for turn in 0..40u64 {
                    let file = writer(path).unwrap();
                    file.write_at(
                        &bytes(number, 10_000),
                        200_000 + (turn % 7) * 30_000 + number * 10_000,
                    )
                    .unwrap();
                    if turn % 5 == 0 {
                        file.sync_data().unwrap();
                    }
                }
            });
        }
        scope.spawn(move || {
            for _ in 0..200 {
                let mut found = vec![0; 200_000];
                File::open(path).unwrap().read_exact_at(&mut found, 0).unwrap();
                assert!(found == bytes(1, 200_000));
                assert!(inspect(path).unwrap().unwrap().is_sound());
            }
        });
        scope.spawn(move || {
            for turn in 0..40 {
                let file = writer(path).unwrap();
                file.set_size(200_000 + turn % 3 * 50_000).unwrap();
            }
        });
    });
    let report = inspect(path).unwrap().unwrap();
    assert!(report.is_sound() && !report.open, "{report:?}");
    assert!(contents(path).unwrap().starts_with(&bytes(1, 200_000)));
}

/// Turns a file into one of the first format, without stamps.
fn take_stamps(place: &Place) {
    for object in place.objects() {
        let mut whole = fs::read(&object).unwrap();
        let text = String::from_utf8(whole[..512].to_vec()).unwrap().replacen(
            "object 2\n",
            "object 1\n",
            1,
        );
        let (body, _) = text.split_once("\nsum ").unwrap();
        let header =
            format!("{body}\nsum {:08x}\n", crc32c::crc32c(format!("{body}\n").as_bytes()));
        whole[..4096].fill(b'\n');
        whole[..header.len()].copy_from_slice(header.as_bytes());
        fs::write(&object, whole).unwrap();
    }
}

#[test]
fn files_of_the_first_format_stay_usable_and_get_stamps() {
    let place = Place::with(100_000);
    take_stamps(&place);
    let report = inspect(&place.path).unwrap().unwrap();
    assert!(report.is_sound() && report.generation == 0);
    assert!(contents(&place.path).unwrap() == bytes(1, 100_000));
    place.write(b"anew", 0);
    assert_eq!(inspect(&place.path).unwrap().unwrap().generation, 0);
    // Bytes that some objects hold behind the end may be all that is left of the file. Only an
    // explicit repair truncates them.
    let object = place.objects()[1].clone();
    let (sound, others) = (fs::read(&object).unwrap(), place.picture());
    cut(&object, 10_000);
    let error = writer(&place.path).unwrap_err();
    assert!(
        error.errno() == Errno::UCLEAN && error.cure().unwrap().contains("--repair"),
        "{error}"
    );
    fs::write(&object, sound).unwrap();
    assert!(others == place.picture());
    let yesterday = fs::read(&object).unwrap();
    repair(&place.path).unwrap();
    let report = inspect(&place.path).unwrap().unwrap();
    assert!(report.is_sound() && report.generation == 1 && !report.open);
    let whole = [&b"anew"[..], &bytes(1, 100_000)[4..]].concat();
    assert!(contents(&place.path).unwrap() == whole);
    fs::write(&object, &yesterday).unwrap();
    place.refused(&object);
    allow_damaged(&place.path).unwrap();
    let report = inspect(&place.path).unwrap().unwrap();
    assert!(report.is_sound() && report.generation > 1 && contents(&place.path).unwrap() == whole);
}

#[test]
fn a_file_is_removed_as_a_whole_or_not_at_all() {
    let place = Place::with(100_000);
    let (b, away) = (place.dir.join("b"), place.dir.join("away"));
    for whole in [true, false] {
        // The target directory is gone, or nothing is mounted there.
        fs::rename(&b, &away).unwrap();
        if !whole {
            fs::create_dir(&b).unwrap();
        }
        let before = tree(&place.dir);
        let error = remove(&place.path).unwrap_err();
        assert!(
            error.errno() == Errno::NOENT && error.to_string().contains(b.to_str().unwrap()),
            "{error}"
        );
        assert!(error.cure().unwrap().contains("--force"), "{error}");
        let name = std::ffi::CString::new(place.path.as_os_str().as_encoded_bytes()).unwrap();
        assert_eq!(names::unlinkat(CWD, &name), Err(Errno::NOENT));
        assert_eq!(names::unlink(&place.path), Err(Errno::NOENT));
        assert!(before == tree(&place.dir));
        if !whole {
            fs::remove_dir(&b).unwrap();
        }
        fs::rename(&away, &b).unwrap();
        assert!(contents(&place.path).unwrap() == bytes(1, 100_000));
    }
    fs::rename(&b, &away).unwrap();
    let error = remove_forced(&place.path).unwrap_err();
    assert!(error.errno() == Errno::NOENT && error.to_string().contains("orphans"), "{error}");
    assert!(!place.path.exists() && fs::read_dir(place.dir.join("c")).unwrap().next().is_none());
    fs::rename(&away, &b).unwrap();
    let found: Vec<_> = ["a", "b"]
        .iter()
        .flat_map(|name| dio_stripe::objects_in(&place.dir.join(name)).unwrap())
        .collect();
    assert_eq!(found.len(), 2);
    assert!(dio_stripe::remove_orphans(&found).is_empty());
}

#[test]
fn a_target_that_is_given_twice_is_refused() {
    let place = Place::with(0);
    std::os::unix::fs::symlink("a", place.dir.join("link")).unwrap();
    for twice in ["a", "a/../a", "link", "a/."] {
        let targets = vec![place.dir.join("a"), place.dir.join("b"), place.dir.join(twice)];
        let plan = StripePlan { targets, ..place.plan() };
        let error = create(place.dir.join("new"), &plan).unwrap_err();
        assert!(error.errno() == Errno::INVAL && error.cure().is_some(), "{error}");
        dio_stripe::set_default(&place.dir, &plan).unwrap_err();
    }
    create(place.dir.join("new"), &StripePlan { count: Some(7), ..place.plan() }).unwrap();
}

/// Damages one of the files at random. Returns the kind of damage and the path.
fn damage(rng: &mut Rng, place: &Place, old: &[(PathBuf, Vec<u8>)]) -> (&'static str, PathBuf) {
    let objects = place.objects();
    let index = rng.range(0..3) as usize;
    let (object, other) = (&objects[index], &objects[(index + 1) % 3]);
    match rng.range(0..DAMAGES + 1) {
        DAMAGES => {
            let mut head = fs::read(&place.path).unwrap();
            let (from, len) = (rng.range(0..400) as usize, 1 + rng.range(0..20) as usize);
            head[from..from + len].copy_from_slice(&rng.bytes(len));
            fs::write(&place.path, head).unwrap();
            ("garbled", place.path.clone())
        }
        way => (dio_test::damage(way, rng, object, other, &old[index].1), object.clone()),
    }
}

/// Every operation on a damaged file returns an error or the bytes of the file. When the damage is
/// undone, the file is whole.
#[test]
fn soak_damaged_striped_files() {
    for seed in Soak::of(60) {
        let mut rng = seed.rng();
        let systems = file_systems();
        let place = Place::on(&systems[rng.range(0..systems.len() as u64) as usize]);
        let mut model = Vec::new();
        let mut old = place.picture();
        for session in 0..1 + rng.range(0..4) {
            old = place.picture();
            let file = writer(&place.path).unwrap();
            let (at, len) =
                (rng.range(0..1 + model.len() as u64) as usize, 1 + rng.range(0..60_000) as usize);
            let new = bytes(session, len);
            file.write_at(&new, at as u64).unwrap();
            model.resize(model.len().max(at + len), 0);
            model[at..at + len].copy_from_slice(&new);
            if rng.range(0..3) == 0 {
                let size = rng.range(0..model.len() as u64);
                file.set_size(size).unwrap();
                model.truncate(size as usize);
            }
        }
        assert!(contents(&place.path).unwrap() == model);
        let whole = place.picture();
        let (what, culprit) = damage(&mut rng, &place, &old);
        let context = format!("{what}: {}", culprit.display());
        if place.picture_of(&whole) != whole {
            look_at(&place, &model, &culprit, &context);
        }
        for (path, bytes) in &whole {
            // The inode stays the same if the file still exists.
            fs::write(path, bytes).unwrap();
        }
        assert!(contents(&place.path).unwrap() == model, "{context}: something got worse");
        assert!(inspect(&place.path).unwrap().unwrap().is_sound(), "{context}");
    }
}

impl Place {
    /// The current contents of the files of another picture.
    fn picture_of(&self, other: &[(PathBuf, Vec<u8>)]) -> Vec<(PathBuf, Vec<u8>)> {
        let now = |path: &PathBuf| (path.clone(), fs::read(path).unwrap_or_default());
        other.iter().map(|(path, _)| now(path)).collect()
    }
}

fn look_at(place: &Place, model: &[u8], culprit: &Path, context: &str) {
    let before = tree(&place.dir);
    let named = |error: &dyn std::fmt::Display| {
        let error = error.to_string();
        // If two objects do not fit together, either may be named.
        let known = error.contains(culprit.to_str().unwrap()) || error.contains("object ");
        assert!(known, "{context}: {error}");
    };
    let error = contents(&place.path)
        .map(|found| assert!(found == model, "{context}: other bytes"))
        .unwrap_err();
    named(&error);
    named(&writer(&place.path).unwrap_err());
    named(&appender(&place.path).unwrap_err());
    named(&repair(&place.path).unwrap_err());
    match inspect(&place.path) {
        Ok(report) => assert!(!report.expect("it is striped").is_sound(), "{context}"),
        Err(error) => named(&error),
    }
    let fd = fs::OpenOptions::new().read(true).write(true).open(&place.path).unwrap();
    names::ftruncate(&fd, 0).unwrap_err();
    names::objects(&fd).unwrap_err();
    assert!(before == tree(&place.dir), "{context}: looking has changed something");
}

#[test]
fn what_is_left_of_a_descriptor_is_no_ordinary_file() {
    let place = Place::with(10_000);
    let sound = fs::read(&place.path).unwrap();
    assert!(Descriptor::is_one(&sound));
    for at in 0..20 {
        let mut damaged = sound.clone();
        damaged[at] ^= 0x20;
        fs::write(&place.path, damaged).unwrap();
        let error = File::open(&place.path).unwrap_err();
        assert_eq!(error.errno(), Errno::BADMSG, "byte {at}: {error}");
        assert_eq!(inspect(&place.path).unwrap_err().errno(), Errno::BADMSG);
        assert_eq!(names::stat(&place.path).unwrap_err(), Errno::BADMSG);
    }
    // A descriptor to which another program has appended, or which is slightly longer or shorter,
    // is no ordinary file either.
    let edited = String::from_utf8(sound.clone()).unwrap();
    let others = [
        [&sound[..], b"x\n"].concat(),
        [&sound[..], &[b'y'; 512]].concat(),
        sound[..8169].to_vec(),
        edited.replacen("/a\n", "/other\n", 1).into_bytes(),
        edited.replacen("dio striped", "striped", 1).into_bytes(),
    ];
    for other in others {
        fs::write(&place.path, &other).unwrap();
        for error in [File::open(&place.path).unwrap_err(), writer(&place.path).unwrap_err()] {
            assert_eq!(error.errno(), Errno::BADMSG, "{error}");
            let longer = other.starts_with(&sound);
            assert_eq!(
                error.cure().is_some_and(|cure| cure.contains("truncate -s 8171")),
                longer,
                "{error}"
            );
        }
        assert_eq!(inspect(&place.path).unwrap_err().errno(), Errno::BADMSG);
        assert_eq!(names::stat(&place.path).unwrap_err(), Errno::BADMSG);
        assert!(fs::read(&place.path).unwrap() == other);
    }
    let fd = fs::OpenOptions::new().read(true).open(&place.path).unwrap();
    assert_eq!(
        io::Error::from(names::is_striped(&fd).unwrap_err()).raw_os_error(),
        Some(libc::EBADMSG)
    );
    let _unused = fd.read_at(&mut [0; 1], 0);
}
