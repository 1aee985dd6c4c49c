//! Shared by the tests of files: engines and limits to choose from, memory at any alignment, and
//! media with hooks.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

pub mod rig;

use std::fmt::{self, Debug};
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use dio::engine::sim::{SimClock, SimDisk, SimDiskModel, SimMedium};
use dio::engine::{Blocking, Engine, Medium, Op, Route, Uring};
use dio::geometry::Geometry;
use dio::{Io, Limits, Mode};
use dio_test::Rng;
use parking_lot::Mutex;
use rustix::io::Errno;

#[allow(unused_imports, reason = "each test file uses a part of it")]
pub use dio_test::{byte_of, fill, first_difference_of_bytes as first_difference};

/// All modes.
pub const MODES: [Mode; 4] = [Mode::Direct, Mode::Concurrent, Mode::Uncached, Mode::Cached];

/// Limits so small that requests are split, wait for bounce blocks several times, and queue behind
/// a full engine.
pub fn small_limits(rng: &mut Rng) -> Limits {
    Limits {
        depth: *rng.pick(&[1, 2, 3, 8]),
        request: *rng.pick(&[4096, 8192, 12_288, 64 << 10, 1 << 20]),
        bounce_block: *rng.pick(&[4096, 8192, 64 << 10]),
        bounce_blocks: *rng.pick(&[1, 2, 3, 16]),
        idle_engines: *rng.pick(&[0, 1, 4]),
    }
}

/// Whether this process may use io_uring. If not, the tests use only the blocking engine, and this
/// prints the reason.
pub fn has_uring() -> bool {
    match Uring::new(1) {
        Ok(_) => true,
        Err(error) => {
            eprintln!("only the blocking engine is tested: {error}");
            false
        }
    }
}

/// The engines for real files, by name.
pub fn engines() -> Vec<&'static str> {
    if has_uring() { vec!["uring", "blocking"] } else { vec!["blocking"] }
}

/// An `Io` of a chosen engine.
pub fn io_of(engine: &'static str, limits: Limits) -> Io {
    Io::with_engine(limits, engine, move |depth| -> Box<dyn Engine> {
        match engine {
            "uring" => Box::new(Uring::new(depth).unwrap()),
            _ => Box::new(Blocking::new(depth)),
        }
    })
    .unwrap()
}

/// Memory in which a buffer of any length can start at any distance from a multiple of 1 MiB.
pub struct Arena {
    bytes: Vec<u8>,
    base: usize,
}

/// The largest alignment that an [`Arena`] offers.
pub const MOST_ALIGNED: usize = 1 << 20;

impl Arena {
    pub fn new(len: usize) -> Arena {
        let bytes = vec![0; len + 2 * MOST_ALIGNED];
        let base = bytes.as_ptr().align_offset(MOST_ALIGNED);
        Arena { bytes, base }
    }

    /// Number of bytes behind the first multiple of 1 MiB.
    pub fn room(&self) -> usize {
        self.bytes.len() - self.base
    }

    /// `len` bytes, `shift` (at most 1 MiB) behind a multiple of 1 MiB.
    pub fn slice(&mut self, shift: usize, len: usize) -> &mut [u8] {
        &mut self.bytes[self.base + shift..][..len]
    }
}

/// A random distance from a multiple of 1 MiB, which leads to one of the alignments 1, 2, 4 … 1
/// MiB.
pub fn any_shift(rng: &mut Rng) -> usize {
    match rng.range(0..4) {
        0 => 0,
        1 => 512,
        2 => 1usize << rng.range(0..20),
        _ => rng.range_usize(0..MOST_ALIGNED),
    }
}

/// A simulated disk that requires the alignment `align` of memory and offsets.
pub fn sim_disk(align: usize, seed: u64) -> SimDisk {
    let model = SimDiskModel {
        mem_align: align,
        offset_align: align,
        scribble: true,
        ..SimDiskModel::default()
    };
    SimDisk::new(&SimClock::new(), model, seed)
}

/// The geometry of such a disk.
pub fn sim_geometry(align: usize) -> Geometry {
    let align = align as u64;
    Geometry::fixed(align, align).unwrap()
}

type BeforeTransfer = dyn Fn(&Op) -> Option<Result<usize, Errno>> + Send + Sync;
type SeenSize = dyn Fn(u64) -> u64 + Send + Sync;

/// A simulated file with hooks: one may handle an operation itself, another one changes the
/// reported size.
pub struct Hooked {
    pub inner: SimMedium,
    pub before: Box<BeforeTransfer>,
    pub size: Box<SeenSize>,
    /// Kind, offset and bytes of every transfer.
    pub seen: Mutex<Vec<(dio::engine::OpKind, u64, usize)>>,
}

impl Hooked {
    pub fn new(inner: SimMedium) -> Hooked {
        Hooked {
            inner,
            before: Box::new(|_| None),
            size: Box::new(|size| size),
            seen: Mutex::default(),
        }
    }

    pub fn before(
        mut self,
        hook: impl Fn(&Op) -> Option<Result<usize, Errno>> + Send + Sync + 'static,
    ) -> Hooked {
        self.before = Box::new(hook);
        self
    }

    pub fn size(mut self, hook: impl Fn(u64) -> u64 + Send + Sync + 'static) -> Hooked {
        self.size = Box::new(hook);
        self
    }

    pub fn shared(self) -> Arc<Hooked> {
        Arc::new(self)
    }
}

impl Debug for Hooked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hooked({:?})", self.inner)
    }
}

impl Medium for Hooked {
    fn transfer(&self, op: &mut Op) -> Result<usize, Errno> {
        self.seen.lock().push((op.kind, op.position(), op.remaining()));
        match (self.before)(op) {
            Some(answer) => answer,
            None => self.inner.transfer(op),
        }
    }

    fn descriptor(&self, _route: Route) -> io::Result<BorrowedFd<'_>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn size(&self) -> io::Result<u64> {
        self.inner.size().map(&self.size)
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.inner.set_size(size)
    }

    fn allocate(&self, range: Range<u64>, extend: bool) -> io::Result<()> {
        self.inner.allocate(range, extend)
    }

    fn punch(&self, range: Range<u64>) -> io::Result<()> {
        self.inner.punch(range)
    }
}

/// Copies this test program to a path where any user can run it.
pub fn copy_of_this_program(to: &std::path::Path) {
    let mut cp = std::process::Command::new("cp");
    let output = dio_test::run(cp.arg(std::env::current_exe().unwrap()).arg(to));
    assert!(output.status.success(), "{}", output.stderr);
}
