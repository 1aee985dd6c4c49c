//! Counts the results of `cargo test` and of pytest.

use std::fmt;
use std::ops::AddAssign;

/// Tests passed, failed and skipped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    /// Ignored tests and reported skips. A test that skips a part is in `passed` too.
    pub(crate) skipped: u64,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// Reads the output of `cargo test` or pytest line by line.
#[derive(Debug, Default)]
pub(crate) struct TallyReader {
    counted: Tally,
    started: u64,
    finished: u64,
}

impl TallyReader {
    /// Evaluates one line.
    pub(crate) fn line(&mut self, line: &str) {
        if let Some(result) = line.strip_prefix("test result: ") {
            if let Some(tally) = parse_result(result) {
                self.counted += tally;
                self.finished += 1;
            }
        } else if is_start(line) {
            self.started += 1;
        } else if let Some(tally) = parse_pytest(line) {
            self.counted += tally;
        }
    }

    /// Returns the sum. A test program that started and gave no result, because it was killed,
    /// counts as one failure. So does an unsuccessful end without a counted failure, such as a
    /// build error.
    pub(crate) fn finish(self, success: bool) -> Tally {
        let mut tally = self.counted;
        tally.failed += self.started.saturating_sub(self.finished);
        if !success && tally.failed == 0 {
            tally.failed = 1;
        }
        tally
    }
}

/// Parses `ok. 3 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.01s`.
fn parse_result(result: &str) -> Option<Tally> {
    let (_, counts) = result.split_once(". ")?;
    let count = |name: &str| -> Option<u64> {
        let part = counts.split("; ").find(|p| p.ends_with(name))?;
        part.split_once(' ')?.0.parse().ok()
    };
    Some(Tally { passed: count("passed")?, failed: count("failed")?, skipped: count("ignored")? })
}

/// Parses the last line of pytest, `1 failed, 54 passed, 2 skipped in 1.08s`. What was skipped is
/// not counted: the tests report it, with the reason.
fn parse_pytest(line: &str) -> Option<Tally> {
    let (counts, time) = line.trim_matches(['=', ' ']).rsplit_once(" in ")?;
    let seconds = time.split(' ').next()?.strip_suffix('s')?;
    seconds.parse::<f64>().ok()?;
    let mut tally = Tally::default();
    for count in counts.split(", ") {
        let (number, what) = count.split_once(' ')?;
        let number = number.parse::<u64>().ok()?;
        match what {
            "passed" => tally.passed += number,
            "failed" | "error" | "errors" => tally.failed += number,
            _ => {}
        }
    }
    Some(tally)
}

/// Whether a line is `running 3 tests` with any number.
fn is_start(line: &str) -> bool {
    line.strip_prefix("running ")
        .and_then(|rest| rest.strip_suffix(" tests").or_else(|| rest.strip_suffix(" test")))
        .is_some_and(|number| number.parse::<u64>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, success: bool) -> Tally {
        let mut reader = TallyReader::default();
        text.lines().for_each(|l| reader.line(l));
        reader.finish(success)
    }

    const TWO: &str = "running 3 tests
test a ... ok
test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s
running 1 test
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 7 filtered out; finished in 1.00s
";

    #[test]
    fn results_are_summed() {
        let tally = read(TWO, false);
        assert_eq!(tally, Tally { passed: 2, failed: 1, skipped: 1 });
        assert_eq!(tally.to_string(), "2 passed, 1 failed, 1 skipped");
    }

    #[test]
    fn a_program_that_died_is_a_failure() {
        let text = format!("{TWO}running 5 tests\ntest b ... ok\n");
        assert_eq!(read(&text, false).failed, 2);
    }

    #[test]
    fn a_failed_build_is_a_failure() {
        assert_eq!(read("", false), Tally { passed: 0, failed: 1, skipped: 0 });
        assert_eq!(read("", true), Tally::default());
    }

    #[test]
    fn the_last_line_of_pytest_counts() {
        let read = |line| parse_pytest(line).map(|tally| tally.to_string());
        assert_eq!(read("55 passed in 1.06s").as_deref(), Some("55 passed, 0 failed, 0 skipped"));
        let line = "=== 1 failed, 54 passed, 2 skipped, 3 errors in 61.20s (0:01:01) ===";
        assert_eq!(read(line).as_deref(), Some("54 passed, 4 failed, 0 skipped"));
        for line in ["tests in 1.0s", "no tests ran in 0.01s", "5 passed in time", "1 passed"] {
            assert_eq!(read(line), None, "{line}");
        }
    }

    #[test]
    fn other_lines_do_not_count() {
        assert_eq!(
            read("running late tests\n test result: ok. 1 passed\n", true),
            Tally::default()
        );
    }
}
