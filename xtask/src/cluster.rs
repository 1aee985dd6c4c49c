//! The tests of the workspace `cluster`, which needs MPI. It shares the built crates of others with
//! the main workspace; those of dio are built again, because cargo knows them by their path from
//! the workspace.

use std::process::Command;

use crate::setup;
use crate::suite::Suite;
use crate::tally::Tally;
use crate::tool::cargo;

/// The manifest of the workspace, from the root.
pub(crate) const MANIFEST: &str = "cluster/Cargo.toml";

/// Runs the tests with further arguments for `cargo test`, and prints the count as the last line.
/// Returns whether nothing failed.
pub(crate) fn cluster(args: &[String]) -> bool {
    let suite = Suite::prepare();
    suite.ended(counted(&suite, args, |line| println!("{line}")))
}

/// Installs what is missing and counts the tests. A failure before the first test counts as one.
pub(crate) fn counted(suite: &Suite, args: &[String], mut show: impl FnMut(&str)) -> Tally {
    match setup::need(&setup::of_cluster()) {
        Ok(()) => suite.counted_inside("cluster", args, show),
        Err(error) => {
            show(&format!("xtask: the cluster cannot be tested: {error}"));
            Tally { failed: 1, ..Tally::default() }
        }
    }
}

/// `cargo test` in the workspace.
pub(crate) fn cargo_test(args: &[String]) -> Command {
    let mut command = cargo();
    command.args(["test", "--manifest-path", MANIFEST, "--target-dir", "target", "--locked"]);
    command.args(["--no-fail-fast", "--color=never"]).args(args);
    command.env("CARGO_TERM_QUIET", "false");
    command
}
