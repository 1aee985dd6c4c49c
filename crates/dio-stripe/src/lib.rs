//! Maintenance of striped files. Making, opening, inspecting and removing them is in `dio`, because
//! every program that names files needs it. Here is what is done to them on purpose:
//!
//! | module | what it does |
//! |---|---|
//! | [`repair()`], [`allow_damaged`] | cuts off what a crash left behind the end; takes what is left for the file |
//! | [`migrate()`] | moves a file to another layout under the same name |
//! | [`adopt`] | makes a copy of a descriptor the file's own |
//! | [`set_default`], [`clear_default`] | the stripes that new files of a directory get |
//! | [`objects_in`], [`descriptors_in`], [`remnants_in`], [`migration_leftovers`] | what removed files, and interrupted work, leave over |
//! | [`targets_sharing_disks`] | targets that share a disk |

mod adopt;
mod alone;
mod defaults;
mod disks;
mod migrate;
mod migration;
mod orphans;
mod regular;
mod remnants;
mod repair;
mod system;

pub use adopt::adopt;
pub use alone::{WriterExclusion, exclude_other_writers, exclude_writers};
pub use defaults::{clear_default, set_default};
pub use disks::targets_sharing_disks;
pub use migrate::{MigrateError, clear, migrate};
pub use migration::{MigrationLeftover, migration_leftovers, migration_name};
pub use orphans::{
    FoundDescriptor, FoundObject, OwningFile, descriptor_at, descriptors_in, objects_in, remove_orphans,
};
pub use remnants::{Remnant, descriptor_remnant, remnants_in};
pub use repair::{allow_damaged, repair};
