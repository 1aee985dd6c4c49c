//! Common programs: git checks every object that it wrote; sqlite3 checks its write-ahead log and
//! its shared mappings under competing writers.

use std::fmt::Write;
use std::path::Path;
use std::process::{Child, Command};

use crate::judge_support::{each_mode, fed, shell, succeeds};
use dio_test::judge_fully;

/// A history for `git fast-import`: files in nested directories. Each commit changes some files and
/// adds some.
fn history(commits: u32) -> String {
    let mut text = String::new();
    for commit in 1..=commits {
        let message = format!("commit {commit}");
        writeln!(text, "commit refs/heads/master\nmark :{commit}").unwrap();
        writeln!(text, "committer A U Thor <a@example.org> {} +0000", 1_700_000_000 + commit)
            .unwrap();
        writeln!(text, "data {}\n{message}", message.len()).unwrap();
        for file in 0..8 {
            let number = (commit * 7 + file * 13) % (commits * 3);
            let content = format!("{commit} {file}\n").repeat((number % 400 + 1) as usize);
            writeln!(
                text,
                "M 100644 inline d{}/e{}/f{number}\ndata {}\n{content}",
                number % 9,
                number % 5,
                content.len()
            )
            .unwrap();
        }
    }
    text
}

#[test]
fn git_finds_its_objects_sound() {
    let commits = if judge_fully() { 2000 } else { 120 };
    each_mode(|stage| {
        let origin = stage.beside("origin");
        succeeds(
            Command::new("git").args(["init", "-q", "--bare", "-b", "master"]).arg(&origin),
            &stage.name,
        );
        let import = fed(
            Command::new("git").args(["fast-import", "--quiet"]).current_dir(&origin),
            &history(commits),
        );
        finish(import, &stage.name);
        let script = "
            git clone -q --no-local ../origin clone && cd clone
            git fsck --full --strict
            test -z \"$(git status --porcelain)\"
            git config user.name A && git config user.email a@example.org
            for i in 1 2 3; do
                for d in d*; do echo $i >> $d/e0/new; done
                git add -A && git commit -q -m $i
            done
            git repack -q -a -d && git gc -q --prune=now && git fsck --full --strict
            git checkout -q HEAD~2 && git checkout -q master && git stash list
            test -z \"$(git status --porcelain)\"";
        let directory = stage.mounted.path().to_owned();
        let script = script.replace("../origin", origin.to_str().unwrap());
        shell(&directory, &script, &stage.name);
        let below = stage.unmount();
        shell(
            &below.source.join("clone"),
            "git fsck --full --strict; test -z \"$(git status --porcelain)\"",
            &below.name,
        );
    });
}

/// Number of concurrent writers; the transactions of each.
const WRITERS: u32 = 5;

fn sqlite(database: &Path, text: &str) -> Child {
    fed(Command::new("sqlite3").args(["-batch", "-bail"]).arg(database), text)
}

#[track_caller]
fn finish(child: Child, name: &str) -> String {
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{name}: {}: {said}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn sqlite_keeps_every_transaction_of_writers_that_compete() {
    let transactions = if judge_fully() { 2000 } else { 60 };
    each_mode(|stage| {
        let database = stage.at("base");
        let pragmas = "PRAGMA mmap_size=268435456; PRAGMA wal_autocheckpoint=20; PRAGMA \
                       busy_timeout=60000;\n";
        let create = "PRAGMA journal_mode=WAL; CREATE TABLE t (writer INT, number INT, body BLOB);
                      CREATE UNIQUE INDEX i ON t (writer, number);";
        finish(sqlite(&database, create), &stage.name);
        let writer = |writer| {
            let mut text = pragmas.to_owned();
            for number in 0..transactions {
                writeln!(
                    text,
                    "BEGIN IMMEDIATE; INSERT INTO t VALUES ({writer}, {number}, randomblob(3000));"
                )
                .unwrap();
                writeln!(
                    text,
                    "UPDATE t SET body = randomblob(5000) WHERE number = {}; COMMIT;",
                    number / 2
                )
                .unwrap();
            }
            text
        };
        let mut writers: Vec<Child> =
            (0..WRITERS).map(|number| sqlite(&database, &writer(number))).collect();
        let reader = format!(
            "{pragmas}{}",
            "SELECT 'rows', count(*) FROM t; PRAGMA quick_check;\n".repeat(3)
        );
        let mut counts: Vec<u32> = Vec::new();
        while writers.iter_mut().any(|writer| writer.try_wait().unwrap().is_none()) {
            let seen = finish(sqlite(&database, &reader), &stage.name);
            assert_eq!(
                seen.lines().filter(|line| *line == "ok").count(),
                3,
                "{}: {seen}",
                stage.name
            );
            counts.extend(
                seen.lines()
                    .filter_map(|line| line.strip_prefix("rows|"))
                    .map(|rows| rows.parse::<u32>().unwrap()),
            );
        }
        writers.into_iter().for_each(|writer| drop(finish(writer, &stage.name)));
        assert!(
            counts.is_sorted(),
            "{}: a reader saw transactions disappear: {counts:?}",
            stage.name
        );
        let check = "PRAGMA integrity_check; SELECT count(*) FROM t;";
        let expected = format!("ok\n{}\n", WRITERS * transactions);
        assert_eq!(finish(sqlite(&database, check), &stage.name), expected, "{}", stage.name);
        let below = stage.unmount();
        assert_eq!(
            finish(sqlite(&below.source.join("base"), check), &below.name),
            expected,
            "{}",
            below.name
        );
    });
}
