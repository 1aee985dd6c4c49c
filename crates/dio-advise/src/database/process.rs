//! The processes of a server that runs.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use dio_common::processes;

use super::system::DatabaseSystem;

/// A server that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerProcess {
    /// Its first process.
    pub(super) pid: u32,
    /// All of them.
    pub(super) all: Vec<u32>,
    /// The program.
    pub(super) program: PathBuf,
    /// The words of its command line behind the program.
    pub(super) arguments: Vec<OsString>,
}

/// The programs of a server.
fn is_program(system: DatabaseSystem, name: &str) -> bool {
    match system {
        DatabaseSystem::Postgresql => matches!(name, "postgres" | "postmaster"),
        DatabaseSystem::Mariadb => matches!(name, "mariadbd" | "mysqld"),
    }
}

/// The server of a directory: both databases work in the directory of their data.
pub(super) fn server_of(system: DatabaseSystem, directory: &Path) -> Option<ServerProcess> {
    let directory = fs::canonicalize(directory).ok()?;
    let mut parents = BTreeMap::new();
    for pid in processes::ids().into_iter().flatten() {
        let link = |name: &str| fs::read_link(format!("/proc/{pid}/{name}")).ok();
        let program = link("exe");
        let name = program.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
        // A program that was replaced meanwhile is named so.
        let name = name.unwrap_or_default().trim_end_matches(" (deleted)").to_owned();
        if is_program(system, &name) && link("cwd").is_some_and(|cwd| cwd == directory) {
            parents.insert(pid, parent_of(pid).unwrap_or(0));
        }
    }
    // The first one was not made by another one of them.
    let pid = *parents.iter().find(|(_, parent)| !parents.contains_key(parent))?.0;
    let program = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let words = processes::command_line(pid).into_iter().filter(|word| !word.is_empty());
    let arguments = words.skip(1).map(OsString::from_vec).collect();
    Some(ServerProcess { pid, all: parents.into_keys().collect(), program, arguments })
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    processes::stat_fields(&stat, 4)?.next()?.parse().ok()
}

/// Bytes that a session of PostgreSQL has for itself, in the median of those that are connected.
pub(super) fn session_bytes(server: &ServerProcess) -> Option<u64> {
    let is_session = |pid: &&u32| {
        let title = processes::command_line(**pid).join(&b' ');
        let title = String::from_utf8_lossy(&title);
        let Some(of) = title.strip_prefix("postgres: ") else { return false };
        const SERVICES: [&str; 11] = [
            "checkpointer",
            "background writer",
            "walwriter",
            "autovacuum",
            "logical replication",
            "stats collector",
            "archiver",
            "startup",
            "io worker",
            "walsender",
            "logger",
        ];
        !SERVICES.iter().any(|service| of.contains(service))
    };
    let mut own: Vec<u64> = server.all.iter().filter(is_session).filter_map(private).collect();
    own.sort_unstable();
    own.get(own.len() / 2).copied()
}

/// Bytes of memory of a process that no other one shares.
fn private(pid: &u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let kibibytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    Some((kibibytes("Private_Clean:")? + kibibytes("Private_Dirty:")?) * 1024)
}

/// A path, if a file is there.
pub(super) fn existing(path: impl Into<PathBuf>) -> Option<PathBuf> {
    let path = path.into();
    path.is_file().then_some(path)
}
