//! The table compared with a simple model.

use std::collections::HashMap;

use proptest::prelude::*;

use super::super::inodes::{Handle, InodeIdentity, InodeKey, Table};
use super::*;

const NAMES: [&str; 4] = ["a", "b", "a longer name", "d"];

#[derive(Debug, Clone)]
enum Step {
    /// Inode `number` is found as `name` in the known directory with index `parent`.
    Enter { number: u64, life: u8, parent: usize, name: usize },
    /// The known inode with index `which` loses some of its lookups.
    Forget { which: usize, count: u64 },
    /// The known inode with index `which` is renamed.
    PathFd { which: usize, parent: usize, name: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (2u64..12, 0u8..2, 0usize..12, 0..NAMES.len())
            .prop_map(|(number, life, parent, name)| Step::Enter { number, life, parent, name }),
        2 => (0usize..12, 1u64..3).prop_map(|(which, count)| Step::Forget { which, count }),
        1 => (0usize..12, 0usize..12, 0..NAMES.len())
            .prop_map(|(which, parent, name)| Step::PathFd { which, parent, name }),
    ];
    proptest::collection::vec(step, 0..120)
}

/// Even numbers are directories, odd ones files; `life` distinguishes successive inodes with the
/// same number.
fn identity(number: u64, life: u8) -> InodeIdentity {
    let kind = if number % 2 == 0 { FileType::Directory } else { FileType::RegularFile };
    let handle = Handle::Short { kind: 1, length: 1, bytes: [life; 22] };
    InodeIdentity { key: InodeKey { device: 0, mount: 0, number }, handle, kind, mount: 0 }
}

#[derive(Debug)]
struct Known {
    identity: InodeIdentity,
    lookups: u64,
    parent: Option<InodeId>,
    name: &'static str,
}

#[derive(Debug, Default)]
struct Model {
    known: HashMap<InodeId, Known>,
    /// Every number that was ever assigned.
    given: Vec<InodeId>,
}

impl Model {
    fn sorted(&self) -> Vec<InodeId> {
        let mut all: Vec<_> = self.known.keys().copied().collect();
        all.sort_unstable();
        all
    }

    fn pick(&self, which: usize) -> Option<InodeId> {
        let all = self.sorted();
        (!all.is_empty()).then(|| all[which % all.len()])
    }

    fn pick_directory(&self, which: usize) -> InodeId {
        let mut all = self.sorted();
        all.retain(|id| self.known[id].identity.kind == FileType::Directory);
        all.insert(0, ROOT);
        all[which % all.len()]
    }

    fn place(&mut self, id: InodeId, parent: InodeId, name: &'static str) {
        let before = self.known[&id].parent;
        let parent = if parent == id { None } else { Some(parent) };
        // The directory that closes a circle has an outdated parent.
        let mut at = parent;
        while let Some(above) = at.filter(|above| *above != ROOT && before != parent) {
            at = self.known[&above].parent;
            if at == Some(id) {
                self.known.get_mut(&above).unwrap().parent = None;
            }
        }
        let known = self.known.get_mut(&id).unwrap();
        (known.parent, known.name) = (parent, name);
        self.sweep();
    }

    /// Removes inodes without lookups and without names below them.
    fn sweep(&mut self) {
        loop {
            let parents: Vec<_> = self.known.values().filter_map(|known| known.parent).collect();
            let before = self.known.len();
            self.known.retain(|id, known| known.lookups > 0 || parents.contains(id));
            if self.known.len() == before {
                return;
            }
        }
    }

    fn path(&self, id: InodeId) -> Option<PathBuf> {
        let mut names = Vec::new();
        let mut at = id;
        while at != ROOT {
            names.push(self.known[&at].name);
            at = self.known[&at].parent?;
        }
        Some(names.into_iter().rev().collect())
    }

    fn enter(
        &mut self,
        table: &mut Table,
        new: InodeIdentity,
        parent: InodeId,
        name: &'static str,
    ) {
        let id = table.enter(new.clone(), parent, OsStr::new(name));
        match self.known.get_mut(&id) {
            Some(known) => {
                assert_eq!(known.identity, new, "another inode under {id}");
                known.lookups += 1;
            }
            None => {
                assert!(!self.given.contains(&id), "{id} was given before");
                self.given.push(id);
                self.known.insert(id, Known { identity: new, lookups: 1, parent: None, name: "" });
            }
        }
        self.place(id, parent, name);
    }
}

proptest! {
    #[test]
    fn the_table_does_what_a_plain_model_does(steps in steps()) {
        let mut table = Table::new(identity(0, 0));
        let empty = table.bytes();
        let mut model = Model::default();
        for step in steps {
            match step {
                Step::Enter { number, life, parent, name } => {
                    let parent = model.pick_directory(parent);
                    model.enter(&mut table, identity(number, life), parent, NAMES[name]);
                }
                Step::Forget { which, count } => {
                    let Some(id) = model.pick(which) else { continue };
                    table.forget(id, count);
                    let known = model.known.get_mut(&id).unwrap();
                    known.lookups = known.lookups.saturating_sub(count);
                    model.sweep();
                }
                Step::PathFd { which, parent, name } => {
                    let Some(id) = model.pick(which) else { continue };
                    let parent = model.pick_directory(parent);
                    table.place(id, parent, OsStr::new(NAMES[name]));
                    model.place(id, parent, NAMES[name]);
                }
            }
            prop_assert_eq!(table.len(), model.known.len() + 1);
            for (id, known) in &model.known {
                let record = table.get(*id).unwrap();
                prop_assert_eq!(&record.identity, &known.identity);
                prop_assert_eq!(table.is_held(*id), known.lookups > 0);
                prop_assert_eq!(table.path(*id), model.path(*id));
            }
            for gone in table.take_gone() {
                prop_assert!(table.get(gone).is_err() && !model.known.contains_key(&gone));
            }
        }
        for id in model.sorted() {
            table.forget(id, u64::MAX);
        }
        prop_assert_eq!(table.bytes(), empty);
        prop_assert_eq!(table.len(), 1);
    }
}

#[test]
fn the_oldest_leaves_come_first_and_each_once() {
    let mut table = Table::new(identity(0, 0));
    let directory = table.enter(identity(2, 0), ROOT, name("directory"));
    let files: Vec<_> =
        (0..5).map(|n| table.enter(identity(11 + 2 * n, 0), directory, name("file"))).collect();
    // All records are new, so the first round only clears their marks.
    let first: Vec<_> = table.oldest_leaves(3, false).iter().map(|leaf| leaf.inode).collect();
    assert_eq!(first, files[..3]);
    table.visit(files[3], directory, name("file"));
    let second: Vec<_> = table.oldest_leaves(10, false).iter().map(|leaf| leaf.inode).collect();
    assert_eq!(second, [files[4], files[3]]);
    assert!(table.oldest_leaves(10, true).is_empty(), "the directory has names below it");
    table.ask_again();
    assert_eq!(table.oldest_leaves(10, true).len(), 5);
    files.iter().for_each(|file| table.forget(*file, 9));
    assert_eq!(
        table.oldest_leaves(10, true),
        [Leaf { inode: directory, parent: ROOT, name: "directory".into() }]
    );
}
