//! `dio.cache`: which pages of a file are in the page cache, and dropping those that came since.

use std::fs::File;
use std::path::PathBuf;

use dio::names;
use dio::residency::{self, ResidencyError, ResidencySnapshot};
use pyo3::prelude::*;
use rustix::fs::{Mode as Permissions, OFlags};

use crate::errors::Failure;

/// The pages of a file that are in the page cache, as they were when this was made. Of a striped
/// file, those of its objects, one behind the other.
#[pyclass(frozen, module = "dio._dio")]
pub(crate) struct Cache {
    path: PathBuf,
    parts: Vec<(File, ResidencySnapshot)>,
}

impl Cache {
    fn failed(&self, error: ResidencyError) -> Failure {
        Failure::system("look at the pages of", &self.path, &error.into())
    }

    fn sum(
        &self,
        py: Python<'_>,
        of: impl Fn(&File, &ResidencySnapshot) -> Result<u64, ResidencyError> + Sync,
    ) -> PyResult<u64> {
        let sum = py.detach(|| {
            let mut sum = 0;
            for (file, snapshot) in &self.parts {
                sum += of(file, snapshot).map_err(|error| self.failed(error))?;
            }
            Ok::<u64, Failure>(sum)
        });
        Ok(sum?)
    }
}

#[pymethods]
impl Cache {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Cache> {
        Ok(py.detach(|| Cache::of(path))?)
    }

    /// Number of pages of the file.
    #[getter]
    fn pages(&self, py: Python<'_>) -> PyResult<u64> {
        let page = rustix::param::page_size() as u64;
        self.sum(py, |file, _| Ok(residency::length_of(file)?.div_ceil(page)))
    }

    /// Number of pages that are in the page cache now.
    #[getter]
    fn resident(&self, py: Python<'_>) -> PyResult<u64> {
        self.sum(py, |file, _| residency::resident_pages(file))
    }

    /// Number of pages that were in the page cache when this was made.
    #[getter]
    fn resident_before(&self) -> u64 {
        self.parts.iter().map(|(_, snapshot)| snapshot.pages()).sum()
    }

    /// Number of pages that are not written back; `None` if the kernel does not count them.
    #[getter]
    fn dirty(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        let unknown = std::sync::atomic::AtomicBool::new(false);
        let dirty = self.sum(py, |file, _| {
            let pages = residency::dirty_pages(file)?;
            unknown.fetch_or(pages.is_none(), std::sync::atomic::Ordering::Relaxed);
            Ok(pages.unwrap_or(0))
        })?;
        Ok((!unknown.into_inner()).then_some(dirty))
    }

    /// The runs of resident pages now, as pairs of offsets in bytes, for each object of a striped
    /// file.
    fn runs(&self, py: Python<'_>) -> PyResult<Vec<Vec<(u64, u64)>>> {
        let page = rustix::param::page_size() as u64;
        let all = py.detach(|| {
            let runs = |(file, _): &(File, ResidencySnapshot)| {
                let length = residency::length_of(file)?;
                let runs = residency::resident_runs(file, length)?;
                Ok(runs.into_iter().map(|run| (run.start * page, run.end * page)).collect())
            };
            let all: Result<Vec<_>, ResidencyError> = self.parts.iter().map(runs).collect();
            all.map_err(|error| self.failed(error))
        });
        Ok(all?)
    }

    /// Writes back and drops the pages that were not in the page cache when this was made. Returns
    /// how many. Pages that others have brought in since are among them.
    fn evict_new(&self, py: Python<'_>) -> PyResult<u64> {
        self.sum(py, |file, snapshot| {
            residency::write_back(file, 0..u64::MAX)?;
            snapshot.drop_new(file, 0..u64::MAX)
        })
    }

    /// Writes back and drops all pages, whoever brought them in. Returns how many.
    fn evict(&self, py: Python<'_>) -> PyResult<u64> {
        self.sum(py, |file, _| {
            residency::write_back(file, 0..u64::MAX)?;
            residency::evict(file, 0..u64::MAX)
        })
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_how))]
    fn __exit__(&self, py: Python<'_>, _how: &Bound<'_, pyo3::types::PyTuple>) -> PyResult<()> {
        self.evict_new(py).map(drop)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let (resident, pages) = (self.resident(py)?, self.pages(py)?);
        Ok(format!("<dio.Cache {:?} {resident} of {pages} pages>", self.path))
    }
}

impl Cache {
    fn of(path: PathBuf) -> Result<Cache, Failure> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let file = rustix::fs::open(&path, flags, Permissions::empty())
            .map_err(|errno| Failure::system("open", &path, &errno.into()))?;
        let objects = names::objects(&file)
            .map_err(|errno| Failure::system("open the objects of", &path, &errno.into()))?;
        let files: Vec<File> = match objects {
            Some(objects) => objects.into_iter().map(|object| object.file.into()).collect(),
            None => vec![file.into()],
        };
        let mut cache = Cache { path, parts: Vec::new() };
        for file in files {
            let snapshot = residency::length_of(&file)
                .and_then(|length| ResidencySnapshot::take(&file, length))
                .map_err(|error| cache.failed(error))?;
            cache.parts.push((file, snapshot));
        }
        Ok(cache)
    }
}
