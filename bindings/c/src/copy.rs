//! Copies of files.

use std::ffi::{CString, OsStr, c_char, c_void};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use dio::file::FileError;
use dio::transfer::{Contents, Copier, Sparse, TransferError, Watch, blocks_for};
use dio::{File, Io, OpenOptions, names};
use rustix::fs::{AtFlags, Mode as Permissions, OFlags};
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
/// with EEXIST if there is a target and DIO_COPY_REPLACE is not given. What fails leaves nothing
/// behind; a process that is killed may leave a file named `.NAME.dio-PID-NUMBER`.
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
            NamedCopy::begin(source, target)?.run(sparse, replace, &mut watch)?;
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

/// A copy under a name of its own, which is removed unless the copy gets its final name.
struct NamedCopy<'a> {
    source: File,
    target: File,
    directory: OwnedFd,
    path: &'a Path,
    own_name: CString,
    name: CString,
    is_named: bool,
}

impl<'a> NamedCopy<'a> {
    fn begin(source: &Path, path: &'a Path) -> Result<NamedCopy<'a>, Failure> {
        static COPIES: AtomicU64 = AtomicU64::new(0);
        let failed = |errno| Failure::from(FileError::new("copy to", path, errno));
        let source = OpenOptions::new().read(true).open(source)?;
        let found = source.descriptor().ok_or_else(|| failed(Errno::BADF))?;
        let permissions = rustix::fs::fstat(found).map_err(failed)?.st_mode & 0o777;
        let name = path.file_name().ok_or_else(|| failed(Errno::ISDIR))?;
        let above = path.parent().filter(|above| !above.as_os_str().is_empty());
        let above = above.unwrap_or(Path::new("."));
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(above, flags, Permissions::empty()).map_err(failed)?;
        let number = COPIES.fetch_add(1, Ordering::Relaxed);
        let ends = format!(".dio-{}-{number}", std::process::id());
        let own_name = [b".", name.as_bytes(), ends.as_bytes()].concat();
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).permissions(permissions);
        let target = options.open(above.join(OsStr::from_bytes(&own_name)))?;
        let string = |bytes: &[u8]| CString::new(bytes).map_err(|_| failed(Errno::INVAL));
        let (own_name, name) = (string(&own_name)?, string(name.as_bytes())?);
        Ok(NamedCopy { source, target, directory, path, own_name, name, is_named: false })
    }

    fn run(
        mut self,
        sparse: Sparse,
        replace: bool,
        watch: &mut CallerWatch,
    ) -> Result<(), Failure> {
        let failed = |errno| Failure::from(FileError::new("copy to", self.path, errno));
        let there = rustix::fs::statat(&self.directory, &*self.name, AtFlags::SYMLINK_NOFOLLOW);
        if there.is_ok() && !replace {
            return Err(failed(Errno::EXIST).with_cure("give DIO_COPY_REPLACE"));
        }
        transfer(&self.source, &self.target, sparse, watch)?;
        self.target.sync_all()?;
        let rename = if replace { names::renameat } else { names::rename_new };
        rename(&self.directory, &self.own_name, &self.name).map_err(failed)?;
        self.is_named = true;
        let failed =
            |errno| Failure::from(FileError::new("make durable the name", self.path, errno));
        rustix::fs::fsync(&self.directory).map_err(failed)
    }
}

impl Drop for NamedCopy<'_> {
    fn drop(&mut self) {
        if !self.is_named {
            // The first error is reported.
            let _ = names::unlinkat(&self.directory, &self.own_name);
        }
    }
}

/// The process's I/O engine: "uring", or "blocking" where the kernel or a container refuses
/// io_uring. The text is never freed. NULL if there is no memory for an engine.
#[unsafe(no_mangle)]
pub extern "C" fn dio_engine() -> *const c_char {
    crate::border::quiet(std::ptr::null(), || match Io::shared() {
        Ok(io) if io.engine_name() == "uring" => c"uring".as_ptr(),
        Ok(_) => c"blocking".as_ptr(),
        Err(_) => std::ptr::null(),
    })
}
