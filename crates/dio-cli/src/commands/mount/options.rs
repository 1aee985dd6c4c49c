//! Parses the text behind `-o`: dio's own options, options of `mount(8)` that are passed to the
//! kernel, and options that only concern `mount(8)` and fstab and are ignored here.

mod change;
mod list;
mod option;
mod pattern;
mod text;

use std::path::Path;
use std::thread;
use std::time::Duration;

use dio::lock::LockPolicy;
use dio_mount::control::Exports;
use dio_mount::options::ThrottleSettings;
use dio_mount::session::is_kernel_option;
use dio_mount::{IdlePolling, Mode, MountOptions, Rings, Rules, Settings};

pub(super) use change::divide;
pub use change::parse_change;
use option::is_ignored;
pub use option::{OptionError, Origin};
pub use text::text_of;

/// The parsed options.
#[derive(Debug, Clone)]
pub struct ParsedOptions {
    /// The options for a mount.
    pub options: MountOptions,
    /// Whether to change a running mount instead.
    pub remount: bool,
    /// The destinations of statistics.
    pub exports: Exports,
    /// Whether an option set the name of the source.
    named: bool,
}

impl ParsedOptions {
    /// Returns the options; the source is named by its path unless an option named it.
    pub fn for_source(mut self, source: &Path) -> MountOptions {
        if !self.named {
            self.options.source_name = source.to_string_lossy().into_owned();
        }
        self.options
    }
}

/// The default options.
///
/// Read-ahead begins with 256 KiB and grows to 8 MiB, which keeps a disk busy (one request of 1 MiB
/// at a time nearly does). `direct_from` is below 1 MiB, the largest request that the kernel sends
/// to every mount. There are more threads than processors, because a thread waits for the disk
/// while it serves a request.
pub fn defaults() -> MountOptions {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let settings = Settings {
        rules: Rules { rules: Vec::new(), default: Mode::Direct },
        read_ahead: (256 << 10, 8 << 20),
        write_behind: 16 << 20,
        direct_from: 256 << 10,
        limit: 256 << 20,
        gather: true,
        native: false,
        throttle: ThrottleSettings::default(),
    };
    MountOptions {
        settings,
        lock: LockPolicy::Range,
        read_only: false,
        allow_other: false,
        default_permissions: false,
        threads: (4 * processors).clamp(16, 64),
        rings: Rings::default(),
        idle_polling: IdlePolling::default(),
        remember: Duration::from_secs(1),
        flags: Vec::new(),
        suid_and_dev: false,
        source_name: "dio".to_owned(),
    }
}

/// Parses what a user of dio wrote behind one `-o`; see [`read`].
///
/// # Errors
/// Errors of [`read`].
pub fn parse(text: &str) -> Result<MountOptions, OptionError> {
    Ok(read(&[text.to_owned()], Origin::User)?.options)
}

/// Parses the texts of all `-o`, in their order. Of contradictory options the last counts, except
/// that `cio` implies and overrides `dio`, as `O_CIO` of JFS2 does.
///
/// # Errors
/// [`OptionError`] names the first option that is wrong.
pub fn read(texts: &[String], from: Origin) -> Result<ParsedOptions, OptionError> {
    let options = MountOptions { suid_and_dev: matches!(from, Origin::Mount { .. }), ..defaults() };
    let mut given =
        ParsedOptions { options, remount: false, exports: Exports::default(), named: false };
    let mut change = list::Changes::default();
    for option in texts.iter().flat_map(|text| list::split(text)) {
        let (name, value) = list::parts(option);
        if is_ignored(option, from)
            || change.take(name, value)?
            || fixed(&mut given, option, name, value)?
        {
            continue;
        }
        if !matches!(from, Origin::Mount { sloppy: true }) {
            return Err(OptionError::Unknown { option: option.to_owned() });
        }
    }
    given.options.settings = change.apply(given.options.settings)?;
    Ok(given)
}

/// Takes an option that can only be set when mounting; returns false for any other.
fn fixed(
    given: &mut ParsedOptions,
    option: &str,
    name: &str,
    value: Option<&str>,
) -> Result<bool, OptionError> {
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
        "idle_poll" => {
            options.idle_polling = list::without(name, value).map(|_| IdlePolling::Required)?;
        }
        "no_idle_poll" => {
            options.idle_polling = list::without(name, value).map(|_| IdlePolling::Never)?;
        }
        "stats_file" => given.exports.file = Some(list::absolute(name, value)?),
        "stats_socket" => given.exports.socket = Some(list::absolute(name, value)?),
        "remember" | "attr_timeout" | "entry_timeout" => {
            let value = list::needed(name, value, "1.0")?;
            let seconds =
                value.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            options.remember = seconds
                .ok_or_else(|| list::invalid(name, value, "seconds, with a fraction if need be"))?;
        }
        _ if is_kernel_option(option) => options.flags.push(option.to_owned()),
        _ => return Ok(false),
    }
    Ok(true)
}

#[cfg(test)]
mod tests;
