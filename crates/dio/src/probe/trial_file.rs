//! Temporary files for trials, and the bytes that trials transfer.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::geometry::align_up;

/// Number of bytes that each trial transfers.
pub(super) const SPAN: u64 = 1 << 20;

/// Number of spans in a trial file: one for each thread that overwrites it.
pub(super) const SPANS: u64 = 4;

/// Creates a file without a name in `directory`, so that it cannot be left behind.
pub(super) fn create(directory: &Path) -> io::Result<File> {
    let nameless = rustix::fs::open(
        directory,
        OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC,
        Mode::RUSR | Mode::WUSR,
    );
    match nameless {
        Ok(fd) => Ok(File::from(fd)),
        // The errors of file systems that do not support such files; EISDIR comes from kernels that
        // do not support them.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOSYS) => {
            named_then_removed(directory)
        }
        Err(error) => Err(error.into()),
    }
}

fn named_then_removed(directory: &Path) -> io::Result<File> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = directory.join(format!(".dio-probe-{}-{number}", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

/// Opens the same file again with other flags.
pub(super) fn reopen(file: &File, flags: OFlags) -> io::Result<File> {
    Ok(dio_sys::reopen(file, flags)?.into())
}

/// Aligned memory with bytes that are neither zero nor compressible.
pub(super) struct Buffer {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl Buffer {
    pub(super) fn new(length: usize, align: u64) -> Self {
        let align = align.max(4096) as usize;
        let mut memory = vec![0_u8; length + align];
        let address = memory.as_ptr() as usize;
        let start = align_up(address as u64, align as u64) as usize - address;
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for piece in memory.chunks_mut(8) {
            // xorshift64 (Marsaglia, "Xorshift RNGs", 2003).
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            piece.copy_from_slice(&state.to_ne_bytes()[..piece.len()]);
        }
        Self { memory, start, length }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.length]
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.length]
    }
}
