//! Builds the library by cargo-c and installs it below `target`, once for all tests.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The compiler's flags for everything in C here.
const STRICT: [&str; 4] = ["-std=c11", "-Wall", "-Wextra", "-Werror"];

/// The installed library.
pub(crate) struct Library {
    /// Where it is installed: `include`, `lib`, `lib/pkgconfig`.
    pub(crate) prefix: PathBuf,
}

/// The installed library. `None` if cargo-c is not there: `cargo xtask setup` builds it.
pub(crate) fn library() -> Option<&'static Library> {
    static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();
    let library = LIBRARY.get_or_init(|| cargo_c().map(install));
    if library.is_none() {
        dio_test::skip!("cargo-c is missing: cargo xtask setup");
    }
    library.as_ref()
}

/// The directory of this package.
pub(crate) fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn target() -> PathBuf {
    package().join("../../target").canonicalize().expect("the tests were built there")
}

/// The program that `cargo xtask setup` has built, or another one.
fn cargo_c() -> Option<PathBuf> {
    let own = target().join("judges/bin/cargo-capi");
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::iter::once(own)
        .chain(std::env::split_paths(&path).map(|directory| directory.join("cargo-capi")))
        .find(|program| program.is_file())
}

fn install(cargo_c: PathBuf) -> Library {
    let prefix = target().join("capi");
    let mut install = Command::new(cargo_c);
    install
        .args(["capi", "install", "--debug", "--offline", "--locked", "--manifest-path"])
        .arg(package().join("Cargo.toml"))
        .arg("--prefix")
        .arg(&prefix)
        .arg("--libdir")
        .arg(prefix.join("lib"));
    // It may take minutes beside other builds. What it prints meanwhile, past the harness, shows
    // that the tests do not hang.
    let status = install.stdout(Stdio::null()).status();
    assert!(status.as_ref().is_ok_and(|status| status.success()), "{install:?}: {status:?}");
    Library { prefix }
}

/// Runs a program to its end. Returns what it wrote to standard output.
///
/// # Panics
/// If it fails, with all that it wrote.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}: {text}{errors}", output.status);
    text
}

impl Library {
    /// What pkg-config answers about the library.
    pub(crate) fn pkg_config(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("pkg-config");
        command.env("PKG_CONFIG_PATH", self.prefix.join("lib/pkgconfig")).args(arguments);
        run(command.arg("dio")).trim().to_owned()
    }

    /// The shared library by its soname.
    pub(crate) fn shared(&self) -> PathBuf {
        self.prefix.join("lib/libdio.so.1")
    }

    /// Compiles C sources with the flags that pkg-config names, and `more`.
    pub(crate) fn compile(&self, sources: &[PathBuf], more: &[&str], output: &Path) {
        let mut cc = Command::new("cc");
        cc.args(STRICT).args(["-g", "-D_GNU_SOURCE", "-pthread"]).args(sources);
        cc.args(self.pkg_config(&["--cflags", "--libs"]).split_whitespace());
        cc.arg(format!("-Wl,-rpath,{}", self.prefix.join("lib").display()));
        run(cc.args(more).arg("-o").arg(output));
    }

    /// The loadable extension for SQLite, built once.
    pub(crate) fn vfs(&self) -> &'static Path {
        static VFS: OnceLock<PathBuf> = OnceLock::new();
        VFS.get_or_init(|| {
            let output = self.prefix.join("lib/dio_vfs.so");
            let files = std::fs::read_dir(package().join("vfs")).unwrap();
            let mut sources: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
            sources.retain(|path| path.extension().is_some_and(|end| end == "c"));
            let more = ["-O2", "-shared", "-fPIC", "-fvisibility=hidden"];
            self.compile(&sources, &more, &output);
            output
        })
    }
}
