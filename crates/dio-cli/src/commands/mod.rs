//! One module for each command: its flags and its implementation.

pub mod advise;
#[cfg(feature = "bench")]
pub mod bench;
pub mod cache;
pub mod cat;
pub(crate) mod compress;
pub mod cp;
pub mod dd;
pub mod gzip;
pub mod install_mount_helper;
pub mod links;
#[cfg(not(feature = "bench"))]
pub(crate) mod measuring;
pub mod mount;
pub mod probe;
pub mod record;
pub mod replay;
#[cfg(feature = "bench")]
pub mod report;
pub mod run;
pub mod sort;
pub mod split;
pub mod stat;
pub mod stripe;
pub mod sum;
#[cfg(feature = "bench")]
pub mod synctest;
pub mod tar;
pub mod tee;
pub mod umount;
pub mod uniq;
pub mod wal;
pub mod zstd;

pub(crate) use dio::file::words_of as words;
