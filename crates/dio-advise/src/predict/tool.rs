//! What the tool of dio in place of a program would take.

use std::collections::BTreeMap;
use std::path::Path;

use super::groups::Group;
use super::model::{Advised, WayEstimate};
use super::shell::shell_line;
use crate::replay::planned::Plan;
use crate::speed::{CostTable, Operation, Way};

/// Programs for which dio has a tool of the same name.
const TOOLS: [&str; 17] = [
    "cp",
    "cat",
    "dd",
    "tee",
    "split",
    "uniq",
    "sort",
    "tar",
    "gzip",
    "zstd",
    "sum",
    "md5sum",
    "sha1sum",
    "sha224sum",
    "sha256sum",
    "sha384sum",
    "sha512sum",
];

/// Programs that compute what depends on the bytes that they read.
const FILTERS: [&str; 4] = ["gzip", "zstd", "sort", "uniq"];

/// How long the tool took for the first bytes of what the command read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ToolRun {
    /// The bytes.
    pub bytes: u64,
    /// The seconds.
    pub seconds: f64,
    /// The seconds of processor time.
    pub cpu_seconds: f64,
}

/// Two runs of the tool, of which one had fewer bytes: so the time that it takes to start is told
/// from that of the bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ToolSample {
    /// The run of fewer bytes.
    pub short: ToolRun,
    /// The run of more bytes.
    pub long: ToolRun,
}

impl ToolSample {
    /// The seconds for so many bytes, and those of processor time: those of the long run, and for
    /// what is more or less, in proportion to how far the two runs are apart.
    fn at(&self, bytes: u64) -> (f64, f64) {
        let [short, long] = [self.short, self.long];
        let apart = long.bytes.saturating_sub(short.bytes);
        let value = |short: f64, long: f64, bytes_long: u64| {
            let of_all = long / bytes_long.max(1) as f64;
            let of_more = if apart > 0 { (long - short) / apart as f64 } else { of_all };
            // A run may have been disturbed: no byte takes more than its part of all.
            let of_byte = of_more.clamp(0.0, of_all);
            (long + of_byte * (bytes as f64 - bytes_long as f64)).max(0.0)
        };
        (
            value(short.seconds, long.seconds, long.bytes),
            value(short.cpu_seconds, long.cpu_seconds, long.bytes),
        )
    }
}

/// The file that a command reads most of, if what the tool in its place computes depends on it, and
/// the tool.
pub(super) fn input_of(plan: &Plan) -> Option<(&'static str, u32)> {
    let tool = tool_of(&plan.command).filter(|tool| FILTERS.contains(tool))?;
    let mut read = vec![0_u64; plan.files.len()];
    for request in plan.requests().filter(|request| request.call.reads()) {
        let bytes = &mut read[request.file as usize];
        *bytes = bytes.saturating_add(request.done);
    }
    let files = plan.files.iter().zip(&read).zip(0..);
    let inputs = files.filter(|((file, read), _)| !file.is_made && **read > 0);
    let most = inputs.max_by_key(|((_, read), _)| **read)?;
    Some((tool, most.1))
}

/// Up to so many files are read as streams.
const FEW_FILES: u64 = 4;

/// How far the tool may be from what was measured, and from what the program computed.
const KNOWN_WORK: f64 = 0.15;
const UNKNOWN_WORK: f64 = 0.5;

/// The tool for a command, if there is one.
pub(super) fn tool_of(command: &[String]) -> Option<&'static str> {
    let name = Path::new(command.first()?).file_name()?.to_str()?;
    TOOLS.into_iter().find(|tool| *tool == name)
}

/// The words of the command line of the tool in place of the program.
fn words(command: &[String]) -> Vec<String> {
    let mut words = vec!["dio".to_owned(), tool_of(command).unwrap_or_default().to_owned()];
    words.extend(command.iter().skip(1).cloned());
    words
}

/// The seconds in which each of so many files is opened, and, if it is one of many, read: many
/// files are small. Profiles of earlier versions have no such time of the tools.
fn opening(tool: &CostTable, cached: &CostTable, read: u64, opened: u64) -> Option<f64> {
    let open = cached.seconds(Operation::Open, 0);
    if opened <= FEW_FILES {
        return open;
    }
    let by_calls = || Some(open? + cached.seconds(Operation::ReadAtRandom, read / opened)?);
    tool.seconds(Operation::Open, 0).or_else(by_calls)
}

/// The time that the tool would take: its streams read, compute and write at the same time, and
/// what it writes is durable when it ends.
pub(super) fn estimate(
    plan: &Plan,
    groups: &[Group],
    tables: &BTreeMap<Way, CostTable>,
    sample: Option<ToolSample>,
) -> Option<WayEstimate> {
    tool_of(&plan.command)?;
    let (table, cached) = (tables.get(&Way::Tool)?, tables.get(&Way::Cached)?);
    let (mut read, mut written, mut opened) = (0_u64, 0_u64, 0_u64);
    for group in groups {
        read = group.facts.read.bytes.saturating_add(read);
        written = group.facts.written.bytes.saturating_add(written);
        opened += group.files.len() as u64;
    }
    let computed = plan.computed_seconds() + plan.tail as f64 / 1e9;
    // What the tool computes was measured, or is taken to be as much as the program did.
    let sampled = sample
        .zip(input_of(plan))
        .map(|(sample, (_, input))| sample.at(plan.files[input as usize].size));
    let measured = table.seconds(Operation::Work, read);
    let measured = measured.map(|work| (work, table.cpu(Operation::Work, read)));
    let (work, work_cpu, unknown) = match sampled.or(measured) {
        Some((work, cpu)) => (work, cpu, KNOWN_WORK),
        None => (computed, computed, UNKNOWN_WORK),
    };
    let both = read.min(written);
    let seconds =
        |operation, bytes| if bytes > 0 { table.seconds(operation, bytes) } else { Some(0.0) };
    let moved = seconds(Operation::Copy, both)?
        + seconds(Operation::ReadInOrder, read - both)?
        + seconds(Operation::WriteInOrder, written - both)?;
    let files = opening(table, cached, read, opened)? * opened as f64;
    let predicted_seconds = work.max(moved) + files;
    let cpu = work_cpu + table.cpu(Operation::ReadInOrder, read);
    let cpu = cpu + table.cpu(Operation::WriteInOrder, written);
    let line = words(&plan.command);
    Some(WayEstimate {
        way: Advised::Tool,
        predicted_seconds,
        low: predicted_seconds / (1.0 + unknown),
        high: predicted_seconds * (1.0 + unknown),
        measured_seconds: None,
        cache_bytes: 0,
        cpu_seconds: cpu,
        apply: vec![shell_line(&line)],
        line,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_counts_once() {
        let run = |bytes, seconds| ToolRun { bytes, seconds, cpu_seconds: seconds / 2.0 };
        let near = |(seconds, cpu): (f64, f64), wanted: f64| {
            assert!((seconds - wanted).abs() < 1e-9, "{seconds} instead of {wanted}");
            assert!((cpu - wanted / 2.0).abs() < 1e-9, "{cpu}");
        };
        let sample = ToolSample { short: run(100, 2.0), long: run(400, 5.0) };
        near(sample.at(1000), 11.0);
        near(sample.at(400), 5.0);
        near(sample.at(0), 1.0);
        let same = ToolSample { short: run(400, 5.0), long: run(400, 5.0) };
        near(same.at(800), 10.0);
        let disturbed = ToolSample { short: run(100, 9.0), long: run(400, 5.0) };
        near(disturbed.at(1000), 5.0);
    }

    #[test]
    fn a_tool_takes_the_same_arguments() {
        let command = ["/usr/bin/cp".to_owned(), "-r".into(), "it's".into()];
        assert_eq!(shell_line(&words(&command)), "dio cp -r \"it's\"");
    }
}
