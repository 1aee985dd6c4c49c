//! SQLite by the VFS `dio`, beside the default VFS, with a database larger than memory.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};

use super::COSTS;
use crate::Result;
use crate::data::remove;
use crate::lab::Lab;
use crate::measure::{measure, resident_pages};
use crate::memory::MemoryGroup;
use crate::report;
use crate::rounds::{Rival, interleave};
use crate::tool::{find, home, must, need, output, tool};
use dio_bench::suite::Host;
use dio_bench::suite::{ComparisonGroup, Sample};
use dio_bench::suite::{ComparisonReport, Goal};
use dio_common::size::{GIB, MIB, exact as size_text};

/// The database is so many times as large as the memory of a run, page cache included.
const TIMES_MEMORY: u64 = 4;
/// Bytes of a row, as far as the size of the database is concerned: nine rows fill a page.
const ROW_BYTES: u64 = 4096 / 9;
/// Lookups of one run, and rows that a run of updates changes.
const LOOKUPS: u64 = 20_000;
const TRANSACTIONS: u64 = 50;
const ROWS_OF_TRANSACTION: u64 = 100;

/// A way to open the database, the part of the memory that is SQLite's own cache, in percent, and
/// the beginning of the shell's arguments.
struct Opening {
    name: &'static str,
    cache_percent: u64,
    open: &'static str,
}

const OPENINGS: &[Opening] = &[
    Opening {
        name: "dio",
        cache_percent: 60,
        open: "'.load $DIR/dio_vfs' '.open file:$DIR/sqlite.db?vfs=dio'",
    },
    Opening { name: "default", cache_percent: 60, open: "'.open $DIR/sqlite.db'" },
    Opening {
        name: "default, cache of the kernel",
        cache_percent: 1,
        open: "'.open $DIR/sqlite.db'",
    },
];

/// A trial: its title, and the statements that it runs.
struct SqliteTrial {
    title: &'static str,
    sql: fn(rows: u64) -> String,
}

const TRIALS: &[SqliteTrial] = &[
    SqliteTrial {
        title: "20,000 rows by random keys",
        sql: |rows| {
            format!(
                "pragma journal_mode=delete; with recursive {} select count(b), sum(length(b)) \
                 from r join t on t.a = 1 + x % {rows};",
                random_keys(LOOKUPS)
            )
        },
    },
    SqliteTrial {
        title: "a scan of all rows",
        sql: |_| "pragma journal_mode=delete; select count(*), sum(length(b)) from t;".to_owned(),
    },
    SqliteTrial {
        title: "50 transactions of 100 random rows, rollback journal",
        sql: |rows| updates("delete", rows),
    },
    SqliteTrial {
        title: "50 transactions of 100 random rows, write-ahead log, with its checkpoint",
        sql: |rows| updates("wal", rows) + "pragma wal_checkpoint(truncate);",
    },
];

/// A table `r(n, x)` of `count` pseudorandom numbers, the same in each run.
fn random_keys(count: u64) -> String {
    format!(
        "r(n, x) as (select 1, 88172645 union all \
         select n + 1, (x * 1103515245 + 12345) % 2147483648 from r where n < {count})"
    )
}

fn updates(journal: &str, rows: u64) -> String {
    let one = |number: u64| {
        format!(
            "begin immediate; with recursive {} update t set b = randomblob(length(b)) where a in \
             (select 1 + (x + {number} * 7919) % {rows} from r); commit;\n",
            random_keys(ROWS_OF_TRANSACTION)
        )
    };
    let begin = format!("pragma journal_mode={journal}; pragma synchronous=full;\n");
    begin + &(0..TRANSACTIONS).map(one).collect::<String>()
}

/// Builds the library and the VFS, and puts the VFS where the commands find it.
fn build(lab: &Lab) -> Result<()> {
    let root = home().join("..");
    let own = root.join("target/judges/bin/cargo-capi");
    let cargo_c = if own.is_file() { Some(own) } else { find("cargo-capi") };
    let cargo_c = match cargo_c {
        Some(found) => found,
        None => {
            need("cargo-c");
            find("cargo-capi").ok_or("cargo-c is missing: cargo xtask setup")?
        }
    };
    let prefix = home().join("target/capi");
    let mut install = tool(cargo_c);
    install.args(["capi", "install", "--release", "--locked", "--manifest-path"]);
    install.arg(root.join("bindings/c/Cargo.toml")).arg("--prefix").arg(&prefix);
    output(install.arg("--libdir").arg(prefix.join("lib")))?;
    let mut cc = tool("cc");
    cc.args(["-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-D_GNU_SOURCE", "-pthread"]);
    for source in fs::read_dir(root.join("bindings/c/vfs"))? {
        let path = source?.path();
        if path.extension().is_some_and(|end| end == "c") {
            cc.arg(path);
        }
    }
    let lib = prefix.join("lib");
    cc.arg(format!("-I{}", prefix.join("include").display()));
    cc.arg(format!("-L{}", lib.display())).arg("-ldio");
    cc.arg(format!("-Wl,-rpath,{}", lib.display()));
    output(cc.arg("-o").arg(lab.dir.join("dio_vfs.so")))?;
    Ok(())
}

/// Makes the database, unless an earlier run has left one with as many rows.
fn database(lab: &Lab, rows: u64) -> Result<PathBuf> {
    let path = lab.dir.join("sqlite.db");
    let count = |path: &Path| -> Result<String> {
        let mut shell = tool("sqlite3");
        Ok(output(shell.arg(path).arg("select max(a) from t"))?.trim().to_owned())
    };
    if path.is_file() && count(&path).is_ok_and(|found| found == rows.to_string()) {
        return Ok(path);
    }
    for end in ["", "-wal", "-shm", "-journal"] {
        remove(&lab.dir.join(format!("sqlite.db{end}")))?;
    }
    eprintln!("benchsuite: making a database of {rows} rows");
    let length = ROW_BYTES - 24;
    let sql = format!(
        "pragma page_size=4096; pragma journal_mode=off; pragma synchronous=off;
         create table t(a integer primary key, b blob);
         with recursive c(x) as (select 1 union all select x + 1 from c where x < {rows})
             insert into t select x, randomblob({length}) from c;"
    );
    output(tool("sqlite3").arg("-bail").arg(&path).arg(sql))?;
    fs::File::open(&path)?.sync_all()?;
    Ok(path)
}

impl SqliteTrial {
    fn group(&self, lab: &Lab, path: &Path, rows: u64, memory: u64) -> Result<ComparisonGroup> {
        let answer = RefCell::new(None);
        let mut entries = Vec::new();
        for opening in OPENINGS {
            let cache_kib = memory / 1024 * opening.cache_percent / 100;
            let script = format!(
                "sqlite3 -bail :memory: {} 'pragma cache_size=-{cache_kib}' '.read $DIR/script.sql'",
                opening.open
            );
            let answer = &answer;
            entries.push(Rival::new(opening.name, &script.clone(), move |_| {
                fs::write(lab.dir.join("script.sql"), (self.sql)(rows))?;
                lab.cool()?;
                let group = MemoryGroup::new(memory)?;
                // The shell itself expands `$DIR`, also within the quotes of the recorded command.
                let command = script.replace("$DIR", &lab.dir.to_string_lossy());
                let finished = measure(&mut group.member(&lab.shell(&command)))?;
                let mut sample: Sample = finished.sample;
                sample.insert("pages_source", resident_pages([path])?);
                let expected = answer.borrow_mut().get_or_insert(finished.stdout.clone()).clone();
                if expected != finished.stdout {
                    return Err(format!("a wrong result: {}", finished.stdout).into());
                }
                Ok(sample)
            }));
        }
        interleave(self.title, entries, lab.options.runs as usize, COSTS)
    }
}

/// The comparison `sqlite-vfs`: lookups, a scan and updates.
pub(crate) fn compare(lab: &Lab) -> Result<ComparisonReport> {
    ["fincore", "sqlite3", "cc"].map(must).into_iter().collect::<Result<Vec<_>>>()?;
    build(lab)?;
    let bytes = lab.options.size.unwrap_or(2 * GIB).max(64 * MIB);
    let (rows, memory) = (bytes / ROW_BYTES, bytes / TIMES_MEMORY);
    let path = database(lab, rows)?;
    let mut report = report::begin("sqlite-vfs", Host::of(&lab.dir)?, lab.programs(&["sqlite3"]))?;
    report.set("database", size_text(fs::metadata(&path)?.len()));
    report.set("memory_of_the_group", size_text(memory));
    report.set("rows", rows);
    report.set("rounds", lab.options.runs);
    for trial in TRIALS {
        let group = trial.group(lab, &path, rows, memory)?;
        let goal = format!("{}: wall ÷ default", trial.title);
        report.goal(Goal::at_most(&goal, 1.0, group.ratio("default", "wall_seconds")));
        let worst = group.spread("dio", "pages_source").map(|spread| spread.max);
        let goal = format!("{}: pages of the database after, worst", trial.title);
        report.goal(Goal::at_most(&goal, 8.0, worst));
        report.groups.push(group);
    }
    report.note(
        "SQLite's own cache has 60 % of the memory of the group, or 1 % where the kernel's is to do \
         the work. All of the memory is the group's: the page cache of the database too.",
    );
    Ok(report)
}
