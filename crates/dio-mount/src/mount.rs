//! Connects the modules of a mount and serves it.

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use dio::stripe::{PathRedirect, redirect_paths};
use dio_fuse::{INodeNo, Notifier, switch_on};
use rustix::fs::{Dev, fstat, major, makedev, minor};
use rustix::thread::CapabilitySet;

use crate::control;
use crate::file::Files;
use crate::names::{Forbidden, Names, NamesConfig};
use crate::options::{Live, MountOptions, Rings};
use crate::run::{Owner, RunRequest};
use crate::serve::Mount;
use crate::session::{MountError, MountSession, MountTarget, Serving};
use crate::session::{flags, table};
use crate::stats::{Gauge, Stats};
use crate::users::Users;

/// A mount that is served, with its counters and settings. `S` is [`Serving`] where another process
/// has mounted it.
#[derive(Debug)]
pub struct Mounted<S = MountSession> {
    /// The mount; it lasts until it is unmounted.
    pub session: S,
    /// The counters.
    pub stats: Arc<Stats>,
    /// The settings that can change while the mount is served.
    pub live: Live,
    /// While this exists, objects of striped files that lie below the mount are opened without the
    /// mount.
    pub objects: PathRedirect,
}

/// Mounts `target` and serves it with threads of its own; returns when the mount answers requests.
///
/// # Errors
/// See [`MountError`]. Nothing stays mounted then.
pub fn mount(target: &MountTarget, options: &MountOptions) -> Result<Mounted, MountError> {
    let failed = |errno| MountError::Source { path: target.source_path().to_path_buf(), errno };
    let source = rustix::io::fcntl_dupfd_cloexec(&target.source, 0).map_err(failed)?;
    let below = rustix::io::fcntl_dupfd_cloexec(&target.source, 0).map_err(failed)?;
    if !options.read_only {
        refuse_second(target, identity_of(&source).map_err(failed)?)?;
    }
    let objects = redirect_paths(target.mountpoint(), below);
    let rooms = Modules::new(source, options).map_err(failed)?;
    rooms.describe(target.source_path(), target.mountpoint(), options);
    let switch = switch_on(options.effective_rings() != Rings::Never);
    let session = MountSession::start(target, options, rooms.filesystem(options), |notifier| {
        rooms.connect(notifier)
    })?;
    drop(switch);
    let device = session.device();
    rooms.names.served_by(device, move || Forbidden::by(flags::forbidden_by_all(device)));
    widen_read_ahead(session.device());
    rooms.watch_queue(session.device());
    Ok(Mounted { session, stats: rooms.stats, live: rooms.live, objects })
}

/// Serves a directory that another process has mounted over itself (see [`run`](crate::run)).
///
/// # Errors
/// See [`MountError`].
pub fn serve(request: RunRequest, options: &MountOptions) -> Result<Mounted<Serving>, MountError> {
    let RunRequest { path, number, source, device, owner } = request;
    let failed = |errno| MountError::Source { path: path.clone(), errno };
    let objects =
        redirect_paths(&path, rustix::io::fcntl_dupfd_cloexec(&source, 0).map_err(failed)?);
    let rooms = Modules::new(source, options)
        .map_err(|errno| MountError::Source { path: path.clone(), errno })?;
    rooms.describe(&path, &path, options);
    // The device descriptor of a connection from another user namespace cannot be cloned here
    // (`fuse_device_clone`, fs/fuse/dev.c).
    let clone = owner == Owner::System;
    let session = Serving::start(device, clone, options, rooms.filesystem(options), |notifier| {
        rooms.connect(notifier)
    })?;
    if let Some((major, minor)) = number.split_once(':')
        && let (Ok(major), Ok(minor)) = (major.parse(), minor.parse())
    {
        let device = makedev(major, minor);
        rooms.watch_queue(device);
        widen_read_ahead(device);
    }
    Ok(Mounted { session, stats: rooms.stats, live: rooms.live, objects })
}

/// The key under which a server reports device and inode of its directory, since a directory can
/// have several paths.
const IDENTITY: &str = "source_identity";

fn identity_of(source: &OwnedFd) -> rustix::io::Result<String> {
    let stat = fstat(source)?;
    Ok(format!("{}:{}:{}", major(stat.st_dev), minor(stat.st_dev), stat.st_ino))
}

/// Refuses to write to a directory that another dio mount writes to: each mount delays writes that
/// the other does not see. Asks the servers of all mounts in this process's table. A server that
/// cannot be asked, or has ended, is ignored.
fn refuse_second(target: &MountTarget, identity: String) -> Result<(), MountError> {
    let mut asked = HashSet::new();
    for mount in table::mounts().unwrap_or_default() {
        if mount.kind != table::KIND || mount.is_read_only() || !asked.insert(mount.device) {
            continue;
        }
        let told = control::connect_by_table(&mount).and_then(|mut server| server.snapshot().ok());
        if told.is_some_and(|told| told.about.get(IDENTITY) == Some(&identity)) {
            let path = target.source_path().to_path_buf();
            return Err(MountError::Second {
                path,
                at: mount.at,
                wanted: target.mountpoint().to_path_buf(),
            });
        }
    }
    Ok(())
}

/// The slice to ask the scheduler for, in nanoseconds: the shortest that it gives. Programs wait
/// for nearly everything that the server does, and a request takes less time than this. With a
/// short slice the scheduler runs the server sooner on busy processors.
const SLICE: u64 = 100_000;

/// The modules of one mount.
struct Modules {
    names: Arc<Names>,
    files: Arc<Files>,
    stats: Arc<Stats>,
    live: Live,
    privileged: bool,
}

impl Modules {
    fn new(source: OwnedFd, options: &MountOptions) -> rustix::io::Result<Modules> {
        let identity = identity_of(&source)?;
        // This comes before any thread is started. If it fails, requests are served with the
        // scheduler's default slice.
        let _ = dio_sys::ask_for_slices(SLICE);
        let (live, stats) = (Live::new(options.settings.clone()), Stats::new());
        stats.describe(IDENTITY, identity);
        let privileged = is_privileged();
        let descriptors = Arc::<Users>::default();
        let how = NamesConfig {
            act_as_callers: privileged,
            settings: live.clone(),
            descriptors: Arc::clone(&descriptors),
        };
        let names = Arc::new(Names::new(source, how)?);
        let files = Arc::new(Files::new(
            live.clone(),
            options.lock,
            Arc::clone(&stats),
            privileged,
            descriptors,
        ));
        let open = Arc::downgrade(&files);
        names.keep_objects_through(move |inode, objects| match open.upgrade() {
            Some(files) => files.keep_until_closed(inode, objects),
            None => Some(objects),
        });
        Ok(Modules { names, files, stats, live, privileged })
    }

    fn filesystem(&self, options: &MountOptions) -> Mount {
        Mount {
            names: Arc::clone(&self.names),
            files: Arc::clone(&self.files),
            stats: Arc::clone(&self.stats),
            live: self.live.clone(),
            remember: options.remember,
            rings: options.effective_rings(),
            threads: options.threads,
            idle_polling: options.idle_polling,
            idle_poll: None,
            passthrough: self.privileged,
        }
    }

    /// Gives the modules callbacks that send notifications to the kernel. No thread waits for the
    /// notifications, and both may come too late: the inode or name may be gone.
    fn connect(&self, notifier: Notifier) {
        let kernel = notifier.clone();
        self.files.on_drop_pages(move |inode, range| {
            drop(kernel.inval_inode(
                INodeNo(inode),
                range.start as i64,
                (range.end - range.start) as i64,
            ));
        });
        self.names.forget_through(move |leaf| {
            drop(notifier.inval_entry(INodeNo(leaf.parent), &leaf.name))
        });
    }

    /// Adds the number of requests in the kernel's queue to snapshots, where the kernel reports it.
    fn watch_queue(&self, device: Dev) {
        // The directory is named after the kernel's internal device number, with 20 bits for the
        // minor number (`fuse_ctl_add_conn`).
        let number = u64::from(major(device)) << 20 | u64::from(minor(device));
        let directory = format!("/sys/fs/fuse/connections/{number}");
        if waiting(&directory).is_some() {
            let stats = Arc::downgrade(&self.stats);
            self.stats.gauge(Gauge::Queued, move || {
                let in_hand = stats.upgrade().map_or(0, |stats| stats.in_hand());
                waiting(&directory).unwrap_or(0).saturating_sub(in_hand)
            });
        }
    }

    fn describe(&self, source: &Path, mountpoint: &Path, options: &MountOptions) {
        self.stats.describe("source", source.to_string_lossy());
        self.stats.describe("mountpoint", mountpoint.to_string_lossy());
        self.stats.describe("mode", options.settings.rules.default.name());
        let held = |part: fn((usize, u64)) -> u64| {
            let names = Arc::downgrade(&self.names);
            move || names.upgrade().map_or(0, |names| part(names.held()))
        };
        self.stats.gauge(Gauge::Inodes, held(|(count, _)| count as u64));
        self.stats.gauge(Gauge::InodeMemory, held(|(_, bytes)| bytes));
    }
}

/// The kernel's read-ahead for readers whose reads it gathers, in KiB. With the default of 128 a
/// reader waits now and then; larger values than this were not faster.
const KERNEL_READ_AHEAD: &str = "512";

/// Sets the read-ahead of a mount (`Documentation/ABI/testing/sysfs-class-bdi`); only root may do
/// that.
fn widen_read_ahead(device: rustix::fs::Dev) {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    // If it fails, reading is a little slower.
    let _ =
        std::fs::write(format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb"), KERNEL_READ_AHEAD);
}

/// Counts the requests of a connection that the kernel has no answer for yet, both those that the
/// server has read and those still in the queue (`fuse_conn_waiting_read`, fs/fuse/control.c).
/// `None` where the control file system is not mounted.
fn waiting(directory: &str) -> Option<u64> {
    std::fs::read_to_string(format!("{directory}/waiting")).ok()?.trim().parse().ok()
}

/// Whether this process may act as other users, open inodes by their handles, and register backing
/// files with the kernel.
fn is_privileged() -> bool {
    let needed = CapabilitySet::SYS_ADMIN
        | CapabilitySet::DAC_READ_SEARCH
        | CapabilitySet::SETUID
        | CapabilitySet::SETGID;
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(needed))
}
