//! Read – work – write: one thread reads, several work and one writes, all at once. Order is kept
//! and memory is bounded.
//!
//! Every form behaves like the plain loop, which reads an item, works on it, writes the result and
//! takes the next. The sink gets the same results in the same order. The error (or panic) returned
//! is the one that the loop would have met first, whichever thread met it first. Only the source
//! may have been asked for items that are not needed any more, at most `depth` of them.
//!
//! At most `depth` items exist at any time. An item exists from the moment the source is asked for
//! it until the sink is done with it. So memory is `depth` times the memory of an item, and a pool
//! of `depth` blocks is never empty when the source takes one.
//!
//! No thread outlives the call, so all stages may borrow. The pipeline waits for a stage that waits
//! for something outside (a read from a terminal): such a stage must check its own stop request,
//! with a timeout.

mod broadcast;
mod ordered;
mod ordered_queue;
mod stage;
#[cfg(test)]
mod tests;

pub use ordered::Items;
pub use stage::{Pipeline, PipelineReport, StageTimes};
