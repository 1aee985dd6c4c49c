//! Jobs of one command that several processes do.
//!
//! Process 0 leads: it gives jobs to a crew, which consists of the threads of all processes, and
//! takes the answers, which come in any order. How jobs and answers travel is decided by the
//! caller, which implements [`Crew`].

/// The threads of all processes, as the leader has them.
pub trait Crew<J, A> {
    /// How many jobs may be under way: so many that all are busy, and so few that memory is
    /// bounded.
    fn jobs_max(&self) -> usize;
    /// Has a job done, whose answer comes with the same number.
    fn give(&self, number: u64, job: J);
    /// How many processes there are.
    fn processes(&self) -> usize;
    /// Has one process do a job, whatever else it does.
    fn give_to(&self, process: usize, number: u64, job: J);
    /// Waits for an answer, and takes it with the number of its job; `None` if the command is to
    /// stop.
    fn answer(&self) -> Option<(u64, A)>;
}
