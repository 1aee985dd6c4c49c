//! The digests of one file: in one read, on several threads where that helps.

use std::io;
use std::ops::Deref;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use dio::pipeline::Pipeline;
use dio::stream::Chunk;

use super::digest::{Hasher, Joiner, Kind, Part, Sum, part};
use crate::tool::{Source, Tool};

/// Files shorter than this are worked on by one thread: starting more takes longer than they save.
const WORTHWHILE: u64 = 4 << 20;

/// Threads that files worked on at the same time share, so that their number does not multiply.
pub(crate) struct Helpers {
    cpus: usize,
    free: AtomicUsize,
}

impl Helpers {
    /// As many as pay with so many CPUs: more than there are, since some digests are done before others.
    pub(crate) fn new(cpus: usize) -> Self {
        Self { cpus, free: AtomicUsize::new(if cpus > 1 { cpus * 4 } else { 0 }) }
    }

    /// How many CPUs there are to use.
    pub(crate) fn cpus(&self) -> usize {
        self.cpus
    }

    /// Up to `wanted` threads, given back when the loan is dropped.
    fn lend(&self, wanted: usize) -> Loan<'_> {
        let mut lent = 0;
        let take = |free: usize| {
            lent = free.min(wanted);
            Some(free - lent)
        };
        // The closure never refuses.
        let _ = self.free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        Loan { helpers: self, threads: lent }
    }
}

/// Threads that may be started.
struct Loan<'a> {
    helpers: &'a Helpers,
    threads: usize,
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        self.helpers.free.fetch_add(self.threads, Ordering::Relaxed);
    }
}

/// Blocks of bytes in order.
pub(crate) trait Blocks: Send {
    /// What a block is.
    type Block: Deref<Target = [u8]> + Send + Sync;

    /// The next bytes; `None` at the end.
    fn next(&mut self) -> io::Result<Option<Self::Block>>;
}

impl Blocks for Source {
    type Block = Chunk;

    fn next(&mut self) -> io::Result<Option<Chunk>> {
        self.next_chunk()
    }
}

/// The digests of the file `path`; `-` is standard input.
///
/// # Errors
/// What opening and reading answer.
pub(crate) fn file(tool: &Tool, path: &Path, kinds: &[Kind], helpers: &Helpers) -> io::Result<Vec<Sum>> {
    let mut source = tool.open(path)?;
    let large = source.len().is_some_and(|size| size >= WORTHWHILE);
    let plain = source.file().is_none();
    if let ([kind], true) = (kinds, large && path != Path::new("-"))
        && kind.in_parts()
    {
        if let Some(sum) = in_parts(&mut source, *kind, helpers)? {
            return Ok(vec![sum]);
        }
        // The file changed its size while it was read: from the start, in a way that does not mind.
        source = tool.open(path)?;
    }
    if kinds.len() > 1 && (large || plain) {
        together(&mut source, kinds, helpers)
    } else {
        one_by_one(&mut source, kinds)
    }
}

/// All digests in this thread.
fn one_by_one(source: &mut impl Blocks, kinds: &[Kind]) -> io::Result<Vec<Sum>> {
    let mut hashers: Vec<Hasher> = kinds.iter().map(|&kind| Hasher::new(kind)).collect();
    while let Some(block) = source.next()? {
        hashers.iter_mut().for_each(|hasher| hasher.update(&block));
    }
    Ok(hashers.into_iter().map(Hasher::finish).collect())
}

/// Several digests, each in a thread of its own as far as there are any; every block is read once and shown to all.
fn together(source: &mut impl Blocks, kinds: &[Kind], helpers: &Helpers) -> io::Result<Vec<Sum>> {
    let loan = helpers.lend(kinds.len());
    if loan.threads < 2 {
        return one_by_one(source, kinds);
    }
    let mut groups: Vec<Vec<(usize, Hasher)>> = (0..loan.threads).map(|_| Vec::new()).collect();
    for (place, &kind) in kinds.iter().enumerate() {
        groups[place % loan.threads].push((place, Hasher::new(kind)));
    }
    // Nobody asks it to stop, so the report says nothing.
    let _ = Pipeline::new(loan.threads).depth(AHEAD).broadcast(
        || source.next(),
        &mut groups,
        |group, block| {
            group.iter_mut().for_each(|(_, hasher)| hasher.update(block));
            Ok(())
        },
    )?;
    let mut hashers: Vec<(usize, Hasher)> = groups.into_iter().flatten().collect();
    hashers.sort_by_key(|&(place, _)| place);
    Ok(hashers.into_iter().map(|(_, hasher)| hasher.finish()).collect())
}

/// Blocks that fast digests may be ahead of slow ones; a stream lends that many whatever its depth.
const AHEAD: usize = 3;

/// One digest, its parts in several threads; `None` if what was read cannot be joined.
fn in_parts(source: &mut impl Blocks, kind: Kind, helpers: &Helpers) -> io::Result<Option<Sum>> {
    let loan = helpers.lend(helpers.cpus);
    let mut offset = 0;
    let read = || {
        let block = source.next()?;
        let start = offset;
        offset += block.as_ref().map_or(0, |block| block.len() as u64);
        Ok(block.map(|block| (start, block)))
    };
    let work = || |(start, block): (u64, _)| Ok::<_, io::Error>(measured(kind, start, block));
    let mut joiner = Some(Joiner::new(kind));
    let join = |(part, length)| {
        match (&mut joiner, part) {
            (Some(joiner), Some(part)) => joiner.push(part, length),
            (joiner, _) => *joiner = None,
        }
        Ok(())
    };
    let _ = Pipeline::new(loan.threads).depth(AHEAD.max(loan.threads + 2)).run(read, work, join)?;
    Ok(joiner.and_then(Joiner::finish))
}

/// The part of a digest that a block comes to, and the block's length.
fn measured(kind: Kind, start: u64, block: impl Deref<Target = [u8]>) -> (Option<Part>, u64) {
    (part(kind, &block, start), block.len() as u64)
}
