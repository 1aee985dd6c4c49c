//! `cargo xtask deny`: checks licences, sources and duplicates of all dependencies against
//! `deny.toml`, and the licences of linked C code against the copies that the program ships.
//!
//! This is the part of cargo-deny that needs no network. It uses the output of `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::Error;
use crate::tool::{cargo, root};

/// Manifests of the workspaces that are checked.
const WORKSPACES: [&str; 4] =
    ["Cargo.toml", "fuzz/Cargo.toml", "bindings/python/Cargo.toml", "cluster/Cargo.toml"];

/// C code that is linked into the program: its crate, the path of its licence there, and the path
/// of the shipped copy.
pub(crate) const LINKED: [(&str, &str, &str); 2] = [
    ("libdeflate-sys", "libdeflate/COPYING", "LICENSES/libdeflate.txt"),
    ("zstd-sys", "zstd/LICENSE", "LICENSES/zstd.txt"),
];

/// Prints every violation. Returns whether there is none.
pub(crate) fn deny() -> Result<bool, Error> {
    let rules = Rules::read(&fs::read_to_string(root().join("deny.toml"))?);
    let (mut found, mut count) = (BTreeSet::new(), 0);
    for manifest in WORKSPACES {
        for target in &rules.targets {
            let packages = packages(manifest, target)?;
            count = count.max(packages.len());
            found.extend(rules.check(&packages));
            found.extend(packages.iter().filter_map(unshipped));
        }
    }
    found.iter().for_each(|one| println!("deny: {one}"));
    println!(
        "deny: {} of up to {count} dependencies are not as deny.toml wants them; advisories: not \
         checked",
        found.len()
    );
    Ok(found.is_empty())
}

/// The fields of a package that are needed.
#[derive(Clone, Debug)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    /// `None` for a package of this workspace.
    source: Option<String>,
    manifest: String,
}

fn packages(manifest: &str, target: &str) -> Result<Vec<Package>, Error> {
    let mut metadata = cargo();
    metadata.args([
        "metadata",
        "--locked",
        "--format-version=1",
        "--filter-platform",
        target,
        "--manifest-path",
        manifest,
    ]);
    let out = metadata.output()?;
    if !out.status.success() {
        return Err(
            format!("cargo metadata: {}", String::from_utf8_lossy(&out.stderr).trim()).into()
        );
    }
    let all: Value = serde_json::from_slice(&out.stdout)?;
    // Packages for other platforms are listed too, but are not part of the graph.
    let ids = |key: &str| all["resolve"][key].as_array().cloned().unwrap_or_default();
    let used: BTreeSet<String> = ids("nodes").iter().filter_map(|node| text(&node["id"])).collect();
    let listed = all["packages"].as_array().into_iter().flatten();
    let used = listed.filter(|package| text(&package["id"]).is_some_and(|id| used.contains(&id)));
    Ok(used.filter_map(package).collect())
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn package(value: &Value) -> Option<Package> {
    Some(Package {
        name: text(&value["name"])?,
        version: text(&value["version"])?,
        license: text(&value["license"]),
        source: text(&value["source"]),
        manifest: text(&value["manifest_path"])?,
    })
}

/// A message, if the licence of linked C code differs from the shipped copy.
fn unshipped(package: &Package) -> Option<String> {
    let (_, theirs, ours) = LINKED.into_iter().find(|(name, _, _)| *name == package.name)?;
    let theirs = fs::read(Path::new(&package.manifest).with_file_name(theirs)).ok();
    let same = theirs.is_some() && theirs == fs::read(root().join(ours)).ok();
    (!same).then(|| {
        format!("{} {}: {ours} is not the licence that is in it", package.name, package.version)
    })
}

/// The rules of `deny.toml`, as far as they are checked.
#[derive(Debug, Default)]
struct Rules {
    targets: Vec<String>,
    licenses: Vec<String>,
    /// Names of crates that may be there in several versions.
    several: Vec<String>,
    registries: Vec<String>,
}

impl Rules {
    /// Reads tables and arrays of strings; the file has nothing else.
    fn read(text: &str) -> Rules {
        let mut arrays: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let (mut table, mut key) = (String::new(), String::new());
        for line in text.lines().map(|line| line.split('#').next().unwrap_or_default().trim()) {
            if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                table = name.to_owned();
            } else {
                let values = match line.split_once(" = ") {
                    Some((name, values)) => {
                        key = format!("{table}.{name}");
                        values
                    }
                    None => line,
                };
                let strings = values.split('"').skip(1).step_by(2).map(str::to_owned);
                arrays.entry(key.clone()).or_default().extend(strings);
            }
        }
        let mut take = |name: &str| arrays.remove(name).unwrap_or_default();
        let skipped = take("bans.skip");
        Rules {
            targets: take("graph.targets"),
            licenses: take("licenses.allow"),
            several: skipped
                .iter()
                .filter_map(|one| one.split('@').next())
                .map(str::to_owned)
                .collect(),
            registries: take("sources.allow-registry"),
        }
    }

    fn check(&self, packages: &[Package]) -> Vec<String> {
        let mut found = Vec::new();
        let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for Package { name, version, license, source, .. } in packages {
            versions.entry(name).or_default().insert(version);
            if !license.as_deref().is_some_and(|license| self.allows(license)) {
                let license = license.as_deref().unwrap_or("none");
                found.push(format!(
                    "{name} {version}: its licence, {license}, is not among those allowed"
                ));
            }
            let known = |source: &String| {
                let registry = source.strip_prefix("registry+");
                registry.is_some_and(|registry| {
                    self.registries.iter().any(|allowed| allowed == registry)
                })
            };
            if let Some(source) = source.as_ref().filter(|source| !known(source)) {
                found.push(format!(
                    "{name} {version}: its source, {source}, is not among those allowed"
                ));
            }
        }
        for (name, versions) in versions.iter().filter(|(_, versions)| versions.len() > 1) {
            if !self.several.iter().any(|tolerated| tolerated == name) {
                found.push(format!("{name}: {} versions of it: {versions:?}", versions.len()));
            }
        }
        found
    }

    /// Whether an SPDX expression can be satisfied. `/` is an old form of `OR`.
    fn allows(&self, expression: &str) -> bool {
        let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
        let mut words = spaced.split_whitespace().peekable();
        self.any(&mut words) && words.next().is_none()
    }

    /// Terms joined by `OR`.
    fn any<'a>(&self, words: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>) -> bool {
        let mut allowed = self.all(words);
        while words.next_if_eq(&"OR").is_some() {
            allowed |= self.all(words);
        }
        allowed
    }

    /// Terms joined by `AND`, which binds closer.
    fn all<'a>(&self, words: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>) -> bool {
        let mut allowed = self.one(words);
        while words.next_if_eq(&"AND").is_some() {
            allowed &= self.one(words);
        }
        allowed
    }

    fn one<'a>(&self, words: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>) -> bool {
        let Some(word) = words.next() else { return false };
        if word == "(" {
            let allowed = self.any(&mut *words as &mut std::iter::Peekable<_>);
            return words.next() == Some(")") && allowed;
        }
        let exception = words.next_if_eq(&"WITH").and_then(|_| words.next());
        let name =
            exception.map_or(word.to_owned(), |exception| format!("{word} WITH {exception}"));
        self.licenses.contains(&name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> Rules {
        Rules::read(&fs::read_to_string(root().join("deny.toml")).unwrap())
    }

    #[test]
    fn the_file_is_read() {
        let rules = rules();
        assert!(
            rules.targets.iter().any(|target| target == "x86_64-unknown-linux-gnu"),
            "{rules:?}"
        );
        assert!(rules.licenses.iter().any(|license| license == "Zlib"), "{rules:?}");
        assert!(rules.several.iter().any(|name| name == "syn"), "{rules:?}");
        assert_eq!(rules.registries.len(), 1);
    }

    #[test]
    fn expressions_of_licences_are_judged() {
        let rules = rules();
        for allowed in [
            "MIT",
            "MIT/Apache-2.0",
            "MIT OR GPL-2.0",
            "(MIT OR GPL-2.0) AND Unicode-3.0",
            "GPL-2.0 OR MIT AND Zlib",
            "Apache-2.0 WITH LLVM-exception OR GPL-2.0",
        ] {
            assert!(rules.allows(allowed), "{allowed}");
        }
        for refused in [
            "",
            "GPL-2.0",
            "MIT AND GPL-2.0",
            "(MIT",
            "MIT MIT",
            "MIT WITH LLVM-exception",
            "(MIT OR Zlib) AND X",
        ] {
            assert!(!rules.allows(refused), "{refused}");
        }
    }

    #[test]
    fn what_is_not_allowed_is_told() {
        let package =
            |name: &str, version: &str, license: Option<&str>, source: Option<&str>| Package {
                name: name.to_owned(),
                version: version.to_owned(),
                license: license.map(str::to_owned),
                source: source.map(str::to_owned),
                manifest: String::new(),
            };
        let registry = format!("registry+{}", rules().registries[0]);
        let found = rules().check(&[
            package("own", "1", Some("MIT"), None),
            package("a", "1", Some("MIT"), Some(&registry)),
            package("a", "2", Some("MIT"), Some(&registry)),
            package("syn", "1", Some("MIT"), Some(&registry)),
            package("syn", "2", Some("MIT"), Some(&registry)),
            package("b", "1", None, Some(&registry)),
            package("c", "1", Some("MIT"), Some("git+https://example.org/c")),
        ]);
        assert_eq!(found.len(), 3, "{found:?}");
    }
}
