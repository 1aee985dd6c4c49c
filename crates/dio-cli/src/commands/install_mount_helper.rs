//! `dio install-mount-helper`: the links by which `mount(8)` and `umount(8)` find dio.

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::mount::{FAILED, Failure, helper};
use super::words;
use crate::quote::named;

/// Make mount -t fuse.dio and lines in fstab work
///
/// Links mount.fuse.dio and umount.fuse.dio to this program, where mount(8) and umount(8) look for helpers.
#[derive(clap::Args, Clone, Debug)]
pub struct InstallArgs {
    /// Where mount(8) looks for helpers
    #[arg(long, value_name = "DIR", default_value = "/sbin")]
    dir: PathBuf,

    /// Program to link to, as it will be found when it is needed [default: this one]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// Makes the links; links that are there are replaced, files are not.
#[must_use]
pub fn run(args: InstallArgs) -> ExitCode {
    match install(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.told_by("dio install-mount-helper"),
    }
}

fn install(args: &InstallArgs) -> Result<(), Failure> {
    let program = match &args.program {
        Some(program) => program.clone(),
        None => env::current_exe()
            .map_err(|error| Failure::new(FAILED, format!("cannot find this program: {}", words(&error))))?,
    };
    for name in [helper::MOUNT, helper::UMOUNT] {
        let link = args.dir.join(name);
        place(&program, &link).map_err(|error| Failure::new(FAILED, format!("{}: {}", named(&link), words(&error))))?;
        println!("{} -> {}", link.display(), program.display());
    }
    Ok(())
}

/// Puts the link in its place in one step, so that a `mount` at the same time finds the old one or the new one.
fn place(program: &Path, link: &Path) -> io::Result<()> {
    match fs::symlink_metadata(link) {
        Ok(there) if !there.is_symlink() => return Err(io::ErrorKind::AlreadyExists.into()),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let new = link.with_extension(format!("new{}", std::process::id()));
    symlink(program, &new)?;
    fs::rename(&new, link).inspect_err(|_| {
        // It is of no use to anybody.
        let _ = fs::remove_file(&new);
    })
}
