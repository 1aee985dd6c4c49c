//! The proof that a disk is honest. Numbered blocks are written and synced, and each number that
//! the disk has acknowledged is sent to another machine, the witness, which keeps it. Then the plug
//! of the writer's machine is pulled. Afterwards every number that the witness has kept must be on
//! the disk.
//!
//! | module | what it is |
//! |---|---|
//! | [`block`] | the format of the blocks on the disk, each of which identifies itself |
//! | [`protocol`] | the lines between writer and witness |
//! | `record`, `session_file` | the sessions that the witness keeps, and their files |
//! | `serve` | the witness |
//! | `callers`, `lines` | limits of the connections, and of the lines that are printed about them |
//! | `link`, `writer` | the writer, on the machine whose plug is pulled |
//! | `check` | the check after the power failure |
//! | `secret` | the authentication of writers |
//! | `place` | the location of the file, and whether it is the same now |
//!
//! The file is a ring of slots; number `n`, from 1, is in slot `(n - 1) % slots`. The writer is
//! never more than half a ring ahead of the number that the witness has confirmed. Consider the
//! last half ring up to the highest number that the witness has: none of its slots can have been
//! overwritten, not even by a write that the power failure interrupted. So each of them must hold
//! exactly its number.

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

pub use check::{Loss, NumberSource, WitnessCheck, check};
pub use link::Contact;
pub use record::{KeptSession, Records};
pub use secret::Secret;
pub use serve::{Event, Server};
pub use writer::{WriterPlan, Written, write};
