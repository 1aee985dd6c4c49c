//! Simulated storage.
