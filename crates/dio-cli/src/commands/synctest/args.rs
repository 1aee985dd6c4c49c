//! The flags of `dio synctest`.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use dio_bench::synctest::witness::{Contact, WriterPlan};
use dio_bench::synctest::{Matrix, Method, Pattern, Section, Sharing, SynctestPlan, selection};

use crate::size::parse_size;

/// Find the fastest way to make writes durable here, and whether the disk keeps its word
///
/// By default every method is compared with one write and two, direct and not, then kinds of space,
/// sizes and numbers of threads; it takes two minutes, and ends with the settings to use. Lists for
/// one or more axes (--method, --direct, --pattern, --size, --writes, --threads, --sharing) measure
/// every combination of these instead.
///
/// The exit status is 0 when all was measured, 1 when something failed, 2 for a command line that
/// makes no sense, and 3 when the disk lied. Storage that is suspicious, or that does not claim to
/// be durable, is only reported. Only a power cut can prove that a disk keeps its word: see
/// --witness.
#[derive(Debug, clap::Args)]
#[command(
    group = clap::ArgGroup::new("matrix").multiple(true),
    group = clap::ArgGroup::new("knowing").multiple(true)
)]
pub struct SynctestArgs {
    /// A directory on the file system to test, or a file that does not exist; with --serve, the
    /// directory of the witness's records
    #[arg(value_name = "PATH")]
    pub(super) path: Option<PathBuf>,

    /// Seconds for each measurement [default: 2; with --witness: until it is stopped]
    #[arg(short, long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub(super) seconds: Option<Duration>,

    /// Measure only these parts of the default run
    #[arg(long, value_name = "PART", value_enum, value_delimiter = ',', conflicts_with = "matrix")]
    only: Vec<PartArg>,

    /// How writes are made durable
    #[arg(long, value_name = "METHOD", value_enum, value_delimiter = ',', group = "matrix")]
    method: Vec<MethodArg>,

    /// With O_DIRECT, without, or both
    #[arg(long, value_name = "WHEN", value_enum, value_delimiter = ',', group = "matrix")]
    direct: Vec<DirectArg>,

    /// Where writes go
    #[arg(long, value_name = "PATTERN", value_enum, value_delimiter = ',', group = "matrix")]
    pattern: Vec<PatternArg>,

    /// Bytes of each write, 512 to 1M
    #[arg(
        long,
        value_name = "SIZE",
        value_parser = parse_block,
        value_delimiter = ',',
        group = "matrix"
    )]
    size: Vec<u64>,

    /// Writes before each sync, 1 to 16
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=16),
        value_delimiter = ',',
        group = "matrix"
    )]
    writes: Vec<u32>,

    /// Threads that write, 1 to 64
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=64),
        value_delimiter = ',',
        group = "matrix"
    )]
    threads: Vec<u32>,

    /// What threads have in common
    #[arg(long, value_name = "WHAT", value_enum, value_delimiter = ',', group = "matrix")]
    sharing: Vec<SharingArg>,

    /// Every value of every axis that has no list: this takes hours
    #[arg(long, group = "matrix")]
    full: bool,

    /// Do not look whether the disk keeps its word
    #[arg(long)]
    no_honesty: bool,

    /// Bytes of the files that are written to [default: 16M; with --witness: 64M]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    file_size: Option<u64>,

    /// Overwrite PATH if it is a file or a block device: what is in it is lost
    #[arg(long)]
    pub(super) force: bool,

    /// Write numbered blocks and tell the witness at this address which of them the disk has
    /// acknowledged: then pull the plug
    #[arg(
        long,
        value_name = "HOST:PORT",
        group = "knowing",
        conflicts_with_all = ["only", "full", "serve", "no_honesty"]
    )]
    pub(super) witness: Option<String>,

    /// After the power cut: ask the witness, and report which blocks in PATH are lost
    #[arg(
        long,
        requires = "path",
        requires = "knowing",
        conflicts_with_all = [
            "only", "matrix", "force", "seconds", "file_size", "no_honesty", "serve"
        ]
    )]
    pub(super) check: bool,

    /// With --check: the record that a witness has kept, instead of the witness itself
    #[arg(
        long,
        value_name = "FILE",
        group = "knowing",
        requires = "check",
        conflicts_with = "witness"
    )]
    pub(super) record: Option<PathBuf>,

    /// With --check: the session, if the file does not name it
    #[arg(long, value_name = "ID", requires = "check")]
    pub(super) session: Option<String>,

    /// Be the witness: listen at this address (a port alone means this machine only), and keep the
    /// acknowledged numbers in PATH
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        conflicts_with_all = [
            "only", "matrix", "force", "seconds", "file_size", "no_honesty", "json"
        ]
    )]
    pub(super) serve: Option<String>,

    /// With --witness or --serve: a file with the secret that witness and writers share, which
    /// others may not read
    #[arg(long, value_name = "FILE")]
    pub(super) secret: Option<PathBuf>,

    /// How long the witness may be out of reach
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, default_value = "30")]
    pub(super) timeout: Duration,

    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,

    /// Show no progress
    #[arg(short, long)]
    pub(super) quiet: bool,
}

/// Parts of the default run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PartArg {
    /// Every method, one write of 8 KiB
    Compare,
    /// Every method, two writes
    Two,
    /// A growing file, reserved space, space written with zeros
    Patterns,
    /// 512 bytes to 1 MiB
    Sizes,
    /// 16 KiB in one write or several (open_sync)
    OpenSizes,
    /// Several threads
    Threads,
    /// fsync on another descriptor than written to
    Descriptors,
    /// Writes without a sync
    Unsynced,
    /// Whether the disk keeps its word
    Honesty,
}

/// Methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
enum MethodArg {
    /// O_DSYNC
    OpenDatasync,
    /// fdatasync(2) after the writes
    Fdatasync,
    /// fsync(2) after the writes
    Fsync,
    /// O_SYNC
    OpenSync,
    /// RWF_DSYNC with each write
    RwfDsync,
    /// RWF_SYNC with each write
    RwfSync,
    /// sync_file_range(2): not durable
    SyncFileRange,
    /// No sync: not durable
    None,
}

impl From<MethodArg> for Method {
    fn from(method: MethodArg) -> Method {
        match method {
            MethodArg::OpenDatasync => Method::OpenDatasync,
            MethodArg::Fdatasync => Method::Fdatasync,
            MethodArg::Fsync => Method::Fsync,
            MethodArg::OpenSync => Method::OpenSync,
            MethodArg::RwfDsync => Method::RwfDsync,
            MethodArg::RwfSync => Method::RwfSync,
            MethodArg::SyncFileRange => Method::SyncFileRange,
            MethodArg::None => Method::None,
        }
    }
}

/// Past the page cache or through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DirectArg {
    /// Past the page cache
    On,
    /// Through it
    Off,
}

/// Where writes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PatternArg {
    /// To one place, again and again
    Overwrite,
    /// To the end of a growing file
    Append,
    /// Into space that is reserved
    Preallocated,
    /// Into space that zeros were written to
    Zeroed,
}

impl From<PatternArg> for Pattern {
    fn from(pattern: PatternArg) -> Pattern {
        match pattern {
            PatternArg::Overwrite => Pattern::Overwrite,
            PatternArg::Append => Pattern::Append,
            PatternArg::Preallocated => Pattern::Preallocated,
            PatternArg::Zeroed => Pattern::Zeroed,
        }
    }
}

/// What threads share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SharingArg {
    /// Nothing: a file each
    Own,
    /// The file; each syncs for itself
    Shared,
    /// The file, and one sync for all who wait
    Grouped,
}

impl From<SharingArg> for Sharing {
    fn from(sharing: SharingArg) -> Sharing {
        match sharing {
            SharingArg::Own => Sharing::Own,
            SharingArg::Shared => Sharing::Shared,
            SharingArg::Grouped => Sharing::Grouped,
        }
    }
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "seconds are a number".to_owned())?;
    let time = Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?;
    if time.is_zero() { Err("it takes more than 0 seconds".to_owned()) } else { Ok(time) }
}

fn parse_block(text: &str) -> Result<u64, String> {
    let size = parse_size(text).map_err(|error| error.to_string())?;
    if (512..=1 << 20).contains(&size) {
        Ok(size)
    } else {
        Err("writes are of 512 bytes to 1 MiB".to_owned())
    }
}

/// Returns the values of a list or, if it is empty, all or the usual ones.
fn values<A: Copy, V: From<A> + Clone>(list: &[A], full: bool, all: &[V], usual: &[V]) -> Vec<V> {
    match list {
        [] if full => all.to_vec(),
        [] => usual.to_vec(),
        list => list.iter().copied().map(V::from).collect(),
    }
}

impl SynctestArgs {
    /// Returns the measurements to make.
    pub(super) fn plan(&self) -> SynctestPlan {
        let listed = self.full
            || !self.method.is_empty()
            || !self.direct.is_empty()
            || !self.pattern.is_empty()
            || !self.size.is_empty()
            || !self.writes.is_empty()
            || !self.threads.is_empty()
            || !self.sharing.is_empty();
        let parts: Vec<PartArg> = if self.only.is_empty() {
            PartArg::value_variants().to_vec()
        } else {
            self.only.clone()
        };
        let sections = parts.iter().filter_map(|part| section(*part));
        SynctestPlan {
            path: self.path.clone().unwrap_or_else(|| ".".into()),
            force: self.force,
            time: self.seconds.unwrap_or(Duration::from_secs(2)),
            file_size: self.file_size.unwrap_or(dio_bench::synctest::FILE_SIZE),
            cases: if listed {
                self.matrix().cases()
            } else {
                sections.flat_map(selection).collect()
            },
            honesty: !self.no_honesty && (listed || parts.contains(&PartArg::Honesty)),
        }
    }

    fn matrix(&self) -> Matrix {
        let direct: Vec<bool> = self.direct.iter().map(|direct| *direct == DirectArg::On).collect();
        let powers = |from: u32, to: u32| (from..=to).map(|power| 1 << power).collect::<Vec<u64>>();
        let threads: Vec<u32> = (0..=6).map(|power| 1 << power).collect();
        Matrix {
            methods: values(&self.method, self.full, &Method::ALL, &Method::ALL[..7]),
            direct: values(&direct, self.full, &[false, true], &[false, true]),
            patterns: values(&self.pattern, self.full, &Pattern::ALL, &[Pattern::Overwrite]),
            sizes: values(&self.size, self.full, &powers(9, 20), &[8192]),
            writes: values(&self.writes, self.full, &[1, 2], &[1]),
            threads: values(&self.threads, self.full, &threads, &[1]),
            sharing: values(
                &self.sharing,
                self.full,
                &Sharing::ALL,
                &[Sharing::Own, Sharing::Grouped],
            ),
        }
    }

    /// Returns the plan for writing to a witness, or the reason why that is impossible.
    pub(super) fn writer(&self, witness: Contact) -> Result<WriterPlan, String> {
        let Some(path) = self.path.clone() else {
            return Err("--witness needs a file that does not exist, or a directory".to_owned());
        };
        let single = |list: usize, flag: &str| match list {
            0 | 1 => Ok(()),
            _ => Err(format!("--witness takes one value of {flag}")),
        };
        single(self.method.len(), "--method")?;
        single(self.direct.len(), "--direct")?;
        single(self.pattern.len(), "--pattern")?;
        single(self.size.len(), "--size")?;
        let method = self.method.first().map_or(Method::Fdatasync, |method| (*method).into());
        if !method.is_durable() {
            return Err(format!(
                "--witness needs a --method that is durable, and {} is not",
                method.name()
            ));
        }
        if !self.writes.is_empty() || !self.threads.is_empty() || !self.sharing.is_empty() {
            return Err(
                "--witness writes one block at a time: no --writes, --threads or --sharing"
                    .to_owned(),
            );
        }
        let size = self.size.first().copied().unwrap_or(4096);
        if !size.is_power_of_two() {
            return Err("blocks for a witness have a power of two of bytes".to_owned());
        }
        Ok(WriterPlan {
            witness,
            path,
            force: self.force,
            method,
            direct: self.direct.first().is_none_or(|direct| *direct == DirectArg::On),
            pattern: self.pattern.first().map_or(Pattern::Zeroed, |pattern| (*pattern).into()),
            size,
            file_size: self.file_size.unwrap_or(64 << 20),
            time: self.seconds,
        })
    }
}

fn section(part: PartArg) -> Option<Section> {
    match part {
        PartArg::Compare => Some(Section::Compare),
        PartArg::Two => Some(Section::Two),
        PartArg::Patterns => Some(Section::Patterns),
        PartArg::Sizes => Some(Section::Sizes),
        PartArg::OpenSizes => Some(Section::OpenSizes),
        PartArg::Threads => Some(Section::Threads),
        PartArg::Descriptors => Some(Section::Descriptors),
        PartArg::Unsynced => Some(Section::Unsynced),
        PartArg::Honesty => None,
    }
}
