//! The text behind `-o`: dio's own options, those of `mount(8)` that the kernel takes, and those that are only for `mount(8)`
//! and fstab and mean nothing here.

mod change;
mod list;
mod pattern;
mod text;

use std::path::Path;
use std::thread;
use std::time::Duration;

use dio::lock::LockPolicy;
use dio_mount::control::Exports;
use dio_mount::session::is_kernel_option;
use dio_mount::{Mode, Options, Rings, Rules, Settings};

use crate::size::{SizeError, parse_size};

pub(super) use change::divide;
pub use change::parse_change;
pub use text::text_of;

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
const SETTINGS: &[&str] = &[
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
const FIXED: &[&str] = &[
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
const IGNORED: &[&str] = &[
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
const IGNORED_BEGINNINGS: &[&str] = &[
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
    /// `mount(8)`. `auto` is an option of fstab there; libmount removes it, other implementations may not. Options that are
    /// on for every file system unless they are turned off (`suid`, `dev`, `exec`) do not reach a helper: their absence means
    /// that they are on.
    Mount {
        /// Unknown options are passed over (`mount -s`).
        sloppy: bool,
    },
}

/// What the options say.
#[derive(Debug, Clone)]
pub struct Given {
    /// For a mount.
    pub options: Options,
    /// To change a running mount instead.
    pub remount: bool,
    /// Where statistics go.
    pub exports: Exports,
    /// The source was named otherwise than by its path.
    named: bool,
}

impl Given {
    /// The options with the source by its path unless it was named.
    pub fn for_source(mut self, source: &Path) -> Options {
        if !self.named {
            self.options.source_name = source.to_string_lossy().into_owned();
        }
        self.options
    }
}

/// What holds where nothing is said.
///
/// Read-ahead begins with 256 KiB and grows to 8 MiB, which keeps a disk busy (one request of 1 MiB at a time nearly does).
/// `direct_from` is below 1 MiB, the largest request that the kernel sends. There are more threads than processors since a
/// thread waits for the disk while it serves a request.
pub fn defaults() -> Options {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let settings = Settings {
        rules: Rules { rules: Vec::new(), default: Mode::Direct },
        read_ahead: (256 << 10, 8 << 20),
        write_behind: 16 << 20,
        direct_from: 256 << 10,
        limit: 256 << 20,
        gather: true,
        native: false,
    };
    Options {
        settings,
        lock: LockPolicy::Range,
        read_only: false,
        allow_other: false,
        default_permissions: false,
        threads: (4 * processors).clamp(16, 64),
        rings: Rings::default(),
        remember: Duration::from_secs(1),
        flags: Vec::new(),
        suid_and_dev: false,
        source_name: "dio".to_owned(),
    }
}

/// Reads what a user of dio wrote behind one `-o`; see [`read`].
///
/// # Errors
/// As [`read`].
pub fn parse(text: &str) -> Result<Options, OptionError> {
    Ok(read(&[text.to_owned()], Origin::User)?.options)
}

/// Reads the texts of all `-o`, in their order; of what contradicts itself the last counts, but `cio` implies and overrides
/// `dio`, as `O_CIO` of JFS2 does.
///
/// # Errors
/// [`OptionError`] names the first option that is wrong.
pub fn read(texts: &[String], from: Origin) -> Result<Given, OptionError> {
    let options = Options { suid_and_dev: matches!(from, Origin::Mount { .. }), ..defaults() };
    let mut given = Given { options, remount: false, exports: Exports::default(), named: false };
    let mut change = list::Changes::default();
    for option in texts.iter().flat_map(|text| list::split(text)) {
        let (name, value) = list::parts(option);
        if is_ignored(option, from) || change.take(name, value)? || fixed(&mut given, option, name, value)? {
            continue;
        }
        if !matches!(from, Origin::Mount { sloppy: true }) {
            return Err(OptionError::Unknown { option: option.to_owned() });
        }
    }
    given.options.settings = change.apply(given.options.settings)?;
    Ok(given)
}

fn is_ignored(option: &str, from: Origin) -> bool {
    IGNORED.contains(&option)
        || IGNORED_BEGINNINGS.iter().any(|beginning| option.starts_with(beginning))
        || (option == "auto" && matches!(from, Origin::Mount { .. }))
}

/// Takes an option that holds from mounting on; false if it is none.
fn fixed(given: &mut Given, option: &str, name: &str, value: Option<&str>) -> Result<bool, OptionError> {
    let options = &mut given.options;
    match name {
        "remount" => given.remount = list::without(name, value)?,
        "ro" => options.read_only = list::without(name, value)?,
        "rw" => options.read_only = !list::without(name, value)?,
        "allow_other" => options.allow_other = list::without(name, value)?,
        "default_permissions" => options.default_permissions = list::without(name, value)?,
        "fsname" => {
            options.source_name = list::needed(name, value, "NAME")?.to_owned();
            given.named = true;
        }
        "lock" => {
            options.lock = match list::needed(name, value, "range")? {
                "range" => LockPolicy::Range,
                "file" => LockPolicy::WholeFile,
                other => return Err(list::invalid(name, other, "range, file")),
            }
        }
        "threads" => {
            let value = list::needed(name, value, "16")?;
            let threads = value.parse().ok().filter(|threads| (1..=1024).contains(threads));
            options.threads = threads.ok_or_else(|| list::invalid(name, value, "1 to 1024"))?;
        }
        "io_uring" => options.rings = list::without(name, value).map(|_| Rings::Required)?,
        "no_io_uring" => options.rings = list::without(name, value).map(|_| Rings::Never)?,
        "stats_file" => given.exports.file = Some(list::absolute(name, value)?),
        "stats_socket" => given.exports.socket = Some(list::absolute(name, value)?),
        "remember" | "attr_timeout" | "entry_timeout" => {
            let value = list::needed(name, value, "1.0")?;
            let seconds = value.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            options.remember =
                seconds.ok_or_else(|| list::invalid(name, value, "seconds, with a fraction if need be"))?;
        }
        _ if is_kernel_option(option) => options.flags.push(option.to_owned()),
        _ => return Ok(false),
    }
    Ok(true)
}

/// A size in bytes; 0 is allowed.
fn size(name: &str, value: Option<&str>) -> Result<u64, OptionError> {
    let value = list::needed(name, value, "8M")?;
    parse_size(value).map_err(|error| OptionError::Size { option: name.to_owned(), value: value.to_owned(), error })
}

#[cfg(test)]
mod tests;
