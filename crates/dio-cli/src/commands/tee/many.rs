//! Limits that many outputs share.

use dio::geometry::align_down;
use dio::stream::StreamOptions;

use crate::tool::allow_descriptors;

/// Maximum total size of the buffers of all outputs in bytes, as long as each can have a block of
/// [`LEAST`] bytes.
const MOST_BUFFERS: usize = 256 << 20;

/// Minimum size of a block in bytes: smaller requests cost more than the memory they save.
const LEAST: usize = 64 << 10;

/// Descriptors per file: as given, for direct and for other requests, and for the receipt.
const DESCRIPTORS: u64 = 4;

/// Descriptors of the rest of the process: standard streams, the engine's, those of signals.
const OTHERS: u64 = 32;

/// Returns the options for each of `outputs` outputs, so that their buffers together stay within
/// the limit.
pub(super) fn share(options: &StreamOptions, outputs: usize) -> StreamOptions {
    let each = MOST_BUFFERS / outputs.max(1);
    let block = options.block.min(align_down(each as u64, 4096).max(LEAST as u64) as usize);
    let (depth, striped_bytes_max) =
        (options.depth.min((each / block).max(1)), options.striped_bytes_max.min(each));
    StreamOptions { block, depth, striped_bytes_max, ..*options }
}

/// Raises the limit of open files so that `files` files can be open.
pub(super) fn allow_files(files: usize) {
    allow_descriptors((files as u64).saturating_mul(DESCRIPTORS).saturating_add(OTHERS));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::IoArgs;

    #[test]
    fn buffers_of_all_outputs_are_bounded() {
        let options = IoArgs::default().stream_options();
        for few in [1, 2, 32] {
            let own = share(&options, few);
            assert_eq!((own.block, own.depth), (options.block, options.depth), "{few}");
        }
        for many in [33, 100, 256, 1000, 4096] {
            let own = share(&options, many);
            assert!(own.block * own.depth * many <= MOST_BUFFERS, "{many}: {own:?}");
            assert!(own.striped_bytes_max * many <= MOST_BUFFERS, "{many}: {own:?}");
            assert!(
                own.depth >= 1 && own.block >= LEAST && own.block % 4096 == 0,
                "{many}: {own:?}"
            );
        }
    }
}
