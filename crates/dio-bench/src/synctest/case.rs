//! A case to measure: a method of making writes durable, and the writes.

use rustix::fs::OFlags;
use rustix::io::ReadWriteFlags;
use serde::{Deserialize, Serialize};

/// A method of making writes durable, or one that is often mistaken for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// `fsync(2)` after the writes.
    Fsync,
    /// `fdatasync(2)` after the writes.
    Fdatasync,
    /// The file is open with `O_SYNC`.
    OpenSync,
    /// The file is open with `O_DSYNC`.
    OpenDatasync,
    /// Each write has `RWF_SYNC` (`pwritev2(2)`).
    RwfSync,
    /// Each write has `RWF_DSYNC` (`pwritev2(2)`).
    RwfDsync,
    /// `sync_file_range(2)` with all three flags after the writes. It flushes neither metadata nor
    /// the device's cache.
    SyncFileRange,
    /// No sync at all.
    None,
}

impl Method {
    /// All of them, the durable ones first.
    pub const ALL: [Method; 8] = [
        Method::OpenDatasync,
        Method::Fdatasync,
        Method::Fsync,
        Method::OpenSync,
        Method::RwfDsync,
        Method::RwfSync,
        Method::SyncFileRange,
        Method::None,
    ];

    /// The name in options and reports. If PostgreSQL's `wal_sync_method` has the method, this is
    /// its name there.
    pub fn name(self) -> &'static str {
        match self {
            Method::Fsync => "fsync",
            Method::Fdatasync => "fdatasync",
            Method::OpenSync => "open_sync",
            Method::OpenDatasync => "open_datasync",
            Method::RwfSync => "rwf_sync",
            Method::RwfDsync => "rwf_dsync",
            Method::SyncFileRange => "sync_file_range",
            Method::None => "none",
        }
    }

    /// Whether data are durable after this method, if the file system and the disk work correctly.
    pub fn is_durable(self) -> bool {
        !matches!(self, Method::SyncFileRange | Method::None)
    }

    /// Flags of `open(2)`.
    pub(crate) fn open_flags(self) -> OFlags {
        match self {
            Method::OpenSync => OFlags::SYNC,
            Method::OpenDatasync => OFlags::DSYNC,
            _ => OFlags::empty(),
        }
    }

    /// Flags of each write.
    pub(crate) fn write_flags(self) -> ReadWriteFlags {
        match self {
            Method::RwfSync => ReadWriteFlags::SYNC,
            Method::RwfDsync => ReadWriteFlags::DSYNC,
            _ => ReadWriteFlags::empty(),
        }
    }
}

/// The target of successive writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// Always the same offset of a file that was written before.
    Overwrite,
    /// The end of a growing file.
    Append,
    /// Consecutive offsets in space that `fallocate(2)` has reserved.
    Preallocated,
    /// Consecutive offsets in space that was filled with zeros.
    Zeroed,
}

impl Pattern {
    /// All of them.
    pub const ALL: [Pattern; 4] =
        [Pattern::Overwrite, Pattern::Append, Pattern::Preallocated, Pattern::Zeroed];

    /// The name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Pattern::Overwrite => "overwrite",
            Pattern::Append => "append",
            Pattern::Preallocated => "preallocated",
            Pattern::Zeroed => "zeroed",
        }
    }
}

/// Resources that several threads share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// Nothing: each has a file of its own.
    Own,
    /// The file; each thread syncs by itself.
    Shared,
    /// The file and the sync (group commit): the first thread writes the blocks of all waiting
    /// threads in one write, and syncs once.
    Grouped,
}

impl Sharing {
    /// All of them.
    pub const ALL: [Sharing; 3] = [Sharing::Own, Sharing::Shared, Sharing::Grouped];

    /// The name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Sharing::Own => "own",
            Sharing::Shared => "shared",
            Sharing::Grouped => "grouped",
        }
    }
}

/// The descriptor that is synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Descriptor {
    /// The descriptor that was written to, which stays open.
    Same,
    /// The descriptor that was written to; it is opened for each operation and closed afterwards.
    Reopened,
    /// A descriptor that was opened after the written one was closed.
    Other,
}

/// The section of the test that a case belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Section {
    /// Every method, with one write before the sync.
    Compare,
    /// Every method, with two writes before the sync.
    Two,
    /// The patterns of writing.
    Patterns,
    /// Sizes of writes.
    Sizes,
    /// The same bytes in one write or in several synced writes.
    OpenSizes,
    /// Numbers of threads.
    Threads,
    /// A sync on another descriptor.
    Descriptors,
    /// Writes without any sync.
    Unsynced,
    /// Combinations of the lists on the command line.
    Matrix,
}

impl Section {
    /// The sections of the default run.
    pub const DEFAULT: [Section; 8] = [
        Section::Compare,
        Section::Two,
        Section::Patterns,
        Section::Sizes,
        Section::OpenSizes,
        Section::Threads,
        Section::Descriptors,
        Section::Unsynced,
    ];

    /// The name in results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Section::Compare => "compare",
            Section::Two => "two",
            Section::Patterns => "patterns",
            Section::Sizes => "sizes",
            Section::OpenSizes => "open_sizes",
            Section::Threads => "threads",
            Section::Descriptors => "descriptors",
            Section::Unsynced => "unsynced",
            Section::Matrix => "matrix",
        }
    }

    /// The heading in the table.
    pub fn heading(self) -> &'static str {
        match self {
            Section::Compare => "every method, one write of 8 KiB",
            Section::Two => "every method, two writes of 8 KiB",
            Section::Patterns => {
                "where 8 KiB go: the end of a growing file, reserved space, space written with \
                 zeros"
            }
            Section::Sizes => "sizes of writes, one behind the other into zeros",
            Section::OpenSizes => "16 KiB in one write or several, each synced (open_sync)",
            Section::Threads => "threads, 8 KiB each: own files, or one sync for all who wait",
            Section::Descriptors => "fsync on the descriptor written to, and on another",
            Section::Unsynced => "writes that are not synced",
            Section::Matrix => "what was asked for",
        }
    }
}

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncCase {
    /// The section it belongs to.
    pub section: Section,
    /// The method of making writes durable.
    pub method: Method,
    /// Whether the file is open with `O_DIRECT`.
    pub direct: bool,
    /// The target of the writes.
    pub pattern: Pattern,
    /// Bytes of one write.
    pub size: u64,
    /// Number of writes before a sync; one operation consists of all these writes and the sync.
    pub writes: u32,
    /// Number of threads that write.
    pub threads: u32,
    /// The resources that the threads share.
    pub sharing: Sharing,
    /// The descriptor that is synced.
    pub descriptor: Descriptor,
}

impl SyncCase {
    /// A case of one thread that writes 8 KiB to the same offset.
    pub fn new(section: Section, method: Method, direct: bool) -> SyncCase {
        SyncCase {
            section,
            method,
            direct,
            pattern: Pattern::Overwrite,
            size: 8192,
            writes: 1,
            threads: 1,
            sharing: Sharing::Own,
            descriptor: Descriptor::Same,
        }
    }

    /// Bytes that one operation writes.
    pub(crate) fn span(&self) -> u64 {
        self.size * u64::from(self.writes)
    }
}

/// The default selection of one section.
pub fn selection(section: Section) -> Vec<SyncCase> {
    let case = |method, direct| SyncCase::new(section, method, direct);
    let both = |methods: &[Method]| -> Vec<SyncCase> {
        methods.iter().flat_map(|method| [case(*method, false), case(*method, true)]).collect()
    };
    let durable = &Method::ALL[..6];
    match section {
        Section::Compare => both(&Method::ALL[..7]),
        Section::Two => {
            both(durable).into_iter().map(|case| SyncCase { writes: 2, ..case }).collect()
        }
        Section::Patterns => [Pattern::Append, Pattern::Preallocated, Pattern::Zeroed]
            .into_iter()
            .flat_map(|pattern| {
                [Method::OpenDatasync, Method::Fdatasync]
                    .map(|method| SyncCase { pattern, ..case(method, true) })
            })
            .collect(),
        Section::Sizes => [512, 4096, 64 << 10, 1 << 20]
            .into_iter()
            .flat_map(|size| [Method::OpenDatasync, Method::Fdatasync].map(|method| (size, method)))
            .map(|(size, method)| SyncCase { size, pattern: Pattern::Zeroed, ..case(method, true) })
            .collect(),
        Section::OpenSizes => [1, 2, 4, 8, 16]
            .into_iter()
            .map(|writes| SyncCase {
                size: (16 << 10) / u64::from(writes),
                writes,
                ..case(Method::OpenSync, true)
            })
            .collect(),
        Section::Threads => [4, 16, 64]
            .into_iter()
            .flat_map(|threads| [Sharing::Own, Sharing::Grouped].map(|sharing| (threads, sharing)))
            .map(|(threads, sharing)| SyncCase {
                threads,
                sharing,
                pattern: Pattern::Zeroed,
                ..case(Method::Fdatasync, true)
            })
            .collect(),
        Section::Descriptors => [Descriptor::Reopened, Descriptor::Other]
            .into_iter()
            .map(|descriptor| SyncCase { descriptor, ..case(Method::Fsync, false) })
            .collect(),
        Section::Unsynced => both(&[Method::None]),
        Section::Matrix => Vec::new(),
    }
}

/// Lists of parameters; every combination is measured.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// Methods.
    pub methods: Vec<Method>,
    /// Whether to use `O_DIRECT`.
    pub direct: Vec<bool>,
    /// Patterns.
    pub patterns: Vec<Pattern>,
    /// Sizes of writes in bytes.
    pub sizes: Vec<u64>,
    /// Numbers of writes before a sync.
    pub writes: Vec<u32>,
    /// Numbers of threads.
    pub threads: Vec<u32>,
    /// The resources that threads share. A single thread is measured with [`Sharing::Own`] only.
    pub sharing: Vec<Sharing>,
}

impl Matrix {
    /// Every combination. The patterns vary slowest, followed by sizes, writes, threads, sharing
    /// and methods; `direct` varies fastest.
    pub fn cases(&self) -> Vec<SyncCase> {
        let mut cases: Vec<SyncCase> = Vec::new();
        for &pattern in &self.patterns {
            for &size in &self.sizes {
                for &writes in &self.writes {
                    for &threads in &self.threads {
                        for &sharing in
                            if threads == 1 { &[Sharing::Own][..] } else { &self.sharing }
                        {
                            for &method in &self.methods {
                                cases.extend(self.direct.iter().map(|&direct| SyncCase {
                                    pattern,
                                    size,
                                    writes,
                                    threads,
                                    sharing,
                                    ..SyncCase::new(Section::Matrix, method, direct)
                                }));
                            }
                        }
                    }
                }
            }
        }
        cases
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_run_has_what_pg_test_fsync_has_and_takes_a_minute_or_two() {
        let cases: Vec<SyncCase> = Section::DEFAULT.into_iter().flat_map(selection).collect();
        // At two seconds each, the run takes a minute or two.
        assert!((40..=60).contains(&cases.len()), "{}", cases.len());
        for writes in [1, 2] {
            for method in [Method::OpenDatasync, Method::Fdatasync, Method::Fsync, Method::OpenSync]
            {
                for direct in [false, true] {
                    let is_it = |case: &&SyncCase| {
                        (case.method, case.direct, case.writes, case.size, case.pattern)
                            == (method, direct, writes, 8192, Pattern::Overwrite)
                    };
                    assert!(cases.iter().any(|case| is_it(&case)), "{method:?} {direct} {writes}");
                }
            }
        }
        let open_sizes: Vec<u64> =
            selection(Section::OpenSizes).iter().map(SyncCase::span).collect();
        assert_eq!(open_sizes, [16384; 5]);
    }

    #[test]
    fn a_matrix_has_every_combination_once() {
        let matrix = Matrix {
            methods: Method::ALL.to_vec(),
            direct: vec![false, true],
            patterns: Pattern::ALL.to_vec(),
            sizes: vec![512, 4096],
            writes: vec![1],
            threads: vec![1, 8],
            sharing: Sharing::ALL.to_vec(),
        };
        let cases = matrix.cases();
        assert_eq!(cases.len(), 8 * 2 * 4 * 2 * (1 + 3));
        for (at, case) in cases.iter().enumerate() {
            assert!(!cases[..at].contains(case), "{case:?}");
        }
    }
}
