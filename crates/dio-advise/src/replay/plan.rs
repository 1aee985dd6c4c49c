//! What is to be replayed: the requests of each thread, what each waits for, and the files as they
//! were before.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::fs::OFlags;

use super::lanes::Lanes;
use super::planned::{Plan, PlannedFile, PlannedRequest, PlannedThread};
use crate::trace::{
    Call, DATA_ONLY, Event, FileInfo, FileKind, Request, TraceEnd, TraceError, WatchCost,
    name_number, read,
};

/// A thread that did anything but its recorded calls for longer than this in calls that are not
/// replayed, has waited in them: calls to pipes and sockets that wait for nothing are shorter.
const SHORT_CALL: u64 = 50_000;

/// How a trace ends that was read for a plan.
#[derive(Debug)]
pub(crate) struct PlanEnd {
    /// It was cut, or still grows.
    pub(crate) is_cut: bool,
    /// It is damaged, and was read up to there.
    pub(crate) damage: Option<TraceError>,
}

/// Reads a trace.
///
/// # Errors
/// Those of reading it. A trace that was cut or is damaged is replayed as far as it goes; one that
/// has no request before the damage is an error.
pub(crate) fn plan(trace: impl Read) -> Result<(Plan, PlanEnd), TraceError> {
    planned_by(Planner::default(), trace)
}

/// As [`plan`], with the calls that look at files or are about names, which are not replayed but
/// have their time.
///
/// # Errors
/// As [`plan`].
pub(crate) fn plan_with_looks(trace: impl Read) -> Result<(Plan, PlanEnd), TraceError> {
    planned_by(Planner { with_looks: true, ..Planner::default() }, trace)
}

fn planned_by(mut planner: Planner, trace: impl Read) -> Result<(Plan, PlanEnd), TraceError> {
    let end = match read(trace, |event| planner.take(event)) {
        Ok(end) => PlanEnd { is_cut: end == TraceEnd::Cut, damage: None },
        Err(error @ TraceError::Damaged { .. }) => PlanEnd { is_cut: false, damage: Some(error) },
        Err(error) => return Err(error),
    };
    let plan = planner.finish();
    match end.damage {
        Some(error) if plan.requests().next().is_none() => Err(error),
        damage => Ok((plan, PlanEnd { damage, ..end })),
    }
}

/// The call that does the same as a request to io_uring or by `io_submit(2)`, and returns when it
/// is done, or as a sync of mapped memory; any other call is returned as it is.
fn by_itself(call: Call, flags: u32) -> Call {
    match call {
        Call::UringRead | Call::AioRead => Call::Pread,
        Call::UringWrite | Call::AioWrite => Call::Pwrite,
        Call::UringFsync | Call::AioFsync if flags & DATA_ONLY != 0 => Call::Fdatasync,
        Call::UringFsync | Call::AioFsync | Call::Msync => Call::Fsync,
        call => call,
    }
}

/// The flag of `msync(2)` that waits for the disk (`include/uapi/asm-generic/mman-common.h`).
const MS_SYNC: u32 = 4;

/// A file while the trace is read.
#[derive(Debug)]
struct KnownFile {
    info: FileInfo,
    before: Option<u64>,
    is_made: bool,
    /// Up to where it was written.
    written: u64,
    read: u64,
    cached: u64,
    is_cache_unseen: bool,
}

#[derive(Debug, Default)]
struct Planner {
    plan: Plan,
    /// Calls that look at files or are about names are planned, too.
    with_looks: bool,
    files: Vec<KnownFile>,
    /// Names that were looked at or opened, by their numbers.
    known_names: HashSet<u64>,
    /// For each thread whether it waited in calls that are not replayed since its last request.
    has_waited: Vec<bool>,
    /// Where copies of a process to a file end.
    copied: HashMap<(u32, u32), u64>,
    ended: Option<u64>,
    last_end: u64,
    cost: WatchCost,
    /// For each thread what watching added to the calls since its last request.
    added: Vec<u64>,
    lanes: Lanes,
    /// The calls whose requests are not in the trace.
    hidden: Vec<Call>,
    hides_faults: bool,
}

impl Planner {
    fn take(&mut self, event: Event) {
        match event {
            Event::Thread { pid, .. } => {
                let owner = self.plan.threads.len() as u32;
                let requests = Vec::new();
                self.plan.threads.push(PlannedThread { process: pid, owner, requests });
                self.has_waited.push(false);
                self.added.push(0);
            }
            Event::File(info) => {
                self.files.push(KnownFile {
                    info,
                    before: None,
                    is_made: false,
                    written: 0,
                    read: 0,
                    cached: 0,
                    is_cache_unseen: false,
                });
            }
            Event::CacheUnseen { file } => self.files[file as usize].is_cache_unseen = true,
            Event::Unrecorded { thread, calls } => {
                let added = &mut self.added[thread as usize];
                *added = added.saturating_add(calls.saturating_mul(self.cost.other));
            }
            Event::Request(request) => self.request(request),
            Event::Cost(cost) => self.cost = cost,
            Event::Lost(count) => self.leave_out("lost", count),
            Event::Ended { after, .. } => self.ended = Some(after),
            Event::Heading(heading) => {
                self.hidden = heading.hidden();
                self.cost = heading.cost;
                self.hides_faults = !heading.sees_faults;
                self.plan.command = heading.command;
                self.plan.machine = heading.machine;
                self.plan.memory = heading.memory;
                self.plan.attached = heading.attached;
            }
        }
    }

    fn leave_out(&mut self, reason: &'static str, count: u64) {
        *self.plan.left_out.entry(reason).or_default() += count;
    }

    fn request(&mut self, request: Request) {
        if request.call.is_asynchronous() {
            return self.asynchronous(&request);
        }
        let is_mapping = request.call == Call::Mmap && request.done >= 0;
        self.plan.unseen_mappings += u64::from(is_mapping && self.hides_faults);
        // A thread makes one call at a time, whatever a trace says.
        let last = self.plan.threads[request.thread as usize].requests.last();
        let start = request.start.max(last.map_or(0, |last| last.end));
        let end = start.saturating_add(request.duration);
        let request = Request { start, ..request };
        if request.call.changes_names() && request.done >= 0 {
            let directory = (request.file, request.call.name());
            *self.plan.changed_names.entry(directory).or_default() += 1;
        }
        self.last_end = self.last_end.max(end);
        match self.planned(&request, end) {
            Ok(planned) => {
                if !planned.call.is_of_names() {
                    self.note_file(&request, &planned);
                }
                self.plan.threads[request.thread as usize].requests.push(planned);
            }
            Err(reason) => {
                if !reason.is_empty() {
                    self.leave_out(reason, 1);
                }
                self.has_waited[request.thread as usize] |=
                    request.waited || request.duration > SHORT_CALL;
                if !request.call.is_fault() {
                    let added = &mut self.added[request.thread as usize];
                    *added =
                        added.saturating_add(self.cost.within.saturating_add(self.cost.around));
                }
            }
        }
    }

    /// A request that a call only began. It becomes one of a thread that did nothing else then.
    fn asynchronous(&mut self, request: &Request) {
        let end = request.start.saturating_add(request.duration);
        self.last_end = self.last_end.max(end);
        let planned = match self.planned(request, end) {
            Ok(planned) => planned,
            Err(reason) => return self.leave_out(reason, 1),
        };
        self.note_file(request, &planned);
        let process = self.plan.threads[request.thread as usize].process;
        self.lanes.add(process, request.thread, planned);
    }

    /// The request as it is replayed, or why it is not.
    fn planned(&mut self, request: &Request, end: u64) -> Result<PlannedRequest, &'static str> {
        let has_contents = |file: u32| {
            let kind = self.files[file as usize].info.kind;
            matches!(kind, FileKind::Regular | FileKind::BlockDevice)
        };
        let (mut call, mut file) = (request.call, request.file);
        if call.is_of_names() {
            return self.planned_look(request, end);
        }
        let mut to = request.to.filter(|to| has_contents(*to));
        if !has_contents(file) {
            // What came through a pipe is written.
            (call, file, to) = (Call::Write, to.ok_or("to pipes, sockets and terminals")?, None);
        } else if call.copies() && to.is_none() {
            call = Call::Read;
        }
        let done = u64::try_from(request.done).map_err(|_| "failed")?;
        match call {
            call if self.hidden.contains(&call) => return Err("asynchronous"),
            Call::Mmap | Call::IoUringEnter | Call::IoSubmit => return Err(""),
            Call::Fault | Call::WriteFault if done == 0 => return Err(""),
            Call::Msync if request.flags & MS_SYNC == 0 => return Err(""),
            _ => {}
        }
        let process = self.plan.threads[request.thread as usize].process;
        let call = by_itself(call, request.flags);
        let is_from_pipe = call == Call::Write && request.call != Call::Write;
        let target = if is_from_pipe { Some(file) } else { to };
        let place = target.map(|target| {
            // Old traces do not have it. Then it is where the last copy of the process ended.
            let end = self.copied.entry((process, target)).or_default();
            let place = request.to_offset.unwrap_or(*end);
            *end = place.saturating_add(done);
            place
        });
        Ok(PlannedRequest {
            call,
            file,
            to: to.zip(place),
            offset: if is_from_pipe { place.unwrap_or(0) } else { request.offset },
            bytes: if is_from_pipe { done } else { request.asked },
            flags: request.flags,
            direct: request.direct,
            synced: request.synced,
            done,
            new_to_cache: request.cached,
            is_of_known: call == Call::Open && self.is_known(file),
            ..self.at_its_time(request, end)
        })
    }

    /// Whether the name of a file was looked at or opened before. The kernel remembers it from then
    /// on, as far as is known.
    fn is_known(&mut self, file: u32) -> bool {
        !self.known_names.insert(name_number(&self.files[file as usize].info.path))
    }

    /// A request that moves nothing, at its recorded times.
    fn at_its_time(&mut self, request: &Request, end: u64) -> PlannedRequest {
        let is_alone = !request.call.is_asynchronous();
        let (waited, added) = if is_alone {
            let thread = request.thread as usize;
            let waited = std::mem::take(&mut self.has_waited[thread]);
            let added = std::mem::take(&mut self.added[thread]);
            (request.waited || waited, added.saturating_add(self.cost.around))
        } else {
            // Nothing computes between the requests of a lane.
            (true, 0)
        };
        PlannedRequest {
            call: request.call,
            file: request.file,
            to: None,
            offset: 0,
            bytes: 0,
            flags: 0,
            direct: false,
            synced: false,
            is_of_unknown: false,
            is_of_known: false,
            done: 0,
            start: request.start,
            end,
            took: request.duration.saturating_sub(if is_alone { self.cost.within } else { 0 }),
            new_to_cache: 0,
            waited,
            after: None,
            pause: 0,
            added,
            is_awaited: false,
            is_last: false,
        }
    }

    /// A call that looks at a file, unless it belongs to the opening of the file, or that lists or
    /// changes names.
    fn planned_look(
        &mut self,
        request: &Request,
        end: u64,
    ) -> Result<PlannedRequest, &'static str> {
        let last = self.plan.threads[request.thread as usize].requests.last();
        let is_of_open = request.call == Call::Stat
            && last.is_some_and(|last| last.call == Call::Open && last.file == request.file);
        match self.with_looks {
            false if request.call != Call::Stat => return Err("of names"),
            is_planned if !is_planned || is_of_open => return Err(""),
            _ => {}
        }
        let is_of_name = self.files[request.file as usize].info.kind == FileKind::Other;
        let is_of_unknown = match request.call {
            Call::Stat if is_of_name && request.done < 0 => {
                self.known_names.remove(&request.offset);
                true
            }
            Call::Stat => is_of_name && self.known_names.insert(request.offset),
            _ => true,
        };
        Ok(PlannedRequest { is_of_unknown, ..self.at_its_time(request, end) })
    }

    /// Learns the size and the warmth of the file before the trace began.
    fn note_file(&mut self, request: &Request, planned: &PlannedRequest) {
        let end = planned.offset.saturating_add(planned.done);
        let writes = planned.call.writes();
        let makes_longer = writes && planned.call != Call::WriteFault;
        let cached = self.cached_of_source(request, planned);
        let file = &mut self.files[planned.file as usize];
        let size = file.info.size;
        if file.before.is_none() && planned.call == Call::Open {
            // Only then it is certain that there was no such file.
            let made = OFlags::CREATE | OFlags::EXCL;
            file.is_made = OFlags::from_bits_retain(planned.flags).contains(made);
        }
        // The size is that after the first request, which may have made the file longer.
        let before =
            file.before.get_or_insert(if makes_longer { size.min(planned.offset) } else { size });
        if planned.call.reads() {
            if planned.done > 0 && end > file.written {
                *before = end.max(*before);
            }
            file.read = file.read.saturating_add(planned.done);
            file.cached = file.cached.saturating_add(cached);
        } else if writes {
            file.written = file.written.max(end);
        }
        if let Some((to, place)) = planned.to {
            let to = &mut self.files[to as usize];
            to.before.get_or_insert(to.info.size.min(place));
            to.written = to.written.max(place.saturating_add(planned.done));
        }
    }

    /// The bytes of pages of the file that is read which were new to the page cache. Those of a
    /// copy within the kernel are told of both files together; what makes the target longer is new
    /// there.
    fn cached_of_source(&self, request: &Request, planned: &PlannedRequest) -> u64 {
        let is_longer = planned.to.is_some_and(|(to, place)| {
            self.files[to as usize].before.is_none_or(|before| place >= before)
        });
        request.cached.saturating_sub(if is_longer { planned.done } else { 0 })
    }

    fn finish(mut self) -> Plan {
        self.plan.threads.extend(std::mem::take(&mut self.lanes).into_threads());
        self.link();
        self.mark_last();
        let recorded = self.ended.unwrap_or(self.last_end).max(self.last_end);
        let files = self.files.iter().map(|file| PlannedFile {
            path: PathBuf::from(OsStr::from_bytes(&file.info.path)),
            size: file.before.unwrap_or(0),
            is_warm: !file.is_cache_unseen && file.cached < file.read.min(file.info.size) / 2,
            is_cache_unseen: file.is_cache_unseen,
            is_used: file.before.is_some(),
            is_made: file.is_made,
            device: file.info.device,
            inode: file.info.inode,
        });
        Plan { files: files.collect(), recorded, tail: recorded - self.last_end, ..self.plan }
    }

    /// Finds what each request waits for. A thread that slept before a request waited for another
    /// one, if another one did anything meanwhile; and a new thread waits for what was done before
    /// it. Of requests that were in flight at once, each follows the one before it in its lane,
    /// unless the thread was occupied otherwise in between.
    fn link(&mut self) {
        let mut ends: Vec<(u64, u32, u32)> = Vec::new();
        for (thread, planned) in self.plan.threads.iter().enumerate() {
            let of = |(number, request): (usize, &PlannedRequest)| {
                (request.end, thread as u32, number as u32)
            };
            ends.extend(planned.requests.iter().enumerate().map(of));
        }
        ends.sort_unstable();
        let owners: Vec<u32> = self.plan.threads.iter().map(|thread| thread.owner).collect();
        let lane_of = |thread: u32| Some(owners[thread as usize]).filter(|owner| *owner != thread);
        let are_lanes_of_one =
            |one: u32, other: u32| lane_of(one).is_some() && lane_of(one) == lane_of(other);
        for thread in 0..self.plan.threads.len() {
            let mut last_end = 0;
            for number in 0..self.plan.threads[thread].requests.len() {
                let request = &self.plan.threads[thread].requests[number];
                let (start, end) = (request.start, request.end);
                // What a request waits for comes before it in the order of `ends`, and so does the
                // request before it in its thread: nothing waits for itself.
                let own = (end, thread as u32, number as u32);
                let before = ends.partition_point(|other| other.0 <= start && *other < own);
                let other = (request.waited || number == 0)
                    .then(|| ends[..before].last())
                    .flatten()
                    .filter(|(end, of, _)| *of != own.1 && (number == 0 || *end > last_end))
                    .filter(|(_, of, _)| number == 0 || !are_lanes_of_one(own.1, *of))
                    .copied();
                if let Some((_, of, awaited)) = other {
                    self.plan.threads[of as usize].requests[awaited as usize].is_awaited = true;
                }
                let request = &mut self.plan.threads[thread].requests[number];
                request.after = other.map(|(_, of, awaited)| (of, awaited));
                let pause = start.saturating_sub(other.map_or(last_end, |(end, ..)| end));
                request.pause = pause.saturating_sub(request.added);
                last_end = end;
            }
        }
    }

    fn mark_last(&mut self) {
        let mut ends: HashMap<(u32, u32), (u64, usize, usize)> = HashMap::new();
        for (thread, planned) in self.plan.threads.iter().enumerate() {
            for (number, request) in planned.requests.iter().enumerate() {
                let last = ends.entry((planned.process, request.file)).or_default();
                *last = (*last).max((request.end, thread, number));
            }
        }
        for (_, thread, number) in ends.into_values().collect::<HashSet<_>>() {
            if let Some(request) = self.plan.threads[thread].requests.get_mut(number) {
                request.is_last = true;
            }
        }
    }
}
