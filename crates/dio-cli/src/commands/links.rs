//! `dio self links`: links by which dio is called under the names of the tools.

use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::words;
use crate::quote::{named, quoted};

/// Set up this program
#[derive(Debug, clap::Args)]
pub struct SelfArgs {
    #[command(subcommand)]
    action: SelfAction,
}

#[derive(Debug, clap::Subcommand)]
enum SelfAction {
    Links(LinksArgs),
}

/// Make links by the tools' own names, so that sha256sum or cp is dio
///
/// A link with the name of a tool is that tool. Nothing of the system is replaced: the links are
/// made in a directory of your choice, and whoever has it at the beginning of PATH gets dio by
/// these names, with the grammar, the output and the exit statuses of the tools that have them. A
/// name that is taken by anything but a link to this program is left as it is, and is an error; the
/// other links are made all the same.
#[derive(Debug, clap::Args)]
struct LinksArgs {
    /// Show for each tool whether DIR has its link, and change nothing
    #[arg(short, long, conflicts_with = "remove")]
    list: bool,

    /// Remove the links to this program, and nothing else
    #[arg(short, long)]
    remove: bool,

    /// What the links lead to, as it will be found when they are used [default: this program]
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    program: Option<PathBuf>,

    /// Directory of the links, which exists
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    dir: PathBuf,

    /// Tools to make links for; without any, all
    #[arg(value_name = "TOOL")]
    tools: Vec<String>,
}

/// What a directory has under the name of a tool.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Nothing,
    /// A link to this program.
    Own,
    /// A symbolic link that leads elsewhere.
    Link(PathBuf),
    /// Anything else.
    Other,
}

/// Why the name of a tool stays as it is.
enum LinkError {
    /// Something else has the name.
    Taken(Found),
    Io(io::Error),
}

impl From<io::Error> for LinkError {
    fn from(error: io::Error) -> LinkError {
        LinkError::Io(error)
    }
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkError::Taken(Found::Link(to)) => write!(
                f,
                "it is a link to {}, not to this program, and is left as it is; remove it, or take \
                 another directory",
                quoted(to)
            ),
            LinkError::Taken(_) => f.write_str(
                "it is no link of dio's, and is left as it is; remove it, or take another directory",
            ),
            LinkError::Io(error) => f.write_str(&words(error)),
        }
    }
}

/// Makes, shows or removes the links; `tools` are the names that a link can have. A failure does
/// not keep the other links from being made or removed, and gives status 1.
pub(crate) fn run(args: SelfArgs, tools: &[&'static str]) -> ExitCode {
    let SelfAction::Links(args) = args.action;
    match links(&args, tools) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(text) => {
            eprintln!("dio self links: {text}");
            ExitCode::FAILURE
        }
    }
}

/// Returns whether everything went well; what did not has been printed.
fn links(args: &LinksArgs, tools: &[&'static str]) -> Result<bool, String> {
    let wanted = chosen(&args.tools, tools)?;
    let program = program(args.program.as_deref())?;
    let at = |error: &io::Error| match error.kind() {
        io::ErrorKind::NotFound => {
            format!("{}: {}; make it first", named(&args.dir), words(error))
        }
        _ => format!("{}: {}", named(&args.dir), words(error)),
    };
    if !fs::metadata(&args.dir).map_err(|error| at(&error))?.is_dir() {
        return Err(at(&rustix::io::Errno::NOTDIR.into()));
    }
    let (mut out, mut well) = (io::stdout().lock(), true);
    for tool in wanted {
        let link = args.dir.join(tool);
        let done = if args.list {
            look(&link, &program).map(|found| Some(shown(&link, &program, &found)))
        } else if args.remove {
            remove(&link, &program)
                .map(|removed| removed.then(|| format!("removed {}", named(&link))))
        } else {
            make(&link, &program).map(|()| Some(shown(&link, &program, &Found::Own)))
        };
        match done {
            Ok(None) => {}
            Ok(Some(line)) => writeln!(out, "{line}")
                .map_err(|error| format!("write error: {}", words(&error)))?,
            Err(error) => {
                well = false;
                eprintln!("dio self links: {}: {error}", named(&link));
            }
        }
    }
    Ok(well)
}

/// Returns the tools that the command line names, or all.
fn chosen(named: &[String], tools: &[&'static str]) -> Result<Vec<&'static str>, String> {
    if named.is_empty() {
        return Ok(tools.to_vec());
    }
    let known = |name: &String| {
        let found = tools.iter().find(|tool| *tool == name);
        found.copied().ok_or_else(|| {
            format!("{}: dio is no tool of that name; it is {}", quoted(name), tools.join(" "))
        })
    };
    named.iter().map(known).collect()
}

/// Returns the path that links have as their target.
fn program(given: Option<&Path>) -> Result<PathBuf, String> {
    let Some(path) = given else {
        return std::env::current_exe()
            .map_err(|error| format!("cannot find this program: {}", words(&error)));
    };
    std::path::absolute(path).map_err(|error| format!("{}: {}", named(path), words(&error)))
}

fn shown(link: &Path, program: &Path, found: &Found) -> String {
    match found {
        Found::Nothing => format!("{}: no link", named(link)),
        Found::Own => format!("{} -> {}", named(link), named(program)),
        Found::Link(to) => format!("{}: a link to {}, not to this program", named(link), named(to)),
        Found::Other => format!("{}: no link of dio's", named(link)),
    }
}

/// Returns what is there. A link is dio's own if it names the program, or leads to the same file.
fn look(link: &Path, program: &Path) -> Result<Found, LinkError> {
    let to = match fs::symlink_metadata(link) {
        Ok(there) if there.is_symlink() => fs::read_link(link)?,
        Ok(_) => return Ok(Found::Other),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) => return Err(error.into()),
    };
    let ends = (fs::canonicalize(link), fs::canonicalize(program));
    let leads_here = matches!(ends, (Ok(one), Ok(other)) if one == other);
    Ok(if to == program || leads_here { Found::Own } else { Found::Link(to) })
}

/// Makes a link, unless it is there. Nothing is replaced, whoever else works in the directory.
fn make(link: &Path, program: &Path) -> Result<(), LinkError> {
    match symlink(program, link) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            match look(link, program)? {
                Found::Own => Ok(()),
                // Whatever it was, it has gone meanwhile.
                Found::Nothing => Err(error.into()),
                taken => Err(LinkError::Taken(taken)),
            }
        }
        made => Ok(made?),
    }
}

/// Removes a link of dio's own; returns whether there was one. Whatever else has the name stays,
/// which is no error.
fn remove(link: &Path, program: &Path) -> Result<bool, LinkError> {
    let own = look(link, program)? == Found::Own;
    if own {
        fs::remove_file(link)?;
    }
    Ok(own)
}
