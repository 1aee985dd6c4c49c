//! What is installed: names, versions and symbols.

use std::process::Command;

use crate::library::{Library, library, run};

/// The names that the shared library defines for others, without their versions, and the versions.
fn symbols(library: &Library) -> Vec<(String, String)> {
    let mut nm = Command::new("nm");
    let text = run(nm
        .args(["--dynamic", "--defined-only", "--with-symbol-versions"])
        .arg(library.shared()));
    text.lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .filter_map(|symbol| symbol.split_once("@@"))
        .map(|(name, version)| (name.to_owned(), version.to_owned()))
        .collect()
}

/// The functions that the header declares.
fn declared(header: &str) -> Vec<String> {
    let code: Vec<&str> =
        header.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n");
    let mut names: Vec<String> = code
        .match_indices("dio_")
        .filter_map(|(at, _)| {
            let before = code[..at].chars().next_back()?;
            let name: String =
                code[at..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
            let is_call = code[at + name.len()..].starts_with('(');
            (is_call && (before == ' ' || before == '*')).then_some(name)
        })
        .collect();
    names.sort();
    names
}

#[test]
fn the_library_exports_what_the_header_declares_and_nothing_else() {
    let Some(library) = library() else { return };
    let header = std::fs::read_to_string(library.prefix.join("include/dio.h")).unwrap();
    let header = header.split_once("#ifndef DIO_H").unwrap().1;
    let symbols = symbols(library);
    let mut names: Vec<String> = symbols.iter().map(|(name, _)| name.clone()).collect();
    names.sort();
    assert_eq!(names, declared(header));
    assert!(names.len() > 40, "{names:?}");
    for (name, version) in symbols {
        assert!(name.starts_with("dio_"), "{name}");
        assert_eq!(version, "libdio.so.1", "{name}");
    }
}

#[test]
fn every_function_says_what_it_does() {
    let Some(library) = library() else { return };
    let header = std::fs::read_to_string(library.prefix.join("include/dio.h")).unwrap();
    let mut before = "";
    for line in header.lines() {
        let is_function =
            line.contains("dio_") && line.contains('(') && !line.starts_with([' ', '/']);
        let is_typedef = line.starts_with("typedef");
        assert!(!is_function && !is_typedef || before.starts_with("//"), "{line}: no comment");
        before = line;
    }
}

#[test]
fn the_library_has_a_soname_and_a_pkg_config_file() {
    let Some(library) = library() else { return };
    let text = run(Command::new("readelf").args(["--dynamic", "--wide"]).arg(library.shared()));
    assert!(text.contains("Library soname: [libdio.so.1]"), "{text}");
    for name in ["libdio.so", "libdio.so.1", "libdio.so.1.0.0", "libdio.a"] {
        assert!(library.prefix.join("lib").join(name).is_file(), "{name}");
    }
    assert_eq!(library.pkg_config(&["--modversion"]), env!("CARGO_PKG_VERSION"));
}

#[test]
fn nothing_runs_before_main() {
    let Some(library) = library() else { return };
    let text = run(Command::new("readelf").args(["--sections", "--wide"]).arg(library.shared()));
    // The compiler's own entry (frame_dummy) is one pointer; std has one that keeps the arguments.
    let sizes: Vec<u64> = text
        .lines()
        .filter(|line| line.contains(" .init_array ") || line.contains(" .ctors "))
        .filter_map(|line| line.split_once("INIT_ARRAY")?.1.split_whitespace().nth(2))
        .map(|size| u64::from_str_radix(size, 16).unwrap())
        .collect();
    assert!(sizes.iter().sum::<u64>() <= 16, "{text}");
}

#[test]
fn the_header_is_valid_c_and_cpp() {
    let Some(library) = library() else { return };
    let flags = library.pkg_config(&["--cflags"]);
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("alone.c");
    std::fs::write(&source, "#include <dio.h>\n#include <dio.h>\nint unused_variable_of_c;\n")
        .unwrap();
    for (compiler, language, standard) in [("cc", "c", "-std=c11"), ("c++", "c++", "-std=c++17")] {
        let mut compile = Command::new(compiler);
        compile.args(["-x", language, standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror"]);
        run(compile.args(flags.split_whitespace()).args(["-c", "-o", "/dev/null"]).arg(&source));
    }
}
