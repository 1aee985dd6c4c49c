//! Messages of the library.

/// The error of the library behind a code.
pub(super) fn words(code: usize) -> &'static str {
    ::zstd::zstd_safe::get_error_name(code)
}
