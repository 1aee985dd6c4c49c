//! The rooms of a mount, put together and served.

use std::sync::Arc;

use fuser::INodeNo;
use rustix::thread::CapabilitySet;

use crate::file::Files;
use crate::names::{How, Names};
use crate::options::{Live, Options};
use crate::serve::Mount;
use crate::session::{MountError, Place, Session};
use crate::stats::{Gauge, Stats};

/// A mount that is served, and what is known of it.
#[derive(Debug)]
pub struct Mounted {
    /// The mount; it lasts until it is unmounted.
    pub session: Session,
    /// What has happened.
    pub stats: Arc<Stats>,
    /// What can be changed while it is served.
    pub live: Live,
}

/// Mounts `place` and serves it with threads of its own; returns when the mount answers.
///
/// # Errors
/// See [`MountError`]. Nothing stays mounted then.
pub fn mount(place: &Place, options: &Options) -> Result<Mounted, MountError> {
    let (live, stats) = (Live::new(options.settings.clone()), Stats::new());
    let failed = |errno| MountError::Source { path: place.source_path().to_path_buf(), errno };
    let privileged = is_privileged();
    let how = How { act_as_callers: privileged, settings: live.clone() };
    let source = rustix::io::fcntl_dupfd_cloexec(&place.source, 0).map_err(failed)?;
    let names = Arc::new(Names::new(source, how).map_err(failed)?);
    let files = Arc::new(Files::new(live.clone(), options.lock, Arc::clone(&stats), privileged));
    describe(place, options, &stats, &names);
    let filesystem = Mount {
        names: Arc::clone(&names),
        files: Arc::clone(&files),
        stats: Arc::clone(&stats),
        live: live.clone(),
        remember: options.remember,
        passthrough: privileged,
    };
    let session = Session::start(place, options, filesystem, |notifier| {
        // Nobody waits for either, and both may come too late: what they name may be gone.
        let kernel = notifier.clone();
        files.on_drop_pages(move |inode| drop(kernel.inval_inode(INodeNo(inode), 0, 0)));
        names.forget_through(move |leaf| drop(notifier.inval_entry(INodeNo(leaf.parent), &leaf.name)));
    })?;
    names.served_by(session.device());
    Ok(Mounted { session, stats, live })
}

/// Whether this process may act as others, open inodes by their handles, and give the kernel files of its own.
fn is_privileged() -> bool {
    let needed = CapabilitySet::SYS_ADMIN | CapabilitySet::DAC_READ_SEARCH | CapabilitySet::SETUID | CapabilitySet::SETGID;
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(needed))
}

fn describe(place: &Place, options: &Options, stats: &Stats, names: &Arc<Names>) {
    stats.describe("source", place.source_path().to_string_lossy());
    stats.describe("mountpoint", place.mountpoint().to_string_lossy());
    stats.describe("mode", options.settings.rules.default.name());
    let held = |part: fn((usize, u64)) -> u64| {
        let names = Arc::downgrade(names);
        move || names.upgrade().map_or(0, |names| part(names.held()))
    };
    stats.gauge(Gauge::Inodes, held(|(count, _)| count as u64));
    stats.gauge(Gauge::InodeMemory, held(|(_, bytes)| bytes));
}
