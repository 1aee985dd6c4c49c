//! The route of a request, and what happens to the pages that it brings into the page cache.

use super::counters::Reason;
use crate::drive::Request;
use crate::engine::Route;

/// How one request travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Routing {
    pub(super) route: Route,
    /// The pages stay in the page cache, as those of a cached file do, because the request is below
    /// the threshold ([`OpenOptions::direct_from`]).
    ///
    /// [`OpenOptions::direct_from`]: super::OpenOptions::direct_from
    pub(super) keep_pages: bool,
    /// The pages that it brings into the page cache are dropped: neither the mode nor the threshold
    /// keeps them.
    pub(super) drop_pages: bool,
    /// Each request begins when the one before is finished, so that a striped file that grows holds
    /// no gap at any moment.
    pub(super) in_order: bool,
    /// Why a request to a direct file goes through the page cache, if it does.
    pub(super) reason: Reason,
}

impl Routing {
    /// A request by `route`. `cached` says that the mode keeps pages.
    pub(super) fn new(route: Route, cached: bool) -> Routing {
        Routing {
            route,
            keep_pages: false,
            drop_pages: !cached,
            in_order: false,
            reason: Reason::EndOfFile,
        }
    }

    /// The same routing with another route.
    pub(super) fn with_route(self, route: Route, reason: Reason) -> Routing {
        Routing { route, reason, ..self }
    }

    /// The same routing, for a request whose pages stay if `keep` is set.
    pub(super) fn with_kept_pages(self, keep: bool) -> Routing {
        Routing { keep_pages: keep, drop_pages: self.drop_pages && !keep, ..self }
    }

    /// How a request has travelled.
    pub(super) fn of_request(request: &Request, cached: bool) -> Routing {
        Routing::new(request.route, cached).with_kept_pages(request.cache.keep_pages)
    }
}
