use super::*;

fn graph(files: &[(&str, &str)]) -> Graph {
    let sources: Vec<_> = files
        .iter()
        .map(|(path, text)| (format!("crates/x/src/{path}"), (*text).to_owned()))
        .collect();
    Graph::of("crates/x/src/", &sources)
}

fn edges(files: &[(&str, &str)]) -> Vec<(String, String, usize)> {
    let graph = graph(files);
    let inner = |at: usize| graph.files[at].inner.clone();
    graph.imports.iter().map(|import| (inner(import.from), inner(import.to), import.line)).collect()
}

fn violations(document: &str, files: &[(&str, &str)]) -> Vec<String> {
    let sources: Vec<_> = files
        .iter()
        .map(|(path, text)| (format!("crates/x/src/{path}"), (*text).to_owned()))
        .collect();
    let mut found = Vec::new();
    check(document, &sources, &mut found);
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
        assert_eq!(
            found.iter().any(|(_, to, _)| to == "c/mod.rs"),
            text.contains("c::C"),
            "{text}: {found:?}"
        );
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
    let tests =
        [("a.rs", "use crate::b::B;\n"), ("b.rs", ""), ("lib.rs", "#[cfg(test)]\nmod a;\n")];
    assert_eq!(edges(&tests), []);
}

#[test]
fn a_path_is_followed_to_the_file_that_defines() {
    let parent =
        "mod leaf;\npub use leaf::Leaf;\nuse self::leaf::Other as Renamed;\npub struct Own;\n";
    let files = |text| [("a/mod.rs", parent), ("a/leaf.rs", ""), ("a/child.rs", text)];
    assert!(edges(&files("use super::Leaf;\n")).contains(&edge("a/child.rs", "a/leaf.rs", 0)));
    assert!(edges(&files("use super::Renamed;\n")).contains(&edge("a/child.rs", "a/leaf.rs", 0)));
    assert!(edges(&files("use super::Own;\n")).contains(&edge("a/child.rs", "a/mod.rs", 0)));
}

#[test]
fn circles_of_files_are_found() {
    let parent = ("a/mod.rs", "mod child;\npub struct Own;\nfn f() { child::g() }\n");
    assert_eq!(
        graph(&[parent, ("a/child.rs", "use super::Own;\n")]).circles(),
        [["a/child.rs", "a/mod.rs"]]
    );
    assert_eq!(
        graph(&[parent, ("a/child.rs", "use crate::b::Own;\n"), ("b.rs", "")]).circles(),
        [[""; 0]; 0]
    );
}

#[test]
fn a_circle_of_files_is_a_violation_whoever_is_in_it() {
    let files = [
        ("a/mod.rs", "mod b;\nmod c;\n"),
        ("a/b.rs", "use super::c::C;\n"),
        ("a/c.rs", "\nuse super::b::B;\n"),
    ];
    let found = violations(&document("x a\n"), &files);
    assert_eq!(found.len(), 1, "{found:?}");
    let end = ": x: a/b.rs a/c.rs\n    a/b.rs:1 names a/c.rs\n    a/c.rs:2 names a/b.rs";
    assert!(found[0].ends_with(end), "{found:?}");
}

/// A document in which the layers of the crate `x` begin on the fifth line.
fn document(layers: &str) -> String {
    format!("```\nno layers\n```\n```layers\n{layers}```\n  after them\n")
}

const FILES: [(&str, &str); 6] = [
    ("lib.rs", "mod a;\nmod b;\nmod commands;\n"),
    ("a.rs", "\nuse crate::b::{B, C};\n"),
    ("b.rs", ""),
    ("commands/mod.rs", ""),
    ("commands/cp.rs", "use crate::a::A;\n"),
    ("commands/mv.rs", "fn f() {\n    crate::b::g()\n}\n"),
];

#[test]
fn a_module_names_only_layers_below_its_own() {
    let whole = "x   lib commands/{cp mv}\n    commands a\n    b\n";
    assert_eq!(violations(&document(whole), &FILES), [""; 0]);
    let rule = "a module names only modules of layers below its own";
    for (layers, expected) in [
        (
            "x lib commands/{cp mv}\n commands a b\n",
            vec![format!(
                "crates/x/src/a.rs:2: `a` of x (ARCHITECTURE.md:6) names `b` of the same layer \
                 (ARCHITECTURE.md:6): {rule}"
            )],
        ),
        (
            "x lib commands/{cp mv}\n b commands\n a\n",
            vec![format!(
                "crates/x/src/a.rs:2: `a` of x (ARCHITECTURE.md:7) names `b` of a layer above \
                 (ARCHITECTURE.md:6): {rule}"
            )],
        ),
        (
            "x lib commands/{cp\n mv} a\n commands b\n",
            vec![format!(
                "crates/x/src/commands/cp.rs:1: `commands/cp` of x (ARCHITECTURE.md:5) names `a` \
                 of the same layer (ARCHITECTURE.md:5): {rule}"
            )],
        ),
        (
            "x lib commands/cp\n commands a\n b\n commands/mv\n",
            vec![format!(
                "crates/x/src/commands/mv.rs:2: `commands/mv` of x (ARCHITECTURE.md:8) names `b` \
                 of a layer above (ARCHITECTURE.md:7): {rule}"
            )],
        ),
    ] {
        assert_eq!(violations(&document(layers), &FILES), expected, "{layers}");
    }
}

#[test]
fn each_module_stands_in_one_layer() {
    for (layers, expected) in [
        (
            "x lib commands/{cp mv}\n commands a\n",
            "crates/x/src/b.rs: `b` of x stands in no layer of ARCHITECTURE.md",
        ),
        (
            "x lib commands/{cp}\n commands a\n b\n",
            "crates/x/src/commands/mv.rs: `commands/mv` of x stands in no layer of ARCHITECTURE.md",
        ),
        ("x lib commands/{cp mv}\n commands a\n b c\n", "ARCHITECTURE.md:7: x has no module `c`"),
        (
            "x lib commands/{cp mv ls}\n commands a\n b\n",
            "ARCHITECTURE.md:5: x has no module `commands/ls`",
        ),
        (
            "x lib commands/{cp mv} a\n commands a\n b\n",
            "ARCHITECTURE.md:6: `a` of x stands in a layer already",
        ),
    ] {
        let found = violations(&document(layers), &FILES);
        assert!(found.contains(&expected.to_owned()), "{layers}: {found:?}");
    }
}

#[test]
fn a_document_without_layers_is_a_violation() {
    for text in ["", "```layers\n```\n", "```imports\nx lib\n```\n"] {
        assert_eq!(violations(text, &FILES).len(), 1, "{text}");
    }
}

#[test]
fn layers_of_several_crates_are_kept_apart() {
    let document = document("y b\nx lib commands/{cp mv}\n  commands a\n  b\n");
    assert_eq!(violations(&document, &FILES), ["ARCHITECTURE.md:5: y has no module `b`"]);
}
