//! Derives settings of programs from the measurements: a pure function of the rows.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::case::{Descriptor, Method, Pattern, SyncCase};
use super::facts::Disk;
use super::judge::{Honesty, Verdict};
use super::row::SynctestRow;
use super::work::{CaseOutcome, Figures};
use dio_common::units::{seconds, size};

/// The least gain over a program's default for which a setting is advised; runs differ by some per
/// cent anyway.
const WORTH: f64 = 1.1;

/// The settings for one program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advice {
    /// The program.
    pub program: Cow<'static, str>,
    /// Settings, in the program's own syntax.
    pub settings: Vec<String>,
    /// The reasons, one per entry.
    pub why: Vec<String>,
}

/// The advice for every program for which the rows suffice. Empty if no setting makes a commit
/// durable.
pub fn advise(rows: &[SynctestRow], disk: Option<&Disk>, honesty: Option<&Honesty>) -> Vec<Advice> {
    if honesty.is_some_and(Honesty::leaves_no_setting) {
        return Vec::new();
    }
    let rows = Rows(rows);
    let mut all: Vec<Advice> =
        [postgres(&rows), mariadb(&rows), own_log(&rows, disk)].into_iter().flatten().collect();
    let warning = honesty.and_then(|honesty| match honesty.verdict {
        Verdict::Suspect => Some(
            "first of all: find out whether the disk lies (--witness), else none of this is \
             durable",
        ),
        _ => None,
    });
    for advice in &mut all {
        advice.why.splice(0..0, warning.map(str::to_owned));
    }
    all
}

struct Rows<'a>(&'a [SynctestRow]);

/// A method with its measured figures.
#[derive(Clone, Copy)]
struct MeasuredMethod {
    method: Method,
    direct: bool,
    figures: Figures,
}

impl Rows<'_> {
    /// The first measured case that satisfies `is_it`.
    fn find(&self, is_it: impl Fn(&SyncCase) -> bool) -> Option<(&SyncCase, Figures)> {
        self.0.iter().find_map(|row| match &row.outcome {
            CaseOutcome::Measured(figures) if is_it(&row.case) => Some((&row.case, *figures)),
            _ => None,
        })
    }

    /// The figures of a method with one thread and writes of 8 KiB, or of 4 KiB if 8 KiB were not
    /// measured.
    fn single(
        &self,
        method: Method,
        direct: bool,
        pattern: Pattern,
        writes: u32,
    ) -> Option<MeasuredMethod> {
        let of = |bytes| {
            self.find(|case| {
                (case.method, case.direct, case.pattern) == (method, direct, pattern)
                    && (case.size, case.writes, case.threads) == (bytes, writes, 1)
                    && case.descriptor == Descriptor::Same
            })
        };
        let (_, figures) = of(8192).or_else(|| of(4096))?;
        Some(MeasuredMethod { method, direct, figures })
    }
}

/// The best method.
struct Choice {
    chosen: MeasuredMethod,
    /// Rate of the fastest method divided by that of the usual one; `None` if the usual one was not
    /// measured.
    factor: Option<f64>,
    /// Reasons to distrust small differences.
    doubts: Vec<String>,
}

/// Chooses the fastest method, or the usual one if that is hardly slower or is slower in some
/// rounds only.
fn choose(candidates: &[MeasuredMethod], usual: (Method, bool)) -> Option<Choice> {
    let rate = |reached: &MeasuredMethod| reached.figures.per_second;
    let mut doubts = Vec::new();
    // fsync does at least the work of fdatasync, and O_SYNC at least that of O_DSYNC, so neither
    // can be faster than its lesser counterpart.
    let lesser = |reached: &MeasuredMethod| {
        let less = match reached.method {
            Method::Fsync => Method::Fdatasync,
            Method::OpenSync => Method::OpenDatasync,
            _ => return None,
        };
        candidates.iter().find(|other| other.method == less && other.direct == reached.direct)
    };
    for reached in candidates {
        if let Some(less) = lesser(reached).filter(|less| rate(reached) > WORTH * rate(less)) {
            doubts.push(format!(
                "{} came out {:.2} times as fast as {}, of which it does all and more: so far are \
                 the figures off; measure longer (-s), or when nobody else uses the disk",
                reached.method.name(),
                rate(reached) / rate(less),
                less.method.name()
            ));
        }
    }
    let sensible = candidates.iter().filter(|reached| lesser(reached).is_none());
    let best = *sensible.max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
    let Some(default) = candidates.iter().find(|reached| (reached.method, reached.direct) == usual)
    else {
        return Some(Choice { chosen: best, factor: None, doubts });
    };
    let factor = rate(&best) / rate(default);
    let several = best.figures.rounds.min(default.figures.rounds) > 1;
    let always = several && best.figures.least > default.figures.most;
    if factor >= WORTH && !always {
        let but = match several {
            true => "on the whole, but not in every round: too little to rest on",
            false => "in a single round: too little to rest on; measure longer (-s)",
        };
        doubts.push(format!("{} was {factor:.2} times as fast {but}", best.method.name()));
    }
    let chosen = if factor >= WORTH && always { best } else { *default };
    Some(Choice { chosen, factor: Some(rate(&chosen) / rate(default)), doubts })
}

fn shown(reached: &MeasuredMethod) -> String {
    let direct = if reached.direct { " direct" } else { "" };
    format!("{}{direct} {:.0}/s", reached.method.name(), reached.figures.per_second)
}

fn listed(candidates: &[MeasuredMethod]) -> String {
    let mut sorted: Vec<&MeasuredMethod> = candidates.iter().collect();
    sorted.sort_by(|a, b| b.figures.per_second.total_cmp(&a.figures.per_second));
    sorted.into_iter().map(shown).collect::<Vec<_>>().join(", ")
}

fn postgres(rows: &Rows<'_>) -> Option<Advice> {
    const METHODS: [Method; 4] =
        [Method::Fdatasync, Method::OpenDatasync, Method::Fsync, Method::OpenSync];
    let of = |writes| -> Vec<MeasuredMethod> {
        METHODS
            .iter()
            .filter_map(|method| rows.single(*method, false, Pattern::Overwrite, writes))
            .collect()
    };
    let one = of(1);
    let usual = (Method::Fdatasync, false);
    let Choice { mut chosen, factor, doubts } = choose(&one, usual)?;
    let mut why = vec![format!("one write of 8 KiB: {}", listed(&one))];
    let two = of(2);
    why.extend(doubts);
    if let Some(Choice { chosen: of_two, .. }) = choose(&two, usual) {
        why.push(format!("two writes: {}", listed(&two)));
        let usual = one.iter().find(|reached| reached.method == Method::Fdatasync);
        if let Some(usual) = usual.filter(|_| of_two.method != chosen.method) {
            why.push("one and two writes want different methods, so the usual one".to_owned());
            chosen = *usual;
        }
    }
    why.push(match factor {
        Some(_) if chosen.method == Method::Fdatasync => {
            format!(
                "fdatasync is what PostgreSQL uses on Linux by itself; others must be {WORTH} \
                 times as fast to pay"
            )
        }
        Some(factor) => {
            format!("{factor:.2} times fdatasync, which PostgreSQL uses on Linux by itself")
        }
        None => "fdatasync, which PostgreSQL uses on Linux by itself, was not measured".to_owned(),
    });
    why.push(
        "rows without direct count: up to version 15 open_sync and open_datasync are direct only \
         with wal_level = minimal and max_wal_senders = 0, from 16 on only with debug_io_direct"
            .to_owned(),
    );
    let half = chosen.figures.mean * 5e5;
    why.push(format!(
        "commit_delay, if many sessions commit at once and it is to be tried: half the time of a \
         flush, {half:.0} (µs)"
    ));
    let settings = vec![format!("wal_sync_method = {}", chosen.method.name())];
    Some(Advice { program: "PostgreSQL".into(), settings, why })
}

fn mariadb(rows: &Rows<'_>) -> Option<Advice> {
    let single = |method, direct| rows.single(method, direct, Pattern::Overwrite, 1);
    let candidates: Vec<MeasuredMethod> = [
        single(Method::Fdatasync, true),
        single(Method::OpenDatasync, true),
        single(Method::Fdatasync, false),
    ]
    .into_iter()
    .flatten()
    .collect();
    let Choice { chosen, factor, doubts } = choose(&candidates, (Method::Fdatasync, true))?;
    let mut why = vec![format!("one write of 8 KiB to the log: {}", listed(&candidates))];
    why.extend(doubts);
    let mut settings = vec!["innodb_flush_log_at_trx_commit = 1".to_owned()];
    match (chosen.method, chosen.direct) {
        (Method::OpenDatasync, _) => {
            settings.push("innodb_flush_method = O_DSYNC  (10.6 to 10.11)".to_owned());
            settings.push("innodb_log_file_write_through = ON  (from 11.0)".to_owned());
            why.push(
                "O_DSYNC of 10.6 to 10.11 is for the data files too, each write of which is then \
                 synced"
                    .to_owned(),
            );
        }
        (_, true) => {
            settings.push(
                "innodb_flush_method = O_DIRECT  (up to 10.11; the default from 10.6)".to_owned(),
            );
            settings.push("innodb_log_file_buffering = OFF  (from 10.8.4; the default)".to_owned());
        }
        (_, false) => {
            settings.push(
                "innodb_flush_method = O_DIRECT  (up to 10.11; data files past the page cache)"
                    .to_owned(),
            );
            settings.push(
                "innodb_log_file_buffering = ON  (from 10.8.4; the log through the page cache)"
                    .to_owned(),
            );
        }
    }
    if let Some(factor) = factor.filter(|factor| *factor >= WORTH) {
        why.push(format!("{factor:.2} times the default, direct with fdatasync"));
    }
    why.push(format!(
        "innodb_flush_log_at_trx_commit: 1 syncs at each commit, about {:.0} a second for one \
         client; 2 and 0 sync about once a second and lose what was committed since when the power \
         fails",
        chosen.figures.per_second
    ));
    Some(Advice { program: "MariaDB (InnoDB)".into(), settings, why })
}

fn own_log(rows: &Rows<'_>, disk: Option<&Disk>) -> Option<Advice> {
    const METHODS: [Method; 5] = [
        Method::Fdatasync,
        Method::OpenDatasync,
        Method::RwfDsync,
        Method::Fsync,
        Method::OpenSync,
    ];
    let of = |pattern| -> Vec<MeasuredMethod> {
        let each = METHODS.iter().flat_map(|method| [(*method, true), (*method, false)]);
        each.filter_map(|(method, direct)| rows.single(method, direct, pattern, 1)).collect()
    };
    // The log overwrites zeros. The overwrite pattern counts instead if it was measured with at
    // least as many methods.
    let (overwrite, zeroed) = (of(Pattern::Overwrite), of(Pattern::Zeroed));
    let candidates = if zeroed.len() > overwrite.len() { zeroed } else { overwrite };
    let Choice { chosen, factor, doubts } = choose(&candidates, (Method::Fdatasync, true))?;
    let mut why = vec![listed(&candidates)];
    why.extend(doubts);
    if let Some(factor) = factor.filter(|factor| *factor >= WORTH) {
        why.push(format!("{factor:.2} times the default, fdatasync direct"));
    } else if factor.is_some() {
        why.push("the default; no other method is much faster".to_owned());
    }
    let mut settings = vec![format!(
        "dio_wal::Options: direct({}), method(Method::{})",
        chosen.direct,
        variant(chosen.method)
    )];
    settings.extend(block_size(rows, disk, &mut why));
    why.extend(zeros(rows));
    why.extend(group(rows));
    Some(Advice { program: "dio's log (dio-wal)".into(), settings, why })
}

fn variant(method: Method) -> &'static str {
    match method {
        Method::Fsync => "Fsync",
        Method::OpenSync => "OpenSync",
        Method::OpenDatasync => "OpenDatasync",
        Method::RwfDsync => "RwfDsync",
        _ => "Fdatasync",
    }
}

/// Decides whether log records need blocks of 4096 bytes: those of 512 may be slower, or endanger
/// adjacent data.
fn block_size(rows: &Rows<'_>, disk: Option<&Disk>, why: &mut Vec<String>) -> Option<String> {
    let of = |bytes| {
        rows.find(|case| {
            (case.method, case.size, case.threads, case.direct)
                == (Method::Fdatasync, bytes, 1, true)
                && case.pattern == Pattern::Zeroed
        })
    };
    let (_, large) = of(4096)?;
    match of(512) {
        Some(_) if !disk.is_some_and(Disk::keeps_neighbours) => {
            let physical = disk.and_then(|disk| disk.physical_block);
            let block = physical.map_or("of a size that is not known".to_owned(), |bytes| {
                format!("of {}", size(bytes))
            });
            why.push(format!(
                "blocks of 512 bytes, however fast: the disk has physical blocks {block} and does \
                 not say that it writes them whole, so a power cut during one commit may take \
                 others beside it"
            ));
            Some("block(4096)".to_owned())
        }
        Some((_, small)) if small.mean <= large.mean * WORTH => {
            why.push(
                "blocks of 512 bytes are as fast as those of 4096 here: records of a few bytes \
                 waste less in them"
                    .to_owned(),
            );
            Some("block(512)".to_owned())
        }
        Some((_, small)) => {
            let (small, large) = (seconds(small.mean), seconds(large.mean));
            why.push(format!("a block of 512 bytes takes {small}, one of 4096 {large}"));
            Some("block(4096)".to_owned())
        }
        None => {
            why.push("blocks of 512 bytes are refused for direct writes".to_owned());
            Some("block(4096)".to_owned())
        }
    }
}

/// The gain from writing zeros beforehand.
fn zeros(rows: &Rows<'_>) -> Option<String> {
    let of = |pattern| Some(rows.single(Method::Fdatasync, true, pattern, 1)?.figures.per_second);
    let zeroed = of(Pattern::Zeroed)?;
    let other = |pattern| {
        Some(format!("{:.2} times the rate of {}", zeroed / of(pattern)?, words(pattern)))
    };
    let others: Vec<String> =
        [Pattern::Append, Pattern::Preallocated].into_iter().filter_map(other).collect();
    (!others.is_empty())
        .then(|| format!("writing into zeros, as the log does: {}", others.join(", ")))
}

fn words(pattern: Pattern) -> &'static str {
    match pattern {
        Pattern::Append => "a growing file",
        Pattern::Preallocated => "space that is only reserved",
        Pattern::Overwrite => "written data",
        Pattern::Zeroed => "zeros",
    }
}

/// The gain from one sync for many writers.
fn group(rows: &Rows<'_>) -> Option<String> {
    use super::case::Sharing::Grouped;
    let most = rows.0.iter().filter(|row| row.case.sharing == Grouped && row.case.threads > 1);
    let most = most.max_by_key(|row| row.case.threads)?.case;
    let (_, many) = rows.find(|case| *case == most)?;
    let one = rows.single(most.method, most.direct, most.pattern, 1)?.figures;
    Some(format!(
        "{} writers of {} with one sync for all who wait: {:.1} times the rate of one",
        most.threads,
        size(most.size),
        many.per_second / one.per_second
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synctest::case::{Section, Sharing};
    use crate::synctest::judge::Confidence;

    fn figures(rate: f64) -> CaseOutcome {
        let time = 1.0 / rate;
        CaseOutcome::Measured(Figures {
            per_second: rate,
            least: rate,
            most: rate,
            count: 100,
            syncs: 1,
            mean: time,
            p05: time,
            p50: time,
            p99: time,
            p999: time,
            max: time,
            cached_pages: Some(0),
            rounds: 4,
        })
    }

    fn row(method: Method, direct: bool, rate: f64) -> SynctestRow {
        SynctestRow {
            case: SyncCase::new(Section::Compare, method, direct),
            outcome: figures(rate),
        }
    }

    fn small_blocks() -> Disk {
        Disk { physical_block: Some(512), ..Disk::default() }
    }

    fn setting(rows: &[SynctestRow], program: &str, place: usize) -> String {
        let all = advise(rows, Some(&small_blocks()), None);
        all.iter().find(|advice| advice.program.starts_with(program)).unwrap().settings[place]
            .clone()
    }

    #[test]
    fn postgres_keeps_its_default_unless_another_is_clearly_faster() {
        let mut rows =
            vec![row(Method::Fdatasync, false, 1000.0), row(Method::OpenDatasync, false, 1050.0)];
        assert_eq!(setting(&rows, "PostgreSQL", 0), "wal_sync_method = fdatasync");
        // Rows with `O_DIRECT` do not apply to PostgreSQL.
        rows.push(row(Method::OpenSync, true, 9000.0));
        assert_eq!(setting(&rows, "PostgreSQL", 0), "wal_sync_method = fdatasync");
        rows[1] = row(Method::OpenDatasync, false, 1500.0);
        assert_eq!(setting(&rows, "PostgreSQL", 0), "wal_sync_method = open_datasync");
        // With open_datasync, two writes are two syncs.
        for (method, rate) in [(Method::Fdatasync, 900.0), (Method::OpenDatasync, 750.0)] {
            let case = SyncCase { writes: 2, ..SyncCase::new(Section::Two, method, false) };
            rows.push(SynctestRow { case, outcome: figures(rate) });
        }
        assert_eq!(setting(&rows, "PostgreSQL", 0), "wal_sync_method = fdatasync");
    }

    #[test]
    fn what_cannot_be_or_does_not_last_is_noise() {
        // A method that does more work cannot be faster.
        let mut rows =
            vec![row(Method::Fdatasync, false, 1000.0), row(Method::Fsync, false, 1500.0)];
        assert_eq!(setting(&rows, "PostgreSQL", 0), "wal_sync_method = fdatasync");
        let why = advise(&rows, None, None)[0].why.join("\n");
        assert!(why.contains("fsync came out 1.50 times as fast as fdatasync"), "{why}");
        // Faster on the whole, but slower in one round.
        let mut fast = row(Method::OpenDatasync, false, 1500.0);
        let CaseOutcome::Measured(figures) = &mut fast.outcome else { panic!() };
        figures.least = 900.0;
        rows[1] = fast;
        assert_eq!(setting(&rows, "PostgreSQL", 0), "wal_sync_method = fdatasync");
        let why = advise(&rows, None, None)[0].why.join("\n");
        assert!(why.contains("not in every round"), "{why}");
        // A single round does not allow conclusions about others.
        let CaseOutcome::Measured(figures) = &mut rows[1].outcome else { panic!() };
        (figures.least, figures.rounds) = (1500.0, 1);
        assert_eq!(setting(&rows, "PostgreSQL", 0), "wal_sync_method = fdatasync");
        let why = advise(&rows, None, None)[0].why.join("\n");
        assert!(why.contains("in a single round") && !why.contains("every round"), "{why}");
    }

    #[test]
    fn what_was_refused_or_not_measured_is_not_advised() {
        let refused = SynctestRow {
            outcome: CaseOutcome::Refused("cannot open: Invalid argument".into()),
            ..row(Method::Fdatasync, false, 1.0)
        };
        let rows = [
            refused.clone(),
            row(Method::Fsync, false, 100.0),
            row(Method::SyncFileRange, false, 90_000.0),
        ];
        assert_eq!(setting(&rows, "PostgreSQL", 0), "wal_sync_method = fsync");
        assert_eq!(advise(&[refused], None, None), []);
        assert_eq!(advise(&[], None, None), []);
    }

    #[test]
    fn mariadb_has_three_ways() {
        let of = |direct, through, buffered| {
            let rows = [
                row(Method::Fdatasync, true, direct),
                row(Method::OpenDatasync, true, through),
                row(Method::Fdatasync, false, buffered),
            ];
            (
                setting(&rows, "MariaDB", 0),
                setting(&rows, "MariaDB", 1),
                setting(&rows, "MariaDB", 2),
            )
        };
        let (durable, method, _) = of(1000.0, 1020.0, 900.0);
        assert_eq!(durable, "innodb_flush_log_at_trx_commit = 1");
        assert!(method.starts_with("innodb_flush_method = O_DIRECT"), "{method}");
        let (_, method, through) = of(1000.0, 2000.0, 900.0);
        assert!(method.starts_with("innodb_flush_method = O_DSYNC"), "{method}");
        assert!(through.starts_with("innodb_log_file_write_through = ON"), "{through}");
        let (_, _, buffering) = of(1000.0, 1000.0, 1300.0);
        assert!(buffering.starts_with("innodb_log_file_buffering = ON"), "{buffering}");
    }

    #[test]
    fn the_own_log_is_told_method_block_and_worth_of_zeros_and_groups() {
        let zeroed = |method, bytes, rate| SynctestRow {
            case: SyncCase {
                pattern: Pattern::Zeroed,
                size: bytes,
                ..SyncCase::new(Section::Sizes, method, true)
            },
            outcome: figures(rate),
        };
        let mut rows = vec![
            row(Method::Fdatasync, true, 1000.0),
            row(Method::RwfDsync, true, 2500.0),
            row(Method::RwfSync, true, 9000.0),
            zeroed(Method::Fdatasync, 512, 500.0),
            zeroed(Method::Fdatasync, 4096, 1000.0),
            zeroed(Method::Fdatasync, 8192, 1000.0),
        ];
        let append = SyncCase {
            pattern: Pattern::Append,
            ..SyncCase::new(Section::Patterns, Method::Fdatasync, true)
        };
        rows.push(SynctestRow { case: append, outcome: figures(400.0) });
        let many = SyncCase { threads: 64, sharing: Sharing::Grouped, ..rows[5].case };
        rows.push(SynctestRow { case: many, outcome: figures(20_000.0) });
        assert_eq!(
            setting(&rows, "dio", 0),
            "dio_wal::Options: direct(true), method(Method::RwfDsync)"
        );
        assert_eq!(setting(&rows, "dio", 1), "block(4096)");
        let why = advise(&rows, None, None).pop().unwrap().why.join("\n");
        assert!(why.contains("2.50 times the rate of a growing file"), "{why}");
        assert!(why.contains("64 writers of 8 KiB") && why.contains("20.0 times"), "{why}");
        rows[3].outcome = figures(990.0);
        assert_eq!(setting(&rows, "dio", 1), "block(512)");
    }

    #[test]
    fn small_blocks_are_advised_only_where_they_leave_their_neighbours_alone() {
        let zeroed = |bytes| SynctestRow {
            case: SyncCase {
                pattern: Pattern::Zeroed,
                size: bytes,
                ..SyncCase::new(Section::Sizes, Method::Fdatasync, true)
            },
            outcome: figures(1000.0),
        };
        let rows = [zeroed(512), zeroed(4096), row(Method::Fdatasync, true, 1000.0)];
        for (physical_block, atomic, expected) in [
            (Some(512), None, "block(512)"),
            (Some(4096), None, "block(4096)"),
            (Some(4096), Some(512), "block(4096)"),
            (Some(4096), Some(4096), "block(512)"),
            (Some(16384), Some(4096), "block(4096)"),
            (None, None, "block(4096)"),
        ] {
            let disk = Disk { physical_block, atomic, ..Disk::default() };
            let own = advise(&rows, Some(&disk), None).pop().unwrap();
            assert_eq!(own.settings[1], expected, "{disk:?}");
            let warned = own.why.iter().any(|why| why.contains("physical blocks of"));
            assert_eq!(warned, expected == "block(4096)", "{own:?}");
        }
        assert_eq!(advise(&rows, None, None).pop().unwrap().settings[1], "block(4096)");
    }

    #[test]
    fn nothing_is_advised_where_nothing_makes_a_commit_durable() {
        let honesty = |verdict| Honesty {
            verdict,
            confidence: Confidence::High,
            reason: String::new(),
            evidence: Vec::new(),
        };
        let rows = [row(Method::Fdatasync, false, 1.0), row(Method::Fdatasync, true, 1.0)];
        for verdict in [Verdict::Lies, Verdict::NotDurable] {
            assert_eq!(advise(&rows, None, Some(&honesty(verdict))), []);
        }
        let suspect = advise(&rows, None, Some(&honesty(Verdict::Suspect)));
        assert_eq!(suspect.len(), 3);
        for advice in suspect {
            assert!(advice.why[0].contains("find out whether the disk lies"), "{advice:?}");
        }
    }
}
