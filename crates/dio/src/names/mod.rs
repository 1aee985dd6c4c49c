//! Files by name, whether plain or striped.

mod open;
