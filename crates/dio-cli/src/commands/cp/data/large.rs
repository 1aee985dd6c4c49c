//! Large files: the library's copy loop, with a limited number of copiers shared by the workers.

use std::ops::Range;
use std::os::fd::OwnedFd;

use dio::file::Reason;
use dio::transfer::{Contents as Whole, Sparse, TransferError, Watch};
use dio::{File, Need, OpenOptions};
use rustix::fs::FileType;
use rustix::io::{Errno, fcntl_dupfd_cloexec};

use super::super::error::{CopyError, is_shortage};
use super::super::open::OpenTarget;
use super::digests::Digests;
use super::path::{DataPath, Task, WorkerBuffer};
use crate::tool::{Mode, When};

/// A watcher for scans that also stops when the run is asked to stop.
struct Stoppable<'a> {
    data: &'a DataPath,
    watch: &'a mut dyn Watch,
}

impl Watch for Stoppable<'_> {
    fn read(&mut self, offset: u64, bytes: &[u8]) {
        self.watch.read(offset, bytes);
    }

    fn stopped(&self) -> bool {
        self.data.stopped()
    }
}

/// A watcher for transfers. It adds to the progress and the digests.
struct Watcher<'a> {
    data: &'a DataPath,
    digests: Option<&'a mut Digests>,
}

impl Watch for Watcher<'_> {
    fn read(&mut self, offset: u64, bytes: &[u8]) {
        if let Some(digests) = &mut self.digests {
            digests.add(offset, bytes);
        }
    }

    fn written(&mut self, bytes: u64) {
        self.data.progress.add(bytes);
    }

    fn stopped(&self) -> bool {
        self.data.stopped()
    }
}

impl DataPath {
    /// The options for opening files, from the command line's options.
    pub(super) fn open_options(&self) -> Result<OpenOptions, CopyError> {
        let mode = match self.transfer.mode {
            Mode::Auto | Mode::Direct => dio::Mode::Direct,
            Mode::Uncached => dio::Mode::Uncached,
            Mode::Cached => dio::Mode::Cached,
        };
        let need = if self.transfer.strict { Need::Required } else { Need::Preferred };
        let mut options = OpenOptions::new();
        options.mode(mode).need(need).io(self.copiers.try_io()?);
        Ok(options)
    }

    /// Opens source and target for the copy loop; returns `None` if too few descriptors are free.
    fn open_large(
        &self,
        task: &Task<'_>,
        target: &OpenTarget,
    ) -> Result<Option<(File, File)>, CopyError> {
        let contents = task.contents;
        let own = |fd: &OwnedFd| fcntl_dupfd_cloexec(fd, 3);
        let (source, file) = match (own(&task.source), own(&target.fd)) {
            (Ok(source), Ok(file)) => (source, file),
            (Err(Errno::MFILE), _) | (_, Err(Errno::MFILE)) => return Ok(None),
            (Err(errno), _) | (_, Err(errno)) => {
                return Err(CopyError::Engine(crate::quote::words(errno)));
            }
        };
        let source = self.open_options()?.read(true).adopt(source, contents.source_path());
        let file = self.open_options()?.write(true).adopt(file, contents.target_path());
        match (source, file) {
            (Ok(source), Ok(file)) => Ok(Some((source, file))),
            (Err(error), _) | (_, Err(error)) if error.errno() == Errno::MFILE => Ok(None),
            (Err(error), _) | (_, Err(error)) => Err(error.into()),
        }
    }

    pub(super) fn copy_large(
        &self,
        lane: &mut WorkerBuffer,
        task: &Task<'_>,
        target: &OpenTarget,
    ) -> Result<(), CopyError> {
        let contents = task.contents;
        if let Some(reason) = self.copiers.try_io()?.engine_reason() {
            self.tell(
                contents.report,
                &format!("io_uring is not used: {reason}; threads are"),
                None,
            );
        }
        let Some((source, file)) = self.open_large(task, target)? else {
            return self.copy_with_few_descriptors(lane, task, target);
        };
        let device = FileType::from_raw_mode(contents.stat.st_mode) == FileType::BlockDevice;
        let size = if device { source.size()? } else { contents.stat.st_size as u64 };
        let whole = self.whole(&source, &file, size);
        let mut digests = self.transfer.verify.then(Digests::default);
        let moved = self.move_large(task, target, &whole, &mut digests);
        // Bytes moved before an error are recorded too, and their pages are also dropped.
        let settled = file.settle().and(source.settle());
        task.account.moved(
            &source.counters(),
            &file.counters(),
            moved.as_ref().map_or(0, |holes| *holes),
        );
        moved?;
        settled?;
        if file.layout().is_some() && (self.durable || self.sync_each) {
            // The bytes of a striped file are in other files, on other file systems.
            file.sync_all()?;
            self.ledger.count_syncs(1);
        }
        task.digests.replace(digests);
        for (file, class) in [(&source, source.read_class()), (&file, file.write_class())] {
            if let (_, Some(reason @ (Reason::NoDirectIo | Reason::KernelBuffers))) = class {
                self.tell(contents.report, reason.text(), Some(file.path()));
            }
        }
        Ok(())
    }

    /// All of a file of `size` bytes, as the options want it to be copied.
    pub(super) fn whole<'a>(&'a self, source: &'a File, target: &'a File, size: u64) -> Whole<'a> {
        Whole {
            source,
            target,
            size,
            start: 0,
            sparse: match self.transfer.sparse {
                When::Auto => Sparse::Auto,
                When::Always => Sparse::Always,
                When::Never => Sparse::Never,
            },
            pace: self.pace.as_ref(),
        }
    }

    /// Moves the bytes for [`DataPath::copy_large`]; returns the number of bytes in holes.
    fn move_large(
        &self,
        task: &Task<'_>,
        target: &OpenTarget,
        whole: &Whole<'_>,
        digests: &mut Option<Digests>,
    ) -> Result<u64, CopyError> {
        // There is no resume note for striped files.
        if self.transfer.resume && !whole.target.is_device() && whole.target.layout().is_none() {
            return self.copy_resumably(task, target, whole, digests);
        }
        if let Some(helpers) = task.contents.helpers
            && self.is_shared(task, whole)
        {
            return self.copy_shared(task, target, whole, helpers);
        }
        self.empty(task, target)?;
        let mut watcher = Watcher { data: self, digests: digests.as_mut() };
        let files = (whole.source, Some(whole.target));
        let copied =
            self.copiers.with(files, |copier| Ok(copier.copy_contents(whole, &mut watcher)?))?;
        if let Some(digests) = digests {
            digests.ranges = copied.ranges;
        }
        Ok(copied.holes)
    }

    /// Transfers some ranges and reports to the watcher. Returns how many bytes are complete, also
    /// with an error.
    pub(super) fn run_job(
        &self,
        job: &dio::transfer::CopierJob<'_>,
        digests: Option<&mut Digests>,
    ) -> Result<u64, (CopyError, u64)> {
        let mut watcher = Watcher { data: self, digests };
        let mut complete = 0;
        let outcome = self.copiers.with((job.source, job.target), |copier| {
            let outcome = copier.run(job, &mut watcher);
            complete = copier.complete();
            Ok(outcome?)
        });
        outcome.map(|()| complete).map_err(|error| (error, complete))
    }

    /// Reads ranges of a file and passes every byte to `watch`.
    pub(super) fn scan(
        &self,
        file: &File,
        ranges: &[Range<u64>],
        watch: &mut dyn Watch,
    ) -> Result<(), CopyError> {
        let job = dio::transfer::CopierJob {
            source: file,
            target: None,
            ranges,
            pace: None,
            skip_zeros: false,
        };
        let mut watch = Stoppable { data: self, watch };
        self.copiers.with((file, None), |copier| Ok(copier.run(&job, &mut watch)?))
    }
}

impl From<TransferError> for CopyError {
    fn from(error: TransferError) -> CopyError {
        match error {
            TransferError::Stopped => CopyError::Interrupted,
            TransferError::Source(error) | TransferError::Target(error) => error.into(),
            TransferError::Engine(_) => CopyError::Shortage(error.to_string()),
            other => CopyError::Transfer(other.to_string()),
        }
    }
}

impl From<dio::FileError> for CopyError {
    fn from(error: dio::FileError) -> CopyError {
        match is_shortage(error.errno()) {
            true => CopyError::Shortage(error.to_string()),
            false => CopyError::Transfer(error.to_string()),
        }
    }
}
