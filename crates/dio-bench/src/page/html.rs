//! The page as HTML. All text goes through maud, which escapes it. Only the style sheet and the
//! plots do not; the plots are escaped when they are drawn.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::plot::{self, Plot};
use crate::quantity::{Scale, Unit};
use crate::section::{Block, Cell, Column, Finding, Section, Table, capital};
use crate::stats::Summary;

const STYLE: &str = include_str!("style.css");

/// The page may load nothing: its style and its plots are inside it.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

/// Plots that are at most this wide, in pixels, are put closer together.
const NARROW: u32 = 320;

pub(super) fn page(title: &str, sections: &[Section]) -> String {
    let alone = sections.len() == 1;
    let dark = format!("@media screen and (prefers-color-scheme:dark){{{}}}", plot::dark());
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="generator" content={ "dio " (env!("CARGO_PKG_VERSION")) };
                title { (title) }
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) (PreEscaped(dark)) }
            }
            body {
                header {
                    h1 { (title) }
                    @if !alone { (contents(sections)) }
                }
                main { @for section in sections { (result(section, alone)) } }
                footer {
                    "Made by " code { "dio report" } ", dio " (env!("CARGO_PKG_VERSION")) ". Runs \
                        are few, so spreads are the least and the greatest, and every run is a \
                        dot."
                }
            }
        }
    };
    page.into_string()
}

/// The table of contents, with the findings of each section.
fn contents(sections: &[Section]) -> Markup {
    html! {
        nav aria-label="Contents" {
            ol {
                @for section in sections {
                    @let shown = &section.findings[..section.findings.len().min(4)];
                    li {
                        a href={ "#" (section.id) } { (section.title) }
                        @if !section.findings.is_empty() {
                            p {
                                @for (place, finding) in shown.iter().enumerate() {
                                    @if place > 0 { "; " }
                                    (finding.label) " " strong { (finding.value) }
                                    @if !finding.note.is_empty() {
                                        span.muted { " (" (finding.note) ")" }
                                    }
                                }
                                @if section.findings.len() > 4 { "; …" }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A heading of the second or third level.
fn heading(second: bool, id: Option<&str>, text: &str) -> Markup {
    html! {
        @if second { h2 id=[id] { (text) } } @else { h3 id=[id] { (text) } }
    }
}

fn result(section: &Section, alone: bool) -> Markup {
    let id = section.id.as_str();
    html! {
        section.result.alone[alone] id=(id) aria-label=(section.title) {
            @if !alone { (heading(true, None, &section.title)) }
            p.source { "from " (section.source) }
            p.lead { (section.lead) }
            @if !section.findings.is_empty() {
                dl.findings { @for finding in &section.findings { (self::finding(finding)) } }
            }
            @for (place, block) in section.blocks.iter().enumerate() {
                (self::block(block, id, place, alone))
            }
            @if !section.notes.is_empty() {
                (heading(alone, None, "What to know"))
                ul.notes { @for note in &section.notes { li { (note) } } }
            }
            @if !section.settings.is_empty() {
                (heading(alone, None, "Settings"))
                (facts(&section.settings))
            }
            @if !section.environment.is_empty() {
                (heading(alone, None, "Where it was measured"))
                (facts(&section.environment))
            }
        }
    }
}

fn finding(finding: &Finding) -> Markup {
    let class = match finding.reached {
        Some(true) => "good",
        Some(false) => "bad",
        None => "",
    };
    html! {
        div class=(class) {
            dt { (finding.label) }
            dd.value { (finding.value) }
            @if !finding.note.is_empty() { dd { (finding.note) } }
            // A mark in addition to the colour.
            @match finding.reached {
                Some(true) => dd { span.mark { "✓ reached" } },
                Some(false) => dd { span.mark { "✗ missed" } },
                None => {}
            }
        }
    }
}

fn facts(rows: &[(String, String)]) -> Markup {
    html! {
        dl.facts { @for (name, value) in rows { div { dt { (name) } dd { (value) } } } }
    }
}

fn block(block: &Block, section: &str, place: usize, alone: bool) -> Markup {
    let id = format!("{section}-part-{place}");
    match block {
        Block::Heading(text) => heading(alone, Some(&id), &capital(text)),
        Block::Text(text) => html! { p { (capital(text)) } },
        Block::Table(table) => self::table(table, &id),
        Block::Plots(plots) => self::plots(plots, section),
        Block::Commands(commands) => html! {
            details {
                summary { "Commands" }
                dl { @for (name, command) in commands { dt { (name) } dd { code { (command) } } } }
            }
        },
    }
}

fn plots(plots: &[Plot], section: &str) -> Markup {
    let narrow = plots.iter().all(|plot| plot.width() <= NARROW);
    // A description that all plots share is shown once.
    let same = plots.len() > 1 && plots.windows(2).all(|pair| pair[0].about == pair[1].about);
    html! {
        div.plots.small[narrow] {
            @for plot in plots {
                figure {
                    (PreEscaped(plot.inline(&format!("{section}-{}", plot.name))))
                    @if !same && !narrow { figcaption { (plot.about) } }
                }
            }
        }
        @if same && !narrow { p.caption { (plots[0].about) } }
    }
}

/// Ratio of the greatest median of a column to the least from which each number gets a unit of its
/// own.
const FAR_APART: f64 = 200.0;

/// A column with the scale of its numbers; `None` for text, and if each number has a scale of its
/// own.
struct ScaledColumn<'a> {
    column: &'a Column,
    scale: Option<Scale>,
}

impl ScaledColumn<'_> {
    fn new<'a>(table: &'a Table, place: usize) -> ScaledColumn<'a> {
        let column = &table.columns[place];
        let numbers =
            || table.rows.iter().filter_map(|(_, cells)| cells.get(place)).map(Cell::numbers);
        let medians = || {
            numbers().filter_map(|numbers| numbers.first().copied()).filter(|median| *median > 0.0)
        };
        let (least, most) = (medians().fold(f64::MAX, f64::min), medians().fold(0.0, f64::max));
        let scaled =
            matches!(column.unit, Some(Unit::Seconds | Unit::Bytes | Unit::BytesPerSecond));
        let apart = scaled && !column.exact && most > least * FAR_APART;
        let scale = column.unit.filter(|_| !apart).map(|unit| unit.scale(numbers().flatten()));
        ScaledColumn { column, scale }
    }

    /// The numbers of one cell, and their unit if the heading does not have it.
    fn numbers<const N: usize>(&self, values: [f64; N]) -> ([String; N], &'static str) {
        match (self.scale, self.column.unit) {
            (Some(scale), _) if self.column.exact => (values.map(|value| scale.mark(value)), ""),
            (Some(scale), _) => (values.map(|value| scale.number(value)), ""),
            (None, Some(unit)) => {
                let scale = unit.scale(values.first().copied());
                (values.map(|value| scale.number(value)), scale.symbol)
            }
            (None, None) => (values.map(|value| value.to_string()), ""),
        }
    }
}

fn table(table: &Table, id: &str) -> Markup {
    let columns: Vec<ScaledColumn<'_>> =
        (0..table.columns.len()).map(|place| ScaledColumn::new(table, place)).collect();
    html! {
        div.scroll role="region" tabindex="0" aria-labelledby=(id) {
            table {
                caption id=(id) { (capital(&table.caption)) }
                thead {
                    tr {
                        th scope="col" { (table.head) }
                        @for ScaledColumn { column, scale } in &columns {
                            th.text[column.unit.is_none()] scope="col" {
                                (column.title)
                                @if let Some(symbol) = scale.map(|scale| scale.symbol)
                                    .filter(|symbol| !symbol.is_empty()) {
                                    " " span.unit { (symbol) }
                                }
                            }
                        }
                    }
                }
                tbody {
                    @for (name, cells) in &table.rows {
                        tr {
                            th scope="row" { (name) }
                            @for (place, shown) in columns.iter().enumerate() {
                                (cell(cells.get(place).unwrap_or(&Cell::Missing), shown))
                            }
                        }
                    }
                }
            }
        }
        @for note in &table.notes { p.caption { (note) } }
    }
}

fn cell(cell: &Cell, shown: &ScaledColumn<'_>) -> Markup {
    match cell {
        Cell::Missing => html! { td.text[shown.column.unit.is_none()] { "–" } },
        Cell::Text(text) => {
            let class = match text.as_str() {
                "reached" => "text good",
                "missed" => "text bad",
                _ => "text",
            };
            html! { td class=(class) { (text) } }
        }
        Cell::Number(value) => {
            let ([value], symbol) = shown.numbers([*value]);
            html! { td { (value) (unit(symbol)) } }
        }
        Cell::Runs(Summary { median, min, max }) => {
            let ([median, min, max], symbol) = shown.numbers([*median, *min, *max]);
            html! {
                td {
                    (median) (unit(symbol))
                    @if min != max { span.spread { (min) "–" (max) } }
                }
            }
        }
    }
}

/// The unit after a number.
fn unit(symbol: &str) -> Markup {
    html! { @if !symbol.is_empty() { span.unit { "\u{202f}" (symbol) } } }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(values: [f64; 2]) -> String {
        let rows = values
            .map(|value| ("row".to_owned(), vec![Cell::runs([value, value * 1.5, value * 2.0])]))
            .to_vec();
        let columns = vec![Column {
            title: "elapsed".to_owned(),
            unit: Some(Unit::Seconds),
            exact: false,
            only_on_page: false,
        }];
        super::table(&Table { columns, rows, ..Table::default() }, "id").into_string()
    }

    #[test]
    fn a_column_has_one_unit_unless_its_numbers_are_far_apart() {
        let near = shown([0.01, 0.4]);
        assert!(
            near.contains("elapsed <span class=\"unit\">ms</span>")
                && near.contains("<td>600<span"),
            "{near}"
        );
        let far = shown([0.002, 20.0]);
        assert!(
            !far.contains("elapsed <span")
                && far.contains("3.00<span class=\"unit\">\u{202f}ms</span>"),
            "{far}"
        );
        assert!(
            far.contains(
                "30.0<span class=\"unit\">\u{202f}s</span><span class=\"spread\">20.0–40.0</span>"
            ),
            "{far}"
        );
    }
}
