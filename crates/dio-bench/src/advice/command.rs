//! The advice for a command.

use dio_advise::predict::{Advised, GroupAdvice, Prediction, SizeCount, TimelineSlot, WayEstimate};
use dio_common::units::{seconds, size};

use crate::plot::{Axis, Dot, Dots, LinePlot, Plot, PlotKind, Series};
use crate::quantity::Unit;
use crate::section::{Benchmark, Block, Finding, Rows, Section, Table};

const LEAD: &str = "What the command would take by each way of its I/O, predicted from its \
                    recorded requests and from what requests cost on the disk.";

impl Benchmark for Prediction {
    const NAME: &'static str = "advise";
    const FIELDS: &'static [&'static str] = &["verdict", "ways", "miss_ratios"];

    fn section(&self) -> Section {
        let of = |way| self.ways.iter().find(|one: &&WayEstimate| one.way == way);
        let mut findings = vec![Finding::new(
            "verdict",
            self.verdict.way.words(),
            self.verdict.confidence.words(),
        )];
        findings.extend([Advised::Cached, self.verdict.way].into_iter().filter_map(of).map(time));
        findings.dedup_by(|one, other| one.label == other.label);
        let mut blocks = vec![Block::Plots(vec![times(self)])];
        blocks.push(Block::Table(ways(&self.ways)));
        blocks.extend(self.verdict.why.iter().cloned().map(Block::Text));
        if !self.verdict.apply.is_empty() {
            let lines = self.verdict.apply.iter().cloned();
            blocks.push(Block::Commands(lines.map(|line| ("apply".to_owned(), line)).collect()));
        }
        blocks.push(Block::Heading("The requests".to_owned()));
        let plots = [timeline(self), miss_ratios(self)];
        blocks.push(Block::Plots(plots.into_iter().flatten().collect()));
        blocks.push(Block::Table(sizes(&self.sizes)));
        blocks.push(Block::Table(groups(&self.groups)));
        Section {
            id: Self::NAME.to_owned(),
            title: format!("Should it use direct I/O? {}", self.command.join(" ")),
            lead: LEAD.to_owned(),
            findings,
            blocks,
            notes: self.missing.clone(),
            settings: vec![
                ("recorded".to_owned(), seconds(self.recorded_seconds)),
                ("model : recorded".to_owned(), format!("{:.2}", self.model_ratio)),
                ("profile".to_owned(), self.profile.0.clone()),
            ],
            ..Section::default()
        }
    }
}

fn time(way: &WayEstimate) -> Finding {
    let range = format!("{} to {}", seconds(way.low), seconds(way.high));
    Finding::new(way.way.to_string(), seconds(way.predicted_seconds), range)
}

/// The expected time of each way with its range, and below it what was measured.
fn times(prediction: &Prediction) -> Plot {
    let mut rows = Vec::new();
    for way in &prediction.ways {
        rows.push(Dot::new(way.way.to_string(), 4, vec![way.low, way.predicted_seconds, way.high]));
        if let Some(measured) = way.measured_seconds {
            rows.push(Dot::new(format!("{}, measured", way.way), 1, vec![measured]));
        }
    }
    let about = "The dots of a way are the expected time and the ends of its range; further left \
                 is better.";
    let label = "expected or measured".to_owned();
    let kind = PlotKind::Dots(Dots { unit: Unit::Seconds, label, guide: None, rows });
    let title = "Time by way".to_owned();
    Plot { name: "times".to_owned(), title, about: about.to_owned(), kind }
}

fn ways(ways: &[WayEstimate]) -> Table {
    Rows::new(("ways", "way"), "What each way takes", ways, |way| way.way.to_string())
        .column("expected", Unit::Seconds, |way| way.predicted_seconds)
        .column("from", Unit::Seconds, |way| way.low)
        .column("to", Unit::Seconds, |way| way.high)
        .column("measured", Unit::Seconds, |way| way.measured_seconds)
        .column("page cache", Unit::Bytes, |way| way.cache_bytes)
        .column("processors", Unit::Seconds, |way| way.cpu_seconds)
        .table()
}

fn groups(groups: &[GroupAdvice]) -> Table {
    Rows::new(("groups", "files"), "The files", groups, |group| group.files.clone())
        .column("number", Unit::Count, |group| group.count)
        .words("way", |group| group.way.words())
        .words("evidence", |group| group.evidence.join("; "))
        .table()
}

fn line(name: &str, tone: usize, points: Vec<(f64, f64)>) -> Series {
    Series { name: name.to_owned(), tone, points }
}

fn timeline(prediction: &Prediction) -> Option<Plot> {
    let slots = &prediction.timeline;
    let of = |name: &str, tone, bytes: fn(&_) -> u64| {
        let rate = |slot: &TimelineSlot| (slot.seconds, bytes(slot) as f64 / slot.length.max(1e-9));
        line(name, tone, slots.iter().map(rate).collect())
    };
    let series = vec![
        of("read", 4, |slot: &TimelineSlot| slot.read_bytes),
        of("written", 1, |slot| slot.written_bytes),
        of("new to the page cache", 2, |slot| slot.missed_bytes),
    ];
    let x = Axis { unit: Unit::Seconds, logarithmic: false };
    let about = "Bytes that requests read and wrote, and bytes that the page cache did not have, \
                 with what the kernel read ahead, over the recorded time.";
    let kind = LinePlot { x, y: Unit::BytesPerSecond, bands: Vec::new(), series, filled: true };
    (slots.len() > 1).then(|| Plot::lines("timeline", "Over time", about, kind))
}

fn miss_ratios(prediction: &Prediction) -> Option<Plot> {
    let points = &prediction.miss_ratios;
    let curve = points.iter().map(|point| (point.memory_bytes as f64, point.miss_ratio)).collect();
    let x = Axis { unit: Unit::Bytes, logarithmic: true };
    let about = "The part of the bytes read that a page cache of this size would not have.";
    let series = vec![line("missed", 4, curve)];
    let kind = LinePlot { x, y: Unit::Part, bands: Vec::new(), series, filled: true };
    (points.len() > 1).then(|| Plot::lines("misses", "What a page cache misses", about, kind))
}

fn sizes(sizes: &[SizeCount]) -> Table {
    let caption = "Requests by the bytes that they asked for, each size up to a power of two";
    Rows::new(("sizes", "up to"), caption, sizes, |one| size(one.bytes))
        .column("reads", Unit::Count, |one| one.reads)
        .column("writes", Unit::Count, |one| one.writes)
        .table()
}
