//! `dio install-mount-helper`: the links by which `mount(8)` and `umount(8)` find dio.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::mount::{FAILED, MountFailure, helper};
use super::words;
use crate::grammar::{Grammar, Program, by_default, help, switch, value, version};
use crate::quote::named;
use crate::tool::trust::open_to_others;

/// The parsed command line.
#[derive(Debug)]
struct InstallArgs {
    dir: PathBuf,
    program: Option<PathBuf>,
    force: bool,
}

fn grammar() -> Grammar<InstallArgs> {
    let details = "Links mount.fuse.dio and umount.fuse.dio to this program, where mount(8) and \
                   umount(8) look for helpers.";
    let about = "Make mount -t fuse.dio and lines in fstab work";
    Grammar::<InstallArgs>::new("install-mount-helper", about, details).literal().flags([
        by_default(
            "/sbin",
            value("--dir=DIR", "Where mount(8) looks for helpers", |install, dir| {
                install.dir = dir.into()
            }),
        ),
        value(
            "--program=FILE",
            "Program to link to, as it will be found when it is needed [default: this one]",
            |install, program| install.program = Some(program.into()),
        ),
        switch(
            "--force",
            "Link also to a program that other users could replace, although mount(8) runs it as \
             root",
            |install| install.force = true,
        ),
        help("-h, --help"),
        version("-V, --version"),
    ])
}

pub(crate) const PROGRAM: Program =
    Program { name: "install-mount-helper", describe: |_| grammar().describe(), run };

/// Creates the links; existing links are replaced, files are not.
fn run(_: &str, line: Vec<OsString>) -> ExitCode {
    let args = InstallArgs { dir: "/sbin".into(), program: None, force: false };
    let args = match grammar().resolve_from(args, line, Ok) {
        Ok(args) => args,
        Err(status) => return status,
    };
    match install(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.told_by("dio install-mount-helper"),
    }
}

fn install(args: &InstallArgs) -> Result<(), MountFailure> {
    let program = match &args.program {
        Some(program) => program.clone(),
        None => env::current_exe().map_err(|error| {
            MountFailure::new(FAILED, format!("cannot find this program: {}", words(&error)))
        })?,
    };
    if !args.force
        && let Some(place) = open_to_others(&program).map_err(|error| {
            MountFailure::new(FAILED, format!("{}: {}", named(&program), words(&error)))
        })?
    {
        let (program, place) = (named(&program), named(&place));
        return Err(MountFailure::new(
            FAILED,
            format!(
                "{program}: mount(8) would run it as root, and others may write to {place}; \
                 install it elsewhere, or use --force"
            ),
        ));
    }
    for name in [helper::MOUNT, helper::UMOUNT] {
        let link = args.dir.join(name);
        place(&program, &link).map_err(|error| {
            MountFailure::new(FAILED, format!("{}: {}", named(&link), words(&error)))
        })?;
        println!("{} -> {}", named(&link), named(&program));
    }
    Ok(())
}

/// Creates the link in one step, so that a concurrent `mount` finds either the old one or the new
/// one.
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
        // A temporary link is of no further use.
        let _ = fs::remove_file(&new);
    })
}
