//! A result in the form in which it is shown. A terminal ([`Section::text`]), the page
//! (`page::html`) and the CSV files of tables all use this form. Each benchmark makes a section of
//! its result ([`Benchmark::section`]), and writes the result itself as JSON.

mod table;
mod text;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::BenchError;
use crate::environment::Environment;
use crate::plot::Plot;
use crate::quantity::Unit;
pub use table::{Cell, Column, Rows, Table};

/// The format of the results that this version writes. A change of the format means that readers
/// must support both the old and the new one; merely adding fields does not change it.
pub const FORMAT: u32 = 1;

/// The result of a benchmark. The same type writes the JSON and reads it again. Therefore a field
/// that earlier results lack is `#[serde(default)]`, and so is a field that can be computed from
/// others (such as the median of runs that are in the result too).
pub trait Benchmark: Serialize + DeserializeOwned {
    /// The name, which is also the name of its command.
    const NAME: &'static str;
    /// A set of fields that no other benchmark has completely. It identifies results that were
    /// written before results had names.
    const FIELDS: &'static [&'static str];

    /// The section that shows the result.
    fn section(&self) -> Section;

    /// The report for a terminal.
    fn text(&self) -> String {
        self.section().text()
    }

    /// The result as one JSON object, for people to read and for `dio report`. It contains the name
    /// of the benchmark and the format.
    ///
    /// # Errors
    /// When the result cannot be written as JSON.
    fn json(&self) -> Result<String, BenchError> {
        let text = serde_json::to_string_pretty(&Named {
            benchmark: Self::NAME,
            format: FORMAT,
            result: self,
        });
        text.map(|text| text + "\n")
            .map_err(|error| BenchError::Asked(format!("cannot write the report: {error}")))
    }
}

#[derive(Serialize)]
struct Named<'a, R> {
    benchmark: &'static str,
    format: u32,
    #[serde(flatten)]
    result: &'a R,
}

/// One result, in the form in which it is shown.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// The name of the benchmark, made unique by the page. It is the prefix of its file names and
    /// consists of letters, digits and `-`.
    pub id: String,
    /// Its heading.
    pub title: String,
    /// The name of the file that it was read from.
    pub source: String,
    /// A description of the measurement, in a sentence or two.
    pub lead: String,
    /// A text that replaces lead and findings on a terminal, if the blocks already contain them.
    pub brief: Option<String>,
    /// The main results, the most important first.
    pub findings: Vec<Finding>,
    /// Details.
    pub blocks: Vec<Block>,
    /// Remarks: missing data, and warnings that a reader needs to judge the result.
    pub notes: Vec<String>,
    /// The settings of the measurement: names and values.
    pub settings: Vec<(String, String)>,
    /// The machine and storage that it was measured on: names and values.
    pub environment: Vec<(String, String)>,
    /// The environment in two lines, for a terminal.
    pub machine: String,
    /// More data for the directory of CSV files: file names without an ending, and contents.
    pub data: Vec<(String, String)>,
}

impl Section {
    /// Creates a section of a measurement on a machine.
    pub fn new(id: &str, title: impl Into<String>, environment: &Environment) -> Section {
        let (environment, machine) = (environment.rows(), environment.text());
        Section {
            id: id.to_owned(),
            title: title.into(),
            environment,
            machine,
            ..Section::default()
        }
    }
}

/// One main number of a result.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The name of the quantity.
    pub label: String,
    /// The number with its unit.
    pub value: String,
    /// A remark, such as a figure to compare it with.
    pub note: String,
    /// Whether a target was reached; `None` if there is no target.
    pub reached: Option<bool>,
}

impl Finding {
    /// A number without a target.
    pub fn new(
        label: impl Into<String>,
        value: impl Into<String>,
        note: impl Into<String>,
    ) -> Finding {
        Finding { label: label.into(), value: value.into(), note: note.into(), reached: None }
    }
}

/// A part of a section.
#[derive(Clone, Debug)]
pub enum Block {
    /// The heading of a group of parts.
    Heading(String),
    /// A paragraph.
    Text(String),
    /// A table.
    Table(Table),
    /// Plots, side by side as far as there is room.
    Plots(Vec<Plot>),
    /// Names and commands, as a person would type them; hidden at first.
    Commands(Vec<(String, String)>),
}

/// Reduces a text to letters, digits and `-`, for names of files and anchors.
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

/// A factor for use in a sentence, with two or more significant digits: `0.98×`, `0.0086×`.
pub(crate) fn times(value: f64) -> String {
    format!("{}×", Unit::Ratio.scale([value]).number(value))
}

/// The text with a capital first letter.
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
