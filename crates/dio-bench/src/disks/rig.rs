//! The disks: loop devices over images, each limited to the speed of a disk. A file system is on
//! the first part of each. The raw way reads and writes the rest.

use std::path::{Path, PathBuf};
use std::process::Command;

use dio::stripe;
use dio::{File, Mode, Need, OpenOptions};

use super::plan::{AccessPath, Direction, DisksPlan};
use super::throttle::{Controller, Rule};
use super::work::{DiskLane, LaneRequests};
use crate::BenchError;
use crate::data::Scratch;
use crate::study::device::Loop;
use crate::study::run_for_stdout;
use crate::undo::Undo;

/// Bytes of a block of the file systems.
const BLOCK: u64 = 4096;

/// Bytes that a file system needs for its journal. It needs one byte in 16 more for inodes and the
/// like, see [`Rig::prepare`].
const OWN: u64 = 96 << 20;

/// One disk. The fields are dropped in the reverse order of their setup.
#[derive(Debug)]
struct Disk {
    rule: Rule,
    device: Loop,
    /// The mount point of its file system while it is in use.
    at: PathBuf,
    name: String,
}

/// All disks.
#[derive(Debug)]
pub(super) struct Rig<'a> {
    plan: &'a DisksPlan,
    disks: Vec<Disk>,
    /// The offset on each disk at which the part without a file system begins.
    raw: u64,
    controller: Controller,
    scratch: Scratch,
}

/// A mounted file system; unmounted when dropped.
#[derive(Debug)]
struct RigMount(Undo);

/// The open files or devices that a way reads or writes.
#[derive(Debug)]
pub(super) struct OpenLanes {
    pub(super) lanes: Vec<DiskLane>,
    mounts: Vec<RigMount>,
}

impl OpenLanes {
    /// Closes the files, and unmounts.
    pub(super) fn leave(self) -> Result<(), BenchError> {
        drop(self.lanes);
        self.mounts.into_iter().try_for_each(|mount| mount.0.now())
    }
}

impl Disk {
    fn mount(&self) -> Result<RigMount, BenchError> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "ext4", "-o", "noatime"]).arg(self.device.device()).arg(&self.at);
        let (_, undo) = Undo::of(&mut mount, |_| Undo::unmounting(&self.at))?;
        Ok(RigMount(undo))
    }
}

impl<'a> Rig<'a> {
    /// Creates the images, the devices and the file systems, at full speed.
    ///
    /// # Errors
    /// When there is no space, no loop device or no controller, or when this process has no right
    /// to one of them.
    pub(super) fn prepare(plan: &'a DisksPlan) -> Result<Rig<'a>, BenchError> {
        let controller = Controller::enter()?;
        let scratch = Scratch::new(&plan.directory)?;
        let each = plan.bytes_of_each();
        let raw = (each + each / 16 + OWN).next_multiple_of(1 << 20);
        let mut rig = Rig { plan, disks: Vec::new(), raw, controller, scratch };
        for index in 0..plan.most() {
            // The image is written, not only allocated: reads of unwritten extents would never
            // reach the disk below.
            let image = rig.scratch.random_file(&format!("image{index}"), raw + each)?;
            let at = rig.scratch.path(&format!("disk{index}"));
            std::fs::create_dir(&at).map_err(BenchError::system("create", &at))?;
            let device = Loop::over(&image)?;
            let name = name_of(device.device());
            let rule = rig.controller.rule(&number_of(&name)?, plan.rate)?;
            let options = [
                "-q",
                "-F",
                "-b",
                "4096",
                "-E",
                "nodiscard,lazy_itable_init=0,lazy_journal_init=0",
            ];
            let blocks = (raw / BLOCK).to_string();
            run_for_stdout(
                Command::new("mkfs.ext4").args(options).arg(device.device()).arg(&blocks),
            )?;
            rig.disks.push(Disk { rule, device, at, name });
        }
        Ok(rig)
    }

    /// The controller of control groups that limits the disks.
    pub(super) fn limited_by(&self) -> &'static str {
        self.controller.name()
    }

    /// The first image; the storage below it is that of all images.
    pub(super) fn image(&self) -> PathBuf {
        self.scratch.path("image0")
    }

    /// Kernel names of the first disks.
    pub(super) fn names(&self, targets: usize) -> Vec<String> {
        self.disks[..targets].iter().map(|disk| disk.name.clone()).collect()
    }

    fn file(&self, targets: usize) -> PathBuf {
        self.scratch.path(&format!("striped-{targets}"))
    }

    fn mount(&self, targets: usize) -> Result<Vec<RigMount>, BenchError> {
        self.disks[..targets].iter().map(Disk::mount).collect()
    }

    /// Puts the limits of all disks in force, or lifts them.
    pub(super) fn throttle(&self, on: bool) -> Result<(), BenchError> {
        self.disks.iter().try_for_each(|disk| disk.rule.set(on))
    }

    /// Creates the file that is striped over the first `targets` disks, and writes all its bytes,
    /// at full speed.
    pub(super) fn make(&self, targets: usize) -> Result<(), BenchError> {
        self.throttle(false)?;
        let mounts = self.mount(targets)?;
        let plan = stripe::StripePlan {
            stripe: Some(self.plan.stripe),
            count: Some(targets),
            targets: self.disks[..targets].iter().map(|disk| disk.at.clone()).collect(),
            force: false,
        };
        let path = self.file(targets);
        stripe::create(&path, &plan)?;
        let bytes = self.plan.bytes_of_each() * targets as u64;
        let file = OpenOptions::new().read(true).write(true).open(&path)?;
        file.allocate(0..bytes, true)?;
        let lane = DiskLane::new(file, 0, self.plan.stripe * targets as u64);
        let mut work = LaneRequests::new(std::slice::from_ref(&lane), self.plan.depth)?;
        work.run(Direction::Write, 0..self.plan.blocks())?;
        work.finish(Direction::Write)?;
        drop(work);
        OpenLanes { lanes: vec![lane], mounts }.leave()?;
        self.throttle(true)
    }

    /// Removes the file that [`Rig::make`] created.
    pub(super) fn remove(&self, targets: usize) -> Result<(), BenchError> {
        self.throttle(false)?;
        let mounts = self.mount(targets)?;
        stripe::remove(self.file(targets))?;
        OpenLanes { lanes: Vec::new(), mounts }.leave()
    }

    /// Opens the files or devices of a way. None of their data is in the page cache, since the file
    /// systems were mounted just now.
    pub(super) fn enter(
        &self,
        targets: usize,
        way: AccessPath,
        direction: Direction,
    ) -> Result<OpenLanes, BenchError> {
        let mut options = OpenOptions::new();
        options.read(true).write(direction == Direction::Write);
        match way {
            AccessPath::Cached => options.mode(Mode::Cached),
            AccessPath::Direct | AccessPath::Raw => options.mode(Mode::Direct).need(Need::Required),
        };
        if way == AccessPath::Raw {
            let lane = |disk: &Disk| {
                Ok(DiskLane::new(options.open(disk.device.device())?, self.raw, self.plan.stripe))
            };
            let lanes: Result<Vec<DiskLane>, BenchError> =
                self.disks[..targets].iter().map(lane).collect();
            return Ok(OpenLanes { lanes: lanes?, mounts: Vec::new() });
        }
        let mounts = self.mount(targets)?;
        let file: File = options.open(self.file(targets))?;
        Ok(OpenLanes {
            lanes: vec![DiskLane::new(file, 0, self.plan.stripe * targets as u64)],
            mounts,
        })
    }
}

fn name_of(device: &Path) -> String {
    device.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Returns `MAJOR:MINOR` of a block device.
fn number_of(name: &str) -> Result<String, BenchError> {
    let path = Path::new("/sys/class/block").join(name).join("dev");
    let text = std::fs::read_to_string(&path).map_err(BenchError::system("read", &path))?;
    Ok(text.trim().to_owned())
}

/// The sum of the bytes that devices have read and written so far (`/sys/class/block/NAME/stat`,
/// `Documentation/block/stat.rst`).
pub(super) fn moved(names: &[String]) -> u64 {
    let of = |name: &String| {
        let text =
            std::fs::read_to_string(format!("/sys/class/block/{name}/stat")).unwrap_or_default();
        let fields: Vec<u64> =
            text.split_whitespace().map_while(|field| field.parse().ok()).collect();
        fields.get(2).zip(fields.get(6)).map_or(0, |(read, written)| (read + written) * 512)
    };
    names.iter().map(of).sum()
}
