//! Computes the digests of one file in one read, on several threads if that is faster.

use std::io;
use std::ops::Deref;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use dio::pipeline::Pipeline;
use dio::stream::Chunk;
use parking_lot::Mutex;

use crate::tool::{Source, Tool};
use dio_digest::{DigestKind, DigestPart, Hasher, Joiner, Sum, part};

/// Shorter files are processed by one thread: starting more takes longer than they save.
const WORTHWHILE: u64 = 4 << 20;

/// The most files that are read at a time; each takes the buffers of a stream.
const MOST_FILES: usize = 16;

/// Threads shared by all files that are processed at the same time, so that their number does not
/// multiply.
pub(crate) struct Helpers {
    cpus: usize,
    free: AtomicUsize,
    /// Held while standard input is read, so that two operands do not get a part each.
    stdin: Mutex<()>,
}

impl Helpers {
    /// Creates as many threads as `cpus` can use: more than there are CPUs, because some digests
    /// finish before others.
    pub(crate) fn new(cpus: usize) -> Self {
        Self {
            cpus,
            free: AtomicUsize::new(if cpus > 1 { cpus * 4 } else { 0 }),
            stdin: Mutex::new(()),
        }
    }

    /// Returns how many files to process at a time; 0 if one thread does everything.
    pub(crate) fn files(&self) -> usize {
        if self.cpus > 1 { self.cpus.min(MOST_FILES) } else { 0 }
    }

    /// Lends up to `wanted` threads, which are returned when the loan is dropped.
    fn lend(&self, wanted: usize) -> Loan<'_> {
        let mut lent = 0;
        let take = |free: usize| {
            lent = free.min(wanted);
            Some(free - lent)
        };
        // The closure always returns `Some`.
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

/// A source of blocks of bytes, in order.
pub(crate) trait Blocks: Send {
    /// The type of a block.
    type Block: Deref<Target = [u8]> + Send + Sync;

    /// Returns the next bytes; `None` at the end.
    fn next(&mut self) -> io::Result<Option<Self::Block>>;
}

impl Blocks for Source {
    type Block = Chunk;

    fn next(&mut self) -> io::Result<Option<Chunk>> {
        self.next_chunk()
    }
}

/// Computes the digests of the file `path`; `-` is standard input.
///
/// # Errors
/// Errors of opening and reading.
pub(crate) fn file(
    tool: &Tool,
    path: &Path,
    kinds: &[DigestKind],
    helpers: &Helpers,
) -> io::Result<Vec<Sum>> {
    let is_stdin = path == Path::new("-");
    let _mine = is_stdin.then(|| helpers.stdin.lock());
    let mut source = tool.open(path)?;
    let large = source.len().is_some_and(|size| size >= WORTHWHILE);
    if let ([kind], true) = (kinds, large && !is_stdin)
        && kind.in_parts()
    {
        if let Some(sum) = in_parts(&mut source, *kind, helpers)? {
            return Ok(vec![sum]);
        }
        // The size of the file changed while it was read. Start again, with an algorithm that
        // allows that.
        source = tool.open(path)?;
    }
    in_one_read(&mut source, kinds, large, helpers)
}

/// Computes all digests, in this thread as long as that is faster.
fn in_one_read(
    source: &mut impl Blocks,
    kinds: &[DigestKind],
    large: bool,
    helpers: &Helpers,
) -> io::Result<Vec<Sum>> {
    let mut hashers: Vec<Hasher> = kinds.iter().map(|&kind| Hasher::new(kind)).collect();
    let alone = match (kinds.len(), large) {
        (0 | 1, _) => u64::MAX,
        (_, true) => 0,
        // The length of a pipe is unknown.
        (_, false) => WORTHWHILE,
    };
    let mut bytes = 0;
    while bytes < alone {
        let Some(block) = source.next()? else {
            return Ok(hashers.into_iter().map(Hasher::finish).collect());
        };
        bytes += block.len() as u64;
        hashers.iter_mut().for_each(|hasher| hasher.update(&block));
    }
    together(source, hashers, helpers)
}

/// Computes several digests, each in a thread of its own if enough are free. Every block is read
/// once and passed to all.
fn together(
    source: &mut impl Blocks,
    hashers: Vec<Hasher>,
    helpers: &Helpers,
) -> io::Result<Vec<Sum>> {
    let loan = helpers.lend(hashers.len());
    let mut groups: Vec<Vec<(usize, Hasher)>> =
        (0..loan.threads.max(1)).map(|_| Vec::new()).collect();
    let count = groups.len();
    for (place, hasher) in hashers.into_iter().enumerate() {
        groups[place % count].push((place, hasher));
    }
    // No stop callback is set, so the report has no information.
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

/// Blocks that fast digests may be ahead of slow ones; a stream lends that many at any depth.
const AHEAD: usize = 3;

/// Computes one digest, its parts in several threads; `None` if the parts cannot be joined.
fn in_parts(
    source: &mut impl Blocks,
    kind: DigestKind,
    helpers: &Helpers,
) -> io::Result<Option<Sum>> {
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

/// Returns the part of a digest for a block, and the length of the block.
fn measured(
    kind: DigestKind,
    start: u64,
    block: impl Deref<Target = [u8]>,
) -> (Option<DigestPart>, u64) {
    (part(kind, &block, start), block.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dio_digest::Algorithm;

    /// Bytes in blocks of one size, followed by an error if there is one.
    struct Fake<'a> {
        blocks: std::slice::Chunks<'a, u8>,
        error: Option<io::ErrorKind>,
    }

    impl Blocks for Fake<'_> {
        type Block = Vec<u8>;

        fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
            match (self.blocks.next(), self.error) {
                (Some(block), _) => Ok(Some(block.to_vec())),
                (None, Some(error)) => Err(error.into()),
                (None, None) => Ok(None),
            }
        }
    }

    fn bytes() -> Vec<u8> {
        (0u32..WORTHWHILE as u32 + 5_000_001)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8)
            .collect()
    }

    fn whole(kind: DigestKind, bytes: &[u8]) -> Sum {
        let mut hasher = Hasher::new(kind);
        hasher.update(bytes);
        hasher.finish()
    }

    #[test]
    fn every_number_of_threads_comes_to_the_same() {
        let bytes = bytes();
        let kinds = [Algorithm::Crc, Algorithm::Xxh3, Algorithm::Blake3, Algorithm::Sha256]
            .map(DigestKind::from);
        let expected: Vec<Sum> = kinds.iter().map(|&kind| whole(kind, &bytes)).collect();
        for (cpus, large, block) in
            [(1, true, 1 << 20), (2, true, 100_000), (2, false, 1 << 20), (8, false, 65_536)]
        {
            let helpers = Helpers::new(cpus);
            let mut source = Fake { blocks: bytes.chunks(block), error: None };
            assert_eq!(in_one_read(&mut source, &kinds, large, &helpers).unwrap(), expected);
            // All threads were returned, so the next file can use as many.
            assert_eq!(helpers.free.into_inner(), Helpers::new(cpus).free.into_inner());
        }
    }

    #[test]
    fn parts_are_joined_or_given_up() {
        let bytes = bytes();
        for cpus in [1, 2, 5] {
            let helpers = Helpers::new(cpus);
            for kind in [Algorithm::Blake3, Algorithm::Crc, Algorithm::Crc32c].map(DigestKind::from)
            {
                for block in [4096, 12_288, 1 << 20] {
                    let mut source = Fake { blocks: bytes.chunks(block), error: None };
                    assert_eq!(
                        in_parts(&mut source, kind, &helpers).unwrap(),
                        Some(whole(kind, &bytes)),
                        "{kind:?}"
                    );
                }
            }
            // As with a file that grows while it is read: the tree has to be built from the start.
            let mut source = Fake { blocks: bytes.chunks(100_000), error: None };
            assert_eq!(in_parts(&mut source, Algorithm::Blake3.into(), &helpers).unwrap(), None);
        }
    }

    #[test]
    fn an_error_of_the_source_comes_out() {
        let bytes = bytes();
        let helpers = Helpers::new(2);
        let fake = || Fake { blocks: bytes.chunks(1 << 20), error: Some(io::ErrorKind::TimedOut) };
        let kinds = [Algorithm::Crc, Algorithm::Xxh3].map(DigestKind::from);
        let together = in_one_read(&mut fake(), &kinds, true, &helpers);
        assert_eq!(together.unwrap_err().kind(), io::ErrorKind::TimedOut);
        let alone = in_one_read(&mut fake(), &kinds[..1], true, &helpers);
        assert_eq!(alone.unwrap_err().kind(), io::ErrorKind::TimedOut);
        let parts = in_parts(&mut fake(), Algorithm::Blake3.into(), &helpers);
        assert_eq!(parts.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
