//! The receipt, the modes, and the pages left in the page cache, checked from outside the process.

use std::path::Path;

use crate::own::{
    MIB, TestFs, bad, cold, file_systems, good, in_memory, is_direct, json, line, names, number,
    receipt,
};
use crate::own::{resident_pages, run, same_bytes, source, warm};
use dio_test::undisturbed;
use serde_json::Value;

/// Pages may stay only on file systems in memory, where the page cache is the storage.
#[track_caller]
fn nothing_resident(fs: &TestFs, path: &Path, what: &str) {
    if !in_memory(fs) {
        assert_eq!(
            resident_pages(path),
            0,
            "{}: {what}: {} has pages in the cache",
            fs.name,
            path.display()
        );
    }
}

/// Sizes around every boundary.
const SIZES: [u64; 14] =
    [0, 1, 41, 511, 512, 513, 4095, 4096, 4097, 65_535, 65_536, 65_537, MIB - 1, MIB + 1];

#[test]
fn the_schema_is_the_documented_one() {
    const KEYS: [&str; 13] = [
        "command",
        "version",
        "wall_seconds",
        "cpu_seconds",
        "durable",
        "engine",
        "bytes_read",
        "bytes_written",
        "read",
        "write",
        "requests",
        "peak_buffer_bytes",
        "files",
    ];
    const CLASSES: [&str; 7] =
        ["direct", "bounced", "uncached", "cached", "piped", "reflinked", "holes"];
    fn keys(value: &Value) -> Vec<&str> {
        value.as_object().expect("an object").keys().map(String::as_str).collect()
    }
    #[track_caller]
    fn has(value: &Value, wanted: &[&str]) {
        let (mut found, mut wanted) = (keys(value), wanted.to_vec());
        found.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(found, wanted);
    }
    for fs in file_systems() {
        let dir = fs.dir();
        let from = source(dir.path(), "from", 3 * MIB + 17);
        let receipt = receipt("--reflink=never", &[&from, &dir.path().join("to")]);
        has(&receipt, &KEYS);
        assert_eq!(
            (&receipt["command"], &receipt["version"]),
            (&"cp".into(), &env!("CARGO_PKG_VERSION").into())
        );
        assert!(
            receipt["wall_seconds"].as_f64().unwrap() > 0.0
                && receipt["cpu_seconds"].as_f64().unwrap() > 0.0
        );
        assert_eq!(receipt["durable"], true);
        assert!(
            ["uring", "blocking"].contains(&receipt["engine"].as_str().unwrap()),
            "{receipt:#}"
        );
        for (side, total) in [("read", "bytes_read"), ("write", "bytes_written")] {
            has(&receipt[side], &CLASSES);
            let moved: u64 = CLASSES[..5].iter().map(|class| number(&receipt[side], class)).sum();
            assert_eq!(moved, number(&receipt, total), "{}: {side} of {receipt:#}", fs.name);
            assert_eq!(moved, 3 * MIB + 17, "{}: {side} of {receipt:#}", fs.name);
        }
        has(&receipt["requests"], &["read", "write", "sync"]);
        for kind in ["read", "write", "sync"] {
            assert!(number(&receipt["requests"], kind) > 0, "{}: {receipt:#}", fs.name);
        }
        let peak = number(&receipt, "peak_buffer_bytes");
        assert!((MIB..=64 * MIB).contains(&peak), "{peak}");
        let files = receipt["files"].as_array().unwrap();
        assert_eq!(files.len(), 2, "{receipt:#}");
        for file in files {
            has(file, &["path", "role", "mode", "reason", "pages_before", "pages_after"]);
            assert!(file["reason"].is_null() || file["reason"].is_string());
        }
        let before = number(line(&receipt, "source", "from"), "pages_before");
        assert!(before == 0 || in_memory(&fs), "{}: {receipt:#}", fs.name);
    }
}

#[test]
fn a_large_file_goes_direct_where_that_is_possible_and_the_reason_is_told_elsewhere() {
    for fs in file_systems() {
        let dir = fs.dir();
        let (from, to) = (source(dir.path(), "from", 8 * MIB + 513), dir.path().join("to"));
        let receipt = receipt("--reflink=never", &[&from, &to]);
        let (source, target) = (line(&receipt, "source", "from"), line(&receipt, "target", "to"));
        if is_direct(&fs) {
            assert_eq!(
                (&source["mode"], &source["reason"]),
                (&"direct".into(), &Value::Null),
                "{}",
                fs.name
            );
            assert_eq!(
                (&target["mode"], &target["reason"]),
                (&"direct".into(), &Value::Null),
                "{}",
                fs.name
            );
            assert!(number(&receipt, "read.direct") >= 8 * MIB, "{receipt:#}");
            assert!(number(&receipt, "write.direct") >= 8 * MIB, "{receipt:#}");
        }
        if ["tmpfs", "ext4-journal", "btrfs"].contains(&fs.name.as_str()) {
            assert_eq!(target["mode"], "uncached", "{}: {receipt:#}", fs.name);
            assert!(
                target["reason"].as_str().is_some_and(|reason| !reason.is_empty()),
                "{}: {receipt:#}",
                fs.name
            );
            assert_eq!(number(&receipt, "write.direct"), 0, "{}: {receipt:#}", fs.name);
        }
        for (path, line) in [(&from, source), (&to, target)] {
            assert_eq!(
                number(line, "pages_after"),
                resident_pages(path),
                "{}: {receipt:#}",
                fs.name
            );
            nothing_resident(&fs, path, "a large file");
        }
        same_bytes(&from, &to);
    }
}

#[test]
fn clones_and_holes_are_counted_as_what_they_are() {
    for fs in file_systems() {
        let dir = fs.dir();
        let (from, to) = (source(dir.path(), "from", 2 * MIB), dir.path().join("to"));
        if ["xfs", "btrfs"].contains(&fs.name.as_str()) {
            let cloned = receipt("", &[&from, &to]);
            assert_eq!(number(&cloned, "read.reflinked"), 2 * MIB, "{cloned:#}");
            assert_eq!(number(&cloned, "write.reflinked"), 2 * MIB, "{cloned:#}");
            assert_eq!(
                number(&cloned, "bytes_read") + number(&cloned, "bytes_written"),
                0,
                "{cloned:#}"
            );
            assert_eq!(line(&cloned, "target", "to")["mode"], "reflinked");
            std::fs::remove_file(&to).unwrap();
        }
        let copied = receipt("--reflink=never", &[&from, &to]);
        assert_eq!(
            number(&copied, "read.reflinked") + number(&copied, "write.reflinked"),
            0,
            "{copied:#}"
        );
        assert_eq!(number(&copied, "bytes_written"), 2 * MIB);
        let file = std::fs::File::options().write(true).open(&from).unwrap();
        file.set_len(10 * MIB).unwrap();
        file.sync_all().unwrap();
        let sparse = receipt("--reflink=never", &[&from, &to]);
        assert_eq!(number(&sparse, "read.holes"), 8 * MIB, "{}: {sparse:#}", fs.name);
        assert_eq!(number(&sparse, "write.holes"), 8 * MIB, "{}: {sparse:#}", fs.name);
        assert_eq!(number(&sparse, "bytes_read"), 2 * MIB, "{}: {sparse:#}", fs.name);
    }
}

#[test]
fn the_receipt_of_a_tree_tells_the_pages_that_are_there_at_the_end() {
    for fs in file_systems() {
        let dir = fs.dir();
        let tree = dir.path().join("tree");
        std::fs::create_dir(&tree).unwrap();
        for (number, size) in SIZES.iter().enumerate() {
            source(&tree, &format!("f{number}"), *size);
        }
        let to = dir.path().join("to");
        let receipt = receipt("-r --reflink=never", &[&tree, &to]);
        assert_eq!(receipt["files"].as_array().unwrap().len(), 2 * SIZES.len(), "{}", fs.name);
        for (number_of, size) in SIZES.iter().enumerate() {
            let name = format!("f{number_of}");
            for (role, path) in [("source", tree.join(&name)), ("target", to.join(&name))] {
                let line = line(&receipt, role, &name);
                assert_eq!(
                    number(line, "pages_after"),
                    resident_pages(&path),
                    "{}: {line:#}",
                    fs.name
                );
                nothing_resident(&fs, &path, &format!("{role} of {size} bytes"));
            }
            same_bytes(tree.join(&name), to.join(&name));
        }
    }
}

#[test]
fn buffers_are_bounded_however_many_files_and_whatever_the_block() {
    let dir = file_systems()[0].dir();
    let tree = dir.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    for name in ["a", "b", "c", "d", "e", "f"] {
        // Directories are distributed among the workers.
        std::fs::create_dir(tree.join(name)).unwrap();
        source(&tree.join(name), "file", 6 * MIB);
    }
    for (number_of, flags) in
        ["", "--depth 4096", "--block 3M", "--block 16M --depth 64"].iter().enumerate()
    {
        let to = dir.path().join(format!("to{number_of}"));
        let receipt = receipt(&format!("-r --reflink=never {flags}"), &[&tree, &to]);
        let peak = number(&receipt, "peak_buffer_bytes");
        assert!((MIB..=64 * MIB).contains(&peak), "{flags}: {peak} bytes");
        same_bytes(tree.join("c/file"), to.join("c/file"));
    }
    bad("--block 1G", &[&tree.join("a/file"), &dir.path().join("no")], "--block");
    assert!(!dir.path().join("no").exists());
}

#[test]
fn a_receipt_goes_to_a_file_and_is_written_when_something_failed() {
    let dir = file_systems()[0].dir();
    let (from, to, account) =
        (source(dir.path(), "from", MIB), dir.path().join("to"), dir.path().join("account"));
    let output = good(&format!("--receipt {}", account.display()), &[&from, &to]);
    assert_eq!(output.stdout, "");
    assert_eq!(json(&std::fs::read_to_string(&account).unwrap())["durable"], true);
    let into = dir.path().join("into");
    std::fs::create_dir(&into).unwrap();
    let output = run("--receipt -", &[&from, &dir.path().join("missing"), &into]);
    assert_eq!(output.status.code(), Some(1));
    let receipt = json(&output.stdout);
    assert_eq!(receipt["durable"], false, "{receipt:#}");
    assert_eq!(number(&receipt, "bytes_written"), MIB);
    bad("--receipt /nowhere/at/all", &[&from, &to], "cannot write the receipt '/nowhere/at/all'");
    let unsynced = crate::own::receipt("--no-sync", &[&from, &to]);
    assert_eq!(unsynced["durable"], false);
    assert_eq!(number(&unsynced, "requests.sync"), 0);
}

#[test]
fn every_size_is_right_in_every_mode_and_leaves_nothing_behind() {
    for fs in file_systems() {
        let dir = fs.dir();
        for mode in ["auto", "direct", "uncached", "cached"] {
            for size in SIZES {
                let (from, to) = (source(dir.path(), "from", size), dir.path().join("to"));
                let flags = format!("--reflink=never --mode {mode}");
                good(&flags, &[&from, &to]);
                if mode != "cached" {
                    nothing_resident(&fs, &from, &format!("source of {size} bytes, {flags}"));
                    nothing_resident(&fs, &to, &format!("target of {size} bytes, {flags}"));
                }
                same_bytes(&from, &to);
                // Over a longer file.
                crate::own::random_file(&to, size + 10_000, 3);
                good(&flags, &[&from, &to]);
                same_bytes(&from, &to);
                std::fs::remove_file(&to).unwrap();
            }
        }
    }
}

#[test]
fn blocks_and_depths_of_any_size_copy_the_same_bytes() {
    for fs in file_systems() {
        let dir = fs.dir();
        let (from, to) = (source(dir.path(), "from", 7 * MIB + 4095), dir.path().join("to"));
        for flags in [
            "--block 1",
            "--block 513",
            "--block 5000 --depth 3",
            "--block 3M",
            "--depth 1",
            "--block 7M --depth 2",
        ] {
            good(&format!("--reflink=never {flags} --verify"), &[&from, &to]);
            nothing_resident(&fs, &to, flags);
            same_bytes(&from, &to);
        }
    }
}

/// Returns an error unless `pages` pages of the file are still resident.
fn same_pages(path: &Path, pages: u64, what: &str) -> Result<(), String> {
    match resident_pages(path) {
        now if now == pages => Ok(()),
        now => Err(format!("{what}: {now} pages of {pages}")),
    }
}

#[test]
fn pages_that_were_resident_stay_and_so_do_those_of_other_files() {
    for fs in file_systems() {
        let dir = fs.dir();
        let [from, to, other] = ["from", "to", "other"].map(|name| dir.path().join(name));
        source(dir.path(), "other", MIB);
        for size in [41, 60_000, 4 * MIB + 5] {
            for mode in ["auto", "direct", "uncached"] {
                undisturbed(|| {
                    let of_other = warm(&other);
                    source(dir.path(), "from", size);
                    let pages = warm(&from);
                    good(&format!("--reflink=never --mode {mode}"), &[&from, &to]);
                    nothing_resident(&fs, &to, &format!("target of {size} bytes, --mode {mode}"));
                    same_pages(
                        &from,
                        pages,
                        &format!("{}: source of {size} bytes, --mode {mode}", fs.name),
                    )?;
                    same_pages(&other, of_other, &format!("{}: a third file", fs.name))
                });
            }
        }
    }
}

#[test]
fn pages_that_were_resident_stay_in_a_source_of_which_the_rest_was_cold() {
    for fs in file_systems() {
        if in_memory(&fs) {
            continue;
        }
        let dir = fs.dir();
        for size in [50_000, 2 * MIB] {
            undisturbed(|| {
                let (from, to) = (source(dir.path(), "from", size), dir.path().join("to"));
                let file = std::fs::File::open(&from).unwrap();
                rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random).unwrap();
                std::os::unix::fs::FileExt::read_exact_at(&file, &mut [0; 4096], 8192).unwrap();
                let pages = resident_pages(&from);
                assert!(pages > 0 && pages < size / 4096, "{}: {pages}", fs.name);
                good("--reflink=never", &[&from, &to]);
                same_pages(&from, pages, &format!("{}: {size}", fs.name))
            });
        }
    }
}

#[test]
fn strict_refuses_to_fall_back_and_leaves_the_target_as_it_was() {
    for fs in file_systems() {
        if fs.name == "host" {
            continue;
        }
        let dir = fs.dir();
        for size in [41, 3 * MIB + 41] {
            let (from, to, new) =
                (source(dir.path(), "from", size), dir.path().join("to"), dir.path().join("new"));
            std::fs::write(&to, "old").unwrap();
            for flags in ["--strict --reflink=never", "--strict --reflink=never --atomic"] {
                if is_direct(&fs) {
                    good(flags, &[&from, &new]);
                    same_bytes(&from, &new);
                } else {
                    let output = bad(flags, &[&from, &new], "direct");
                    assert!(!new.exists(), "{} {flags} {size}: {output:?}", fs.name);
                    bad(flags, &[&from, &to], "direct");
                    assert_eq!(std::fs::read(&to).unwrap(), b"old", "{} {flags} {size}", fs.name);
                }
                let _ = std::fs::remove_file(&new);
            }
        }
        assert_eq!(names(dir.path()), ["from", "to"], "{}", fs.name);
    }
}

#[test]
fn holes_are_kept_made_or_filled() {
    use std::os::unix::fs::{FileExt, MetadataExt};
    for fs in file_systems() {
        let dir = fs.dir();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        let file = std::fs::File::create(&from).unwrap();
        file.set_len(20 * MIB + 5).unwrap();
        file.write_all_at(&[7; 4096], 5 * MIB).unwrap();
        file.write_all_at(&vec![0; 2 * MIB as usize], 8 * MIB).unwrap();
        file.write_all_at(&[9; 5], 20 * MIB).unwrap();
        cold(&from);
        let source_blocks = from.metadata().unwrap().blocks();
        for (flags, most, least) in [
            ("--sparse=auto", source_blocks + 64, 4 * 1024),
            ("--sparse=always", 512, 16),
            ("--sparse=never", u64::MAX, 40 * 1024),
        ] {
            for more in ["", "--verify", "--mode uncached", "--atomic"] {
                good(&format!("--reflink=never {flags} {more}"), &[&from, &to]);
                let blocks = to.metadata().unwrap().blocks();
                assert!(
                    (least..=most).contains(&blocks),
                    "{} {flags} {more}: {blocks} blocks",
                    fs.name
                );
                nothing_resident(&fs, &to, flags);
                same_bytes(&from, &to);
            }
        }
    }
}

#[test]
fn a_file_of_a_tebibyte_of_nothing_takes_no_time() {
    use std::os::unix::fs::{FileExt, MetadataExt};
    for fs in file_systems() {
        let dir = fs.dir();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        let file = std::fs::File::create(&from).unwrap();
        if file.set_len(1 << 40).is_err() {
            continue;
        }
        file.write_all_at(b"in the middle", 1 << 39).unwrap();
        file.sync_all().unwrap();
        let start = std::time::Instant::now();
        for flags in
            ["--reflink=never", "--reflink=never --sparse=always", "--reflink=never --verify"]
        {
            good(flags, &[&from, &to]);
            assert_eq!(to.metadata().unwrap().len(), 1 << 40);
            assert!(to.metadata().unwrap().blocks() < 1024, "{} {flags}", fs.name);
            let mut found = [0; 13];
            std::fs::File::open(&to).unwrap().read_exact_at(&mut found, 1 << 39).unwrap();
            assert_eq!(&found, b"in the middle", "{} {flags}", fs.name);
        }
        // Reading the whole file would take several minutes at least.
        assert!(start.elapsed().as_secs() < 60, "{}: {:?}", fs.name, start.elapsed());
    }
}

#[test]
fn the_pool_of_threads_copies_the_same_and_says_so() {
    for fs in file_systems() {
        let dir = fs.dir();
        let (from, to) = (source(dir.path(), "from", 5 * MIB + 77), dir.path().join("to"));
        let mut command = crate::own::cp();
        command
            .env("DIO_ENGINE", "blocking")
            .args(["-v", "--reflink=never", "--receipt", "-"])
            .args([&from, &to]);
        let output = dio_test::run(&mut command);
        assert!(output.status.success(), "{output:?}");
        let start = output.stdout.find('{').expect("the receipt is there");
        let end = output.stdout.rfind('}').expect("the receipt is there");
        assert_eq!(json(&output.stdout[start..=end])["engine"], "blocking");
        assert!(
            output.stderr.contains("dio cp: io_uring is not used: DIO_ENGINE=blocking"),
            "{output:?}"
        );
        nothing_resident(&fs, &to, "threads");
        same_bytes(&from, &to);
    }
}

#[test]
fn verbose_says_once_why_something_is_not_direct() {
    for fs in
        file_systems().iter().filter(|fs| ["tmpfs", "ext4-journal"].contains(&fs.name.as_str()))
    {
        let dir = fs.dir();
        let into = dir.path().join("into");
        std::fs::create_dir(&into).unwrap();
        let (a, b) = (source(dir.path(), "a", MIB), source(dir.path(), "b", MIB));
        let output = run("-v --reflink=never", &[&a, &b, &into]);
        assert!(output.status.success());
        let told = output.stderr.lines().filter(|line| line.contains("direct")).count();
        assert_eq!(told, 1, "{}: {output:?}", fs.name);
        let output = run("--reflink=never", &[&a, &b, &into]);
        assert_eq!(output.stderr, "", "{}", fs.name);
    }
}

#[test]
fn an_engine_that_does_not_exist_is_an_error() {
    let dir = file_systems()[0].dir();
    for size in [41, MIB] {
        let (from, to) = (source(dir.path(), "from", size), dir.path().join("to"));
        let output =
            dio_test::run(crate::own::cp().env("DIO_ENGINE", "nonsense").args([&from, &to]));
        assert_eq!(output.status.code(), Some(1), "{size}: {output:?}");
        assert!(
            output.stderr.starts_with("dio cp: ") && output.stderr.contains("DIO_ENGINE=nonsense"),
            "{output:?}"
        );
        assert!(!to.exists());
    }
}
