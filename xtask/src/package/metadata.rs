//! What cargo says about the workspace and the crates that its programs are linked with.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::Error;
use crate::tool::cargo;

/// A crate of the workspace, or one that it depends on.
#[derive(Clone, Debug)]
pub(super) struct Crate {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) license: String,
    pub(super) authors: Vec<String>,
    pub(super) repository: String,
    /// The directory with its `Cargo.toml`.
    pub(super) directory: PathBuf,
    /// Whether it comes from a registry.
    pub(super) is_foreign: bool,
    /// Whether it may be published.
    pub(super) is_public: bool,
    /// Names of the crates that it is built with.
    pub(super) needs: BTreeSet<String>,
}

/// The output of `cargo metadata`.
fn metadata() -> Result<Value, Error> {
    let mut command = cargo();
    command.args(["metadata", "--locked", "--format-version=1"]);
    let out = command.output()?;
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr);
        return Err(format!("cargo metadata: {}", said.trim()).into());
    }
    Ok(serde_json::from_slice(&out.stdout)?)
}

/// All crates that the lock file names.
pub(super) fn crates() -> Result<Vec<Crate>, Error> {
    let all = metadata()?;
    let packages = all["packages"].as_array().into_iter().flatten();
    packages.map(|package| of(package).ok_or_else(|| "cargo metadata: no package".into())).collect()
}

fn of(package: &Value) -> Option<Crate> {
    let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
    let list = |key: &str| package[key].as_array().cloned().unwrap_or_default();
    let built_with = |dependency: &&Value| dependency["kind"].as_str() != Some("dev");
    Some(Crate {
        name: text("name"),
        version: text("version"),
        license: text("license"),
        authors: list("authors").iter().filter_map(|a| a.as_str().map(str::to_owned)).collect(),
        repository: text("repository"),
        directory: Path::new(package["manifest_path"].as_str()?).parent()?.to_owned(),
        is_foreign: !package["source"].is_null(),
        is_public: package["publish"].as_array().is_none_or(|registries| !registries.is_empty()),
        needs: list("dependencies")
            .iter()
            .filter(built_with)
            .filter_map(|dependency| dependency["name"].as_str().map(str::to_owned))
            .collect(),
    })
}

/// Where cargo puts what it makes.
pub(super) fn target_directory() -> Result<PathBuf, Error> {
    let metadata = metadata()?;
    Ok(metadata["target_directory"].as_str().ok_or("cargo metadata: no target directory")?.into())
}

/// The version of the workspace.
pub(super) fn version() -> Result<String, Error> {
    let cli = crates()?.into_iter().find(|found| !found.is_foreign && found.name == "dio-cli");
    Ok(cli.ok_or("no crate dio-cli")?.version)
}

/// The directories of registries, in which each crate has a directory.
pub(super) fn registries(crates: &[Crate]) -> BTreeSet<PathBuf> {
    let foreign = crates.iter().filter(|found| found.is_foreign);
    foreign.filter_map(|found| found.directory.parent().map(Path::to_owned)).collect()
}

/// The crates whose code is linked into what is built of `package` with these arguments, without
/// those that only run while it is built.
pub(super) fn linked(package: &str, args: &[&str]) -> Result<Vec<Crate>, Error> {
    let mut tree = cargo();
    tree.args(["tree", "--locked", "--edges", "normal,no-proc-macro", "--prefix", "none"])
        .args(["--no-dedupe", "--format", "{p}", "--package", package])
        .args(args);
    let out = tree.output()?;
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr);
        return Err(format!("cargo tree: {}", said.trim()).into());
    }
    let known: BTreeMap<(String, String), Crate> = crates()?
        .into_iter()
        .map(|found| ((found.name.clone(), found.version.clone()), found))
        .collect();
    let text = String::from_utf8(out.stdout)?;
    let named: BTreeSet<(String, String)> = text.lines().filter_map(name_and_version).collect();
    named
        .iter()
        .map(|key| known.get(key).cloned().ok_or_else(|| format!("{} is unknown", key.0).into()))
        .collect()
}

/// Reads `name v1.2.3 (path)`.
fn name_and_version(line: &str) -> Option<(String, String)> {
    let mut words = line.split_whitespace();
    let name = words.next()?;
    Some((name.to_owned(), words.next()?.strip_prefix('v')?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linked_crates_are_those_of_the_program_and_none_that_only_build_it() {
        let names = |args: &[&str]| -> Vec<String> {
            linked("dio-cli", args).unwrap().into_iter().map(|found| found.name).collect()
        };
        let lean = names(&["--no-default-features"]);
        assert!(lean.iter().any(|name| name == "zstd-sys"), "{lean:?}");
        for name in ["plotters", "serde_derive", "cc", "proptest"] {
            assert!(!lean.iter().any(|found| found == name), "{name}: {lean:?}");
        }
        assert!(names(&[]).iter().any(|name| name == "plotters"));
    }
}
