//! The VFS through the `sqlite3` shell.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use dio_test::{Seed, TestFs, file_systems, is_root};

use crate::library::{Library, library, run};

/// How a database is opened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Vfs {
    Dio,
    Default,
}

/// The shell, which reads statements from standard input, stops at the first error and waits for
/// locks.
pub(crate) fn shell(library: &Library, vfs: Vfs, database: &Path) -> Command {
    let mut shell = Command::new("sqlite3");
    let name = match vfs {
        Vfs::Dio => {
            let load = format!(".load {}", library.vfs().with_extension("").display());
            shell.args(["-bail", "-batch", ":memory:", "-cmd", &load]);
            format!(".open 'file:{}?vfs=dio'", database.display())
        }
        Vfs::Default => {
            shell.args(["-bail", "-batch", ":memory:"]);
            format!(".open '{}'", database.display())
        }
    };
    shell.args(["-cmd", &name, "-cmd", ".timeout 60000"]);
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    shell
}

/// Runs statements. Returns the output, and whether the shell succeeded.
pub(crate) fn try_sql(library: &Library, vfs: Vfs, database: &Path, sql: &str) -> (String, bool) {
    let mut child = shell(library, vfs, database).spawn().unwrap();
    child.stdin.take().unwrap().write_all(sql.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).trim().to_owned();
    // The shell goes on in memory if it cannot open a database.
    let opened = !text.contains("unable to open database");
    (text, output.status.success() && opened)
}

#[track_caller]
pub(crate) fn sql(library: &Library, vfs: Vfs, database: &Path, sql: &str) -> String {
    let (text, success) = try_sql(library, vfs, database, sql);
    assert!(success, "{vfs:?} {}: {text}", database.display());
    text
}

/// A workload that grows, spills, shrinks and rebuilds the database.
fn workload(journal: &str, page: u32) -> String {
    format!(
        "pragma page_size={page}; pragma journal_mode={journal}; pragma cache_size=20;
         create table t(a integer primary key, b blob);
         with recursive c(x) as (select 1 union all select x+1 from c where x<3000)
             insert into t select x, zeroblob(x % 700) from c;
         create index i on t(length(b), a);
         begin; update t set b = zeroblob(x.n) from (select 900 as n) as x where a % 3 = 0;
         savepoint s; delete from t where a % 5 = 0; rollback to s; commit;
         begin; delete from t; rollback;
         delete from t where a % 7 = 0;
         insert into t(b) select b from t where a < 500;
         vacuum;
         begin; update t set b = zeroblob(length(b)) where a between 800 and 1100;
         select sum(length(b)) from t; update t set b = b || 'x' where a % 2 = 0;
         select sum(length(b)), sum(unicode(substr(b, -1))) from t; commit;
         update t set b = zeroblob(10) where a % 11 = 0;
         pragma wal_checkpoint(truncate);
         select count(*), sum(length(b)), sum(a) from t; pragma integrity_check;"
    )
}

/// The bytes of a database, without the counters that say how often it was written.
fn contents(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

#[test]
fn the_same_statements_make_the_same_database() {
    let Some(library) = library() else { return };
    for fs in file_systems() {
        // Sizes of pages are SQLite's affair on whatever file system.
        let ways =
            [("delete", 4096), ("wal", 4096), ("truncate", 512), ("persist", 65536), ("wal", 1024)];
        let ways = if fs.name == "host" { &ways[..] } else { &ways[..2] };
        for &(journal, page) in ways {
            let dir = fs.dir();
            let (ours, theirs) = (dir.path().join("ours"), dir.path().join("theirs"));
            let text = workload(journal, page);
            let outputs = [(Vfs::Dio, &ours), (Vfs::Default, &theirs)]
                .map(|(vfs, path)| sql(library, vfs, path, &text));
            assert_eq!(outputs[0], outputs[1], "{} {journal} {page}", fs.name);
            assert!(outputs[0].ends_with("\nok"), "{}", outputs[0]);
            assert!(contents(&ours) == contents(&theirs), "{} {journal} {page}", fs.name);
        }
    }
}

#[test]
fn pages_go_direct_and_leave_nothing_in_the_page_cache() {
    let Some(library) = library() else { return };
    for fs in file_systems().iter().filter(|fs| ["ext4", "xfs"].contains(&fs.name.as_str())) {
        for journal in ["delete", "wal"] {
            let dir = fs.dir();
            let path = dir.path().join("database");
            sql(library, Vfs::Dio, &path, &workload(journal, 4096));
            let text = sql(
                library,
                Vfs::Dio,
                &path,
                "select sum(length(b)) from t; \
                insert into t(b) values('x'); pragma dio_receipt;",
            );
            let receipt = text.lines().last().unwrap();
            assert!(receipt.contains("\"uncached\":0,\"cached\":0},\"written\""), "{receipt}");
            assert!(!receipt.contains("\"read\":{\"direct\":0,"), "a scan is direct: {receipt}");
            // The pages that hold the header, with what the kernel reads beside them.
            let pages = dio_test::resident_pages(&path);
            assert!(pages <= 8, "{} {journal}: {pages} pages", fs.name);
        }
    }
}

/// Programs of both kinds write to one database at the same time.
#[test]
fn both_kinds_of_programs_share_a_database() {
    let Some(library) = library() else { return };
    const ROWS: usize = 150;
    for fs in file_systems() {
        for journal in ["delete", "wal"] {
            let dir = fs.dir();
            let path = dir.path().join("database");
            let create = format!(
                "pragma journal_mode={journal}; create table t(who, n, b); create index i on t(n);"
            );
            sql(library, Vfs::Default, &path, &create);
            // Half of the rows are written in transactions that read first.
            let rows = |who: usize| -> String {
                let row = |n: usize| {
                    format!(
                        "begin immediate; insert into t values({who}, \
                         (select count(*) from t where who={who}), zeroblob({})); commit;\n",
                        n * 37 % 3000
                    )
                };
                std::iter::once(
                    "pragma wal_autocheckpoint=20; pragma synchronous=normal;".to_owned(),
                )
                .chain((0..ROWS).map(row))
                .collect()
            };
            std::thread::scope(|scope| {
                for who in 0..4 {
                    let vfs = if who % 2 == 0 { Vfs::Dio } else { Vfs::Default };
                    let (text, path) = (rows(who), &path);
                    scope.spawn(move || sql(library, vfs, path, &text));
                }
            });
            let check = "select count(*), count(distinct n), sum(n) from t group by who;
                         pragma integrity_check;";
            let wanted = format!("{ROWS}|{ROWS}|{}\n", ROWS * (ROWS - 1) / 2).repeat(4) + "ok";
            for vfs in [Vfs::Dio, Vfs::Default] {
                assert_eq!(sql(library, vfs, &path, check), wanted, "{} {journal}", fs.name);
            }
        }
    }
}

/// A program that inserts one row after the other, and tells each that was acknowledged.
fn inserting(library: &Library, path: &Path) -> Child {
    let mut child = shell(library, Vfs::Dio, path).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    std::thread::spawn(move || {
        let _ = writeln!(input, "pragma wal_autocheckpoint=7; pragma cache_size=10;");
        // Each row also changes others, so that one commit writes many pages.
        for _ in 0..100_000 {
            let row = "begin immediate; insert into t(b) values(randomblob(2000)); update t set \
                       b=randomblob(1500) where a % 9 = 0; select max(a) from t; commit; select 'ok';";
            if writeln!(input, "{row}").is_err() {
                break;
            }
        }
    });
    child
}

/// Reads what an inserting program tells until it is killed, after some rows. Returns the last row
/// that was acknowledged.
fn killed_after(mut child: Child, rows: u64, delay: Duration) -> u64 {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (mut row, mut acknowledged, mut first) = (0, 0, None);
    while let Some(Ok(line)) = lines.next() {
        match line.parse::<u64>() {
            Ok(number) => row = number,
            Err(_) if line == "ok" => acknowledged = row,
            Err(_) => {}
        }
        let begun = *first.get_or_insert(row);
        if acknowledged >= begun + rows {
            std::thread::sleep(delay);
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    acknowledged
}

#[test]
fn no_acknowledged_row_is_lost_by_kill_9() {
    let Some(library) = library() else { return };
    let seed = Seed::new();
    for fs in file_systems() {
        for journal in ["delete", "wal"] {
            let (dir, mut rng) = (fs.dir(), seed.stream(0));
            let path = dir.path().join("database");
            let create =
                format!("pragma journal_mode={journal}; create table t(a integer primary key, b);");
            sql(library, Vfs::Dio, &path, &create);
            for round in 0..4 {
                let (rows, delay) = (rng.range(1..8), Duration::from_micros(rng.range(0..3000)));
                let last = killed_after(inserting(library, &path), rows, delay);
                let vfs = if round % 2 == 0 { Vfs::Default } else { Vfs::Dio };
                let check = format!(
                    "pragma integrity_check; select count(*) from t where a <= {last}; \
                     select count(*) - max(a) from t;"
                );
                let found = sql(library, vfs, &path, &check);
                assert_eq!(found, format!("ok\n{last}\n0"), "{} {journal}", fs.name);
            }
        }
    }
}

/// Runs statements by this VFS in a small file system of its own, after the commands `before` have
/// prepared the database `database` in it. Returns what the shell wrote to its two outputs.
fn in_small_file_system(
    library: &Library,
    (kind, size): (&str, &str),
    before: &str,
    statements: &str,
) -> (String, String) {
    let host = TestFs { name: "host".into(), path: "/var/tmp".into() };
    let dir = host.dir();
    let (image, place) = (dir.path().join("image"), dir.path().join("mounted"));
    std::fs::create_dir(&place).unwrap();
    run(Command::new("truncate").args(["-s", size]).arg(&image));
    run(Command::new(format!("mkfs.{kind}")).arg("-q").arg(&image));
    let inside = shell(library, Vfs::Dio, &place.join("database"));
    // The mount is gone with the namespace of this one shell.
    let script = format!(
        "mount -o loop {} {} && cd {} && {before} && \"$@\"",
        image.display(),
        place.display(),
        place.display()
    );
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--propagation", "private", "sh", "-e", "-c", &script, "sh"]);
    unshare.arg(inside.get_program()).args(inside.get_args());
    unshare.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = unshare.spawn().unwrap();
    child.stdin.take().unwrap().write_all(statements.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

/// Statements that fill a small file system, and then go on in the same connection.
const FULL: &str = "
.bail off
    pragma cache_size=50;
    with recursive c(x) as (select 1 union all select x+1 from c where x<100000)
        insert into t select null, randomblob(3000) from c;
    select 'then', count(*) from t;
.shell rm filler
    insert into t values(null, 'more');
    pragma integrity_check;
    select 'last', count(*) from t;
";

#[test]
fn a_full_disk_costs_the_statement_and_nothing_else() {
    let Some(library) = library() else { return };
    if !is_root() {
        return dio_test::skip!("not root: no small file system can be mounted");
    }
    for (kind, size) in [("ext4", "24M"), ("xfs", "320M")] {
        for journal in ["delete", "wal"] {
            let before = format!(
                "sqlite3 database 'pragma journal_mode={journal}; \
                 create table t(a integer primary key, b); insert into t values(1, 2)' && \
                 fallocate -l 8M filler"
            );
            let (text, errors) = in_small_file_system(library, (kind, size), &before, FULL);
            assert!(errors.contains("disk is full"), "{kind} {journal}: {text}{errors}");
            assert!(text.ends_with("then|1\nok\nlast|2\n"), "{kind} {journal}: {text}{errors}");
        }
    }
}

/// A database whose rows are zeros, and then holes.
const HOLES: &str = "sqlite3 database 'pragma journal_mode=wal; pragma secure_delete=on; \
    create table t(a integer primary key, b); create table u(x); \
    with recursive c(x) as (select 1 union all select x+1 from c where x<2000) \
    insert into t select x, zeroblob(3900) from c; pragma wal_checkpoint(truncate)' && \
    fallocate -d database && sync";

/// A checkpoint of some frames only, since another connection reads an older snapshot, on a disk
/// that is full. SQLite neither truncates nor syncs the file after it.
const PARTIAL: &str = "
.bail off
    pragma wal_autocheckpoint=0;
    begin; update t set b = replace(printf('%3900d', 1), ' ', 'x') where a <= 200; commit;
.connection 1
.open database
    begin; select count(*) from t;
.connection 0
    insert into u values(1);
.shell dd if=/dev/zero of=filler bs=1M 2>dd.out; dd if=/dev/zero of=rest bs=4k 2>dd.out; sync
    pragma wal_checkpoint(passive);
.shell sqlite3 database 'select 1, count(*) from t where unicode(b)=120'
.shell rm filler rest
.connection 1
    commit;
.connection close 0
    pragma wal_checkpoint(truncate);
.shell sqlite3 database 'select 2, count(*) from t where unicode(b)=120; pragma integrity_check'
";

#[test]
fn a_checkpoint_that_cannot_write_fails_even_if_it_is_partial() {
    let Some(library) = library() else { return };
    if !is_root() {
        return dio_test::skip!("not root: no small file system can be mounted");
    }
    let (text, errors) = in_small_file_system(library, ("ext4", "45M"), HOLES, PARTIAL);
    assert!(errors.contains("disk is full"), "the write was reported: {text}{errors}");
    assert!(text.contains("1|200\n"), "while the disk is full: {text}{errors}");
    assert!(text.ends_with("2|200\nok\n"), "afterwards: {text}{errors}");
}

/// Checkpoints of some frames only, beside a reader of an older snapshot, with pages that have
/// later frames, and with a database that shrinks: they write what the default VFS writes.
#[test]
fn partial_checkpoints_write_what_those_of_the_default_vfs_do() {
    let Some(library) = library() else { return };
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let answers = [Vfs::Dio, Vfs::Default].map(|vfs| {
        let path = dir.path().join(format!("{vfs:?}"));
        let database = path.display();
        let look = "select count(*), sum(a * unicode(b)), sum(length(b)) from t;";
        let script = format!(
            "pragma journal_mode=wal; pragma wal_autocheckpoint=0;
             create table t(a integer primary key, b text);
             with recursive c(x) as (select 1 union all select x+1 from c where x<3000)
                 insert into t select x, printf('a%3900d', x) from c;
             pragma wal_checkpoint(truncate);
             update t set b = 'b' || substr(b, 2) where a % 3 = 0;
.connection 1
.open {database}
             begin; {look}
.connection 0
             update t set b = 'c' || substr(b, 2) where a % 5 = 0 or a > 2900;
             pragma wal_checkpoint(passive);
.shell sqlite3 {database} '{look}'
.connection 1
             {look} commit; begin; {look}
.connection 0
             delete from t where a > 1000; vacuum;
             pragma wal_checkpoint(passive);
             {look}
.connection 1
             {look} commit;
.connection 0
             pragma wal_checkpoint(passive); {look} pragma integrity_check;
"
        );
        let text = sql(library, vfs, &path, &script);
        let plain = sql(library, Vfs::Default, &path, &format!("{look} pragma integrity_check;"));
        (text, plain)
    });
    assert_eq!(answers[0], answers[1]);
    assert!(answers[0].1.ends_with("\nok"), "{answers:?}");
    // The first partial checkpoint has left frames in the log.
    let lines = answers[0].0.lines().filter(|line| line.starts_with("0|"));
    let numbers: Vec<&str> = lines.collect();
    assert!(numbers.iter().any(|line| {
        let mut counts = line.split('|').skip(1);
        counts.next() != counts.next()
    }));
}

#[test]
fn a_striped_database_is_a_database() {
    let Some(library) = library() else { return };
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = dir.path().join("database");
    let targets = ["one", "two"].map(|name| dir.path().join(name));
    targets.iter().for_each(|target| std::fs::create_dir(target).unwrap());
    let plan = dio::stripe::StripePlan { targets: targets.into(), ..Default::default() };
    dio::stripe::create(&path, &plan).unwrap();
    let text = sql(library, Vfs::Dio, &path, &workload("delete", 4096));
    assert!(text.ends_with("\nok"), "{text}");
    let again =
        sql(library, Vfs::Dio, &path, "select count(*) > 0 from t; pragma integrity_check;");
    assert_eq!(again, "1\nok");
}

/// Without locks SQLite alone decides what it reads again.
#[test]
fn without_locks_nothing_stale_is_read() {
    let Some(library) = library() else { return };
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = dir.path().join("shared");
    let text = format!(
        "attach 'file:{0}?vfs=dio&nolock=1' as one; attach 'file:{0}?vfs=dio&nolock=1' as two;
         pragma two.cache_size=10;
         create table one.t(a integer primary key, b text);
         with recursive c(x) as (select 1 union all select x+1 from c where x<4000)
             insert into one.t select x, 'old' || hex(zeroblob(450)) from c;
         select count(*) from two.t where a < 600 and b like 'old%';
         update one.t set b = 'new' || substr(b, 4);
         {1} select count(*) from two.t where b like 'old%'; pragma two.integrity_check;",
        path.display(),
        (602..700)
            .step_by(12)
            .map(|row| format!("select substr(b, 1, 3) from two.t where a={row};"))
            .collect::<String>()
    );
    let found = sql(library, Vfs::Dio, &dir.path().join("main"), &text);
    assert_eq!(found, format!("599\n{}0\nok", "new\n".repeat(9)));
}

#[test]
fn without_syncs_nothing_is_gathered_and_the_result_is_the_same() {
    let Some(library) = library() else { return };
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    for journal in ["off", "memory", "wal"] {
        let path = dir.path().join(journal);
        let text = format!("pragma synchronous=off; {}", workload(journal, 4096));
        let found =
            sql(library, Vfs::Dio, &path, &text.replace("begin; delete from t; rollback;", ""));
        assert!(found.ends_with("\nok"), "{journal}: {found}");
        assert!(sql(library, Vfs::Default, &path, "pragma integrity_check;") == "ok", "{journal}");
    }
}
