//! Proves that `dio self links` makes, shows and removes its own links, and nothing else.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

const DIO: &str = env!("CARGO_BIN_EXE_dio");

fn links(args: &[&str], dir: &Path, tools: &[&str]) -> Output {
    let mut command = Command::new(DIO);
    command.args(["self", "links"]).args(args).arg(dir).args(tools).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn errors(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn links_are_the_tools_of_their_names_and_go_again() {
    let dir = tempfile::tempdir().unwrap();
    let made = links(&[], dir.path(), &[]);
    assert!(made.status.success(), "{made:?}");
    let names: Vec<String> = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(out(&made).lines().count(), names.len());
    for name in ["cat", "cp", "dd", "sha256sum", "sum", "tar", "gunzip", "zstdcat"] {
        assert!(names.iter().any(|found| found == name), "{name}: {names:?}");
        assert_eq!(fs::canonicalize(dir.path().join(name)).unwrap(), Path::new(DIO));
    }
    let file = dir.path().join("file");
    fs::write(&file, "abc").unwrap();
    let summed = Command::new(dir.path().join("sha256sum")).arg(&file).output().unwrap();
    let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(out(&summed), format!("{digest}  {}\n", file.display()));

    let again = links(&[], dir.path(), &[]);
    assert!(again.status.success(), "{again:?}");
    assert_eq!(out(&again), out(&made));
    assert_eq!(out(&links(&["--list"], dir.path(), &[])), out(&made));

    let removed = links(&["--remove"], dir.path(), &["cat", "tar"]);
    assert_eq!(out(&removed).lines().count(), 2, "{removed:?}");
    let listed = links(&["--list"], dir.path(), &["cat", "cp"]);
    let lines = out(&listed);
    assert!(lines.lines().next().unwrap().ends_with("/cat: no link"), "{lines}");
    assert!(lines.lines().nth(1).unwrap().contains("/cp -> "), "{lines}");

    assert!(links(&["--remove"], dir.path(), &[]).status.success());
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["file"]);
}

#[test]
fn what_is_no_link_of_its_own_is_never_replaced_or_removed() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("cp"), "a program").unwrap();
    symlink("/bin/true", at("cat")).unwrap();
    symlink("nowhere", at("dd")).unwrap();
    fs::create_dir(at("tar")).unwrap();
    let made = links(&[], dir.path(), &[]);
    assert_eq!(made.status.code(), Some(1));
    let said = errors(&made);
    assert_eq!(said.lines().count(), 4, "{said}");
    for (name, what) in [
        (
            "cp",
            "it is no link of dio's, and is left as it is; remove it, or take another directory",
        ),
        ("cat", "it is a link to '/bin/true', not to this program, and is left as it is"),
        ("dd", "it is a link to 'nowhere', not to this program"),
        ("tar", "it is no link of dio's"),
    ] {
        assert!(said.contains(&format!("/{name}: {what}")), "{name}: {said}");
    }
    // The others were made.
    assert_eq!(fs::canonicalize(at("sha256sum")).unwrap(), Path::new(DIO));
    let listed = out(&links(&["--list"], dir.path(), &["cp", "cat"]));
    assert!(listed.contains("/cp: no link of dio's\n"), "{listed}");
    assert!(listed.contains("/cat: a link to /bin/true, not to this program\n"), "{listed}");

    assert!(links(&["--remove"], dir.path(), &[]).status.success());
    assert_eq!(fs::read_to_string(at("cp")).unwrap(), "a program");
    assert_eq!(fs::read_link(at("cat")).unwrap(), Path::new("/bin/true"));
    assert_eq!(fs::read_link(at("dd")).unwrap(), Path::new("nowhere"));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 4);
}

#[test]
fn wrong_directories_and_names_are_told_with_the_cure() {
    let dir = tempfile::tempdir().unwrap();
    let missing = links(&[], &dir.path().join("none"), &[]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(errors(&missing).ends_with("/none: No such file or directory; make it first\n"));
    fs::write(dir.path().join("file"), "").unwrap();
    let file = links(&[], &dir.path().join("file"), &[]);
    assert!(errors(&file).ends_with("/file: Not a directory\n"), "{file:?}");
    let unknown = links(&[], dir.path(), &["cat", "ls"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(errors(&unknown).contains("'ls': dio is no tool of that name; it is cp cat dd"));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn links_can_lead_to_where_the_program_will_be() {
    let dir = tempfile::tempdir().unwrap();
    let later = dir.path().join("opt/bin/dio");
    let program = format!("--program={}", later.display());
    assert!(links(&[&program], dir.path(), &["cat"]).status.success());
    assert_eq!(fs::read_link(dir.path().join("cat")).unwrap(), later);
    // To the program that runs, it is no link of its own until that is the same.
    let other = links(&[], dir.path(), &["cat"]);
    assert!(errors(&other).contains("not to this program"), "{other:?}");
    assert!(links(&["--remove", &program], dir.path(), &["cat"]).status.success());
    assert!(!dir.path().join("cat").is_symlink());
}
