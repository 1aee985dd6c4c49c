//! Locks of several connections in one process, by a program in C.

use std::process::Command;

use dio_test::file_systems;

use crate::library::{library, package, run};
use crate::sqlite::{Vfs, sql};

#[test]
fn no_connection_loses_a_lock_when_another_is_closed() {
    let Some(library) = library() else { return };
    let programs = tempfile::tempdir().unwrap();
    let program = programs.path().join("locks");
    let source = package().join("tests/c/locks.c");
    library.compile(&[source], &["-lsqlite3"], &program);
    for fs in file_systems() {
        let dir = fs.dir();
        let path = dir.path().join("database");
        sql(library, Vfs::Default, &path, "create table t(a); insert into t values(1);");
        run(Command::new(&program).arg(library.vfs()).arg(&path));
    }
}
