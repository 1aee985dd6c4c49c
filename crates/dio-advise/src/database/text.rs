//! Advice for a database, for people.

use std::fmt::{self, Display, Formatter};

use dio::quote::printable;
use dio_common::units::{seconds, size};

use super::model::{DatabaseAdvice, DatabaseWay};

impl Display for DatabaseAdvice {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let verdict = &self.verdict;
        let directory = self.directory.display().to_string();
        writeln!(
            f,
            "{} {} in {}: {} ({})",
            self.system.name(),
            self.version,
            printable(&directory),
            verdict.way.words(),
            verdict.confidence.words()
        )?;
        verdict.why.iter().try_for_each(|line| writeln!(f, "  {line}"))?;
        if verdict.apply.is_empty() {
            writeln!(f, "\nThe settings that were looked at are right.")?;
        } else {
            writeln!(f)?;
            verdict.apply.iter().try_for_each(|line| writeln!(f, "{}", printable(line)))?;
        }
        let stays: Vec<&str> = self
            .settings
            .iter()
            .filter(|setting| !setting.is_change())
            .map(|setting| setting.name.as_str())
            .collect();
        if !stays.is_empty() {
            writeln!(f, "# as they are: {}", stays.join(", "))?;
        }
        self.memory_table(f)?;
        self.measured(f)?;
        writeln!(f, "\nLeave to the page cache, also where the rest is direct:")?;
        for (files, why) in &self.stay_cached {
            writeln!(f, "  {files}: {why}")?;
        }
        self.loads(f)?;
        if !self.missing.is_empty() {
            writeln!(f, "\nNot known:")?;
        }
        self.missing.iter().try_for_each(|line| writeln!(f, "  {}", printable(line)))
    }
}

impl DatabaseAdvice {
    fn memory_table(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let plan = &self.memory;
        let how = if plan.is_measured { "measured" } else { "by its settings" };
        writeln!(
            f,
            "\nMemory, of {}, with {} for a session ({how}):",
            size(plan.total),
            size(plan.session)
        )?;
        writeln!(
            f,
            "{:>9} {:>11} {:>11} {:>11} {:>11}",
            "clients", "own cache", "sessions", "page cache", "system"
        )?;
        for row in &plan.rows {
            let own = match row.own_cache {
                0 => "none".to_owned(),
                bytes => size(bytes),
            };
            writeln!(
                f,
                "{:>9} {own:>11} {:>11} {:>11} {:>11}",
                row.clients,
                size(row.sessions),
                size(row.page_cache),
                size(row.system)
            )?;
        }
        if plan.rows.iter().any(|row| row.own_cache == 0) {
            writeln!(f, "So many sessions leave nothing: let them share connections (a pooler).")?;
        }
        Ok(())
    }

    fn measured(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.ways.is_empty() {
            return Ok(());
        }
        writeln!(f, "\n{:<12} {:>11} {:>14} {:>14}", "way", "own cache", "transactions", "each")?;
        self.ways.iter().try_for_each(|way| way.row(f))
    }

    fn loads(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(load) = &self.load else { return Ok(()) };
        writeln!(f, "\nIts load of {}:", seconds(load.seconds))?;
        if load.classes.is_empty() {
            writeln!(f, "  no requests to its files")?;
        }
        for (class, counted) in &load.classes {
            let cached = counted.cached_part().filter(|_| counted.direct == 0);
            let cached = cached.map_or_else(String::new, |part| {
                format!(" ({:.0} % in the page cache)", part * 100.0)
            });
            let direct = if counted.direct > 0 {
                format!(", {} direct", counted.direct)
            } else {
                String::new()
            };
            writeln!(
                f,
                "  {}: {} read by {} calls{cached}, {} written by {} calls, {} syncs{direct}",
                class.name(),
                size(counted.read_bytes),
                counted.reads,
                size(counted.written_bytes),
                counted.writes,
                counted.syncs
            )?;
        }
        Ok(())
    }
}

impl DatabaseWay {
    fn row(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let tps = self.measured_tps.map_or_else(|| "-".to_owned(), |tps| format!("{tps:.0}/s"));
        let each = self.measured_seconds.map_or_else(|| "-".to_owned(), seconds);
        writeln!(f, "{:<12} {:>11} {tps:>14} {each:>14}", self.way.words(), size(self.own_cache))
    }
}
