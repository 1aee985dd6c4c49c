//! By which route a request travels, and what becomes of the pages that it brings into the page cache.

use super::counters::Reason;
use crate::drive::Request;
use crate::engine::Route;

/// How one request travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Routing {
    pub(super) route: Route,
    /// It is below the threshold ([`OpenOptions::direct_from`]): its pages stay in the page cache, as those of a cached
    /// file do.
    ///
    /// [`OpenOptions::direct_from`]: super::OpenOptions::direct_from
    pub(super) keep: bool,
    /// Pages that it brings into the cache are dropped: neither the mode nor the threshold lets them stay.
    pub(super) forget: bool,
    /// Each of its parts begins when the one before is over: so a striped file that grows holds no gap at any moment.
    pub(super) in_order: bool,
    /// Why it goes through the page cache of a direct file, where it does.
    pub(super) reason: Reason,
}

impl Routing {
    /// A request by `route`; `cached` says that the mode lets pages stay.
    pub(super) fn by(route: Route, cached: bool) -> Routing {
        Routing { route, keep: false, forget: !cached, in_order: false, reason: Reason::EndOfFile }
    }

    /// The same by another route.
    pub(super) fn through(self, route: Route, reason: Reason) -> Routing {
        Routing { route, reason, ..self }
    }

    /// The same for a request whose pages stay, if `keep`.
    pub(super) fn keeping(self, keep: bool) -> Routing {
        Routing { keep, forget: self.forget && !keep, ..self }
    }

    /// How a request travelled.
    pub(super) fn of(request: &Request, cached: bool) -> Routing {
        Routing::by(request.route, cached).keeping(request.cache.keep_pages)
    }
}
