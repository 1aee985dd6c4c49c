//! The databases.

use serde::{Deserialize, Serialize};

/// The databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
