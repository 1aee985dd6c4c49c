//! Which extended attributes are set.

use std::ffi::CString;

use super::super::options::Options;
use super::super::pattern::{Matching, Pattern};

/// `--xattrs-include` and `--xattrs-exclude`.
#[derive(Debug)]
pub(super) struct Masks {
    include: Vec<Pattern>,
    exclude: Vec<Pattern>,
}

impl Masks {
    pub(super) fn new(options: &Options) -> Masks {
        let how = Matching { anchored: true, wildcards: true, match_slash: true, ignore_case: false, recursion: false };
        let of = |masks: &[Vec<u8>]| masks.iter().map(|mask| Pattern::new(mask, how)).collect();
        Masks { include: of(&options.xattrs_include), exclude: of(&options.xattrs_exclude) }
    }

    /// Those that are set: by default those of users (`user.*`), for the others change what the system does with a file.
    pub(super) fn chosen(&self, all: &[(Vec<u8>, Vec<u8>)]) -> Vec<(CString, Vec<u8>)> {
        let chosen = all.iter().filter(|(name, _)| self.chooses(name));
        chosen.filter_map(|(name, value)| Some((CString::new(name.as_slice()).ok()?, value.clone()))).collect()
    }

    fn chooses(&self, name: &[u8]) -> bool {
        let included = match self.include.is_empty() {
            true => name.starts_with(b"user."),
            false => self.include.iter().any(|mask| mask.matches(name)),
        };
        included && !self.exclude.iter().any(|mask| mask.matches(name))
    }
}
