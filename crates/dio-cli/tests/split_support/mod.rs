//! Runs `dio split`, under the name `split`, and the system's `split` in directories of their own and compares everything
//! that can be seen: the files, what was printed, the status.

#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The system's program, wherever it is.
pub const GNU: &str = "split";

/// A link called `split` to the program under test.
pub fn dio() -> &'static Path {
    static LINK: OnceLock<PathBuf> = OnceLock::new();
    LINK.get_or_init(|| {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("split-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let link = directory.join("split");
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_dio"), &link).unwrap();
        link
    })
}

/// How the input reaches the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// A file of the name `in`, named on the command line.
    File,
    /// The same as standard input.
    Redirected,
    /// Standard input is a pipe.
    Pipe,
}

/// A run.
#[derive(Clone, Debug)]
pub struct Case {
    pub args: Vec<OsString>,
    /// What comes after the input on the command line.
    pub prefix: Option<OsString>,
    pub input: Vec<u8>,
    pub from: From,
    /// Shell commands that prepare the directory, which has the file `in` already.
    pub setup: String,
    pub locale: &'static str,
    pub env: Vec<(&'static str, &'static str)>,
    /// The file system to run on.
    pub place: PathBuf,
}

/// A run with the words of `args`, on `input`.
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

/// What can be seen of a run.
#[derive(PartialEq, Eq)]
pub struct Seen {
    pub status: (Option<i32>, Option<i32>),
    pub out: Vec<u8>,
    pub err: Vec<u8>,
    pub files: BTreeMap<OsString, Vec<u8>>,
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
        let scratch = tempfile::Builder::new().prefix("dio-split-").tempdir_in(&self.place).unwrap();
        let directory = scratch.path();
        fs::write(directory.join("in"), &self.input).unwrap();
        if !self.setup.is_empty() {
            let done = Command::new("sh").args(["-ec", &self.setup]).current_dir(directory).status().unwrap();
            assert!(done.success(), "{}", self.setup);
        }
        let mut command = Command::new(program);
        command.args(&self.args).current_dir(directory).env("LC_ALL", self.locale).env("SHELL", "/bin/sh");
        command
            .envs(self.env.iter().copied())
            .env_remove("POSIXLY_CORRECT")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        match self.from {
            From::File => command.arg("in").stdin(Stdio::null()),
            From::Redirected => command.stdin(fs::File::open(directory.join("in")).unwrap()),
            From::Pipe => command.stdin(Stdio::piped()),
        };
        if let Some(prefix) = &self.prefix {
            if self.from != From::File {
                command.arg("-");
            }
            command.arg(prefix);
        }
        let mut child = command.spawn().unwrap();
        let pipe = child.stdin.take();
        let output = std::thread::scope(|threads| {
            if let Some(mut pipe) = pipe {
                threads.spawn(move || {
                    // Pieces of odd sizes; a program that stops reading is its own affair.
                    for part in self.input.chunks(3 * 4096 + 17) {
                        if pipe.write_all(part).is_err() {
                            return;
                        }
                    }
                });
            }
            child.wait_with_output().unwrap()
        });
        Seen {
            status: (output.status.code(), output.status.signal()),
            out: output.stdout,
            err: output.stderr,
            files: files(directory),
        }
    }

    /// Runs both programs and compares.
    #[track_caller]
    pub fn same(&self) {
        let (gnu, dio) = (self.run(GNU), self.run(dio()));
        if gnu != dio {
            panic!(
                "{:?} {:?} with {} bytes, {}\n{}",
                self.args,
                self.from,
                self.input.len(),
                self.setup,
                gnu.differences(&dio)
            );
        }
    }
}

fn files(directory: &Path) -> BTreeMap<OsString, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            found.insert(entry.file_name(), fs::read(entry.path()).unwrap_or_else(|error| error.to_string().into()));
        }
    }
    found
}

impl Seen {
    fn differences(&self, dio: &Seen) -> String {
        let mut text = format!("GNU {:?}, dio {:?}\n", self.status, dio.status);
        for (what, gnu, dio) in [("stdout", &self.out, &dio.out), ("stderr", &self.err, &dio.err)] {
            if gnu != dio {
                text += &format!("{what}\n  GNU {}\n  dio {}\n", gnu.escape_ascii(), dio.escape_ascii());
            }
        }
        let names: std::collections::BTreeSet<_> = self.files.keys().chain(dio.files.keys()).collect();
        let show = |files: &BTreeMap<OsString, Vec<u8>>, name| match files.get(name) {
            None => "missing".to_owned(),
            Some(bytes) => format!("{} bytes {}", bytes.len(), bytes[..bytes.len().min(60)].escape_ascii()),
        };
        for name in names {
            if self.files.get(name) != dio.files.get(name) {
                text +=
                    &format!("{}: GNU {}; dio {}\n", name.display(), show(&self.files, name), show(&dio.files, name));
            }
        }
        text
    }
}
