//! Streams into the file that a tool writes.

use std::io;

use dio::stream::StreamOptions;

use super::OutputFile;
use crate::tool::{Sink, Tool};

impl OutputFile {
    /// A stream into it. The contents of a file that is written in place are gone.
    ///
    /// # Errors
    /// As [`OutputFile::begin`] and [`Tool::output`].
    pub(crate) fn sink(&self, tool: &Tool) -> io::Result<Sink> {
        self.sink_with(tool, tool.stream_options())
    }

    /// The same, with options of its own.
    ///
    /// # Errors
    /// As [`OutputFile::sink`].
    pub(crate) fn sink_with(&self, tool: &Tool, how: &StreamOptions) -> io::Result<Sink> {
        self.begin()?;
        tool.output_with(self.fd.try_clone()?, &self.path, how)
    }
}
