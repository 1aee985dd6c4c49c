//! Names on the command line and in lists (`-T`), with the directories (`-C`) and patterns that concern them.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use clap::{Args, Command, FromArgMatches};
use rustix::fs::{Mode, OFlags, open};

use super::options::Refusal;
use super::ordered::{Flag, Switch};
use super::pattern::{Matching, Patterns};
use super::quoting::{escaped, unquoted};
use crate::quote::{marked, words};
use crate::tool::Ordered;

/// One name to archive, or one pattern of members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    /// As given, with escapes undone and without `/` at its end.
    pub(super) bytes: Vec<u8>,
    /// Index in [`Names::directories`].
    pub(super) directory: usize,
    /// How it matches members; `recursion` also says whether what is in a directory is archived.
    pub(super) matching: Matching,
}

/// All names, in order.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) list: Vec<Name>,
    /// The directories that names are relative to: the first is the working directory (empty); each of the others is
    /// relative to it too.
    pub(super) directories: Vec<PathBuf>,
    /// What is excluded.
    pub(super) exclude: Patterns,
    /// Whether patterns of members may have wildcards, if it was said.
    pub(super) wildcards: Option<bool>,
    /// There may be several names: more than one, or a list.
    pub(super) many: bool,
    /// Flags that concern only names after them, and had none: GNU tar tells them when it archives.
    pub(super) unused: Vec<String>,
    /// Lists in which a NUL was met that was not announced (`--null`).
    pub(super) with_nuls: Vec<Vec<u8>>,
}

/// What version control systems keep, as GNU tar lists it.
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

/// Backup and lock files.
const BACKUPS: [&[u8]; 3] = [b".#*", b"*~", b"#*#"];

/// Lists within lists that are read, before one that names itself is told.
const DEEPEST: usize = 64;

impl Names {
    /// The names of a command line.
    ///
    /// # Errors
    /// A list cannot be read.
    pub(super) fn of(ordered: Ordered<Flag>, exclude_vcs: bool, exclude_backups: bool) -> Result<Names, Refusal> {
        let mut reading = Reading::new();
        let fixed = Matching { recursion: false, wildcards: false, ..reading.excluding() };
        for name in VCS.iter().filter(|_| exclude_vcs) {
            reading.names.exclude.add(name, fixed);
        }
        for pattern in BACKUPS.iter().filter(|_| exclude_backups) {
            reading.names.exclude.add(pattern, Matching { wildcards: true, ..fixed });
        }
        for flag in ordered.0 {
            reading.take(flag, 0)?;
        }
        let Reading { mut names, pending, wildcards, .. } = reading;
        names.unused = pending;
        names.wildcards = wildcards;
        names.exclude.build();
        Ok(names)
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The directory for members when no names are given: the last one.
    pub(super) fn last_directory(&self) -> usize {
        self.directories.len() - 1
    }

    /// Opens all directories, in their order.
    ///
    /// # Errors
    /// One cannot be opened.
    pub(super) fn open_directories(&self) -> Result<Vec<OwnedFd>, Refusal> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = self.directories.iter().map(|path| {
            let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
            open(path, flags, Mode::empty())
                .map_err(|errno| fatal(path.as_os_str().as_bytes(), "Cannot open: ", words(errno)))
        });
        opened.collect()
    }
}

fn fatal(name: &[u8], doing: &str, errno: impl std::fmt::Display) -> Refusal {
    Refusal::Fatal(format!("{}: {doing}{errno}", escaped(name)))
}

/// The state of the flags while they are read.
#[derive(Debug)]
struct Reading {
    names: Names,
    null: bool,
    verbatim: bool,
    unquote: bool,
    recursion: bool,
    anchored: Option<bool>,
    wildcards: Option<bool>,
    match_slash: bool,
    ignore_case: bool,
    /// Flags since the last name.
    pending: Vec<String>,
}

impl Reading {
    fn new() -> Reading {
        let names = Names {
            list: Vec::new(),
            directories: vec![PathBuf::new()],
            exclude: Patterns::default(),
            wildcards: None,
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
        }
    }

    /// How patterns of `--exclude` match now.
    fn excluding(&self) -> Matching {
        Matching {
            anchored: self.anchored.unwrap_or(false),
            wildcards: self.wildcards.unwrap_or(true),
            match_slash: self.match_slash,
            ignore_case: self.ignore_case,
            recursion: self.recursion,
        }
    }

    /// How patterns of members match now.
    fn including(&self) -> Matching {
        Matching {
            anchored: self.anchored.unwrap_or(true),
            wildcards: self.wildcards.unwrap_or(false),
            ..self.excluding()
        }
    }

    fn take(&mut self, flag: Flag, depth: usize) -> Result<(), Refusal> {
        match flag {
            Flag::Name(name) | Flag::AddFile(name) => self.name(name.into_vec()),
            Flag::Directory(dir) => {
                let within = self.names.directories.last().map(|before| before.join(&dir)).unwrap_or_default();
                self.pending.push(format!("-C {}", marked(dir.as_bytes())));
                self.names.directories.push(within);
            }
            Flag::FilesFrom(list) => self.list(&list, depth)?,
            Flag::Exclude(pattern) => {
                self.pending.push(format!("--exclude {}", marked(pattern.as_bytes())));
                let how = self.excluding();
                self.names.exclude.add(pattern.as_bytes(), how);
            }
            Flag::ExcludeFrom(list) => {
                self.pending.push(format!("--exclude-from {}", marked(list.as_bytes())));
                self.exclude_from(&list)?;
            }
            Flag::Set(switch, value) => self.set(switch, value),
            Flag::Treat(_) => {}
        }
        Ok(())
    }

    fn set(&mut self, switch: Switch, value: bool) {
        let positional = match switch {
            Switch::Null => {
                // Names that end in NUL are nothing but names.
                (self.null, self.verbatim) = (value, value);
                None
            }
            Switch::Verbatim => {
                self.verbatim = value;
                None
            }
            Switch::Unquote => {
                self.unquote = value;
                None
            }
            Switch::Recursion => {
                self.recursion = value;
                Some(if value { "--recursion" } else { "--no-recursion" })
            }
            Switch::Anchored => {
                self.anchored = Some(value);
                Some(if value { "--anchored" } else { "--no-anchored" })
            }
            Switch::Wildcards => {
                self.wildcards = Some(value);
                Some(if value { "--wildcards" } else { "--no-wildcards" })
            }
            Switch::MatchSlash => {
                self.match_slash = value;
                Some(if value { "--wildcards-match-slash" } else { "--no-wildcards-match-slash" })
            }
            Switch::IgnoreCase => {
                self.ignore_case = value;
                Some(if value { "--ignore-case" } else { "--no-ignore-case" })
            }
        };
        self.pending.extend(positional.map(str::to_owned));
    }

    fn name(&mut self, name: Vec<u8>) {
        self.pending.clear();
        let bytes = if self.unquote { unquoted(&name) } else { name };
        let directory = self.names.last_directory();
        let matching = self.including();
        self.names.many |= !self.names.list.is_empty();
        self.names.list.push(Name { bytes: without_slashes(bytes), directory, matching });
    }

    /// `-T`: names, and flags among them.
    fn list(&mut self, list: &OsStr, depth: usize) -> Result<(), Refusal> {
        if depth == DEEPEST {
            return Err(fatal(list.as_bytes(), "", "file list requested from itself"));
        }
        self.pending.clear();
        self.names.many = true;
        let text = read(list).map_err(|error| fatal(list.as_bytes(), "Cannot stat: ", error))?;
        if !self.null && text.contains(&0) {
            self.names.with_nuls.push(list.as_bytes().to_vec());
        }
        for line in lines(&text, self.null) {
            let start = line.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            if self.verbatim || line.get(start) != Some(&b'-') {
                self.name(line.to_vec());
                continue;
            }
            for flag in flags_in(&line[start..])? {
                self.take(flag, depth + 1)?;
            }
        }
        Ok(())
    }

    /// `-X`: a pattern a line; blanks at its end do not count.
    fn exclude_from(&mut self, list: &OsStr) -> Result<(), Refusal> {
        let text = read(list).map_err(|error| fatal(list.as_bytes(), "", error))?;
        let how = self.excluding();
        for line in text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end).filter(|line| !line.is_empty()) {
            self.names.exclude.add(line, how);
        }
        Ok(())
    }
}

/// The name without `/` at its end; `/` alone stays.
fn without_slashes(mut name: Vec<u8>) -> Vec<u8> {
    while name.len() > 1 && name.last() == Some(&b'/') {
        name.pop();
    }
    name
}

/// The lines of a list that are not empty. A NUL where none was announced ends its name, and from there on all names end so.
fn lines(text: &[u8], null: bool) -> impl Iterator<Item = &[u8]> {
    let first_nul = if null { Some(0) } else { memchr::memchr(0, text) };
    let turn = match first_nul {
        Some(at) => memchr::memrchr(b'\n', &text[..at]).map_or(0, |end| end + 1),
        None => text.len(),
    };
    let (ended_by_lines, ended_by_nuls) = text.split_at(turn);
    let all = ended_by_lines.split(|byte| *byte == b'\n').chain(ended_by_nuls.split(|byte| *byte == 0));
    all.filter(|line| !line.is_empty())
}

/// A whole list; `-` is standard input.
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

/// The flags in a line of a list, which may have quotes around parts of words.
fn flags_in(line: &[u8]) -> Result<Vec<Flag>, Refusal> {
    let line_words = split_words(line).into_iter().map(OsString::from_vec);
    let grammar = Ordered::<Flag>::augment_args(Command::new("list").no_binary_name(true).disable_help_flag(true));
    let grammar = grammar.args_override_self(true).infer_long_args(true);
    let invalid = |_| Refusal::Usage(format!("{}: not an option of a list", escaped(line)));
    let matches = grammar.try_get_matches_from(line_words).map_err(invalid)?;
    Ok(Ordered::<Flag>::from_arg_matches(&matches).map_err(invalid)?.0)
}

/// Words parted by blanks, with quotes and backslashes as in a shell.
pub(super) fn split_words(line: &[u8]) -> Vec<Vec<u8>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<Vec<u8>>, None);
    let mut bytes = line.iter().copied();
    while let Some(byte) = bytes.next() {
        match (quote, byte) {
            (Some(open), byte) if byte == open => quote = None,
            (Some(b'\''), byte) => word.get_or_insert_default().push(byte),
            (_, b'\\') => word.get_or_insert_default().extend(bytes.next()),
            (None, b'\'' | b'"') => {
                word.get_or_insert_default();
                quote = Some(byte);
            }
            (None, byte) if byte.is_ascii_whitespace() => words.extend(word.take()),
            (_, byte) => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(flags: Vec<Flag>) -> Names {
        Names::of(Ordered(flags), false, false).unwrap_or_else(|refusal| panic!("{refusal:?}"))
    }

    fn list(text: &[u8], before: Vec<Flag>) -> Names {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("list");
        std::fs::write(&path, text).unwrap();
        names(before.into_iter().chain([Flag::FilesFrom(path.into())]).collect())
    }

    fn shown(names: &Names) -> Vec<(String, String)> {
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
        let expected = [("a", ""), ("b\n", "d/e"), ("c\\n", "/f")].map(|(name, dir)| (name.into(), dir.into()));
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
        assert_eq!(shown(&null), [("-C d", ""), ("a\nb", "")].map(|(name, dir)| (name.into(), dir.into())));
    }

    #[test]
    fn a_list_that_names_itself_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("list");
        std::fs::write(&path, format!("a\n-T {}\n", path.display())).unwrap();
        let flags = Ordered(vec![Flag::FilesFrom(path.into())]);
        assert!(matches!(Names::of(flags, false, false), Err(Refusal::Fatal(_))));
    }

    #[test]
    fn an_unannounced_nul_ends_names_from_there_on() {
        let of = |text: &'static [u8], null| lines(text, null).collect::<Vec<_>>();
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
        assert!(excluded("a/x") && !excluded("x/a") && excluded("x/b") && excluded("c*") && !excluded("cc"));
    }
}
