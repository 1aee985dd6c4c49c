//! The grammar of `dio tar`: GNU tar's flags and those of every tool. What they mean is decided in `options`.

use std::ffi::OsString;

use clap::{ArgAction, Args, ValueHint};

use super::ordered::Flag;
use crate::tool::{InPlaceArgs, IoArgs, Ordered};

/// Write and read archives, past the page cache
///
/// One of -c, -t, -x, -r, -u, -A and -d says what to do. The letters may stand without a dash in the first word; then their arguments follow in the order of the letters: tar cbf 40 archive file.
///
/// -C, -T, --add-file, --no-recursion, --null and how patterns match concern the names and patterns that come after them.
#[derive(Args, Clone, Debug)]
#[command(args_override_self = true, infer_long_args = true, disable_help_flag = true, disable_version_flag = true)]
pub struct TarArgs {
    /// What to do
    #[command(flatten)]
    pub operation: OperationArgs,

    /// Flags whose order on the command line decides
    #[command(flatten)]
    pub ordered: Ordered<Flag>,

    /// The archive
    #[command(flatten)]
    pub archive: ArchiveArgs,

    /// Which files
    #[command(flatten)]
    pub select: SelectArgs,

    /// What is kept of files
    #[command(flatten)]
    pub attributes: AttributeArgs,

    /// How existing files are treated
    #[command(flatten)]
    pub overwrite: OverwriteArgs,

    /// What is told
    #[command(flatten)]
    pub tell: TellArgs,

    /// Print help
    #[arg(short = '?', long, action = ArgAction::Help)]
    help: Option<bool>,

    /// Print version
    #[arg(long, action = ArgAction::Version)]
    version: Option<bool>,

    /// How bytes are moved
    #[command(flatten)]
    pub io: IoArgs,

    /// How an existing output is replaced
    #[command(flatten)]
    pub in_place: InPlaceArgs,
}

/// What to do: one of them, which may be repeated.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Operation")]
pub struct OperationArgs {
    /// Create an archive
    #[arg(short = 'c', long)]
    pub create: bool,

    /// List what is in an archive
    #[arg(short = 't', long)]
    pub list: bool,

    /// Extract from an archive
    #[arg(short = 'x', long, alias = "get")]
    pub extract: bool,

    /// Append files to an archive
    #[arg(short = 'r', long)]
    pub append: bool,

    /// Append files that are newer than their copy in the archive
    #[arg(short = 'u', long)]
    pub update: bool,

    /// Append what is in other archives
    #[arg(short = 'A', long, alias = "concatenate")]
    pub catenate: bool,

    /// Find differences between an archive and the files
    #[arg(short = 'd', long, alias = "compare")]
    pub diff: bool,
}

/// The archive as a file: name, format, compression, records.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Archive")]
pub struct ArchiveArgs {
    /// The archive; - is standard output or input [default: $TAPE, or -]
    #[arg(short = 'f', long, value_name = "ARCHIVE", allow_hyphen_values = true, value_hint = ValueHint::FilePath,
          action = ArgAction::Append)]
    pub file: Vec<OsString>,

    /// Format to create: gnu, oldgnu, pax (or posix), ustar, v7 [default: gnu]
    #[arg(short = 'H', long, value_name = "FORMAT", allow_hyphen_values = true,
          overrides_with_all = ["posix", "old_archive"])]
    pub format: Option<OsString>,

    /// Same as --format=posix
    #[arg(long, overrides_with = "old_archive")]
    pub posix: bool,

    /// Same as --format=v7
    #[arg(long, alias = "portability")]
    pub old_archive: bool,

    /// Creating, same as --old-archive; extracting, same as --no-same-owner
    #[arg(short = 'o')]
    pub old: bool,

    /// Compressed by gzip
    #[arg(short = 'z', long, aliases = ["gunzip", "ungzip"])]
    pub gzip: bool,

    /// Compressed by zstd
    #[arg(long)]
    pub zstd: bool,

    /// Compressed by bzip2, which runs as a process of its own
    #[arg(short = 'j', long)]
    pub bzip2: bool,

    /// Compressed by xz, which runs as a process of its own
    #[arg(short = 'J', long)]
    pub xz: bool,

    /// Compressed by lzma, which runs as a process of its own
    #[arg(long)]
    pub lzma: bool,

    /// Compressed by lzip, which runs as a process of its own
    #[arg(long)]
    pub lzip: bool,

    /// Compressed by lzop, which runs as a process of its own
    #[arg(long)]
    pub lzop: bool,

    /// Compressed by compress, which runs as a process of its own
    #[arg(short = 'Z', long, alias = "uncompress")]
    pub compress: bool,

    /// Compressed by PROG, which must understand -d
    #[arg(short = 'I', long, value_name = "PROG", allow_hyphen_values = true)]
    pub use_compress_program: Option<OsString>,

    /// Compressed as the end of the archive's name says
    #[arg(short = 'a', long, overrides_with = "no_auto_compress")]
    pub auto_compress: bool,

    /// Not compressed because of its name
    #[arg(long, overrides_with = "auto_compress", hide = true)]
    pub no_auto_compress: bool,

    /// Records of N × 512 bytes [default: 20]
    #[arg(short = 'b', long, value_name = "N", allow_hyphen_values = true)]
    pub blocking_factor: Option<OsString>,

    /// Records of N bytes, a multiple of 512
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub record_size: Option<OsString>,

    /// Read on behind blocks of zeros
    #[arg(short = 'i', long)]
    pub ignore_zeros: bool,

    /// Read whole records from pipes: as it is done in any case
    #[arg(short = 'B', long, hide = true)]
    pub read_full_records: bool,

    /// The archive can be positioned, as is found out in any case
    #[arg(short = 'n', long, hide = true)]
    pub seek: bool,

    /// Read the archive from front to back
    #[arg(long)]
    pub no_seek: bool,

    /// A colon in the archive's name means nothing: as in any case
    #[arg(long, hide = true)]
    pub force_local: bool,
}

/// Which files are archived, or taken from the archive.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Selection of files")]
pub struct SelectArgs {
    /// Archive what symbolic links point to
    #[arg(short = 'h', long)]
    pub dereference: bool,

    /// Archive every name of a file with its contents
    #[arg(long)]
    pub hard_dereference: bool,

    /// Stay in the file system of each name given
    #[arg(long)]
    pub one_file_system: bool,

    /// Keep leading / and .. of names
    #[arg(short = 'P', long)]
    pub absolute_names: bool,

    /// Only files whose contents or attributes changed after DATE, or after FILE was written
    #[arg(short = 'N', long, alias = "after-date", value_name = "DATE-OR-FILE", allow_hyphen_values = true)]
    pub newer: Option<OsString>,

    /// Only files whose contents changed after DATE
    #[arg(long, value_name = "DATE", allow_hyphen_values = true)]
    pub newer_mtime: Option<OsString>,

    /// Order of the names in a directory: none, name, inode
    #[arg(long, value_name = "ORDER", allow_hyphen_values = true)]
    pub sort: Option<OsString>,

    /// Begin with the member of that name
    #[arg(short = 'K', long, value_name = "MEMBER", allow_hyphen_values = true)]
    pub starting_file: Option<OsString>,

    /// Only the Nth of the members that have a name [default: 1]
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "1")]
    pub occurrence: Option<OsString>,

    /// Names are in the order of the archive: without effect
    #[arg(short = 's', long, alias = "same-order", hide = true)]
    pub preserve_order: bool,

    /// Leave N leading parts of the names of members out
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub strip_components: Option<OsString>,

    /// Change names by an expression of sed: s/REGEX/TEXT/FLAGS
    #[arg(long, alias = "xform", value_name = "EXPRESSION", allow_hyphen_values = true)]
    pub transform: Vec<OsString>,

    /// Extract into a directory DIR, by default named after the archive
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub one_top_level: Option<OsString>,

    /// An unreadable file is no failure
    #[arg(long)]
    pub ignore_failed_read: bool,

    /// Remove files when they are in the archive
    #[arg(long)]
    pub remove_files: bool,

    /// Archive holes as holes
    #[arg(short = 'S', long)]
    pub sparse: bool,

    /// How holes are found: seek or raw; implies -S
    #[arg(long, value_name = "TYPE", allow_hyphen_values = true)]
    pub hole_detection: Option<OsString>,
}

/// What is kept of files beside their contents.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Attributes of files")]
pub struct AttributeArgs {
    /// Extract permissions as they are (default of the superuser)
    #[arg(short = 'p', long, alias = "same-permissions", overrides_with = "no_same_permissions")]
    pub preserve_permissions: bool,

    /// Apply the umask to permissions (default of others)
    #[arg(long, overrides_with = "preserve_permissions")]
    pub no_same_permissions: bool,

    /// Extract with the same owners (default of the superuser)
    #[arg(long, overrides_with = "no_same_owner")]
    pub same_owner: bool,

    /// Extract as oneself (default of others)
    #[arg(long, overrides_with = "same_owner")]
    pub no_same_owner: bool,

    /// Numbers instead of names of users and groups
    #[arg(long)]
    pub numeric_owner: bool,

    /// Owner of added files: NAME, NAME:UID or UID
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    pub owner: Option<OsString>,

    /// Group of added files: NAME, NAME:GID or GID
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    pub group: Option<OsString>,

    /// Time of added files: a date, @SECONDS, or a FILE that has it (a name that begins with / or .)
    #[arg(long, value_name = "DATE-OR-FILE", allow_hyphen_values = true)]
    pub mtime: Option<OsString>,

    /// --mtime only for files that are newer
    #[arg(long)]
    pub clamp_mtime: bool,

    /// Do not extract times
    #[arg(short = 'm', long)]
    pub touch: bool,

    /// Extended attributes
    #[arg(long, overrides_with = "no_xattrs")]
    pub xattrs: bool,

    /// No extended attributes
    #[arg(long, overrides_with = "xattrs")]
    pub no_xattrs: bool,

    /// Extended attributes whose names match; implies --xattrs
    #[arg(long, value_name = "MASK", allow_hyphen_values = true)]
    pub xattrs_include: Vec<OsString>,

    /// No extended attributes whose names match; implies --xattrs
    #[arg(long, value_name = "MASK", allow_hyphen_values = true)]
    pub xattrs_exclude: Vec<OsString>,

    /// Access control lists
    #[arg(long, overrides_with = "no_acls")]
    pub acls: bool,

    /// No access control lists
    #[arg(long, overrides_with = "acls")]
    pub no_acls: bool,

    /// No SELinux contexts: as in any case
    #[arg(long, hide = true)]
    pub no_selinux: bool,

    /// Set times and permissions of directories at the end, as in any case
    #[arg(long, hide = true)]
    pub delay_directory_restore: bool,

    /// Without effect
    #[arg(long, hide = true)]
    pub no_delay_directory_restore: bool,
}

/// How existing files are treated when extracting, and where contents go.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Extraction over existing files")]
pub struct OverwriteArgs {
    /// Do not replace existing files, which are errors
    #[arg(short = 'k', long)]
    pub keep_old_files: bool,

    /// Do not replace existing files
    #[arg(long)]
    pub skip_old_files: bool,

    /// Do not replace existing files that are newer
    #[arg(long)]
    pub keep_newer_files: bool,

    /// Write into existing files
    #[arg(long)]
    pub overwrite: bool,

    /// Remove each file before it is extracted
    #[arg(short = 'U', long)]
    pub unlink_first: bool,

    /// Remove directories with all they hold where something else is extracted
    #[arg(long)]
    pub recursive_unlink: bool,

    /// Follow symbolic links to directories
    #[arg(long)]
    pub keep_directory_symlink: bool,

    /// Keep the attributes of existing directories
    #[arg(long)]
    pub no_overwrite_dir: bool,

    /// Replace the attributes of existing directories (default)
    #[arg(long)]
    pub overwrite_dir: bool,

    /// Extract contents to standard output
    #[arg(short = 'O', long)]
    pub to_stdout: bool,

    /// Compare the archive with the files when it is written
    #[arg(short = 'W', long)]
    pub verify: bool,
}

/// What is told.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Messages")]
pub struct TellArgs {
    /// List the files as they are dealt with; twice, with their attributes
    #[arg(short = 'v', long, action = ArgAction::Count)]
    pub verbose: u8,

    /// Tell the bytes of the archive at the end
    #[arg(long)]
    pub totals: bool,

    /// Tell if not all names of a file were archived
    #[arg(short = 'l', long)]
    pub check_links: bool,

    /// Tell the number of the block with each message
    #[arg(short = 'R', long)]
    pub block_number: bool,

    /// List times to their full resolution
    #[arg(long)]
    pub full_time: bool,

    /// List times in UTC
    #[arg(long)]
    pub utc: bool,

    /// Write the list of files to FILE
    #[arg(long, value_name = "FILE", allow_hyphen_values = true, value_hint = ValueHint::FilePath)]
    pub index_file: Option<OsString>,

    /// How names are listed: escape, literal
    #[arg(long, value_name = "STYLE", allow_hyphen_values = true)]
    pub quoting_style: Option<OsString>,

    /// List names as --strip-components leaves them
    #[arg(long, alias = "show-stored-names")]
    pub show_transformed_names: bool,

    /// Tell directories that are passed over
    #[arg(long)]
    pub show_omitted_dirs: bool,

    /// Which warnings are told: KEYWORD, no-KEYWORD, all or none
    #[arg(long, value_name = "KEYWORD", allow_hyphen_values = true)]
    pub warning: Vec<OsString>,

    /// Ask before each file
    #[arg(short = 'w', long, alias = "confirmation")]
    pub interactive: bool,
}
