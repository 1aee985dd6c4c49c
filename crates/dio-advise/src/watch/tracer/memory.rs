//! The memory of stopped threads.

use std::io::IoSliceMut;

use dio_sys::ptrace;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

/// Bytes of a page.
const PAGE: u64 = 4096;

/// Reads memory up to the first page that is not there; returns how many bytes it read.
pub(super) fn read(thread: u32, address: u64, bytes: &mut [u8]) -> usize {
    let mut done = 0;
    // Page by page, because a read that ends in a page which is not there fails as a whole.
    while done < bytes.len() {
        let at = address.wrapping_add(done as u64);
        let part = (bytes.len() - done).min((PAGE - at % PAGE) as usize);
        let read = read_part(thread, at, &mut bytes[done..done + part]);
        done += read;
        if read < part {
            break;
        }
    }
    done
}

fn read_part(thread: u32, address: u64, bytes: &mut [u8]) -> usize {
    let remote = [RemoteIoVec { base: address as usize, len: bytes.len() }];
    let pid = Pid::from_raw(thread as i32);
    match process_vm_readv(pid, &mut [IoSliceMut::new(bytes)], &remote) {
        Ok(read) => read,
        // Some systems allow this to the ancestors of a process only; who traces it may always
        // peek.
        Err(_) => peek(thread, address, bytes),
    }
}

fn peek(thread: u32, address: u64, bytes: &mut [u8]) -> usize {
    let mut done = 0;
    while done < bytes.len() {
        let at = address.wrapping_add(done as u64);
        // A word does not span two pages.
        let within = (at % 8) as usize;
        let Ok(word) = ptrace::peek(thread, at - within as u64) else { break };
        let count = (8 - within).min(bytes.len() - done);
        bytes[done..done + count].copy_from_slice(&word[within..within + count]);
        done += count;
    }
    done
}

/// Reads a text that ends with a zero byte, of at most so many bytes with it.
pub(super) fn read_text(thread: u32, address: u64, max: usize) -> Vec<u8> {
    let mut text = Vec::new();
    let mut part = [0; 256];
    while text.len() < max {
        let count = part.len().min(max - text.len());
        let read = read(thread, address.wrapping_add(text.len() as u64), &mut part[..count]);
        let end = part[..read].iter().position(|byte| *byte == 0);
        text.extend_from_slice(&part[..end.unwrap_or(read)]);
        if end.is_some() || read < count {
            break;
        }
    }
    text
}

/// Reads a number of 64 bits; `None` if it is not there.
pub(super) fn read_number(thread: u32, address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    (read(thread, address, &mut bytes) == bytes.len()).then(|| u64::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_up_to_their_end_or_that_of_the_memory() {
        let own = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        let mut long = vec![b'x'; 5000];
        long.extend_from_slice(b"end\0more");
        let address = long.as_ptr() as u64;
        assert_eq!(read_text(own, address, 8192), &long[..5003]);
        assert_eq!(read_text(own, address, 4096), &long[..4096]);
        assert_eq!(read_text(own, 8, 4096), b"");
        let number = 0x1234_5678_9abc_def0_u64;
        assert_eq!(read_number(own, (&raw const number) as u64), Some(number));
        assert_eq!(read_number(own, 8), None);
    }
}
