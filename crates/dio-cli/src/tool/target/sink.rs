//! Streams into the file that a tool writes.

use std::io;

use dio::stream::StreamOptions;

use super::OutputFile;
use crate::tool::{Sink, Tool};

impl OutputFile {
    /// Returns a stream into the file. If the file is written in place, its old contents are
    /// truncated.
    ///
    /// # Errors
    /// Errors of [`OutputFile::begin`] and [`Tool::output`].
    pub(crate) fn sink(&self, tool: &Tool) -> io::Result<Sink> {
        self.sink_with(tool, tool.stream_options())
    }

    /// Does the same with separate options.
    ///
    /// # Errors
    /// Errors of [`OutputFile::sink`].
    pub(crate) fn sink_with(&self, tool: &Tool, how: &StreamOptions) -> io::Result<Sink> {
        self.begin()?;
        tool.output_with(self.fd.try_clone()?, &self.path, how)
    }
}
