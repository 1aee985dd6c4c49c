//! The decisions of the rules for each database, and what these rules share.

use super::facts::{DatabaseFacts, switch};
use super::files::FileClass;
use super::memory::MemoryPlan;
use super::model::Setting;
use super::system::DatabaseSystem;
use crate::predict::{Advised, Confidence};

/// The decisions of a database's rules.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) way: Advised,
    pub(super) confidence: Confidence,
    pub(super) why: Vec<String>,
    pub(super) settings: Vec<Setting>,
    pub(super) stay_cached: Vec<(String, String)>,
    pub(super) memory: MemoryPlan,
}

/// The settings that are looked at, as they are collected.
#[derive(Debug)]
pub(super) struct Settings<'a> {
    facts: &'a DatabaseFacts,
    pub(super) all: Vec<Setting>,
}

impl<'a> Settings<'a> {
    pub(super) fn of(facts: &'a DatabaseFacts) -> Settings<'a> {
        Settings { facts, all: Vec::new() }
    }

    /// Adds advice for a setting, unless this version has none of this name.
    pub(super) fn add(&mut self, name: &str, advised: impl Into<String>, why: impl Into<String>) {
        let Some(now) = self.facts.setting(name) else { return };
        let (now, advised) = (now.to_owned(), advised.into());
        let is_same = now.eq_ignore_ascii_case(&advised)
            || switch(&now).is_some_and(|on| switch(&advised) == Some(on));
        let advised = if is_same { now.clone() } else { advised };
        self.all.push(Setting { name: name.to_owned(), now, advised, why: why.into() });
    }

    /// Adds advice for a setting of bytes, which the server counts in units. A value within a fifth
    /// of what is advised stays as it is.
    pub(super) fn add_bytes(&mut self, name: &str, unit: u64, bytes: u64, why: impl Into<String>) {
        let Some(now) = self.facts.number(name) else { return };
        let now_bytes = now.saturating_mul(unit);
        let shown = self.shown(now_bytes);
        let is_near = now_bytes.abs_diff(bytes) <= bytes / 5;
        let advised = if is_near || bytes == 0 { shown.clone() } else { self.shown(bytes) };
        self.all.push(Setting { name: name.to_owned(), now: shown, advised, why: why.into() });
    }

    /// Bytes in the words of the server's file of settings.
    fn shown(&self, bytes: u64) -> String {
        let [kilo, mega, giga] = match self.facts.system {
            DatabaseSystem::Postgresql => ["kB", "MB", "GB"],
            DatabaseSystem::Mariadb => ["K", "M", "G"],
        };
        match bytes {
            bytes if bytes >= 1 << 30 && bytes % (1 << 30) == 0 => format!("{}{giga}", bytes >> 30),
            bytes if bytes >= 1 << 20 => format!("{}{mega}", bytes >> 20),
            bytes => format!("{}{kilo}", bytes >> 10),
        }
    }

    /// Takes over what `dio synctest` found for this server, as far as this version has it.
    pub(super) fn add_sync(&mut self, is_known: impl Fn(&str) -> bool) {
        let Some(sync) = &self.facts.sync else { return };
        let why = sync.why.first().cloned().unwrap_or_default();
        for line in &sync.settings {
            let Some((name, value)) = line.split_once('=') else { continue };
            // A remark in parentheses follows some.
            let value = value.split('(').next().unwrap_or_default().trim();
            let name = name.trim();
            if is_known(name) {
                self.add(name, value, format!("dio synctest: {why}"));
            }
        }
    }
}

/// A line about the size of the writes to the log, and whether they are whole blocks of the disk.
pub(super) fn log_line(facts: &DatabaseFacts) -> Option<String> {
    let disk = &facts.log_disk;
    let blocks =
        format!("blocks of {} bytes ({} within the disk)", disk.logical_block, disk.physical_block);
    let log = facts.load.as_ref()?.of(FileClass::Log);
    let each = log.written_bytes.checked_div(log.writes)?;
    Some(if log.misaligned_writes * 50 > log.writes {
        format!(
            "{} of {} writes to the log begin or end within one of the disk's {blocks}: the disk \
             reads, patches and writes it, or the kernel does",
            log.misaligned_writes, log.writes
        )
    } else {
        format!(
            "the log is written in whole {blocks}: {} writes of {} each, {} syncs",
            log.writes,
            dio_common::units::size(each),
            log.syncs
        )
    })
}
