//! The names of options, and the reasons why one is rejected.

use crate::size::SizeError;

/// Why an option was rejected. Each message names the option and the possible values.
#[derive(Debug, thiserror::Error)]
pub enum OptionError {
    /// There is no such option.
    #[error("unknown option '{option}' (possible: {})", [SETTINGS, FIXED].concat().join(", "))]
    Unknown {
        /// The option as it was given.
        option: String,
    },
    /// The option needs a value and has none.
    #[error("option '{option}' needs a value: {option}={example}")]
    NoValue {
        /// The name of the option.
        option: String,
        /// An example of a value.
        example: &'static str,
    },
    /// The option has a value and takes none.
    #[error("option '{option}' takes no value")]
    HasValue {
        /// The name of the option.
        option: String,
    },
    /// The value is not one of the possible ones.
    #[error("invalid value '{value}' of option '{option}' (possible: {possible})")]
    Value {
        /// The name of the option.
        option: String,
        /// The value as it was given.
        value: String,
        /// The possible values.
        possible: &'static str,
    },
    /// The value is not a size.
    #[error("invalid value '{value}' of option '{option}': {error}")]
    Size {
        /// The name of the option.
        option: String,
        /// The value as it was given.
        value: String,
        /// The error of the parser.
        error: SizeError,
    },
    /// The pattern cannot be parsed.
    #[error("invalid pattern '{pattern}' of option '{option}': {error}")]
    Pattern {
        /// The name of the option.
        option: String,
        /// The pattern as it was given.
        pattern: String,
        /// The error of the parser.
        error: String,
    },
    /// The minimum of the read-ahead is above the maximum.
    #[error("readahead_min={min} is above readahead_max={max}")]
    ReadAhead {
        /// The minimum in bytes.
        min: u64,
        /// The maximum in bytes.
        max: u64,
    },
    /// The option can only be set when mounting.
    #[error("option '{option}' cannot be changed while mounted: unmount and mount again (possible: \
             {})", SETTINGS.join(", "))]
    Fixed {
        /// The option as it was given.
        option: String,
    },
}

/// dio's own options that a running mount can change, as messages list them.
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
    "rate=",
    "latency=",
    "profile=backup",
];

/// dio's own options that can only be set when mounting, as messages list them.
pub(super) const FIXED: &[&str] = &[
    "lock=",
    "threads=",
    "io_uring",
    "no_io_uring",
    "idle_poll",
    "no_idle_poll",
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

/// Options of `mount(8)`, fstab, systemd and libfuse that do not concern the server.
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

/// The beginnings of such options that have a value.
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

/// The author of the options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A user of dio.
    User,
    /// `mount(8)`. With this origin, `auto` is an option of fstab; libmount removes it, other
    /// implementations may not. Options that are on for every file system unless they are turned
    /// off (`suid`, `dev`, `exec`) are not passed to a helper: their absence means that they are
    /// on.
    Mount {
        /// Unknown options are ignored (`mount -s`).
        sloppy: bool,
    },
}

pub(super) fn is_ignored(option: &str, from: Origin) -> bool {
    IGNORED.contains(&option)
        || IGNORED_BEGINNINGS.iter().any(|beginning| option.starts_with(beginning))
        || (option == "auto" && matches!(from, Origin::Mount { .. }))
}
