//! Tests of the tools that read lines and bytes: `cat`, `tee`, `split`, `sort`, `uniq`, digests.
//!
//! These tests are one program, because each test program is linked with all of dio, which takes
//! longer than most of its tests.

mod gnu;
mod own;
mod pass;
mod sort_support;
mod split_support;
mod sums;

mod cat;
mod cat_own;
mod sort;
mod sort_own;
mod split;
mod split_own;
mod sum;
mod sum_check;
mod tee;
mod tools;
mod uniq;
mod uniq_own;
