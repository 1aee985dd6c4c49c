//! The tarball for other distributions: the contents of both packages of Debian below one prefix,
//! and a script that installs and removes them.

use std::path::Path;

use super::Making;
use super::files::{FILE, PROGRAM, Tree};
use crate::Error;
use crate::tool::quiet;

/// What is put where below the prefix; `etc` is beside it. zsh and systemd look for files of their
/// own prefix elsewhere than for those of Debian's packages.
const MOVED: &[(&str, &str)] = &[
    ("dio/usr/bin", "bin"),
    ("dio/usr/sbin", "sbin"),
    ("dio/usr/lib", "lib"),
    ("dio/usr/share", "share"),
    ("dio/etc", "etc"),
    ("dio-bench/usr/lib/dio", "lib/dio"),
    ("dio-bench/usr/share/man/man1", "share/man/man1"),
    ("dio-bench/usr/share/doc/dio-bench", "share/doc/dio-bench"),
];

/// Makes the tarball of what is laid out for the packages of Debian.
pub(super) fn make(making: &Making) -> Result<(), Error> {
    let machine = std::env::consts::ARCH;
    let name = format!("dio-{}-{machine}-linux", making.version);
    let tree = Tree::new(making.stage.join("tarball").join(&name))?;
    for (from, to) in MOVED {
        copy_tree(
            making,
            &making.stage.join(from),
            &making.stage.join("tarball").join(&name).join(to),
        )?;
    }
    // Debian has the text of the licence in a place of its own.
    for license in ["LICENSE", "LICENSE-APACHE", "LICENSE-MIT"] {
        tree.copy(license, &format!("share/doc/dio/{license}"), FILE)?;
    }
    tree.copy("packaging/tarball/install.sh", "install.sh", PROGRAM)?;
    let (top, out) = (making.stage.join("tarball"), making.out.join(format!("{name}.tar")));
    let mut tar = making.command("tar");
    tar.args(["--create", "--format=gnu", "--sort=name", "--owner=0", "--group=0"])
        .args(["--numeric-owner", "--mode=u+rw,go=rX", &format!("--mtime=@{}", making.epoch)])
        .arg("--file")
        .arg(&out)
        .arg("--directory")
        .arg(top)
        .arg(&name);
    quiet(&mut tar)?;
    // One thread: how the data are split for several would follow from the machine.
    let effort = if making.profile == "dev" { "-1" } else { "-9" };
    quiet(making.command("xz").args(["--threads=1", "--force", effort]).arg(out))
}

/// Adds the files below `from` to those below `to`.
fn copy_tree(making: &Making, from: &Path, to: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(to)?;
    let from = from.join(".");
    quiet(
        making
            .command("cp")
            .args(["--recursive", "--no-dereference", "--preserve=mode"])
            .arg(from)
            .arg(to),
    )
}
