//! The one copy loop. It reads while a block is free and writes the very block that was read, so
//! nothing is copied in memory, and source and target are both kept busy. It needs one thread and
//! one ring.

mod block_ranges;
mod contents;
mod copier;
mod error;
mod pace;
mod zeros;

pub use contents::{Contents, Copied, Sparse};
pub use copier::{Copier, CopierJob, NoWatch, Watch, blocks_for, data_ranges};
pub use error::TransferError;
pub use pace::Pace;
