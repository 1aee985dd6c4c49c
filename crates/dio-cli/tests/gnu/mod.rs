//! Runs dio under the names of the system's programs, and compares the observable outcome with
//! theirs.

#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use parking_lot::Mutex;

/// A directory with links to dio under these names and no others, to be put before all other
/// directories of `PATH`.
pub fn links(names: &[&str]) -> &'static Path {
    static MADE: Mutex<BTreeMap<PathBuf, &'static Path>> = Mutex::new(BTreeMap::new());
    let name = format!("links-{}-{}", env!("CARGO_CRATE_NAME"), names.join("-"));
    let links = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    MADE.lock().entry(links).or_insert_with_key(|links| {
        fs::create_dir_all(links).unwrap();
        for name in names {
            // The same tests may run at the same time in another process, so a link is replaced
            // atomically and never missing.
            let own = links.join(format!(".{name}-{}", std::process::id()));
            let _ = fs::remove_file(&own);
            symlink(env!("CARGO_BIN_EXE_dio"), &own).unwrap();
            fs::rename(&own, links.join(name)).unwrap();
        }
        Box::leak(links.clone().into_boxed_path())
    })
}

/// The observable outcome of a run.
#[derive(PartialEq, Eq)]
pub struct Seen {
    /// The exit status, or the signal that ended it.
    pub status: (Option<i32>, Option<i32>),
    pub out: Vec<u8>,
    pub err: Vec<u8>,
    /// The regular files of the directory.
    pub files: BTreeMap<OsString, Vec<u8>>,
}

impl Seen {
    /// Runs `command` in `directory` to its end. `stdin`, if there is any, is passed through a
    /// pipe.
    pub fn of(command: &mut Command, directory: &Path, stdin: Option<&[u8]>) -> Seen {
        command.current_dir(directory).stdout(Stdio::piped()).stderr(Stdio::piped());
        if stdin.is_some() {
            command.stdin(Stdio::piped());
        }
        let mut child = command.spawn().unwrap();
        let pipe = child.stdin.take();
        let output = std::thread::scope(|threads| {
            if let (Some(mut pipe), Some(bytes)) = (pipe, stdin) {
                threads.spawn(move || {
                    // Pieces of odd sizes. A program may stop reading before the end.
                    for part in bytes.chunks(3 * 4096 + 17) {
                        if pipe.write_all(part).is_err() {
                            return;
                        }
                    }
                });
            }
            child.wait_with_output().unwrap()
        });
        let status = (output.status.code(), output.status.signal());
        Seen { status, out: output.stdout, err: output.stderr, files: files(directory) }
    }

    /// Describes how the outcome of dio differs from this outcome, which is that of the system's
    /// program.
    pub fn differences(&self, dio: &Seen) -> String {
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
            text += &format!(
                "{what} at {at} of {} and {}\n  GNU {its}\n  dio {mine}\n",
                gnu.len(),
                dio.len()
            );
        };
        tell("stdout", &self.out, &dio.out);
        tell("stderr", &self.err, &dio.err);
        let names: BTreeSet<_> = self.files.keys().chain(dio.files.keys()).collect();
        let bytes = |files: &BTreeMap<OsString, Vec<u8>>, name| {
            files.get(name).cloned().unwrap_or(b"missing".into())
        };
        for name in names {
            tell(&name.to_string_lossy(), &bytes(&self.files, name), &bytes(&dio.files, name));
        }
        text
    }
}

fn files(directory: &Path) -> BTreeMap<OsString, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            found.insert(
                entry.file_name(),
                fs::read(entry.path()).unwrap_or_else(|error| error.to_string().into()),
            );
        }
    }
    found
}
