//! The policy above every engine, written once: short transfers, EAGAIN, EINTR, the end of the
//! file, splitting and draining.
//!
//! Files, copies, streams and queues give [`Request`]s to a [`Driver`], so a mistake that the
//! simulator finds is corrected for all of them. A driver turns a request into one or more
//! attempts; the engine sees each attempt as an operation ([`Op`](crate::engine::Op)). A driver
//! first splits a request to a striped file into requests to its objects ([`StripedMedium`]).

mod attempt;
mod driver;
mod request;
mod split;

pub use driver::{Driver, run, run_one};
pub use request::{CacheNote, Finished, Request, RequestTarget, StripedMedium};
