//! The connection between the server and the process that becomes the command: messages with
//! descriptors (`unix(7)`).

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use dio_sys::uninterrupted;
use rustix::cmsg_space;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, Result};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

/// Longest message in bytes: a path (`PATH_MAX`) and the fields before it.
const LONGEST: usize = 8 << 10;

/// Most descriptors in one message.
const DESCRIPTORS: usize = 2;

/// One end of the connection. Messages arrive whole and in order; no message is empty.
#[derive(Debug)]
pub struct ServerConnection(OwnedFd);

impl ServerConnection {
    /// Makes both ends of a new connection, closed on exec.
    ///
    /// # Errors
    /// Those of `socketpair(2)`.
    pub fn pair() -> Result<(ServerConnection, OwnedFd)> {
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let (one, other) = rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None)?;
        Ok((ServerConnection(one), other))
    }

    /// Wraps an end that this process received.
    pub fn from_end(end: OwnedFd) -> ServerConnection {
        ServerConnection(end)
    }

    /// Sends a message, truncated to 8 KiB, with descriptors.
    ///
    /// # Errors
    /// Those of `sendmsg(2)`; `EPIPE` (and no SIGPIPE) when the other end is closed.
    pub fn send(&self, text: &[u8], descriptors: &[&OwnedFd]) -> Result<()> {
        debug_assert!(!text.is_empty() && descriptors.len() <= DESCRIPTORS);
        let borrowed: Vec<BorrowedFd<'_>> = descriptors.iter().map(|fd| fd.as_fd()).collect();
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !borrowed.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&borrowed)) {
            return Err(Errno::TOOBIG);
        }
        let text = &text[..text.len().min(LONGEST)];
        uninterrupted(|| {
            rustix::net::sendmsg(&self.0, &[IoSlice::new(text)], &mut control, SendFlags::NOSIGNAL)
        })?;
        Ok(())
    }

    /// Waits until there is a message, or the other end is closed, at most so long. Returns whether
    /// that is so.
    ///
    /// # Errors
    /// Those of `poll(2)`.
    pub fn wait(&self, longest: Duration) -> Result<bool> {
        let longest = Timespec::try_from(longest).map_err(|_| Errno::INVAL)?;
        let mut polled = [PollFd::new(&self.0, PollFlags::IN)];
        Ok(uninterrupted(|| poll(&mut polled, Some(&longest)))? > 0)
    }

    /// Receives the next message and its descriptors, closed on exec; `None` when the other end is
    /// closed.
    ///
    /// # Errors
    /// Those of `recvmsg(2)`; `EMSGSIZE` for a message that is too long or has too many
    /// descriptors.
    pub fn receive(&self) -> Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
        let mut text = vec![0; LONGEST];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let message = uninterrupted(|| {
            rustix::net::recvmsg(
                &self.0,
                &mut [IoSliceMut::new(&mut text)],
                &mut control,
                RecvFlags::CMSG_CLOEXEC,
            )
        });
        let message = match message {
            // The other end was closed before it read all our messages.
            Err(Errno::CONNRESET) => return Ok(None),
            other => other?,
        };
        if message.bytes == 0 {
            return Ok(None);
        }
        let mut descriptors = Vec::new();
        for part in control.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = part {
                descriptors.extend(received);
            }
        }
        if message.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
            return Err(Errno::MSGSIZE);
        }
        text.truncate(message.bytes);
        Ok(Some((text, descriptors)))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;

    use super::*;

    #[test]
    fn messages_arrive_whole_with_their_descriptors() {
        let (here, there) = ServerConnection::pair().unwrap();
        let there = ServerConnection::from_end(there);
        let file = |text: &str| {
            let path = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(&path, text).unwrap();
            OwnedFd::from(File::open(&path).unwrap())
        };
        here.send(b"one", &[&file("first"), &file("second")]).unwrap();
        here.send(b"two", &[]).unwrap();
        let (text, descriptors) = there.receive().unwrap().unwrap();
        assert_eq!(text, b"one");
        let read = |fd: OwnedFd| {
            let mut text = String::new();
            File::from(fd).read_to_string(&mut text).unwrap();
            text
        };
        assert_eq!(descriptors.into_iter().map(read).collect::<Vec<_>>(), ["first", "second"]);
        assert!(there.wait(Duration::ZERO).unwrap());
        assert_eq!(there.receive().unwrap().unwrap().0, b"two");
        assert!(!there.wait(Duration::from_millis(1)).unwrap());
        drop(here);
        assert!(there.wait(Duration::from_secs(60)).unwrap());
        assert!(there.receive().unwrap().is_none());
        assert_eq!(there.send(b"x", &[]).unwrap_err(), Errno::PIPE);
    }

    #[test]
    fn an_end_that_is_closed_with_messages_unread_is_closed() {
        let (here, there) = ServerConnection::pair().unwrap();
        here.send(b"unread", &[]).unwrap();
        drop(there);
        assert!(here.receive().unwrap().is_none());
    }
}
