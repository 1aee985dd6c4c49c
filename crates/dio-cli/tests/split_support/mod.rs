//! Runs `dio split`, under the name `split`, and the system's `split` in directories of their own,
//! and compares the observable outcome: the files, the output, the status.

#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::gnu::{Seen, links};

/// The system's program, found by `PATH`.
pub const GNU: &str = "split";

/// A link named `split` to the program under test.
pub fn dio() -> &'static Path {
    static LINK: OnceLock<PathBuf> = OnceLock::new();
    LINK.get_or_init(|| links(&["split"]).join("split"))
}

/// How the input reaches the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// The file `in`, named on the command line.
    File,
    /// The file `in` as standard input.
    Redirected,
    /// Standard input is a pipe.
    Pipe,
}

/// A run of the program.
#[derive(Clone, Debug)]
pub struct Case {
    pub args: Vec<OsString>,
    /// The operand behind the input on the command line.
    pub prefix: Option<OsString>,
    pub input: Vec<u8>,
    pub from: From,
    /// Shell commands that prepare the directory, which already contains the file `in`.
    pub setup: String,
    pub locale: &'static str,
    pub env: Vec<(&'static str, &'static str)>,
    /// The directory of the file system to run on.
    pub place: PathBuf,
}

/// A run with the arguments `args`, separated by blanks, on `input`.
pub fn case(args: &str, input: impl AsRef<[u8]>) -> Case {
    Case {
        args: args.split_whitespace().map(OsString::from).collect(),
        prefix: None,
        input: input.as_ref().to_vec(),
        from: From::File,
        setup: String::new(),
        locale: "C.UTF-8",
        env: Vec::new(),
        place: std::env::var_os("DIO_TEST_DIR").map_or_else(|| "/var/tmp".into(), PathBuf::from),
    }
}

impl Case {
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Case {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    pub fn from(self, from: From) -> Case {
        Case { from, ..self }
    }

    pub fn setup(self, setup: &str) -> Case {
        Case { setup: setup.into(), ..self }
    }

    pub fn prefix(self, prefix: &str) -> Case {
        Case { prefix: Some(prefix.into()), ..self }
    }

    pub fn locale(self, locale: &'static str) -> Case {
        Case { locale, ..self }
    }

    pub fn env(mut self, name: &'static str, value: &'static str) -> Case {
        self.env.push((name, value));
        self
    }

    /// Runs one of the programs.
    pub fn run(&self, program: impl AsRef<OsStr>) -> Seen {
        let scratch =
            tempfile::Builder::new().prefix("dio-split-").tempdir_in(&self.place).unwrap();
        let directory = scratch.path();
        fs::write(directory.join("in"), &self.input).unwrap();
        if !self.setup.is_empty() {
            let done = Command::new("sh")
                .args(["-ec", &self.setup])
                .current_dir(directory)
                .status()
                .unwrap();
            assert!(done.success(), "{}", self.setup);
        }
        let mut command = Command::new(program);
        command.args(&self.args).env("LC_ALL", self.locale).env("SHELL", "/bin/sh");
        command.envs(self.env.iter().copied()).env_remove("POSIXLY_CORRECT");
        match self.from {
            From::File => command.arg("in").stdin(Stdio::null()),
            From::Redirected => command.stdin(fs::File::open(directory.join("in")).unwrap()),
            From::Pipe => &mut command,
        };
        if let Some(prefix) = &self.prefix {
            if self.from != From::File {
                command.arg("-");
            }
            command.arg(prefix);
        }
        Seen::of(&mut command, directory, (self.from == From::Pipe).then_some(&self.input[..]))
    }

    /// Runs both programs and compares.
    #[track_caller]
    pub fn same(&self) {
        let (gnu, dio) = (self.run(GNU), self.run(dio()));
        let (from, length) = (self.from, self.input.len());
        assert!(
            gnu == dio,
            "{:?} {from:?} with {length} bytes, {}\n{}",
            self.args,
            self.setup,
            gnu.differences(&dio)
        );
    }
}
