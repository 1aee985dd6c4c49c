//! Writing behind: bytes that are acknowledged and not yet written.
//!
//! | module | what it is |
//! |---|---|
//! | `appended` | appends, whose bytes have no offset before they are in the source |
//! | `ordered` | sequential writes, gathered into large blocks, and small files |
//! | `queue` | the common part of both: a queue that is written in order |
//! | `target` | the file that pending bytes are written to |
//! | `scatter` | small writes anywhere in a file, many in flight at a time |

mod appended;
mod ordered;
mod queue;
mod scatter;
mod target;

pub(super) use appended::Appended;
pub(super) use ordered::{Ordered, SMALL};
pub(super) use scatter::{Scattered, Writer};
pub(super) use target::{LazyTarget, OpenTarget};
