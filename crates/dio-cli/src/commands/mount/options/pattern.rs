//! Patterns of paths.

use globset::{GlobBuilder, GlobMatcher};

use super::option::OptionError;

/// Reads a pattern: with a slash it is for the whole path below the source, without one for the
/// last name. `*` and `?` match no slash, `**` any number of directories.
pub(super) fn read(option: &str, pattern: &str) -> Result<GlobMatcher, OptionError> {
    // Options are divided outside of quotes: one inside would hide all that follow.
    if pattern.contains('"') {
        let error = "it has a quotation mark: write ? in its place".to_owned();
        return Err(OptionError::Pattern { option: option.to_owned(), pattern: pattern.to_owned(), error });
    }
    // Paths are relative to the source: a slash at the beginning says no more than that.
    let relative = pattern.trim_start_matches('/');
    let glob = GlobBuilder::new(relative).literal_separator(true).backslash_escape(true).build();
    glob.map(|glob| glob.compile_matcher()).map_err(|error| OptionError::Pattern {
        option: option.to_owned(),
        pattern: pattern.to_owned(),
        error: error.kind().to_string(),
    })
}
