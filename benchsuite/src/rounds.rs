//! Interleaved rounds: A B C, B C A, C A B, …

use std::collections::BTreeMap;

use serde::Serialize;

use crate::Result;
use crate::stats::Spread;

/// Quantities of one run by their key; [`crate::report::METRICS`] names the keys that tables show.
pub(crate) type Sample = BTreeMap<&'static str, f64>;

/// One of the programs to compare.
pub(crate) struct Entry<'a> {
    name: String,
    command: String,
    run: Box<dyn FnMut(usize) -> Result<Sample> + 'a>,
}

impl<'a> Entry<'a> {
    /// `command` is what a reader would type, with `$DIR` for the directory; `run` gets the round's number.
    pub(crate) fn new(name: &str, command: &str, run: impl FnMut(usize) -> Result<Sample> + 'a) -> Entry<'a> {
        Entry { name: name.to_string(), command: command.to_string(), run: Box::new(run) }
    }
}

/// All measurements of one program.
#[derive(Serialize)]
pub(crate) struct Contender {
    pub(crate) name: String,
    pub(crate) command: String,
    pub(crate) summary: BTreeMap<&'static str, Spread>,
    pub(crate) samples: Vec<Sample>,
}

impl Contender {
    fn new(name: String, command: String, samples: Vec<Sample>) -> Contender {
        let mut summary = BTreeMap::new();
        for key in samples.iter().flat_map(BTreeMap::keys) {
            summary.extend(Spread::of(&column(&samples, key)).map(|spread| (*key, spread)));
        }
        Contender { name, command, summary, samples }
    }

    fn column(&self, key: &str) -> Vec<f64> {
        column(&self.samples, key)
    }
}

fn column(samples: &[Sample], key: &str) -> Vec<f64> {
    samples.iter().filter_map(|sample| sample.get(key).copied()).collect()
}

/// The first contender's quantity divided by a peer's, or the other way round, round by round.
#[derive(Serialize)]
pub(crate) struct Ratio {
    pub(crate) peer: String,
    pub(crate) metric: &'static str,
    #[serde(flatten)]
    pub(crate) spread: Spread,
}

/// Programs that were compared under the same conditions.
#[derive(Serialize)]
pub(crate) struct Group {
    pub(crate) title: String,
    pub(crate) contenders: Vec<Contender>,
    pub(crate) ratios: Vec<Ratio>,
    /// The ratios are of each peer to the first contender, not of the first to each.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) to_first: bool,
    /// Peers that could not be measured, with the reason.
    pub(crate) skipped: BTreeMap<String, String>,
}

impl Group {
    /// The same measurements with ratios of each peer to the first contender, which is what is to be reached.
    pub(crate) fn against_first(mut self, compared: &[&'static str]) -> Group {
        let (first, peers) =
            self.contenders.split_first().map_or((None, &[][..]), |(first, peers)| (Some(first), peers));
        let of = |peer: &Contender, metric: &'static str| {
            let spread = Spread::of_ratios(&peer.column(metric), &first?.column(metric))?;
            Some(Ratio { peer: peer.name.clone(), metric, spread })
        };
        self.ratios =
            peers.iter().flat_map(|peer| compared.iter().filter_map(move |metric| of(peer, metric))).collect();
        self.to_first = true;
        self
    }

    /// The median of the ratios of the first contender to `peer`, or `None` without that peer.
    pub(crate) fn ratio(&self, peer: &str, metric: &str) -> Option<f64> {
        self.ratios.iter().find(|r| r.peer == peer && r.metric == metric).map(|r| r.spread.median)
    }

    /// A quantity of one contender divided by another quantity of another one, round by round.
    pub(crate) fn quotient(&self, (ours, of): (&str, &str), (peer, by): (&str, &str)) -> Option<Spread> {
        let column = |name: &str, key: &str| Some(self.contenders.iter().find(|c| c.name == name)?.column(key));
        Spread::of_ratios(&column(ours, of)?, &column(peer, by)?)
    }

    /// The spread of one quantity of one contender.
    pub(crate) fn spread(&self, name: &str, metric: &str) -> Option<Spread> {
        self.contenders.iter().find(|c| c.name == name)?.summary.get(metric).copied()
    }
}

/// Runs `entries` `rounds` times, each round beginning one further down the list and every other one going up it, so that nobody
/// always comes behind the same one; and compares the first with the others by `compared`. A peer that fails is left out, aloud; the first one's failure is an error.
pub(crate) fn interleave(
    title: &str,
    mut entries: Vec<Entry<'_>>,
    rounds: usize,
    compared: &[&'static str],
) -> Result<Group> {
    let mut samples: Vec<Vec<Sample>> = entries.iter().map(|_| Vec::new()).collect();
    let mut skipped = BTreeMap::new();
    for round in 0..rounds {
        for turn in 0..entries.len() {
            let place = if round % 2 == 0 { turn } else { entries.len() - 1 - turn };
            let index = (round + place) % entries.len();
            let entry = &mut entries[index];
            if skipped.contains_key(&entry.name) {
                continue;
            }
            match (entry.run)(round) {
                Ok(sample) => {
                    let told = [("wall_seconds", "s", 2), ("iops", "requests/s", 0), ("mib_per_second", "MiB/s", 0)];
                    let first = told.iter().find_map(|(key, unit, digits)| Some((sample.get(key)?, unit, digits)));
                    let figure =
                        first.map_or(String::new(), |(value, unit, digits)| format!(": {value:.digits$} {unit}"));
                    let left = crate::pace::left();
                    eprintln!("  {title}, round {} of {rounds}: {}{figure}{left}", round + 1, entry.name);
                    samples[index].push(sample);
                }
                Err(e) if index == 0 => return Err(format!("{}: {e}", entry.name).into()),
                Err(e) => {
                    eprintln!("  {title}: LEFT OUT: {}: {e}", entry.name);
                    skipped.insert(entry.name.clone(), e.to_string());
                }
            }
        }
    }
    let all = entries.into_iter().zip(samples).filter(|(entry, _)| !skipped.contains_key(&entry.name));
    let contenders: Vec<Contender> = all.map(|(e, samples)| Contender::new(e.name, e.command, samples)).collect();
    let ratios = ratios(&contenders, compared);
    Ok(Group { title: title.to_string(), contenders, ratios, to_first: false, skipped })
}

fn ratios(contenders: &[Contender], compared: &[&'static str]) -> Vec<Ratio> {
    let Some((first, peers)) = contenders.split_first() else { return Vec::new() };
    let mut found = Vec::new();
    for peer in peers {
        for metric in compared {
            let spread = Spread::of_ratios(&first.column(metric), &peer.column(metric));
            found.extend(spread.map(|spread| Ratio { peer: peer.name.clone(), metric, spread }));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::{Entry, Sample, interleave};

    fn wall(seconds: f64) -> Sample {
        Sample::from([("wall_seconds", seconds)])
    }

    #[test]
    fn every_round_begins_with_another() {
        let order = RefCell::new(String::new());
        let entry = |name: &'static str| {
            let order = &order;
            Entry::new(name, name, move |_| {
                order.borrow_mut().push_str(name);
                Ok(wall(1.0))
            })
        };
        interleave("t", vec![entry("A"), entry("B"), entry("C")], 4, &[]).expect("no one fails");
        assert_eq!(*order.borrow(), "ABCBCACABABC");
    }

    #[test]
    fn ratios_pair_the_rounds() {
        let ours = Entry::new("ours", "", |round| Ok(wall((round + 1) as f64)));
        let peer = Entry::new("peer", "", |round| Ok(wall(2.0 * (round + 1) as f64)));
        let group = interleave("t", vec![ours, peer], 5, &["wall_seconds"]).expect("no one fails");
        assert_eq!(group.ratio("peer", "wall_seconds"), Some(0.5));
        assert_eq!(group.spread("ours", "wall_seconds").map(|s| s.median), Some(3.0));
        assert_eq!(group.ratio("peer", "cpu_seconds"), None);
        let quotient = group.quotient(("peer", "wall_seconds"), ("ours", "wall_seconds"));
        assert_eq!(quotient.map(|spread| (spread.median, spread.min)), Some((2.0, 2.0)));
        assert_eq!(group.quotient(("ours", "wall_seconds"), ("nobody", "wall_seconds")), None);
    }

    #[test]
    fn peers_are_divided_by_the_first() {
        let entry = |name: &str, scale: f64| {
            let name = name.to_string();
            Entry::new(&name, "", move |round| Ok(Sample::from([("iops", scale * (round + 1) as f64)])))
        };
        let group = interleave("t", vec![entry("bare", 2.0), entry("mount", 1.0)], 3, &[]).expect("no one fails");
        assert_eq!(group.against_first(&["iops"]).ratio("mount", "iops"), Some(0.5));
    }

    #[test]
    fn a_failing_peer_is_left_out_and_named() {
        let ours = || Entry::new("ours", "", |_| Ok(wall(1.0)));
        let broken = || Entry::new("broken", "", |round| if round == 1 { Err("gone".into()) } else { Ok(wall(1.0)) });
        let group = interleave("t", vec![ours(), broken()], 3, &["wall_seconds"]).expect("ours runs");
        assert_eq!(group.contenders.len(), 1);
        assert_eq!(group.skipped["broken"], "gone");
        assert!(interleave("t", vec![broken(), ours()], 3, &[]).is_err());
    }
}
