//! The storage of pages and log: a raw device, bare files, or files below a mount. It is set up
//! before a run and taken down afterwards.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dio::block::Pool;
use rustix::fs::OFlags;

use super::page;
use super::{OltpPlan, OpenMode};
use crate::BenchError;
use crate::cold;
use crate::data::{Random, Scratch};
use crate::study::Contender;
use crate::study::device::{Loop, check_device};
use crate::study::mount::{Mounter, StudyMount};

/// Bytes of each write while pages are made.
const CHUNK: usize = 4 << 20;

/// Bytes of the log.
pub(super) const LOG: u64 = 64 << 20;

/// A range of a file or device.
#[derive(Clone, Debug)]
pub(super) struct FileRange {
    pub(super) file: Arc<File>,
    pub(super) base: u64,
}

/// The open files of pages and log.
#[derive(Debug)]
pub(super) struct Storage {
    files: Vec<FileRange>,
    pub(super) log: FileRange,
    pub(super) page_bytes: usize,
    pages_of_file: u64,
}

impl Storage {
    /// The file that holds a page, and the page's offset in it.
    pub(super) fn find(&self, page: u64) -> (&File, u64) {
        let place = &self.files[(page / self.pages_of_file) as usize];
        (&place.file, place.base + page % self.pages_of_file * self.page_bytes as u64)
    }

    /// Writes every page in version 0, and all of the log, since space that is only allocated
    /// behaves differently from written space.
    fn fill(&self) -> std::io::Result<()> {
        let pool = Pool::new(CHUNK, 1)?;
        let mut block = pool.try_take().expect("nobody else takes from this pool");
        let mut random = Random::new(0x01_79);
        let step = (CHUNK / self.page_bytes).max(1) as u64;
        for (number, place) in self.files.iter().enumerate() {
            let first = number as u64 * self.pages_of_file;
            let mut at = 0;
            while at < self.pages_of_file {
                let count = step.min(self.pages_of_file - at);
                let bytes = &mut block.bytes_mut()[..count as usize * self.page_bytes];
                for (behind, page) in bytes.chunks_mut(self.page_bytes).enumerate() {
                    page::make(page, first + at + behind as u64, &mut random);
                }
                place.file.write_all_at(bytes, place.base + at * self.page_bytes as u64)?;
                at += count;
            }
            place.file.sync_all()?;
        }
        for at in (0..LOG).step_by(CHUNK) {
            self.log.file.write_all_at(block.bytes_mut(), self.log.base + at)?;
        }
        self.log.file.sync_all()
    }
}

/// The raw device.
#[derive(Debug)]
enum Device {
    /// A device that the user named; its contents are lost.
    Given(PathBuf),
    Ours(Loop),
}

/// The directory and the device of one study.
#[derive(Debug)]
pub(super) struct StudyFiles<'a> {
    plan: &'a OltpPlan,
    /// Dropped before `scratch`, since a loop device of ours has its image there.
    raw: Option<Device>,
    source: PathBuf,
    at: PathBuf,
    scratch: Scratch,
}

impl<'a> StudyFiles<'a> {
    /// Creates the files, and the device if one is among the contenders, and writes every page.
    pub(super) fn prepare(
        plan: &'a OltpPlan,
        contenders: &[Contender],
    ) -> Result<StudyFiles<'a>, BenchError> {
        let scratch = Scratch::new(&plan.directory)?;
        let (source, at) = (scratch.path("files"), scratch.path("at"));
        for directory in [&source, &at] {
            std::fs::create_dir(directory).map_err(BenchError::system("create", directory))?;
        }
        let mut ground = StudyFiles { plan, raw: None, source, at, scratch };
        if contenders.iter().any(|contender| *contender != Contender::Raw) {
            let names: Vec<PathBuf> =
                ground.names().iter().map(|name| ground.source.join(name)).collect();
            for path in &names {
                File::create_new(path).map_err(BenchError::system("create", path))?;
            }
            let storage = ground.files(&ground.source, true)?;
            storage.fill().map_err(BenchError::system("fill files in", &ground.source))?;
        }
        if contenders.contains(&Contender::Raw) {
            ground.prepare_raw()?;
        }
        Ok(ground)
    }

    fn prepare_raw(&mut self) -> Result<(), BenchError> {
        if let Some(device) = &self.plan.raw {
            check_device(device, self.bytes())?;
            self.raw = Some(Device::Given(device.clone()));
            let storage = self.device(device, device)?;
            return storage.fill().map_err(BenchError::system("fill", device));
        }
        let (image, log) = (self.scratch.path("image"), self.scratch.path("image-log"));
        for path in [&image, &log] {
            File::create_new(path).map_err(BenchError::system("create", path))?;
        }
        let storage = self.device(&image, &log)?;
        storage.fill().map_err(BenchError::system("fill", &image))?;
        drop(storage);
        self.raw = Some(Device::Ours(Loop::over(&image)?));
        Ok(())
    }

    fn names(&self) -> Vec<String> {
        (0..self.plan.files)
            .map(|number| format!("data{number}"))
            .chain(["log".to_owned()])
            .collect()
    }

    fn bytes(&self) -> u64 {
        self.plan.files * self.plan.size + LOG
    }

    /// The device or directory that the contender's pages and log are on.
    pub(super) fn seen(&self, contender: Contender) -> &Path {
        match (&self.raw, contender) {
            // The image of a loop device is a file on the same storage as the directory.
            (Some(Device::Given(device)), Contender::Raw) => device,
            _ => &self.source,
        }
    }

    /// Opens the pages in one file or device. The log is behind them if `log` is the same path,
    /// otherwise in its own file.
    fn device(&self, path: &Path, log: &Path) -> Result<Storage, BenchError> {
        let data = Arc::new(open(path, OFlags::DIRECT)?);
        let base = if log == path { self.plan.files * self.plan.size } else { 0 };
        let log = FileRange { file: Arc::new(open(log, OFlags::DIRECT | OFlags::DSYNC)?), base };
        let place = |number| FileRange { file: Arc::clone(&data), base: number * self.plan.size };
        Ok(self.storage((0..self.plan.files).map(place).collect(), log))
    }

    /// Opens the device. If the device is a loop device of ours, the log is a file beside it: a
    /// flush of a loop device commits the journal of the file system below, because the image's
    /// modification time has changed. No real device has to do that.
    fn raw(&self) -> Result<Storage, BenchError> {
        match &self.raw {
            Some(Device::Ours(device)) => {
                self.device(device.device(), &self.scratch.path("image-log"))
            }
            Some(Device::Given(device)) => self.device(device, device),
            None => Err(BenchError::Asked("there is no raw device".to_owned())),
        }
    }

    /// Opens the files in a directory.
    fn files(&self, directory: &Path, direct: bool) -> Result<Storage, BenchError> {
        let flags = if direct { OFlags::DIRECT } else { OFlags::empty() };
        let mut names = self.names();
        let log = names.pop().unwrap_or_default();
        let place =
            |path: PathBuf, flags| Ok(FileRange { file: Arc::new(open(&path, flags)?), base: 0 });
        let files: Result<Vec<FileRange>, BenchError> =
            names.iter().map(|name| place(directory.join(name), flags)).collect();
        Ok(self.storage(files?, place(directory.join(log), flags | OFlags::DSYNC)?))
    }

    fn storage(&self, files: Vec<FileRange>, log: FileRange) -> Storage {
        let page_bytes = self.plan.page;
        Storage { files, log, page_bytes, pages_of_file: self.plan.size / page_bytes as u64 }
    }

    /// Opens a contender's storage, and mounts it if the contender is a mount.
    pub(super) fn enter(&self, contender: Contender) -> Result<OpenStorage, BenchError> {
        let plan = self.plan;
        let mounter = Mounter {
            program: &plan.program,
            io_uring: plan.io_uring,
            options: &plan.mount_options,
        };
        let mount = mounter.mount(contender, &self.source, &self.at)?;
        let storage = match contender {
            Contender::Raw => self.raw()?,
            Contender::Bare => self.files(&self.source, true)?,
            Contender::Buffered => self.files(&self.source, false)?,
            _ => self.files(&self.at, plan.open == OpenMode::Direct)?,
        };
        Ok(OpenStorage { storage, mount })
    }

    /// Opens the storage of a contender without its mount and without the page cache.
    pub(super) fn beside(&self, contender: Contender) -> Result<Storage, BenchError> {
        if contender == Contender::Raw { self.raw() } else { self.files(&self.source, true) }
    }

    /// Removes a contender's files from the page cache, so that the next run begins without them.
    pub(super) fn forget(&self, contender: Contender) -> Result<(), BenchError> {
        let names = if contender == Contender::Buffered { self.names() } else { Vec::new() };
        names.iter().try_for_each(|name| {
            cold::make_cold(&self.source.join(name), cold::EmptiedCaches::File)
        })
    }
}

/// An open storage.
#[derive(Debug)]
pub(super) struct OpenStorage {
    pub(super) storage: Storage,
    mount: Option<StudyMount>,
}

impl OpenStorage {
    /// The mount point.
    pub(super) fn at(&self) -> Option<&Path> {
        self.mount.as_ref().map(StudyMount::at)
    }

    /// Closes the storage and unmounts, which writes all data that are still unwritten.
    pub(super) fn leave(self) -> Result<(), BenchError> {
        drop(self.storage);
        self.mount.map_or(Ok(()), StudyMount::leave)
    }
}

fn open(path: &Path, flags: OFlags) -> Result<File, BenchError> {
    let flags = flags.bits().cast_signed();
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(flags)
        .open(path)
        .map_err(BenchError::system("open", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_follow_each_other_through_the_files() {
        let file = Arc::new(tempfile::tempfile().unwrap());
        let place = |base| FileRange { file: Arc::clone(&file), base };
        let storage = Storage {
            files: vec![place(0), place(65536)],
            log: place(131_072),
            page_bytes: 8192,
            pages_of_file: 8,
        };
        let at: Vec<u64> = [0, 7, 8, 15].into_iter().map(|page| storage.find(page).1).collect();
        assert_eq!(at, [0, 7 * 8192, 65536, 65536 + 7 * 8192]);
        storage.fill().unwrap();
        let mut bytes = vec![0; 8192];
        for number in 0..16 {
            let (file, at) = storage.find(number);
            file.read_exact_at(&mut bytes, at).unwrap();
            assert_eq!(page::check(&bytes, number, 0), Ok(()));
        }
    }
}
