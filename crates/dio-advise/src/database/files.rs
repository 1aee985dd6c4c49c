//! The files of a database, by what they are for.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::system::DatabaseSystem;

/// The purpose of a file of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FileClass {
    /// Tables and indexes that the server caches itself.
    Data,
    /// Tables of engines that rely on the page cache (MyISAM, Aria).
    PageCacheTables,
    /// The log that makes commits durable: WAL, redo.
    Log,
    /// Logs that others read soon after they were written: binary logs, archived segments.
    Archive,
    /// Files that live as long as a statement or a server.
    Temporary,
    /// Small files that are read by many: control files, states of transactions, settings.
    Control,
}

impl FileClass {
    /// Its name for people.
    pub(super) fn name(self) -> &'static str {
        match self {
            FileClass::Data => "data",
            FileClass::PageCacheTables => "page-cache tables",
            FileClass::Log => "log",
            FileClass::Archive => "archive",
            FileClass::Temporary => "temporary",
            FileClass::Control => "control",
        }
    }

    /// The class of a file by its path within the directory of the data.
    pub(super) fn of(system: DatabaseSystem, path: &Path) -> FileClass {
        match system {
            DatabaseSystem::Postgresql => of_postgresql(path),
            DatabaseSystem::Mariadb => of_mariadb(path),
        }
    }
}

fn of_postgresql(path: &Path) -> FileClass {
    let mut parts = path.iter().filter_map(|part| part.to_str());
    let top = parts.next().unwrap_or_default();
    let names: Vec<&str> = parts.collect();
    let is_temporary = names.iter().any(|name| name.starts_with("pgsql_tmp"));
    match top {
        _ if is_temporary => FileClass::Temporary,
        "pg_wal" | "pg_xlog" if names.contains(&"archive_status") => FileClass::Control,
        "pg_wal" | "pg_xlog" => FileClass::Log,
        "base" | "pg_tblspc" => FileClass::Data,
        "global" if names.iter().any(|name| name.starts_with(|one: char| one.is_ascii_digit())) => {
            FileClass::Data
        }
        "pg_stat_tmp" => FileClass::Temporary,
        _ => FileClass::Control,
    }
}

fn of_mariadb(path: &Path) -> FileClass {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let is_numbered = !extension.is_empty() && extension.bytes().all(|one| one.is_ascii_digit());
    match extension.to_ascii_lowercase().as_str() {
        _ if name.starts_with("ib_logfile") => FileClass::Log,
        _ if name.starts_with("ibtmp") || name.starts_with("#sql") => FileClass::Temporary,
        _ if name.starts_with("aria_log.") => FileClass::Log,
        _ if name.starts_with("ibdata") || name.starts_with("undo") => FileClass::Data,
        "ibd" => FileClass::Data,
        "myd" | "myi" | "mad" | "mai" => FileClass::PageCacheTables,
        _ if is_numbered => FileClass::Archive,
        _ => FileClass::Control,
    }
}

/// Bytes of the files below a directory by class. Directories that cannot be read count nothing.
pub(super) fn sizes(system: DatabaseSystem, directory: &Path) -> BTreeMap<FileClass, u64> {
    let mut sizes = BTreeMap::new();
    let mut left = vec![directory.to_owned()];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let path = entry.path();
            // Tablespaces and the log may be elsewhere, behind a link.
            let Ok(found) = fs::metadata(&path) else { continue };
            let within = path.strip_prefix(directory).unwrap_or(&path);
            // A link may lead back; nothing of a database lies so deep.
            if found.is_dir() && within.components().count() < 8 {
                left.push(path);
            } else if found.is_file() {
                *sizes.entry(FileClass::of(system, within)).or_default() += found.len();
            }
        }
    }
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_their_classes() {
        for (path, class) in [
            ("base/5/1259", FileClass::Data),
            ("base/pgsql_tmp/pgsql_tmp12.0", FileClass::Temporary),
            ("global/1262", FileClass::Data),
            ("global/pg_control", FileClass::Control),
            ("pg_wal/000000010000000000000001", FileClass::Log),
            ("pg_wal/archive_status/000000010000000000000001.ready", FileClass::Control),
            ("pg_xact/0000", FileClass::Control),
            ("postgresql.conf", FileClass::Control),
        ] {
            assert_eq!(FileClass::of(DatabaseSystem::Postgresql, Path::new(path)), class, "{path}");
        }
        for (path, class) in [
            ("shop/orders.ibd", FileClass::Data),
            ("ibdata1", FileClass::Data),
            ("undo001", FileClass::Data),
            ("ib_logfile0", FileClass::Log),
            ("aria_log.00000001", FileClass::Log),
            ("aria_log_control", FileClass::Control),
            ("mysql/proc.MAD", FileClass::PageCacheTables),
            ("old/table.MYD", FileClass::PageCacheTables),
            ("mariadb-bin.000012", FileClass::Archive),
            ("ibtmp1", FileClass::Temporary),
            ("shop/orders.frm", FileClass::Control),
        ] {
            assert_eq!(FileClass::of(DatabaseSystem::Mariadb, Path::new(path)), class, "{path}");
        }
    }

    #[test]
    fn sizes_are_summed_by_class_and_links_are_followed() {
        let dir = tempfile::tempdir().unwrap();
        let log = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("base/5")).unwrap();
        fs::write(dir.path().join("base/5/1259"), [0; 100]).unwrap();
        fs::write(dir.path().join("PG_VERSION"), "15\n").unwrap();
        fs::write(log.path().join("000000010000000000000001"), [0; 50]).unwrap();
        std::os::unix::fs::symlink(log.path(), dir.path().join("pg_wal")).unwrap();
        std::os::unix::fs::symlink(dir.path(), dir.path().join("base/again")).unwrap();
        let sizes = sizes(DatabaseSystem::Postgresql, dir.path());
        assert_eq!(sizes[&FileClass::Log], 50);
        assert!(sizes[&FileClass::Data] >= 100);
    }
}
