//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::compare::backups::BackupNames;
use crate::compare::clients::Database;
use crate::compare::neighbours::attack::Attack;
use crate::compare::neighbours::users::Users;
use dio_common::size::parse_positive_size;

/// Compare dio with other programs: interleaved rounds, medians, recorded
#[derive(Parser)]
#[command(name = "benchsuite", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) what: SuiteCommand,
    #[command(flatten)]
    pub(crate) options: SuiteOptions,
}

#[derive(Clone, Args)]
pub(crate) struct SuiteOptions {
    /// Rounds [default: 5 with --record, else as many up to 5 as end within five minutes by the
    /// newest record]
    #[arg(long = "runs", global = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: Option<u32>,
    /// Rounds of the current comparison.
    #[arg(skip = 1u32)]
    pub(crate) runs: u32,
    /// Directory on the disk to measure; data stays there for the next run
    #[arg(long, global = true, default_value = "/var/tmp/dio-benchsuite")]
    pub(crate) dir: PathBuf,
    /// Bytes to copy [default: copy and random 4G, loop 2G, hotset 8G, streams 1G and 4G, gzip,
    /// mount and neighbours 1G]
    #[arg(long, global = true, value_parser = parse_positive_size)]
    pub(crate) size: Option<u64>,
    /// Files in the tree
    #[arg(
        long,
        global = true,
        default_value_t = 30_000,
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    pub(crate) files: u64,
    /// Seconds of each run of random, of random I/O below a mount, of neighbours, and of the hot
    /// set alone [default: 5, mount and neighbours 2]
    #[arg(long, global = true, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seconds: Option<u64>,
    /// A built dio instead of one built from this source
    #[arg(long, global = true)]
    pub(crate) dio: Option<PathBuf>,
    /// Write runs/DATE-NAME.json and .md, and the table in README.md
    #[arg(long, global = true)]
    pub(crate) record: bool,
    /// Touch all free memory before copy: what is new to a virtual machine makes the page cache
    /// dear
    #[arg(long, global = true)]
    pub(crate) used_memory: bool,
    /// One more run of dio under perf, the most expensive functions to standard error (copy, tree,
    /// loop)
    #[arg(long, global = true)]
    pub(crate) profile: bool,
}

impl SuiteOptions {
    /// The same options as arguments, for starting this program as a child.
    pub(crate) fn to_args(&self) -> Vec<OsString> {
        let mut args: Vec<OsString> = Vec::new();
        let mut pair = |name: &str, value: OsString| args.extend([OsString::from(name), value]);
        if let Some(rounds) = self.rounds {
            pair("--runs", rounds.to_string().into());
        }
        pair("--dir", self.dir.clone().into());
        pair("--files", self.files.to_string().into());
        if let Some(seconds) = self.seconds {
            pair("--seconds", seconds.to_string().into());
        }
        if let Some(size) = self.size {
            pair("--size", size.to_string().into());
        }
        if let Some(dio) = &self.dio {
            pair("--dio", dio.clone().into());
        }
        args.extend(self.record.then(|| "--record".into()));
        args.extend(self.used_memory.then(|| "--used-memory".into()));
        args.extend(self.profile.then(|| "--profile".into()));
        args
    }
}

#[derive(Subcommand)]
pub(crate) enum SuiteCommand {
    /// One large file, cold: dio, cp, dd, nocache, cpz, xcp and the disk's own limit
    Copy,
    /// Many small files, cold and warm: dio, cp, cpz, xcp
    Tree,
    /// Files of one size, each the small way and directly
    Threshold,
    /// One large file on a disk of memory, where the CPU is the limit: dio, dd
    Loop,
    /// Random reads of 4 KiB at depth 1, 32 and 128: dio, fio
    Random,
    /// Reading and writing from Python: dio, open, numpy, os.preadv, directio, safetensors
    Python,
    /// What a copy does to a process that reads a cached hot set: dio, cp, no copy
    Hotset,
    /// What backup programs do to a process that reads a cached hot set: restic, borg, rsync,
    /// rclone, tar, grep, bare, below `dio run`, by nocache and by ionice; dio cp and dio tar; or
    /// what they do to PostgreSQL or MariaDB
    Backups(BackupNames),
    /// The cost of dropping pages when 1, 8 and 64 programs do it at once, and its effect on those
    /// of others: dio cp, nocache cp, cp
    Evictions,
    /// Reading in steps of 1 byte, 4 KiB and 10 MiB, cached and direct, by dio
    Increments,
    /// Passing one large file, cold: cat, dd and cksum, of dio and of GNU, and the disk's own limit
    Tools,
    /// Digests of one large file, cold: dio, coreutils, openssl, b3sum
    Sums,
    /// Archives of large files and of small ones, made and extracted, cold: tar, of dio and of GNU
    Tar,
    /// Counting lines that are the same, in text of three kinds, cold: uniq, of dio and of GNU
    Uniq,
    /// Compression of text, libraries and a database, and back, cold: dio, pigz, zstd
    Gzip,
    /// Sorting text four times as large as memory, cold: as bytes, as numbers, by two keys: sort,
    /// of dio and of GNU
    Sort,
    /// SQLite with a database larger than memory: the VFS `dio`, the default one
    SqliteVfs,
    /// Streams in steps of 1 byte and 4 KiB, many in one file, and at random: dio, the page cache,
    /// the disk's own limit
    Streams,
    /// Reads and writes below a mount: direct, concurrent, cached, and the file system itself
    Mount,
    /// Names below a mount: git status, tar x and find, beside the file system itself and bindfs
    MountNames,
    /// Four processes that write and read one file below a mount, in requests of 64 KiB to 16 MiB:
    /// the file system itself, the mount by default, concurrent, native
    MountShared,
    /// An honest user beside a hostile one, in one directory and below a mount of it: response
    /// times under each attack
    Neighbours(Users),
    /// Durable commits: dio's log, pg_test_fsync, SQLite, RocksDB, redb, a plain flush; appending
    /// in large steps, and recovery
    Wal,
    /// Predictions of `dio advise` for commands of several kinds, beside the times that they take
    Advise,
    /// Copies shared by several processes: dio-mpi with 1 to 8 ranks, dio cp, going on after a kill
    Cluster,
    /// Copies shared by four processes: dio-mpi, fpart, xargs, parallel, rclone
    ClusterPeers,
    /// All of them
    All,
    /// The rest of `loop`, in a mount namespace of its own
    #[command(hide = true)]
    LoopInside,
    /// The load of `wal` on one of the stores: prints JSON
    #[command(hide = true)]
    Commits {
        /// sqlite, rocksdb, redb, or flush: one block overwritten and synced
        store: String,
        /// An empty directory
        place: PathBuf,
        /// Threads that commit
        clients: usize,
        /// Bytes of a record
        bytes: usize,
    },
    /// The reader of `hotset` and `backups`: reads FILE at random until standard input ends
    #[command(hide = true)]
    HotReader {
        file: PathBuf,
        /// Read once in so many microseconds [default: without a rest]
        #[arg(long, value_name = "MICROSECONDS")]
        every: Option<u64>,
    },
    /// The database of `backups --beside`: answers point queries until standard input ends
    #[command(hide = true)]
    DatabaseClients { database: Database, dir: PathBuf },
    /// The honest user of `neighbours`: reads and makes files in DIR, prints JSON
    #[command(hide = true)]
    Honest { dir: PathBuf },
    /// A process of the hostile user of `neighbours`: attacks below DIR until it is killed
    #[command(hide = true)]
    Hostile {
        dir: PathBuf,
        attack: Attack,
        /// Of this process among those of the attack
        number: u32,
    },
    /// Holds leases or locks that so many processes of an attack wait for, until standard input
    /// ends
    #[command(hide = true)]
    Hold { dir: PathBuf, attack: Attack, processes: u32 },
    /// Write the table in README.md again from the records
    Readme,
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::Cli;

    #[test]
    fn options_survive_the_way_to_a_program_of_its_own() {
        Cli::command().debug_assert();
        let line = [
            "benchsuite",
            "copy",
            "--runs",
            "7",
            "--size",
            "256M",
            "--record",
            "--dio",
            "/bin/true",
        ];
        let first = Cli::try_parse_from(line).expect("parses").options;
        let args = ["benchsuite".into(), "loop-inside".into()].into_iter().chain(first.to_args());
        let second = Cli::try_parse_from(args).expect("parses").options;
        assert_eq!(
            (second.rounds, second.size, second.record, second.profile),
            (Some(7), Some(256 << 20), true, false)
        );
        assert_eq!((second.dir, second.dio), (first.dir, first.dio));
    }
}
