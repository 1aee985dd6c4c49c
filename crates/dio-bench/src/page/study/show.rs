//! The section of a study.

use serde_json::Value;

use super::super::model::{Block, Cell, Column, Finding, Section, Table};
use super::super::{slug, times};
use super::{Contender, Study, Words, plots};
use crate::plot::Plot;
use crate::quantity::Unit;
use crate::stats::Summary;
use dio_common::units::size;

pub(in super::super) fn section(study: &Study, words: &Words<'_>) -> Section {
    let kernel =
        study.contenders.iter().flat_map(|contender| &contender.runs).filter_map(|run| run.kernel_blocks.as_ref());
    let mut notes = study.notes.clone();
    for note in kernel.flat_map(|kernel| &kernel.notes) {
        if !notes.contains(note) {
            notes.push(note.clone());
        }
    }
    notes.extend(unsteady(study));
    if !study.reference.is_empty() {
        notes.push(PUBLISHED.to_owned());
    }
    Section {
        id: words.id.to_owned(),
        title: words.title.to_owned(),
        lead: lead(study, words),
        findings: findings(study),
        blocks: blocks(study, words, None),
        notes,
        settings: settings(study),
        environment: study.environment.rows(),
        data: vec![("series".to_owned(), study.csv())],
        ..Section::default()
    }
}

/// All plots and tables of a study; those of a `part` of a benchmark have its name for a heading.
pub(in super::super) fn blocks(study: &Study, words: &Words<'_>, part: Option<&str>) -> Vec<Block> {
    let mut blocks: Vec<Block> = part.iter().map(|part| Block::Heading((*part).to_owned())).collect();
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
    let shares = [plots::share(study), plots::throughput(study, events)].into_iter().flatten().collect();
    group("Throughput", None, shares, throughput(study, events));
    group("Response times", None, plots::responses(study, events), responses(study));
    group("Device", None, plots::device(study), device(study, events));
    group("Processors", Some(PROCESSORS), plots::processors(study), processors(study));
    group("Locks", Some(LOCKS), plots::blocks(study), locks(study));
    let prefix = part.map_or_else(String::new, |part| format!("{}-", slug(part)));
    for block in &mut blocks {
        match block {
            Block::Plots(plots) => plots.iter_mut().for_each(|plot| plot.name = format!("{prefix}{}", plot.name)),
            Block::Table(table) => table.name = format!("{prefix}{}", table.name),
            Block::Heading(_) | Block::Text(_) | Block::Commands(_) => {}
        }
    }
    blocks
}

/// What blocks are.
const LOCKS: &str = "A block is a thread, or a request, that could not have a lock at once and waited. The mount counts those on \
                     its files' locks and queues, the kernel's tracepoint lock:contention_begin those on the kernel's locks, of \
                     the clients and the mount's server.";

/// What the plots of the processors' time show.
const PROCESSORS: &str =
    "The time of all processors of the machine; what is empty is idle. The lines bound the steady state.";

/// Where the published figures come from.
const PUBLISHED: &str = "Published figures: Oracle on AIX 5.2 (Kashyap, Olszewski, Hendrickson: Improving database performance \
                         with AIX concurrent I/O, IBM 2003). Only their ratios mean anything elsewhere.";

fn median(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| Summary::of(values.iter().copied()).median)
}

/// Throughput of the best run divided by that of the worst from which the machine is not to be trusted.
const UNSTEADY: f64 = 1.5;

/// What to think of runs that differ too much.
fn unsteady(study: &Study) -> Option<String> {
    let differ = |contender: &Contender| {
        let tps = Summary::of(contender.figures(|run| Some(run.tps)));
        (tps.min > 0.0 && tps.max / tps.min > UNSTEADY)
            .then(|| format!("{} by {}", contender.name(), times(tps.max / tps.min)))
    };
    let found: Vec<String> = study.contenders.iter().filter_map(differ).collect();
    (!found.is_empty()).then(|| {
        format!(
            "The runs of the same storage differ much in throughput ({}): something else was at work, or the runs were too \
             short. Do not rely on ratios of such runs.",
            found.join(", ")
        )
    })
}

/// How the contenders compare with the first one, and what the file's lock has to do with it.
pub(in super::super) fn findings(study: &Study) -> Vec<Finding> {
    let Some(first) = study.first() else { return Vec::new() };
    let mut found = Vec::new();
    // What the study is about comes first, its opposite second.
    let order = ["concurrent", "direct_file", "direct_range"];
    let place = |contender: &&Contender| order.iter().position(|key| *key == contender.key).unwrap_or(order.len());
    let mut contenders: Vec<&Contender> = study.contenders.iter().filter(|other| other.key != first.key).collect();
    contenders.sort_by_key(place);
    for contender in contenders {
        let ratios = study.ratios(contender);
        let Some(ratio) = median(&ratios) else { continue };
        let spread = Summary::of(ratios.iter().copied());
        let [least, most] = [spread.min, spread.max].map(|ratio| format!("{ratio:.2}"));
        let mut note = match ratios.len() {
            1 => "one run".to_owned(),
            runs if least == most => format!("in all {runs} runs"),
            runs => format!("{least} to {most} in {runs} runs"),
        };
        if let Some(published) = study.published_ratio(contender) {
            note.push_str(&format!("; published {published:.2}"));
        }
        found.push(Finding::new(contender.name(), format!("{ratio:.2} of {}", first.name()), note));
    }
    let blocks = |key: &str| {
        let contender = study.contenders.iter().find(|contender| contender.key == key)?;
        median(&contender.figures(|run| run.mount("file")))
    };
    if let (Some(concurrent), Some(direct)) = (blocks("concurrent"), blocks("direct_file")) {
        let scale = Unit::PerSecond.scale([concurrent, direct]);
        found.push(Finding::new(
            "blocks on the file lock",
            format!("{} → {}", scale.show(direct), scale.show(concurrent)),
            "direct-file → concurrent",
        ));
    }
    found
}

fn lead(study: &Study, words: &Words<'_>) -> String {
    let mut text = words.lead.to_owned();
    let rounds = study.contenders.iter().map(|contender| contender.runs.len()).max().unwrap_or(0);
    if let Some([up, steady, down]) = study.seconds() {
        text.push_str(&format!(
            " Storages took turns in {rounds} rounds of {up} s ramp-up, {steady} s steady state and {down} s ramp-down; all \
             figures but those over time are of the steady state."
        ));
    }
    text
}

/// Settings, whatever there are.
fn settings(study: &Study) -> Vec<(String, String)> {
    let shown = |(name, value): (&String, &Value)| {
        let name = if name == "bytes" { "data_bytes" } else { name };
        let bytes = name.strip_suffix("_bytes").zip(value.as_u64());
        let (name, value) = match (bytes, value) {
            (Some((name, bytes)), _) => (name, size(bytes)),
            // A limit that is not there.
            (None, Value::Null) => (name, "none".to_owned()),
            (None, Value::Bool(flag)) => (name, if *flag { "yes" } else { "no" }.to_owned()),
            (None, Value::String(text)) => (name, text.clone()),
            (None, Value::Array(list)) if list.is_empty() => (name, "none".to_owned()),
            (None, Value::Array(list)) => {
                let words = list.iter().map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
                (name, words.collect::<Vec<_>>().join(", "))
            }
            (None, other) => (name, other.to_string()),
        };
        (name.replace('_', " "), value)
    };
    let mut rows: Vec<(String, String)> =
        study.settings.iter().filter(|(name, _)| *name != "seconds").map(shown).collect();
    if let Some([up, steady, down]) = study.seconds() {
        rows.push(("ramp-up, steady, ramp-down".to_owned(), format!("{up} s, {steady} s, {down} s")));
    }
    rows
}

fn table(
    study: &Study,
    (name, caption): (&str, &str),
    columns: Vec<Column>,
    cells: impl Fn(&Contender) -> Vec<Cell>,
) -> Table {
    let rows = study.contenders.iter().map(|contender| (contender.name(), cells(contender))).collect();
    Table { name: name.to_owned(), caption: caption.to_owned(), head: "storage".to_owned(), columns, rows }.dense()
}

fn throughput(study: &Study, events: &str) -> Table {
    let first = study.first().map_or_else(String::new, Contender::name);
    let columns = vec![
        Column::of(events, Unit::PerSecond),
        Column::of(format!("of {first}"), Unit::Ratio),
        Column::exact("published", Unit::PerSecond),
        Column::of("published, of raw", Unit::Ratio),
    ];
    let caption = "Throughput of the steady state, beside the published one";
    table(study, ("throughput", caption), columns, |contender| {
        let published = study.published(contender);
        let raw = study.reference.iter().find(|reference| reference.name == "raw").map(|raw| raw.tps);
        let ratio = published.zip(raw).map(|(figure, raw)| figure.tps / raw);
        vec![
            Cell::runs(contender.figures(|run| Some(run.tps))),
            Cell::runs(study.ratios(contender)),
            Cell::of(published.map(|figure| figure.tps)),
            Cell::of(ratio),
        ]
    })
}

fn responses(study: &Study) -> Table {
    let titles = ["mean", "p50", "p90", "p99", "p99.9", "longest"];
    let mut columns: Vec<Column> = titles.map(|title| Column::of(title, Unit::Seconds)).into();
    columns.push(Column::exact("published mean", Unit::Seconds));
    table(study, ("responses", "Response times, commit included"), columns, |contender| {
        let of =
            |figure: fn(&super::Response) -> Option<f64>| Cell::runs(contender.figures(|run| figure(&run.response)));
        vec![
            of(|response| response.mean),
            of(|response| response.p50),
            of(|response| response.p90),
            of(|response| response.p99),
            of(|response| response.p999),
            of(|response| response.max),
            Cell::of(study.published(contender).map(|figure| figure.response_seconds)),
        ]
    })
}

fn device(study: &Study, events: &str) -> Table {
    let columns = vec![
        Column::of("reads", Unit::PerSecond),
        Column::of("writes", Unit::PerSecond),
        Column::of("data", Unit::BytesPerSecond),
        Column::of("utilisation", Unit::Part),
        Column::of(format!("requests per {}", events.trim_end_matches('s')), Unit::Ratio),
    ];
    table(study, ("device", "The device in the steady state"), columns, |contender| {
        vec![
            Cell::runs(contender.figures(|run| run.used.device_reads_per_second)),
            Cell::runs(contender.figures(|run| run.used.device_writes_per_second)),
            Cell::runs(contender.figures(|run| run.used.device_bytes_per_second)),
            Cell::runs(contender.figures(|run| run.used.utilisation)),
            Cell::runs(contender.figures(|run| Some(run.used.requests()? / run.tps))),
        ]
    })
}

fn processors(study: &Study) -> Table {
    let titles = ["user", "system", "stolen", "I/O wait", "idle"];
    let columns = titles.map(|title| Column::of(title, Unit::Part)).into();
    table(study, ("processors", "Time of all processors in the steady state"), columns, |contender| {
        let of = |part: fn(&super::Used) -> f64| {
            Cell::runs(contender.figures(|run| {
                let used = &run.used;
                let all = used.user + used.system + used.iowait + used.idle + used.steal;
                (all > 0.0).then(|| part(used))
            }))
        };
        vec![
            of(|used| used.user),
            of(|used| used.system),
            of(|used| used.steal),
            of(|used| used.iowait),
            of(|used| used.idle),
        ]
    })
}

fn locks(study: &Study) -> Table {
    let classes = plots::classes(study);
    let columns = classes.iter().map(|(class, _)| Column::of(*class, Unit::PerSecond)).collect();
    let caption = match classes.is_empty() {
        true => "Blocks on locks: nobody was seen to be blocked",
        false => "Blocks on locks; – where a class cannot occur, or could not be seen",
    };
    table(study, ("locks", caption), columns, |contender| {
        classes.iter().map(|(_, rate)| Cell::runs(contender.figures(rate))).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::oltp::WORDS;
    use super::super::tests::text;
    use super::*;

    #[test]
    fn the_section_says_what_came_out_and_what_not_to_believe() {
        let study = Study::read(&text()).unwrap();
        let section = section(&study, &WORDS);
        let direct = &section.findings[1];
        assert_eq!((direct.label.as_str(), direct.value.as_str()), ("direct-file", "0.30 of raw"));
        assert_eq!(direct.note, "0.20 to 0.40 in 2 runs; published 0.31");
        assert_eq!(section.findings[2].value, "5200/s → 0/s");
        let unsteady: Vec<&String> = section.notes.iter().filter(|note| note.contains("Do not rely")).collect();
        assert!(unsteady[0].contains("(raw by 2.00×, concurrent by 2.22×)"), "{unsteady:?}");
        assert!(section.settings.contains(&("page".to_owned(), "8 KiB".to_owned())), "{:?}", section.settings);
        assert!(section.notes.iter().any(|note| note == "a note"));
    }
}
