//! Probes of real paths.

use super::*;
use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::geometry::Directness;

#[test]
fn a_disk_directory_is_probed_and_left_as_it_was() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let report = probe(directory.path()).unwrap();
    assert_eq!(report.kind, Kind::Directory);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    let Ok(geometry) = report.geometry else {
        panic!("a writable directory has a geometry: {:?}", report.geometry);
    };
    if geometry.directness() != Directness::Reported {
        return println!("skipped: /var/tmp reports no alignment for direct I/O");
    }
    assert_eq!(report.trials.open_direct, Answer::Yes);
    assert_eq!(report.trials.read_direct, Answer::Yes);
    assert_eq!(report.trials.write_direct, Answer::Yes);
    let rates = report.trials.overwrites.rates;
    assert!(rates.is_none_or(|rates| rates.one > 0.0 && rates.together > 0.0));
    assert!(report.mount.is_some());
}

#[test]
fn memory_is_never_direct() {
    let Ok(directory) = tempfile::tempdir_in("/dev/shm") else {
        return println!("skipped: no /dev/shm");
    };
    let report = probe(directory.path()).unwrap();
    if !report.file_system.is_some_and(FileSystem::is_memory) {
        return println!("skipped: /dev/shm is not in memory");
    }
    assert!(matches!(report.trials.write_direct, Answer::No(_)));
    assert!(matches!(report.trials.read_direct, Answer::No(_)));
    assert!(matches!(report.trials.uncached_new, Answer::No(_)));
    assert!(report.device.is_err());
    assert_eq!(report.trials.overwrites.rates, None);
}

#[test]
fn a_file_keeps_its_content_and_gets_no_pages() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = directory.path().join("file");
    let content: Vec<u8> = (0..3_000_001_u32).map(|number| number as u8).collect();
    let file = File::create(&path).unwrap();
    file.write_all_at(&content, 0).unwrap();
    file.sync_all().unwrap();
    crate::residency::evict(&file, 0..u64::MAX).unwrap();
    let before = crate::residency::resident_pages(&file).unwrap();
    let report = probe(&path).unwrap();
    assert_eq!(crate::residency::resident_pages(&file).unwrap(), before);
    assert_eq!(report.kind, Kind::File);
    assert!(matches!(report.trials.write_direct, Answer::Unknown(_)));
    if report.geometry.unwrap().directness() == Directness::Reported && before == 0 {
        assert_eq!(report.trials.read_direct, Answer::Yes);
    }
    assert_eq!(std::fs::read(&path).unwrap(), content);
}

#[test]
fn a_cached_file_is_not_judged_by_reading_it() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, vec![1; 65536]).unwrap();
    let report = probe(&path).unwrap();
    assert!(!matches!(report.trials.read_direct, Answer::Yes));
    std::fs::write(&path, b"short").unwrap();
    let report = probe(&path).unwrap();
    assert!(!matches!(report.trials.read_direct, Answer::Yes));
}

#[test]
fn pipes_and_missing_paths_are_errors() {
    assert!(matches!(probe(Path::new("/dev/null")), Err(ProbeError::NoStorage { .. })));
    assert!(matches!(probe(Path::new("/var/tmp/no/such/path")), Err(ProbeError::Open { .. })));
}

#[test]
fn words_have_no_number() {
    let error = io::Error::from_raw_os_error(libc::ENOENT);
    assert_eq!(words(&error), "No such file or directory");
}
