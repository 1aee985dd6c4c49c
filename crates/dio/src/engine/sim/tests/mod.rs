//! Tests of the simulator itself.

mod durability;
mod faults;
mod time;

use std::sync::Arc;

use rustix::io::Errno;

use super::{SimClock, SimDisk, SimDiskModel, SimEngine, SimMedium};
use crate::block::{Mem, Pool};
use crate::engine::{Done, Engine, Medium, Op, OpFlags, OpKind, Route};

const MIB: usize = 1 << 20;

fn memory(bytes: &[u8]) -> Mem {
    let pool = Pool::new(bytes.len().max(1), 1).unwrap();
    let mut block = pool.take_many(1).remove(0);
    block.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
    block.into_mem(0..bytes.len())
}

fn op(kind: OpKind, medium: &SimMedium, offset: u64, mem: Option<Mem>) -> Op {
    let (route, flags) = (Route::Direct, OpFlags::default());
    Op { kind, route, flags, medium: Arc::new(medium.clone()), offset, skip: 0, mem, ticket: 0 }
}

/// Runs one write through the medium alone.
fn write(medium: &SimMedium, offset: u64, bytes: &[u8]) -> Result<usize, Errno> {
    medium.transfer(&mut op(OpKind::Write, medium, offset, Some(memory(bytes))))
}

fn sync(medium: &SimMedium) -> Result<usize, Errno> {
    medium.transfer(&mut op(OpKind::SyncData, medium, 0, None))
}

fn read_op(medium: &SimMedium, offset: u64, len: usize) -> Op {
    op(OpKind::Read, medium, offset, Some(memory(&vec![0xee; len])))
}

fn bytes_of(op: &mut Op) -> Vec<u8> {
    op.mem.as_mut().unwrap().slices_mut(0).iter().flat_map(|slice| slice.to_vec()).collect()
}

fn disk(model: SimDiskModel, seed: u64) -> SimDisk {
    SimDisk::new(&SimClock::new(), model, seed)
}

fn plain(seed: u64) -> SimDisk {
    disk(SimDiskModel::default(), seed)
}

fn run_all(engine: &mut SimEngine, ops: impl IntoIterator<Item = Op>) -> Vec<Done> {
    let mut done = Vec::new();
    for mut op in ops {
        while let Err(back) = engine.start(op) {
            engine.finish(1, &mut done).unwrap();
            op = back;
        }
    }
    engine.finish(engine.in_flight(), &mut done).unwrap();
    done
}
