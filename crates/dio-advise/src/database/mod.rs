//! Advice for a database: which settings of its server suit its disk, its memory and its load.
//!
//! [`gather`] learns what there is: the settings, asked of the server's own program or of a running
//! server, the files, the disks, the memory, and a while of the load. [`DatabaseFacts::advise`]
//! makes advice of these facts alone, so that it can be tested without any database.

mod advice;
mod ask;
mod connection;
mod disk;
mod facts;
mod files;
mod gather;
mod load;
mod mariadb;
mod memory;
mod model;
mod postgresql;
mod process;
mod proof;
mod rules;
mod system;
mod text;

pub use connection::Connection;
pub use disk::DiskFacts;
pub use facts::{DatabaseFacts, SyncFacts};
pub use files::FileClass;
pub use gather::{DatabaseError, DatabasePlace, gather};
pub use load::{ClassLoad, DatabaseLoad, LoadSink};
pub use memory::{MemoryPlan, MemoryRow};
pub use model::{DatabaseAdvice, DatabaseWay, Setting};
pub use proof::DatabaseProof;
pub use system::DatabaseSystem;

#[cfg(test)]
mod tests;
