//! Installs the packages in a fresh Debian root, uses, upgrades and removes them there:
//! `packaging/tests/installed.sh` has the checks.
//!
//! The root is made once by debootstrap, from the mirror that this machine's apt uses, and kept in
//! `target/fresh-root`. A run gets a layer of its own over it, in a mount and a process namespace
//! with which all that it mounted and started goes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::files::copy_into;
use super::{Making, deb, made};
use crate::Error;
use crate::scratch::Scratch;
use crate::setup;
use crate::tally::Tally;
use crate::tool::{is_root, root, tool};

/// What the checks need and a minimal root lacks. fuse3 is what the package recommends.
const INSTALLED: &str = "bash-completion,fish,fuse3,man-db,sqlite3,systemd,xz-utils,zsh";

/// The version of the package from which the checks upgrade.
const EARLIER: &str = "0.0.1";

/// Runs the checks and counts them.
pub(super) fn test(making: &Making) -> Result<Tally, Error> {
    if !is_root() {
        println!("skipped: packages in a fresh root: only root makes one");
        return Ok(Tally { skipped: 1, ..Tally::default() });
    }
    setup::need(&["debootstrap"])?;
    let base = base()?;
    let scratch = Scratch::new(Path::new("/var/tmp"))?;
    let given = scratch.path().join("packages");
    let earlier = given.join("earlier");
    fs::create_dir_all(&earlier)?;
    deb::pack(making, deb::TOOLS, EARLIER, &earlier)?;
    for path in made(&making.out)? {
        copy_into(&given, &path)?;
    }
    copy_into(&given, &root().join("packaging/tests/installed.sh"))?;
    println!("package: in a fresh root: {}", base.display());
    let group = ControlGroup::new();
    let mut command = tool("timeout");
    command
        .args(["--signal=KILL", PATIENCE, "unshare", "--mount", "--propagation", "private"])
        .args(["--pid", "--fork", "--kill-child", "--ipc", "--uts", "sh"])
        .arg(root().join("packaging/tests/enter.sh"))
        .arg(&base)
        .arg(scratch.path())
        .arg(group.as_ref().map_or(Path::new(""), |group| &group.path));
    let status = command.status()?;
    drop(group);
    let text = fs::read(given.join("output")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    print!("{text}");
    Ok(count(&text, status.success()))
}

/// How long the checks may take, as `timeout` reads it.
const PATIENCE: &str = "10m";

/// A control group, in which a systemd of its own runs the checks.
struct ControlGroup {
    path: PathBuf,
}

impl ControlGroup {
    /// Makes one in the hierarchy of this machine's systemd, or in the unified one. `None` if there
    /// is neither.
    fn new() -> Option<ControlGroup> {
        let name = format!("dio-packages-{}", std::process::id());
        let places = ["/sys/fs/cgroup/systemd", "/sys/fs/cgroup"];
        let hierarchy = places.map(Path::new).into_iter().find(|place| {
            // Directories beside hierarchies have no such file.
            place.join("cgroup.procs").exists()
        })?;
        let path = hierarchy.join(name);
        fs::create_dir(&path).ok()?;
        Some(ControlGroup { path })
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // Nothing runs there any more, but the kernel may need a moment to notice. What cannot be
        // removed is empty, and harms nobody.
        for _ in 0..50 {
            let mut removal = tool("find");
            removal.arg(&self.path).args(["-depth", "-type", "d", "-exec", "rmdir", "{}", ";"]);
            if removal.stderr(Stdio::null()).status().is_ok() && !self.path.exists() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    }
}

/// Counts lines that begin with `ok`, `not ok` and `skipped`. Checks that did not come to their end
/// are one failure.
fn count(text: &str, success: bool) -> Tally {
    let with = |word: &str| text.lines().filter(|line| line.starts_with(word)).count() as u64;
    let failed = with("not ok: ");
    Tally {
        passed: with("ok: "),
        failed: if success || failed > 0 { failed } else { 1 },
        skipped: with("skipped: "),
    }
}

/// Returns the root that runs begin with, which is made if it is missing.
fn base() -> Result<PathBuf, Error> {
    let (mirror, suite) = mirror()?;
    // Another list of packages is another root.
    let name = format!("{suite}-{}", INSTALLED.replace(',', "-"));
    let base = root().join("target/fresh-root").join(name);
    if base.exists() {
        return Ok(base);
    }
    println!("package: debootstrap {suite}");
    let part = base.with_extension("part");
    if part.exists() {
        fs::remove_dir_all(&part)?;
    }
    fs::create_dir_all(&part)?;
    let mut command = tool("debootstrap");
    command.args(["--variant=minbase", &format!("--include={INSTALLED}"), &suite]);
    let out = command.arg(&part).arg(&mirror).output()?;
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stdout);
        let last: Vec<&str> = said.lines().rev().take(5).collect();
        return Err(format!("debootstrap: {}", last.join("; ")).into());
    }
    fs::rename(&part, &base)?;
    Ok(base)
}

/// Where this machine's apt gets the release that it runs from, and the name of that release.
fn mirror() -> Result<(String, String), Error> {
    let release = fs::read_to_string("/etc/os-release")?;
    let suite = release
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="))
        .ok_or("/etc/os-release names no release of Debian")?;
    let targets = tool("apt-get")
        .args([
            "indextargets",
            "--format",
            "$(SITE) $(CODENAME) $(RELEASE)",
            "Created-By: Packages",
        ])
        .output()?;
    let text = String::from_utf8(targets.stdout)?;
    let site = text.lines().find_map(|line| {
        let mut words = line.split(' ');
        let site = words.next()?;
        words.all(|word| word == suite).then(|| site.to_owned())
    });
    Ok((site.ok_or_else(|| format!("apt has no source for {suite}"))?, suite.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_counted_and_an_early_end_is_a_failure() {
        let text = "ok: a\nnot ok: b\n  said c\nskipped: d\nok: e\n";
        assert_eq!(count(text, false), Tally { passed: 2, failed: 1, skipped: 1 });
        assert_eq!(count("ok: a\n", false), Tally { passed: 1, failed: 1, skipped: 0 });
    }
}
