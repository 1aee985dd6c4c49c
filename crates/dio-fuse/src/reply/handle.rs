//! The reply to one request, whatever its contents.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::io::Errno;

use crate::channel::Channel;
use crate::passthrough::BackingId;

/// The reply to one request. It is sent exactly once.
#[derive(Debug)]
pub(crate) struct Reply {
    /// `None` once it is sent.
    channel: Option<Arc<Channel>>,
    unique: u64,
}

impl Reply {
    pub(crate) fn new(channel: &Arc<Channel>, unique: u64) -> Reply {
        Reply { channel: Some(Arc::clone(channel)), unique }
    }

    fn send_once(&mut self, result: Result<&[&[u8]], Errno>) {
        if let Some(channel) = self.channel.take() {
            channel.reply(self.unique, result);
        }
    }

    pub(crate) fn send(mut self, parts: &[&[u8]]) {
        self.send_once(Ok(parts));
    }

    pub(crate) fn error(mut self, errno: Errno) {
        self.send_once(Err(errno));
    }

    /// Ends a request that the kernel expects no reply to.
    pub(crate) fn skip_reply(mut self) {
        if let Some(channel) = self.channel.take() {
            channel.skip_reply(self.unique);
        }
    }

    pub(super) fn open_backing(&self, file: impl AsFd) -> io::Result<BackingId> {
        let channel = self.channel.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        BackingId::create(channel.device(), file.as_fd())
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.send_once(Err(Errno::IO));
    }
}
