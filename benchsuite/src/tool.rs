//! Runs other programs, and installs missing ones.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Result;

/// Debian's packages, each with a program that it contains.
const PACKAGES: &[(&str, &str)] = &[
    ("fio", "fio"),
    ("nocache", "nocache"),
    ("linux-perf", "perf"),
    ("util-linux", "fincore"),
    ("util-linux", "mountpoint"),
    ("mount", "losetup"),
    ("e2fsprogs", "mkfs.ext4"),
    ("diffutils", "cmp"),
    ("openssl", "openssl"),
    ("pigz", "pigz"),
    ("zstd", "zstd"),
    ("python3", "python3"),
    ("git", "git"),
    ("sqlite3", "sqlite3"),
    ("gcc", "cc"),
    ("bindfs", "bindfs"),
    ("postgresql", "pgbench"),
    ("mariadb-server", "mariadbd"),
    ("sysbench", "sysbench"),
    ("restic", "restic"),
    ("borgbackup", "borg"),
    ("rsync", "rsync"),
    ("rclone", "rclone"),
    ("openmpi-bin", "mpirun"),
    ("procps", "pgrep"),
    ("fpart", "fpart"),
    ("parallel", "parallel"),
    ("rclone", "rclone"),
    ("findutils", "find"),
];

/// Sources of libfuse's examples in Debian's libfuse3-dev.
const EXAMPLES: &str = "/usr/share/doc/libfuse3-dev/examples";

/// This crate's directory.
pub(crate) fn home() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A command whose messages are in English, since other code parses them.
pub(crate) fn tool(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env("LC_ALL", "C").stdin(Stdio::null());
    command
}

/// Standard output of a command that must succeed.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let out = command.output().map_err(|e| format!("{}: {e}", command.get_program().display()))?;
    if !out.status.success() {
        let message = String::from_utf8_lossy(&out.stderr);
        return Err(format!(
            "{}: {}: {}",
            command.get_program().display(),
            out.status,
            message.trim()
        )
        .into());
    }
    Ok(String::from_utf8(out.stdout)?)
}

/// The first line that a program prints for `--version`, or the version of the Debian package of
/// that name.
pub(crate) fn version(program: &Path) -> String {
    let first =
        |text: String| text.lines().next().map(str::to_string).filter(|line| !line.is_empty());
    let asked = output(tool(program).arg("--version")).ok().and_then(first);
    let name = program.file_name().unwrap_or_default();
    let package =
        || output(tool("dpkg-query").args(["-W", "-f", "${Package} ${Version}"]).arg(name)).ok();
    asked.or_else(package).unwrap_or_else(|| "version unknown".to_string())
}

/// The path of `name`: in PATH, in `$DIO_PEERS`, or among the programs that this crate built
/// earlier.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    env::split_paths(&path)
        .chain(system)
        .chain(env::var_os("DIO_PEERS").map(PathBuf::from))
        .chain([peers_root().join("bin")])
        .map(|dir| dir.join(name))
        .find(|file| {
            rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok() && file.is_file()
        })
}

fn peers_root() -> PathBuf {
    home().join("target/peers")
}

/// Finds `name`, or installs it: the Debian package if [`PACKAGES`] lists it, otherwise a crate.
/// `None`, with a message, if that fails; a comparison then goes on without it.
pub(crate) fn need(name: &str) -> Option<PathBuf> {
    if let Some(found) = find(name) {
        return Some(found);
    }
    match PACKAGES.iter().find(|(_, program)| *program == name) {
        Some((package, _)) => apt_get(package),
        None if name == "passthrough_ll" => build_example(name),
        None => cargo_install(name),
    }
    let found = find(name);
    if found.is_none() {
        eprintln!("benchsuite: NOT AVAILABLE: {name}");
    }
    found
}

/// Builds an example of libfuse, which Debian ships as source.
fn build_example(name: &str) {
    let source = Path::new(EXAMPLES).join(name).with_extension("c");
    if !source.exists() {
        apt_get("libfuse3-dev");
    }
    let bin = peers_root().join("bin");
    let built = std::fs::create_dir_all(&bin).is_ok_and(|()| {
        let mut cc = tool("cc");
        cc.args(["-O2", "-D_FILE_OFFSET_BITS=64", "-I/usr/include/fuse3"]).arg(source);
        cc.args(["-lfuse3", "-o"]).arg(bin.join(name)).status().is_ok_and(|status| status.success())
    });
    if !built {
        eprintln!("benchsuite: libfuse's {name} could not be built");
    }
}

/// As [`need`], but fails if the program is missing, since the comparison makes no sense without
/// it.
pub(crate) fn must(name: &str) -> Result<PathBuf> {
    need(name).ok_or_else(|| format!("{name} is needed and could not be installed").into())
}

fn apt_get(package: &str) {
    eprintln!("benchsuite: installing the package {package}");
    let run = |verb: &[&str]| {
        tool("apt-get")
            .args(["--yes", "--quiet", "-o", "DPkg::Lock::Timeout=120"])
            .args(verb)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdout(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    };
    // Without package lists, or with outdated ones, the first attempt fails.
    let install = ["install", "--no-install-recommends", package];
    if !run(&install) && run(&["update"]) {
        run(&install);
    }
}

fn cargo_install(name: &str) {
    eprintln!("benchsuite: building the crate {name}");
    let status = tool("cargo")
        .args(["install", "--quiet", "--locked", "--root"])
        .arg(peers_root())
        .arg(name)
        .status();
    if !status.is_ok_and(|s| s.success()) {
        eprintln!("benchsuite: cargo install {name} failed");
    }
}

/// Builds `dio` in release mode and returns its path.
pub(crate) fn build_dio() -> Result<PathBuf> {
    eprintln!("benchsuite: building dio");
    let manifest = home().join("../Cargo.toml");
    let args = [
        "build",
        "--release",
        "--package",
        "dio-cli",
        "--message-format",
        "json-render-diagnostics",
    ];
    let text = output(
        tool("cargo").args(args).arg("--manifest-path").arg(manifest).stderr(Stdio::inherit()),
    )?;
    text.lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["target"]["name"] == "dio")
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .ok_or_else(|| "cargo built no program named dio".into())
}

/// The commit that dio is built from, followed by `+` if files differ from it.
pub(crate) fn commit() -> String {
    let git = |args: &[&str]| {
        output(tool("git").args(["-c", "safe.directory=*"]).args(args).current_dir(home()))
    };
    // Records of earlier comparisons do not affect the measured program.
    let changed = git(&[
        "status",
        "--porcelain",
        "--untracked-files=no",
        "--",
        "..",
        ":!runs",
        ":!README.md",
    ]);
    let mark = if changed.is_ok_and(|text| text.is_empty()) { "" } else { "+" };
    git(&["rev-parse", "--short=12", "HEAD"])
        .map_or("unknown".to_string(), |id| format!("{}{mark}", id.trim()))
}
