//! The file of a trace.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use dio_advise::trace::MAGIC;

/// Opens the trace. A file that is there and no trace is not replaced.
pub(super) fn create(path: &Path) -> io::Result<File> {
    match File::open(path) {
        Ok(mut file) if file.metadata()?.is_file() => {
            let mut head = Vec::new();
            Read::by_ref(&mut file).take(MAGIC.len() as u64).read_to_end(&mut head)?;
            if !head.is_empty() && head != MAGIC {
                return Err(io::Error::other("it exists, and is no trace"));
            }
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    File::create(path)
}
