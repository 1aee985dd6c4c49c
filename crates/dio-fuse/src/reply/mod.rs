//! Replies. Each is sent once; a reply that is dropped instead, also by a panic, sends `EIO`.

mod directory;
mod handle;
mod replies;

pub use directory::{ReplyDirectory, ReplyDirectoryPlus};
pub(crate) use handle::Reply;
pub use replies::{
    ReplyAttr, ReplyCopy, ReplyCreate, ReplyData, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek,
    ReplyOpen, ReplyStatfs, ReplyStatx, ReplyWrite, ReplyXattr,
};

#[cfg(test)]
mod tests;
