//! What a page is made of, whatever the benchmark.

use crate::plot::{Plot, csv_line};
use crate::quantity::Unit;
use crate::stats::Summary;

/// One result, ready to be shown.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// The benchmark, and the beginning of the names of its files: letters, digits and `-`; made unique by the page.
    pub id: String,
    /// Its heading.
    pub title: String,
    /// The file that it comes from.
    pub source: String,
    /// What was done, in a sentence or two.
    pub lead: String,
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
    /// More data for the directory of CSV files: name without ending, and contents.
    pub data: Vec<(String, String)>,
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

/// Numbers in rows and columns.
#[derive(Clone, Debug)]
pub struct Table {
    /// Name of its file, without an ending.
    pub name: String,
    /// What it holds.
    pub caption: String,
    /// What the rows are.
    pub head: String,
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows: a name and a cell for each column.
    pub rows: Vec<(String, Vec<Cell>)>,
}

/// A column of a table.
#[derive(Clone, Debug)]
pub struct Column {
    /// What it holds, without the unit.
    pub title: String,
    /// The unit of its numbers; `None` for text.
    pub unit: Option<Unit>,
    /// Numbers are shown with all of their digits, as they were published.
    pub exact: bool,
}

impl Column {
    /// A column of numbers.
    pub fn of(title: impl Into<String>, unit: Unit) -> Column {
        Column { title: title.into(), unit: Some(unit), exact: false }
    }

    /// A column of published numbers.
    pub fn exact(title: impl Into<String>, unit: Unit) -> Column {
        Column { exact: true, ..Column::of(title, unit) }
    }

    /// A column of text.
    pub fn text(title: impl Into<String>) -> Column {
        Column { title: title.into(), unit: None, exact: false }
    }
}

/// A cell of a table, in base units.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Not measured.
    Missing,
    /// Words.
    Text(String),
    /// One number.
    Number(f64),
    /// The median of some runs, with the least and the greatest.
    Runs(Summary),
}

impl Cell {
    /// A number, if there is one.
    pub fn of(value: Option<f64>) -> Cell {
        value.filter(|value| value.is_finite()).map_or(Cell::Missing, Cell::Number)
    }

    /// Runs, if there are any.
    pub fn runs(values: impl IntoIterator<Item = f64>) -> Cell {
        let values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        if values.is_empty() { Cell::Missing } else { Cell::Runs(Summary::of(values)) }
    }

    /// All numbers in it.
    pub(super) fn numbers(&self) -> Vec<f64> {
        match self {
            Cell::Missing | Cell::Text(_) => Vec::new(),
            Cell::Number(number) => vec![*number],
            Cell::Runs(Summary { median, min, max }) => vec![*median, *min, *max],
        }
    }
}

impl Unit {
    /// The base unit in the heading of a CSV file.
    fn base(self) -> &'static str {
        match self {
            Unit::Seconds => " (s)",
            Unit::Bytes => " (B)",
            Unit::BytesPerSecond => " (B/s)",
            Unit::PerSecond => " (1/s)",
            Unit::Count | Unit::Part | Unit::Ratio => "",
        }
    }
}

impl Table {
    /// Whether a column shows more than one run.
    fn has_runs(&self, column: usize) -> bool {
        self.rows.iter().any(|(_, cells)| matches!(cells.get(column), Some(Cell::Runs(_))))
    }

    /// Without columns in which nothing is known.
    #[must_use]
    pub fn dense(mut self) -> Table {
        for column in (0..self.columns.len()).rev() {
            let empty = |cell: Option<&Cell>| matches!(cell, None | Some(Cell::Missing));
            if self.rows.iter().all(|(_, cells)| empty(cells.get(column))) {
                self.columns.remove(column);
                for (_, cells) in self.rows.iter_mut().filter(|(_, cells)| column < cells.len()) {
                    cells.remove(column);
                }
            }
        }
        self
    }

    /// The table in base units; of runs the median, the least and the greatest.
    pub fn csv(&self) -> String {
        let mut heads = vec![self.head.clone()];
        for (place, column) in self.columns.iter().enumerate() {
            let title = format!("{}{}", column.title, column.unit.map_or("", Unit::base));
            match self.has_runs(place) {
                true => heads.extend(["median", "least", "greatest"].map(|which| format!("{title}, {which}"))),
                false => heads.push(title),
            }
        }
        let mut text = csv_line(&heads);
        for (name, cells) in &self.rows {
            let mut line = vec![name.clone()];
            for place in 0..self.columns.len() {
                let cell = cells.get(place).unwrap_or(&Cell::Missing);
                let mut fields = match cell {
                    Cell::Text(text) => vec![text.clone()],
                    cell => cell.numbers().iter().map(f64::to_string).collect(),
                };
                fields.resize(if self.has_runs(place) { 3 } else { 1 }, String::new());
                line.append(&mut fields);
            }
            text.push_str(&csv_line(&line));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_become_csv_in_base_units_and_lose_empty_columns() {
        let columns =
            vec![Column::of("elapsed", Unit::Seconds), Column::of("unknown", Unit::Bytes), Column::text("said")];
        let rows = vec![
            ("a,b".to_owned(), vec![Cell::runs([3.0, 1.0, 2.0]), Cell::Missing, Cell::Text("yes".to_owned())]),
            ("c".to_owned(), vec![Cell::of(Some(0.5)), Cell::of(Some(f64::NAN)), Cell::Missing]),
        ];
        let name = || "t".to_owned();
        let table = Table { name: name(), caption: name(), head: "who".to_owned(), columns, rows }.dense();
        let expected = "who,\"elapsed (s), median\",\"elapsed (s), least\",\"elapsed (s), greatest\",said\n\
                        \"a,b\",2,1,3,yes\nc,0.5,,,\n";
        assert_eq!(table.csv(), expected);
    }
}
