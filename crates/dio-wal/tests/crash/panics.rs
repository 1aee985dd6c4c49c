//! A panic in a storage or in a callback is a failure that every waiting thread gets, and no thread
//! waits forever.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::channel;
use std::time::Duration;

use dio_wal::{Log, Method, Options, WalError};

use crate::disk::{Disk, Faults, Image};

/// Longer than any operation here takes.
const EVER: Duration = Duration::from_secs(60);

fn open(disk: &Disk, background: bool) -> Log {
    let mut options = Options::new();
    options.segment(16 << 10).buffer(4 << 10).idle_mark(None).prepare_in_background(background);
    Log::open_on(disk.storage(), options.write_behind(if background { 2 } else { 0 })).unwrap()
}

#[test]
fn a_panic_amidst_io_fails_every_commit() {
    for (what, background) in
        ["write", "sync", "segment"].into_iter().flat_map(|what| [(what, false), (what, true)])
    {
        let disk = Disk::new(Image::default(), Method::Fdatasync, 512, false, 1);
        let log = open(&disk, background);
        log.commit(log.append(&[1; 100]).unwrap()).unwrap();
        let (ended, ends) = channel();
        std::thread::scope(|scope| {
            for _ in 0..6 {
                let (log, ended) = (&log, ended.clone());
                scope.spawn(move || {
                    let work = || loop {
                        let committed = log.append(&[2; 900]).and_then(|lsn| log.commit(lsn));
                        if let Err(error) = committed {
                            return error;
                        }
                    };
                    // The thread whose I/O panicked itself panics.
                    ended.send(catch_unwind(AssertUnwindSafe(work)).ok()).unwrap();
                });
            }
            std::thread::sleep(Duration::from_millis(20));
            disk.set_faults(Faults { panics: Some(what), ..Faults::default() });
            let outcomes: Vec<Option<WalError>> = (0..6)
                .map(|_| ends.recv_timeout(EVER).unwrap_or_else(|_| std::process::abort()))
                .collect();
            let failed = outcomes
                .iter()
                .flatten()
                .filter(|error| matches!(error, WalError::Failed { .. }))
                .count();
            // The threads whose own I/O panicked. A group and a new segment may be in progress at
            // the same time.
            let (panicked, panics) =
                (outcomes.iter().filter(|outcome| outcome.is_none()).count(), disk.panics());
            assert!(
                panicked <= panics.min(2) && panics > 0,
                "{what} {background}: {panics} panics, {outcomes:?}"
            );
            assert_eq!(
                failed,
                outcomes.iter().flatten().count(),
                "{what} {background}: {outcomes:?}"
            );
        });
        let (told, tells) = channel();
        // A record that is appended in memory does not become durable any more.
        if let Ok(lsn) = log.append(b"more") {
            log.commit_later(lsn, move |outcome| told.send(outcome).unwrap()).unwrap();
            assert!(
                matches!(tells.recv_timeout(EVER), Ok(Err(WalError::Failed { .. }))),
                "{what} {background}"
            );
        }
        drop(log);
        disk.set_faults(Faults::default());
        assert!(open(&disk, background).recovery().records > 0);
    }
}

#[test]
fn a_callback_that_panics_harms_nobody() {
    let disk = Disk::new(Image::default(), Method::Fdatasync, 512, false, 1);
    let log = open(&disk, true);
    for _ in 0..3 {
        let lsn = log.append(&[1; 100]).unwrap();
        log.commit_later(lsn, |_| panic!("a callback that panics, as it was asked to")).unwrap();
        let lsn = log.append(&[2; 100]).unwrap();
        let (told, tells) = channel();
        log.commit_later(lsn, move |outcome| told.send(outcome).unwrap()).unwrap();
        assert!(matches!(tells.recv_timeout(EVER), Ok(Ok(()))));
    }
    log.commit(log.append(&[3; 100]).unwrap()).unwrap();
    log.close().unwrap();
}
