//! Tests of the judgement: disks of many kinds, each with typical measurements.

use super::*;

fn disk(rotational: bool, volatile: bool) -> StorageFacts {
    StorageFacts {
        file_system: Some("ext4".into()),
        mount_options: vec!["rw".into(), "relatime".into()],
        disk: Some(Disk {
            name: if rotational { "sda" } else { "nvme0n1" }.into(),
            model: Some("A Disk".into()),
            rotational: Some(rotational),
            volatile_cache: Some(volatile),
            fua: Some(true),
            queued: true,
            ..Disk::default()
        }),
        ..StorageFacts::default()
    }
}

/// Measurements: the time of a sync of one block, and the times of flushes after nothing and after
/// 64 MiB.
fn measured(sync: f64, nothing: f64, much: f64) -> Measured {
    let place = SamePlace {
        syncs: 1000,
        per_second: 1.0 / sync,
        p05: sync,
        p50: sync,
        flushes: Some(1000),
    };
    Measured {
        same_place: Some(place),
        flush_after: vec![(0, nothing), (64 << 20, much)],
        direct: true,
    }
}

#[track_caller]
fn judged(
    facts: &StorageFacts,
    measured: &Measured,
    verdict: Verdict,
    confidence: Confidence,
) -> Honesty {
    let honesty = judge(facts, measured);
    assert_eq!((honesty.verdict, honesty.confidence), (verdict, confidence), "{honesty:#?}");
    assert!(!honesty.reason.is_empty() && !honesty.evidence.is_empty());
    // The exit status 3 (`is_a_lie`) and the verdict must agree.
    assert_eq!(honesty.is_a_lie(), verdict == Verdict::Lies);
    assert!(verdict != Verdict::Lies || confidence == Confidence::High);
    honesty
}

#[test]
fn disks_that_turn() {
    use Confidence::{High, Low, Medium};
    use Verdict::{Lies, NothingAgainst, Suspect};
    // 7,200 and 15,000 rpm; the latter rotates slightly too fast.
    judged(&disk(true, true), &measured(1.0 / 120.0, 0.001, 0.4), NothingAgainst, Medium);
    judged(&disk(true, true), &measured(1.0 / 255.0, 0.001, 0.4), NothingAgainst, Medium);
    // Twice the possible speed, and thirty times.
    judged(&disk(true, true), &measured(1.0 / 500.0, 0.001, 0.001), Suspect, Medium);
    let honesty = judged(&disk(true, true), &measured(1.0 / 8000.0, 0.0001, 0.0001), Lies, High);
    assert!(honesty.reason.contains("15,000 rpm"), "{}", honesty.reason);
    // A controller with a battery says that its cache is not volatile.
    let honesty = judged(&disk(true, false), &measured(1.0 / 8000.0, 0.0001, 0.0001), Suspect, Low);
    assert!(honesty.reason.contains("battery"), "{}", honesty.reason);
}

#[test]
fn flash() {
    use Confidence::{Low, Medium};
    use Verdict::{NothingAgainst, Suspect};
    // A consumer disk: a millisecond for a sync, more with more data to flush.
    judged(&disk(false, true), &measured(0.0011, 0.0003, 0.02), NothingAgainst, Medium);
    // A data centre disk: capacitors, no volatile cache.
    let honesty =
        judged(&disk(false, false), &measured(0.000_02, 0.000_004, 0.000_004), NothingAgainst, Low);
    assert!(honesty.reason.contains("word"), "{}", honesty.reason);
    // Reports a volatile cache, but flushes in no time.
    judged(&disk(false, true), &measured(0.000_03, 0.000_01, 0.000_01), Suspect, Medium);
    // Only one of the two indications.
    judged(&disk(false, true), &measured(0.000_03, 0.000_01, 0.01), Suspect, Low);
    judged(&disk(false, true), &measured(0.0009, 0.0003, 0.0003), Suspect, Low);
    // The cost of flushes is unknown if the page cache was involved.
    let buffered = Measured { direct: false, ..measured(0.0009, 0.0003, 0.0003) };
    judged(&disk(false, true), &buffered, NothingAgainst, Medium);
}

#[test]
fn what_is_no_medium_is_never_accused_of_lying() {
    use Confidence::{High, Medium};
    let mut facts = disk(true, true);
    facts.disk.as_mut().unwrap().name = "vda".into();
    let honesty = judged(&facts, &measured(0.0002, 0.0001, 0.0001), Verdict::Unknown, High);
    assert!(honesty.reason.contains("host"), "{}", honesty.reason);
    // The host ignores flushes.
    judged(&facts, &measured(0.000_01, 0.000_005, 0.000_006), Verdict::Suspect, Medium);
    for (name, words) in
        [("loop3", "below its file"), ("dm-0", "each of them"), ("nbd0", "serves it")]
    {
        facts.disk.as_mut().unwrap().name = name.into();
        let honesty = judged(&facts, &measured(0.0002, 0.0001, 0.0001), Verdict::Unknown, High);
        assert!(honesty.reason.contains(words), "{}", honesty.reason);
    }
    facts.disk.as_mut().unwrap().name = "zram0".into();
    judged(&facts, &measured(0.0002, 0.0001, 0.0001), Verdict::NotDurable, High);
}

#[test]
fn in_a_virtual_machine_even_a_disk_with_a_maker_is_not_accused() {
    let facts = StorageFacts { virtual_machine: true, ..disk(true, true) };
    let honesty =
        judged(&facts, &measured(1.0 / 8000.0, 0.0001, 0.0001), Verdict::Suspect, Confidence::Low);
    assert!(honesty.reason.contains("virtual"), "{}", honesty.reason);
}

#[test]
fn what_is_above_the_disk() {
    use Confidence::{High, Medium};
    use Verdict::{NotDurable, NothingAgainst, Unknown};
    let honest = measured(0.0011, 0.0003, 0.02);
    let tmpfs =
        StorageFacts { file_system: Some("tmpfs".into()), disk: None, ..StorageFacts::default() };
    judged(&tmpfs, &measured(0.000_001, 0.0, 0.0), NotDurable, High);
    let network =
        StorageFacts { file_system: Some("nfs4".into()), disk: None, ..StorageFacts::default() };
    judged(&network, &honest, Unknown, High);
    let mut facts = disk(false, true);
    facts.mount_options.push("nobarrier".into());
    judged(&facts, &honest, NotDurable, High);
    // Without a volatile cache there is nothing to flush.
    facts.disk.as_mut().unwrap().volatile_cache = Some(false);
    judged(&facts, &honest, NothingAgainst, Confidence::Low);
    facts.mount_options.push("volatile".into());
    judged(&facts, &honest, NotDurable, High);
    // Syncs that do not become flushes.
    let mut lost = honest.clone();
    lost.same_place.as_mut().unwrap().flushes = Some(0);
    judged(&disk(false, true), &lost, NotDurable, Medium);
    judged(&disk(false, false), &lost, NothingAgainst, Confidence::Low);
    lost.same_place.as_mut().unwrap().flushes = None;
    judged(&disk(false, true), &lost, NothingAgainst, Medium);
    judged(&disk(false, true), &Measured::default(), Unknown, High);
}

#[test]
fn what_counts_no_flushes_is_not_accused_of_leaving_them_out() {
    let mut uncounted = measured(0.0011, 0.0003, 0.02);
    uncounted.same_place.as_mut().unwrap().flushes = Some(0);
    for (name, queued, verdict, confidence) in [
        ("dm-0", false, Verdict::Unknown, Confidence::High),
        ("dm-0", true, Verdict::Unknown, Confidence::High),
        ("md127", false, Verdict::Unknown, Confidence::High),
        ("bcache0", false, Verdict::Unknown, Confidence::High),
        // A multipath device, and a plain disk.
        ("nvme0n1", false, Verdict::NothingAgainst, Confidence::Medium),
        ("nvme0n1", true, Verdict::NotDurable, Confidence::Medium),
    ] {
        let mut facts = disk(false, true);
        facts.disk = facts.disk.map(|disk| Disk { name: name.into(), queued, ..disk });
        judged(&facts, &uncounted, verdict, confidence);
    }
}

#[test]
fn what_the_kernel_does_not_say_is_not_guessed() {
    let honest = measured(0.0011, 0.0003, 0.02);
    let mut facts = disk(false, true);
    facts.disk.as_mut().unwrap().volatile_cache = None;
    judged(&facts, &honest, Verdict::Unknown, Confidence::High);
    facts.disk.as_mut().unwrap().rotational = None;
    judged(&facts, &honest, Verdict::Unknown, Confidence::High);
}
