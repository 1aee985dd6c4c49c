//! Requests of asynchronous I/O that were submitted, and whose results were not fetched yet.

use std::collections::HashMap;

use crate::trace::{Call, Request};

/// By process, and by their addresses there.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    requests: HashMap<(u32, u64), Request>,
    /// The request that each thread submitted last.
    last: HashMap<u32, (u32, u64)>,
}

impl InFlight {
    /// Adds a request of a thread. The address of one whose result was never fetched may be used
    /// again.
    pub(super) fn add(&mut self, key: (u32, u64), tid: u32, request: Request) {
        self.requests.insert(key, request);
        self.last.insert(tid, key);
    }

    /// Counts bytes of pages that were new to the page cache in the call by which a thread
    /// submitted its last requests: requests that are not direct are done within the call.
    pub(super) fn add_cached(&mut self, tid: u32, bytes: u64) {
        let last = self.last.get(&tid).and_then(|key| self.requests.get_mut(key));
        if let Some(request) = last {
            request.cached = request.cached.saturating_add(bytes);
        }
    }

    /// The request with its result and its end, if it was seen.
    pub(super) fn take(&mut self, key: (u32, u64), result: i64, end: u64) -> Option<Request> {
        let mut request = self.requests.remove(&key)?;
        request.done = result;
        request.duration = end.saturating_sub(request.start);
        if request.call == Call::AioFsync {
            request.done = result.min(0);
        } else if request.asked == 0 {
            request.asked = result.max(0) as u64;
        }
        Some(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_gets_the_result_of_its_address() {
        let mut in_flight = InFlight::default();
        let read = |start| Request::at(start, Call::AioRead, 0, (0, 8192), 4096);
        in_flight.add((7, 100), 70, read(5));
        in_flight.add((7, 200), 70, read(6));
        in_flight.add_cached(70, 12288);
        assert_eq!(in_flight.take((8, 100), 1, 9), None);
        let second = in_flight.take((7, 200), 4000, 26).unwrap();
        assert_eq!((second.start, second.duration, second.done), (6, 20, 4000));
        assert_eq!((second.cached, second.asked), (12288, 4096));
        assert_eq!(in_flight.take((7, 200), 4000, 27), None);
        let first = in_flight.take((7, 100), -5, 27).unwrap();
        assert_eq!((first.done, first.cached), (-5, 0));
    }
}
