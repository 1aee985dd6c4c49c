//! `dio probe` and `dio cache`, compared with what the system itself reports.

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

const MIB: usize = 1 << 20;

fn dio() -> Command {
    Command::new(env!("CARGO_BIN_EXE_dio"))
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("standard output is JSON")
}

fn cache(arguments: &[&str], paths: &[&Path]) -> (Output, Value) {
    let output = dio().args(["cache", "--json"]).args(arguments).args(paths).output().unwrap();
    let value = json(&output);
    (output, value)
}

/// A directory whose pages can be evicted. Returns `None`, and prints why, if /var/tmp is in
/// memory.
fn disk_directory() -> Option<TempDir> {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let open = File::open(directory.path()).unwrap();
    if dio::geometry::FileSystem::of(open.as_fd()).unwrap().is_memory() {
        println!("skipped: /var/tmp is in memory, from which nothing can be evicted");
        return None;
    }
    Some(directory)
}

/// Makes a file of `mebibytes` MiB that is clean and wholly in the cache.
fn cached_file(path: &Path, mebibytes: usize) {
    fs::write(path, vec![0xa5; mebibytes * MIB]).unwrap();
    let mut file = File::open(path).unwrap();
    file.sync_all().unwrap();
    file.read_to_end(&mut Vec::new()).unwrap();
}

/// Resident pages as util-linux counts them, if it is there.
fn fincore(path: &Path) -> Option<u64> {
    let output =
        Command::new("fincore").args(["-b", "-n", "-o", "PAGES"]).arg(path).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

fn pages(bytes: usize) -> u64 {
    (bytes / rustix::param::page_size()) as u64
}

#[test]
fn a_file_just_read_is_wholly_resident_and_evicted_on_demand() {
    let Some(directory) = disk_directory() else {
        return;
    };
    let path = directory.path().join("file");
    cached_file(&path, 3);
    let (output, shown) = cache(&[], &[&path]);
    assert!(output.status.success());
    let file = &shown["files"][0];
    assert_eq!(file["resident_pages"], pages(3 * MIB));
    assert_eq!(file["pages"], pages(3 * MIB));
    assert_eq!(file["resident_percent"], 100.0);
    assert_eq!(file["dirty_pages"].as_u64().unwrap_or(0), 0);
    assert_eq!(file["evicted_pages"], Value::Null);
    match fincore(&path) {
        Some(count) => assert_eq!(count, pages(3 * MIB)),
        None => println!("skipped: no fincore to compare with"),
    }

    let (output, shown) = cache(&["--evict"], &[&path]);
    assert!(output.status.success());
    let file = &shown["files"][0];
    assert_eq!(file["evicted_pages"], pages(3 * MIB));
    assert_eq!(file["resident_pages"], 0);
    assert_eq!(shown["total"]["resident_percent"], 0.0);
    assert_eq!(fincore(&path).unwrap_or(0), 0);
}

#[test]
fn dirty_pages_are_written_before_they_go() {
    let Some(directory) = disk_directory() else {
        return;
    };
    let path = directory.path().join("file");
    let content: Vec<u8> = (0..2 * MIB + 77).map(|number| (number / 3) as u8).collect();
    fs::write(&path, &content).unwrap();
    let (output, shown) = cache(&["--evict"], &[&path]);
    assert!(output.status.success());
    assert_eq!(shown["files"][0]["evicted_pages"], pages(2 * MIB) + 1);
    assert_eq!(shown["files"][0]["resident_pages"], 0);
    assert_eq!(fs::read(&path).unwrap(), content);
}

#[test]
fn what_another_process_maps_is_kept() {
    let Some(directory) = disk_directory() else {
        return;
    };
    // A running program is mapped by the process that runs it.
    let program = directory.path().join("sleeper");
    dio_test::copy_program("/bin/sleep", &program);
    File::open(&program).unwrap().sync_all().unwrap();
    let other = directory.path().join("other");
    cached_file(&other, 1);
    fs::read(&program).unwrap();
    let mut sleeper = Command::new(&program).arg("60").spawn().unwrap();

    let (output, shown) = cache(&["--evict", "--keep"], &[directory.path()]);
    let reported = shown["files"].as_array().unwrap().clone();
    let still_resident =
        fs::metadata(&program).unwrap().len().div_ceil(rustix::param::page_size() as u64);
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();

    assert!(output.status.success());
    assert_eq!(reported.len(), 2, "{reported:?}");
    assert_eq!(reported[0]["path"], other.to_str().unwrap());
    assert_eq!(reported[0]["resident_pages"], 0);
    assert_eq!(reported[0]["kept_for_process"], Value::Null);
    assert_eq!(reported[1]["kept_for_process"], sleeper.id());
    assert_eq!(reported[1]["evicted_pages"], 0);
    assert_eq!(reported[1]["resident_pages"], still_resident);
}

#[test]
fn directories_are_walked_past_links_pipes_and_second_names() {
    let Some(directory) = disk_directory() else {
        return;
    };
    let inner = directory.path().join("b/inner");
    fs::create_dir_all(&inner).unwrap();
    cached_file(&inner.join("deep"), 1);
    cached_file(&directory.path().join("a"), 1);
    fs::hard_link(directory.path().join("a"), directory.path().join("c")).unwrap();
    symlink("/etc", directory.path().join("d")).unwrap();
    symlink("a", directory.path().join("e")).unwrap();
    let pipe = directory.path().join("f");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let through_link = tempfile::tempdir_in("/var/tmp").unwrap();
    let link = through_link.path().join("link");
    symlink(directory.path(), &link).unwrap();

    for start in [directory.path(), &link] {
        let (output, shown) = cache(&[], &[start]);
        assert!(output.status.success());
        let paths: Vec<&str> = shown["files"]
            .as_array()
            .unwrap()
            .iter()
            .map(|file| file["path"].as_str().unwrap())
            .collect();
        let expected = [start.join("a"), start.join("b/inner/deep")];
        assert_eq!(paths, expected.each_ref().map(|path| path.to_str().unwrap()));
        assert_eq!(shown["total"]["resident_pages"], pages(2 * MIB));
        assert_eq!(shown["total"]["files"], 2);
    }
}

#[test]
fn a_failure_is_said_and_the_rest_is_shown() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = directory.path().join("file");
    cached_file(&path, 1);
    let missing = directory.path().join("missing");
    let (output, shown) = cache(&[], &[&missing, Path::new("/dev/null"), &path]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(shown["files"][0]["resident_pages"], pages(MIB));
    let expected = format!(
        "dio: cannot show '{}': No such file or directory\n\
         dio: cannot show '/dev/null': Neither a file, a directory nor a block device\n",
        missing.display()
    );
    assert_eq!(String::from_utf8(output.stderr).unwrap(), expected);
}

#[test]
fn keeping_makes_no_sense_without_evicting() {
    let output = dio().args(["cache", "--keep", "/"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn the_map_uses_the_characters_of_the_locale() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = directory.path().join("file");
    cached_file(&path, 1);
    for (locale, full) in [("C", "#"), ("C.UTF-8", "█")] {
        let output = dio().arg("cache").arg(&path).env("LC_ALL", locale).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains(&full.repeat(32)), "{locale}: {text}");
        assert!(text.contains("100.0"), "{locale}: {text}");
    }
}

#[test]
fn files_of_others_are_not_taken_for_resident() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root can become another user");
    }
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = directory.path().join("dio");
    dio_test::copy_program(env!("CARGO_BIN_EXE_dio"), &program);
    let path = directory.path().join("file");
    cached_file(&path, 1);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let output = Command::new(&program)
        .args(["cache", "--json"])
        .arg(&path)
        .uid(65534)
        .gid(65534)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(json(&output)["total"]["files"], 0);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("Operation not permitted"), "{message}");
}

/// On overlayfs `cachestat` counts nothing although pages are cached, and `sync_file_range` writes
/// nothing.
#[test]
fn overlays_are_counted_and_evicted_too() {
    let Some(directory) = disk_directory() else {
        return;
    };
    for name in ["lower", "upper", "work", "merged"] {
        fs::create_dir(directory.path().join(name)).unwrap();
    }
    // The mount is in a namespace of its own and ends with it.
    let script = "mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work merged || \
                  exit 77\nhead -c 1048576 /dev/urandom > merged/file\n\"$1\" cache --json \
                  merged/file && \"$1\" cache --json --evict merged/file";
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_dio")])
        .current_dir(directory.path())
        .output();
    let output = match output {
        Ok(output) if output.status.success() => output,
        other => return println!("skipped: no overlay can be mounted here: {other:?}"),
    };
    let reports: Vec<Value> = serde_json::Deserializer::from_slice(&output.stdout)
        .into_iter()
        .map(Result::unwrap)
        .collect();
    assert_eq!(reports[0]["files"][0]["resident_pages"], pages(MIB));
    assert_eq!(reports[1]["files"][0]["evicted_pages"], pages(MIB));
    assert_eq!(reports[1]["files"][0]["resident_pages"], 0);
}

fn probe(path: &Path) -> Value {
    let output = dio().args(["probe", "--json"]).arg(path).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    json(&output)[0].clone()
}

#[test]
fn a_probe_agrees_with_sysfs_and_leaves_nothing() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let report = probe(directory.path());
    assert_eq!(report["kind"], "directory");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    let number = fs::metadata(directory.path()).unwrap().dev();
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let link = format!("/sys/dev/block/{major}:{minor}");
    let Ok(own) = fs::canonicalize(&link) else {
        return println!("skipped: /var/tmp is on no device with a number in sysfs");
    };
    assert_eq!(report["device"]["name"], own.file_name().unwrap().to_str().unwrap());
    let queue = [own.join("queue"), own.join("../queue")];
    let queue = queue.iter().find(|queue| queue.exists()).unwrap();
    let read = |name: &str| fs::read_to_string(queue.join(name)).unwrap().trim().to_owned();
    assert_eq!(report["device"]["logical_block"].to_string(), read("logical_block_size"));
    let kibibytes: u64 = read("max_sectors_kb").parse().unwrap();
    assert_eq!(report["device"]["largest_request"], kibibytes * 1024);
    assert_eq!(report["device"]["volatile_write_cache"], read("write_cache") == "write back");
    assert_eq!(report["device"]["rotational"], read("rotational") == "1");
}

#[test]
fn a_probe_of_a_file_neither_changes_nor_caches_it() {
    let Some(directory) = disk_directory() else {
        return;
    };
    let path = directory.path().join("file");
    cached_file(&path, 2);
    cache(&["--evict"], &[&path]);
    let report = probe(&path);
    assert_eq!(report["kind"], "file");
    assert_eq!(report["tried"]["write_direct"]["answer"], "unknown");
    if report["geometry"]["direct"] == "reported" {
        assert_eq!(report["tried"]["read_direct"]["answer"], "yes");
    }
    let (_, shown) = cache(&[], &[&path]);
    assert_eq!(shown["total"]["resident_pages"], 0);
    assert_eq!(fs::read(&path).unwrap(), vec![0xa5; 2 * MIB]);
}

#[test]
fn memory_is_told_from_disk() {
    let Ok(directory) = tempfile::tempdir_in("/dev/shm") else {
        return println!("skipped: no /dev/shm");
    };
    let report = probe(directory.path());
    if report["file_system"] != "tmpfs" {
        return println!("skipped: /dev/shm is not a tmpfs");
    }
    assert_eq!(report["geometry"]["direct"], "refused");
    assert_eq!(report["tried"]["read_direct"]["answer"], "no");
    assert_eq!(report["tried"]["write_direct"]["answer"], "no");
    assert!(report["device"]["unknown"].is_string());
}

#[test]
fn a_probe_goes_on_past_failures() {
    let output = dio().args(["probe", "/no/such/path", "/dev/null", "/"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.starts_with(b"/ (directory)\n"));
    let expected = "dio: cannot probe '/no/such/path': No such file or directory\n\
        dio: cannot probe '/dev/null': Neither a file, a directory nor a block device\n";
    assert_eq!(String::from_utf8(output.stderr).unwrap(), expected);
}

/// Runs a command that succeeds; returns its output.
fn good(arguments: &[&str], paths: &[&Path]) -> String {
    let output = dio().args(arguments).args(paths).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Checks the report for readers, before and after the loss of an object.
fn assert_text_names_objects(file: &Path, memory: &Path, objects: &[Value]) {
    let text = good(&["probe"], &[file]);
    for part in
        ["(striped file)", "stripes of 64 KiB over 4 objects", "(object 1)", "no: object 2: "]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let target = format!("target {} (object 2)", memory.display());
    assert!(text.contains(&target) && !text.contains("is missing"), "{text}");
    fs::remove_file(objects[1]["path"].as_str().unwrap()).unwrap();
    let text = good(&["probe"], &[file]);
    assert!(
        text.contains("is missing") && text.contains("unknown: object 1: it is missing"),
        "{text}"
    );
}

/// A striped file over two directories on a disk and one in memory, where nothing is direct: each
/// target is reported, and the whole is no better than the worst target.
#[test]
fn a_striped_file_is_what_its_objects_are() {
    let (Some(directory), Ok(memory)) = (disk_directory(), tempfile::tempdir_in("/dev/shm")) else {
        return println!("skipped: /var/tmp is no disk, or there is no /dev/shm");
    };
    let at = |name: &str| directory.path().join(name);
    let open = File::open(memory.path()).unwrap();
    if !dio::geometry::FileSystem::of(open.as_fd()).unwrap().is_memory() {
        return println!("skipped: /dev/shm is not in memory");
    }
    ["a", "b"].iter().for_each(|name| fs::create_dir(at(name)).unwrap());
    fs::write(at("contents"), vec![7; 3 * MIB]).unwrap();
    let file = at("file");
    let targets =
        format!("{},{},{}", at("a").display(), at("b").display(), memory.path().display());
    good(&["stripe", "set", "-S", "64K", "-c", "4", "-t", &targets], &[&file]);
    good(&["cp"], &[&at("contents"), &file]);

    let report = probe(&file);
    let (striped, objects) = (&report["striped"], report["striped"]["objects"].as_array().unwrap());
    assert_eq!(
        (&striped["bytes"], &striped["stripe_bytes"]),
        (&(3 * MIB).into(), &(64 << 10).into())
    );
    assert_eq!(
        (&striped["stripe_count"], objects.len(), &report["kind"]),
        (&4.into(), 4, &"file".into())
    );
    let targets: Vec<&str> =
        objects.iter().map(|object| object["target"].as_str().unwrap()).collect();
    let expected = [at("a"), at("b"), memory.path().to_owned(), at("a")];
    assert_eq!(targets, expected.each_ref().map(|path| path.to_str().unwrap()));
    assert_eq!(
        objects.iter().map(|object| object["bytes"].as_u64().unwrap()).sum::<u64>(),
        3 * MIB as u64
    );
    assert_eq!(
        (&objects[2]["file_system"], &objects[2]["tried"]["read_direct"]["answer"]),
        (&"tmpfs".into(), &"no".into())
    );
    assert_eq!(
        (&report["geometry"]["direct"], &report["tried"]["read_direct"]["answer"]),
        (&"refused".into(), &"no".into())
    );
    let reason = report["tried"]["read_direct"]["reason"].as_str().unwrap();
    assert!(reason.starts_with("object 2: "), "{reason}");
    for what in ["memory_align", "write_align", "read_align"] {
        let each =
            objects.iter().map(|object| object["geometry"][what].as_u64().unwrap()).max().unwrap();
        assert!(report["geometry"][what].as_u64().unwrap() >= each, "{what}: {report:#}");
    }
    // The report of an object equals the report of its own path, as far as both are obtained in the
    // same way.
    let own = probe(Path::new(objects[0]["path"].as_str().unwrap()));
    assert_eq!(
        (&own["geometry"], &own["device"]),
        (&objects[0]["geometry"], &objects[0]["device"])
    );
    if own["geometry"]["direct"] == "reported" {
        assert_eq!(objects[0]["tried"]["read_direct"]["answer"], "yes", "{report:#}");
    }

    assert_text_names_objects(&file, memory.path(), objects);
    assert_eq!(probe(&at("contents"))["striped"], Value::Null);
}

/// The suggested transfer size is the one that the tools themselves use, whatever `st_blksize`
/// says.
#[test]
fn the_suggested_transfer_is_that_of_the_tools() {
    let Some(directory) = disk_directory() else { return };
    let output = dio().args(["probe", "--json"]).arg(directory.path()).output().unwrap();
    let geometry = &json(&output)[0]["geometry"];
    let (suggested, file_system) = (
        geometry["suggested_bytes"].as_u64().unwrap(),
        geometry["file_system_suggests_bytes"].as_u64().unwrap(),
    );
    assert!((256 << 10..=4 << 20).contains(&suggested), "{geometry:#}");
    assert!(suggested % file_system.min(suggested) == 0, "{geometry:#}");
}
