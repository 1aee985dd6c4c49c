//! Generates man pages and shell completions from the definitions of the flags, and compares
//! docs/gnu with these definitions: `cargo xtask docs [--check]`.

mod gnu;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::Resettable;
use clap::{Arg, Command, Id};
use clap_complete::Shell;

/// The error of a chore: a message for the user.
type Error = Box<dyn std::error::Error>;

/// Directories of the generated documents, relative to the root.
const MAN: &str = "docs/man";
const COMPLETIONS: &str = "docs/completions";

/// Contents of files by their path relative to the root.
type Files = BTreeMap<PathBuf, Vec<u8>>;

fn main() -> ExitCode {
    match docs(std::env::args_os().skip(1).any(|arg| arg == "--check")) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the workspace.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("this package lies below xtask")
}

/// Writes the documents, or only compares them if `check` is true. Returns whether they were up to
/// date.
fn docs(check: bool) -> Result<bool, Error> {
    let wanted = generate()?;
    let changes = changes(&wanted, &tracked(root())?);
    for (path, change) in &changes {
        println!("docs: {}: {change}", path.display());
        if check {
            continue;
        }
        let target = root().join(path);
        match wanted.get(path) {
            Some(content) => {
                fs::create_dir_all(target.parent().expect("a file lies in a directory"))?;
                fs::write(&target, content)?;
            }
            None => fs::remove_file(&target)?,
        }
    }
    if check && !changes.is_empty() {
        println!("docs: run `cargo xtask docs`");
    }
    let differences = gnu::differences(&dio_cli::cli::command())?;
    differences.iter().for_each(|difference| println!("docs: {difference}"));
    Ok(differences.is_empty() && (!check || changes.is_empty()))
}

/// One man page for each subcommand, and the completions of three shells.
fn generate() -> Result<Files, Error> {
    let dir = tempfile::tempdir()?;
    let (man, completions) = (dir.path().join(MAN), dir.path().join(COMPLETIONS));
    fs::create_dir_all(&man)?;
    fs::create_dir_all(&completions)?;
    clap_mangen::generate_to(dio_cli::cli::command(), &man)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(
            shell,
            &mut visible(dio_cli::cli::command()),
            "dio",
            &completions,
        )?;
    }
    tracked(dir.path())
}

/// The command line as help shows it. Without this, the shells' files would offer hidden arguments
/// too (`clap_complete` leaves out only hidden values). Requirements between arguments are left
/// out, because nothing is parsed with it.
fn visible(mut command: Command) -> Command {
    command.build();
    visible_part(&command)
}

fn visible_part(command: &Command) -> Command {
    let hidden = |arg: &Arg| arg.is_hide_set();
    let args = command.get_arguments().filter(|arg| !hidden(arg)).map(|arg| {
        let none = || Resettable::<Id>::Reset;
        let alone = arg.clone().conflicts_with(none()).overrides_with(none()).requires(none());
        let conflicts =
            command.get_arg_conflicts_with(arg).into_iter().filter(|other| !hidden(other));
        conflicts.fold(alone, |arg, other| arg.conflicts_with(other.get_id().clone()))
    });
    let below = command
        .get_subcommands()
        .filter(|below| !below.is_hide_set() && below.get_name() != "help");
    // A command needs a name that lives forever; there are only some dozens.
    let name: &'static str = command.get_name().to_owned().leak();
    let mut part = Command::new(name).version(env!("CARGO_PKG_VERSION"));
    if let Some(about) = command.get_about() {
        part = part.about(about.clone());
    }
    // Arguments that building has added are among the arguments already.
    part.disable_help_flag(true)
        .disable_version_flag(true)
        .args(args)
        .subcommands(below.map(visible_part))
}

/// The documents that exist below `base`.
fn tracked(base: &Path) -> Result<Files, Error> {
    let mut files = Files::new();
    for place in [MAN, COMPLETIONS] {
        let Ok(entries) = fs::read_dir(base.join(place)) else {
            continue;
        };
        for entry in entries {
            let entry = entry?;
            files.insert(Path::new(place).join(entry.file_name()), fs::read(entry.path())?);
        }
    }
    Ok(files)
}

/// The changes that turn the files `there` into the files `wanted`.
fn changes(wanted: &Files, there: &Files) -> BTreeMap<PathBuf, &'static str> {
    let mut changes = BTreeMap::new();
    for (path, content) in wanted {
        match there.get(path) {
            None => changes.insert(path.clone(), "missing"),
            Some(old) if old != content => changes.insert(path.clone(), "out of date"),
            Some(_) => None,
        };
    }
    for path in there.keys().filter(|p| !wanted.contains_key(*p)) {
        changes.insert(path.clone(), "belongs to no command");
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tracked_documents_are_those_generated() {
        let changes = changes(&generate().unwrap(), &tracked(root()).unwrap());
        assert!(changes.is_empty(), "run `cargo xtask docs`: {changes:?}");
    }

    /// Every command that help shows has a page, and the shells' files exist.
    #[test]
    fn each_command_has_a_page() {
        fn pages(command: &clap::Command, name: &str, found: &mut Vec<PathBuf>) {
            found.push(Path::new(MAN).join(format!("{name}.1")));
            for sub in command.get_subcommands().filter(|s| !s.is_hide_set()) {
                if sub.get_name() != "help" {
                    pages(sub, &format!("{name}-{}", sub.get_name()), found);
                }
            }
        }
        let mut expected = Vec::new();
        pages(&dio_cli::cli::command(), "dio", &mut expected);
        expected.extend(["dio.bash", "_dio", "dio.fish"].map(|n| Path::new(COMPLETIONS).join(n)));
        let generated = generate().unwrap();
        for path in expected {
            assert!(generated.get(&path).is_some_and(|c| !c.is_empty()), "{}", path.display());
        }
    }

    /// Completion does not offer flags that help hides.
    #[test]
    fn hidden_flags_are_not_completed() {
        fn hidden(command: &Command, flags: &mut Vec<String>, shown: &mut Vec<String>) {
            for arg in command.get_arguments() {
                let list = if arg.is_hide_set() { &mut *flags } else { &mut *shown };
                list.extend(arg.get_long().map(str::to_owned));
            }
            command.get_subcommands().for_each(|below| hidden(below, flags, shown));
        }
        let (mut flags, mut shown) = (vec!["run-server".to_owned()], Vec::new());
        hidden(&dio_cli::cli::command(), &mut flags, &mut shown);
        // Some of them are also flags of another command that does not hide them.
        flags.retain(|flag| !shown.contains(flag));
        assert!(flags.len() > 10, "{flags:?}");
        let generated = generate().unwrap();
        for shell in ["dio.bash", "_dio", "dio.fish"] {
            let text =
                String::from_utf8(generated[&Path::new(COMPLETIONS).join(shell)].clone()).unwrap();
            let words: Vec<&str> =
                text.split(|c: char| !c.is_alphanumeric() && c != '-' && c != '_').collect();
            let offered = |flag: &&String| {
                let forms = [format!("--{flag}"), "run-server".to_owned()];
                let fish = shell == "dio.fish"
                    && text.contains(&format!("-l {flag} "))
                    && !shown.contains(flag);
                fish || words.iter().any(|word| *word == forms[0] || *word == forms[1])
            };
            let found: Vec<_> = flags.iter().filter(offered).collect();
            assert!(found.is_empty(), "{shell}: {found:?}");
            assert!(words.contains(&"foreground") || words.contains(&"--foreground"), "{shell}");
        }
    }

    #[test]
    fn every_difference_is_found() {
        let files = |list: &[(&str, &str)]| -> Files {
            list.iter().map(|(p, c)| (PathBuf::from(p), c.as_bytes().to_vec())).collect()
        };
        let wanted = files(&[("a", "1"), ("b", "2"), ("c", "3")]);
        let there = files(&[("a", "1"), ("b", "x"), ("d", "4")]);
        let found = changes(&wanted, &there);
        let found: Vec<_> = found.iter().map(|(p, c)| (p.to_str().unwrap(), *c)).collect();
        assert_eq!(found, [("b", "out of date"), ("c", "missing"), ("d", "belongs to no command")]);
    }
}
