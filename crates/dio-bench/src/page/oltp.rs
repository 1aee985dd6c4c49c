//! `dio bench oltp`.

use super::model::Section;
use super::study::{self, Words};

/// What it calls things.
pub(crate) const WORDS: Words<'static> = Words {
    id: "oltp",
    title: "A database's pages on raw, direct and concurrent storage",
    events: "transactions",
    lead: "Transactions read pages at random places of a few large files, change and write some of them, and write a log \
           durably at commit. Pages have locks of their own, so the file's lock is in nobody's service; every page read was \
           compared with what was written last.",
};

pub(super) fn section(text: &str) -> serde_json::Result<Section> {
    study::section(text, &WORDS)
}
