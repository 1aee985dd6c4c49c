//! Direct I/O for Linux.
