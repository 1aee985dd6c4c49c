//! Mounting, serving and unmounting.

/// Why a directory could not be mounted or served.
#[derive(Debug, thiserror::Error)]
pub enum MountError {}

/// A mount that is served until it is unmounted.
#[derive(Debug)]
pub struct Session {}
