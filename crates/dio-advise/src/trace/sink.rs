//! Where events go.

use std::io;

use super::event::Event;

/// What takes the events of a trace in their order.
pub trait EventSink {
    /// Takes an event.
    ///
    /// # Errors
    /// Those of what it is written to.
    fn add(&mut self, event: &Event) -> io::Result<()>;

    /// Makes what was taken visible to readers.
    ///
    /// # Errors
    /// Those of what it is written to.
    fn flush(&mut self) -> io::Result<()>;
}

impl<S: EventSink> EventSink for &mut S {
    fn add(&mut self, event: &Event) -> io::Result<()> {
        (**self).add(event)
    }

    fn flush(&mut self) -> io::Result<()> {
        (**self).flush()
    }
}
