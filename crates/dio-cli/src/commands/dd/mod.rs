//! `dio dd`: GNU dd's operands, records and messages, with files moved in large blocks whatever
//! `bs` is.
//!
//! `operands` parses each operand (with `number` and `flags`), `plan` combines them, `open` opens
//! the files, and `copy` passes chunks of files or the records of `source` through `convert` to
//! `target`. `account` counts records and prints the report, which `signals` may request at any
//! time.
//!
//! The operands describe the *result*. A block of a file is only a range in it, so the number of
//! blocks read is computed. Where the reads decide (a pipe returns what it has), records are read
//! and counted as they come.

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

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use dio::stream::StreamOptions;
use rustix::io::Errno;

use account::Account;
use copy::{CopyEnd, DdCopy};
use flags::{conv, flag};
use open::{End, failure};
use plan::DdPlan;
use signals::Signals;
use target::CopyOutput;

use crate::grammar::Program;
use crate::quote::{named, quoted};
use crate::tool::{Tool, die_of_a_closed_pipe, errno_of};

pub(crate) const PROGRAM: Program =
    Program { name: "dd", describe: |_| args::grammar().describe(), run };

/// Runs `dio dd`; returns 0 if everything was copied, else 1.
fn run(_: &str, line: Vec<OsString>) -> ExitCode {
    let decided = args::grammar().resolve(line, |args| {
        let mut given = operands::parse(&args.operands)?;
        let warnings = std::mem::take(&mut given.warnings);
        match DdPlan::of(given) {
            Ok(plan) => Ok((plan, warnings, args.io)),
            Err(refusal) => Err(refusal.after(warnings)),
        }
    });
    let (plan, warnings, io) = match decided {
        Ok(decided) => decided,
        Err(status) => return status,
    };
    let tool = Tool::new("dd", &io);
    warnings.iter().for_each(|warning| tool.note(warning));
    if let Err(status) = tool.begin(plan.input.iter().chain(&plan.output).map(|name| name.as_ref()))
    {
        return status;
    }
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

/// Opens input and output, copies, and prints the report.
fn open_and_copy(tool: &Tool, plan: &DdPlan) -> Result<Option<Signals>, String> {
    if plan.oflag.any(flag::APPEND) && !plan.conv.any(conv::NOTRUNC) {
        tool.note("you probably want conv=notrunc with oflag=append");
    }
    let input = open::input(plan)?;
    let (output, not_cut) = open::output(plan)?;
    if let Some(message) = not_cut {
        tool.error(message);
    }
    let account = Arc::new(Account::new(plan.level));
    let signals = Signals::handle(&account)
        .map_err(|error| failure("cannot handle signals", errno_of(&error)))?;
    let copied = copy(tool, plan, &account, &signals, &input, &output);
    match &copied {
        Ok(()) => forget_pages(tool, plan, &input, &output),
        // Closing the output is the last step that can fail.
        Err(CopyEnd::Write(error)) => write_failed(tool, &output, error, "error writing"),
        Err(_) => {}
    }
    if !matches!(copied, Err(CopyEnd::Silent)) {
        account.report();
    }
    Ok(Some(signals))
}

fn copy(
    tool: &Tool,
    plan: &DdPlan,
    account: &Arc<Account>,
    signals: &Signals,
    input: &End,
    output: &End,
) -> Result<(), CopyEnd> {
    let from =
        open::place(input).unwrap_or(0).saturating_add(plan.skip.offset(plan.ibs).unwrap_or(0));
    let skipping = copy::skip(tool, plan, signals, input).and_then(|skipping| {
        if plan.seek.is_none() {
            return Ok(skipping);
        }
        let sought = open::advance(output, plan.seek.offset(plan.obs));
        sought.map(|_| skipping).map_err(|errno| {
            tool.error(failure(format_args!("{}: cannot seek", named(&output.name)), errno));
            CopyEnd::Failed
        })
    });
    let skipping = match skipping {
        Ok(skipping) => skipping,
        Err(halt) => {
            let synced = sync_descriptor(tool, plan, output);
            return Err(if synced.is_err() { CopyEnd::Silent } else { halt });
        }
    };
    let to = open::place(output).unwrap_or(0);
    let ahead = !input.is(output) || source::may_read_ahead(plan, from, to);
    // The kernel's work for a ring interrupts reads of the same thread, and here each read is a
    // record. Threads are used instead of a ring.
    let how = StreamOptions { on_threads: input.has_records(), ..*tool.stream_options() };
    let opened = output.fd.try_clone().and_then(|fd| tool.output_with(fd, &output.path, &how));
    let target = CopyOutput::new(
        opened.map_err(CopyEnd::Write)?,
        plan,
        account,
        signals,
        output.has_records(),
        !ahead,
    );
    let mut copy = DdCopy::new(tool, plan, account, signals, input, target);
    let copied = copy.run(skipping, ahead);
    let mut target = copy.target;
    let copied = copied.map_err(|halt| match halt {
        CopyEnd::Write(error) => {
            let what = target.correct(&error, plan);
            open::leave_behind(input, from, account.counts().input, plan.ibs);
            write_failed(tool, output, &error, what);
            CopyEnd::Failed
        }
        halt => halt,
    });
    let synced = match copied {
        // The stream would return its first error again. Bytes that reached the file can still be
        // synced.
        Err(CopyEnd::Failed) => sync_descriptor(tool, plan, output),
        _ => sync(tool, plan, output, &mut target),
    };
    let closed = target.close().map_err(CopyEnd::Write);
    match (copied, synced) {
        (Err(_), Err(_)) => Err(CopyEnd::Silent),
        // The write error was already reported.
        (Err(halt), Ok(())) => Err(halt),
        (Ok(()), synced) => synced.and(closed),
    }
}

/// Makes the output durable if that is requested, whether or not everything was copied.
fn sync(
    tool: &Tool,
    plan: &DdPlan,
    output: &End,
    target: &mut CopyOutput<'_>,
) -> Result<(), CopyEnd> {
    let (data, all) = (plan.conv.any(conv::FDATASYNC), plan.conv.any(conv::FSYNC));
    let by_flag = plan.oflag.any(flag::SYNC.and(flag::DSYNC));
    let sink = target.sink();
    if sink.file().is_none() {
        return sync_descriptor(tool, plan, output);
    }
    if !data && !all && !by_flag {
        return Ok(());
    }
    // These flags cannot be set on standard output after it was opened, so it is synced at the end.
    let data_only = !all && !plan.oflag.any(flag::SYNC);
    sink.sync(data_only).map_err(|error| not_synced(tool, output, data_only, errno_of(&error)))?;
    tool.set_durable();
    Ok(())
}

/// Works as [`sync`], for an output without a stream. Only fsync(2) is called, because an
/// unsupported fdatasync(2) would be followed by it anyway. Its error is reported, even if the
/// output just does not support syncing.
fn sync_descriptor(tool: &Tool, plan: &DdPlan, output: &End) -> Result<(), CopyEnd> {
    if !plan.conv.any(conv::FDATASYNC.and(conv::FSYNC)) {
        return Ok(());
    }
    rustix::fs::fsync(&output.fd).map_err(|errno| not_synced(tool, output, false, errno))
}

fn not_synced(tool: &Tool, output: &End, data_only: bool, errno: Errno) -> CopyEnd {
    let call = if data_only { "fdatasync" } else { "fsync" };
    tool.error(failure(format_args!("{call} failed for {}", quoted(&output.name)), errno));
    CopyEnd::Failed
}

/// Reports a write error. A closed pipe ends the process, as for every tool that writes to one.
fn write_failed(tool: &Tool, output: &End, error: &io::Error, what: &str) {
    let errno = errno_of(error);
    die_of_a_closed_pipe(errno);
    tool.error(failure(format_args!("{what} {}", quoted(&output.name)), errno));
}

/// Drops the cached pages of files with the flag `nocache`. A refusal is reported only if there is
/// nothing to copy, because dropping pages is then the whole task.
fn forget_pages(tool: &Tool, plan: &DdPlan, input: &End, output: &End) {
    for (flags, end) in [(plan.iflag, input), (plan.oflag, output)] {
        if !flags.any(flag::NOCACHE) {
            continue;
        }
        let advised = rustix::fs::fadvise(&end.fd, 0, None, rustix::fs::Advice::DontNeed);
        if let (Err(errno), Some(0)) = (advised, plan.most_bytes()) {
            tool.error(failure(
                format_args!("failed to discard cache for: {}", quoted(&end.name)),
                errno,
            ));
        }
    }
}
