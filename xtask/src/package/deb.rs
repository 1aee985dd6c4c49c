//! The packages of Debian: `dio` has the tools, `dio-bench` what measures.
//!
//! What a package contains is laid out here; its control data are in `crates/dio-cli/Cargo.toml`
//! (`package.metadata.deb`), its scripts in `packaging/debian`, and cargo-deb makes the archive.

use std::path::Path;

use super::files::{FILE, PROGRAM, Tree};
use super::programs::Programs;
use super::{Making, copyright};
use crate::Error;
use crate::setup;
use crate::tool::quiet;

/// The trees of the packages, below `stage`.
const TREES: [&str; 2] = ["dio", "dio-bench"];

/// Whether a page belongs to a command that only the package dio-bench has.
fn is_of_bench(page: &str) -> bool {
    ["dio-bench", "dio-report", "dio-synctest", "dio-wal-bench"].iter().any(|command| {
        let rest = page.strip_prefix(command).unwrap_or("");
        rest.starts_with(['.', '-'])
    })
}

/// Lays out the contents of both packages.
pub(super) fn stage(making: &Making, programs: &Programs) -> Result<(), Error> {
    let [tools, bench] = TREES.map(|name| Tree::new(making.stage.join(name)));
    stage_tools(making, programs, &tools?)?;
    stage_bench(making, programs, &bench?)
}

fn stage_tools(making: &Making, programs: &Programs, tree: &Tree) -> Result<(), Error> {
    tree.copy(&programs.lean, "usr/bin/dio", PROGRAM)?;
    tree.link("usr/sbin/mount.fuse.dio", "../bin/dio")?;
    tree.link("usr/sbin/umount.fuse.dio", "../bin/dio")?;
    tree.copy("packaging/dio@.service", "usr/lib/systemd/system/dio@.service", FILE)?;
    tree.copy("packaging/default", "etc/default/dio", FILE)?;
    tree.copy_all("docs/man", "usr/share/man/man1", |page| !is_of_bench(page))?;
    for (helper, page) in [("mount", "dio-mount"), ("umount", "dio-umount")] {
        let page = format!(".so man1/{page}.1\n");
        let name = format!("usr/share/man/man8/{helper}.fuse.dio.8");
        tree.write(&name, page.as_bytes(), FILE)?;
    }
    let completions = [
        ("dio.bash", "bash-completion/completions/dio"),
        ("_dio", "zsh/vendor-completions/_dio"),
        ("dio.fish", "fish/vendor_completions.d/dio.fish"),
    ];
    for (from, to) in completions {
        tree.copy(format!("docs/completions/{from}"), &format!("usr/share/{to}"), FILE)?;
    }
    document(making, tree, "dio", ("dio-cli", &["--no-default-features"]))?;
    for name in ["README.md", "CHANGELOG.md"] {
        tree.copy(name, &format!("usr/share/doc/dio/{name}"), FILE)?;
    }
    tree.copy_all("docs", "usr/share/doc/dio/docs", |name| name.ends_with(".md"))?;
    tree.copy_all("docs/gnu", "usr/share/doc/dio/docs/gnu", |_| true)
}

fn stage_bench(making: &Making, programs: &Programs, tree: &Tree) -> Result<(), Error> {
    tree.copy(&programs.full, "usr/lib/dio/dio-bench", PROGRAM)?;
    tree.copy_all("docs/man", "usr/share/man/man1", is_of_bench)?;
    document(making, tree, "dio-bench", ("dio-cli", &[]))
}

/// Adds what the documentation of each package begins with: changes, licences, and those of what is
/// linked into what it has, which is built of a crate with these arguments of cargo.
pub(super) fn document(
    making: &Making,
    tree: &Tree,
    name: &str,
    (package, features): (&str, &[&str]),
) -> Result<(), Error> {
    let at = |file: &str| format!("usr/share/doc/{name}/{file}");
    let copyright = copyright::text(package, features)?;
    tree.write(&at("copyright"), copyright.as_bytes(), FILE)?;
    tree.write(&at("changelog"), changelog(making)?.as_bytes(), FILE)?;
    tree.copy("NOTICE", &at("NOTICE"), FILE)?;
    tree.copy_all("LICENSES", &at("LICENSES"), |_| true)
}

/// The changes of this version in Debian's form, which only says where they are.
fn changelog(making: &Making) -> Result<String, Error> {
    let mut date = making.command("date");
    date.args(["--utc", "--rfc-email", &format!("--date=@{}", making.epoch)]);
    let date = String::from_utf8(date.output()?.stdout)?;
    Ok(format!(
        "dio ({}) unstable; urgency=medium\n\n  * The changes are in \
         /usr/share/doc/dio/CHANGELOG.md.\n\n -- {}  {date}",
        making.version,
        copyright::MAINTAINER
    ))
}

/// Makes the packages of what is laid out.
pub(super) fn make(making: &Making) -> Result<(), Error> {
    pack(making, TOOLS, &making.version, &making.out)?;
    pack(making, BENCH, &making.version, &making.out)
}

/// Where the control data of a package are: a crate, and the variant in its `package.metadata.deb`.
pub(super) type Control = (&'static str, Option<&'static str>);

pub(super) const TOOLS: Control = ("dio-cli", None);
const BENCH: Control = ("dio-cli", Some("bench"));

/// Makes one package, under any version, so that upgrades can be tested.
pub(super) fn pack(
    making: &Making,
    (package, variant): Control,
    version: &str,
    out: &Path,
) -> Result<(), Error> {
    let mut command = making.command(setup::judge("cargo-deb"));
    command
        .args(["--package", package, "--no-build", "--no-strip", "--quiet", "--offline"])
        .args(["--deb-version", version, "--maintainer", copyright::MAINTAINER, "--output"])
        .arg(out)
        .args(variant.map(|name| format!("--variant={name}")))
        // What only tests install is compressed less.
        .args((making.profile == "dev").then_some("--fast"));
    quiet(&mut command)
}

#[cfg(test)]
mod tests {
    use super::is_of_bench;
    use crate::package::metadata;
    use crate::tool::root;

    /// The packages are made for each other: a program of one version runs the other one, and a
    /// header is that of its library.
    #[test]
    fn packages_need_others_of_their_own_version() {
        let version = metadata::version().unwrap();
        for (manifest, needed) in [
            ("crates/dio-cli/Cargo.toml", format!("depends = \"$auto, dio (= {version})\"")),
            ("bindings/c/Cargo.toml", format!("depends = \"libdio1 (= {version})\"")),
        ] {
            let text = std::fs::read_to_string(root().join(manifest)).unwrap();
            assert!(text.contains(&needed), "{needed} is not in {manifest}");
        }
    }

    #[test]
    fn pages_of_commands_that_measure_are_apart() {
        for page in ["dio-bench.1", "dio-bench-copy.1", "dio-report.1", "dio-wal-bench.1"] {
            assert!(is_of_bench(page), "{page}");
        }
        for page in ["dio.1", "dio-b2sum.1", "dio-wal.1", "dio-record.1"] {
            assert!(!is_of_bench(page), "{page}");
        }
    }
}
