//! Measures from outside whether a disk reads and writes at the same time: samples its requests in
//! flight every few milliseconds (`/sys/dev/block/MAJOR:MINOR/inflight`,
//! Documentation/ABI/stable/sysfs-block).

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Time between two samples.
const INTERVAL: Duration = Duration::from_millis(5);

/// A sampler, which runs until it is stopped.
pub(crate) struct Overlap {
    stop: Arc<AtomicBool>,
    looks: JoinHandle<(u32, u32)>,
}

impl Overlap {
    /// Starts to sample the disk that holds `path`; `None` if the kernel does not report its
    /// requests.
    pub(crate) fn watch(path: &Path) -> Option<Overlap> {
        let device = fs::metadata(path).ok()?.dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let inflight = PathBuf::from(format!("/sys/dev/block/{major}:{minor}/inflight"));
        in_flight(&inflight)?;
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let looks = thread::spawn(move || {
            let (mut busy, mut both) = (0, 0);
            while !asked.load(Ordering::Relaxed) {
                if let Some((reads, writes)) = in_flight(&inflight) {
                    busy += u32::from(reads + writes > 0);
                    both += u32::from(reads > 0 && writes > 0);
                }
                thread::sleep(INTERVAL);
            }
            (busy, both)
        });
        Some(Overlap { stop, looks })
    }

    /// The share of the busy time in which reads and writes were both in flight.
    pub(crate) fn finish(self) -> Option<f64> {
        self.stop.store(true, Ordering::Relaxed);
        let (busy, both) = self.looks.join().ok()?;
        (busy > 0).then(|| f64::from(both) / f64::from(busy))
    }
}

/// The numbers of reads and writes in flight.
fn in_flight(file: &Path) -> Option<(u64, u64)> {
    let text = fs::read_to_string(file).ok()?;
    let mut numbers = text.split_whitespace().map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}
