//! The advice for a database.

use dio_advise::database::{DatabaseAdvice, DatabaseWay, MemoryRow, Setting};

use crate::plot::{Dot, Plot};
use crate::quantity::Unit;
use crate::section::{Benchmark, Block, Finding, Rows, Section, Table};

impl Benchmark for DatabaseAdvice {
    const NAME: &'static str = "advise database";
    const FIELDS: &'static [&'static str] = &["verdict", "stay_cached", "memory"];

    fn section(&self) -> Section {
        let verdict = &self.verdict;
        let mut findings =
            vec![Finding::new("verdict", verdict.way.words(), verdict.confidence.words())];
        let changes = self.settings.iter().filter(|setting| setting.is_change());
        findings.extend(changes.map(|setting| {
            Finding::new(&*setting.name, &*setting.advised, format!("now {}", setting.now))
        }));
        let mut blocks: Vec<Block> = verdict.why.iter().cloned().map(Block::Text).collect();
        if !self.ways.is_empty() {
            blocks.push(Block::Plots(vec![reached(&self.ways)]));
        }
        blocks.push(Block::Table(settings(&self.settings)));
        blocks.push(Block::Table(memory(&self.memory.rows)));
        blocks.push(Block::Table(stay_cached(&self.stay_cached)));
        let name = self.system.name();
        Section {
            id: "advise-database".to_owned(),
            title: format!("{name} {} in {}", self.version, self.directory.display()),
            lead: "Which settings suit the database's disk, its memory and its load.".to_owned(),
            findings,
            blocks,
            notes: self.missing.clone(),
            ..Section::default()
        }
    }
}

fn settings(settings: &[Setting]) -> Table {
    Rows::new(("settings", "setting"), "The settings", settings, |one| one.name.clone())
        .words("now", |one| one.now.clone())
        .words("advised", |one| one.advised.clone())
        .words("why", |one| one.why.clone())
        .table()
}

fn memory(rows: &[MemoryRow]) -> Table {
    let caption = "How memory is divided, by the number of clients";
    Rows::new(("memory", "clients"), caption, rows, |row| row.clients.to_string())
        .column("own cache", Unit::Bytes, |row| row.own_cache)
        .column("sessions", Unit::Bytes, |row| row.sessions)
        .column("page cache", Unit::Bytes, |row| row.page_cache)
        .column("system", Unit::Bytes, |row| row.system)
        .table()
}

fn stay_cached(files: &[(String, String)]) -> Table {
    let caption = "Files to leave to the page cache, also where the rest is direct";
    Rows::new(("cached", "files"), caption, files, |(files, _)| files.clone())
        .words("why", |(_, why)| why.clone())
        .table()
}

fn reached(ways: &[DatabaseWay]) -> Plot {
    let dot = |way: &DatabaseWay| {
        let cache = dio_common::units::size(way.own_cache);
        let name = format!("{}, own cache of {cache}", way.way.words());
        Dot::new(name, 4, way.measured_tps.into_iter().collect())
    };
    let about = "Transactions a second of a small database with each; further right is better.";
    let dots = ways.iter().map(dot).collect();
    Plot::dots("reached", "What each way reaches", about, Unit::PerSecond, dots)
}
