//! The bytes of events. What is relative to earlier events is relative within one frame.

use super::event::{Call, Event, FileInfo, FileKind, Heading, Request, WatchCost};

const HEADING: u8 = 1;
const THREAD: u8 = 2;
const FILE: u8 = 3;
const LOST: u8 = 4;
const ENDED: u8 = 5;
const UNRECORDED: u8 = 6;
const CACHE_UNSEEN: u8 = 7;
const COST: u8 = 8;
/// Comes before a request that copies, and has the place that it copies to; since version 3.
const TO_OFFSET: u8 = 9;
/// The tag of a request is this and the number of its call, and more if the thread waited before
/// it, and if it has flags.
const REQUEST: u8 = 0x20;
/// In place of the number of a call: it is in the next byte.
const OTHER_CALL: u8 = 0x1f;
const WAITED: u8 = 0x40;
const HAS_FLAGS: u8 = 0x80;

/// Flags of a request: what is as expected takes no bytes.
const SAME_THREAD: u8 = 1;
const SAME_FILE: u8 = 2;
/// The request begins where the last one to its file ended.
const NEXT_OFFSET: u8 = 4;
const ALL_DONE: u8 = 8;
const HAS_TO: u8 = 16;
const HAS_CACHED: u8 = 32;
const DIRECT: u8 = 64;
const SYNCED: u8 = 128;

/// How many threads and files a trace has named so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Named {
    threads: u32,
    files: u32,
}

/// What earlier requests of a frame lead to expect of the next one.
#[derive(Debug, Default)]
pub(super) struct Expected {
    thread: u32,
    file: u32,
    /// When the last request ended.
    time: u64,
    /// Where the last request to each file ended, by the file's number.
    ends: Vec<u64>,
}

impl Expected {
    fn end_of(&self, file: u32) -> u64 {
        self.ends.get(file as usize).copied().unwrap_or(0)
    }

    fn note(&mut self, request: &Request) {
        (self.thread, self.file) = (request.thread, request.file);
        self.time = request.start.wrapping_add(request.duration);
        let moved = request.done.max(0) as u64;
        let file = request.file as usize;
        if self.ends.len() <= file {
            self.ends.resize(file + 1, 0);
        }
        self.ends[file] = request.offset.wrapping_add(moved);
    }
}

/// Folds a signed number so that small ones have small codes.
fn fold(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

fn unfold(code: u64) -> i64 {
    (code >> 1) as i64 ^ -((code & 1) as i64)
}

fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends an event to the payload of a frame.
pub(super) fn encode(event: &Event, expected: &mut Expected, out: &mut Vec<u8>) {
    match event {
        Event::Heading(heading) => {
            out.push(HEADING);
            let text = serde_json::to_vec(heading).expect("strings and numbers have JSON");
            put_bytes(out, &text);
        }
        Event::Thread { tid, pid, name } => {
            out.push(THREAD);
            put(out, (*tid).into());
            put(out, (*pid).into());
            put_bytes(out, name);
        }
        Event::File(file) => {
            out.extend_from_slice(&[FILE, file.kind as u8]);
            put(out, file.device);
            put(out, file.inode);
            put(out, file.size);
            put_bytes(out, &file.path);
        }
        Event::Request(request) => encode_request(request, expected, out),
        Event::Lost(count) => {
            out.push(LOST);
            put(out, *count);
        }
        Event::Unrecorded { thread, calls } => {
            out.push(UNRECORDED);
            put(out, (*thread).into());
            put(out, *calls);
        }
        Event::CacheUnseen { file } => {
            out.push(CACHE_UNSEEN);
            put(out, (*file).into());
        }
        Event::Cost(cost) => {
            out.push(COST);
            for nanos in [cost.within, cost.around, cost.other] {
                put(out, nanos);
            }
        }
        Event::Ended { status, after } => {
            out.extend_from_slice(&[ENDED, *status]);
            put(out, *after);
        }
    }
}

fn encode_request(request: &Request, expected: &mut Expected, out: &mut Vec<u8>) {
    if let Some(offset) = request.to_offset {
        out.push(TO_OFFSET);
        put(out, offset);
    }
    let end = expected.end_of(request.file);
    let all_done = u64::try_from(request.done).is_ok_and(|done| done == request.asked);
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    let flags = flag(request.thread == expected.thread, SAME_THREAD)
        | flag(request.file == expected.file, SAME_FILE)
        | flag(request.offset == end, NEXT_OFFSET)
        | flag(all_done, ALL_DONE)
        | flag(request.to.is_some(), HAS_TO)
        | flag(request.cached > 0, HAS_CACHED)
        | flag(request.direct, DIRECT)
        | flag(request.synced, SYNCED);
    let number = request.call as u8;
    let tag = REQUEST + number.min(OTHER_CALL);
    let more = flag(request.waited, WAITED) | flag(request.flags != 0, HAS_FLAGS);
    out.push(tag + more);
    if number >= OTHER_CALL {
        out.push(number);
    }
    out.push(flags);
    if flags & SAME_THREAD == 0 {
        put(out, request.thread.into());
    }
    if flags & SAME_FILE == 0 {
        put(out, request.file.into());
    }
    if flags & NEXT_OFFSET == 0 {
        put(out, fold(request.offset.wrapping_sub(end) as i64));
    }
    put(out, request.asked);
    if flags & ALL_DONE == 0 {
        put(out, fold(request.done));
    }
    put(out, fold(request.start.wrapping_sub(expected.time) as i64));
    put(out, request.duration);
    if let Some(to) = request.to {
        put(out, to.into());
    }
    if request.cached > 0 {
        put(out, request.cached);
    }
    if request.flags != 0 {
        put(out, request.flags.into());
    }
    expected.note(request);
}

/// The rest of a payload.
pub(super) struct Payload<'a>(pub(super) &'a [u8]);

impl<'a> Payload<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return None;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn short(&mut self) -> Option<u32> {
        self.number()?.try_into().ok()
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    /// Decodes the next event; `None` if there is none that this version knows, or one that names a
    /// thread or a file that no event before it did.
    pub(super) fn event(&mut self, named: &mut Named, expected: &mut Expected) -> Option<Event> {
        Some(match self.byte()? {
            HEADING => Event::Heading(serde_json::from_slice::<Heading>(self.bytes()?).ok()?),
            THREAD => {
                let (tid, pid) = (self.short()?, self.short()?);
                named.threads = named.threads.checked_add(1)?;
                Event::Thread { tid, pid, name: self.bytes()?.to_vec() }
            }
            FILE => {
                let kind = *FileKind::ALL.get(usize::from(self.byte()?))?;
                let (device, inode, size) = (self.number()?, self.number()?, self.number()?);
                let path = self.bytes()?.to_vec();
                named.files = named.files.checked_add(1)?;
                Event::File(FileInfo { device, inode, kind, size, path })
            }
            LOST => Event::Lost(self.number()?),
            UNRECORDED => {
                let (thread, calls) = (self.short()?, self.number()?);
                (thread < named.threads).then_some(Event::Unrecorded { thread, calls })?
            }
            CACHE_UNSEEN => {
                let file = self.short()?;
                (file < named.files).then_some(Event::CacheUnseen { file })?
            }
            COST => {
                let (within, around, other) = (self.number()?, self.number()?, self.number()?);
                Event::Cost(WatchCost { within, around, other })
            }
            ENDED => Event::Ended { status: self.byte()?, after: self.number()? },
            TO_OFFSET => {
                let to_offset = Some(self.number()?);
                let tag = self.byte()?;
                let request = self.request(tag, *named, expected)?;
                Event::Request(Request { to_offset, ..request })
            }
            tag => Event::Request(self.request(tag, *named, expected)?),
        })
    }

    /// Decodes a request, whose tag was read.
    fn request(&mut self, tag: u8, named: Named, expected: &mut Expected) -> Option<Request> {
        let tag = tag.checked_sub(REQUEST)?;
        let call = match tag & !(WAITED | HAS_FLAGS) {
            OTHER_CALL => self.byte()?,
            number => number,
        };
        let call = *Call::ALL.get(usize::from(call))?;
        let mut request = self.plain_request(call, named, expected)?;
        request.waited = tag & WAITED != 0;
        if tag & HAS_FLAGS != 0 {
            request.flags = self.short()?;
        }
        Some(request)
    }

    /// Decodes the part of a request that all have.
    fn plain_request(
        &mut self,
        call: Call,
        named: Named,
        expected: &mut Expected,
    ) -> Option<Request> {
        let flags = self.byte()?;
        let has = |flag| flags & flag != 0;
        let thread = if has(SAME_THREAD) { expected.thread } else { self.short()? };
        let file = if has(SAME_FILE) { expected.file } else { self.short()? };
        if thread >= named.threads || file >= named.files {
            return None;
        }
        let end = expected.end_of(file);
        let offset =
            if has(NEXT_OFFSET) { end } else { end.wrapping_add(unfold(self.number()?) as u64) };
        let asked = self.number()?;
        let done = if has(ALL_DONE) { asked as i64 } else { unfold(self.number()?) };
        let start = expected.time.wrapping_add(unfold(self.number()?) as u64);
        let duration = self.number()?;
        let to = if has(HAS_TO) { Some(self.short()?) } else { None };
        if to.is_some_and(|to| to >= named.files) {
            return None;
        }
        let cached = if has(HAS_CACHED) { self.number()? } else { 0 };
        let request = Request {
            call,
            thread,
            file,
            offset,
            asked,
            flags: 0,
            done,
            cached,
            direct: has(DIRECT),
            synced: has(SYNCED),
            waited: false,
            start,
            duration,
            to,
            to_offset: None,
        };
        expected.note(&request);
        Some(request)
    }
}
