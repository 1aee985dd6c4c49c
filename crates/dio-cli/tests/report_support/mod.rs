//! Shared by the tests of `dio report`: results, and a browser that shows pages.

pub(crate) mod browser;
pub(crate) mod results;
