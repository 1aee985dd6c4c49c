//! What requests of a file have in common: how long their pieces are, and what to do where a flag is refused.

use rustix::io::Errno;

use super::File;
use super::layout::Align;
use crate::drive::{Finished, run_here};
use crate::engine::Flags;
use crate::geometry::align_down;

impl File {
    /// Most bytes of a straight and of a bounced stretch on a route: within the limits, whole blocks of the file, and
    /// such that memory behind an aligned stretch is aligned too. One block where the limit is less.
    pub(super) fn longest_stretches(&self, align: Align) -> (u64, u64) {
        let unit = align.offset.max(align.memory);
        let straight = align_down(self.largest_request() as u64, unit).max(unit);
        let bounced = align_down(self.io.bounce().block_len() as u64, align.offset).min(straight);
        (straight, bounced)
    }

    /// Where the kernel has no `RWF_DONTCACHE` for this file (EOPNOTSUPP, or EINVAL before 6.14), the request is run
    /// again without, now and from now on: `settle` drops the pages instead.
    pub(super) fn without_dontcache(&self, over: Finished) -> Finished {
        let refused = matches!(over.outcome, Err(Errno::OPNOTSUPP | Errno::INVAL)) && over.op.flags.dontcache;
        if !refused {
            return over;
        }
        self.uncache.no_dontcache.store(true, std::sync::atomic::Ordering::Relaxed);
        let mut op = over.op;
        op.flags = Flags { dontcache: false, ..op.flags };
        run_here(op)
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use crate::engine::{Done, Engine, NullMedium, Op};
    use crate::geometry::Geometry;
    use crate::{Io, Limits, OpenOptions};

    /// Takes everything and gives nothing back.
    struct Broken(Vec<Op>);

    impl Engine for Broken {
        fn name(&self) -> &'static str {
            "broken"
        }

        fn depth(&self) -> usize {
            32
        }

        fn in_flight(&self) -> usize {
            self.0.len()
        }

        fn start(&mut self, op: Op) -> Result<(), Op> {
            self.0.push(op);
            Ok(())
        }

        fn finish(&mut self, _min: usize, _done: &mut Vec<Done>) -> io::Result<()> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }

    #[test]
    fn writes_lost_with_their_engine_latch() {
        let limits = Limits { request: 4096, bounce_block: 4096, ..Limits::default() };
        let io = Io::with_engine(limits, "broken", |_| Box::new(Broken(Vec::new()))).unwrap();
        let medium = Arc::new(NullMedium { size: 1 << 20 });
        let geometry = Geometry::fixed(512, 512).unwrap();
        let file = OpenOptions::new().read(true).write(true).io(&io).open_medium("file", medium, geometry).unwrap();
        file.read_at(&mut [0; 8192], 0).unwrap_err();
        file.sync_data().unwrap();
        file.write_at(&[1; 8192], 0).unwrap_err();
        file.sync_data().unwrap_err();
    }
}
