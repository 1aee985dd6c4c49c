//! `dio cache`: shows which pages of files are in the page cache, and evicts them.

mod mapped;
mod picture;

use crate::quote::{named, quoted};
use std::collections::HashSet;
use std::fs::{File, FileType, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use dio::names::FileId;
use dio::residency::{self, ResidencyError};
use rustix::fs::OFlags;
use serde_json::{Value, json};

use self::mapped::Mapped;
use self::picture::Picture;
use dio_common::units;

use super::words;
use crate::locale;

/// Show which pages of files are in the page cache, and evict them
///
/// Each line shows the resident pages, all pages, resident bytes and percentage, and a map of the
/// file from its start to its end. Directories are walked; symbolic links met there are not
/// followed, and a file with several names is shown once.
#[derive(Debug, clap::Args)]
pub struct CacheArgs {
    /// Files, block devices, or directories to walk
    #[arg(required = true, value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,

    /// Write dirty pages to the disk, then drop the pages, whoever loaded them
    #[arg(long)]
    evict: bool,

    /// Never drop pages of a file that another process maps
    #[arg(long, requires = "evict")]
    keep: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Shows (and evicts) every file. After a failure it goes on with the next file, and the exit
/// status is 1.
pub fn run(args: CacheArgs) -> ExitCode {
    let mapped = args.keep.then(scan_mappings);
    let mut session = CacheRun {
        evict: args.evict,
        mapped,
        seen: HashSet::new(),
        output: if args.json { Output::Json(Vec::new()) } else { Output::Table { any: false } },
        total: PageCounts::default(),
        files: 0,
        failed: false,
    };
    for path in &args.paths {
        match std::fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => session.walk(path),
            Ok(metadata) if has_pages(metadata.file_type()) => session.visit(path, &metadata),
            Ok(_) => {
                session.complain("show", path, "Neither a file, a directory nor a block device")
            }
            Err(error) => session.complain("show", path, &words(&error)),
        }
    }
    session.finish()
}

/// Reads all mappings. Reports how many processes could not be read, because files may be mapped
/// there.
fn scan_mappings() -> Mapped {
    let mapped = Mapped::scan(Path::new("/proc"));
    if mapped.unreadable > 0 {
        eprintln!(
            "dio: cannot read the mappings of {} other process(es): files only mapped there are \
             not kept",
            mapped.unreadable
        );
    }
    mapped
}

fn has_pages(file_type: FileType) -> bool {
    file_type.is_file() || file_type.is_block_device()
}

/// The figures of one file, or the sums for all files.
#[derive(Debug, Default)]
struct PageCounts {
    /// Length in bytes.
    bytes: u64,
    pages: u64,
    resident: u64,
    /// Pages not yet written back; `None` if the kernel does not count them.
    dirty: Option<u64>,
    evicted: u64,
    /// A process that maps the file, because of which its pages were kept.
    kept_for: Option<u32>,
}

impl PageCounts {
    /// Percentage of resident pages; `None` for a file without pages.
    fn percent(&self) -> Option<f64> {
        (self.pages > 0).then(|| self.resident as f64 * 100.0 / self.pages as f64)
    }

    fn resident_bytes(&self) -> u64 {
        self.resident * rustix::param::page_size() as u64
    }
}

enum Output {
    /// Each line is printed immediately.
    Table { any: bool },
    /// Objects are collected and printed at the end.
    Json(Vec<Value>),
}

/// One run of the command.
struct CacheRun {
    evict: bool,
    /// The mappings of other processes; only with `--keep`.
    mapped: Option<Mapped>,
    /// Device and inode of the files with several names that were already shown.
    seen: HashSet<FileId>,
    output: Output,
    total: PageCounts,
    files: u64,
    failed: bool,
}

impl CacheRun {
    fn complain(&mut self, verb: &str, path: &Path, reason: &str) {
        eprintln!("dio: cannot {verb} {}: {reason}", quoted(path));
        self.failed = true;
    }

    /// Visits the files below a directory, sorted by name.
    fn walk(&mut self, directory: &Path) {
        // A stack of paths to visit. Only the starting directory may be a symbolic link.
        let mut waiting = self.entries(directory);
        while let Some(path) = waiting.pop() {
            match std::fs::symlink_metadata(&path) {
                Ok(metadata) if metadata.is_dir() => waiting.extend(self.entries(&path)),
                Ok(metadata) if metadata.is_file() => self.visit(&path, &metadata),
                Ok(_) => {}
                Err(error) => self.complain("show", &path, &words(&error)),
            }
        }
    }

    /// The entries of a directory in reverse order; after an error, those that could be read.
    fn entries(&mut self, directory: &Path) -> Vec<PathBuf> {
        let mut paths = Vec::new();
        match std::fs::read_dir(directory) {
            Ok(entries) => {
                for entry in entries {
                    match entry {
                        Ok(entry) => paths.push(entry.path()),
                        Err(error) => self.complain("read", directory, &words(&error)),
                    }
                }
            }
            Err(error) => self.complain("open", directory, &words(&error)),
        }
        paths.sort_by(|first, second| second.cmp(first));
        paths
    }

    fn visit(&mut self, path: &Path, metadata: &Metadata) {
        if metadata.nlink() > 1 && !self.seen.insert(FileId::of_metadata(metadata)) {
            return;
        }
        let file = match open(path) {
            Ok(file) => file,
            Err(error) => return self.complain("open", path, &words(&error)),
        };
        let mut row = PageCounts::default();
        // For a striped file, the parts are its objects, in order.
        let parts = match dio::names::objects(&file) {
            Ok(Some(parts)) => {
                parts.into_iter().map(|part| (File::from(part.file), part.end)).collect()
            }
            Ok(None) => vec![(file, u64::MAX)],
            Err(errno) => {
                return self.complain("open the objects of", path, &words(&io::Error::from(errno)));
            }
        };
        if self.evict {
            for (part, _) in &parts {
                match part.metadata() {
                    Ok(metadata) => self.evict(path, part, &metadata, &mut row),
                    Err(error) => self.complain("evict", path, &words(&error)),
                }
            }
        }
        match look(&parts, &mut row) {
            Ok(picture) => self.show(path, row, &picture),
            Err(error) => self.complain("count the cached pages of", path, &reason(&error)),
        }
    }

    /// Drops the pages of a file unless they must be kept. A failure is reported, and the file is
    /// still shown.
    fn evict(&mut self, path: &Path, file: &File, metadata: &Metadata, row: &mut PageCounts) {
        if let Some(mapped) = &self.mapped {
            row.kept_for = mapped.process_mapping(metadata);
            if row.kept_for.is_some() {
                return;
            }
        }
        if let Err(error) = residency::write_back(file, 0..u64::MAX) {
            return self.complain("write back", path, &reason(&error));
        }
        match residency::evict(file, 0..u64::MAX) {
            Ok(pages) => row.evicted += pages,
            Err(error) => self.complain("evict", path, &reason(&error)),
        }
    }

    fn show(&mut self, path: &Path, row: PageCounts, picture: &Picture) {
        match &mut self.output {
            Output::Json(files) => files.push(to_json(path, &row, picture, self.evict)),
            Output::Table { any } => {
                let mut text = String::new();
                if !*any {
                    text.push_str(&heading(self.evict));
                    *any = true;
                }
                text.push_str(&line(&row, self.evict, &picture.draw(locale::is_utf8())));
                text.push_str(&format!("  {}", named(path)));
                if let Some(process) = row.kept_for {
                    text.push_str(&format!("  (kept: process {process} maps it)"));
                }
                print_line(&text);
            }
        }
        self.files += 1;
        self.total.bytes += row.bytes;
        self.total.pages += row.pages;
        self.total.resident += row.resident;
        self.total.evicted += row.evicted;
        let dirty = self.total.dirty.unwrap_or(0);
        self.total.dirty = row.dirty.map(|more| dirty + more).or(self.total.dirty);
    }

    fn finish(self) -> ExitCode {
        match self.output {
            Output::Table { .. } if self.files > 1 => {
                let map = " ".repeat(picture::CELLS);
                let files = self.files;
                print_line(&format!(
                    "{}  total of {files} files",
                    line(&self.total, self.evict, &map)
                ));
            }
            Output::Table { .. } => {}
            Output::Json(files) => {
                let object = json!({
                    "page_bytes": rustix::param::page_size(),
                    "files": files,
                    "total": {
                        "files": self.files,
                        "bytes": self.total.bytes,
                        "pages": self.total.pages,
                        "resident_pages": self.total.resident,
                        "resident_bytes": self.total.resident_bytes(),
                        "resident_percent": self.total.percent(),
                        "evicted_pages": self.evict.then_some(self.total.evicted),
                    },
                    "unreadable_processes": self.mapped.map(|mapped| mapped.unreadable),
                });
                print_line(&format!("{object:#}"));
            }
        }
        if self.failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }
}

/// Opens a file without blocking if it has become a pipe, and without changing its access time if
/// that is permitted.
fn open(path: &Path) -> io::Result<File> {
    let quiet = (OFlags::NOATIME | OFlags::NONBLOCK).bits() as i32;
    let plain = OFlags::NONBLOCK.bits() as i32;
    let open = |flags| File::options().read(true).custom_flags(flags).open(path);
    match open(quiet) {
        // Only the owner of a file may use `O_NOATIME`.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::PERM.raw_os_error()) => {
            open(plain)
        }
        other => other,
    }
}

/// Counts the pages of the parts of a file, each up to its end offset.
fn look(parts: &[(File, u64)], row: &mut PageCounts) -> Result<Picture, ResidencyError> {
    let pages = |bytes: u64| bytes.div_ceil(rustix::param::page_size() as u64);
    let length = |(part, end): &(File, u64)| Ok(residency::length_of(part)?.min(*end));
    let lengths = parts.iter().map(length).collect::<Result<Vec<_>, ResidencyError>>()?;
    row.bytes = lengths.iter().sum();
    row.pages = lengths.iter().map(|bytes| pages(*bytes)).sum();
    let mut picture = Picture::new(row.pages);
    let mut first = 0;
    for ((part, _), length) in parts.iter().zip(lengths) {
        let dirty = residency::dirty_pages(part)?;
        row.dirty = dirty.map(|more| row.dirty.unwrap_or(0) + more).or(row.dirty);
        residency::visit_runs(part, length, |run| picture.add(first + run.start..first + run.end))?;
        first += pages(length);
    }
    row.resident = picture.resident();
    Ok(picture)
}

fn reason(error: &ResidencyError) -> String {
    match error {
        ResidencyError::System { source, .. } => words(source),
        ResidencyError::Hidden => {
            "Operation not permitted: only its owner and who may write it are told".to_owned()
        }
        other => other.to_string(),
    }
}

fn heading(evict: bool) -> String {
    let evicted = if evict { format!("{:>10} ", "evicted") } else { String::new() };
    let map = format!("{:<1$}", "map", picture::CELLS);
    format!("{evicted}{:>10} {:>10} {:>9} {:>5}  {map}  path\n", "resident", "pages", "bytes", "%")
}

fn line(row: &PageCounts, evict: bool, map: &str) -> String {
    let evicted = if evict { format!("{:>10} ", row.evicted) } else { String::new() };
    let bytes = units::size(row.resident_bytes());
    // The percentage is rounded down, so that 100 means that no page is missing.
    let percent = row
        .percent()
        .map_or("-".to_owned(), |percent| format!("{:.1}", (percent * 10.0).floor() / 10.0));
    format!("{evicted}{:>10} {:>10} {bytes:>9} {percent:>5}  {map}", row.resident, row.pages)
}

fn to_json(path: &Path, row: &PageCounts, picture: &Picture, evict: bool) -> Value {
    json!({
        "path": path.to_string_lossy(),
        "bytes": row.bytes,
        "pages": row.pages,
        "resident_pages": row.resident,
        "resident_bytes": row.resident_bytes(),
        "resident_percent": row.percent(),
        "dirty_pages": row.dirty,
        "map": picture.fractions(),
        "evicted_pages": evict.then_some(row.evicted),
        "kept_for_process": row.kept_for,
    })
}

/// Prints a line. A closed pipe is no failure of the command.
fn print_line(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}
