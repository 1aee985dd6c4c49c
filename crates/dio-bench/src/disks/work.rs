//! Sends the same requests for every way: each lane is read or written from front to back with a
//! fixed number of requests in flight.

use std::ops::Range;
use std::sync::Arc;

use dio::block::Block;
use dio::queue::{Completion, Queue};
use dio::{File, Io};

use super::plan::Direction;
use crate::BenchError;
use crate::data::Random;

/// A file or device that is read or written sequentially in blocks.
#[derive(Clone, Debug)]
pub(super) struct DiskLane {
    file: Arc<File>,
    /// The offset of the first block.
    base: u64,
    /// Bytes of a request: one stripe of each disk that the lane spans.
    block: u64,
}

impl DiskLane {
    pub(super) fn new(file: File, base: u64, block: u64) -> DiskLane {
        DiskLane { file: Arc::new(file), base, block }
    }
}

/// The lanes with their request queue.
pub(super) struct LaneRequests<'a> {
    lanes: &'a [DiskLane],
    depth: usize,
    queue: Queue,
    /// Blocks that no request uses, filled with random bytes. They are kept here because a block
    /// that was returned to a pool is zeroed before its next use.
    idle: Vec<Block>,
}

impl<'a> LaneRequests<'a> {
    /// Creates the queue; `depth` is the number of requests in flight of each lane.
    pub(super) fn new(lanes: &'a [DiskLane], depth: usize) -> Result<LaneRequests<'a>, BenchError> {
        let block = lanes.iter().map(|lane| lane.block).max().unwrap_or(0) as usize;
        let count = depth * lanes.len();
        let no_memory = BenchError::system("map memory for", std::path::Path::new("requests"));
        let queue = Queue::new(&Io::shared()?, block, count).map_err(no_memory)?;
        let mut idle: Vec<Block> = (0..count).map_while(|_| queue.block()).collect();
        let mut random = Random::new(0xd15c);
        idle.iter_mut().for_each(|block| random.fill(block.bytes_mut()));
        Ok(LaneRequests { lanes, depth, queue, idle })
    }

    /// Reads or writes these blocks of every lane. Each lane starts its next request when one of
    /// its own ends, independently of the other lanes.
    pub(super) fn run(
        &mut self,
        direction: Direction,
        blocks: Range<u64>,
    ) -> Result<(), BenchError> {
        let mut next = vec![blocks.start; self.lanes.len()];
        let mut completions: Vec<Completion> = Vec::new();
        for _ in 0..self.depth {
            for (lane, next) in next.iter_mut().enumerate().filter(|(_, next)| **next < blocks.end)
            {
                let block = self.idle.pop().expect("there is a block for every request");
                self.start(direction, lane, *next, block)?;
                *next += 1;
            }
        }
        while self.queue.in_flight() > 0 {
            self.queue
                .wait(1, &mut completions)
                .map_err(|error| BenchError::Asked(error.to_string()))?;
            for completion in completions.drain(..) {
                let lane = completion.tag as usize;
                let count = completion.outcome?;
                if count as u64 != self.lanes[lane].block {
                    let path = self.lanes[lane].file.path().display();
                    return Err(BenchError::Asked(format!("'{path}' ended early: {count} bytes")));
                }
                if next[lane] < blocks.end {
                    self.start(direction, lane, next[lane], completion.block)?;
                    next[lane] += 1;
                } else {
                    self.idle.push(completion.block);
                }
            }
        }
        Ok(())
    }

    fn start(
        &mut self,
        direction: Direction,
        lane: usize,
        number: u64,
        mut block: Block,
    ) -> Result<(), BenchError> {
        let DiskLane { file, base, block: len } = &self.lanes[lane];
        let (at, len) = (base + number * len, *len as usize);
        let started = match direction {
            Direction::Read => self.queue.read(file, block, at, len, lane as u64),
            Direction::Write => {
                // Each block gets different contents.
                block.bytes_mut()[..8].copy_from_slice(&at.to_le_bytes());
                self.queue.write(file, block, at, len, lane as u64)
            }
        };
        started.map_err(|refused| refused.error.into())
    }

    /// Makes the written data durable.
    pub(super) fn finish(&mut self, direction: Direction) -> Result<(), BenchError> {
        if direction == Direction::Write {
            self.lanes.iter().try_for_each(|lane| lane.file.sync_data())?;
        }
        Ok(())
    }
}
