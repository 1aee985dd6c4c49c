//! The options of `dio advise`.

use std::ffi::OsString;
use std::path::PathBuf;

use super::database::DatabaseAdviceArgs;
use super::sizes::SizesArgs;
use crate::commands::record::AttachArgs;

/// Say whether the I/O of a command should be direct, what that would gain, and whether it is true
///
/// The command runs once as it is and is watched. The verdict, on standard error when the command
/// has ended, has the time that is expected by each way (as it is, below a `dio run` of each mode,
/// by the tool of dio in place of the program), the page cache and the processor time that it uses,
/// the evidence, and the commands that apply it. What requests cost on the disk is measured once
/// and kept in ~/.cache/dio; see `dio probe --speed`. With root, or CAP_BPF and CAP_PERFMON, the
/// command is watched from within the kernel, otherwise by ptrace(2), which takes longer and sees
/// less. The exit status is that of the command.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    arg_required_else_help = true
)]
pub struct AdviseArgs {
    #[command(subcommand)]
    pub(super) what: Option<Advice>,

    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,

    /// Write the verdict to FILE instead of standard error
    #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(super) output: Option<PathBuf>,

    /// Predict from the profile PROFILE, of `dio probe --speed` on this or another machine
    #[arg(long, value_name = "PROFILE", value_hint = clap::ValueHint::FilePath)]
    pub(super) device: Option<PathBuf>,

    /// Run the command by each way, in turn and from the same page cache, and show what it took;
    /// its output is thrown away then. A trace is replayed
    #[arg(long, conflicts_with = "running")]
    pub(super) prove: bool,

    /// With --prove, let each run go on from what the one before has left, for a database or a
    /// command that renames files. Otherwise what the command has written is set aside
    #[arg(long, requires = "prove", conflicts_with = "trace")]
    pub(super) repeat: bool,

    /// With --prove of a trace, make its files in DIR
    #[arg(
        long,
        value_name = "DIR",
        default_value = ".",
        requires = "prove",
        value_hint = clap::ValueHint::DirPath
    )]
    pub(super) scratch: PathBuf,

    /// With --prove, run so often by each way
    #[arg(
        long,
        value_name = "N",
        default_value_t = 3,
        requires = "prove",
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub(super) rounds: u32,

    #[command(flatten)]
    pub(super) attached: AttachArgs,

    /// A trace of `dio record`; the verdict goes to standard output
    #[arg(
        value_name = "TRACE",
        required_unless_present_any = ["running", "command"],
        conflicts_with = "running",
        value_hint = clap::ValueHint::FilePath
    )]
    pub(super) trace: Option<PathBuf>,

    /// The command and its arguments
    #[arg(
        value_name = "COMMAND",
        last = true,
        conflicts_with_all = ["trace", "running"],
        value_hint = clap::ValueHint::CommandWithArguments
    )]
    pub(super) command: Vec<OsString>,
}

#[derive(Debug, clap::Subcommand)]
pub(super) enum Advice {
    Sizes(SizesArgs),
    Database(DatabaseAdviceArgs),
}
