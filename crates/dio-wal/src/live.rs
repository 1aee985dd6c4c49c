//! The interface through which a reader queries the writer in the same process.

/// A log that is open for writing, as a reader in the same process uses it.
pub(crate) trait LiveLog: Send + Sync {
    /// LSN below which everything is durable.
    fn durable(&self) -> u64;

    /// LSN below which everything was truncated.
    fn start(&self) -> u64;

    /// [`LiveLog::start`], and the LSN of the last mark at or before `lsn` that reading can begin
    /// with, both at the same instant.
    fn start_and_mark_before(&self, lsn: u64) -> (u64, u64);

    /// Whether this opening of the log is closed or being closed.
    fn is_closed(&self) -> bool;
}
