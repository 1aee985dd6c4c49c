//! `dio mount`: a directory served so that every program's I/O below it is direct, concurrent, cached or chosen by request.
//!
//! `options` reads the text behind `-o`, `helper` the command line of `mount(8)`'s helper. `background` starts the program once
//! more as the server and waits until the mount answers; `server` is that one, or this one in the foreground; `notice` tells a
//! service manager and the system log.

mod background;
pub(crate) mod helper;
mod notice;
pub mod options;
mod server;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use dio_mount::control::{self, ControlError};
use dio_mount::session::{self, Place};
use dio_mount::{MountError, Options, Rings};

use self::options::{Given, Origin};
use crate::grammar::{Grammar, Program, Refusal, help, hidden, repeated, switch, text, value, version};
use crate::quote::quoted;

/// What the command line says.
#[derive(Debug, Default)]
pub(crate) struct MountArgs {
    source: PathBuf,
    mountpoint: Option<PathBuf>,
    operands: Vec<OsString>,
    options: Vec<String>,
    foreground: bool,
    verbose: bool,
    /// This is the server that another process started and waits for.
    started: bool,
    /// Called by mount(8).
    by_mount: bool,
    /// Unknown options are passed over.
    sloppy: bool,
    /// Everything is done but the mount.
    fake: bool,
    /// A file of the mount namespace to mount in.
    namespace: Option<PathBuf>,
}

const DETAILS: &str = "\
Programs see the files of SOURCE below MOUNTPOINT, which may be SOURCE itself. The command returns when the mount answers; it is \
served in the background until it is unmounted.";

const OPTIONS: &str = "\
Modes: dio (or direct), cio (or concurrent), cached, auto; with =GLOB:... only for the files that match. Others: readahead_min=, \
readahead_max=, write_behind=, direct_from=, limit= (sizes), lock=file|range, threads=, io_uring, no_io_uring, remember= \
(seconds), ro, allow_other, default_permissions, and those of mount(8). To change a running mount: dio mount -o remount,OPTIONS \
MOUNTPOINT";

fn grammar() -> Grammar<MountArgs> {
    let about = "Mount a directory so that the I/O of every program below it is direct or concurrent";
    Grammar::<MountArgs>::new("mount", about, DETAILS)
        .literal()
        .flags([
            repeated(text(
                "-o OPTIONS",
                "Options, separated by commas, such as cio, dio=redo/*, cached=*.ctl, ro, allow_other, threads=32",
                |mount, options| mount.options.push(options),
            )),
            switch("-f, --foreground", "Serve in this process until the mount is gone", |mount| {
                mount.foreground = true
            }),
            switch("-v, --verbose", "Say what is mounted", |mount| mount.verbose = true),
            hidden(switch("--started", "Called by dio mount", |mount| mount.started = true)),
            hidden(switch("--by-mount", "Called by mount(8)", |mount| mount.by_mount = true)),
            hidden(switch("--sloppy", "Pass over unknown options", |mount| mount.sloppy = true)),
            hidden(switch("--fake", "Do everything but the mount", |mount| mount.fake = true)),
            hidden(value("--namespace=FILE", "Mount in that mount namespace", |mount, file| {
                mount.namespace = Some(file.into());
            })),
            help("-h, --help"),
            version("-V, --version"),
        ])
        .operands(
            &[("<SOURCE>", "Directory whose files are served"), ("MOUNTPOINT", "Where they appear")],
            |mount, operand| {
                mount.operands.push(operand);
                Ok(())
            },
        )
        .after(OPTIONS)
        .statuses(USAGE, USAGE)
}

impl MountArgs {
    fn with_operands(mut self) -> Result<MountArgs, Refusal> {
        let mut operands = std::mem::take(&mut self.operands).into_iter();
        let missing = || Refusal::usage("SOURCE is missing");
        self.source = operands.next().ok_or_else(missing)?.into();
        self.mountpoint = operands.next().map(PathBuf::from);
        match operands.next() {
            Some(extra) => Err(Refusal::usage(format!("extra operand {}", quoted(extra)))),
            None => Ok(self),
        }
    }
}

pub(crate) const PROGRAM: Program = Program { name: "mount", describe: |_| grammar().describe(), run };

/// Exit statuses of `mount(8)`.
mod status {
    /// The command line makes no sense, or it takes root.
    pub(crate) const USAGE: u8 = 1;
    /// The system has no memory, processes or descriptors left.
    pub(crate) const SYSTEM: u8 = 2;
    /// It could not be mounted or unmounted.
    pub(crate) const FAILED: u8 = 32;
}

pub(crate) use notice::Notices;
pub(crate) use server::commands;
pub(crate) use status::{FAILED, SYSTEM, USAGE};

impl MountArgs {
    /// What messages start with.
    fn name(&self) -> &'static str {
        if self.by_mount { "mount.fuse.dio" } else { "dio mount" }
    }

    fn origin(&self) -> Origin {
        if self.by_mount { Origin::Mount { sloppy: self.sloppy } } else { Origin::User }
    }
}

/// Runs `dio mount`; statuses are those of `mount(8)`: 0, 1 for a wrong command line, 2 for want of resources, 32 if it could
/// not be mounted.
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

/// What ends the command, with its exit status; empty if it was told already.
#[derive(Debug)]
pub(crate) struct Failure(u8, String);

impl Failure {
    pub(crate) fn new(status: u8, message: impl Into<String>) -> Failure {
        Failure(status, message.into())
    }

    pub(crate) fn told_by(self, name: &str) -> ExitCode {
        if !self.1.is_empty() {
            eprintln!("{name}: {}", self.1);
        }
        ExitCode::from(self.0)
    }
}

impl From<MountError> for Failure {
    fn from(error: MountError) -> Failure {
        let status = if matches!(error, MountError::OnlyRoot { .. }) { USAGE } else { FAILED };
        Failure(status, error.with_cure())
    }
}

fn mount(args: &MountArgs) -> Result<(), Failure> {
    let given = options::read(&args.options, args.origin()).map_err(|error| Failure::new(USAGE, error.to_string()))?;
    if let Some(namespace) = &args.namespace {
        helper::enter(namespace)?;
    }
    if given.remount {
        return remount(args);
    }
    let Some(mountpoint) = &args.mountpoint else {
        return Err(Failure::new(USAGE, "MOUNTPOINT is missing; to mount a directory over itself, name it twice"));
    };
    let place = Place::open(&args.source, mountpoint)?;
    // The process that started this server has warned.
    if !args.started && lacks_user_shares(&given.options) {
        eprintln!("{}: {NO_USER_SHARES}", args.name());
    }
    if args.fake {
        return Ok(());
    }
    if args.foreground || args.started { serve(args, given, &place) } else { background::start(args, &place) }
}

const NO_USER_SHARES: &str = "warning: with io_uring the kernel gives requests to threads itself, so one user of this shared \
mount can occupy all threads (allow_other without io_uring gives each user a share)";

/// Whether other users enter, and requests come in a way that gives users no shares of the threads.
fn lacks_user_shares(options: &Options) -> bool {
    options.allow_other && options.way() != Rings::Never
}

fn serve(args: &MountArgs, given: Given, place: &Place) -> Result<(), Failure> {
    let exports = given.exports.clone();
    server::serve(args, place, &given.for_source(place.source_path()), &exports)
}

/// Hands the options to the running mount: to its server, and if that takes them, to the kernel.
fn remount(args: &MountArgs) -> Result<(), Failure> {
    let mountpoint = args.mountpoint.as_deref().unwrap_or(&args.source);
    let (flags, text) = options::divide(&args.options, args.origin());
    let mount = session::find(mountpoint)?;
    if !text.is_empty() {
        let failed = |error: ControlError| {
            let status = if matches!(error, ControlError::Refused(_)) { USAGE } else { FAILED };
            Failure::new(status, error.to_string())
        };
        let settings = control::connect(&mount.at).and_then(|mut server| server.set(&text)).map_err(failed)?;
        if args.verbose {
            eprintln!("{}: {}: {settings}", args.name(), mount.at.display());
        }
    }
    // libmount gives all options of the mount, and among them neither `suid` nor `dev` nor `exec`.
    Ok(session::change_flags(&mount, &flags, args.by_mount)?)
}
