//! Keeps one user of a shared mount from occupying all threads that serve it.
//!
//! A request occupies its thread until it is served, and some requests take long: opening a file on
//! which another process has a lease waits for 45 seconds. So each user has a share of the threads.
//! A request beyond the share waits in memory while its thread reads the next one, and is served
//! when a request of its user ends. Users with waiting requests take turns.
//!
//! Requests of the superuser and of the server's own user, who could end the server anyway, are
//! served at once. So are requests that only release something or end another request.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use zerocopy::FromBytes;

use crate::abi::{InHeader, opcode};
use crate::channel::Channel;

/// Each waiting request counts for at least this many bytes.
const WAITING_BYTES_MIN: usize = 4096;

/// How long a thread waits for room for one more waiting request of a user, while no request of
/// that user ends.
const ROOM_PATIENCE: Duration = Duration::from_secs(1);

/// The limits for each user of a shared mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserLimits {
    /// Threads that may serve requests of one user at a time, at least one. All these users
    /// together may use all threads but one, so that requests are always read.
    pub threads: usize,
    /// Bytes of requests of one user that may wait, payloads of writes included. Beyond that, a
    /// thread waits with the request until other requests of the user end. If none ends for a
    /// second, the request is refused with `ENOMEM`.
    pub waiting_bytes: usize,
}

/// The decision about a request that was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It is served now, without a share.
    Unlimited,
    /// It is served now. [`UserShares::end`] must be called afterwards.
    Limited(u32),
    /// The request of this number waits until another thread serves it.
    Waits(u64),
    /// There is no room for the request of this number.
    Refused(u64),
}

/// A request that waits.
#[derive(Debug)]
pub(crate) struct WaitingRequest {
    pub(crate) message: Box<[u8]>,
    /// The kernel accepts the reply only through the descriptor that the request was read from.
    pub(crate) channel: Arc<Channel>,
}

/// The shares of all users.
#[derive(Debug)]
pub(crate) struct UserShares {
    limits: UserLimits,
    /// Threads that may serve limited requests.
    threads: usize,
    /// The user whose server this is.
    own_user: u32,
    state: Mutex<ShareState>,
    /// Notified when a waiting request was removed from the queue.
    room: Condvar,
}

#[derive(Debug, Default)]
struct ShareState {
    /// Limited requests that are being served.
    serving: usize,
    /// Threads that wait until there is room for the request that they have read.
    blocked: usize,
    /// Users with requests that are being served or wait.
    users: HashMap<u32, User>,
    /// Users with waiting requests, in turn.
    turns: VecDeque<u32>,
}

#[derive(Debug, Default)]
struct User {
    serving: usize,
    waiting: VecDeque<WaitingRequest>,
    waiting_bytes: usize,
}

impl UserShares {
    /// Shares of `threads` threads.
    pub(crate) fn new(limits: UserLimits, threads: usize) -> UserShares {
        let limits = UserLimits { threads: limits.threads.max(1), ..limits };
        UserShares {
            limits,
            threads: threads.saturating_sub(1).max(1),
            own_user: rustix::process::geteuid().as_raw(),
            state: Mutex::default(),
            room: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, ShareState> {
        self.state.lock()
    }

    /// Decides about a message that was read from `channel`. A message that has to wait is copied.
    pub(crate) fn admit(&self, message: &[u8], channel: &Arc<Channel>) -> Admission {
        let Ok((header, _)) = InHeader::read_from_prefix(message) else {
            return Admission::Unlimited;
        };
        let user = header.uid;
        if user == 0 || user == self.own_user || !is_limited(header.opcode) {
            return Admission::Unlimited;
        }
        let mut state = self.lock();
        if self.may_serve(&state, user) {
            state.begin(user);
            return Admission::Limited(user);
        }
        let cost = message.len().max(WAITING_BYTES_MIN);
        // One request may always wait, however large it is.
        while state.waiting_bytes(user) > 0
            && state.waiting_bytes(user) + cost > self.limits.waiting_bytes
        {
            // The last thread goes on reading, since the next request may be another user's.
            if state.serving + state.blocked >= self.threads {
                if state.waiting_bytes(user) + cost > 2 * self.limits.waiting_bytes {
                    return Admission::Refused(header.unique);
                }
                break;
            }
            state.blocked += 1;
            let timeout = self.room.wait_for(&mut state, ROOM_PATIENCE);
            state.blocked -= 1;
            if self.may_serve(&state, user) {
                state.begin(user);
                return Admission::Limited(user);
            }
            if timeout.timed_out() {
                return Admission::Refused(header.unique);
            }
        }
        let waits = state.users.entry(user).or_default();
        waits
            .waiting
            .push_back(WaitingRequest { message: message.into(), channel: Arc::clone(channel) });
        waits.waiting_bytes += cost;
        if waits.waiting.len() == 1 {
            state.turns.push_back(user);
        }
        Admission::Waits(header.unique)
    }

    /// Ends a limited request. Returns a waiting request and its user, if there is one; the calling
    /// thread must serve it next.
    pub(crate) fn end(&self, user: u32) -> Option<(u32, WaitingRequest)> {
        let mut state = self.lock();
        state.serving -= 1;
        if let Some(ended) = state.users.get_mut(&user) {
            ended.serving -= 1;
        }
        state.forget_idle(user);
        let at = (0..state.turns.len()).find(|at| self.may_serve(&state, state.turns[*at]))?;
        let next = state.turns.remove(at)?;
        let waited = state.take(next, 0)?;
        if state.waiting_bytes(next) > 0 {
            state.turns.push_back(next);
        }
        state.begin(next);
        drop(state);
        self.room.notify_all();
        Some((next, waited))
    }

    /// Removes a waiting request, whose caller was interrupted. Returns the request if it waited:
    /// then it needs a reply.
    pub(crate) fn withdraw(&self, unique: u64) -> Option<WaitingRequest> {
        let mut state = self.lock();
        let found = state.users.iter().find_map(|(user, waits)| {
            let is_it = |message: &[u8]| {
                InHeader::read_from_prefix(message).is_ok_and(|(header, _)| header.unique == unique)
            };
            Some((*user, waits.waiting.iter().position(|waiting| is_it(&waiting.message))?))
        });
        let (user, at) = found?;
        let withdrawn = state.take(user, at);
        if state.waiting_bytes(user) == 0 {
            state.turns.retain(|other| *other != user);
        }
        state.forget_idle(user);
        drop(state);
        self.room.notify_all();
        withdrawn
    }

    /// Whether a thread may serve one more request of a user.
    fn may_serve(&self, state: &ShareState, user: u32) -> bool {
        let own = state.users.get(&user).map_or(0, |user| user.serving);
        own < self.limits.threads && state.serving < self.threads
    }
}

impl ShareState {
    fn begin(&mut self, user: u32) {
        self.serving += 1;
        self.users.entry(user).or_default().serving += 1;
    }

    fn waiting_bytes(&self, user: u32) -> usize {
        self.users.get(&user).map_or(0, |user| user.waiting_bytes)
    }

    /// Takes the waiting request of a user with this index.
    fn take(&mut self, user: u32, at: usize) -> Option<WaitingRequest> {
        let waits = self.users.get_mut(&user)?;
        let waiting = waits.waiting.remove(at)?;
        waits.waiting_bytes -= waiting.message.len().max(WAITING_BYTES_MIN);
        Some(waiting)
    }

    fn forget_idle(&mut self, user: u32) {
        if self.users.get(&user).is_some_and(|user| user.serving == 0 && user.waiting.is_empty()) {
            self.users.remove(&user);
        }
    }
}

/// Whether requests of this type are limited. Requests of other types release something, or end a
/// waiting request.
fn is_limited(opcode: u32) -> bool {
    !matches!(
        opcode,
        opcode::FORGET
            | opcode::BATCH_FORGET
            | opcode::INTERRUPT
            | opcode::RELEASE
            | opcode::RELEASEDIR
            | opcode::NOTIFY_REPLY
            | opcode::DESTROY
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Kernel, message_of};

    const LIMITS: UserLimits = UserLimits { threads: 2, waiting_bytes: 4 * WAITING_BYTES_MIN };

    fn lookup(user: u32, unique: u64) -> Vec<u8> {
        message_of(user, opcode::LOOKUP, unique, b"x\0")
    }

    fn user() -> u32 {
        rustix::process::geteuid().as_raw() + 1
    }

    fn number(waiting: &WaitingRequest) -> u64 {
        InHeader::read_from_prefix(&waiting.message).unwrap().0.unique
    }

    /// Admits a message read from a device of its own.
    fn admit(shares: &UserShares, message: &[u8]) -> Admission {
        shares.admit(message, &Kernel::channel().1)
    }

    #[test]
    fn a_user_has_a_share_and_what_exceeds_it_waits() {
        let (shares, user) = (UserShares::new(LIMITS, 8), user());
        assert_eq!(admit(&shares, &lookup(user, 1)), Admission::Limited(user));
        assert_eq!(admit(&shares, &lookup(user, 2)), Admission::Limited(user));
        assert_eq!(admit(&shares, &lookup(user, 3)), Admission::Waits(3));
        // Other users are not affected, nor are requests that release something.
        assert_eq!(admit(&shares, &lookup(user + 1, 4)), Admission::Limited(user + 1));
        assert_eq!(admit(&shares, &lookup(0, 5)), Admission::Unlimited);
        assert_eq!(
            admit(&shares, &message_of(user, opcode::FORGET, 6, &[0; 8])),
            Admission::Unlimited
        );
        assert!(shares.end(user + 1).is_none(), "the user who waits has all of its share");
        let (next, message) = shares.end(user).unwrap();
        assert_eq!((next, number(&message)), (user, 3));
        assert!(shares.end(user).is_none() && shares.end(user).is_none());
        assert!(shares.lock().users.is_empty() && shares.lock().turns.is_empty());
    }

    #[test]
    fn users_have_turns_when_all_threads_are_occupied() {
        let (shares, user) = (UserShares::new(LIMITS, 3), user());
        assert_eq!(admit(&shares, &lookup(user, 1)), Admission::Limited(user));
        assert_eq!(admit(&shares, &lookup(user + 1, 2)), Admission::Limited(user + 1));
        // One of three threads always reads.
        for (from, unique) in [(user, 3), (user, 4), (user + 1, 5), (user + 2, 6)] {
            assert_eq!(admit(&shares, &lookup(from, unique)), Admission::Waits(unique));
        }
        let mut served = Vec::new();
        let mut ends = user;
        for _ in 0..4 {
            let (next, message) = shares.end(ends).unwrap();
            served.push(number(&message));
            ends = next;
        }
        assert_eq!(served, [3, 5, 6, 4]);
    }

    #[test]
    fn an_interrupted_request_waits_no_more() {
        let (shares, user) = (UserShares::new(LIMITS, 8), user());
        (1..=2).for_each(|unique| {
            assert_eq!(admit(&shares, &lookup(user, unique)), Admission::Limited(user))
        });
        assert_eq!(admit(&shares, &lookup(user, 3)), Admission::Waits(3));
        assert!(shares.withdraw(1).is_none() && shares.withdraw(9).is_none());
        assert!(number(&shares.withdraw(3).unwrap()) == 3 && shares.withdraw(3).is_none());
        assert!(shares.end(user).is_none());
    }

    /// A user who keeps threads busy and sends more than there is room for blocks all threads but
    /// one. That thread refuses requests beyond twice the room, and goes on reading other users'
    /// requests.
    #[test]
    fn the_last_thread_does_not_wait_for_room() {
        let (shares, user) = (UserShares::new(LIMITS, 4), user());
        (1..=2).for_each(|unique| {
            assert_eq!(admit(&shares, &lookup(user, unique)), Admission::Limited(user))
        });
        (3..=6).for_each(|unique| {
            assert_eq!(admit(&shares, &lookup(user, unique)), Admission::Waits(unique))
        });
        std::thread::scope(|scope| {
            let blocked = scope.spawn(|| admit(&shares, &lookup(user, 7)));
            while shares.lock().blocked == 0 {
                std::thread::yield_now();
            }
            let begun = std::time::Instant::now();
            (8..=11).for_each(|unique| {
                assert_eq!(admit(&shares, &lookup(user, unique)), Admission::Waits(unique))
            });
            assert_eq!(admit(&shares, &lookup(user, 12)), Admission::Refused(12));
            assert_eq!(admit(&shares, &lookup(0, 13)), Admission::Unlimited);
            assert!(begun.elapsed() < ROOM_PATIENCE);
            assert_eq!(blocked.join().unwrap(), Admission::Refused(7));
        });
        assert_eq!(shares.lock().blocked, 0);
    }

    #[test]
    fn memory_is_limited_while_nothing_ends() {
        let (shares, user) = (UserShares::new(LIMITS, 8), user());
        (1..=2).for_each(|unique| {
            assert_eq!(admit(&shares, &lookup(user, unique)), Admission::Limited(user))
        });
        (3..=6).for_each(|unique| {
            assert_eq!(admit(&shares, &lookup(user, unique)), Admission::Waits(unique))
        });
        assert_eq!(admit(&shares, &lookup(user, 7)), Admission::Refused(7));
        // A message larger than the whole room waits too, if it is the only one.
        let large = message_of(user + 1, opcode::WRITE, 9, &vec![0; 2 * LIMITS.waiting_bytes]);
        (10..=11).for_each(|unique| {
            assert_eq!(admit(&shares, &lookup(user + 1, unique)), Admission::Limited(user + 1))
        });
        assert_eq!(admit(&shares, &large), Admission::Waits(9));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(50));
                assert_eq!(number(&shares.end(user).unwrap().1), 3);
            });
            assert_eq!(
                admit(&shares, &lookup(user, 8)),
                Admission::Waits(8),
                "there is room when one has ended"
            );
        });
    }
}
