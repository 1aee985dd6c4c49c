//! Handles operands: finds the files, names the targets, and processes one after the other.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

use dio::names;
use dio::names::FileId;
use dio::stream::Input;
use rustix::fs::{AtFlags, FileType, OFlags, Stat};
use rustix::io::Errno;

use super::operand::File;
use super::work::ZstdOutcome;
use super::{Fatal, ZstdRun};
use crate::codec::CodecTotals;
use crate::commands::compress::{Directory, OutputFile, agreed, give_usual, terminal};
use crate::quote::words;
use crate::stop::Stop;
use crate::tool::fifo::open_fifo;
use crate::tool::{Source, errno_of};

/// File name extensions of formats that are compressed already.
const COMPRESSED: [&str; 32] = [
    "zst", "tzst", "gz", "tgz", "lzma", "xz", "txz", "lz4", "tlz4", "bz2", "tbz2", "7z", "zip",
    "rar", "cab", "Z", "br", "jpg", "jpeg", "png", "gif", "webp", "mp3", "mp4", "mkv", "webm",
    "mov", "avi", "ogg", "flac", "jar", "zpaq",
];

impl ZstdRun {
    /// Returns all requested files; `None`, after a message, if none can be used.
    pub(super) fn files(&self) -> Option<Vec<File>> {
        let mut names = self.args.files.clone();
        for list in &self.args.filelist {
            let text = match std::fs::read(list) {
                Ok(text) => text,
                Err(error) => {
                    self.failed(list, &words(errno_of(&error)));
                    return None;
                }
            };
            let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            names.extend(lines.map(|line| OsString::from_vec(line.to_vec())));
        }
        if names.is_empty() {
            return Some(if self.args.list { Vec::new() } else { vec![File::named("-".into())] });
        }
        names.retain(|name| {
            let path = Path::new(name);
            let link = path.symlink_metadata().is_ok_and(|meta| meta.file_type().is_symlink());
            let kept = name == "-" || !link || self.args.force;
            if !kept {
                self.say(2, &[b"Warning : ", name.as_bytes(), b" is a symbolic link, ignoring \n"]);
            }
            kept
        });
        if names.is_empty() {
            return None;
        }
        let mut files = Vec::new();
        for name in names {
            let path = Path::new(&name);
            if self.args.recursive && path.is_dir() {
                let above = Directory::of_operand(path);
                self.walk(path, &above, &mut files);
            } else {
                files.push(File::named(name.into()));
            }
        }
        if files.is_empty() && !self.args.list {
            self.say(
                1,
                &[b"please provide correct input file(s) or non-empty directories -- ignored \n"],
            );
        }
        if self.args.exclude_compressed && !self.decompress() && !self.args.list {
            files.retain(|file| {
                let ending = file.path.extension().and_then(OsStr::to_str).unwrap_or_default();
                // A directory is reported, whatever its name.
                !COMPRESSED.contains(&ending) || file.path.is_dir()
            });
        }
        Some(files)
    }

    /// Adds the files in a directory and below, in the order of their names; `above` is the
    /// directory that contains it.
    fn walk(&self, path: &Path, above: &Directory, files: &mut Vec<File>) {
        let mut flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK;
        flags.set(OFlags::NOFOLLOW, !self.args.force);
        let opened = above.open_entry(path, flags).and_then(|fd| Directory::opened(path, fd));
        // Only one directory is open at a time, however deep the tree is.
        above.close();
        let dir = match opened {
            Ok(dir) => Rc::new(dir),
            Err(errno) => return self.failed(path, &words(errno)),
        };
        let (entries, read) = dir.list();
        if let Err(errno) = read {
            return self.failed(path, &words(errno));
        }
        for (path, kind) in entries {
            match kind {
                FileType::Directory => self.walk(&path, &dir, files),
                FileType::Symlink if !self.args.force => {
                    let link = path.as_os_str().as_bytes();
                    self.say(2, &[b"Warning : ", link, b" is a symbolic link, ignoring\n"]);
                }
                _ => files.push(File { path, dir: Rc::clone(&dir) }),
            }
        }
        dir.close();
    }

    /// Processes standard input, to standard output unless `-o` names a file.
    pub(super) fn stdin(&mut self) -> Result<(), Fatal> {
        let console = match self.decompress() {
            true => terminal(io::stdin().as_fd()),
            false => self.args.output.is_none() && terminal(io::stdout().as_fd()),
        };
        if console && !self.args.force {
            let what: &[u8] = if self.decompress() {
                b"stdin is a console, aborting"
            } else {
                b"stdout is a console, aborting"
            };
            self.error(&[what]);
            return Err(Fatal);
        }
        let source = self
            .tool
            .stdin()
            .map_err(|error| self.failed(Path::new("/*stdin*\\"), &words(errno_of(&error))));
        let mut source = source.map_err(|()| Fatal)?;
        let stat = names::fstat(source.descriptor()).ok();
        let regular =
            stat.filter(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
        let left = regular.map(|stat| (stat.st_size as u64).saturating_sub(source.position()));
        let size = self.args.stream_size.or(left);
        let done = self.joined_process(Path::new("/*stdin*\\"), size, &mut source)?;
        let _ = source.close();
        self.total.salvaged |= matches!(done, ZstdOutcome::Salvaged(_));
        // The zstd command prints nothing about a stream unless it is asked.
        if let ZstdOutcome::Well(moved) = done {
            let output =
                self.args.output.as_ref().map(|output| output.as_os_str().as_bytes().to_vec());
            let level = if self.args.output.is_some() || self.args.test { 2 } else { 3 };
            self.count(
                Path::new("/*stdin*\\"),
                output.as_deref().unwrap_or(b"/*stdout*\\"),
                &moved,
                level,
            );
        }
        Ok(())
    }

    /// Processes a file.
    pub(super) fn operand(&mut self, file: &File) -> Result<(), Fatal> {
        let File { path, dir } = file;
        let shown = path.as_os_str().as_bytes();
        // Links were excluded earlier, so a link found now was put there meanwhile.
        let follow = self.args.force;
        let look = || {
            dir.stat_entry(path, if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW })
        };
        let looked_at = match look() {
            Ok(stat) if self.retire.holds(&stat) => {
                // The file waits for its removal. After that, the name exists only if it is another
                // link to the file.
                let troubles = self.retire.flush();
                self.troubles(troubles);
                look()
            }
            other => other,
        };
        let stat = match looked_at {
            Ok(stat) => stat,
            Err(errno)
                if errno == Errno::NOENT
                    && self.decompress()
                    && !self.to_one()
                    && self.suffix(shown).is_none() =>
            {
                self.unknown_suffix(path);
                return Ok(());
            }
            Err(errno) => {
                self.error(&[
                    b"can't stat ",
                    shown,
                    b" : ",
                    words(errno).as_bytes(),
                    b" -- ignored",
                ]);
                return Ok(());
            }
        };
        if !self.is_fit(path, &stat) {
            return Ok(());
        }
        let named = if self.to_one() { Some(None) } else { self.target_name(path).map(Some) };
        let Some(name) = named else { return Ok(()) };
        let flags = if follow { OFlags::RDONLY } else { OFlags::RDONLY | OFlags::NOFOLLOW };
        let open = |more| dir.open_entry(path, flags | more);
        let opened =
            match self.stop.filter(|_| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo) {
                Some(stop) => open_fifo(stop, open),
                None => open(OFlags::empty()),
            };
        let opened = opened.map_err(io::Error::from).and_then(|fd| {
            let opened = names::fstat(&fd)?;
            Ok((Input::own(fd, path, self.tool.stream_options())?, opened))
        });
        let (mut source, opened) = match opened {
            Ok((input, opened)) => (self.tool.source(input), opened),
            Err(error) => {
                self.failed(path, &words(errno_of(&error)));
                return Ok(());
            }
        };
        // The opened file is checked too, in case it is another one.
        if FileId::of(&opened) != FileId::of(&stat) && !self.is_fit(path, &opened) {
            return Ok(());
        }
        match name {
            None => self.process_joined(file, &opened, &mut source),
            Some(name) => self.process_own(file, &opened, &name, source),
        }
    }

    /// Returns whether a file may be compressed or decompressed; if not, the reason has been
    /// reported.
    fn is_fit(&self, path: &Path, stat: &Stat) -> bool {
        let shown = path.as_os_str().as_bytes();
        let unfit: Option<&[u8]> = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => Some(b" is a directory -- ignored"),
            FileType::CharacterDevice | FileType::Socket => {
                Some(b" is not a regular file -- ignored")
            }
            FileType::BlockDevice if !self.args.force => Some(b" is a block device -- ignored"),
            _ => None,
        };
        if let Some(why) = unfit {
            self.error(&[shown, why]);
            return false;
        }
        if !self.decompress() && self.plan.dictionary_file == Some(FileId::of(stat)) {
            self.error(&[b"cannot use ", shown, b" as an input file and dictionary"]);
            return false;
        }
        if self.output_file() == Some(FileId::of(stat)) {
            self.refuse_own_output();
            return false;
        }
        true
    }

    /// The file that `-o` names, if it exists.
    fn output_file(&self) -> Option<FileId> {
        let stat = self.args.output.as_deref().and_then(|output| rustix::fs::stat(output).ok());
        stat.map(|stat| FileId::of(&stat))
    }

    /// Whether one of the files is the one that `-o` names and that the others would replace;
    /// reports it.
    pub(super) fn would_replace_one_of(&self, files: &[File]) -> bool {
        let Some(output) = self.output_file() else { return false };
        let is_output = |file: &File| {
            rustix::fs::stat(&file.path).is_ok_and(|stat| FileId::of(&stat) == output)
        };
        let found = files.iter().any(|file| !file.is_stdin() && is_output(file));
        if found {
            self.refuse_own_output();
        }
        found
    }

    fn refuse_own_output(&self) {
        self.error(&[b"Refusing to open an output file which will overwrite the input file"]);
    }

    /// Returns whether all output goes to one target.
    fn to_one(&self) -> bool {
        self.args.stdout || self.args.output.is_some() || self.args.test
    }

    fn process_joined(
        &mut self,
        file: &File,
        stat: &Stat,
        source: &mut Source,
    ) -> Result<(), Fatal> {
        let path = &file.path;
        let done = self.joined_process(path, size_of(stat), source)?;
        self.total.salvaged |= matches!(done, ZstdOutcome::Salvaged(_));
        if let ZstdOutcome::Well(moved) = done {
            let level = if self.args.stdout && self.args.output.is_none() && !self.args.test {
                3
            } else {
                2
            };
            let output =
                self.args.output.as_ref().map(|output| output.as_os_str().as_bytes().to_vec());
            self.count(path, output.as_deref().unwrap_or(b"/*stdout*\\"), &moved, level);
            let single = self.total.wanted == 1 && !self.args.test && !self.args.stdout;
            let made = if single { self.joined.take() } else { None };
            if let Some((Some(mut target), sink)) = made {
                // Sources that were joined into one target are not removed: they could not be
                // restored separately.
                let whole = sink.close().and_then(|()| {
                    self.give(&target, stat);
                    target.keep_named(self.args.sync)
                });
                match whole {
                    Err(error) => self.output_failed(Some(&target), errno_of(&error)),
                    Ok(()) if target.is_regular() && self.args.rm => {
                        self.retire(file, stat, target)
                    }
                    Ok(()) => {}
                }
            } else if made.is_some() {
                self.joined = made;
            }
        }
        Ok(())
    }

    /// Processes a file into a target of its own.
    fn process_own(
        &mut self,
        file: &File,
        stat: &Stat,
        name: &Path,
        mut source: Source,
    ) -> Result<(), Fatal> {
        let path = &file.path;
        let beside = self.args.output_dir_flat.is_none() && self.args.output_dir_mirror.is_none();
        let begun = if beside {
            self.begin(name, &file.dir)
        } else {
            self.begin(name, &Directory::of_operand(name))
        };
        let Some(mut target) = begun else { return Ok(()) };
        let sink = match target.sink(&self.tool) {
            Ok(sink) => sink,
            Err(error) => {
                self.output_failed(Some(&target), errno_of(&error));
                return Ok(());
            }
        };
        let done = self.process(path, size_of(stat), &mut source, Some((sink, &target)));
        let _ = source.close();
        let (moved, well) = match done {
            ZstdOutcome::Well(moved) => (moved, true),
            ZstdOutcome::Salvaged(moved) => (moved, false),
            ZstdOutcome::Badly => return Ok(()),
        };
        self.give(&target, stat);
        if let Err(error) = target.keep_named(self.args.sync) {
            self.output_failed(Some(&target), errno_of(&error));
            return Ok(());
        }
        if well {
            self.count(path, name.as_os_str().as_bytes(), &moved, 2);
            // A device or a pipe does not store the data, so the source stays.
            if self.args.rm && target.is_regular() {
                self.retire(file, stat, target);
            }
        }
        Ok(())
    }

    /// Schedules the source, whose status was `stat`, for removal: the target is complete.
    fn retire(&mut self, source: &File, stat: &Stat, target: OutputFile) {
        match source.dir.open() {
            Ok(dir) => {
                let troubles = self.retire.add(source.path.clone(), dir, stat, target);
                self.troubles(troubles);
            }
            Err(errno) => self.failed(&source.path, &words(errno)),
        }
    }

    /// Gives a target the attributes of its source, as far as its file system supports them.
    fn give(&self, target: &OutputFile, stat: &Stat) {
        if target.is_regular()
            && FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
            && let Err(errno) = give_usual(target.descriptor(), stat, None)
        {
            let (shown, why) = (target.path().as_os_str().as_bytes(), words(errno));
            self.tell(2, &[b"Warning : ", shown, b": attributes not kept: ", why.as_bytes()]);
        }
    }

    /// Opens the common target: a file or standard output.
    pub(super) fn open_joined(&mut self) -> Result<(), Fatal> {
        if self.joined.is_some() {
            return Ok(());
        }
        let output =
            self.args.output.clone().filter(|output| output != Path::new("-") && !self.args.stdout);
        let Some(output) = output else {
            let sink =
                self.tool.stdout().map_err(|error| self.output_failed(None, errno_of(&error)));
            self.joined = Some((None, sink.map_err(|()| Fatal)?));
            return Ok(());
        };
        let target = self.begin(&output, &Directory::of_operand(&output)).ok_or(Fatal)?;
        let sink = target
            .sink(&self.tool)
            .map_err(|error| self.output_failed(Some(&target), errno_of(&error)));
        self.joined = Some((Some(target), sink.map_err(|()| Fatal)?));
        Ok(())
    }

    /// Begins the target in `dir`; asks the user if its name exists.
    fn begin(&mut self, path: &Path, dir: &Directory) -> Option<OutputFile> {
        let open = || dir.open().map_err(io::Error::from);
        match open().and_then(|dir| OutputFile::special(&dir, path)) {
            Ok(Some(special)) => return Some(special),
            Ok(None) => {}
            Err(error) => {
                self.failed(path, &words(errno_of(&error)));
                return None;
            }
        }
        // From here on, a signal has to wait until files are cleaned up.
        self.stop = Some(Stop::on_signals());
        let mut replace = self.args.force;
        loop {
            match open().and_then(|dir| OutputFile::named(dir, path, replace)) {
                Ok(target) => return Some(target),
                Err(error) if errno_of(&error) == Errno::EXIST && !replace => {
                    let shown = path.as_os_str().as_bytes();
                    let name = self.tool.name().as_bytes();
                    if self.level() <= 1 {
                        self.say(1, &[name, b": ", shown, b" already exists; not overwritten  \n"]);
                    } else if self.reads_stdin {
                        // An answer would be read from the input data.
                        let why = b" already exists; stdin is an input - not proceeding.\n";
                        self.say(1, &[name, b": ", shown, why]);
                    } else {
                        self.say(1, &[name, b": ", shown, b" already exists; overwrite (y/n) ? "]);
                        replace = agreed(self.stop);
                        if !replace {
                            self.say(1, &[b"Not overwritten  \n \n"]);
                        }
                    }
                    if !replace {
                        self.tool.fail();
                        return None;
                    }
                }
                Err(error) => {
                    self.failed(path, &words(errno_of(&error)));
                    return None;
                }
            }
        }
    }

    /// Returns the length of a compressed file's suffix, and its replacement.
    fn suffix(&self, name: &[u8]) -> Option<(usize, &'static [u8])> {
        let base = name.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        // The zstd command also accepts the long suffix, without documenting it.
        [(&b".zst"[..], &b""[..]), (b".tzst", b".tar"), (b".zstd", b"")].into_iter().find_map(
            |(suffix, becomes)| {
                (base.len() > suffix.len() && base.ends_with(suffix))
                    .then_some((suffix.len(), becomes))
            },
        )
    }

    fn unknown_suffix(&self, path: &Path) {
        let why = "unknown suffix (.zst/.tzst expected). Can't derive the output file name. \
                   Specify it with -o dstFileName. Ignoring.\n";
        self.tool.fail();
        let shown = path.as_os_str().as_bytes();
        self.say(1, &[self.tool.name().as_bytes(), b": ", shown, b": ", why.as_bytes()]);
    }

    /// Returns the name of the target; an error has been reported.
    fn target_name(&self, path: &Path) -> Option<PathBuf> {
        let mut name = path.as_os_str().as_bytes().to_vec();
        if self.decompress() {
            let Some((length, becomes)) = self.suffix(&name) else {
                self.unknown_suffix(path);
                return None;
            };
            name.truncate(name.len() - length);
            name.extend_from_slice(becomes);
        } else {
            name.extend_from_slice(b".zst");
        }
        let name = PathBuf::from(OsString::from_vec(name));
        if let Some(dir) = &self.args.output_dir_flat {
            return Some(dir.join(name.file_name()?));
        }
        let Some(dir) = &self.args.output_dir_mirror else { return Some(name) };
        let mut below = dir.clone();
        for part in name.components() {
            match part {
                Component::Normal(part) => below.push(part),
                Component::ParentDir => {
                    self.failed(path, "a name with '..' has no place below --output-dir-mirror");
                    return None;
                }
                _ => {}
            }
        }
        if let Some(Err(error)) = below.parent().map(std::fs::create_dir_all) {
            self.failed(below.parent()?, &words(errno_of(&error)));
            return None;
        }
        Some(below)
    }

    /// Reports the result of a file, and adds it to the totals.
    fn count(&mut self, path: &Path, target: &[u8], moved: &CodecTotals, level: i32) {
        self.total.done += 1;
        self.total.read += moved.read;
        self.total.written += moved.written;
        if self.total.wanted > 1 && self.level() < 3 || self.level() < level {
            return;
        }
        let shown = path.to_string_lossy();
        let line = if self.decompress() {
            format!("{shown:<20}: {} bytes \n", moved.written).into_bytes()
        } else {
            let ((from, from_unit), (to, to_unit)) =
                (super::human(moved.read), super::human(moved.written));
            let part = match moved.read {
                0 => String::new(),
                read => format!("{:6.2}% ", moved.written as f64 / read as f64 * 100.0),
            };
            let sizes = format!("{shown:<20} :{part}  ({from:>6}{from_unit} => {to:>6}{to_unit}, ");
            [sizes.as_bytes(), target, b") \n"].concat()
        };
        self.say(level, &[&line]);
    }
}

/// Returns the size of a regular file; `None` if it is empty or not a regular file.
fn size_of(stat: &Stat) -> Option<u64> {
    (FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_size > 0)
        .then_some(stat.st_size as u64)
}
