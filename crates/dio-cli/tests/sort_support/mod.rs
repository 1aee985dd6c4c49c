//! Runs `dio sort`, under the name `sort`, and the system's `sort` in directories of their own and compares everything that
//! can be seen: the files, what was printed, the status.

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
pub const GNU: &str = "sort";

/// A link called `sort` to the program under test.
pub fn dio() -> &'static Path {
    static LINK: OnceLock<PathBuf> = OnceLock::new();
    LINK.get_or_init(|| {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("sort-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let link = directory.join("sort");
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_dio"), &link).unwrap();
        link
    })
}

/// A run.
#[derive(Clone, Debug)]
pub struct Case {
    pub args: Vec<OsString>,
    /// Files that are there.
    pub files: Vec<(String, Vec<u8>)>,
    /// What comes through a pipe; nothing if there is none.
    pub stdin: Option<Vec<u8>>,
    /// Shell commands that prepare the directory.
    pub setup: String,
    pub locale: &'static str,
    /// The file system to run on.
    pub place: PathBuf,
}

/// A run with the words of `args`.
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
            let done = Command::new("sh").args(["-ec", &self.setup]).current_dir(directory).status().unwrap();
            assert!(done.success(), "{}", self.setup);
        }
        let mut command = Command::new(program);
        command.args(&self.args).current_dir(directory).env("LC_ALL", self.locale);
        command
            .env_remove("POSIXLY_CORRECT")
            .env_remove("_POSIX2_VERSION")
            .env_remove("TMPDIR")
            .env_remove("DIO_ENGINE");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.stdin(if self.stdin.is_some() { Stdio::piped() } else { Stdio::null() });
        let mut child = command.spawn().unwrap();
        let pipe = child.stdin.take();
        let output = std::thread::scope(|threads| {
            if let (Some(mut pipe), Some(bytes)) = (pipe, &self.stdin) {
                threads.spawn(move || {
                    // Pieces of odd sizes; a program that stops reading is its own affair.
                    for part in bytes.chunks(3 * 4096 + 17) {
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
        assert!(gnu == dio, "{}\n{}", self.show(), gnu.differences(&dio));
    }

    fn show(&self) -> String {
        let mut text = format!("LC_ALL={} {:?} {}", self.locale, self.args, self.setup);
        for (name, bytes) in &self.files {
            text += &format!("\n{name}: {} bytes {}", bytes.len(), bytes[..bytes.len().min(1500)].escape_ascii());
        }
        if let Some(bytes) = &self.stdin {
            text += &format!("\nstdin: {} bytes {}", bytes.len(), bytes[..bytes.len().min(1500)].escape_ascii());
        }
        text
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
        let mut tell = |what: &str, gnu: &[u8], dio: &[u8]| {
            if gnu == dio {
                return;
            }
            let at = gnu.iter().zip(dio).take_while(|(a, b)| a == b).count();
            let shown = |bytes: &[u8]| {
                let from = at.saturating_sub(100).min(bytes.len());
                bytes[from..bytes.len().min(at + 300)].escape_ascii().to_string()
            };
            let (mine, its) = (shown(dio), shown(gnu));
            text += &format!("{what} at {at} of {} and {}\n  GNU {its}\n  dio {mine}\n", gnu.len(), dio.len());
        };
        tell("stdout", &self.out, &dio.out);
        tell("stderr", &self.err, &dio.err);
        let names: std::collections::BTreeSet<_> = self.files.keys().chain(dio.files.keys()).collect();
        let bytes = |files: &BTreeMap<OsString, Vec<u8>>, name| files.get(name).cloned().unwrap_or(b"missing".into());
        for name in names {
            tell(&name.to_string_lossy(), &bytes(&self.files, name), &bytes(&dio.files, name));
        }
        text
    }
}
