//! `dio-mpi cmp` under `mpirun`, judged by `diff` and `cmp`: what differs, and where.

mod common;

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use common::{MIB, make_tree, mpirun};
use dio_test::{Output, Seed, file_systems, first_difference, random_file, run};

fn cmp(dir: &Path, ranks: u32, words: &[&str]) -> Output {
    run(mpirun(dir, ranks).arg("cmp").args(words))
}

fn lines(output: &Output) -> Vec<&str> {
    let mut lines: Vec<&str> = output.stdout.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn equal_trees_are_equal_and_each_difference_is_found_where_it_is() {
    let seed = Seed::new();
    for (number, fs) in file_systems().iter().enumerate() {
        let scratch = fs.dir();
        let dir = scratch.path();
        make_tree(&dir.join("from"), &seed);
        run(Command::new("cp").args(["-a", "from", "to"]).current_dir(dir));
        let mut rng = seed.stream(3);
        // File systems differ in their holes, and not in how ranks share them.
        let ranks_equal = if number == 0 { &[1, 4][..] } else { &[3] };
        let ranks_different = if number == 0 { &[1, 2, 4][..] } else { &[3] };
        for ranks in ranks_equal.iter().copied() {
            let same = cmp(dir, ranks, &["-m", "from", "to/"]);
            assert!(same.status.success() && same.stdout.is_empty(), "{}: {same:?}", fs.name);
        }
        let mut expected = Vec::new();
        for name in ["large0", "large1", "large2", "d1/sparse"] {
            let path = dir.join("to").join(name);
            let size = path.metadata().unwrap().len();
            let file = File::options().read(true).write(true).open(&path).unwrap();
            for _ in 0..3 {
                let (at, mut byte) = (rng.range(0..size), [0]);
                file.read_exact_at(&mut byte, at).unwrap();
                file.write_all_at(&[byte[0] ^ 1], at).unwrap();
            }
            let first = first_difference(dir.join("from").join(name), path).unwrap() + 1;
            expected.push(format!("'from/{name}' 'to/{name}' differ: byte {first}"));
        }
        expected.sort_unstable();
        for ranks in ranks_different.iter().copied() {
            let found = cmp(dir, ranks, &["from", "to"]);
            assert_eq!(found.status.code(), Some(1), "{}: {found:?}", fs.name);
            assert_eq!(lines(&found), expected, "{}", fs.name);
        }
    }
}

#[test]
fn names_types_sizes_and_attributes_are_compared() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    for tree in ["a", "b"] {
        fs::create_dir_all(dir.join(tree).join("both/deep")).unwrap();
        for file in ["same", "longer", "both/deep/mode", "empty"] {
            fs::write(dir.join(tree).join(file), "0123456789").unwrap();
        }
        fs::write(dir.join(tree).join("empty"), "").unwrap();
    }
    fs::write(dir.join("a/longer"), "0123456789abc").unwrap();
    fs::write(dir.join("b/empty"), "x").unwrap();
    fs::create_dir(dir.join("a/type")).unwrap();
    fs::write(dir.join("b/type"), "").unwrap();
    fs::create_dir_all(dir.join("a/left/below")).unwrap();
    fs::write(dir.join("b/both/right"), "").unwrap();
    symlink("one", dir.join("a/link")).unwrap();
    symlink("other", dir.join("b/link")).unwrap();
    let expected = [
        "'a/empty' 'b/empty' differ: byte 1, sizes 0 and 1",
        "'a/link' 'b/link' differ: links to 'one' and 'other'",
        "'a/longer' 'b/longer' differ: byte 11, sizes 13 and 10",
        "File 'a/type' is a directory while file 'b/type' is a regular file",
        "Only in 'a': 'left'",
        "Only in 'b/both': 'right'",
    ];
    for ranks in [1, 3] {
        let found = cmp(dir, ranks, &["a", "b"]);
        assert_eq!(found.status.code(), Some(1), "{found:?}");
        assert_eq!(lines(&found), expected);
        let judged =
            run(Command::new("diff").args(["-rq", "--no-dereference", "a", "b"]).current_dir(dir));
        assert_eq!(judged.stdout.lines().count(), expected.len(), "{judged:?}");
    }
    let mode = fs::Permissions::from_mode(0o600);
    fs::set_permissions(dir.join("a/both/deep/mode"), mode).unwrap();
    let found = cmp(dir, 2, &["--metadata", "a", "b"]);
    let told = "'a/both/deep/mode' 'b/both/deep/mode' differ: mode 0600 and 0644";
    assert!(found.stdout.contains(told), "{found:?}");
    let one = cmp(dir, 2, &["a/longer", "b/longer"]);
    assert_eq!(lines(&one), ["'a/longer' 'b/longer' differ: byte 11, sizes 13 and 10"]);
    assert!(cmp(dir, 2, &["a/same", "b/same"]).status.success());
    for words in [&["a"][..], &["a", "none"], &["a", "b", "c"], &["--none", "a", "b"]] {
        let refused = cmp(dir, 2, words);
        assert_eq!(refused.status.code(), Some(2), "{words:?}: {refused:?}");
    }
}

#[test]
fn large_operands_are_compared_past_the_cache() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    for name in ["one", "other"] {
        random_file(dir.join(name), 700 * MIB + 1, 1);
    }
    File::open(dir.join("one")).unwrap().sync_all().unwrap();
    let drop = |name: &str| {
        let file = File::open(dir.join(name)).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    };
    ["one", "other"].into_iter().for_each(drop);
    let same = cmp(dir, 4, &["one", "other"]);
    assert!(same.status.success(), "{same:?}");
    for name in ["one", "other"] {
        let pages = dio_test::resident_pages(dir.join(name));
        assert!(pages < 1000, "{pages} pages of {name} are in the cache");
    }
    let other = File::options().write(true).open(dir.join("other")).unwrap();
    for at in [690 * MIB, 400 * MIB + 77] {
        let mut byte = [0];
        File::open(dir.join("other")).unwrap().read_exact_at(&mut byte, at).unwrap();
        other.write_all_at(&[byte[0] ^ 255], at).unwrap();
    }
    let found = cmp(dir, 4, &["one", "other"]);
    let at = 400 * MIB + 78;
    assert_eq!(found.stdout, format!("'one' 'other' differ: byte {at}\n"), "{found:?}");
    let judged = run(Command::new("cmp").args(["one", "other"]).current_dir(dir));
    assert!(judged.stdout.contains(&format!("byte {at},")), "{judged:?}");
}
