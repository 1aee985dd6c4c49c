//! The plots of a study.

use super::super::slug;
use super::{Bucket, Contender, Point, Run, Study};
use crate::plot::{Axis, Band, Dots, Kind, Lines, Plot, Row, Series, Slot, Stack};
use crate::quantity::Unit;

/// The figure of a point; `None` where it was not measured.
type Figure = fn(&Point) -> Option<f64>;

/// All plots; those of figures that nobody measured are left out.
pub fn plots(study: &Study, events: &str) -> Vec<Plot> {
    let mut all: Vec<Plot> = [share(study), throughput(study, events)].into_iter().flatten().collect();
    all.extend(responses(study, events));
    all.extend(device(study));
    all.extend(processors(study));
    all.extend(blocks(study));
    all
}

/// Throughput of each run as a part of that of the first contender.
pub(super) fn share(study: &Study) -> Option<Plot> {
    let first = study.first()?.name();
    let row = |(place, contender): (usize, &Contender)| Row {
        name: contender.name(),
        tone: contender.tone(place),
        values: study.ratios(contender),
        published: study.published_ratio(contender),
    };
    let rows: Vec<Row> = study.contenders.iter().enumerate().map(row).collect();
    if rows.len() < 2 {
        return None;
    }
    let published = if rows.iter().any(|row| row.published.is_some()) {
        " The diamonds are published figures, of which only such ratios mean anything elsewhere."
    } else {
        ""
    };
    Some(Plot {
        name: "share".to_owned(),
        title: format!("Throughput, as a share of {first}"),
        about: format!(
            "Each dot is a run, divided by the run of {first} in the same round; the bar is the median.{published}"
        ),
        kind: Kind::Dots(Dots { unit: Unit::Ratio, label: format!("of {first}"), guide: Some(1.0), rows }),
    })
}

/// The mean over the runs of a contender, slot by slot, as far as all runs go.
fn means(contender: &Contender, figure: Figure) -> Vec<(f64, f64)> {
    let slots = contender.runs.iter().map(|run| run.points.len()).min().unwrap_or(0);
    let mean = |slot: usize| {
        let points: Vec<&Point> = contender.runs.iter().map(|run| &run.points[slot]).collect();
        let values: Option<Vec<f64>> = points.iter().map(|point| figure(point)).collect();
        let count = points.len() as f64;
        let seconds = points.iter().map(|point| point.seconds).sum::<f64>() / count;
        Some((seconds, values?.iter().sum::<f64>() / count))
    };
    (0..slots).filter_map(mean).collect()
}

/// A figure over time, a line for each contender; `None` where nobody measured it.
fn over_time(study: &Study, (name, title, about): (&str, &str, &str), y: Unit, figure: Figure) -> Option<Plot> {
    let series: Vec<Series> = study
        .contenders
        .iter()
        .enumerate()
        .map(|(place, contender)| Series {
            name: contender.name(),
            tone: contender.tone(place),
            points: means(contender, figure),
        })
        .filter(|series| !series.points.is_empty())
        .collect();
    let end = series.iter().flat_map(|series| &series.points).map(|point| point.0).fold(0.0, f64::max);
    if series.is_empty() {
        return None;
    }
    let mut bands = Vec::new();
    if let Some((up, down)) = study.steady() {
        bands.push(Band { from: 0.0, to: up.min(end), name: "ramp-up".to_owned() });
        bands.push(Band { from: down.min(end), to: end, name: "ramp-down".to_owned() });
    }
    let lines = Lines { x: Axis { unit: Unit::Seconds, logarithmic: false }, y, bands, series, filled: false };
    Some(Plot { name: name.to_owned(), title: title.to_owned(), about: about.to_owned(), kind: Kind::Lines(lines) })
}

/// Throughput over time.
pub(super) fn throughput(study: &Study, events: &str) -> Option<Plot> {
    let title = format!("{} over time", capital(events));
    let about = "The mean of all runs, slot by slot. Grey: clients come and go; what is measured lies between.";
    over_time(study, ("throughput", &title, about), Unit::PerSecond, |point| Some(point.tps))
}

/// I/O rate and utilisation of the device over time.
pub(super) fn device(study: &Study) -> Vec<Plot> {
    let rate = ("io-rate", "Requests to the device", "Reads and writes that the device completed, whoever sent them.");
    let busy = (
        "utilisation",
        "Utilisation of the device",
        "The part of the time in which the device had something to do; it may take more than one request at a time.",
    );
    let plots = [
        over_time(study, rate, Unit::PerSecond, |point| point.used.requests()),
        over_time(study, busy, Unit::Part, |point| point.used.utilisation),
    ];
    plots.into_iter().flatten().collect()
}

/// The processors' time of each contender.
pub(super) fn processors(study: &Study) -> Vec<Plot> {
    let plot = |contender: &Contender| {
        let parts: [Figure; 4] = [
            |point| Some(point.used.user),
            |point| Some(point.used.system),
            |point| Some(point.used.steal),
            |point| Some(point.used.iowait),
        ];
        let [user, system, steal, iowait] = parts.map(|part| means(contender, part));
        let slots = user.iter().zip(&system).zip(&steal).zip(&iowait);
        let slots = slots.map(|(((user, system), steal), iowait)| Slot {
            seconds: user.0,
            user: user.1,
            system: system.1,
            steal: steal.1,
            iowait: iowait.1,
        });
        let slots: Vec<Slot> = slots.collect();
        let used = |slot: &Slot| slot.user + slot.system + slot.steal + slot.iowait > 0.0;
        slots.iter().any(used).then(|| Plot {
            name: format!("cpu-{}", slug(&contender.name())),
            title: contender.name(),
            about: format!("The processors' time of the whole machine with {}; white is idle.", contender.name()),
            kind: Kind::Stack(Stack { slots, steady: study.steady() }),
        })
    };
    study.contenders.iter().filter_map(plot).collect()
}

/// How often which response time occurred.
pub(super) fn responses(study: &Study, events: &str) -> Vec<Plot> {
    let series = study.contenders.iter().enumerate().filter_map(|(place, contender)| {
        let points = distribution(contender.runs.iter().map(|run| &run.histogram[..]))?;
        Some(Series { name: contender.name(), tone: contender.tone(place), points })
    });
    let series: Vec<Series> = series.collect();
    let rows = study.contenders.iter().enumerate().map(|(place, contender)| Row {
        name: contender.name(),
        tone: contender.tone(place),
        values: contender.figures(|run| run.response.p99),
        published: None,
    });
    let rows: Vec<Row> = rows.filter(|row| !row.values.is_empty()).collect();
    let mut plots = Vec::new();
    if !series.is_empty() {
        plots.push(distribution_plot("response-times", format!("Response times of {events}"), series));
    }
    if !rows.is_empty() {
        plots.push(Plot {
            name: "p99".to_owned(),
            title: "99th percentile of response times".to_owned(),
            about: "What 99 of 100 do not exceed: each dot is a run, the bar the median.".to_owned(),
            kind: Kind::Dots(Dots { unit: Unit::Seconds, label: "median".to_owned(), guide: None, rows }),
        });
    }
    plots
}

/// A plot of distributions of times.
pub(in super::super) fn distribution_plot(name: &str, title: String, series: Vec<Series>) -> Plot {
    let x = Axis { unit: Unit::Seconds, logarithmic: true };
    Plot {
        name: name.to_owned(),
        title,
        about: "The part of all in each of intervals that widen by a tenth or so. The axis of times is logarithmic; further \
                left is better."
            .to_owned(),
        kind: Kind::Lines(Lines { x, y: Unit::Part, bands: Vec::new(), series, filled: true }),
    }
}

/// The parts of all values in each bucket, of several histograms with the same limits together; `None` without values.
pub(in super::super) fn distribution<'a>(histograms: impl Iterator<Item = &'a [Bucket]>) -> Option<Vec<(f64, f64)>> {
    let mut counts: Vec<Bucket> = histograms.flatten().copied().collect();
    counts.retain(|bucket| bucket.seconds > 0.0 && bucket.seconds.is_finite());
    counts.sort_by(|one, other| one.seconds.total_cmp(&other.seconds));
    let total: f64 = counts.iter().map(|bucket| bucket.count as f64).sum();
    let mut points: Vec<(f64, f64)> = Vec::new();
    for bucket in counts {
        let part = bucket.count as f64 / total.max(1.0);
        match points.last_mut() {
            // The same bucket of another histogram: their limits are the same but for rounding.
            Some((at, sum)) if bucket.seconds / *at < 1.01 => *sum += part,
            _ => points.push((bucket.seconds, part)),
        }
    }
    while points.last().is_some_and(|(_, part)| *part == 0.0) {
        points.pop();
    }
    let (first, last) = (points.first()?.0, points.last()?.0);
    // A bucket is drawn in its middle, and the line goes down to nothing at both ends.
    let mut all = vec![(first / WIDER / WIDER, 0.0)];
    all.extend(points.iter().map(|(end, part)| (end / WIDER.sqrt(), *part)));
    all.push((last * WIDER, 0.0));
    Some(all)
}

/// The longest time of a bucket divided by that of the one before, or nearly so.
const WIDER: f64 = 1.1;

/// A class of blocks: a name, and the rate of a run.
pub(super) type Class = (&'static str, fn(&Run) -> Option<f64>);

/// All classes.
const CLASSES: [Class; 9] = [
    ("file lock (mount)", |run| run.mount("file")),
    ("byte ranges (mount)", |run| run.mount("range")),
    ("request queue (mount)", |run| run.mount("queue")),
    ("room (mount)", |run| run.mount("room")),
    ("device (mount)", |run| run.mount("device")),
    ("inode (kernel)", |run| run.kernel("inode")),
    ("extents (kernel)", |run| run.kernel("extents")),
    ("journal (kernel)", |run| run.kernel("journal")),
    ("memory map (kernel)", |run| run.kernel("mmap")),
];

/// Those classes that anybody was ever blocked on.
pub(super) fn classes(study: &Study) -> Vec<Class> {
    let runs = || study.contenders.iter().flat_map(|contender| &contender.runs);
    CLASSES.into_iter().filter(|(_, rate)| runs().filter_map(rate).any(|rate| rate > 0.0)).collect()
}

/// Blocks per second below which a class is not worth a plot; tables have it.
const SELDOM: f64 = 1.0;

/// Blocks per second, a plot for each class that somebody was often blocked on.
pub(super) fn blocks(study: &Study) -> Vec<Plot> {
    let plot = |(class, rate): Class| {
        let row = |(place, contender): (usize, &Contender)| Row {
            name: contender.name(),
            tone: contender.tone(place),
            values: contender.figures(rate),
            published: None,
        };
        let rows: Vec<Row> =
            study.contenders.iter().enumerate().map(row).filter(|row| !row.values.is_empty()).collect();
        Plot {
            name: format!("blocks-{}", slug(class)),
            title: format!("Blocked on: {class}"),
            about: "Waits for such locks per second: each dot is a run, the bar the median.".to_owned(),
            kind: Kind::Dots(Dots { unit: Unit::PerSecond, label: "median".to_owned(), guide: None, rows }),
        }
    };
    let often = |plot: &Plot| match &plot.kind {
        Kind::Dots(dots) => dots.rows.iter().flat_map(|row| &row.values).any(|rate| *rate >= SELDOM),
        Kind::Lines(_) | Kind::Stack(_) => true,
    };
    classes(study).into_iter().map(plot).filter(often).collect()
}

/// With a capital letter.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::super::tests::text;
    use super::*;

    #[test]
    fn there_is_a_plot_for_everything_that_was_measured() {
        let study = Study::read(&text()).unwrap();
        let names: Vec<String> = plots(&study, "transactions").into_iter().map(|plot| plot.name).collect();
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
        let study = Study::read(&text()).unwrap();
        assert_eq!(means(&study.contenders[0], |point| Some(point.tps)), [(1.0, 1500.0), (2.0, 1500.0)]);
        assert_eq!(means(&study.contenders[0], |point| point.used.utilisation).len(), 1);
    }

    #[test]
    fn distributions_of_runs_add_up() {
        let buckets = |counts: [u64; 4]| {
            let ends = [0.001, 0.0011, 0.00121, 0.001331];
            std::iter::zip(ends, counts).map(|(seconds, count)| Bucket { seconds, count }).collect::<Vec<_>>()
        };
        let points = distribution([&buckets([1, 2, 0, 0])[..], &buckets([0, 0, 1, 0])].into_iter()).unwrap();
        let parts: Vec<f64> = points.iter().map(|point| point.1).collect();
        assert_eq!(parts, [0.0, 0.25, 0.5, 0.25, 0.0]);
        assert!(
            distribution(std::iter::empty()).is_none() && distribution([&buckets([0; 4])[..]].into_iter()).is_none()
        );
    }
}
