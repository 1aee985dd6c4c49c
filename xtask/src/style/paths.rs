//! The paths that a source file names, with `crate`, `self` and `super` resolved.

use super::source::SourceFile;

/// The names from the root of a crate down to a module.
pub(super) type Module = Vec<String>;

/// The modules that one file defines or names.
pub(super) enum Item {
    /// A whole path, and the name that a `use` of it gives in the module `within`.
    Use { line: usize, path: Module, name: Option<String>, within: Module },
    /// A path that begins with a name of its own, which may be no module at all.
    Path { line: usize, path: Module, within: Module },
    /// A module that only tests have.
    TestModule(Module),
}

/// The module that a file below `src` is; none for a program of its own.
pub(super) fn module_of(inner: &str) -> Option<Module> {
    let inner = inner.strip_suffix(".rs")?;
    let inner = inner.strip_suffix("/mod").unwrap_or(inner);
    match inner {
        "lib" => Some(Module::new()),
        "main" => None,
        _ => Some(inner.split('/').map(str::to_owned).collect()),
    }
}

/// Everything that the file of `module` says outside of tests, and which modules are tests.
pub(super) fn items(source: &SourceFile, module: &Module) -> Vec<Item> {
    let tokens = tokens(&source.code);
    let mut reader =
        PathReader { tokens: &tokens, source, within: module.clone(), items: Vec::new() };
    if source.is_all_test() {
        return vec![Item::TestModule(module.clone())];
    }
    reader.read();
    reader.items
}

/// A word, `::`, or one other character.
struct Token<'a> {
    text: &'a str,
    line: usize,
}

fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    for (line, text) in code.lines().enumerate() {
        let mut rest = text.trim_start();
        while let Some(first) = rest.chars().next() {
            let word = |c: char| c.is_alphanumeric() || c == '_';
            let length = match rest.find(|c| !word(c)).unwrap_or(rest.len()) {
                0 if rest.starts_with("::") => 2,
                0 => first.len_utf8(),
                length => length,
            };
            tokens.push(Token { text: &rest[..length], line });
            rest = rest[length..].trim_start();
        }
    }
    tokens
}

fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

struct PathReader<'a> {
    tokens: &'a [Token<'a>],
    source: &'a SourceFile,
    /// The module that is being read: the file's, or one written out in it.
    within: Module,
    items: Vec<Item>,
}

impl PathReader<'_> {
    fn text(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |token| token.text)
    }

    fn read(&mut self) {
        let mut depth = 0usize;
        let mut inline = Vec::new();
        let mut at = 0;
        while at < self.tokens.len() {
            let text = self.text(at);
            match text {
                "{" => depth += 1,
                "}" => {
                    depth = depth.saturating_sub(1);
                    if inline.last() == Some(&depth) {
                        inline.pop();
                        self.within.pop();
                    }
                }
                "mod" if self.text(at + 2) == "{" => {
                    self.within.push(self.text(at + 1).to_owned());
                    inline.push(depth);
                    depth += 1;
                    at += 3;
                    continue;
                }
                "mod" if self.text(at + 2) == ";" && self.is_test(at) => {
                    let mut module = self.within.clone();
                    module.push(self.text(at + 1).to_owned());
                    self.items.push(Item::TestModule(module));
                }
                "use" => {
                    at = self.tree(at + 1, &Module::new(), true);
                    continue;
                }
                _ if is_word(text) && self.text(at + 1) == "::" && self.begins_path(at) => {
                    at = self.tree(at, &Module::new(), false);
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
    }

    fn is_test(&self, at: usize) -> bool {
        self.tokens.get(at).is_some_and(|token| self.source.is_test(token.line))
    }

    /// A word is the middle of a path behind `::`, and `pub(in path)` names nothing.
    fn begins_path(&self, at: usize) -> bool {
        let before = |n: usize| at.checked_sub(n).map_or("", |at| self.text(at));
        before(1) != "::" && !(before(1) == "in" && before(2) == "(" && before(3) == "pub")
    }

    /// Reads the path, or the tree of paths, at `at`, behind `prefix`; returns where it ends.
    fn tree(&mut self, mut at: usize, prefix: &Module, is_use: bool) -> usize {
        let line = self.tokens.get(at).map_or(0, |token| token.line);
        let test = self.is_test(at);
        let mut path = prefix.clone();
        loop {
            let text = self.text(at).to_owned();
            match text.as_str() {
                "{" => {
                    at += 1;
                    while !matches!(self.text(at), "}" | "") {
                        at = self.tree(at, &path, is_use);
                        at += usize::from(self.text(at) == ",");
                    }
                    return at + 1;
                }
                "::" if path.is_empty() => at += 1,
                "*" => {
                    self.add(line, path, None, is_use, test);
                    return at + 1;
                }
                _ if is_word(&text) => {
                    path.push(text);
                    at += 1;
                    let goes_on = self.text(at) == "::"
                        && (is_word(self.text(at + 1))
                            || is_use && matches!(self.text(at + 1), "{" | "*"));
                    if goes_on {
                        at += 1;
                        continue;
                    }
                    let mut name = path.last().cloned();
                    if is_use && self.text(at) == "as" {
                        name = Some(self.text(at + 1).to_owned());
                        at += 2;
                    }
                    self.add(line, path, name, is_use, test);
                    return at;
                }
                _ => return at + 1,
            }
        }
    }

    fn add(&mut self, line: usize, path: Module, name: Option<String>, is_use: bool, test: bool) {
        if test || path.is_empty() {
            return;
        }
        let within = self.within.clone();
        let mut whole = match path[0].as_str() {
            "crate" => Module::new(),
            "self" | "super" => within.clone(),
            // In a `use`, a name that is no module here is another crate's: nothing is below it.
            _ if is_use => within.clone(),
            _ => return self.items.push(Item::Path { line, path, within }),
        };
        let mut own = path.into_iter().peekable();
        while let Some(word) =
            own.next_if(|word| matches!(word.as_str(), "crate" | "self" | "super"))
        {
            if word == "super" {
                whole.pop();
            }
        }
        // `use self::a::{self, b}`: the module itself.
        whole.extend(own.filter(|word| word != "self"));
        let name = name.filter(|_| is_use).map(|name| match name.as_str() {
            "self" => whole.last().cloned().unwrap_or_default(),
            _ => name,
        });
        self.items.push(Item::Use { line, path: whole, name, within });
    }
}
