//! Skips that nobody can overlook.

use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;

/// Says aloud that a test, or a part of it, cannot run here; takes the arguments of `format!`.
///
/// Prints `SKIPPED: <test>: <reason>` on standard error, also when the test harness captures
/// output, and appends the same to the file named by `DIO_SKIP_LOG`, which `cargo xtask test`
/// counts. It does not leave the test: follow it with `return` or `continue`. A test that skips
/// a part is counted as passed and, for the part, as skipped.
///
/// # Panics
/// When `CI` is `true`: there everything must run.
///
/// ```no_run
/// for fs in dio_test::file_systems() {
///     if fs.name == "tmpfs" {
///         dio_test::skip!("{} has no direct I/O", fs.name);
///         continue;
///     }
/// }
/// ```
#[macro_export]
macro_rules! skip {
    ($($reason:tt)+) => {
        $crate::report_skip(module_path!(), line!(), format_args!($($reason)+))
    };
}

/// What [`skip!`](crate::skip!) expands to.
#[doc(hidden)]
#[track_caller]
pub fn report_skip(module: &str, line: u32, reason: fmt::Arguments<'_>) {
    let message = format!("{}: {reason}", test_name(module, line));
    // The handle is written to directly: the harness captures what the print macros write, no more.
    let mut stderr = std::io::stderr().lock();
    stderr.write_all(format!("SKIPPED: {message}\n").as_bytes()).expect("standard error is open");
    drop(stderr);
    if let Some(log) = std::env::var_os("DIO_SKIP_LOG") {
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(&log)
            .unwrap_or_else(|e| panic!("DIO_SKIP_LOG {}: {e}", log.display()));
        // One write in append mode, so that lines of parallel tests do not mix.
        file.write_all(format!("{}\n", message.replace('\n', " ")).as_bytes()).expect("the skip log can be written");
    }
    assert!(std::env::var_os("CI").is_none_or(|v| v != "true"), "skipped while CI=true: {message}");
}

/// The harness names threads after their tests, except when it runs them on the main thread.
fn test_name(module: &str, line: u32) -> String {
    match std::thread::current().name() {
        Some(name) if name != "main" => name.to_owned(),
        _ => format!("{module} line {line}"),
    }
}
