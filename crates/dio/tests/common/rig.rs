//! Striped files on simulated disks.

use std::sync::Arc;

use dio::engine::sim::{SimClock, SimDisk, SimDiskModel, SimEngine, SimMedium};
use dio::stripe::Layout;
use dio::{File, Io, Limits, Mode, OpenOptions};

use super::{fill, sim_geometry};

pub(crate) const STRIPE: u64 = 4096;

/// A striped file with each object on a disk of its own.
pub(crate) struct Rig {
    pub(crate) clock: SimClock,
    pub(crate) disks: Vec<SimDisk>,
    pub(crate) media: Vec<SimMedium>,
    pub(crate) layout: Layout,
    pub(crate) io: Io,
}

impl Rig {
    pub(crate) fn new(objects: usize, model: &SimDiskModel, seed: u64) -> Rig {
        Rig::with(objects, STRIPE, model, seed, Limits { request: 4096, ..Limits::default() })
    }

    pub(crate) fn with(
        objects: usize,
        stripe: u64,
        model: &SimDiskModel,
        seed: u64,
        limits: Limits,
    ) -> Rig {
        let (clock, layout) = (SimClock::new(), Layout::new(stripe, objects).unwrap());
        let disks: Vec<SimDisk> = (0..objects)
            .map(|number| SimDisk::new(&clock, model.clone(), seed + number as u64))
            .collect();
        let media = disks.iter().map(|disk| disk.file(&vec![0; layout.start() as usize])).collect();
        let engines = clock.clone();
        let io = Io::with_engine(limits, "sim", move |depth| {
            Box::new(SimEngine::new(&engines, depth, seed))
        });
        Rig { clock, disks, media, layout, io: io.unwrap() }
    }

    pub(crate) fn open(&self, mode: Mode) -> File {
        self.over(&self.media, mode)
    }

    pub(crate) fn over(&self, media: &[SimMedium], mode: Mode) -> File {
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(mode).io(&self.io);
        let object = |(number, medium): (usize, &SimMedium)| {
            options
                .open_medium(format!("disk{number}"), Arc::new(medium.clone()), sim_geometry(512))
                .unwrap()
        };
        let objects = media.iter().enumerate().map(object).collect();
        options.open_objects("striped", objects, self.layout).unwrap()
    }

    /// The striped file with the contents that its disks have after a power cut on all of them now.
    pub(crate) fn after_power_cut(&self, seed: u64) -> Rig {
        let disks: Vec<SimDisk> = self.disks.iter().map(|disk| disk.power_cut(seed)).collect();
        let media = disks.iter().map(|disk| disk.medium(0)).collect();
        Rig { clock: self.clock.clone(), disks, media, layout: self.layout, io: self.io.clone() }
    }
}

pub(crate) fn contents(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; file.size().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

pub(crate) fn tagged(tag: u64, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    fill(&mut bytes, tag, offset);
    bytes
}
