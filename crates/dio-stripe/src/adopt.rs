//! Making a copy of a descriptor the descriptor.

use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use dio::FileError;
use dio::stripe::object::{header_of, judge_owner, of_object, open_judged, wrong};
use dio::stripe::{Head, Header, descriptor_of};
use rustix::fs::{OFlags, fstat};
use rustix::io::Errno;

use crate::alone::alone;
use crate::errno;

/// Makes a copy of a descriptor the descriptor of the file: the one that was it, if there still is one, is a copy from now on.
/// For what was restored from a backup, or moved to another file system. An interrupted call can be repeated, by either of them;
/// until then neither can be removed.
///
/// # Errors
/// EINVAL for what is no striped file; EBUSY while somebody writes to the file; what is wrong with an object.
pub fn adopt(path: impl AsRef<Path>) -> Result<(), FileError> {
    let path = path.as_ref();
    let failed = |error: io::Error| FileError::new("adopt", path, errno(&error));
    let head = fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(failed)?;
    let stat = fstat(&head).map_err(|errno| failed(errno.into()))?;
    let Some(descriptor) = descriptor_of(&head, &stat, path)? else {
        return Err(failed(Errno::INVAL.into()).with_detail("it is no striped file"));
    };
    let head = Head::of(&head).map_err(|errno| failed(errno.into()))?;
    let _alone = alone(path, &descriptor, stat.st_uid)?;
    let name = fs::canonicalize(path).map_err(failed)?;
    let open = |index: usize| -> Result<(PathBuf, fs::File, bool), FileError> {
        let object = descriptor.object_path(index);
        let failed = |errno, what: &str| of_object("adopt", path, index, &object, errno, what);
        let file = open_judged(&descriptor, index, stat.st_uid, OFlags::RDWR);
        let file = file.map_err(|(errno, what)| failed(errno, what))?;
        let found = header_of(&file, &descriptor.header(index, head)).map_err(|(errno, what)| failed(errno, &what))?;
        judge_owner(&descriptor, index, &found, stat.st_uid).map_err(|(errno, what)| failed(errno, what))?;
        Ok((object, file, found.stamped))
    };
    // Each of them is looked at before one is changed.
    let objects = (0..descriptor.targets.len()).map(open).collect::<Result<Vec<_>, _>>()?;
    for (index, (object, file, stamped)) in objects.iter().enumerate() {
        let owner = descriptor.is_device(index).then_some(stat.st_uid);
        let header = Header { name: Some(name.clone()), owner, stamped: *stamped, ..descriptor.header(index, head) };
        let bytes = header.encode().map_err(|error| wrong("adopt", path, &error))?;
        let written = file.write_all_at(&bytes, 0).and_then(|()| file.sync_data());
        written.map_err(|error| of_object("adopt", path, index, object, errno(&error), ""))?;
    }
    Ok(())
}
