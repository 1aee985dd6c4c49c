//! `dio run`: runs a command with directories mounted so that its I/O is direct or concurrent.

mod server;

use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use dio_mount::control::Exports;
use dio_mount::run::{Directory, RunError, ServerConnection};
use rustix::io::Errno;

use super::mount::options::{self, Origin};
use crate::grammar::{Grammar, Program, Refusal, help, parsed, repeated, text, value, version};
use crate::quote::{quoted, words};

pub(crate) use server::NAME as SERVER_NAME;
pub use server::{ServerArgs, serve};

/// Exit status when dio itself fails, as for timeout(1) and env(1).
pub const FAILED: u8 = 125;

/// Exit statuses when the command exists but cannot be run, and when it is not found (POSIX,
/// `env`).
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// The parsed command line.
#[derive(Debug, Default)]
struct RunArgs {
    options: Vec<String>,
    directories: Vec<PathBuf>,
    /// The command and its arguments.
    command: Vec<OsString>,
}

const DETAILS: &str = "\
Each DIR is mounted over itself, as `dio mount` would, where the command and its descendants alone \
see it. The command takes the place of dio: signals, terminal, job control, limits and exit status \
are its own. When the last process that sees the mounts has ended, however it ended, they are gone \
and so is their server. Files that were open before, such as a redirected standard input, stay as \
they are.

Without root it works where the system lets users have namespaces and open /dev/fuse. The command \
then has one user and one group: programs that change the user, such as sudo, do not work in it, \
and files of other users and groups can be read but not written, whatever their mode.

The exit status is that of the command; 125 if dio itself fails, 126 if the command cannot be \
executed, 127 if it is not found. If the server is killed, what the command does below DIR fails \
(ENOTCONN); nothing hangs.";

fn grammar() -> Grammar<RunArgs> {
    let about = "Run a command with directories mounted so that its I/O is direct or concurrent";
    Grammar::<RunArgs>::new("run", about, DETAILS)
        .literal()
        .usage("dio run [-o OPTIONS]... --dir DIR... [--] COMMAND [ARG]...")
        .flags([
            repeated(text(
                "-o, --options=OPTIONS",
                "Options of the mounts, separated by commas, as for `dio mount`",
                |run, options| run.options.push(options),
            )),
            parsed(
                "--limit=RATE",
                "Read and write at most RATE bytes per second, e.g. 100M: the option rate=",
                rate,
                |run, option| run.options.extend(option),
            ),
            parsed(
                "--latency=TIME",
                "Slow down while a small read of the device takes longer than TIME, e.g. 5ms: the \
                 option latency=",
                latency,
                |run, option| run.options.extend(option),
            ),
            repeated(value(
                "--dir=DIR",
                "Mount DIR for the command; may be given several times",
                |run, directory| {
                    run.directories.push(directory.into());
                },
            )),
            help("-h, --help"),
            version("-V, --version"),
        ])
        .operands(&[("<COMMAND>...", "The command and its arguments")], |run, word| {
            run.command.push(word);
            Ok(())
        })
        .options_first()
        .statuses(FAILED, FAILED)
}

pub(crate) const PROGRAM: Program =
    Program { name: "run", describe: |_| grammar().describe(), run };

fn rate(text: &str) -> Result<String, options::OptionError> {
    checked_option(format!("rate={text}"))
}

fn latency(text: &str) -> Result<String, options::OptionError> {
    checked_option(format!("latency={text}"))
}

/// Returns an option of mounts that is written as a flag, if it is right.
fn checked_option(option: String) -> Result<String, options::OptionError> {
    options::parse(&option).map(|_| option)
}

/// Runs the command; returns only if that is impossible.
fn run(_: &str, line: Vec<OsString>) -> ExitCode {
    let args = grammar().resolve(line, |args| match () {
        () if args.directories.is_empty() => Err(Refusal::usage("--dir is missing")),
        () if args.command.is_empty() => Err(Refusal::usage("COMMAND is missing")),
        () => Ok(args),
    });
    let args = match args {
        Ok(args) => args,
        Err(status) => return status,
    };
    let text = args.options.join(",");
    match prepare(&text, &args.directories) {
        Ok(()) => execute(args.command),
        Err(message) => {
            eprintln!("dio run: {message}");
            ExitCode::from(FAILED)
        }
    }
}

/// Mounts the directories for this process.
fn prepare(text: &str, directories: &[PathBuf]) -> Result<(), String> {
    let given =
        options::read(&[text.to_owned()], Origin::User).map_err(|error| error.to_string())?;
    let directories =
        dio_mount::run::directories(directories).map_err(|error| error.to_string())?;
    let mounts = directories.iter().filter(|directory| directory.twin().is_none()).count();
    if mounts > 1 && given.exports != Exports::default() {
        return Err("stats_file= and stats_socket= are for one directory, whose figures they hold"
            .to_owned());
    }
    let line = start(text, &directories)?;
    dio_mount::run::enter(&directories, &given.options, &line)
        .map_err(|error: RunError| error.to_string())?;
    Ok(())
}

/// A command that runs this program again.
pub(crate) fn own_program() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("dio");
    command
}

/// Starts the server, which is this program again. It runs in the background, is not a child of
/// this process, and holds the other end of the line. The directories are passed only so that they
/// show in the list of processes.
fn start(text: &str, directories: &[Directory]) -> Result<ServerConnection, String> {
    let failed = |errno| format!("cannot start the server: {}", words(errno));
    let (line, end) = ServerConnection::pair().map_err(failed)?;
    let mut command = own_program();
    command.arg(server::NAME).arg(format!("--options={text}")).arg("--");
    command
        .args(directories.iter().map(Directory::path))
        .stdin(end)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let status = command
        .status()
        .map_err(|error| failed(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
    if status.success() { Ok(line) } else { Err(format!("cannot start the server: {status}")) }
}

/// Replaces this process by the command.
fn execute(command: Vec<OsString>) -> ExitCode {
    // Arguments of a process cannot contain a zero byte.
    let words_of_it: Vec<CString> =
        command.into_iter().filter_map(|word| CString::new(word.into_vec()).ok()).collect();
    let arguments: Vec<_> = words_of_it.iter().map(CString::as_c_str).collect();
    let error = dio_sys::execute(arguments[0], &arguments);
    let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
    let name = quoted(std::ffi::OsStr::new(&*arguments[0].to_string_lossy()));
    eprintln!("dio run: {name}: {}", words(errno));
    ExitCode::from(if errno == Errno::NOENT { NOT_FOUND } else { NOT_EXECUTABLE })
}
