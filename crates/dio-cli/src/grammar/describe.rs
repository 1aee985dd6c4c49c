//! Help, man pages and completions, made from the table of a tool's options.

use std::process::ExitCode;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Arg, ArgAction, Command, ValueHint};

use super::Grammar;
use super::flag::{Flag, FlagAction, FlagValue};

impl<L> Grammar<L> {
    /// Returns the grammar as a clap command, from which man pages and completions are made. It
    /// does not parse anything.
    pub(crate) fn describe(&self) -> Command {
        let mut command = Command::new(self.name)
            .about(self.about)
            .disable_help_flag(true)
            .disable_version_flag(true);
        if !self.details.is_empty() {
            command = command.long_about(format!("{}\n\n{}", self.about, self.details));
        }
        if !self.usage.is_empty() {
            command = command.override_usage(self.usage);
        }
        if !self.after.is_empty() {
            command = command.after_help(self.after);
        }
        let operands = self.operands.iter().map(|(name, help)| operand(name, help));
        command.args(self.flags.iter().map(argument)).args(operands)
    }

    pub(super) fn print_help(&self) -> ExitCode {
        // If standard output is closed, there is nowhere to report that.
        let _ = self.alone().print_long_help();
        ExitCode::SUCCESS
    }

    pub(super) fn print_version(&self) -> ExitCode {
        print!("{}", self.alone().render_version());
        ExitCode::SUCCESS
    }

    /// Returns the grammar as that of a subcommand, without the other subcommands.
    fn alone(&self) -> Command {
        let command = self.describe().version(env!("CARGO_PKG_VERSION"));
        command.bin_name(format!("dio {}", self.name)).display_name(format!("dio-{}", self.name))
    }
}

fn operand(name: &'static str, help: &'static str) -> Arg {
    let (name, many) = name.strip_suffix("...").map_or((name, false), |name| (name, true));
    let (name, required) =
        name.strip_prefix('<').map_or((name, false), |name| (name.trim_end_matches('>'), true));
    let arg = Arg::new(name).required(required).value_name(name).help(help).value_hint(hint(name));
    if many { arg.num_args(1..).action(ArgAction::Append) } else { arg }
}

fn argument<L>(flag: &Flag<L>) -> Arg {
    let names = &flag.names;
    let mut arg = Arg::new(names.spec).help(flag.help).hide(flag.is_hidden);
    arg = arg
        .short(names.shorts.first().map(|letter| char::from(*letter)))
        .long(names.longs.first().copied());
    arg = arg.short_aliases(names.shorts.iter().skip(1).map(|letter| char::from(*letter)));
    arg = arg.aliases(names.longs.iter().skip(1).copied());
    arg = arg.help_heading(flag.heading).default_value(flag.default);
    if !flag.words.is_empty() {
        let help = |help: &'static str| Some(help).filter(|help| !help.is_empty());
        let words =
            flag.words.iter().map(|(word, text)| PossibleValue::new(*word).help(help(text)));
        arg = arg.value_parser(PossibleValuesParser::new(words));
    }
    let (FlagValue::Value(name) | FlagValue::Optional(name)) = names.takes else {
        return arg.action(match flag.action {
            FlagAction::Help => ArgAction::Help,
            FlagAction::Version => ArgAction::Version,
            FlagAction::Apply(_) if flag.is_repeated => ArgAction::Count,
            FlagAction::Apply(_) => ArgAction::SetTrue,
        });
    };
    if matches!(names.takes, FlagValue::Optional(_)) {
        arg = arg.num_args(0..=1).require_equals(true);
    }
    let action = if flag.is_repeated { ArgAction::Append } else { ArgAction::Set };
    arg.action(action).value_name(name).value_hint(hint(name))
}

/// Returns what a shell completes for a value of that name.
fn hint(name: &str) -> ValueHint {
    match name {
        "FILE" | "ARCHIVE" | "INPUT" | "OUTPUT" | "F" => ValueHint::FilePath,
        "DIR" | "DIRECTORY" | "SOURCE" | "MOUNTPOINT" => ValueHint::DirPath,
        "PROG" => ValueHint::CommandName,
        "COMMAND" => ValueHint::CommandString,
        _ => ValueHint::Unknown,
    }
}
