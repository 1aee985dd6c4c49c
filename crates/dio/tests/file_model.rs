//! Files against a plain vector: any mix of reads, writes and truncates, in every mode.

use dio::{Mode, OpenOptions};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Read { offset: u64, len: usize, shift: usize },
    Write { offset: u64, len: usize, shift: usize, fill: u8 },
    Resize { size: u64 },
    Sync,
}

const END: u64 = 300_000;

fn place() -> impl Strategy<Value = u64> {
    prop_oneof![0..END, (0..END / 512).prop_map(|block| block * 512), (0..END / 4096).prop_map(|block| block * 4096)]
}

fn step() -> impl Strategy<Value = Step> {
    let shift = prop_oneof![Just(0usize), Just(512), 0usize..5000];
    prop_oneof![
        4 => (place(), place(), shift.clone()).prop_map(|(offset, len, shift)| Step::Read { offset, len: len as usize / 2, shift }),
        4 => (place(), place(), shift, 1u8..).prop_map(|(offset, len, shift, fill)| Step::Write { offset, len: len as usize / 2, shift, fill }),
        1 => place().prop_map(|size| Step::Resize { size }),
        1 => Just(Step::Sync),
    ]
}

fn run(mode: Mode, steps: &[Step]) {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = dir.path().join("file");
    let file = OpenOptions::new().read(true).write(true).create(true).mode(mode).open(&path).unwrap();
    let mut model: Vec<u8> = Vec::new();
    let mut memory = vec![0u8; 4096 + END as usize + 5000];
    let base = memory.as_ptr().align_offset(4096);
    for step in steps {
        match *step {
            Step::Read { offset, len, shift } => {
                let buffer = &mut memory[base + shift % 4096..][..len];
                buffer.fill(0xee);
                let count = file.read_at(buffer, offset).unwrap();
                let start = (offset as usize).min(model.len());
                let expected = &model[start..(start + len).min(model.len())];
                assert_eq!(count, expected.len(), "{step:?} of {}", model.len());
                assert!(buffer[..count] == *expected, "{step:?} of {}", model.len());
            }
            Step::Write { offset, len, shift, fill } => {
                let buffer = &mut memory[base + shift % 4096..][..len];
                for (index, byte) in buffer.iter_mut().enumerate() {
                    *byte = fill.wrapping_add((index / 511) as u8);
                }
                file.write_at(buffer, offset).unwrap();
                if len > 0 {
                    let end = offset as usize + len;
                    model.resize(model.len().max(end), 0);
                    model[offset as usize..end].copy_from_slice(buffer);
                }
            }
            Step::Resize { size } => {
                file.set_size(size).unwrap();
                model.resize(size as usize, 0);
            }
            Step::Sync => file.sync_data().unwrap(),
        }
        assert_eq!(file.size().unwrap(), model.len() as u64, "{step:?}");
    }
    drop(file);
    assert!(std::fs::read(&path).unwrap() == model);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    #[test]
    fn any_mix_matches_a_vector(steps in prop::collection::vec(step(), 1..30), which in 0usize..4) {
        run([Mode::Direct, Mode::Concurrent, Mode::Uncached, Mode::Cached][which], &steps);
    }
}
