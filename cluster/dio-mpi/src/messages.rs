//! Messages of a command, as bytes that [`Ranks`] carries.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::transport::Ranks;
use crate::tree;

/// Sends a message to another rank.
pub fn send(ranks: &mut Ranks, to: usize, message: &impl Serialize) {
    ranks.send(to, &encode(message));
}

/// Sends what concerns all to the ranks below this one.
pub fn pass_on(ranks: &mut Ranks, message: &impl Serialize) {
    let bytes = encode(message);
    for child in tree::children(ranks.rank(), ranks.ranks()) {
        ranks.send(child, &bytes);
    }
}

/// Returns a message that has arrived, and its sender.
pub fn next<M: DeserializeOwned>(ranks: &mut Ranks) -> Option<(usize, M)> {
    let (from, bytes) = ranks.receive()?;
    match rmp_serde::from_slice(&bytes) {
        Ok(message) => Some((from, message)),
        Err(error) => {
            eprintln!(
                "dio-mpi: rank {from} sent what is no message ({error}): not the same program?"
            );
            ranks.abort(2)
        }
    }
}

fn encode(message: &impl Serialize) -> Vec<u8> {
    rmp_serde::to_vec(message).expect("all of it can be encoded")
}
