//! The policy above every engine, written once: short transfers, EAGAIN, EINTR, end of file, splitting and draining.
//!
//! Everything that moves bytes (files, copies, streams, queues) gives [`Request`]s to a [`Driver`], so a rule found wrong
//! in the simulator is mended for all of them. A request becomes one or several attempts, which are what an engine sees
//! ([`Op`](crate::engine::Op)); a request to a striped file becomes a request to each of its objects first ([`Spread`]).

mod attempt;
mod driver;
mod joint;
mod request;

pub use driver::{Driver, run, run_one};
pub use request::{Finished, Noted, Request, Spread, Target};
