//! Settings for extraction, derived from the options.

use super::super::options::{ExistingFiles, TarOptions};
use super::new_file::OldFiles;

/// Settings for extraction.
#[derive(Clone, Debug)]
pub(super) struct ExtractSettings {
    pub(super) old: OldFiles,
    pub(super) superuser: bool,
    pub(super) absolute: bool,
    pub(super) keep_directory_symlink: bool,
    pub(super) no_overwrite_dir: bool,
    /// `-h`: `--overwrite` writes through links, `--keep-newer-files` compares with the target of a
    /// link, and a link to a directory counts as a directory.
    pub(super) follows: bool,
    /// Whether set-id and sticky bits are set and the umask is not applied.
    pub(super) same_permissions: bool,
    pub(super) same_owner: bool,
    pub(super) numeric_owner: bool,
    pub(super) touch: bool,
    pub(super) umask: u32,
    pub(super) xattrs: bool,
    pub(super) acls: bool,
}

impl ExtractSettings {
    /// The mode of parent directories that no member describes.
    pub(super) fn mode_between(&self) -> u32 {
        0o777 & !self.umask | if self.superuser { 0 } else { 0o300 }
    }

    pub(super) fn of(options: &TarOptions) -> ExtractSettings {
        let superuser = rustix::process::geteuid().is_root();
        // The umask can only be read by setting it. No file is created in between.
        let umask = rustix::process::umask(rustix::fs::Mode::empty());
        rustix::process::umask(umask);
        ExtractSettings {
            old: old_files(options.existing),
            superuser,
            absolute: options.absolute_names,
            keep_directory_symlink: options.existing.keep_directory_symlink,
            no_overwrite_dir: options.existing.no_overwrite_dir,
            follows: options.dereference,
            same_permissions: options.same_permissions.unwrap_or(superuser),
            same_owner: options.same_owner.unwrap_or(superuser),
            numeric_owner: options.numeric_owner,
            touch: options.touch,
            umask: umask.bits(),
            xattrs: options.xattrs,
            acls: options.acls,
        }
    }
}

fn old_files(existing: ExistingFiles) -> OldFiles {
    match existing {
        ExistingFiles { recursive_unlink: true, .. } => OldFiles::UnlinkAll,
        ExistingFiles { keep_old: true, .. } => OldFiles::Keep,
        ExistingFiles { skip_old: true, .. } => OldFiles::Skip,
        ExistingFiles { keep_newer: true, .. } => OldFiles::KeepNewer,
        ExistingFiles { overwrite: true, .. } => OldFiles::Overwrite,
        ExistingFiles { unlink_first: true, .. } => OldFiles::UnlinkFirst,
        _ => OldFiles::Replace,
    }
}
