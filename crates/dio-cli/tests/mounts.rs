//! Tests of `mount`, `run` and `stat`, some of them with other programs as judges.
//!
//! These tests are one program, because each test program is linked with all of dio, which takes
//! longer than most of its tests.

mod fault_support;
mod judge_support;
mod mount_support;
mod own;
mod run_support;

mod backups;
mod judge_fio;
mod judge_fsx;
mod judge_posix;
mod judge_postgres;
mod judge_programs;
mod mount;
mod mount_beside;
mod mount_endurance;
mod mount_faults;
mod mount_faults_eio;
mod mount_faults_postgres;
mod mount_forbidden;
mod mount_helpers;
mod mount_native;
mod mount_set_id;
mod mount_shared;
mod run;
mod run_limits;
mod run_rings;
mod run_users;
mod started;
mod stat;
