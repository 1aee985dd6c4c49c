//! Computes the digests of one file in one read, on several threads if that is faster.

use std::io;
use std::ops::Deref;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use dio::pipeline::Pipeline;
use parking_lot::Mutex;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::blocks::{AHEAD, Blocks, PieceBlocks};
use super::format::Piece;
use crate::stop::Stop;
use crate::tool::{Tool, errno_of};
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
    /// Ends reading when it is asked for.
    stop: Option<&'static Stop>,
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
            stop: None,
            stdin: Mutex::new(()),
        }
    }

    /// Has reading end when a stop is requested, which is an error then.
    pub(crate) fn ending_by(self, stop: &'static Stop) -> Self {
        Self { stop: Some(stop), ..self }
    }

    /// Returns the next block of a source.
    fn next<S: Blocks>(&self, source: &mut S) -> io::Result<Option<S::Block>> {
        match self.stop {
            Some(stop) if stop.asked() => Err(Errno::INTR.into()),
            _ => source.next(),
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
        if let Some(sum) = joined(&mut source, *kind, helpers)? {
            return Ok(vec![sum]);
        }
        // The size of the file changed while it was read. Start again, with an algorithm that
        // allows that.
        source = tool.open(path)?;
    }
    in_one_read(&mut source, kinds, large, helpers)
}

/// The message about a file that did not keep its size while its pieces were read.
pub(super) const CHANGED: &str = "file changed as we read it";

/// The reason why a file could not be read, for a message of any process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Failure {
    pub(super) text: String,
    /// Whether there is no such file.
    pub(super) is_missing: bool,
}

impl Failure {
    pub(super) fn of(tool: &Tool, path: &Path, error: &io::Error) -> Failure {
        let is_missing = errno_of(error) == Errno::NOENT;
        Failure { text: tool.file_error_text(path, error), is_missing }
    }
}

/// The digests of a file.
#[derive(Debug)]
pub(crate) enum FileSums {
    /// Of all of it.
    Whole(Vec<Sum>),
    /// Of its pieces, in order.
    Pieces(Vec<(Piece, Vec<Sum>)>),
    /// None: it did not keep its size while it was read.
    Changed,
}

/// Computes the digests of the pieces of `length` bytes that the file `path` consists of, or of the
/// whole if it is not longer than one.
///
/// # Errors
/// Errors of opening and reading.
pub(crate) fn pieces(
    tool: &Tool,
    path: &Path,
    kinds: &[DigestKind],
    length: u64,
    helpers: &Helpers,
) -> io::Result<FileSums> {
    let size = match tool.open(path)? {
        source if source.file().is_some() => source.len().unwrap_or(0),
        _ => 0,
    };
    if size <= length {
        return file(tool, path, kinds, helpers).map(FileSums::Whole);
    }
    let loan = helpers.lend(helpers.cpus);
    let mut pieces = Piece::all(size, length);
    let mut sums = Vec::new();
    let mut is_changed = false;
    let _ = Pipeline::new(loan.threads).run(
        || Ok::<_, io::Error>(pieces.next()),
        || |piece| Ok((piece, self::piece(tool, path, kinds, piece, helpers)?)),
        |(piece, found)| {
            match found {
                Some(found) => sums.push((piece, found)),
                None => is_changed = true,
            }
            Ok(())
        },
    )?;
    Ok(if is_changed { FileSums::Changed } else { FileSums::Pieces(sums) })
}

/// Computes the digests of a piece of the file `path`; `None` if the file has another size.
///
/// # Errors
/// Errors of opening and reading.
pub(crate) fn piece(
    tool: &Tool,
    path: &Path,
    kinds: &[DigestKind],
    piece: Piece,
    helpers: &Helpers,
) -> io::Result<Option<Vec<Sum>>> {
    let source = tool.open(path)?;
    let Some(mut blocks) = PieceBlocks::new(tool, &source, piece, 1)? else { return Ok(None) };
    let mut hashers: Vec<Hasher> = kinds.iter().map(|&kind| Hasher::new(kind)).collect();
    while let Some(block) = helpers.next(&mut blocks)? {
        hashers.iter_mut().for_each(|hasher| hasher.update(&block));
    }
    Ok(blocks.is_whole().then(|| hashers.into_iter().map(Hasher::finish).collect()))
}

/// Computes the part of each digest for a piece of the file `path`, in several threads; `None` if
/// the file has another size. Pieces begin at multiples of a power of two, not less than their
/// length.
///
/// # Errors
/// Errors of opening and reading.
pub(crate) fn parts_of(
    tool: &Tool,
    path: &Path,
    kinds: &[DigestKind],
    piece: Piece,
    helpers: &Helpers,
) -> io::Result<Option<Vec<DigestPart>>> {
    let source = tool.open(path)?;
    // As many as there are items in the pipeline.
    let blocks = AHEAD.max(helpers.cpus + 2);
    let Some(mut blocks) = PieceBlocks::new(tool, &source, piece, blocks)? else { return Ok(None) };
    let mut joiners = Some(kinds.iter().map(|kind| Joiner::new(*kind)).collect::<Vec<_>>());
    in_parts(&mut blocks, kinds, piece.start, helpers, |parts, length| {
        match (&mut joiners, parts) {
            (Some(joiners), Some(parts)) => {
                joiners.iter_mut().zip(parts).for_each(|(joiner, part)| joiner.push(part, length));
            }
            (joiners, _) => *joiners = None,
        }
    })?;
    let joiners = joiners.filter(|_| blocks.is_whole());
    Ok(joiners.map(|joiners| joiners.into_iter().map(Joiner::into_part).collect()))
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
        let Some(block) = helpers.next(source)? else {
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
        || helpers.next(source),
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

/// Computes one digest, its parts in several threads; `None` if the parts cannot be joined.
fn joined(
    source: &mut impl Blocks,
    kind: DigestKind,
    helpers: &Helpers,
) -> io::Result<Option<Sum>> {
    let mut joiner = Some(Joiner::new(kind));
    in_parts(source, &[kind], 0, helpers, |parts, length| match (&mut joiner, parts) {
        (Some(joiner), Some(parts)) => {
            parts.into_iter().for_each(|part| joiner.push(part, length));
        }
        (joiner, _) => *joiner = None,
    })?;
    Ok(joiner.and_then(Joiner::finish))
}

/// Computes parts of digests in several threads, for bytes from `offset` on. `take` gets them in
/// order, with their lengths; `None` for bytes that the digests cannot be cut at.
fn in_parts(
    source: &mut impl Blocks,
    kinds: &[DigestKind],
    mut offset: u64,
    helpers: &Helpers,
    mut take: impl FnMut(Option<Vec<DigestPart>>, u64) + Send,
) -> io::Result<()> {
    let loan = helpers.lend(helpers.cpus);
    let read = || {
        let block = helpers.next(source)?;
        let start = offset;
        offset += block.as_ref().map_or(0, |block| block.len() as u64);
        Ok::<_, io::Error>(block.map(|block| (start, block)))
    };
    let work = || |(start, block): (u64, _)| Ok(measured(kinds, start, block));
    let join = |(parts, length)| {
        take(parts, length);
        Ok(())
    };
    let _ = Pipeline::new(loan.threads).depth(AHEAD.max(loan.threads + 2)).run(read, work, join)?;
    Ok(())
}

/// Returns the parts of digests for a block, and the length of the block.
fn measured(
    kinds: &[DigestKind],
    start: u64,
    block: impl Deref<Target = [u8]>,
) -> (Option<Vec<DigestPart>>, u64) {
    let parts = kinds.iter().map(|kind| part(*kind, &block, start)).collect();
    (parts, block.len() as u64)
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
                        joined(&mut source, kind, &helpers).unwrap(),
                        Some(whole(kind, &bytes)),
                        "{kind:?}"
                    );
                }
            }
            // As with a file that grows while it is read: the tree has to be built from the start.
            let mut source = Fake { blocks: bytes.chunks(100_000), error: None };
            assert_eq!(joined(&mut source, Algorithm::Blake3.into(), &helpers).unwrap(), None);
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
        let parts = joined(&mut fake(), Algorithm::Blake3.into(), &helpers);
        assert_eq!(parts.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
