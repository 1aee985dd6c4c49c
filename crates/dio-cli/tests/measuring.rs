//! Tests of `record` and `advise`, and of `bench`, `report` and `synctest`, which are part of the
//! program if its feature `bench` is on.
//!
//! These tests are one program, because each test program is linked with all of dio, which takes
//! longer than most of its tests.

mod mount_support;
mod own;
mod report_support;

mod advise;
mod advise_again;
mod advise_asynchronous;
mod advise_database;
mod advise_dense;
mod advise_exchange;
mod advise_names;
mod advise_output;
mod advise_ptrace;
mod advise_replay;
mod advise_signals;
mod advise_verdict;
mod bench;
mod bench_database;
mod bench_disks;
mod bench_locks;
mod bench_oltp;
mod bench_stripe;
mod bench_wal;
mod report;
mod synctest;
mod synctest_strangers;
mod synctest_witness;
mod terminal_names;
