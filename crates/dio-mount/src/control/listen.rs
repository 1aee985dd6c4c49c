//! Serves the clients of a Unix socket with one thread and bounded memory, however slow the clients
//! are.

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

use super::location::DirectoryLock;
use super::protocol::refusal;

/// Most clients at a time. One more makes the server disconnect the client that has been silent
/// longest.
const MOST_CLIENTS: usize = 32;

/// Longest request, in bytes.
const LONGEST_REQUEST: usize = 64 << 10;

/// The service that clients of a socket get.
pub(super) enum Service {
    /// Answers each line that a client sends, if the client is root or the user of this process.
    Lines(Box<dyn Fn(&str) -> String + Send>),
    /// Sends this text to each client that connects, then closes. The socket's permissions decide
    /// who may connect.
    Text(Box<dyn Fn() -> String + Send>),
}

/// A socket that is served by a thread. Dropping this ends the thread and removes the socket file.
#[derive(Debug)]
pub(super) struct Listener {
    path: PathBuf,
    /// The directory of the socket file, if servers take a [`DirectoryLock`] to make and remove
    /// sockets there.
    directory: Option<OwnedFd>,
    /// Device and inode of the socket file: a drop does not remove another file of that name.
    identity: FileId,
    wake: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// Serves `socket`, which is bound to `path`. `directory` is the socket's directory, if servers
    /// take a [`DirectoryLock`] there.
    pub(super) fn start(
        socket: UnixListener,
        path: PathBuf,
        directory: Option<OwnedFd>,
        service: Service,
    ) -> io::Result<Listener> {
        socket.set_nonblocking(true)?;
        let metadata = std::fs::symlink_metadata(&path)?;
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let mut desk = ControlServer {
            socket,
            service,
            wake: Arc::clone(&wake),
            clients: Vec::new(),
            clock: 0,
        };
        let thread =
            thread::Builder::new().name("dio-control".to_owned()).spawn(move || desk.run())?;
        Ok(Listener {
            path,
            directory,
            identity: FileId::of_metadata(&metadata),
            wake,
            thread: Some(thread),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Between the comparison and the removal, another server must not create a socket of this
        // name.
        let turn = self.directory.as_ref().map(DirectoryLock::take);
        let ours = std::fs::symlink_metadata(&self.path)
            .is_ok_and(|metadata| FileId::of_metadata(&metadata) == self.identity);
        if ours {
            // If it cannot be removed, the next server removes it.
            let _ = std::fs::remove_file(&self.path);
        }
        drop(turn);
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // The join fails if a command panicked; nothing is left to do then.
            let _ = thread.join();
        }
    }
}

/// A connected client.
struct ConnectedClient {
    stream: UnixStream,
    input: Vec<u8>,
    /// Bytes to send. While there are any, nothing more is read.
    output: Vec<u8>,
    sent: usize,
    /// Whether to disconnect the client when `output` is sent.
    last: bool,
    /// The desk's clock when the client was last active.
    heard: u64,
}

impl ConnectedClient {
    fn wants(&self) -> PollFlags {
        if self.output.is_empty() { PollFlags::IN } else { PollFlags::OUT }
    }

    fn say(&mut self, text: String) {
        self.output = text.into_bytes();
        self.sent = 0;
    }

    /// Sends as much as the socket takes now; returns false when the connection is over.
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

    /// Reads up to 4 KiB if there is input; returns false when the client has disconnected.
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

    /// Takes the next complete line from the input, without its end.
    fn line(&mut self) -> Option<String> {
        let end = self.input.iter().position(|byte| *byte == b'\n')?;
        let line = String::from_utf8_lossy(&self.input[..end]).into_owned();
        self.input.drain(..=end);
        Some(line)
    }
}

/// The state of the thread.
struct ControlServer {
    socket: UnixListener,
    service: Service,
    wake: Arc<OwnedFd>,
    clients: Vec<ConnectedClient>,
    /// Increases at each new connection and each time that a client is served.
    clock: u64,
}

impl ControlServer {
    fn run(&mut self) {
        loop {
            let ready = self.wait();
            let Ok(ready) = ready else { return };
            if !ready[0].is_empty() {
                return;
            }
            // Backwards, because `swap_remove` moves the last client to this index.
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

    /// Waits until something is ready; returns the events of `wake`, of the socket, and of each
    /// client in order.
    fn wait(&self) -> Result<Vec<PollFlags>, Errno> {
        let mut ends =
            vec![PollFd::new(&self.wake, PollFlags::IN), PollFd::new(&self.socket, PollFlags::IN)];
        ends.extend(
            self.clients
                .iter()
                .map(|client| PollFd::from_borrowed_fd(client.stream.as_fd(), client.wants())),
        );
        uninterrupted(|| poll(&mut ends, None))?;
        Ok(ends.iter().map(|end| end.revents()).collect())
    }

    fn welcome(&mut self) {
        let stream = match self.socket.accept() {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Perhaps no descriptor is free: a retry at once would not help.
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
            let silent =
                (0..MOST_CLIENTS).min_by_key(|place| self.clients[*place].heard).unwrap_or(0);
            self.clients.swap_remove(silent);
        }
        self.clock += 1;
        let mut visitor = ConnectedClient {
            stream,
            input: Vec::new(),
            output: Vec::new(),
            sent: 0,
            last: false,
            heard: self.clock,
        };
        match &self.service {
            Service::Text(text) => {
                visitor.say(text());
                visitor.last = true;
            }
            Service::Lines(_) if !may_ask(&visitor.stream) => {
                visitor
                    .say(format!("{}\n", refusal("only root and the user of the server may ask")));
                visitor.last = true;
            }
            Service::Lines(_) => {}
        }
        if visitor.output.is_empty() || visitor.send() {
            self.clients.push(visitor);
        }
    }

    /// Serves a client that is ready; returns false when it is to be disconnected.
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
        // One answer at a time: while an answer is not sent completely, the next one is not made.
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

/// Whether the client is root or the user of this process.
fn may_ask(stream: &UnixStream) -> bool {
    let owner = geteuid();
    rustix::net::sockopt::socket_peercred(stream)
        .is_ok_and(|peer| peer.uid.is_root() || peer.uid == owner)
}
