//! `bpf(2)`: maps, programs on tracepoints, and the ring through which programs pass records.
//!
//! A program is given as instructions (`include/uapi/linux/bpf.h`); the kernel's verifier proves
//! that it is safe before it runs. Loading needs CAP_BPF and CAP_PERFMON.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const MAP_CREATE: libc::c_int = 0;
const MAP_LOOKUP_ELEM: libc::c_int = 1;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const MAP_DELETE_ELEM: libc::c_int = 3;
const PROG_LOAD: libc::c_int = 5;
const RAW_TRACEPOINT_OPEN: libc::c_int = 17;
const BTF_LOAD: libc::c_int = 18;

/// `BPF_PROG_TYPE_TRACING`, and `BPF_TRACE_RAW_TP` of it.
const TRACING: u32 = 26;
const TRACE_RAW_TP: u32 = 23;

/// `BPF_F_NO_PREALLOC`
const NO_PREALLOC: u32 = 1;

/// Bytes of the verifier's explanation that are kept.
const LOG_BYTES: usize = 64 << 10;

/// How often a program is loaded if the kernel is interrupted.
const ATTEMPTS: usize = 100;

/// The kinds of maps (`enum bpf_map_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum MapKind {
    /// Values by keys.
    Hash = 1,
    /// Values by their number, all zero at first.
    Array = 2,
    /// Descriptors of programs by their number, for programs that go on in another one.
    Programs = 3,
    /// A ring of records. It has no keys and values, and its entries are bytes: a power of two and
    /// a multiple of the page size.
    Ring = 27,
    /// A value for each task that has one, which goes with the task: numbers of 64 bits. From
    /// outside, the key is a pidfd. It has no number of entries.
    TaskStorage = 29,
}

/// A map, which programs and this process share.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
    key: usize,
    value: usize,
}

/// The head of `union bpf_attr` for `BPF_MAP_CREATE`.
#[repr(C)]
struct CreateAttr {
    kind: u32,
    key: u32,
    value: u32,
    entries: u32,
    flags: u32,
    inner: u32,
    node: u32,
    name: [u8; 16],
    interface: u32,
    types: u32,
    key_type: u32,
    value_type: u32,
}

/// The head of `union bpf_attr` for `BPF_BTF_LOAD`.
#[repr(C)]
struct TypesAttr {
    types: u64,
    log: u64,
    size: u32,
    log_size: u32,
    log_level: u32,
    padding: u32,
}

/// The head of `union bpf_attr` for the operations on an element.
#[repr(C)]
struct ElementAttr {
    fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// The head of `union bpf_attr` for `BPF_PROG_LOAD`.
#[repr(C)]
struct LoadAttr {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
    types: u32,
    function_size: u32,
    functions: u64,
    function_count: u32,
    line_size: u32,
    lines: u64,
    line_count: u32,
    attach_to: u32,
}

/// The head of `union bpf_attr` for `BPF_RAW_TRACEPOINT_OPEN`.
#[repr(C)]
struct AttachAttr {
    name: u64,
    program: u32,
    padding: u32,
}

/// Makes the system call with the head of its argument; what lies beyond it is zero for the kernel.
///
/// # Safety
/// The addresses in `attr` must be valid for what the command does with them.
unsafe fn bpf<T>(command: libc::c_int, attr: &mut T) -> io::Result<libc::c_int> {
    // SAFETY: the structure is alive for the call and its size is given; for the addresses in it
    // the caller answers.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, ptr::from_mut(attr), size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as libc::c_int) }
}

impl Map {
    /// Makes a map with room for `entries`.
    ///
    /// # Errors
    /// `EPERM` without the capability, `EINVAL` for sizes that the kind does not allow, `ENOMEM`.
    pub fn new(kind: MapKind, key: usize, value: usize, entries: u32) -> io::Result<Map> {
        let (key_size, value_size) = (key as u32, value as u32);
        let mut attr = CreateAttr {
            kind: kind as u32,
            key: key_size,
            value: value_size,
            entries,
            flags: 0,
            inner: 0,
            node: 0,
            name: [0; 16],
            interface: 0,
            types: 0,
            key_type: 0,
            value_type: 0,
        };
        // Alive until the map is made, which keeps the types then.
        let types;
        if kind == MapKind::TaskStorage {
            types = number_types(value_size / 8)?;
            attr.flags = NO_PREALLOC;
            attr.types = types.as_raw_fd() as u32;
            (attr.key_type, attr.value_type) = (1, 3);
        }
        // SAFETY: the argument has no addresses.
        let fd = unsafe { bpf(MAP_CREATE, &mut attr) }?;
        // SAFETY: the kernel has just made this descriptor for us alone.
        Ok(Map { fd: unsafe { OwnedFd::from_raw_fd(fd) }, key, value })
    }

    /// The descriptor, as instructions name the map.
    pub fn raw(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    /// Stores a value.
    ///
    /// # Errors
    /// `E2BIG` if the map is full.
    ///
    /// # Panics
    /// When the key or the value has another size than those of the map.
    pub fn insert(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        assert_eq!((key.len(), value.len()), (self.key, self.value), "sizes of key and value");
        let mut attr = self.element(key, value.as_ptr() as u64);
        // SAFETY: both addresses are those of slices of the map's sizes, which the kernel reads.
        unsafe { bpf(MAP_UPDATE_ELEM, &mut attr) }.map(drop)
    }

    /// Reads a value; `None` if there is none for the key.
    ///
    /// # Errors
    /// Those of the system call.
    ///
    /// # Panics
    /// When the key has another size than those of the map.
    pub fn get(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        assert_eq!(key.len(), self.key, "size of the key");
        let mut value = vec![0; self.value];
        let mut attr = self.element(key, value.as_mut_ptr() as u64);
        // SAFETY: the kernel reads the key and writes as many bytes as the value has.
        match unsafe { bpf(MAP_LOOKUP_ELEM, &mut attr) } {
            Ok(_) => Ok(Some(value)),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes a key, if it is there.
    ///
    /// # Errors
    /// Those of the system call.
    ///
    /// # Panics
    /// When the key has another size than those of the map.
    pub fn remove(&self, key: &[u8]) -> io::Result<()> {
        assert_eq!(key.len(), self.key, "size of the key");
        let mut attr = self.element(key, 0);
        // SAFETY: the kernel reads the key only.
        match unsafe { bpf(MAP_DELETE_ELEM, &mut attr) } {
            Err(error) if error.raw_os_error() != Some(libc::ENOENT) => Err(error),
            _ => Ok(()),
        }
    }

    fn element(&self, key: &[u8], value: u64) -> ElementAttr {
        let fd = self.raw() as u32;
        ElementAttr { fd, padding: 0, key: key.as_ptr() as u64, value, flags: 0 }
    }
}

/// Describes an integer of 32 bits as type 1, one of 64 bits as type 2, and an array of `count` of
/// these as type 3, as maps must that belong to kernel objects (`Documentation/bpf/btf.rst`).
fn number_types(count: u32) -> io::Result<OwnedFd> {
    const MAGIC: u32 = 0xeb9f | 1 << 16;
    const INTEGER: u32 = 1 << 24;
    const ARRAY: u32 = 3 << 24;
    const HEADER: u32 = 24;
    const NAMES: &[u8; 12] = b"\0u32\0u64\0\0\0\0";
    let types = [1, INTEGER, 4, 32, 5, INTEGER, 8, 64, 0, ARRAY, 0, 2, 1, count];
    let bytes = size_of_val(&types) as u32;
    let header = [MAGIC, HEADER, 0, bytes, bytes, NAMES.len() as u32];
    let words = header.into_iter().chain(types);
    let mut all: Vec<u8> = words.flat_map(u32::to_ne_bytes).collect();
    all.extend_from_slice(NAMES);
    let mut attr = TypesAttr {
        types: all.as_ptr() as u64,
        log: 0,
        size: all.len() as u32,
        log_size: 0,
        log_level: 0,
        padding: 0,
    };
    // SAFETY: the kernel reads as many bytes as there are, which are alive during the call.
    let fd = unsafe { bpf(BTF_LOAD, &mut attr) }?;
    // SAFETY: the kernel has just made this descriptor for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Why a program was not loaded.
#[derive(Debug)]
pub struct LoadError {
    /// The error of the system call: `EPERM` without the capabilities, `EACCES` or `EINVAL` if the
    /// verifier refuses the program.
    pub error: io::Error,
    /// The verifier's words, for whoever wrote the program.
    pub log: String,
}

impl std::fmt::Display for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// Loads a program. The verifier explains what it does if the log has room.
fn load(instructions: &[u64], tracepoint: u32, log: &mut [u8]) -> io::Result<Program> {
    let mut attr = LoadAttr {
        kind: TRACING,
        count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        license: c"GPL".as_ptr() as u64,
        log_level: u32::from(!log.is_empty()),
        log_size: log.len() as u32,
        log: if log.is_empty() { 0 } else { log.as_mut_ptr() as u64 },
        kernel_version: 0,
        flags: 0,
        name: [0; 16],
        interface: 0,
        attach_type: TRACE_RAW_TP,
        types: 0,
        function_size: 0,
        functions: 0,
        function_count: 0,
        line_size: 0,
        lines: 0,
        line_count: 0,
        attach_to: tracepoint,
    };
    let mut left = ATTEMPTS;
    loop {
        left -= 1;
        // SAFETY: the kernel reads the instructions and the license, and writes up to `log_size`
        // bytes of the log; all are alive during the call.
        match unsafe { bpf(PROG_LOAD, &mut attr) } {
            // The verifier gives up if a signal or other work waits for the thread, such as the end
            // of an io_uring. That is done when the call returns.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && left > 0 => {}
            // SAFETY: the kernel has just made this descriptor for us alone.
            loaded => return loaded.map(|fd| Program(unsafe { OwnedFd::from_raw_fd(fd) })),
        }
    }
}

/// A loaded program.
#[derive(Debug)]
pub struct Program(OwnedFd);

impl Program {
    /// Loads a program for the tracepoint whose type `btf_trace_NAME` has this number among the
    /// kernel's types. Its argument is an array of those of the tracepoint, whose pointers it may
    /// follow as the kernel's types have them. It says that its license is the GPL, as the helpers
    /// that read the kernel's memory require; that concerns the instructions only.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub fn load(instructions: &[u64], tracepoint: u32) -> Result<Program, LoadError> {
        let error = match load(instructions, tracepoint, &mut []) {
            Ok(program) => return Ok(program),
            Err(error) => error,
        };
        // Only for a program that is refused: an explanation takes longer than the verification,
        // and one without room fails the call.
        let mut log = vec![0_u8; LOG_BYTES];
        let _ = load(instructions, tracepoint, &mut log);
        log.truncate(log.iter().position(|byte| *byte == 0).unwrap_or(log.len()));
        Err(LoadError { error, log: String::from_utf8_lossy(&log).into_owned() })
    }

    /// The descriptor, as a map of kind [`MapKind::Programs`] has it.
    pub fn raw(&self) -> i32 {
        self.0.as_raw_fd()
    }

    /// Runs the program at its tracepoint until the descriptor is closed.
    ///
    /// # Errors
    /// Those of the system call.
    pub fn attach(&self) -> io::Result<OwnedFd> {
        let program = self.0.as_raw_fd() as u32;
        let mut attr = AttachAttr { name: 0, program, padding: 0 };
        // SAFETY: the argument has no addresses: the program knows its tracepoint.
        let fd = unsafe { bpf(RAW_TRACEPOINT_OPEN, &mut attr) }?;
        // SAFETY: the kernel has just made this descriptor for us alone.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

/// The consumer's side of a map of kind [`MapKind::Ring`].
///
/// The kernel maps a page with the consumer's position, a page with the producer's, and the data
/// twice in a row, so that each record is contiguous (`kernel/bpf/ringbuf.c`).
#[derive(Debug)]
pub struct Ring {
    _map: Map,
    page: usize,
    bytes: usize,
    consumer: *mut libc::c_void,
    producer: *mut libc::c_void,
}

/// The record is not complete yet.
const BUSY: u32 = 1 << 31;
/// The program gave the record up.
const DISCARDED: u32 = 1 << 30;
/// Bytes before each record.
const HEADER: usize = 8;

// SAFETY: the mapped memory belongs to the ring alone and may be used from any thread; all methods
// that change it take `&mut self`.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps a ring of `bytes`, the number of entries that its map was made with.
    ///
    /// # Errors
    /// `EINVAL` if the map is no ring of this size, `ENOMEM`.
    pub fn new(map: Map, bytes: usize) -> io::Result<Ring> {
        let page = rustix::param::page_size();
        let fd = map.raw();
        let (null, shared) = (ptr::null_mut(), libc::MAP_SHARED);
        let writable = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: new mappings at addresses of the kernel's choice, of a descriptor that is alive.
        let consumer = unsafe { libc::mmap(null, page, writable, shared, fd, 0) };
        if consumer == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let length = page + 2 * bytes;
        let offset = page as libc::off_t;
        // SAFETY: as above.
        let producer = unsafe { libc::mmap(null, length, libc::PROT_READ, shared, fd, offset) };
        if producer == libc::MAP_FAILED {
            let error = io::Error::last_os_error();
            // SAFETY: the mapping was made above and nothing refers to it.
            unsafe { libc::munmap(consumer, page) };
            return Err(error);
        }
        Ok(Ring { _map: map, page, bytes, consumer, producer })
    }

    /// Passes each complete record to `take`, and frees their places. Returns how many there were.
    pub fn drain(&mut self, mut take: impl FnMut(&[u8])) -> usize {
        // SAFETY: both mappings begin with a position of 64 bits, aligned to a page, which the
        // kernel and this process use atomically.
        let (consumed, produced) =
            unsafe { (&*self.consumer.cast::<AtomicU64>(), &*self.producer.cast::<AtomicU64>()) };
        let mut at = consumed.load(Ordering::Relaxed);
        let mut freed = at;
        let mut count = 0;
        while at < produced.load(Ordering::Acquire) {
            let start = at as usize & (self.bytes - 1);
            // SAFETY: the position is within the data, which begins a page after the producer's
            // position and is mapped twice; records are aligned to 8 bytes.
            let header = unsafe { self.producer.cast::<u8>().add(self.page + start) };
            // SAFETY: as above; the kernel changes the word atomically.
            let word = unsafe { &*header.cast::<AtomicU32>() }.load(Ordering::Acquire);
            if word & BUSY != 0 {
                break;
            }
            let length = (word & !(BUSY | DISCARDED)) as usize;
            if word & DISCARDED == 0 {
                // SAFETY: a record is no longer than the ring, and its bytes are contiguous in the
                // double mapping; the kernel does not change them before they are consumed.
                take(unsafe { std::slice::from_raw_parts(header.add(HEADER), length) });
                count += 1;
            }
            at += (length + HEADER).next_multiple_of(8) as u64;
            // Each store takes the line away from the processor that reserves the next record.
            if at - freed >= self.bytes as u64 / 16 {
                consumed.store(at, Ordering::Release);
                freed = at;
            }
        }
        consumed.store(at, Ordering::Release);
        count
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mappings were made by `new`, and no slice of them outlives the ring.
        unsafe {
            libc::munmap(self.consumer, self.page);
            libc::munmap(self.producer, self.page + 2 * self.bytes);
        }
    }
}
