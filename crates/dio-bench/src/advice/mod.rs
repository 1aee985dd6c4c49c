//! Pages of what `dio advise --json` and `dio advise database --json` say.

mod command;
mod database;
