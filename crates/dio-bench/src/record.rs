//! Results as JSON: every one names its benchmark and the format, so that whoever reads it later knows what it is.

use serde::Serialize;

use crate::{
    BenchError, copy, database, disks, increments, locks, oltp, pipeline, random, streams, stripe, synctest, wal,
};

/// The format of the results written here. A reader of a later one has to know both; fields that are only added leave it.
pub const FORMAT: u32 = 1;

/// A result that can be written.
pub trait Record: Serialize {
    /// The benchmark's name, which is that of its command.
    const BENCHMARK: &'static str;
}

impl Record for copy::Report {
    const BENCHMARK: &'static str = "copy";
}

impl Record for database::Report {
    const BENCHMARK: &'static str = "database";
}

impl Record for disks::Report {
    const BENCHMARK: &'static str = "disks";
}

impl Record for increments::Report {
    const BENCHMARK: &'static str = "increments";
}

impl Record for locks::Report {
    const BENCHMARK: &'static str = "locks";
}

impl Record for oltp::Report {
    const BENCHMARK: &'static str = "oltp";
}

impl Record for pipeline::Report {
    const BENCHMARK: &'static str = "pipeline";
}

impl Record for random::Report {
    const BENCHMARK: &'static str = "random";
}

impl Record for streams::Report {
    const BENCHMARK: &'static str = "streams";
}

impl Record for stripe::Report {
    const BENCHMARK: &'static str = "stripe";
}

impl Record for synctest::Report {
    const BENCHMARK: &'static str = "synctest";
}

impl Record for wal::Report {
    const BENCHMARK: &'static str = "wal";
}

#[derive(Serialize)]
struct Named<'a, R> {
    benchmark: &'static str,
    format: u32,
    #[serde(flatten)]
    report: &'a R,
}

/// A result as one JSON object, for people to look at and for `dio report`.
///
/// # Errors
/// When it cannot be written as JSON.
pub fn json<R: Record>(report: &R) -> Result<String, BenchError> {
    let named = Named { benchmark: R::BENCHMARK, format: FORMAT, report };
    let text = serde_json::to_string_pretty(&named);
    text.map(|text| text + "\n").map_err(|error| BenchError::Asked(format!("cannot write the report: {error}")))
}
