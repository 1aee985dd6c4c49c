//! What the programs share with each other and with the watcher.

/// The descriptors of the maps, and what the programs are made for.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Maps {
    pub(in super::super) ring: i32,
    /// The watched tasks, each with what is known of it.
    pub(in super::super) watched: i32,
    /// What is to be done of each system call.
    pub(in super::super) kinds: i32,
    /// Requests to io_uring that are in flight.
    pub(in super::super) in_flight: i32,
    /// The programs in which others go on where requests of asynchronous I/O are submitted and
    /// where their results are fetched; none if the kernel refuses them.
    pub(in super::super) at_submission: i32,
    pub(in super::super) at_completion: i32,
    /// Whether calls are recorded in batches, a number of 64 bits.
    pub(in super::super) dense: i32,
    /// The batches of [`super::batches`].
    pub(in super::super) batches: i32,
    /// [`LOST`] and [`LEVEL`].
    pub(in super::super) counters: i32,
    /// In how many namespaces of processes this process's own is.
    pub(in super::super) level: u32,
}
/// The counters: records that found no room, and what [`level`](super::level) notes.
pub(in super::super) const LOST: u32 = 0;
pub(in super::super) const LEVEL: u32 = 1;
pub(in super::super) const COUNTERS: u32 = 2;

/// What is known of a watched task: when it entered its call, 0 if it is in none; the pages of
/// ordinary files and of block devices that have been new to the page cache since; how often it had
/// slept when it left its last call, and whether it slept between that and this one.
pub(super) const ENTERED: i16 = 0;
pub(super) const NEW: i16 = 8;
pub(super) const NEW_OF_DEVICES: i16 = 16;
pub(super) const SLEEPS: i16 = 24;
pub(super) const HAS_SLEPT: i16 = 32;
/// The bytes of this.
pub(in super::super) const TASK_BYTES: usize = 40;
