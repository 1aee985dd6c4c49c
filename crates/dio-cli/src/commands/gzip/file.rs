//! Handles one operand: finds the file, checks whether it may be processed, and creates the target.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use dio::stream::Input;
use rustix::fs::{FileType, OFlags, Stat, fstat};
use rustix::io::Errno;

use super::work::{GzipJob, GzipOutcome};
use super::{Fatal, GzipRun, names};
use crate::commands::compress::{Directory, OutputFile, agreed, give_usual, terminal};
use crate::stop::Stop;
use crate::tool::{Source, errno_of};

impl GzipRun {
    /// Processes standard input to standard output.
    pub(super) fn stdin(&mut self) -> Result<(), Fatal> {
        let console = if self.decompress {
            terminal(io::stdin().as_fd())
        } else {
            terminal(io::stdout().as_fd())
        };
        if !self.args.force && !self.args.list && console {
            if !self.quiet() {
                let (does, un) =
                    if self.decompress { ("read from", "de") } else { ("written to", "") };
                let name = self.tool.name();
                self.tool.note(format_args!(
                    "compressed data not {does} a terminal. Use -f to force {un}compression.\nFor \
                     help, type: {name} -h"
                ));
            }
            return Err(Fatal);
        }
        let mut source = match self.tool.stdin() {
            Ok(source) => source,
            Err(error) => {
                self.failed(Path::new("stdin"), errno_of(&error));
                return Err(Fatal);
            }
        };
        let stat = fstat(source.descriptor()).ok();
        let regular =
            stat.filter(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
        let mtime = regular.map(|stat| stat.st_mtime);
        let work = GzipJob { shown: Path::new("stdin"), name: None, mtime, is_stdin: true };
        let result = self.process(&work, &mut source, None)?;
        let _ = source.close();
        if let GzipOutcome::Well(moved) = result {
            if self.args.list {
                return self.listed_row(Path::new("stdout"), &moved, &work);
            }
            if self.verbose() && self.args.test && !moved.garbage {
                self.say(&[b" OK\n"]);
            } else if self.verbose() && !self.decompress {
                self.say(&[moved.ratio(false).as_bytes(), b"\n"]);
            }
        }
        Ok(())
    }

    /// Processes a name of the command line.
    pub(super) fn operand(&mut self, name: &Path) -> Result<(), Fatal> {
        self.entry(name, &Directory::of_operand(name))
    }

    /// Processes a file in `dir`, or with `-r` a directory.
    fn entry(&mut self, name: &Path, dir: &Directory) -> Result<(), Fatal> {
        let Some((mut fd, mut path)) = self.open(name, dir) else { return Ok(()) };
        if fstat(&fd).is_ok_and(|stat| self.retire.holds(&stat)) {
            // The file waits for its removal. After that, the name exists only if it is another
            // link to the file.
            let troubles = self.retire.flush();
            self.troubles(troubles);
            let Some(again) = self.open(name, dir) else { return Ok(()) };
            (fd, path) = again;
        }
        let stat = match fstat(&fd) {
            Ok(stat) => stat,
            Err(errno) => {
                self.failed(&path, errno);
                return Ok(());
            }
        };
        let shown = path.as_os_str().as_bytes();
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind == FileType::Directory {
            if self.args.recursive {
                // Only one directory is open at a time, however deep the tree is.
                dir.close();
                return self.directory(&path, fd);
            }
            self.warn(&[shown, b" is a directory -- ignored"]);
            return Ok(());
        }
        if !self.to_stdout && !self.may_replace(&path, &stat) {
            return Ok(());
        }
        let Some(target) = self.target_name(&path) else { return Ok(()) };
        // The file was opened with O_NONBLOCK; reads must block.
        let flags = rustix::fs::fcntl_getfl(&fd)
            .and_then(|flags| rustix::fs::fcntl_setfl(&fd, flags - OFlags::NONBLOCK));
        let adopted = flags
            .map_err(io::Error::from)
            .and_then(|()| Input::own(fd, &path, self.tool.stream_options()));
        match adopted {
            Ok(input) => {
                let source = self.tool.source(input);
                self.file(&path, dir, &stat, target, source)
            }
            Err(error) => {
                self.failed(&path, errno_of(&error));
                Ok(())
            }
        }
    }

    /// Opens a file; if it does not exist and the command decompresses, tries the name with
    /// suffixes.
    fn open(&self, name: &Path, dir: &Directory) -> Option<(OwnedFd, PathBuf)> {
        let follow = self.to_stdout || self.args.force;
        let mut flags = OFlags::RDONLY;
        flags.set(OFlags::NOFOLLOW, !follow);
        // Opening a pipe that will be read waits for its writer; opening one that will only be
        // rejected does not.
        flags.set(OFlags::NONBLOCK, !self.to_stdout);
        let open = |path: &Path| dir.open_entry(path, flags);
        let missing = match open(name) {
            Ok(fd) => return Some((fd, name.to_owned())),
            Err(errno) => errno,
        };
        let suffix = &self.args.suffix;
        let has_suffix = names::suffix(name.as_os_str().as_bytes(), suffix).is_some();
        if !self.decompress || missing != Errno::NOENT || has_suffix {
            self.failed(name, missing);
            return None;
        }
        for suffix in names::tried(suffix) {
            let path = names::with_suffix(name, &suffix);
            match open(&path) {
                Ok(fd) => return Some((fd, path)),
                Err(Errno::NOENT) => {}
                Err(errno) => {
                    self.failed(&path, errno);
                    return None;
                }
            }
        }
        self.failed(&names::with_suffix(name, suffix), Errno::NOENT);
        None
    }

    /// Returns whether a file may be replaced by its compressed form, or the reverse.
    fn may_replace(&self, path: &Path, stat: &Stat) -> bool {
        let shown = path.as_os_str().as_bytes();
        let links = stat.st_nlink.saturating_sub(1);
        let plural = if links == 1 { "" } else { "s" };
        let why = match () {
            () if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile => {
                " is not a directory or a regular file - ignored".to_owned()
            }
            () if stat.st_mode & 0o4000 != 0 => " is set-user-ID on execution - ignored".to_owned(),
            () if stat.st_mode & 0o2000 != 0 => {
                " is set-group-ID on execution - ignored".to_owned()
            }
            () if self.args.force => return true,
            () if stat.st_mode & 0o1000 != 0 => " has the sticky bit set - file ignored".to_owned(),
            () if links > 0 => format!(" has {links} other link{plural} -- file ignored"),
            () => return true,
        };
        self.warn(&[shown, why.as_bytes()]);
        false
    }

    /// Returns the name of the target; `None`, after a message, if the file is skipped.
    fn target_name(&self, path: &Path) -> Option<PathBuf> {
        let name = path.as_os_str().as_bytes();
        let suffix = names::suffix(name, &self.args.suffix);
        let talkative = self.verbose() || (!self.args.recursive && !self.quiet());
        let only_read = self.args.list || self.args.test;
        match (self.decompress, suffix) {
            _ if self.to_stdout && !only_read => Some("stdout".into()),
            (true, Some(length)) => Some(names::decompressed(path, length)),
            (true, None) if only_read && !self.args.recursive => Some(path.to_owned()),
            (true, None) => {
                if talkative {
                    self.warn(&[name, b": unknown suffix -- ignored"]);
                }
                None
            }
            (false, Some(length)) if !self.args.force => {
                if talkative {
                    self.tell(&[
                        name,
                        b" already has ",
                        &name[name.len() - length..],
                        b" suffix -- unchanged",
                    ]);
                }
                None
            }
            (false, _) => Some(names::with_suffix(path, &self.args.suffix)),
        }
    }

    /// Processes all entries of the directory open as `fd`, in the order of their names.
    fn directory(&mut self, path: &Path, fd: OwnedFd) -> Result<(), Fatal> {
        // Earlier sources are removed before their directory is read.
        let troubles = self.retire.flush();
        self.troubles(troubles);
        let dir = match Directory::opened(path, fd) {
            Ok(dir) => dir,
            Err(errno) => {
                self.failed(path, errno);
                return Ok(());
            }
        };
        let (entries, read) = dir.list();
        if let Err(errno) = read {
            self.failed(path, errno);
        }
        for (entry, _) in entries {
            self.entry(&entry, &dir)?;
            if self.stop.is_some_and(Stop::asked) {
                break;
            }
        }
        Ok(())
    }

    /// Processes an open file into the target of that name.
    fn file(
        &mut self,
        path: &Path,
        dir: &Directory,
        stat: &Stat,
        target: PathBuf,
        mut source: Source,
    ) -> Result<(), Fatal> {
        let base = path.file_name().map(|name| name.as_bytes().to_vec());
        let name = base.filter(|_| self.keep_name);
        let mut work = GzipJob { shown: path, name, mtime: Some(stat.st_mtime), is_stdin: false };
        if self.to_stdout {
            let result = self.process(&work, &mut source, None)?;
            let _ = source.close();
            return match result {
                GzipOutcome::Well(moved) if self.args.list => {
                    work.mtime = moved
                        .moved
                        .mtime
                        .filter(|_| self.args.no_name == Some(false))
                        .map(i64::from)
                        .or(work.mtime);
                    let named =
                        moved.moved.name.as_deref().filter(|_| self.args.no_name == Some(false));
                    let name =
                        named.and_then(|name| names::beside(&target, name)).unwrap_or(target);
                    self.listed_row(&name, &moved, &work)
                }
                GzipOutcome::Well(moved) if self.verbose() => {
                    let ratio = moved.ratio(self.decompress);
                    let verb: &[u8] = if self.args.keep {
                        b" -- created stdout\n"
                    } else {
                        b" -- replaced with stdout\n"
                    };
                    match self.args.test {
                        true => self.say(&[b" OK\n"]),
                        false => self.say(&[ratio.as_bytes(), verb]),
                    }
                    Ok(())
                }
                _ => Ok(()),
            };
        }
        let Some(target) = self.named_within(path, target, &mut source, &mut work) else {
            return Ok(());
        };
        let Some(made) = self.begin(&target, dir) else { return Ok(()) };
        let result = self.process(&work, &mut source, Some(&made))?;
        let _ = source.close();
        match result {
            GzipOutcome::Well(moved) => self.complete((path, dir), stat, made, &moved, true),
            GzipOutcome::Salvaged(moved) => self.complete((path, dir), stat, made, &moved, false),
            GzipOutcome::Badly => Ok(()),
        }
    }

    /// Returns the name of the target, from the header of the first member if that is requested.
    fn named_within(
        &self,
        path: &Path,
        target: PathBuf,
        source: &mut Source,
        work: &mut GzipJob<'_>,
    ) -> Option<PathBuf> {
        if !self.decompress || !(self.keep_name || self.keep_time) {
            return Some(target);
        }
        let first = match self.first(path, source) {
            Ok(first) => first,
            Err(()) => return None,
        };
        if self.keep_time {
            work.mtime = first.mtime.map(i64::from);
        } else {
            work.mtime = None;
        }
        let named =
            first.name.filter(|_| self.keep_name).and_then(|name| names::beside(&target, &name));
        Some(named.unwrap_or(target))
    }

    /// Begins the target in `dir`; asks the user if its name exists.
    fn begin(&mut self, path: &Path, dir: &Directory) -> Option<OutputFile> {
        // From here on, a signal has to wait until files are cleaned up.
        self.stop = Some(Stop::on_signals());
        let mut replace = self.args.force;
        loop {
            let made = dir.open().map_err(io::Error::from);
            match made.and_then(|dir| OutputFile::named(dir, path, replace)) {
                Ok(target) => return Some(target),
                Err(error)
                    if matches!(errno_of(&error), Errno::EXIST | Errno::ISDIR) && !replace =>
                {
                    let shown = path.as_os_str().as_bytes();
                    self.say(&[self.tool.name().as_bytes(), b": ", shown, b" already exists;"]);
                    if terminal(io::stdin().as_fd()) {
                        self.say(&[b" do you wish to overwrite (y or n)? "]);
                        replace = agreed(self.stop);
                    }
                    if !replace {
                        self.say(&[b"\tnot overwritten\n"]);
                        self.warned.set(true);
                        return None;
                    }
                }
                Err(error) => {
                    self.failed(path, errno_of(&error));
                    return None;
                }
            }
        }
    }

    /// Completes the target: it gets its attributes and its name, and the source is scheduled for
    /// removal.
    fn complete(
        &mut self,
        (path, dir): (&Path, &Directory),
        stat: &Stat,
        mut target: OutputFile,
        done: &super::work::Account,
        well: bool,
    ) -> Result<(), Fatal> {
        let restored =
            done.moved.mtime.filter(|_| self.decompress && self.keep_time).map(i64::from);
        let shown = target.path().as_os_str().as_bytes().to_vec();
        if restored.is_some_and(|time| time != stat.st_mtime || stat.st_mtime_nsec != 0)
            && self.args.verbose > 1
        {
            self.say(&[&shown, b": timestamp restored\n"]);
        }
        if let Err(errno) = give_usual(target.descriptor(), stat, restored) {
            self.warn(&[&shown, b": ", crate::quote::words(errno).as_bytes()]);
        }
        if let Err(error) = target.keep_named(self.args.synchronous) {
            self.contents(&shown, &crate::quote::words(errno_of(&error)));
            return Ok(());
        }
        if self.verbose() && well {
            let verb: &[u8] = if self.args.keep { b" -- created " } else { b" -- replaced with " };
            self.say(&[done.ratio(self.decompress).as_bytes(), verb, &shown, b"\n"]);
        }
        if !self.args.keep && well {
            match dir.open() {
                Ok(dir) => {
                    let troubles = self.retire.add(path.to_owned(), dir, stat, target);
                    self.troubles(troubles);
                }
                Err(errno) => self.failed(path, errno),
            }
        }
        Ok(())
    }
}
