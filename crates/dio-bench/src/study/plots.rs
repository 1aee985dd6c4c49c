//! The plots of a study.

use super::{Bucket, Contender, ContenderRow, ContenderRun, Point, Study};
use crate::locks::class;
use crate::plot::{Axis, Band, Dot, LinePlot, Plot, PlotKind, Series, Stack, StackSlot};
use crate::quantity::Unit;
use crate::section::{capital, slug};

/// The colour of a contender, the same in all plots.
fn tone(contender: Contender) -> usize {
    match contender {
        Contender::Raw => 0,
        Contender::Bare => 1,
        Contender::DirectFile => 2,
        Contender::DirectRange => 3,
        Contender::Concurrent => 4,
        Contender::Buffered => 5,
    }
}

/// A dot for each value of a contender.
fn dot(row: &ContenderRow, values: Vec<f64>) -> Dot {
    Dot::new(row.name(), tone(row.contender), values)
}

/// A figure of a point; `None` if it was not measured.
type Figure = fn(&Point) -> Option<f64>;

/// All plots but those of figures that were not measured.
pub(crate) fn plots(study: &Study<'_>, events: &str) -> Vec<Plot> {
    let mut all: Vec<Plot> =
        [share(study), throughput(study, events)].into_iter().flatten().collect();
    all.extend(responses(study, events));
    all.extend(device(study));
    all.extend(processors(study));
    all.extend(blocks(study));
    all
}

/// Throughput of each run as a part of that of the first contender.
pub(super) fn share(study: &Study<'_>) -> Option<Plot> {
    let first = study.first()?.name();
    let dot = |row: &ContenderRow| dot(row, study.ratios(row)).beside(study.published_ratio(row));
    let rows: Vec<Dot> = study.rows.iter().map(dot).collect();
    if rows.len() < 2 {
        return None;
    }
    let published = if rows.iter().any(|row| row.published.is_some()) {
        " The diamonds are published figures, of which only such ratios mean anything elsewhere."
    } else {
        ""
    };
    let title = format!("Throughput, as a share of {first}");
    let about = format!(
        "Each dot is a run, divided by the run of {first} in the same round; the bar is the \
         median.{published}"
    );
    Some(Plot::ratios("share", &title, &about, &format!("of {first}"), rows))
}

/// The mean over the runs of a contender, slot by slot, up to the length of the shortest run.
fn means(row: &ContenderRow, figure: Figure) -> Vec<(f64, f64)> {
    let slots = row.runs.iter().map(|run| run.points.len()).min().unwrap_or(0);
    let mean = |slot: usize| {
        let points: Vec<&Point> = row.runs.iter().map(|run| &run.points[slot]).collect();
        let values: Option<Vec<f64>> = points.iter().map(|point| figure(point)).collect();
        let count = points.len() as f64;
        let seconds = points.iter().map(|point| point.seconds).sum::<f64>() / count;
        Some((seconds, values?.iter().sum::<f64>() / count))
    };
    (0..slots).filter_map(mean).collect()
}

/// A figure over time, with a line for each contender; `None` if it was not measured.
fn over_time(
    study: &Study<'_>,
    (name, title, about): (&str, &str, &str),
    y: Unit,
    figure: Figure,
) -> Option<Plot> {
    let line = |row: &ContenderRow| Series {
        name: row.name(),
        tone: tone(row.contender),
        points: means(row, figure),
    };
    let series: Vec<Series> =
        study.rows.iter().map(line).filter(|series| !series.points.is_empty()).collect();
    let end =
        series.iter().flat_map(|series| &series.points).map(|point| point.0).fold(0.0, f64::max);
    if series.is_empty() {
        return None;
    }
    let mut bands = Vec::new();
    if let Some((up, down)) = study.steady() {
        bands.push(Band { from: 0.0, to: up.min(end), name: "ramp-up".to_owned() });
        bands.push(Band { from: down.min(end), to: end, name: "ramp-down".to_owned() });
    }
    let lines = LinePlot {
        x: Axis { unit: Unit::Seconds, logarithmic: false },
        y,
        bands,
        series,
        filled: false,
    };
    Some(Plot::lines(name, title, about, lines))
}

/// Throughput over time.
pub(super) fn throughput(study: &Study<'_>, events: &str) -> Option<Plot> {
    let title = format!("{} over time", capital(events));
    let about = "The mean of all runs, slot by slot. Grey: clients come and go; what is measured \
                 lies between.";
    over_time(study, ("throughput", &title, about), Unit::PerSecond, |point| Some(point.tps))
}

/// I/O rate and utilisation of the device over time.
pub(super) fn device(study: &Study<'_>) -> Vec<Plot> {
    let rate = (
        "io-rate",
        "Requests to the device",
        "Reads and writes that the device completed, whoever sent them.",
    );
    let busy = (
        "utilisation",
        "Utilisation of the device",
        "The part of the time in which the device had something to do; it may take more than one \
         request at a time.",
    );
    let plots = [
        over_time(study, rate, Unit::PerSecond, |point| point.used.requests()),
        over_time(study, busy, Unit::Part, |point| point.used.utilisation),
    ];
    plots.into_iter().flatten().collect()
}

/// The processors' time of each contender.
pub(super) fn processors(study: &Study<'_>) -> Vec<Plot> {
    let plot = |row: &ContenderRow| {
        let parts: [Figure; 4] = [
            |point| Some(point.used.user),
            |point| Some(point.used.system),
            |point| Some(point.used.steal),
            |point| Some(point.used.iowait),
        ];
        let [user, system, steal, iowait] = parts.map(|part| means(row, part));
        let slots = user.iter().zip(&system).zip(&steal).zip(&iowait);
        let slots = slots.map(|(((user, system), steal), iowait)| StackSlot {
            seconds: user.0,
            user: user.1,
            system: system.1,
            steal: steal.1,
            iowait: iowait.1,
        });
        let slots: Vec<StackSlot> = slots.collect();
        let used = |slot: &StackSlot| slot.user + slot.system + slot.steal + slot.iowait > 0.0;
        slots.iter().any(used).then(|| Plot {
            name: format!("cpu-{}", slug(&row.name())),
            title: row.name(),
            about: format!(
                "The processors' time of the whole machine with {}; white is idle.",
                row.name()
            ),
            kind: PlotKind::Stack(Stack { slots, steady: study.steady() }),
        })
    };
    study.rows.iter().filter_map(plot).collect()
}

/// The distribution of response times.
pub(super) fn responses(study: &Study<'_>, events: &str) -> Vec<Plot> {
    let series = study.rows.iter().filter_map(|row| {
        let points = distribution(row.runs.iter().map(|run| &run.histogram[..]))?;
        Some(Series { name: row.name(), tone: tone(row.contender), points })
    });
    let series: Vec<Series> = series.collect();
    let rows = study.rows.iter().map(|row| dot(row, row.figures(|run| Some(run.response.p99))));
    let rows: Vec<Dot> = rows.filter(|row| !row.values.is_empty()).collect();
    let mut plots = Vec::new();
    if !series.is_empty() {
        plots.push(distribution_plot(
            "response-times",
            format!("Response times of {events}"),
            series,
        ));
    }
    if !rows.is_empty() {
        let about = "What 99 of 100 do not exceed: each dot is a run, the bar the median.";
        plots.push(Plot::dots(
            "p99",
            "99th percentile of response times",
            about,
            Unit::Seconds,
            rows,
        ));
    }
    plots
}

/// A plot of distributions of times.
pub(crate) fn distribution_plot(name: &str, title: String, series: Vec<Series>) -> Plot {
    let x = Axis { unit: Unit::Seconds, logarithmic: true };
    let about = "The part of all in each of intervals that widen by a tenth or so. The axis of \
                 times is logarithmic; further left is better.";
    Plot::lines(
        name,
        title,
        about,
        LinePlot { x, y: Unit::Part, bands: Vec::new(), series, filled: true },
    )
}

/// The share of all values in each bucket, summed over several histograms with the same limits;
/// `None` without values.
pub(crate) fn distribution<'a>(
    histograms: impl Iterator<Item = &'a [Bucket]>,
) -> Option<Vec<(f64, f64)>> {
    let mut counts: Vec<Bucket> = histograms.flatten().copied().collect();
    counts.retain(|bucket| bucket.seconds > 0.0 && bucket.seconds.is_finite());
    counts.sort_by(|one, other| one.seconds.total_cmp(&other.seconds));
    let total: f64 = counts.iter().map(|bucket| bucket.count as f64).sum();
    let mut points: Vec<(f64, f64)> = Vec::new();
    for bucket in counts {
        let part = bucket.count as f64 / total.max(1.0);
        match points.last_mut() {
            // The same bucket of another histogram; their limits are equal but for rounding.
            Some((at, sum)) if bucket.seconds / *at < 1.01 => *sum += part,
            _ => points.push((bucket.seconds, part)),
        }
    }
    while points.last().is_some_and(|(_, part)| *part == 0.0) {
        points.pop();
    }
    let (first, last) = (points.first()?.0, points.last()?.0);
    // A bucket is drawn at its middle, and the line falls to zero at both ends.
    let mut all = vec![(first / WIDER / WIDER, 0.0)];
    all.extend(points.iter().map(|(end, part)| (end / WIDER.sqrt(), *part)));
    all.push((last * WIDER, 0.0));
    Some(all)
}

/// Approximate ratio of the upper limits of two adjacent buckets.
const WIDER: f64 = 1.1;

/// A class of blocks: its name, and its rate in a contender's run; `None` if the class applies to
/// mounts only and this is none, or if it was not measured.
pub(super) type Class = (&'static str, fn(Contender, &ContenderRun) -> Option<f64>);

/// Blocks per second on the kernel's locks of one class.
fn kernel(run: &ContenderRun, class: class::Class) -> Option<f64> {
    run.kernel_blocks.as_ref().map(|kernel| kernel.rate(class))
}

/// All classes.
pub(super) const CLASSES: [Class; 9] = [
    ("file lock (mount)", |storage, run| storage.is_mount().then(|| run.mount_rate("file"))),
    ("byte ranges (mount)", |storage, run| storage.is_mount().then(|| run.mount_rate("range"))),
    ("request queue (mount)", |storage, run| storage.is_mount().then(|| run.mount_rate("queue"))),
    ("room (mount)", |storage, run| storage.is_mount().then(|| run.mount_rate("room"))),
    ("device (mount)", |storage, run| storage.is_mount().then(|| run.mount_rate("device"))),
    ("inode (kernel)", |_, run| kernel(run, class::Class::Inode)),
    ("extents (kernel)", |_, run| kernel(run, class::Class::Extents)),
    ("journal (kernel)", |_, run| kernel(run, class::Class::Journal)),
    ("memory map (kernel)", |_, run| kernel(run, class::Class::Mmap)),
];

/// The classes with at least one block in any run.
pub(super) fn classes(study: &Study<'_>) -> Vec<Class> {
    let blocked = |(_, rate): &Class| {
        let rates = |row: &ContenderRow| {
            row.runs.iter().any(|run| rate(row.contender, run).is_some_and(|rate| rate > 0.0))
        };
        study.rows.iter().any(rates)
    };
    CLASSES.into_iter().filter(blocked).collect()
}

/// Blocks per second below which a class gets no plot; the tables contain it.
const SELDOM: f64 = 1.0;

/// Plots of blocks per second, one for each class with frequent blocks.
pub(super) fn blocks(study: &Study<'_>) -> Vec<Plot> {
    let plot = |(class, rate): Class| {
        let dot = |row: &ContenderRow| dot(row, row.figures(|run| rate(row.contender, run)));
        let rows: Vec<Dot> =
            study.rows.iter().map(dot).filter(|row| !row.values.is_empty()).collect();
        let about = "Waits for such locks per second: each dot is a run, the bar the median.";
        let (name, title) = (format!("blocks-{}", slug(class)), format!("Blocked on: {class}"));
        Plot::dots(name, title, about, Unit::PerSecond, rows)
    };
    let often = |plot: &Plot| match &plot.kind {
        PlotKind::Dots(dots) => {
            dots.rows.iter().flat_map(|row| &row.values).any(|rate| *rate >= SELDOM)
        }
        PlotKind::Lines(_) | PlotKind::Stack(_) => true,
    };
    classes(study).into_iter().map(plot).filter(often).collect()
}

#[cfg(test)]
mod tests {
    use super::super::section::tests::report;
    use super::*;

    #[test]
    fn there_is_a_plot_for_everything_that_was_measured() {
        let report = report();
        let names: Vec<String> =
            plots(&report.study(), "transactions").into_iter().map(|plot| plot.name).collect();
        let expected = [
            "share",
            "throughput",
            "response-times",
            "p99",
            "utilisation",
            "cpu-raw",
            "cpu-direct-file",
            "cpu-concurrent",
            "blocks-file-lock-mount",
            "blocks-inode-kernel",
        ];
        assert_eq!(names, expected, "nobody counted requests over time");
    }

    #[test]
    fn the_mean_is_of_all_runs() {
        let report = report();
        assert_eq!(means(&report.rows[0], |point| Some(point.tps)), [(1.0, 1500.0), (2.0, 1500.0)]);
        assert_eq!(means(&report.rows[0], |point| point.used.utilisation).len(), 1);
    }

    #[test]
    fn distributions_of_runs_add_up() {
        let buckets = |counts: [u64; 4]| {
            let ends = [0.001, 0.0011, 0.00121, 0.001331];
            std::iter::zip(ends, counts)
                .map(|(seconds, count)| Bucket { seconds, count })
                .collect::<Vec<_>>()
        };
        let points =
            distribution([&buckets([1, 2, 0, 0])[..], &buckets([0, 0, 1, 0])].into_iter()).unwrap();
        let parts: Vec<f64> = points.iter().map(|point| point.1).collect();
        assert_eq!(parts, [0.0, 0.25, 0.5, 0.25, 0.0]);
        assert!(
            distribution(std::iter::empty()).is_none()
                && distribution([&buckets([0; 4])[..]].into_iter()).is_none()
        );
    }
}
