//! Predictions of `dio advise` for commands of several kinds, beside the times that the commands
//! take by each way.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use dio_common::size::{GIB, MIB};
use serde_json::Value;

use crate::Result;
use crate::lab::Lab;
use crate::measure::measure;
use crate::memory::MemoryGroup;
use crate::report;
use crate::tool::must;
use dio_bench::suite::{ComparisonGroup, ComparisonReport, Contender, Goal, Host, Sample};

/// A command, and what is done before it is looked at.
struct Row {
    title: &'static str,
    prepare: &'static str,
    command: &'static str,
    /// The memory that it has, in bytes; `None` if that is the machine's.
    memory: Option<u64>,
    /// Whether each run goes on from what the one before has left.
    repeats: bool,
}

impl Row {
    const fn new(title: &'static str, prepare: &'static str, command: &'static str) -> Row {
        Row { title, prepare, command, memory: None, repeats: false }
    }

    /// The same within so much memory.
    const fn within(self, memory: u64) -> Row {
        Row { memory: Some(memory), ..self }
    }

    /// The same of a database, whose files belong together.
    const fn repeated(self) -> Row {
        Row { repeats: true, ..self }
    }
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
    { [ -e hot ] || { mkdir hot && head -c 250M /dev/urandom > hot/set; }; } && \
    { [ -e large.db ] || sqlite3 large.db 'create table t(id integer primary key, v blob); with \
      recursive n(i) as (select 1 union all select i+1 from n where i < 1500000) insert into t \
      select i, randomblob(900) from n'; } && \
    python3 -c \"import random; r = random.Random(7); [open(f, 'w').write(''.join('select v from t \
      where id=%d;\\n' % r.randrange(1, n) for _ in range(c))) for f, n, c in (('small.sql', 60000, \
      40000), ('large.sql', 1500000, 8000))]; open('insert.sql', 'w').write('pragma \
      synchronous=full;\\n' + 'insert into t(v) values(randomblob(300));\\n' * 300)\" && sync";

/// Programs that start a server, load it, and stop it, and a pair of programs that share a cache.
const SCRIPTS: [(&str, &str); 3] = [
    ("pgbench.sh", include_str!("advise/pgbench.sh")),
    ("sysbench.sh", include_str!("advise/sysbench.sh")),
    ("pair.sh", include_str!("advise/pair.sh")),
];

/// Makes what is missing of the databases.
const DATABASES: &str = "cd $DIR/advise && \
    { [ -e pg ] || { mkdir pg && chown postgres pg && setpriv --reuid=postgres --regid=postgres \
      --clear-groups $(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -1)/initdb --auth=trust \
      --username=postgres --no-sync -D $PWD/pg && ./pgbench.sh -i -q -I dtGvp -s 120; }; } && \
    { [ -e maria ] || { mariadb-install-db --no-defaults --user=root --datadir=$PWD/maria \
      --auth-root-authentication-method=normal && ./sysbench.sh oltp_update_non_index prepare; }; }";

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
    Row::new(
        "cp of 512 MiB",
        "cd $DIR/advise && rm -f copied && sync && dio cache --evict big >/dev/null",
        "cp big copied",
    ),
    Row::new("sha256sum, once", cold!("big"), "sha256sum big"),
    Row::new(
        "sha256sum, three times in a row",
        cold!("big"),
        "sh -c 'sha256sum big; sha256sum big; sha256sum big'",
    ),
    Row::new("grep -r, cold", cold!("src"), "grep -rc zzzz src"),
    Row::new(
        "grep -r, warm",
        "cd $DIR/advise && { grep -rc zzzz src >/dev/null || true; }",
        "grep -rc zzzz src",
    ),
    Row::new(
        "tar of small files",
        concat!("rm -f $DIR/advise/small.tar; ", cold!("src")),
        "tar cf small.tar src",
    ),
    Row::new(
        "sqlite, point queries, smaller than memory",
        "cat $DIR/advise/small.db >/dev/null",
        "sh -c 'sqlite3 small.db < small.sql'",
    ),
    Row::new(
        "sqlite, point queries, 1.5 GiB within 500 MiB",
        cold!("large.db"),
        "sh -c 'sqlite3 large.db < large.sql'",
    )
    .within(500 * MIB),
    Row::new(
        "sqlite, inserts with a sync each",
        "cp $DIR/advise/small.db $DIR/advise/insert.db && sync",
        "sh -c 'sqlite3 insert.db < insert.sql'",
    ),
    Row::new(
        "random reads of 4 GiB within 1 GiB",
        cold!("four"),
        "fio --name=r --filename=four --rw=randread --bs=4k --ioengine=psync --number_ios=20000 \
         --size=4G --invalidate=0 --thread",
    )
    .within(GIB),
    Row::new(
        "appends with fdatasync",
        "rm -f $DIR/advise/log",
        "fio --name=l --filename=log --rw=write --bs=4k --ioengine=psync --fdatasync=1 --size=6M \
         --fallocate=none --thread",
    ),
    Row::new(
        "a reader at 100 MB/s",
        cold!("big"),
        "fio --name=v --filename=big --rw=read --bs=1M --ioengine=psync --rate=100m --size=300M \
         --invalidate=0 --thread",
    ),
    Row::new(
        "sort with spills",
        concat!("rm -f $DIR/advise/sorted; ", cold!("lines")),
        "sort -S 30M -T . -o sorted lines",
    ),
    Row::new(
        "pgbench, 1.9 GiB within 500 MiB",
        "$DIR/advise/pgbench.sh -n -c 4 -j 2 -t 500 >/dev/null && sync",
        "./pgbench.sh -n -c 4 -j 2 -t 500",
    )
    .repeated()
    .within(500 * MIB),
    Row::new(
        "sysbench, 500 MiB within 500 MiB",
        "$DIR/advise/sysbench.sh oltp_update_non_index --threads=4 --events=4000 --time=0 run \
         >/dev/null && sync",
        "./sysbench.sh oltp_update_non_index --threads=4 --events=4000 --time=0 run",
    )
    .repeated()
    .within(500 * MIB),
    Row::new(
        "one reads the same again, one reads 2 GiB once, within 500 MiB",
        cold!("big hot"),
        "./pair.sh",
    )
    .within(500 * MIB),
];

/// The comparison `advise`: each command is recorded, predicted, and run by each way.
pub(crate) fn compare(lab: &Lab) -> Result<ComparisonReport> {
    for name in ["fio", "sqlite3", "python3", "pgbench", "mariadbd", "sysbench"] {
        must(name)?;
    }
    let programs = lab.programs(&[
        "fio",
        "sqlite3",
        "grep",
        "tar",
        "sort",
        "cp",
        "sha256sum",
        "pgbench",
        "mariadbd",
        "sysbench",
    ]);
    let mut report = report::begin("advise", Host::of(&lab.dir)?, programs)?;
    report.set("rounds", lab.options.runs);
    measure(&mut lab.shell(DATA))?;
    for (name, script) in SCRIPTS {
        let path = lab.dir.join("advise").join(name);
        fs::write(&path, script)?;
        fs::set_permissions(&path, Permissions::from_mode(0o755))?;
    }
    measure(&mut lab.shell(DATABASES))?;
    measure(&mut lab.shell("dio probe --speed -o $DIR/advise/profile.json $DIR/advise"))?;
    let mut errors = Vec::new();
    for row in ROWS {
        eprintln!("benchsuite: advise: {}", row.title);
        run_before(lab, row)?;
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
        "Each command has run once before, so that a cache below the disk has seen its data; then \
         it is recorded once as it is, and run by each way, in turn, from the state that the \
         recorded run found, in memory that was used before. The verdict is right if its way \
         takes at most 1.1 times as long as the fastest. Predictions through the page cache are \
         the recorded times.",
    );
    Ok(report)
}

/// Runs the command once, so that what lies below the page cache is the same for the recorded run
/// and for later ones: the disk of a virtual machine has a cache in its host.
fn run_before(lab: &Lab, row: &Row) -> Result<()> {
    if row.repeats {
        // The same command prepares it.
        return Ok(());
    }
    measure(&mut lab.shell(row.prepare))?;
    let mut shell = lab.shell(&format!("cd $DIR/advise; {} >/dev/null || true", row.command));
    in_memory(row, &mut shell)
}

/// Runs it with the memory of a row.
fn in_memory(row: &Row, shell: &mut Command) -> Result<()> {
    match row.memory {
        None => measure(shell)?,
        Some(limit) => measure(&mut MemoryGroup::new(limit)?.member(shell))?,
    };
    Ok(())
}

fn verdict(lab: &Lab, row: &Row) -> Result<Value> {
    let (rounds, command) = (lab.options.runs, row.command);
    let repeat = if row.repeats { "--repeat" } else { "" };
    let script = format!(
        "cd $DIR/advise; dio advise --json -o verdict.json --device profile.json --prove {repeat} \
         --rounds {rounds} -- {command}; [ -s verdict.json ]"
    );
    let path = lab.dir.join("advise/verdict.json");
    let _ = fs::remove_file(&path);
    in_memory(row, &mut lab.shell(&script))?;
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
    let advised = match advised {
        "cannot_tell" | "already_direct" => "cached",
        advised => advised,
    };
    let taken = ways(verdict).find(|way| way.0 == advised)?.2;
    Goal::at_most(
        &format!("{}: the advised way to the fastest", row.title),
        1.1,
        Some(taken / fastest),
    )
}
