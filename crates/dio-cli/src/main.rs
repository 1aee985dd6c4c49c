//! Entry point of the `dio` command.

fn main() {}
