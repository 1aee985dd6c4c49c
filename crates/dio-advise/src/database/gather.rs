//! Learns what there is.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::ask;
use super::connection::Connection;
use super::disk::DiskFacts;
use super::facts::DatabaseFacts;
use super::files;
use super::load::{DatabaseLoad, LoadSink};
use super::process::{ServerProcess, server_of, session_bytes};
use super::system::DatabaseSystem;
use crate::record::{Subject, attach};

/// Why nothing can be advised for a database.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatabaseError {
    /// The directory of the data.
    #[error("{path}: {text}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why it cannot be looked at.
        text: String,
    },
    /// The server that runs.
    #[error("{0}")]
    Connection(String),
}

/// The way to find a database.
#[derive(Clone, Debug)]
pub enum DatabasePlace {
    /// In the directory of its data.
    Directory(DatabaseSystem, PathBuf),
    /// Through its server.
    Connection(Connection),
}

/// Learns what there is of a database. If its server runs on this machine, its load is watched for
/// `time`, or until `is_stopped`.
///
/// # Errors
/// See [`DatabaseError`]. What is less important and cannot be learned is in
/// [`DatabaseFacts::missing`].
pub fn gather(
    place: &DatabasePlace,
    time: Duration,
    is_stopped: &dyn Fn() -> bool,
) -> Result<DatabaseFacts, DatabaseError> {
    let mut missing = Vec::new();
    let (system, directory, told) = match place {
        DatabasePlace::Directory(system, path) => (*system, path.clone(), None),
        DatabasePlace::Connection(connection) => {
            let told = connection.told().map_err(DatabaseError::Connection)?;
            (connection.system, told.directory.clone(), Some(told))
        }
    };
    let failed = |text: String| DatabaseError::Directory { path: directory.clone(), text };
    let directory = fs::canonicalize(&directory).map_err(|error| {
        let elsewhere = if told.is_some() { "is the server on another machine? " } else { "" };
        failed(format!("{elsewhere}{}", dio::file::words_of(&error)))
    })?;
    let server = server_of(system, &directory);
    let own_hits = told.as_ref().and_then(|told| told.own_hits);
    let (version, settings) = match told {
        Some(told) => told.settings,
        None => ask::settings(system, &directory, server.as_ref()).map_err(failed)?,
    };
    let data_disk = DiskFacts::of(&directory).map_err(failed)?;
    let log_directory =
        log_directory(system, &directory, settings.get("innodb_log_group_home_dir"));
    let log_disk = DiskFacts::of(&log_directory).unwrap_or_else(|_| data_disk.clone());
    let block = log_disk.physical_block;
    // Sessions come and go while the disks are looked at.
    let server = server_of(system, &directory);
    let session_bytes = server.as_ref().and_then(session_bytes);
    let load = match &server {
        Some(server) if !time.is_zero() => {
            watched(system, &directory, server, block, time, is_stopped)
                .map_err(|text| missing.push(format!("its load: {text}")))
                .ok()
        }
        Some(_) => None,
        None => {
            missing.push("its load: the server does not run".to_owned());
            None
        }
    };
    Ok(DatabaseFacts {
        system,
        version,
        files: files::sizes(system, &directory),
        settings,
        data_disk,
        log_disk,
        log_directory,
        memory: dio_common::memory::usable(0),
        processors: std::thread::available_parallelism().map_or(1, |count| count.get() as u32),
        session_bytes,
        load,
        own_hits,
        sync: None,
        directory,
        missing,
    })
}

/// The directory of the log, which may be on a disk of its own.
fn log_directory(system: DatabaseSystem, directory: &Path, redo: Option<&String>) -> PathBuf {
    match (system, redo.filter(|path| !path.is_empty())) {
        (DatabaseSystem::Postgresql, _) => directory.join("pg_wal"),
        (DatabaseSystem::Mariadb, Some(redo)) => directory.join(redo),
        (DatabaseSystem::Mariadb, None) => directory.to_owned(),
    }
}

fn watched(
    system: DatabaseSystem,
    directory: &Path,
    server: &ServerProcess,
    physical_block: u64,
    time: Duration,
    is_stopped: &dyn Fn() -> bool,
) -> Result<DatabaseLoad, String> {
    let mut sink = LoadSink::new(system, directory, physical_block);
    let processes = Subject::Processes(&server.all);
    attach(processes, Some(time), &mut sink, is_stopped).map_err(|error| error.to_string())?;
    Ok(sink.load())
}
