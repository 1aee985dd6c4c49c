//! Which operations of a simulated disk fail, and how.

use std::collections::BTreeMap;

use rustix::io::Errno;

use super::SplitMix64;
use super::action::SimAction;
use crate::engine::OpKind;

/// How an operation goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// A read or write transfers fewer bytes than asked for: a positive multiple of the offset
    /// alignment.
    ShortAligned,
    /// A read or write transfers fewer bytes than asked for: at least one, and no multiple of the
    /// alignment.
    ShortUnaligned,
    /// EAGAIN: a read or write would block (io_uring, `RWF_NOWAIT`, a full queue).
    Again,
    /// EINTR: a signal came before anything was done.
    Interrupted,
    /// EIO: nothing was transferred. A sync fails as with [`Fault::SyncFails`].
    Io,
    /// ENOSPC: a write or an allocation finds no space. A sync finds none for delayed blocks and
    /// fails.
    NoSpace,
    /// A write stores some of its sectors, from its beginning, and then fails with EIO.
    Torn,
    /// EIO from a sync, or from a write with `dsync`. The seed decides for each page that should
    /// have become durable whether it did. No later sync tries the others again, though it may well
    /// report success: so the kernel behaves after a failed write-back ("fsyncgate"; `fsync(2)`,
    /// NOTES; Rebello et al., "Can applications recover from fsync failures?", ATC 2020).
    SyncFails,
}

impl Fault {
    /// All faults.
    pub const ALL: [Fault; 8] = [
        Fault::ShortAligned,
        Fault::ShortUnaligned,
        Fault::Again,
        Fault::Interrupted,
        Fault::Io,
        Fault::NoSpace,
        Fault::Torn,
        Fault::SyncFails,
    ];

    /// True if the fault can happen to an operation. `dsync` says whether it is a write with that
    /// flag.
    pub fn applies_to(self, action: SimAction, dsync: bool) -> bool {
        let moves = matches!(action, SimAction::Transfer(OpKind::Read | OpKind::Write));
        let writes = action == SimAction::Transfer(OpKind::Write);
        match self {
            Fault::ShortAligned | Fault::ShortUnaligned | Fault::Again => moves,
            Fault::Interrupted => action != SimAction::Size,
            Fault::Io => true,
            Fault::NoSpace => writes || action.is_sync() || action == SimAction::Allocate,
            Fault::Torn => writes,
            Fault::SyncFails => action.is_sync() || writes && dsync,
        }
    }

    /// The error number; `None` for a short transfer.
    pub fn errno(self) -> Option<Errno> {
        match self {
            Fault::ShortAligned | Fault::ShortUnaligned => None,
            Fault::Again => Some(Errno::AGAIN),
            Fault::Interrupted => Some(Errno::INTR),
            Fault::NoSpace => Some(Errno::NOSPC),
            Fault::Io | Fault::Torn | Fault::SyncFails => Some(Errno::IO),
        }
    }
}

/// The planned faults of a disk. Exact ones ([`Faults::at`]) take precedence over random ones. A
/// fault that cannot happen to an operation ([`Fault::applies_to`]) does not, and the trace shows
/// none for it.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    exact: BTreeMap<u64, Fault>,
    chances: BTreeMap<Fault, u64>,
    from: Option<(u64, Fault)>,
}

impl Faults {
    /// Nothing fails.
    pub fn none() -> Faults {
        Faults::default()
    }

    /// Operation `number` (from 0, in the order of starting) goes wrong.
    #[must_use]
    pub fn at(mut self, number: u64, fault: Fault) -> Faults {
        self.exact.insert(number, fault);
        self
    }

    /// Operation `number` and all after it go wrong, as on a disk that has died.
    #[must_use]
    pub fn from(mut self, number: u64, fault: Fault) -> Faults {
        self.from = Some((number, fault));
        self
    }

    /// Each operation that can goes wrong with a probability of `per_mille` in a thousand.
    #[must_use]
    pub fn chance(mut self, fault: Fault, per_mille: u64) -> Faults {
        self.chances.insert(fault, per_mille);
        self
    }

    /// Decides about one operation. `random` belongs to this operation alone.
    pub(super) fn decide(
        &self,
        number: u64,
        action: SimAction,
        dsync: bool,
        random: &mut SplitMix64,
    ) -> Option<Fault> {
        let lasting = self.from.filter(|(first, _)| number >= *first).map(|(_, fault)| fault);
        let planned = self.exact.get(&number).copied().or(lasting);
        if let Some(fault) = planned {
            return Some(fault).filter(|fault| fault.applies_to(action, dsync));
        }
        let mut happens = None;
        for (fault, per_mille) in &self.chances {
            // Every kind of fault draws even if one has been found, so the draws of one kind do not
            // depend on the others.
            if random.chance(*per_mille) && fault.applies_to(action, dsync) {
                happens = happens.or(Some(*fault));
            }
        }
        happens
    }
}
