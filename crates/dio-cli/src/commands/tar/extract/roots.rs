//! Opens the directories that names are relative to.

use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use super::super::options::TarOptions;
use super::super::run::EarlyEnd;
use super::root::Root;

/// Opens the directories of `-C` as roots.
///
/// # Errors
/// One cannot be opened.
pub(super) fn open_roots(options: &TarOptions) -> Result<Vec<Arc<Root>>, EarlyEnd> {
    let directories = options.names.open_directories()?;
    let open = |(fd, path): (std::os::fd::OwnedFd, &std::path::PathBuf)| {
        let root = Root::open(fd.as_fd(), c".", options.absolute_names).map(Arc::new);
        let name = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        root.map_err(|errno| EarlyEnd::on(name.as_os_str().as_bytes(), "open", errno))
    };
    directories.into_iter().zip(&options.names.directories).map(open).collect()
}
