//! Which members of an archive are meant.

use super::options::Options;
use super::pattern::{Pattern, has_wildcards};
use super::quoting::escaped;
use super::run::{Run, bare};

/// Picks members as they come.
#[derive(Debug)]
pub(super) struct Selection<'a> {
    options: &'a Options,
    patterns: Vec<Pattern>,
    /// How often each pattern matched.
    found: Vec<u64>,
    /// `-K` has not been met yet.
    waiting: bool,
}

impl<'a> Selection<'a> {
    /// What the command line picks.
    pub(super) fn new(options: &'a Options) -> Selection<'a> {
        let patterns: Vec<_> = options.names.list.iter().map(|name| Pattern::new(&name.bytes, name.matching)).collect();
        let found = vec![0; patterns.len()];
        Selection { options, patterns, found, waiting: options.starting_file.is_some() }
    }

    /// Whether a member is meant: the directory it belongs in (an index of `Names::directories`), or none if it is passed over. Of
    /// directories the name may end in `/`.
    pub(super) fn choose(&mut self, member: &[u8]) -> Option<usize> {
        let member = bare(member);
        if self.waiting {
            self.waiting = self.options.starting_file.as_deref() != Some(member);
            if self.waiting {
                return None;
            }
        }
        let directory = match self.patterns.is_empty() {
            true => self.options.names.last_directory(),
            false => {
                let matched = self.patterns.iter().position(|pattern| pattern.matches(member))?;
                self.found[matched] += 1;
                if self.options.occurrence.is_some_and(|wanted| wanted != self.found[matched]) {
                    return None;
                }
                self.options.names.list[matched].directory
            }
        };
        (!self.options.names.exclude.matches(member)).then_some(directory)
    }

    /// Whether nothing that follows can be meant (`--occurrence`): the archive need not be read on.
    pub(super) fn complete(&self) -> bool {
        let Some(wanted) = self.options.occurrence else { return false };
        !self.found.is_empty() && self.found.iter().all(|found| *found >= wanted)
    }

    /// Tells the names that matched nothing.
    pub(super) fn finish(&self, run: &Run) {
        let names = &self.options.names;
        let missing = |(name, found): (_, &u64)| (*found < self.options.occurrence.unwrap_or(1)).then_some(name);
        let missing: Vec<&super::names::Name> = names.list.iter().zip(&self.found).filter_map(missing).collect();
        if names.wildcards.is_none() && missing.iter().any(|name| has_wildcards(&name.bytes)) {
            run.note("Pattern matching characters used in file names");
            run.note("Use --wildcards to enable pattern matching, or --no-wildcards to suppress this warning");
        }
        for name in missing {
            let what = match self.options.occurrence {
                Some(_) => "Required occurrence not found in archive",
                None => "Not found in archive",
            };
            run.error(format_args!("{}: {what}", escaped(&name.bytes)));
        }
    }
}
