//! `dio synctest`: compares methods of making writes durable, and tests the honesty of the disk.

mod args;

use std::cell::Cell;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use dio::quote::{named, printable, quoted};
use dio_bench::section::Benchmark as _;
use dio_bench::synctest::witness::{Contact, Event, NumberSource, Secret, Server, check, write};
use dio_bench::synctest::{self, Progress, SyncError};
use serde_json::json;

use crate::stop::Stop;
pub use args::SynctestArgs;

/// Exit status: the disk lied.
const LIED: u8 = 3;

/// Exit status: the command line is invalid.
const USAGE: u8 = 2;

/// Measures, writes for a witness, checks, or runs the witness; returns the exit status.
pub fn run(args: SynctestArgs) -> ExitCode {
    let stop = Stop::on_signals();
    let outcome = match (&args.serve, &args.witness) {
        (Some(address), _) => serve(address, &args, stop),
        _ if args.check => checked(&args),
        (None, Some(address)) => {
            match contact(address, &args).map(|witness| args.writer(witness)) {
                Ok(Ok(plan)) => written(&plan, &args, stop),
                Ok(Err(words)) => {
                    eprintln!("dio: {words}");
                    return ExitCode::from(USAGE);
                }
                Err(error) => Err(error),
            }
        }
        (None, None) => measured(&args, stop),
    };
    let status = outcome.unwrap_or_else(|error| {
        eprintln!("dio: {error}");
        1
    });
    // Everything has been printed and cleaned up.
    stop.die_if_asked();
    ExitCode::from(status)
}

fn secret(args: &SynctestArgs) -> Result<Option<Secret>, SyncError> {
    args.secret.as_deref().map(Secret::read).transpose()
}

/// Returns how to contact the witness at this address.
fn contact(address: &str, args: &SynctestArgs) -> Result<Contact, SyncError> {
    Ok(Contact { address: address.to_owned(), timeout: args.timeout, secret: secret(args)? })
}

/// Prints text; a closed pipe is no failure of the test.
fn print(text: &str) {
    let mut out = std::io::stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn print_json(value: &impl serde::Serialize) -> Result<(), SyncError> {
    let text = serde_json::to_string_pretty(value);
    print(
        &(text.map_err(|error| SyncError::Asked(format!("cannot write the report: {error}")))?
            + "\n"),
    );
    Ok(())
}

fn measured(args: &SynctestArgs, stop: &Stop) -> Result<u8, SyncError> {
    let plan = args.plan();
    let line = Line::new(args.quiet);
    let report =
        synctest::run(&plan, &|progress| line.show(&position(&progress)), &|| stop.asked());
    line.clear();
    let report = report?;
    if args.json {
        print_json(&report)?;
    } else {
        print(&report.text());
    }
    Ok(match &report.honesty {
        Some(honesty) if honesty.is_a_lie() => LIED,
        _ if report.has_failed() => 1,
        _ => 0,
    })
}

/// Returns the state of a run for the progress line.
fn position(progress: &Progress<'_>) -> String {
    let what = match progress.case {
        Some(case) => format!(
            "{}{}, {}, {} × {}, threads: {}",
            case.method.name(),
            if case.direct { " direct" } else { "" },
            case.pattern.name(),
            case.writes,
            dio_common::units::size(case.size),
            case.threads
        ),
        None => "what flushes cost".to_owned(),
    };
    let left = dio_common::units::seconds(progress.left.as_secs_f64());
    format!("[{}/{}] {what}; about {left} left", progress.done + 1, progress.all)
}

/// One line on the terminal that is rewritten.
struct Line {
    shown: bool,
}

impl Line {
    fn new(quiet: bool) -> Line {
        Line { shown: !quiet && std::io::stderr().is_terminal() }
    }

    fn show(&self, text: &str) {
        if self.shown {
            eprint!("\r\x1b[K{text}");
        }
    }

    fn clear(&self) {
        self.show("");
    }
}

fn written(
    plan: &dio_bench::synctest::witness::WriterPlan,
    args: &SynctestArgs,
    stop: &Stop,
) -> Result<u8, SyncError> {
    let line = Line::new(args.quiet);
    let (begun, last) = (Instant::now(), Cell::new(0));
    let progress = |session: &dio_bench::synctest::witness::protocol::WitnessSession,
                    number: u64| {
        if number == 0 && !args.json {
            print(&format!(
                "{}: session {}, {} blocks of {} bytes\npull the plug when you like; afterwards: \
                 dio synctest --check --witness {} {}\n",
                named(&session.path),
                session.identity,
                session.slots,
                session.size,
                plan.witness.address,
                quoted(&session.path)
            ));
        }
        last.set(number);
        line.show(&format!("{number} writes acknowledged, {:.0} s", begun.elapsed().as_secs_f64()));
    };
    let outcome = write(plan, &progress, &|| stop.asked());
    line.clear();
    let written = outcome?;
    let (session, seconds) = (&written.session, written.time.as_secs_f64());
    if args.json {
        print_json(&json!({
            "session": session.identity.to_string(),
            "path": session.path,
            "acknowledged": written.durable,
            "kept_by_witness": written.confirmed,
            "seconds": seconds,
        }))?;
    } else {
        print(&format!(
            "{} writes acknowledged in {}, {:.0}/s; the witness has {}. The file stays, to be \
             checked or removed.\n",
            written.durable,
            dio_common::units::seconds(seconds),
            written.durable as f64 / seconds.max(1e-9),
            written.confirmed
        ));
    }
    Ok(0)
}

fn checked(args: &SynctestArgs) -> Result<u8, SyncError> {
    let source = match (&args.record, &args.witness) {
        (Some(record), _) => NumberSource::Record(record.clone()),
        (None, Some(address)) => NumberSource::Witness(contact(address, args)?),
        (None, None) => {
            return Err(SyncError::Asked("--check needs --witness or --record".to_owned()));
        }
    };
    let identity = args.session.as_deref().map(str::parse).transpose().map_err(SyncError::Asked)?;
    let path = args.path.clone().unwrap_or_else(|| PathBuf::from("."));
    let found = check(&path, &source, identity)?;
    if args.json {
        print_json(&found)?;
    } else {
        print(&found.text());
    }
    Ok(if found.lied() { LIED } else { 0 })
}

fn serve(address: &str, args: &SynctestArgs, stop: &Stop) -> Result<u8, SyncError> {
    let directory = args.path.as_deref().unwrap_or_else(|| Path::new("dio-synctest-witness"));
    // A port without a host listens on this machine only.
    let address =
        if address.contains(':') { address.to_owned() } else { format!("127.0.0.1:{address}") };
    let server = Server::bind(&address, directory, secret(args)?)?;
    let bound = server.address().map_or(address, |bound| bound.to_string());
    print(&format!("listening on {bound}, keeping sessions in {}\n", named(directory)));
    server.records().passed_over().iter().for_each(|why| print(&format!("passed over: {why}\n")));
    let tell = |event: Event| {
        print(&match event {
            Event::Begun(from, session, number) => format!(
                "{}: begun from {from}, {} on {}, known: {number}\n",
                session.identity,
                named(&session.path),
                named(&session.host)
            ),
            Event::Ended(identity, number) => {
                format!("{identity}: the writer stopped after {number}\n")
            }
            Event::Lost(identity, number) => {
                format!("{identity}: the connection is gone after {number}\n")
            }
            Event::Refused(from, words) => format!("{from}: {}\n", printable(&words)),
            Event::RefusalsLeftOut(count) => {
                format!("{count} more lines about refusals are left out\n")
            }
            Event::SessionsLeftOut(count) => {
                format!("{count} more lines about sessions are left out\n")
            }
        });
    };
    server.run(&tell, &|| stop.asked());
    Ok(0)
}
