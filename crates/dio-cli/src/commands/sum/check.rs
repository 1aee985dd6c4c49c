//! Checks lists: the files of all lines are read and compared, several at a time; results are
//! printed in the order of the lists.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io::{self, BufRead};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use dio::pipeline::Pipeline;
use rustix::io::Errno;

use super::format::{Piece, escaped};
use super::list::{Accept, ListLine, ListReader, contents};
use super::options::CheckOptions;
use super::read::{self, Failure, Helpers};
use crate::quote::named;
use crate::tool::{Source, Tool, errno_of};
use dio_digest::{DigestKind, Sum};

/// The most digests of one file that are checked in one read of it.
const TOGETHER: usize = 32;

/// One step of checking a list.
pub(super) enum Step {
    /// An improperly formatted line, by its number from 1, and the digest that it should have had.
    Improper(u64, &'static str),
    /// Digests of one file.
    Claims(Vec<ListLine>),
}

/// The result of a step.
pub(super) enum StepResult {
    Improper(u64, &'static str),
    Compared(Vec<ListLine>, Compared),
}

/// Whether each claim holds, or why the file could not be read.
pub(super) type Compared = Result<Vec<bool>, Failure>;

/// Why checking a list ends early.
pub(super) enum ListEnd {
    /// The list could not be read further; GNU does not print the reason.
    List,
    /// The results could not be printed.
    Output(io::Error),
    /// A signal was caught.
    Stopped,
}

/// The steps of a list, read on demand.
pub(super) struct Steps<'a, R> {
    lines: R,
    reader: ListReader<'a>,
    number: u64,
    /// Whether the list is standard input, which then cannot be one of the files.
    is_stdin: bool,
    /// Whether neighbouring lines about one file become one step.
    group: bool,
    /// Steps that were read behind a group.
    next: VecDeque<io::Result<Step>>,
}

impl<'a, R: BufRead> Steps<'a, R> {
    fn new(lines: R, accept: &'a Accept, is_stdin: bool, group: bool) -> Self {
        Self {
            lines,
            reader: ListReader::new(accept),
            number: 0,
            is_stdin,
            group,
            next: VecDeque::new(),
        }
    }

    /// Returns the next line that is not empty or a comment: a claim, or the step for an improper
    /// line.
    fn line(&mut self) -> io::Result<Option<Result<ListLine, Step>>> {
        let mut line = Vec::new();
        loop {
            line.clear();
            if self.lines.read_until(b'\n', &mut line)? == 0 {
                return Ok(None);
            }
            self.number += 1;
            let Some(line) = contents(&line) else { continue };
            let claim =
                self.reader.line(line).filter(|claim| !(self.is_stdin && claim.name == b"-"));
            return Ok(Some(claim.ok_or_else(|| Step::Improper(self.number, self.reader.tag()))));
        }
    }

    /// Returns the next step.
    pub(super) fn step(&mut self) -> io::Result<Option<Step>> {
        let mut claims: Vec<ListLine> = match self.next.pop_front().transpose()? {
            None => Vec::new(),
            Some(Step::Claims(claims)) => claims,
            Some(improper) => return Ok(Some(improper)),
        };
        loop {
            // Standard input can be read only once.
            let may_follow =
                |first: &ListLine| self.group && first.name != b"-" && claims.len() < TOGETHER;
            if claims.first().is_some_and(|first| !may_follow(first)) {
                return Ok(Some(Step::Claims(claims)));
            }
            let found = match self.line().transpose() {
                None => return Ok((!claims.is_empty()).then_some(Step::Claims(claims))),
                Some(Ok(Ok(claim)))
                    if claims.first().is_none_or(|first| {
                        (&first.name, first.piece) == (&claim.name, claim.piece)
                    }) =>
                {
                    claims.push(claim);
                    continue;
                }
                Some(found) => found.map(|found| {
                    found.map_or_else(|improper| improper, |claim| Step::Claims(vec![claim]))
                }),
            };
            if claims.is_empty() {
                return found.map(Some);
            }
            self.next.push_back(found);
            return Ok(Some(Step::Claims(claims)));
        }
    }
}

/// The counts of one list.
#[derive(Default)]
struct Tally {
    proper: u64,
    improper: u64,
    unreadable: u64,
    differing: u64,
    matched: u64,
}

/// The state of checking one list.
pub(super) struct ListCheck<'a> {
    tool: &'a Tool,
    check: &'a CheckOptions,
    /// The name of the list in messages.
    list: String,
    tally: Tally,
}

/// Checks the list in the file `list`; returns whether everything is correct.
pub(crate) fn list(
    tool: &Tool,
    list: &Path,
    check: &CheckOptions,
    group: bool,
    helpers: &Helpers,
) -> bool {
    list_by(tool, list, check, group, |steps, session| {
        let run = Pipeline::new(helpers.files()).run(
            || steps.step().map_err(|_| ListEnd::List),
            || |step| Ok(compared(tool, step, helpers)),
            |done| session.tell(done).map_err(ListEnd::Output),
        );
        run.map(drop)
    })
}

/// Does the same with a function that does all steps and prints their results in order.
pub(super) fn list_by(
    tool: &Tool,
    list: &Path,
    check: &CheckOptions,
    group: bool,
    run: impl FnOnce(&mut Steps<'_, Source>, &mut ListCheck<'_>) -> Result<(), ListEnd>,
) -> bool {
    let is_stdin = list == Path::new("-");
    let shown = if is_stdin { named("standard input") } else { named(list) };
    let lines = match tool.open(list) {
        Ok(lines) => lines,
        // GNU reports a directory, or a closed standard input, only when it reads it.
        Err(error) if matches!(errno_of(&error), Errno::ISDIR | Errno::BADF) => {
            tool.error(format_args!("{shown}: read error"));
            return false;
        }
        Err(error) => {
            tool.file_error(list, &error);
            return false;
        }
    };
    let mut session = ListCheck { tool, check, list: shown, tally: Tally::default() };
    let mut steps = Steps::new(lines, &check.accept, is_stdin, group);
    match run(&mut steps, &mut session) {
        Ok(()) => session.conclude(),
        Err(ListEnd::Stopped) => false,
        Err(ListEnd::List) => {
            tool.error(format_args!("{}: read error", session.list));
            false
        }
        Err(ListEnd::Output(error)) => {
            tool.write_failed(&error);
            false
        }
    }
}

fn compared(tool: &Tool, step: Step, helpers: &Helpers) -> StepResult {
    match step {
        Step::Improper(number, tag) => StepResult::Improper(number, tag),
        Step::Claims(claims) => {
            let compared = compare(tool, &claims, helpers);
            StepResult::Compared(claims, compared)
        }
    }
}

/// Reads the file that the claims are about, and compares its digests with them.
pub(super) fn compare(tool: &Tool, claims: &[ListLine], helpers: &Helpers) -> Compared {
    compare_by(tool, claims, |path, kinds, piece| match piece {
        None => read::file(tool, path, kinds, helpers).map(Some),
        Some(piece) => read::piece(tool, path, kinds, piece, helpers),
    })
}

/// Does the same with a function that returns the digests of a file or a piece of it, or `None` if
/// the file has another size.
pub(super) fn compare_by(
    tool: &Tool,
    claims: &[ListLine],
    read: impl FnOnce(&Path, &[DigestKind], Option<Piece>) -> io::Result<Option<Vec<Sum>>>,
) -> Compared {
    let path = Path::new(OsStr::from_bytes(&claims[0].name));
    let kinds: Vec<DigestKind> = claims.iter().map(|claim| claim.kind).collect();
    match read(path, &kinds, claims[0].piece) {
        Ok(Some(sums)) => {
            Ok(sums.iter().zip(claims).map(|(sum, claim)| sum.bytes == claim.digest).collect())
        }
        // The file has another size.
        Ok(None) => Ok(vec![false; claims.len()]),
        Err(error) => Err(Failure::of(tool, path, &error)),
    }
}

impl ListCheck<'_> {
    /// Prints a result.
    pub(super) fn tell(&mut self, done: StepResult) -> io::Result<()> {
        match done {
            StepResult::Improper(number, tag) => {
                self.tally.improper += 1;
                if self.check.warn {
                    let list = &self.list;
                    self.tool.note(format_args!(
                        "{list}: {number}: improperly formatted {tag} checksum line"
                    ));
                }
                Ok(())
            }
            StepResult::Compared(claims, Ok(same)) => {
                claims.iter().zip(same).try_for_each(|(claim, same)| self.compared(claim, same))
            }
            StepResult::Compared(claims, Err(error)) => {
                claims.iter().try_for_each(|claim| self.unreadable(claim, &error))
            }
        }
    }

    fn compared(&mut self, claim: &ListLine, same: bool) -> io::Result<()> {
        self.tally.proper += 1;
        let count = if same { &mut self.tally.matched } else { &mut self.tally.differing };
        *count += 1;
        match same {
            true if self.check.quiet => Ok(()),
            true => self.say(claim, "OK"),
            false => self.say(claim, "FAILED"),
        }
    }

    fn unreadable(&mut self, claim: &ListLine, failure: &Failure) -> io::Result<()> {
        self.tally.proper += 1;
        if self.check.ignore_missing && failure.is_missing {
            return Ok(());
        }
        self.tally.unreadable += 1;
        self.tool.error(&failure.text);
        self.say(claim, "FAILED open or read")
    }

    /// Prints one result at once, so that it keeps its position among the messages.
    fn say(&self, claim: &ListLine, result: &str) -> io::Result<()> {
        if self.check.status {
            return Ok(());
        }
        let mut line = Vec::new();
        if claim.name.contains(&b'\n') {
            line.push(b'\\');
            line.extend_from_slice(&escaped(&claim.name));
        } else {
            line.extend_from_slice(&claim.name);
        }
        let piece = claim.piece.as_ref().map_or_else(String::new, |piece| format!(" {piece}"));
        line.extend_from_slice(format!("{piece}: {result}\n").as_bytes());
        self.tool.print(&line)
    }

    /// Prints the summary; returns whether everything is correct.
    fn conclude(&self) -> bool {
        let Tally { proper, improper, unreadable, differing, matched } = self.tally;
        if proper == 0 {
            self.tool
                .error(format_args!("{}: no properly formatted checksum lines found", self.list));
            return false;
        }
        if !self.check.status {
            self.warning(
                improper,
                "line is improperly formatted",
                "lines are improperly formatted",
            );
            self.warning(
                unreadable,
                "listed file could not be read",
                "listed files could not be read",
            );
            self.warning(
                differing,
                "computed checksum did NOT match",
                "computed checksums did NOT match",
            );
            if self.check.ignore_missing && matched == 0 {
                self.tool.note(format_args!("{}: no file was verified", self.list));
            }
        }
        matched > 0 && differing == 0 && unreadable == 0 && (improper == 0 || !self.check.strict)
    }

    fn warning(&self, count: u64, one: &str, several: &str) {
        match count {
            0 => {}
            1 => self.tool.note(format_args!("WARNING: 1 {one}")),
            count => self.tool.note(format_args!("WARNING: {count} {several}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dio_digest::Algorithm;

    fn steps(list: &str, group: bool) -> Vec<String> {
        let accept = Accept { algorithms: vec![Algorithm::Crc32c], general: false, pieces: false };
        let mut steps = Steps::new(list.as_bytes(), &accept, true, group);
        let mut found = Vec::new();
        while let Some(step) = steps.step().unwrap() {
            found.push(match step {
                Step::Improper(number, tag) => format!("{number} {tag}"),
                Step::Claims(claims) => {
                    let names = claims
                        .iter()
                        .map(|claim| String::from_utf8_lossy(&claim.name).into_owned());
                    names.collect::<Vec<_>>().join(" ")
                }
            });
        }
        found
    }

    #[test]
    fn neighbouring_lines_about_one_file_are_one_step() {
        let list = "# c\n00000000  a\n00000001  a\n\n00000002  a\nbad\n00000000  a\n00000000  \
                    b\n00000000  -";
        assert_eq!(steps(list, true), ["a a a", "6 CRC32C", "a", "b", "9 CRC32C"]);
        assert_eq!(steps(list, false), ["a", "a", "a", "6 CRC32C", "a", "b", "9 CRC32C"]);
        let many = "00000000  a\n".repeat(TOGETHER + 1);
        assert_eq!(steps(&many, true).len(), 2);
    }
}
