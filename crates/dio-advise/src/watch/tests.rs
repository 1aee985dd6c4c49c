//! Calls that are recorded in batches are those that were made, in their order.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::thread;

use rustix::fs::{Advice, fadvise, fsync};
use rustix::io::dup2;

use super::*;
use crate::trace::Call;

/// A call: its thread, the system call, the inode, the place after it or that it was given, the
/// bytes asked for, and its result.
type Made = (i32, Call, u64, u64, u64, i64);

/// Makes calls and notes them.
struct Maker {
    thread: i32,
    inode: u64,
    made: Vec<Made>,
}

impl Maker {
    fn new(file: &File) -> Maker {
        use std::os::unix::fs::MetadataExt;
        let thread = gettid().as_raw_nonzero().get();
        Maker { thread, inode: file.metadata().unwrap().ino(), made: Vec::new() }
    }

    fn note(&mut self, call: Call, position: u64, asked: usize, result: usize) {
        let (asked, result) = (asked as u64, result as i64);
        self.made.push((self.thread, call, self.inode, position, asked, result));
    }

    fn read(&mut self, mut file: &File, bytes: usize, position: &mut u64) {
        let read = file.read(&mut vec![0; bytes]).unwrap();
        *position += read as u64;
        self.note(Call::Read, *position, bytes, read);
    }

    fn write(&mut self, mut file: &File, bytes: usize, position: &mut u64) {
        let written = file.write(&vec![1; bytes]).unwrap();
        *position += written as u64;
        self.note(Call::Write, *position, bytes, written);
    }

    fn read_at(&mut self, file: &File, bytes: usize, position: u64) {
        let read = file.read_at(&mut vec![0; bytes], position).unwrap();
        self.note(Call::Pread, position, bytes, read);
    }
}

/// What a program does that reads and writes densely, and other things between.
fn calls(dir: &std::path::Path, name: &str) -> Vec<Made> {
    let open = |name: &str| {
        File::options().read(true).write(true).create(true).truncate(true).open(dir.join(name))
    };
    let (file, other) = (open(name).unwrap(), open(&format!("{name} 2")).unwrap());
    let (mut maker, mut at_other, mut at) = (Maker::new(&file), 0, 0);
    (0..1000).for_each(|_| maker.write(&file, 100, &mut at));
    at = (&file).seek(SeekFrom::Start(50)).unwrap();
    // Two sizes in turn, to the end of the file and beyond.
    for _ in 0..700 {
        maker.read(&file, 64, &mut at);
        maker.read(&file, 128, &mut at);
    }
    for number in 0..500_u64 {
        maker.read_at(&file, 512, number * 7919 % 100_000);
        if number % 97 == 0 {
            fsync(&file).unwrap();
            maker.note(Call::Fsync, at, 0, 0);
        }
    }
    // Another file behind the same descriptor.
    let mut copy = file.as_fd().try_clone_to_owned().unwrap();
    (0..40).for_each(|number| maker.read_at(&file, 512, number));
    let through = File::from(copy.try_clone().unwrap());
    (0..40).for_each(|number| maker.read_at(&through, 512, number));
    copy = through.into();
    dup2(&other, &mut copy).unwrap();
    let through = File::from(copy);
    maker.inode = Maker::new(&other).inode;
    (0..40).for_each(|_| maker.write(&through, 512, &mut at_other));
    (0..5).for_each(|number| maker.read_at(&through, 512, number));
    maker.made
}

fn place(call: Call, record: &Record<'_>) -> u64 {
    match call {
        Call::Pread => record.arguments[3],
        _ => record.file.unwrap().position,
    }
}

#[test]
fn calls_in_batches_are_those_that_were_made() {
    let mut watcher = match Watcher::start() {
        Ok(watcher) => watcher,
        Err(error) => return println!("skipped: {error}"),
    };
    let dir = tempfile::tempdir().unwrap();
    watcher.set_dense(true).unwrap();
    let begin = |name: &'static str| {
        let dir = dir.path().to_owned();
        move || calls(&dir, name)
    };
    watcher.watch_this_thread(true).unwrap();
    let threads = ["a", "b", "c"].map(|name| thread::spawn(begin(name)));
    let mut made = begin("d")();
    threads.into_iter().for_each(|thread| made.extend(thread.join().unwrap()));
    watcher.watch_this_thread(false).unwrap();
    let mut seen: Vec<Made> = Vec::new();
    let mut ends = std::collections::HashMap::new();
    let mut take = |record: &Record<'_>| {
        let Watched::Call(call) = record.what else { return };
        let Some(file) = record.file.filter(|file| made.iter().any(|made| made.2 == file.inode))
        else {
            return;
        };
        if !matches!(call, Call::Read | Call::Write | Call::Pread | Call::Fsync) {
            return;
        }
        let asked = if call == Call::Fsync { 0 } else { record.arguments[2] };
        let thread = record.tid as i32;
        seen.push((thread, call, file.inode, place(call, record), asked, record.result));
        assert_eq!(record.pid, std::process::id());
        let last = ends.insert(thread, record.end).unwrap_or_default();
        assert!(record.start == 0 || last <= record.start && record.start <= record.end);
    };
    watcher.drain(&mut take);
    watcher.end(&mut take).unwrap();
    assert_eq!(watcher.lost().unwrap(), 0);
    let of_thread = |all: &[Made], thread| {
        all.iter().filter(|made| made.0 == thread).copied().collect::<Vec<_>>()
    };
    for (thread, ..) in made.chunk_by(|a, b| a.0 == b.0).map(|chunk| chunk[0]) {
        assert_eq!(of_thread(&seen, thread), of_thread(&made, thread));
    }
    assert_eq!(seen.len(), made.len());
}

#[test]
fn pages_that_are_new_to_the_cache_are_those_of_the_call() {
    let mut watcher = match Watcher::start() {
        Ok(watcher) => watcher,
        Err(error) => return println!("skipped: {error}"),
    };
    let mut file = tempfile::tempfile_in(".").unwrap();
    file.write_all(&vec![1; 1 << 20]).unwrap();
    fsync(&file).unwrap();
    fadvise(file.as_fd(), 0, None, Advice::DontNeed).unwrap();
    file.rewind().unwrap();
    watcher.set_dense(true).unwrap();
    watcher.watch_this_thread(true).unwrap();
    for _ in 0..2 {
        (0..1 << 8).for_each(|_| assert_eq!(file.read(&mut [0; 4096]).unwrap(), 4096));
        file.rewind().unwrap();
    }
    watcher.watch_this_thread(false).unwrap();
    let (mut calls, mut first, mut again) = (0, 0, 0);
    let mut take = |record: &Record<'_>| {
        if record.what == Watched::Call(Call::Read) && record.arguments[2] == 4096 {
            *if calls < 256 { &mut first } else { &mut again } += record.new;
            calls += 1;
        } else {
            assert!(record.what != Watched::Call(Call::Fault) || record.new == 0, "{record:?}");
        }
    };
    watcher.drain(&mut take);
    watcher.end(&mut take).unwrap();
    assert_eq!((calls, first, again), (512, 256, 0));
}
