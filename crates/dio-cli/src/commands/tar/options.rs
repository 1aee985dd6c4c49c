//! The flags of `dio tar`, validated, with GNU tar's words for what is wrong with them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::args::{ArchiveArgs, AttributeArgs, OperationArgs, OverwriteArgs, SelectArgs, TarArgs, TellArgs};
use super::compression::{by_suffix, compression_of};
use super::date::{self, Moment, Written};
use super::extract::Clean;
use super::names::Names;
use super::ordered::check_ordered;
use super::owner::Owner;
use super::transform::Transform;
use super::warnings::Warnings;
use crate::quote::marked;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// `-c`
    Create,
    /// `-t`
    List,
    /// `-x`
    Extract,
    /// `-r`
    Append,
    /// `-u`
    Update,
    /// `-A`
    Catenate,
    /// `-d`
    Diff,
}

impl Operation {
    /// Whether files are put into an archive.
    pub(super) fn stores(self) -> bool {
        matches!(self, Operation::Create | Operation::Append | Operation::Update)
    }
}

/// The format of an archive that is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArchiveFormat {
    /// GNU tar since 1.13.
    Gnu,
    /// GNU tar until 1.12.
    OldGnu,
    /// POSIX 1003.1-2001.
    Pax,
    /// POSIX 1003.1-1988.
    Ustar,
    /// Unix version 7.
    V7,
}

/// How an archive is compressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    /// By dio.
    Gzip,
    /// By dio.
    Zstd,
    /// By another program: its name and arguments. It decompresses when `-d` is added.
    Program(Vec<OsString>),
}

/// In which order the names of a directory are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    /// As the directory gives them.
    None,
    /// By their bytes.
    Name,
    /// By the number of the inode, which is often the order on the disk.
    Inode,
}

/// How holes of a file are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holes {
    /// The file system is asked (`SEEK_HOLE`), and blocks of zeros are looked for where it cannot say.
    Seek,
    /// Blocks of zeros are looked for.
    Raw,
}

/// What marks a directory of which something is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tag {
    /// The name of the file that marks it.
    pub(super) name: Vec<u8>,
    /// It must be a true `CACHEDIR.TAG`.
    pub(super) cachedir: bool,
    /// What is left out.
    pub(super) omit: Omit,
}

/// What is left out of a marked directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Omit {
    /// All but the directory and the file that marks it.
    Contents,
    /// All but the directory.
    Under,
    /// The directory too.
    All,
}

/// How names are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quoting {
    /// With the escapes of C for what cannot be printed, and for `\`.
    Escape,
    /// As they are.
    Literal,
}

/// Everything that was asked for.
#[derive(Debug)]
pub(super) struct Options {
    /// What is done.
    pub(super) operation: Operation,
    /// The archive; `-` is standard input or output.
    pub(super) archive: OsString,
    /// The format that is made; none if none was asked for.
    pub(super) format: Option<ArchiveFormat>,
    /// How the archive is compressed, if it was said: when reading, it is recognised otherwise.
    pub(super) compression: Option<Compression>,
    /// Bytes in a record: what an archive's size is a multiple of.
    pub(super) record: u64,
    /// `-i`: a block of zeros is not the end.
    pub(super) ignore_zeros: bool,
    /// `-n` and `--no-seek`: whether members may be passed over by seeking.
    pub(super) may_seek: bool,
    /// Names, directories and patterns, in order; see [`Names`].
    pub(super) names: Names,
    /// `-h`
    pub(super) dereference: bool,
    /// `--hard-dereference`
    pub(super) hard_dereference: bool,
    /// `--one-file-system`
    pub(super) one_file_system: bool,
    /// `-P`
    pub(super) absolute_names: bool,
    /// Only files that are newer than this; with true, only the time of the contents counts.
    pub(super) newer: Option<(Moment, bool)>,
    /// Order of the names in a directory.
    pub(super) sort: Sort,
    /// `-K`: members before this one are passed over.
    pub(super) starting_file: Option<Vec<u8>>,
    /// `--occurrence`: which of the members with one name is meant, counted from 1.
    pub(super) occurrence: Option<u64>,
    /// `--strip-components`
    pub(super) strip_components: usize,
    /// `--transform`: how names are changed.
    pub(super) transform: Transform,
    /// `--one-top-level`: the directory that everything is extracted into.
    pub(super) one_top_level: Option<Vec<u8>>,
    /// `--ignore-failed-read`
    pub(super) ignore_failed_read: bool,
    /// `--remove-files`
    pub(super) remove_files: bool,
    /// `--in-place`: an existing archive is overwritten.
    pub(super) in_place: bool,
    /// `-S`, and how holes are found.
    pub(super) sparse: Option<Holes>,

    /// `-p` or `--no-same-permissions`; by default it depends on the user.
    pub(super) same_permissions: Option<bool>,
    /// `--same-owner` or `--no-same-owner`; by default it depends on the user.
    pub(super) same_owner: Option<bool>,
    /// `--numeric-owner`
    pub(super) numeric_owner: bool,
    /// `--owner`
    pub(super) owner: Option<Owner>,
    /// `--group`
    pub(super) group: Option<Owner>,
    /// `--mtime`
    pub(super) mtime: Option<Moment>,
    /// Dates of the command line that were written in words, which `-v` tells.
    pub(super) dates: Vec<Written>,
    /// `--clamp-mtime`
    pub(super) clamp_mtime: bool,
    /// `-m`
    pub(super) touch: bool,
    /// Extended attributes are kept.
    pub(super) xattrs: bool,
    /// `--xattrs-include`: patterns of names; empty: all, or when extracting those of users.
    pub(super) xattrs_include: Vec<Vec<u8>>,
    /// `--xattrs-exclude`
    pub(super) xattrs_exclude: Vec<Vec<u8>>,
    /// Access control lists are kept.
    pub(super) acls: bool,
    /// What is done about existing files.
    pub(super) existing: Existing,
    /// `-O`
    pub(super) to_stdout: bool,
    /// `-W`
    pub(super) verify: bool,

    /// `-v`, counted.
    pub(super) verbose: u8,
    /// `--totals`
    pub(super) totals: bool,
    /// `-l`
    pub(super) check_links: bool,
    /// `-R`
    pub(super) block_number: bool,
    /// `--full-time`
    pub(super) full_time: bool,
    /// `--utc`
    pub(super) utc: bool,
    /// `--index-file`
    pub(super) index_file: Option<OsString>,
    /// `--quoting-style`
    pub(super) quoting: Quoting,
    /// `--show-transformed-names`
    pub(super) show_transformed: bool,
    /// `--show-omitted-dirs`
    pub(super) show_omitted: bool,
    /// `--warning`
    pub(super) warnings: Warnings,
    /// `-w`
    pub(super) interactive: bool,
}

/// What is done about existing files when extracting. At most one of `overwrite`, `unlink_first`, `keep_old`, `skip_old`,
/// `keep_newer` and `no_overwrite_dir` is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Existing {
    /// `-k`: they are errors.
    pub(super) keep_old: bool,
    /// `--skip-old-files`
    pub(super) skip_old: bool,
    /// `--keep-newer-files`
    pub(super) keep_newer: bool,
    /// `--overwrite`
    pub(super) overwrite: bool,
    /// `-U`
    pub(super) unlink_first: bool,
    /// `--recursive-unlink`
    pub(super) recursive_unlink: bool,
    /// `--keep-directory-symlink`
    pub(super) keep_directory_symlink: bool,
    /// `--no-overwrite-dir`
    pub(super) no_overwrite_dir: bool,
}

/// Why nothing is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// What is wrong with the command line, with a hint to `--help`.
    Usage(String),
    /// What is wrong, in all its lines.
    Plain(String),
    /// What cannot be had (a file of names that cannot be read), which GNU tar calls not recoverable.
    Fatal(String),
}

impl Refusal {
    pub(super) fn usage(text: impl Into<String>) -> Refusal {
        Refusal::Usage(text.into())
    }
}

impl Options {
    /// What the command line says.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub(super) fn of(args: TarArgs) -> Result<Options, Refusal> {
        let TarArgs { operation, ordered, archive, select, attributes, overwrite, tell, in_place, .. } = args;
        let operation = operation_of(&operation)?;
        check_ordered(&ordered.0)?;
        let names = Names::of(ordered, operation)?;
        let file = archive_name(&archive)?;
        let mut options = Options {
            format: format_of(operation, &archive)?,
            compression: compression_of(operation, &archive, &file)?,
            record: record_of(&archive)?,
            ignore_zeros: archive.ignore_zeros,
            may_seek: !archive.no_seek,
            newer: newer_of(&select)?,
            sort: sort_of(select.sort.as_deref())?,
            occurrence: occurrence_of(select.occurrence.as_deref())?,
            strip_components: match &select.strip_components {
                Some(text) => number("Invalid number of elements", text)? as usize,
                None => 0,
            },
            transform: Transform::of(&select.transform)?,
            one_top_level: select.one_top_level.as_deref().map(|dir| top_level(dir, &file)).transpose()?,
            starting_file: select.starting_file.map(OsString::into_vec),
            sparse: holes_of(select.sparse, select.hole_detection.as_deref())?,
            dereference: select.dereference,
            hard_dereference: select.hard_dereference,
            one_file_system: select.one_file_system,
            absolute_names: select.absolute_names,
            ignore_failed_read: select.ignore_failed_read,
            remove_files: select.remove_files,
            same_permissions: either(attributes.preserve_permissions, attributes.no_same_permissions),
            same_owner: either(
                attributes.same_owner,
                attributes.no_same_owner || archive.old && operation != Operation::Create,
            ),
            numeric_owner: attributes.numeric_owner,
            owner: attributes.owner.as_deref().map(Owner::user).transpose()?,
            group: attributes.group.as_deref().map(Owner::group).transpose()?,
            mtime: attributes.mtime.as_deref().map(date::parse).transpose()?,
            dates: Vec::new(),
            clamp_mtime: attributes.clamp_mtime,
            touch: attributes.touch,
            xattrs: wants_xattrs(&attributes),
            xattrs_include: attributes.xattrs_include.into_iter().map(OsString::into_vec).collect(),
            xattrs_exclude: attributes.xattrs_exclude.into_iter().map(OsString::into_vec).collect(),
            acls: attributes.acls,
            existing: existing_of(&overwrite),
            to_stdout: overwrite.to_stdout,
            verify: overwrite.verify,
            verbose: tell.verbose,
            totals: tell.totals,
            check_links: tell.check_links,
            block_number: tell.block_number,
            full_time: tell.full_time,
            utc: tell.utc,
            quoting: quoting_of(tell.quoting_style.as_deref())?,
            warnings: warnings_of(&tell)?,
            index_file: tell.index_file,
            show_transformed: tell.show_transformed_names,
            show_omitted: tell.show_omitted_dirs,
            interactive: tell.interactive,
            operation,
            names,
            archive: file,
            in_place: in_place.in_place,
        };
        options.imply();
        options.check()?;
        let newer = options.newer.map(|(moment, _)| moment);
        options.dates = date::written(&[
            ("--newer-mtime", &select.newer_mtime, newer),
            ("--after-date", &select.newer, newer),
            ("--mtime", &attributes.mtime, options.mtime),
        ]);
        Ok(options)
    }

    /// What follows from several flags together.
    fn imply(&mut self) {
        // Attributes have no place in the other formats.
        if self.operation.stores() && self.format.is_none() && (self.xattrs || self.acls) {
            self.format = Some(ArchiveFormat::Pax);
        }
    }

    /// What makes no sense together.
    fn check(&self) -> Result<(), Refusal> {
        if self.occurrence.is_some() {
            self.check_occurrence()?;
        }
        if self.operation == Operation::Create && self.names.are_none() {
            return Err(Refusal::usage("Cowardly refusing to create an empty archive"));
        }
        if self.operation.stores() && (self.xattrs || self.acls) && self.format != Some(ArchiveFormat::Pax) {
            let what = if self.acls { "--acls" } else { "--xattrs" };
            return Err(Refusal::usage(format!("{what} can be used only on POSIX archives")));
        }
        let plain = matches!(self.format, Some(ArchiveFormat::Ustar | ArchiveFormat::V7));
        if self.operation.stores() && self.sparse.is_some() && plain {
            return Err(Refusal::usage("GNU features wanted on incompatible archive format"));
        }
        let updates = matches!(self.operation, Operation::Append | Operation::Update | Operation::Catenate);
        if updates && self.compression.is_some() {
            return Err(Refusal::usage("Cannot update compressed archives"));
        }
        if updates && self.archive == "-" {
            return Err(Refusal::usage("Options '-Aru' are incompatible with '-f -'"));
        }
        if self.verify {
            return Err(Refusal::usage("-W is not supported; compare with -d afterwards"));
        }
        if self.clamp_mtime && self.mtime.is_none() {
            return Err(Refusal::usage("--clamp-mtime needs a date specified using --mtime"));
        }
        Ok(())
    }
}

impl Options {
    /// Members are counted by the names given: there have to be names, and members that exist already.
    fn check_occurrence(&self) -> Result<(), Refusal> {
        if self.names.are_none() {
            return Err(Refusal::usage("--occurrence is meaningless without a file list"));
        }
        let letter = match self.operation {
            Operation::List | Operation::Extract | Operation::Diff => return Ok(()),
            Operation::Catenate => 'A',
            Operation::Create => 'c',
            Operation::Append => 'r',
            Operation::Update => 'u',
        };
        Err(Refusal::usage(format!("'--occurrence' cannot be used with '-{letter}'")))
    }
}

/// Which of the members with one name is meant; of 0, all are.
fn occurrence_of(text: Option<&OsStr>) -> Result<Option<u64>, Refusal> {
    let Some(text) = text else { return Ok(None) };
    let number = text.to_str().and_then(|text| text.parse::<u64>().ok());
    let invalid = || Refusal::Fatal(format!("{}: Invalid number", text.to_string_lossy()));
    Ok(Some(number.ok_or_else(invalid)?).filter(|number| *number > 0))
}

fn operation_of(args: &OperationArgs) -> Result<Operation, Refusal> {
    let given = [
        (args.catenate, Operation::Catenate),
        (args.create, Operation::Create),
        (args.diff, Operation::Diff),
        (args.append, Operation::Append),
        (args.list, Operation::List),
        (args.update, Operation::Update),
        (args.extract, Operation::Extract),
    ];
    let mut given = given.into_iter().filter_map(|(given, operation)| given.then_some(operation));
    match (given.next(), given.next()) {
        (Some(operation), None) => Ok(operation),
        (None, _) => Err(Refusal::usage("You must specify one of the '-Acdtrux' options")),
        _ => Err(Refusal::usage("You may not specify more than one '-Acdtrux' option")),
    }
}

fn archive_name(args: &ArchiveArgs) -> Result<OsString, Refusal> {
    match &args.file[..] {
        [] => Ok(std::env::var_os("TAPE").unwrap_or_else(|| "-".into())),
        [file] => Ok(file.clone()),
        _ => Err(Refusal::usage("Multiple archive files require '-M' option")),
    }
}

fn format_of(operation: Operation, args: &ArchiveArgs) -> Result<Option<ArchiveFormat>, Refusal> {
    let named = match args.format.as_deref().map(OsStr::as_bytes) {
        None => None,
        Some(b"gnu") => Some(ArchiveFormat::Gnu),
        Some(b"oldgnu") => Some(ArchiveFormat::OldGnu),
        Some(b"pax" | b"posix") => Some(ArchiveFormat::Pax),
        Some(b"ustar") => Some(ArchiveFormat::Ustar),
        Some(b"v7") => Some(ArchiveFormat::V7),
        Some(other) => {
            return Err(Refusal::usage(format!("{}: Invalid archive format", String::from_utf8_lossy(other))));
        }
    };
    // Of those flags the last one is left; `-o` is stronger than all of them.
    let old = args.old_archive || args.old && operation == Operation::Create;
    let stands_for = if args.posix { Some(ArchiveFormat::Pax) } else { named };
    Ok(if old { Some(ArchiveFormat::V7) } else { stands_for })
}

/// Bytes in a block of an archive.
pub(super) const BLOCK: u64 = 512;

fn record_of(args: &ArchiveArgs) -> Result<u64, Refusal> {
    // More would be more than any buffer.
    const MOST: u64 = 1 << 31;
    let (what, text, unit) = match (&args.blocking_factor, &args.record_size) {
        (Some(text), _) => ("Invalid blocking factor", text, BLOCK),
        (None, Some(text)) => ("Invalid record size", text, 1),
        (None, None) => return Ok(20 * BLOCK),
    };
    let invalid = || Refusal::usage(format!("{}: {what}", text.to_string_lossy()));
    let size = text.to_str().and_then(|text| crate::size::parse_positive_size(text).ok()).ok_or_else(invalid)?;
    let bytes = size.checked_mul(unit).filter(|bytes| *bytes <= MOST).ok_or_else(invalid)?;
    match bytes % BLOCK {
        0 => Ok(bytes),
        _ => Err(Refusal::usage(format!("Record size must be a multiple of {BLOCK}."))),
    }
}

fn newer_of(args: &SelectArgs) -> Result<Option<(Moment, bool)>, Refusal> {
    match (&args.newer, &args.newer_mtime) {
        (Some(_), Some(_)) => Err(Refusal::usage("More than one threshold date")),
        (Some(text), None) => Ok(Some((date::parse(text)?, false))),
        (None, Some(text)) => Ok(Some((date::parse(text)?, true))),
        (None, None) => Ok(None),
    }
}

fn sort_of(text: Option<&OsStr>) -> Result<Sort, Refusal> {
    choose("sort", text, &[("none", Sort::None), ("name", Sort::Name), ("inode", Sort::Inode)], Sort::None)
}

fn quoting_of(text: Option<&OsStr>) -> Result<Quoting, Refusal> {
    let styles = [("escape", Quoting::Escape), ("literal", Quoting::Literal)];
    choose("quoting-style", text, &styles, Quoting::Escape)
}

fn holes_of(sparse: bool, how: Option<&OsStr>) -> Result<Option<Holes>, Refusal> {
    let ways = [("raw", Holes::Raw), ("seek", Holes::Seek)];
    let chosen = choose("hole-detection", how, &ways, Holes::Seek)?;
    Ok((sparse || how.is_some()).then_some(chosen))
}

/// One of a few words, or a beginning that only one of them has.
fn choose<T: Copy>(option: &str, text: Option<&OsStr>, words: &[(&str, T)], default: T) -> Result<T, Refusal> {
    let Some(text) = text else { return Ok(default) };
    let given = text.to_str().unwrap_or("\0");
    let meant: Vec<&(&str, T)> = match words.iter().find(|(word, _)| *word == given) {
        Some(exact) => vec![exact],
        None => words.iter().filter(|(word, _)| word.starts_with(given)).collect(),
    };
    match meant[..] {
        [(_, value)] => Ok(*value),
        _ => Err(invalid_argument(option, text, words.iter().map(|(word, _)| *word))),
    }
}

/// GNU's words for an argument that is none of a few.
pub(super) fn invalid_argument<'a>(option: &str, text: &OsStr, words: impl Iterator<Item = &'a str>) -> Refusal {
    let mut message = format!("invalid argument {} for {}", marked(text.as_bytes()), marked(format!("--{option}")));
    message.push_str("\nValid arguments are:");
    words.for_each(|word| message.push_str(&format!("\n  - {}", marked(word))));
    Refusal::Plain(message)
}

fn number(what: &str, text: &OsStr) -> Result<u64, Refusal> {
    let number = text.to_str().and_then(|text| text.parse::<u64>().ok()).filter(|number| *number <= 1 << 32);
    number.ok_or_else(|| Refusal::usage(format!("{}: {what}", text.to_string_lossy())))
}

/// The directory of `--one-top-level`: the name of the archive without what says that it is one.
fn top_level(dir: &OsStr, archive: &OsStr) -> Result<Vec<u8>, Refusal> {
    if !dir.is_empty() {
        let clean = Clean::of(dir.as_bytes()).0;
        return Ok(if clean.is_empty() { dir.as_bytes().to_vec() } else { clean });
    }
    let name = archive.as_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let stem = |name: &[u8]| name.iter().rposition(|byte| *byte == b'.').map(|dot| name[..dot].to_vec());
    let plain = match by_suffix(name) {
        Some(_) => stem(name).unwrap_or_else(|| name.to_vec()),
        None => name.to_vec(),
    };
    let stripped = plain.strip_suffix(b".tar").map(<[u8]>::to_vec).unwrap_or(plain);
    match stripped.is_empty() || stripped == name {
        true => Err(Refusal::usage(
            "Cannot deduce top-level directory name; please set it explicitly with --one-top-level=DIR",
        )),
        false => Ok(stripped),
    }
}

/// Which of two contrary flags was given.
fn either(yes: bool, no: bool) -> Option<bool> {
    if yes { Some(true) } else { no.then_some(false) }
}

fn wants_xattrs(args: &AttributeArgs) -> bool {
    !args.no_xattrs && (args.xattrs || !args.xattrs_include.is_empty() || !args.xattrs_exclude.is_empty())
}

fn existing_of(args: &OverwriteArgs) -> Existing {
    Existing {
        keep_old: args.keep_old_files,
        skip_old: args.skip_old_files,
        keep_newer: args.keep_newer_files,
        overwrite: args.overwrite,
        unlink_first: args.unlink_first,
        recursive_unlink: args.recursive_unlink,
        keep_directory_symlink: args.keep_directory_symlink,
        no_overwrite_dir: args.no_overwrite_dir,
    }
}

fn warnings_of(args: &TellArgs) -> Result<Warnings, Refusal> {
    let mut warnings = Warnings::default();
    for text in &args.warning {
        warnings.set(text)?;
    }
    Ok(warnings)
}
