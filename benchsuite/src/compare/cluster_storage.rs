//! What ranks copy, a modelled storage that they share, and their network cards.
//!
//! The storage is the image of a file system on a mount that limits what is read (`dio mount -o
//! rate=`): a request of the image's loop device is one request of the mount. A card is a limit of
//! the kernel on what the ranks of a control group read from that loop device. So a small file
//! costs one request of the mount, and a card costs nothing: what the ranks do can take most of the
//! processor time, and their number decides how fast they are.

use std::fs;
use std::path::Path;

use crate::Result;
use crate::data::remove;
use crate::lab::Lab;
use crate::tool::{must, output, tool};
use dio_common::size::{KIB, MIB};

/// The modelled storage lets through as much as so many cards.
pub(super) const STORAGE_CARDS: u64 = 4;

/// The control groups with a limit are here, one for each card.
const GROUPS: &str = "/sys/fs/cgroup/blkio";

/// The words that start so many ranks. Open MPI looks for networks that one machine has no use for.
pub(super) fn mpirun(ranks: u32) -> String {
    format!(
        "mpirun --oversubscribe --bind-to none --allow-run-as-root --mca pml ^ucx,cm -n {ranks}"
    )
}

/// Data to copy: a name below the lab's directory, and how much it is.
#[derive(Clone, Copy)]
pub(super) struct Data<'a> {
    pub(super) name: &'a str,
    pub(super) bytes: u64,
    pub(super) files: u64,
}

/// The last part of a path.
pub(super) fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Makes sure that the programs are there that the model needs, and the limits of the kernel.
pub(super) fn need_programs() -> Result<()> {
    let programs = ["losetup", "mkfs.ext4", "mountpoint"];
    programs.map(must).into_iter().collect::<Result<Vec<_>>>()?;
    if Path::new(GROUPS).join("blkio.throttle.read_bps_device").exists() {
        Ok(())
    } else {
        Err(format!("{GROUPS} has no limits on reads (blkio of control groups version 1)").into())
    }
}

/// A tree or a file of which there is an image.
pub(super) struct Stored<'a> {
    image: String,
    data: Data<'a>,
}

/// Makes the image of a directory that holds nothing but `data`.
pub(super) fn store<'a>(lab: &Lab, data: Data<'a>) -> Result<Stored<'a>> {
    let source = lab.dir.join(data.name);
    let name = format!("cluster/images/{}", name_of(&source));
    let image = lab.dir.join(&name);
    if !image.exists() {
        eprintln!("benchsuite: making an image of {}", data.name);
        let part = lab.dir.join("cluster/image.part");
        remove(&part)?;
        fs::create_dir_all(lab.dir.join("cluster/images"))?;
        fs::create_dir_all(lab.dir.join("cluster/shared"))?;
        let mib = (data.bytes + data.files * 4 * KIB) * 5 / 4 / MIB + 64;
        let inodes = (data.files + 10_000).to_string();
        let above = source.parent().ok_or("data without a directory")?;
        output(
            tool("mkfs.ext4")
                .args(["-q", "-F", "-m", "0", "-O", "^has_journal", "-N", &inodes, "-d"])
                .args([above, &part])
                .arg(format!("{mib}M")),
        )?;
        fs::rename(part, &image)?;
    }
    Ok(Stored { image: name, data })
}

impl Stored<'_> {
    /// A copy by ranks that have one card each.
    pub(super) fn copy(&self, ranks: u32, card: u64) -> String {
        format!(
            "dio run -o direct,nogather,rate={}K --dir $DIR/cluster/images -- \
             shared-storage $DIR/{} $DIR/cluster/shared {card} {ranks} \
             {} with-card dio-mpi cp -a --receipt $DIR/receipt $DIR/cluster/shared/{} $DIR/target",
            card * STORAGE_CARDS / KIB,
            self.image,
            mpirun(ranks),
            name_of(Path::new(self.data.name)),
        )
    }
}

/// Removes the control groups of so many cards.
pub(super) fn forget_cards(count: u32) {
    for card in 0..count {
        // One that has not been used is not there.
        let _ = fs::remove_dir(format!("{GROUPS}/dio-benchsuite-card-{card}"));
    }
}
