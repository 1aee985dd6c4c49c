//! The whole result, as a table.

use std::path::PathBuf;

use serde::Serialize;

use super::advice::Advice;
use super::case::{Case, Descriptor, Section, Sharing};
use super::facts::Facts;
use super::judge::{Confidence, Evidence, Honesty, Verdict};
use super::sweep::Measured;
use super::work::{Figures, Outcome};
use crate::environment::Environment;
use crate::table::Table;
use dio_common::units::{seconds, size};

/// One case and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What was measured.
    pub case: Case,
    /// What came of it.
    pub outcome: Outcome,
}

/// Everything that was found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The path as given.
    pub path: PathBuf,
    /// The machine and the storage.
    pub environment: Environment,
    /// What the kernel says about the storage.
    pub storage: Facts,
    /// Seconds of each case.
    pub seconds: f64,
    /// Rounds that this time is divided into; all cases of a section are measured in each.
    pub rounds: u32,
    /// Whether it was stopped before its end.
    pub interrupted: bool,
    /// The cases, in the order they were measured in.
    pub rows: Vec<Row>,
    /// What was measured of flushes; `None` if that was not asked for, or not come to.
    pub flushes: Option<Measured>,
    /// What is said of the disk.
    pub honesty: Option<Honesty>,
    /// Settings that follow.
    pub advice: Vec<Advice>,
}

impl Report {
    /// Whether something that was to be measured failed, refusals not counted.
    pub fn has_failed(&self) -> bool {
        self.rows.iter().any(|row| matches!(row.outcome, Outcome::Failed(_)))
    }

    /// The report for people.
    pub fn text(&self) -> String {
        let mut text = self.environment.text();
        let rounds = match self.rounds {
            1 => ", in one round: how far figures vary is not known".to_owned(),
            rounds => format!(", in {rounds} rounds"),
        };
        text.push_str(&format!("{}: {} s for each line{rounds}\n", self.path.display(), self.seconds));
        let mut sections: Vec<Section> = self.rows.iter().map(|row| row.case.section).collect();
        sections.dedup();
        for section in sections {
            let rows: Vec<&Row> = self.rows.iter().filter(|row| row.case.section == section).collect();
            let table = table_of(&rows, self.storage.buffers_direct_writes);
            text.push_str(&format!("\n{}\n{table}", section.heading()));
        }
        if self.interrupted {
            text.push_str("\ninterrupted: what follows rests on what was measured until then\n");
        }
        if let Some(honesty) = &self.honesty {
            text.push_str(&honesty_text(honesty));
        }
        if self.honesty.as_ref().is_some_and(Honesty::leaves_no_setting) {
            text.push_str("\nno settings: none makes a commit durable here\n");
        }
        for advice in &self.advice {
            text.push_str(&format!("\nfor {}\n", advice.program));
            advice.settings.iter().for_each(|setting| text.push_str(&format!("    {setting}\n")));
            advice.why.iter().for_each(|why| text.push_str(&format!("  - {why}\n")));
        }
        text
    }
}

fn table_of(rows: &[&Row], buffers: bool) -> String {
    let mut table = Table::new(["", "direct", "ops/s", "±", "mean", "p50", "p99", "p99.9", "max"]);
    let mut notes: Vec<String> = Vec::new();
    for row in rows {
        let name = name_of(&row.case);
        match &row.outcome {
            Outcome::Measured(figures) => {
                let times = [figures.mean, figures.p50, figures.p99, figures.p999, figures.max].map(seconds);
                let [mean, p50, p99, p999, max] = times;
                let direct = direct_of(&row.case, figures, buffers).to_owned();
                table.row([name, direct, rate(figures), spread(figures), mean, p50, p99, p999, max]);
            }
            Outcome::Refused(words) | Outcome::Failed(words) => {
                let failed = matches!(row.outcome, Outcome::Failed(_));
                let what = if failed { "failed" } else { "refused" };
                let none = || "-".to_owned();
                let direct = if row.case.direct { "yes" } else { "no" }.to_owned();
                table.row([name, direct, what.into(), none(), none(), none(), none(), none(), none()]);
                let note = format!("  {what}: {words}\n");
                if !notes.contains(&note) {
                    notes.push(note);
                }
            }
        }
    }
    if rows.iter().any(
        |row| matches!(&row.outcome, Outcome::Measured(found) if direct_of(&row.case, found, buffers) == "in vain"),
    ) {
        notes.push("  in vain: open(2) took O_DIRECT, and the writes went through the cache all the same\n".to_owned());
    }
    table.text() + &notes.concat()
}

fn rate(figures: &Figures) -> String {
    if figures.per_second >= 100.0 {
        format!("{:.0}", figures.per_second)
    } else {
        format!("{:.1}", figures.per_second)
    }
}

/// How far the rounds were from the whole, at most; of one round nothing is known.
fn spread(figures: &Figures) -> String {
    if figures.rounds < 2 {
        return "-".to_owned();
    }
    let far = (figures.most - figures.per_second).max(figures.per_second - figures.least);
    format!("{:.0} %", 100.0 * far / figures.per_second)
}

/// Whether it was direct: what matters is what happened. `buffers`: direct writes were seen to pass through the cache, of
/// which nothing need be left there.
fn direct_of(case: &Case, figures: &Figures, buffers: bool) -> &'static str {
    match (case.direct, figures.cached_pages) {
        (false, _) => "no",
        (true, Some(pages)) if pages > 0 || buffers => "in vain",
        (true, _) => "yes",
    }
}

/// The method, and what is not the same in all cases of its section.
fn name_of(case: &Case) -> String {
    let mut name = case.method.name().to_owned();
    if !case.method.is_durable() {
        name.push_str(" (NOT durable)");
    }
    let many = |name: &mut String| {
        if case.threads > 1 {
            let sharing = if case.sharing == Sharing::Own { "own files" } else { case.sharing.name() };
            name.push_str(&format!(", {} threads, {sharing}", case.threads));
        }
    };
    match case.section {
        Section::Compare | Section::Two | Section::Unsynced => {}
        Section::Patterns => name.push_str(&format!(", {}", case.pattern.name())),
        Section::Sizes => name.push_str(&format!(", {}", size(case.size))),
        Section::OpenSizes => name = format!("{} × {}", case.writes, size(case.size)),
        Section::Threads => many(&mut name),
        Section::Descriptors => {
            name = match case.descriptor {
                Descriptor::Same => "write, fsync",
                Descriptor::Reopened => "open, write, fsync, close",
                Descriptor::Other => "open, write, close; open, fsync, close",
            }
            .to_owned();
        }
        Section::Matrix => {
            name.push_str(&format!(", {}, {} × {}", case.pattern.name(), case.writes, size(case.size)));
            many(&mut name);
        }
    }
    name
}

fn words(confidence: Confidence) -> &'static str {
    match confidence {
        Confidence::Low => "low",
        Confidence::Medium => "medium",
        Confidence::High => "high",
    }
}

fn honesty_text(honesty: &Honesty) -> String {
    let verdict = match honesty.verdict {
        Verdict::Lies => "THE DISK LIES",
        Verdict::NotDurable => "NOTHING IS DURABLE HERE",
        Verdict::Suspect => "suspicious",
        Verdict::NothingAgainst => "nothing seen against it",
        Verdict::Unknown => "cannot be told",
    };
    let sure = match honesty.verdict {
        Verdict::Unknown => String::new(),
        _ => format!(" (confidence: {})", words(honesty.confidence)),
    };
    let mut text = format!("\nis the disk honest? {verdict}{sure}\n  {}\n", honesty.reason);
    for Evidence { what, found, means, confidence } in &honesty.evidence {
        text.push_str(&format!("  - {what}: {found}: {means} [confidence: {}]\n", words(*confidence)));
    }
    if honesty.verdict != Verdict::NotDurable {
        text.push_str("  The proof is to pull the plug: dio synctest --witness HOST:PORT FILE\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synctest::case::Method;

    #[test]
    fn a_direct_row_whose_pages_were_cached_and_a_refused_one_say_so() {
        let figures = Figures {
            per_second: 99.94,
            least: 99.0,
            most: 101.0,
            count: 3,
            syncs: 1,
            mean: 0.01,
            p05: 0.01,
            p50: 0.01,
            p99: 0.02,
            p999: 0.02,
            max: 0.02,
            cached_pages: Some(4),
            rounds: 4,
        };
        assert_eq!(spread(&figures), "1 %");
        assert_eq!(spread(&Figures { rounds: 1, ..figures }), "-", "one round does not vary");
        let case = Case::new(Section::Compare, Method::Fsync, true);
        let measured = Row { case, outcome: Outcome::Measured(figures) };
        let refused = Row { case, outcome: Outcome::Refused("cannot open 'x': Invalid argument".into()) };
        let none_left = Figures { cached_pages: Some(0), ..figures };
        let seen = |buffers| direct_of(&case, &none_left, buffers);
        assert_eq!((seen(true), seen(false)), ("in vain", "yes"));
        let text = table_of(&[&measured, &refused, &refused], false);
        assert!(text.contains("99.9") && text.contains("in vain: open(2) took O_DIRECT"), "{text}");
        assert_eq!(text.matches("refused: cannot open 'x'").count(), 1, "{text}");
        let words = |line: &str| line.split_whitespace().count();
        let (measured, refused) = (text.lines().nth(1).unwrap(), text.lines().nth(2).unwrap());
        // "in vain" and the blanks before units.
        assert_eq!(words(refused), words(measured) - 7, "{text}");
        let none = Case::new(Section::Compare, Method::SyncFileRange, false);
        assert!(name_of(&none).contains("NOT durable"));
    }
}
