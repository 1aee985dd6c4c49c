//! What a mount is told: fixed options, and settings that a running mount can change.

use std::sync::Arc;
use std::time::Duration;

use dio::lock::LockPolicy;
use globset::GlobMatcher;
use parking_lot::RwLock;

/// How the files of a mount do their I/O. The names are those of `mount` on JFS2: `dio`, `cio`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Past the page cache; a write excludes overlapping reads and writes.
    Direct,
    /// Past the page cache; reads and writes run in parallel, alone only to extend, to truncate or
    /// misaligned.
    Concurrent,
    /// Through the page cache.
    Cached,
    /// Large and streaming requests past the page cache, small and re-read ones through it.
    Auto,
}

impl Mode {
    /// All of them.
    pub const ALL: [Mode; 4] = [Mode::Direct, Mode::Concurrent, Mode::Cached, Mode::Auto];

    /// The word for it in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Direct => "direct",
            Mode::Concurrent => "concurrent",
            Mode::Cached => "cached",
            Mode::Auto => "auto",
        }
    }
}

/// Files whose path matches have this mode.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Matched against the path relative to the source and, where the pattern has no slash, against
    /// the last name.
    pub pattern: GlobMatcher,
    /// The mode of what matches.
    pub mode: Mode,
}

/// The mode of a file by its path: the first rule that matches, else the default.
#[derive(Debug, Clone)]
pub struct Rules {
    /// In the order in which they were given.
    pub rules: Vec<Rule>,
    /// The mode of what no rule matches.
    pub default: Mode,
}

/// What a running mount can change. A request works with the settings that it found when it began.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Mode by path; holds for opens from now on.
    pub rules: Rules,
    /// First and largest read-ahead of a stream, in bytes; a largest of 0 is none.
    pub read_ahead: (u64, u64),
    /// Bytes of one file that may be acknowledged and not yet written; 0: a write is acknowledged
    /// when it is written.
    pub write_behind: u64,
    /// Requests of at least so many bytes are direct in [`Mode::Auto`].
    pub direct_from: u64,
    /// Memory of the server for blocks of files and for inodes, in bytes.
    pub limit: u64,
    /// Handles for reading only, without `O_DIRECT`, of files that nobody has open for writing, let
    /// the kernel gather small reads into large requests in its cache of the mount, which is
    /// dropped behind the reader. A read is then no longer atomic to the writes of those who open
    /// the file later, and those writes are not parallel while it is open.
    pub gather: bool,
    /// Handles with `O_DIRECT` in [`Mode::Concurrent`] have the kernel do their reads and writes on
    /// the source by itself, where no other handle keeps it from that, the mount is root's, and the
    /// file system reports how direct I/O is to be aligned, which these requests then must be. The
    /// kernel lets in one write to a file at a time, unless they are asynchronous.
    pub native: bool,
}

/// Settings that threads share and one may replace.
#[derive(Debug, Clone)]
pub struct Live(Arc<RwLock<Arc<Settings>>>);

impl Live {
    /// To begin with.
    pub fn new(settings: Settings) -> Live {
        Live(Arc::new(RwLock::new(Arc::new(settings))))
    }

    /// The settings of this moment.
    pub fn get(&self) -> Arc<Settings> {
        Arc::clone(&self.0.read())
    }

    /// Others from now on.
    pub fn set(&self, settings: Settings) {
        *self.0.write() = Arc::new(settings);
    }
}

/// By what way requests come from the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rings {
    /// By io_uring where kernel and system allow it, else by the device.
    #[default]
    Preferred,
    /// By io_uring; an error where that cannot be.
    Required,
    /// By the device.
    Never,
}

/// What a mount is told when it is made.
#[derive(Debug, Clone)]
pub struct Options {
    /// What can change later.
    pub settings: Settings,
    /// What a write excludes in [`Mode::Direct`]: its range, or all I/O of its file.
    pub lock: LockPolicy,
    /// Nothing may be changed.
    pub read_only: bool,
    /// Users other than the one who mounts may enter; permissions are then those of the source.
    pub allow_other: bool,
    /// The kernel checks permissions by owner, group, mode and ACL.
    pub default_permissions: bool,
    /// Threads that serve requests.
    pub threads: usize,
    /// By what way requests come.
    pub rings: Rings,
    /// How long the kernel may believe names and attributes without asking.
    pub remember: Duration,
    /// Set-user-ID programs and device files work unless `flags` turn them off, as on any file
    /// system that root mounts by `mount(8)`; without this, they work only if `flags` turn them on.
    /// Users cannot have either.
    pub suid_and_dev: bool,
    /// Further options of `mount(8)` for the kernel: `nosuid`, `nodev`, `noexec`, `noatime`,
    /// `dirsync`, …
    pub flags: Vec<String>,
    /// The source as the table of mounts shows it.
    pub source_name: String,
}

impl Options {
    /// By what way requests come if the other options are looked at. With the lock of the file, a
    /// write that waits for another is put aside; with a ring it would keep the thread that others
    /// need. Of a shared mount each user has a share of the threads, while rings serve what the
    /// kernel gives them.
    pub fn way(&self) -> Rings {
        match (self.rings, self.lock) {
            (Rings::Preferred, _) if self.allow_other => Rings::Never,
            (Rings::Preferred, LockPolicy::WholeFile) => Rings::Never,
            (rings, _) => rings,
        }
    }
}

impl Rules {
    /// The mode of the file at `path`, relative to the source, without a slash at its beginning.
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
