//! Where the sorted lines go.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use dio::stripe::calls;
use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, fstat, open};
use rustix::io::Errno;
use signal_hook::{flag, low_level};

use crate::stop;
use crate::tool::{Sink, Tool, errno_of};

/// The output, not yet touched.
#[derive(Debug)]
pub(super) struct Target {
    /// None for standard output.
    file: Option<(OsString, OwnedFd)>,
    stat: Option<Stat>,
    /// It was not there before.
    made: bool,
}

impl Target {
    /// Makes sure that the output can be written: it exists from then on, with the bytes it has.
    ///
    /// # Errors
    /// What `open(2)` answers.
    pub(super) fn new(name: Option<&OsStr>) -> Result<Target, Errno> {
        let Some(name) = name else {
            return Ok(Target { file: None, stat: fstat(io::stdout()).ok(), made: false });
        };
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o666);
        let (fd, made) = match open(name, flags, mode) {
            Err(Errno::NOENT) => match calls::openat(CWD, name, flags | OFlags::CREATE | OFlags::EXCL, mode) {
                // A link to nowhere, or somebody else was faster.
                Err(Errno::EXIST) => (open(name, flags | OFlags::CREATE, mode)?, false),
                new => (new?, true),
            },
            old => (old?, false),
        };
        let stat = fstat(&fd).ok();
        Ok(Target { file: Some((name.to_owned(), fd)), stat, made })
    }

    /// What messages call it.
    pub(super) fn name(&self) -> &OsStr {
        self.file.as_ref().map_or(OsStr::new("standard output"), |(name, _)| name)
    }

    /// Whether an input is the same file.
    pub(super) fn is(&self, input: &OsStr) -> bool {
        let other = if input == "-" { fstat(io::stdin()) } else { rustix::fs::stat(input) };
        let same = |a: &Stat, b: &Stat| (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino);
        self.stat.as_ref().is_some_and(|stat| is_file(stat) && other.is_ok_and(|other| same(stat, &other)))
    }

    /// Opens it for the first byte: what it held is gone.
    ///
    /// # Errors
    /// What `ftruncate(2)` and the stream answer.
    pub(super) fn open(&mut self, tool: &Tool) -> io::Result<Sink> {
        let Some((name, fd)) = &self.file else { return standard_output(tool) };
        match calls::ftruncate(fd, 0) {
            Err(error) if self.stat.as_ref().is_some_and(is_file) => Err(error.into()),
            _ => tool.output(fd.as_fd().try_clone_to_owned()?, Path::new(name)),
        }
    }

    /// There is no output: takes away what [`Target::new`] has made.
    pub(super) fn give_up(&self) {
        if let (Some((name, _)), true) = (&self.file, self.made) {
            // It cannot be helped.
            let _ = calls::unlink(Path::new(name));
        }
    }
}

/// Standard output. Where it is closed, or not open for writing, that only matters to the first byte: the stream stands in
/// for it then, and takes none (EBADF).
fn standard_output(tool: &Tool) -> io::Result<Sink> {
    match tool.stdout() {
        Err(error) if errno_of(&error) == Errno::BADF => {
            let nowhere = open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
            tool.output(nowhere, Path::new("-"))
        }
        other => other,
    }
}

fn is_file(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

/// Takes a new output away when a signal ends the process before it is complete.
#[derive(Debug)]
pub(super) struct Guard {
    /// The name, until the output is complete.
    name: Arc<Mutex<Option<OsString>>>,
}

impl Guard {
    /// From now on, for an output that was not there before.
    pub(super) fn of(target: &Target) -> Guard {
        let made = target.file.as_ref().filter(|_| target.made);
        let guard = Guard { name: Arc::new(Mutex::new(made.map(|(name, _)| name.clone()))) };
        // Without it, a signal leaves a part of the output; that is no reason to fail now.
        if made.is_some() {
            let _ = guard.watch();
        }
        guard
    }

    fn watch(&self) -> io::Result<()> {
        let caught = Arc::new(AtomicUsize::new(0));
        let (mut receiver, sender) = UnixStream::pair()?;
        let (name, number) = (Arc::clone(&self.name), Arc::clone(&caught));
        // First the thread: a signal that nobody waits for would end nothing.
        thread::Builder::new().name("signals".into()).spawn(move || {
            if receiver.read_exact(&mut [0]).is_ok() {
                // Held until the process ends, so that the output is not complete meanwhile.
                let name = name.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(name) = &*name {
                    let _ = calls::unlink(Path::new(name));
                }
                let _ = low_level::emulate_default_handler(number.load(Ordering::Relaxed) as i32);
            }
        })?;
        for signal in stop::that_end() {
            let sender = sender.try_clone()?;
            flag::register_usize(signal, Arc::clone(&caught), signal as usize)?;
            low_level::pipe::register(signal, sender)?;
        }
        Ok(())
    }

    /// The output is complete, or was given up.
    pub(super) fn done(&self) {
        *self.name.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
