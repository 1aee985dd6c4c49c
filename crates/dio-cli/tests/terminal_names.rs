//! Names of files must not control the terminal on which they are listed.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use dio_test::{file_systems, run};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

const DIO: &str = env!("CARGO_BIN_EXE_dio");

/// A name with the control sequence that clears the screen, in both encodings.
const NAME: &str = "a\x1b[2J\u{9b}2J";

/// Everything that a command writes to a terminal, including standard error.
fn on_terminal(dir: &Path, args: &[&str]) -> String {
    let main = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&main).unwrap();
    unlockpt(&main).unwrap();
    let name = ptsname(&main, Vec::new()).unwrap();
    let path = Path::new(OsStr::from_bytes(name.as_bytes()));
    let end = || File::options().read(true).write(true).open(path).unwrap();
    let mut command = Command::new(DIO);
    command.args(args).current_dir(dir).stdin(Stdio::null()).stdout(end()).stderr(end());
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut text = Vec::new();
    // The read fails with EIO once no process has the other end open.
    let _ = File::from(main).read_to_end(&mut text);
    child.wait().unwrap();
    String::from_utf8_lossy(&text).into_owned()
}

#[track_caller]
fn is_harmless(text: &str) {
    let bad: Vec<char> =
        text.chars().filter(|c| c.is_control() && !"\r\n\t".contains(*c)).collect();
    assert!(bad.is_empty() && text.contains("\\033"), "{text:?}");
}

#[test]
fn compressors_and_messages_escape_names_on_a_terminal_only() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    fs::write(dir.join(NAME), "b\na\n".repeat(1000)).unwrap();
    let (gz, zst) = (format!("{NAME}.gz"), format!("{NAME}.zst"));
    for args in [
        &["gzip", "-kv", NAME][..],
        &["gzip", "-l", &gz],
        &["gzip", "-tv", &gz],
        &["gzip", "-d", NAME],
        &["zstd", "-kv", NAME],
        &["zstd", "-l", &zst],
        &["zstd", "-lv", &zst],
        &["zstd", "-d", NAME],
        &["sort", "-c", NAME],
    ] {
        is_harmless(&on_terminal(dir, args));
    }
    // A program that reads a list gets the name unchanged, as from gzip.
    let listed = run(Command::new(DIO).args(["gzip", "-l", &gz]).current_dir(dir));
    assert!(listed.stdout.contains(NAME), "{listed:?}");
}

#[test]
fn own_listings_quote_names_wherever_they_go() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    let target = format!("t{NAME}");
    fs::create_dir(dir.join(&target)).unwrap();
    fs::create_dir(dir.join("d")).unwrap();
    fs::write(dir.join(NAME), "x").unwrap();
    let dio = |args: &[&str]| run(Command::new(DIO).args(args).current_dir(dir));
    let striped = format!("s{NAME}");
    for file in [&striped, "d"] {
        let set = dio(&["stripe", "set", "-t", &target, file]);
        assert!(set.status.success(), "{set:?}");
    }
    let harmless = |args: &[&str]| {
        let output = dio(args);
        is_harmless(&format!("{}{}", output.stdout, output.stderr));
    };
    for args in [
        &["stripe", "show", &striped, "d"][..],
        &["stripe", "show", NAME],
        &["stripe", "check", &striped],
        &["probe", NAME],
        &["probe", &striped],
        &["probe", &format!("none{NAME}")],
        &["cache", NAME],
        &["cache", &format!("none{NAME}")],
        &["synctest", "--check", "--record", NAME, "none"],
        &["cp", NAME, &format!("none{NAME}/x")],
        &["sum", &format!("none{NAME}")],
        &["md5sum", "--check", NAME],
    ] {
        harmless(args);
    }
    fs::remove_file(dir.join(&striped)).unwrap();
    harmless(&["stripe", "orphans", "--heads", ".", &target]);
    harmless(&["stripe", "orphans", &format!("none{NAME}")]);
    // Programs get the name unchanged.
    let json = dio(&["cache", "--json", NAME]);
    let found: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert!(found.to_string().contains("a\\u001b[2J"), "{found}");
}

/// `md5sum` and the other digest tools print the same as GNU's.
#[test]
fn digests_escape_what_gnu_escapes() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    for (number, name) in
        [NAME, "line\nfeed", "return\r", "back\\slash", "plain"].iter().enumerate()
    {
        fs::write(dir.join(name), [b'x'; 10]).unwrap();
        let text = |program: &mut Command| {
            let output = run(program.current_dir(dir).env("LC_ALL", "C.UTF-8"));
            (output.status.code(), output.stdout, output.stderr.replace("dio md5sum: ", "md5sum: "))
        };
        let list = format!("list{number}");
        let ours = text(Command::new(DIO).args(["md5sum", name]));
        assert_eq!(ours, text(Command::new("md5sum").arg(name)), "{name:?}");
        fs::write(dir.join(&list), ours.1).unwrap();
        for there in [true, false] {
            let ours = text(Command::new(DIO).args(["md5sum", "--check", &list]));
            assert_eq!(
                ours,
                text(Command::new("md5sum").args(["--check", &list])),
                "{name:?} {there}"
            );
            if there {
                fs::remove_file(dir.join(name)).unwrap();
            }
        }
    }
}
