//! Skips that are always visible.

use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;

/// Reports that a test, or a part of it, cannot run here; takes the arguments of `format!`.
///
/// Prints `SKIPPED: <test>: <reason>` on standard error, even if the test harness captures output,
/// and appends the same to the file named by `DIO_SKIP_LOG`, which `cargo xtask test` counts. It
/// does not leave the test: `return` or `continue` must follow. A test that skips a part is counted
/// as passed and, for the part, as skipped.
///
/// # Panics
/// If `CI` is `true`: then everything must run.
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

/// The function to which [`skip!`](crate::skip!) expands.
#[doc(hidden)]
#[track_caller]
pub fn report_skip(module: &str, line: u32, reason: fmt::Arguments<'_>) {
    let message = format!("{}: {reason}", test_name(module, line));
    // The handle is written to directly, because the harness captures only the output of the print
    // macros.
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
        file.write_all(format!("{}\n", message.replace('\n', " ")).as_bytes())
            .expect("the skip log can be written");
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
