//! Tending striped files. Making, opening, inspecting and removing them is in `dio`, since every program that names files does it;
//! what is done to them on purpose is here:
//!
//! | module | what it does |
//! |---|---|
//! | [`repair()`], [`allow_damaged`] | cuts off what a crash left behind the end; takes what is left for the file |
//! | [`migrate()`] | moves a file to another layout under the same name |
//! | [`adopt`] | makes a copy of a descriptor the file's own |
//! | [`set_default`], [`clear_default`] | the stripes that new files of a directory get |
//! | [`objects_in`], [`descriptors_in`], [`remnants_in`], [`left_by_migrations`] | what removed files, and interrupted work, leave over |
//! | [`on_one_disk`] | targets that share a disk |

mod adopt;
mod alone;
mod defaults;
mod disks;
mod migrate;
mod migration;
mod orphans;
mod remnants;
mod repair;

use std::io;

use rustix::io::Errno;

pub use adopt::adopt;
pub use alone::{Alone, alone, keep_alone};
pub use defaults::{clear_default, set_default};
pub use disks::on_one_disk;
pub use migrate::{MigrateError, clear, migrate};
pub use migration::{LeftByMigration, left_by_migrations, migration_name};
pub use orphans::{FoundObject, Standing, descriptor_at, descriptors_in, objects_in, remove_orphans};
pub use remnants::{Remnant, descriptor_remnant, remnants_in};
pub use repair::{allow_damaged, repair};

/// The error number of an error that came from a system call.
fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
