//! The section of a study, in which contenders were measured in turns and each run has a time
//! series.

use dio_common::units::size;
use serde_json::Value;

use super::{Contender, ContenderRow, Study, Used, plots, series};
use crate::plot::Plot;
use crate::quantity::Unit;
use crate::section::{Block, Cell, Finding, Rows, Section, Table, slug, times};
use crate::stats::Summary;

/// The texts with which a study presents its results.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReportTexts<'a> {
    /// The name of the benchmark, for anchors and files.
    pub(crate) id: &'a str,
    /// The heading.
    pub(crate) title: &'a str,
    /// The name of the counted events: `transactions`.
    pub(crate) events: &'a str,
    /// One sentence on the workload.
    pub(crate) lead: &'a str,
}

/// The explanation of blocks.
const LOCKS: &str = "A block is a thread, or a request, that could not have a lock at once and \
                     waited. The mount counts those on its files' locks and queues, the kernel's \
                     tracepoint lock:contention_begin those on the kernel's locks, of the clients \
                     and the mount's server.";

/// The description of the plots of the processors' time.
const PROCESSORS: &str = "The time of all processors of the machine; what is empty is idle. The \
                          lines bound the steady state.";

/// The source of the published figures.
const PUBLISHED: &str = "Published figures: Oracle on AIX 5.2 (Kashyap, Olszewski, Hendrickson: \
                         Improving database performance with AIX concurrent I/O, IBM 2003). Only \
                         their ratios mean anything elsewhere.";

/// Ratio of the best run's throughput to the worst run's from which the machine counts as
/// unreliable.
const UNSTEADY: f64 = 1.5;

impl Study<'_> {
    pub(crate) fn section(&self, words: &ReportTexts<'_>) -> Section {
        let mut notes = self.notes.to_vec();
        let kernel =
            self.rows.iter().flat_map(|row| &row.runs).filter_map(|run| run.kernel_blocks.as_ref());
        for note in kernel.flat_map(|kernel| &kernel.notes) {
            if !notes.contains(note) {
                notes.push(note.clone());
            }
        }
        notes.extend(self.unsteady());
        if !self.reference.is_empty() {
            notes.push(PUBLISHED.to_owned());
        }
        Section {
            lead: self.lead(words),
            findings: self.findings(),
            blocks: self.blocks(words, None),
            notes,
            settings: self.settings(),
            data: vec![("series".to_owned(), series::csv(self.rows))],
            ..Section::new(words.id, words.title, self.environment)
        }
    }

    /// All plots and tables. If they are for one `part` of a benchmark, its name is the heading.
    pub(crate) fn blocks(&self, words: &ReportTexts<'_>, part: Option<&str>) -> Vec<Block> {
        let mut blocks: Vec<Block> =
            part.iter().map(|part| Block::Heading((*part).to_owned())).collect();
        let events = words.events;
        let mut group = |heading: &str, text: Option<&str>, plots: Vec<Plot>, table: Table| {
            if part.is_none() {
                blocks.push(Block::Heading(heading.to_owned()));
            }
            blocks.extend(text.map(|text| Block::Text(text.to_owned())));
            if !plots.is_empty() {
                blocks.push(Block::Plots(plots));
            }
            blocks.push(Block::Table(table));
        };
        let shares =
            [plots::share(self), plots::throughput(self, events)].into_iter().flatten().collect();
        group("Throughput", None, shares, self.throughput(events));
        group("Response times", None, plots::responses(self, events), self.responses());
        group("Device", None, plots::device(self), self.device(events));
        group("Processors", Some(PROCESSORS), plots::processors(self), self.processors());
        group("Locks", Some(LOCKS), plots::blocks(self), self.locks());
        let prefix = part.map_or_else(String::new, |part| format!("{}-", slug(part)));
        for block in &mut blocks {
            match block {
                Block::Plots(plots) => {
                    plots.iter_mut().for_each(|plot| plot.name = format!("{prefix}{}", plot.name))
                }
                Block::Table(table) => table.name = format!("{prefix}{}", table.name),
                Block::Heading(_) | Block::Text(_) | Block::Commands(_) => {}
            }
        }
        blocks
    }

    /// A warning if runs differ too much.
    fn unsteady(&self) -> Option<String> {
        let differ = |row: &ContenderRow| {
            let tps = Summary::of(row.throughput());
            (tps.min > 0.0 && tps.max / tps.min > UNSTEADY)
                .then(|| format!("{} by {}", row.name(), times(tps.max / tps.min)))
        };
        let found: Vec<String> = self.rows.iter().filter_map(differ).collect();
        (!found.is_empty()).then(|| {
            format!(
                "The runs of the same storage differ much in throughput ({}): something else was \
                 at work, or the runs were too short. Do not rely on ratios of such runs.",
                found.join(", ")
            )
        })
    }

    /// The comparison of the contenders with the first one, and the role of the file's lock in it.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        let Some(first) = self.first() else { return Vec::new() };
        let mut found = Vec::new();
        // Concurrent, the subject of the study, comes first, and its opposite second.
        let order = [Contender::Concurrent, Contender::DirectFile, Contender::DirectRange];
        let place = |row: &&ContenderRow| {
            order.iter().position(|other| *other == row.contender).unwrap_or(order.len())
        };
        let mut others: Vec<&ContenderRow> =
            self.rows.iter().filter(|row| row.contender != first.contender).collect();
        others.sort_by_key(place);
        for row in others {
            let ratios = self.ratios(row);
            let Some(Summary { median, min, max }) = Summary::of_some(ratios.iter().copied())
            else {
                continue;
            };
            let [least, most] = [min, max].map(|ratio| format!("{ratio:.2}"));
            let mut note = match ratios.len() {
                1 => "one run".to_owned(),
                runs if least == most => format!("in all {runs} runs"),
                runs => format!("{least} to {most} in {runs} runs"),
            };
            if let Some(published) = self.published_ratio(row) {
                note.push_str(&format!("; published {published:.2}"));
            }
            found.push(Finding::new(row.name(), format!("{median:.2} of {}", first.name()), note));
        }
        let blocks = |contender: Contender| {
            let row = self.rows.iter().find(|row| row.contender == contender)?;
            Some(Summary::of_some(row.figures(|run| Some(run.mount_rate("file"))))?.median)
        };
        if let (Some(concurrent), Some(direct)) =
            (blocks(Contender::Concurrent), blocks(Contender::DirectFile))
        {
            let scale = Unit::PerSecond.scale([concurrent, direct]);
            found.push(Finding::new(
                "blocks on the file lock",
                format!("{} → {}", scale.show(direct), scale.show(concurrent)),
                "direct-file → concurrent",
            ));
        }
        found
    }

    fn lead(&self, words: &ReportTexts<'_>) -> String {
        let mut text = words.lead.to_owned();
        let rounds = self.rows.iter().map(|row| row.runs.len()).max().unwrap_or(0);
        if let Some([up, steady, down]) = self.seconds() {
            text.push_str(&format!(
                " Storages took turns in {rounds} rounds of {up} s ramp-up, {steady} s steady \
                 state and {down} s ramp-down; all figures but those over time are of the steady \
                 state."
            ));
        }
        text
    }

    /// All settings of the result, in readable form.
    pub(crate) fn settings(&self) -> Vec<(String, String)> {
        let shown = |(name, value): (&String, &Value)| {
            let name = if name == "bytes" { "data_bytes" } else { name };
            let bytes = name.strip_suffix("_bytes").zip(value.as_u64());
            let (name, value) = match (bytes, value) {
                (Some((name, bytes)), _) => (name, size(bytes)),
                // A limit that was not set.
                (None, Value::Null) => (name, "none".to_owned()),
                (None, Value::Bool(flag)) => (name, if *flag { "yes" } else { "no" }.to_owned()),
                (None, Value::String(text)) => (name, text.clone()),
                (None, Value::Array(list)) if list.is_empty() => (name, "none".to_owned()),
                (None, Value::Array(list)) => {
                    let words = list.iter().map(|value| {
                        value.as_str().map_or_else(|| value.to_string(), str::to_owned)
                    });
                    (name, words.collect::<Vec<_>>().join(", "))
                }
                (None, other) => (name, other.to_string()),
            };
            (name.replace('_', " "), value)
        };
        let mut rows: Vec<(String, String)> =
            self.settings.iter().filter(|(name, _)| *name != "seconds").map(shown).collect();
        if let Some([up, steady, down]) = self.seconds() {
            rows.push((
                "ramp-up, steady, ramp-down".to_owned(),
                format!("{up} s, {steady} s, {down} s"),
            ));
        }
        rows
    }

    fn rows(&self, name: &str, caption: &str) -> Rows<'_, ContenderRow> {
        Rows::new((name, "storage"), caption, self.rows, ContenderRow::name)
    }

    fn throughput(&self, events: &str) -> Table {
        let first = self.first().map_or_else(String::new, ContenderRow::name);
        self.rows("throughput", "Throughput of the steady state, beside the published one")
            .column(events, Unit::PerSecond, |row| Cell::runs(row.throughput()))
            .column(format!("to {first}"), Unit::Times, |row| self.ratios(row))
            .column("published", Unit::PerSecond, |row| {
                self.published(row).map(|figure| figure.tps)
            })
            .exact()
            .column("published, to raw", Unit::Times, |row| self.published_to_raw(row))
            .table()
    }

    fn responses(&self) -> Table {
        let of = |row: &ContenderRow, figure: fn(&super::Response) -> f64| {
            row.figures(|run| Some(figure(&run.response)))
        };
        self.rows("responses", "Response times, commit included")
            .column("mean", Unit::Seconds, |row| of(row, |response| response.mean))
            .column("p50", Unit::Seconds, |row| of(row, |response| response.p50))
            .column("p90", Unit::Seconds, |row| of(row, |response| response.p90))
            .column("p99", Unit::Seconds, |row| of(row, |response| response.p99))
            .column("p99.9", Unit::Seconds, |row| of(row, |response| response.p999))
            .column("longest", Unit::Seconds, |row| of(row, |response| response.max))
            .column("published mean", Unit::Seconds, |row| {
                self.published(row).map(|figure| figure.response_seconds)
            })
            .exact()
            .table()
    }

    fn device(&self, events: &str) -> Table {
        let of = |row: &ContenderRow, figure: fn(&Used) -> Option<f64>| {
            row.figures(|run| figure(&run.used))
        };
        let requests = format!("requests per {}", events.trim_end_matches('s'));
        self.rows("device", "The device in the steady state")
            .column("reads", Unit::PerSecond, |row| of(row, |used| used.device_reads_per_second))
            .column("writes", Unit::PerSecond, |row| of(row, |used| used.device_writes_per_second))
            .column("data", Unit::BytesPerSecond, |row| {
                of(row, |used| used.device_bytes_per_second)
            })
            .column("utilisation", Unit::Part, |row| of(row, |used| used.utilisation))
            .column(requests, Unit::Ratio, |row| {
                row.figures(|run| Some(run.used.requests()? / run.tps))
            })
            .table()
    }

    fn processors(&self) -> Table {
        let of = |row: &ContenderRow, part: fn(&Used) -> f64| {
            row.figures(|run| {
                let used = &run.used;
                let all = used.user + used.system + used.iowait + used.idle + used.steal;
                (all > 0.0).then(|| part(used))
            })
        };
        self.rows("processors", "Time of all processors in the steady state")
            .column("user", Unit::Part, |row| of(row, |used| used.user))
            .column("system", Unit::Part, |row| of(row, |used| used.system))
            .column("stolen", Unit::Part, |row| of(row, |used| used.steal))
            .column("I/O wait", Unit::Part, |row| of(row, |used| used.iowait))
            .column("idle", Unit::Part, |row| of(row, |used| used.idle))
            .table()
    }

    fn locks(&self) -> Table {
        let classes = plots::classes(self);
        let caption = match classes.is_empty() {
            true => "Blocks on locks: nobody was seen to be blocked",
            false => "Blocks on locks; – where a class cannot occur, or could not be seen",
        };
        let mut rows = self.rows("locks", caption);
        for (class, rate) in classes {
            rows = rows
                .column(class, Unit::PerSecond, |row| row.figures(|run| rate(row.contender, run)));
        }
        rows.table()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::oltp::report::{OltpReport, WORDS};

    /// A result as JSON, with three contenders and two rounds.
    pub(crate) fn text() -> String {
        let run = |tps: f64, blocks: &str| {
            format!(
                r#"{{"tps":{tps},"response":{{"mean":0.002,"p50":0.001,"p99":0.01,"max":0.1}},
                "histogram":[{{"seconds":0.001,"count":5}},{{"seconds":0.0011,"count":9}}],
                "used":{{"user":0.2,"system":0.3,"iowait":0.1,"idle":0.4,"device_reads_per_second":100,
                "device_writes_per_second":50,"utilisation":0.5}},"mount_blocks":{blocks},
                "kernel_blocks":{{"rows":[{{"class":"inode","blocks_per_second":2.5}}]}},
                "points":[{{"seconds":1,"phase":"ramp_up","tps":{tps},"user":0.25}},
                          {{"seconds":2,"phase":"steady","tps":{tps},"user":0.5,"utilisation":0.75}}]}}"#
            )
        };
        let row = |name: &str, runs: [f64; 2], blocks: &str| {
            let [one, other] = runs.map(|tps| run(tps, blocks));
            format!(r#"{{"contender":"{name}","runs":[{one},{other}]}}"#)
        };
        let file = r#"[{"class":"file","blocks_per_second":5200}]"#;
        format!(
            r#"{{"rows":[{},{},{}],"reference":[{{"name":"raw","tps":710.19,"response_seconds":0.06}},
            {{"name":"direct","tps":219.69,"response_seconds":0.12}}],
            "settings":{{"seconds":[1,2,0.5],"page_bytes":8192,"rounds":2}},"notes":["a note"],
            "environment":{{"version":"0.1.0","kernel":"6.1","cpu":"c","cpus":2,"memory_bytes":1,"file_system":"xfs",
            "engine":"io_uring"}}}}"#,
            row("raw", [1000.0, 2000.0], "[]"),
            row("direct_file", [400.0, 400.0], file),
            row("concurrent", [900.0, 2000.0], "[]")
        )
    }

    pub(crate) fn report() -> OltpReport {
        serde_json::from_str(&text()).unwrap()
    }

    #[test]
    fn ratios_are_of_the_same_round_and_beside_published_ones() {
        let report = report();
        let study = report.study();
        assert_eq!(study.ratios(&study.rows[2]), [0.9, 1.0]);
        assert_eq!(study.published_ratio(&study.rows[1]), Some(219.69 / 710.19));
        assert_eq!(study.published_ratio(&study.rows[2]), None, "there is no figure");
        assert_eq!(study.steady(), Some((1.0, 3.0)));
        let [raw, direct, concurrent] = study.rows else { panic!() };
        let mount = |row: &ContenderRow| plots::CLASSES[0].1(row.contender, &row.runs[0]);
        assert_eq!((mount(raw), mount(direct), mount(concurrent)), (None, Some(5200.0), Some(0.0)));
        assert_eq!(plots::CLASSES[5].1(raw.contender, &raw.runs[0]), Some(2.5));
    }

    #[test]
    fn the_section_says_what_came_out_and_what_not_to_believe() {
        let section = report().study().section(&WORDS);
        let direct = &section.findings[1];
        assert_eq!((direct.label.as_str(), direct.value.as_str()), ("direct-file", "0.30 of raw"));
        assert_eq!(direct.note, "0.20 to 0.40 in 2 runs; published 0.31");
        assert_eq!(section.findings[2].value, "5200/s → 0/s");
        let unsteady: Vec<&String> =
            section.notes.iter().filter(|note| note.contains("Do not rely")).collect();
        assert!(unsteady[0].contains("(raw by 2.00×, concurrent by 2.22×)"), "{unsteady:?}");
        assert!(
            section.settings.contains(&("page".to_owned(), "8 KiB".to_owned())),
            "{:?}",
            section.settings
        );
        assert!(section.notes.iter().any(|note| note == "a note"));
    }

    #[test]
    fn published_figures_have_columns_only_where_there_are_some() {
        let mut report = report();
        let text = report.study().throughput("transactions").text();
        assert!(
            text.contains("published") && text.contains("710.19") && text.contains("0.95×"),
            "{text}"
        );
        report.reference.clear();
        assert!(!report.study().throughput("transactions").csv().contains("published"));
    }
}
