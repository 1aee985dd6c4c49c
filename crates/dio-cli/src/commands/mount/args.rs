//! The command line of `dio mount`.

use std::ffi::OsString;
use std::path::PathBuf;

use super::failure::USAGE;
use super::options::Origin;
use crate::grammar::{Grammar, Refusal, help, hidden, repeated, switch, text, value, version};
use crate::quote::quoted;

/// The parsed command line.
#[derive(Debug, Default)]
pub(crate) struct MountArgs {
    pub(super) source: PathBuf,
    pub(super) mountpoint: Option<PathBuf>,
    pub(super) operands: Vec<OsString>,
    pub(super) options: Vec<String>,
    pub(super) foreground: bool,
    pub(super) verbose: bool,
    /// Whether this process is the server that another process started and waits for.
    pub(super) started: bool,
    /// Whether mount(8) called the program.
    pub(super) by_mount: bool,
    /// Whether unknown options are ignored.
    pub(super) sloppy: bool,
    /// Whether to do everything except the mount.
    pub(super) fake: bool,
    /// The mount namespace to mount in, as a file.
    pub(super) namespace: Option<PathBuf>,
}

const DETAILS: &str = "Programs see the files of SOURCE below MOUNTPOINT, which may be SOURCE \
                       itself. The command returns when the mount answers; it is served in the \
                       background until it is unmounted.";

const OPTIONS: &str = "Modes: dio (or direct), cio (or concurrent), cached, auto; with =GLOB:... \
                       only for the files that match. Others: readahead_min=, readahead_max=, \
                       write_behind=, direct_from=, limit= (sizes), rate= (bytes per second), \
                       latency= (a time), profile=backup, lock=file|range, threads=, io_uring, \
                       no_io_uring, idle_poll, no_idle_poll, remember= (seconds), ro, allow_other, \
                       default_permissions, and those of mount(8). To change a running mount: dio \
                       mount -o remount,OPTIONS MOUNTPOINT";

pub(super) fn grammar() -> Grammar<MountArgs> {
    let about =
        "Mount a directory so that the I/O of every program below it is direct or concurrent";
    Grammar::<MountArgs>::new("mount", about, DETAILS)
        .literal()
        .flags([
            repeated(text(
                "-o OPTIONS",
                "Options, separated by commas, such as cio, dio=redo/*, cached=*.ctl, ro, \
                 allow_other, threads=32",
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
            &[
                ("<SOURCE>", "Directory whose files are served"),
                ("MOUNTPOINT", "Where they appear"),
            ],
            |mount, operand| {
                mount.operands.push(operand);
                Ok(())
            },
        )
        .after(OPTIONS)
        .statuses(USAGE, USAGE)
}

impl MountArgs {
    pub(super) fn with_operands(mut self) -> Result<MountArgs, Refusal> {
        let mut operands = std::mem::take(&mut self.operands).into_iter();
        let missing = || Refusal::usage("SOURCE is missing");
        self.source = operands.next().ok_or_else(missing)?.into();
        self.mountpoint = operands.next().map(PathBuf::from);
        match operands.next() {
            Some(extra) => Err(Refusal::usage(format!("extra operand {}", quoted(extra)))),
            None => Ok(self),
        }
    }

    /// Returns the prefix of messages.
    pub(super) fn name(&self) -> &'static str {
        if self.by_mount { "mount.fuse.dio" } else { "dio mount" }
    }

    pub(super) fn origin(&self) -> Origin {
        if self.by_mount { Origin::Mount { sloppy: self.sloppy } } else { Origin::User }
    }
}
