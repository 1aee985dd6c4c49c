//! The grammar of `dio cp`: GNU cp's options and dio's own. `options` decides what they mean
//! together.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::values::{Comparison, Dereference, ExistingRule, Mirror, Preserve, Transfer};
use crate::grammar::{
    Choice, Flag, GivenFlag, Grammar, Refusal, among, by_default, checked, help, meant, own,
    parsed, repeated, switch, version, word,
};
use crate::size::{parse_positive_size, parse_rate, parse_size};
use crate::tool::{OWN, When, depth_flag, mode_flag, progress_flag, receipt_flag, strict_flag};

/// The parsed command line.
#[derive(Debug, Default)]
pub(super) struct CpArgs {
    pub(super) files: Vec<OsString>,
    pub(super) target_directory: Option<PathBuf>,
    pub(super) no_target_directory: bool,
    pub(super) recursive: bool,
    pub(super) dereference: Option<Dereference>,
    pub(super) preserve: Preserve,
    /// `--preserve=context`
    pub(super) context: bool,
    pub(super) existing: ExistingRule,
    pub(super) update: Option<Update>,
    pub(super) force: bool,
    pub(super) remove_destination: bool,
    pub(super) link: bool,
    pub(super) verbose: bool,
    pub(super) one_file_system: bool,
    pub(super) parents: bool,
    pub(super) no_sync: bool,
    pub(super) progress: Option<When>,
    pub(super) receipt: Option<PathBuf>,
    pub(super) transfer: Transfer,
    /// The target is to be made like the source.
    pub(super) mirror: Option<Mirror>,
    /// Nothing is copied; both are to be compared.
    pub(super) comparison: Option<Comparison>,
}

/// The argument of `--update`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Update {
    None,
    Older,
    All,
}

/// Attributes named in the lists of `--preserve` and `--no-preserve`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attribute {
    Mode,
    Timestamps,
    Ownership,
    Links,
    Context,
    Xattr,
    All,
}

const UPDATES: &[Choice<Update>] = &[
    ("none", Update::None, "Leave every existing file"),
    ("older", Update::Older, "Replace files older than the source"),
    ("all", Update::All, "Replace every file"),
];

const ATTRIBUTES: &[Choice<Attribute>] = &[
    ("mode", Attribute::Mode, "Permission bits and ACLs"),
    ("timestamps", Attribute::Timestamps, "Times of access and modification, in nanoseconds"),
    ("ownership", Attribute::Ownership, "User and group"),
    ("links", Attribute::Links, "Hard links among the files copied"),
    ("context", Attribute::Context, "The SELinux context"),
    ("xattr", Attribute::Xattr, "Extended attributes"),
    ("all", Attribute::All, "All of them"),
];

const SPARSE: &[Choice<When>] = &[
    ("never", When::Never, "In no case"),
    ("auto", When::Auto, "Where it is useful"),
    ("always", When::Always, "In every case"),
];

const REFLINK: &[Choice<When>] = &[
    ("auto", When::Auto, "Where it is useful"),
    ("always", When::Always, "In every case"),
    ("never", When::Never, "In no case"),
];

/// Attributes that `-p` preserves.
const DEFAULT: [Attribute; 3] = [Attribute::Mode, Attribute::Ownership, Attribute::Timestamps];

const DETAILS: &str = "An existing target is written in place, so that it keeps its inode and its \
                       hard links, and a copy that is cut short leaves a part of the new contents. \
                       With --atomic it is replaced when its successor is complete.";

pub(super) fn grammar() -> Grammar<CpArgs> {
    Grammar::<CpArgs>::new("cp", "Copy files and trees past the page cache", DETAILS)
        .flags(names())
        .flags(attributes())
        .flags(existing())
        .flags(contents())
        .flags([help("-h, --help"), version("-V, --version")])
        .section(OWN, own_options())
        .files(
            "Files to copy, and where to: SOURCE DEST, SOURCE... DIRECTORY, or with -t only \
             SOURCE...",
            |cp| &mut cp.files,
        )
}

/// The grammar that makes a target like its source, which begins with what `-a` means.
pub(super) fn mirror_grammar() -> Grammar<CpArgs> {
    const DETAILS: &str = "DEST becomes a copy of SOURCE, as by cp -aT, and what is as it should \
                           be stays: files with the size and time of modification of their \
                           source. Other files are removed and made again, or with --atomic \
                           replaced when their successors are complete.";
    Grammar::<CpArgs>::new("sync", "Make a tree like another", DETAILS)
        .usage("dio-mpi sync [OPTION]... SOURCE DEST")
        .flags(mirroring())
        .flags(attributes())
        .flags([verbose(), one_file_system()])
        .flags(contents())
        .flags([help("-h, --help"), version("-V, --version")])
        .section(OWN, own_options())
        .files("What to copy, and the name of the copy", |cp| &mut cp.files)
}

fn mirroring() -> [Flag<CpArgs>; 3] {
    fn mirror(cp: &mut CpArgs) -> &mut Mirror {
        cp.mirror.get_or_insert_default()
    }
    [
        switch("--delete", "Remove what SOURCE lacks, when all copies are durable", |cp| {
            mirror(cp).delete = true;
        }),
        switch("-n, --dry-run", "Print what would be done, and do nothing", |cp| {
            mirror(cp).dry_run = true;
        }),
        switch("-c, --checksum", "Compare contents instead of sizes and times", |cp| {
            mirror(cp).checksum = true;
        }),
    ]
}

/// What [`mirror_grammar`] begins with.
pub(super) fn mirror_args() -> CpArgs {
    let mut args = CpArgs { mirror: Some(Mirror::default()), ..CpArgs::default() };
    args.archive();
    (args.no_target_directory, args.remove_destination) = (true, true);
    args
}

/// The grammar that compares two files or trees.
pub(super) fn comparison_grammar() -> Grammar<CpArgs> {
    const DETAILS: &str = "Prints which names are in one of both only, and which files differ and \
                           where: the first byte that differs, counted from 1. The status is 0 if \
                           both are the same, 1 if not, and 2 if something could not be compared.";
    Grammar::<CpArgs>::new("cmp", "Compare files and trees past the page cache", DETAILS)
        .usage("dio-mpi cmp [OPTION]... SOURCE DEST")
        .flags([
            switch(
                "-m, --metadata",
                "Compare modes, owners, times of modification, extended attributes and ACLs too",
                |cp| cp.comparison.get_or_insert_default().metadata = true,
            ),
            one_file_system(),
            help("-h, --help"),
            version("-V, --version"),
        ])
        .statuses(2, 2)
        .files("What to compare", |cp| &mut cp.files)
}

/// What [`comparison_grammar`] begins with.
pub(super) fn comparison_args() -> CpArgs {
    let mut args = CpArgs { comparison: Some(Comparison::default()), ..CpArgs::default() };
    args.archive();
    (args.no_target_directory, args.no_sync, args.progress) = (true, true, Some(When::Never));
    args
}

fn names() -> [Flag<CpArgs>; 3] {
    [
        checked(
            "-t, --target-directory=DIRECTORY",
            "Copy all SOURCEs into DIRECTORY",
            |cp, given| match cp.target_directory.replace(given.take().into()) {
                Some(_) => Err(Refusal::plain("multiple target directories specified")),
                None => Ok(()),
            },
        ),
        switch(
            "-T, --no-target-directory",
            "Treat DEST as a file to write, never as a directory to copy into",
            |cp| cp.no_target_directory = true,
        ),
        switch("-r, -R, --recursive", "Copy directories and everything below them", |cp| {
            cp.recursive = true
        }),
    ]
}

fn attributes() -> [Flag<CpArgs>; 8] {
    [
        switch("-a, --archive", "Copy everything as it is: -d -r --preserve=all", |cp| {
            cp.archive();
        }),
        switch("-p", "Same as --preserve=mode,ownership,timestamps", |cp| cp.keep(&DEFAULT)),
        among(
            ATTRIBUTES,
            repeated(checked(
                "--preserve[=LIST]",
                "Keep these attributes: mode, ownership, timestamps, links, context, xattr, all",
                |cp, given| {
                    let items = if given.value.is_some() {
                        items("--preserve", given)?
                    } else {
                        DEFAULT.to_vec()
                    };
                    cp.keep(&items);
                    Ok(())
                },
            )),
        ),
        among(
            ATTRIBUTES,
            repeated(checked("--no-preserve=LIST", "Do not keep these attributes", |cp, given| {
                items("--no-preserve", given)?.into_iter().for_each(|item| cp.set(item, false));
                Ok(())
            })),
        ),
        switch("-d", "Same as --no-dereference --preserve=links", |cp| {
            (cp.preserve.links, cp.dereference) = (true, Some(Dereference::Never));
        }),
        switch("-P, --no-dereference", "Copy symbolic links as links", |cp| {
            cp.dereference = Some(Dereference::Never);
        }),
        switch("-L, --dereference", "Copy what symbolic links lead to", |cp| {
            cp.dereference = Some(Dereference::Always);
        }),
        switch("-H", "Follow symbolic links named on the command line only", |cp| {
            cp.dereference = Some(Dereference::Operands);
        }),
    ]
}

fn existing() -> [Flag<CpArgs>; 9] {
    [
        switch("-i, --interactive", "Ask before replacing a file", |cp| {
            cp.existing = ExistingRule::Ask
        }),
        switch("-n, --no-clobber", "Leave existing files as they are", |cp| {
            cp.existing = ExistingRule::Keep
        }),
        switch(
            "-f, --force",
            "If an existing target cannot be opened, remove it and try again",
            |cp| {
                cp.force = true;
            },
        ),
        switch(
            "--remove-destination",
            "Remove an existing target file before trying to open it",
            |cp| {
                cp.remove_destination = true;
            },
        ),
        word(
            "-u, --update[=WHICH]",
            "Replace existing files: none of them, only those older than the source, or all",
            UPDATES,
            |cp, which| cp.update = which.or(Some(Update::Older)),
        ),
        switch("-l, --link", "Make hard links instead of copying", |cp| cp.link = true),
        verbose(),
        one_file_system(),
        switch("--parents", "Recreate the full path of each SOURCE under DIRECTORY", |cp| {
            cp.parents = true
        }),
    ]
}

fn verbose() -> Flag<CpArgs> {
    switch("-v, --verbose", "Name each file as it is copied", |cp| cp.verbose = true)
}

fn one_file_system() -> Flag<CpArgs> {
    switch("-x, --one-file-system", "Stay on the file system of each SOURCE", |cp| {
        cp.one_file_system = true
    })
}

fn contents() -> [Flag<CpArgs>; 2] {
    [
        by_default(
            "auto",
            word(
                "--sparse=WHEN",
                "Make holes in the target: where the source has them, wherever it has zeros, or \
                 none",
                SPARSE,
                |cp, when| cp.transfer.sparse = when.unwrap_or(When::Auto),
            ),
        ),
        by_default(
            "auto",
            word(
                "--reflink[=WHEN]",
                "Share the source's blocks: where the file system can, or fail if it cannot",
                REFLINK,
                |cp, when| cp.transfer.reflink = when.unwrap_or(When::Always),
            ),
        ),
    ]
}

fn own_options() -> [Flag<CpArgs>; 12] {
    [
        mode_flag(|cp, mode| cp.transfer.mode = mode.unwrap_or_default()),
        strict_flag(|cp| cp.transfer.strict = true),
        by_default(
            "64K",
            parsed(
                "--small=SIZE",
                "Largest file that --mode auto sends through a page cache that forgets, instead of \
                 directly",
                parse_size,
                |cp, size| cp.transfer.small = size.unwrap_or_default(),
            ),
        ),
        parsed(
            "--block=SIZE",
            "Size of one transfer, 24M at most [default: 1M]",
            parse_positive_size,
            |cp, size| cp.transfer.block = size,
        ),
        depth_flag(
            "Transfers kept in flight, as far as 48M of buffers go [default: 16; more for striped \
             files, which have 4 for each target]",
            |cp, depth| cp.transfer.depth = depth,
        ),
        own(switch(
            "--atomic",
            "Write under a temporary name and rename, so that the target is the old or the new \
             content at every instant",
            |cp| cp.transfer.atomic = true,
        )),
        own(switch(
            "--verify",
            "Read the copy back from the medium and compare it with what was read",
            |cp| cp.transfer.verify = true,
        )),
        parsed(
            "--limit=RATE",
            "Move at most RATE bytes per second, e.g. 100M",
            parse_rate,
            |cp, rate| {
                cp.transfer.limit = rate;
            },
        ),
        own(switch(
            "--resume",
            "Continue a copy that was cut short, keeping what is already there",
            |cp| {
                cp.transfer.resume = true;
            },
        )),
        own(switch("--no-sync", "Do not wait until data and names are on the disk", |cp| {
            cp.no_sync = true
        })),
        by_default(
            "auto",
            progress_flag("Show how far the copy is", |cp, when| {
                cp.progress = when.or(Some(When::Always))
            }),
        ),
        receipt_flag(
            "Write a JSON account of the copy to FILE, or to standard output if FILE is -",
            |cp, file| cp.receipt = Some(file.into()),
        ),
    ]
}

/// Parses a comma-separated list of attributes.
fn items(option: &str, given: &mut GivenFlag<'_>) -> Result<Vec<Attribute>, Refusal> {
    let list = given.take();
    list.as_bytes()
        .split(|byte| *byte == b',')
        .map(|item| meant(option, OsStr::from_bytes(item), ATTRIBUTES))
        .collect()
}

impl CpArgs {
    fn archive(&mut self) {
        (self.recursive, self.dereference) = (true, Some(Dereference::Never));
        self.keep(&DEFAULT);
        (self.preserve.links, self.preserve.xattr) = (true, true);
    }

    fn keep(&mut self, items: &[Attribute]) {
        items.iter().for_each(|item| self.set(*item, true));
    }

    fn set(&mut self, item: Attribute, on: bool) {
        let preserve = &mut self.preserve;
        match item {
            Attribute::Mode => (preserve.mode, preserve.default_mode) = (on, !on),
            Attribute::Ownership => preserve.ownership = on,
            Attribute::Timestamps => preserve.timestamps = on,
            Attribute::Links => preserve.links = on,
            Attribute::Context => self.context = on,
            Attribute::Xattr => (preserve.xattr, preserve.xattr_required) = (on, on),
            Attribute::All => {
                DEFAULT.iter().for_each(|item| self.set(*item, on));
                let preserve = &mut self.preserve;
                (preserve.links, preserve.xattr) = (on, on);
                preserve.xattr_required &= on;
            }
        }
    }
}
