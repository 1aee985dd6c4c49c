//! Renders a section for a terminal.

use std::fmt::Write;

use dio_common::units;

use super::{Block, Cell, Column, Section, Table};
use crate::quantity::Unit;
use crate::stats::Summary;

impl Section {
    /// The report for a terminal: the machine, the description, tables, findings and notes. Plots
    /// appear on the page only.
    pub fn text(&self) -> String {
        let mut text = self.machine.clone();
        let _ = writeln!(text, "{}", self.brief.as_ref().unwrap_or(&self.lead));
        for block in &self.blocks {
            match block {
                Block::Heading(heading) => {
                    let _ = writeln!(text, "\n{heading}");
                }
                Block::Text(paragraph) => {
                    let _ = writeln!(text, "  {paragraph}");
                }
                Block::Table(table) => text.push_str(&table.text()),
                Block::Plots(_) | Block::Commands(_) => {}
            }
        }
        if self.brief.is_none() {
            self.verdicts(&mut text);
        }
        let separate = |text: &mut String, some: bool| {
            if some {
                text.push('\n');
            }
        };
        separate(&mut text, !self.notes.is_empty());
        for note in &self.notes {
            let _ = writeln!(text, "{note}");
        }
        separate(&mut text, !self.settings.is_empty());
        for (name, value) in &self.settings {
            let _ = writeln!(text, "{name}: {value}");
        }
        text
    }

    fn verdicts(&self, text: &mut String) {
        if !self.findings.is_empty() {
            text.push('\n');
        }
        for finding in &self.findings {
            let note = if finding.note.is_empty() {
                String::new()
            } else {
                format!(" ({})", finding.note)
            };
            let _ = writeln!(text, "{}: {}{note}", finding.label, finding.value);
        }
    }
}

impl Table {
    /// The table as text, below a line with its caption.
    pub(crate) fn text(&self) -> String {
        if let Some(instead) = &self.instead {
            return instead.clone();
        }
        let mut text = String::new();
        if !self.caption.is_empty() {
            let _ = writeln!(text, "\n{}", self.caption);
        }
        text.push_str(&aligned(&self.lines()));
        for note in &self.notes {
            let _ = writeln!(text, "  {note}");
        }
        text
    }

    /// The heading and the rows, cell by cell. The first column of runs also gets columns for the
    /// least and the greatest value.
    fn lines(&self) -> Vec<Vec<String>> {
        let shown: Vec<usize> =
            (0..self.columns.len()).filter(|place| !self.columns[*place].only_on_page).collect();
        let several =
            |cell: &Cell| matches!(cell, Cell::Runs(Summary { min, max, .. }) if min != max);
        let spread = shown.iter().copied().find(|place| {
            self.rows.iter().any(|(_, cells)| cells.get(*place).is_some_and(several))
        });
        let mut lines = vec![vec![self.head.clone()]];
        lines.extend(self.rows.iter().map(|(name, _)| vec![name.clone()]));
        for place in shown {
            let column = &self.columns[place];
            lines[0].push(column.heading());
            for (line, (_, cells)) in lines[1..].iter_mut().zip(&self.rows) {
                line.push(column.median(cells.get(place).unwrap_or(&Cell::Missing)));
            }
            if spread == Some(place) {
                lines[0].push("min – max".to_owned());
                for (line, (_, cells)) in lines[1..].iter_mut().zip(&self.rows) {
                    line.push(column.spread(cells.get(place).unwrap_or(&Cell::Missing)));
                }
            }
        }
        lines
    }
}

impl Column {
    fn heading(&self) -> String {
        if self.unit == Some(Unit::PerSecond) {
            format!("{}/s", self.title)
        } else {
            self.title.clone()
        }
    }

    fn median(&self, cell: &Cell) -> String {
        match (cell, self.unit) {
            (Cell::Missing, _) => "-".to_owned(),
            (Cell::Text(text), _) => text.clone(),
            (cell, unit) => self.number(unit.unwrap_or(Unit::Ratio), cell.numbers()[0]),
        }
    }

    fn spread(&self, cell: &Cell) -> String {
        match (cell, self.unit) {
            (Cell::Runs(Summary { min, max, .. }), Some(unit)) => {
                format!("{} – {}", self.number(unit, *min), self.number(unit, *max))
            }
            _ => "-".to_owned(),
        }
    }

    fn number(&self, unit: Unit, value: f64) -> String {
        if self.exact {
            let scale = unit.scale([value]);
            let symbol = if unit == Unit::PerSecond { "" } else { scale.symbol };
            return format!("{} {symbol}", scale.mark(value).replace('\u{202f}', ""))
                .trim_end()
                .to_owned();
        }
        match unit {
            Unit::Seconds => units::seconds(value),
            Unit::Bytes => units::size(value as u64),
            Unit::BytesPerSecond => units::rate(value as u64, 1.0),
            Unit::PerSecond if value >= 100.0 || value == 0.0 => format!("{value:.0}"),
            Unit::PerSecond => format!("{value:.1}"),
            Unit::Count => format!("{value:.0}"),
            Unit::Part if value >= 0.0995 || value == 0.0 => format!("{:.0} %", value * 100.0),
            Unit::Part if value >= 0.000_95 => format!("{:.1} %", value * 100.0),
            Unit::Part => format!("{:.2} %", value * 100.0),
            Unit::Ratio => format!("{value:.3}"),
            Unit::Times => units::factor(value, 1.0),
        }
    }
}

/// Aligns lines of cells, with two blanks between columns and a newline after each line. The first
/// column is aligned left, the others right.
fn aligned(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        lines
            .iter()
            .filter_map(|line| line.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let mut row = String::new();
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            let cell =
                if column == 0 { format!("{cell:<width$}") } else { format!("  {cell:>width$}") };
            row.push_str(&cell);
        }
        text.push_str(row.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::{Finding, Rows};
    use super::*;

    #[test]
    fn columns_line_up_by_characters() {
        let lines = [["step", "time"], ["1 B", "2 µs"], ["10 MiB", "13 µs"]]
            .map(|line| line.map(str::to_owned).to_vec());
        assert_eq!(aligned(&lines), "step     time\n1 B      2 µs\n10 MiB  13 µs\n");
    }

    #[test]
    fn numbers_have_their_units_and_the_first_runs_their_spread() {
        let rows = [(1u64, vec![0.0021, 0.0123, 0.004], 0.98), (300_001, vec![1.0], 9.5)];
        let table = Rows::new(("t", "step"), "what it holds", &rows, |row| units::size(row.0))
            .column("of", Unit::Bytes, |row| row.0)
            .column("elapsed", Unit::Seconds, |row| row.1.clone())
            .column("again", Unit::Seconds, |row| row.1.clone())
            .column("gain", Unit::Times, |row| row.2)
            .column("to raw", Unit::Ratio, |row| row.2)
            .column("more", Unit::Count, |row| row.0)
            .only_on_page()
            .table();
        let finding = Finding::new("gain", "9.50×", "published 2×");
        let blocks = vec![Block::Heading("Group".to_owned()), Block::Table(table)];
        let section = Section {
            lead: "Done.".to_owned(),
            findings: vec![finding],
            blocks,
            ..Section::default()
        };
        let expected = "Done.\n\nGroup\n\nwhat it holds\n\
                        step          of  elapsed         min – max   again   gain  to raw\n\
                        1 B          1 B   4.0 ms  2.1 ms – 12.3 ms  4.0 ms  0.98×   0.980\n\
                        293 KiB  293 KiB   1.00 s   1.00 s – 1.00 s  1.00 s  9.50×   9.500\n\
                        \ngain: 9.50× (published 2×)\n";
        assert_eq!(section.text(), expected);
    }
}
