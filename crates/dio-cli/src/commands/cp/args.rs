//! The grammar of `dio cp`: GNU cp's flags and dio's own. Nothing is decided here; see `options`.

use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum};

use crate::size::{parse_positive_size, parse_rate, parse_size};
use crate::tool::{Abbreviated, Found, InOrder, Mode, Ordered, When};

/// Copy SOURCE to DEST, or several SOURCEs into a DIRECTORY, past the page cache and durably
#[derive(Args, Clone, Debug)]
#[command(args_override_self = true, infer_long_args = true)]
pub struct CpArgs {
    /// Files to copy, and where to: SOURCE DEST, SOURCE... DIRECTORY, or with -t only SOURCE...
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// Copy all SOURCEs into DIRECTORY
    #[arg(short = 't', long, value_name = "DIRECTORY", action = ArgAction::Append)]
    pub target_directory: Vec<PathBuf>,

    /// Treat DEST as a file to write, never as a directory to copy into
    #[arg(short = 'T', long)]
    pub no_target_directory: bool,

    /// Copy directories and everything below them
    #[arg(short = 'r', short_alias = 'R', long)]
    pub recursive: bool,

    /// Flags whose order on the command line decides
    #[command(flatten)]
    pub ordered: Ordered<Flag>,

    /// If an existing target cannot be opened, remove it and try again
    #[arg(short, long)]
    pub force: bool,

    /// Remove an existing target file before trying to open it
    #[arg(long)]
    pub remove_destination: bool,

    /// Replace existing files: none of them, only those older than the source, or all
    #[arg(short, long, value_parser = Abbreviated::<Update>::new(), value_name = "WHICH", num_args = 0..=1, require_equals = true,
          default_missing_value = "older")]
    pub update: Option<Update>,

    /// Make hard links instead of copying
    #[arg(short = 'l', long)]
    pub link: bool,

    /// Name each file as it is copied
    #[arg(short, long)]
    pub verbose: bool,

    /// Stay on the file system of each SOURCE
    #[arg(short = 'x', long)]
    pub one_file_system: bool,

    /// Recreate the full path of each SOURCE under DIRECTORY
    #[arg(long)]
    pub parents: bool,

    /// Make holes in the target: where the source has them, wherever it has zeros, or none
    #[arg(long, value_parser = Abbreviated::<When>::new(), value_name = "WHEN", default_value = "auto")]
    pub sparse: When,

    /// Share the source's blocks: where the file system can, or fail if it cannot
    #[arg(long, value_parser = Abbreviated::<When>::new(), value_name = "WHEN", num_args = 0..=1, require_equals = true,
          default_value = "auto", default_missing_value = "always")]
    pub reflink: When,

    /// How bytes move: past the page cache (direct), through it and out again at once (uncached),
    /// through it (cached), or chosen by size (auto)
    #[arg(long, value_enum, value_name = "MODE", default_value = "auto")]
    pub mode: Mode,

    /// Fail where --mode cannot be had instead of falling back
    #[arg(long)]
    pub strict: bool,

    /// Largest file that --mode auto sends through a page cache that forgets, instead of directly
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "64K")]
    pub small: u64,

    /// Size of one transfer, 24M at most [default: 1M]
    #[arg(long, value_name = "SIZE", value_parser = parse_positive_size)]
    pub block: Option<u64>,

    /// Transfers kept in flight, as far as 48M of buffers go [default: 16; more for striped files, which have 4 for
    /// each target]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub depth: Option<u32>,

    /// Write under a temporary name and rename, so that the target is the old or the new content at every instant
    #[arg(long)]
    pub atomic: bool,

    /// Read the copy back from the medium and compare it with what was read
    #[arg(long)]
    pub verify: bool,

    /// Move at most RATE bytes per second, e.g. 100M
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub limit: Option<u64>,

    /// Continue a copy that was cut short, keeping what is already there
    #[arg(long)]
    pub resume: bool,

    /// Do not wait until data and names are on the disk
    #[arg(long)]
    pub no_sync: bool,

    /// Show how far the copy is
    #[arg(long, value_enum, value_name = "WHEN", num_args = 0..=1, require_equals = true,
          default_value = "auto", default_missing_value = "always")]
    pub progress: When,

    /// Write a JSON account of the copy to FILE, or to standard output if FILE is -
    #[arg(long, value_name = "FILE")]
    pub receipt: Option<PathBuf>,
}

/// The argument of `--update`.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// Leave every existing file
    None,
    /// Replace files older than the source
    Older,
    /// Replace every file
    All,
}

/// What `--preserve` and `--no-preserve` name.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attribute {
    /// Permission bits and ACLs
    Mode,
    /// User and group
    Ownership,
    /// Times of access and modification, in nanoseconds
    Timestamps,
    /// Hard links among the files copied
    Links,
    /// The SELinux context
    Context,
    /// Extended attributes
    Xattr,
    /// All of them
    All,
}

/// The flags whose order matters, as clap declares them.
#[derive(Args, Clone, Debug)]
pub struct OrderedFlags {
    /// Copy everything as it is: -d -r --preserve=all
    #[arg(short, long)]
    archive: bool,

    /// Same as --preserve=mode,ownership,timestamps
    #[arg(short = 'p')]
    preserve_default: bool,

    /// Keep these attributes: mode, ownership, timestamps, links, context, xattr, all
    #[arg(long, value_parser = Abbreviated::<Attribute>::new(), value_name = "LIST", num_args = 0..=1,
          require_equals = true, value_delimiter = ',',
          default_missing_value = "mode,ownership,timestamps", action = ArgAction::Append)]
    preserve: Vec<Attribute>,

    /// Do not keep these attributes
    #[arg(long, value_parser = Abbreviated::<Attribute>::new(), value_name = "LIST", value_delimiter = ',', action = ArgAction::Append)]
    no_preserve: Vec<Attribute>,

    /// Same as --no-dereference --preserve=links
    #[arg(short = 'd')]
    keep_links: bool,

    /// Copy symbolic links as links
    #[arg(short = 'P', long)]
    no_dereference: bool,

    /// Copy what symbolic links lead to
    #[arg(short = 'L', long)]
    dereference: bool,

    /// Follow symbolic links named on the command line only
    #[arg(short = 'H')]
    dereference_operands: bool,

    /// Ask before replacing a file
    #[arg(short, long)]
    interactive: bool,

    /// Leave existing files as they are
    #[arg(short, long)]
    no_clobber: bool,
}

/// One of the flags whose order matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flag {
    /// `-a`
    Archive,
    /// `-p`
    PreserveDefault,
    /// One item of `--preserve`
    Preserve(Attribute),
    /// One item of `--no-preserve`
    NoPreserve(Attribute),
    /// `-d`
    KeepLinks,
    /// `-P`
    NoDereference,
    /// `-L`
    Dereference,
    /// `-H`
    DereferenceOperands,
    /// `-i`
    Interactive,
    /// `-n`
    NoClobber,
}

impl InOrder for Flag {
    type Flags = OrderedFlags;

    fn find(found: &mut Found<'_, Flag>) {
        found.switch("archive", Flag::Archive);
        found.switch("preserve_default", Flag::PreserveDefault);
        found.switch("keep_links", Flag::KeepLinks);
        found.switch("no_dereference", Flag::NoDereference);
        found.switch("dereference", Flag::Dereference);
        found.switch("dereference_operands", Flag::DereferenceOperands);
        found.switch("interactive", Flag::Interactive);
        found.switch("no_clobber", Flag::NoClobber);
        found.values("preserve", Flag::Preserve);
        found.values("no_preserve", Flag::NoPreserve);
    }
}
