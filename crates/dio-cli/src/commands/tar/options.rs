//! Decides what the options of `dio tar` mean in combination, and rejects invalid combinations with
//! GNU tar's messages.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::args::TarArgs;
use super::compression::by_suffix;
use super::date::{Moment, Written};
use super::extract::names::Clean;
use super::names::NameSelection;
use super::owner::Owner;
use super::transform::Transform;
use super::warnings::Warnings;
use crate::grammar::Refusal;
use crate::tool::IoArgs;

pub(super) use super::terms::{
    ArchiveFormat, BLOCK, Compression, ExistingFiles, Holes, OmittedPart, Operation, Quoting, Sort,
};

/// The complete request of the command line.
#[derive(Debug)]
pub(super) struct TarOptions {
    /// The operation.
    pub(super) operation: Operation,
    /// Name of the archive; `-` is standard input or output.
    pub(super) archive: OsString,
    /// Format to write; `None` if no option names one.
    pub(super) format: Option<ArchiveFormat>,
    /// Compression of the archive, if an option names it. Otherwise it is recognised when reading.
    pub(super) compression: Option<Compression>,
    /// Size of a record, in bytes. The size of an archive is a multiple of it.
    pub(super) record: u64,
    /// `-i`: a block of zeros does not end the archive.
    pub(super) ignore_zeros: bool,
    /// `-n` and `--no-seek`: whether members may be skipped by seeking.
    pub(super) may_seek: bool,
    /// Names, directories and patterns, in order; see [`NameSelection`].
    pub(super) names: NameSelection,
    /// `-h`
    pub(super) dereference: bool,
    /// `--hard-dereference`
    pub(super) hard_dereference: bool,
    /// `--one-file-system`
    pub(super) one_file_system: bool,
    /// `-P`
    pub(super) absolute_names: bool,
    /// Only files newer than this are included; `true` means that only the modification time is
    /// compared.
    pub(super) newer: Option<(Moment, bool)>,
    /// Order of the names in a directory.
    pub(super) sort: Sort,
    /// `-K`: members before this one are skipped.
    pub(super) starting_file: Option<Vec<u8>>,
    /// `--occurrence`: which of the members with the same name is selected, counted from 1.
    pub(super) occurrence: Option<u64>,
    /// `--strip-components`
    pub(super) strip_components: usize,
    /// `--transform`: expressions that change names.
    pub(super) transform: Transform,
    /// `--one-top-level`: the directory into which everything is extracted.
    pub(super) one_top_level: Option<Vec<u8>>,
    /// `--ignore-failed-read`
    pub(super) ignore_failed_read: bool,
    /// `--remove-files`
    pub(super) remove_files: bool,
    /// `--in-place`: an existing archive is overwritten.
    pub(super) in_place: bool,
    /// `-S`, and how holes are found.
    pub(super) sparse: Option<Holes>,

    /// `-p` or `--no-same-permissions`; the default depends on the user.
    pub(super) same_permissions: Option<bool>,
    /// `--same-owner` or `--no-same-owner`; the default depends on the user.
    pub(super) same_owner: Option<bool>,
    /// `--numeric-owner`
    pub(super) numeric_owner: bool,
    /// `--owner`
    pub(super) owner: Option<Owner>,
    /// `--group`
    pub(super) group: Option<Owner>,
    /// `--mtime`
    pub(super) mtime: Option<Moment>,
    /// Dates that the command line gives as text; `-v` prints how they were understood.
    pub(super) dates: Vec<Written>,
    /// `--clamp-mtime`
    pub(super) clamp_mtime: bool,
    /// `-m`
    pub(super) touch: bool,
    /// Whether extended attributes are archived or extracted.
    pub(super) xattrs: bool,
    /// `--xattrs-include`: patterns for names. If empty, all attributes are archived, and those of
    /// the `user.` namespace extracted.
    pub(super) xattrs_include: Vec<Vec<u8>>,
    /// `--xattrs-exclude`
    pub(super) xattrs_exclude: Vec<Vec<u8>>,
    /// Whether access control lists are archived or extracted.
    pub(super) acls: bool,
    /// How existing files are treated.
    pub(super) existing: ExistingFiles,
    /// `-O`
    pub(super) to_stdout: bool,
    /// `-W`
    pub(super) verify: bool,

    /// How often `-v` was given.
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
    pub(super) io: IoArgs,
}

/// The archive: that of `-f`, that of the environment, or standard input or output.
fn the_archive(given: Vec<OsString>) -> Result<OsString, Refusal> {
    let mut archives = given.into_iter();
    let archive = archives.next().or_else(|| std::env::var_os("TAPE"));
    match archives.next() {
        Some(_) => Err(Refusal::usage("Multiple archive files require '-M' option")),
        None => Ok(archive.unwrap_or_else(|| "-".into())),
    }
}

impl TarOptions {
    /// Derives the options from the parsed command line.
    ///
    /// # Errors
    /// The first error in the command line.
    pub(super) fn of(args: TarArgs) -> Result<TarOptions, Refusal> {
        let none = || Refusal::usage("You must specify one of the '-Acdtrux' options");
        let operation = args.operation.ok_or_else(none)?;
        let names = NameSelection::of(args.ordered, operation)?;
        let archive = the_archive(args.archives)?;
        let creates = operation == Operation::Create;
        let mut options = TarOptions {
            // `-o` overrides any `--format` when creating.
            format: if args.old && creates { Some(ArchiveFormat::V7) } else { args.format },
            compression: match args.compression {
                None if args.auto_compress && creates => by_suffix(archive.as_bytes()),
                given => given,
            },
            record: args.record.unwrap_or(20 * BLOCK),
            ignore_zeros: args.ignore_zeros,
            may_seek: !args.no_seek,
            newer: args.newer,
            sort: args.sort.unwrap_or(Sort::None),
            occurrence: args.occurrence,
            strip_components: args.strip_components,
            transform: Transform::of(&args.transform)?,
            one_top_level: args
                .one_top_level
                .as_deref()
                .map(|dir| top_level(dir, &archive))
                .transpose()?,
            starting_file: args.starting_file,
            sparse: args.sparse,
            dereference: args.dereference,
            hard_dereference: args.hard_dereference,
            one_file_system: args.one_file_system,
            absolute_names: args.absolute_names,
            ignore_failed_read: args.ignore_failed_read,
            remove_files: args.remove_files,
            same_permissions: args.same_permissions,
            same_owner: args.same_owner.or((args.old && !creates).then_some(false)),
            numeric_owner: args.numeric_owner,
            owner: args.owner,
            group: args.group,
            mtime: args.mtime,
            dates: args.dates.into_iter().flatten().collect(),
            clamp_mtime: args.clamp_mtime,
            touch: args.touch,
            xattrs: args.xattrs,
            xattrs_include: args.xattrs_include,
            xattrs_exclude: args.xattrs_exclude,
            acls: args.acls,
            existing: args.existing,
            to_stdout: args.to_stdout,
            verify: args.verify,
            verbose: args.verbose,
            totals: args.totals,
            check_links: args.check_links,
            block_number: args.block_number,
            full_time: args.full_time,
            utc: args.utc,
            quoting: args.quoting.unwrap_or(Quoting::Escape),
            warnings: args.warnings,
            index_file: args.index_file,
            show_transformed: args.show_transformed,
            show_omitted: args.show_omitted,
            interactive: args.interactive,
            operation,
            names,
            archive,
            in_place: args.in_place,
            io: args.io,
        };
        options.imply();
        options.check()?;
        Ok(options)
    }

    /// Sets options that others imply.
    fn imply(&mut self) {
        // Other formats cannot store attributes.
        if self.operation.stores() && self.format.is_none() && (self.xattrs || self.acls) {
            self.format = Some(ArchiveFormat::Pax);
        }
    }

    /// Rejects options that make no sense together.
    fn check(&self) -> Result<(), Refusal> {
        if self.occurrence.is_some() {
            self.check_occurrence()?;
        }
        if self.operation == Operation::Create && self.names.are_none() {
            return Err(Refusal::usage("Cowardly refusing to create an empty archive"));
        }
        if self.operation.stores()
            && (self.xattrs || self.acls)
            && self.format != Some(ArchiveFormat::Pax)
        {
            let what = if self.acls { "--acls" } else { "--xattrs" };
            return Err(Refusal::usage(format!("{what} can be used only on POSIX archives")));
        }
        let plain = matches!(self.format, Some(ArchiveFormat::Ustar | ArchiveFormat::V7));
        if self.operation.stores() && self.sparse.is_some() && plain {
            return Err(Refusal::usage("GNU features wanted on incompatible archive format"));
        }
        let updates =
            matches!(self.operation, Operation::Append | Operation::Update | Operation::Catenate);
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

impl TarOptions {
    /// `--occurrence` counts members by the names given, so it needs names, and an operation that
    /// reads existing members.
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

/// The directory of `--one-top-level`. Its default is the name of the archive without `.tar` and
/// the suffix of the compression.
fn top_level(dir: &OsStr, archive: &OsStr) -> Result<Vec<u8>, Refusal> {
    if !dir.is_empty() {
        let clean = Clean::of(dir.as_bytes()).0;
        return Ok(if clean.is_empty() { dir.as_bytes().to_vec() } else { clean });
    }
    let name = archive.as_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let stem =
        |name: &[u8]| name.iter().rposition(|byte| *byte == b'.').map(|dot| name[..dot].to_vec());
    let plain = match by_suffix(name) {
        Some(_) => stem(name).unwrap_or_else(|| name.to_vec()),
        None => name.to_vec(),
    };
    let stripped = plain.strip_suffix(b".tar").map(<[u8]>::to_vec).unwrap_or(plain);
    match stripped.is_empty() || stripped == name {
        true => Err(Refusal::usage(
            "Cannot deduce top-level directory name; please set it explicitly with \
             --one-top-level=DIR",
        )),
        false => Ok(stripped),
    }
}
