//! Turns flags into decisions. All errors that do not depend on files are found here.

use std::path::PathBuf;

use super::args::{CpArgs, Update};
use super::values::MOST_BLOCK;
pub(crate) use super::values::{Comparison, Dereference, ExistingRule, Mirror, Preserve, Transfer};
use crate::grammar::Refusal;
use crate::quote::quoted;
use crate::tool::When;

/// A validated command line.
#[derive(Clone, Debug)]
pub(crate) struct CpOptions {
    pub(crate) recursive: bool,
    pub(crate) dereference: Dereference,
    pub(crate) preserve: Preserve,
    pub(crate) existing: ExistingRule,
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
    /// Path of the receipt; `-` is standard output.
    pub(crate) receipt: Option<PathBuf>,
    /// The target is made like the source, with what differs only.
    pub(crate) mirror: Option<Mirror>,
    /// Nothing is copied; both are compared.
    pub(crate) comparison: Option<Comparison>,
}

/// The operands, before it is known whether the last one is a directory.
#[derive(Clone, Debug)]
pub(crate) struct Operands {
    pub(crate) sources: Vec<PathBuf>,
    pub(crate) target: CopyDestination,
}

/// Destination of the copies.
#[derive(Clone, Debug)]
pub(crate) enum CopyDestination {
    /// `-t`: into this directory.
    Into(PathBuf),
    /// `-T`: exactly this name.
    Exactly(PathBuf),
    /// Into it if it is a directory, else exactly this name (one source only).
    Either(PathBuf),
}

impl CpOptions {
    /// Decides what the command line means.
    ///
    /// # Errors
    /// Options contradict each other, or an operand is missing.
    pub(super) fn resolve(args: CpArgs) -> Result<(Self, Operands), Refusal> {
        if args.context {
            // SELinux is not supported: a request for a context is refused, and without one there
            // is none.
            return Err(Refusal::plain(
                "cannot preserve security context without an SELinux-enabled kernel",
            ));
        }
        let existing =
            if args.update == Some(Update::None) { ExistingRule::Keep } else { args.existing };
        let transfer = args.transfer;
        if transfer.reflink == When::Always && transfer.sparse != When::Auto {
            return Err(Refusal::usage("--reflink can be used only with --sparse=auto"));
        }
        if transfer.block.is_some_and(|block| block > MOST_BLOCK) {
            let most = MOST_BLOCK >> 20;
            return Err(Refusal::usage(format!("--block is too large: it may be {most}M at most")));
        }
        if transfer.resume && transfer.atomic {
            return Err(Refusal::usage("--resume and --atomic cannot be used together"));
        }
        if args.no_sync && args.mirror.is_some_and(|mirror| mirror.delete) {
            return Err(Refusal::usage("--delete needs what --no-sync leaves out"));
        }
        let dry_run = args.mirror.is_some_and(|mirror| mirror.dry_run);
        // Without a flag, links are copied as links with `-r`, and followed otherwise.
        let in_tree = args.recursive && !args.link;
        let options = Self {
            recursive: args.recursive,
            dereference: args.dereference.unwrap_or(if in_tree {
                Dereference::Never
            } else {
                Dereference::Always
            }),
            preserve: args.preserve,
            existing,
            update: args.update == Some(Update::Older) && existing != ExistingRule::Keep,
            force: args.force,
            remove_destination: args.remove_destination,
            hard_link: args.link,
            verbose: args.verbose || dry_run,
            one_file_system: args.one_file_system,
            parents: args.parents,
            sync: !args.no_sync && !dry_run,
            progress: args.progress.unwrap_or(When::Auto),
            transfer,
            receipt: args.receipt,
            mirror: args.mirror,
            comparison: args.comparison,
        };
        let files = args.files.into_iter().map(PathBuf::from).collect();
        let operands = Operands::resolve(files, args.target_directory, args.no_target_directory)?;
        Ok((options, operands))
    }
}

impl CpOptions {
    /// The name of the command.
    pub(crate) fn command(&self) -> &'static str {
        match (self.mirror, self.comparison) {
            (Some(_), _) => "sync",
            (_, Some(_)) => "cmp",
            (None, None) => "cp",
        }
    }

    /// Nothing is to be changed.
    pub(crate) fn is_dry(&self) -> bool {
        self.mirror.is_some_and(|mirror| mirror.dry_run)
    }
}

impl Operands {
    fn resolve(
        mut files: Vec<PathBuf>,
        into: Option<PathBuf>,
        exactly: bool,
    ) -> Result<Self, Refusal> {
        if files.is_empty() {
            return Err(Refusal::usage("missing file operand"));
        }
        if exactly && into.is_some() {
            let told = "cannot combine --target-directory (-t) and --no-target-directory (-T)";
            return Err(Refusal::plain(told));
        }
        if let Some(directory) = into {
            return Ok(Self { sources: files, target: CopyDestination::Into(directory) });
        }
        if files.len() == 1 {
            return Err(Refusal::usage(format!(
                "missing destination file operand after {}",
                quoted(&files[0])
            )));
        }
        if exactly && files.len() > 2 {
            return Err(Refusal::usage(format!("extra operand {}", quoted(&files[2]))));
        }
        let last = files.pop().expect("two or more were counted");
        let target =
            if exactly { CopyDestination::Exactly(last) } else { CopyDestination::Either(last) };
        Ok(Self { sources: files, target })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::cp::args::grammar;
    use crate::grammar::Line;

    fn resolve(line: &str) -> Result<(CpOptions, Operands), String> {
        let mut args = CpArgs::default();
        let mut words = Line::new(line.split_whitespace().map(Into::into));
        grammar().fold(&mut args, &mut words).map_err(|stop| format!("{stop:?}"))?;
        CpOptions::resolve(args).map_err(|refusal| refusal.to_string())
    }

    fn options(line: &str) -> CpOptions {
        resolve(&format!("{line} x y")).unwrap().0
    }

    #[test]
    fn the_last_flag_wins() {
        assert_eq!(options("-i -n").existing, ExistingRule::Keep);
        assert_eq!(options("-n -i").existing, ExistingRule::Ask);
        assert_eq!(options("-n -i -n").existing, ExistingRule::Keep);
        assert_eq!(options("-aL").dereference, Dereference::Always);
        assert_eq!(options("-L -a").dereference, Dereference::Never);
        assert_eq!(options("-rH").dereference, Dereference::Operands);
        assert_eq!(options("--sparse=never --sparse always").transfer.sparse, When::Always);
        assert_eq!(options("--reflink --reflink=never").transfer.reflink, When::Never);
    }

    #[test]
    fn preserve_lists_add_up_in_order() {
        let p = options("-a --no-preserve=ownership,links").preserve;
        assert!(p.mode && p.timestamps && p.xattr && !p.ownership && !p.links);
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
        assert_eq!(options("--update=none").existing, ExistingRule::Keep);
        assert!(!options("-u -n").update);
        assert!(!options("-u --update=all").update);
        assert!(options("-R").recursive && options("-r -R -r").recursive);
    }

    #[test]
    fn contradictions_are_refused() {
        let refuse = |line: &str| resolve(line).unwrap_err();
        assert_eq!(refuse(""), "missing file operand");
        assert_eq!(refuse("x"), "missing destination file operand after 'x'");
        assert_eq!(refuse("-t d"), "missing file operand");
        assert_eq!(refuse("-T a b c"), "extra operand 'c'");
        assert!(
            refuse("-t d -t e a").contains(&format!(
                "{:?}",
                Refusal::plain("multiple target directories specified")
            ))
        );
        assert_eq!(
            refuse("-t d -T a"),
            "cannot combine --target-directory (-t) and --no-target-directory (-T)"
        );
        assert_eq!(
            refuse("--reflink --sparse=never a b"),
            "--reflink can be used only with --sparse=auto"
        );
    }
}
