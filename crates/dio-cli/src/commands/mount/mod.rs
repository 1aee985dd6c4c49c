//! `dio mount`: serves a directory so that every program's I/O below it is direct, concurrent,
//! cached, or chosen for each request.
//!
//! `options` parses the text behind `-o`, and `helper` the command line of `mount(8)`'s helper.
//! `background` starts the program again as the server and waits until the mount answers. `server`
//! runs in that process, or in this one in the foreground. `notice` sends messages to a service
//! manager and the system log.

mod args;
mod background;
mod failure;
pub(crate) mod helper;
mod notice;
pub mod options;
mod server;

use std::ffi::OsString;
use std::process::ExitCode;

use dio_mount::control::{self, ControlError};
use dio_mount::session::{self, MountTarget};
use dio_mount::{MountOptions, Rings};

use self::args::grammar;
use self::options::ParsedOptions;
use crate::grammar::Program;

pub(crate) const PROGRAM: Program =
    Program { name: "mount", describe: |_| grammar().describe(), run };

pub(crate) use args::MountArgs;
pub(crate) use failure::{FAILED, MountFailure, SYSTEM, USAGE};
pub(crate) use notice::MessageSink;
pub(crate) use server::commands;

/// Runs `dio mount`. The statuses are those of `mount(8)`: 0; 1 for an invalid command line; 2 if
/// resources are missing; 32 if mounting failed.
fn run(_: &str, line: Vec<OsString>) -> ExitCode {
    let args = match grammar().resolve(line, MountArgs::with_operands) {
        Ok(args) => args,
        Err(status) => return status,
    };
    match mount(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.told_by(args.name()),
    }
}

fn mount(args: &MountArgs) -> Result<(), MountFailure> {
    let given = options::read(&args.options, args.origin())
        .map_err(|error| MountFailure::new(USAGE, error.to_string()))?;
    if let Some(namespace) = &args.namespace {
        helper::enter(namespace)?;
    }
    if given.remount {
        return remount(args);
    }
    let Some(mountpoint) = &args.mountpoint else {
        return Err(MountFailure::new(
            USAGE,
            "MOUNTPOINT is missing; to mount a directory over itself, name it twice",
        ));
    };
    let place = MountTarget::open(&args.source, mountpoint)?;
    // The process that started this server has printed the warning.
    if !args.started && lacks_user_shares(&given.options) {
        eprintln!("{}: {NO_USER_SHARES}", args.name());
    }
    if args.fake {
        return Ok(());
    }
    if args.foreground || args.started {
        serve(args, given, &place)
    } else {
        background::start(args, &place)
    }
}

const NO_USER_SHARES: &str = "warning: with io_uring the kernel gives requests to threads itself, \
                              so one user of this shared mount can occupy all threads (allow_other \
                              without io_uring gives each user a share)";

/// Returns whether other users have access while requests arrive through io_uring, which does not
/// give each user a share of the threads.
fn lacks_user_shares(options: &MountOptions) -> bool {
    options.allow_other && options.effective_rings() != Rings::Never
}

fn serve(args: &MountArgs, given: ParsedOptions, place: &MountTarget) -> Result<(), MountFailure> {
    let exports = given.exports.clone();
    server::serve(args, place, &given.for_source(place.source_path()), &exports)
}

/// Passes the options to the running mount: first to its server, and if that accepts them, to the
/// kernel.
fn remount(args: &MountArgs) -> Result<(), MountFailure> {
    let mountpoint = args.mountpoint.as_deref().unwrap_or(&args.source);
    let (flags, text) = options::divide(&args.options, args.origin());
    let mount = session::find(mountpoint)?;
    if !text.is_empty() {
        let failed = |error: ControlError| {
            let status = if matches!(error, ControlError::Refused(_)) { USAGE } else { FAILED };
            MountFailure::new(status, error.to_string())
        };
        let settings =
            control::connect(&mount.at).and_then(|mut server| server.set(&text)).map_err(failed)?;
        if args.verbose {
            eprintln!("{}: {}: {settings}", args.name(), mount.at.display());
        }
    }
    // libmount passes all options of the mount, but neither `suid` nor `dev` nor `exec`.
    Ok(session::change_flags(&mount, &flags, args.by_mount)?)
}
