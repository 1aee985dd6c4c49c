//! What all of `dio advise` says alike.

/// The exit status if dio itself fails, as of `env` and `timeout`.
pub(super) const FAILED: u8 = 125;

pub(super) fn complain(text: &str) {
    eprintln!("dio advise: {text}");
}
