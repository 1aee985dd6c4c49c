//! A result, ready to be shown: what a terminal prints ([`Section::text`]), what the page shows
//! (`page::html`) and what the files of tables hold come from this one form. Each benchmark makes a
//! section of its result ([`Benchmark::section`]), and writes the result itself as JSON.

mod table;
mod text;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::BenchError;
use crate::environment::Environment;
use crate::plot::Plot;
use crate::quantity::Unit;
pub use table::{Cell, Column, Rows, Table};

/// The format of the results written here. A reader of a later one has to know both; fields that
/// are only added leave it.
pub const FORMAT: u32 = 1;

/// The result of a benchmark. The same type writes the JSON and reads it again, so a field that
/// earlier results lack is `#[serde(default)]`, as are those that repeat what others say (medians
/// of runs that are there too).
pub trait Benchmark: Serialize + DeserializeOwned {
    /// The name, which is that of its command.
    const NAME: &'static str;
    /// Fields that no other benchmark has all of: by these a result that was written before they
    /// had names is recognised.
    const FIELDS: &'static [&'static str];

    /// What is shown of it.
    fn section(&self) -> Section;

    /// The report for a terminal.
    fn text(&self) -> String {
        self.section().text()
    }

    /// One JSON object, for people to look at and for `dio report`. It names its benchmark and the
    /// format.
    ///
    /// # Errors
    /// When it cannot be written as JSON.
    fn json(&self) -> Result<String, BenchError> {
        let text = serde_json::to_string_pretty(&Named { benchmark: Self::NAME, format: FORMAT, result: self });
        text.map(|text| text + "\n").map_err(|error| BenchError::Asked(format!("cannot write the report: {error}")))
    }
}

#[derive(Serialize)]
struct Named<'a, R> {
    benchmark: &'static str,
    format: u32,
    #[serde(flatten)]
    result: &'a R,
}

/// One result, ready to be shown.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// The benchmark, and the beginning of the names of its files: letters, digits and `-`; made
    /// unique by the page.
    pub id: String,
    /// Its heading.
    pub title: String,
    /// The file that it comes from.
    pub source: String,
    /// What was done, in a sentence or two.
    pub lead: String,
    /// What a terminal shows instead of lead and findings, where blocks say the rest.
    pub brief: Option<String>,
    /// What came out, the most important first.
    pub findings: Vec<Finding>,
    /// Details.
    pub blocks: Vec<Block>,
    /// What the result says about itself: what is missing, what to know before believing it.
    pub notes: Vec<String>,
    /// What it was run with, by name.
    pub settings: Vec<(String, String)>,
    /// Where it was measured, by name.
    pub environment: Vec<(String, String)>,
    /// The same in two lines, for a terminal.
    pub machine: String,
    /// More data for the directory of CSV files: name without ending, and contents.
    pub data: Vec<(String, String)>,
}

impl Section {
    /// A section of what was measured on a machine.
    pub fn new(id: &str, title: impl Into<String>, environment: &Environment) -> Section {
        let (environment, machine) = (environment.rows(), environment.text());
        Section { id: id.to_owned(), title: title.into(), environment, machine, ..Section::default() }
    }
}

/// One number that the whole is about.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What it is of.
    pub label: String,
    /// The number with its unit.
    pub value: String,
    /// What it is to be compared with.
    pub note: String,
    /// Whether a figure to reach was reached; `None` where there is none.
    pub reached: Option<bool>,
}

impl Finding {
    /// A number without a figure to reach.
    pub fn new(label: impl Into<String>, value: impl Into<String>, note: impl Into<String>) -> Finding {
        Finding { label: label.into(), value: value.into(), note: note.into(), reached: None }
    }
}

/// A part of a section.
#[derive(Clone, Debug)]
pub enum Block {
    /// Begins a group of parts.
    Heading(String),
    /// A paragraph.
    Text(String),
    /// A table.
    Table(Table),
    /// Plots beside each other, as far as there is room.
    Plots(Vec<Plot>),
    /// Commands as a person would type them, by name; not shown at first.
    Commands(Vec<(String, String)>),
}

/// Letters, digits and `-` for the names of files and anchors.
pub(crate) fn slug(text: &str) -> String {
    let mut slug = String::new();
    for letter in text.chars() {
        match letter {
            letter if letter.is_ascii_alphanumeric() => slug.push(letter.to_ascii_lowercase()),
            _ if slug.is_empty() || slug.ends_with('-') => {}
            _ => slug.push('-'),
        }
        if slug.len() >= 60 {
            break;
        }
    }
    let slug = slug.trim_end_matches('-');
    if slug.is_empty() { "unnamed".to_owned() } else { slug.to_owned() }
}

/// A factor for a sentence, of two digits or more: `0.98×`, `0.0086×`.
pub(crate) fn times(value: f64) -> String {
    format!("{}×", Unit::Ratio.scale([value]).number(value))
}

/// With a capital letter.
pub(crate) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_plain() {
        assert_eq!(slug("gzip -6, text/../x"), "gzip-6-text-x");
        assert_eq!(slug("<>"), "unnamed");
        assert_eq!((capital("one row"), capital("")), ("One row".to_owned(), String::new()));
    }
}
