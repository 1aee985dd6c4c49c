//! Predictions of `dio advise` for commands of several kinds, beside the times that the commands
//! take by each way.

use std::fs;

use serde_json::Value;

use crate::Result;
use crate::lab::Lab;
use crate::measure::measure;
use crate::report;
use crate::tool::must;
use dio_bench::suite::{ComparisonGroup, ComparisonReport, Contender, Goal, Host, Sample};

/// A command, and what is done before it is looked at.
struct Row {
    title: &'static str,
    prepare: &'static str,
    command: &'static str,
}

/// Makes what is missing of the data.
const DATA: &str = "cd $DIR && mkdir -p advise && cd advise && \
    { [ -e big ] || head -c 512M /dev/urandom > big; } && \
    { [ -e four ] || head -c 4G /dev/urandom > four; } && \
    { [ -e lines ] || head -c 150M /dev/urandom | base64 -w 60 > lines; } && \
    { [ -e src ] || cp -r /usr/share/doc src; } && \
    { [ -e small.db ] || sqlite3 small.db 'create table t(id integer primary key, v blob); with \
      recursive n(i) as (select 1 union all select i+1 from n where i < 60000) insert into t \
      select i, randomblob(900) from n'; } && \
    { [ -e large.db ] || sqlite3 large.db 'create table t(id integer primary key, v blob); with \
      recursive n(i) as (select 1 union all select i+1 from n where i < 1500000) insert into t \
      select i, randomblob(900) from n'; } && \
    python3 -c \"import random; r = random.Random(7); [open(f, 'w').write(''.join('select v from t \
      where id=%d;\\n' % r.randrange(1, n) for _ in range(c))) for f, n, c in (('small.sql', 60000, \
      40000), ('large.sql', 1500000, 8000))]; open('insert.sql', 'w').write('pragma \
      synchronous=full;\\n' + 'insert into t(v) values(randomblob(300));\\n' * 300)\" && sync";

/// A script that takes a file, or all files of a directory, out of the page cache.
macro_rules! cold {
    ($file:literal) => {
        concat!(
            "cd $DIR/advise && find ",
            $file,
            " -type f -exec dio cache --evict {} + >/dev/null"
        )
    };
}

const ROWS: &[Row] = &[
    Row {
        title: "cp of 512 MiB",
        prepare: "rm -f $DIR/advise/copied && cd $DIR/advise && dio cache --evict big >/dev/null",
        command: "cp big copied",
    },
    Row { title: "sha256sum, once", prepare: cold!("big"), command: "sha256sum big" },
    Row {
        title: "sha256sum, three times in a row",
        prepare: cold!("big"),
        command: "sh -c 'sha256sum big; sha256sum big; sha256sum big'",
    },
    Row { title: "grep -r, cold", prepare: cold!("src"), command: "grep -rc zzzz src" },
    Row {
        title: "grep -r, warm",
        prepare: "cd $DIR/advise && { grep -rc zzzz src >/dev/null || true; }",
        command: "grep -rc zzzz src",
    },
    Row { title: "tar of small files", prepare: cold!("src"), command: "tar cf small.tar src" },
    Row {
        title: "sqlite, point queries, smaller than memory",
        prepare: "cat $DIR/advise/small.db >/dev/null",
        command: "sh -c 'sqlite3 small.db < small.sql'",
    },
    Row {
        title: "sqlite, point queries, 1.5 GiB cold",
        prepare: cold!("large.db"),
        command: "sh -c 'sqlite3 large.db < large.sql'",
    },
    Row {
        title: "sqlite, inserts with a sync each",
        prepare: "cp $DIR/advise/small.db $DIR/advise/insert.db && sync",
        command: "sh -c 'sqlite3 insert.db < insert.sql'",
    },
    Row {
        title: "random reads of 4 GiB",
        prepare: cold!("four"),
        command: "fio --name=r --filename=four --rw=randread --bs=4k --ioengine=psync \
                  --number_ios=10000 --size=4G --invalidate=0 --thread",
    },
    Row {
        title: "appends with fdatasync",
        prepare: "rm -f $DIR/advise/log",
        command: "fio --name=l --filename=log --rw=write --bs=4k --ioengine=psync --fdatasync=1 \
                  --size=6M --fallocate=none --thread",
    },
    Row {
        title: "a reader at 100 MB/s",
        prepare: cold!("big"),
        command: "fio --name=v --filename=big --rw=read --bs=1M --ioengine=psync --rate=100m \
                  --size=300M --invalidate=0 --thread",
    },
    Row {
        title: "sort with spills",
        prepare: cold!("lines"),
        command: "sort -S 30M -T . -o sorted lines",
    },
];

/// The comparison `advise`: each command is recorded, predicted, and run by each way.
pub(crate) fn compare(lab: &Lab) -> Result<ComparisonReport> {
    for name in ["fio", "sqlite3", "python3", "grep", "tar", "sort"] {
        must(name)?;
    }
    let programs = lab.programs(&["fio", "sqlite3", "grep", "tar", "sort", "cp", "sha256sum"]);
    let mut report = report::begin("advise", Host::of(&lab.dir)?, programs)?;
    report.set("rounds", lab.options.runs);
    measure(&mut lab.shell(DATA))?;
    measure(&mut lab.shell("dio probe --speed -o $DIR/advise/profile.json $DIR/advise"))?;
    let mut errors = Vec::new();
    for row in ROWS {
        eprintln!("benchsuite: advise: {}", row.title);
        measure(&mut lab.shell(row.prepare))?;
        let verdict = verdict(lab, row)?;
        let (group, off) = group(row, &verdict);
        report.goal(right(row, &verdict));
        report.groups.push(group);
        errors.extend(off);
    }
    errors.sort_by(f64::total_cmp);
    let (median, worst) = (errors.get(errors.len() / 2).copied(), errors.last().copied());
    report.goal(Goal::at_most("predictions, the median of their errors", 0.15, median));
    report.goal(Goal::at_most("predictions, the worst error", 0.30, worst));
    report.note(
        "Each command is recorded once as it is, and then run by each way, in turn, from the state \
         that the first run found. The verdict is right if its way takes at most 1.1 times as long \
         as the fastest. Predictions through the page cache are the recorded times.",
    );
    Ok(report)
}

fn verdict(lab: &Lab, row: &Row) -> Result<Value> {
    let (rounds, command) = (lab.options.runs, row.command);
    let script = format!(
        "cd $DIR/advise; dio advise --json -o verdict.json --device profile.json --prove --rounds \
         {rounds} -- {command}; [ -s verdict.json ]"
    );
    let path = lab.dir.join("advise/verdict.json");
    let _ = fs::remove_file(&path);
    measure(&mut lab.shell(&script))?;
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

fn ways(verdict: &Value) -> impl Iterator<Item = (&str, f64, f64)> {
    let ways = verdict["ways"].as_array().into_iter().flatten();
    ways.filter_map(|way| {
        let seconds = |field: &str| way[field].as_f64();
        Some((way["way"].as_str()?, seconds("predicted_seconds")?, seconds("measured_seconds")?))
    })
}

/// The times of a command by each way, and how far the predictions are off.
fn group(row: &Row, verdict: &Value) -> (ComparisonGroup, Vec<f64>) {
    let mut errors = Vec::new();
    let mut contenders = Vec::new();
    for (way, predicted, measured) in ways(verdict) {
        let off = (predicted / measured - 1.0).abs();
        errors.push(off);
        let sample = Sample::from([
            ("wall_seconds", measured),
            ("predicted_seconds", predicted),
            ("prediction_error", off),
        ]);
        contenders.push(Contender::new(way.to_owned(), row.command.to_owned(), vec![sample]));
    }
    let expected = expected(verdict);
    let advised = expected["way"].as_str().unwrap_or_default();
    let sure = expected["confidence"].as_str().unwrap_or_default();
    let title = format!("{}: {advised} ({sure})", row.title);
    (ComparisonGroup::new(&title, contenders, Default::default(), &[]), errors)
}

/// The verdict before anything was measured: the other one is right by itself.
fn expected(verdict: &Value) -> &Value {
    match &verdict["expected"] {
        Value::Null => &verdict["verdict"],
        expected => expected,
    }
}

/// Whether the advised way is the fastest, or nearly.
fn right(row: &Row, verdict: &Value) -> Option<Goal> {
    let fastest = ways(verdict).map(|way| way.2).fold(f64::INFINITY, f64::min);
    let advised = expected(verdict)["way"].as_str()?;
    // Without advice, the command stays as it is.
    let advised = if advised == "cannot_tell" { "cached" } else { advised };
    let taken = ways(verdict).find(|way| way.0 == advised)?.2;
    Goal::at_most(
        &format!("{}: the advised way to the fastest", row.title),
        1.1,
        Some(taken / fastest),
    )
}
