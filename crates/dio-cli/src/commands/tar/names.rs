//! Names from the command line and from lists (`-T`), with the directories (`-C`) and patterns that
//! apply to them.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use dio::names::FileId;
use rustix::fs::{Mode, OFlags, open, stat};

use super::early_end::{EarlyEnd, bare};
use super::ordered::{self, Flag, Switch};
use super::pattern::{Matching, Patterns};
use super::quoting::{escaped, unquoted};
use super::split::split_string;
use super::terms::{NAME, OmittedPart, Operation, TagFile, fatal};
use crate::grammar::{Grammar, Line, Refusal};
use crate::quote::{marked, words};

/// One name to archive, or one pattern that selects members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    /// The name as given, with escapes undone and without trailing `/`.
    pub(super) bytes: Vec<u8>,
    /// Index in [`NameSelection::directories`].
    pub(super) directory: usize,
    /// How the name matches members. When archiving, `recursion` also says whether the contents of
    /// a directory are included.
    pub(super) matching: Matching,
    /// The exclusions that apply to the name.
    pub(super) left_out: PatternCounts,
}

/// The number of patterns and tags of the command line that apply to a name. When creating an
/// archive, only those before the name apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PatternCounts {
    pub(super) patterns: usize,
    pub(super) tags: usize,
}

/// All names, in order.
#[derive(Debug)]
pub(super) struct NameSelection {
    pub(super) list: Vec<Name>,
    /// The directories that names are relative to. The first is the working directory (an empty
    /// path), and each other path is relative to it.
    pub(super) directories: Vec<PathBuf>,
    /// Patterns of `--exclude` and similar options.
    pub(super) exclude: Patterns,
    /// Tag files; part or all of a directory that contains one is left out.
    pub(super) tags: Vec<TagFile>,
    /// Whether patterns for members may have wildcards; `None` if no option says so.
    pub(super) wildcards: Option<bool>,
    /// Whether the contents of directories are included, as the last such option says.
    pub(super) recursion: bool,
    /// Whether there may be several names: more than one was given, or a list.
    pub(super) many: bool,
    /// Errors in lists, each with the index of the name before which it occurred.
    pub(super) wrong: Vec<(usize, String)>,
    /// Options that apply only to later names, although none follows. GNU tar reports them when it
    /// archives.
    pub(super) unused: Vec<String>,
    /// Lists that contain a NUL although `--null` was not given.
    pub(super) with_nuls: Vec<Vec<u8>>,
}

/// Files of version control systems, as GNU tar lists them.
const VCS: [&[u8]; 22] = [
    b"CVS",
    b".cvsignore",
    b"RCS",
    b"SCCS",
    b".git",
    b".gitignore",
    b".gitattributes",
    b".gitmodules",
    b".svn",
    b".arch-ids",
    b"{arch}",
    b"=RELEASE-ID",
    b"=meta-update",
    b"=update",
    b".bzr",
    b".bzrignore",
    b".bzrtags",
    b".hg",
    b".hgignore",
    b".hgrags",
    b".hgtags",
    b"_darcs",
];

/// Patterns for backup and lock files.
const BACKUPS: [&[u8]; 3] = [b".#*", b"*~", b"#*#"];

impl NameSelection {
    /// Collects the names of a command line.
    ///
    /// # Errors
    /// A list cannot be read.
    pub(super) fn of(ordered: Vec<Flag>, operation: Operation) -> Result<NameSelection, Refusal> {
        let mut reading = Reading::new();
        for flag in ordered {
            reading.take(flag)?;
        }
        let Reading { mut names, pending, wildcards, recursion, .. } = reading;
        names.unused = pending;
        names.wildcards = wildcards;
        names.recursion = recursion;
        names.exclude.build();
        if operation != Operation::Create {
            // Unlike when creating, all options are read before the first name is used.
            let left_out = PatternCounts { patterns: names.exclude.len(), tags: names.tags.len() };
            for name in &mut names.list {
                name.left_out = left_out;
                if operation.stores() {
                    name.matching.recursion = recursion;
                }
            }
        }
        Ok(names)
    }

    /// Whether neither a name nor a list was given. (A list may be empty.)
    pub(super) fn are_none(&self) -> bool {
        self.list.is_empty() && !self.many
    }

    /// Index of the directory for members when no names are given: the last one.
    pub(super) fn last_directory(&self) -> usize {
        self.directories.len() - 1
    }

    /// Opens all directories, in order.
    ///
    /// # Errors
    /// A directory cannot be opened.
    pub(super) fn open_directories(&self) -> Result<Vec<OwnedFd>, EarlyEnd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = self.directories.iter().map(|path| {
            let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
            open(path, flags, Mode::empty())
                .map_err(|errno| EarlyEnd::on(path.as_os_str().as_bytes(), "open", errno))
        });
        opened.collect()
    }
}

fn unreadable(name: &[u8], doing: &str, errno: impl std::fmt::Display) -> Refusal {
    fatal(format!("{}: {doing}{errno}", escaped(name)))
}

/// The state of the positional options while they are read.
#[derive(Debug)]
struct Reading {
    names: NameSelection,
    null: bool,
    verbatim: bool,
    unquote: bool,
    recursion: bool,
    anchored: Option<bool>,
    wildcards: Option<bool>,
    match_slash: bool,
    ignore_case: bool,
    /// Options since the last name.
    pending: Vec<String>,
    /// The lists that are being read, the innermost last.
    lists: Vec<OsString>,
    /// Lists that were read, by device and inode, with the list that named each; `None` stands for
    /// the command line.
    known: HashMap<FileId, Option<OsString>>,
    /// Whether standard input has already been used as a list.
    stdin: bool,
}

impl Reading {
    fn new() -> Reading {
        let names = NameSelection {
            list: Vec::new(),
            directories: vec![PathBuf::new()],
            exclude: Patterns::default(),
            tags: Vec::new(),
            wrong: Vec::new(),
            wildcards: None,
            recursion: true,
            many: false,
            unused: Vec::new(),
            with_nuls: Vec::new(),
        };
        Reading {
            names,
            null: false,
            verbatim: false,
            unquote: true,
            recursion: true,
            anchored: None,
            wildcards: None,
            match_slash: true,
            ignore_case: false,
            pending: Vec::new(),
            lists: Vec::new(),
            known: HashMap::new(),
            stdin: false,
        }
    }

    /// How patterns of `--exclude` currently match.
    fn excluding(&self) -> Matching {
        Matching {
            anchored: self.anchored.unwrap_or(false),
            wildcards: self.wildcards.unwrap_or(true),
            match_slash: self.match_slash,
            ignore_case: self.ignore_case,
            recursion: self.recursion,
        }
    }

    /// How patterns for members currently match.
    fn including(&self) -> Matching {
        Matching {
            anchored: self.anchored.unwrap_or(true),
            wildcards: self.wildcards.unwrap_or(false),
            ..self.excluding()
        }
    }

    fn take(&mut self, flag: Flag) -> Result<(), Refusal> {
        match flag {
            Flag::Name(name) | Flag::AddFile(name) => {
                self.pending.clear();
                let name = name.into_vec();
                self.name(if self.unquote { unquoted(&name) } else { name });
            }
            Flag::Directory(dir) => {
                let within = self
                    .names
                    .directories
                    .last()
                    .map(|before| before.join(&dir))
                    .unwrap_or_default();
                self.pending.push(format!("-C {}", marked(dir.as_bytes())));
                self.names.directories.push(within);
            }
            Flag::FilesFrom(list) => self.list(list)?,
            Flag::Exclude(pattern) => {
                self.pending.push(format!("--exclude {}", marked(pattern.as_bytes())));
                let how = self.excluding();
                self.names.exclude.add(pattern.as_bytes(), how);
            }
            Flag::ExcludeFrom(list) => {
                self.pending.push(format!("--exclude-from {}", marked(list.as_bytes())));
                self.exclude_from(&list)?;
            }
            Flag::ExcludeVcs => self.exclude_all("--exclude-vcs", &VCS, false),
            Flag::ExcludeBackups => self.exclude_all("--exclude-backups", &BACKUPS, true),
            Flag::ExcludeTag(omit, name) => self.tag(omit, name),
            Flag::Set(switch, value) => self.set(switch, value),
        }
        Ok(())
    }

    /// Adds patterns whose matching does not depend on other options. They never exclude a file
    /// merely because its directory matches.
    fn exclude_all(&mut self, flag: &str, patterns: &[&[u8]], wildcards: bool) {
        self.pending.push(flag.to_owned());
        let how = Matching {
            anchored: false,
            wildcards,
            match_slash: true,
            ignore_case: false,
            recursion: false,
        };
        patterns.iter().for_each(|pattern| self.names.exclude.add(pattern, how));
    }

    fn tag(&mut self, omit: OmittedPart, name: Option<OsString>) {
        let ending = match omit {
            OmittedPart::Contents => "",
            OmittedPart::Under => "-under",
            OmittedPart::All => "-all",
        };
        self.pending.push(match &name {
            Some(name) => format!("--exclude-tag{ending} {}", marked(name.as_bytes())),
            None => format!("--exclude-caches{ending}"),
        });
        let cachedir = name.is_none();
        let name = name.map_or_else(|| b"CACHEDIR.TAG".to_vec(), OsString::into_vec);
        self.names.tags.push(TagFile { name, cachedir, omit });
    }

    fn set(&mut self, switch: Switch, value: bool) {
        let name = match switch {
            Switch::Null => {
                // Names that end in NUL are never parsed as options.
                (self.null, self.verbatim) = (value, value);
                "null"
            }
            Switch::Verbatim => {
                self.verbatim = value;
                "verbatim-files-from"
            }
            Switch::Unquote => {
                self.unquote = value;
                "unquote"
            }
            Switch::Recursion => {
                self.recursion = value;
                "recursion"
            }
            Switch::Anchored => {
                self.anchored = Some(value);
                "anchored"
            }
            Switch::Wildcards => {
                self.wildcards = Some(value);
                "wildcards"
            }
            Switch::MatchSlash => {
                self.match_slash = value;
                "wildcards-match-slash"
            }
            Switch::IgnoreCase => {
                self.ignore_case = value;
                "ignore-case"
            }
        };
        self.pending.push(format!("--{}{name}", if value { "" } else { "no-" }));
    }

    fn name(&mut self, bytes: Vec<u8>) {
        let directory = self.names.last_directory();
        let matching = self.including();
        let left_out =
            PatternCounts { patterns: self.names.exclude.len(), tags: self.names.tags.len() };
        self.names.many |= !self.names.list.is_empty();
        self.names.list.push(Name { bytes: bare(&bytes).to_vec(), directory, matching, left_out });
    }

    /// Records an error in a list that does not end the run.
    fn wrong(&mut self, message: String) {
        self.names.wrong.push((self.names.list.len(), message));
    }

    /// `-T`: reads names, and options among them, from a list. Each list is read only once, so that
    /// lists which name each other do not loop.
    fn list(&mut self, list: OsString) -> Result<(), Refusal> {
        self.names.many = true;
        let failed = |error: String| unreadable(list.as_bytes(), "Cannot stat: ", error);
        if list == "-" {
            if std::mem::replace(&mut self.stdin, true) {
                return Err(Refusal::usage("Options '-T' and '-T' both want standard input"));
            }
        } else {
            let stat = stat(&list).map_err(|errno| failed(words(errno).to_string()))?;
            let from = self.lists.last();
            if let Some(before) = self.known.get(&FileId::of(&stat)) {
                let shown = |from: Option<&OsString>| {
                    from.map_or("command line".into(), |from| from.to_string_lossy().into_owned())
                };
                let (now, before) = (shown(from), shown(before.as_ref()));
                let name = escaped(list.as_bytes());
                self.wrong(format!(
                    "{name}: file list requested from {now} already read from {before}"
                ));
                self.pending.clear();
                return Ok(());
            }
            self.known.insert(FileId::of(&stat), from.cloned());
        }
        let text = read(&list).map_err(failed)?;
        // A `--null` or `--verbatim-files-from` within the list applies only to later lists.
        let (null, verbatim) = (self.null, self.verbatim);
        if !null && text.contains(&0) {
            self.names.with_nuls.push(list.as_bytes().to_vec());
        }
        self.lists.push(list);
        for (number, line) in lines(&text, null) {
            match verbatim {
                true => self.name(line.to_vec()),
                false => self.line(number, line)?,
            }
        }
        self.lists.pop();
        self.pending.clear();
        Ok(())
    }

    /// Handles one line of a list: a name, or options.
    fn line(&mut self, number: usize, line: &[u8]) -> Result<(), Refusal> {
        let line = bare(line);
        let line = if self.unquote { unquoted(line) } else { line.to_vec() };
        let flags = line.trim_ascii_start();
        if !flags.starts_with(b"-") {
            self.name(line);
            return Ok(());
        }
        let (flags, all) = flags_in(flags)?;
        for flag in flags {
            self.take(flag)?;
        }
        if !all {
            let list = self
                .lists
                .last()
                .map(|list| list.to_string_lossy().into_owned())
                .unwrap_or_default();
            self.wrong(format!("{list}:{number}: unrecognized option"));
        }
        Ok(())
    }

    /// `-X`: adds one exclusion pattern per line, without trailing blanks.
    fn exclude_from(&mut self, list: &OsStr) -> Result<(), Refusal> {
        let text = read(list).map_err(|error| unreadable(list.as_bytes(), "", error))?;
        let how = self.excluding();
        for line in text
            .split(|byte| *byte == b'\n')
            .map(<[u8]>::trim_ascii_end)
            .filter(|line| !line.is_empty())
        {
            self.names.exclude.add(line, how);
        }
        Ok(())
    }
}

/// The lines of a list that are not empty, numbered from 1. If a NUL occurs although `--null` was
/// not given, it ends its name, and from that line on NULs end names instead of newlines.
fn lines(text: &[u8], null: bool) -> impl Iterator<Item = (usize, &[u8])> {
    let first_nul = if null { Some(0) } else { memchr::memchr(0, text) };
    let turn = match first_nul {
        Some(at) => memchr::memrchr(b'\n', &text[..at]).map_or(0, |end| end + 1),
        None => text.len(),
    };
    let (ended_by_lines, ended_by_nuls) = text.split_at(turn);
    // The final newline does not start another line.
    let ended_by_lines = ended_by_lines.strip_suffix(b"\n").unwrap_or(ended_by_lines);
    let all =
        ended_by_lines.split(|byte| *byte == b'\n').chain(ended_by_nuls.split(|byte| *byte == 0));
    (1..).zip(all).filter(|(_, line)| !line.is_empty())
}

/// Reads a whole list; `-` is standard input.
fn read(list: &OsStr) -> Result<Vec<u8>, String> {
    let read = match list == "-" {
        true => {
            let mut text = Vec::new();
            std::io::Read::read_to_end(&mut std::io::stdin().lock(), &mut text).map(|_| text)
        }
        false => std::fs::read(list),
    };
    read.map_err(|error| words(crate::tool::errno_of(&error)).to_string())
}

/// Parses the options in a line of a list, up to the first word that is not one. Also returns
/// whether all words were parsed.
fn flags_in(line: &[u8]) -> Result<(Vec<Flag>, bool), Refusal> {
    let (words, mut flags) = (split_string(line)?, Vec::new());
    // Such a line must not contain names.
    let grammar = Grammar::new(NAME, "", "")
        .flags(ordered::names())
        .flags(ordered::exclusions())
        .flags(ordered::matching())
        .operands(&[], |_, _| Err(Refusal::default()));
    let all = grammar.fold(&mut flags, &mut Line::new(words)).is_ok();
    Ok((flags, all))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(flags: Vec<Flag>) -> NameSelection {
        NameSelection::of(flags, Operation::List).unwrap_or_else(|refusal| panic!("{refusal:?}"))
    }

    fn list(text: &[u8], before: Vec<Flag>) -> NameSelection {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("list");
        std::fs::write(&path, text).unwrap();
        names(before.into_iter().chain([Flag::FilesFrom(path.into())]).collect())
    }

    fn shown(names: &NameSelection) -> Vec<(String, String)> {
        let one = |name: &Name| {
            let directory = names.directories[name.directory].to_string_lossy().into_owned();
            (String::from_utf8_lossy(&name.bytes).into_owned(), directory)
        };
        names.list.iter().map(one).collect()
    }

    #[test]
    fn directories_are_relative_to_those_before() {
        let names = names(vec![
            Flag::Name("a".into()),
            Flag::Directory("d".into()),
            Flag::Directory("e".into()),
            Flag::Name("b\\n".into()),
            Flag::Directory("/f".into()),
            Flag::Set(Switch::Unquote, false),
            Flag::Name("c\\n".into()),
            Flag::Directory("g".into()),
        ]);
        let expected = [("a", ""), ("b\n", "d/e"), ("c\\n", "/f")]
            .map(|(name, dir)| (name.into(), dir.into()));
        assert_eq!(shown(&names), expected);
        assert_eq!(names.unused, [format!("-C {}", marked("g"))]);
    }

    #[test]
    fn lists_have_names_and_flags() {
        let text = b"a\n\n  -C 'd d' --exclude=*.o\nb c\n --add-file -x\n--no-recursion\ne\n";
        let list_names = list(text, vec![]);
        let expected = [("a", ""), ("b c", "d d"), ("-x", "d d"), ("e", "d d")];
        assert_eq!(shown(&list_names), expected.map(|(name, dir)| (name.into(), dir.into())));
        assert!(list_names.list[2].matching.recursion && !list_names.list[3].matching.recursion);
        assert!(list_names.exclude.matches(b"x/y.o"));
        let null = list(b"-C d\0a\nb\0", vec![Flag::Set(Switch::Null, true)]);
        assert_eq!(
            shown(&null),
            [("-C d", ""), ("a\nb", "")].map(|(name, dir)| (name.into(), dir.into()))
        );
    }

    #[test]
    fn a_list_is_read_once() {
        let dir = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| dir.path().join(name));
        std::fs::write(&one, format!("a\n-T {}\nb\n", two.display())).unwrap();
        std::fs::write(&two, format!("c\n-T {}\nd\n--no\n", one.display())).unwrap();
        let names = names(vec![Flag::FilesFrom(one.clone().into())]);
        assert_eq!(
            shown(&names),
            ["a", "c", "d", "b"].map(|name| (name.to_owned(), String::new()))
        );
        let (one, two) = (one.display(), two.display());
        let twice = format!("{one}: file list requested from {two} already read from command line");
        assert_eq!(names.wrong, [(2, twice), (3, format!("{two}:4: unrecognized option"))]);
    }

    #[test]
    fn an_unannounced_nul_ends_names_from_there_on() {
        let of =
            |text: &'static [u8], null| lines(text, null).map(|(_, line)| line).collect::<Vec<_>>();
        assert_eq!(of(b"a\n\nb", false), [b"a", b"b"]);
        assert_eq!(of(b"a\0b\nc\0", false), [&b"a"[..], b"b\nc"]);
        assert_eq!(of(b"x\na\0b\nc", false), [&b"x"[..], b"a", b"b\nc"]);
        assert_eq!(of(b"x\ny\0b", true), [&b"x\ny"[..], b"b"]);
        assert!(of(b"", false).is_empty() && of(b"\n", false).is_empty());
    }

    #[test]
    fn patterns_match_as_the_flags_before_them_say() {
        let names = names(vec![
            Flag::Set(Switch::Anchored, true),
            Flag::Exclude("a".into()),
            Flag::Set(Switch::Anchored, false),
            Flag::Exclude("b".into()),
            Flag::Set(Switch::Wildcards, false),
            Flag::Exclude("c*".into()),
        ]);
        let excluded = |name: &str| names.exclude.matches(name.as_bytes());
        assert!(
            excluded("a/x")
                && !excluded("x/a")
                && excluded("x/b")
                && excluded("c*")
                && !excluded("cc")
        );
    }
}
