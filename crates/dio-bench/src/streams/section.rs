//! The section that shows a result.

use dio_common::units::size;

use super::report::{StreamsReport, Variant, Workload};
use crate::plot::{self, Plot};
use crate::quantity::Unit;
use crate::section::{Benchmark, Block, Cell, Finding, Rows, Section, Table, slug};
use crate::stats::ratios;

impl Benchmark for StreamsReport {
    const NAME: &'static str = "streams";
    const FIELDS: &'static [&'static str] = &["workloads", "runs"];

    fn section(&self) -> Section {
        let finding = |workload: &Workload| {
            let peer = workload.ways.get(1).filter(|peer| peer.stream_ratio.is_finite())?;
            let value = format!("{:.2} of the time", peer.stream_ratio);
            Some(Finding::new(workload.name.clone(), value, format!("stream ÷ {}", peer.name)))
        };
        let mut blocks = vec![Block::Plots(self.workloads.iter().map(Workload::plot).collect())];
        blocks.extend(self.workloads.iter().map(|workload| Block::Table(workload.table())));
        Section {
            lead: format!(
                "Every workload is done in several ways, each starting cold, in turns, {} times \
                 each. The first way is the library's stream, which the others are compared with. \
                 Writing ends durable.",
                self.runs
            ),
            findings: self.workloads.iter().filter_map(finding).collect(),
            blocks,
            notes: vec![
                "In vain: bytes read beyond those asked for, as a part of those asked for; the \
                 worst run. Pages left: resident pages of the file afterwards; the most of all \
                 runs."
                    .to_owned(),
            ],
            ..Section::new(
                StreamsReport::NAME,
                "The library's streams against the page cache",
                &self.environment,
            )
        }
    }
}

impl Workload {
    fn plot(&self) -> Plot {
        let row = |(place, way): (usize, &Variant)| {
            plot::Dot::new(way.name.clone(), [4, 1, 3, 5, 2][place % 5], way.wall().collect())
        };
        let about = format!(
            "Elapsed time for {}: each dot is a run, the bar the median.",
            size(self.bytes)
        );
        let rows = self.ways.iter().enumerate().map(row).collect();
        Plot::dots(slug(&self.name), self.name.clone(), &about, Unit::Seconds, rows)
    }

    fn table(&self) -> Table {
        let name = format!("{}-ways", slug(&self.name));
        let caption = format!("{}, {}", self.name, size(self.bytes));
        let steps = self.bytes.div_ceil(self.step_bytes.max(1)) as f64;
        let stream = || self.ways.first().into_iter().flat_map(Variant::wall);
        Rows::new((&name, "way"), caption, &self.ways, |way| way.name.clone())
            .column("elapsed", Unit::Seconds, |way| Cell::runs(way.wall()))
            .column("stream ÷ this", Unit::Ratio, |way| ratios(stream(), way.wall()))
            .column("throughput", Unit::BytesPerSecond, |way| {
                Cell::runs(way.wall().map(|seconds| self.bytes as f64 / seconds))
            })
            .column("steps", Unit::PerSecond, |way| {
                Cell::runs(way.wall().map(|seconds| steps / seconds))
            })
            .column("CPU", Unit::Seconds, |way| {
                Cell::runs(way.samples.iter().map(|run| run.usage.cpu_seconds))
            })
            .column("in vain", Unit::Part, |way| way.in_vain_part)
            .column("buffers", Unit::Bytes, |way| way.buffer_bytes)
            .column("pages left", Unit::Count, |way| way.pages_after)
            .table()
    }
}
