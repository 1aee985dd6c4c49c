//! Messages between ranks over MPI. Only the thread that initialized MPI calls it.

use std::collections::VecDeque;

use mpi::environment::Universe;
use mpi::point_to_point::MatchedReceiveVec;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, Destination, Source};
use mpi::{Count, Threading};

/// The tag of all messages.
const TAG: mpi::Tag = 1;

/// The ranks of this job.
pub struct Ranks {
    world: SimpleCommunicator,
    /// Received while this rank was sending.
    inbox: VecDeque<(usize, Vec<u8>)>,
    /// Ends MPI when it is dropped, so it comes last.
    _universe: Universe,
}

impl Ranks {
    /// Initializes MPI; returns `None` if it is initialized already.
    #[must_use]
    pub fn begin() -> Option<Ranks> {
        let (universe, _) = mpi::initialize_with_threading(Threading::Funneled)?;
        let world = universe.world();
        Some(Ranks { world, inbox: VecDeque::new(), _universe: universe })
    }

    /// The number of this rank.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.world.rank() as usize
    }

    /// How many ranks there are.
    #[must_use]
    pub fn ranks(&self) -> usize {
        self.world.size() as usize
    }

    /// The number of this rank among those that share the memory of this machine, and how many
    /// they are.
    #[must_use]
    pub fn ranks_here(&self) -> (usize, usize) {
        let here = self.world.split_shared(self.world.rank());
        (here.rank() as usize, here.size() as usize)
    }

    /// Sends a message. While the receiver is not ready, this rank receives, so that two ranks that
    /// send to each other never wait for ever.
    pub fn send(&mut self, to: usize, message: &[u8]) {
        let world = &self.world;
        let inbox = &mut self.inbox;
        mpi::request::scope(|scope| {
            let process = world.process_at_rank(to as mpi::Rank);
            let mut sending = process.immediate_send_with_tag(scope, message, TAG);
            loop {
                match sending.test() {
                    Ok(_) => return,
                    Err(unfinished) => sending = unfinished,
                }
                inbox.extend(receive(world));
                std::thread::yield_now();
            }
        });
    }

    /// Returns a message that has arrived, and its sender. Messages of one sender come in the order
    /// in which it sent them.
    pub fn receive(&mut self) -> Option<(usize, Vec<u8>)> {
        self.inbox.pop_front().or_else(|| receive(&self.world))
    }

    /// Ends all ranks at once with an exit status.
    pub fn abort(&self, status: i32) -> ! {
        self.world.abort(status as Count)
    }
}

fn receive(world: &SimpleCommunicator) -> Option<(usize, Vec<u8>)> {
    let arrived = world.any_process().immediate_matched_probe_with_tag(TAG)?;
    let (bytes, status): (Vec<u8>, _) = arrived.matched_receive_vec();
    Some((status.source_rank() as usize, bytes))
}
