//! Measures what requests cost on a disk, by each way, for the predictions of `dio advise`.
//!
//! Nothing about a disk or a machine is written in the code: each number of a prediction was
//! measured here, and is kept in a [`Profile`] with its date. The same short loads run by each way
//! ([`measure`]), several times, since disks are noisy; whoever calls has them run below a mount,
//! where the way is one.

mod files;
mod load;
mod model;
mod names;
mod table;

pub use files::{Extent, evict, prepare};
pub use load::{
    LoadTimes, measure, measure_copy, measure_filter, measure_small_files, measure_start,
    measure_tool, measure_work,
};
pub use model::{Cost, Operation, PROFILE_VERSION, Profile, ProfileError, Way};
pub use table::{CostTable, Level, costs_of_rounds};

#[cfg(test)]
mod tests;
