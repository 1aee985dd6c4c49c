//! Runs the commands that README.md, docs/tour.md and docs/install.md show.
//!
//! A block of kind `console` directly after the comment `<!-- test -->` is run: each line that
//! begins with `$ ` is one shell command, continued on the next line after a backslash. All
//! commands run in one empty directory, in order, with the `dio` of this build first in the search
//! path.

#![cfg(test)]

use std::path::PathBuf;

use crate::tool::{TESTED_DIO, cargo, root, tool};

const MARK: &str = "<!-- test -->";

/// The marked commands, each with the number of its line from 1.
fn commands(markdown: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let (mut marked, mut inside, mut continued) = (false, false, false);
    for (number, line) in markdown.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            inside = !inside && marked && line.trim() == "```console";
            (marked, continued) = (false, false);
        } else if inside && continued {
            let (_, command) = found.last_mut().expect("a command is continued");
            command.push('\n');
            command.push_str(line);
            continued = line.ends_with('\\');
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| inside) {
            found.push((number + 1, command.to_owned()));
            continued = command.ends_with('\\');
        } else if !inside && !line.trim().is_empty() {
            marked = line.trim() == MARK;
        }
    }
    found
}

/// Builds the `dio` of the profile these tests were built with, and returns its directory.
fn built_dio() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    // target/PROFILE/deps/xtask-HASH
    let profile = test.ancestors().nth(2).expect("tests lie in target/PROFILE/deps");
    let target = profile.parent().expect("a profile lies in the target directory");
    let mut build = cargo();
    build.args(["build", "--quiet"]).args(TESTED_DIO);
    build.args(profile.ends_with("release").then_some("--release"));
    let status = build.arg("--target-dir").arg(target).status().expect("cargo runs");
    assert!(status.success(), "dio cannot be built");
    assert!(profile.join("dio").is_file(), "no dio in {}", profile.display());
    profile.to_path_buf()
}

/// Runs the marked commands of a document.
#[track_caller]
fn succeed(document: &str) {
    let markdown = std::fs::read_to_string(root().join(document)).expect("the document is there");
    let commands = commands(&markdown);
    assert!(!commands.is_empty(), "{document} has no console block after {MARK}");
    let dir =
        tempfile::tempdir_in(std::env::var_os("DIO_TEST_DIR").unwrap_or_else(|| "/var/tmp".into()))
            .unwrap();
    let old = std::env::var_os("PATH").unwrap_or_default();
    let path =
        std::env::join_paths(std::iter::once(built_dio()).chain(std::env::split_paths(&old)))
            .unwrap();
    for (line, command) in commands {
        let out = tool("sh")
            .args(["-ec", &command])
            .current_dir(dir.path())
            .env("PATH", &path)
            .output()
            .unwrap();
        assert!(
            out.status.success(),
            "{document}:{line}: `{command}`: {}\n{}{}",
            out.status,
            String::from_utf8_lossy(&out.stdout),
            String::from_utf8_lossy(&out.stderr),
        );
    }
}

#[test]
fn commands_of_the_readme_succeed() {
    succeed("README.md");
}

#[test]
fn commands_of_the_tour_succeed() {
    succeed("docs/tour.md");
}

#[test]
fn commands_of_the_installation_succeed() {
    succeed("docs/install.md");
}

/// A long front page is not read.
#[test]
fn the_readme_is_short() {
    let lines = std::fs::read_to_string(root().join("README.md")).unwrap().lines().count();
    assert!(lines < 120, "README.md has {lines} lines");
}

#[test]
fn only_marked_blocks_are_read() {
    let markdown = "# dio\n```console\n$ not marked\n```\n<!-- test -->\n\n```console\n$ \
                    one\noutput\n$ two \\\n  more\n  not a command\n```\n<!-- test -->\ntext \
                    between\n```console\n$ no\n```\n<!-- test -->\n```sh\n$ no\n```\n<!-- test \
                    -->\n```console\n$ three\n```\n";
    let found = commands(markdown);
    let expected = [(8, "one"), (10, "two \\\n  more"), (25, "three")];
    assert_eq!(found, expected.map(|(n, c)| (n, c.to_owned())));
}

#[test]
fn the_built_dio_is_found() {
    assert!(built_dio().join("dio").is_file());
}
