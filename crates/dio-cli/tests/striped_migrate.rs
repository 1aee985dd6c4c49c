//! Proves that files are migrated under their name, by one at a time, and that nothing is lost.

use crate::striped_support::{Pair, dio, good, lines};
use dio_test::file_systems;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn files_are_migrated_under_their_name() {
    let pair = Pair::on(&file_systems()[0], &lines(1_000_000));
    let dir = &pair.dir;
    let objects = || ["a", "b", "c"].map(|name| fs::read_dir(dir.join(name)).unwrap().count());
    let whole = fs::read(dir.join("contents")).unwrap();
    let shown = || {
        let shown = good(dir, &["stripe", "show", "--json", "striped/file"]).stdout;
        let shown: Value = serde_json::from_str(&shown).unwrap();
        (shown[0]["stripe_bytes"].as_u64().unwrap(), shown[0]["stripe_count"].as_u64().unwrap())
    };
    let modified = |name: &str| fs::metadata(dir.join(name)).unwrap().modified().unwrap();
    let before = modified("striped/file");
    good(dir, &["stripe", "migrate", "-S", "8K", "-c", "4", "-t", "b,c", "striped/file"]);
    assert_eq!((shown(), objects()), ((8192, 4), [0, 2, 2]));
    assert_eq!(modified("striped/file"), before);
    pair.same("md5sum file");

    // The remains of an interrupted migration are removed.
    good(dir, &["stripe", "set", "-t", "a,b", "striped/.file.dio-migrate"]);
    good(dir, &["cp", "contents", "striped/.file.dio-migrate"]);
    good(dir, &["stripe", "migrate", "-t", "a", "striped/file"]);
    assert_eq!((shown(), objects()), ((1 << 20, 1), [1, 0, 0]));
    pair.same("md5sum file");

    // A plain file becomes striped, and keeps its permissions.
    good(dir, &["stripe", "migrate", "-S", "4K", "-t", "a,b", "plain/file"]);
    good(dir, &["cp", "plain/file", "back"]);
    assert!(fs::read(dir.join("back")).unwrap() == whole);
    assert_eq!(fs::read_dir(dir.join("plain")).unwrap().count(), 1);
    good(dir, &["stripe", "rm", "plain/file"]);

    // No program may write during a migration. A failure leaves everything as it was.
    let writer = dio::OpenOptions::new().write(true).open(dir.join("striped/file")).unwrap();
    let refused = dio(dir, &["stripe", "migrate", "-t", "b", "striped/file"]);
    assert!(
        refused.status.code() == Some(1) && refused.stderr.contains("open for writing"),
        "{refused:?}"
    );
    drop(writer);
    fs::hard_link(dir.join("striped/file"), dir.join("striped/link")).unwrap();
    let refused = dio(dir, &["stripe", "migrate", "-t", "b", "striped/file"]);
    assert!(
        refused.status.code() == Some(1) && refused.stderr.contains("other names"),
        "{refused:?}"
    );
    fs::remove_file(dir.join("striped/link")).unwrap();
    let refused = dio(dir, &["stripe", "migrate", "-t", "nowhere", "striped/file"]);
    assert_eq!(refused.status.code(), Some(1));
    assert_eq!((objects(), fs::read_dir(dir.join("striped")).unwrap().count()), ([1, 0, 0], 1));
    let held = dio::stripe::inspect(dir.join("striped/file")).unwrap().unwrap().descriptor;
    let alone =
        dio_stripe::exclude_writers(Path::new("file"), &held, rustix::process::getuid().as_raw())
            .unwrap();
    let error = dio::OpenOptions::new().write(true).open(dir.join("striped/file")).unwrap_err();
    assert!(error.to_string().contains("being migrated"), "{error}");
    drop(alone);
    good(dir, &["cp", "striped/file", "back"]);
    assert!(fs::read(dir.join("back")).unwrap() == whole);
}

/// A file that another program has open for writing is not moved, even if that program does
/// nothing. A copy of a descriptor is not moved either.
#[test]
fn a_file_that_somebody_may_write_to_is_not_migrated() {
    let pair = Pair::on(&file_systems()[0], &lines(100_000));
    let dir = &pair.dir;
    fs::create_dir(dir.join("other")).unwrap();
    fs::copy(dir.join("contents"), dir.join("other/file")).unwrap();
    let writer = fs::OpenOptions::new().append(true).open(dir.join("other/file")).unwrap();
    let refused = dio(dir, &["stripe", "migrate", "-t", "a", "other/file"]);
    assert!(
        refused.status.code() == Some(1) && refused.stderr.contains("open for writing"),
        "{refused:?}"
    );
    drop(writer);
    let reader = fs::File::open(dir.join("other/file")).unwrap();
    good(dir, &["stripe", "migrate", "-t", "a", "other/file"]);
    drop(reader);
    assert_eq!(fs::read_dir(dir.join("other")).unwrap().count(), 1);

    fs::copy(dir.join("striped/file"), dir.join("copy")).unwrap();
    for refused in [&["stripe", "migrate", "-t", "a", "copy"][..], &["cp", "contents", "copy"]] {
        let output = dio(dir, refused);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
    }
    let checked = good(dir, &["stripe", "check", "copy"]).stdout;
    assert!(checked.contains("copy of a descriptor"), "{checked}");
    let removed = good(dir, &["stripe", "rm", "copy"]);
    assert!(removed.stderr.contains("was a copy"), "{removed:?}");
    pair.same("md5sum file");
    fs::copy(dir.join("striped/file"), dir.join("copy")).unwrap();
    fs::remove_file(dir.join("striped/file")).unwrap();
    good(dir, &["stripe", "adopt", "copy"]);
    fs::rename(dir.join("copy"), dir.join("striped/file")).unwrap();
    pair.same("dd if=../contents of=file bs=64K status=none");
}

/// A migration that is killed at any moment leaves the whole file under its name.
#[test]
fn a_killed_migration_loses_nothing() {
    let pair = Pair::on(&file_systems()[0], &lines(20_000_000));
    let dir = &pair.dir;
    let whole = fs::read(dir.join("contents")).unwrap();
    for round in 0..8u64 {
        let (stripe, target) = if round % 2 == 0 { ("4K", "a,b") } else { ("64K", "c") };
        let mut command = Command::new(env!("CARGO_BIN_EXE_dio"));
        command
            .args(["stripe", "migrate", "-S", stripe, "-t", target, "striped/file"])
            .current_dir(dir);
        let mut running = command.spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(7 * round * round));
        running.kill().unwrap();
        running.wait().unwrap();
        good(dir, &["cp", "striped/file", "back"]);
        assert!(fs::read(dir.join("back")).unwrap() == whole, "round {round}");
    }
    good(dir, &["stripe", "migrate", "-t", "b", "striped/file"]);
    good(dir, &["cp", "striped/file", "back"]);
    assert!(fs::read(dir.join("back")).unwrap() == whole);
}

/// Several migrations of one plain or striped file run at the same time: at least one succeeds, and
/// the bytes are there.
#[test]
fn of_several_who_migrate_a_file_one_does() {
    let pair = Pair::on(&file_systems()[0], &lines(3_000_000));
    let dir = &pair.dir;
    let whole = fs::read(dir.join("contents")).unwrap();
    fs::create_dir(dir.join("other")).unwrap();
    for round in 0..10 {
        if round % 2 == 0 {
            good(dir, &["cp", "contents", "other/file"]);
        }
        let migrate = |target: &str| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_dio"));
            command
                .args(["stripe", "migrate", "-S", "4K", "-t", target, "other/file"])
                .current_dir(dir);
            command.stderr(std::process::Stdio::piped()).spawn().unwrap()
        };
        let running = ["a", "b", "a,b"].map(migrate);
        let ended = running.map(|child| child.wait_with_output().unwrap());
        assert!(ended.iter().any(|one| one.status.success()), "round {round}: {ended:?}");
        for one in ended.iter().filter(|one| !one.status.success()) {
            let said = String::from_utf8_lossy(&one.stderr);
            assert!(
                said.contains("somebody else") || said.contains("open for writing"),
                "round {round}: {said}"
            );
        }
        good(dir, &["cp", "other/file", "back"]);
        assert!(fs::read(dir.join("back")).unwrap() == whole, "round {round}");
        assert_eq!(
            fs::read_dir(dir.join("other")).unwrap().count(),
            1,
            "round {round}: something is left"
        );
        if round % 2 == 1 {
            good(dir, &["stripe", "rm", "other/file"]);
            assert_eq!(
                ["a", "b", "c"].map(|name| fs::read_dir(dir.join(name)).unwrap().count()),
                [1; 3]
            );
        }
    }
}
