//! The file systems that tests run on.

use std::path::PathBuf;

use tempfile::TempDir;

/// Name of the file system that always exists: the one that holds [`host_directory`].
const HOST: &str = "host";

/// A mounted file system on which a test may create what it likes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestFs {
    /// Short name for messages and for choosing: `ext4`, `ext4-journal` (`data=journal`), `xfs`,
    /// `btrfs`, `tmpfs`, or `host`, which is the machine's own file system.
    pub name: String,
    /// A writable directory on it.
    pub path: PathBuf,
}

impl TestFs {
    /// Creates a scratch directory on this file system; it is removed when the value is dropped.
    ///
    /// # Panics
    /// When the directory cannot be created.
    #[track_caller]
    #[must_use]
    pub fn dir(&self) -> TempDir {
        tempfile::Builder::new().prefix("dio-test-").tempdir_in(&self.path).unwrap_or_else(|e| {
            panic!("{}: no scratch directory in {}: {e}", self.name, self.path.display())
        })
    }
}

/// The file systems to test on: `host` first, then the ones in `DIO_TEST_FS`.
///
/// Plain `cargo test` uses `host` alone; `cargo xtask test` mounts the other ones.
///
/// # Panics
/// When `DIO_TEST_FS` is not of the form `name=/path:name=/path`.
#[must_use]
pub fn file_systems() -> Vec<TestFs> {
    let host = TestFs { name: HOST.to_owned(), path: host_directory() };
    let list = std::env::var("DIO_TEST_FS").unwrap_or_default();
    let others = parse(&list).unwrap_or_else(|e| panic!("DIO_TEST_FS: {e}"));
    std::iter::once(host).chain(others).collect()
}

/// `/var/tmp`, unlike `/tmp`, is a real disk on most machines.
fn host_directory() -> PathBuf {
    std::env::var_os("DIO_TEST_DIR")
        .filter(|v| !v.is_empty())
        .map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from)
}

/// Splits `name=/path:name=/path`; empty entries are ignored.
fn parse(list: &str) -> Result<Vec<TestFs>, String> {
    list.split(':').filter(|entry| !entry.is_empty()).map(parse_entry).collect()
}

fn parse_entry(entry: &str) -> Result<TestFs, String> {
    match entry.split_once('=') {
        Some((name, path)) if !name.is_empty() && path.starts_with('/') => {
            Ok(TestFs { name: name.to_owned(), path: PathBuf::from(path) })
        }
        _ => Err(format!("`{entry}` is not name=/absolute/path")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_split_into_names_and_paths() {
        let found = parse("ext4=/a/b:xfs=/c=d").unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].name.as_str(), found[0].path.to_str()), ("ext4", Some("/a/b")));
        assert_eq!((found[1].name.as_str(), found[1].path.to_str()), ("xfs", Some("/c=d")));
        assert_eq!(parse("").unwrap(), Vec::new());
    }

    #[test]
    fn a_malformed_entry_is_named() {
        for bad in ["ext4", "=/a", "ext4=relative", "ext4="] {
            assert!(parse(bad).unwrap_err().contains(bad));
        }
    }

    #[test]
    fn host_comes_first_and_scratch_directories_go_away() {
        let all = file_systems();
        assert_eq!(all[0].name, HOST);
        for fs in all {
            let scratch = fs.dir();
            let path = scratch.path().to_path_buf();
            assert!(path.starts_with(&fs.path));
            std::fs::write(path.join("file"), b"x").unwrap();
            drop(scratch);
            assert!(!path.exists(), "{}: {} is still there", fs.name, path.display());
        }
    }
}
