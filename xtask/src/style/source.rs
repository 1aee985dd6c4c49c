//! A minimal parser of Rust that separates code from comments, strings and tests.

/// One source file.
pub(super) struct SourceFile {
    /// The text, line for line, in which comments and the contents of literals are replaced by
    /// blanks.
    pub(super) code: String,
    /// For each line, whether it belongs to a test.
    tests: Vec<bool>,
}

/// A function found in the code.
pub(super) struct Function {
    /// The line of its `fn`, from 0.
    pub(super) first: usize,
    /// Lines up to and including its closing brace.
    pub(super) lines: usize,
}

impl SourceFile {
    /// Reads a file. Its path may show that all of it is a test.
    pub(super) fn new(path: &str, text: &str) -> SourceFile {
        let code = blank(text);
        let all = is_test_path(path) || code.lines().any(|l| l.trim() == "#![cfg(test)]");
        let mut tests = vec![all; code.lines().count()];
        let lines: Vec<&str> = code.lines().collect();
        for (first, line) in lines.iter().enumerate() {
            if line.trim() == "#[cfg(test)]" {
                let last = end_of_item(&lines, first + 1).unwrap_or(lines.len() - 1);
                tests[first..=last].fill(true);
            }
        }
        SourceFile { code, tests }
    }

    /// Whether a line, counted from 0, belongs to a test.
    pub(super) fn is_test(&self, line: usize) -> bool {
        self.tests[line]
    }

    /// Whether every line belongs to a test.
    pub(super) fn is_all_test(&self) -> bool {
        !self.tests.is_empty() && self.tests.iter().all(|test| *test)
    }

    /// All functions that have a body.
    pub(super) fn functions(&self) -> Vec<Function> {
        let lines: Vec<&str> = self.code.lines().collect();
        (0..lines.len())
            .filter(|first| starts_function(lines[*first]))
            .filter_map(|first| {
                let last = end_of_item(&lines, first)?;
                Some(Function { first, lines: last - first + 1 })
            })
            .collect()
    }
}

/// Whether all files at this path are tests.
fn is_test_path(path: &str) -> bool {
    ["tests/", "benches/", "examples/"]
        .iter()
        .any(|dir| path.starts_with(dir) || path.contains(&format!("/{dir}")))
        || ["/tests.rs", "_tests.rs"].iter().any(|end| path.ends_with(end))
}

/// Whether the line begins with `fn`, possibly behind qualifiers.
fn starts_function(line: &str) -> bool {
    for word in line.split_whitespace() {
        match word {
            "fn" => return true,
            "pub" | "const" | "async" | "unsafe" | "extern" => {}
            _ if word.starts_with("pub(") || word.starts_with('"') || word.ends_with(')') => {}
            _ => return false,
        }
    }
    false
}

/// The last line of the item that begins at line `first`: that of the brace which closes its
/// body, or of the semicolon which ends it.
fn end_of_item(lines: &[&str], first: usize) -> Option<usize> {
    let mut braces = 0usize;
    let mut brackets = 0usize;
    for (number, line) in lines.iter().enumerate().skip(first) {
        for c in line.chars() {
            match c {
                '(' | '[' => brackets += 1,
                ')' | ']' => brackets = brackets.saturating_sub(1),
                '{' => braces += 1,
                '}' => {
                    braces = braces.checked_sub(1)?;
                    if braces == 0 && brackets == 0 {
                        return Some(number);
                    }
                }
                ';' if braces == 0 && brackets == 0 => return Some(number),
                _ => {}
            }
        }
    }
    None
}

/// Replaces comments and the insides of string and character literals by blanks.
fn blank(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let length = literal_or_comment(&chars, at);
        if length == 0 {
            out.push(chars[at]);
            at += 1;
            continue;
        }
        let end = (at + length).min(chars.len());
        out.extend(chars[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
        at = end;
    }
    out
}

/// The length of the comment or literal that begins at `at`, 0 if none does.
fn literal_or_comment(chars: &[char], at: usize) -> usize {
    let next = |n: usize| chars.get(at + n).copied().unwrap_or('\0');
    let in_word = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
    match (chars[at], next(1)) {
        ('/', '/') => chars[at..].iter().take_while(|c| **c != '\n').count(),
        ('/', '*') => block_comment(&chars[at..]),
        ('"', _) => 1 + quoted(&chars[at + 1..], '"'),
        ('r', '"' | '#') if !in_word || chars[at - 1] == 'b' || chars[at - 1] == 'c' => {
            raw_string(&chars[at..])
        }
        ('\'', '\\') => 1 + quoted(&chars[at + 1..], '\''),
        ('\'', _) if next(2) == '\'' => 3,
        _ => 0,
    }
}

/// The length of a block comment. Block comments nest.
fn block_comment(chars: &[char]) -> usize {
    let mut depth = 0usize;
    let mut at = 0;
    while at < chars.len() {
        match (chars[at], chars.get(at + 1)) {
            ('/', Some('*')) => depth += 1,
            ('*', Some('/')) => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            break;
        }
    }
    at
}

/// The number of characters up to and including the closing quote. A backslash escapes the next
/// character.
fn quoted(chars: &[char], quote: char) -> usize {
    let mut at = 0;
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            c if c == quote => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

/// The length of `r"…"`, `r#"…"#` and so on; 0 for a raw identifier such as `r#type`.
fn raw_string(chars: &[char]) -> usize {
    let hashes = chars[1..].iter().take_while(|c| **c == '#').count();
    if chars.get(1 + hashes) != Some(&'"') {
        return 0;
    }
    let mut at = hashes + 2;
    while at < chars.len() {
        let closed = chars[at] == '"'
            && chars.len() > at + hashes
            && chars[at + 1..=at + hashes].iter().all(|c| *c == '#');
        if closed {
            return at + hashes + 1;
        }
        at += 1;
    }
    chars.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_is_left() {
        let cases = [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ d */ e", "a                   e"),
            (r#"a("b \" c", d)"#, "a(        , d)"),
            ("r#\"a \" b\"# c", "           c"),
            ("br\"x\\\" y", "b      y"),
            ("r#type", "r#type"),
            ("'a' b: &'a str '\\'' c", "    b: &'a str      c"),
            ("\"two\nlines\" a", "    \n       a"),
        ];
        for (text, expected) in cases {
            assert_eq!(blank(text), expected, "{text}");
        }
    }

    #[test]
    fn functions_end_at_their_own_brace() {
        let text = "impl A {\n    pub(crate) const fn a(\n        b: [u8; 2],\n    ) -> u8 \
                    {\n        if b { '}' }\n    }\n\n    fn short() {}\n}\ntrait T {\n    fn \
                    none(&self);\n    async unsafe fn x() {\n    }\n}\n";
        let source = SourceFile::new("a.rs", text);
        let found: Vec<_> = source.functions().iter().map(|f| (f.first, f.lines)).collect();
        assert_eq!(found, [(1, 5), (7, 1), (10, 1), (11, 2)]);
    }

    #[test]
    fn a_test_module_ends_where_it_ends() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() \
                    {}\n#[cfg(test)]\nmod more;\nfn d() {}\n";
        let source = SourceFile::new("a.rs", text);
        let marks: Vec<_> = (0..9).map(|line| source.is_test(line)).collect();
        assert_eq!(marks, [false, true, true, true, true, false, true, true, false]);
    }
}
