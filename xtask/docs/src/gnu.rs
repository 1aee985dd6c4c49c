//! Compares the options that docs/gnu documents for each tool with the options that the tools have.

use std::collections::BTreeSet;
use std::fs;

use clap::{Arg, Command};

use crate::{Error, root};

/// Directory of the documents, relative to the root.
const GNU: &str = "docs/gnu";

/// The errors in the documents, one line each.
pub(super) fn differences(command: &Command) -> Result<Vec<String>, Error> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join(GNU))? {
        let path = entry?.path();
        let tool = path
            .file_stem()
            .and_then(|name| name.to_str())
            .ok_or("a name is not UTF-8")?
            .to_owned();
        let text = fs::read_to_string(&path)?;
        let wrong = compare(command, &tool, &text);
        found.extend(wrong.into_iter().map(|what| format!("{GNU}/{tool}.md: {what}")));
    }
    found.sort();
    Ok(found)
}

/// Compares the document of a tool with the options that commands have.
fn compare(command: &Command, tool: &str, text: &str) -> Vec<String> {
    let options = |name: &str| {
        command.find_subcommand(name).map(|found| found.get_arguments().collect::<Vec<_>>())
    };
    let (mut wrong, mut columns): (_, Vec<Option<String>>) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let Some(row) = line.strip_prefix('|').and_then(|line| line.strip_suffix('|')) else {
            columns.clear();
            continue;
        };
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        if cells[0] == "option" {
            // A column is about the tool that it names, or else about the tool of the document.
            let about = |cell: &&str| match *cell {
                "supported" => Some(tool.to_owned()),
                cell => cell
                    .strip_prefix('`')
                    .and_then(|name| name.strip_suffix('`'))
                    .map(str::to_owned),
            };
            columns = cells.iter().skip(1).map(about).collect();
            continue;
        }
        // Other rows are not about options.
        if !cells[0].starts_with("`-") {
            continue;
        }
        for (column, cell) in columns.iter().zip(&cells[1..]) {
            let Some(arguments) = column.as_deref().and_then(options) else { continue };
            let wanted = match *cell {
                "no" | "–" => false,
                "yes" | "accepted" | "partly" | "dio's own" => true,
                _ => continue,
            };
            for option in options_in(cells[0]) {
                // A hidden option may exist only to be refused.
                let is_there =
                    arguments.iter().any(|arg| has(arg, &option) && (wanted || !arg.is_hide_set()));
                if is_there != wanted {
                    let what = if wanted { "is no option" } else { "is an option" };
                    wrong.push(format!(
                        "{option} {what} of {}",
                        column.as_deref().unwrap_or_default()
                    ));
                }
            }
        }
    }
    let told: BTreeSet<String> = options_in(text).collect();
    let shown = options(tool)
        .unwrap_or_default()
        .into_iter()
        .filter(|arg| !arg.is_positional() && !arg.is_hide_set());
    let missing = shown.filter(|arg| !told.iter().any(|option| has(arg, option)));
    wrong.extend(missing.map(|arg| format!("{} is not told", name(arg))));
    wrong
}

/// The name of an option, the long one if it has one.
fn name(arg: &Arg) -> String {
    let short = || arg.get_short().map(|letter| format!("-{letter}")).unwrap_or_default();
    arg.get_long().map_or_else(short, |long| format!("--{long}"))
}

/// Whether an option has that name.
fn has(arg: &Arg, option: &str) -> bool {
    match option.strip_prefix("--") {
        Some(long) => {
            arg.get_long() == Some(long)
                || arg.get_all_aliases().is_some_and(|aliases| aliases.contains(&long))
        }
        None => {
            let letter = option.chars().nth(1).unwrap_or('-');
            arg.get_short() == Some(letter)
                || arg.get_all_short_aliases().is_some_and(|letters| letters.contains(&letter))
        }
    }
}

/// The options in a text, `-x` and `--name`, each from its own pair of backticks, without the value
/// behind the name. Two forms are left out: an option with a value in small letters (`-a sha2`),
/// which is one use of it, and `-NUMBER`, which stands for digits.
fn options_in(text: &str) -> impl Iterator<Item = String> {
    let spans = text.split('`').skip(1).step_by(2);
    let is_use = |span: &str| {
        span.split(' ')
            .nth(1)
            .is_some_and(|word| word.starts_with(|c: char| c.is_ascii_lowercase()))
    };
    spans.filter(move |span| !is_use(span) && *span != "-NUMBER").filter_map(|span| {
        let dashes = span.bytes().take_while(|byte| *byte == b'-').count();
        let name: String =
            span[dashes..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
        match dashes {
            1 => Some(format!("-{}", name.chars().next()?)),
            2 if !name.is_empty() => Some(format!("--{name}")),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_tell_what_the_tables_have() {
        let wrong = differences(&dio_cli::cli::command()).unwrap();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn every_difference_is_found() {
        let arg = |name: &'static str| Arg::new(name).long(name).action(clap::ArgAction::SetTrue);
        let tool = Command::new("tool")
            .arg(arg("one").short('o').alias("uno"))
            .arg(arg("two"))
            .arg(arg("three").hide(true));
        let command = Command::new("dio").subcommand(tool);
        let right = "| option | supported |\n|---|---|\n| `-o`, `--one[=X]`, `--uno` | yes |\n| \
                     `--two` | accepted |\n| `-q` | no |";
        assert_eq!(compare(&command, "tool", right), [""; 0]);
        let wrong = "| option | supported |\n|---|---|\n| `-o N` | no |\n| `--four` | yes |\n";
        let told = ["-o is an option of tool", "--four is no option of tool", "--two is not told"];
        assert_eq!(compare(&command, "tool", wrong), told);
    }
}
