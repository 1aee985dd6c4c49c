//! The targets, by area.

mod codec;
mod mount;
mod notes;
mod report;
mod stripe;
mod tar;
mod trace;
mod wal;
mod witness;

/// A parser, or a few parsers that read the same kind of input.
pub(crate) struct Target {
    /// Name of the target, and of the directory of its corpus.
    pub(crate) name: &'static str,
    /// Runs the target on one input. Panics if it finds a defect.
    pub(crate) run: fn(&[u8]),
}

/// All targets.
pub(crate) const TARGETS: &[Target] = &[
    Target { name: "control-answer", run: mount::answer },
    Target { name: "control-request", run: mount::request },
    Target { name: "digests", run: notes::digests },
    Target { name: "fuse", run: mount::fuse },
    Target { name: "gzip", run: codec::gzip },
    Target { name: "mount-options", run: mount::options },
    Target { name: "mount-table", run: mount::table },
    Target { name: "report", run: report::result },
    Target { name: "resume-note", run: notes::resume },
    Target { name: "stripe", run: stripe::texts },
    Target { name: "tar", run: tar::archive },
    Target { name: "tar-acl", run: tar::acl },
    Target { name: "trace", run: trace::events },
    Target { name: "trace-import", run: trace::others },
    Target { name: "wal", run: wal::segments },
    Target { name: "witness", run: witness::lines },
    Target { name: "zstd", run: codec::zstd },
];
