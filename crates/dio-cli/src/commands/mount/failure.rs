//! Failures of `dio mount`, and the exit statuses of `mount(8)`.

use std::process::ExitCode;

use dio_mount::MountError;

/// The command line is invalid, or the caller is not root and needs to be.
pub(crate) const USAGE: u8 = 1;
/// The system has no memory, processes or descriptors left.
pub(crate) const SYSTEM: u8 = 2;
/// Mounting or unmounting failed.
pub(crate) const FAILED: u8 = 32;

/// A failure that ends the command: its exit status and its message, which is empty if it was
/// already printed.
#[derive(Debug)]
pub(crate) struct MountFailure(u8, String);

impl MountFailure {
    pub(crate) fn new(status: u8, message: impl Into<String>) -> MountFailure {
        MountFailure(status, message.into())
    }

    pub(crate) fn told_by(self, name: &str) -> ExitCode {
        if !self.1.is_empty() {
            eprintln!("{name}: {}", self.1);
        }
        ExitCode::from(self.0)
    }
}

impl From<MountError> for MountFailure {
    fn from(error: MountError) -> MountFailure {
        let status = if matches!(error, MountError::OnlyRoot { .. }) { USAGE } else { FAILED };
        MountFailure(status, error.with_cure())
    }
}
