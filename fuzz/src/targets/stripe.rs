//! Descriptors of striped files, headers and stamps of their objects, lengths of devices, defaults
//! of directories.

/// What is accepted comes back from its own encoding, a descriptor is never taken for an ordinary
/// file, and a layout that is accepted knows the place of each byte.
pub(super) fn texts(input: &[u8]) {
    dio::stripe::fuzz::texts(input);
}
