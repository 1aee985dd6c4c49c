//! Recognises the benchmark of a result: by the name in it, or by its fields if it was written
//! before results had a name.

use dio_advise::database::DatabaseAdvice;
use dio_advise::predict::Prediction;
use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess, Visitor};

use crate::section::{Benchmark, FORMAT, Section};
use crate::{
    copy, database, disks, increments, locks, oltp, pipeline, random, streams, stripe, suite,
    synctest, wal,
};

/// One kind of results.
#[derive(Clone, Copy, Debug)]
pub struct ResultKind {
    /// The name of the benchmark.
    pub name: &'static str,
    /// A set of fields that no other kind has completely.
    fields: &'static [&'static str],
    /// Parses a whole result and makes its section.
    section: fn(&str) -> serde_json::Result<Section>,
}

impl ResultKind {
    const fn of<R: Benchmark>() -> ResultKind {
        ResultKind {
            name: R::NAME,
            fields: R::FIELDS,
            section: |text| Ok(serde_json::from_str::<R>(text)?.section()),
        }
    }
}

/// All kinds of results. If the fields of several kinds are present, the first kind counts.
pub const KINDS: [ResultKind; 15] = [
    ResultKind::of::<Prediction>(),
    ResultKind::of::<DatabaseAdvice>(),
    ResultKind::of::<suite::ComparisonReport>(),
    ResultKind::of::<oltp::OltpReport>(),
    ResultKind::of::<database::DatabaseReport>(),
    ResultKind::of::<synctest::SynctestReport>(),
    ResultKind::of::<stripe::StripeBenchReport>(),
    ResultKind::of::<wal::WalReport>(),
    ResultKind::of::<streams::StreamsReport>(),
    ResultKind::of::<disks::DisksReport>(),
    ResultKind::of::<locks::LocksReport>(),
    ResultKind::of::<increments::IncrementsReport>(),
    ResultKind::of::<copy::CopyReport>(),
    ResultKind::of::<pipeline::PipelineBenchReport>(),
    ResultKind::of::<random::RandomReport>(),
];

/// Why a file is not a result. Each message says where the problem is, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file is empty.
    #[error("it is empty: was the measurement ended before it was over?")]
    Empty,
    /// The file ends too early.
    #[error(
        "it ends in the middle, at line {}, column {}: copy it again, or measure again",
        .0.line(),
        .0.column()
    )]
    Short(serde_json::Error),
    /// The file is not JSON.
    #[error("it is no JSON: {0}; a result is what `dio bench … --json` prints")]
    Syntax(serde_json::Error),
    /// The file is JSON, but not a result.
    #[error(
        "it is JSON, but no result that is known here ({0}); results are what `dio bench … --json` \
         prints, and the records of the benchsuite"
    )]
    Unknown(String),
    /// The result comes from a later version of dio.
    #[error(
        "it has format {0}, and this version of dio knows those up to {FORMAT}: take the dio that \
         wrote it"
    )]
    Newer(u64),
    /// A field is missing or has an invalid value.
    #[error(
        "it is a result of `{0}`, but damaged: {1}; measure again, or take the version of dio that \
         wrote it"
    )]
    Damaged(&'static str, serde_json::Error),
}

/// The fields of the outermost object, with the values of those that identify the result.
#[derive(Default)]
struct OuterFields {
    fields: Vec<String>,
    benchmark: Option<String>,
    format: Option<u64>,
}

impl<'de> Deserialize<'de> for OuterFields {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<OuterFields, D::Error> {
        struct Outermost;
        impl<'de> Visitor<'de> for Outermost {
            type Value = OuterFields;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OuterFields, A::Error> {
                let mut clues = OuterFields::default();
                while let Some(field) = map.next_key::<String>()? {
                    match field.as_str() {
                        "benchmark" => {
                            clues.benchmark =
                                map.next_value::<serde_json::Value>()?.as_str().map(Into::into)
                        }
                        "format" => clues.format = map.next_value::<serde_json::Value>()?.as_u64(),
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                    clues.fields.push(field);
                }
                Ok(clues)
            }
        }
        deserializer.deserialize_map(Outermost)
    }
}

/// Reads a result; `name` is the name of its file.
///
/// # Errors
/// [`ReadError`].
pub fn read(name: &str, text: &str) -> Result<Section, ReadError> {
    let text = text.trim_start_matches('\u{feff}');
    if text.trim().is_empty() {
        return Err(ReadError::Empty);
    }
    let clues: OuterFields =
        serde_json::from_str(text).map_err(|error| match error.classify() {
            serde_json::error::Category::Eof => ReadError::Short(error),
            serde_json::error::Category::Data => {
                ReadError::Unknown("an object is expected".to_owned())
            }
            _ => ReadError::Syntax(error),
        })?;
    if let Some(format) = clues.format.filter(|format| *format > u64::from(FORMAT)) {
        return Err(ReadError::Newer(format));
    }
    let has = |kind: &&ResultKind| {
        kind.fields.iter().all(|field| clues.fields.iter().any(|there| there == field))
    };
    let kind = match &clues.benchmark {
        Some(benchmark) => KINDS.iter().find(|kind| kind.name == benchmark),
        None => KINDS.iter().find(has),
    };
    let Some(kind) = kind else {
        return Err(ReadError::Unknown(match clues.benchmark {
            Some(benchmark) => format!("of a benchmark \"{}\"", shortened(&benchmark)),
            None => format!("fields: {}", shortened(&clues.fields.join(", "))),
        }));
    };
    let section = (kind.section)(text).map_err(|error| ReadError::Damaged(kind.name, error))?;
    // The path is left out, since it is private to the author of the page.
    let source = name.rsplit('/').next().unwrap_or(name).to_owned();
    Ok(Section { source, ..section })
}

/// Shortens text of unknown origin, so that a message can quote it.
fn shortened(text: &str) -> String {
    let text = crate::plot::printable(text);
    if text.chars().count() <= 60 {
        text
    } else {
        text.chars().take(60).collect::<String>() + "…"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        read("x.json", text).unwrap_err().to_string()
    }

    #[test]
    fn what_is_no_result_is_named() {
        assert!(refused(" \n").contains("empty"));
        assert!(refused("{\"rows\": [1,").contains("in the middle, at line 1, column 12"));
        assert!(
            refused("{\"rows\": nonsense}").contains("no JSON: expected ident at line 1 column 11")
        );
        assert!(refused("step  of\n1 B").contains("no JSON"));
        assert!(refused("[1, 2]").contains("an object is expected"));
        assert!(refused("{\"path\": 1, \"kind\": 2}").contains("fields: path, kind"));
        assert!(refused("{\"benchmark\": \"juggling\"}").contains("\"juggling\""));
        assert!(refused("{\"benchmark\": \"oltp\", \"format\": 9}").contains("format 9"));
        let damaged =
            refused("{\"benchmark\": \"copy\",\n\"rows\": [{\"block_bytes\": \"many\"}]}");
        assert!(
            damaged.contains("a result of `copy`, but damaged") && damaged.contains("at line 2"),
            "{damaged}"
        );
    }

    #[test]
    fn results_without_a_name_are_known_by_their_fields() {
        for kind in &KINDS {
            let fields: Vec<String> =
                kind.fields.iter().map(|field| format!("\"{field}\": 7")).collect();
            let error = refused(&format!("{{{}}}", fields.join(",")));
            assert!(
                error.contains(&format!("a result of `{}`, but damaged", kind.name)),
                "{error}"
            );
        }
    }

    /// Results that were written before a field had its present form, or existed at all, must still
    /// be shown.
    #[test]
    fn every_recorded_result_is_read_and_shown() {
        let runs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benchsuite/runs");
        let mut shown = 0;
        for entry in std::fs::read_dir(runs).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|end| end != "json") {
                continue;
            }
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let section = read(&name, &std::fs::read_to_string(&path).unwrap())
                .unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(
                !section.findings.is_empty() && section.environment.len() >= 8,
                "{name}: {section:?}"
            );
            let text = section.text();
            assert!(text.lines().count() > 10 && !text.contains("NaN"), "{name}: {text}");
            let page = super::super::Page::new(None, vec![section]);
            assert!(
                page.html().ends_with("</html>")
                    && !page.plots().is_empty()
                    && !page.tables().is_empty(),
                "{name}"
            );
            shown += 1;
        }
        assert!(shown >= 30, "{shown}");
    }
}
