//! The directory that the two users share, and its contents.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use super::attack::{Attack, BIG, LOCKED, LOCKED_OBJECTS, MANY, WIDE, WORK};
use super::honest;
use super::users::Users;
use crate::Result;
use crate::data::{remove, source};
use crate::lab::Lab;
use crate::tool::{output, tool};
use dio_common::size::{GIB, MIB};

/// The directories of both users, below the one that they share.
const DIRECTORIES: [&str; 2] = ["honest", "hostile"];
/// Bytes of the file that the honest user reads.
const HONEST_BYTES: u64 = 64 * MIB;
/// Names in [`MANY`].
const NAMES: u32 = 10_000;
/// The directory of the objects of [`WIDE`], beside those of the users. The name is short, since
/// the path is in the descriptor once for each object.
const WIDE_OBJECTS: &str = "w";
/// The most objects of [`WIDE`].
const OBJECTS: usize = 256;

/// The directory of the lab, with a directory for each user; removed when dropped.
pub(super) struct UserDirectories {
    /// The directory that both users share.
    dir: PathBuf,
    users: Users,
}

impl UserDirectories {
    /// Creates the files that `attacks` need. `lab` keeps the large files for the next comparison.
    pub(super) fn new(
        lab: &Lab,
        dir: &Path,
        users: &Users,
        attacks: &[Attack],
    ) -> Result<UserDirectories> {
        remove(dir)?;
        let scene = UserDirectories { dir: dir.to_path_buf(), users: users.clone() };
        open_to_others(dir)?;
        let [honest, hostile] = DIRECTORIES.map(|name| dir.join(name));
        private(&honest, users.honest)?;
        private(&hostile, users.hostile)?;
        fs::hard_link(source(&lab.dir, HONEST_BYTES)?, honest.join(honest::DATA))?;
        fs::hard_link(source(&lab.dir, lab.options.size.unwrap_or(GIB))?, hostile.join(BIG))?;
        if attacks.contains(&Attack::List) {
            private(&hostile.join(MANY), users.hostile)?;
            (0..NAMES).try_for_each(|name| {
                File::create(hostile.join(MANY).join(format!("name.{name}"))).map(drop)
            })?;
        }
        if attacks.contains(&Attack::Wide) {
            scene.striped(lab, &dir.join(WIDE_OBJECTS), scene.objects(), &[hostile.join(WIDE)])?;
        }
        if attacks.contains(&Attack::Lock) {
            private(&hostile.join(LOCKED), users.hostile)?;
            let names: Vec<PathBuf> = (0..users.processes)
                .map(|number| hostile.join(LOCKED).join(number.to_string()))
                .collect();
            scene.striped(lab, &hostile.join(LOCKED_OBJECTS), 2, &names)?;
        }
        Ok(scene)
    }

    /// The directory of the honest user below `at`, which is the shared directory or a mount of it.
    pub(super) fn honest(at: &Path) -> PathBuf {
        at.join(DIRECTORIES[0])
    }

    /// The directory of the hostile user below `at`.
    pub(super) fn hostile(at: &Path) -> PathBuf {
        at.join(DIRECTORIES[1])
    }

    /// Number of objects of [`WIDE`]: as many as fit in its descriptor, given the length of their
    /// directory's name.
    pub(super) fn objects(&self) -> usize {
        // The descriptor has 8171 bytes. All lines but those of the targets take less than 300. A
        // target's line has `target `, the name, and a line feed.
        let line = self.dir.join(WIDE_OBJECTS).as_os_str().len() + 8;
        OBJECTS.min((8171 - 300) / line)
    }

    /// Creates striped files of the hostile user, who owns the files and their objects.
    fn striped(&self, lab: &Lab, objects: &Path, count: usize, files: &[PathBuf]) -> Result<()> {
        private(objects, self.users.hostile)?;
        let mut set = tool(&lab.dio);
        set.args(["stripe", "set", "-S", "64K", "-c", &count.to_string(), "-t"])
            .arg(objects)
            .args(files);
        output(&mut set)?;
        for entry in fs::read_dir(objects)? {
            own(&entry?.path(), self.users.hostile)?;
        }
        files.iter().try_for_each(|file| own(file, self.users.hostile))
    }

    /// Removes the files of earlier runs, and waits until the disk has finished that.
    pub(super) fn renew(&self) -> Result<()> {
        let work = UserDirectories::hostile(&self.dir).join(WORK);
        remove(&work)?;
        private(&work, self.users.hostile)?;
        rustix::fs::sync();
        Ok(())
    }
}

impl Drop for UserDirectories {
    fn drop(&mut self) {
        if let Err(e) = remove(&self.dir) {
            eprintln!("benchsuite: {e}");
        }
    }
}

fn own(path: &Path, user: u32) -> Result<()> {
    Ok(chown(path, Some(user), Some(user)).map_err(|e| format!("{}: {e}", path.display()))?)
}

/// Creates a directory that only one user may enter.
fn private(dir: &Path, user: u32) -> Result<()> {
    fs::create_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    fs::set_permissions(dir, Permissions::from_mode(0o700))?;
    own(dir, user)
}

/// Creates a directory that all users may enter.
fn open_to_others(dir: &Path) -> Result<()> {
    fs::create_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    Ok(fs::set_permissions(dir, Permissions::from_mode(0o755))?)
}
