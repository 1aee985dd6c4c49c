//! The databases.

use serde::Serialize;

/// The databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DatabaseSystem {
    /// PostgreSQL.
    Postgresql,
    /// MariaDB, with InnoDB for most of its tables.
    Mariadb,
}

impl DatabaseSystem {
    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            DatabaseSystem::Postgresql => "PostgreSQL",
            DatabaseSystem::Mariadb => "MariaDB",
        }
    }
}
