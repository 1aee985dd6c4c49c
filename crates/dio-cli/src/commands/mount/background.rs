//! Starts the server as a process of its own. The program executes itself again instead of forking,
//! so that the server begins with one thread and inherits only its standard streams.

use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};

use dio_mount::session::MountTarget;

use super::{FAILED, MountArgs, MountFailure, SYSTEM};
use crate::commands::words;

/// The text that the server writes when the mount answers.
pub(super) const READY: &[u8] = b"ready";

/// Starts the server and returns when the mount answers. If it never does, the server has printed
/// the reason.
pub(super) fn start(args: &MountArgs, place: &MountTarget) -> Result<(), MountFailure> {
    let failed = |error: std::io::Error| {
        MountFailure::new(SYSTEM, format!("cannot start the server: {}", words(&error)))
    };
    // The server must not inherit the caller's descriptors: the other end of a pipe would wait for
    // the server to end.
    dio_sys::close_on_exec().map_err(failed)?;
    let mut server = Command::new("/proc/self/exe");
    server.arg0("dio").args(["mount", "--started"]);
    server.args(args.by_mount.then_some("--by-mount")).args(args.sloppy.then_some("--sloppy"));
    server.args(args.verbose.then_some("--verbose"));
    for options in &args.options {
        server.arg("-o").arg(options);
    }
    server.arg("--").args([place.source_path(), place.mountpoint()]);
    let mut server = server.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(failed)?;
    let mut output = Vec::new();
    if let Some(stdout) = &mut server.stdout {
        // A read error counts as no message from the server.
        let _ = stdout.read_to_end(&mut output);
    }
    if output == READY {
        return Ok(());
    }
    Err(ended(server.wait().map_err(failed)?))
}

/// Returns the failure for the end of the server: its status becomes that of the command.
fn ended(status: ExitStatus) -> MountFailure {
    match (status.code(), status.signal()) {
        (Some(code), _) if code != 0 => MountFailure::new(u8::try_from(code).unwrap_or(FAILED), ""),
        (_, Some(signal)) => {
            MountFailure::new(FAILED, format!("the server was killed by signal {signal}"))
        }
        _ => MountFailure::new(FAILED, "the mount was taken down before it answered"),
    }
}
