//! Installing the programs that tests and comparisons call.

use std::process::Stdio;

use crate::tool::{has, is_root, tool};

/// Debian's packages, each with the programs by which its presence is judged.
const PACKAGES: &[(&str, &[&str])] = &[
    ("acl", &["getfacl", "setfacl"]),
    ("attr", &["getfattr", "setfattr"]),
    ("bsdutils", &["script"]),
    ("btrfs-progs", &["mkfs.btrfs", "btrfs"]),
    ("bzip2", &["bzip2"]),
    ("coreutils", &["cp", "dd", "stat", "sha256sum", "timeout"]),
    ("diffutils", &["cmp", "diff"]),
    ("e2fsprogs", &["mkfs.ext4", "chattr", "filefrag"]),
    ("findutils", &["find"]),
    ("fio", &["fio"]),
    ("git", &["git"]),
    ("gzip", &["gzip"]),
    ("libcap2-bin", &["getcap", "setcap"]),
    ("man-db", &["man"]),
    ("mount", &["losetup", "mount", "umount"]),
    ("nocache", &["nocache"]),
    ("procps", &["ps"]),
    ("python3", &["python3"]),
    ("strace", &["strace"]),
    ("tar", &["tar"]),
    ("util-linux", &["fallocate", "fincore", "prlimit", "rev", "setpriv", "unshare"]),
    ("xfsprogs", &["mkfs.xfs", "xfs_io"]),
    ("xz-utils", &["xz"]),
    ("zstd", &["zstd"]),
];

/// What is still missing after the set-up.
pub(crate) struct Missing(Vec<&'static str>);

impl Missing {
    /// Whether nothing is missing.
    pub(crate) fn is_complete(&self) -> bool {
        self.0.is_empty()
    }

    /// The packages.
    pub(crate) fn packages(&self) -> &[&'static str] {
        &self.0
    }
}

/// Installs what is missing when that is possible; says aloud what stays missing.
pub(crate) fn setup() -> Missing {
    let wanted = missing();
    if wanted.is_empty() {
        println!("setup: everything is there");
        return Missing(wanted);
    }
    println!("setup: missing: {}", wanted.join(" "));
    if !has("apt-get") {
        println!("setup: no apt-get here: install them with the package manager of this system");
        return Missing(wanted);
    }
    if !is_root() {
        println!("setup: not root: run `apt-get install {}` as root", wanted.join(" "));
        return Missing(wanted);
    }
    // Lists that are missing or too old make the first attempt fail.
    if !apt_get(&["install"], &wanted) {
        apt_get(&["update"], &[]);
        apt_get(&["install"], &wanted);
    }
    let rest = missing();
    if rest.is_empty() {
        println!("setup: installed");
    } else {
        println!("setup: STILL MISSING: {}", rest.join(" "));
    }
    Missing(rest)
}

fn missing() -> Vec<&'static str> {
    PACKAGES.iter().filter(|(_, programs)| programs.iter().any(|p| !has(p))).map(|(package, _)| *package).collect()
}

/// Whether apt-get succeeded; its messages go to the terminal, questions are not asked.
fn apt_get(verb: &[&str], packages: &[&str]) -> bool {
    println!("setup: apt-get {} {}", verb.join(" "), packages.join(" "));
    tool("apt-get")
        .args(["--yes", "--quiet", "-o", "DPkg::Lock::Timeout=120"])
        .args(verb)
        .args((!packages.is_empty()).then_some("--no-install-recommends"))
        .args(packages)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
