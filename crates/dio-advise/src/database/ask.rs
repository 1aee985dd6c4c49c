//! Asks the program of a server for the settings that it would run with.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use dio_common::processes;

use super::process::{ServerProcess, existing};
use super::system::DatabaseSystem;

/// Directories of servers that are not in `PATH`.
const BESIDE_PATH: &[&str] = &["/usr/sbin", "/usr/libexec"];

/// The settings of PostgreSQL that the rules look at: each is a question of its own. A version that
/// lacks one does not answer.
const POSTGRESQL: [&str; 17] = [
    "shared_buffers",
    "block_size",
    "work_mem",
    "effective_cache_size",
    "effective_io_concurrency",
    "random_page_cost",
    "fsync",
    "full_page_writes",
    "wal_sync_method",
    "wal_init_zero",
    "wal_recycle",
    "max_wal_size",
    "max_wal_senders",
    "checkpoint_timeout",
    "archive_mode",
    "io_workers",
    "debug_io_direct",
];

/// The version of a server, and its settings.
pub(super) type Settings = ((u32, u32), BTreeMap<String, String>);

/// Asks the server's program.
///
/// # Errors
/// A text that says what is missing, and how it is had.
pub(super) fn settings(
    system: DatabaseSystem,
    directory: &Path,
    server: Option<&ServerProcess>,
) -> Result<Settings, String> {
    match system {
        DatabaseSystem::Postgresql => of_postgresql(directory, server),
        DatabaseSystem::Mariadb => of_mariadb(directory, server),
    }
}

fn output(command: &mut Command) -> Option<Output> {
    let output = command.stdin(Stdio::null()).env("LC_ALL", "C").output().ok()?;
    output.status.success().then_some(output)
}

fn of_postgresql(directory: &Path, server: Option<&ServerProcess>) -> Result<Settings, String> {
    let version_file = directory.join("PG_VERSION");
    let text = fs::read_to_string(&version_file).map_err(|error| {
        format!("it has no PG_VERSION, as a directory of PostgreSQL has: {error}")
    })?;
    let major = text.trim();
    let program = server
        .and_then(|server| existing(&server.program))
        .or_else(|| existing(format!("/usr/lib/postgresql/{major}/bin/postgres")))
        .or_else(|| processes::program("postgres", BESIDE_PATH))
        .ok_or_else(|| {
            format!(
                "the server's program is not here: install PostgreSQL {major}, or give a \
                     connection"
            )
        })?;
    let arguments = server_arguments(directory, major);
    let ask = |name: &&str| {
        let mut command = Command::new(&program);
        let output = output(command.args(["-C", name]).args(&arguments))?;
        Some(((*name).to_owned(), String::from_utf8_lossy(&output.stdout).trim().to_owned()))
    };
    let settings: BTreeMap<String, String> = POSTGRESQL.iter().filter_map(ask).collect();
    if settings.is_empty() {
        return Err(format!(
            "{} -C does not tell its settings: is it of version {major}, and are the \
             files of settings readable? A connection tells them too",
            program.display()
        ));
    }
    let mut version = Command::new(&program);
    let said = output(version.arg("--version"));
    let said = said.map(|said| String::from_utf8_lossy(&said.stdout).into_owned());
    Ok((version_in(said.as_deref().unwrap_or(major)), settings))
}

/// The words that a server of the directory was started with last, or would be.
fn server_arguments(directory: &Path, major: &str) -> Vec<String> {
    // One line: the program, and words in quotation marks.
    let last = fs::read_to_string(directory.join("postmaster.opts")).unwrap_or_default();
    let words: Vec<String> = last.split('"').skip(1).step_by(2).map(str::to_owned).collect();
    if words.iter().any(|word| word == "-D") {
        return words;
    }
    let mut arguments = vec!["-D".to_owned(), directory.display().to_string()];
    if !directory.join("postgresql.conf").exists() {
        let config = debian_settings(directory, major);
        arguments.extend(config.map(|path| format!("--config_file={}", path.display())));
    }
    arguments
}

/// The file of settings of a directory that Debian's programs have made.
fn debian_settings(directory: &Path, major: &str) -> Option<PathBuf> {
    let clusters = fs::read_dir(format!("/etc/postgresql/{major}")).ok()?;
    let files = clusters.flatten().map(|cluster| cluster.path().join("postgresql.conf"));
    let named = directory.display().to_string();
    files.into_iter().find(|file| {
        let text = fs::read_to_string(file).unwrap_or_default();
        text.lines().any(|line| line.starts_with("data_directory") && line.contains(&named))
    })
}

fn of_mariadb(directory: &Path, server: Option<&ServerProcess>) -> Result<Settings, String> {
    let program = server
        .and_then(|server| existing(&server.program))
        .or_else(|| processes::program("mariadbd", BESIDE_PATH))
        .or_else(|| processes::program("mysqld", BESIDE_PATH))
        .ok_or("the server's program is not here: install MariaDB, or give a connection")?;
    let mut command = Command::new(&program);
    match server {
        Some(server) => command.args(&server.arguments),
        None => command.arg(format!("--datadir={}", directory.display())),
    };
    let said = output(command.args(["--verbose", "--help"]));
    let said = said.ok_or_else(|| {
        format!("{} --verbose --help does not tell its settings", program.display())
    })?;
    let said = String::from_utf8_lossy(&said.stdout);
    let version = said.lines().find(|line| line.contains(" Ver ")).unwrap_or_default();
    Ok((version_in(version), table_in(&said)))
}

/// The table of settings in what `mariadbd --verbose --help` prints: a name and a value a line,
/// after a line of dashes.
fn table_in(said: &str) -> BTreeMap<String, String> {
    let lines = said.lines().skip_while(|line| !line.starts_with("-----"));
    let table = lines.skip(1).take_while(|line| !line.is_empty());
    let setting = |line: &str| {
        let (name, value) = line.split_once(char::is_whitespace)?;
        let value = value.trim();
        let value = if value == "(No default value)" { "" } else { value };
        Some((name.replace('-', "_"), value.to_owned()))
    };
    table.filter_map(setting).collect()
}

/// The first two numbers of a version in a text.
pub(super) fn version_in(text: &str) -> (u32, u32) {
    let is_number = |word: &&str| word.starts_with(|one: char| one.is_ascii_digit());
    let Some(word) = text.split_whitespace().find(is_number) else { return (0, 0) };
    let mut numbers = word.split(|one: char| !one.is_ascii_digit()).map(str::parse::<u32>);
    let mut next = || numbers.next().and_then(Result::ok).unwrap_or(0);
    (next(), next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_programs_say() {
        assert_eq!(version_in("postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)"), (15, 14));
        assert_eq!(version_in("mariadbd  Ver 10.11.6-MariaDB-0+deb12u1 for debian"), (10, 11));
        assert_eq!(version_in("18beta1"), (18, 0));
        assert_eq!(version_in("none"), (0, 0));
    }

    #[test]
    fn the_table_of_mariadb_is_read() {
        let said = "mariadbd  Ver 10.11.6\n\nVariables (--variable-name=value)\nand boolean\n\
                    ----------------------- ---------\ninnodb-flush-method     O_DIRECT\n\
                    innodb-data-home-dir    (No default value)\n\nTo see\nmore  here\n";
        let table = table_in(said);
        assert_eq!(table.len(), 2);
        assert_eq!(table["innodb_flush_method"], "O_DIRECT");
        assert_eq!(table["innodb_data_home_dir"], "");
    }

    #[test]
    fn the_words_of_the_last_start_are_used_again() {
        let dir = tempfile::tempdir().unwrap();
        let arguments = server_arguments(dir.path(), "15");
        assert_eq!(arguments, ["-D", dir.path().to_str().unwrap()]);
        let line = "/bin/postgres \"-D\" \"/srv/a b\" \"-c\" \"config_file=/etc/x.conf\"\n";
        fs::write(dir.path().join("postmaster.opts"), line).unwrap();
        let arguments = server_arguments(dir.path(), "15");
        assert_eq!(arguments, ["-D", "/srv/a b", "-c", "config_file=/etc/x.conf"]);
    }
}
