//! Changes of a running mount.

use dio_mount::Settings;
use dio_mount::session::is_kernel_option;

use super::{OptionError, Origin, is_ignored, list};

/// Options that hold from mounting on.
const FIXED: &[&str] = &[
    "ro",
    "allow_other",
    "default_permissions",
    "fsname",
    "lock",
    "threads",
    "remember",
    "attr_timeout",
    "entry_timeout",
    "stats_file",
    "stats_socket",
];

/// The text of a change, to be handed to a running mount. `mount(8)` repeats the options that it finds in its tables, which are
/// left away.
pub(in super::super) fn text_of_change(texts: &[String], from: Origin) -> String {
    let says_nothing = |option: &&str| {
        let (name, _) = list::parts(option);
        matches!(*option, "remount" | "rw")
            || is_ignored(option, from)
            || (from != Origin::User && (FIXED.contains(&name) || is_kernel_option(option)))
    };
    let options = texts.iter().flat_map(|text| list::split(text)).filter(|option| !says_nothing(option));
    options.collect::<Vec<_>>().join(",")
}

/// The settings after the change that `text` asks for.
///
/// What is not named stays. Rules that are named replace all that there were; `norules` removes them.
///
/// # Errors
/// As for a mount; an option that a running mount cannot change.
pub fn parse_change(text: &str, now: &Settings) -> Result<Settings, OptionError> {
    let mut changes = list::Changes::default();
    for option in list::split(text) {
        let (name, value) = list::parts(option);
        if changes.take(name, value)? || matches!(option, "remount" | "rw") || is_ignored(option, Origin::User) {
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
