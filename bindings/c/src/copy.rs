//! Copies of files.

use std::ffi::{c_char, c_void};
use std::path::Path;

use dio::file::FileError;
use dio::names::UnfinishedFile;
use dio::transfer::{Contents, Copier, Sparse, TransferError, Watch, blocks_for};
use dio::{File, Io, OpenOptions};
use rustix::io::Errno;

use crate::border::{number, path, shared};
use crate::error::{Failure, dio_error};
use crate::file::dio_file;

/// Replace an existing target. It stays whole until the copy is durable.
pub const DIO_COPY_REPLACE: u32 = 1;
/// Blocks of zeros become holes. Without this flag, holes of the source stay holes, and no others
/// are made.
pub const DIO_COPY_SPARSE: u32 = 2;

/// Size of a request, requests in flight, and most memory of a copy, the sizes in bytes.
const BLOCK_BYTES: usize = 1 << 20;
const DEPTH: usize = 8;
const BYTES_MAX: usize = 64 << 20;

/// Called during a copy, in the thread that copies, with the bytes written so far. Returns true to
/// stop the copy, which then fails with ECANCELED. It must not leave by longjmp().
pub type dio_progress = Option<unsafe extern "C" fn(context: *mut c_void, bytes: u64) -> bool>;

/// Copies the contents of `source` into `target`, an empty file or a device, both open. Returns the
/// bytes written, without holes. `flags` are 0 or DIO_COPY_SPARSE; `progress` may be NULL.
///
/// Space is allocated first, so a full disk is found before any data moves (ENOSPC). The copy is
/// durable after dio_sync(). After a failure the target is cut off behind what is complete. Fails
/// with EBUSY if the source was changing meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_copy_contents(
    source: *const dio_file,
    target: *const dio_file,
    flags: u32,
    progress: dio_progress,
    context: *mut c_void,
    error: *mut *mut dio_error,
) -> i64 {
    // SAFETY: the arguments are valid by the header's rules.
    unsafe {
        number(error, || {
            let sparse = sparse(flags, DIO_COPY_SPARSE)?;
            let mut watch = CallerWatch { progress, context, bytes: 0, stopped: false };
            let (source, target) = (shared(source, "source")?, shared(target, "target")?);
            transfer(&source.file, &target.file, sparse, &mut watch)?;
            Ok(watch.bytes as i64)
        })
    }
}

/// Copies a file by name, durably: when it returns, the copy and its name are on the disk. Returns
/// the bytes written, without holes. The copy has the permissions of the source, less the umask,
/// and gets its name when it is complete.
///
/// `flags` are 0 or a sum of DIO_COPY_REPLACE and DIO_COPY_SPARSE; `progress` may be NULL. Fails
/// with EEXIST if there is a target and DIO_COPY_REPLACE is not given. With it, a symbolic link is
/// followed to the regular file that is replaced; one that leads nowhere fails with ENOENT. Fails
/// with EISDIR for a directory, with ENOTDIR for a new name that ends with a slash, and with EINVAL
/// for any other file. What fails leaves nothing behind; a process that is killed may leave a file
/// `.dio-PID-MOMENT-NUMBER` in the directory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_copy(
    source: *const c_char,
    target: *const c_char,
    flags: u32,
    progress: dio_progress,
    context: *mut c_void,
    error: *mut *mut dio_error,
) -> i64 {
    // SAFETY: the arguments are valid by the header's rules.
    unsafe {
        number(error, || {
            let sparse = sparse(flags, DIO_COPY_REPLACE | DIO_COPY_SPARSE)?;
            let mut watch = CallerWatch { progress, context, bytes: 0, stopped: false };
            let (source, target) = (path(source, "source")?, path(target, "target")?);
            let replace = flags & DIO_COPY_REPLACE != 0;
            copy_named(source, target, sparse, replace, &mut watch)?;
            Ok(watch.bytes as i64)
        })
    }
}

fn sparse(flags: u32, known: u32) -> Result<Sparse, Failure> {
    match flags {
        _ if flags & !known != 0 => {
            let unknown = flags & !known;
            Err(Failure::new(Errno::INVAL, format!("there are no flags {unknown:#x} of a copy")))
        }
        _ if flags & DIO_COPY_SPARSE != 0 => Ok(Sparse::Always),
        _ => Ok(Sparse::Auto),
    }
}

/// Tells the caller how far a copy is, and asks it whether to go on.
struct CallerWatch {
    progress: dio_progress,
    context: *mut c_void,
    bytes: u64,
    stopped: bool,
}

impl Watch for CallerWatch {
    fn written(&mut self, bytes: u64) {
        self.bytes += bytes;
        if let Some(progress) = self.progress {
            // SAFETY: the function and its context are the caller's, who gave them for this call.
            self.stopped |= unsafe { progress(self.context, self.bytes) };
        }
    }

    fn stopped(&self) -> bool {
        self.stopped
    }
}

fn transfer(
    source: &File,
    target: &File,
    sparse: Sparse,
    watch: &mut CallerWatch,
) -> Result<(), Failure> {
    let blocks = blocks_for(source, Some(target), BLOCK_BYTES, DEPTH, BYTES_MAX);
    let mut copier = Copier::new(source.io(), BLOCK_BYTES, blocks)?;
    let size = source.size()?;
    let contents = Contents { source, target, size, start: 0, sparse, pace: None };
    copier.copy_contents(&contents, watch)?;
    // A copy whose last block was written when the caller stopped it is stopped all the same.
    if watch.stopped { Err(TransferError::Stopped.into()) } else { Ok(()) }
}

/// Copies a file under a temporary name, which becomes `path` when the copy is durable.
fn copy_named(
    source: &Path,
    path: &Path,
    sparse: Sparse,
    replace: bool,
    watch: &mut CallerWatch,
) -> Result<(), Failure> {
    let failed = |errno| Failure::from(FileError::new("copy to", path, errno));
    let exists = || failed(Errno::EXIST).with_cure("give DIO_COPY_REPLACE");
    let source = OpenOptions::new().read(true).open(source)?;
    let found = source.descriptor().ok_or_else(|| failed(Errno::BADF))?;
    let permissions = rustix::fs::fstat(found).map_err(failed)?.st_mode & 0o777;
    if !replace && rustix::fs::lstat(path).is_ok() {
        return Err(exists());
    }
    let mut options = OpenOptions::new();
    options.read(true).permissions(permissions);
    let (mut unfinished, target) = UnfinishedFile::create(&options, path)?;
    transfer(&source, &target, sparse, watch)?;
    target.sync_all()?;
    let named = if replace { unfinished.replace() } else { unfinished.claim() };
    named.map_err(|errno| if errno == Errno::EXIST { exists() } else { failed(errno) })?;
    let failed = |errno| Failure::from(FileError::new("make durable the name", path, errno));
    rustix::fs::fsync(unfinished.directory()).map_err(failed)
}

/// The process's I/O engine: "uring", or "blocking" where the kernel or a container refuses
/// io_uring. The text is never freed. NULL if there is no memory for an engine.
#[unsafe(no_mangle)]
pub extern "C" fn dio_engine() -> *const c_char {
    crate::quiet::quiet(std::ptr::null(), || match Io::shared() {
        Ok(io) if io.engine_name() == "uring" => c"uring".as_ptr(),
        Ok(_) => c"blocking".as_ptr(),
        Err(_) => std::ptr::null(),
    })
}
