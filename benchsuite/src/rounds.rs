//! Interleaved rounds: A B C, B C A, C A B, …

use std::collections::BTreeMap;

use dio_bench::suite::{ComparisonGroup, Contender, Sample};

use crate::Result;

/// One of the programs to compare.
pub(crate) struct Rival<'a> {
    name: String,
    command: String,
    run: Box<dyn FnMut(usize) -> Result<Sample> + 'a>,
}

impl<'a> Rival<'a> {
    /// Creates an entry. `command` is the command as a reader would type it, with `$DIR` for the
    /// directory; `run` receives the number of the round.
    pub(crate) fn new(
        name: &str,
        command: &str,
        run: impl FnMut(usize) -> Result<Sample> + 'a,
    ) -> Rival<'a> {
        Rival { name: name.to_string(), command: command.to_string(), run: Box::new(run) }
    }
}

/// Runs `entries` `rounds` times and compares the first with the others by `compared`. Each round
/// begins one entry further down the list, and every other round goes up the list, so that no entry
/// always follows the same one. A peer that fails is left out, with a message; a failure of the
/// first entry is an error.
pub(crate) fn interleave(
    title: &str,
    mut entries: Vec<Rival<'_>>,
    rounds: usize,
    compared: &[&'static str],
) -> Result<ComparisonGroup> {
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
                    let told = [
                        ("wall_seconds", "s", 2),
                        ("iops", "requests/s", 0),
                        ("mib_per_second", "MiB/s", 0),
                        ("turns_per_second", "turns/s", 0),
                    ];
                    let first = told
                        .iter()
                        .find_map(|(key, unit, digits)| Some((sample.get(key)?, unit, digits)));
                    let figure = first.map_or(String::new(), |(value, unit, digits)| {
                        format!(": {value:.digits$} {unit}")
                    });
                    let left = crate::pace::left();
                    eprintln!(
                        "  {title}, round {} of {rounds}: {}{figure}{left}",
                        round + 1,
                        entry.name
                    );
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
    let all =
        entries.into_iter().zip(samples).filter(|(entry, _)| !skipped.contains_key(&entry.name));
    let contenders: Vec<Contender> =
        all.map(|(e, samples)| Contender::new(e.name, e.command, samples)).collect();
    Ok(ComparisonGroup::new(title, contenders, skipped, compared))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::{Rival, Sample, interleave};

    fn wall(seconds: f64) -> Sample {
        Sample::from([("wall_seconds", seconds)])
    }

    #[test]
    fn every_round_begins_with_another() {
        let order = RefCell::new(String::new());
        let entry = |name: &'static str| {
            let order = &order;
            Rival::new(name, name, move |_| {
                order.borrow_mut().push_str(name);
                Ok(wall(1.0))
            })
        };
        interleave("t", vec![entry("A"), entry("B"), entry("C")], 4, &[]).expect("no one fails");
        assert_eq!(*order.borrow(), "ABCACBCABCBA");
    }

    #[test]
    fn ratios_pair_the_rounds() {
        let ours = Rival::new("ours", "", |round| Ok(wall((round + 1) as f64)));
        let peer = Rival::new("peer", "", |round| Ok(wall(2.0 * (round + 1) as f64)));
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
            Rival::new(&name, "", move |round| {
                Ok(Sample::from([("iops", scale * (round + 1) as f64)]))
            })
        };
        let group = interleave("t", vec![entry("bare", 2.0), entry("mount", 1.0)], 3, &[])
            .expect("no one fails");
        assert_eq!(group.against_first(&["iops"]).ratio("mount", "iops"), Some(0.5));
    }

    #[test]
    fn a_failing_peer_is_left_out_and_named() {
        let ours = || Rival::new("ours", "", |_| Ok(wall(1.0)));
        let broken =
            || {
                Rival::new("broken", "", |round| {
                    if round == 1 { Err("gone".into()) } else { Ok(wall(1.0)) }
                })
            };
        let group =
            interleave("t", vec![ours(), broken()], 3, &["wall_seconds"]).expect("ours runs");
        assert_eq!(group.contenders.len(), 1);
        assert_eq!(group.skipped["broken"], "gone");
        assert!(interleave("t", vec![broken(), ours()], 3, &[]).is_err());
    }
}
