//! libdio as C programs see it: what `cargo capi` installs, the examples, and SQLite above it.

mod examples;
mod installed;
mod library;
mod sqlite;
mod sqlite_locks;
