//! `dio stripe check`: checks that striped files are complete and unchanged.

use crate::quote::{named, quoted};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use dio::stripe::{ObjectState, StripeReport, inspect};
use dio_stripe::{allow_damaged, repair};

use super::digests::{self, DigestComparison, Digests};
use super::show::{reports, words};

/// The message for an object whose permissions grant access that the file does not.
const EXPOSED: &str =
    "may be read or written by others than the file: give it the permissions of the file";

/// Check that all objects of striped files are there and are the right ones
///
/// The output names each object that is missing, swapped, too short, too long, damaged, an old
/// copy, owned by another user, or accessible to more users than the file. Bytes that a crash has
/// left behind the end of a file are reported, but are no failure: the next writer removes them. On
/// network file systems and FUSE, --repair removes them. Without --digests, only the headers of the
/// objects are read, not their data. No program should write to a file while digests are taken.
#[derive(Debug, clap::Args)]
pub(super) struct CheckArgs {
    /// Say nothing of files that are sound
    #[arg(short, long)]
    quiet: bool,

    /// Cut off bytes behind the end of a file, and convert files of the first format, in which old
    /// copies of objects are not recognised. No program on any machine may have the file open for
    /// writing
    #[arg(long)]
    repair: bool,

    /// With --repair, also repair a file whose objects are too old, too short or damaged: it is cut
    /// off at the first missing byte, and all bytes behind that are lost
    #[arg(long, requires = "repair")]
    force: bool,

    /// Take the digest of every object and compare it with what --record has written to LIST
    #[arg(long, value_name = "LIST", conflicts_with = "record")]
    digests: Option<PathBuf>,

    /// Take the digest of every object and write it to LIST, for --digests
    #[arg(long, value_name = "LIST")]
    record: Option<PathBuf>,

    /// Striped files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// The messages about the files, and whether any of them reports a failure.
#[derive(Default)]
struct Findings {
    text: String,
    bad: bool,
}

impl Findings {
    fn complain(&mut self, what: std::fmt::Arguments<'_>) {
        eprintln!("dio stripe: {what}");
        self.bad = true;
    }

    fn list_fails(&mut self, list: &Path, error: &io::Error) {
        self.complain(format_args!("cannot use {}: {}", quoted(list), super::super::words(error)));
    }

    /// Reports problems in the headers and sizes of the objects.
    fn look(&mut self, path: &Path, report: &StripeReport) {
        for (index, object) in report.objects.iter().enumerate() {
            let (file, shown) = (named(path), quoted(&object.path));
            if object.exposed {
                self.complain(format_args!("{file}: object {index}, {shown} {EXPOSED}"));
            }
            match &object.state {
                ObjectState::Sound if object.size > object.share => {
                    let surplus = object.size - object.share;
                    let what = format!(
                        "{file}: object {index}, {shown} holds {surplus} bytes behind the end of \
                         the file\n"
                    );
                    self.text.push_str(&what);
                }
                ObjectState::Sound => {}
                state => {
                    self.complain(format_args!("{file}: object {index}, {shown} {}", words(state)))
                }
            }
        }
        if report.is_sound() && report.generation == 0 {
            let what = "it is of the first format, in which old copies of objects are not told: \
                        see --repair";
            self.text.push_str(&format!("{}: {what}\n", named(path)));
        }
        if report.open {
            let what = "somebody writes to it, or was interrupted: its objects have at least the \
                        lengths of the last sync";
            self.text.push_str(&format!("{}: {what}\n", named(path)));
        }
        if report.copy {
            self.text
                .push_str(&format!("{}: it is a copy of a descriptor, to read by\n", named(path)));
        }
    }

    /// Repairs a file if anything needs repair. Returns its report afterwards.
    fn repair(&mut self, path: &Path, report: StripeReport, force: bool) -> StripeReport {
        let done = match report.is_sound() {
            true if report.has_surplus() => "cut off at its end",
            true if report.generation == 0 => "brought to the present format",
            true if report.open => "closed",
            false if force => "what was left of it is the file",
            _ => return report,
        };
        let mended = if report.is_sound() { repair(path) } else { allow_damaged(path) };
        match mended.and_then(|()| inspect(path)) {
            Ok(repaired) => {
                self.text.push_str(&format!("{}: {done}\n", named(path)));
                repaired.unwrap_or(report)
            }
            Err(error) => {
                self.complain(format_args!("{error}"));
                report
            }
        }
    }

    /// Reports problems that the digests of the objects show.
    fn judge(&mut self, path: &Path, report: &StripeReport, verdicts: &[DigestComparison]) {
        for ((index, verdict), object) in verdicts.iter().enumerate().zip(&report.objects) {
            let what = match verdict {
                DigestComparison::Same => continue,
                DigestComparison::Other => "does not hold the bytes that were recorded".to_owned(),
                DigestComparison::Unknown => "is not in the list of digests".to_owned(),
                DigestComparison::Unreadable(error) => format!("cannot be read: {error}"),
            };
            self.complain(format_args!(
                "{}: object {index}, {} {what}",
                named(path),
                quoted(&object.path)
            ));
        }
    }
}

pub(super) fn check(args: &CheckArgs) -> ExitCode {
    let (reports, status) = reports(&args.files);
    let mut findings = Findings { bad: status != ExitCode::SUCCESS, ..Findings::default() };
    let recorded = match args.digests.as_deref().map(Digests::read).transpose() {
        Ok(recorded) => recorded,
        Err(error) => {
            findings.list_fails(args.digests.as_deref().unwrap_or(Path::new("")), &error);
            return ExitCode::FAILURE;
        }
    };
    let mut taken = Digests::default();
    for (path, report) in reports {
        let before = std::mem::take(&mut findings.bad);
        let report = if args.repair { findings.repair(path, report, args.force) } else { report };
        findings.look(path, &report);
        if (recorded.is_some() || args.record.is_some()) && digests::is_whole(&report) {
            let found = digests::of(&report);
            taken.note(&report, &found);
            let verdicts = match &recorded {
                Some(recorded) => recorded.judge(&report, found),
                None => found
                    .into_iter()
                    .map(|digest| {
                        digest.map_or_else(DigestComparison::Unreadable, |_| DigestComparison::Same)
                    })
                    .collect(),
            };
            findings.judge(path, &report, &verdicts);
        }
        if !findings.bad && !args.quiet {
            findings.text.push_str(&format!("{}: OK\n", named(path)));
        }
        findings.bad |= before;
    }
    if let Some(list) = &args.record
        && let Err(error) = taken.write(list)
    {
        findings.list_fails(list, &error);
    }
    let _ = io::stdout().write_all(findings.text.as_bytes());
    if findings.bad { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
