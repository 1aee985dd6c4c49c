//! Divides the memory.

use dio::stream::StreamOptions;

use super::descriptors::Descriptors;
use super::exchange::HELD;

/// Sizes for a sort, in bytes unless stated otherwise.
///
/// While inputs are read, memory goes to the source's buffers, a writer for each sorting thread,
/// and the batches. While runs are merged, it goes to the output's buffers and the batches that
/// were never written; the rest is divided equally between the runs.
#[derive(Clone, Debug)]
pub(super) struct MemoryPlan {
    memory: u64,
    /// Number of sorting threads.
    pub(super) workers: usize,
    /// How inputs are read.
    pub(super) reading: StreamOptions,
    /// How runs and the output are written.
    pub(super) writing: StreamOptions,
    /// Memory for all batches together.
    pub(super) batches: u64,
    /// Maximum size of one batch.
    pub(super) batch: u64,
    /// Maximum number of runs to merge at a time, if one was given.
    batch_size: Option<usize>,
    /// Number of runs that the limit of open files allows.
    pub(super) descriptors: Descriptors,
}

/// Minimum size of a request.
const LEAST_BLOCK: u64 = 4096;

/// Minimum request size when runs are merged, as long as memory has room for [`USUAL_RUNS`] of
/// them. Smaller requests cost more time than a second pass over the data.
const MERGE_BLOCK_MIN: u64 = 64 << 10;
const USUAL_RUNS: u64 = 16;

/// Maximum size of a batch. A larger one takes longer to sort than to read and write, and brings no
/// gain.
const MOST_BATCH: u64 = 256 << 20;

/// Minimum memory to plan with. The rest of the program needs more than that anyway.
const LEAST_MEMORY: u64 = 128 << 10;

/// Memory that is reserved for the program itself: code, stacks, the ring. At most an eighth of the
/// requested memory is reserved.
const PROGRAM_BYTES: u64 = 16 << 20;

/// Blocks of memory that a run takes while it is merged: two requests in flight, one that is being
/// consumed, the held chunks, and about one for their entries.
const LANE_BLOCKS: u64 = 2 + 1 + HELD as u64 + 1;

impl MemoryPlan {
    pub(super) fn new(
        memory: u64,
        parallel: Option<usize>,
        batch_size: Option<usize>,
        usual: &StreamOptions,
        descriptors: Descriptors,
    ) -> MemoryPlan {
        let usual = &descriptors.streams(usual);
        let parallel = if descriptors.few { Some(1) } else { parallel };
        let memory = (memory - PROGRAM_BYTES.min(memory / 8)).max(LEAST_MEMORY);
        let block = whole(memory / 128).min(usual.block as u64).max(LEAST_BLOCK);
        let depth = (memory / 8 / block).saturating_sub(3) / 2;
        let reading = StreamOptions {
            block: block as usize,
            depth: (depth as usize).clamp(2, usual.depth.max(2)),
            striped_bytes_max: 0,
            ..*usual
        };
        let writing =
            StreamOptions { block: block as usize, depth: reading.depth.min(4), ..reading };
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        let most = (memory / 4 / written(&writing)).max(1) as usize;
        let workers = parallel.unwrap_or_else(processors).clamp(1, most);
        let taken = block * (2 * reading.depth as u64 + 3) + written(&writing) * workers as u64;
        let batches = memory.saturating_sub(taken).max(LEAST_MEMORY / 4);
        // One batch is being filled, each worker sorts or writes one, and one is spare. Where
        // descriptors are few there is only one batch, because a merge writes all batches first.
        let parts = if descriptors.few { 1 } else { workers as u64 + 2 };
        let batch = (batches / parts).min(MOST_BATCH);
        MemoryPlan { memory, workers, reading, writing, batches, batch, batch_size, descriptors }
    }

    /// Memory left for the runs when batches of `resident` bytes stay in memory.
    fn for_runs(&self, resident: u64) -> u64 {
        self.memory.saturating_sub(resident + written(&self.writing))
    }

    /// Maximum number of runs to merge at a time, beside batches of `resident` bytes.
    pub(super) fn most_runs(&self, resident: u64) -> usize {
        let free = self.for_runs(resident);
        let block = whole(free / USUAL_RUNS / LANE_BLOCKS).clamp(LEAST_BLOCK, MERGE_BLOCK_MIN);
        let most = (free / (block * LANE_BLOCKS)).max(2) as usize;
        self.batch_size.map_or(most, |asked| asked.clamp(2, most))
    }

    /// Returns whether batches of `resident` bytes leave enough memory to read `runs` runs in large
    /// requests.
    pub(super) fn has_room(&self, resident: u64, runs: usize) -> bool {
        let wanted = (self.writing.block as u64)
            .min(self.memory / USUAL_RUNS / LANE_BLOCKS)
            .max(LEAST_BLOCK);
        self.for_runs(resident) >= runs as u64 * (wanted / 4).max(LEAST_BLOCK) * LANE_BLOCKS
    }

    /// Returns the options for reading each of `runs` runs beside batches of `resident` bytes, and
    /// the maximum number of lines in a piece.
    pub(super) fn lane(&self, resident: u64, runs: usize) -> (StreamOptions, usize) {
        let share = self.for_runs(resident) / runs.max(1) as u64;
        let block = whole(share / LANE_BLOCKS)
            .clamp(LEAST_BLOCK, self.reading.block.max(LEAST_BLOCK as usize) as u64);
        let depth = (share / block).saturating_sub(4) / 2;
        let depth = (depth as usize).clamp(2, 8);
        let options = StreamOptions { block: block as usize, depth, ..self.reading };
        (options, (block / 64) as usize)
    }
}

/// Memory of one writer: a block being gathered, the blocks in flight and being filled, and a block
/// for the end of the file.
fn written(how: &StreamOptions) -> u64 {
    how.block as u64 * (how.depth as u64 + 3)
}

/// Rounds down to a multiple of the smallest block.
fn whole(bytes: u64) -> u64 {
    dio::geometry::align_down(bytes, LEAST_BLOCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANY: Descriptors = Descriptors { kept: 1 << 16, read: 1 << 13, few: false };

    #[test]
    fn parts_are_within_the_whole() {
        for memory in [1, 200_000, 1 << 20, 10 << 20, 100 << 20, 1 << 30, 100 << 30] {
            for workers in [1, 2, 64] {
                let plan =
                    MemoryPlan::new(memory, Some(workers), None, &StreamOptions::default(), MANY);
                let (reading, memory) = (&plan.reading, memory.max(LEAST_MEMORY));
                let taken = (reading.block * (2 * reading.depth + 3)) as u64
                    + plan.workers as u64 * written(&plan.writing);
                assert!(taken + plan.batches <= memory + memory / 2, "{memory}: {plan:?}");
                assert!(memory < 1 << 20 || taken + plan.batches <= memory, "{memory}: {plan:?}");
                assert!(plan.batch * (plan.workers as u64 + 2) <= plan.batches);
                for resident in [0, plan.batch, plan.batches / 2] {
                    let runs = plan.most_runs(resident);
                    let (lane, lines) = plan.lane(resident, runs);
                    let each = (lane.block * (2 * lane.depth + 3) + HELD * lines * 16) as u64;
                    assert!(lane.depth + 2 >= HELD, "chunks that are held are lent");
                    assert!(
                        memory < 1 << 20 || resident + each * runs as u64 <= memory,
                        "{memory} {runs}: {lane:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_gibibyte_merges_hundreds_of_runs_in_one_pass() {
        let plan = MemoryPlan::new(1 << 30, Some(2), None, &StreamOptions::default(), MANY);
        assert!(plan.most_runs(0) > 1000 && plan.batch > 200 << 20, "{plan:?}");
        assert_eq!(
            MemoryPlan::new(1 << 30, None, Some(7), &StreamOptions::default(), MANY).most_runs(0),
            7
        );
        assert!(
            MemoryPlan::new(1 << 20, None, None, &StreamOptions::default(), MANY).most_runs(0)
                >= 16
        );
    }
}
