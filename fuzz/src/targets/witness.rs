//! The lines that a witness of `dio synctest` receives, the files that it keeps, and the blocks
//! that are checked afterwards.

use std::fmt::{Debug, Display};
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::str::FromStr;

use dio_bench::synctest::witness::KeptSession;
use dio_bench::synctest::witness::block::{FoundBlock, look, read_header};
use dio_bench::synctest::witness::identity::WitnessIdentity;
use dio_bench::synctest::witness::protocol::{Reply, WitnessRequest};
use rustix::fs::{MemfdFlags, memfd_create};

/// An accepted line is the same when it is parsed from its own encoding, which is one line.
pub(super) fn lines(input: &[u8]) {
    if let Ok(text) = std::str::from_utf8(input) {
        for line in text.split('\n') {
            comes_back::<WitnessRequest>(line);
            // The text of an error is for users, and becomes one line.
            if !matches!(line.parse(), Ok(Reply::Error(_))) {
                comes_back::<Reply>(line);
            }
        }
    }
    let _ = read_header(input);
    kept(input);
    let identity = input
        .get(8..24)
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(WitnessIdentity([0; 16]), WitnessIdentity);
    let length = input.len().next_power_of_two().clamp(512, 4096);
    if let FoundBlock::Number(_) = look(input, length, identity) {
        assert_eq!(input.len(), length, "a block of another length is not whole");
    }
}

fn comes_back<T: FromStr + Display + Debug + PartialEq>(line: &str) {
    let Ok(value) = line.parse::<T>() else { return };
    let again = value.to_string();
    assert!(!again.contains('\n'), "{again:?} is more than a line");
    assert!(again.parse::<T>().is_ok_and(|found| found == value), "{value:?} becomes {again:?}");
}

/// Reads the file of a session.
fn kept(input: &[u8]) {
    let Ok(fd) = memfd_create("session", MemfdFlags::CLOEXEC) else { return };
    let mut file = std::fs::File::from(fd);
    if file.write_all(input).is_ok() {
        let _ = KeptSession::read(&PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())));
    }
}
