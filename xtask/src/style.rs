//! The rules of style that a program can check. Each violation names the replacement.

mod imports;
mod named_files;
mod paths;
mod raw_names;
mod source;

use std::fs;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::tool::{root, tool};
use source::SourceFile;

/// Longest source file, lines.
const FILE_LINES: usize = 600;
/// Longest line, in characters. Tables in comments are exempt, because they cannot be wrapped, and
/// lines with a literal, because breaking it may make it harder to read. rustfmt wraps the rest,
/// except within macros and attributes.
const COLUMNS: usize = 100;
/// Longest function from its `fn` to its closing brace, lines.
const FUNCTION_LINES: usize = 75;

/// The part of a file in which a pattern is searched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SearchedPart {
    /// Rust code without comments and strings.
    Code,
    /// The same, without tests.
    Production,
    /// Every byte of every tracked text file.
    Text,
}

/// A pattern that must not be written.
struct Rule {
    /// The literal pattern. If it begins or ends with a letter, the word must begin or end there
    /// too.
    pattern: &'static str,
    within: SearchedPart,
    /// The rule applies only to paths with one of these beginnings; if there is none, to all paths.
    only: &'static [&'static str],
    /// Paths with one of these beginnings may contain it.
    allowed: &'static [&'static str],
    /// The replacement.
    instead: &'static str,
}

const RULES: &[Rule] = &[
    Rule {
        pattern: "unsafe",
        within: SearchedPart::Code,
        only: &[],
        allowed: &[
            // Every pointer comes from C.
            "bindings/c/src",
            "crates/dio-sys/src",
            "crates/dio/src/block",
            "crates/dio/src/engine/uring",
            "crates/dio-cli/src/main.rs",
            // Memory that Python objects lend and that is lent to them has no safe form.
            "bindings/python/src/buffer.rs",
            "bindings/python/src/dlpack.rs",
            "bindings/python/src/interpreter.rs",
            "bindings/python/src/memory.rs",
        ],
        instead: "rustix, or a safe wrapper in dio-sys, dio::block or dio::engine::uring",
    },
    Rule {
        pattern: "fs::copy",
        within: SearchedPart::Production,
        only: &[],
        allowed: &[],
        instead: "dio's own copy, dio::transfer",
    },
    Rule {
        pattern: ".unwrap()",
        within: SearchedPart::Production,
        only: &[],
        allowed: &[],
        instead: "return the error, or expect(\"why it cannot happen\")",
    },
    Rule {
        pattern: "fn align_up",
        within: SearchedPart::Code,
        only: &[],
        allowed: &["crates/dio/src/geometry.rs"],
        instead: "dio::geometry::align_up",
    },
    Rule {
        pattern: "fn align_down",
        within: SearchedPart::Code,
        only: &[],
        allowed: &["crates/dio/src/geometry.rs"],
        instead: "dio::geometry::align_down",
    },
    Rule {
        pattern: "println!",
        within: SearchedPart::Production,
        only: &["crates/dio/"],
        allowed: &[],
        instead: "return it: only the command line prints",
    },
    Rule {
        pattern: "eprintln!",
        within: SearchedPart::Production,
        only: &["crates/dio/"],
        // The message before an abort, and the seed of a simulation that failed, cannot be returned
        // to a caller.
        allowed: &["crates/dio/src/block/mem.rs", "crates/dio/src/engine/sim"],
        instead: "return an error: only the command line prints",
    },
    Rule {
        pattern: "process::exit",
        within: SearchedPart::Production,
        only: &["crates/dio/"],
        allowed: &[],
        instead: "return an error: only the command line exits",
    },
    Rule {
        pattern: ".set_len(",
        within: SearchedPart::Production,
        only: &["crates/dio-cli/src/", "crates/dio-mount/src/"],
        // This truncates a temporary file that becomes the output.
        allowed: &["crates/dio-cli/src/tool/target/mod.rs"],
        instead: "dio::names::ftruncate, which knows striped files",
    },
    Rule {
        // Written in two parts, so that this file does not break the rule itself.
        pattern: concat!("\"/proc/self", "/fd"),
        within: SearchedPart::Text,
        only: &[
            "crates/dio/src",
            "crates/dio-advise/src",
            "crates/dio-bench/src",
            "crates/dio-cli/src",
            "crates/dio-common/src",
            "crates/dio-fuse/src",
            "crates/dio-mount/src",
            "crates/dio-stripe/src",
            "crates/dio-wal/src",
        ],
        // These files list the directory, compare a path with it, or keep it open in case that a
        // mount covers /proc.
        allowed: &[
            "crates/dio-cli/src/tool/descriptors.rs",
            "crates/dio-cli/src/tool/target/mod.rs",
            "crates/dio-mount/src/names/mounts.rs",
            "crates/dio/src/stripe/defaults.rs",
        ],
        instead: "dio_sys::fd_path, or dio_sys::reopen",
    },
    Rule {
        // Written in two parts, so that this file does not break the rule itself.
        pattern: concat!("Poison", "Error"),
        within: SearchedPart::Text,
        only: &["crates/", "fuzz/src/", "xtask/"],
        allowed: &["crates/dio-wal/src/sync.rs"],
        instead: "a lock of parking_lot, which no panic poisons",
    },
    Rule {
        pattern: ".lock().unwrap()",
        within: SearchedPart::Code,
        only: &["crates/", "fuzz/src/", "xtask/"],
        allowed: &[],
        instead: "a lock of parking_lot, which no panic poisons",
    },
    Rule {
        pattern: ".lock().expect(",
        within: SearchedPart::Code,
        only: &["crates/", "fuzz/src/", "xtask/"],
        allowed: &[],
        instead: "a lock of parking_lot, which no panic poisons",
    },
    Rule {
        pattern: "retry_on_intr",
        within: SearchedPart::Code,
        only: &[],
        allowed: &[],
        instead: "dio_sys::uninterrupted",
    },
    Rule {
        pattern: "Err(Errno::INTR) =>",
        within: SearchedPart::Production,
        only: &["crates/"],
        // These wait only for the rest of the time, or check first whether to stop.
        allowed: &[
            "crates/dio-cli/src/commands/compress/ask.rs",
            "crates/dio-cli/src/commands/cp/data/plain.rs",
            "crates/dio/src/stream/pipe.rs",
        ],
        instead: "dio_sys::uninterrupted",
    },
    Rule {
        pattern: "ErrorKind::Interrupted =>",
        within: SearchedPart::Production,
        only: &["crates/"],
        // One checks first whether to stop, one treats all errors alike.
        allowed: &[
            "crates/dio-cli/src/commands/tar/append.rs",
            "crates/dio-sys/src/fuse_ring.rs",
            "crates/dio-test/",
        ],
        instead: "dio_sys::uninterrupted",
    },
    // Written in two parts, so that this file does not break the rule itself.
    Rule {
        pattern: concat!("/wo", "rk/"),
        within: SearchedPart::Text,
        only: &[],
        allowed: &[],
        instead: "a path relative to the workspace, or a temporary directory",
    },
    Rule {
        pattern: concat!("/ro", "ot/"),
        within: SearchedPart::Text,
        only: &[],
        allowed: &[],
        instead: "a path relative to the workspace, or $HOME",
    },
];

/// Prints every violation in the tracked files. Returns whether there is none.
pub(crate) fn report() -> Result<bool, Error> {
    let found = check_workspace()?;
    found.iter().for_each(|v| println!("{v}"));
    println!("style: {} violations", found.len());
    Ok(found.is_empty())
}

fn check_workspace() -> Result<Vec<String>, Error> {
    let mut found = Vec::new();
    let files = tracked_files()?;
    check_programs(
        &files,
        &|path| fs::read_to_string(root().join(path)).unwrap_or_default(),
        &mut found,
    );
    let document = fs::read_to_string(root().join(imports::DOCUMENT))?;
    named_files::check(&document, &files, &mut found);
    let mut sources = Vec::new();
    for path in files {
        // A file that was deleted but is still tracked, or is not text, is not checked.
        if let Ok(text) = fs::read_to_string(root().join(&path)) {
            let path = path.to_str().ok_or("a path is not UTF-8")?;
            check_file(path, &text, &mut found);
            if path.ends_with(".rs") {
                sources.push((path.to_owned(), text));
            }
        }
    }
    imports::check(&document, &sources, &mut found);
    raw_names::check(&sources, &mut found);
    Ok(found)
}

/// Tracked files and files that are not ignored, relative to the root. Without git: all files
/// except those in `target`.
fn tracked_files() -> Result<Vec<PathBuf>, Error> {
    // git would refuse to read a checkout that belongs to another user.
    let listed = tool("git")
        .args(["-c", "safe.directory=*", "ls-files", "-z", "-co", "--exclude-standard"])
        .output();
    if let Ok(out) = listed
        && out.status.success()
    {
        let names = String::from_utf8(out.stdout)?;
        return Ok(names.split('\0').filter(|n| !n.is_empty()).map(PathBuf::from).collect());
    }
    let mut files = Vec::new();
    walk(Path::new(""), &mut files)?;
    Ok(files)
}

fn walk(dir: &Path, files: &mut Vec<PathBuf>) -> Result<(), Error> {
    for entry in fs::read_dir(root().join(dir))? {
        let entry = entry?;
        let path = dir.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_file() {
            files.push(path);
        } else if kind.is_dir() && entry.file_name() != "target" && entry.file_name() != ".git" {
            walk(&path, files)?;
        }
    }
    Ok(())
}

/// Appends the violations of one file; `path` is relative to the root.
fn check_file(path: &str, text: &str, found: &mut Vec<String>) {
    let rules = RULES.iter().filter(|r| {
        let begins = |list: &[&str]| list.iter().any(|p| path.starts_with(p));
        (r.only.is_empty() || begins(r.only)) && !begins(r.allowed)
    });
    let source = path.ends_with(".rs").then(|| SourceFile::new(path, text));
    for rule in rules {
        let mut report = |line: usize| {
            let Rule { pattern, instead, .. } = rule;
            found.push(format!("{path}:{}: `{pattern}`: use {instead}", line + 1));
        };
        match (&source, rule.within) {
            (_, SearchedPart::Text) => matching(text.lines(), rule.pattern).for_each(&mut report),
            (Some(source), within) => matching(source.code.lines(), rule.pattern)
                .filter(|line| within == SearchedPart::Code || !source.is_test(*line))
                .for_each(&mut report),
            (None, _) => {}
        }
    }
    if let Some(source) = source {
        check_lengths(path, &source, found);
        check_columns(path, text, &source, found);
    }
    if path.ends_with(".py") || path.ends_with(".pyi") {
        let is_long = |line: &str| line.chars().count() > COLUMNS;
        let long = text.lines().enumerate().filter(|(_, line)| is_long(line));
        found.extend(long.map(|(number, _)| beyond(path, number, "a line")));
    }
}

fn beyond(path: &str, number: usize, what: &str) -> String {
    format!("{path}:{}: {what} beyond column {COLUMNS}: wrap it", number + 1)
}

/// Appends the lines that are longer than [`COLUMNS`].
fn check_columns(path: &str, text: &str, source: &SourceFile, found: &mut Vec<String>) {
    for (number, (line, code)) in text.lines().zip(source.code.lines()).enumerate() {
        let (what, is_exempt) = match line.trim_start().strip_prefix("//") {
            Some(text) => {
                let text = text.trim_start_matches(['/', '!']).trim_start();
                ("a comment", text.starts_with('|'))
            }
            None => ("a line", line != code),
        };
        if line.chars().count() > COLUMNS && !is_exempt {
            found.push(beyond(path, number, what));
        }
    }
}

/// Appends test files that belong to no test program, in packages where cargo does not find tests
/// by itself: such tests would never run.
fn check_programs(files: &[PathBuf], read: &dyn Fn(&Path) -> String, found: &mut Vec<String>) {
    for manifest in files.iter().filter(|path| path.ends_with("Cargo.toml")) {
        let text = read(manifest);
        if !contains(&text, "autotests = false") {
            continue;
        }
        let tests = manifest.with_file_name("tests");
        let own = |path: &&PathBuf| {
            path.parent() == Some(&tests) && path.extension().is_some_and(|end| end == "rs")
        };
        let all: Vec<(&PathBuf, String)> =
            files.iter().filter(own).map(|path| (path, read(path))).collect();
        for (path, _) in &all {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            let contained =
                all.iter().any(|(_, text)| text.lines().any(|line| line == format!("mod {stem};")));
            if !contained && !text.contains(&format!("\"tests/{stem}.rs\"")) {
                found.push(format!(
                    "{}: in no program of tests: name it in one beside it",
                    path.display()
                ));
            }
        }
    }
}

fn check_lengths(path: &str, source: &SourceFile, found: &mut Vec<String>) {
    let lines = source.code.lines().count();
    if lines > FILE_LINES {
        found.push(format!(
            "{path}: {lines} lines, more than {FILE_LINES}: move one subject to a file of its own"
        ));
    }
    for function in source.functions() {
        if function.lines > FUNCTION_LINES {
            found.push(format!(
                "{path}:{}: {} lines in one function, more than {FUNCTION_LINES}: give its steps \
                 names and functions of their own",
                function.first + 1,
                function.lines,
            ));
        }
    }
}

/// The numbers, from 0, of the lines that contain `pattern`.
fn matching<'a>(
    lines: impl Iterator<Item = &'a str> + 'a,
    pattern: &'a str,
) -> impl Iterator<Item = usize> + 'a {
    lines.enumerate().filter(move |(_, line)| contains(line, pattern)).map(|(number, _)| number)
}

/// Whether `line` contains `pattern`. Where the pattern begins or ends with a letter, only whole
/// words count.
fn contains(line: &str, pattern: &str) -> bool {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(pattern).any(|(at, _)| {
        let before = line[..at].chars().next_back().is_some_and(word);
        let after = line[at + pattern.len()..].chars().next().is_some_and(word);
        !(before && pattern.starts_with(word) || after && pattern.ends_with(word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(path: &str, text: &str) -> Vec<String> {
        let mut found = Vec::new();
        check_file(path, text, &mut found);
        found
    }

    #[test]
    fn the_workspace_follows_the_rules() {
        let found = check_workspace().unwrap();
        assert!(found.is_empty(), "\n{}\n", found.join("\n"));
    }

    #[test]
    fn the_workspace_is_looked_at() {
        let files = tracked_files().unwrap();
        assert!(files.contains(&PathBuf::from("xtask/src/style.rs")));
        assert!(!files.iter().any(|f| f.starts_with("target")));
        let mut walked = Vec::new();
        walk(Path::new(""), &mut walked).unwrap();
        assert!(walked.contains(&PathBuf::from("xtask/src/style.rs")));
    }

    #[test]
    fn tests_that_no_program_contains_are_told() {
        let texts = [
            ("a/Cargo.toml", "autotests = false\n[[test]]\npath = \"tests/one.rs\"\n"),
            ("a/tests/one.rs", "mod two;\n"),
            ("a/tests/two.rs", ""),
            ("a/tests/three.rs", "// mod four;\n"),
            ("b/Cargo.toml", "[package]\n"),
            ("b/tests/five.rs", ""),
        ];
        let files = texts.map(|(path, _)| PathBuf::from(path));
        let read = |path: &Path| {
            texts.iter().find(|(own, _)| Path::new(own) == path).unwrap().1.to_owned()
        };
        let mut found = Vec::new();
        check_programs(&files, &read, &mut found);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("a/tests/three.rs: "), "{found:?}");
    }

    #[test]
    fn a_violation_names_place_and_replacement() {
        let text = "fn f() {\n    std::fs::copy(a, b)\n}\n";
        assert_eq!(
            violations("crates/dio-cli/src/x.rs", text),
            [format!("crates/dio-cli/src/x.rs:2: `fs::copy`: use {}", RULES[1].instead)]
        );
    }

    #[test]
    fn unsafe_code_has_its_places() {
        let text = "fn f() { unsafe { g() } }\n";
        for allowed in [
            "dio/src/block.rs",
            "dio/src/block/pool.rs",
            "dio/src/engine/uring.rs",
            "dio-sys/src/inode.rs",
        ] {
            assert_eq!(violations(&format!("crates/{allowed}"), text), [""; 0]);
        }
        for denied in ["crates/dio/src/engine/sim.rs", "crates/dio-cli/src/sys.rs"] {
            assert_eq!(violations(denied, text).len(), 1, "{denied}");
        }
        let words = "#![deny(unsafe_code)]\n// unsafe\n/* unsafe */ const A: &str = \"unsafe\";\n";
        assert_eq!(violations("crates/dio/src/file.rs", words), [""; 0]);
    }

    #[test]
    fn tests_may_unwrap_and_others_may_not() {
        let text = "fn f() { g().unwrap(); }\n#[cfg(test)]\nmod tests {\n    fn t() {\n        \
                    g().unwrap();\n    }\n}\nfn h() { g().unwrap(); }\n";
        let found = violations("crates/dio/src/file.rs", text);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("crates/dio/src/file.rs:1:"));
        assert!(found[1].starts_with("crates/dio/src/file.rs:8:"));
        assert_eq!(violations("crates/dio/tests/file.rs", text), [""; 0]);
        assert_eq!(violations("crates/dio/src/file/tests.rs", text), [""; 0]);
    }

    #[test]
    fn rounding_is_defined_once() {
        let text = "pub fn align_up(a: u64) -> u64 {\n    a\n}\n";
        assert_eq!(violations("crates/dio/src/geometry.rs", text), [""; 0]);
        assert_eq!(violations("crates/dio/src/file.rs", text).len(), 1);
        assert_eq!(violations("crates/dio/src/file.rs", "fn align_upwards() {}\n"), [""; 0]);
    }

    #[test]
    fn the_library_does_not_print() {
        let text = "fn f() { eprintln!(\"x\"); }\n";
        assert_eq!(violations("crates/dio/src/file.rs", text).len(), 1);
        assert_eq!(violations("crates/dio-cli/src/file.rs", text), [""; 0]);
    }

    #[test]
    fn machine_paths_are_found_in_any_text() {
        let text = format!("see {} for it\n", RULES[RULES.len() - 1].pattern);
        assert_eq!(violations("README.md", &text).len(), 1);
        let text = format!("// {}x\n", RULES[RULES.len() - 2].pattern);
        assert_eq!(violations("crates/dio/src/file.rs", &text).len(), 1);
    }

    #[test]
    fn long_lines_are_found_and_tables_and_literals_are_not() {
        let comment = |length: usize| format!("    /// {}\n", "x".repeat(length - 8));
        assert_eq!(violations("a.rs", &comment(COLUMNS)), [""; 0]);
        let found = violations("a.rs", &comment(COLUMNS + 1));
        assert_eq!(found, ["a.rs:1: a comment beyond column 100: wrap it"]);
        let code = |length: usize| format!("m!({});\n", "x".repeat(length - 5));
        assert_eq!(violations("a.rs", &code(COLUMNS)), [""; 0]);
        let found = violations("a.rs", &code(COLUMNS + 1));
        assert_eq!(found, ["a.rs:1: a line beyond column 100: wrap it"]);
        assert_eq!(violations("a.rs", &format!("//! | {} |\n", "x".repeat(100))), [""; 0]);
        assert_eq!(
            violations("a.rs", &format!("const A: &str = \"// {}\";\n", "x".repeat(100))),
            [""; 0]
        );
        // Python can break any line.
        let text = |length: usize| format!("x = 1\ny = \"{}\"\n", "ü".repeat(length - 6));
        assert_eq!(violations("a.py", &text(COLUMNS)), [""; 0]);
        let found = violations("a.py", &text(COLUMNS + 1));
        assert_eq!(found, ["a.py:2: a line beyond column 100: wrap it"]);
    }

    #[test]
    fn long_files_and_functions_are_found() {
        let function = |lines: usize| format!("fn f() {{\n{}}}\n", "    g();\n".repeat(lines - 2));
        assert_eq!(violations("a.rs", &function(FUNCTION_LINES)), [""; 0]);
        let found = violations("a.rs", &function(FUNCTION_LINES + 1));
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("a.rs:1: 76 lines in one function"), "{found:?}");
        assert_eq!(violations("a.rs", &"\n".repeat(FILE_LINES)), [""; 0]);
        assert_eq!(violations("a.rs", &"\n".repeat(FILE_LINES + 1)).len(), 1);
    }
}
