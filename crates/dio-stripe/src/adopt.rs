//! Makes a copy of a descriptor the file's own descriptor.

use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use dio::FileError;
use dio::stripe::object::{
    check_owner, format_error, object_error, open_checked, read_checked_header,
};
use dio::stripe::{DescriptorInode, Header, LeaseWait, descriptor_of};
use rustix::fs::{OFlags, fstat};
use rustix::io::Errno;

use crate::alone::exclude_writers;
use crate::system::errno;

/// Makes a copy of a descriptor the descriptor of its file. The previous descriptor, if it still
/// exists, counts as a copy from then on. This is for descriptors that were restored from a backup,
/// or moved to another file system. An interrupted call can be repeated with either of them; until
/// then neither can be removed.
///
/// # Errors
/// EINVAL for a file that is not striped; EBUSY while the file is open for writing; the error of a
/// faulty object.
pub fn adopt(path: impl AsRef<Path>) -> Result<(), FileError> {
    let path = path.as_ref();
    let failed = |error: io::Error| FileError::new("adopt", path, errno(&error));
    let head = fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .map_err(failed)?;
    let stat = fstat(&head).map_err(|errno| failed(errno.into()))?;
    let Some(descriptor) = descriptor_of(&head, &stat, path, LeaseWait::AsOpen)? else {
        return Err(failed(Errno::INVAL.into()).with_detail("it is no striped file"));
    };
    let head = DescriptorInode::of(&head).map_err(|errno| failed(errno.into()))?;
    let _alone = exclude_writers(path, &descriptor, stat.st_uid)?;
    let name = fs::canonicalize(path).map_err(failed)?;
    let open = |index: usize| -> Result<(PathBuf, fs::File, bool), FileError> {
        let object = descriptor.object_path(index);
        let failed = |errno, what: &str| object_error("adopt", path, index, &object, errno, what);
        let file = open_checked(&descriptor, index, stat.st_uid, OFlags::RDWR);
        let file = file.map_err(|(errno, what)| failed(errno, what))?;
        let found = read_checked_header(&file, &descriptor.header(index, head))
            .map_err(|(errno, what)| failed(errno, &what))?;
        check_owner(&descriptor, index, &found, stat.st_uid)
            .map_err(|(errno, what)| failed(errno, what))?;
        Ok((object, file, found.stamped))
    };
    // All objects are checked before one is changed.
    let objects = (0..descriptor.targets.len()).map(open).collect::<Result<Vec<_>, _>>()?;
    for (index, (object, file, stamped)) in objects.iter().enumerate() {
        let owner = descriptor.is_device(index).then_some(stat.st_uid);
        let header = Header {
            name: Some(name.clone()),
            owner,
            stamped: *stamped,
            ..descriptor.header(index, head)
        };
        let bytes = header.encode().map_err(|error| format_error("adopt", path, &error))?;
        let written = file.write_all_at(&bytes, 0).and_then(|()| file.sync_data());
        written.map_err(|error| object_error("adopt", path, index, object, errno(&error), ""))?;
    }
    Ok(())
}
