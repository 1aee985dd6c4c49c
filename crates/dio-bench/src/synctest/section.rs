//! The section that shows a result.

use dio_common::units::{seconds, size};

use super::advice::Advice;
use super::case::{Descriptor, Section, Sharing, SyncCase};
use super::facts::StorageFacts;
use super::judge::{Confidence, Evidence, Honesty, Verdict};
use super::report::SynctestReport;
use super::row::SynctestRow;
use super::sweep::Measured;
use super::work::{CaseOutcome, Figures};
use crate::plot::{Axis, Dot, LinePlot, Plot, Series};
use crate::quantity::Unit;
use crate::section::{self, Benchmark, Block, Cell, Finding, Rows, Table, capital, slug};

impl SynctestRow {
    fn figures(&self) -> Option<&Figures> {
        match &self.outcome {
            CaseOutcome::Measured(figures) => Some(figures),
            CaseOutcome::Refused(_) | CaseOutcome::Failed(_) => None,
        }
    }

    /// A name that identifies the row in its section.
    fn label(&self) -> String {
        let way = if self.case.direct { ", direct" } else { "" };
        name_of(&self.case) + way
    }
}

impl SynctestReport {
    /// Total time of measuring the rows and the flushes.
    fn measured_seconds(&self) -> f64 {
        let lines = self.rows.iter().filter(|row| row.figures().is_some()).count();
        self.seconds * (lines + usize::from(self.flushes.is_some())) as f64
    }
}

impl Benchmark for SynctestReport {
    const NAME: &'static str = "synctest";
    const FIELDS: &'static [&'static str] = &["storage", "rows", "advice"];

    fn section(&self) -> section::Section {
        let rounds = match self.rounds {
            0 => String::new(),
            1 => ", in one round: how far figures vary is not known".to_owned(),
            rounds => format!(", in {rounds} rounds"),
        };
        section::Section {
            lead: format!(
                "Writes are made durable by every method, past the page cache and through it, {} s \
                 for each{rounds}; then flushes are measured and the disk is judged by them.",
                self.seconds,
            ),
            brief: Some(format!(
                "{}: {} s for each line{rounds}, about {} in all",
                dio::quote::named(&self.path),
                self.seconds,
                seconds(self.measured_seconds())
            )),
            findings: self.findings(),
            blocks: self.blocks(),
            notes: self.notes(),
            settings: storage(&self.storage),
            ..section::Section::new(
                SynctestReport::NAME,
                "Ways to make writes durable",
                &self.environment,
            )
        }
    }
}

impl SynctestReport {
    fn blocks(&self) -> Vec<Block> {
        let mut sections: Vec<Section> = self.rows.iter().map(|row| row.case.section).collect();
        sections.dedup();
        let of = |section: Section| -> Vec<&SynctestRow> {
            self.rows.iter().filter(|row| row.case.section == section).collect()
        };
        let mut plots: Vec<Plot> =
            sections.iter().filter_map(|section| rates(*section, &of(*section))).collect();
        plots.extend(self.flushes.as_ref().and_then(sweep));
        let mut blocks = Vec::new();
        if !plots.is_empty() {
            blocks.push(Block::Plots(plots));
        }
        let buffers = self.storage.buffers_direct_writes;
        blocks.extend(
            sections.iter().map(|section| Block::Table(table(*section, &of(*section), buffers))),
        );
        if self.interrupted {
            let words = "interrupted: what follows rests on what was measured until then";
            blocks.push(Block::Heading(words.to_owned()));
        }
        if let Some(honesty) = &self.honesty {
            blocks.extend(honest(honesty));
        }
        if self.honesty.as_ref().is_some_and(Honesty::leaves_no_setting) {
            blocks.push(Block::Heading("no settings: none makes a commit durable here".to_owned()));
        }
        if !self.advice.is_empty() {
            blocks.push(Block::Table(settings(&self.advice)));
        }
        blocks
    }

    fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        if let Some(honesty) = &self.honesty {
            let (value, reached) = match honesty.verdict {
                Verdict::Lies => ("it lies", Some(false)),
                Verdict::NotDurable => ("nothing is durable", Some(false)),
                Verdict::Suspect => ("suspicious", None),
                Verdict::NothingAgainst => ("nothing seen against it", None),
                Verdict::Unknown => ("cannot be told", None),
            };
            let note = match honesty.verdict {
                Verdict::Unknown => String::new(),
                _ => format!("confidence: {}", words(honesty.confidence)),
            };
            findings.push(Finding { reached, ..Finding::new("the disk", value, note) });
        }
        let compared = self
            .rows
            .iter()
            .filter(|row| row.case.section == Section::Compare && row.case.method.is_durable());
        let fastest = compared.filter_map(|row| Some((row, row.figures()?)));
        let per_second = |rate: f64| Unit::PerSecond.scale([rate]).show(rate);
        if let Some((row, figures)) =
            fastest.max_by(|one, other| one.1.per_second.total_cmp(&other.1.per_second))
        {
            findings.push(Finding::new(
                "fastest, 8 KiB",
                per_second(figures.per_second),
                row.label(),
            ));
        }
        if let Some(place) = self.flushes.as_ref().and_then(|flushes| flushes.same_place) {
            let note = format!("p50 {}", seconds(place.p50));
            findings.push(Finding::new("flushes at one place", per_second(place.per_second), note));
        }
        let of = |advice: &Advice| {
            Some(Finding::new(format!("for {}", advice.program), advice.settings.first()?, ""))
        };
        findings.extend(self.advice.iter().filter_map(of));
        findings
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = vec![
            "What a test sees cannot prove that a disk is honest. The proof is to pull the plug: \
             dio synctest --witness."
                .to_owned(),
        ];
        if self.rows.iter().any(|row| !row.case.method.is_durable()) {
            notes.push(
                "none and sync_file_range make nothing durable; they are there to be compared with."
                    .to_owned(),
            );
        }
        notes
    }
}

/// Operations per second of a section's rows. Of the single rounds only the least and the greatest
/// value are available.
fn rates(section: Section, rows: &[&SynctestRow]) -> Option<Plot> {
    let dot = |row: &&SynctestRow| {
        let figures = row.figures()?;
        let tone = match (row.case.method.is_durable(), row.case.direct) {
            (false, _) => 6,
            (true, true) => 4,
            (true, false) => 1,
        };
        Some(Dot::new(row.label(), tone, vec![figures.least, figures.per_second, figures.most]))
    };
    let rows: Vec<Dot> = rows.iter().filter_map(dot).collect();
    let about = "Operations per second: the slowest round, all of them, and the fastest; further \
                 right is better.";
    let title = capital(section.heading());
    (!rows.is_empty())
        .then(|| Plot::dots(slug(section.name()), title, about, Unit::PerSecond, rows))
}

/// The cost of a flush after growing amounts of unsynced data.
fn sweep(flushes: &Measured) -> Option<Plot> {
    // A logarithmic axis cannot show zero; the evidence lists that value.
    let some = flushes.flush_after.iter().filter(|(bytes, _)| *bytes > 0);
    let points: Vec<(f64, f64)> = some.map(|(bytes, seconds)| (*bytes as f64, *seconds)).collect();
    if points.len() < 2 {
        return None;
    }
    let series = vec![Series { name: "fdatasync".to_owned(), tone: 4, points }];
    let x = Axis { unit: Unit::Bytes, logarithmic: true };
    let about = "The median time of fdatasync after so many unsynced bytes. Where more bytes cost \
                 no more time, either nothing was kept back or nothing is written down.";
    let lines = LinePlot { x, y: Unit::Seconds, bands: Vec::new(), series, filled: false };
    Some(Plot::lines("flush-after", "A flush, by what was written before it", about, lines))
}

/// The table of a section's cases. `buffers`: direct writes were observed to pass through the page
/// cache.
fn table(section: Section, rows: &[&SynctestRow], buffers: bool) -> Table {
    let figure = |row: &SynctestRow, figure: fn(&Figures) -> f64| row.figures().map(figure);
    let direct = |row: &SynctestRow| match row.figures() {
        Some(figures) => direct_of(&row.case, figures, buffers),
        None if row.case.direct => "yes",
        None => "no",
    };
    let operations = |row: &SynctestRow| match &row.outcome {
        CaseOutcome::Measured(figures) => Cell::Number(figures.per_second),
        CaseOutcome::Refused(_) => "refused".into(),
        CaseOutcome::Failed(_) => "failed".into(),
    };
    let named = (&*slug(section.name()), "");
    let mut table =
        Rows::new(named, section.heading(), rows.iter().copied(), |row| name_of(&row.case))
            .words("direct", direct)
            .column("ops", Unit::PerSecond, operations)
            .words("±", |row| row.figures().and_then(spread))
            .column("mean", Unit::Seconds, |row| figure(row, |figures| figures.mean))
            .column("p50", Unit::Seconds, |row| figure(row, |figures| figures.p50))
            .column("p99", Unit::Seconds, |row| figure(row, |figures| figures.p99))
            .column("p99.9", Unit::Seconds, |row| figure(row, |figures| figures.p999))
            .column("max", Unit::Seconds, |row| figure(row, |figures| figures.max))
            .column("least", Unit::PerSecond, |row| figure(row, |figures| figures.least))
            .only_on_page()
            .column("most", Unit::PerSecond, |row| figure(row, |figures| figures.most))
            .only_on_page()
            .column("pages left", Unit::Count, |row| {
                row.figures().and_then(|figures| figures.cached_pages)
            })
            .only_on_page()
            .table();
    for row in rows {
        let note = match &row.outcome {
            CaseOutcome::Measured(_) => continue,
            CaseOutcome::Refused(words) => format!("refused: {words}"),
            CaseOutcome::Failed(words) => format!("failed: {words}"),
        };
        if !table.notes.contains(&note) {
            table.notes.push(note);
        }
    }
    if rows.iter().any(|row| direct(row) == "in vain") {
        let note =
            "in vain: open(2) took O_DIRECT, and the writes went through the cache all the same";
        table.notes.push(note.to_owned());
    }
    table
}

/// The greatest deviation of a round from the whole; `None` for a single round.
fn spread(figures: &Figures) -> Option<String> {
    let far = (figures.most - figures.per_second).max(figures.per_second - figures.least);
    (figures.rounds >= 2).then(|| format!("{:.0} %", 100.0 * far / figures.per_second))
}

/// Whether the I/O was really direct. `buffers`: direct writes were observed to pass through the
/// page cache, even if none of their pages remain there.
fn direct_of(case: &SyncCase, figures: &Figures, buffers: bool) -> &'static str {
    match (case.direct, figures.cached_pages) {
        (false, _) => "no",
        (true, Some(pages)) if pages > 0 || buffers => "in vain",
        (true, _) => "yes",
    }
}

/// The method, and the parameters that vary within its section.
fn name_of(case: &SyncCase) -> String {
    let mut name = case.method.name().to_owned();
    if !case.method.is_durable() {
        name.push_str(" (NOT durable)");
    }
    let many = |name: &mut String| {
        if case.threads > 1 {
            let sharing =
                if case.sharing == Sharing::Own { "own files" } else { case.sharing.name() };
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
            name.push_str(&format!(
                ", {}, {} × {}",
                case.pattern.name(),
                case.writes,
                size(case.size)
            ));
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

fn honest(honesty: &Honesty) -> Vec<Block> {
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
    let mut table =
        Rows::new(("evidence", "what"), "What the judgement rests on", &honesty.evidence, |row| {
            row.what.to_string()
        })
        .words("found", |row| row.found.clone())
        .words("means", |row| row.means.clone())
        .words("confidence", |row| words(row.confidence))
        .table();
    let line = |Evidence { what, found, means, confidence }: &Evidence| {
        format!("  - {what}: {found}: {means} [confidence: {}]\n", words(*confidence))
    };
    let mut lines: String = honesty.evidence.iter().map(line).collect();
    if honesty.verdict != Verdict::NotDurable {
        lines.push_str("  The proof is to pull the plug: dio synctest --witness HOST:PORT FILE\n");
    }
    table.instead = Some(lines);
    vec![
        Block::Heading(format!("is the disk honest? {verdict}{sure}")),
        Block::Text(honesty.reason.clone()),
        Block::Table(table),
    ]
}

fn settings(advice: &[Advice]) -> Table {
    let caption = "Settings that follow from what was measured";
    let mut table =
        Rows::new(("settings", "program"), caption, advice, |advice| advice.program.to_string())
            .words("settings", |advice| advice.settings.join("; "))
            .words("why", |advice| advice.why.join("; "))
            .table();
    let mut text = String::new();
    for advice in advice {
        text.push_str(&format!("\nfor {}\n", advice.program));
        advice.settings.iter().for_each(|setting| text.push_str(&format!("    {setting}\n")));
        advice.why.iter().for_each(|why| text.push_str(&format!("  - {why}\n")));
    }
    table.instead = Some(text);
    table
}

fn storage(storage: &StorageFacts) -> Vec<(String, String)> {
    let mut rows = vec![(
        "machine",
        if storage.virtual_machine { "virtual" } else { "not virtual" }.to_owned(),
    )];
    if let Some(disk) = &storage.disk {
        rows.push(("disk", disk.name.clone()));
        rows.extend(disk.model.clone().map(|model| ("model", model)));
        rows.extend(disk.driver.clone().map(|driver| ("driver", driver)));
        rows.extend(disk.fua.map(|fua| ("FUA", if fua { "yes" } else { "no" }.to_owned())));
    }
    rows.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::page::{Page, read};
    use crate::synctest::{self, Method, Pattern, SynctestPlan};

    fn result() -> synctest::SynctestReport {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let case = |section, method, direct| SyncCase::new(section, method, direct);
        let cases = vec![
            case(Section::Compare, Method::Fdatasync, true),
            case(Section::Compare, Method::Fsync, false),
            SyncCase {
                size: 4096,
                pattern: Pattern::Zeroed,
                ..case(Section::Sizes, Method::OpenDatasync, true)
            },
            case(Section::Unsynced, Method::None, false),
        ];
        let (path, time) = (directory.path().to_owned(), Duration::from_millis(20));
        let plan =
            SynctestPlan { path, force: false, time, file_size: 1 << 20, cases, honesty: true };
        synctest::run(&plan, &|_| (), &|| false).unwrap()
    }

    #[test]
    fn what_is_written_here_is_shown_with_its_name_and_without() {
        let report = result();
        let plain = serde_json::to_string(&report).unwrap();
        for text in [report.json().unwrap(), plain.clone()] {
            let section = read("synctest.json", &text).unwrap();
            assert_eq!(
                (section.id.as_str(), section.findings[0].label.as_str()),
                ("synctest", "the disk")
            );
            assert!(
                section.findings.iter().any(|finding| finding.label == "fastest, 8 KiB"),
                "{:?}",
                section.findings
            );
            assert!(section.notes.iter().any(|note| note.contains("make nothing durable")));
            let page = Page::new(None, vec![section]);
            let plots: Vec<String> = page.plots().into_iter().map(|(name, _)| name).collect();
            let expected = ["compare", "sizes", "unsynced", "flush-after"];
            assert_eq!(plots, expected.map(|name| format!("synctest-{name}.svg")));
            let tables: Vec<String> = page.tables().into_iter().map(|(name, _)| name).collect();
            assert!(tables.contains(&"synctest-table-evidence.csv".to_owned()), "{tables:?}");
            let html = page.html();
            assert!(
                html.contains("open_datasync, 4 KiB, direct")
                    && html.contains("Is the disk honest?")
            );
        }
        // A result of a disk that lies, with a case that was refused.
        let mut lie: serde_json::Value = serde_json::from_str(&plain).unwrap();
        lie["honesty"]["verdict"] = "lies".into();
        lie["rows"][0]["outcome"] = serde_json::json!({"refused": "cannot open <x>"});
        let section = read("lie.json", &lie.to_string()).unwrap();
        assert_eq!(
            (section.findings[0].value.as_str(), section.findings[0].reached),
            ("it lies", Some(false))
        );
        assert!(Page::new(None, vec![section]).html().contains("refused: cannot open &lt;x&gt;"));
    }

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
        assert_eq!(spread(&figures).as_deref(), Some("1 %"));
        assert_eq!(spread(&Figures { rounds: 1, ..figures }), None, "one round does not vary");
        let case = SyncCase::new(Section::Compare, Method::Fsync, true);
        let measured = SynctestRow { case, outcome: CaseOutcome::Measured(figures) };
        let refused = SynctestRow {
            case,
            outcome: CaseOutcome::Refused("cannot open 'x': Invalid argument".into()),
        };
        let none_left = Figures { cached_pages: Some(0), ..figures };
        let seen = |buffers| direct_of(&case, &none_left, buffers);
        assert_eq!((seen(true), seen(false)), ("in vain", "yes"));
        let text = table(Section::Compare, &[&measured, &refused, &refused], false).text();
        assert!(text.contains("99.9") && text.contains("in vain: open(2) took O_DIRECT"), "{text}");
        assert_eq!(text.matches("refused: cannot open 'x'").count(), 1, "{text}");
        let words = |line: &str| line.split_whitespace().count();
        let (measured, refused) = (text.lines().nth(3).unwrap(), text.lines().nth(4).unwrap());
        // The difference are "in vain" and the blanks before units.
        assert_eq!(words(refused), words(measured) - 7, "{text}");
        let none = SyncCase::new(Section::Compare, Method::SyncFileRange, false);
        assert!(name_of(&none).contains("NOT durable"));
    }
}
