//! `dio dd`: GNU dd's operands, records and words, with files moved in large blocks whatever `bs` is.
//!
//! `operands` (their text, `number`, `flags`) → `plan` (taken together) → `open` → `copy`: chunks of files or the records
//! of `source`, through `convert`, to `target`. `account` counts records and prints the report, which `signals` may ask for
//! at any time.
//!
//! What the user asked for is what the *result* looks like. A block of a file is nothing but a place in it, so how many of
//! them were read is computed; where reading decides (a pipe gives what it has), records are read and counted as they come.

mod account;
mod args;
mod convert;
mod copy;
mod ebcdic;
mod flags;
mod human;
mod number;
mod open;
mod operands;
mod plan;
mod signals;
mod source;
mod target;
mod words;

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;

use rustix::io::Errno;

pub use args::DdArgs;

use account::Account;
use copy::{Copy, Halt};
use flags::{conv, flag};
use open::{End, failure};
use operands::{Operands, Wrong};
use plan::Plan;
use signals::Signals;
use target::Target;

use crate::quote::{named, quoted};
use crate::tool::{Tool, errno_of};

/// Runs `dio dd`; 0 if everything was copied, else 1.
pub fn run(args: DdArgs) -> ExitCode {
    let tool = Tool::new("dd", &args.io);
    let plan = match operands::parse(&args.operands).and_then(|given| warned(&tool, given)).and_then(Plan::of) {
        Ok(plan) => plan,
        Err(wrong) => return refuse(&tool, &wrong),
    };
    match open_and_copy(&tool, &plan) {
        Ok(Some(signals)) => {
            let status = tool.finish();
            signals.die_if_asked();
            status
        }
        Ok(None) => tool.finish(),
        Err(message) => {
            tool.error(message);
            tool.finish()
        }
    }
}

fn warned(tool: &Tool, given: Operands) -> Result<Operands, Wrong> {
    given.warnings.iter().for_each(|warning| tool.note(warning));
    Ok(given)
}

fn refuse(tool: &Tool, wrong: &Wrong) -> ExitCode {
    wrong.warnings.iter().for_each(|warning| tool.note(warning));
    tool.note(&wrong.message);
    if wrong.usage {
        // Nobody can be told that standard error is closed.
        let _ = writeln!(io::stderr().lock(), "Try '{} --help' for more information.", tool.name());
    }
    ExitCode::FAILURE
}

/// Opens both ends, copies and reports.
fn open_and_copy(tool: &Tool, plan: &Plan) -> Result<Option<Signals>, String> {
    let input = open::input(plan)?;
    let (output, not_cut) = open::output(plan)?;
    if plan.output.is_some() && plan.oflag.any(flag::APPEND) && !plan.conv.any(conv::NOTRUNC) {
        tool.note("you probably want conv=notrunc with oflag=append");
    }
    if let Some(message) = not_cut {
        tool.error(message);
    }
    let account = Arc::new(Account::new(plan.level));
    let signals = Signals::handle(&account).map_err(|error| failure("cannot handle signals", errno_of(&error)))?;
    let copied = copy(tool, plan, &account, &signals, &input, &output);
    if let Err(Halt::Write(error)) = &copied {
        write_failed(tool, &output, error);
    }
    if copied.is_ok() {
        forget_pages(plan, &input, &output);
    }
    account.report();
    Ok(Some(signals))
}

fn copy(
    tool: &Tool,
    plan: &Plan,
    account: &Arc<Account>,
    signals: &Signals,
    input: &End,
    output: &End,
) -> Result<(), Halt> {
    let from = open::place(input).unwrap_or(0).saturating_add(plan.skip.offset(plan.ibs).unwrap_or(0));
    if !plan.seek.is_none()
        && let Err(errno) = open::advance(output, plan.seek.offset(plan.obs))
    {
        tool.error(failure(format_args!("{}: cannot seek", named(&output.name)), errno));
        return Err(Halt::Failed);
    }
    let to = open::place(output).unwrap_or(0);
    let ahead = !input.is(output) || source::may_read_ahead(plan, from, to);
    let sink = output.fd.try_clone().and_then(|fd| match input.is(output) && !ahead {
        true => tool.output_through_cache(fd, &output.name),
        false => tool.output(fd, &output.name),
    });
    let target = Target::new(sink.map_err(Halt::Write)?, plan, account, signals);
    let mut copy = Copy::new(tool, plan, account, signals, input, target);
    let copied = copy.run(ahead);
    let mut target = copy.target;
    if let Err(Halt::Write(error)) = &copied {
        target.correct(error);
    }
    let synced = sync(tool, plan, output, &mut target);
    let closed = target.close().map_err(Halt::Write);
    copied.and(synced).and(closed)
}

/// Makes the output durable, where that is asked for, whether or not all of it was copied.
fn sync(tool: &Tool, plan: &Plan, output: &End, target: &mut Target<'_>) -> Result<(), Halt> {
    let (data, all) = (plan.conv.any(conv::FDATASYNC), plan.conv.any(conv::FSYNC));
    let by_flag = plan.oflag.any(flag::SYNC.and(flag::DSYNC));
    let sink = target.sink();
    let failed = |name: &str, errno: Errno| {
        tool.error(failure(format_args!("{name} failed for {}", quoted(&output.name)), errno));
        Err(Halt::Failed)
    };
    if sink.file().is_none() {
        // What has no storage says so itself, but fdatasync(2) is then followed by fsync(2), as GNU does it.
        return match (data || all).then(|| rustix::fs::fsync(&output.fd)) {
            Some(Err(errno)) => failed("fsync", errno),
            _ => Ok(()),
        };
    }
    if !data && !all && !by_flag {
        return Ok(());
    }
    // Standard output cannot be given the flags after it was opened, so it is synced at the end.
    let data_only = !all && !plan.oflag.any(flag::SYNC);
    match sink.sync(data_only) {
        Ok(()) => tool.set_durable(),
        Err(error) => return failed(if data_only { "fdatasync" } else { "fsync" }, errno_of(&error)),
    }
    Ok(())
}

/// A closed pipe ends the process as it ends every tool that writes into one; the rest is told.
fn write_failed(tool: &Tool, output: &End, error: &io::Error) {
    let errno = errno_of(error);
    if errno == Errno::PIPE {
        let _ = signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGPIPE);
    }
    tool.error(failure(format_args!("error writing {}", quoted(&output.name)), errno));
}

/// `nocache` without anything to copy asks to drop the pages of the whole file.
fn forget_pages(plan: &Plan, input: &End, output: &End) {
    for (flags, end) in [(plan.iflag, input), (plan.oflag, output)] {
        if flags.any(flag::NOCACHE) {
            // A request; what cannot be advised stays.
            let _ = rustix::fs::fadvise(&end.fd, 0, None, rustix::fs::Advice::DontNeed);
        }
    }
}
