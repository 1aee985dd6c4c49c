//! The examples: compiled strictly, and run alone, under valgrind and with sanitizers.

use std::path::{Path, PathBuf};
use std::process::Command;

use dio_test::file_systems;

use crate::library::{Library, library, package, run};

const EXAMPLES: [&str; 4] = ["files", "queue", "log", "copy"];

fn build(library: &Library, name: &str, more: &[&str], dir: &Path) -> PathBuf {
    let program = dir.join(name);
    let source = package().join("examples").join(name).with_extension("c");
    library.compile(&[source], more, &program);
    program
}

#[test]
fn examples_run_on_every_file_system_by_every_engine() {
    let Some(library) = library() else { return };
    let programs = tempfile::tempdir().unwrap();
    for name in EXAMPLES {
        let program = build(library, name, &[], programs.path());
        for fs in file_systems() {
            for engine in ["uring", "blocking"] {
                let dir = fs.dir();
                run(Command::new(&program).arg(dir.path()).env("DIO_ENGINE", engine));
            }
        }
    }
}

#[test]
fn examples_run_with_the_static_library() {
    let Some(library) = library() else { return };
    let programs = tempfile::tempdir().unwrap();
    let program = programs.path().join("files");
    let mut cc = Command::new("cc");
    cc.arg("-std=c11").arg(package().join("examples/files.c"));
    cc.arg(format!("-I{}", library.prefix.join("include").display()));
    cc.arg(library.prefix.join("lib/libdio.a"));
    let flags = library.pkg_config(&["--libs", "--static"]);
    cc.args(flags.split_whitespace().filter(|flag| *flag != "-ldio"));
    run(cc.arg("-o").arg(&program));
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    run(Command::new(&program).arg(dir.path()));
}

#[test]
fn the_program_in_the_document_runs() {
    let Some(library) = library() else { return };
    let document = std::fs::read_to_string(package().join("../../docs/c.md")).unwrap();
    let code = document.split("```c\n").nth(1).unwrap().split("```").next().unwrap();
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let (source, program) = (dir.path().join("program.c"), dir.path().join("program"));
    std::fs::write(&source, code).unwrap();
    library.compile(&[source], &[], &program);
    run(Command::new(program).current_dir(dir.path()));
    let written = std::fs::read(dir.path().join("data")).unwrap();
    assert_eq!(&written[4097..], b"any length, at any offset");
}

/// valgrind knows nothing of what the kernel stores for io_uring, so the engine is that of threads.
#[test]
fn examples_are_clean_under_valgrind() {
    let Some(library) = library() else { return };
    let programs = tempfile::tempdir().unwrap();
    for name in EXAMPLES {
        let program = build(library, name, &[], programs.path());
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["--quiet", "--error-exitcode=9", "--leak-check=full"]);
        valgrind.args(["--show-leak-kinds=definite", "--errors-for-leak-kinds=definite"]);
        run(valgrind.arg(program).arg(dir.path()).env("DIO_ENGINE", "blocking"));
    }
}

#[test]
fn examples_are_clean_with_sanitizers() {
    let Some(library) = library() else { return };
    let programs = tempfile::tempdir().unwrap();
    for name in EXAMPLES {
        let more = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
        let program = build(library, name, &more, programs.path());
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        run(Command::new(program).arg(dir.path()));
    }
}
