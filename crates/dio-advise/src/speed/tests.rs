use std::collections::BTreeMap;
use std::time::Duration;

use super::*;

fn cost(operation: Operation, bytes: u64, threads: u32, seconds: f64) -> Cost {
    let tool = String::new();
    let (low, high) = (seconds / 2.0, seconds * 2.0);
    Cost { operation, tool, bytes, threads, seconds, low, high, cpu_seconds: seconds }
}

#[test]
fn costs_between_sizes_lie_on_a_line() {
    let costs = [
        cost(Operation::ReadAtRandom, 64 << 10, 1, 200e-6),
        cost(Operation::ReadAtRandom, 4 << 10, 1, 100e-6),
        cost(Operation::ReadAtRandom, 4 << 10, 16, 10e-6),
    ];
    let low = CostTable::new(&costs, "", Level::Low);
    assert!((low.seconds(Operation::ReadAtRandom, 4096).unwrap() - 50e-6).abs() < 1e-12);
    let table = CostTable::new(&costs, "", Level::Median);
    let seconds = |bytes| table.seconds(Operation::ReadAtRandom, bytes).unwrap();
    assert!((seconds(1) - 100e-6).abs() < 1e-12);
    assert!((seconds(34 << 10) - 150e-6).abs() < 1e-12);
    assert!((seconds(128 << 10) - 400e-6).abs() < 1e-12);
    assert!((table.occupied(Operation::ReadAtRandom, 4096).unwrap() - 10e-6).abs() < 1e-12);
    assert_eq!(table.seconds(Operation::Copy, 1), None);
}

#[test]
fn rounds_give_median_and_range() {
    let round = |seconds| {
        let operation = Operation::Open;
        let tool = String::new();
        vec![LoadTimes { operation, tool, bytes: 0, threads: 1, seconds, cpu_seconds: 1.0 }]
    };
    let costs = costs_of_rounds(&[round(3.0), round(1.0), round(2.0)]);
    assert_eq!((costs[0].low, costs[0].seconds, costs[0].high), (1.0, 2.0, 3.0));
}

#[test]
fn profiles_come_back_and_others_are_refused() {
    let mut profile = Profile {
        version: PROFILE_VERSION,
        measured: 1,
        kernel: "6.18".into(),
        processors: 2,
        memory: 1 << 34,
        disk: "vda, ext4".into(),
        device: 7,
        machine: "one".into(),
        ways: BTreeMap::from([(Way::Cached, vec![cost(Operation::Open, 0, 1, 1e-6)])]),
    };
    let text = |profile: &Profile| serde_json::to_vec(profile).unwrap();
    assert_eq!(Profile::read(&text(&profile)).unwrap(), profile);
    profile.version = 99;
    assert!(matches!(Profile::read(&text(&profile)), Err(ProfileError::Version(99))));
    profile.version = PROFILE_VERSION;
    profile.ways.get_mut(&Way::Cached).unwrap()[0].seconds = -1.0;
    assert!(matches!(Profile::read(&text(&profile)), Err(ProfileError::Cost(_))));
    profile.ways.insert(Way::Cached, Vec::new());
    assert!(matches!(Profile::read(&text(&profile)), Err(ProfileError::Cost(_))));
    profile.ways.clear();
    assert!(matches!(Profile::read(&text(&profile)), Err(ProfileError::Cost(_))));
    assert!(matches!(Profile::read(b"{}"), Err(ProfileError::Text(_))));
}

#[test]
fn every_load_is_measured_and_leaves_nothing() {
    let dir = tempfile::tempdir_in(".").unwrap();
    let extent = Extent { limit: Duration::from_millis(2), part: 64 };
    prepare(dir.path(), extent, &|| false).unwrap();
    let before = std::fs::read_dir(dir.path()).unwrap().count();
    let times = measure(dir.path(), extent, &[]).unwrap();
    assert!(times.iter().all(|times| times.seconds > 0.0), "{times:?}");
    let tool = measure_tool(dir.path()).unwrap();
    assert_eq!(tool.len(), 2);
    evict(dir.path(), extent).unwrap();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), before);
}
