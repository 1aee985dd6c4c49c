//! Creates files of random data and of text, in a directory that is removed when dropped.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use dio::OpenOptions;
use dio::block::Pool;
use parking_lot::{Mutex, MutexGuard};
use rustix::io::Errno;

use crate::BenchError;

/// Bytes per write while a file is made.
const CHUNK: usize = 4 << 20;
/// How long to wait while a disk discards freed blocks.
const REST: std::time::Duration = std::time::Duration::from_millis(200);

/// The directory of one benchmark. It is removed with everything in it when dropped.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Creates a directory with a unique name in `parent`.
    ///
    /// # Errors
    /// Any error of `mkdir(2)`.
    pub fn new(parent: &Path) -> Result<Scratch, BenchError> {
        // A process uses no name twice, but a killed process with the same id may have left its
        // directory behind.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = |_| {
            format!(".dio-bench-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
        };
        let names = (0..100).map(name).map(|name| parent.join(name));
        let mut outcome = Err(Errno::EXIST.into());
        for path in names {
            // The directory is created and listed under one lock, so that `remove_all` misses no
            // directory.
            let mut directories = directories();
            if directories.over {
                outcome = Err(std::io::ErrorKind::Interrupted.into());
                break;
            }
            // Only the owner may enter it: the database servers that are started in it ask for no
            // passwords.
            outcome = DirBuilder::new().mode(0o700).create(&path).map(|()| {
                directories.paths.push(path.clone());
                Scratch(path)
            });
            if !matches!(&outcome, Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists)
            {
                break;
            }
        }
        outcome.map_err(BenchError::system("create a directory in", parent))
    }

    /// The path of a file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Creates a file of `bytes` bytes that no file system and no device can compress or
    /// deduplicate. Its contents are durable and not cached.
    ///
    /// # Errors
    /// [`BenchError::File`], such as no space.
    pub fn random_file(&self, name: &str, bytes: u64) -> Result<PathBuf, BenchError> {
        let mut random = Random::new(bytes ^ 0x5eed);
        self.file(name, bytes, |part| random.fill(part))
    }

    /// Creates a file of `bytes` bytes of text that compresses to about a third. Its contents are
    /// durable and not cached.
    ///
    /// # Errors
    /// [`BenchError::File`], such as no space.
    pub fn text_file(&self, name: &str, bytes: u64) -> Result<PathBuf, BenchError> {
        let mut text = Text::new(bytes ^ 0x7e87);
        self.file(name, bytes, |part| text.fill(part))
    }

    /// Removes the directory, and waits until the file system and the disk have finished that work.
    /// Freed blocks are discarded in the background after the journal's commit (`-o discard`,
    /// ext4(5)), which would slow down the next measurement.
    pub(crate) fn remove_quietly(self) {
        let parent = self.0.parent().map(Path::to_owned);
        drop(self);
        if let Some(parent) = parent.and_then(|parent| std::fs::File::open(parent).ok()) {
            // If the sync fails, only the speed of the next run suffers.
            let _ = rustix::fs::syncfs(&parent);
            std::thread::sleep(REST);
        }
    }

    fn file(
        &self,
        name: &str,
        bytes: u64,
        mut fill: impl FnMut(&mut [u8]),
    ) -> Result<PathBuf, BenchError> {
        let path = self.path(name);
        let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        // Space is reserved first, so that a full disk is noticed before anything is written.
        file.set_size(bytes)?;
        let _ = file.allocate(0..bytes, false);
        let pool = Pool::new(CHUNK, 1).map_err(BenchError::system("map memory for", &path))?;
        let mut block = pool.try_take().expect("nobody else takes from this pool");
        let mut at = 0;
        while at < bytes {
            let part =
                &mut block.bytes_mut()[..CHUNK.min(usize::try_from(bytes - at).unwrap_or(CHUNK))];
            fill(part);
            file.write_at(part, at)?;
            at += part.len() as u64;
        }
        file.sync_all()?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A directory that cannot be removed can be found by its name.
        let _ = std::fs::remove_dir_all(&self.0);
        directories().paths.retain(|path| *path != self.0);
    }
}

/// The scratch directories of this process.
#[derive(Default)]
struct Directories {
    paths: Vec<PathBuf>,
    /// Set when the process is about to end: no more directories may be created.
    over: bool,
}

fn directories() -> MutexGuard<'static, Directories> {
    static DIRECTORIES: Mutex<Directories> =
        Mutex::new(Directories { paths: Vec::new(), over: false });
    DIRECTORIES.lock()
}

/// Removes the directory of every [`Scratch`] of the process, and lets no thread create another
/// one. A process that is about to end by a signal calls this.
pub fn remove_all() {
    let mut directories = directories();
    directories.over = true;
    for path in directories.paths.drain(..) {
        remove_busy(&path);
    }
}

/// Removes a directory in which another thread may be creating files. It is renamed first, so that
/// files can no longer be created by its path: as fast as they are removed, others could be made. A
/// file that appears nevertheless, after the names were read, makes the removal fail (ENOTEMPTY);
/// the next attempt finds it.
fn remove_busy(path: &Path) {
    let renamed = removed_name(path);
    let path = if std::fs::rename(path, &renamed).is_ok() { &renamed } else { path };
    for _ in 0..100 {
        match std::fs::remove_dir_all(path) {
            Err(error) if error.kind() == std::io::ErrorKind::DirectoryNotEmpty => {}
            _ => return,
        }
    }
}

/// The name of a directory while it is removed.
fn removed_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".removed");
    name.into()
}

/// A generator of pseudo-random numbers (SplitMix64: Steele, Lea, Flood 2014). It is fast, and
/// yields the same numbers for the same seed. The benchsuite's data are made from it, so with
/// another generator new results could not be compared with its records.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates a generator.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which must not be 0. The distribution is uneven by less than one in
    /// 2^32 for the values of `end` used here.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.number()) * u128::from(end)) >> 64) as u64
    }

    /// A number uniformly distributed from 0 to 1, never 0.
    fn unit(&mut self) -> f64 {
        ((self.number() >> 11) as f64 + 1.0) / (1u64 << 53) as f64
    }

    /// A log-normally distributed number with the given median and the given sigma of the
    /// logarithm, drawn again until it is within `min..=max`.
    pub fn log_normal(&mut self, median: f64, sigma: f64, min: u64, max: u64) -> u64 {
        loop {
            // Box and Muller's transform gives one normal value from two uniform ones.
            let normal =
                (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos();
            let value = (median.ln() + sigma * normal).exp() as u64;
            if (min..=max).contains(&value) {
                return value;
            }
        }
    }

    /// Fills `bytes` with random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for word in bytes.chunks_mut(8) {
            word.copy_from_slice(&self.number().to_le_bytes()[..word.len()]);
        }
    }
}

/// Number of distinct words in a text.
const WORDS: u64 = 4096;

/// Text of made-up words in lines. As in a natural language, few words are common and many are
/// rare.
#[derive(Debug)]
struct Text {
    random: Random,
    words: Vec<Vec<u8>>,
}

impl Text {
    fn new(seed: u64) -> Text {
        let mut random = Random::new(seed);
        let mut word =
            |_| (0..2 + random.below(9)).map(|_| b'a' + random.below(26) as u8).collect();
        let words = (0..WORDS).map(&mut word).collect();
        Text { random, words }
    }

    /// Fills `bytes` with text; the last word may be cut.
    fn fill(&mut self, bytes: &mut [u8]) {
        let mut at = 0;
        while at < bytes.len() {
            // Three draws, each below the previous one, make small numbers the most likely.
            let which = (0..3).fold(WORDS, |end, _| self.random.below(end.max(1)));
            let end = if self.random.below(12) == 0 { b'\n' } else { b' ' };
            for byte in self.words[which as usize].iter().chain([&end]).take(bytes.len() - at) {
                bytes[at] = *byte;
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scratch_directory_goes_with_its_files() {
        let scratch = Scratch::new(&std::env::temp_dir()).unwrap();
        let path = scratch.random_file("data", 100_001).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.len(), 100_001);
        let mut seen = [false; 256];
        bytes.iter().for_each(|byte| seen[usize::from(*byte)] = true);
        assert!(seen.iter().all(|seen| *seen), "random bytes take every value");
        let parent = path.parent().unwrap().to_owned();
        drop(scratch);
        assert!(!parent.exists());
    }

    #[test]
    fn a_text_has_lines_and_words_that_come_again() {
        let scratch = Scratch::new(&std::env::temp_dir()).unwrap();
        let path = scratch.text_file("text", 1_000_003).unwrap();
        let text = String::from_utf8(std::fs::read(path).unwrap()).unwrap();
        assert_eq!(text.len(), 1_000_003);
        assert!((5_000..30_000).contains(&text.lines().count()));
        let mut counts = std::collections::HashMap::new();
        text.split_whitespace().for_each(|word| *counts.entry(word).or_insert(0u32) += 1);
        let most = counts.values().max().unwrap();
        assert!(counts.len() > 3000 && *most > 1000, "{} words, one {most} times", counts.len());
    }

    #[test]
    fn a_directory_goes_although_files_appear_in_it() {
        let directory = Scratch::new(&std::env::temp_dir()).unwrap().0.with_extension("busy");
        std::fs::create_dir(&directory).unwrap();
        std::thread::scope(|scope| {
            // Creates files until the directory is gone; after that no file can be created in it.
            scope.spawn(|| {
                (0u64..)
                    .take_while(|n| std::fs::write(directory.join(n.to_string()), "").is_ok())
                    .count()
            });
            while std::fs::read_dir(&directory).unwrap().next().is_none() {}
            remove_busy(&directory);
        });
        assert!(!directory.exists() && !removed_name(&directory).exists());
    }

    #[test]
    fn numbers_stay_below_their_end() {
        let mut random = Random::new(0);
        let mut seen = [false; 7];
        (0..1000).for_each(|_| seen[random.below(7) as usize] = true);
        assert_eq!(seen, [true; 7]);
    }
    #[test]
    fn log_normal_keeps_its_bounds_and_median() {
        let mut random = Random::new(1);
        let mut sizes: Vec<u64> =
            (0..20_000).map(|_| random.log_normal(4096.0, 1.0, 100, 65536)).collect();
        sizes.sort_unstable();
        assert!(sizes[0] >= 100 && sizes[sizes.len() - 1] <= 65536);
        let median = sizes[sizes.len() / 2];
        assert!((3800..4400).contains(&median), "{median}");
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes() {
        let (mut a, mut b) = ([0; 13], [0; 13]);
        Random::new(7).fill(&mut a);
        Random::new(7).fill(&mut b);
        assert_eq!(a, b);
        assert!((0..1000).all(|seed| Random::new(seed).below(10) < 10));
        // The benchsuite's data have begun with this number since its first record.
        assert_eq!(Random::new(0x00d1_0000_0001).number(), 0xb5b7_2620_00fe_3268);
    }
}
