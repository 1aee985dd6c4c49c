//! The subcommands of `dio`.

pub mod cp;
