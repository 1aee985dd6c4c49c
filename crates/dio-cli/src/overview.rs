//! The text of `dio --help`: the commands by purpose, on one screen.

/// Commands that belong together, and a short description.
type Line = (&'static str, &'static str);

/// A heading and its lines.
type CommandGroup = (&'static str, &'static [Line]);

const GROUPS: &[CommandGroup] = &[
    (
        "Files",
        &[
            ("cp", "copy files and trees, durable on exit"),
            ("cat dd tee split", "pass bytes between files, pipes and devices"),
            ("sort uniq", "sort lines, count and leave out repeated ones"),
        ],
    ),
    (
        "Archives",
        &[("tar", "write, list, extract archives"), ("gzip gunzip zcat zstd unzstd zstdcat", "")],
    ),
    (
        "Digests",
        &[
            ("sum", "many in one read"),
            ("cksum b2sum b3sum", ""),
            ("md5sum sha{1,224,256,384,512}sum", ""),
        ],
    ),
    (
        "Mounts",
        &[
            ("mount umount", "direct or concurrent I/O for all programs"),
            ("run", "the same for one command, without root"),
            ("stat", "requests, latencies and locks of a mount"),
            ("install-mount-helper", "mount -t fuse.dio, and fstab"),
        ],
    ),
    ("Stripes", &[("stripe", "files over several directories and devices")]),
    ("Logs", &[("wal", "look at, follow, archive, salvage a log")]),
    (
        "Looking",
        &[
            ("probe cache", "what a path really does; what of it is cached"),
            ("record replay advise", "the I/O of a command, call by call"),
        ],
    ),
    #[cfg(feature = "bench")]
    (
        "Measuring",
        &[
            ("bench report", "measure disks and databases; make a page"),
            ("synctest", "the fastest durable write, and whether it is"),
        ],
    ),
    ("Itself", &[("self", "links by the tools' own names")]),
];

/// The columns of the commands and of their descriptions.
const COLUMNS: (usize, usize) = (11, 34);

/// Returns the help of `dio` itself.
pub(crate) fn text() -> String {
    let mut text = String::from(
        "Direct I/O for Linux: files move past the page cache, which stays as it is.\n\n",
    );
    text.push_str("Usage: dio COMMAND [ARGUMENT]...\n\n");
    for (heading, lines) in GROUPS {
        for (number, (commands, what)) in lines.iter().enumerate() {
            let heading = if number == 0 { *heading } else { "" };
            let (first, second) = (COLUMNS.0, COLUMNS.1 - COLUMNS.0);
            let line = format!("{heading:first$}{commands:second$}{what}");
            text.push_str(line.trim_end());
            text.push('\n');
        }
    }
    if cfg!(not(feature = "bench")) {
        text.push_str("\nThe commands bench, report, synctest and wal bench: package dio-bench.\n");
    }
    text.push_str(
        "\n`dio COMMAND --help` says more; a link with the name of a tool is that tool.\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the names in a line; `sha{1,224}sum` stands for several.
    fn names(commands: &str) -> Vec<String> {
        let expand = |word: &str| match word.split_once('{') {
            Some((before, rest)) => {
                let (list, after) = rest.split_once('}').unwrap();
                list.split(',').map(|each| format!("{before}{each}{after}")).collect()
            }
            None => vec![word.to_owned()],
        };
        commands.split(' ').flat_map(expand).collect()
    }

    #[test]
    fn every_command_is_in_one_group_and_all_fit_a_screen() {
        let mut told: Vec<String> = GROUPS
            .iter()
            .flat_map(|(_, lines)| lines.iter())
            .flat_map(|(commands, _)| names(commands))
            .collect();
        told.sort();
        let command = crate::cli::command();
        let shown = command.get_subcommands().filter(|each| !each.is_hide_set());
        let mut all: Vec<String> = shown.map(|each| each.get_name().to_owned()).collect();
        all.sort();
        assert_eq!(told, all);
        let text = text();
        assert!(text.lines().count() <= 25, "{text}");
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    }
}
