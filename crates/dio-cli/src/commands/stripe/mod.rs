//! `dio stripe`: files whose bytes are spread over several directories or devices.

mod check;
mod digests;
mod orphans;
mod show;

use crate::quote::quoted;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use dio::FileError;
use dio::stripe::{self, RemoveOutcome, StripePlan};

use crate::size::parse_positive_size;
use crate::stop::Stop;
#[cfg(feature = "fuzzing")]
pub(crate) use digests::fuzz_digests;
pub(super) use show::words as state_words;

/// Make, show and check files that are striped over several directories or devices
///
/// A striped file has a name like any other, and its bytes in several directories, on disks or
/// mounts of their own, or on disks without a file system. Every command of dio reads and writes it
/// as one file, all directories at once; other programs see it so through 'dio mount', and else a
/// short text that says what it is. Copying or removing that text copies or removes none of the
/// bytes.
#[derive(Debug, clap::Args)]
pub struct StripeArgs {
    #[command(subcommand)]
    action: StripeAction,
}

/// What to do with striped files.
#[derive(Debug, Subcommand)]
enum StripeAction {
    Set(SetArgs),
    Show(show::ShowArgs),
    Check(check::CheckArgs),
    Migrate(MigrateArgs),
    Rm(RemoveArgs),
    Adopt(AdoptArgs),
    Orphans(orphans::OrphansArgs),
}

/// Make empty striped files
///
/// A name that is free, or that of an empty file, becomes a striped file of no bytes. Bytes come by
/// 'dio cp', or by any other way of writing a file. A directory gives this to the files that
/// commands of dio make in it from then on.
///
/// A block device that is a target belongs to this one file, from its first byte to its last, until
/// 'dio stripe rm'. It is refused when it is mounted or in use, and when it holds something. Names
/// that last, as those in /dev/disk/by-id, are best.
#[derive(Debug, clap::Args)]
struct SetArgs {
    #[command(flatten)]
    how: StripeChoice,

    /// Files to make, or directories
    #[arg(required = true, value_name = "FILE|DIR")]
    files: Vec<PathBuf>,
}

/// How a file is to be striped.
#[derive(Debug, clap::Args)]
struct StripeChoice {
    /// Bytes in a stripe, a multiple of 4096; 1M unless a directory's file system likes larger ones
    #[arg(short = 'S', long, value_name = "SIZE", value_parser = parse_positive_size)]
    stripe_size: Option<u64>,

    /// Stripe over COUNT objects; by default, one in each directory
    #[arg(short = 'c', long, value_name = "COUNT")]
    stripe_count: Option<usize>,

    /// Directories for the objects, in order, or block devices, each of which becomes one object;
    /// none of them twice
    #[arg(short, long, required = true, value_name = "DIR|DEVICE", value_delimiter = ',')]
    targets: Vec<PathBuf>,

    /// Use devices even if they hold data, which is lost
    #[arg(long)]
    force: bool,
}

impl StripeChoice {
    fn plan(self) -> StripePlan {
        StripePlan {
            stripe: self.stripe_size,
            count: self.stripe_count,
            targets: self.targets,
            force: self.force,
        }
    }
}

/// Move files to another layout
///
/// The bytes are copied to new objects and made durable before the name leads there. An interrupted
/// migration leaves the file as it was, and can be run again. Ordinary files become striped ones.
/// No program may write to a file meanwhile: a striped file cannot be opened for writing, and
/// writing to an ordinary file is detected and is an error.
#[derive(Debug, clap::Args)]
struct MigrateArgs {
    #[command(flatten)]
    how: StripeChoice,

    /// Files to move
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Remove striped files with all their bytes
///
/// Without --force, a file stays complete if one of its objects is missing, damaged, or cannot be
/// removed. If FILE is only a copy of the descriptor that another program has made, or one of
/// several names, only this name is removed. For a directory, only its defaults for new files are
/// removed.
#[derive(Debug, clap::Args)]
struct RemoveArgs {
    /// Remove the remaining objects of files whose other objects are missing or damaged; without
    /// this, nothing of such a file is removed
    #[arg(long)]
    force: bool,

    /// Files to remove, or directories
    #[arg(required = true, value_name = "FILE|DIR")]
    files: Vec<PathBuf>,
}

/// Make copies of descriptors the striped files
///
/// Other programs copy only the text that says where the bytes are. Such a copy can be read, and
/// not written. When the original is gone, as after a restore from a backup or a move to another
/// file system, this makes the copy the striped file. If the original is still there, it is a copy
/// from then on.
#[derive(Debug, clap::Args)]
struct AdoptArgs {
    /// Copies of descriptors
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Processes every file, even if others fail. The exit status is 1 if something failed.
pub fn run(args: StripeArgs) -> ExitCode {
    match args.action {
        StripeAction::Set(args) => set(args),
        StripeAction::Show(args) => show::show(&args),
        StripeAction::Check(args) => check::check(&args),
        StripeAction::Migrate(args) => migrate(args),
        StripeAction::Rm(args) => for_each(&args.files, |file| match file.is_dir() {
            true => dio_stripe::clear_default(file),
            false => remove(file, args.force).map(|removed| match removed {
                RemoveOutcome::All => {}
                RemoveOutcome::Name => {
                    eprintln!("dio stripe: {} has other names, which keep the bytes", quoted(file))
                }
                RemoveOutcome::Copy => {
                    eprintln!("dio stripe: {} was a copy: the file keeps its bytes", quoted(file))
                }
            }),
        }),
        StripeAction::Orphans(args) => orphans::orphans(&args),
        StripeAction::Adopt(args) => for_each(&args.files, |file| dio_stripe::adopt(file)),
    }
}

fn remove(file: &Path, force: bool) -> Result<RemoveOutcome, FileError> {
    if force { stripe::remove_forced(file) } else { stripe::remove(file) }
}

/// Reports targets that bring no gain because they are on the same disk. Does nothing if the
/// command failed.
fn note_shared_disks(plan: &StripePlan, status: ExitCode) {
    if status != ExitCode::SUCCESS {
        return;
    }
    for (target, first) in dio_stripe::targets_sharing_disks(plan) {
        eprintln!("dio stripe: note: {} is on the same disk as {}", quoted(target), quoted(first));
    }
}

fn set(args: SetArgs) -> ExitCode {
    let plan = args.how.plan();
    let status = for_each(&args.files, |file| match file.is_dir() {
        true => dio_stripe::set_default(file, &plan),
        false => stripe::create(file, &plan).map(drop),
    });
    note_shared_disks(&plan, status);
    status
}

fn migrate(args: MigrateArgs) -> ExitCode {
    let plan = args.how.plan();
    let status = for_each(&args.files, |file| {
        dio_stripe::migrate(file, &plan, &|| Stop::on_signals().asked())
    });
    note_shared_disks(&plan, status);
    status
}

fn for_each<E: std::fmt::Display>(
    files: &[PathBuf],
    mut work: impl FnMut(&PathBuf) -> Result<(), E>,
) -> ExitCode {
    let mut status = ExitCode::SUCCESS;
    for file in files {
        if let Err(error) = work(file) {
            eprintln!("dio stripe: {error}");
            status = ExitCode::FAILURE;
        }
    }
    status
}
