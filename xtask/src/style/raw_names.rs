//! Restricts calls that name files without `dio::names`: a call without support for striped files
//! leaves their objects behind, or truncates their descriptor.

use super::paths::{Item, items, module_of};
use super::source::SourceFile;

/// The crates that work on the files of users.
const CRATES: &[&str] = &["crates/dio-cli/src/", "crates/dio-mount/src/"];

/// Functions of a module `fs` (of rustix and of std) for which the facade has a counterpart.
const RAW: &[&str] = &[
    "ftruncate",
    "hard_link",
    "link",
    "linkat",
    "remove_file",
    "rename",
    "renameat",
    "renameat_with",
    "truncate",
    "unlink",
    "unlinkat",
];

/// A file or a directory of files, the call that it may use, and the reason.
const ALLOWED: &[(&str, &str, &str)] = &[
    (
        "crates/dio-cli/src/commands/cp/links.rs",
        "linkat",
        "a hard link to a descriptor leads to the same objects, and GNU cp --link makes one",
    ),
    (
        "crates/dio-cli/src/commands/cp/data/few.rs",
        "ftruncate",
        "the target was looked at: it is plain",
    ),
    (
        "crates/dio-cli/src/commands/cp/data/mod.rs",
        "ftruncate",
        "the target was looked at: it is plain",
    ),
    (
        "crates/dio-cli/src/commands/cp/data/contents_file.rs",
        "ftruncate",
        "the target was looked at: it is plain",
    ),
    (
        "crates/dio-cli/src/commands/cp/data/contents_file.rs",
        "unlinkat",
        "a target that this program made and that is still empty",
    ),
    (
        "crates/dio-cli/src/commands/cp/data/resume.rs",
        "remove_file",
        "a note that this program made",
    ),
    (
        "crates/dio-cli/src/commands/cp/examine.rs",
        "dio::stripe",
        "whether source and target are the same file, by their descriptors",
    ),
    (
        "crates/dio-cli/src/commands/cp/mirror.rs",
        "unlinkat",
        "an empty directory, which has no objects",
    ),
    (
        "crates/dio-cli/src/commands/cp/removal.rs",
        "unlinkat",
        "an empty directory, which has no objects",
    ),
    (
        "crates/dio-cli/src/commands/install_mount_helper.rs",
        "remove_file",
        "a symbolic link that this program made",
    ),
    (
        "crates/dio-cli/src/commands/install_mount_helper.rs",
        "rename",
        "a symbolic link that this program made",
    ),
    ("crates/dio-cli/src/commands/links.rs", "remove_file", "a symbolic link to this program"),
    (
        "crates/dio-cli/src/commands/probe/striped.rs",
        "dio::stripe",
        "reports what each object is like",
    ),
    (
        "crates/dio-cli/src/commands/sort/engine/store.rs",
        "ftruncate",
        "a temporary file that this program made",
    ),
    (
        "crates/dio-cli/src/commands/sort/engine/store.rs",
        "unlink",
        "a temporary file that this program made",
    ),
    (
        "crates/dio-cli/src/commands/split/run.rs",
        "unlink",
        "a temporary file that this program made",
    ),
    (
        "crates/dio-cli/src/commands/stripe/",
        "dio::stripe",
        "the commands that make, show and mend striped files",
    ),
    (
        "crates/dio-cli/src/commands/tar/create/removal.rs",
        "unlinkat",
        "directories: the facade removes files",
    ),
    (
        "crates/dio-cli/src/commands/tar/extract/new_file.rs",
        "unlinkat",
        "directories: the facade removes files",
    ),
    (
        "crates/dio-cli/src/commands/tar/extract/special.rs",
        "linkat",
        "members that are hard links: to a descriptor they lead to the same objects",
    ),
    (
        "crates/dio-cli/src/tool/target/naming.rs",
        "linkat",
        "the first name of a file that had none",
    ),
    (
        "crates/dio-cli/src/tool/target/own_file.rs",
        "remove_file",
        "small files that this program made",
    ),
    ("crates/dio-cli/src/tool/target/own_file.rs", "rename", "small files that this program made"),
    (
        "crates/dio-mount/src/control/export.rs",
        "remove_file",
        "a file of figures that the mount made",
    ),
    ("crates/dio-mount/src/control/export.rs", "rename", "a file of figures that the mount made"),
    ("crates/dio-mount/src/control/listen.rs", "remove_file", "a socket that the mount made"),
    (
        "crates/dio-mount/src/control/location.rs",
        "remove_file",
        "sockets and notes that mounts made",
    ),
    (
        "crates/dio-mount/src/file/descriptors.rs",
        "dio::stripe",
        "keeps the descriptor of an open striped file",
    ),
    (
        "crates/dio-mount/src/file/operations.rs",
        "ftruncate",
        "a file that is not striped, by the descriptor of its open",
    ),
    (
        "crates/dio-mount/src/mount.rs",
        "dio::stripe",
        "redirects paths of objects that lie below the mount itself",
    ),
    (
        "crates/dio-mount/src/names/create.rs",
        "dio::stripe",
        "gives a new file the stripes of its directory",
    ),
    (
        "crates/dio-mount/src/names/links.rs",
        "dio::stripe",
        "removes objects with the last name, with the rights of the caller",
    ),
    (
        "crates/dio-mount/src/names/links.rs",
        "linkat",
        "serves link(2): a hard link leads to the same objects",
    ),
    (
        "crates/dio-mount/src/names/links.rs",
        "renameat_with",
        "serves renameat2(2) with its flags, objects looked after beside it",
    ),
    (
        "crates/dio-mount/src/names/links.rs",
        "unlinkat",
        "serves unlink(2) and rmdir(2), objects looked after beside it",
    ),
    (
        "crates/dio-mount/src/names/objects.rs",
        "dio::stripe",
        "keeps and removes objects of a file without a name",
    ),
    (
        "crates/dio-mount/src/serve/mod.rs",
        "dio::stripe",
        "says for whom a request follows descriptors",
    ),
];

/// Appends every use of a raw call, or of `dio::stripe`, without a reason, and every reason without
/// a use.
pub(super) fn check(sources: &[(String, String)], found: &mut Vec<String>) {
    let mut used = vec![false; ALLOWED.len()];
    for (path, text) in sources {
        let Some(inner) = CRATES.iter().find_map(|root| path.strip_prefix(root)) else { continue };
        let module = module_of(inner).unwrap_or_default();
        for item in items(&SourceFile::new(path, text), &module) {
            let (Item::Use { line, path: named, .. } | Item::Path { line, path: named, .. }) = item
            else {
                continue;
            };
            let Some(what) = raw(&named) else { continue };
            let allowed = ALLOWED
                .iter()
                .position(|(place, name, _)| path.starts_with(place) && *name == what);
            match allowed {
                Some(at) => used[at] = true,
                None => found.push(format!(
                    "{path}:{}: `{what}`: use dio::names, which knows striped files",
                    line + 1
                )),
            }
        }
    }
    for ((place, what, _), _) in ALLOWED.iter().zip(used).filter(|(_, used)| !used) {
        found.push(format!(
            "{place}: never names `{what}`: take it from xtask/src/style/raw_names.rs"
        ));
    }
}

/// The raw call, or `dio::stripe`, that a path names.
fn raw(path: &[String]) -> Option<&str> {
    if path.windows(2).any(|pair| pair[0] == "dio" && pair[1] == "stripe") {
        return Some("dio::stripe");
    }
    let [.., module, name] = path else { return None };
    (module == "fs" && RAW.contains(&name.as_str())).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(path: &str, text: &str) -> Vec<String> {
        let mut found = Vec::new();
        check(&[(path.to_owned(), text.to_owned())], &mut found);
        found.retain(|line| !line.contains("never names"));
        found
    }

    #[test]
    fn raw_calls_are_found_however_they_are_named() {
        let path = "crates/dio-cli/src/x.rs";
        for text in [
            "use rustix::fs::{AtFlags, unlinkat};\n",
            "fn f() { rustix::fs::ftruncate(a, 0) }\n",
            "use std::fs;\nfn f() { fs::rename(a, b) }\n",
            "use dio::stripe::{self, inspect};\n",
            "fn f() { dio::stripe::inspect(a) }\n",
        ] {
            assert!(!violations(path, text).is_empty(), "{text}");
            assert_eq!(violations("crates/dio-wal/src/x.rs", text), [""; 0]);
            assert_eq!(violations("crates/dio-cli/src/x/tests.rs", text), [""; 0]);
        }
    }

    #[test]
    fn the_facade_and_comments_are_no_raw_calls() {
        let text = "use dio::names;\n/// As [`std::fs::rename`].\nfn f() { names::unlinkat(a, b) \
                    }\n#[cfg(test)]\nmod tests {\n    fn t() { std::fs::remove_file(a) }\n}\n";
        assert_eq!(violations("crates/dio-cli/src/x.rs", text), [""; 0]);
    }
}
