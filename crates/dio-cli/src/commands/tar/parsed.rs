//! The parsed command line of `tar`, which the grammar fills in option by option.

use super::date;
use super::date::{Moment, Written};
use super::ordered::Flag as Ordered;
use super::owner::Owner;
use super::terms::{ArchiveFormat, Compression, ExistingFiles, Holes, Operation, Quoting, Sort};
use super::warnings::Warnings;
use crate::grammar::Refusal;
use crate::tool::IoArgs;
use std::ffi::{OsStr, OsString};

/// The parsed command line.
#[derive(Debug, Default)]
pub(super) struct TarArgs {
    pub(super) operation: Option<Operation>,
    /// Names, directories and pattern options, in the order given.
    pub(super) ordered: Vec<Ordered>,

    pub(super) archives: Vec<OsString>,
    pub(super) format: Option<ArchiveFormat>,
    /// `-o`
    pub(super) old: bool,
    pub(super) compression: Option<Compression>,
    pub(super) auto_compress: bool,
    /// Size of a record, in bytes.
    pub(super) record: Option<u64>,
    pub(super) ignore_zeros: bool,
    pub(super) no_seek: bool,

    pub(super) dereference: bool,
    pub(super) hard_dereference: bool,
    pub(super) one_file_system: bool,
    pub(super) absolute_names: bool,
    /// The date of `-N` or `--newer-mtime`, and whether only the modification time is compared with
    /// it.
    pub(super) newer: Option<(Moment, bool)>,
    /// The dates of `-N` and of `--mtime`, if they were given as text and not as a file.
    pub(super) dates: [Option<Written>; 2],
    pub(super) sort: Option<Sort>,
    pub(super) starting_file: Option<Vec<u8>>,
    pub(super) occurrence: Option<u64>,
    pub(super) strip_components: usize,
    pub(super) transform: Vec<OsString>,
    pub(super) one_top_level: Option<OsString>,
    pub(super) ignore_failed_read: bool,
    pub(super) remove_files: bool,
    pub(super) sparse: Option<Holes>,

    pub(super) same_permissions: Option<bool>,
    pub(super) same_owner: Option<bool>,
    pub(super) numeric_owner: bool,
    pub(super) owner: Option<Owner>,
    pub(super) group: Option<Owner>,
    pub(super) mtime: Option<Moment>,
    pub(super) clamp_mtime: bool,
    pub(super) touch: bool,
    pub(super) xattrs: bool,
    pub(super) xattrs_include: Vec<Vec<u8>>,
    pub(super) xattrs_exclude: Vec<Vec<u8>>,
    pub(super) acls: bool,

    pub(super) existing: ExistingFiles,
    /// The option that says how existing files are treated; GNU tar rejects two different ones.
    pub(crate) treatment: Option<String>,
    pub(super) to_stdout: bool,
    pub(super) verify: bool,
    pub(super) in_place: bool,

    pub(super) verbose: u8,
    pub(super) totals: bool,
    pub(super) check_links: bool,
    pub(super) block_number: bool,
    pub(super) full_time: bool,
    pub(super) utc: bool,
    pub(super) index_file: Option<OsString>,
    pub(super) quoting: Option<Quoting>,
    pub(super) show_transformed: bool,
    pub(super) show_omitted: bool,
    pub(super) warnings: Warnings,
    pub(super) interactive: bool,
    pub(super) io: IoArgs,
}

impl TarArgs {
    pub(super) fn compress(&mut self, how: Compression) -> Result<(), Refusal> {
        match self.compression.replace(how) {
            Some(before) if self.compression.as_ref() != Some(&before) => {
                Err(Refusal::usage("Conflicting compression options"))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn newer(
        &mut self,
        text: &OsStr,
        option: &'static str,
        only_contents: bool,
    ) -> Result<(), Refusal> {
        if self.newer.is_some() {
            return Err(Refusal::usage("More than one threshold date"));
        }
        let moment = date::parse(text)?;
        self.newer = Some((moment, only_contents));
        self.dates[0] = Written::of(option, text, moment);
        Ok(())
    }
}
