//! Behaviour that all tools have in common: links, pipelines, receipts, little memory, and sudden
//! ends.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use dio_test::{MemoryGroup, Seed, file_systems, random_file, resident_pages, same_bytes};
use tempfile::TempDir;

const DIO: &str = env!("CARGO_BIN_EXE_dio");

fn scratch() -> TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

/// Runs a shell script in `dir`, with dio in the search path.
fn sh(dir: &Path, script: &str) -> Output {
    let bin = Path::new(DIO).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    Command::new("sh")
        .args(["-c", script])
        .current_dir(dir)
        .env("PATH", path)
        .env("LC_ALL", "C.UTF-8")
        .output()
        .unwrap()
}

fn well(dir: &Path, script: &str) -> String {
    let output = sh(dir, script);
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_link_is_the_tool_of_its_name() {
    let dir = scratch();
    fs::write(dir.path().join("file"), "one\ntwo\n").unwrap();
    for name in [
        "cat",
        "cp",
        "dd",
        "md5sum",
        "sha256sum",
        "cksum",
        "split",
        "tee",
        "uniq",
        "gzip",
        "gunzip",
        "zcat",
        "zstd",
        "unzstd",
        "zstdcat",
        "sort",
        "tar",
    ] {
        std::os::unix::fs::symlink(DIO, dir.path().join(name)).unwrap();
        let refused = sh(dir.path(), &format!("./{name} --no-such-option < /dev/null"));
        let said = String::from_utf8(refused.stderr).unwrap();
        let own = if name == "dd" { "unrecognized operand" } else { "unrecognized option" };
        // GNU dd parses options with getopt too.
        let family = match name {
            "gunzip" | "zcat" => "gzip",
            "unzstd" | "zstdcat" => "zstd",
            own => own,
        };
        assert!(
            said.starts_with(&format!("{family}: "))
                && (said.contains(own) || said.contains("option")),
            "{said}"
        );
        let status = match name {
            "sort" => 2,
            "tar" => 64,
            _ => 1,
        };
        assert_eq!(refused.status.code(), Some(status), "{name}");
    }
    assert_eq!(well(dir.path(), "./cat -n file | tail -1"), "     2\ttwo\n");
    assert_eq!(well(dir.path(), "./md5sum < file"), well(dir.path(), "md5sum < file"));
    // A hard link or a copy under another name runs as dio.
    let other = dir.path().join("other");
    if fs::hard_link(DIO, &other).is_err() {
        dio_test::copy_program(DIO, &other);
    }
    assert_eq!(well(dir.path(), "./other cat file"), "one\ntwo\n");
}

#[test]
fn a_pipeline_of_tools_passes_every_byte() {
    for fs in file_systems() {
        let dir = fs.dir();
        random_file(dir.path().join("big"), 5_000_001, 3);
        let script = "dio cat big | dio tee copy | dio dd bs=777 status=none | dio split -b 1M \
                      --filter='dio cat >> $FILE' - part. && cat part.* > joined && dio sha256sum \
                      < joined && sha256sum < big";
        let sums = well(dir.path(), script);
        let lines: Vec<&str> = sums.lines().collect();
        assert_eq!(lines[0], lines[1], "{}", fs.name);
        if fs.name == "host" || fs.name == "ext4" {
            assert_eq!(resident_pages(dir.path().join("copy")), 0, "{}", fs.name);
        }
        // The comparison reads the file into the cache.
        same_bytes(dir.path().join("big"), dir.path().join("copy"));
    }
}

/// A file of this size may be the descriptor of a striped file, so each tool looks into it first.
#[test]
fn a_file_as_large_as_a_descriptor_leaves_no_pages_either() {
    for fs in file_systems().iter().filter(|fs| ["host", "ext4", "xfs"].contains(&&*fs.name)) {
        let dir = fs.dir();
        let file = dir.path().join("file");
        for script in [
            "dio cp file copy",
            "dio cat file > out",
            "dio sum -a md5 file > out",
            "dio tar cf archive file",
            "dio tee copy < file > /dev/null",
            "dio probe file > out",
        ] {
            random_file(&file, 8300, 7);
            well(dir.path(), "sync; dd if=file iflag=nocache count=0 status=none");
            assert_eq!(resident_pages(&file), 0, "{}", fs.name);
            well(dir.path(), script);
            assert_eq!(resident_pages(&file), 0, "{}: {script}", fs.name);
        }
    }
}

#[test]
fn every_tool_writes_the_receipt_that_is_documented() {
    let dir = scratch();
    random_file(dir.path().join("big"), 3_000_000, 1);
    well(dir.path(), "dd if=big iflag=nocache count=0 status=none; sync");
    for (tool, script) in [
        ("cat", "dio cat --receipt r big > out"),
        ("dd", "dio dd --receipt r if=big of=out status=none"),
        ("tee", "dio tee --receipt r out < big > /dev/null"),
        ("split", "dio split --receipt r -b 3M big out"),
        ("uniq", "dio uniq --receipt r big out"),
        ("sum", "dio sum -a md5 --receipt r big > out"),
        ("gzip", "dio gzip --receipt r -c big > out"),
        ("zstd", "dio zstd --receipt r -c big > out"),
        ("sort", "dio sort --receipt r -o out big"),
        ("tar", "dio tar --receipt r -cf out big"),
    ] {
        well(dir.path(), script);
        let receipt: serde_json::Value =
            serde_json::from_slice(&fs::read(dir.path().join("r")).unwrap()).unwrap();
        assert_eq!(receipt["command"], tool, "{receipt:#}");
        assert_eq!(receipt["bytes_read"], 3_000_000, "{receipt:#}");
        assert_eq!(receipt["read"]["direct"].as_u64().unwrap(), 3_000_000, "{receipt:#}");
        let files = receipt["files"].as_array().unwrap();
        let of = |role: &str| {
            files.iter().find(|file| file["role"] == role).unwrap_or_else(|| panic!("{receipt:#}"))
        };
        assert_eq!(of("source")["mode"], "direct");
        if tool != "sum" {
            assert_eq!(of("target")["pages_after"], 0, "{receipt:#}");
            assert!(receipt["write"]["direct"].as_u64().unwrap() > 2_900_000, "{receipt:#}");
        }
        assert!(
            (1..128 << 20).contains(&receipt["peak_buffer_bytes"].as_u64().unwrap()),
            "{receipt:#}"
        );
    }
}

#[test]
fn strict_refuses_what_cannot_be_direct() {
    for fs in file_systems().into_iter().filter(|fs| fs.name == "tmpfs") {
        let dir = fs.dir();
        fs::write(dir.path().join("file"), vec![1; 200_000]).unwrap();
        for script in [
            "dio cat --strict file",
            "dio dd --strict if=file",
            "dio sum --mode direct --strict -a md5 file",
        ] {
            let output = sh(dir.path(), script);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success() && said.contains("not supported"), "{script}: {said}");
        }
    }
}

#[test]
fn files_larger_than_the_memory_pass_through() {
    let Some(group) = MemoryGroup::new(96 << 20) else { return };
    let dir = scratch();
    random_file(dir.path().join("big"), 300 << 20, 5);
    let enter = format!("echo $$ > {} && exec", group.procs().display());
    for script in [
        "dio cat big > out",
        "dio dd if=big of=out bs=4k status=none",
        "dio tee out < big > /dev/null",
        "dio split -b 1G big out && mv outaa out",
    ] {
        let (first, rest) =
            script.split_once(" && ").map_or((script, "true"), |(first, rest)| (first, rest));
        let _ = fs::remove_file(dir.path().join("out"));
        well(dir.path(), &format!("sh -c '{enter} {first}' && {rest}"));
        same_bytes(dir.path().join("big"), dir.path().join("out"));
    }
    let ours =
        well(dir.path(), &format!("sh -c '{enter} dio sum -a md5,sha256,blake3 --untagged big'"));
    assert!(ours.starts_with(well(dir.path(), "md5sum big").trim_end()), "{ours}");
}

#[test]
fn what_is_killed_leaves_a_beginning_of_its_output() {
    let seed = Seed::new();
    let mut random = seed.rng();
    let dir = scratch();
    random_file(dir.path().join("big"), 600 << 20, 9);
    let big = fs::read(dir.path().join("big")).unwrap();
    let mut cut = 0;
    for script in [
        "cat big",
        "tee out2 < big",
        "dd if=big bs=64k",
        "cat big | cat",
        "gzip -1c big | gzip -dc",
        "zstd -c big | zstdcat",
    ] {
        for _ in 0..4 {
            let _ = fs::remove_file(dir.path().join("out"));
            let script = format!("exec {DIO} {} > out", script.replace("| ", &format!("| {DIO} ")));
            let script =
                if script.contains('|') { script.replacen("exec ", "", 1) } else { script };
            let mut child = Command::new("setsid")
                .args(["sh", "-c", &script])
                .current_dir(dir.path())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            if random.bool(0.7) {
                // A machine under load takes long to start the process.
                let begun = || fs::metadata(dir.path().join("out")).is_ok_and(|out| out.len() > 0);
                for _ in 0..30_000 {
                    if begun() {
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            std::thread::sleep(Duration::from_millis(random.range(1..250)));
            // The child leads a session of its own, so the group contains only processes of this
            // test.
            let group = rustix::process::Pid::from_child(&child);
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            let status = child.wait().unwrap();
            std::thread::sleep(Duration::from_millis(20));
            let out = fs::read(dir.path().join("out")).unwrap_or_default();
            assert!(
                out.len() <= big.len() && out == big[..out.len()],
                "{script}: {} bytes, {seed:?}",
                out.len()
            );
            cut +=
                usize::from(status.signal().is_some() && !out.is_empty() && out.len() < big.len());
        }
    }
    assert!(cut > 0, "no run was cut in the middle: {seed:?}");
}

#[test]
fn a_receipt_says_of_pipes_what_went_through_them() {
    let dir = scratch();
    well(
        dir.path(),
        "head -c 300000 /dev/zero | dio cat --receipt=account | cat > /dev/null; test -s account",
    );
    let text = fs::read_to_string(dir.path().join("account")).unwrap();
    let receipt: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&receipt["read"]["piped"], &receipt["write"]["piped"]),
        (&300_000.into(), &300_000.into())
    );
    let modes: Vec<&str> = receipt["files"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|file| file["mode"].as_str())
        .collect();
    assert_eq!(modes, ["piped", "piped"]);
}

#[test]
fn tee_writes_more_files_than_descriptors_are_usual() {
    let dir = scratch();
    fs::create_dir(dir.path().join("out")).unwrap();
    let script =
        "ulimit -Sn 256; head -c 200000 /dev/zero | tr '\\0' x > in; cd out; dio tee $(seq 1 400) < ../in | cksum
                  cat * | wc -c";
    assert_eq!(well(dir.path(), script), format!("{}80000000\n", well(dir.path(), "cksum < in")));
}

#[test]
fn a_receipt_lists_each_output_and_takes_no_file_for_a_stream() {
    let dir = scratch();
    let lines = |script: &str| {
        well(dir.path(), script);
        let text = fs::read_to_string(dir.path().join("r")).unwrap();
        let receipt: serde_json::Value = serde_json::from_str(&text).unwrap();
        receipt["files"].as_array().unwrap().clone()
    };
    let twice = lines("echo x | dio tee --receipt r a a > /dev/null");
    let named: Vec<_> =
        twice.iter().filter(|line| line["path"] == "a").map(|line| &line["mode"]).collect();
    assert_eq!(named, ["cached", "cached"]);

    // A file named `-`, all of it resident, while standard input is not.
    random_file(dir.path().join("cold"), 3_000_000, 1);
    fs::write(dir.path().join("-"), vec![0; 50_000]).unwrap();
    well(dir.path(), "sync; dd if=cold iflag=nocache count=0 status=none");
    for line in lines("dio cat --receipt r < cold > /dev/null") {
        assert_eq!(
            (&line["pages_before"], &line["pages_after"]),
            (&0.into(), &0.into()),
            "{line:#}"
        );
    }
}
