//! Runs `dio sort`, under the name `sort`, and the system's `sort` in directories of their own, and
//! compares the observable outcome: the files, the output, the status.

#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::gnu::{Seen, links};

/// The system's program, found by `PATH`.
pub const GNU: &str = "sort";

/// A link named `sort` to the program under test.
pub fn dio() -> &'static Path {
    static LINK: OnceLock<PathBuf> = OnceLock::new();
    LINK.get_or_init(|| links(&["sort"]).join("sort"))
}

/// A run of the program.
#[derive(Clone, Debug)]
pub struct Case {
    pub args: Vec<OsString>,
    /// Files that exist before the run.
    pub files: Vec<(String, Vec<u8>)>,
    /// Standard input, passed through a pipe. With `None` there is no pipe.
    pub stdin: Option<Vec<u8>>,
    /// Shell commands that prepare the directory.
    pub setup: String,
    pub locale: &'static str,
    /// The directory of the file system to run on.
    pub place: PathBuf,
}

/// A run with the arguments `args`, separated by blanks.
pub fn case(args: &str) -> Case {
    Case {
        args: args.split_whitespace().map(OsString::from).collect(),
        files: Vec::new(),
        stdin: None,
        setup: String::new(),
        locale: "C",
        place: std::env::var_os("DIO_TEST_DIR").map_or_else(|| "/var/tmp".into(), PathBuf::from),
    }
}

impl Case {
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Case {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    pub fn file(mut self, name: &str, bytes: impl AsRef<[u8]>) -> Case {
        self.files.push((name.to_owned(), bytes.as_ref().to_vec()));
        self
    }

    pub fn stdin(self, bytes: impl AsRef<[u8]>) -> Case {
        Case { stdin: Some(bytes.as_ref().to_vec()), ..self }
    }

    pub fn setup(self, setup: &str) -> Case {
        Case { setup: setup.into(), ..self }
    }

    pub fn locale(self, locale: &'static str) -> Case {
        Case { locale, ..self }
    }

    /// Runs one of the programs.
    pub fn run(&self, program: impl AsRef<OsStr>) -> Seen {
        let scratch = tempfile::Builder::new().prefix("dio-sort-").tempdir_in(&self.place).unwrap();
        let directory = scratch.path();
        for (name, bytes) in &self.files {
            fs::write(directory.join(name), bytes).unwrap();
        }
        if !self.setup.is_empty() {
            let done = Command::new("sh")
                .args(["-ec", &self.setup])
                .current_dir(directory)
                .status()
                .unwrap();
            assert!(done.success(), "{}", self.setup);
        }
        let mut command = Command::new(program);
        command.args(&self.args).env("LC_ALL", self.locale).stdin(Stdio::null());
        for name in ["POSIXLY_CORRECT", "_POSIX2_VERSION", "TMPDIR", "DIO_ENGINE"] {
            command.env_remove(name);
        }
        Seen::of(&mut command, directory, self.stdin.as_deref())
    }

    /// Runs both programs and compares.
    #[track_caller]
    pub fn same(&self) {
        let (gnu, dio) = (self.run(GNU), self.run(dio()));
        assert!(gnu == dio, "{}\n{}", self.show(), gnu.differences(&dio));
    }

    fn show(&self) -> String {
        let mut text = format!("LC_ALL={} {:?} {}", self.locale, self.args, self.setup);
        for (name, bytes) in &self.files {
            text += &format!(
                "\n{name}: {} bytes {}",
                bytes.len(),
                bytes[..bytes.len().min(1500)].escape_ascii()
            );
        }
        if let Some(bytes) = &self.stdin {
            text += &format!(
                "\nstdin: {} bytes {}",
                bytes.len(),
                bytes[..bytes.len().min(1500)].escape_ascii()
            );
        }
        text
    }
}
