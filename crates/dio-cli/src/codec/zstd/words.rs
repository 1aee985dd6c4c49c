//! Error messages of the library.

/// Returns the library's message for an error code.
pub(super) fn words(code: usize) -> &'static str {
    ::zstd::zstd_safe::get_error_name(code)
}
