//! Coverage-guided fuzzing of everything in dio that reads bytes from elsewhere: one program with
//! all targets, run by `cargo xtask fuzz`.
//!
//! `DIO_FUZZ_TARGET` names the target; `list` instead of a name prints all of them. The arguments
//! are libFuzzer's: a directory is a corpus, a file is an input that is run once. Each target
//! checks more than the absence of panics; its definition says what. With any input, a target may
//! allocate [`MEMORY_MAX`] bytes.
//!
//! The crates of dio are instrumented by `rustc.sh`.

#![no_main]

mod targets;

use std::alloc::System;
use std::process;
use std::sync::OnceLock;

use cap::Cap;
use libfuzzer_sys::fuzz_target;

use targets::{TARGETS, Target};

/// Most bytes that Rust code may have allocated at a time. An allocation beyond this limit aborts,
/// which counts as a crash. Allocations of C code are limited by libFuzzer's `-rss_limit_mb`.
const MEMORY_MAX: usize = 256 << 20;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, MEMORY_MAX);

static TARGET: OnceLock<&Target> = OnceLock::new();

fuzz_target!(
    init: {
        let _ = TARGET.set(chosen());
    },
    |input: &[u8]| {
        if let Some(target) = TARGET.get() {
            (target.run)(input);
        }
    }
);

/// The target that the environment names. If it names none, the program ends.
fn chosen() -> &'static Target {
    let name = std::env::var("DIO_FUZZ_TARGET").unwrap_or_default();
    if name == "list" {
        TARGETS.iter().for_each(|target| println!("{}", target.name));
        process::exit(0);
    }
    TARGETS.iter().find(|target| target.name == name).unwrap_or_else(|| {
        eprintln!("DIO_FUZZ_TARGET={name}: no such target; `list` prints all");
        process::exit(2);
    })
}
