//! How a new file is to be striped.

use std::path::PathBuf;

/// How a new file is to be striped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StripePlan {
    /// Size of a stripe in bytes, a multiple of 4096. The default is 1 MiB, or the size that the
    /// targets prefer if that is larger.
    pub stripe: Option<u64>,
    /// Number of objects, by default one in each target. If there are more objects than targets,
    /// the targets get several in turn; if fewer, only the first targets get one.
    pub count: Option<usize>,
    /// Directories for the objects, in order, and block devices, each of which becomes one object.
    pub targets: Vec<PathBuf>,
    /// Whether devices that hold data are used. The data are lost.
    pub force: bool,
}
