//! The verdict for people, on one screen.

use std::fmt::{self, Display, Formatter};

use dio::quote::printable;
use dio_common::units::{seconds, size};

use super::model::{Advised, Confidence, GroupAdvice, Prediction, WayEstimate};

/// So many groups of files are shown.
const GROUPS: usize = 4;

impl Advised {
    /// The words for it.
    pub fn words(self) -> &'static str {
        match self {
            Advised::Cached => "stay cached",
            Advised::AlreadyDirect => "direct already",
            Advised::Direct => "direct",
            Advised::Concurrent => "concurrent",
            Advised::Auto => "auto",
            Advised::Tool => "use the tool of dio",
            Advised::Mixed => "some direct, some cached",
            Advised::CannotTell => "cannot tell",
        }
    }

    /// Its name in the table of ways.
    fn name(self) -> &'static str {
        match self {
            Advised::Cached => "as it is",
            Advised::Tool => "dio's tool",
            Advised::Mixed => "as advised",
            other => other.words(),
        }
    }
}

impl Confidence {
    /// The words for it.
    pub fn words(self) -> &'static str {
        match self {
            Confidence::High => "sure",
            Confidence::Medium => "fairly sure",
            Confidence::Low => "not sure",
        }
    }
}

impl Display for Advised {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Display for Prediction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let verdict = &self.verdict;
        let confidence = verdict.confidence.words();
        let command = printable(&self.command.join(" ")).to_string();
        writeln!(f, "{command}: {} ({confidence})", verdict.way.words())?;
        verdict.why.iter().try_for_each(|line| writeln!(f, "  {line}"))?;
        verdict.apply.iter().try_for_each(|line| writeln!(f, "  {line}"))?;
        self.table(f)?;
        let large = || self.groups.iter().filter(|group| group.is_large);
        for group in large().take(GROUPS) {
            write!(f, "\n{group}")?;
        }
        if large().count() > GROUPS {
            writeln!(f, "\n{} more groups of files", large().count() - GROUPS)?;
        }
        self.missing.iter().try_for_each(|line| writeln!(f, "\n{line}"))
    }
}

impl Prediction {
    fn table(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "\n{:<12} {:>9}  {:<20}", "way", "expected", "range")?;
        writeln!(f, " {:>9} {:>12} {:>10}", "measured", "page cache", "processors")?;
        for way in &self.ways {
            way.row(f)?;
        }
        Ok(())
    }
}

impl WayEstimate {
    fn row(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let range = format!("{} to {}", seconds(self.low), seconds(self.high));
        write!(f, "{:<12} {:>9}  {range:<20}", self.way.name(), seconds(self.predicted_seconds))?;
        let measured = self.measured_seconds.map_or_else(String::new, seconds);
        let (cache, cpu) = (size(self.cache_bytes), seconds(self.cpu_seconds));
        writeln!(f, " {measured:>9} {cache:>12} {cpu:>10}")
    }
}

impl Display for GroupAdvice {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = printable(&self.files).to_string();
        write!(f, "{name}")?;
        if self.count > 1 {
            write!(f, " ({} files)", self.count)?;
        }
        writeln!(f, ": {}", self.way.words())?;
        writeln!(f, "  {}", self.evidence.join("; "))
    }
}
