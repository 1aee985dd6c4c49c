//! The commands that measure, in a program that was built without them (feature `bench`).
//!
//! Packages bring them as a second program, so that a machine can have the tools without what only
//! measurements need: `/usr/bin/dio` runs `/usr/lib/dio/dio-bench`, which is dio with all commands,
//! when one of these is called.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use super::words;
use crate::quote::named;
use crate::tool::trust::open_to_others;

/// The exit status for a command that dio does not have.
const NO_COMMAND: u8 = 2;

/// Where the other program is, from the directory above that of this one.
const PLACE: &str = "lib/dio/dio-bench";

/// Returns whether the command line, without the name of the program, calls for the other program.
pub(crate) fn is_meant(line: &[OsString]) -> bool {
    let word = |at: usize| line.get(at).and_then(|word| word.to_str());
    match word(0) {
        Some("bench" | "report" | "synctest") => true,
        Some("wal") => word(1) == Some("bench"),
        _ => false,
    }
}

/// Replaces this process by the other program; returns only if that fails.
pub(crate) fn run(line: &[OsString]) -> ExitCode {
    let text = match std::env::current_exe() {
        Ok(own) => reason(&own, line),
        Err(error) => format!("cannot find this program: {}", words(&error)),
    };
    eprintln!("dio: {}: {text}", named(Path::new(&line[0])));
    ExitCode::from(NO_COMMAND)
}

/// Runs the program beside `own`. Returns why it does not run.
fn reason(own: &Path, line: &[OsString]) -> String {
    let Some(program) = beside(own).filter(|program| program.exists()) else {
        return "this program was built without the commands that measure; install the package \
                dio-bench, or build dio with its feature `bench`"
            .to_owned();
    };
    match open_to_others(&program) {
        Ok(None) => {}
        Ok(Some(place)) => {
            return format!(
                "{} is not run, since others may write to {}; take that right from them",
                named(&program),
                named(&place)
            );
        }
        Err(error) => return format!("{}: {}", named(&program), words(&error)),
    }
    let error = Command::new(&program).arg0("dio").args(line).exec();
    format!("cannot run {}: {}", named(&program), words(&error))
}

/// Returns the path of the other program, for a program in a directory `bin`.
fn beside(own: &Path) -> Option<PathBuf> {
    let bin = own.parent().filter(|bin| bin.ends_with("bin"))?;
    Some(bin.parent()?.join(PLACE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_measure_are_elsewhere() {
        let meant =
            |line: &str| is_meant(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>());
        for line in ["bench", "bench random x", "report a.json", "synctest .", "wal bench --dir x"]
        {
            assert!(meant(line), "{line}");
        }
        for line in ["", "cp bench wal", "wal verify bench", "wal", "benchmark"] {
            assert!(!meant(line), "{line}");
        }
    }

    #[test]
    fn the_other_program_stands_below_the_same_prefix() {
        let other = beside(Path::new("/usr/bin/dio"));
        assert_eq!(other, Some(PathBuf::from("/usr/lib/dio/dio-bench")));
        assert_eq!(beside(Path::new("/tmp/dio")), None);
    }

    #[test]
    fn a_missing_program_and_one_that_others_could_replace_are_not_run() {
        let dir = tempfile::tempdir().unwrap();
        let line = [OsString::from("bench")];
        let own = dir.path().join("bin/dio");
        assert!(reason(&own, &line).contains("install the package dio-bench"));
        let library = dir.path().join("lib/dio");
        std::fs::create_dir_all(&library).unwrap();
        std::fs::write(library.join("dio-bench"), "").unwrap();
        let set = |mode| {
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(&library, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        set(0o777);
        let text = reason(&own, &line);
        assert!(text.contains("others may write to") && text.contains("lib/dio"), "{text}");
        set(0o755);
        let text = reason(&own, &line);
        assert!(text.contains("cannot run") && text.contains("Permission denied"), "{text}");
    }
}
