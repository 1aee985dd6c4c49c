//! The server of one `dio run`, which starts it. The server ends after the last of its mounts.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use dio_mount::Serving;
use dio_mount::control::{self, Control, Exports};
use dio_mount::run::{RunRequest, ServerConnection};
use rustix::process::{Resource, getrlimit, setrlimit};
use signal_hook::consts::{
    SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU, SIGXFSZ,
};

use crate::commands::mount::MessageSink;
use crate::commands::mount::options::{self, Origin, ParsedOptions};

/// The subcommand by which the program runs itself as the server.
pub(crate) const NAME: &str = "run-server";

/// Serve the directories of a `dio run`; called by it
#[derive(Clone, Debug, clap::Args)]
pub struct ServerArgs {
    /// Options of the mounts
    #[arg(long)]
    options: String,

    /// Already in the background
    #[arg(long)]
    background: bool,

    /// The directories, for the list of processes
    directories: Vec<OsString>,
}

/// Serves the mounts that are handed over through standard input until all of them are unmounted.
pub fn serve(args: ServerArgs) -> ExitCode {
    if !args.background {
        return leave(&args);
    }
    match server(&args.options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Starts the actual server and ends, so that the server is not a child of the command: a command
/// that waits for all of its children must not wait for its server.
fn leave(args: &ServerArgs) -> ExitCode {
    // The server must not keep descriptors that the caller left open for the command: an open end
    // of a pipe would keep the pipe's reader waiting.
    if dio_sys::close_on_exec().is_err() {
        return ExitCode::FAILURE;
    }
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0("dio")
        .arg(NAME)
        .arg("--background")
        .arg(format!("--options={}", args.options))
        .arg("--");
    command
        .args(&args.directories)
        .stdin(Stdio::inherit())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    match command.spawn() {
        Ok(_) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn server(text: &str) -> Result<(), String> {
    live_on()?;
    let given =
        options::read(&[text.to_owned()], Origin::User).map_err(|error| error.to_string())?;
    let end = std::os::fd::AsFd::as_fd(&std::io::stdin())
        .try_clone_to_owned()
        .map_err(|error| error.to_string())?;
    let line = ServerConnection::from_end(end);
    let started = dio_mount::run::receive(&line, |request| start(request, &given))
        .map_err(|error| error.to_string())?;
    started.into_iter().try_for_each(|(serving, control)| {
        let result = serving.wait().map_err(|error| error.to_string());
        drop(control);
        result
    })
}

/// Serves a directory, and lets `dio stat` find it by the number of its mount, because its mount
/// point is in another namespace. If that is impossible, the directory is served without it, unless
/// the options ask for statistics.
fn start(request: RunRequest, given: &ParsedOptions) -> Result<(Serving, Option<Control>), String> {
    let (number, path) = (request.number.clone(), request.path.clone());
    let mounted = dio_mount::serve(request, &given.options).map_err(|error| error.to_string())?;
    MessageSink::Log.watch_descriptors(&mounted.stats, &path);
    let commands = crate::commands::mount::commands(&mounted.live, &mounted.stats);
    match control::start_for(&number, &mounted.stats, commands, &given.exports) {
        Ok(control) => Ok((mounted.session, Some(control))),
        Err(_) if given.exports == Exports::default() => Ok((mounted.session, None)),
        Err(error) => Err(error.to_string()),
    }
}

/// Makes the server end with its mounts only, unaffected by what ends or limits the command:
/// Ctrl-C, a closed terminal, a service manager that tells every process of a service to end while
/// the command still has to write.
fn live_on() -> Result<(), String> {
    let unheard = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU, SIGXFSZ] {
        signal_hook::flag::register(signal, Arc::clone(&unheard))
            .map_err(|error| error.to_string())?;
    }
    // A new session has no terminal. The process is no leader of its group, so this cannot fail.
    let _ = rustix::process::setsid();
    std::env::set_current_dir("/").map_err(|error| error.to_string())?;
    rustix::process::umask(rustix::fs::Mode::empty());
    // Without this, a memory allocation of the server could trigger write-back to its own mounts
    // and wait for the server itself (`PR_SET_IO_FLUSHER(2const)`). It needs CAP_SYS_RESOURCE and
    // is only a precaution.
    let _ = rustix::process::configure_io_flusher_behavior(true);
    for resource in [
        Resource::As,
        Resource::Cpu,
        Resource::Data,
        Resource::Fsize,
        Resource::Memlock,
        Resource::Nofile,
        Resource::Stack,
    ] {
        let mut limit = getrlimit(resource);
        limit.current = limit.maximum;
        // A failure is ignored here: if the limit matters, it is reported where it is reached.
        let _ = setrlimit(resource, limit);
    }
    Ok(())
}
