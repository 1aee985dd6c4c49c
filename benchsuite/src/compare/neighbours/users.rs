//! The options of the comparison: who the users are, and what the hostile one does.

use clap::{Args, ValueEnum};

use super::attack::Attack;

/// The user `daemon` on most systems.
const HONEST: u32 = 1;
/// The user `nobody` on most systems.
const HOSTILE: u32 = 65_534;
const PROCESSES: u32 = 64;

/// The two users, and what the hostile one does.
#[derive(Clone, Args)]
pub(crate) struct Users {
    /// Number of the honest user, and of its group; `daemon` by default
    #[arg(
        long,
        value_name = "UID",
        default_value_t = HONEST,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub(super) honest: u32,
    /// Number of the hostile user, and of its group; `nobody` by default
    #[arg(
        long,
        value_name = "UID",
        default_value_t = HOSTILE,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub(super) hostile: u32,
    /// Processes of the hostile user
    #[arg(
        long,
        default_value_t = PROCESSES,
        value_parser = clap::value_parser!(u32).range(1..=400)
    )]
    pub(super) processes: u32,
    /// Attacks, separated by commas [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(super) attacks: Vec<Attack>,
}

impl Default for Users {
    fn default() -> Users {
        Users { honest: HONEST, hostile: HOSTILE, processes: PROCESSES, attacks: Vec::new() }
    }
}

impl Users {
    pub(super) fn attacks(&self) -> Vec<Attack> {
        let asked = |attack: &Attack| self.attacks.is_empty() || self.attacks.contains(attack);
        Attack::value_variants().iter().copied().filter(asked).collect()
    }
}
