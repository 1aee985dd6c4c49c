//! Limits the connections to a witness. There is a pool of unauthenticated connections and a pool
//! of authenticated ones. Each pool has a limit, and a limit for each network.
//!
//! A *network* is an IPv4 address or the /64 of an IPv6 address, because the owner of one address
//! of a /64 usually has all of them. A full pool replaces a connection of the network that has the
//! most connections. So an attacker with few networks cannot keep others out, however many
//! connections it opens.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};

use parking_lot::{Mutex, MutexGuard};

/// Treatment of a new connection if its network has reached its limit, or if the pool is full and,
/// with the new connection, its network would have at least as many connections as any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FullPool {
    /// It replaces the oldest connection.
    Replace,
    /// It is refused.
    Refuse,
}

/// The connections of a network with their numbers, the oldest first.
type Connections<T> = VecDeque<(u64, T)>;

/// A pool of connections with limits.
#[derive(Debug)]
pub(super) struct Pool<T> {
    connections_max: usize,
    per_network_max: usize,
    full: FullPool,
    networks: Mutex<(u64, BTreeMap<IpAddr, Connections<T>>)>,
}

/// One connection of a pool; it leaves the pool when this is dropped.
#[derive(Debug)]
pub(super) struct PoolSeat<'a, T> {
    pool: &'a Pool<T>,
    network: IpAddr,
    number: u64,
}

/// The network of an address.
pub(super) fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        address => address,
    }
}

impl<T> Pool<T> {
    pub(super) fn new(connections_max: usize, per_network_max: usize, full: FullPool) -> Pool<T> {
        Pool { connections_max, per_network_max, full, networks: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, (u64, BTreeMap<IpAddr, Connections<T>>)> {
        self.networks.lock()
    }

    /// Adds a connection. Also returns the connection that it replaces, which the caller has to
    /// close.
    ///
    /// # Errors
    /// The reason, as text, when the new connection is refused.
    pub(super) fn enter(
        &self,
        from: IpAddr,
        connection: T,
    ) -> Result<(PoolSeat<'_, T>, Option<T>), String> {
        let network = network_of(from);
        let (numbers, networks) = &mut *self.lock();
        let own = networks.get(&network).map_or(0, VecDeque::len);
        let all: usize = networks.values().map(VecDeque::len).sum();
        let replaced = if own >= self.per_network_max {
            if self.full == FullPool::Refuse {
                return Err(format!(
                    "more than {} connections of one address",
                    self.per_network_max
                ));
            }
            Some(network)
        } else if all >= self.connections_max {
            let longest = networks.iter().max_by_key(|(_, connections)| connections.len());
            let (largest, connections) = longest.expect("a full pool has connections");
            if self.full == FullPool::Refuse && connections.len() <= own + 1 {
                return Err(format!("more than {} connections", self.connections_max));
            }
            Some(*largest)
        } else {
            None
        };
        let replaced = replaced
            .and_then(|network| take(networks, network, |connections| connections.pop_front()));
        *numbers += 1;
        networks.entry(network).or_default().push_back((*numbers, connection));
        Ok((PoolSeat { pool: self, network, number: *numbers }, replaced))
    }
}

/// Removes a connection of a network, and the network too if it was the last one.
fn take<T>(
    networks: &mut BTreeMap<IpAddr, Connections<T>>,
    network: IpAddr,
    which: impl FnOnce(&mut Connections<T>) -> Option<(u64, T)>,
) -> Option<T> {
    let connections = networks.get_mut(&network)?;
    let taken = which(connections);
    if connections.is_empty() {
        networks.remove(&network);
    }
    taken.map(|(_, connection)| connection)
}

impl<T> Drop for PoolSeat<'_, T> {
    fn drop(&mut self) {
        let (_, networks) = &mut *self.pool.lock();
        take(networks, self.network, |connections| {
            let at = connections.iter().position(|(number, _)| *number == self.number)?;
            connections.remove(at)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([127, 0, 0, last])
    }

    #[test]
    fn one_network_cannot_take_all_connections() {
        let pool = Pool::new(64, 16, FullPool::Refuse);
        let mut all: Vec<_> = (0..16).map(|_| pool.enter(address(1), 1).unwrap()).collect();
        assert!(pool.enter(address(1), 1).is_err_and(|words| words.contains("of one address")));
        for last in 2..=4 {
            all.extend((0..16).map(|_| pool.enter(address(last), last).unwrap()));
        }
        assert!(all.len() == 64 && all.iter().all(|(_, replaced)| replaced.is_none()));
        // A network with few connections replaces one of a network with many.
        let (one, replaced) = pool.enter(address(9), 9).unwrap();
        assert!(replaced.is_some_and(|of| of != 9));
        drop((all, one));
        assert!(pool.lock().1.is_empty());
    }

    #[test]
    fn those_who_share_fairly_are_not_replaced() {
        let pool = Pool::new(4, 4, FullPool::Refuse);
        let all: Vec<_> = (1..=4).map(|last| pool.enter(address(last), last).unwrap()).collect();
        assert!(pool.enter(address(5), 5).is_err_and(|words| words == "more than 4 connections"));
        assert!(pool.enter(address(1), 1).is_err());
        drop(all);
    }

    #[test]
    fn a_stranger_replaces_the_oldest_of_its_own_network_first() {
        let pool = Pool::new(6, 3, FullPool::Replace);
        let honest = pool.enter(address(1), 100).unwrap();
        let mut flood: Vec<_> =
            (0..3).map(|number| pool.enter(address(2), number).unwrap()).collect();
        for number in 3..50 {
            let (seat, replaced) = pool.enter(address(2), number).unwrap();
            assert_eq!(replaced, Some(number - 3));
            flood.push((seat, None));
        }
        let others: Vec<_> = (0..2).map(|number| pool.enter(address(3), number).unwrap()).collect();
        assert_eq!(pool.enter(address(4), 0).unwrap().1, Some(47));
        drop((flood, others, honest));
        assert!(pool.lock().1.is_empty());
    }

    #[test]
    fn a_network_of_ipv6_is_64_bits_and_mapped_addresses_are_of_ipv4() {
        let network = |text: &str| network_of(text.parse().unwrap());
        assert_eq!(network("2001:db8:1:2:3:4:5:6"), network("2001:db8:1:2::9"));
        assert_ne!(network("2001:db8:1:2::9"), network("2001:db8:1:3::9"));
        assert_eq!(network("::ffff:10.1.2.3"), network("10.1.2.3"));
        assert_ne!(network("10.1.2.3"), network("10.1.2.4"));
    }
}
