//! Renders results of benchmarks as one self-contained page of HTML.
//!
//! A result is the JSON that a benchmark of `dio bench` prints, or a record of the benchsuite. It
//! is recognised by its content ([`read`]), turned into a [`Section`] by the module of its
//! benchmark, and shown by `html`. That module works on sections only, and so do [`Page::plots`]
//! and [`Page::tables`]. The page treats everything in a result as text, never as markup.
//!
//! # How a benchmark is added
//! 1. Its result implements [`Benchmark`]: the name, the fields by which a result without a name is
//!    recognised, and [`Benchmark::section`]: findings, plots ([`crate::plot`]), tables. A field
//!    that older results lack is `#[serde(default)]`.
//! 2. It gets a line in [`KINDS`].
//!
//! A benchmark whose results have the form of `oltp`'s, `rows` of `contender` and `runs`, each with
//! `points` over time, passes its texts to `study::Study::section`, as `oltp` does.

mod html;
mod recognise;

use std::collections::BTreeSet;

#[cfg(doc)]
use crate::section::Benchmark;
use crate::section::{Block, Section};
pub use recognise::{KINDS, ReadError, ResultKind, read};

/// A page.
#[derive(Clone, Debug)]
pub struct Page {
    title: String,
    sections: Vec<Section>,
}

impl Page {
    /// A page of some results, in their order.
    pub fn new(title: Option<String>, mut sections: Vec<Section>) -> Page {
        let mut ids = Names::default();
        for section in &mut sections {
            section.id = ids.unique(&section.id);
            let (mut plots, mut tables) = (Names::default(), Names::default());
            for block in &mut section.blocks {
                match block {
                    Block::Plots(some) => {
                        some.iter_mut().for_each(|plot| plot.name = plots.unique(&plot.name))
                    }
                    Block::Table(table) => table.name = tables.unique(&table.name),
                    Block::Heading(_) | Block::Text(_) | Block::Commands(_) => {}
                }
            }
        }
        let title = title.unwrap_or_else(|| match &sections[..] {
            [only] => only.title.clone(),
            _ => "Measurements of dio".to_owned(),
        });
        Page { title, sections }
    }

    /// The page.
    pub fn html(&self) -> String {
        html::page(&self.title, &self.sections)
    }

    /// All plots as SVG: file names and contents.
    pub fn plots(&self) -> Vec<(String, String)> {
        let mut files = Vec::new();
        for (section, block) in self.blocks() {
            if let Block::Plots(plots) = block {
                files.extend(
                    plots
                        .iter()
                        .map(|plot| (format!("{}-{}.svg", section.id, plot.name), plot.svg())),
                );
            }
        }
        files
    }

    /// All tables, and the data of all plots, as CSV: file names and contents. The files of plots
    /// have the names of the plots.
    pub fn tables(&self) -> Vec<(String, String)> {
        let mut files = Vec::new();
        for (section, block) in self.blocks() {
            match block {
                Block::Plots(plots) => {
                    files.extend(
                        plots
                            .iter()
                            .map(|plot| (format!("{}-{}.csv", section.id, plot.name), plot.csv())),
                    );
                }
                Block::Table(table) => {
                    files.push((format!("{}-table-{}.csv", section.id, table.name), table.csv()));
                }
                Block::Heading(_) | Block::Text(_) | Block::Commands(_) => {}
            }
        }
        for section in &self.sections {
            files.extend(
                section
                    .data
                    .iter()
                    .map(|(name, data)| (format!("{}-{name}.csv", section.id), data.clone())),
            );
        }
        files
    }

    fn blocks(&self) -> impl Iterator<Item = (&Section, &Block)> {
        self.sections
            .iter()
            .flat_map(|section| section.blocks.iter().map(move |block| (section, block)))
    }
}

/// Names that are in use.
#[derive(Default)]
struct Names(BTreeSet<String>);

impl Names {
    /// The name itself, or the name with a number appended if it is in use already.
    fn unique(&mut self, name: &str) -> String {
        let numbered = (2..).map(|number| format!("{name}-{number}"));
        let free =
            std::iter::once(name.to_owned()).chain(numbered).find(|name| !self.0.contains(name));
        let free = free.expect("there are more numbers than names");
        self.0.insert(free.clone());
        free
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot;
    use crate::section::{Finding, Rows, Table};

    #[test]
    fn names_of_files_are_all_different() {
        let section = |id: &str| Section { id: id.to_owned(), ..Section::default() };
        let page = Page::new(
            None,
            vec![section("oltp"), section("copy"), section("oltp"), section("oltp")],
        );
        let ids: Vec<&str> = page.sections.iter().map(|section| section.id.as_str()).collect();
        assert_eq!(ids, ["oltp", "copy", "oltp-2", "oltp-3"]);
    }

    #[test]
    fn everything_that_a_result_says_is_text() {
        let hostile = "<script>alert(1)</script>\"'&";
        let text = || hostile.to_owned();
        let table = Rows::new(("t", hostile), text(), [hostile], str::to_owned)
            .words(text(), str::to_owned)
            .table();
        let table = Table { notes: vec![text()], ..table };
        let row = plot::Dot::new(text(), 0, vec![1.0]);
        let plot = plot::Plot::ratios("p", hostile, hostile, hostile, vec![row]);
        let section = Section {
            id: "x".to_owned(),
            title: text(),
            source: text(),
            lead: text(),
            findings: vec![Finding::new(hostile, hostile, hostile)],
            blocks: vec![
                Block::Heading(text()),
                Block::Text(text()),
                Block::Table(table),
                Block::Plots(vec![plot]),
                Block::Commands(vec![(text(), text())]),
            ],
            notes: vec![text()],
            settings: vec![(text(), text())],
            environment: vec![(text(), text())],
            ..Section::default()
        };
        let html = Page::new(Some(text()), vec![section.clone(), section]).html();
        assert!(!html.contains("<script"), "{html}");
        assert!(html.matches("&lt;script&gt;alert(1)&lt;/script&gt;").count() > 20);
    }
}
