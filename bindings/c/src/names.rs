//! Files by name: removing and striping them. Every other function opens striped files by name as
//! it opens any file.

use std::ffi::c_char;
use std::path::PathBuf;

use dio::names;
use dio::stripe::{StripePlan, create};
use rustix::io::Errno;

use crate::border::{array, path, shared, status, write_sized};
use crate::error::{Failure, dio_error};
use crate::file::dio_file;

/// How a new file is to be striped.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct dio_stripe_plan {
    /// Directories on the disks to use, in order, or block devices, each of which becomes one part.
    pub targets: *const *const c_char,
    /// Number of targets.
    pub target_count: usize,
    /// Size of a stripe in bytes, a multiple of 4096; 0 for the default: 1 MiB, or what the targets
    /// prefer if that is larger.
    pub stripe_bytes: u64,
    /// Number of parts; 0 for one in each target. The targets get several in turn.
    pub objects: usize,
    /// Whether devices that hold data are used. The data are lost.
    pub force: bool,
}

/// How a file is striped.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct dio_stripe_layout {
    /// Size of a stripe in bytes; 0 if the file is not striped.
    pub stripe_bytes: u64,
    /// Number of parts; 1 if the file is not striped.
    pub objects: usize,
}

/// Makes an empty striped file: its bytes will be spread over several disks, and read and written
/// at the sum of their speeds. dio_open() and all other functions take it by this name.
///
/// The name may be free or that of an empty file; any other fails with EEXIST. Other programs see a
/// small file that says where the bytes are; dio_unlink() removes it with them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_stripe_create(
    path: *const c_char,
    plan: *const dio_stripe_plan,
    error: *mut *mut dio_error,
) -> i32 {
    // SAFETY: the arguments are valid by the header's rules.
    unsafe {
        status(error, || {
            let (path, plan) = (self::path(path, "path")?, shared(plan, "plan")?);
            let targets = array(plan.targets, plan.target_count, "targets")?
                .iter()
                .map(|target| self::path(*target, "target").map(PathBuf::from))
                .collect::<Result<_, _>>()?;
            let plan = StripePlan {
                stripe: Some(plan.stripe_bytes).filter(|bytes| *bytes > 0),
                count: Some(plan.objects).filter(|objects| *objects > 0),
                targets,
                force: plan.force,
            };
            create(path, &plan)?;
            Ok(())
        })
    }
}

/// Stores how a file is striped, in a structure of `size` bytes: sizeof(struct dio_stripe_layout).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_stripe_layout_of(
    file: *const dio_file,
    layout: *mut dio_stripe_layout,
    size: usize,
    error: *mut *mut dio_error,
) -> i32 {
    // SAFETY: the arguments are valid by the header's rules.
    unsafe {
        status(error, || {
            let file = &shared(file, "file")?.file;
            let plain = dio_stripe_layout { stripe_bytes: 0, objects: 1 };
            let found = file.layout().map_or(plain, |layout| dio_stripe_layout {
                stripe_bytes: layout.stripe(),
                objects: layout.objects(),
            });
            write_sized(layout, size, &found, "layout")
        })
    }
}

/// Removes a name, as unlink(2). A striped file that loses its last name loses its bytes with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dio_unlink(path: *const c_char, error: *mut *mut dio_error) -> i32 {
    // SAFETY: the arguments are valid by the header's rules.
    unsafe {
        status(error, || {
            let path = self::path(path, "path")?;
            names::unlink(path).map_err(|errno: Errno| {
                let detail = names::take_details().pop();
                detail.map_or_else(
                    || Failure::system(&format!("cannot remove '{}'", path.display()), errno),
                    Failure::from,
                )
            })
        })
    }
}
