//! Objects of striped files, for their maintenance (the crate `dio-stripe`): how they are opened
//! and checked, and the contents of their headers and stamps. Programs that only read and write
//! files need none of it.

pub use super::claim::read_device_header;
pub use super::create::lock_new_file;
pub use super::device::{BOOT_ID, device_length, open_exclusive, wipe};
pub use super::directory::{directory_of, remove_name_of, sync_directory};
pub(crate) use super::error::open_error;
pub use super::error::{damaged_object_error, format_error, object_error};
pub use super::format::{HEADER_LEN, encode_default, may_be_descriptor};
pub use super::hold::PATIENCE_FORK;
pub use super::local::is_local;
pub(crate) use super::open::find_object;
pub use super::open::{
    DEVICE_IN_USE, check_header, check_kind, check_owner, open_checked, wait_until_consistent,
};
pub use super::remove::read_checked_header;
pub use super::stamp::{FoundState, ObjectFault, Phase, STAMP_AT, Stamp, compare_stamps};
pub use super::stamp_io::read_stamp;
pub use super::trust::{as_owner, refused_to_owner};
pub use crate::patience::take_within;
