//! Details of errors of which only the error number is returned.
//!
//! The functions of [`names`](super) return error numbers as the system does, and GNU tools print
//! no more than that. Which object is wrong is in the [`FileError`] behind the number. It is kept
//! here until the program takes it and prints it.

use parking_lot::{Mutex, MutexGuard};
use rustix::io::Errno;

use crate::file::FileError;

/// Most errors kept. A server may meet a damaged file every second, and nobody takes its errors.
const KEPT_MAX: usize = 16;

static KEPT: Mutex<Vec<FileError>> = Mutex::new(Vec::new());

fn kept() -> MutexGuard<'static, Vec<FileError>> {
    KEPT.lock()
}

/// Returns the number of an error. If the error has details, such as which object it concerns, it
/// is kept for [`take_details`].
pub fn errno_of(error: &FileError) -> Errno {
    if error.detail().is_some() {
        keep(error);
    }
    error.errno()
}

/// Keeps an error for [`take_details`].
pub(super) fn keep(error: &FileError) {
    let mut kept = kept();
    // Errors without details are distinguished by their path.
    let subject = |error: &FileError| match error.detail() {
        Some(detail) => detail.to_owned(),
        None => error.path().display().to_string(),
    };
    if kept.len() < KEPT_MAX && !kept.iter().any(|known| subject(known) == subject(error)) {
        kept.push(error.clone());
    }
}

/// Drops the kept errors whose details are already in `text`, which the program has printed.
pub fn details_were_printed(text: &str) {
    let is_printed = |error: &FileError| error.detail().is_some_and(|detail| text.contains(detail));
    kept().retain(|error| !is_printed(error));
}

/// Removes and returns the errors kept since the last call, in order.
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
        let kept = || {
            take_details()
                .iter()
                .map(|error| error.detail().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
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
