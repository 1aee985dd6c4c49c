//! Finds what an interrupted creation of a striped file left: objects without a header, and a
//! descriptor without its final name. They contain no data.
//!
//! They look the same while a process is making the file. That process locks (`flock(2)`) each file
//! from just after its creation until it is ready, and the descriptor until it has its name. A
//! locked file is no remnant. If a new file is removed before the process has locked it, the
//! process fails with ESTALE. Where locks are not visible, as on some networks, only the age
//! decides: a young file is no remnant.

use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use dio::names::FileId;
use rustix::fs::{FlockOperation, flock, fstat};
use rustix::io::Errno;

use crate::regular::{entries_of, open};
use dio::layout::{DATA_START_MAX, OBJECTS_MAX};
use dio::stripe::object::remove_name_of;
use dio::stripe::{DESCRIPTOR_LEN, Descriptor, Id};

/// A file left by an interrupted creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remnant {
    /// Its path.
    pub path: PathBuf,
    /// The identity of the file that was being made.
    pub id: Id,
    /// The index of the object; `None` for the descriptor.
    pub index: Option<usize>,
}

/// Returns the remnants in a directory, without its subdirectories, that have not changed for at
/// least `age`. Their paths begin with `directory` as it is given.
///
/// # Errors
/// Those of reading the directory. Files that cannot be read are skipped.
pub fn remnants_in(directory: &Path, age: Duration) -> io::Result<Vec<Remnant>> {
    let mut found = Vec::new();
    if fs::metadata(directory)?.file_type().is_block_device() {
        return Ok(found);
    }
    for path in entries_of(directory)? {
        found.extend(look(&path, age).map(|(_, remnant)| remnant));
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(found)
}

/// Returns the remnant of the descriptor with this identity in a directory; `None` if there is
/// none.
pub fn descriptor_remnant(directory: &Path, id: Id, age: Duration) -> Option<Remnant> {
    let directory = fs::canonicalize(directory).ok()?;
    look(&directory.join(name_of(id, None)), age).map(|(_, remnant)| remnant)
}

/// Whether a file has the name of an unfinished descriptor, and is a remnant.
pub(crate) fn is_old_descriptor(path: &Path, age: Duration) -> bool {
    look(path, age).is_some_and(|(_, remnant)| remnant.index.is_none())
}

impl Remnant {
    /// Removes it, unless it has changed or is locked.
    ///
    /// # Errors
    /// ESTALE if it has changed or is locked; those of `unlink(2)`.
    pub fn remove(&self) -> io::Result<()> {
        let Some((locked, _)) = look(&self.path, Duration::ZERO) else {
            return Err(Errno::STALE.into());
        };
        Ok(remove_name_of(&self.path, FileId::of(&fstat(&locked)?))?)
    }
}

fn name_of(id: Id, index: Option<usize>) -> String {
    index.map_or_else(|| id.unfinished_name(), |index| id.object_name(index))
}

/// Parses the name of an object or of an unfinished descriptor.
fn parse(path: &Path) -> Option<(Id, Option<usize>)> {
    let name = path.file_name()?.to_str()?;
    let (id, rest) = name.strip_prefix(".dio-")?.split_once('.')?;
    let id = Id::parse(id)?;
    let index = if rest == "0.new" { None } else { Some(rest.parse().ok()?) };
    (index < Some(OBJECTS_MAX) && name == name_of(id, index)).then_some((id, index))
}

/// Opens a remnant and locks it, so that the process that made it fails.
fn look(path: &Path, age: Duration) -> Option<(fs::File, Remnant)> {
    let (id, index) = parse(path)?;
    let most = if index.is_some() { DATA_START_MAX } else { DESCRIPTOR_LEN };
    let found = fs::symlink_metadata(path).ok()?;
    // A young file is not even opened: the process that makes it would fail.
    if !found.is_file() || found.len() > most || !is_old(&found, age) {
        return None;
    }
    let file = open(path)?;
    if flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK) {
        return None;
    }
    // It may be complete by now, and have another name.
    let (now, named) = (file.metadata().ok()?, fs::symlink_metadata(path).ok()?);
    let is_same = FileId::of_metadata(&now) == FileId::of_metadata(&named);
    let mut bytes = vec![0; now.len().min(most) as usize];
    file.read_exact_at(&mut bytes, 0).ok()?;
    let is_blank = bytes.iter().all(|byte| *byte == 0);
    let holds_nothing = is_blank || index.is_none() && Descriptor::is_one(&bytes);
    let remnant = Remnant { path: path.to_owned(), id, index };
    (is_same && now.len() <= most && holds_nothing).then_some((file, remnant))
}

/// Whether a file and its names have not changed for `age`. A time in the future counts as young.
pub(crate) fn is_old(metadata: &fs::Metadata, age: Duration) -> bool {
    let time = |seconds: i64, nanoseconds: i64| {
        SystemTime::UNIX_EPOCH
            + Duration::new(seconds.max(0) as u64, nanoseconds.clamp(0, 999_999_999) as u32)
    };
    let (written, changed) = (
        time(metadata.mtime(), metadata.mtime_nsec()),
        time(metadata.ctime(), metadata.ctime_nsec()),
    );
    written.max(changed).elapsed().unwrap_or(Duration::ZERO) >= age
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::objects_in;
    use dio::stripe::object::lock_new_file;
    use dio::stripe::{StripePlan, create, inspect};

    const HOUR: Duration = Duration::from_secs(3600);

    fn scene() -> (tempfile::TempDir, StripePlan, PathBuf) {
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let targets: Vec<PathBuf> = ["a", "b"].map(|name| dir.path().join(name)).into();
        targets.iter().for_each(|target| fs::create_dir(target).unwrap());
        let file = dir.path().join("file");
        (dir, StripePlan { targets, ..StripePlan::default() }, file)
    }

    #[test]
    fn what_holds_nothing_is_told_from_what_does() {
        let (dir, plan, file) = scene();
        let descriptor = create(&file, &plan).unwrap();
        let text = fs::read(&file).unwrap();
        let at = dir.path().join("a");
        let id = "0123456789abcdef0123456789abcdef";
        let write = |name: &str, bytes: &[u8]| {
            fs::write(at.join(format!(".dio-{id}.{name}")), bytes).unwrap()
        };
        write("0", b"");
        write("7", &[0; 8192]);
        write("0.new", &text);
        // A file with data, an index that is too large, two malformed names, and a file that is too
        // long.
        write("1", b"bytes");
        write("300", b"");
        write("01", b"");
        write("1.new", b"");
        write("2", &vec![0; (1 << 20) + 1]);
        fs::write(at.join(".dio-stripe"), b"").unwrap();
        std::os::unix::fs::symlink("nowhere", at.join(format!(".dio-{id}.3"))).unwrap();
        let found = remnants_in(&at, Duration::ZERO).unwrap();
        assert_eq!(
            found.iter().map(|remnant| remnant.index).collect::<Vec<_>>(),
            [Some(0), None, Some(7)]
        );
        assert!(found.iter().all(|remnant| remnant.id.to_string() == id));
        assert_eq!(descriptor_remnant(&at, found[0].id, Duration::ZERO).as_ref(), Some(&found[1]));
        assert!(remnants_in(&at, HOUR).unwrap().is_empty(), "they are young");
        // A remnant that has data by now stays.
        write("7", b"bytes");
        assert_eq!(
            found[2].remove().unwrap_err().raw_os_error(),
            Some(Errno::STALE.raw_os_error())
        );
        found[..2].iter().for_each(|remnant| remnant.remove().unwrap());
        assert!(remnants_in(&at, Duration::ZERO).unwrap().is_empty());
        assert_eq!(objects_in(&at).unwrap().len(), 1);
        assert!(inspect(&file).unwrap().unwrap().is_sound() && descriptor.targets.len() == 2);
    }

    #[test]
    fn what_its_maker_has_is_left_to_him() {
        let (dir, ..) = scene();
        let path = dir.path().join(".dio-0123456789abcdef0123456789abcdef.0");
        let file = fs::File::create(&path).unwrap();
        lock_new_file(&file).unwrap();
        assert!(remnants_in(dir.path(), Duration::ZERO).unwrap().is_empty());
        drop(file);
        let found = remnants_in(dir.path(), Duration::ZERO).unwrap();
        let late = fs::File::open(&path).unwrap();
        found[0].remove().unwrap();
        assert_eq!(
            lock_new_file(&late).unwrap_err().raw_os_error(),
            Some(Errno::STALE.raw_os_error())
        );
    }

    /// A search for remnants of any age does not damage a file that is being made: the file is
    /// complete, or its creation fails.
    #[test]
    fn a_file_that_is_being_made_is_whole_or_is_not_made() {
        let (dir, plan, file) = scene();
        let over = AtomicBool::new(false);
        let made = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    for directory in plan.targets.iter().map(PathBuf::as_path).chain([dir.path()]) {
                        for remnant in remnants_in(directory, Duration::ZERO).unwrap() {
                            let _ = remnant.remove();
                        }
                    }
                }
            });
            let mut made = 0;
            for _ in 0..100 {
                match create(&file, &plan) {
                    Ok(_) => {
                        made += 1;
                        assert!(inspect(&file).unwrap().unwrap().is_sound());
                        dio::stripe::remove(&file).unwrap();
                    }
                    Err(error) => {
                        assert!(matches!(error.errno(), Errno::STALE | Errno::BUSY), "{error}")
                    }
                }
                assert!(
                    plan.targets
                        .iter()
                        .all(|target| fs::read_dir(target).unwrap().next().is_none())
                );
            }
            over.store(true, Ordering::Relaxed);
            made
        });
        assert!(made > 0);
    }
}
