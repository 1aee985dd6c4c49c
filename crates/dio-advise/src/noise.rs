//! Bytes without patterns, and files of them.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use dio::{Mode, OpenOptions};
use rustix::fs::{Advice, fadvise};

/// Makes a durable file of so many bytes, whose contents are `bytes`, again and again. It is in the
/// page cache afterwards if it is to be warm, and otherwise nothing of it is.
///
/// # Errors
/// It exists, or cannot be written, or `is_stopped` says so; then none is left.
pub(crate) fn fill(
    path: &Path,
    (size, is_warm): (u64, bool),
    bytes: &[u8],
    is_stopped: &dyn Fn() -> bool,
) -> io::Result<()> {
    let mode = if is_warm { Mode::Cached } else { Mode::Direct };
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(mode).open(path)?;
    let filled = fill_new(&file, size, bytes, is_stopped);
    drop(file);
    if filled.is_ok() && !is_warm {
        // The last bytes of a file whose size is no multiple of the block came by the page cache.
        fadvise(std::fs::File::open(path)?.as_fd(), 0, None, Advice::DontNeed)?;
    }
    if filled.is_err() {
        let _ = dio::names::unlink(path);
    }
    filled
}

fn fill_new(
    file: &dio::File,
    size: u64,
    bytes: &[u8],
    is_stopped: &dyn Fn() -> bool,
) -> io::Result<()> {
    let mut offset = 0;
    while offset < size {
        if is_stopped() {
            return Err(io::Error::other("stopped"));
        }
        let length = (size - offset).min(bytes.len() as u64);
        file.write_at(&bytes[..length as usize], offset)?;
        offset += length;
    }
    Ok(file.sync_all()?)
}

/// A generator of numbers that look random: xorshift64* (Vigna 2016).
#[derive(Clone, Debug)]
pub(crate) struct Noise(u64);

impl Noise {
    pub(crate) fn new(seed: u64) -> Noise {
        Noise(seed | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

/// Bytes that no file system and no disk makes smaller; their number is rounded up to a multiple of
/// 8.
pub(crate) fn noise(length: usize) -> Vec<u8> {
    let mut noise = Noise::new(0x9e37_79b9_7f4a_7c15);
    (0..length.div_ceil(8)).flat_map(|_| noise.next().to_le_bytes()).collect()
}
