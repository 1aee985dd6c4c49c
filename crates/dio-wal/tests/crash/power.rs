//! The states that a power cut after some of the events may leave.

use std::sync::Arc;

use dio_test::Rng;

use crate::disk::{Event, Image, SECTOR};

/// A change of a file that was not durable when it was made.
#[derive(Clone)]
enum Change {
    /// A unit that is written wholly or not at all: a sector, or a whole write that is never torn.
    Sector {
        write: usize,
        offset: usize,
        bytes: Arc<[u8]>,
        from: usize,
        len: usize,
        whole: bool,
    },
    Size(usize),
}

/// The fate of a volatile change when the power fails.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Kept,
    Lost,
    /// The disk was writing the sector, which then holds neither the old bytes nor the new ones. A
    /// write that is never torn is kept instead.
    Shorn,
}

#[derive(Clone)]
struct Pending {
    change: Change,
    /// The change is durable, but follows changes that are not.
    must: bool,
    /// The sync that should have made it durable failed.
    doubtful: bool,
}

/// The state of a disk after some events: what is durable, and what is not.
#[derive(Clone, Default)]
pub(crate) struct Cut {
    durable: Image,
    files: Vec<Vec<Pending>>,
    names: Vec<Event>,
}

impl Cut {
    pub(crate) fn new(image: Image) -> Cut {
        let files = vec![Vec::new(); image.files.len()];
        Cut { durable: image, files, names: Vec::new() }
    }

    /// Advances by one event, which has this number.
    pub(crate) fn apply(&mut self, number: usize, event: &Event) {
        match event {
            Event::Write { file, offset, bytes, whole } => {
                let len = if *whole { bytes.len() } else { SECTOR };
                for from in (0..bytes.len()).step_by(len) {
                    let change = Change::Sector {
                        write: number,
                        offset: offset + from,
                        bytes: Arc::clone(bytes),
                        from,
                        len,
                        whole: *whole,
                    };
                    self.pend(*file, change);
                }
            }
            Event::WriteDurable { file, write: done } => {
                for pending in &mut self.files[*file] {
                    pending.must |=
                        matches!(&pending.change, Change::Sector { write, .. } if write == done);
                }
                self.settle(*file);
            }
            Event::Size { file, size } => self.pend(*file, Change::Size(*size)),
            Event::Synced { file } => {
                self.files[*file].iter_mut().for_each(|pending| pending.must |= !pending.doubtful);
                self.settle(*file);
            }
            Event::Settled { file, bytes } => {
                self.files[*file].clear();
                self.durable.files[*file] = bytes.to_vec();
            }
            Event::SyncFailed { file } => {
                self.files[*file].iter_mut().for_each(|pending| pending.doubtful |= !pending.must);
            }
            Event::Named { file, .. } => {
                assert_eq!(*file, self.files.len());
                self.files.push(Vec::new());
                self.durable.files.push(Vec::new());
                self.names.push(event.clone());
            }
            Event::Renamed { .. } | Event::Removed { .. } => self.names.push(event.clone()),
            Event::NamesSynced => {
                for event in std::mem::take(&mut self.names) {
                    name(&mut self.durable, &event);
                }
            }
        }
    }

    fn pend(&mut self, file: usize, change: Change) {
        self.files[file].push(Pending { change, must: false, doubtful: false });
    }

    /// Moves durable changes without a volatile change before them into the image.
    fn settle(&mut self, file: usize) {
        let sure = self.files[file].iter().take_while(|pending| pending.must).count();
        for pending in self.files[file].drain(..sure) {
            change(&mut self.durable.files[file], &pending.change);
        }
    }

    /// Number of changes that a power cut may keep or lose.
    pub(crate) fn undecided(&self) -> usize {
        let volatile = self.files.iter().flatten().filter(|pending| !pending.must).count();
        volatile + self.names.len()
    }

    /// The image in which those undecided changes are kept for which `keep` returns `true`. They
    /// are passed in order.
    pub(crate) fn image(&self, mut keep: impl FnMut(usize) -> bool) -> Image {
        self.image_with(|number| if keep(number) { Fate::Kept } else { Fate::Lost })
    }

    /// The image in which each undecided change has the fate that `fate` returns.
    pub(crate) fn image_with(&self, mut fate: impl FnMut(usize) -> Fate) -> Image {
        let mut image = self.durable.clone();
        let mut number = 0;
        let mut decide = |must: bool| {
            if must {
                return Fate::Kept;
            }
            number += 1;
            fate(number - 1)
        };
        for (file, pendings) in self.files.iter().enumerate() {
            for pending in pendings {
                match decide(pending.must) {
                    Fate::Kept => change(&mut image.files[file], &pending.change),
                    Fate::Lost => {}
                    Fate::Shorn => shear(&mut image.files[file], &pending.change),
                }
            }
        }
        for event in &self.names {
            if decide(false) == Fate::Kept {
                name(&mut image, event);
            }
        }
        image
    }

    /// Visits some of the images that a power cut may leave here: all images if they are few, else
    /// the simple ones (nothing kept, everything, each beginning, all but one, one alone) and
    /// random ones.
    pub(crate) fn images(&self, random: &mut Rng, most: usize, mut visit: impl FnMut(Image)) {
        let count = self.undecided();
        if 1usize.checked_shl(count as u32).is_some_and(|all| all <= most) {
            for set in 0..1usize << count {
                visit(self.image(|number| set >> number & 1 == 1));
            }
            if count > 0 {
                visit(self.image_with(|_| Fate::Shorn));
            }
            return;
        }
        visit(self.image(|_| false));
        visit(self.image(|_| true));
        for _ in 2..most {
            let at = random.range_usize(0..count);
            match random.range(0..6) {
                0 => visit(self.image(|number| number < at)),
                1 => visit(self.image(|number| number >= at)),
                2 => visit(self.image(|number| number != at)),
                3 => visit(self.image(|number| number == at)),
                4 => {
                    let fates = [Fate::Kept, Fate::Lost, Fate::Shorn];
                    visit(self.image_with(|_| *random.pick(&fates)));
                }
                _ => {
                    let chance = *random.pick(&[0.1, 0.5, 0.9]);
                    visit(self.image(|_| random.bool(chance)));
                }
            }
        }
    }
}

fn change(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Size(size) => bytes.resize(*size, 0),
        Change::Sector { offset, bytes: from_bytes, from, len, .. } => {
            // Bytes behind the end are lost if the new size is lost.
            if let Some(sector) = bytes.get_mut(*offset..*offset + len) {
                sector.copy_from_slice(&from_bytes[*from..*from + len]);
            }
        }
    }
}

fn shear(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Sector { offset, whole: false, .. } => {
            if let Some(sector) = bytes.get_mut(*offset..*offset + SECTOR) {
                sector
                    .iter_mut()
                    .enumerate()
                    .for_each(|(at, byte)| *byte ^= (at as u8).wrapping_mul(31) | 1);
            }
        }
        other => self::change(bytes, other),
    }
}

fn name(image: &mut Image, event: &Event) {
    match event {
        Event::Named { name, file } => drop(image.names.insert(name.clone(), *file)),
        Event::Renamed { from, to, file } => {
            if image.names.get(from) == Some(file) {
                image.names.remove(from);
            }
            image.names.insert(to.clone(), *file);
        }
        Event::Removed { name } => drop(image.names.remove(name)),
        _ => unreachable!("an event of names"),
    }
}
