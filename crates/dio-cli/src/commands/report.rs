//! `dio report`: one page of HTML from the results of benchmarks.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use dio::names::FileId;
use dio_bench::page::{self, Page};
use dio_bench::section::Section;
use rustix::fs::{Mode, fchmod};

use super::compress::OutputFile;
use super::words;
use crate::quote::quoted;
use crate::tool::target::naming::open_parent;

/// The most bytes of a result: a thousand times the size of a long study.
const MOST: u64 = 256 << 20;

/// Make one page from the results of benchmarks, with plots, tables and the published figures
/// beside them
///
/// A result is what `dio bench … --json` prints, or a record of the benchsuite; it is recognised by
/// its content. The page is one file of HTML that needs nothing else, no network and no script; it
/// can be read in light and dark, on a phone and on paper. An existing page is replaced when the
/// new one is whole, and not before. It is explained in docs/report.md.
#[derive(Debug, clap::Args)]
pub struct ReportArgs {
    /// Files with results; - is standard input
    #[arg(required = true, value_name = "RESULT", value_hint = clap::ValueHint::FilePath)]
    results: Vec<PathBuf>,

    /// Write the page to FILE; - is standard output, which is used without this option unless it is
    /// a terminal
    #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    output: Option<PathBuf>,

    /// Write every plot into DIR too, as SVG
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    svg: Option<PathBuf>,

    /// Write every table, and the data of every plot, into DIR too, as CSV
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    csv: Option<PathBuf>,

    /// The title of the page
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
}

/// Why the page could not be made.
#[derive(Debug, thiserror::Error)]
enum ReportError {
    #[error("the page would go to the terminal: name a file with --output, or redirect it")]
    Terminal,
    #[error("cannot read {}: {}", quoted(.path), words(.source))]
    Input { path: PathBuf, source: io::Error },
    #[error("{} is no result of a benchmark: it has more than {MOST} bytes", quoted(.0))]
    Large(PathBuf),
    #[error("{} is no result of a benchmark: {source}", quoted(.path))]
    Result { path: PathBuf, source: page::ReadError },
    #[error("{} is one of the results: it is not replaced by the page", quoted(.0))]
    Itself(PathBuf),
    #[error("cannot write {}: {}", quoted(.path), words(.source))]
    Output { path: PathBuf, source: io::Error },
    #[error("cannot write to standard output: {}", words(.0))]
    Standard(io::Error),
}

/// Makes the page. If one of the results is invalid, it writes nothing and returns status 1.
pub fn run(args: ReportArgs) -> ExitCode {
    match make(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(errors) => {
            for error in errors {
                if matches!(&error, ReportError::Standard(error)
                    if error.kind() == io::ErrorKind::BrokenPipe)
                {
                    crate::tool::die_of_a_closed_pipe(rustix::io::Errno::PIPE);
                }
                eprintln!("dio: {error}");
            }
            ExitCode::FAILURE
        }
    }
}

fn make(args: ReportArgs) -> Result<(), Vec<ReportError>> {
    let output = args.output.filter(|path| path.as_os_str() != "-");
    if output.is_none() && io::stdout().is_terminal() {
        return Err(vec![ReportError::Terminal]);
    }
    let (mut sections, mut errors) = (Vec::new(), Vec::new());
    for path in &args.results {
        match section(path) {
            Ok(section) => sections.push(section),
            Err(error) => errors.push(error),
        }
        if let Some(output) = output.as_deref().filter(|output| same(output, path)) {
            errors.push(ReportError::Itself(output.to_owned()));
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let page = Page::new(args.title, sections);
    let write = || {
        args.svg.as_deref().map_or(Ok(()), |directory| write_all(directory, &page.plots()))?;
        args.csv.as_deref().map_or(Ok(()), |directory| write_all(directory, &page.tables()))?;
        match &output {
            Some(path) => write_file(path, &page.html()),
            None => {
                let mut standard = io::stdout().lock();
                let written =
                    standard.write_all(page.html().as_bytes()).and_then(|()| standard.flush());
                written.map_err(ReportError::Standard)
            }
        }
    };
    write().map_err(|error| vec![error])
}

/// Reads a result.
fn section(path: &Path) -> Result<Section, ReportError> {
    let failed = |source| ReportError::Input { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let standard = path.as_os_str() == "-";
    let reader: Box<dyn Read> = if standard {
        Box::new(io::stdin().lock())
    } else {
        Box::new(File::open(path).map_err(failed)?)
    };
    reader.take(MOST + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MOST {
        return Err(ReportError::Large(path.to_owned()));
    }
    // Input that is not UTF-8 is not JSON either; the parser reports the position.
    let text = String::from_utf8_lossy(&bytes);
    let name = if standard { "standard input".into() } else { path.to_string_lossy() };
    page::read(&name, &text).map_err(|source| ReportError::Result { path: path.to_owned(), source })
}

/// Returns whether both names lead to the same file.
fn same(one: &Path, other: &Path) -> bool {
    let identity =
        |path: &Path| std::fs::metadata(path).ok().map(|found| FileId::of_metadata(&found));
    identity(one).is_some_and(|found| identity(other) == Some(found))
}

fn write_all(directory: &Path, files: &[(String, String)]) -> Result<(), ReportError> {
    std::fs::create_dir_all(directory)
        .map_err(|source| ReportError::Output { path: directory.to_owned(), source })?;
    files.iter().try_for_each(|(name, text)| write_file(&directory.join(name), text))
}

/// Writes a file that gets its name when it is complete, replacing an existing one; if the name is
/// a link, its target is replaced, not the link.
fn write_file(path: &Path, text: &str) -> Result<(), ReportError> {
    let write = || {
        let special = OutputFile::special(&open_parent(path)?, path)?;
        let there = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let mut target = match special {
            Some(special) => special,
            None => OutputFile::named(Arc::new(open_parent(&there)?), &there, true)?,
        };
        if target.is_regular() {
            let mode =
                std::fs::metadata(&there).map(|found| Mode::from_raw_mode(found.mode() & 0o777));
            fchmod(target.descriptor(), mode.unwrap_or_else(|_| usual()))?;
        }
        File::from(target.descriptor().try_clone()?).write_all(text.as_bytes())?;
        target.keep_named(false)
    };
    write().map_err(|source| ReportError::Output { path: path.to_owned(), source })
}

/// Returns the permissions of a new file.
fn usual() -> Mode {
    // The umask cannot be read without being set; there is only one thread.
    let umask = rustix::process::umask(Mode::empty());
    rustix::process::umask(umask);
    Mode::from_bits_retain(0o666) - umask
}
