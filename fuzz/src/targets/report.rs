//! Results of benchmarks for `dio report`.

use dio_bench::page::{Page, read};

/// A result that can be read becomes a page whose size is bounded by the result, and which contains
/// no script.
pub(super) fn result(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let Ok(section) = read("result.json", &text) else { return };
    let page = Page::new(None, vec![section]);
    let html = page.html();
    assert!(!html.contains("<script"), "a page has no script");
    let files = page.plots().into_iter().chain(page.tables());
    for (name, _) in files {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        assert!(name.bytes().all(plain), "the name of a file: {name:?}");
    }
}
