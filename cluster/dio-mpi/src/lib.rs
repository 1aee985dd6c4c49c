//! dio under MPI: the copies of `dio cp`, the digests of `dio sum` and the archives of
//! `dio tar -c`, shared by many processes (ranks) on file systems that all of them mount.
//!
//! [`steal`] decides which rank asks which for work. It is a state machine over messages that does
//! no I/O and has no clock of its own, so that [`simulate`] runs it in virtual time with a thousand
//! ranks. So is [`tuning`], which finds the number of threads. [`options`] takes out of command
//! lines what dio's own commands do not have, [`transport`] carries [`messages`] over MPI, [`tree`]
//! says which rank passes on what, [`journal`] notes what is durable, [`crew`] has the threads of
//! all ranks do the jobs that rank 0 gives out, and [`commands`] connects all of it with the
//! library of `dio`.

pub mod commands;
pub mod crew;
pub mod journal;
pub mod messages;
pub mod options;
pub mod simulate;
pub mod steal;
pub mod transport;
pub mod tree;
pub mod tuning;
