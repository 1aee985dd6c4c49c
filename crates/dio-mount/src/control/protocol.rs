//! Requests to a running mount and its answers, as lines of JSON.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::stats::Stats;

/// A request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ControlRequest {
    /// Asks for the counters.
    Snapshot,
    /// Asks for the settings as text.
    Settings,
    /// Changes the settings to this text.
    Set(String),
}

/// An answer; `T` is the type of the value that was requested.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ControlAnswer<T> {
    Ok(T),
    Error(String),
}

/// Applies new settings, or returns what is wrong with the text.
pub type Change = dyn Fn(&str) -> Result<(), String> + Send;

/// The functions of the serving program that answer requests. Both are called on the thread of the
/// control socket, one at a time. A mount that ends waits for a call in progress.
pub struct Commands {
    /// Returns the settings as the text of options.
    pub settings: Box<dyn Fn() -> String + Send>,
    /// Applies new settings, or returns what is wrong with the text.
    pub set: Box<Change>,
}

impl std::fmt::Debug for Commands {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Commands").finish_non_exhaustive()
    }
}

/// Returns the answer to a line; both without the line's end.
pub(crate) fn answer(line: &str, stats: &Stats, commands: &Commands) -> String {
    match serde_json::from_str(line) {
        Ok(ControlRequest::Snapshot) => told(ControlAnswer::Ok(stats.snapshot())),
        Ok(ControlRequest::Settings) => told(ControlAnswer::Ok((commands.settings)())),
        Ok(ControlRequest::Set(text)) => match (commands.set)(&text) {
            Ok(()) => told(ControlAnswer::Ok((commands.settings)())),
            Err(reason) => refusal(&reason),
        },
        Err(error) => refusal(&format!("unknown request: {error}")),
    }
}

/// Parses an answer: the requested value, or the reason of a refusal.
pub(crate) fn read_answer<T: DeserializeOwned>(
    answer: &str,
) -> serde_json::Result<Result<T, String>> {
    Ok(match serde_json::from_str(answer)? {
        ControlAnswer::Ok(value) => Ok(value),
        ControlAnswer::Error(reason) => Err(reason),
    })
}

fn told<T: Serialize>(answer: ControlAnswer<T>) -> String {
    serde_json::to_string(&answer).unwrap_or_else(|error| refusal(&error.to_string()))
}

pub(super) fn refusal(reason: &str) -> String {
    serde_json::to_string(&ControlAnswer::<()>::Error(reason.to_owned()))
        .expect("a string has a form in JSON")
}
