//! How a way is applied: the commands, and the lines of fstab.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use super::groups::Group;
use super::model::Advised;
use super::shell::shell_line;
use crate::speed::Way;

/// How a way is applied.
#[derive(Clone, Debug)]
pub(super) struct Application {
    /// The words of the command line that goes this way.
    pub(super) words: Vec<String>,
    /// The lines that a person needs; none if nothing is to be changed.
    pub(super) lines: Vec<String>,
}

/// How a command goes a way of its own, by mounts. `chosen` are the ways of the groups. What ran
/// already goes there by a mount over its directories.
pub(super) fn application(
    way: Advised,
    (command, attached): (&[String], bool),
    groups: &[Group],
    chosen: &[Way],
) -> Application {
    let mounts = match way {
        Advised::Direct | Advised::Concurrent | Advised::Auto | Advised::Mixed => {
            mounts(groups, chosen)
        }
        Advised::Cached | Advised::AlreadyDirect | Advised::CannotTell | Advised::Tool => {
            return Application { words: command.to_vec(), lines: Vec::new() };
        }
    };
    let mut words = command.to_vec();
    let mut lines: Vec<String> = mounts.iter().map(Mount::line).collect();
    if !attached {
        words.splice(0..0, run(&mounts));
        lines = vec![shell_line(&words)];
    }
    lines.extend(mounts.iter().map(Mount::fstab));
    Application { words, lines }
}

/// A mount by which groups go their ways.
#[derive(Debug)]
struct Mount {
    dir: PathBuf,
    /// The way of files to which no rule applies.
    main: Way,
    rules: Vec<String>,
}

impl Mount {
    /// The options for `dio run`.
    fn options(&self) -> String {
        let main = std::iter::once(option(self.main).to_owned());
        main.chain(self.rules.iter().cloned()).collect::<Vec<_>>().join(",")
    }

    /// The command that mounts it. Who uses the directory has to open its files again.
    fn line(&self) -> String {
        let dir = self.dir.display().to_string();
        let options = format!("{},allow_other", self.options());
        shell_line(&["dio", "mount", "-o", &options, &dir, &dir].map(str::to_owned))
    }

    fn fstab(&self) -> String {
        // In fstab, `auto` is an option of mount(8).
        let mode = if self.main == Way::Auto { "mode=" } else { "" };
        let (dir, options) = (field(&self.dir.to_string_lossy()), field(&self.options()));
        format!("in fstab: {dir} {dir} fuse.dio {mode}{options},allow_other,nofail 0 0")
    }
}

/// The words of `dio run` before the command; mounts of other options need another one within.
fn run(mounts: &[Mount]) -> Vec<String> {
    let mut words = Vec::new();
    let mut left: Vec<&Mount> = mounts.iter().collect();
    while let Some(first) = left.first() {
        let options = first.options();
        words.extend(["dio", "run", "-o", &options].map(str::to_owned));
        let (these, others) = left.into_iter().partition(|mount| mount.options() == options);
        let these: Vec<&Mount> = these;
        for mount in these {
            words.extend(["--dir".to_owned(), mount.dir.display().to_string()]);
        }
        words.push("--".into());
        left = others;
    }
    words
}

fn option(way: Way) -> &'static str {
    way.mount_option().unwrap_or("cached")
}

/// The mounts by which groups go their ways.
fn mounts(groups: &[Group], chosen: &[Way]) -> Vec<Mount> {
    let all = || groups.iter().zip(chosen.iter().copied());
    let dirs = topmost(all().filter(|(_, way)| *way != Way::Cached).map(|(group, _)| &group.dir));
    let mount = |dir: PathBuf| {
        let below: Vec<(&Group, Way)> =
            all().filter(|(group, _)| group.dir.starts_with(&dir)).collect();
        // The way of the most bytes is that of the mount, the others are rules.
        let main = below.iter().find(|(_, way)| *way != Way::Cached);
        let main = main.map_or(Way::Cached, |(_, way)| *way);
        Mount { rules: rules(below, main, &dir), main, dir }
    };
    dirs.into_iter().map(mount).collect()
}

/// The rules for groups below `dir` that do not go the way of the mount. The first rule that
/// matches a file decides, so the particular ones come first.
fn rules(mut groups: Vec<(&Group, Way)>, main: Way, dir: &Path) -> Vec<String> {
    groups.sort_by_key(|(group, _)| {
        let breadth = match group.pattern.as_deref() {
            Some("*") => 1,
            Some(_) => 0,
            None => 2,
        };
        (Reverse(group.dir.components().count()), breadth)
    });
    let is_needed = |(at, (group, way)): &(usize, &(&Group, Way))| {
        let mut later = groups[at + 1..].iter().filter(|(_, other)| other != way);
        *way != main || later.any(|(broad, _)| may_cover(broad, group, dir))
    };
    let needed = groups.iter().enumerate().filter(is_needed);
    needed.map(|(_, (group, way))| format!("{}={}", option(*way), rule(group, dir))).collect()
}

/// Whether the rule of a group may match files of another group.
fn may_cover(broad: &Group, narrow: &Group, dir: &Path) -> bool {
    match broad.pattern.as_deref() {
        None => narrow.dir.starts_with(&broad.dir),
        // A pattern without a directory matches in all of them.
        Some(_) if broad.dir == dir => {
            broad.pattern.as_deref() == Some("*")
                || narrow.pattern.is_none()
                || narrow.pattern == broad.pattern
        }
        Some(pattern) => pattern == "*" && narrow.dir == broad.dir,
    }
}

/// The pattern of a rule: relative to the mounted directory, with `?` in place of characters that
/// have a meaning in patterns, in options or in fstab.
fn rule(group: &Group, dir: &Path) -> String {
    let plain = |name: &str| -> String {
        let is_special = |letter: char| letter.is_control() || "*?[]{}!\\,:\"".contains(letter);
        name.chars().map(|letter| if is_special(letter) { '?' } else { letter }).collect()
    };
    let within = group.dir.strip_prefix(dir).unwrap_or(Path::new(""));
    let mut parts: Vec<String> =
        within.components().map(|part| plain(&part.as_os_str().to_string_lossy())).collect();
    parts.push(match group.pattern.as_deref() {
        None => "**".to_owned(),
        Some("*") => "*".to_owned(),
        Some(pattern) => match pattern.strip_prefix("*.") {
            Some(extension) => format!("*.{}", plain(extension)),
            None => plain(pattern),
        },
    });
    parts.join("/")
}

/// The directories that lie in no other one of them.
fn topmost<'a>(dirs: impl Iterator<Item = &'a PathBuf>) -> Vec<PathBuf> {
    let mut all: Vec<&Path> = dirs.map(PathBuf::as_path).collect();
    all.sort_unstable();
    all.dedup();
    let mut topmost: Vec<PathBuf> = Vec::new();
    for dir in all {
        if !topmost.iter().any(|above| dir.starts_with(above)) {
            topmost.push(dir.to_owned());
        }
    }
    topmost
}

/// A field of fstab (`fstab(5)`).
fn field(text: &str) -> String {
    let escaped = |letter: char| match letter {
        ' ' | '\\' => format!("\\{:03o}", letter as u32),
        letter if letter.is_ascii_control() => format!("\\{:03o}", letter as u32),
        letter => letter.to_string(),
    };
    text.chars().map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use super::super::facts::Facts;
    use super::*;

    fn lines(way: Advised, command: &[String], groups: &[Group], chosen: &[Way]) -> Vec<String> {
        application(way, (command, false), groups, chosen).lines
    }

    fn group(dir: &str, pattern: Option<&str>) -> Group {
        let pattern = pattern.map(str::to_owned);
        let (files, searched) = (vec![0], Vec::new());
        Group { dir: dir.into(), pattern, files, searched, facts: Facts::default() }
    }

    #[test]
    fn one_way_is_that_of_the_mount() {
        let groups = [group("/data/db", Some("*.ibd")), group("/data/db/log", None)];
        let command = ["serve".to_owned(), "a b".into()];
        let lines = lines(Advised::Direct, &command, &groups, &[Way::Direct, Way::Direct]);
        assert_eq!(lines[0], "dio run -o direct --dir /data/db -- serve 'a b'");
        assert_eq!(lines[1], "in fstab: /data/db /data/db fuse.dio direct,allow_other,nofail 0 0");
    }

    #[test]
    fn other_ways_are_rules_and_what_is_cached_elsewhere_is_not_mounted() {
        let groups =
            [group("/db", Some("*.ibd")), group("/db", Some("*.ctl")), group("/etc2", None)];
        let chosen = [Way::Auto, Way::Cached, Way::Cached];
        let lines = lines(Advised::Mixed, &["x".to_owned()], &groups, &chosen);
        assert_eq!(lines[0], "dio run -o 'auto,cached=*.ctl' --dir /db -- x");
        assert_eq!(
            lines[1],
            "in fstab: /db /db fuse.dio mode=auto,cached=*.ctl,allow_other,nofail 0 0"
        );
    }

    #[test]
    fn rules_name_directories_and_the_particular_ones_come_first() {
        let groups = [
            group("/db", Some("*.ibd")),
            group("/db/log", Some("*")),
            group("/db/log", Some("*.idx")),
            group("/db/old", None),
            group("/db", Some("a,b: c*")),
        ];
        let chosen = [Way::Direct, Way::Cached, Way::Direct, Way::Auto, Way::Cached];
        let lines = lines(Advised::Mixed, &["x".to_owned()], &groups, &chosen);
        let rules = "direct=log/*.idx,cached=log/*,auto=old/**,cached=a?b? c?";
        assert_eq!(lines[0], format!("dio run -o 'direct,{rules}' --dir /db -- x"));
        let rules = rules.replace(' ', "\\040");
        assert_eq!(
            lines[1],
            format!("in fstab: /db /db fuse.dio direct,{rules},allow_other,nofail 0 0")
        );
    }

    #[test]
    fn directories_of_other_options_are_mounted_one_after_the_other() {
        let groups = [group("/a\n\u{1b}", None), group("/b", None), group("/c", None)];
        let chosen = [Way::Direct, Way::Auto, Way::Direct];
        let command = ["x".to_owned()];
        let application = application(Advised::Mixed, (&command, false), &groups, &chosen);
        assert_eq!(
            application.lines[0],
            "dio run -o direct --dir '/a'$'\\n\\033' --dir /c -- dio run -o auto --dir /b -- x"
        );
        assert!(application.lines[1].starts_with("in fstab: /a\\012\\033 /a\\012\\033 "));
        assert!(application.lines[2].contains("mode=auto,allow_other"));
    }

    #[test]
    fn what_runs_already_gets_a_mount() {
        let groups = [group("/srv/db", None)];
        let command = ["process 12 (serve)".to_owned()];
        let lines = application(Advised::Direct, (&command, true), &groups, &[Way::Direct]).lines;
        assert_eq!(lines[0], "dio mount -o direct,allow_other /srv/db /srv/db");
        assert!(lines[1].starts_with("in fstab: /srv/db"), "{lines:?}");
    }
}
