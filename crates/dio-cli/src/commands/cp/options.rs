//! From flags to decisions: everything that can be known to be wrong before a file is looked at.

use std::path::PathBuf;

use super::args::{Attribute, CpArgs, Flag, Update};
use super::data::MOST_BLOCK;
use super::error::UsageError;
use crate::tool::{Mode, When};

/// Which symbolic links in the source are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dereference {
    /// None: links are copied as links.
    Never,
    /// Those named on the command line.
    Operands,
    /// All.
    Always,
}

/// What becomes of a target file that exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Existing {
    /// It is replaced.
    #[default]
    Replace,
    /// The user is asked.
    Ask,
    /// It stays.
    Keep,
}

/// The attributes a copy takes over from its source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Preserve {
    /// Permission bits and ACLs.
    pub(crate) mode: bool,
    /// User and group.
    pub(crate) ownership: bool,
    /// Times of access and modification.
    pub(crate) timestamps: bool,
    /// Hard links within the set of files copied.
    pub(crate) links: bool,
    /// Extended attributes.
    pub(crate) xattr: bool,
    /// Extended attributes were asked for by name: failing to copy one is an error.
    pub(crate) xattr_required: bool,
    /// Failing to keep mode, ownership or times makes the exit status 1.
    pub(crate) required: bool,
    /// `--no-preserve=mode`: new files get the default permissions, whatever the source has.
    pub(crate) default_mode: bool,
}

/// How the bytes of a file are moved; the data layer's part.
#[derive(Clone, Debug)]
#[allow(dead_code, reason = "read by the data layer")]
pub(crate) struct Transfer {
    pub(crate) mode: Mode,
    pub(crate) strict: bool,
    /// Bytes.
    pub(crate) block: Option<u64>,
    pub(crate) depth: Option<u32>,
    /// Bytes: up to this, files take the small way under `Mode::Auto`.
    pub(crate) small: u64,
    pub(crate) atomic: bool,
    pub(crate) verify: bool,
    /// Bytes per second.
    pub(crate) limit: Option<u64>,
    pub(crate) resume: bool,
    pub(crate) sparse: When,
    pub(crate) reflink: When,
}

/// A validated command line.
#[derive(Clone, Debug)]
pub(crate) struct CpOptions {
    pub(crate) recursive: bool,
    pub(crate) dereference: Dereference,
    pub(crate) preserve: Preserve,
    pub(crate) existing: Existing,
    /// Keep targets that are not older than their source.
    pub(crate) update: bool,
    /// Remove a target that cannot be opened.
    pub(crate) force: bool,
    /// Remove a target before opening it.
    pub(crate) remove_destination: bool,
    pub(crate) hard_link: bool,
    pub(crate) verbose: bool,
    pub(crate) one_file_system: bool,
    pub(crate) parents: bool,
    /// Data and names are durable on exit.
    pub(crate) sync: bool,
    pub(crate) progress: When,
    pub(crate) transfer: Transfer,
    /// Where the account goes; `-` is standard output.
    #[allow(dead_code, reason = "read by whoever writes the receipt")]
    pub(crate) receipt: Option<PathBuf>,
}

/// The operands, before the file system was asked what the last one is.
#[derive(Clone, Debug)]
pub(crate) struct Operands {
    pub(crate) sources: Vec<PathBuf>,
    pub(crate) target: Target,
}

/// Where copies go.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// `-t`: into this directory.
    Into(PathBuf),
    /// `-T`: exactly this name.
    Exactly(PathBuf),
    /// Into it if it is a directory, else exactly there (one source only).
    Either(PathBuf),
}

impl CpOptions {
    /// Checks the flags and operands against each other.
    pub(crate) fn resolve(args: CpArgs) -> Result<(Self, Operands), UsageError> {
        let choices = Choices::from_flags(&args.ordered.0)?;
        let recursive = args.recursive || choices.recursive;
        let existing = match args.update {
            Some(Update::None) => Existing::Keep,
            _ => choices.existing,
        };
        if args.reflink == When::Always && args.sparse != When::Auto {
            return Err(UsageError::ReflinkSparse);
        }
        if args.block.is_some_and(|block| block > MOST_BLOCK) {
            return Err(UsageError::BlockTooLarge);
        }
        if args.resume && args.atomic {
            return Err(UsageError::Together("--resume", "--atomic"));
        }
        let options = Self {
            recursive,
            // Without a flag, links in a tree are copied as links, and elsewhere followed.
            dereference: choices.dereference.unwrap_or(if recursive && !args.link {
                Dereference::Never
            } else {
                Dereference::Always
            }),
            preserve: choices.preserve,
            existing,
            update: args.update == Some(Update::Older) && existing != Existing::Keep,
            force: args.force,
            remove_destination: args.remove_destination,
            hard_link: args.link,
            verbose: args.verbose,
            one_file_system: args.one_file_system,
            parents: args.parents,
            sync: !args.no_sync,
            progress: args.progress,
            transfer: Transfer {
                mode: args.mode,
                strict: args.strict,
                block: args.block,
                depth: args.depth,
                small: args.small,
                atomic: args.atomic,
                verify: args.verify,
                limit: args.limit,
                resume: args.resume,
                sparse: args.sparse,
                reflink: args.reflink,
            },
            receipt: args.receipt,
        };
        let operands = Operands::resolve(args.files, args.target_directory, args.no_target_directory)?;
        Ok((options, operands))
    }
}

impl Operands {
    fn resolve(mut files: Vec<PathBuf>, mut into: Vec<PathBuf>, exactly: bool) -> Result<Self, UsageError> {
        if into.len() > 1 {
            return Err(UsageError::SeveralTargets);
        }
        let into = into.pop();
        if files.is_empty() {
            return Err(UsageError::NoOperand);
        }
        if exactly && into.is_some() {
            return Err(UsageError::IntoAndExactly);
        }
        if let Some(directory) = into {
            return Ok(Self { sources: files, target: Target::Into(directory) });
        }
        if files.len() == 1 {
            return Err(UsageError::NoDestination(files.swap_remove(0)));
        }
        if exactly && files.len() > 2 {
            return Err(UsageError::Extra(files.swap_remove(2)));
        }
        let last = files.pop().expect("two or more were counted");
        let target = if exactly { Target::Exactly(last) } else { Target::Either(last) };
        Ok(Self { sources: files, target })
    }
}

/// What the flags whose order matters add up to.
#[derive(Default)]
struct Choices {
    recursive: bool,
    dereference: Option<Dereference>,
    preserve: Preserve,
    existing: Existing,
}

impl Choices {
    fn from_flags(flags: &[Flag]) -> Result<Self, UsageError> {
        let mut choices = Self::default();
        for &flag in flags {
            let preserve = &mut choices.preserve;
            match flag {
                Flag::Archive => {
                    choices.recursive = true;
                    choices.dereference = Some(Dereference::Never);
                    for item in [Attribute::Mode, Attribute::Ownership, Attribute::Timestamps, Attribute::Links] {
                        preserve.set(item, true)?;
                    }
                    preserve.required = true;
                    preserve.xattr = true;
                }
                Flag::PreserveDefault => {
                    for item in [Attribute::Mode, Attribute::Ownership, Attribute::Timestamps] {
                        preserve.set(item, true)?;
                    }
                    preserve.required = true;
                }
                Flag::Preserve(item) => {
                    preserve.set(item, true)?;
                    preserve.required = true;
                }
                Flag::NoPreserve(item) => preserve.set(item, false)?,
                Flag::KeepLinks => {
                    preserve.links = true;
                    choices.dereference = Some(Dereference::Never);
                }
                Flag::NoDereference => choices.dereference = Some(Dereference::Never),
                Flag::Dereference => choices.dereference = Some(Dereference::Always),
                Flag::DereferenceOperands => choices.dereference = Some(Dereference::Operands),
                Flag::Interactive => choices.existing = Existing::Ask,
                Flag::NoClobber => choices.existing = Existing::Keep,
            }
        }
        Ok(choices)
    }
}

impl Preserve {
    fn set(&mut self, item: Attribute, on: bool) -> Result<(), UsageError> {
        match item {
            Attribute::Mode => {
                self.mode = on;
                self.default_mode = !on;
            }
            Attribute::Ownership => self.ownership = on,
            Attribute::Timestamps => self.timestamps = on,
            Attribute::Links => self.links = on,
            // No SELinux support: asking for a context is refused, doing without is what happens.
            Attribute::Context if on => return Err(UsageError::Context),
            Attribute::Context => {}
            Attribute::Xattr => {
                self.xattr = on;
                self.xattr_required = on;
            }
            Attribute::All => {
                for item in [Attribute::Mode, Attribute::Ownership, Attribute::Timestamps, Attribute::Links] {
                    self.set(item, on)?;
                }
                self.xattr = on;
                self.xattr_required &= on;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: CpArgs,
    }

    fn options(line: &str) -> CpOptions {
        let line = Line::try_parse_from(["cp"].into_iter().chain(line.split_whitespace()).chain(["x", "y"]));
        CpOptions::resolve(line.unwrap().args).unwrap().0
    }

    #[test]
    fn the_last_flag_wins() {
        assert_eq!(options("-i -n").existing, Existing::Keep);
        assert_eq!(options("-n -i").existing, Existing::Ask);
        assert_eq!(options("-n -i -n").existing, Existing::Keep);
        assert_eq!(options("-aL").dereference, Dereference::Always);
        assert_eq!(options("-L -a").dereference, Dereference::Never);
        assert_eq!(options("-rH").dereference, Dereference::Operands);
        assert_eq!(options("--sparse=never --sparse always").transfer.sparse, When::Always);
        assert_eq!(options("--reflink --reflink=never").transfer.reflink, When::Never);
    }

    #[test]
    fn preserve_lists_add_up_in_order() {
        let p = options("-a --no-preserve=ownership,links").preserve;
        assert!(p.mode && p.timestamps && p.xattr && !p.ownership && !p.links && p.required);
        let p = options("--no-preserve=mode -p").preserve;
        assert!(p.mode && !p.default_mode);
        let p = options("-p --no-preserve=mode").preserve;
        assert!(!p.mode && p.default_mode && p.ownership);
        let p = options("--preserve").preserve;
        assert!(p.mode && p.ownership && p.timestamps && !p.links && !p.xattr);
        let p = options("--preserve=xattr").preserve;
        assert!(p.xattr && p.xattr_required && !p.mode);
        let p = options("--preserve=all").preserve;
        assert!(p.xattr && !p.xattr_required && p.links);
    }

    #[test]
    fn update_and_short_flags_together() {
        assert!(options("-uv").update && options("-uv").verbose);
        assert!(options("--update").update);
        assert_eq!(options("--update=none").existing, Existing::Keep);
        assert!(!options("-u -n").update);
        assert!(!options("-u --update=all").update);
        assert!(options("-R").recursive && options("-r -R -r").recursive);
    }

    #[test]
    fn contradictions_are_refused() {
        let refuse = |line: &str| {
            let line = Line::try_parse_from(["cp"].into_iter().chain(line.split_whitespace())).unwrap();
            CpOptions::resolve(line.args).unwrap_err().to_string()
        };
        assert_eq!(refuse(""), "missing file operand");
        assert_eq!(refuse("x"), "missing destination file operand after 'x'");
        assert_eq!(refuse("-t d"), "missing file operand");
        assert_eq!(refuse("-T a b c"), "extra operand 'c'");
        assert_eq!(refuse("-t d -t e a"), "multiple target directories specified");
        assert_eq!(refuse("-t d -T a"), "cannot combine --target-directory (-t) and --no-target-directory (-T)");
        assert_eq!(refuse("--reflink --sparse=never a b"), "--reflink can be used only with --sparse=auto");
    }
}
