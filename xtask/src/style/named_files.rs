//! Files and folders that ARCHITECTURE.md names: each must exist, so that the text follows when a
//! module is renamed.

use std::path::PathBuf;

use super::imports::DOCUMENT;

/// Appends each name between backticks that ends in `.rs` or `/` and that no file has. A name is a
/// path from the root. It may also be the end of a path in the folder that its paragraph names
/// before it, or in the crate that is the subject of the section (`## dio-cli: the commands`, `##
/// bindings/c: from C`).
pub(super) fn check(document: &str, files: &[PathBuf], found: &mut Vec<String>) {
    let paths: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
    let (mut subject, mut folder) = (None, None);
    for (number, line) in document.lines().enumerate() {
        if let Some(heading) = line.strip_prefix("## ") {
            subject = heading.split_once(':').map(|(name, _)| match name.contains('/') {
                true => format!("{name}/"),
                false => format!("crates/{name}/"),
            });
        }
        if line.is_empty() {
            folder = None;
        }
        // Every second part of a line is between backticks.
        for name in line.split('`').skip(1).step_by(2) {
            let is_file = name.ends_with(".rs");
            let is_folder = name.ends_with('/') && name.len() > 1;
            if !is_file && !is_folder {
                continue;
            }
            let is_there = |path: &str| if is_file { path == name } else { path.starts_with(name) };
            if paths.iter().any(|path| is_there(path)) {
                folder = (!is_file).then(|| name.to_owned()).or(folder);
                continue;
            }
            let inner = format!("/{name}");
            let is_within = |path: &String| {
                let rests = [&folder, &subject].into_iter().flatten();
                let mut rests = rests
                    .filter_map(|folder: &String| path.strip_prefix(folder.trim_end_matches('/')));
                rests.any(
                    |rest| if is_file { rest.ends_with(&inner) } else { rest.contains(&inner) },
                )
            };
            if !paths.iter().any(is_within) {
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
        let document = "`crates/x/src/b.rs` `crates/x/`: `b.rs`, `src/b.rs`, `/`, `c`\n## x: \
                        it\n`b.rs` `a/mod.rs` `a/`\n";
        assert_eq!(check(document), [""; 0]);
        assert_eq!(
            check("## x: it\nno `c.rs`, `x.rs`, `d/` or `lib.rs`: `b.rs`\n"),
            ["c.rs", "x.rs", "d/", "lib.rs"]
                .map(|name| format!("ARCHITECTURE.md:2: there is no `{name}`"))
        );
        // Neither of another crate, nor from nowhere.
        assert_eq!(check("## y: it\n`b.rs`").len(), 1);
        assert_eq!(check("## All\n`b.rs`").len(), 1);
        assert_eq!(check("## All\n`crates/x/src/a/`: `b.rs`").len(), 1);
    }
}
