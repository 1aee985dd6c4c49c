//! `cargo xtask ci`: everything a change has to pass.

use crate::suite;
use crate::tally::Tally;
use crate::tool::cargo;

/// Checks before the tests: name, arguments of cargo, RUSTDOCFLAGS.
const CHECKS: &[(&str, &[&str])] = &[
    ("format", &["fmt", "--all", "--check"]),
    ("lints", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
    // Without --lib the program dio and the library dio would be documented in the same place.
    ("documentation", &["doc", "--workspace", "--no-deps", "--lib"]),
];

/// Runs all checks, then all tests, and prints the count as the last line; each check counts as
/// one test. Later ones run although an earlier one failed. True when nothing failed.
pub(crate) fn ci() -> bool {
    let mut tally = Tally::default();
    for (name, args) in CHECKS {
        println!("ci: {name}: cargo {}", args.join(" "));
        let success =
            cargo().args(*args).env("RUSTDOCFLAGS", "-D warnings").status().is_ok_and(|status| status.success());
        if success {
            tally.passed += 1;
        } else {
            println!("ci: {name}: FAILED");
            tally.failed += 1;
        }
    }
    println!("ci: tests");
    tally += suite::counted(&[]);
    println!("{tally}");
    tally.failed == 0
}
