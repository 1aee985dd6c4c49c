//! Requests of the kernel, translated into calls of the rooms below.
