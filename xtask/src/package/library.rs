//! The C library as packages of Debian: `libdio1` has the shared library and the VFS for SQLite,
//! `libdio-dev` what programs are built with.
//!
//! cargo-c builds and installs the library into a tree; what each package has of it is said here,
//! and its control data in `bindings/c/Cargo.toml`.

use std::fs;
use std::path::PathBuf;

use super::files::{FILE, Tree, names};
use super::{Making, deb, programs};
use crate::Error;
use crate::setup;
use crate::tool::{quiet, root, tool};

const CRATE: &str = "dio-capi";
const SHARED: deb::Control = (CRATE, None);
const DEVELOPMENT: deb::Control = (CRATE, Some("dev"));

/// The shared library and its VFS as they are named in `bindings/c/Cargo.toml`, without the
/// directory of the architecture.
const LIBRARY: &str = "libdio.so.1";
const VFS: &str = "dio/dio_vfs.so";

/// The sources of the VFS: all files in C here.
const VFS_SOURCES: &str = "bindings/c/vfs";

/// Makes both packages.
pub(super) fn make(making: &Making) -> Result<(), Error> {
    let built = install(making)?;
    let vfs = build_vfs(making, &built)?;
    let shared = Tree::new(making.stage.join("libdio1"))?;
    let stripped = making.stage.join(LIBRARY);
    programs::strip(making, &built.directory.join(LIBRARY), &stripped)?;
    shared.copy(&stripped, &built.at(LIBRARY), FILE)?;
    shared.copy(&vfs, &built.at(VFS), FILE)?;
    deb::document(making, &shared, "libdio1", (CRATE, &[]))?;
    let development = Tree::new(making.stage.join("libdio-dev"))?;
    development.copy(built.tree.join("usr/include/dio.h"), "usr/include/dio.h", FILE)?;
    for name in ["libdio.a", "pkgconfig/dio.pc"] {
        development.copy(built.directory.join(name), &built.at(name), FILE)?;
    }
    development.link(&built.at("libdio.so"), LIBRARY)?;
    deb::document(making, &development, "libdio-dev", (CRATE, &[]))?;
    let documentation = "usr/share/doc/libdio-dev";
    development.copy("docs/c.md", &format!("{documentation}/c.md"), FILE)?;
    let examples = format!("{documentation}/examples");
    development.copy_all("bindings/c/examples", &examples, |_| true)?;
    deb::pack(making, SHARED, &making.version, &making.out)?;
    deb::pack(making, DEVELOPMENT, &making.version, &making.out)
}

/// The library as cargo-c installs it.
struct Built {
    /// The tree, of which `usr` is the prefix.
    tree: PathBuf,
    /// Where the libraries are within the prefix: Debian has a directory for each architecture.
    libraries: String,
    /// The same in the tree.
    directory: PathBuf,
}

impl Built {
    /// The place of a file beside the libraries, in a package.
    fn at(&self, name: &str) -> String {
        format!("usr/{}/{name}", self.libraries)
    }
}

fn install(making: &Making) -> Result<Built, Error> {
    let output = tool("dpkg-architecture").arg("-qDEB_HOST_MULTIARCH").output()?;
    let libraries = format!("lib/{}", String::from_utf8(output.stdout)?.trim());
    let tree = making.stage.join("libdio");
    if tree.exists() {
        fs::remove_dir_all(&tree)?;
    }
    let mut command = making.command(setup::judge("cargo-capi"));
    command
        .args(["capi", "install", "--locked", "--offline", "--profile", &making.profile])
        .arg("--manifest-path")
        .arg(root().join("bindings/c/Cargo.toml"))
        .args(["--prefix", "/usr", "--libdir", &format!("/usr/{libraries}"), "--destdir"])
        .arg(&tree);
    // Otherwise the tests' own build of it is taken.
    if making.profile != "dev" {
        command.envs(programs::without_paths()?);
    }
    quiet(&mut command)?;
    let directory = tree.join("usr").join(&libraries);
    Ok(Built { tree, libraries, directory })
}

/// Builds the loadable extension for SQLite against the library.
fn build_vfs(making: &Making, built: &Built) -> Result<PathBuf, Error> {
    let (whole, stripped) = (making.stage.join("dio_vfs.so"), making.stage.join("vfs.stripped"));
    let directory = root().join(VFS_SOURCES);
    let mut sources = names(&directory)?;
    sources.retain(|name| name.ends_with(".c"));
    let mut cc = making.command("cc");
    cc.args(["-std=c11", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-D_GNU_SOURCE"])
        .args(["-pthread", "-Wall", "-Wextra", "-Werror", "-Wl,-z,relro,-z,now"])
        .arg(format!("-ffile-prefix-map={}=/dio", root().display()))
        .args(sources.iter().map(|name| directory.join(name)))
        .arg(format!("-I{}", built.tree.join("usr/include").display()))
        .arg(format!("-L{}", built.directory.display()))
        .args(["-ldio", "-o"])
        .arg(&whole);
    quiet(&mut cc)?;
    programs::strip(making, &whole, &stripped)?;
    Ok(stripped)
}
