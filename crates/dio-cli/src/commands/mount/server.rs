//! The process that serves a mount.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;

use dio_mount::control::{self, Commands, Control, Exports};
use dio_mount::options::Live;
use dio_mount::session::{MountTarget, Unmount, Unmounter};
use dio_mount::stats::Stats;
use dio_mount::{MountError, MountOptions, Mounted};
use rustix::fs::Mode;
use signal_hook::consts::SIGTERM;
use signal_hook::low_level::{self, pipe};

use super::notice::{MessageSink, service_manager};
use super::options::{parse_change, text_of};
use super::{FAILED, MountArgs, MountFailure, SYSTEM, background};
use crate::commands::words;
use crate::stop::that_end;

/// Mounts, and serves until the mount is gone.
pub(super) fn serve(
    args: &MountArgs,
    place: &MountTarget,
    options: &MountOptions,
    exports: &Exports,
) -> Result<(), MountFailure> {
    // From here on a signal unmounts, even if the mount is only about to exist.
    let signals = signals().map_err(|error| {
        MountFailure::new(SYSTEM, format!("cannot catch signals: {}", words(&error)))
    })?;
    become_server(args.started);
    let mounted = dio_mount::mount(place, options)?;
    let (session, unmounter) = (&mounted.session, mounted.session.unmounter());
    let notices = if args.started { MessageSink::Log } else { MessageSink::Terminal(args.name()) };
    notices.watch_descriptors(&mounted.stats, session.mountpoint());
    let begin = || {
        let control = listen(args, &mounted, exports)?;
        if args.verbose {
            let (source, settings) = (place.source_path().display(), text_of(&mounted.live.get()));
            eprintln!(
                "{}: {source} mounted on {}: {settings}",
                args.name(),
                session.mountpoint().display()
            );
        }
        unmount_on(signals, unmounter.clone(), notices)?;
        say_ready(args.started)?;
        Ok(control)
    };
    let control = begin().inspect_err(|_: &MountFailure| {
        // The process is about to end, and already has an error to report.
        let _ = unmounter.unmount(Unmount::Lazy);
    })?;
    let (process, at) = (std::process::id(), session.mountpoint().display());
    service_manager(&format!("READY=1\nMAINPID={process}\nSTATUS=serving {at}"));
    let result = mounted.session.wait();
    drop(control);
    service_manager("STOPPING=1");
    result.map_err(|error| {
        notices.tell(&error.with_cure());
        MountFailure::new(FAILED, "")
    })
}

/// Returns the commands that other programs can send to a mount with these settings.
pub(crate) fn commands(live: &Live, stats: &Arc<Stats>) -> Commands {
    let (told, changed, stats) = (live.clone(), live.clone(), Arc::clone(stats));
    let set = move |text: &str| {
        let settings = parse_change(text, &changed.get()).map_err(|error| error.to_string())?;
        stats.describe("mode", settings.rules.default.name());
        changed.set(settings);
        Ok(())
    };
    Commands { settings: Box::new(move || text_of(&told.get())), set: Box::new(set) }
}

/// Lets other programs query and change the mount. If that fails, the mount works without it,
/// unless statistics were requested.
fn listen(
    args: &MountArgs,
    mounted: &Mounted,
    exports: &Exports,
) -> Result<Option<Control>, MountFailure> {
    match control::start(
        mounted.session.mountpoint(),
        &mounted.stats,
        commands(&mounted.live, &mounted.stats),
        exports,
    ) {
        Ok(control) => Ok(Some(control)),
        Err(error) if *exports == Exports::default() => {
            if args.verbose {
                eprintln!("{}: {error}: dio stat and remount will not work", args.name());
            }
            Ok(None)
        }
        Err(error) => Err(MountFailure::new(FAILED, error.to_string())),
    }
}

/// Leaves the directory and the file mode mask of the caller, and in the background also its
/// terminal.
fn become_server(in_background: bool) {
    // A failure of any of these is tolerable: at worst a directory stays busy, or a signal of a
    // terminal unmounts.
    let _ = rustix::process::chdir("/");
    rustix::process::umask(Mode::empty());
    if in_background {
        let _ = rustix::process::setsid();
        // The kernel named the process after the link by which it was started.
        let _ = rustix::thread::set_name(c"dio");
    }
    // Prevents a deadlock: reclaiming memory for the server must not write to the server's own
    // mount, which would wait for the server (`PR_SET_IO_FLUSHER(2const)`; needs CAP_SYS_RESOURCE).
    let _ = rustix::process::configure_io_flusher_behavior(true);
}

/// Tells the process that waits for a background server that the mount answers, and closes standard
/// output and error.
fn say_ready(in_background: bool) -> Result<(), MountFailure> {
    if !in_background {
        return Ok(());
    }
    let failed = |error: io::Error| {
        MountFailure::new(SYSTEM, format!("cannot leave the terminal: {}", words(&error)))
    };
    let null = File::options().read(true).write(true).open("/dev/null").map_err(failed)?;
    rustix::stdio::dup2_stderr(&null).map_err(|errno| failed(errno.into()))?;
    // If that process has gone, the mount stays.
    let _ = io::stdout().write_all(background::READY).and_then(|()| io::stdout().flush());
    rustix::stdio::dup2_stdout(&null).map_err(|errno| failed(errno.into()))
}

/// Returns the read end of a pipe into which each signal that requests an unmount writes a byte.
fn signals() -> io::Result<UnixStream> {
    let (ours, theirs) = UnixStream::pair()?;
    // Ignored signals stay ignored: `nohup`, or a shell that started the process in the background,
    // set them so.
    for signal in that_end() {
        pipe::register(signal, theirs.try_clone()?)?;
    }
    Ok(ours)
}

/// Unmounts at a signal. If the mount is busy, it stays; the next signal detaches it, and it ends
/// with its last user. One more signal ends the server at once, even if it is waiting. Its users
/// then get `ENOTCONN`, and data that they did not sync may be lost.
fn unmount_on(
    mut signals: UnixStream,
    unmounter: Unmounter,
    notices: MessageSink,
) -> Result<(), MountFailure> {
    let tell = move |message: &str| {
        service_manager(&format!("STATUS={message}"));
        notices.tell(message);
    };
    let wait = move || {
        let (mut how, mut is_detached) = (Unmount::Idle, false);
        let mut byte = [0];
        while signals.read_exact(&mut byte).is_ok() {
            if is_detached {
                tell("ended by a signal while it was used: what was not synced may be lost");
                let _ = low_level::emulate_default_handler(SIGTERM);
            }
            match unmounter.unmount(how) {
                Ok(()) => {
                    is_detached = how == Unmount::Lazy;
                    if is_detached {
                        tell(
                            "detached: it ends with its last user, or with one more signal at once",
                        );
                    }
                    how = Unmount::Lazy;
                }
                Err(error @ MountError::Busy { .. }) => {
                    how = Unmount::Lazy;
                    tell(&format!("{error}: it stays mounted; a second signal detaches it"));
                }
                Err(error) => notices.tell(&error.with_cure()),
            }
        }
    };
    let started = thread::Builder::new().name("signals".into()).spawn(wait);
    started.map(drop).map_err(|error| {
        MountFailure::new(SYSTEM, format!("cannot start a thread: {}", words(&error)))
    })
}
