//! The environment in which a process is started: closed standard streams, SIGPIPE ignored, a
//! locale.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

/// A directory with links to dio, and a file.
fn place() -> TempDir {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    for name in ["cat", "tee", "md5sum", "b2sum", "cksum", "sort", "dd", "tar", "cp"] {
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_dio"), dir.path().join(name)).unwrap();
    }
    fs::write(dir.path().join("text"), "one\ntwo\n").unwrap();
    fs::write(dir.path().join("large"), vec![b'x'; 3_000_000]).unwrap();
    fs::write(
        dir.path().join("good"),
        "2094b601daac3d68f5aed51d3c20f7cd  text\nno line of a list\n",
    )
    .unwrap();
    fs::write(dir.path().join("list"), "5b9bab1a3c1a8a1e6d1e0f1a1a1a1a1a  text\n").unwrap();
    dir
}

fn bash(dir: &Path, script: &str, locale: &str) -> Output {
    Command::new("bash")
        .args(["-c", script])
        .current_dir(dir)
        .env("LC_ALL", locale)
        .output()
        .unwrap()
}

/// Runs `script`, in which `@` marks the names of tools, with the system's tools and with dio's,
/// and checks that output, status and the first line of messages are the same. The second line of
/// GNU's messages repeats the error when the stream is closed.
#[track_caller]
fn same(script: &str, locale: &str) {
    let dir = place();
    let gnu = bash(dir.path(), &script.replace('@', ""), locale);
    let dio = bash(dir.path(), &script.replace('@', "./"), locale);
    let first = |output: &Output| {
        let said = String::from_utf8_lossy(&output.stderr).replace("./", "");
        said.lines().next().unwrap_or_default().to_owned()
    };
    let seen = |output: &Output| (output.status.code(), output.stdout.clone(), first(output));
    assert_eq!(seen(&dio), seen(&gnu), "{script}");
}

#[test]
fn standard_output_that_is_closed_takes_nothing() {
    for script in [
        "@cat text >&-",
        "@cat -n text >&-",
        "@cat </dev/null >&-",
        "@cat none >&-",
        "@tee copy <text >&-; s=$?; cat copy; exit $s",
        "@tee copy </dev/null >&-",
        "@tee --output-error=exit copy <text >&-",
        "@md5sum text >&-",
        "@md5sum none >&-",
        // GNU md5sum continues the check, which has no visible effect.
        "@md5sum -c list >&- 2>/dev/null",
        "@md5sum --status -c list >&-",
        "@sort /dev/null >&-",
        "@sort -m </dev/null >&-",
        "@sort -u none /dev/null >&-",
        "@sort /dev/null 1<text",
        "@sort -c text >&-",
        "@sort -ocopy text >&-; cat copy",
        // GNU sort prints which call of the C library failed.
        "@sort text >&- 2>/dev/null",
        "@sort -m text 1<text 2>/dev/null",
    ] {
        same(script, "C");
    }
}

#[test]
fn standard_input_that_is_closed_is_not_empty() {
    for script in [
        "@cat <&-",
        "@cat text - <&-",
        "@tee copy <&-",
        "@md5sum <&-",
        "@md5sum text - <&-",
        "@md5sum -c <&-",
    ] {
        same(script, "C");
    }
    // These commands do not read standard input.
    same("@cat text <&-", "C");
    same("@md5sum text <&-", "C");
}

#[test]
fn a_closed_pipe_is_an_error_where_sigpipe_is_ignored() {
    for script in [
        "(trap '' PIPE; @cat large; echo $? >&2) | true",
        "(trap '' PIPE; @cat -n large; echo $? >&2) | true",
        // GNU md5sum does not print the reason.
        "(trap '' PIPE; while printf x 2>/dev/null; do sleep 0.02; done; @md5sum text 2>/dev/null; \
         echo $? >&2) | true",
        "(trap '' PIPE; @tee copy <large; echo $? >&2) | true; cksum <copy",
        "(trap '' PIPE; @dd if=large bs=64k 2>/dev/null; echo $? >&2) | true",
        "(trap '' PIPE; @dd if=large bs=64k status=none; echo $? >&2) | true",
        "(@dd if=large bs=64k; echo $? >&2) | true",
        "(@cat large; echo $? >&2) | true",
        "(@tee copy <large; echo $? >&2) | true",
    ] {
        same(script, "C");
    }
}

#[test]
fn quotation_marks_are_those_of_the_locale() {
    for locale in ["C", "C.UTF-8"] {
        for script in
            ["@b2sum -l x text", "@b2sum -l 1024 text", "@tee --output-error=x", "@cksum -a x text"]
        {
            same(script, locale);
        }
    }
}

#[test]
fn messages_that_cannot_be_written_make_a_run_fail() {
    for script in [
        "@dd if=text of=copy SAY",
        "@dd if=/dev/null of=/dev/null SAY",
        // There is no message to print.
        "@dd if=text of=copy status=none SAY",
        "@cat text SAY",
        "@cp -v text copy SAY",
        "@md5sum -c good SAY",
        "@md5sum text SAY",
        "@sort -c large text SAY",
        "printf 'b\\na\\n' | @sort -c SAY",
        "@tar cf x.tar text SAY",
        "@tar cf x.tar $PWD/text SAY",
        "@tar cvf - text SAY >/dev/null",
        "@tar cvf x.tar text SAY",
        "@tee copy <text SAY",
    ] {
        for say in ["2>/dev/full", "2>&-", "2>/dev/null"] {
            same(&script.replace("SAY", say), "C");
        }
    }
}
