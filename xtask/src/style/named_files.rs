//! Files and folders that ARCHITECTURE.md names: each must exist, so that the text follows when a
//! module is renamed.

use std::path::PathBuf;

use super::imports::DOCUMENT;

/// Appends each name between backticks that ends in `.rs` or `/` and is not the end of a path in
/// `files`.
pub(super) fn check(document: &str, files: &[PathBuf], found: &mut Vec<String>) {
    let paths: Vec<String> = files.iter().map(|path| format!("/{}", path.display())).collect();
    for (number, line) in document.lines().enumerate() {
        // Every second part of a line is between backticks.
        for name in line.split('`').skip(1).step_by(2) {
            let inner = format!("/{name}");
            let is_there =
                |path: &String| if name.ends_with('/') { path.contains(&inner) } else { path.ends_with(&inner) };
            if (name.ends_with(".rs") || name.ends_with('/')) && name.len() > 1 && !paths.iter().any(is_there) {
                found.push(format!("{DOCUMENT}:{}: there is no `{name}`", number + 1));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_that_are_not_there_are_violations() {
        let files = ["crates/x/src/a/mod.rs", "crates/x/src/b.rs"].map(PathBuf::from);
        let check = |document: &str| {
            let mut found = Vec::new();
            check(document, &files, &mut found);
            found
        };
        assert_eq!(check("`b.rs` and `src/b.rs`, `a/mod.rs`, `a/`, `/`, `c`\n```\nc.rs\n```\n"), [""; 0]);
        assert_eq!(
            check("`a/`\nno `c.rs`, `x.rs`, `d/` or `lib.rs`: `b.rs`\n"),
            ["c.rs", "x.rs", "d/", "lib.rs"].map(|name| format!("ARCHITECTURE.md:2: there is no `{name}`"))
        );
        assert_eq!(check("`src/a.rs`").len(), 1);
    }
}
