//! Requests through a page cache that forgets.

use std::sync::atomic::{AtomicBool, Ordering};

use dio_sys::{RWF_DONTCACHE, uninterrupted};
use rustix::io::{Errno, ReadWriteFlags};

/// The flag `RWF_DONTCACHE`, given as long as the kernel takes it.
#[derive(Debug)]
pub(crate) struct DontCache {
    refused: AtomicBool,
}

impl DontCache {
    /// `wanted` says whether it is given at all.
    pub(crate) fn new(wanted: bool) -> DontCache {
        DontCache { refused: AtomicBool::new(!wanted) }
    }

    /// Whether requests go without it now.
    pub(crate) fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// From now on requests go without it.
    pub(crate) fn refuse(&self) {
        self.refused.store(true, Ordering::Relaxed);
    }

    /// Runs one request with the flags it is to have. An interrupted one is run again; one that is
    /// refused for the flag runs again without, as all that follow.
    ///
    /// # Errors
    /// What the request answers.
    pub(crate) fn request<T>(&self, mut run: impl FnMut(ReadWriteFlags) -> Result<T, Errno>) -> Result<T, Errno> {
        loop {
            let flags = if self.is_refused() { ReadWriteFlags::empty() } else { RWF_DONTCACHE };
            match uninterrupted(|| run(flags)) {
                // EINVAL before Linux 6.14.
                Err(Errno::OPNOTSUPP | Errno::INVAL) if !flags.is_empty() => self.refuse(),
                other => return other,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The flags that requests were run with, whose answers come from `answers`.
    fn seen(flag: &DontCache, answers: &[Result<usize, Errno>]) -> (Vec<bool>, Result<usize, Errno>) {
        let (mut flags, mut answers) = (Vec::new(), answers.iter());
        let last = flag.request(|given| {
            flags.push(given == RWF_DONTCACHE);
            *answers.next().expect("no more than these requests")
        });
        assert_eq!(answers.next(), None);
        (flags, last)
    }

    #[test]
    fn a_flag_that_is_refused_is_not_given_again() {
        for refusal in [Errno::OPNOTSUPP, Errno::INVAL] {
            let flag = DontCache::new(true);
            assert_eq!(seen(&flag, &[Ok(5)]), (vec![true], Ok(5)));
            assert_eq!(seen(&flag, &[Err(Errno::INTR), Err(refusal), Ok(3)]), (vec![true, true, false], Ok(3)));
            assert!(flag.is_refused());
            // Now it is the request that is refused.
            assert_eq!(seen(&flag, &[Err(refusal)]), (vec![false], Err(refusal)));
        }
    }

    #[test]
    fn other_errors_are_the_requests_own() {
        let flag = DontCache::new(true);
        assert_eq!(seen(&flag, &[Err(Errno::NOSPC)]), (vec![true], Err(Errno::NOSPC)));
        assert!(!flag.is_refused());
        assert_eq!(seen(&DontCache::new(false), &[Ok(0)]), (vec![false], Ok(0)));
    }
}
