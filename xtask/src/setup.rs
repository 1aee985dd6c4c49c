//! Installs the programs that tests and comparisons call.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::Error;
use crate::tool::{cargo, has, is_root, root, tool};

/// Programs of crates.io, with fixed versions, so that each run of the tests is judged by the same
/// program: two that judge file systems, what builds the C library, and what makes packages.
const JUDGES: &[Judge] = &[
    // Debian's cannot read manifests of edition 2024.
    Judge { package: "cargo-c", version: "0.10.24+cargo-0.98.0", program: "cargo-capi" },
    Judge { package: "cargo-deb", version: "3.8.0", program: "cargo-deb" },
    Judge { package: "fsx", version: "0.3.2", program: "fsx" },
    Judge { package: "pjdfstest", version: "0.2.2", program: "pjdfstest" },
];

/// A program of crates.io.
struct Judge {
    package: &'static str,
    version: &'static str,
    program: &'static str,
}

/// A package of Debian, with the programs or files that show that it is installed. In the path of a
/// file, `*` stands for one directory.
type Package = (&'static str, &'static [&'static str]);

const PACKAGES: &[Package] = &[
    ("acl", &["getfacl", "setfacl"]),
    ("attr", &["getfattr", "setfattr"]),
    ("bindfs", &["bindfs"]),
    ("binutils", &["ld.bfd", "nm", "readelf"]),
    ("borgbackup", &["borg"]),
    ("bsdutils", &["script"]),
    ("btrfs-progs", &["mkfs.btrfs", "btrfs"]),
    ("bzip2", &["bzip2"]),
    ("chromium-headless-shell", &["chromium-headless-shell"]),
    ("coreutils", &["cp", "dd", "stat", "sha256sum", "timeout"]),
    ("debootstrap", &["debootstrap"]),
    ("diffutils", &["cmp", "diff"]),
    ("dpkg-dev", &["dpkg-shlibdeps"]),
    ("e2fsprogs", &["mkfs.ext4", "chattr", "filefrag"]),
    ("findutils", &["find"]),
    ("fio", &["fio"]),
    ("fuse3", &["fusermount3"]),
    ("g++", &["c++", "cc", "g++"]),
    ("git", &["git"]),
    ("gzip", &["gzip"]),
    ("iproute2", &["ip"]),
    ("libacl1-dev", &["/usr/include/sys/acl.h"]),
    ("libcap2-bin", &["getcap", "setcap"]),
    ("libsqlite3-dev", &["/usr/include/sqlite3.h", "/usr/include/sqlite3ext.h"]),
    ("libssl-dev", &["/usr/include/openssl/ssl.h"]),
    ("man-db", &["man"]),
    ("mariadb-backup", &["mariadb-backup"]),
    ("mariadb-client-core", &["mariadb"]),
    ("mariadb-server-core", &["/usr/sbin/mariadbd", "mariadb-install-db"]),
    ("mount", &["losetup", "mount", "umount"]),
    ("nocache", &["nocache"]),
    ("openssh-sftp-server", &["/usr/lib/openssh/sftp-server"]),
    ("pgbackrest", &["pgbackrest"]),
    ("pkg-config", &["pkg-config"]),
    ("postgresql", &["/usr/lib/postgresql/*/bin/initdb"]),
    ("procps", &["ps"]),
    ("python3", &["python3"]),
    ("python3-venv", &["/usr/lib/*/ensurepip/__init__.py"]),
    ("rclone", &["rclone"]),
    ("restic", &["restic"]),
    ("rsync", &["rsync"]),
    ("sqlite3", &["sqlite3"]),
    ("sshfs", &["sshfs"]),
    ("strace", &["strace"]),
    ("sysbench", &["sysbench"]),
    ("tar", &["tar"]),
    ("util-linux", &["fallocate", "fincore", "prlimit", "rev", "setpriv", "unshare"]),
    ("valgrind", &["valgrind"]),
    ("xfsprogs", &["mkfs.xfs", "xfs_io"]),
    ("xz-utils", &["xz"]),
    ("zstd", &["zstd"]),
];

/// What only the tests of `cluster` need: [`setup`] does not install these.
const CLUSTER: &[Package] = &[
    ("glusterfs-client", &["glusterfs", "/usr/sbin/glusterfsd"]),
    ("iproute2", &["ip"]),
    ("libclang-dev", &["/usr/lib/*/lib/libclang.so"]),
    ("libopenmpi-dev", &["mpicc"]),
    ("munge", &["munged"]),
    ("openmpi-bin", &["mpirun"]),
    ("openssh-sftp-server", &["/usr/lib/openssh/sftp-server"]),
    ("rsync", &["rsync"]),
    ("slurm-wlm", &["slurmctld", "slurmd", "srun"]),
    ("sshfs", &["sshfs"]),
    ("util-linux", &["nsenter", "setpriv", "unshare"]),
];

/// The names of the packages that only `cluster` needs.
pub(crate) fn of_cluster() -> Vec<&'static str> {
    CLUSTER.iter().map(|(package, _)| *package).collect()
}

/// The packages and judges that are still missing.
pub(crate) struct Missing {
    packages: Vec<&'static str>,
    judges: Vec<&'static str>,
}

impl Missing {
    fn look(packages: &[Package]) -> Missing {
        let absent = |(_, files): &&Package| files.iter().any(|file| !present(file));
        Missing {
            packages: packages.iter().filter(absent).map(|(package, _)| *package).collect(),
            judges: JUDGES
                .iter()
                .filter(|judge| !built(judge))
                .map(|judge| judge.package)
                .collect(),
        }
    }

    fn among(mut self, names: &[&str]) -> Missing {
        self.packages.retain(|name| names.contains(name));
        self.judges.retain(|name| names.contains(name));
        self
    }

    /// Whether everything is installed.
    pub(crate) fn is_complete(&self) -> bool {
        self.packages.is_empty() && self.judges.is_empty()
    }

    /// The names of packages and crates.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.packages.iter().chain(&self.judges).copied().collect()
    }
}

/// Installs what is missing, if possible. Reports what stays missing.
pub(crate) fn setup() -> Missing {
    provide(|| Missing::look(PACKAGES))
}

/// As [`setup`], of these packages and programs only.
///
/// # Errors
/// The names of what stays missing, or a name that is not in the lists.
pub(crate) fn need(names: &[&str]) -> Result<(), Error> {
    if let Some(unknown) = names.iter().find(|name| !is_known(name)) {
        return Err(format!("setup does not know {unknown}").into());
    }
    let packages = [PACKAGES, CLUSTER].concat();
    let missing = provide(|| Missing::look(&packages).among(names));
    match missing.names().join(" ") {
        none if none.is_empty() => Ok(()),
        names => Err(format!("these are missing: {names}").into()),
    }
}

/// Whether a package or a program is one of those that can be installed here.
pub(crate) fn is_known(name: &str) -> bool {
    PACKAGES.iter().chain(CLUSTER).any(|(package, _)| *package == name)
        || JUDGES.iter().any(|judge| judge.package == name)
}

fn provide(look: impl Fn() -> Missing) -> Missing {
    let missing = look();
    if missing.is_complete() {
        println!("setup: everything is there");
        return missing;
    }
    println!("setup: missing: {}", missing.names().join(" "));
    install_packages(&missing.packages);
    // The judges are built afterwards, because one of them needs a header of one of the packages.
    for judge in JUDGES.iter().filter(|judge| missing.judges.contains(&judge.package)) {
        build(judge);
    }
    // It may never have been made.
    let _ = std::fs::remove_dir_all(judges_built());
    let rest = look();
    if rest.is_complete() {
        println!("setup: installed");
    } else {
        println!("setup: STILL MISSING: {}", rest.names().join(" "));
    }
    rest
}

fn install_packages(wanted: &[&'static str]) {
    if wanted.is_empty() {
        return;
    }
    if !has("apt-get") {
        println!("setup: no apt-get here: install them with the package manager of this system");
    } else if !is_root() {
        println!("setup: not root: run `apt-get install {}` as root", wanted.join(" "));
    } else if !apt_get(&["install"], wanted) {
        // The first attempt fails if the package lists are missing or too old.
        apt_get(&["update"], &[]);
        apt_get(&["install"], wanted);
    }
}

/// Whether a program can be found, or a file exists if it is named by its path.
fn present(name: &str) -> bool {
    match name.split_once("/*/") {
        Some((above, below)) => std::fs::read_dir(above)
            .is_ok_and(|entries| entries.flatten().any(|entry| entry.path().join(below).is_file())),
        None if name.starts_with('/') => Path::new(name).is_file(),
        None => has(name),
    }
}

/// The directory where the judges are kept between runs: beside the build outputs, because they are
/// built.
fn judges() -> PathBuf {
    root().join("target/judges")
}

/// The directory where they are built.
fn judges_built() -> PathBuf {
    judges().join("build")
}

/// The path of a judge, which [`need`] has provided.
pub(crate) fn judge(name: &str) -> PathBuf {
    judges().join("bin").join(name)
}

/// Whether this version of a judge is there, according to cargo's list of installed programs.
fn built(Judge { package, version, program }: &Judge) -> bool {
    let list = std::fs::read_to_string(judges().join(".crates.toml")).unwrap_or_default();
    list.contains(&format!("\"{package} {version} "))
        && judges().join("bin").join(program).is_file()
}

fn build(Judge { package, version, .. }: &Judge) {
    println!("setup: cargo install {package} {version}");
    let status = cargo()
        .args(["install", "--quiet", "--locked", "--debug", "--root"])
        .arg(judges())
        .arg(package)
        .args(["--version", version])
        // Crates that several of them use are built once.
        .arg("--target-dir")
        .arg(judges_built())
        // Nobody debugs them.
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env("CARGO_PROFILE_DEV_DEBUG_ASSERTIONS", "false")
        .env("CARGO_PROFILE_DEV_OVERFLOW_CHECKS", "false")
        .status();
    if !status.is_ok_and(|status| status.success()) {
        println!("setup: {package} {version} could not be built");
    }
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
