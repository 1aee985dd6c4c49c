//! `dio tee`: copies standard input to standard output and to files.
//!
//! The input is read once. Each chunk is copied to all outputs except the last one, which gets the
//! chunk itself. Pipes and terminals are written at once. Files are written in large blocks in the
//! background, and at the latest when the input pauses.

mod args;
mod many;
mod output;
mod policy;

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use dio::stream::Chunk;
use dio_sys::start::was_closed;
use signal_hook::consts::{SIGINT, SIGPIPE};
use signal_hook::flag;
use signal_hook::low_level::emulate_default_handler;

use args::TeeArgs;

use crate::grammar::Program;
use crate::quote::{named, words};
use crate::tool::held::{HeldOutput, Next};
use crate::tool::{Source, Tool, errno_of};
use output::{Output, identity};
use policy::{OutputError, WriteFailureAction};

pub(crate) const PROGRAM: Program =
    Program { name: "tee", describe: |_| args::grammar().describe(), run };

/// Runs `dio tee`; returns 0 if everything was written to all outputs, else 1.
fn run(_: &str, line: Vec<OsString>) -> ExitCode {
    let args = match args::grammar().resolve(line, Ok) {
        Ok(args) => args,
        Err(status) => return status,
    };
    let tool = Tool::new("tee", &args.io);
    if let Err(status) = tool.begin(args.files.iter().map(|file| file.as_os_str())) {
        return status;
    }
    if args.ignore_interrupts {
        // A handler that does nothing is the closest available substitute for ignoring the signal.
        let _ = flag::register(SIGINT, Arc::default());
    }
    let on_error = args.output_error.unwrap_or_else(OutputError::by_default);
    let mut tee = Tee { outputs: Vec::new(), on_error, ended: None, tool };
    tee.open(&args);
    if tee.ended.is_none() {
        tee.pass(args.ignore_interrupts);
    }
    tee.finish()
}

/// The reason why reading ends early.
#[derive(Clone, Copy, Debug)]
enum TeeEnd {
    /// An output failed, and the options say that this ends the process.
    Failed,
    /// This signal ends the process.
    Signal(i32),
}

struct Tee {
    tool: Tool,
    on_error: OutputError,
    /// Outputs that still work, standard output first.
    outputs: Vec<Output>,
    ended: Option<TeeEnd>,
}

impl Tee {
    /// Opens all outputs. This comes before the input is opened, because an output may be the
    /// input.
    fn open(&mut self, args: &TeeArgs) {
        many::allow_files(args.files.len());
        let options = many::share(self.tool.stream_options(), args.files.len() + 1);
        let mut opened = Vec::new();
        match io::stdout().as_fd().try_clone_to_owned() {
            _ if was_closed(1) => {
                self.outputs.push(Output::closed(&self.tool, named("standard output")))
            }
            Ok(fd) => opened.push((fd, Path::new("-"), named("standard output"))),
            Err(error) => self.failed("standard output", &error),
        }
        for path in args.files.iter().map(Path::new) {
            match output::open(path, args.append) {
                Ok(fd) => opened.push((fd, path, named(path))),
                Err(errno) => {
                    self.tool.error(format_args!("{}: {}", named(path), words(errno)));
                    if self.on_error.exits() {
                        self.ended = Some(TeeEnd::Failed);
                        return;
                    }
                }
            }
        }
        let mut identities: Vec<_> = opened.iter().map(|(fd, ..)| identity(fd)).collect();
        identities.push(identity(io::stdin()));
        for (fd, path, name) in opened {
            let own = identity(&fd);
            let shared =
                own.is_some() && identities.iter().filter(|other| **other == own).count() > 1;
            match Output::new(&self.tool, &options, fd, path, name.clone(), shared) {
                Ok(output) => self.outputs.push(output),
                Err(error) => self.failed(&name, &error),
            }
            if self.ended.is_some() {
                return;
            }
        }
    }

    /// Copies the input until it ends or no output is left.
    fn pass(&mut self, ignore_interrupts: bool) {
        if self.outputs.is_empty() {
            return;
        }
        let waits = self.on_error.forgives_pipes() || self.outputs.iter().any(Output::holds);
        let block = self.tool.stream_options().block;
        let mut held = waits.then(|| HeldOutput::new(block, ignore_interrupts));
        let passed = self.tool.stdin().and_then(|mut input| {
            while let Some(chunk) = self.next(&mut input, held.as_mut())? {
                if let Some(held) = &mut held {
                    held.passed(chunk.len());
                }
                self.write(chunk);
                if self.is_over() {
                    break;
                }
            }
            input.close()
        });
        if let Err(error) = passed {
            self.tool.error(format_args!("read error: {}", words(errno_of(&error))));
        }
    }

    /// Returns the next chunk. While it waits for input, files are flushed, and pipes without a
    /// reader are removed.
    fn next(
        &mut self,
        input: &mut Source,
        held: Option<&mut HeldOutput>,
    ) -> io::Result<Option<Chunk>> {
        if let Some(held) = held {
            loop {
                match held.next(input)? {
                    Next::Read => break,
                    Next::Idle => {}
                    Next::Flush => {
                        self.each(|output, _| output.flush());
                        held.flushed();
                    }
                    Next::End(signal) => self.ended = Some(TeeEnd::Signal(signal)),
                }
                if self.on_error.forgives_pipes() {
                    self.outputs.retain(|output| !output.is_broken());
                }
                if self.is_over() {
                    return Ok(None);
                }
            }
        }
        input.next_chunk()
    }

    /// Writes a chunk to all outputs.
    fn write(&mut self, chunk: Chunk) {
        let mut chunk = Some(chunk);
        self.each(|output, is_last| match &chunk {
            Some(bytes) if !is_last => output.write(bytes),
            _ => chunk.take().map_or(Ok(()), |chunk| output.take(chunk)),
        });
    }

    /// Calls `act` with each output in turn, and removes the outputs that fail.
    fn each(&mut self, mut act: impl FnMut(&mut Output, bool) -> io::Result<()>) {
        let mut at = 0;
        while at < self.outputs.len() {
            let is_last = at + 1 == self.outputs.len();
            match act(&mut self.outputs[at], is_last) {
                Ok(()) => at += 1,
                Err(error) => {
                    let name = self.outputs.remove(at).name;
                    self.failed(&name, &error);
                    if self.ended.is_some() {
                        return;
                    }
                }
            }
        }
    }

    /// Handles an output that failed.
    fn failed(&mut self, name: &str, error: &io::Error) {
        let errno = errno_of(error);
        let verdict = self.on_error.on_write(errno);
        if matches!(verdict, WriteFailureAction::Tell | WriteFailureAction::Exit) {
            self.tool.error(format_args!("{name}: {}", words(errno)));
        }
        match verdict {
            WriteFailureAction::Exit => self.ended = Some(TeeEnd::Failed),
            WriteFailureAction::Signal => self.ended = Some(TeeEnd::Signal(SIGPIPE)),
            WriteFailureAction::Silent | WriteFailureAction::Tell => {}
        }
    }

    fn is_over(&self) -> bool {
        self.outputs.is_empty() || self.ended.is_some()
    }

    /// Writes all held-back bytes, whatever the reason for the end, and returns the exit status.
    fn finish(mut self) -> ExitCode {
        let outputs = std::mem::take(&mut self.outputs);
        for output in outputs {
            let name = output.name.clone();
            if let Err(error) = output.close() {
                self.tool.error(format_args!("{name}: {}", words(errno_of(&error))));
            }
        }
        if let Some(TeeEnd::Signal(signal)) = self.ended {
            let _ = emulate_default_handler(signal);
        }
        self.tool.finish()
    }
}
