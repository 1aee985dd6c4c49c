//! Shared by the tests of all crates of dio.
//!
//! - [`file_systems`]: the file systems to test on, with scratch directories;
//! - [`skip!`]: reports and counts what cannot run here;
//! - [`Seed`] and [`Rng`]: random tests that can be repeated; [`Soak`]: random tests that run for a
//!   given time;
//! - [`LoopDevice`]: block devices full of bytes that must never become visible;
//! - [`damage`]: damage that other programs do to files that belong together;
//! - [`MemoryGroup`]: processes that have little memory;
//! - [`undisturbed`]: tests of the page cache that ignore pages which the kernel itself reclaims;
//! - [`until`]: waits for a condition;
//! - [`random_file`], [`same_bytes`], [`resident_pages`], [`run`]: files, and checks by other
//!   programs;
//! - [`Mounted`], [`judge`], [`judged`]: directories mounted by dio, and the programs that judge
//!   them.
//!
//! | variable | meaning |
//! |---|---|
//! | `DIO_TEST_FS` | `name=/path:name=/path…`, the file systems to test on; set by `cargo xtask test` |
//! | `DIO_TEST_DIR` | directory of the file system called `host`; `/var/tmp` when not set |
//! | `DIO_SKIP_LOG` | file that gets one line for everything skipped |
//! | `DIO_JUDGES` | `full`: the outside judges of the mount at full length, each mode on each file system |
//! | `DIO_TEST_CASES` | how many cases those tests try that choose among more; a large number for all |
//! | `DIO_SOAK_SECONDS` | how long each random test with [`Soak`] goes on; set by `cargo xtask soak` |
//! | `DIO_SEED` | seed of the random tests, decimal or `0x…` |
//! | `CI` | when `true`, a skip is a failure |
//!
//! The helpers panic instead of returning errors, because a test would only panic itself.

mod bytes;
mod damage;
mod device;
mod files;
mod fs;
mod judge;
mod memory;
mod mounted;
mod patience;
mod reclaim;
mod seed;
mod skip;
mod soak;

pub use bytes::{byte_of, fill, first_difference_of_bytes};
pub use damage::{DAMAGES, damage};
pub use device::LoopDevice;
pub use files::{
    Output, copy_program, first_difference, random_file, resident_pages, run, same_bytes,
};
pub use fs::{TestFs, file_systems};
pub use judge::{MODES, as_user, is_root, judge, judge_fully, judged, postgresql_programs, way};
pub use memory::MemoryGroup;
pub use mounted::{Mounted, mount_type};
pub use patience::{PATIENCE, until, while_busy};
pub use reclaim::undisturbed;
pub use seed::{Rng, Seed};
#[doc(hidden)]
pub use skip::report_skip;
pub use soak::Soak;
