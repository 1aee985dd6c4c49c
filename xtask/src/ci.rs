//! `cargo xtask ci`: all checks that a change has to pass.
//!
//! Building keeps the processors busy, and most tests wait for disks. So the tests of some packages
//! run while the other packages are built, and the checks, which build everything once more, run
//! beside the tests. Programs are installed while the first packages are built.

use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use crate::cluster;
use crate::deny::deny;
use crate::fuzz;
use crate::package;
use crate::python;
use crate::suite::Suite;
use crate::tally::Tally;
use crate::tool::{cargo, tool};

/// A check: name, arguments of cargo.
type Check = (&'static str, &'static [&'static str]);

/// The fuzz targets and the comparisons are workspaces of their own.
const FORMATS: &[Check] = &[
    ("format", &["fmt", "--all", "--check"]),
    ("format of fuzz", &["fmt", "--all", "--check", "--manifest-path", "fuzz/Cargo.toml"]),
    (
        "format of benchsuite",
        &["fmt", "--all", "--check", "--manifest-path", "benchsuite/Cargo.toml"],
    ),
    (
        "format of bindings/python",
        &["fmt", "--all", "--check", "--manifest-path", "bindings/python/Cargo.toml"],
    ),
    ("format of cluster", &["fmt", "--all", "--check", "--manifest-path", cluster::MANIFEST]),
];

/// Leaves out the benchmarks.
const LEAN: &str = "--no-default-features";

/// Slow checks. RUSTDOCFLAGS makes warnings errors.
const CHECKS: &[Check] = &[
    ("lints", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
    (
        "lints of benchsuite",
        &[
            "clippy",
            "--manifest-path",
            "benchsuite/Cargo.toml",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ],
    ),
    (
        "lints of bindings/python",
        &[
            "clippy",
            "--manifest-path",
            "bindings/python/Cargo.toml",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ],
    ),
    (
        "lints of cluster",
        &[
            "clippy",
            "--manifest-path",
            cluster::MANIFEST,
            "--target-dir",
            "target",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ],
    ),
    // The program without its feature `bench`. Only tests of the library run, because the tests of
    // programs run target/debug/dio, which must stay the full one for the tests that run at the
    // same time.
    (
        "lints without bench",
        &["clippy", "-p", "dio-cli", LEAN, "--all-targets", "--", "-D", "warnings"],
    ),
    (
        "tests without bench",
        &[
            "test",
            "--quiet",
            // Building takes longer than these tests.
            "--config",
            "profile.dev.package.dio-cli.opt-level=0",
            "-p",
            "dio-cli",
            LEAN,
            "--lib",
            "--",
            "cli::",
            "tool::",
            "commands::dd::",
            "commands::measuring::",
            "overview::",
        ],
    ),
    // Without --lib the program dio and the library dio would be documented in the same directory.
    ("documentation", &["doc", "--workspace", "--no-deps", "--lib"]),
    // Every crate that a user needs can be packaged. That each one builds is checked by hand
    // (`cargo xtask package`).
    (
        "crates",
        &[
            "package",
            "--quiet",
            "--workspace",
            "--exclude",
            "xtask",
            "--exclude",
            "xtask-docs",
            "--exclude",
            "dio-test",
            "--no-verify",
            "--offline",
            "--allow-dirty",
        ],
    ),
];

/// Packages whose tests run at the same time as all others. None of them mounts with FUSE, because
/// tests of mounts change a switch of the whole machine and must not run beside those of another
/// process.
const BESIDE: &[&str] =
    &["dio", "dio-advise", "dio-common", "dio-digest", "dio-wal", "dio-bench", "dio-test"];

/// Runs all checks and all tests, and prints the count as the last line; each check counts as one
/// test. Later checks run even if an earlier one failed. Returns whether nothing failed.
pub(crate) fn ci() -> bool {
    let mut tally = Tally::default();
    FORMATS.iter().for_each(|one| tally += check(one));
    println!("ci: tests");
    let (these, others) = selections();
    let suite = thread::scope(|scope| {
        // If this fails, the error is printed when the tests are built again.
        scope.spawn(|| cargo().args(["test", "--quiet", "--no-run"]).args(&these).output());
        Suite::prepare()
    });
    thread::scope(|scope| {
        let beside = scope.spawn(|| {
            let mut text = String::new();
            let mut tally = suite.counted(&these, |line| {
                text.push_str(line);
                text.push('\n');
            });
            println!(
                "ci: tests of {}\n{text}ci: that was the tests of these packages",
                BESIDE.join(", ")
            );
            tally += tested_in_python(&suite);
            tally += tested_in_cluster(&suite);
            CHECKS.iter().for_each(|one| tally += check(one));
            tally += denied();
            tally += packaged();
            tally
        });
        tally += suite.counted(&others, |line| println!("{line}"));
        tally += fuzzed();
        tally += beside.join().expect("failures are counted, and nothing panics");
    });
    suite.ended(tally)
}

/// The arguments that select the packages of [`BESIDE`], and all others.
fn selections() -> (Vec<String>, Vec<String>) {
    let (mut these, mut others) = (Vec::new(), vec!["--workspace".to_owned()]);
    for package in BESIDE {
        these.extend(["-p", package].map(str::to_owned));
        others.extend(["--exclude", package].map(str::to_owned));
    }
    (these, others)
}

/// Runs the tests of the Python module, and prints what they say together.
fn tested_in_python(suite: &Suite) -> Tally {
    let mut text = String::new();
    let tally = python::counted(suite, &[], |line| {
        text.push_str(line);
        text.push('\n');
    });
    println!("ci: tests of the Python module\n{text}ci: that was the Python module");
    tally
}

/// Runs the tests of the workspace that needs MPI, and prints what they say together.
fn tested_in_cluster(suite: &Suite) -> Tally {
    let mut text = String::new();
    let tally = cluster::counted(suite, &[], |line| {
        text.push_str(line);
        text.push('\n');
    });
    println!("ci: tests of the cluster\n{text}ci: that was the cluster");
    tally
}

/// Checks the dependencies, as one test.
fn denied() -> Tally {
    println!("ci: dependencies: cargo xtask deny");
    let success = deny().unwrap_or_else(|error| {
        println!("deny: {error}");
        false
    });
    if !success {
        println!("ci: dependencies: FAILED");
    }
    Tally { passed: u64::from(success), failed: u64::from(!success), skipped: 0 }
}

/// Installs packages of the program of the tests in a fresh root; each check there is one test.
fn packaged() -> Tally {
    println!("ci: packages: cargo xtask {}", package::TRIED);
    let tally = package::tried().unwrap_or_else(|error| {
        println!("package: {error}");
        Tally { failed: 1, ..Tally::default() }
    });
    println!("ci: packages: {tally}");
    tally
}

/// Time for all fuzz targets together.
const FUZZING: Duration = Duration::from_secs(60);
/// A fixed seed, so that a change is not refused because of an older defect. Other seeds are tried
/// by hand.
const SEED: u32 = 1;

/// Fuzzes for a while, with each target as one test, and prints the result in one line, or more if
/// a defect was found.
fn fuzzed() -> Tally {
    println!("ci: fuzz: cargo xtask fuzz --for {}s", FUZZING.as_secs());
    let lines = Mutex::new(Vec::new());
    let keep = |line: &str| lines.lock().push(line.to_owned());
    let tally = fuzz::counted(FUZZING, Some(SEED), false, &[], keep);
    let lines = lines.into_inner();
    if tally.failed > 0 {
        lines.iter().for_each(|line| println!("{line}"));
    }
    println!("ci: fuzz: {tally}");
    tally
}

/// Runs a check at a low priority, because tests run at the same time.
fn check((name, args): &Check) -> Tally {
    println!("ci: {name}: cargo {}", args.join(" "));
    let mut nice = tool("nice");
    nice.args(["-n", "10"])
        .arg(cargo().get_program())
        .args(*args)
        .env("RUSTDOCFLAGS", "-D warnings");
    let success = nice.status().is_ok_and(|status| status.success());
    if !success {
        println!("ci: {name}: FAILED");
    }
    Tally { passed: u64::from(success), failed: u64::from(!success), skipped: 0 }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{LEAN, selections};
    use crate::tool::{cargo, root};

    /// Returns what `cargo tree` prints for packages, without indentation.
    fn tree(packages: &[impl AsRef<str>], args: &[&str]) -> String {
        let mut tree = cargo();
        tree.args(["tree", "--prefix", "none", "--offline"]).args(args);
        tree.args(packages.iter().map(AsRef::as_ref));
        let output = tree.current_dir(root()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn every_selection_is_built_with_the_same_features() {
        let crates = |packages: &[String]| {
            let text = tree(packages, &["--edges", "all", "--format", "{p} [{f}]"]);
            let lines = text.lines().map(|line| line.trim_end_matches(" (*)").to_owned());
            // The others name the features of a dependency.
            lines.filter(|line| line.contains('[')).collect::<BTreeSet<_>>()
        };
        let (these, others) = selections();
        let all = crates(&["--workspace".to_owned()]);
        for selection in [these, others] {
            let found = crates(&selection);
            let different: Vec<_> = found.difference(&all).collect();
            assert!(different.is_empty(), "dio-test does not ask for these: {different:?}");
        }
    }

    #[test]
    fn without_bench_nothing_is_built_that_only_benchmarks_need() {
        let text = tree(&["-p", "dio-cli", LEAN], &["--edges", "normal,build"]);
        assert!(text.contains("dio-mount "), "{text}");
        for name in ["dio-bench ", "plotters ", "maud ", "perf-event2 "] {
            assert!(!text.contains(name), "{name}: {text}");
        }
    }
}
