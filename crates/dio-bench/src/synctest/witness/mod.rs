//! The proof that a disk is honest: numbered blocks are written and synced, and each number that
//! the disk has acknowledged is told to another machine, the witness, which keeps it. Then the plug
//! is pulled. Afterwards every number that the witness has must be on the disk.
//!
//! | module | what it is |
//! |---|---|
//! | [`block`] | the bytes on the disk: blocks that tell what they are |
//! | [`protocol`] | the lines between writer and witness |
//! | `record`, `session_file` | what the witness keeps |
//! | `serve` | the witness |
//! | `callers`, `lines` | limits to who is connected, and to what is printed of them |
//! | `link`, `writer` | the machine whose plug is pulled |
//! | `check` | afterwards |
//! | `secret` | how a writer proves that it may be heard |
//! | `place` | where the file was, and whether it should be there now |
//!
//! The file is a ring of slots; number `n`, from 1, is in slot `(n - 1) % slots`. The writer never
//! goes more than half a ring beyond what the witness has confirmed. So of the last half ring up to
//! the highest number that the witness has, no slot can have been written again, not even by a
//! write that the power cut: each must hold exactly its number.

pub mod block;
mod callers;
mod check;
pub mod identity;
mod lines;
mod link;
mod place;
pub mod protocol;
mod record;
mod secret;
mod serve;
mod session_file;
mod writer;

pub use check::{Check, Loss, Source, check};
pub use link::Contact;
pub use record::{Kept, Records};
pub use secret::Secret;
pub use serve::{Event, Server};
pub use writer::{WriterPlan, Written, write};
