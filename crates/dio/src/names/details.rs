//! Why a call on a striped file failed, where only an error number is returned.
//!
//! [`calls`](super::calls) answer as the system does, and tools of the GNU kind print no more than that. Which object is wrong is in
//! the [`FileError`] that the number was made of. It is kept here until the program, which alone prints, asks for it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use crate::file::FileError;

/// Most errors that are kept: a server may meet a damaged file every second, and nobody asks it.
const KEPT_MAX: usize = 16;

static KEPT: Mutex<Vec<FileError>> = Mutex::new(Vec::new());

fn kept() -> MutexGuard<'static, Vec<FileError>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number of an error. If the error says more, as which object of a striped file it concerns, it is kept for [`take_details`].
pub fn errno_of(error: &FileError) -> Errno {
    if error.detail().is_some() {
        keep(error);
    }
    error.errno()
}

/// Keeps an error for [`take_details`].
pub(super) fn keep(error: &FileError) {
    let mut kept = kept();
    // What has no detail is told apart by what it happened to.
    let subject = |error: &FileError| match error.detail() {
        Some(detail) => detail.to_owned(),
        None => error.path().display().to_string(),
    };
    if kept.len() < KEPT_MAX && !kept.iter().any(|known| subject(known) == subject(error)) {
        kept.push(error.clone());
    }
}

/// Forgets what `text`, which the program has printed, says already.
pub fn details_were_printed(text: &str) {
    let is_told = |error: &FileError| error.detail().is_some_and(|detail| text.contains(detail));
    kept().retain(|error| !is_told(error));
}

/// The errors of this process that were errno_of to their numbers and not told since, in order; they are forgotten.
pub fn take_details() -> Vec<FileError> {
    std::mem::take(&mut *kept())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn what_says_more_than_its_number_is_kept_until_it_is_told() {
        let plain = FileError::new("open", Path::new("f"), Errno::NOENT);
        assert_eq!(errno_of(&plain), Errno::NOENT);
        let detailed = |what: &str| plain.clone().with_detail(what);
        let kept = || take_details().iter().map(|error| error.detail().unwrap().to_owned()).collect::<Vec<_>>();
        for what in ["object 1 is missing", "object 2 is missing", "object 1 is missing"] {
            assert_eq!(errno_of(&detailed(what)), Errno::NOENT);
        }
        details_were_printed("dio cat: cannot open 'f': object 2 is missing\n");
        assert_eq!(kept(), ["object 1 is missing"]);
        assert_eq!(kept(), [""; 0]);
        for number in 0..2 * KEPT_MAX {
            errno_of(&detailed(&number.to_string()));
        }
        assert_eq!(kept().len(), KEPT_MAX);
    }
}
