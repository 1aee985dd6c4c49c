//! The data to copy, which are made once and kept between runs.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use crate::Result;
use crate::tool::{output, tool};
use dio_bench::data::Random;
use dio_common::size::{KIB, MIB, exact as size_text};

/// Directories of the tree of small files.
const DIRECTORIES: u64 = 300;
/// Seed of the sizes and contents of the small files.
const SEED: u64 = 0x00d1_0000_0001;

/// A file of `bytes` bytes (whole MiB) that cannot be compressed, below `dir`. It is written with
/// direct I/O: extents that are only allocated would be read without the disk, and cached pages
/// would distort the measurement.
pub(crate) fn source(dir: &Path, bytes: u64) -> Result<PathBuf> {
    if bytes % MIB != 0 {
        return Err(format!("a size of whole MiB is needed, not {}", size_text(bytes)).into());
    }
    let path = dir.join(format!("source-{}", size_text(bytes)));
    if fs::metadata(&path).is_ok_and(|m| m.len() == bytes) {
        return Ok(path);
    }
    eprintln!("benchsuite: writing {} of random bytes", size_text(bytes));
    // Only complete files get the final name.
    let part = dir.join("source.part");
    let mut dd = tool("dd");
    dd.args([
        "if=/dev/urandom",
        "bs=1M",
        "iflag=fullblock",
        "oflag=direct",
        "conv=fsync",
        "status=none",
    ]);
    output(dd.arg(format!("of={}", part.display())).arg(format!("count={}", bytes / MIB)))?;
    fs::rename(part, &path)?;
    Ok(path)
}

/// `count` files of `bytes` each (whole MiB) that cannot be compressed, in a directory of their own
/// below `dir`.
pub(crate) fn large_files(dir: &Path, count: u64, bytes: u64) -> Result<PathBuf> {
    let root = dir.join(format!("large-{count}-{}", size_text(bytes)));
    if !root.exists() {
        let part = dir.join("large.part");
        remove(&part)?;
        fs::create_dir_all(&part)?;
        for n in 0..count {
            fs::rename(source(&part, bytes)?, part.join(format!("f{n}")))?;
        }
        fs::rename(part, &root)?;
    }
    Ok(root)
}

/// Kinds of text, by their lines.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextKind {
    /// Lines of 64 bytes; one in a hundred is equal to the previous one.
    Unique,
    /// Lines of 64 bytes, in groups of 1 to 40 equal ones.
    Repeated,
    /// Lines of 2 to 6 bytes, seldom equal to the previous one.
    Short,
    /// Lines of 64 bytes, unsorted: a number of ten digits, one of 676 words, and 49 more digits.
    Fields,
}

impl TextKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            TextKind::Unique => "unique",
            TextKind::Repeated => "repeated",
            TextKind::Short => "short",
            TextKind::Fields => "fields",
        }
    }

    /// Appends one group of lines.
    fn put(self, random: &mut Random, text: &mut Vec<u8>) -> Result<()> {
        if self == TextKind::Short {
            // In short lines even one byte of difference in length matters, so numbers have one to
            // five digits.
            let digits = random.below(5) as u32 + 1;
            return Ok(writeln!(text, "{}", random.below(10u64.pow(digits)))?);
        }
        if self == TextKind::Fields {
            let word =
                [random.below(26), random.below(26)].map(|letter| char::from(b'a' + letter as u8));
            let (number, [a, b]) = (random.below(10_000_000_000), word);
            let [c, d, e, f] = [(); 4].map(|()| random.number());
            return Ok(writeln!(
                text,
                "{number:010} {a}{b} {c:016x}{d:016x}{e:016x}{:01x}",
                f & 15
            )?);
        }
        let start = text.len();
        writeln!(text, "{:063}", random.number())?;
        let more = match self {
            TextKind::Repeated => random.below(40),
            _ => u64::from(random.below(100) == 0),
        };
        for _ in 0..more {
            text.extend_from_within(start..start + 64);
        }
        Ok(())
    }
}

/// A file with exactly `bytes` bytes of text, which are the same every time.
pub(crate) fn text(dir: &Path, lines: TextKind, bytes: u64) -> Result<PathBuf> {
    let path = dir.join(format!("text-{}-{}", lines.name(), size_text(bytes)));
    if fs::metadata(&path).is_ok_and(|m| m.len() == bytes) {
        return Ok(path);
    }
    eprintln!("benchsuite: writing {} of text, {} lines", size_text(bytes), lines.name());
    let part = dir.join("text.part");
    let (mut file, mut random) = (File::create(&part)?, Random::new(SEED));
    let (mut left, mut text) = (bytes, Vec::new());
    while left > 0 {
        text.clear();
        while (text.len() as u64) < MIB {
            lines.put(&mut random, &mut text)?;
        }
        text.truncate(usize::try_from(left).unwrap_or(usize::MAX).min(text.len()));
        file.write_all(&text)?;
        left -= text.len() as u64;
    }
    file.sync_all()?;
    fs::rename(part, &path)?;
    Ok(path)
}

/// A tree of small files.
pub(crate) struct Tree {
    pub(crate) root: PathBuf,
    pub(crate) count: u64,
    pub(crate) bytes: u64,
}

impl Tree {
    /// The paths of its files, or of those of a copy of it below `root`. They are never collected
    /// in a list: a child process inherits the peak RSS of this process, so this one stays small.
    pub(crate) fn files(&self, root: &Path) -> impl Iterator<Item = PathBuf> {
        (0..self.count).map(move |n| root.join(name_of(n)))
    }
}

/// A tree of `count` files below `dir`. Their sizes are between 100 bytes and 64 KiB, log-normal
/// with median 4 KiB, and the same every time.
pub(crate) fn tree(dir: &Path, count: u64) -> Result<Tree> {
    let root = dir.join(format!("tree-{count}"));
    if !root.exists() {
        eprintln!("benchsuite: writing {count} small files");
        let part = dir.join("tree.part");
        remove(&part)?;
        write_tree(&part, count)?;
        rustix::fs::sync();
        fs::rename(part, &root)?;
    }
    let mut tree = Tree { root, count, bytes: 0 };
    tree.bytes = tree
        .files(&tree.root)
        .map(|f| fs::metadata(f).map(|m| m.len()))
        .sum::<std::io::Result<u64>>()?;
    Ok(tree)
}

/// The path of file `n` in the tree.
fn name_of(n: u64) -> PathBuf {
    PathBuf::from(format!("d{:03}/f{n:06}", n % DIRECTORIES))
}

fn write_tree(root: &Path, count: u64) -> Result<()> {
    for d in 0..DIRECTORIES.min(count) {
        fs::create_dir_all(root.join(format!("d{d:03}")))?;
    }
    let mut random = Random::new(SEED);
    let mut content = vec![0; 64 * KIB as usize];
    for n in 0..count {
        let size = random.log_normal(4096.0, 1.2, 100, 64 * KIB) as usize;
        random.fill(&mut content[..size]);
        File::create(root.join(name_of(n)))?.write_all(&content[..size])?;
    }
    Ok(())
}

/// `count` files of `size` bytes, 100 to a directory.
pub(crate) fn equal_files(dir: &Path, size: u64, count: u64) -> Result<PathBuf> {
    let root = dir.join(format!("equal-{count}-{size}"));
    if !root.exists() {
        eprintln!("benchsuite: writing {count} files of {size} bytes");
        let part = dir.join("equal.part");
        remove(&part)?;
        let (mut random, mut content) = (Random::new(SEED), vec![0; size as usize]);
        for n in 0..count {
            let directory = part.join(format!("d{:03}", n / 100));
            fs::create_dir_all(&directory)?;
            random.fill(&mut content);
            File::create(directory.join(format!("f{n:06}")))?.write_all(&content)?;
        }
        rustix::fs::sync();
        fs::rename(part, &root)?;
    }
    Ok(root)
}

/// Reads every file once, so that the cache holds them all.
pub(crate) fn warm(files: impl IntoIterator<Item = PathBuf>) -> Result<()> {
    let mut buffer = vec![0; 64 * KIB as usize];
    for file in files {
        let mut file = File::open(file)?;
        while file.read(&mut buffer)? > 0 {}
    }
    Ok(())
}

/// Removes a file or a tree; it is no error if the path does not exist.
pub(crate) fn remove(path: &Path) -> Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(m) if m.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(e) => Err(e),
    };
    match removed {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: {e}", path.display()).into())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{TextKind, remove, text, tree};

    #[test]
    fn text_is_of_the_kind_and_size_asked_for() {
        let dir = tempfile::tempdir().expect("a directory");
        for (kind, longest, repeated) in [
            (TextKind::Unique, 64, 0.001..0.05),
            (TextKind::Repeated, 64, 0.9..0.98),
            (TextKind::Short, 6, 0.0..0.2),
            (TextKind::Fields, 64, 0.0..0.001),
        ] {
            let file = text(dir.path(), kind, 1_234_567).expect("written");
            let text = std::fs::read_to_string(file).expect("readable");
            let lines: Vec<&str> = text.split_inclusive('\n').collect();
            let same = lines.windows(2).filter(|pair| pair[0] == pair[1]).count() as f64
                / lines.len() as f64;
            assert_eq!(text.len(), 1_234_567);
            assert!(repeated.contains(&same), "{}: {same}", kind.name());
            assert!(lines.iter().all(|line| line.len() <= longest), "{}", kind.name());
        }
    }

    #[test]
    fn the_tree_is_the_same_every_time() {
        let (a, b) =
            (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
        let (one, two) =
            (tree(a.path(), 400).expect("written"), tree(b.path(), 400).expect("written"));
        assert_eq!((one.files(&one.root).count(), one.bytes), (400, two.bytes));
        for (x, y) in one.files(&one.root).zip(two.files(&two.root)) {
            assert_eq!(std::fs::read(x).expect("readable"), std::fs::read(y).expect("readable"));
        }
        assert_eq!(tree(a.path(), 400).expect("found again").bytes, one.bytes);
        remove(&one.root).expect("removed");
        remove(&one.root).expect("nothing there is fine");
    }
}
