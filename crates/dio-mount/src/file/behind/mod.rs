//! Writing behind: what is acknowledged and not yet written.
//!
//! | module | what it is |
//! |---|---|
//! | `appended` | what is appended, which has no offset before it is in the source |
//! | `ordered` | what a program writes in order, gathered into large blocks, and small files |
//! | `queue` | what both have in common: taking in, and writing in order |
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
pub(super) use target::{Aim, Target};
