//! Inode flags, which `lsattr` and `chattr` access by `ioctl(2)`.
//!
//! Since Linux 5.13 the kernel parses these requests, checks who may set which flag, and sends the
//! server requests of its own. Those contain no address in a program, and their numbers have four
//! bytes. All other requests are refused: the server has more rights than a program, which could
//! otherwise make it do something that nobody has checked.

use std::ffi::c_long;

use dio_fuse::{Errno, INodeNo, Ioctl, ReplyIoctl, Request};
use dio_sys::EXTENDED_FLAGS_BYTES;
use rustix::io::Result;
use rustix::ioctl::opcode;

use super::Mount;
use super::attributes::caller;
use crate::stats::Operation;

/// `FS_IOC_GETFLAGS`, `FS_IOC_SETFLAGS`, `FS_IOC_FSGETXATTR` and `FS_IOC_FSSETXATTR` of
/// `include/uapi/linux/fs.h`. Before the kernel sets flags, it reads the current ones by the third
/// request, whose answer contains more.
const GET_FLAGS: u32 = opcode::read::<c_long>(b'f', 1) as u32;
const SET_FLAGS: u32 = opcode::write::<c_long>(b'f', 2) as u32;
const GET_EXTENDED: u32 = opcode::read::<[u8; EXTENDED_FLAGS_BYTES]>(b'X', 31) as u32;
const SET_EXTENDED: u32 = opcode::write::<[u8; EXTENDED_FLAGS_BYTES]>(b'X', 32) as u32;

/// Bytes of the flags, whatever size the number of the request encodes.
const FLAGS_BYTES: usize = size_of::<u32>();

impl Mount {
    pub(super) fn answer_ioctl(
        &self,
        by: &Request<'_>,
        inode: INodeNo,
        ioctl: &Ioctl<'_>,
        reply: ReplyIoctl,
    ) {
        let mut timer = self.stats.begin(Operation::Other);
        match self.ioctl_result(by, inode, ioctl) {
            Ok(bytes) => reply.done(&bytes),
            Err(errno) => {
                timer.fail(errno);
                reply.error(errno);
            }
        }
    }

    fn ioctl_result(&self, by: &Request<'_>, inode: INodeNo, ioctl: &Ioctl<'_>) -> Result<Vec<u8>> {
        let Ioctl { command, address: 0, data, answer_bytes, .. } = *ioctl else {
            return Err(Errno::NOTTY);
        };
        let settled = || {
            // Pending writes come first: an immutable file may refuse bytes that were already
            // acknowledged.
            self.files.settle(inode.0);
            (caller(by), inode.0)
        };
        match (command, answer_bytes) {
            (GET_FLAGS, FLAGS_BYTES) => {
                return self.names.flags(inode.0).map(|flags| flags.to_ne_bytes().to_vec());
            }
            (GET_EXTENDED, EXTENDED_FLAGS_BYTES) => {
                return self.names.extended_flags(inode.0).map(|flags| flags.to_vec());
            }
            (SET_FLAGS, 0) => {
                let flags = data.try_into().map_err(|_| Errno::INVAL)?;
                let (caller, inode) = settled();
                self.names.set_flags(caller, inode, u32::from_ne_bytes(flags))?;
            }
            (SET_EXTENDED, 0) => {
                let flags = data.try_into().map_err(|_| Errno::INVAL)?;
                let (caller, inode) = settled();
                self.names.set_extended_flags(caller, inode, flags)?;
            }
            _ => return Err(Errno::NOTTY),
        }
        Ok(Vec::new())
    }
}
