//! Tests of `cp`, `dd`, `probe`, `cache`, devices and all commands that write a target.
//!
//! These tests are one program, because each test program is linked with all of dio, which takes
//! longer than most of its tests.

mod gnu;
mod own;
mod support;

mod cp_contents;
mod cp_existing;
mod cp_metadata;
mod cp_operands;
mod cp_own_atomic;
mod cp_own_failures;
mod cp_own_receipt;
mod cp_own_stop;
mod cp_review;
mod cp_tree;
mod dd;
mod dd_own;
mod devices;
mod few_threads;
mod medium;
mod probe_cache;
mod self_links;
mod sparse;
mod targets;
