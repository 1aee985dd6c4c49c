//! `cargo xtask package`: everything by which users get dio, from a checkout, into
//! `target/packages`.
//!
//! Each kind of package is a [`Kind`]: a name for `--only`, what has to be installed to make it,
//! and a function that makes it. Nothing in a package depends on where or when it was made: see
//! [`Making`] for the time and `programs` for the paths.

mod copyright;
mod crates;
mod deb;
mod files;
mod fresh;
mod library;
mod metadata;
mod module;
mod programs;
mod same;
mod tarball;

use std::fs;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::setup;
use crate::tally::Tally;
use crate::tool::{root, tool};

/// What `cargo xtask package` is asked for.
#[derive(clap::Args)]
pub(crate) struct PackageArgs {
    /// Make only these: programs, library, python, crates
    #[arg(long, value_name = "KIND", value_parser = kind_named)]
    only: Vec<&'static Kind>,
    /// Cargo profile of the programs; `dev` is large, slow, and built for the tests anyway
    #[arg(long, default_value = programs::DIST)]
    profile: String,
    /// Make everything a second time, at other paths, and compare each byte
    #[arg(long)]
    check: bool,
    /// Install the packages in a fresh Debian root, use, upgrade and remove them there (as root)
    #[arg(long)]
    test: bool,
    /// Do not build each crate from its file
    #[arg(long)]
    unverified: bool,
}

/// One kind of package.
#[derive(Debug)]
struct Kind {
    name: &'static str,
    /// Names of `setup`.
    needs: &'static [&'static str],
    make: fn(&Making) -> Result<(), Error>,
}

const KINDS: &[Kind] = &[
    Kind {
        name: "programs",
        needs: &["cargo-deb", "dpkg-dev", "tar", "xz-utils"],
        make: make_programs,
    },
    Kind {
        name: "library",
        needs: &["binutils", "cargo-c", "cargo-deb", "dpkg-dev", "g++", "libsqlite3-dev"],
        make: library::make,
    },
    Kind { name: "python", needs: &["python3", "python3-venv"], make: module::make },
    Kind { name: "crates", needs: &[], make: crates::make },
];

fn kind_named(name: &str) -> Result<&'static Kind, String> {
    let names = || KINDS.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", ");
    KINDS.iter().find(|kind| kind.name == name).ok_or_else(|| format!("the kinds are {}", names()))
}

/// What is made, and from what.
struct Making {
    /// The version of the workspace.
    version: String,
    profile: String,
    /// Whether crates are built from their files.
    is_verified: bool,
    /// Seconds since 1970 that every file in a package bears: `SOURCE_DATE_EPOCH`, or when the last
    /// commit was made.
    epoch: u64,
    /// Where the packages go.
    out: PathBuf,
    /// Where the trees of files are laid out that go into them.
    stage: PathBuf,
}

impl Making {
    fn new(args: &PackageArgs) -> Result<Making, Error> {
        let out = root().join("target/packages");
        Ok(Making {
            version: metadata::version()?,
            profile: args.profile.clone(),
            is_verified: !args.unverified,
            epoch: epoch()?,
            stage: out.join("stage"),
            out,
        })
    }

    /// A command that bears the time of the packages.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> std::process::Command {
        let mut command = tool(program);
        command.env("SOURCE_DATE_EPOCH", self.epoch.to_string()).env("LC_ALL", "C.UTF-8");
        command
    }
}

fn epoch() -> Result<u64, Error> {
    if let Ok(given) = std::env::var("SOURCE_DATE_EPOCH") {
        return given.parse().map_err(|e| format!("SOURCE_DATE_EPOCH: {e}").into());
    }
    let last = tool("git").args(["log", "-1", "--format=%ct"]).output()?;
    let text = String::from_utf8_lossy(&last.stdout);
    text.trim().parse().map_err(|_| "no commit here: set SOURCE_DATE_EPOCH".into())
}

/// Makes packages, and prints them with their sizes. Returns whether all is well, and counts the
/// checks of `--test`.
pub(crate) fn package(args: &PackageArgs) -> Result<(bool, Tally), Error> {
    let making = Making::new(args)?;
    let kinds: Vec<&Kind> =
        if args.only.is_empty() { KINDS.iter().collect() } else { args.only.clone() };
    let needs: Vec<&str> = kinds.iter().flat_map(|kind| kind.needs).copied().collect();
    setup::need(&needs)?;
    // Packages of an earlier version must not be taken for those of this one.
    if making.out.exists() {
        fs::remove_dir_all(&making.out)?;
    }
    fs::create_dir_all(&making.out)?;
    for kind in &kinds {
        println!("package: {}", kind.name);
        (kind.make)(&making).map_err(|e| format!("{}: {e}", kind.name))?;
    }
    sum(&making)?;
    let mut well = true;
    if args.check {
        well &= same::check(&making, &kinds)?;
    }
    let mut tally = Tally::default();
    if args.test {
        tally = fresh::test(&making)?;
        well &= tally.failed == 0;
    }
    Ok((well, tally))
}

/// What CI runs: the packages, with a program that is built already.
pub(crate) const TRIED: &str = "package --only programs --only library --profile dev --test";

/// Runs [`TRIED`], and counts its checks.
pub(crate) fn tried() -> Result<Tally, Error> {
    let args = PackageArgs {
        only: vec![kind_named("programs")?, kind_named("library")?],
        profile: "dev".to_owned(),
        check: false,
        test: true,
        unverified: false,
    };
    let (well, mut tally) = package(&args)?;
    tally.failed += u64::from(!well && tally.failed == 0);
    Ok(tally)
}

/// The programs as packages of Debian and as a tarball.
fn make_programs(making: &Making) -> Result<(), Error> {
    let programs = programs::build(making)?;
    programs::check_size(making, &programs)?;
    deb::stage(making, &programs)?;
    deb::make(making)?;
    tarball::make(making)
}

/// The packages, by name, without the trees that they were made of.
fn made(out: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    for entry in fs::read_dir(out)? {
        let path = entry?.path();
        if path.is_file() && !path.ends_with(SUMS) {
            found.push(path);
        } else if path.ends_with(crates::DIRECTORY) {
            for entry in fs::read_dir(&path)? {
                found.push(entry?.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The file with the digests of all packages.
const SUMS: &str = "SHA256SUMS";

/// Writes the digests, and prints names and sizes.
fn sum(making: &Making) -> Result<(), Error> {
    let made = made(&making.out)?;
    let names = made.iter().filter_map(|path| path.strip_prefix(&making.out).ok());
    let sums = tool("sha256sum").args(names).current_dir(&making.out).output()?;
    fs::write(making.out.join(SUMS), &sums.stdout)?;
    for path in &made {
        let name = path.strip_prefix(&making.out)?.display();
        println!("package: {:>12} bytes  {name}", fs::metadata(path)?.len());
    }
    println!("package: {} and {SUMS} are in {}", made.len(), making.out.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setup_can_install_what_each_kind_needs() {
        let names = || KINDS.iter().flat_map(|kind| kind.needs);
        assert!(names().all(|name| setup::is_known(name)), "{:?}", names().collect::<Vec<_>>());
        assert!(setup::need(&["gcc"]).unwrap_err().to_string().contains("gcc"));
    }
}
