//! Requests that were read from another format, before they become a trace.

use std::collections::HashMap;
use std::io;

use super::model::Format;
use crate::trace::{Event, EventSink, FileInfo, FileKind, Heading, Request, WatchCost};

/// Requests, with the threads and files that they name.
#[derive(Debug, Default)]
pub(super) struct Lines {
    threads: Vec<Event>,
    thread_numbers: HashMap<(u32, Vec<u8>), u32>,
    files: Vec<FileInfo>,
    file_numbers: HashMap<Vec<u8>, u32>,
    requests: Vec<Request>,
    pub(super) left_out: u64,
}

impl Lines {
    /// The number of a thread.
    pub(super) fn thread(&mut self, pid: u32, tid: u32, name: &[u8]) -> u32 {
        let next = self.threads.len() as u32;
        *self.thread_numbers.entry((tid, name.to_vec())).or_insert_with(|| {
            self.threads.push(Event::Thread { tid, pid, name: name.to_vec() });
            next
        })
    }

    /// The number of a file, which has at least this size.
    pub(super) fn file(&mut self, path: &[u8], kind: FileKind, size: u64) -> u32 {
        let next = self.files.len() as u32;
        let number = *self.file_numbers.entry(path.to_vec()).or_insert_with(|| {
            let inode = u64::from(next) + 1;
            self.files.push(FileInfo { device: 0, inode, kind, size: 0, path: path.to_vec() });
            next
        });
        let file = &mut self.files[number as usize];
        file.size = file.size.max(size);
        number
    }

    pub(super) fn add(&mut self, request: Request) {
        self.requests.push(request);
    }

    pub(super) fn requests(&self) -> usize {
        self.requests.len()
    }

    /// Passes all on, in the order in which the requests ended.
    pub(super) fn pass_on(&mut self, from: Format, sink: &mut impl EventSink) -> io::Result<()> {
        let command = vec![format!("imported from {}", from.name())];
        let heading = Heading::new(command, String::new(), 0, WatchCost::default());
        sink.add(&Event::Heading(heading))?;
        for thread in &self.threads {
            sink.add(thread)?;
        }
        for file in self.files.drain(..) {
            sink.add(&Event::File(file))?;
        }
        let end = |request: &Request| request.start.saturating_add(request.duration);
        self.requests.sort_by_key(end);
        let after = self.requests.last().map_or(0, end);
        for request in self.requests.drain(..) {
            sink.add(&Event::Request(request))?;
        }
        sink.add(&Event::Ended { status: 0, after })?;
        sink.flush()
    }
}
