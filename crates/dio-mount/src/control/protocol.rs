//! The requests to a running mount, and the answers to them: lines of JSON.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::stats::Stats;

/// A request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Request {
    /// What was counted.
    Snapshot,
    /// The settings as text.
    Settings,
    /// Other settings.
    Set(String),
}

/// An answer; `T` is what the request asked for.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answer<T> {
    Ok(T),
    Error(String),
}

/// Takes over other settings, or says what is wrong with the text.
pub type Change = dyn Fn(&str) -> Result<(), String> + Send;

/// What the program that serves does on request. Both are called on a thread of the control, one at
/// a time; a mount that ends waits for a call under way.
pub struct Commands {
    /// Its settings as the text of options.
    pub settings: Box<dyn Fn() -> String + Send>,
    /// Takes over other settings, or says what is wrong with the text.
    pub set: Box<Change>,
}

impl std::fmt::Debug for Commands {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Commands").finish_non_exhaustive()
    }
}

/// The answer to a line, without its end.
pub(crate) fn answer(line: &str, stats: &Stats, commands: &Commands) -> String {
    match serde_json::from_str(line) {
        Ok(Request::Snapshot) => told(Answer::Ok(stats.snapshot())),
        Ok(Request::Settings) => told(Answer::Ok((commands.settings)())),
        Ok(Request::Set(text)) => match (commands.set)(&text) {
            Ok(()) => told(Answer::Ok((commands.settings)())),
            Err(reason) => refusal(&reason),
        },
        Err(error) => refusal(&format!("unknown request: {error}")),
    }
}

/// What an answer says: what was asked for, or why not.
pub(crate) fn read_answer<T: DeserializeOwned>(answer: &str) -> serde_json::Result<Result<T, String>> {
    Ok(match serde_json::from_str(answer)? {
        Answer::Ok(value) => Ok(value),
        Answer::Error(reason) => Err(reason),
    })
}

fn told<T: Serialize>(answer: Answer<T>) -> String {
    serde_json::to_string(&answer).unwrap_or_else(|error| refusal(&error.to_string()))
}

pub(super) fn refusal(reason: &str) -> String {
    serde_json::to_string(&Answer::<()>::Error(reason.to_owned())).expect("a string has a form in JSON")
}
