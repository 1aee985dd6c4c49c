//! Options that are fixed for the life of a mount, and settings that a running mount can change.

use std::sync::Arc;
use std::time::Duration;

use dio::lock::LockPolicy;
use globset::GlobMatcher;
use parking_lot::RwLock;

/// How the files of a mount do their I/O. The names are those of `mount` on JFS2: `dio`, `cio`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Bypasses the page cache; a write excludes overlapping reads and writes.
    Direct,
    /// Bypasses the page cache; reads and writes run in parallel. Only extensions, truncations and
    /// misaligned requests run alone.
    Concurrent,
    /// Uses the page cache.
    Cached,
    /// Large and streaming requests bypass the page cache; small and repeated ones use it.
    Auto,
}

impl Mode {
    /// All modes.
    pub const ALL: [Mode; 4] = [Mode::Direct, Mode::Concurrent, Mode::Cached, Mode::Auto];

    /// The mode's name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Direct => "direct",
            Mode::Concurrent => "concurrent",
            Mode::Cached => "cached",
            Mode::Auto => "auto",
        }
    }
}

/// Assigns a mode to files whose path matches a pattern.
#[derive(Debug, Clone)]
pub struct Rule {
    /// The pattern is matched against the path relative to the source. A pattern without a slash is
    /// matched against the last component.
    pub pattern: GlobMatcher,
    /// The mode of matching files.
    pub mode: Mode,
}

/// Determines the mode of a file by its path: the first rule that matches, else the default.
#[derive(Debug, Clone)]
pub struct Rules {
    /// The rules, in the order in which they were given.
    pub rules: Vec<Rule>,
    /// The mode of files that no rule matches.
    pub default: Mode,
}

/// Settings that a running mount can change. A request uses the settings that were valid when it
/// began.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The mode by path, for files that are opened from now on.
    pub rules: Rules,
    /// First and largest read-ahead of a stream, in bytes; a largest value of 0 disables
    /// read-ahead.
    pub read_ahead: (u64, u64),
    /// Bytes of one file that may be acknowledged and not yet written. With 0, a write is
    /// acknowledged when it is written.
    pub write_behind: u64,
    /// In [`Mode::Auto`], requests of at least this many bytes are direct.
    pub direct_from: u64,
    /// Memory of the server for blocks of files and for inodes, in bytes.
    pub limit: u64,
    /// Lets the kernel gather small reads into large requests, in its page cache of the mount. This
    /// applies to handles that are open for reading only, without `O_DIRECT`, if no other handle of
    /// the file is open for writing. Pages behind the reader are dropped from the cache. Such a
    /// read is no longer atomic with respect to writes through handles that are opened later, and
    /// those writes are not parallel while the reader's handle is open.
    pub gather: bool,
    /// Lets the kernel read and write the source by itself, for handles with `O_DIRECT` in
    /// [`Mode::Concurrent`]. This needs a mount made by root, no other handle that prevents it, and
    /// a file system that reports its alignment for direct I/O; the requests must have that
    /// alignment. The kernel runs one write to a file at a time, unless the writes are
    /// asynchronous.
    pub native: bool,
    /// How fast programs may read and write.
    pub throttle: ThrottleSettings,
}

/// How fast programs may read and write below a mount. While a limit is set, the kernel does no I/O
/// of files that are opened then on the source itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThrottleSettings {
    /// Bytes per second, of all reads and writes together.
    pub rate: Option<u64>,
    /// Programs are slowed down while a small read of the device takes longer than this.
    pub latency: Option<Duration>,
}

impl ThrottleSettings {
    /// Lowest rate in bytes per second. A request has up to 1 MiB, or 4 MiB if the mount got its
    /// limit later, and a program cannot be killed while its request waits.
    pub const RATE_MIN: u64 = 256 << 10;

    /// Whether there is a limit.
    pub fn is_on(&self) -> bool {
        self.rate.is_some() || self.latency.is_some()
    }
}

/// Settings that threads share and that can be replaced.
#[derive(Debug, Clone)]
pub struct Live(Arc<RwLock<Arc<Settings>>>);

impl Live {
    /// Shares the initial settings.
    pub fn new(settings: Settings) -> Live {
        Live(Arc::new(RwLock::new(Arc::new(settings))))
    }

    /// Returns the current settings.
    pub fn get(&self) -> Arc<Settings> {
        Arc::clone(&self.0.read())
    }

    /// Replaces the settings.
    pub fn set(&self, settings: Settings) {
        *self.0.write() = Arc::new(settings);
    }
}

/// The channel by which requests come from the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rings {
    /// Through io_uring where kernel and system allow it, else through the device.
    #[default]
    Preferred,
    /// Through io_uring; an error where that is not possible.
    Required,
    /// Through the device.
    Never,
}

/// Whether idle processors poll while many requests arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IdlePolling {
    /// On virtual machines, where the system allows it.
    #[default]
    Preferred,
    /// They do; an error where the system does not allow it.
    Required,
    /// They do what they do without the mount.
    Never,
}

/// The options of a new mount.
#[derive(Debug, Clone)]
pub struct MountOptions {
    /// Settings that can change later.
    pub settings: Settings,
    /// The I/O that a write excludes in [`Mode::Direct`]: in its range, or in the whole file.
    pub lock: LockPolicy,
    /// Whether the mount refuses changes.
    pub read_only: bool,
    /// Whether users other than the mounting user may enter. The permissions of the source are then
    /// checked.
    pub allow_other: bool,
    /// Whether the kernel checks permissions by owner, group, mode and ACL.
    pub default_permissions: bool,
    /// Number of threads that serve requests.
    pub threads: usize,
    /// The channel by which requests come.
    pub rings: Rings,
    /// Whether idle processors poll while many requests arrive.
    pub idle_polling: IdlePolling,
    /// How long the kernel may cache names and attributes.
    pub remember: Duration,
    /// Whether set-user-ID programs and device files work unless `flags` turn them off, as on any
    /// file system that root mounts by `mount(8)`. If false, they work only if `flags` turn them
    /// on. Ordinary users cannot enable either.
    pub suid_and_dev: bool,
    /// Further options of `mount(8)` for the kernel: `nosuid`, `nodev`, `noexec`, `noatime`,
    /// `dirsync`, …
    pub flags: Vec<String>,
    /// The source's name in the table of mounts.
    pub source_name: String,
}

impl MountOptions {
    /// Returns the channel by which requests come, given the other options. With the whole-file
    /// lock, a write that waits for another write is set aside; with a ring it would block a thread
    /// that other requests need. On a shared mount each user has a share of the threads, but rings
    /// would serve requests in the kernel's order.
    pub fn effective_rings(&self) -> Rings {
        match (self.rings, self.lock) {
            (Rings::Preferred, _) if self.allow_other => Rings::Never,
            (Rings::Preferred, LockPolicy::WholeFile) => Rings::Never,
            (rings, _) => rings,
        }
    }
}

impl Rules {
    /// Returns the mode of the file at `path`, which is relative to the source, without a leading
    /// slash.
    pub fn mode_of(&self, path: &std::path::Path) -> Mode {
        self.rules.iter().find(|rule| rule.matches(path)).map_or(self.default, |rule| rule.mode)
    }
}

impl Rule {
    fn matches(&self, path: &std::path::Path) -> bool {
        let whole = self.pattern.glob().glob().contains('/');
        if whole {
            self.pattern.is_match(path)
        } else {
            path.file_name().is_some_and(|name| self.pattern.is_match(name))
        }
    }
}
