//! The objects of a striped file, and the results of probing each of them.
//!
//! The file at the path is a short text, whose alignments and pages do not matter: the bytes of the
//! striped file are in its objects, and the strictest object decides.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use dio_sys::fd_path;
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use super::answer::{Answer, Kind};
use super::device::Device;
use super::sharing::{Overwrites, Sharing};
use super::trial::{Trials, on_existing_file};
use crate::file::{words, words_of};
use crate::geometry::{Directness, FileSystem, Geometry, Mount};
use crate::stripe::object::find_object;
use crate::stripe::{self, Layout, ObjectState};

/// The results of probing a striped file.
#[derive(Debug, Clone)]
pub struct Stripes {
    /// Its identity.
    pub id: stripe::Id,
    /// How its bytes are divided among the objects.
    pub layout: Layout,
    /// Its size in bytes, as far as the objects that were found determine it.
    pub size: u64,
    /// Whether the probed file is a copy of the descriptor.
    pub copy: bool,
    /// Its objects, in the order of the layout.
    pub objects: Vec<Object>,
}

/// The results of probing an object of a striped file.
#[derive(Debug, Clone)]
pub struct Object {
    /// Its path.
    pub path: PathBuf,
    /// Whether it is the right object. If it is not, no trial was made.
    pub state: ObjectState,
    /// Number of bytes of the striped file that it contains.
    pub held: u64,
    /// The file system that contains it; `None` if unknown.
    pub file_system: Option<FileSystem>,
    /// The mount that contains it; `None` if `/proc` does not list it.
    pub mount: Option<Mount>,
    /// Its alignments and sizes, or the reason why they are unknown.
    pub geometry: Result<Geometry, String>,
    /// The block device below, or the reason why it is unknown.
    pub device: Result<Device, String>,
    /// The results of the trials.
    pub trials: Trials,
}

impl Stripes {
    /// Probes a file. Returns `None` if it is not striped; the error is the reason why its
    /// descriptor cannot be used.
    pub(super) fn of(path: &Path) -> Option<Result<Stripes, String>> {
        let report = match stripe::inspect(path) {
            Ok(report) => report?,
            Err(error) if matches!(error.errno(), Errno::BADMSG | Errno::PROTONOSUPPORT) => {
                return Some(Err(error.detail().map_or_else(|| error.to_string(), str::to_owned)));
            }
            // An unreadable file is reported by the trials.
            Err(_) => return None,
        };
        let descriptor = report.descriptor;
        let layout = descriptor.layout;
        let object = |(index, found): (usize, stripe::ObjectReport)| {
            let held = found.size.saturating_sub(layout.start());
            match found.state {
                ObjectState::Sound => {
                    Object::probe(found.path, held, find_object(&descriptor, index, report.owner))
                }
                state => Object::unknown(found.path, state, held),
            }
        };
        let (id, size, copy) = (descriptor.id, report.size, report.copy);
        let objects = report.objects.into_iter().enumerate().map(object).collect();
        Some(Ok(Stripes { id, layout, size, copy, objects }))
    }

    /// Returns the alignments of the striped file, which are those of its strictest object.
    pub(super) fn geometry(&self) -> Result<Geometry, String> {
        joined(&self.layout, self.objects.iter().map(|object| &object.geometry))
    }

    /// Returns the combined results of the trials on all objects.
    pub(super) fn trials(&self) -> Trials {
        let of = |figure: fn(&Trials) -> &Answer| {
            together(self.objects.iter().map(|object| figure(&object.trials)))
        };
        let overwrites = "it is not written to find out".to_owned();
        Trials {
            open_direct: of(|trials| &trials.open_direct),
            read_direct: of(|trials| &trials.read_direct),
            write_direct: of(|trials| &trials.write_direct),
            uncached_read: of(|trials| &trials.uncached_read),
            uncached_new: of(|trials| &trials.uncached_new),
            uncached_overwrite: of(|trials| &trials.uncached_overwrite),
            uncached_overwrite_cached: of(|trials| &trials.uncached_overwrite_cached),
            atomic_write: of(|trials| &trials.atomic_write),
            overwrites: Overwrites::not_measured(Sharing::Unknown(overwrites)),
        }
    }
}

/// Returns the geometry of a striped file with these objects.
fn joined<'a>(
    layout: &Layout,
    objects: impl Iterator<Item = &'a Result<Geometry, String>>,
) -> Result<Geometry, String> {
    let mut each = Vec::new();
    for (index, geometry) in objects.enumerate() {
        each.push(geometry.as_ref().map_err(|reason| format!("object {index}: {reason}"))?);
    }
    let joined = Geometry::joined(&each, layout.row()).map_err(|error| words_of(&error))?;
    let align = joined.offset_align().max(joined.read_offset_align());
    if (layout.stripe() | layout.start()) % align != 0 {
        return Err(
            "the stripe size is no multiple of the alignment that a target demands".to_owned()
        );
    }
    let some = |wanted| each.iter().any(|geometry| geometry.directness() == wanted);
    Ok(joined.with_directness(match () {
        () if some(Directness::Refused) => Directness::Refused,
        () if some(Directness::Unknown) => Directness::Unknown,
        () => Directness::Reported,
    }))
}

/// Combines the answers for all objects: their common answer, or else the first `No`, or else the
/// first `Unknown`.
fn together<'a>(answers: impl Iterator<Item = &'a Answer>) -> Answer {
    let answers: Vec<&Answer> = answers.collect();
    match answers.split_first() {
        None => Answer::Unknown("there are no objects".to_owned()),
        Some((first, others)) if others.iter().all(|other| other == first) => (*first).clone(),
        Some(_) => {
            let all = || answers.iter().enumerate();
            let refused = all().find_map(|(index, answer)| match answer {
                Answer::No(reason) => Some(Answer::No(format!("object {index}: {reason}"))),
                Answer::Yes | Answer::Unknown(_) => None,
            });
            let unknown = || {
                all().find_map(|(index, answer)| match answer {
                    Answer::Unknown(reason) => {
                        Some(Answer::Unknown(format!("object {index}: {reason}")))
                    }
                    Answer::Yes | Answer::No(_) => None,
                })
            };
            refused.or_else(unknown).unwrap_or(Answer::Yes)
        }
    }
}

impl Object {
    /// Runs the trials that only read, on the object that was found at `path`.
    fn probe(
        path: PathBuf,
        held: u64,
        found: Result<(OwnedFd, Stat), (Errno, &'static str)>,
    ) -> Object {
        let (place, stat) = match found {
            Ok(found) => found,
            // It existed a moment ago.
            Err((Errno::NOENT, _)) => return Object::unknown(path, ObjectState::Missing, held),
            Err((errno, "")) => {
                return Object::unknown(path, ObjectState::Wrong(words(errno)), held);
            }
            Err((_, what)) => {
                return Object::unknown(path, ObjectState::Wrong(what.to_owned()), held);
            }
        };
        let is_device = FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice;
        let kind = if is_device { Kind::BlockDevice } else { Kind::File };
        let mount = Mount::of(&place);
        // Opened through the descriptor, so that it is the file that was checked.
        let (geometry, trials) = on_existing_file(&fd_path(&place), &place);
        Object {
            path,
            state: ObjectState::Sound,
            held,
            file_system: FileSystem::of(place.as_fd()).ok(),
            device: Device::below(kind, &stat, mount.as_ref()),
            mount,
            geometry,
            trials,
        }
    }

    /// Makes the result for an object that is missing or wrong.
    fn unknown(path: PathBuf, state: ObjectState, held: u64) -> Object {
        let reason = match &state {
            ObjectState::Sound => "it was not looked at".to_owned(),
            ObjectState::Missing => "it is missing".to_owned(),
            ObjectState::Wrong(what) => what.clone(),
        };
        Object {
            path,
            state,
            held,
            file_system: None,
            mount: None,
            geometry: Err(reason.clone()),
            device: Err(reason.clone()),
            trials: Trials::unknown(&reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::probe;
    use crate::stripe::{StripePlan, create};

    #[test]
    fn answers_of_objects_become_one() {
        let (yes, no, unknown) =
            (Answer::Yes, Answer::No("it is cached".into()), Answer::Unknown("it is short".into()));
        assert_eq!(together([&yes, &yes].into_iter()), Answer::Yes);
        assert_eq!(together([&no, &no].into_iter()), no);
        assert_eq!(
            together([&yes, &unknown, &no].into_iter()),
            Answer::No("object 2: it is cached".into())
        );
        assert_eq!(
            together([&yes, &unknown].into_iter()),
            Answer::Unknown("object 1: it is short".into())
        );
        assert!(matches!(together([].into_iter()), Answer::Unknown(_)));
    }

    #[test]
    fn the_strictest_object_decides() {
        let layout = Layout::new(64 << 10, 2).unwrap();
        let of = |each: [Result<Geometry, String>; 2]| joined(&layout, each.iter());
        let known = |memory, offset| Ok(Geometry::fixed(memory, offset).unwrap());
        let whole = of([known(4, 512), known(512, 4096)]).unwrap();
        assert_eq!(
            (whole.mem_align(), whole.offset_align(), whole.preferred()),
            (512, 4096, 128 << 10)
        );
        assert_eq!(whole.directness(), Directness::Reported);
        let refused = known(4, 512).map(|geometry| geometry.with_directness(Directness::Refused));
        assert_eq!(of([known(4, 512), refused]).unwrap().directness(), Directness::Refused);
        assert!(of([known(4, 512), known(4, 1 << 20)]).unwrap_err().contains("the stripe size"));
        assert_eq!(
            of([known(4, 512), Err("it is missing".into())]).unwrap_err(),
            "object 1: it is missing"
        );
    }

    #[test]
    fn a_striped_file_is_probed_by_its_objects_and_left_as_it_was() {
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let targets: Vec<PathBuf> = ["a", "b"].map(|name| dir.path().join(name)).into();
        targets.iter().for_each(|target| std::fs::create_dir(target).unwrap());
        let path = dir.path().join("file");
        let descriptor =
            create(&path, &StripePlan { stripe: Some(64 << 10), targets, ..StripePlan::default() })
                .unwrap();
        let contents: Vec<u8> = (0..1_000_000u32).map(|number| (number / 7) as u8).collect();
        let file = crate::OpenOptions::new().write(true).open(&path).unwrap();
        file.write_at(&contents, 0).unwrap();
        file.sync_all().unwrap();
        let opened = *file.geometry();
        drop(file);
        let report = probe(&path).unwrap();
        let stripes = report.stripes.unwrap().unwrap();
        assert_eq!((stripes.size, stripes.objects.len(), stripes.copy), (1_000_000, 2, false));
        assert_eq!(stripes.objects.iter().map(|object| object.held).sum::<u64>(), 1_000_000);
        let whole = report.geometry.unwrap();
        assert_eq!(
            (whole.mem_align(), whole.offset_align()),
            (opened.mem_align(), opened.offset_align())
        );
        for object in &stripes.objects {
            assert_eq!(object.state, ObjectState::Sound);
            assert!(
                object.mount.is_some()
                    && object.file_system.is_some_and(|found| found.magic() != 0)
            );
            assert!(matches!(object.trials.write_direct, Answer::Unknown(_)));
            if object.geometry.as_ref().unwrap().directness() == Directness::Reported {
                assert_eq!(object.trials.read_direct, Answer::Yes);
            }
        }
        let mut found = vec![0; contents.len()];
        crate::File::open(&path).unwrap().read_at(&mut found, 0).unwrap();
        assert!(found == contents);
        // Without an object, the other results are reported, and the missing object is named.
        std::fs::remove_file(descriptor.object_path(1)).unwrap();
        let report = probe(&path).unwrap();
        assert_eq!(report.geometry.unwrap_err(), "object 1: it is missing");
        assert!(matches!(report.trials.read_direct, Answer::Unknown(reason) if reason == "object \
            1: it is missing"));
        // A file with a damaged descriptor is not treated as an ordinary file.
        let mut text = std::fs::read(&path).unwrap();
        text[100] ^= 1;
        std::fs::write(&path, text).unwrap();
        assert!(probe(&path).unwrap().stripes.unwrap().unwrap_err().contains("damaged"));
    }
}
