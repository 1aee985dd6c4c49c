//! Checks which modules of a crate name which other modules: the layers in ARCHITECTURE.md, and
//! circles of files.
//!
//! A module may name only modules of lower layers. A path is followed through re-exports to the
//! file that defines the item, so children may name a parent that only re-exports them. Layers
//! contain the modules of the first level below `src`, and each command of `commands`.

use std::collections::{BTreeMap, BTreeSet};

use super::paths::{Item, Module, items, module_of};
use super::source::SourceFile;

/// The document with the table of layers, relative to the root.
pub(super) const DOCUMENT: &str = "ARCHITECTURE.md";
/// The line that begins the table. The next fence ends it.
const FENCE: &str = "```layers";

/// One file that is not a test.
struct File {
    /// Path relative to the root of the workspace; `inner` is relative to `src`.
    path: String,
    inner: String,
    module: Module,
    items: Vec<Item>,
}

/// One use of a name of another file.
struct Import {
    /// The file that contains the use, and the file that defines the name.
    from: usize,
    to: usize,
    /// The line, from 0.
    line: usize,
    /// The module, as named in the layers, to which the name belongs.
    unit: String,
}

/// The files of one crate and the imports between them.
struct Graph {
    files: Vec<File>,
    imports: Vec<Import>,
}

/// The layers of one crate.
struct Layers {
    name: String,
    /// Each module, and the line of the document, from 0, on which its layer begins.
    modules: Vec<(String, usize)>,
}

/// Appends modules without a layer, layers whose modules do not exist, uses of modules that are not
/// in a lower layer, and circles of files. `sources` are the paths and texts of all Rust files.
pub(super) fn check(document: &str, sources: &[(String, String)], found: &mut Vec<String>) {
    let table = table(document);
    if table.is_empty() {
        found
            .push(format!("{DOCUMENT}: no crate stands between {FENCE} and the end of that block"));
    }
    for layers in table {
        let graph = Graph::of(&format!("crates/{}/src/", layers.name), sources);
        graph.check_layers(&layers, found);
        found.extend(graph.circles().into_iter().map(|files| {
            format!(
                "a circle of files: move what they share to a file that names none of them: {}: \
                 {}\n    {}",
                layers.name,
                files.join(" "),
                graph.imports_within(&files).join("\n    ")
            )
        }));
    }
}

/// The crates of the table in its order. A line is a layer, from the top of its crate to the
/// bottom. The first line of a crate begins with the crate's name, the other lines with a space.
/// `a/{b c}` stands for `a/b a/c`, and a line that ends within the braces continues in the next
/// one.
fn table(document: &str) -> Vec<Layers> {
    let mut crates: Vec<Layers> = Vec::new();
    let mut group: Option<String> = None;
    let mut layer = 0;
    let lines = document.lines().enumerate().skip_while(|(_, line)| *line != FENCE).skip(1);
    for (number, line) in lines.take_while(|(_, line)| !line.starts_with("```")) {
        let mut words = line.split_whitespace();
        if group.is_none() {
            layer = number;
        }
        if !line.starts_with(' ')
            && let Some(name) = words.next()
        {
            crates.push(Layers { name: name.to_owned(), modules: Vec::new() });
        }
        for word in words {
            let (prefix, word) =
                word.split_once('{').map_or((None, word), |(prefix, word)| (Some(prefix), word));
            group = prefix.map(str::to_owned).or(group);
            let module =
                format!("{}{}", group.as_deref().unwrap_or_default(), word.trim_end_matches('}'));
            if word.ends_with('}') {
                group = None;
            }
            if let Some(own) = crates.last_mut() {
                own.modules.push((module, layer));
            }
        }
    }
    crates
}

impl Layers {
    /// The line of a module's layer, from 0.
    fn line(&self, module: &str) -> Option<usize> {
        self.modules.iter().find(|(own, _)| own == module).map(|(_, line)| *line)
    }
}

impl Graph {
    /// The graph of the files whose paths begin with `root`.
    fn of(root: &str, sources: &[(String, String)]) -> Graph {
        let own =
            sources.iter().filter_map(|(path, text)| Some((path, path.strip_prefix(root)?, text)));
        let mut files: Vec<File> = own
            .filter_map(|(path, inner, text)| {
                let module = module_of(inner)?;
                let items = items(&SourceFile::new(path, text), &module);
                Some(File { path: path.clone(), inner: inner.to_owned(), module, items })
            })
            .collect();
        drop_tests(&mut files);
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let names = ImportedNames::of(&files);
        let imports =
            files.iter().enumerate().flat_map(|(from, file)| names.imports(from, file)).collect();
        Graph { files, imports }
    }

    fn check_layers(&self, layers: &Layers, found: &mut Vec<String>) {
        let name = &layers.name;
        let mut missing = BTreeSet::new();
        for file in &self.files {
            let unit = unit(&file.module);
            if layers.line(&unit).is_none() && missing.insert(unit.clone()) {
                found.push(format!(
                    "{}: `{unit}` of {name} stands in no layer of {DOCUMENT}",
                    file.path
                ));
            }
        }
        for Import { from, line, unit: named, .. } in &self.imports {
            let own = unit(&self.files[*from].module);
            if let (Some(at), Some(to)) = (layers.line(&own), layers.line(named))
                && own != *named
                && to <= at
            {
                let layer = if to == at { "the same layer" } else { "a layer above" };
                let message = format!(
                    "{}:{}: `{own}` of {name} ({DOCUMENT}:{}) names `{named}` of {layer} \
                     ({DOCUMENT}:{}): a module names only modules of layers below its own",
                    self.files[*from].path,
                    line + 1,
                    at + 1,
                    to + 1
                );
                // One `use` may name several items of a module.
                if found.last() != Some(&message) {
                    found.push(message);
                }
            }
        }
        for (at, (module, line)) in layers.modules.iter().enumerate() {
            if !self.files.iter().any(|file| unit(&file.module) == *module) {
                found.push(format!("{DOCUMENT}:{}: {name} has no module `{module}`", line + 1));
            }
            if layers.modules[..at].iter().any(|(other, _)| other == module) {
                found.push(format!(
                    "{DOCUMENT}:{}: `{module}` of {name} stands in a layer already",
                    line + 1
                ));
            }
        }
    }

    /// The imports among these files, which are paths below `src`.
    fn imports_within(&self, files: &[&str]) -> Vec<String> {
        let inner = |at: usize| self.files[at].inner.as_str();
        let within = self
            .imports
            .iter()
            .filter(|import| [import.from, import.to].iter().all(|at| files.contains(&inner(*at))));
        within
            .map(|import| {
                format!("{}:{} names {}", inner(import.from), import.line + 1, inner(import.to))
            })
            .collect()
    }

    /// The strongly connected components of more than one file, as sorted paths below `src`.
    fn circles(&self) -> Vec<Vec<&str>> {
        let mut reached = vec![BTreeSet::new(); self.files.len()];
        for (start, reached) in reached.iter_mut().enumerate() {
            let mut next = vec![start];
            while let Some(at) = next.pop() {
                let targets =
                    self.imports.iter().filter(|import| import.from == at).map(|import| import.to);
                next.extend(targets.filter(|to| reached.insert(*to)));
            }
        }
        let mut circles = Vec::new();
        let mut done = BTreeSet::new();
        for start in 0..self.files.len() {
            let circle: Vec<usize> = reached[start]
                .iter()
                .copied()
                .filter(|other| reached[*other].contains(&start))
                .collect();
            if circle.len() > 1 && done.insert(circle[0]) {
                circles.push(circle.iter().map(|file| self.files[*file].inner.as_str()).collect());
            }
        }
        circles
    }
}

/// Removes the modules that only tests have, with everything below them.
fn drop_tests(files: &mut Vec<File>) {
    let tests: Vec<Module> = files
        .iter()
        .flat_map(|file| file.items.iter())
        .filter_map(|item| match item {
            Item::TestModule(module) => Some(module.clone()),
            _ => None,
        })
        .collect();
    files.retain(|file| !tests.iter().any(|test| file.module.starts_with(test)));
}

/// The name of a module in the layers.
fn unit(module: &[String]) -> String {
    match module {
        [] => "lib".to_owned(),
        [commands, command, ..] if commands == "commands" => format!("commands/{command}"),
        [first, ..] => first.clone(),
    }
}

/// The modules of a crate, and the names that each module imports.
struct ImportedNames<'a> {
    modules: BTreeMap<&'a [String], usize>,
    uses: BTreeMap<(&'a [String], &'a str), &'a [String]>,
}

impl<'a> ImportedNames<'a> {
    fn of(files: &'a [File]) -> ImportedNames<'a> {
        let modules =
            files.iter().enumerate().map(|(at, file)| (file.module.as_slice(), at)).collect();
        let mut uses = BTreeMap::new();
        for file in files {
            for item in &file.items {
                if let Item::Use { name: Some(name), path, within, .. } = item
                    && *within == file.module
                {
                    uses.insert((file.module.as_slice(), name.as_str()), path.as_slice());
                }
            }
        }
        ImportedNames { modules, uses }
    }

    fn imports(&self, from: usize, file: &File) -> Vec<Import> {
        let mut imports = Vec::new();
        for item in &file.items {
            let (line, path) = match item {
                Item::Use { line, path, .. } => (*line, path.clone()),
                // A path that begins with a name refers to a module below this one, or to an
                // imported name.
                Item::Path { line, path, within } => {
                    match self.begin(within, &file.module, &path[0]) {
                        Some(mut whole) => {
                            whole.extend_from_slice(&path[1..]);
                            (*line, whole)
                        }
                        None => continue,
                    }
                }
                Item::TestModule(_) => continue,
            };
            let to = self.resolve(&path, 0);
            if let Some(to) = to.filter(|to| *to != from) {
                imports.push(Import { from, to, line, unit: self.unit(&path, to) });
            }
        }
        imports
    }

    /// The whole path for the first name of a path in a module.
    fn begin(&self, within: &[String], file: &[String], name: &str) -> Option<Module> {
        let below: Module = within.iter().cloned().chain([name.to_owned()]).collect();
        if self.modules.contains_key(below.as_slice()) {
            return Some(below);
        }
        self.uses.get(&(file, name)).map(|path| path.to_vec())
    }

    /// The module that a path names as written. An item that the root re-exports belongs to the
    /// module that defines it.
    fn unit(&self, path: &[String], to: usize) -> String {
        let written = (0..=path.len()).rev().find_map(|n| self.modules.get_key_value(&path[..n]));
        match written {
            Some((module, _)) if !module.is_empty() => unit(module),
            _ => unit(
                self.modules.iter().find(|(_, at)| **at == to).map_or(&[], |(module, _)| module),
            ),
        }
    }

    /// The file that defines the item of a path.
    fn resolve(&self, path: &[String], depth: usize) -> Option<usize> {
        for n in 0..path.len() {
            if self.modules.contains_key(&path[..=n]) {
                continue;
            }
            if let Some(other) = self.uses.get(&(&path[..n], path[n].as_str()))
                && depth < 8
            {
                let whole: Module = other.iter().chain(&path[n + 1..]).cloned().collect();
                return self
                    .resolve(&whole, depth + 1)
                    .or_else(|| self.modules.get(&path[..n]).copied());
            }
            return self.modules.get(&path[..n]).copied();
        }
        self.modules.get(path).copied()
    }
}

#[cfg(test)]
mod tests;
