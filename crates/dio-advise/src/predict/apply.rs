//! How a way is applied: the commands, and the lines of fstab.

use std::path::{Path, PathBuf};

use super::groups::Group;
use super::model::Advised;
use super::tool;
use crate::speed::Way;

/// The words of the command line that goes a way. `chosen` are the ways of the groups.
pub(super) fn words(
    way: Advised,
    command: &[String],
    groups: &[Group],
    chosen: &[Way],
) -> Vec<String> {
    let mut words = match way {
        Advised::Cached | Advised::CannotTell => Vec::new(),
        Advised::Tool => return tool::words(command),
        _ => {
            let (options, dirs) = mounts(groups, chosen);
            let mut words = vec!["dio".to_owned(), "run".into(), "-o".into(), options];
            for dir in dirs {
                words.extend(["--dir".to_owned(), dir.display().to_string()]);
            }
            words.push("--".into());
            words
        }
    };
    words.extend_from_slice(command);
    words
}

/// The lines by which an advice is followed.
pub(super) fn lines(
    advised: Advised,
    command: &[String],
    groups: &[Group],
    chosen: &[Way],
) -> Vec<String> {
    if matches!(advised, Advised::Cached | Advised::CannotTell) {
        return Vec::new();
    }
    let words = words(advised, command, groups, chosen);
    let mut lines = vec![words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")];
    if advised != Advised::Tool {
        let (options, dirs) = mounts(groups, chosen);
        // In fstab, `auto` is an option of mount(8).
        let options = options.replacen("auto", "mode=auto", 1);
        lines.extend(dirs.iter().map(|dir| {
            let dir = dir.display();
            format!("in fstab: {dir} {dir} fuse.dio {options},allow_other,nofail 0 0")
        }));
    }
    lines
}

/// The options of the mounts by which groups go their ways, and the directories to mount.
fn mounts(groups: &[Group], chosen: &[Way]) -> (String, Vec<PathBuf>) {
    let all = || groups.iter().zip(chosen.iter().copied());
    let dirs = topmost(all().filter(|(_, way)| *way != Way::Cached).map(|(group, _)| &group.dir));
    let below = |group: &Group| dirs.iter().any(|dir| group.dir.starts_with(dir));
    // The way of the most bytes is that of the mount, the others are rules.
    let main = all().find(|(_, way)| *way != Way::Cached).map_or(Way::Cached, |(_, way)| way);
    let option = |way: Way| way.mount_option().unwrap_or("cached");
    let mut options = vec![option(main).to_owned()];
    for (group, way) in all().filter(|(group, way)| *way != main && below(group)) {
        if let Some(pattern) = &group.pattern {
            options.push(format!("{}={pattern}", option(way)));
        }
    }
    (options.join(","), dirs)
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

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./=,:+@%^".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::super::facts::Facts;
    use super::*;

    fn group(dir: &str, pattern: Option<&str>) -> Group {
        let pattern = pattern.map(str::to_owned);
        Group { dir: dir.into(), pattern, files: vec![0], facts: Facts::default() }
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
    fn a_tool_takes_the_same_arguments() {
        let command = ["/usr/bin/cp".to_owned(), "-r".into(), "it's".into()];
        assert_eq!(lines(Advised::Tool, &command, &[], &[]), ["dio cp -r 'it'\\''s'"]);
    }
}
