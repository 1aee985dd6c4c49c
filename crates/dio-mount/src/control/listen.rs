//! One thread that answers the clients of a Unix socket, however slow they are, with bounded
//! memory.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use dio::names::FileId;
use dio_sys::uninterrupted;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;
use rustix::net::SendFlags;
use rustix::process::geteuid;

use super::place::Turn;
use super::protocol::refusal;

/// Most clients at a time. When one more comes, that which has been silent longest is sent away.
const MOST_CLIENTS: usize = 32;

/// Longest request, in bytes.
const LONGEST_REQUEST: usize = 64 << 10;

/// What clients get.
pub(super) enum Service {
    /// An answer to each line, for root and the user of this process.
    Lines(Box<dyn Fn(&str) -> String + Send>),
    /// This text, when they come, and no more. Who may connect is a matter of the socket's
    /// permissions.
    Text(Box<dyn Fn() -> String + Send>),
}

/// A socket that is answered until this is dropped; then it is removed.
#[derive(Debug)]
pub(super) struct Listener {
    path: PathBuf,
    /// The directory of it, if others make sockets there in turns.
    directory: Option<OwnedFd>,
    /// Device and inode of the socket: another one of that name is left alone.
    identity: FileId,
    wake: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// Answers on a socket that was bound to `path`, in `directory`, if others make sockets there
    /// in turns.
    pub(super) fn start(
        socket: UnixListener,
        path: PathBuf,
        directory: Option<OwnedFd>,
        service: Service,
    ) -> io::Result<Listener> {
        socket.set_nonblocking(true)?;
        let metadata = std::fs::symlink_metadata(&path)?;
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let mut desk = Desk { socket, service, wake: Arc::clone(&wake), clients: Vec::new(), clock: 0 };
        let thread = thread::Builder::new().name("dio-control".to_owned()).spawn(move || desk.run())?;
        Ok(Listener { path, directory, identity: FileId::of_metadata(&metadata), wake, thread: Some(thread) })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Between looking and removing, the next server must not put its own there.
        let turn = self.directory.as_ref().map(Turn::take);
        let ours =
            std::fs::symlink_metadata(&self.path).is_ok_and(|metadata| FileId::of_metadata(&metadata) == self.identity);
        if ours {
            // If it cannot be removed, the next server does it.
            let _ = std::fs::remove_file(&self.path);
        }
        drop(turn);
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // It panicked if a command did; there is nothing to do then.
            let _ = thread.join();
        }
    }
}

/// One that has connected.
struct Visitor {
    stream: UnixStream,
    input: Vec<u8>,
    /// What is still to be sent. While there is any, nothing more is read.
    output: Vec<u8>,
    sent: usize,
    /// To be sent away when everything is sent.
    last: bool,
    /// When it was heard of last, by the desk's clock.
    heard: u64,
}

impl Visitor {
    fn wants(&self) -> PollFlags {
        if self.output.is_empty() { PollFlags::IN } else { PollFlags::OUT }
    }

    fn say(&mut self, text: String) {
        self.output = text.into_bytes();
        self.sent = 0;
    }

    /// Sends what can be sent now; false when the visit is over.
    fn send(&mut self) -> bool {
        while self.sent < self.output.len() {
            let rest = &self.output[self.sent..];
            match uninterrupted(|| rustix::net::send(&self.stream, rest, SendFlags::NOSIGNAL)) {
                Ok(count) => self.sent += count,
                Err(Errno::AGAIN) => return true,
                Err(_) => return false,
            }
        }
        self.output = Vec::new();
        self.sent = 0;
        !self.last
    }

    /// Reads what is there, a little; false when the visitor has gone.
    fn receive(&mut self) -> bool {
        let mut buffer = [0; 4096];
        match rustix::io::read(&self.stream, &mut buffer) {
            Ok(0) => false,
            Ok(count) => {
                self.input.extend_from_slice(&buffer[..count]);
                true
            }
            Err(Errno::AGAIN | Errno::INTR) => true,
            Err(_) => false,
        }
    }

    /// The next whole line, without its end.
    fn line(&mut self) -> Option<String> {
        let end = self.input.iter().position(|byte| *byte == b'\n')?;
        let line = String::from_utf8_lossy(&self.input[..end]).into_owned();
        self.input.drain(..=end);
        Some(line)
    }
}

/// What the thread works with.
struct Desk {
    socket: UnixListener,
    service: Service,
    wake: Arc<OwnedFd>,
    clients: Vec<Visitor>,
    /// Counts what is heard.
    clock: u64,
}

impl Desk {
    fn run(&mut self) {
        loop {
            let ready = self.wait();
            let Ok(ready) = ready else { return };
            if !ready[0].is_empty() {
                return;
            }
            // From the back, so that those who go do not move the others.
            for place in (0..self.clients.len()).rev() {
                if !ready[2 + place].is_empty() && !self.serve(place) {
                    self.clients.swap_remove(place);
                }
            }
            if !ready[1].is_empty() {
                self.welcome();
            }
        }
    }

    /// Waits until something is ready: the end, a newcomer, the clients.
    fn wait(&self) -> Result<Vec<PollFlags>, Errno> {
        let mut ends = vec![PollFd::new(&self.wake, PollFlags::IN), PollFd::new(&self.socket, PollFlags::IN)];
        ends.extend(self.clients.iter().map(|client| PollFd::from_borrowed_fd(client.stream.as_fd(), client.wants())));
        uninterrupted(|| poll(&mut ends, None))?;
        Ok(ends.iter().map(|end| end.revents()).collect())
    }

    fn welcome(&mut self) {
        let stream = match self.socket.accept() {
            Ok((stream, _)) => stream,
            Err(error) => {
                // No descriptors, perhaps: asking again at once would not help.
                if error.kind() != io::ErrorKind::WouldBlock {
                    thread::sleep(Duration::from_millis(50));
                }
                return;
            }
        };
        if stream.set_nonblocking(true).is_err() {
            return;
        }
        if self.clients.len() == MOST_CLIENTS {
            let silent = (0..MOST_CLIENTS).min_by_key(|place| self.clients[*place].heard).unwrap_or(0);
            self.clients.swap_remove(silent);
        }
        self.clock += 1;
        let mut visitor =
            Visitor { stream, input: Vec::new(), output: Vec::new(), sent: 0, last: false, heard: self.clock };
        match &self.service {
            Service::Text(text) => {
                visitor.say(text());
                visitor.last = true;
            }
            Service::Lines(_) if !may_ask(&visitor.stream) => {
                visitor.say(format!("{}\n", refusal("only root and the user of the server may ask")));
                visitor.last = true;
            }
            Service::Lines(_) => {}
        }
        if visitor.output.is_empty() || visitor.send() {
            self.clients.push(visitor);
        }
    }

    /// Does what can be done for a client now; false when it is to go.
    fn serve(&mut self, place: usize) -> bool {
        self.clock += 1;
        let client = &mut self.clients[place];
        client.heard = self.clock;
        if client.output.is_empty() {
            if !client.receive() {
                return false;
            }
        } else if !client.send() {
            return false;
        }
        let Service::Lines(answer) = &self.service else { return true };
        // One answer after the other: while one is not sent whole, the next is not made.
        while client.output.is_empty() {
            match client.line() {
                Some(line) => client.say(answer(&line) + "\n"),
                None if client.input.len() > LONGEST_REQUEST => {
                    client.say(refusal("the request is too long") + "\n");
                    client.last = true;
                }
                None => return true,
            }
            if !client.send() {
                return false;
            }
        }
        true
    }
}

/// Whether the one at the other end is root or who runs this process.
fn may_ask(stream: &UnixStream) -> bool {
    let owner = geteuid();
    rustix::net::sockopt::socket_peercred(stream).is_ok_and(|peer| peer.uid.is_root() || peer.uid == owner)
}
