//! The workloads behind `dio bench`, and what they share: cold files, meters, statistics and a
//! description of the machine. A workload returns its result ([`section::Benchmark`]), which is
//! printed as tables or as JSON, and shown on a page.

mod advice;
pub mod cold;
pub mod commands;
pub mod copy;
pub mod data;
pub mod database;
pub mod disks;
pub mod environment;
mod error;
pub mod histogram;
pub mod increments;
pub mod locks;
pub mod measure;
pub mod oltp;
pub mod page;
pub mod pipeline;
pub mod plot;
pub mod progress;
pub mod quantity;
pub mod random;
pub mod section;
pub mod stats;
pub mod streams;
pub mod stripe;
pub mod study;
pub mod suite;
pub mod synctest;
pub mod undo;
pub mod wal;

pub use error::BenchError;
