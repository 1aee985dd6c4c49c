//! The supported databases, and the measurements that a user asks for.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::client::REPORT_INTERVAL;
use crate::BenchError;
use crate::study::Contender;

/// The databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DatabaseSystem {
    /// MariaDB with InnoDB, loaded by sysbench.
    Mariadb,
    /// PostgreSQL, loaded by pgbench.
    Postgresql,
}

impl DatabaseSystem {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            DatabaseSystem::Mariadb => "MariaDB",
            DatabaseSystem::Postgresql => "PostgreSQL",
        }
    }

    /// The kinds of storage that it can use.
    pub fn contenders(self) -> Vec<Contender> {
        let can = |contender: &Contender| match self {
            DatabaseSystem::Mariadb => true,
            // PostgreSQL has no direct I/O of its own for tables, and cannot put tables on devices.
            DatabaseSystem::Postgresql => !matches!(contender, Contender::Raw | Contender::Bare),
        };
        Contender::ALL.into_iter().filter(can).collect()
    }

    /// The default script of sysbench or pgbench.
    pub fn workload(self) -> &'static str {
        match self {
            DatabaseSystem::Mariadb => "oltp_update_non_index",
            DatabaseSystem::Postgresql => "tpcb-like",
        }
    }
}

/// The measurements to make.
#[derive(Clone, Debug)]
pub struct DatabasePlan {
    /// The database.
    pub kind: DatabaseSystem,
    /// The kinds of storage to compare.
    pub contenders: Vec<Contender>,
    /// Scripts of the load generator.
    pub workloads: Vec<String>,
    /// A block device whose contents are overwritten; `None` uses a new loop device.
    pub raw: Option<PathBuf>,
    /// The directory in which files are made.
    pub directory: PathBuf,
    /// Bytes of data, about.
    pub size: u64,
    /// Bytes of the database's own cache: one study for each.
    pub pools: Vec<u64>,
    /// Number of clients.
    pub clients: usize,
    /// Length of the load that warms the server up and is not measured.
    pub ramp_up: Duration,
    /// Length of the measured load.
    pub steady: Duration,
    /// Runs of each contender, in turns.
    pub rounds: usize,
    /// Whether mounts whose writes need not take turns receive their requests by io_uring.
    pub io_uring: bool,
    /// More options of all mounts.
    pub mount_options: Vec<String>,
    /// Bytes of memory that the database, its clients and the mount may use, page cache included.
    pub memory: Option<u64>,
    /// The program that mounts: `dio`.
    pub program: PathBuf,
}

impl DatabasePlan {
    pub(super) fn check(&self) -> Result<(), BenchError> {
        let asked = |text: String| Err(BenchError::Asked(text));
        let possible = self.kind.contenders();
        if let Some(contender) =
            self.contenders.iter().find(|contender| !possible.contains(contender))
        {
            let text = format!(
                "{} cannot use '{}': it has no direct I/O of its own",
                self.kind.name(),
                contender.name()
            );
            return asked(text);
        }
        let empty =
            self.contenders.is_empty() || self.workloads.is_empty() || self.pools.is_empty();
        if empty || self.clients == 0 || self.rounds == 0 {
            return asked(
                "storages, workloads, caches, clients and rounds must be positive".to_owned(),
            );
        }
        if self.steady < REPORT_INTERVAL
            || self.steady.subsec_nanos() > 0
            || self.ramp_up.subsec_nanos() > 0
        {
            return asked(
                "the load and its ramp-up last whole seconds, the load at least one".to_owned(),
            );
        }
        if let Some(pool) =
            self.pools.iter().find(|pool| self.memory.is_some_and(|memory| **pool >= memory))
        {
            return asked(format!(
                "a cache of {pool} bytes does not fit into the memory that is allowed"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> DatabasePlan {
        DatabasePlan {
            kind: DatabaseSystem::Postgresql,
            contenders: DatabaseSystem::Postgresql.contenders(),
            workloads: vec!["tpcb-like".to_owned()],
            raw: None,
            directory: PathBuf::from("."),
            size: 64 << 20,
            pools: vec![16 << 20],
            clients: 2,
            ramp_up: Duration::ZERO,
            steady: REPORT_INTERVAL,
            rounds: 1,
            io_uring: false,
            mount_options: Vec::new(),
            memory: None,
            program: PathBuf::from("dio"),
        }
    }

    #[test]
    fn what_makes_no_study_is_refused() {
        let said = |change: fn(&mut DatabasePlan)| {
            let mut plan = plan();
            change(&mut plan);
            plan.check().map_err(|error| error.to_string())
        };
        assert_eq!(said(|_| ()), Ok(()));
        assert!(
            said(|plan| plan.contenders.push(Contender::Raw))
                .unwrap_err()
                .contains("cannot use 'raw'")
        );
        assert!(
            said(|plan| plan.steady = Duration::from_millis(1500))
                .unwrap_err()
                .contains("whole seconds")
        );
        assert!(said(|plan| plan.rounds = 0).unwrap_err().contains("positive"));
        assert!(said(|plan| plan.memory = Some(16 << 20)).unwrap_err().contains("does not fit"));
        assert_eq!(DatabaseSystem::Mariadb.contenders(), Contender::ALL);
    }
}
