//! What the tests of `dio report` need: results, and a browser to look at pages.

pub(crate) mod browser;
pub(crate) mod results;
