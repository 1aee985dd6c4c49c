//! Tables: each row has a name and some cells, with values in base units.

use crate::plot::csv_line;
use crate::quantity::Unit;
use crate::stats::Summary;

/// Numbers in rows and columns.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Name of its file, without an ending.
    pub name: String,
    /// A description of the table.
    pub caption: String,
    /// The heading of the first column, which holds the names of the rows.
    pub head: String,
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows: a name and a cell for each column.
    pub rows: Vec<(String, Vec<Cell>)>,
    /// Remarks below the table.
    pub notes: Vec<String>,
    /// A text that a terminal shows instead, if the cells are sentences.
    pub instead: Option<String>,
}

/// A column of a table.
#[derive(Clone, Debug)]
pub struct Column {
    /// The heading, without the unit.
    pub title: String,
    /// The unit of its numbers; `None` for text.
    pub unit: Option<Unit>,
    /// Whether numbers are shown with all of their digits, as they were published.
    pub exact: bool,
    /// Whether the column is left out on a terminal, whose lines are short.
    pub only_on_page: bool,
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
    /// A cell of runs; missing if there are none.
    pub fn runs(values: impl IntoIterator<Item = f64>) -> Cell {
        Summary::of_some(values.into_iter().filter(|value| value.is_finite()))
            .map_or(Cell::Missing, Cell::Runs)
    }

    /// All numbers in it, the median first.
    pub(crate) fn numbers(&self) -> Vec<f64> {
        match self {
            Cell::Missing | Cell::Text(_) => Vec::new(),
            Cell::Number(number) => vec![*number],
            Cell::Runs(Summary { median, min, max }) => vec![*median, *min, *max],
        }
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Cell {
        if number.is_finite() { Cell::Number(number) } else { Cell::Missing }
    }
}

impl From<u64> for Cell {
    fn from(number: u64) -> Cell {
        Cell::Number(number as f64)
    }
}

impl From<usize> for Cell {
    fn from(number: usize) -> Cell {
        Cell::Number(number as f64)
    }
}

impl From<Summary> for Cell {
    fn from(runs: Summary) -> Cell {
        Cell::Runs(runs)
    }
}

/// A cell of runs; missing if there are none.
impl From<Vec<f64>> for Cell {
    fn from(values: Vec<f64>) -> Cell {
        Cell::runs(values)
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::Text(text)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Cell {
        value.map_or(Cell::Missing, Into::into)
    }
}

/// Builds a table of some rows, column by column.
pub struct Rows<'a, T: ?Sized> {
    table: Table,
    rows: Vec<&'a T>,
}

impl<'a, T: ?Sized> Rows<'a, T> {
    /// Starts a table with a row for each of `rows`, whose name is the result of `title`. `name` is
    /// the name of the table's file, and `head` the heading of the first column.
    pub fn new(
        (name, head): (&str, &str),
        caption: impl Into<String>,
        rows: impl IntoIterator<Item = &'a T>,
        title: impl Fn(&T) -> String,
    ) -> Rows<'a, T> {
        let rows: Vec<&T> = rows.into_iter().collect();
        let table = Table {
            name: name.to_owned(),
            caption: caption.into(),
            head: head.to_owned(),
            rows: rows.iter().map(|row| (title(row), Vec::new())).collect(),
            ..Table::default()
        };
        Rows { table, rows }
    }

    /// Adds a column of numbers.
    #[must_use]
    pub fn column<C: Into<Cell>>(
        self,
        title: impl Into<String>,
        unit: Unit,
        cell: impl Fn(&T) -> C,
    ) -> Self {
        self.add(title.into(), Some(unit), cell)
    }

    /// Adds a column of text.
    #[must_use]
    pub fn words<C: Into<Cell>>(self, title: impl Into<String>, cell: impl Fn(&T) -> C) -> Self {
        self.add(title.into(), None, cell)
    }

    fn add<C: Into<Cell>>(
        mut self,
        title: String,
        unit: Option<Unit>,
        cell: impl Fn(&T) -> C,
    ) -> Self {
        self.table.columns.push(Column { title, unit, exact: false, only_on_page: false });
        for ((_, cells), row) in self.table.rows.iter_mut().zip(&self.rows) {
            cells.push(cell(row).into());
        }
        self
    }

    fn last(mut self, change: impl Fn(&mut Column)) -> Self {
        self.table.columns.last_mut().into_iter().for_each(change);
        self
    }

    /// Marks the numbers of the last column as published, so that they are shown with all of their
    /// digits.
    #[must_use]
    pub fn exact(self) -> Self {
        self.last(|column| column.exact = true)
    }

    /// Leaves the last column out on a terminal.
    #[must_use]
    pub fn only_on_page(self) -> Self {
        self.last(|column| column.only_on_page = true)
    }

    /// The table, without columns in which all cells are missing.
    pub fn table(self) -> Table {
        self.table.dense()
    }
}

impl Unit {
    /// The base unit, as it is written in the heading of a CSV file.
    fn base(self) -> &'static str {
        match self {
            Unit::Seconds => " (s)",
            Unit::Bytes => " (B)",
            Unit::BytesPerSecond => " (B/s)",
            Unit::PerSecond => " (1/s)",
            Unit::Count | Unit::Part | Unit::Ratio | Unit::Times => "",
        }
    }
}

impl Table {
    /// Whether a column contains a cell with several runs.
    fn has_runs(&self, column: usize) -> bool {
        self.rows.iter().any(|(_, cells)| matches!(cells.get(column), Some(Cell::Runs(_))))
    }

    fn dense(mut self) -> Table {
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

    /// The table as CSV in base units; for runs, the median, the least and the greatest.
    pub fn csv(&self) -> String {
        let mut heads = vec![self.head.clone()];
        for (place, column) in self.columns.iter().enumerate() {
            let title = format!("{}{}", column.title, column.unit.map_or("", Unit::base));
            match self.has_runs(place) {
                true => heads.extend(
                    ["median", "least", "greatest"].map(|which| format!("{title}, {which}")),
                ),
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
        let rows = [
            ("a,b", vec![3.0, 1.0, 2.0], None, Some("yes")),
            ("c", vec![0.5], Some(f64::NAN), None),
        ];
        let table = Rows::new(("t", "who"), "t", &rows, |row| row.0.to_owned())
            .column("elapsed", Unit::Seconds, |row| {
                if row.1.len() > 1 { row.1.clone().into() } else { Cell::from(row.1[0]) }
            })
            .column("unknown", Unit::Bytes, |row| row.2)
            .words("said", |row| row.3)
            .table();
        let expected = "who,\"elapsed (s), median\",\"elapsed (s), least\",\"elapsed (s), \
                        greatest\",said\n\"a,b\",2,1,3,yes\nc,0.5,,,\n";
        assert_eq!(table.csv(), expected);
    }
}
