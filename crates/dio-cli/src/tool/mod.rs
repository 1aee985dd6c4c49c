//! The code that all tools share: flags for how bytes move, streams that record their counters for
//! the receipt, messages in GNU's style, and the names that tools can be called by.

mod args;
mod crew;
pub(crate) mod deep;
mod descriptors;
mod destination;
pub(crate) mod device;
mod dontcache;
mod errors;
pub(crate) mod evict;
pub(crate) mod fifo;
pub(crate) mod held;
pub(crate) mod made;
pub(crate) mod messages;
mod notes;
pub(crate) mod plain;
mod progress;
mod run;
mod streams;
pub(crate) mod synced;
pub(crate) mod target;
pub(crate) mod trust;
pub(crate) mod whole;

pub(crate) use crate::grammar::called_as;
pub use args::{IoArgs, Mode, When};
pub(crate) use args::{
    OWN, depth_flag, in_place_flag, io_flags, medium_flag, mode_flag, number, progress_flag,
    receipt_flag, strict_flag,
};
pub use crew::Crew;
pub(crate) use descriptors::{
    allow_descriptors, are_descriptors_few, free_descriptors, open_descriptors,
};
pub use destination::{Destination, ReceiptError};
pub(crate) use dontcache::DontCache;
pub use errors::errno_of;
pub(crate) use errors::{die_of_a_closed_pipe, tell_reasons, tell_unfollowed};
pub(crate) use notes::{Birth, FileState};
pub use notes::{Mark, Notes};
pub use progress::Progress;
pub use run::Tool;
pub(crate) use run::receipt_words;
pub use streams::{Sink, Source};
