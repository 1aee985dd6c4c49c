//! Descriptors of striped files, headers and stamps of their objects, lengths of devices, defaults
//! of directories.

/// An accepted text is the same when it is read from its own encoding, a descriptor is never taken
/// for an ordinary file, and an accepted layout has a position for each byte.
pub(super) fn texts(input: &[u8]) {
    dio::stripe::fuzz::texts(input);
}
