//! Selects the members of an archive to process.

use super::names::Name;
use super::options::TarOptions;
use super::pattern::{Patterns, has_wildcards};
use super::quoting::escaped;
use super::run::{TarRun, bare};

/// Selects members in the order in which they come.
#[derive(Debug)]
pub(super) struct Selection<'a> {
    options: &'a TarOptions,
    patterns: Patterns,
    /// How often each pattern has matched.
    found: Vec<u64>,
    /// The last member, recorded only for `--occurrence`.
    last: Vec<u8>,
    /// Whether the member of `-K` has not been found yet.
    waiting: bool,
}

impl<'a> Selection<'a> {
    /// Creates the selection of the command line.
    pub(super) fn new(options: &'a TarOptions) -> Selection<'a> {
        let mut patterns = Patterns::default();
        options.names.list.iter().for_each(|name| patterns.add(&name.bytes, name.matching));
        patterns.build();
        let found = vec![0; patterns.len()];
        Selection {
            options,
            patterns,
            found,
            last: Vec::new(),
            waiting: options.starting_file.is_some(),
        }
    }

    /// Selects a member. Returns the index in `Names::directories` of the directory it belongs in,
    /// or `None` if the member is skipped. The name of a directory may end in `/`.
    pub(super) fn choose(&mut self, member: &[u8]) -> Option<usize> {
        if self.options.occurrence.is_some() {
            self.last = member.to_vec();
        }
        let member = bare(member);
        if self.waiting {
            self.waiting = self.options.starting_file.as_deref() != Some(member);
            if self.waiting {
                return None;
            }
        }
        let directory = match self.patterns.len() == 0 {
            true => self.options.names.last_directory(),
            false => {
                let matched = self.patterns.first(member, usize::MAX)?;
                let name = &self.options.names.list[matched];
                // The contents of a named directory belong to the current occurrence of it.
                let inside =
                    self.options.names.recursion && member.get(name.bytes.len()) == Some(&b'/');
                if !inside || self.found[matched] == 0 {
                    self.found[matched] += 1;
                }
                if self.options.occurrence.is_some_and(|wanted| wanted != self.found[matched]) {
                    return None;
                }
                self.options.names.list[matched].directory
            }
        };
        (!self.options.names.exclude.matches(member)).then_some(directory)
    }

    /// Whether no later member can be selected (`--occurrence`), so that reading can stop.
    pub(super) fn complete(&self) -> bool {
        let Some(wanted) = self.options.occurrence else { return false };
        // The contents of a directory come after the directory itself.
        let within = |name: &Name| {
            self.last.ends_with(b"/") || self.last.get(name.bytes.len()) == Some(&b'/')
        };
        let names = self.options.names.list.iter().zip(&self.found);
        !self.found.is_empty()
            && names.into_iter().all(|(name, found)| *found >= wanted && !within(name))
    }

    /// Reports the names that matched nothing.
    pub(super) fn finish(&self, run: &TarRun) {
        let names = &self.options.names;
        let missing = |(name, found): (_, &u64)| {
            (*found < self.options.occurrence.unwrap_or(1)).then_some((name, *found))
        };
        let missing: Vec<(&Name, u64)> =
            names.list.iter().zip(&self.found).filter_map(missing).collect();
        for (name, found) in missing {
            if names.wildcards.is_none() && has_wildcards(&name.bytes) {
                run.note("Pattern matching characters used in file names");
                run.note(
                    "Use --wildcards to enable pattern matching, or --no-wildcards to suppress \
                     this warning",
                );
            }
            let what = match found {
                0 => "Not found in archive",
                _ => "Required occurrence not found in archive",
            };
            run.error(format_args!("{}: {what}", escaped(&name.bytes)));
        }
    }
}
