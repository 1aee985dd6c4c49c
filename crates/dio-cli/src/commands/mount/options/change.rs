//! Changes of a running mount.

use dio_mount::Settings;
use dio_mount::session::is_kernel_option;

use super::list;
use super::option::{OptionError, Origin, is_ignored};

/// Options that can only be set when mounting.
const FIXED: &[&str] = &[
    "ro",
    "allow_other",
    "default_permissions",
    "fsname",
    "lock",
    "threads",
    "io_uring",
    "no_io_uring",
    "idle_poll",
    "no_idle_poll",
    "remember",
    "attr_timeout",
    "entry_timeout",
    "stats_file",
    "stats_socket",
];

/// Splits a change of a running mount into the options for the kernel and the text for the server.
/// `mount(8)` repeats the options from its tables; those that cannot change are dropped.
pub(in super::super) fn divide(texts: &[String], from: Origin) -> (Vec<String>, String) {
    let says_something = |option: &&str| {
        let (name, _) = list::parts(option);
        *option != "remount"
            && !is_ignored(option, from)
            && (from == Origin::User || is_flag(option) || !is_fixed(name))
    };
    let options = texts.iter().flat_map(|text| list::split(text)).filter(says_something);
    let (flags, others): (Vec<&str>, Vec<&str>) = options.partition(|option| is_flag(option));
    (flags.into_iter().map(str::to_owned).collect(), others.join(","))
}

/// Returns whether the option is a flag of mounts. Labels, which have values, are set only when
/// mounting.
fn is_flag(option: &str) -> bool {
    is_kernel_option(option) && !option.contains('=')
}

fn is_fixed(name: &str) -> bool {
    FIXED.contains(&name) || is_kernel_option(&format!("{name}="))
}

/// Returns the settings after the change in `text`.
///
/// Settings that are not named stay. New rules replace all old ones; `norules` removes them.
///
/// # Errors
/// Errors of a mount; an option that a running mount cannot change.
pub fn parse_change(text: &str, now: &Settings) -> Result<Settings, OptionError> {
    let mut changes = list::Changes::default();
    for option in list::split(text) {
        let (name, value) = list::parts(option);
        if changes.take(name, value)?
            || matches!(option, "remount" | "rw")
            || is_ignored(option, Origin::User)
        {
            continue;
        }
        let option = option.to_owned();
        if FIXED.contains(&name) || is_kernel_option(&option) {
            return Err(OptionError::Fixed { option });
        }
        return Err(OptionError::Unknown { option });
    }
    changes.apply(now.clone())
}
