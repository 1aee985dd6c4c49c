//! Asks a server that runs, through the client programs of its developers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::ask::{Settings, version_in};
use super::system::DatabaseSystem;

/// A running server, as its clients name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Which database.
    pub system: DatabaseSystem,
    /// For `psql`, the connection string; for `mariadb`, the words of its command line.
    words: Vec<String>,
    /// The password for `mariadb`, which other users could see among the words.
    password: Option<String>,
}

/// Facts that a server tells of itself.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) settings: Settings,
    /// The directory of its data, on its machine.
    pub(super) directory: PathBuf,
    /// The part of reads that its own cache had.
    pub(super) own_hits: Option<f64>,
}

impl Connection {
    /// Understands a URI: `postgresql://…` or a string of libpq's with `=`; or
    /// `mariadb://USER[:PASSWORD]@HOST[:PORT]`, `mariadb://USER@/PATH/OF/SOCKET`.
    ///
    /// # Errors
    /// A text that says what is possible.
    ///
    /// ```
    /// use dio_advise::database::{Connection, DatabaseSystem};
    ///
    /// let one = Connection::of("postgresql:///shop?host=/run/postgresql").unwrap();
    /// assert_eq!(one.system, DatabaseSystem::Postgresql);
    /// let one = Connection::of("mariadb://root@/run/mysqld/mysqld.sock").unwrap();
    /// assert_eq!(one.system, DatabaseSystem::Mariadb);
    /// assert!(Connection::of("shop").is_err());
    /// ```
    pub fn of(text: &str) -> Result<Connection, String> {
        let postgresql = ["postgresql://", "postgres://"];
        if postgresql.iter().any(|scheme| text.starts_with(scheme))
            || (!text.contains("://") && text.contains('='))
        {
            let (system, words) = (DatabaseSystem::Postgresql, vec![text.to_owned()]);
            return Ok(Connection { system, words, password: None });
        }
        let rest = text.strip_prefix("mariadb://").or_else(|| text.strip_prefix("mysql://"));
        let rest = rest.ok_or(
            "a connection begins with postgresql:// or mariadb://, or is a string like \
             'host=db user=me'",
        )?;
        let (user, place) = rest.rsplit_once('@').unwrap_or(("", rest));
        let (user, password) = match user.split_once(':') {
            Some((user, password)) => (user, Some(password.to_owned())),
            None => (user, None),
        };
        let mut words = Vec::new();
        if !user.is_empty() {
            words.push(format!("--user={user}"));
        }
        if place.starts_with('/') {
            words.push(format!("--socket={place}"));
        } else if !place.is_empty() {
            let place = place.split('/').next().unwrap_or_default();
            let (host, port) = match place.rsplit_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (place, None),
            };
            words.push(format!("--host={host}"));
            words.extend(port.map(|port| format!("--port={port}")));
        }
        Ok(Connection { system: DatabaseSystem::Mariadb, words, password })
    }

    /// The rows of a query, with fields separated by tabs.
    fn rows(&self, query: &str) -> Result<String, String> {
        let (program, mut command) = match self.system {
            DatabaseSystem::Postgresql => {
                let mut psql = Command::new("psql");
                psql.args(["-X", "-w", "-A", "-t", "-F", "\t", "-c", query, "-d"]);
                ("psql", psql)
            }
            DatabaseSystem::Mariadb => {
                let mut mariadb = Command::new("mariadb");
                mariadb.args(["--batch", "--skip-column-names", "-e", query]);
                if let Some(password) = &self.password {
                    mariadb.env("MYSQL_PWD", password);
                }
                ("mariadb", mariadb)
            }
        };
        let output = command.args(&self.words).stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("cannot run '{program}': {error}"))?;
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if !output.status.success() {
            return Err(format!("{program}: {}", said(&output.stderr)));
        }
        Ok(said(&output.stdout))
    }

    pub(super) fn told(&self) -> Result<Told, String> {
        let (all, version, hits) = match self.system {
            DatabaseSystem::Postgresql => (
                "SELECT name, setting FROM pg_settings",
                "SHOW server_version",
                "SELECT sum(blks_read), sum(blks_hit) FROM pg_stat_database",
            ),
            DatabaseSystem::Mariadb => (
                "SHOW GLOBAL VARIABLES",
                "SELECT VERSION()",
                "SELECT MAX(CASE WHEN VARIABLE_NAME = 'INNODB_BUFFER_POOL_READS' THEN \
                 VARIABLE_VALUE END), MAX(CASE WHEN VARIABLE_NAME = \
                 'INNODB_BUFFER_POOL_READ_REQUESTS' THEN VARIABLE_VALUE END) FROM \
                 information_schema.GLOBAL_STATUS",
            ),
        };
        let rows = self.rows(all)?;
        let settings: BTreeMap<String, String> = rows
            .lines()
            .filter_map(|row| row.split_once('\t'))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let directory = match self.system {
            DatabaseSystem::Postgresql => "data_directory",
            DatabaseSystem::Mariadb => "datadir",
        };
        let directory = settings.get(directory).map(PathBuf::from).ok_or(
            "the server does not tell where its data are: that needs the rights of a superuser, \
             or of pg_read_all_settings",
        )?;
        let version = version_in(&self.rows(version)?);
        let own_hits = self.rows(hits).ok().and_then(|row| part_of_hits(self.system, &row));
        Ok(Told { settings: (version, settings), directory, own_hits })
    }
}

/// The part of reads that a cache had: PostgreSQL counts misses and hits, MariaDB misses and all.
fn part_of_hits(system: DatabaseSystem, row: &str) -> Option<f64> {
    let (misses, other) = row.split_once('\t')?;
    let (misses, other): (f64, f64) = (misses.trim().parse().ok()?, other.trim().parse().ok()?);
    let all = if system == DatabaseSystem::Postgresql { misses + other } else { other };
    (all > 0.0).then(|| 1.0 - (misses / all).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_understood() {
        let words = |text: &str| Connection::of(text).unwrap().words;
        assert_eq!(words("host=/run user=me"), ["host=/run user=me"]);
        let one = Connection::of("mariadb://me:a:b@db:3307/shop").unwrap();
        assert_eq!(one.words, ["--user=me", "--host=db", "--port=3307"]);
        assert_eq!(one.password.as_deref(), Some("a:b"));
        assert_eq!(words("mysql:///run/sock"), ["--socket=/run/sock"]);
        assert!(Connection::of("/var/lib/mysql").is_err());
    }

    #[test]
    fn hits_are_counted_as_each_server_does() {
        assert_eq!(part_of_hits(DatabaseSystem::Postgresql, "1\t3"), Some(0.75));
        assert_eq!(part_of_hits(DatabaseSystem::Mariadb, "1\t4"), Some(0.75));
        assert_eq!(part_of_hits(DatabaseSystem::Mariadb, "\t"), None);
    }
}
