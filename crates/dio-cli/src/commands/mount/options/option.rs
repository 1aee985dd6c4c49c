//! The names of options, and why one is refused.

use crate::size::SizeError;

/// Why an option was refused. Each names the option and says what is possible.
#[derive(Debug, thiserror::Error)]
pub enum OptionError {
    /// There is no such option.
    #[error("unknown option '{option}' (possible: {})", [SETTINGS, FIXED].concat().join(", "))]
    Unknown {
        /// As it was given.
        option: String,
    },
    /// An option without the value that it needs.
    #[error("option '{option}' needs a value: {option}={example}")]
    NoValue {
        /// Its name.
        option: String,
        /// What could stand there.
        example: &'static str,
    },
    /// An option with a value that takes none.
    #[error("option '{option}' takes no value")]
    HasValue {
        /// Its name.
        option: String,
    },
    /// A value that is none of those possible.
    #[error("invalid value '{value}' of option '{option}' (possible: {possible})")]
    Value {
        /// Its name.
        option: String,
        /// As it was given.
        value: String,
        /// What could stand there.
        possible: &'static str,
    },
    /// A value that is no size.
    #[error("invalid value '{value}' of option '{option}': {error}")]
    Size {
        /// Its name.
        option: String,
        /// As it was given.
        value: String,
        /// What is wrong with it.
        error: SizeError,
    },
    /// A pattern that cannot be read.
    #[error("invalid pattern '{pattern}' of option '{option}': {error}")]
    Pattern {
        /// Its name.
        option: String,
        /// As it was given.
        pattern: String,
        /// What is wrong with it.
        error: String,
    },
    /// The smallest read-ahead is above the largest.
    #[error("readahead_min={min} is above readahead_max={max}")]
    ReadAhead {
        /// Bytes.
        min: u64,
        /// Bytes.
        max: u64,
    },
    /// It holds from mounting on.
    #[error("option '{option}' cannot be changed while mounted: unmount and mount again (possible: {})", SETTINGS.join(", "))]
    Fixed {
        /// As it was given.
        option: String,
    },
}

/// dio's own options, for messages: those that a running mount can change,
pub(super) const SETTINGS: &[&str] = &[
    "dio",
    "cio",
    "cached",
    "auto",
    "mode=",
    "dio=GLOB:…",
    "cio=GLOB:…",
    "cached=GLOB:…",
    "auto=GLOB:…",
    "norules",
    "readahead_min=",
    "readahead_max=",
    "write_behind=",
    "direct_from=",
    "limit=",
    "gather",
    "nogather",
    "native",
    "nonative",
];

/// and those that hold from mounting on.
pub(super) const FIXED: &[&str] = &[
    "lock=",
    "threads=",
    "io_uring",
    "no_io_uring",
    "remember=",
    "stats_file=",
    "stats_socket=",
    "ro",
    "rw",
    "allow_other",
    "default_permissions",
    "fsname=",
    "remount",
    "those of mount(8) such as nosuid, nodev, noexec, noatime",
];

/// Options that `mount(8)`, fstab, systemd and libfuse have, and that say nothing to the server.
pub(super) const IGNORED: &[&str] = &[
    "defaults",
    "noauto",
    "user",
    "nouser",
    "users",
    "nousers",
    "owner",
    "noowner",
    "group",
    "nogroup",
    "_netdev",
    "nofail",
    "nonempty",
    "_rnetdev",
    "mand",
    "nomand",
    "iversion",
    "noiversion",
];

/// The same with something behind them.
pub(super) const IGNORED_BEGINNINGS: &[&str] = &[
    "user=",
    "comment=",
    "x-",
    "X-",
    "uhelper=",
    "helper=",
    "subtype=",
    "user_id=",
    "group_id=",
    "rootmode=",
    "fd=",
    "max_read=",
    "blksize=",
];

/// Who wrote the options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A user of dio.
    User,
    /// `mount(8)`. `auto` is an option of fstab there; libmount removes it, other implementations
    /// may not. Options that are on for every file system unless they are turned off (`suid`,
    /// `dev`, `exec`) do not reach a helper: their absence means that they are on.
    Mount {
        /// Unknown options are passed over (`mount -s`).
        sloppy: bool,
    },
}

pub(super) fn is_ignored(option: &str, from: Origin) -> bool {
    IGNORED.contains(&option)
        || IGNORED_BEGINNINGS.iter().any(|beginning| option.starts_with(beginning))
        || (option == "auto" && matches!(from, Origin::Mount { .. }))
}
