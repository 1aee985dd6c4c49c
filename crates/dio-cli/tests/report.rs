//! `dio report`: pages made from real results, and how a browser shows them.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::report_support::browser::{Browser, View};
use crate::report_support::results::{dio, files, records, results};
use serde_json::Value;
use tempfile::TempDir;

fn report(arguments: &[&str], results: &[PathBuf]) -> Output {
    dio().arg("report").args(arguments).args(results).output().unwrap()
}

fn text_of(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[track_caller]
fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn names(directory: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Figures of the reference, and where they were measured.
const FIGURES: [&str; 17] = [
    "710.19",
    "219.69",
    "652.12",
    "published 0.92",
    "0.98 of raw",
    "memory limit (cgroup)",
    "write cache",
    "583 → 5186 MiB/s",
    "641 → 5093 MiB/s",
    "published 8.90×",
    "Modelled disks",
    "network: skipped",
    "17892 KB/s",
    "30062 KB/s",
    "at 24.5 %",
    "published 0.93 of raw",
    "1.20 times the limits together",
];

#[test]
fn results_of_all_benchmarks_make_one_page_with_its_plots_and_tables() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).into_os_string().into_string().unwrap();
    let (page, svg, csv) = (at("page.html"), at("plots/svg"), at("csv"));
    let files = files(directory.path(), results());
    let output =
        report(&["-o", &page, "--svg", &svg, "--csv", &csv, "--title", "All of it"], &files);
    assert_eq!(text_of(&output), "");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(
        page.starts_with("<!DOCTYPE html>")
            && page.ends_with("</html>")
            && page.contains("<h1>All of it</h1>")
    );
    for (name, _) in results() {
        assert!(page.contains(&format!("<section class=\"result\" id=\"{name}\"")), "{name}");
    }
    for text in FIGURES {
        assert!(page.contains(text), "{text}");
    }
    let (plots, tables) = (names(Path::new(&svg)), names(Path::new(&csv)));
    for name in [
        "oltp-throughput",
        "oltp-share",
        "oltp-cpu-concurrent",
        "oltp-response-times",
        "random-latency",
        "copy-throughput",
        "stripe-modelled-write-targets",
        "stripe-modelled-read-8-1048576",
        "stripe-modelled-gain",
        "stripe-real-write-stripes",
        "disks-throughput-read",
        "disks-cpu-write",
        "disks-share",
    ] {
        assert!(
            plots.contains(&format!("{name}.svg")) && tables.contains(&format!("{name}.csv")),
            "{name}: {plots:?}"
        );
    }
    for name in [
        "oltp-series",
        "oltp-table-throughput",
        "stripe-table-modelled",
        "stripe-table-copy",
        "disks-table-read",
    ] {
        assert!(tables.contains(&format!("{name}.csv")), "{name}: {tables:?}");
    }
    let check = "import sys, xml.dom.minidom, csv\n\
                 for name in sys.argv[1:]:\n\
                 \tif name.endswith('svg'): xml.dom.minidom.parse(name)\n\
                 \telse: assert len({len(line) for line in csv.reader(open(name))}) == 1, name\n";
    let all = plots
        .iter()
        .map(|name| format!("{svg}/{name}"))
        .chain(tables.iter().map(|name| format!("{csv}/{name}")));
    let parsed = Command::new("python3").args(["-c", check]).args(all).output().unwrap();
    assert!(parsed.status.success(), "{}", String::from_utf8_lossy(&parsed.stderr));
}

#[test]
fn results_name_their_benchmark_and_are_known_without_it() {
    let directory = tempfile::tempdir().unwrap();
    let ids = |results: &[(&'static str, Value)]| {
        let page = text_of(&report(&[], &files(directory.path(), results)));
        let ids = page
            .split("<section class=\"result\" id=\"")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap().to_owned());
        ids.collect::<Vec<_>>()
    };
    let mut old = results().to_vec();
    for (name, result) in &mut old {
        assert_eq!((&result["benchmark"], &result["format"]), (&Value::from(*name), &1.into()));
        let fields = result.as_object_mut().unwrap();
        fields.remove("benchmark");
        fields.remove("format");
        for field in
            ["memory_limit_bytes", "read_ahead_bytes", "volatile_write_cache", "mount_options"]
        {
            fields
                .get_mut("environment")
                .and_then(Value::as_object_mut)
                .map(|environment| environment.remove(field));
        }
    }
    assert_eq!(ids(&old), ids(results()));
}

#[test]
fn a_result_may_come_by_a_pipe_and_the_page_go_into_one() {
    let (_, result) = &results()[results().len() - 1];
    let mut child = dio()
        .args(["report", "-o", "-", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(result.to_string().as_bytes()).unwrap();
    let page = text_of(&child.wait_with_output().unwrap());
    assert!(page.contains("from standard input") && page.contains("What a command was blocked on"));
    // A page is not written to a terminal.
    let directory = tempfile::tempdir().unwrap();
    let file = &files(directory.path(), &results()[results().len() - 1..])[0];
    let line = format!("{} report {}", env!("CARGO_BIN_EXE_dio"), file.display());
    let output = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        said.contains("the page would go to the terminal") && !said.contains("<html"),
        "{said}"
    );
}

#[test]
fn who_is_no_result_is_named_with_place_and_cure_and_the_old_page_stays() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let good = files(directory.path(), &results()[results().len() - 1..]).remove(0);
    let page = path("page.html", "old");
    let before = names(directory.path());
    let oltp = std::fs::read_to_string(&records()[0]).unwrap();
    let bad = [
        path("cut.json", &oltp[..oltp.len() / 2]),
        path("other.json", "{\"path\": \"/\", \"kind\": \"file\"}"),
        path("table.txt", "step  of\n1 B   1 MiB\n"),
        path("newer.json", "{\"benchmark\": \"copy\", \"format\": 99}"),
        directory.path().join("missing.json"),
    ];
    let arguments: Vec<PathBuf> = bad.iter().cloned().chain([good.clone()]).collect();
    let said = refused(&report(&["-o", page.to_str().unwrap()], &arguments));
    let expected = [
        ("cut.json' is no result of a benchmark: it ends in the middle, at line ", "measure again"),
        ("other.json' is no result of a benchmark: it is JSON, but", "`dio bench … --json`"),
        (
            "table.txt' is no result of a benchmark: it is no JSON: expected value at line 1 \
             column 1",
            "`dio bench … --json`",
        ),
        ("newer.json' is no result of a benchmark: it has format 99", "take the dio that wrote it"),
        ("missing.json'", "No such file or directory"),
    ];
    assert_eq!(said.lines().count(), expected.len(), "{said}");
    for (line, (beginning, cure)) in said.lines().zip(expected) {
        assert!(
            line.starts_with("dio: ") && line.contains(beginning) && line.contains(cure),
            "{line}"
        );
    }
    assert_eq!(std::fs::read_to_string(&page).unwrap(), "old");
    // A page never overwrites one of the results, and a page that cannot be written leaves no file.
    let said = refused(&report(&["-o", good.to_str().unwrap()], std::slice::from_ref(&good)));
    assert!(said.contains("is one of the results"), "{said}");
    let nowhere = directory.path().join("no/such/page.html");
    let said = refused(&report(&["-o", nowhere.to_str().unwrap()], std::slice::from_ref(&good)));
    assert!(said.contains("cannot write") && said.contains("No such file or directory"), "{said}");
    bad[..4].iter().for_each(|path| std::fs::remove_file(path).unwrap());
    assert_eq!(names(directory.path()), before);
    // If the page's name is a link, it stays a link.
    let link = directory.path().join("link.html");
    std::os::unix::fs::symlink("page.html", &link).unwrap();
    text_of(&report(&["-o", link.to_str().unwrap()], std::slice::from_ref(&good)));
    assert!(link.is_symlink() && std::fs::read_to_string(&page).unwrap().starts_with("<!DOCTYPE"));
}

/// Pages for the browser: all benchmarks with hostile names, and all records of the benchsuite.
fn pages(directory: &TempDir) -> [PathBuf; 3] {
    let hostile = "<script>alert(1)</script><img src=x onerror=alert(2)>&\"'";
    let mut results = results().to_vec();
    for (name, result) in &mut results {
        if *name == "locks" {
            result["command"] = hostile.into();
            result["mounts"] = serde_json::json!([{"mountpoint": hostile, "mode": hostile, "error": null, "rows": [
            {
                "class": hostile, "blocks": 1, "blocks_per_second": 1.0, "waited_seconds": 0.1
            }]}]);
        } else {
            result["environment"]["device"] = hostile.into();
        }
        match *name {
            "stripe" => {
                result["grounds"][0]["about"] = hostile.into();
                result["skipped"][0]["reason"] = hostile.into();
            }
            "disks" => result["notes"] = serde_json::json!([hostile]),
            _ => {}
        }
    }
    let files = files(directory.path(), &results);
    let oltp: Vec<PathBuf> =
        files.iter().filter(|path| path.ends_with("oltp.json")).cloned().collect();
    let page = |name: &str, title: &[&str], results: &[PathBuf]| {
        let path = directory.path().join(name);
        text_of(&report(&[&["-o", path.to_str().unwrap()], title].concat(), results));
        path
    };
    [
        page("all.html", &["--title", hostile], &files),
        page("oltp.html", &[], &oltp),
        page("suite.html", &[], &records()),
    ]
}

#[test]
fn a_browser_shows_every_page_in_light_and_dark_on_desktop_and_phone() {
    let directory = tempfile::tempdir().unwrap();
    let pages = pages(&directory);
    let Some(mut browser) = Browser::start() else { return };
    let views = [(1280, false), (360, true), (1280, true), (360, false)]
        .map(|(width, dark)| View { width, dark });
    for (place, page) in pages.iter().enumerate() {
        let name = page.file_stem().unwrap().to_string_lossy();
        // Colour schemes and widths do not depend on each other, so all four combinations of one
        // page are enough.
        for view in &views[..if place == 0 { 4 } else { 2 }] {
            browser.open(page, *view);
            let seen = browser.value(include_str!("report_support/look.js"));
            assert_eq!(seen["faults"], serde_json::json!([]), "{name}, {view:?}: {seen:#}");
            let count = |what: &str| seen[what].as_u64().unwrap();
            assert!(
                count("plots") >= 10 && count("tables") >= 5 && count("texts") >= 100,
                "{name}: {seen:#}"
            );
            let light = seen["background"][0].as_f64().unwrap() > 128.0;
            assert_eq!(light, !view.dark, "{name}, {view:?}: {seen:#}");
            assert_eq!(browser.requests().len(), 1, "only the page: {:?}", browser.requests());
            assert!(browser.complaints().is_empty(), "{name}: {:#?}", browser.complaints());
            if let Some(directory) = std::env::var_os("DIO_PICTURES") {
                let scheme = if view.dark { "dark" } else { "light" };
                let path = Path::new(&directory)
                    .join(format!("{name}-{}-{scheme}.png.base64", view.width));
                std::fs::write(path, browser.picture()).unwrap();
            }
        }
    }
    // A plot that is shown by itself follows the preference for dark, too.
    let plots = directory.path().join("plots");
    text_of(&report(&["--svg", plots.to_str().unwrap()], &[directory.path().join("oltp.json")]));
    let colour = "getComputedStyle(document.querySelector('text')).fill";
    let share = plots.join("oltp-share.svg");
    let fills = [false, true].map(|dark| {
        browser.open(&share, View { width: 800, dark });
        browser.value(colour)
    });
    assert_eq!(fills, ["rgb(27, 31, 36)", "rgb(232, 234, 237)"]);
}
