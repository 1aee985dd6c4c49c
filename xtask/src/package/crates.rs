//! The `.crate` files, as cargo would publish them, in the order in which that is possible.

use std::collections::BTreeSet;
use std::fs;

use super::Making;
use super::files::copy_into;
use super::metadata::{self, Crate};
use crate::Error;
use crate::tool::cargo;

/// Where the files go, below the packages.
pub(super) const DIRECTORY: &str = "crates";

/// The file with the order, one crate a line.
const ORDER: &str = "ORDER";

/// Makes the files, and builds each crate from its file, with the other ones as its dependencies:
/// cargo makes a registry of them for that time, since none of them is published.
pub(super) fn make(making: &Making) -> Result<(), Error> {
    let all = metadata::crates()?;
    let own = all.iter().filter(|found| !found.is_foreign && found.is_public);
    let order = in_order(own.collect())?;
    let mut package = cargo();
    package.args(["package", "--locked", "--quiet", "--allow-dirty"]);
    for found in &order {
        package.args(["--package", &found.name]);
    }
    package.args((!making.is_verified).then_some("--no-verify"));
    if !package.status()?.success() {
        return Err("cargo package: see above".into());
    }
    let to = making.out.join(DIRECTORY);
    fs::create_dir_all(&to)?;
    let made = metadata::target_directory()?.join("package");
    let mut text = String::new();
    for found in &order {
        let name = format!("{}-{}.crate", found.name, found.version);
        copy_into(&to, &made.join(&name))?;
        text.push_str(&format!("{}\n", found.name));
    }
    fs::write(to.join(ORDER), text)?;
    Ok(())
}

/// Sorts crates so that each comes behind those that it needs.
fn in_order(mut crates: Vec<&Crate>) -> Result<Vec<&Crate>, Error> {
    crates.sort_by(|one, other| one.name.cmp(&other.name));
    let mut order: Vec<&Crate> = Vec::new();
    while !crates.is_empty() {
        let waiting: BTreeSet<&str> = crates.iter().map(|found| found.name.as_str()).collect();
        let is_free =
            |found: &&Crate| !found.needs.iter().any(|need| waiting.contains(need.as_str()));
        let next = crates.iter().position(is_free).ok_or("crates need each other")?;
        order.push(crates.remove(next));
    }
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_crate_comes_behind_those_that_it_needs() {
        let all = metadata::crates().unwrap();
        let own = all.iter().filter(|found| !found.is_foreign && found.is_public).collect();
        let order: Vec<&str> =
            in_order(own).unwrap().iter().map(|found| found.name.as_str()).collect();
        let at = |name: &str| order.iter().position(|found| *found == name).unwrap();
        assert!(at("dio-sys") < at("dio") && at("dio-digest") < at("dio-cli"), "{order:?}");
        assert!(at("dio") < at("dio-wal") && at("dio-mount") < at("dio-cli"), "{order:?}");
        assert!(!order.contains(&"xtask") && !order.contains(&"dio-test"), "{order:?}");
    }
}
