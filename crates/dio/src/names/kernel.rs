//! File systems by which the kernel shows and steers itself.

use std::os::fd::AsFd;

/// proc, sysfs, cgroup of both versions, debugfs, tracefs, securityfs, bpf, pstore, configfs,
/// selinuxfs, smackfs, efivarfs and binfmt_misc (`include/uapi/linux/magic.h`).
const OF_THE_KERNEL: [u32; 14] = [
    0x9fa0,
    0x6265_6572,
    0x0027_e0eb,
    0x6367_7270,
    0x6462_6720,
    0x7472_6163,
    0x7363_6673,
    0xcafe_4a11,
    0x6165_676c,
    0x6265_6570,
    0xf97c_ff8c,
    0x4341_5d53,
    0xde5e_81e4,
    0x4249_4e4d,
];

/// Whether an open file is in such a file system. There it matters beyond mode and access control
/// list who opens a file, and opening or reading it may change something. The file may be open with
/// `O_PATH`.
pub fn is_of_the_kernel(place: impl AsFd) -> bool {
    rustix::fs::fstatfs(place).is_ok_and(|fs| OF_THE_KERNEL.contains(&(fs.f_type as u32)))
}
