//! Puts the advice for a database together.

use super::facts::DatabaseFacts;
use super::model::{DatabaseAdvice, Setting};
use super::rules::Rules;
use super::system::DatabaseSystem;
use super::{mariadb, postgresql};
use crate::predict::{Advised, Verdict};

impl DatabaseFacts {
    /// Advice for so many clients at once.
    pub fn advise(&self, clients: u64) -> DatabaseAdvice {
        self.advise_by(clients, None)
    }

    /// As [`DatabaseFacts::advise`], for a way that was measured to be the best.
    pub(super) fn advise_by(&self, clients: u64, way: Option<Advised>) -> DatabaseAdvice {
        let rules = match self.system {
            DatabaseSystem::Postgresql => postgresql::rules(self, clients),
            DatabaseSystem::Mariadb => mariadb::rules(self, clients, way),
        };
        let mut missing = self.missing.clone();
        if self.sync.is_none() {
            missing.push("which method of syncing suits the disk: see `dio synctest`".to_owned());
        }
        if let Some(load) = &self.load {
            if load.unseen > 0 {
                missing.push(format!(
                    "{} calls began I/O by io_uring or io_submit, which is not in the load",
                    load.unseen
                ));
            }
            if load.lost > 0 {
                missing.push(format!("{} calls came faster than they were counted", load.lost));
            }
        }
        let apply = self.fragment(&rules, clients);
        let Rules { way, confidence, why, settings, stay_cached, memory } = rules;
        DatabaseAdvice {
            system: self.system,
            version: format!("{}.{}", self.version.0, self.version.1),
            directory: self.directory.clone(),
            verdict: Verdict { way, confidence, apply, why },
            ways: Vec::new(),
            settings,
            stay_cached,
            memory,
            load: self.load.clone(),
            missing,
        }
    }

    /// The lines of the file of settings that are to be changed, each after its reason.
    fn fragment(&self, rules: &Rules, clients: u64) -> Vec<String> {
        let changes: Vec<&Setting> =
            rules.settings.iter().filter(|setting| setting.is_change()).collect();
        if changes.is_empty() {
            return Vec::new();
        }
        let mut lines = match self.system {
            DatabaseSystem::Postgresql => vec![format!("# postgresql.conf, {clients} clients")],
            DatabaseSystem::Mariadb => {
                vec![format!("# my.cnf, {clients} clients"), "[mariadbd]".to_owned()]
            }
        };
        for Setting { name, now, advised, why } in changes {
            lines.push(format!("# {why} (now {now})"));
            lines.push(format!("{name} = {advised}"));
        }
        lines
    }
}
