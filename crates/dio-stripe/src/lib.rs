//! Maintenance of striped files. Making, opening, inspecting and removing them is in `dio`, because
//! every program that names files needs it. This crate contains the explicit operations on them:
//!
//! | module | purpose |
//! |---|---|
//! | [`repair()`], [`allow_damaged`] | cuts off bytes that a crash left after the end; accepts damaged objects as they are |
//! | [`migrate()`] | moves a file to another layout under the same name |
//! | [`adopt`] | makes a copy of a descriptor the file's own |
//! | [`set_default`], [`clear_default`] | the layout of new files in a directory |
//! | [`objects_in`], [`descriptors_in`], [`remnants_in`], [`migration_leftovers`] | finds what removed files and interrupted operations left behind |
//! | [`targets_sharing_disks`] | finds targets that share a disk |

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
    FoundDescriptor, FoundObject, OwningFile, descriptor_at, descriptors_in, objects_in,
    remove_orphans,
};
pub use remnants::{Remnant, descriptor_remnant, remnants_in};
pub use repair::{allow_damaged, repair};
