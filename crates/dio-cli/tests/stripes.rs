//! Tests of striped files.
//!
//! These tests are one program, because each test program is linked with all of dio, which takes
//! longer than most of its tests.

mod mount_support;
mod own;
mod striped_support;

mod striped;
mod striped_crash;
mod striped_damage;
mod striped_devices;
mod striped_large;
mod striped_migrate;
mod striped_mount;
mod striped_orphans;
mod striped_rights;
mod striped_trust;
