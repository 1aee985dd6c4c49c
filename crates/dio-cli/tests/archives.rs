//! Tests of `tar`, `gzip` and `zstd`.
//!
//! These tests are one program, because each test program is linked with all of dio, which takes
//! longer than most of its tests.

mod archive;
mod compress_support;
mod gnu;
mod own;
mod support;
mod tar_support;

mod codec_gzip;
mod gzip;
mod gzip_own;
mod tar_create;
mod tar_create_own;
mod tar_damaged;
mod tar_extract;
mod tar_extract_own;
mod tar_format;
mod tar_hostile;
mod tar_list;
mod tar_options;
mod tar_races;
mod tar_random;
mod tar_random_lines;
mod zstd;
