//! Objects of striped files, for whoever tends them (the crate `dio-stripe`): how they are opened and judged, and what
//! stands in their headers and stamps. Programs that only read and write files need none of it.

pub use super::claim::header_on;
pub use super::create::{directory_of, sync_directory, take_new};
pub use super::device::{BOOT, length_of, open_exclusively, wipe};
pub use super::directory::{Identity, identity, remove_name_of};
pub use super::format::{HEADER_LEN, encode_default, may_be_descriptor};
pub use super::hold::patiently;
pub use super::local::is_local;
pub use super::open::{
    TAKEN, damaged, judge_header, judge_kind, judge_owner, of_object, open_judged, settle_judgement, wrong,
};
pub use super::remove::header_of;
pub use super::session::read_stamp;
pub use super::stamp::{Fault, Phase, STAMP_AT, Seen, Stamp, judge};
