//! Runs `dio cp` and the system's `cp` on identical trees and compares the observable outcome:
//! contents, types, modes, owners, times, links, extended attributes, the output, the status.

#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Times from here on (2025-01-01) were set by the run itself and count as "now".
const NOW: i64 = 1_735_689_600;

/// A test case: how the tree is made, and which command runs in it.
#[derive(Clone, Debug)]
pub struct Case {
    setup: String,
    args: Vec<OsString>,
    stdin: &'static str,
    umask: &'static str,
    nobody: bool,
    directory: &'static str,
}

/// A case with the arguments `args`, separated by blanks, in a tree made by the shell commands
/// `setup`.
pub fn case(setup: &str, args: &str) -> Case {
    let args = args.split_whitespace().map(OsString::from).collect();
    Case { setup: setup.into(), args, stdin: "", umask: "022", nobody: false, directory: "." }
}

impl Case {
    /// Adds an argument that may hold any byte.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    pub fn stdin(self, stdin: &'static str) -> Self {
        Self { stdin, ..self }
    }

    pub fn umask(self, umask: &'static str) -> Self {
        Self { umask, ..self }
    }

    /// Runs the copy without privileges. The tree is still made by root.
    pub fn nobody(self) -> Self {
        Self { nobody: true, ..self }
    }

    /// Checks that both programs have the same outcome.
    pub fn same(&self) {
        if !is_root() && self.nobody {
            eprintln!("SKIPPED (needs root): {:?}", self.args);
            return;
        }
        let gnu = self.run("cp", &["cp"], &[]);
        let dio = self.run("dio", &["dio", "cp"], &[]);
        if gnu != dio {
            let report = format!(
                "{:?} umask {} nobody {}\n{}",
                self.args,
                self.umask,
                self.nobody,
                gnu.differences(&dio)
            );
            // Allows a run that shows all differences at once.
            assert!(
                std::env::var_os("DIO_TEST_KEEP_GOING").is_some(),
                "{report}\nin a tree made by\n{}",
                self.setup
            );
            eprintln!("DIFFERS {report}");
        }
    }

    /// Compares the output and the status of both programs when they leave different trees on
    /// purpose.
    pub fn same_words(&self) {
        let (gnu, dio) = (self.gnu(), self.dio());
        assert_eq!(
            (&gnu.status, &gnu.out, &gnu.err),
            (&dio.status, &dio.out, &dio.err),
            "{:?}",
            self.args
        );
    }

    /// Runs `dio cp` alone.
    pub fn dio(&self) -> Outcome {
        self.run("dio", &["dio", "cp"], &[])
    }

    /// Runs the system's `cp` alone.
    pub fn gnu(&self) -> Outcome {
        self.run("cp", &["cp"], &[])
    }

    fn run(&self, program: &str, name: &[&str], extra: &[&str]) -> Outcome {
        let scratch = Scratch::new();
        let tree = scratch.path().join("tree");
        std::fs::create_dir(&tree).unwrap();
        std::fs::set_permissions(&tree, PermissionsExt::from_mode(0o777)).unwrap();
        let made = Command::new("sh")
            .args(["-ec", &format!("umask 022; {}", self.setup)])
            .current_dir(&tree)
            .output();
        let made = made.unwrap();
        assert!(
            made.status.success(),
            "setup {}: {}",
            self.setup,
            String::from_utf8_lossy(&made.stderr)
        );
        let executable = if program == "cp" { PathBuf::from("cp") } else { scratch.dio() };
        let output = self.execute(&executable, &name[1..], extra, &tree);
        Outcome {
            status: output.status.code(),
            out: lines(&output.stdout, name),
            err: lines(&output.stderr, name),
            tree: snapshot(&tree),
        }
    }

    fn execute(&self, executable: &Path, command: &[&str], extra: &[&str], tree: &Path) -> Output {
        let mut sh = Command::new("sh");
        sh.args(["-c", &format!("umask {}; exec \"$@\"", self.umask), "sh"]);
        if self.nobody {
            sh.args(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]);
        }
        sh.arg(executable).args(command).args(extra).args(&self.args);
        sh.current_dir(tree.join(self.directory))
            .env("LC_ALL", "C.UTF-8")
            .env("RUST_BACKTRACE", "0");
        sh.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = sh.spawn().unwrap();
        // A program that asks no question may end before it gets the answer.
        let _ = child.stdin.take().unwrap().write_all(self.stdin.as_bytes());
        child.wait_with_output().unwrap()
    }
}

/// The outcome of a run.
#[derive(PartialEq, Eq)]
pub struct Outcome {
    pub status: Option<i32>,
    /// Sorted lines, in which the program's name is replaced by `cp`.
    pub out: Vec<String>,
    pub err: Vec<String>,
    pub tree: BTreeMap<String, String>,
}

impl Outcome {
    /// Describes how `other` differs from `self`, which is the model's outcome.
    pub fn differences(&self, other: &Self) -> String {
        let mut text = String::new();
        if self.status != other.status {
            writeln!(text, "  status {:?}, not {:?}", other.status, self.status).unwrap();
        }
        for (what, model, seen) in [("out", &self.out, &other.out), ("err", &self.err, &other.err)]
        {
            if model != seen {
                writeln!(text, "  {what} {seen:#?}, not {model:#?}").unwrap();
            }
        }
        let names: std::collections::BTreeSet<_> =
            self.tree.keys().chain(other.tree.keys()).collect();
        for name in names {
            let (model, seen) = (self.tree.get(name), other.tree.get(name));
            if model != seen {
                writeln!(text, "  {name}\n    is  {seen:?}\n    not {model:?}").unwrap();
            }
        }
        text
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "status {:?}", self.status)?;
        self.out.iter().try_for_each(|line| writeln!(f, "  out {line}"))?;
        self.err.iter().try_for_each(|line| writeln!(f, "  err {line}"))?;
        self.tree.iter().try_for_each(|(name, what)| writeln!(f, "  {name}: {what}"))
    }
}

impl std::fmt::Debug for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("see below")
    }
}

/// A directory that every user may use. It is removed when this is dropped.
pub struct Scratch(tempfile::TempDir);

impl Scratch {
    pub fn new() -> Self {
        let base = std::env::var_os("DIO_TEST_DIR")
            .map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from);
        let dir = tempfile::Builder::new().prefix("dio-cp-test").tempdir_in(base).unwrap();
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
        Self(dir)
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// A copy of the program that an unprivileged user can run. The build directory may be closed
    /// to other users.
    pub fn dio(&self) -> PathBuf {
        let here = self.path().join("dio");
        if !here.exists() {
            let built = Path::new(env!("CARGO_BIN_EXE_dio"));
            if std::fs::hard_link(built, &here).is_err() {
                dio_test::copy_program(built, &here);
            }
        }
        here
    }
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn lines(output: &[u8], name: &[&str]) -> Vec<String> {
    let own = name.join(" ");
    let text = String::from_utf8_lossy(output)
        .replace(&format!("{own}: "), "cp: ")
        .replace(&format!("'{own} "), "'cp ");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Descriptions of everything below `root`, by name.
pub fn snapshot(root: &Path) -> BTreeMap<String, String> {
    let mut tree = BTreeMap::new();
    let mut first: HashMap<u64, String> = HashMap::new();
    let mut open = vec![root.to_owned()];
    let mut names = Vec::new();
    while let Some(dir) = open.pop() {
        let mut entries: Vec<PathBuf> =
            std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        for path in entries {
            if path.symlink_metadata().unwrap().is_dir() {
                open.push(path.clone());
            }
            names.push(path);
        }
    }
    names.sort();
    for path in names {
        let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
        let what = describe(&path, &name, &mut first);
        tree.insert(name, what);
    }
    tree
}

fn describe(path: &Path, name: &str, first: &mut HashMap<u64, String>) -> String {
    let meta = path.symlink_metadata().unwrap();
    let kind = meta.file_type();
    let mut what = String::new();
    if kind.is_symlink() {
        write!(what, "link to {:?}", std::fs::read_link(path).unwrap()).unwrap();
    } else if kind.is_file() {
        let contents = std::fs::read(path).unwrap();
        match contents.len() {
            0..=40 => write!(what, "file {:?}", String::from_utf8_lossy(&contents)).unwrap(),
            length => write!(what, "file of {length} sum {}", sum(&contents)).unwrap(),
        }
    } else if kind.is_dir() {
        what.push_str("dir");
    } else if kind.is_fifo() {
        what.push_str("fifo");
    } else {
        write!(what, "special {:o} {}", meta.mode() & 0o170_000, meta.rdev()).unwrap();
    }
    write!(what, " {:o} {}:{}", meta.mode() & 0o7777, meta.uid(), meta.gid()).unwrap();
    if meta.mtime() < NOW {
        write!(what, " mtime {}.{:09}", meta.mtime(), meta.mtime_nsec()).unwrap();
    }
    if !kind.is_dir() && meta.nlink() > 1 {
        let first = first.entry(meta.ino()).or_insert_with(|| name.to_owned());
        write!(what, " same as {first}").unwrap();
    }
    for (attribute, value) in attributes(path) {
        write!(what, " {attribute}={value:?}").unwrap();
    }
    what
}

fn sum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, &b| (sum ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

fn attributes(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut list = vec![0; 65536];
    let Ok(length) = rustix::fs::llistxattr(path, &mut list[..]) else { return BTreeMap::new() };
    let names = list[..length].split(|&b| b == 0).filter(|name| !name.is_empty());
    let value = |name: &[u8]| {
        let mut value = vec![0; 65536];
        let length = rustix::fs::lgetxattr(path, name, &mut value[..]).unwrap();
        value.truncate(length);
        (String::from_utf8_lossy(name).into_owned(), value)
    };
    names.map(value).collect()
}

/// A name of arbitrary bytes.
pub fn bytes(name: &[u8]) -> OsString {
    OsString::from_vec(name.to_vec())
}

/// Compares both programs with each set of options.
pub fn each(setup: &str, options: &[&str], operands: &str) {
    for option in options {
        case(setup, &format!("{option} {operands}")).same();
    }
}

/// The bytes of a path.
pub fn raw(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}
