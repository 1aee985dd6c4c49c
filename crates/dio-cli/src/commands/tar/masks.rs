//! Selects the extended attributes that are archived, shown and set (`--xattrs-include`,
//! `--xattrs-exclude`).

use super::options::TarOptions;
use super::pattern::{Matching, Patterns};

/// Patterns for the names of extended attributes.
#[derive(Debug, Default)]
pub(super) struct Masks {
    include: Patterns,
    exclude: Patterns,
}

impl Masks {
    pub(super) fn new(options: &TarOptions) -> Masks {
        let how = Matching {
            anchored: true,
            wildcards: true,
            match_slash: true,
            ignore_case: false,
            recursion: false,
        };
        let of = |masks: &[Vec<u8>]| {
            let mut patterns = Patterns::default();
            masks.iter().for_each(|mask| patterns.add(mask, how));
            patterns.build();
            patterns
        };
        Masks { include: of(&options.xattrs_include), exclude: of(&options.xattrs_exclude) }
    }

    /// Whether an attribute is archived. Without `--xattrs-include`, all are.
    pub(super) fn archives(&self, name: &[u8]) -> bool {
        self.chooses(name, true)
    }

    /// Whether an attribute is set by extraction, and shown. Without `--xattrs-include`, only those
    /// in the `user.` namespace are: attributes of other namespaces change how the system treats a
    /// file.
    pub(super) fn sets(&self, name: &[u8]) -> bool {
        self.chooses(name, name.starts_with(b"user."))
    }

    fn chooses(&self, name: &[u8], by_default: bool) -> bool {
        let included = match self.include.len() == 0 {
            true => by_default,
            false => self.include.matches(name),
        };
        included && !self.exclude.matches(name)
    }
}
