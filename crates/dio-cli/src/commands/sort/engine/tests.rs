//! Compares the engine with sorting in memory. Memory limits are so small that there are many runs
//! and several passes.

use std::fs;
use std::path::{Path, PathBuf};

use dio_test::{Rng, Seed};

use super::*;
use crate::commands::sort::key::{KeyKind, Separator, SortKey, Span, View, WHOLE};
use crate::tool::IoArgs;

/// A directory with inputs, and the options of one sort.
struct Case {
    scratch: tempfile::TempDir,
    inputs: Vec<Input>,
    options: EngineOptions,
}

impl Case {
    fn new(texts: &[Vec<u8>]) -> Case {
        let scratch = tempfile::tempdir_in("/var/tmp").unwrap();
        let input = |(number, text)| {
            let path = scratch.path().join(format!("input-{number}"));
            fs::write(&path, text).unwrap();
            Input { name: path.into(), is_output: false }
        };
        let inputs = texts.iter().enumerate().map(input).collect();
        let options = EngineOptions {
            memory: Some(1),
            directories: vec![scratch.path().to_owned()],
            compress: None,
            terminator: b'\n',
            unique: false,
            merge: false,
            batch_size: None,
            parallel: Some(2),
        };
        Case { scratch, inputs, options }
    }

    fn output(&self) -> PathBuf {
        self.scratch.path().join("output")
    }

    fn run_to(&self, order: &Order, path: &Path, most_kept: usize) -> SortResult<()> {
        let tool = Tool::new("sort", &IoArgs::default());
        let mut output = |how: &StreamOptions| {
            let file = fs::OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
            tool.output_with(file.into(), path, how)
        };
        let descriptors = Descriptors { kept: most_kept, read: 1 << 13, few: false };
        sort_with(&tool, &self.inputs, order, &self.options, descriptors, &mut output)
    }

    fn run(&self, order: &Order) -> Vec<u8> {
        self.run_to(order, &self.output(), 1 << 10).unwrap();
        fs::read(self.output()).unwrap()
    }
}

/// The expected output: the same lines sorted in memory.
fn expected(texts: &[Vec<u8>], order: &Order, options: &EngineOptions) -> Vec<u8> {
    let terminator = options.terminator;
    let mut lines: Vec<&[u8]> = Vec::new();
    for text in texts.iter().filter(|text| !text.is_empty()) {
        let whole = text.strip_suffix(&[terminator]).unwrap_or(text);
        lines.extend(whole.split(|byte| *byte == terminator));
    }
    lines.sort_by(|a, b| order.compare(a, b));
    if options.unique {
        lines.dedup_by(|b, a| order.same(a, b));
    }
    lines.iter().flat_map(|line| [*line, &[terminator]].concat()).collect()
}

fn check(texts: &[Vec<u8>], order: &Order, change: impl FnOnce(&mut EngineOptions)) {
    let mut case = Case::new(texts);
    change(&mut case.options);
    let found = case.run(order);
    let wanted = expected(texts, order, &case.options);
    assert_eq!(found.len(), wanted.len());
    let differs = found.iter().zip(&wanted).position(|(a, b)| a != b);
    assert_eq!(differs, None, "{order:?} {:?}", case.options);
    let left: Vec<_> = fs::read_dir(case.scratch.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left.len(), texts.len() + 1, "only inputs and the output: {left:?}");
}

/// One order of each kind that the engine treats differently. With `unique`, none has a last
/// resort.
fn orders(unique: bool) -> Vec<Order> {
    let span = Span { skip_first: true, ..WHOLE };
    let key = |reverse| SortKey {
        span: span.clone(),
        kind: KeyKind::Numeric,
        view: View::default(),
        reverse,
    };
    vec![
        Order::bytes(false),
        Order::bytes(true),
        Order::by_keys(vec![key(false)], Separator::Blanks, true, false),
        Order::by_keys(vec![key(true)], Separator::Blanks, unique, true),
    ]
}

/// Makes lines of about `bytes` in all. Their lengths and contents are chosen anew for each text.
fn text(rng: &mut Rng, bytes: usize, terminator: u8) -> Vec<u8> {
    let longest = *rng.pick(&[1, 4, 30, 300, 20_000]);
    let start = *rng.pick(&["", "", "a beginning that all lines have in common, ", "17"]);
    let alphabet = *rng.pick::<&[u8]>(&[b"0123456789", b"ab", b"\0\x01\xff\n ", b"-.0 1x"]);
    let mut text = Vec::new();
    while text.len() < bytes {
        text.extend_from_slice(start.as_bytes());
        let length = rng.range_usize(0..longest + 1);
        text.extend((0..length).map(|_| *rng.pick(alphabet)));
        text.push(terminator);
    }
    if rng.bool(0.5) {
        text.pop();
    }
    text
}

#[test]
fn the_output_is_that_of_sorting_in_memory() {
    let seed = Seed::new();
    for round in 0..12 {
        let mut rng = seed.stream(round);
        let terminator = *rng.pick(&[b'\n', b'\n', 0]);
        let count = rng.range_usize(1..5);
        let texts: Vec<Vec<u8>> = (0..count)
            .map(|_| {
                let bytes = *rng.pick(&[0, 1, 5000, 60_000, 400_000]);
                text(&mut rng, bytes, terminator)
            })
            .collect();
        let (unique, memory) = (rng.bool(0.3), *rng.pick(&[1, 1, 300_000, 1 << 30]));
        let (parallel, batch_size) = (*rng.pick(&[1, 2, 5]), *rng.pick(&[None, Some(2), Some(3)]));
        for order in orders(unique) {
            check(&texts, &order, |options| {
                (options.terminator, options.unique, options.memory) =
                    (terminator, unique, Some(memory));
                (options.parallel, options.batch_size) = (Some(parallel), batch_size);
            });
        }
    }
}

#[test]
fn nothing_at_all_is_sorted_too() {
    for texts in [
        vec![vec![]],
        vec![vec![], vec![]],
        vec![b"\n".to_vec()],
        vec![b"x".to_vec(), vec![], b"a".to_vec()],
    ] {
        check(&texts, &Order::bytes(false), |_| {});
        check(&texts, &Order::bytes(false), |options| options.merge = true);
    }
}

#[test]
fn lines_longer_than_the_memory_are_sorted() {
    let line = |byte: u8, length| [vec![byte; length], b"\n".to_vec()].concat();
    let long =
        [line(b'b', 700_000), line(b'a', 300_000), line(b'c', 10), line(b'b', 699_999)].concat();
    let texts = [long, b"short\n".repeat(40_000), vec![b'a'; 299_999]];
    for order in orders(false) {
        check(&texts, &order, |_| {});
    }
}

#[test]
fn sorted_inputs_are_merged_in_as_many_passes_as_needed() {
    let seed = Seed::new();
    let mut rng = seed.stream(1);
    for unique in [false, true] {
        for order in orders(unique) {
            let mut sorted =
                || expected(&[text(&mut rng, 9000, b'\n')], &order, &Case::new(&[]).options);
            let texts: Vec<Vec<u8>> = (0..23).map(|_| sorted()).collect();
            for batch_size in [None, Some(2), Some(4)] {
                check(&texts, &order, |options| {
                    (options.merge, options.unique, options.batch_size) =
                        (true, unique, batch_size);
                });
            }
        }
    }
}

#[test]
fn the_output_may_be_one_of_the_merged_inputs() {
    let texts = [b"a\nc\n".to_vec(), b"b\nd\n".to_vec()];
    let mut case = Case::new(&texts);
    case.options.merge = true;
    case.inputs[1].is_output = true;
    let path = PathBuf::from(&case.inputs[1].name);
    case.run_to(&Order::bytes(false), &path, 10).unwrap();
    assert_eq!(fs::read(path).unwrap(), b"a\nb\nc\nd\n");
}

#[test]
fn runs_are_merged_early_where_few_files_can_be_open() {
    let mut rng = Seed::new().stream(0);
    let texts = [text(&mut rng, 500_000, b'\n'), b"17\n017\n17.0\n".repeat(10_000)];
    for order in orders(false) {
        let case = Case::new(&texts);
        case.run_to(&order, &case.output(), 4).unwrap();
        assert!(
            fs::read(case.output()).unwrap() == expected(&texts, &order, &case.options),
            "{order:?}"
        );
    }
}

#[test]
fn runs_go_through_a_program() {
    let mut rng = Seed::new().stream(0);
    let texts = [text(&mut rng, 300_000, b'\n')];
    check(&texts, &Order::bytes(false), |options| options.compress = Some("gzip".into()));
}

#[test]
fn what_fails_is_told_with_its_place() {
    let texts = [b"some line\n".repeat(50_000)];
    let order = Order::bytes(false);
    let outcome = |change: &dyn Fn(&mut Case)| {
        let mut case = Case::new(&texts);
        change(&mut case);
        let outcome = case.run_to(&order, &case.output(), 10);
        assert!(!case.output().exists(), "the output is not touched before all is read");
        outcome.unwrap_err()
    };
    let missing = Path::new("/no/such/directory");
    let failure = outcome(&|case| case.options.directories = vec![missing.into()]);
    assert!(
        matches!(&failure, SortFailure::Create { directory, .. } if directory == missing),
        "{failure:?}"
    );
    let failure = outcome(&|case| case.options.compress = Some("no-such-program".into()));
    assert!(matches!(failure, SortFailure::Start { .. }), "{failure:?}");
    let failure = outcome(&|case| case.options.compress = Some("false".into()));
    assert!(matches!(failure, SortFailure::Program { decompress: false, .. }), "{failure:?}");
    let failure = outcome(&|case| case.inputs[0].name = missing.into());
    assert!(matches!(failure, SortFailure::Input { .. }), "{failure:?}");
    let failure = outcome(&|case| case.inputs[0].name = "/".into());
    assert!(matches!(failure, SortFailure::Read { .. }), "{failure:?}");
}
