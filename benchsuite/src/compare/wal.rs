//! Durable commits: dio's log compared with pg_test_fsync, by one thread; compared with stores that
//! commit, by one client and by many; and appending in large steps, compared with the disk.

use std::path::PathBuf;

use serde_json::Value;

use crate::Result;
use crate::lab::Lab;
use crate::measure::measure;
use crate::report;
use crate::rounds::{Rival, interleave};
use crate::tool::version;
use dio_bench::stats::Summary;
use dio_bench::suite::Host;
use dio_bench::suite::{ComparisonGroup, Sample};
use dio_bench::suite::{ComparisonReport, Goal};
use dio_common::size::{GIB, exact as size_text};

/// The methods that dio and pg_test_fsync have in common; both use the same names.
const METHODS: [&str; 4] = ["open_datasync", "fdatasync", "fsync", "open_sync"];
/// The figures of [`beside_loop`], one for each method.
const PARTS: [&str; 4] = ["part_open_datasync", "part_fdatasync", "part_fsync", "part_open_sync"];
/// With the log's own 88 bytes, such a record fills the 8 KiB of one write of `pg_test_fsync`.
const RECORD_OF_8K: usize = 8192 - 64 - 24;
/// Bytes of a record in the load with several clients.
const RECORD: usize = 100;
/// Turns of the log and the plain loop in one process.
const LOOPS: usize = 10;
/// Numbers of clients of the load.
const CLIENTS: [usize; 2] = [1, 64];
/// Commits in flight of the one thread that waits for none.
const IN_FLIGHT: usize = 10_000;
/// The peers of the load.
const STORES: [(&str, &str); 3] = [("SQLite", "sqlite"), ("RocksDB", "rocksdb"), ("redb", "redb")];

/// Name of dio's log.
const LOG: &str = "dio's log";
/// Name of dio's log whose commits are futures of one thread.
const FUTURES: &str = "dio's log, futures";
/// Name of the reference for commits: a thread that overwrites one block and syncs.
const FLUSH: &str = "one block, overwritten and synced";
/// Bytes of a block of the log.
const BLOCK: usize = 4096;
/// Number of such records that fit in a block of the log, each with its header and padded to a
/// multiple of 8.
const PER_BLOCK: usize = BLOCK / (RECORD + 24).next_multiple_of(8);
/// The target, as a fraction of the limit from flushes.
const PART: f64 = 0.9;
/// Share of the processors from which on they count as the bottleneck.
const BUSY: f64 = 0.9;

/// The comparison `wal`: one thread by method, load, and large steps.
pub(crate) fn compare(lab: &Lab) -> Result<ComparisonReport> {
    let seconds = lab.options.seconds.unwrap_or(2);
    let mut report = report::begin("wal", Host::of(&lab.dir)?, lab.programs(&[]))?;
    report.programs.insert("pg_test_fsync".to_string(), version(&pg_test_fsync()));
    report.set("seconds", seconds);
    report.set("rounds", lab.options.runs);
    one_thread(lab, seconds, &mut report)?;
    beside_loop(lab, &mut report)?;
    load(lab, seconds, &mut report)?;
    followed(lab, &mut report)?;
    large_steps(lab, &mut report)?;
    report.note(
        "pg_test_fsync overwrites one place of 8 KiB; its open_sync and open_datasync use \
         O_DIRECT, its fsync and fdatasync do not. The log appends to segments, 8 KiB by commit, \
         header and mark of the log included.",
    );
    report.note(
        "SQLite: WAL, synchronous=FULL, one connection used by turns. RocksDB: WriteOptions::sync, \
         as it comes. redb: a transaction for each record, durability Immediate. Each run on new \
         files.",
    );
    report.note(
        "Under load a record takes its bytes, a header of 24 and padding up to a multiple of 8. \
         Flushes: one thread overwrites one block of 4 KiB past the page cache, then fdatasync, in \
         the same rounds.",
    );
    report.note(
        "Large steps: records of 1 MiB, a commit every 64 MiB, by `dio bench wal`, which measures \
         the disk in the same rounds: requests of 1 MiB, eight in flight, into allocated space, \
         one sync.",
    );
    Ok(report)
}

fn rounds(lab: &Lab) -> usize {
    lab.options.runs as usize
}

/// Runs a script whose output is JSON.
fn json(lab: &Lab, script: &str) -> Result<(Value, Sample)> {
    let finished = measure(&mut lab.shell(script))?;
    let value = serde_json::from_str(&finished.stdout).map_err(|e| format!("{script}: {e}"))?;
    Ok((value, finished.sample))
}

fn one_thread(lab: &Lab, seconds: u64, report: &mut ComparisonReport) -> Result<()> {
    let ours = |way: &str| {
        format!(
            "dio bench wal --dir $DIR --record {RECORD_OF_8K} --block 4096 --clients 1 --ways \
             {way} --methods {} --seconds {seconds} --runs 1 --size 0 --json",
            METHODS.join(",")
        )
    };
    let theirs = format!("{} -s {seconds} -f $DIR/pg_test_fsync", pg_test_fsync().display());
    let entry = |name: &str, script: String| {
        Rival::new(name, &script.clone(), move |_| {
            let (found, _) = json(lab, &script)?;
            Ok(by_method(&found))
        })
    };
    let entries = vec![
        entry("dio's log, direct", ours("direct")),
        entry("dio's log, cached", ours("cached")),
        Rival::new("pg_test_fsync", &theirs.clone(), move |_| {
            let finished = measure(&mut lab.shell(&theirs))?;
            by_lines(&finished.stdout)
        }),
    ];
    let group = interleave("one thread, 8 KiB", entries, rounds(lab), &METHODS)?;
    let median = |name: &str, method: &str| group.spread(name, method).map(|spread| spread.median);
    let best = |names: &[&str]| {
        let all =
            names.iter().flat_map(|name| METHODS.iter().filter_map(|method| median(name, method)));
        all.reduce(f64::max)
    };
    for method in METHODS {
        // The kind of I/O that the peer uses with this method.
        let own =
            if method.starts_with("open") { "dio's log, direct" } else { "dio's log, cached" };
        let ratio =
            median(own, method).zip(median("pg_test_fsync", method)).map(|(own, peer)| own / peer);
        report.goal(Goal::at_least(
            &format!("one thread, {method}: commits/s ÷ pg_test_fsync"),
            0.97,
            ratio,
        ));
    }
    let ours = best(&["dio's log, direct", "dio's log, cached"]);
    let ratio = ours.zip(best(&["pg_test_fsync"])).map(|(own, peer)| own / peer);
    report.goal(Goal::at_least(
        "one thread, best combination: commits/s ÷ pg_test_fsync's best",
        1.0,
        ratio,
    ));
    report.groups.push(group);
    Ok(())
}

/// One thread beside a plain loop by the same method in the same process: short runs of the one and
/// of the other take turns, so that a drift of the disk cancels out. A new log is measured, whose
/// space is filled with zeros ahead of its end, and one in segments that truncation gave back.
fn beside_loop(lab: &Lab, report: &mut ComparisonReport) -> Result<()> {
    let entry = |name: &str, way: &str| {
        let script = format!(
            "dio bench wal --dir $DIR --record {RECORD_OF_8K} --block 8192 --clients 1 --ways \
             {way} --methods {} --seconds 0.2 --runs {LOOPS} --size 0 --json",
            METHODS.join(",")
        );
        Rival::new(name, &script.clone(), move |_| {
            let (found, _) = json(lab, &script)?;
            Ok(parts_of_loop(&found))
        })
    };
    let entries = vec![
        entry("direct", "direct"),
        entry("direct, truncated", "direct --reused"),
        entry("cached", "cached"),
    ];
    let title = "one thread, 8 KiB: commits/s ÷ turns/s of a plain loop in the same process";
    let group = interleave(title, entries, rounds(lab), &[])?;
    for (row, log) in [("direct", "new log"), ("direct, truncated", "truncated log")] {
        for (method, part) in METHODS.iter().zip(PARTS) {
            let reached = group.spread(row, part).map(|spread| spread.median);
            let goal = format!("{log}, one thread, {method}: commits/s ÷ a plain loop beside it");
            report.goal(Goal::at_least(&goal, 0.97, reached));
        }
    }
    report.groups.push(group);
    Ok(())
}

/// The parts of the loop's rate that `dio bench wal` reports, by method.
fn parts_of_loop(found: &Value) -> Sample {
    let rows = found["commits"].as_array().map_or(&[][..], Vec::as_slice);
    let of = |(method, part): (&&'static str, &'static str)| {
        let row = rows.iter().find(|row| row["method"] == **method)?;
        Some((part, row["limit"]["reached"].as_f64()?))
    };
    METHODS.iter().zip(PARTS).filter_map(of).collect()
}

/// Clients whose log a reader follows, beside the same ones alone, in turns in one process.
fn followed(lab: &Lab, report: &mut ComparisonReport) -> Result<()> {
    let name = |clients: usize| format!("{clients} clients");
    let entry = |clients: usize| {
        let script = format!(
            "dio bench wal --dir $DIR --record {RECORD} --block {BLOCK} --clients {clients} \
             --followed --ways direct --methods fdatasync --seconds 0.2 --runs 10 --size 0 \
             --json"
        );
        Rival::new(&name(clients), &script.clone(), move |_| {
            let (found, _) = json(lab, &script)?;
            let kept = kept_by_writer(&found).ok_or("rows are missing in the report")?;
            Ok(Sample::from([("followed", kept)]))
        })
    };
    let title = "a reader follows: commits/s ÷ those without it, 100 B";
    let group = interleave(title, CLIENTS.map(entry).into(), rounds(lab), &[])?;
    for clients in CLIENTS {
        let kept = group.spread(&name(clients), "followed").map(|spread| spread.median);
        let goal = format!("{clients} clients, followed by a reader: commits/s ÷ without it");
        report.goal(Goal::at_least(&goal, 0.98, kept));
    }
    report.groups.push(group);
    Ok(())
}

/// The median of followed ÷ not followed, run by run.
fn kept_by_writer(found: &Value) -> Option<f64> {
    let samples = |followed: bool| {
        let mut rows = found["commits"].as_array()?.iter();
        let row = rows.find(|row| row["followed"] == followed)?;
        Some(row["samples"].as_array()?.iter().filter_map(Value::as_f64).collect::<Vec<_>>())
    };
    let (alone, followed) = (samples(false)?, samples(true)?);
    let parts = followed.iter().zip(&alone).map(|(followed, alone)| followed / alone);
    Some(Summary::of(parts).median)
}

/// Commits per second by method, from a report of `dio bench wal`.
fn by_method(found: &Value) -> Sample {
    let rows = found["commits"].as_array().map_or(&[][..], Vec::as_slice);
    let of = |method: &&'static str| {
        let row = rows.iter().find(|row| row["method"] == **method)?;
        Some((*method, row["commits_per_second"].as_f64()?))
    };
    METHODS.iter().filter_map(of).collect()
}

/// Operations per second by method, from the first table of `pg_test_fsync`: one write of 8 kB.
fn by_lines(text: &str) -> Result<Sample> {
    let section = text.split("Compare file sync methods using one 8kB write:").nth(1).unwrap_or("");
    let section = section.split("\nCompare").next().unwrap_or("");
    let mut sample = Sample::new();
    for line in section.lines() {
        let mut words = line.split_whitespace();
        let method = words
            .next()
            .and_then(|word| METHODS.iter().find(|method| **method == word.trim_end_matches('*')));
        if let (Some(method), Some(rate)) =
            (method, words.next().and_then(|word| word.parse().ok()))
        {
            sample.insert(method, rate);
        }
    }
    if sample.is_empty() { Err("pg_test_fsync printed no rates".into()) } else { Ok(sample) }
}

/// The path of the program. Debian installs it beside its server, not in PATH.
fn pg_test_fsync() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> =
        versions.map(|entry| entry.path().join("bin/pg_test_fsync")).collect();
    found.retain(|path| path.exists());
    found.sort();
    found.pop().unwrap_or_else(|| PathBuf::from("pg_test_fsync"))
}

fn load(lab: &Lab, seconds: u64, report: &mut ComparisonReport) -> Result<()> {
    let mut alone = None;
    for clients in CLIENTS {
        let mut entries = vec![ours_under_load(lab, LOG, &format!("--clients {clients}"), seconds)];
        for (name, store) in STORES {
            entries.push(store_under_load(lab, name, store, (clients, RECORD), seconds)?);
        }
        // The flush is the same for every number of clients: one thread, one block.
        entries.push(store_under_load(lab, FLUSH, "flush", (1, BLOCK), seconds)?);
        let group = interleave(
            &format!("{clients} clients, 100 B"),
            entries,
            rounds(lab),
            &["commits_per_second"],
        )?;
        let rate = group.spread(LOG, "commits_per_second").map(|spread| spread.median);
        if clients == CLIENTS[1] {
            report.goal(Goal::at_least(
                "64 clients: commits/s ÷ one client's",
                20.0,
                quotient(rate, alone),
            ));
            let peers =
                STORES.iter().filter_map(|(name, _)| group.ratio(name, "commits_per_second"));
            let worst = peers.reduce(f64::min);
            report.goal(Goal::at_least("64 clients: commits/s ÷ the best peer's", 2.0, worst));
            against_flushes(&group, report);
        }
        alone = rate;
        report.groups.push(group);
    }
    let entries = vec![
        ours_under_load(lab, FUTURES, &format!("--clients 1 --in-flight {IN_FLIGHT}"), seconds),
        store_under_load(lab, FLUSH, "flush", (1, BLOCK), seconds)?,
    ];
    let title = format!("one thread, {IN_FLIGHT} in flight, 100 B");
    let group = interleave(&title, entries, rounds(lab), &[])?;
    let part = group.quotient((FUTURES, "commits_per_second"), (FLUSH, "flushes_per_second"));
    let part = part.map(|spread| spread.median / PER_BLOCK as f64);
    let goal = format!("{title}: commits/s ÷ (records per block × flushes/s)");
    report.goal(Goal::at_least(&goal, PART, part));
    report.groups.push(group);
    Ok(())
}

/// An entry for the last of the rows that these options give.
fn ours_under_load<'a>(lab: &'a Lab, name: &'static str, clients: &str, seconds: u64) -> Rival<'a> {
    let script = format!(
        "dio bench wal --dir $DIR --record {RECORD} --block {BLOCK} {clients} --ways direct \
         --methods fdatasync --seconds {seconds} --runs 1 --size 0 --json"
    );
    Rival::new(name, &script.clone(), move |_| {
        let (found, mut sample) = json(lab, &script)?;
        let row = found["commits"].as_array().and_then(|rows| rows.last()).ok_or("no commits")?;
        let number = |name: &str| row[name].as_f64().ok_or(format!("no {name} in the report"));
        let rate = number("commits_per_second")?;
        sample.insert("commits_per_second", rate);
        sample.insert("cpu_busy", rate * number("cpu_seconds_per_commit")?);
        for (key, name) in [("p50_nanoseconds", "p50"), ("p99_nanoseconds", "p99")] {
            sample.insert(key, row["response"][name].as_f64().ok_or("no response times")? * 1e9);
        }
        keep(&mut sample);
        Ok(sample)
    })
}

/// An entry for a store of [`crate::stores`], which runs in a process of its own, on files of its
/// own.
fn store_under_load<'a>(
    lab: &'a Lab,
    name: &str,
    store: &'static str,
    (clients, bytes): (usize, usize),
    seconds: u64,
) -> Result<Rival<'a>> {
    let program = std::env::current_exe()?;
    let place = lab.dir.join(format!("commits-{store}"));
    let shown = format!(
        "benchsuite commits {store} $DIR/commits-{store} {clients} {bytes} --seconds {seconds}"
    );
    let script = shown.replacen("benchsuite", &program.display().to_string(), 1);
    Ok(Rival::new(name, &shown, move |_| {
        let _ = std::fs::remove_dir_all(&place);
        let outcome = json(lab, &script);
        let _ = std::fs::remove_dir_all(&place);
        let (found, mut sample) = outcome?;
        let rate = if store == "flush" { "flushes_per_second" } else { "commits_per_second" };
        for (key, name) in [
            (rate, "commits_per_second"),
            ("p50_nanoseconds", "p50_nanoseconds"),
            ("p99_nanoseconds", "p99_nanoseconds"),
        ] {
            sample.insert(key, found[name].as_f64().ok_or("no rate")?);
        }
        keep(&mut sample);
        Ok(sample)
    }))
}

/// Compares commits by many clients with the limit from the disk's flushes:
/// `records per block × flushes per second`. It is a target only if that limit is the bottleneck,
/// and not the processors.
fn against_flushes(group: &ComparisonGroup, report: &mut ComparisonReport) {
    let Some(flushes) = group.spread(FLUSH, "flushes_per_second").map(|spread| spread.median)
    else {
        return;
    };
    let part = group.quotient((LOG, "commits_per_second"), (FLUSH, "flushes_per_second"));
    let Some(part) = part.map(|spread| spread.median / PER_BLOCK as f64) else { return };
    let busy = group.spread(LOG, "cpu_busy").map_or(0.0, |spread| spread.median);
    let cpus = report.host.cores as f64;
    report.set("records_per_block", PER_BLOCK);
    report.set("flushes_per_second", flushes.round());
    report.set(
        "limit_of_64_clients",
        format!(
            "0.9 × {PER_BLOCK} × {flushes:.0} = {:.0} commits/s",
            0.9 * PER_BLOCK as f64 * flushes
        ),
    );
    report.set(
        "commits_of_64_clients_by_limit",
        format!("{:.3} of {PER_BLOCK} × the flush rate, round by round", part),
    );
    report.set("what_binds_64_clients", binds(part, busy, cpus));
    if part >= PART || busy < BUSY * cpus {
        let goal = "64 clients: commits/s ÷ (records per block × flushes/s)";
        report.goal(Goal::at_least(goal, PART, Some(part)));
    }
}

/// The bottleneck of commits, in words.
fn binds(part: f64, busy: f64, cpus: f64) -> String {
    let processors = format!("{busy:.2} of {cpus} processors busy with the log");
    match () {
        () if part >= PART => format!("flushes of the disk; {processors}"),
        () if busy >= BUSY * cpus => {
            format!("processors: {processors}, so the disk is not the limit")
        }
        () => format!("neither flushes nor processors: {processors}"),
    }
}

fn quotient(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    one.zip(other).map(|(one, other)| one / other)
}

/// The option sets the time, so only the costs of the commits are kept.
fn keep(sample: &mut Sample) {
    sample.retain(|key, _| !["wall_seconds", "dirty_bytes"].contains(key));
}

fn large_steps(lab: &Lab, report: &mut ComparisonReport) -> Result<()> {
    let size = size_text(lab.options.size.unwrap_or(2 * GIB));
    let script = format!(
        "dio bench wal --dir $DIR --clients 1 --ways direct --methods fdatasync --seconds 0.1 \
         --runs 1 --size {size} --json"
    );
    let run = |script: &str| -> Result<Sample> {
        let (found, _) = json(lab, script)?;
        let stream = &found["stream"];
        let number =
            |name: &str| stream[name]["median"].as_f64().ok_or(format!("no {name} in the report"));
        Ok(Sample::from([
            ("append_bytes_per_second", number("waiting")?.max(number("asynchronous")?)),
            ("disk_bytes_per_second", number("disk")?),
            ("append_of_disk", number("of_disk")?),
            ("recovery_bytes_per_second", number("recovery")?),
            ("disk_read_bytes_per_second", number("disk_read")?),
            ("pages_target", stream["resident_pages"].as_f64().ok_or("no pages in the report")?),
        ]))
    };
    let entry = Rival::new("dio's log", &script.clone(), move |_| run(&script));
    let group: ComparisonGroup = interleave("large steps", vec![entry], rounds(lab), &[])?;
    let median = |key: &str| group.spread("dio's log", key).map(|spread| spread.median);
    report.goal(Goal::at_least(
        "records of 1 MiB, a commit every 64 MiB ÷ the disk",
        0.95,
        median("append_of_disk"),
    ));
    let limit =
        median("disk_read_bytes_per_second").map_or(GIB as f64, |disk| disk.min(GIB as f64));
    let part = median("recovery_bytes_per_second").map(|rate| rate / limit);
    report.goal(Goal::at_least(
        "recovery ÷ the lesser of 1 GiB/s and the disk's reading",
        1.0,
        part,
    ));
    report.goal(Goal::at_most("pages of the log in the cache", 0.0, median("pages_target")));
    report.groups.push(group);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{PER_BLOCK, binds, by_lines};

    #[test]
    fn what_binds_is_told_by_figures() {
        assert_eq!(PER_BLOCK, 32);
        assert!(binds(0.95, 1.99, 2.0).starts_with("flushes"));
        assert!(binds(0.5, 1.9, 2.0).starts_with("processors: 1.90 of 2"));
        assert!(binds(0.5, 0.4, 2.0).starts_with("neither"));
    }

    #[test]
    fn the_first_table_counts() {
        let text = "5 seconds per test\nCompare file sync methods using one 8kB write:\n(in \
                    order)\n        open_datasync                      1234.500 ops/sec     810 \
                    usecs/op\n        fdatasync     99.0 ops/sec\n        fsync_writethrough \
                    n/a\n\nCompare file sync methods using two 8kB writes:\n  fsync  5.0 ops/sec\n";
        let sample = by_lines(text).expect("a table");
        assert_eq!((sample["open_datasync"], sample["fdatasync"], sample.len()), (1234.5, 99.0, 2));
        assert!(by_lines("").is_err());
    }
}
