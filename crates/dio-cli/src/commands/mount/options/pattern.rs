//! Patterns of paths.

use globset::{GlobBuilder, GlobMatcher};

use super::option::OptionError;

/// Parses a pattern. A pattern with a slash matches the whole path below the source, one without
/// matches the last name. `*` and `?` match no slash, `**` matches any number of directories.
pub(super) fn read(option: &str, pattern: &str) -> Result<GlobMatcher, OptionError> {
    // Options are split outside of quotes; a quotation mark in a pattern would hide all options
    // that follow.
    if pattern.contains('"') {
        let error = "it has a quotation mark: write ? in its place".to_owned();
        return Err(OptionError::Pattern {
            option: option.to_owned(),
            pattern: pattern.to_owned(),
            error,
        });
    }
    // Paths are relative to the source, so a slash at the beginning has no further meaning.
    let relative = pattern.trim_start_matches('/');
    let glob = GlobBuilder::new(relative).literal_separator(true).backslash_escape(true).build();
    glob.map(|glob| glob.compile_matcher()).map_err(|error| OptionError::Pattern {
        option: option.to_owned(),
        pattern: pattern.to_owned(),
        error: error.kind().to_string(),
    })
}
