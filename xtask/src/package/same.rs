//! Makes the packages a second time, with everything at other paths, and compares them.

use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::{Kind, Making, made};
use crate::Error;
use crate::scratch::Scratch;
use crate::tool::{cargo, quiet, root, tool};

/// Returns whether all packages are the same bytes; prints those that are not.
pub(super) fn check(making: &Making, kinds: &[&Kind]) -> Result<bool, Error> {
    println!("package: everything again, at other paths");
    let scratch = Scratch::new(Path::new("/var/tmp"))?;
    let checkout = scratch.path().join("a checkout of another name");
    copy_checkout(&checkout)?;
    let home = scratch.path().join("cargo");
    link_home(&home)?;
    // Tools are not built again.
    fs::create_dir_all(checkout.join("target"))?;
    symlink(root().join("target/judges"), checkout.join("target/judges"))?;
    let mut again = cargo();
    again
        .args(["run", "--quiet", "--package", "xtask", "--", "package", "--unverified"])
        .args(kinds.iter().map(|kind| format!("--only={}", kind.name)))
        .args(["--profile", &making.profile])
        .current_dir(&checkout)
        .env("CARGO_HOME", &home)
        .env_remove("CARGO_TARGET_DIR")
        .env("SOURCE_DATE_EPOCH", making.epoch.to_string());
    if !again.status()?.success() {
        return Err("the second time, the packages could not be made".into());
    }
    compare(&making.out, &checkout.join("target/packages"))
}

/// Copies the files of the checkout as they are, and its history, from which cargo takes the commit
/// of a `.crate` file.
fn copy_checkout(to: &Path) -> Result<(), Error> {
    quiet(tool("git").args(["clone", "--quiet", "--no-hardlinks", "--no-checkout", "."]).arg(to))?;
    let list = tool("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
        .output()?;
    for name in list.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let name = std::str::from_utf8(name)?;
        // A file that was removed is in the index until that is committed.
        if root().join(name).symlink_metadata().is_ok() {
            let (from, to) = (root().join(name), to.join(name));
            fs::create_dir_all(to.parent().expect("a file lies below the checkout"))?;
            quiet(tool("cp").args(["--no-dereference", "--preserve=mode"]).arg(from).arg(to))?;
        }
    }
    quiet(tool("git").args(["reset", "--quiet"]).current_dir(to))
}

/// Makes a home of cargo with the same registries and settings at another path.
fn link_home(to: &Path) -> Result<(), Error> {
    let home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo")));
    fs::create_dir(to)?;
    for entry in fs::read_dir(home.ok_or("neither CARGO_HOME nor HOME is set")?)? {
        let entry = entry?;
        symlink(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}

fn compare(ours: &Path, theirs: &Path) -> Result<bool, Error> {
    let names = |out: &Path| -> Result<Vec<PathBuf>, Error> {
        let made = made(out)?.into_iter();
        Ok(made.filter_map(|path| path.strip_prefix(out).ok().map(Path::to_owned)).collect())
    };
    let (mut same, ours_named) = (true, names(ours)?);
    if ours_named != names(theirs)? {
        println!("package: DIFFERENT FILES: {:?}, {:?}", ours_named, names(theirs)?);
        same = false;
    }
    for name in &ours_named {
        let (one, other) = (read(&ours.join(name))?, read(&theirs.join(name))?);
        if one != other {
            let at = one.iter().zip(&other).take_while(|(one, other)| one == other).count();
            println!("package: DIFFERS from byte {at} on: {}", name.display());
            same = false;
        }
    }
    if same {
        println!("package: all {} files are the same bytes", ours_named.len());
    }
    Ok(same)
}

/// The bytes of a file; none if it is missing, which has been told.
fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    if let Ok(mut file) = fs::File::open(path) {
        file.read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}
