//! The options of `mount(8)` for all file systems, converted to flags of `mount(2)`.

use rustix::fs::{Dev, StatVfsMountFlags};
use rustix::io::Errno;
use rustix::mount::MountFlags;

use super::MountError;
use super::table::{self, MountRecord};
use crate::options::MountOptions;

/// The options: word, flag, and whether the word sets or clears the flag. The last of contradicting
/// words wins (`mount(8)`, file-system independent options).
const FLAGS: &[(&str, MountFlags, bool)] = &[
    ("ro", MountFlags::RDONLY, true),
    ("rw", MountFlags::RDONLY, false),
    ("nosuid", MountFlags::NOSUID, true),
    ("suid", MountFlags::NOSUID, false),
    ("nodev", MountFlags::NODEV, true),
    ("dev", MountFlags::NODEV, false),
    ("noexec", MountFlags::NOEXEC, true),
    ("exec", MountFlags::NOEXEC, false),
    ("sync", MountFlags::SYNCHRONOUS, true),
    ("async", MountFlags::SYNCHRONOUS, false),
    ("dirsync", MountFlags::DIRSYNC, true),
    ("noatime", MountFlags::NOATIME, true),
    ("atime", MountFlags::NOATIME, false),
    ("nodiratime", MountFlags::NODIRATIME, true),
    ("diratime", MountFlags::NODIRATIME, false),
    ("relatime", MountFlags::RELATIME, true),
    ("norelatime", MountFlags::RELATIME, false),
    ("strictatime", MountFlags::STRICTATIME, true),
    ("nostrictatime", MountFlags::STRICTATIME, false),
    ("lazytime", MountFlags::LAZYTIME, true),
    ("nolazytime", MountFlags::LAZYTIME, false),
    ("nosymfollow", MountFlags::NOSYMFOLLOW, true),
    ("symfollow", MountFlags::NOSYMFOLLOW, false),
    ("silent", MountFlags::SILENT, true),
    ("loud", MountFlags::SILENT, false),
];

/// Flags that a complete list of options leaves out only if they are not set. Flags for access
/// times are not among them: a list without such a flag leaves the choice to the kernel. Flags of
/// the file system are not among them either, since they are no flags of the mount.
const GIVEN_IN_FULL: MountFlags =
    MountFlags::RDONLY.union(MountFlags::NOSUID).union(MountFlags::NODEV).union(MountFlags::NOEXEC);

/// Labels of security modules, which the kernel takes with the options of the file system
/// (`mount(8)`, `context=`).
const LABELS: &[&str] = &["context=", "fscontext=", "defcontext=", "rootcontext="];

/// The options that `fusermount3` accepts from users (`util/fusermount.c` of libfuse,
/// `mount_flags`).
const FOR_USERS: &[&str] = &[
    "rw",
    "ro",
    "nosuid",
    "nodev",
    "noexec",
    "exec",
    "async",
    "sync",
    "atime",
    "noatime",
    "nodiratime",
    "dirsync",
];

/// Whether the kernel accepts the option for every file system, so that it belongs into
/// [`MountOptions::flags`].
pub fn is_kernel_option(option: &str) -> bool {
    FLAGS.iter().any(|(word, ..)| *word == option)
        || LABELS.iter().any(|label| option.starts_with(label))
}

/// Returns the flags for `mount(2)`. Set-user-ID programs and device files work only if root asks
/// for them, by name or by using `mount(8)`. Restrictions of the source's mount stay, unless an
/// option lifts them by name.
pub(super) fn of(options: &MountOptions, source: StatVfsMountFlags) -> MountFlags {
    let careful = MountFlags::NOSUID | MountFlags::NODEV;
    let base = if options.suid_and_dev { MountFlags::empty() } else { careful };
    added(base | passed_on(source, &KEPT_FROM_THE_SOURCE), options)
}

/// Flags that the dio mount inherits from the source's mount, because the kernel checks only those
/// of the dio mount. Flags for read-only access and access times are not inherited: the server's
/// own access to the source obeys them.
const KEPT_FROM_THE_SOURCE: [(StatVfsMountFlags, MountFlags); 3] = [
    (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
    (StatVfsMountFlags::NODEV, MountFlags::NODEV),
    (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
];

/// Converts flags of a mount from `statvfs(3)` to `mount(2)`, as far as `pairs` contain them.
pub(crate) fn passed_on(
    seen: StatVfsMountFlags,
    pairs: &[(StatVfsMountFlags, MountFlags)],
) -> MountFlags {
    let kept = pairs.iter().filter(|(flag, _)| seen.contains(*flag));
    kept.fold(MountFlags::empty(), |flags, (_, kept)| flags | *kept)
}

/// Returns the restrictions that all mounts of a device in this process's table have: an access
/// that one mount allows is allowed.
pub(crate) fn forbidden_by_all(device: Dev) -> StatVfsMountFlags {
    let mounts = table::mounts().unwrap_or_default();
    let present = mounts.iter().filter(|mount| mount.device == device).map(present);
    let Some(by_all) = present.reduce(MountFlags::intersection) else {
        return StatVfsMountFlags::empty();
    };
    let kept = KEPT_FROM_THE_SOURCE.iter().filter(|(_, flag)| by_all.contains(*flag));
    kept.fold(StatVfsMountFlags::empty(), |flags, (kept, _)| flags | *kept)
}

/// Returns `flags` with the changes of the mount's options.
pub(crate) fn added(flags: MountFlags, options: &MountOptions) -> MountFlags {
    let mut flags = changed(flags, options.flags.iter().map(String::as_str));
    flags.set(MountFlags::RDONLY, options.read_only || flags.contains(MountFlags::RDONLY));
    flags
}

/// Returns `flags` with the changes of `options`, applied in order. Other words are ignored.
fn changed<'a>(mut flags: MountFlags, options: impl IntoIterator<Item = &'a str>) -> MountFlags {
    for option in options {
        if let Some((_, flag, set)) = FLAGS.iter().find(|(word, ..)| *word == option) {
            flags.set(*flag, *set);
        }
    }
    flags
}

/// Returns the flags of a mount. If the file system is read-only, so are all its mounts.
fn present(mount: &MountRecord) -> MountFlags {
    let [own, of_all] = &mount.options;
    changed(
        MountFlags::empty(),
        own.split(',').chain(of_all.split(',').filter(|option| *option != "rw")),
    )
}

/// Changes the flags of a mount as the words in `options` say (`MS_REMOUNT`, `mount(2)`). Flags
/// that the options do not name stay, unless these are `all` options of the mount. If the mount has
/// the flags already, nothing is done.
///
/// # Errors
/// [`MountError::Busy`] if the mount becomes read-only and a file is open for writing;
/// [`MountError::Mount`], with `EPERM` for users.
pub fn change_flags(mount: &MountRecord, options: &[String], all: bool) -> Result<(), MountError> {
    let before = present(mount);
    let from = if all { before.difference(GIVEN_IN_FULL) } else { before };
    let flags = changed(from, options.iter().map(String::as_str));
    if flags == before {
        return Ok(());
    }
    let path = mount.at.clone();
    rustix::mount::mount_remount(&mount.at, flags, "").map_err(|errno| match errno {
        Errno::BUSY => MountError::Busy { path },
        errno => MountError::Mount { path, errno },
    })
}

/// Returns the options of the file system itself, each after a comma.
pub(crate) fn data(options: &MountOptions) -> String {
    let own = [
        ("default_permissions", checks_permissions(options)),
        ("allow_other", options.allow_other),
    ];
    let own = own.into_iter().filter(|(_, on)| *on).map(|(word, _)| word);
    let labels = options.flags.iter().map(String::as_str).filter(|option| is_label(option));
    own.chain(labels).flat_map(|word| [",", word]).collect()
}

/// Returns the options for `fusermount3 -o`, which always forbids set-user-id programs and devices.
pub(super) fn for_users(
    options: &MountOptions,
    source: StatVfsMountFlags,
) -> Result<String, MountError> {
    if let Some(option) =
        options.flags.iter().find(|option| matches!(option.as_str(), "suid" | "dev"))
    {
        return Err(MountError::OnlyRoot { option: option.clone() });
    }
    let name = options.source_name.replace('\\', "\\\\").replace(',', "\\,");
    let mut list = format!("subtype=dio,fsname={name}{}", data(options));
    if options.read_only {
        list.push_str(",ro");
    }
    if source.contains(StatVfsMountFlags::NOEXEC) {
        list.push_str(",noexec");
    }
    for option in options.flags.iter().filter(|option| FOR_USERS.contains(&option.as_str())) {
        list.push(',');
        list.push_str(option);
    }
    Ok(list)
}

/// The server has more rights than other users, so the kernel must check them first.
fn checks_permissions(options: &MountOptions) -> bool {
    options.default_permissions || options.allow_other
}

fn is_label(option: &str) -> bool {
    LABELS.iter().any(|label| option.starts_with(label))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::tests::options;

    fn with(words: &[&str]) -> MountOptions {
        MountOptions { flags: words.iter().map(|word| (*word).to_owned()).collect(), ..options() }
    }

    #[test]
    fn nobody_gains_rights_unless_root_says_so() {
        let of = |options: &MountOptions| of(options, StatVfsMountFlags::empty());
        let careful = MountFlags::NOSUID | MountFlags::NODEV;
        assert_eq!(of(&with(&[])), careful);
        assert_eq!(of(&with(&["suid", "dev"])), MountFlags::empty());
        let by_mount = |words: &[&str]| of(&MountOptions { suid_and_dev: true, ..with(words) });
        assert_eq!(by_mount(&[]), MountFlags::empty());
        assert_eq!(by_mount(&["nodev"]), MountFlags::NODEV);
        assert!(
            !for_users(
                &MountOptions { suid_and_dev: true, ..options() },
                StatVfsMountFlags::empty()
            )
            .unwrap()
            .contains("suid")
        );
        assert_eq!(
            of(&with(&["suid", "nosuid", "noexec", "noatime"])),
            careful | MountFlags::NOEXEC | MountFlags::NOATIME
        );
        for option in ["suid", "dev"] {
            assert!(
                matches!(
                    for_users(&with(&[option]), StatVfsMountFlags::empty()),
                    Err(MountError::OnlyRoot { .. })
                ),
                "{option}"
            );
        }
    }

    #[test]
    fn others_are_always_checked() {
        assert_eq!(data(&options()), "");
        assert_eq!(
            data(&MountOptions { default_permissions: true, ..options() }),
            ",default_permissions"
        );
        assert_eq!(
            data(&MountOptions { allow_other: true, ..options() }),
            ",default_permissions,allow_other"
        );
        assert_eq!(data(&with(&["context=\"a,b\"", "noatime"])), ",context=\"a,b\"");
    }

    #[test]
    fn the_source_may_have_any_name() {
        let options = MountOptions {
            source_name: "/a,b\\c".into(),
            read_only: true,
            ..with(&["noatime", "relatime"])
        };
        assert_eq!(
            for_users(&options, StatVfsMountFlags::empty()).unwrap(),
            "subtype=dio,fsname=/a\\,b\\\\c,ro,noatime"
        );
        assert!(of(&options, StatVfsMountFlags::empty()).contains(MountFlags::RDONLY));
    }

    #[test]
    fn what_the_source_forbids_stays_forbidden() {
        let below =
            StatVfsMountFlags::NOEXEC | StatVfsMountFlags::NOSUID | StatVfsMountFlags::RDONLY;
        let by_mount =
            |words: &[&str]| of(&MountOptions { suid_and_dev: true, ..with(words) }, below);
        assert_eq!(by_mount(&[]), MountFlags::NOEXEC | MountFlags::NOSUID);
        assert_eq!(by_mount(&["exec"]), MountFlags::NOSUID);
        assert_eq!(of(&with(&["suid"]), below), MountFlags::NODEV | MountFlags::NOEXEC);
    }
}
