use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::super::{RequestKind, Stats};
use super::*;

/// A line with a value.
#[derive(Debug)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || letter == '_' || letter == ':')
}

/// Parses labels up to the closing brace; returns them with the rest.
fn labels(text: &str) -> Result<(BTreeMap<String, String>, &str), String> {
    let mut labels = BTreeMap::new();
    let mut rest = text;
    loop {
        if let Some(rest) = rest.strip_prefix('}') {
            return Ok((labels, rest));
        }
        let (name, behind) = rest.split_once("=\"").ok_or("no label")?;
        let mut value = String::new();
        let mut letters = behind.char_indices();
        let end = loop {
            match letters.next().ok_or("the value of a label does not end")? {
                (at, '"') => break at,
                (_, '\\') => match letters.next() {
                    Some((_, 'n')) => value.push('\n'),
                    Some((_, letter @ ('\\' | '"'))) => value.push(letter),
                    other => return Err(format!("escape of {other:?}")),
                },
                (_, letter) => value.push(letter),
            }
        };
        if !is_name(name) || labels.insert(name.to_owned(), value).is_some() {
            return Err(format!("label {name}"));
        }
        rest = &behind[end + 1..];
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None if rest.starts_with('}') => {}
            None => return Err("labels are not separated".to_owned()),
        }
    }
}

/// Parses the format as specified, more strictly than Prometheus does.
fn check(text: &str) -> Result<Vec<Sample>, String> {
    if !text.ends_with('\n') {
        return Err("the last line does not end".to_owned());
    }
    let mut types = BTreeMap::new();
    let mut helped = BTreeSet::new();
    let mut samples = Vec::<Sample>::new();
    let mut family = String::new();
    for line in text.lines() {
        let wrong = |what: &str| format!("{what}: {line}");
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, words) = help.split_once(' ').ok_or_else(|| wrong("no help"))?;
            if words.is_empty() || !helped.insert(name.to_owned()) {
                return Err(wrong("no help, or two"));
            }
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').ok_or_else(|| wrong("no type"))?;
            if !["counter", "gauge", "histogram"].contains(&kind)
                || types.insert(name.to_owned(), kind).is_some()
            {
                return Err(wrong("type"));
            }
            family = name.to_owned();
        } else {
            let (name, rest) = line.split_once('{').ok_or_else(|| wrong("no labels"))?;
            let (labels, value) = labels(rest).map_err(|what| wrong(&what))?;
            let value: f64 = value
                .strip_prefix(' ')
                .and_then(|value| value.parse().ok())
                .ok_or_else(|| wrong("value"))?;
            let kind = *types.get(&family).ok_or_else(|| wrong("no type before it"))?;
            let suffix = name
                .strip_prefix(family.as_str())
                .ok_or_else(|| wrong("between those of another name"))?;
            let sound = match kind {
                "histogram" => ["_bucket", "_sum", "_count"].contains(&suffix),
                "counter" => suffix.is_empty() && name.ends_with("_total"),
                _ => suffix.is_empty() && !name.ends_with("_total"),
            };
            if !sound
                || !is_name(name)
                || !helped.contains(&family)
                || !value.is_finite()
                || value < 0.0
            {
                return Err(wrong("sample"));
            }
            if samples.iter().any(|other| other.name == name && other.labels == labels) {
                return Err(wrong("twice"));
            }
            samples.push(Sample { name: name.to_owned(), labels, value });
        }
    }
    histograms_are_sound(&samples)?;
    Ok(samples)
}

/// Checks that the counts of buckets increase with their bounds, and that the last one is the total
/// count.
fn histograms_are_sound(samples: &[Sample]) -> Result<(), String> {
    let mut last: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for sample in samples.iter().filter(|sample| sample.name.ends_with("_bucket")) {
        let operation = sample.labels["operation"].clone();
        let bound: f64 = sample.labels["le"].parse().map_err(|_| "bound")?;
        let before = last.insert(operation, (bound, sample.value));
        if before.is_some_and(|(before, count)| before >= bound || count > sample.value) {
            return Err(format!("buckets fall: {sample:?}"));
        }
    }
    for sample in samples.iter().filter(|sample| sample.name.ends_with("seconds_count")) {
        if last.get(&sample.labels["operation"]) != Some(&(f64::INFINITY, sample.value)) {
            return Err(format!("the last bucket is not the count: {sample:?}"));
        }
    }
    Ok(())
}

fn value(samples: &[Sample], name: &str, label: (&str, &str)) -> Option<f64> {
    let found = samples.iter().find(|sample| {
        sample.name == name && sample.labels.get(label.0).is_some_and(|v| v == label.1)
    });
    found.map(|sample| sample.value)
}

#[test]
fn the_checker_finds_what_is_wrong() {
    let head = "# HELP a_total b\n# TYPE a_total counter\n";
    assert!(check(&format!("{head}a_total{{b=\"c\"}} 1\n")).is_ok());
    for wrong in [
        "a_total{b=\"c\"} 1",
        "a_total{b=\"c\"} -1\n",
        "a_total{b=\"c\"} NaN\n",
        "a_total{b=\"c} 1\n",
        "a_total{b=\"\\x\"} 1\n",
        "a_total{0b=\"c\"} 1\n",
        "a_total{b=\"c\"} 1\na_total{b=\"c\"} 1\n",
        "b_total{b=\"c\"} 1\n",
    ] {
        assert!(check(&format!("{head}{wrong}")).is_err(), "{wrong}");
    }
    assert!(check("a_total{b=\"c\"} 1\n").is_err());
}

#[test]
fn figures_are_found_again() {
    let stats = Stats::new();
    stats.describe("mountpoint", "/mnt/\"odd\\\n");
    let file = stats.file(2, "data");
    file.read(dio::Class::Direct, 8192, std::time::Duration::from_millis(2));
    file.waited(super::super::Wait::Queue, std::time::Duration::from_micros(1500));
    drop(stats.begin(super::super::Operation::Lookup));
    stats.gauge(super::super::Gauge::Inodes, || 77);
    let samples = check(&render(&stats.snapshot())).unwrap();
    assert!(samples.iter().all(|sample| sample.labels["mountpoint"] == "/mnt/\"odd\\\n"));
    assert_eq!(value(&samples, "dio_request_bytes_total", ("kind", "read")), Some(8192.0));
    assert_eq!(value(&samples, "dio_read_requests_total", ("class", "direct")), Some(1.0));
    assert_eq!(value(&samples, "dio_request_seconds_total", ("kind", "read")), Some(0.002));
    assert_eq!(value(&samples, "dio_blocks_total", ("on", "queue")), Some(1.0));
    assert_eq!(value(&samples, "dio_blocked_seconds_total", ("on", "queue")), Some(0.0015));
    assert_eq!(
        value(&samples, "dio_operation_duration_seconds_count", ("operation", "lookup")),
        Some(1.0)
    );
    assert_eq!(value(&samples, "dio_inodes", ("mountpoint", "/mnt/\"odd\\\n")), Some(77.0));
    assert_eq!(value(&samples, "dio_up", ("mountpoint", "/mnt/\"odd\\\n")), Some(1.0));
}

proptest! {
    #[test]
    fn any_snapshot_is_sound(
        mountpoint in any::<String>(),
        buckets in prop::collection::btree_map(any::<u64>(), 0..1u64 << 40, 0..40),
        nanos in any::<u64>(),
        count in any::<u64>(),
    ) {
        let buckets: Vec<(u64, u64)> = buckets.into_iter().collect();
        let latency = Latency {
            count: buckets.iter().map(|bucket| bucket.1).sum(), errors: 0, nanos, buckets
        };
        let mut snapshot = Snapshot { nanos, ..Snapshot::default() };
        snapshot.about.insert("mountpoint".to_owned(), mountpoint);
        snapshot.operations.insert("read".to_owned(), latency);
        snapshot.total.requests.add(RequestKind::Read, count);
        let samples = check(&render(&snapshot));
        prop_assert!(samples.is_ok(), "{:?}", samples);
    }

    #[test]
    fn seconds_are_exact(nanos in 0..1u64 << 50) {
        let value: f64 = seconds(nanos).parse().unwrap();
        prop_assert_eq!((value * 1e9).round() as u64, nanos);
    }
}
