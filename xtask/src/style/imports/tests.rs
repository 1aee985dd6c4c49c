use super::*;

fn graph(files: &[(&str, &str)]) -> Graph {
    let sources: Vec<_> =
        files.iter().map(|(path, text)| (format!("crates/x/src/{path}"), (*text).to_owned())).collect();
    Graph::of("crates/x/src/", &sources)
}

fn edges(files: &[(&str, &str)]) -> Vec<(String, String, usize)> {
    let graph = graph(files);
    let inner = |at: usize| graph.files[at].inner.clone();
    graph.imports.iter().map(|import| (inner(import.from), inner(import.to), import.line)).collect()
}

fn violations(document: &str, files: &[(&str, &str)]) -> Vec<String> {
    let sources: Vec<_> =
        files.iter().map(|(path, text)| (format!("crates/x/src/{path}"), (*text).to_owned())).collect();
    let mut found = Vec::new();
    check(document, &sources, &mut found);
    found.retain(|line| !line.ends_with("known_circles"));
    found
}

fn edge(from: &str, to: &str, line: usize) -> (String, String, usize) {
    (from.to_owned(), to.to_owned(), line)
}

#[test]
fn paths_of_every_kind_are_imports() {
    for (text, line) in [
        ("use crate::b::B;\n", 0),
        ("use super::b;\n", 0),
        ("use super::{c::C, b::{self, B}};\n", 0),
        ("\nuse crate::{\n    b::*,\n};\n", 2),
        ("pub(in crate::c) fn f() {\n    super::b::g()\n}\n", 1),
        ("fn f(_: &crate::b::B) {}\n", 0),
        ("mod inner {\n    use super::super::b::B;\n}\n", 1),
    ] {
        let found = edges(&[("a.rs", text), ("b.rs", ""), ("c/mod.rs", "")]);
        assert!(found.contains(&edge("a.rs", "b.rs", line)), "{text}: {found:?}");
        assert_eq!(found.iter().any(|(_, to, _)| to == "c/mod.rs"), text.contains("c::C"), "{text}: {found:?}");
    }
}

#[test]
fn tests_comments_and_other_crates_are_no_imports() {
    for text in [
        "//! [`crate::b`]\n/// [`super::b::B`]\nfn f() { g(\"crate::b\") }\n",
        "#[cfg(test)]\nmod tests {\n    use crate::b::B;\n}\n",
        "use b::B;\nuse dio::b::C;\n",
        "#[cfg(test)]\nuse crate::b;\n",
    ] {
        assert_eq!(edges(&[("a.rs", text), ("b.rs", "")]), [], "{text}");
    }
    let tests = [("a.rs", "use crate::b::B;\n"), ("b.rs", ""), ("lib.rs", "#[cfg(test)]\nmod a;\n")];
    assert_eq!(edges(&tests), []);
}

#[test]
fn a_path_is_followed_to_the_file_that_defines() {
    let parent = "mod leaf;\npub use leaf::Leaf;\nuse self::leaf::Other as Renamed;\npub struct Own;\n";
    let files = |text| [("a/mod.rs", parent), ("a/leaf.rs", ""), ("a/child.rs", text)];
    assert!(edges(&files("use super::Leaf;\n")).contains(&edge("a/child.rs", "a/leaf.rs", 0)));
    assert!(edges(&files("use super::Renamed;\n")).contains(&edge("a/child.rs", "a/leaf.rs", 0)));
    assert!(edges(&files("use super::Own;\n")).contains(&edge("a/child.rs", "a/mod.rs", 0)));
}

#[test]
fn circles_of_files_are_found() {
    let parent = ("a/mod.rs", "mod child;\npub struct Own;\nfn f() { child::g() }\n");
    assert_eq!(graph(&[parent, ("a/child.rs", "use super::Own;\n")]).circles(), [["a/child.rs", "a/mod.rs"]]);
    assert_eq!(graph(&[parent, ("a/child.rs", "use crate::b::Own;\n"), ("b.rs", "")]).circles(), [[""; 0]; 0]);
}

#[test]
fn known_circles_only_become_fewer() {
    let mut found = Vec::new();
    check_circles(&["x: a b".to_owned(), "x: c d".to_owned()], "x: c d\n", &mut found);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].ends_with(": x: a b"), "{found:?}");
    found.clear();
    check_circles(&["x: a b".to_owned()], "x: a b\nx: c d\n", &mut found);
    assert_eq!(found, ["x: c d: this circle is no more: take it from xtask/src/style/known_circles"]);
}

#[test]
fn the_table_is_what_may_be_imported() {
    let files = [
        ("lib.rs", "mod a;\nmod b;\nmod commands;\n"),
        ("a.rs", "use crate::b::B;\n"),
        ("b.rs", ""),
        ("commands/mod.rs", ""),
        ("commands/cp.rs", "use crate::a::A;\n"),
    ];
    let document = |table: &str| format!("```\nno: table\n```\n```imports\nx\n{table}```\n  after: it\n");
    let whole = "  lib:\n  commands/cp: a\n  commands:\n  a: b\n  b:\n";
    assert_eq!(violations(&document(whole), &files), [""; 0]);
    for (from, to, expected) in [
        ("  a: b\n", "  a:\n", "crates/x/src/a.rs:1: `a` of x may name [], not `b`: the table is in ARCHITECTURE.md"),
        ("  b:\n", "", "crates/x/src/b.rs: module `b` of x is not in the table of ARCHITECTURE.md"),
        ("cp: a\n", "cp: a b\n", "ARCHITECTURE.md:7: `commands/cp` of x never names `b`"),
        ("  b:\n", "  b:\n  c:\n", "ARCHITECTURE.md:11: x has no module `c`"),
    ] {
        let found = violations(&document(&whole.replace(from, to)), &files);
        assert!(found.contains(&expected.to_owned()), "{to}: {found:?}");
    }
    let upward = violations(&document("  lib:\n  commands:\n  b:\n  a: b\n  commands/cp: a\n"), &files);
    assert_eq!(upward.len(), 2, "{upward:?}");
    assert!(upward[0].ends_with("`a` of x may only name what stands below it, not `b`"), "{upward:?}");
}
