//! Uncached requests, which drop their pages from the page cache.

use std::sync::atomic::{AtomicBool, Ordering};

use dio_sys::{RWF_DONTCACHE, uninterrupted};
use rustix::io::{Errno, ReadWriteFlags};

/// The flag `RWF_DONTCACHE`, which is used until the kernel rejects it.
#[derive(Debug)]
pub(crate) struct DontCache {
    refused: AtomicBool,
}

impl DontCache {
    /// `wanted` enables the flag.
    pub(crate) fn new(wanted: bool) -> DontCache {
        DontCache { refused: AtomicBool::new(!wanted) }
    }

    /// Returns whether requests are now run without the flag.
    pub(crate) fn is_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// Runs all later requests without the flag.
    pub(crate) fn refuse(&self) {
        self.refused.store(true, Ordering::Relaxed);
    }

    /// Runs one request, with the flag while it is in use. An interrupted request is repeated. A
    /// request that the kernel rejects because of the flag is repeated without it, and the flag is
    /// not used again.
    ///
    /// # Errors
    /// The request's error.
    pub(crate) fn request<T>(
        &self,
        mut run: impl FnMut(ReadWriteFlags) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        loop {
            let flags = if self.is_refused() { ReadWriteFlags::empty() } else { RWF_DONTCACHE };
            match uninterrupted(|| run(flags)) {
                // Linux before 6.14 answers EOPNOTSUPP, some file systems EINVAL.
                Err(Errno::OPNOTSUPP | Errno::INVAL) if !flags.is_empty() => self.refuse(),
                other => return other,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the flags that requests were run with; `answers` are their results.
    fn seen(
        flag: &DontCache,
        answers: &[Result<usize, Errno>],
    ) -> (Vec<bool>, Result<usize, Errno>) {
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
            assert_eq!(
                seen(&flag, &[Err(Errno::INTR), Err(refusal), Ok(3)]),
                (vec![true, true, false], Ok(3))
            );
            assert!(flag.is_refused());
            // Without the flag, the error is the request's own.
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
