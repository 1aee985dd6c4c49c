//! Cures of errors that name a command.
//!
//! Striped files are maintained by the commands `dio stripe`, so errors of the library name them. A
//! program that offers the same under other names replaces the text
//! ([`FileError::with_cure`](crate::file::FileError::with_cure)).

/// An object does not fit.
pub(super) const CURE_WRONG: &str = "'dio stripe check' shows all that is wrong";
/// An object is missing.
pub(super) const CURE_MISSING: &str =
    "mount its target; 'dio stripe check' shows all that is wrong";
/// The objects are not of the same time or length.
pub(super) const CURE_DAMAGED: &str = "restore it, or take what is left for the file with 'dio \
                                       stripe check --repair --force'; 'dio stripe check' shows \
                                       all that is wrong";
/// Some objects are longer than the file.
pub(super) const CURE_UNEVEN: &str = "see 'dio stripe check'; with --repair it cuts them off";
/// The descriptor is a copy.
pub(super) const CURE_COPY: &str =
    "only read it, or make it the file's own with 'dio stripe adopt'";
/// The descriptor is a copy, or its objects belong to no descriptor.
pub(super) const CURE_HALF: &str = "make the one that is to be the file so with 'dio stripe adopt'";
/// The file cannot be removed as a whole.
pub(super) const CURE_FORCE: &str = "nothing was removed; 'dio stripe rm --force' removes what is \
                                     there, and 'dio stripe orphans' finds the rest";
/// An object could not be removed.
pub(super) const CURE_ORPHANS: &str =
    "when its target is there again, 'dio stripe orphans --rm' removes it";
/// The device belongs to another file.
pub(super) const CURE_HELD: &str = "remove that file with 'dio stripe rm'; if it is elsewhere, or \
                                    was never made, 'dio stripe orphans --rm' with the device; \
                                    --force loses the bytes";
/// The default was copied from another directory.
pub(super) const CURE_COPIED: &str = "new files there are plain; set it again for this directory \
                                      with 'dio stripe set', or remove it with 'dio stripe rm'";
/// A target is full, and some targets are devices.
pub(super) const CURE_DEVICE: &str =
    "free space there, or move the file with 'dio stripe migrate' if that is a device";
