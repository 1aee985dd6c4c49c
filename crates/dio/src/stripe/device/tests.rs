use std::fs::{File as Plain, OpenOptions as PlainOptions};

use dio_test::{LoopDevice, Rng, Seed, file_systems};
use proptest::prelude::*;

use super::*;
use crate::stripe::stamp::{Phase, STAMP_AT, STAMP_LEN, Stamp};
use crate::stripe::{Descriptor, StripePlan, create, inspect, remove};
use crate::{File, Mode, OpenOptions};

proptest! {
    /// Pieces in any order, some twice, some in parts: the length is what a map of all bytes says.
    #[test]
    fn what_arrives_counts_when_all_before_it_has(
        start in 0u64..5,
        pieces in prop::collection::vec((0u64..60, 1u64..12), 1..40),
        cut in prop::option::of((0usize..40, 0u64..70)),
    ) {
        let mut length = DeviceLength { now: start, ..DeviceLength::default() };
        let mut there = [false; 100];
        there[..start as usize].fill(true);
        for (number, (at, len)) in pieces.into_iter().enumerate() {
            if let Some((_, size)) = cut.filter(|(when, _)| *when == number) {
                length.set(size);
                there.fill(false);
                there[..size as usize].fill(true);
            }
            let before = length.now;
            let grew = length.arrived(at..at + len);
            there[at as usize..(at + len) as usize].fill(true);
            let reached = there.iter().position(|there| !there).unwrap() as u64;
            prop_assert_eq!(length.now, reached);
            prop_assert_eq!(grew, reached > before);
            prop_assert!(length.ahead.iter().all(|range| range.start > length.now
                && !range.is_empty()));
            prop_assert!(length.ahead.windows(2).all(|pair| pair[0].end < pair[1].start));
        }
    }
}

struct Rig {
    devices: Vec<LoopDevice>,
    scratch: tempfile::TempDir,
    descriptor: Descriptor,
}

impl Rig {
    fn new() -> Option<Rig> {
        let scratch = file_systems()[0].dir();
        let device = |name| LoopDevice::new(&scratch.path().join(name), 8 << 20, 512);
        let devices = vec![device("0")?, device("1")?];
        let targets = devices.iter().map(|device| device.path().to_owned()).collect();
        let plan = StripePlan { stripe: Some(4096), count: None, targets, force: true };
        let descriptor = create(scratch.path().join("file"), &plan).unwrap();
        Some(Rig { devices, scratch, descriptor })
    }

    fn path(&self) -> PathBuf {
        self.scratch.path().join("file")
    }

    fn open(&self) -> File {
        OpenOptions::new().read(true).write(true).open(self.path()).unwrap()
    }

    fn device(&self, index: usize) -> Plain {
        PlainOptions::new().read(true).write(true).open(self.devices[index].path()).unwrap()
    }

    /// The record, as another process reads it.
    fn record(&self, index: usize) -> LengthRecord {
        read_record(self.device(index), self.descriptor.id, self.descriptor.layout.start()).unwrap()
    }

    /// Returns the bytes that reached the devices, as another system would find them after a power
    /// cut. Bytes in the devices' page caches are lost, except the records, which the kernel may
    /// write back at any time.
    fn after_a_power_cut(&self) -> Vec<u8> {
        (0..2).for_each(|index| {
            dio_sys::sync_file_range(self.device(index).as_fd(), 0..RECORD_AT * 2).unwrap()
        });
        let (layout, mut bytes) = (self.descriptor.layout, Vec::new());
        let images = ["0", "1"].map(|name| fs::read(self.scratch.path().join(name)).unwrap());
        let record = |image: &Vec<u8>| {
            LengthRecord::decode(&image[RECORD_AT as usize..][..RECORD_LEN as usize]).unwrap()
        };
        let size = layout.size(images.iter().map(|image| record(image).length_in("another")));
        while bytes.len() < size as usize {
            let extent = layout.locate(bytes.len() as u64);
            let len = (extent.len as usize).min(size as usize - bytes.len());
            bytes.extend(&images[extent.object][extent.offset as usize..][..len]);
        }
        bytes
    }

    /// The stamps are those of a session of writing that a power cut has ended.
    fn interrupt_session(&self) {
        let start = self.descriptor.layout.start();
        for index in 0..2 {
            let (device, mut bytes) = (self.device(index), [0; STAMP_LEN as usize]);
            device.read_exact_at(&mut bytes, STAMP_AT).unwrap();
            let closed = Stamp::decode(&bytes).unwrap();
            let open = Stamp {
                phase: Phase::Open,
                durable: start,
                length: start,
                boot: "another".into(),
                ..closed
            };
            device.write_all_at(&open.encode().unwrap(), STAMP_AT).unwrap();
        }
    }

    fn contents(&self) -> Vec<u8> {
        let file = File::open(self.path()).unwrap();
        let mut bytes = vec![1; file.size().unwrap() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }
}

/// Other processes see each write; what was synced is what counts when another system finds the
/// device.
#[test]
fn the_record_has_what_is_seen_and_what_was_synced() {
    let Some(rig) = Rig::new() else { return };
    let (start, bytes) = (rig.descriptor.layout.start(), Rng::new(3).bytes(300_000));
    let file = rig.open();
    file.write_at(&bytes[..100_000], 0).unwrap();
    let share = |index, size| rig.descriptor.layout.object_size(index, size);
    for index in 0..2 {
        let record = rig.record(index);
        assert_eq!((record.durable, record.length_in(&BOOT_ID)), (start, share(index, 100_000)));
    }
    file.sync_data().unwrap();
    file.write_at(&bytes[100_000..], 100_000).unwrap();
    for index in 0..2 {
        let record = rig.record(index);
        assert_eq!((record.durable, record.length), (share(index, 100_000), share(index, 300_000)));
        assert_eq!(record.length_in("another"), share(index, 100_000));
    }
    file.set_size(50_000).unwrap();
    assert_eq!(rig.record(1).length_in("another"), share(1, 50_000));
    file.write_at(&bytes[50_000..], 50_000).unwrap();
    // The last who closes it makes it durable.
    drop(file);
    assert_eq!(rig.record(0).length_in("another"), share(0, 300_000));
    assert!(rig.contents() == bytes);
}

/// Another system finds what was synced, and nothing behind: what was written there does not come
/// back when the file grows.
#[test]
fn after_a_power_cut_the_file_has_what_was_synced() {
    let Some(rig) = Rig::new() else { return };
    let bytes = Rng::new(4).bytes(300_000);
    rig.open().write_at(&bytes, 0).unwrap();
    let (layout, device) = (rig.descriptor.layout, rig.device(1));
    let record = LengthRecord {
        durable: layout.object_size(1, 100_000),
        boot: "another".into(),
        ..rig.record(1)
    };
    let reached = layout.size([layout.object_size(0, 300_000), record.durable]) as usize;
    device.write_all_at(&record.encode().unwrap(), RECORD_AT).unwrap();
    rig.interrupt_session();
    assert!(rig.contents() == bytes[..reached]);
    let report = inspect(rig.path()).unwrap().unwrap();
    assert!(report.is_sound() && report.has_surplus() && report.size == reached as u64);
    let file = rig.open();
    file.set_size(250_001).unwrap();
    file.write_at(b"end", 270_000).unwrap();
    drop(file);
    let expected = [&bytes[..reached], &vec![0; 270_000 - reached], b"end"].concat();
    assert!(rig.contents() == expected, "bytes of before the power cut came to light");
}

#[test]
fn a_record_that_is_none_is_an_error_that_names_the_device() {
    let Some(rig) = Rig::new() else { return };
    rig.open().write_at(&[1; 50_000], 0).unwrap();
    let (sound, mut rng) = (rig.record(1), Seed::new().rng());
    let other = LengthRecord { id: Id([9; 16]), ..sound.clone() }.encode().unwrap();
    let early = LengthRecord { durable: 100, ..sound.clone() }.encode().unwrap();
    let long =
        LengthRecord { durable: 1 << 40, length: 1 << 40, ..sound.clone() }.encode().unwrap();
    let torn = [&sound.encode().unwrap()[..256], &[LoopDevice::GARBAGE; 256]].concat();
    let redirects = [
        (rng.bytes(512), Errno::BADMSG, "length record"),
        (torn, Errno::BADMSG, "checksum"),
        (vec![0; 512], Errno::BADMSG, "length record"),
        (other, Errno::STALE, "of another file"),
        (early, Errno::BADMSG, "makes no sense"),
        (long, Errno::STALE, "shorter than what it held"),
    ];
    for (bytes, errno, what) in redirects {
        rig.device(1).write_all_at(&bytes, RECORD_AT).unwrap();
        for write in [false, true] {
            let error = OpenOptions::new().read(true).write(write).open(rig.path()).unwrap_err();
            let text = error.to_string();
            assert!(text.contains(what) && text.contains(rig.devices[1].name()), "{text}");
            assert_eq!(error.errno(), errno, "{text}");
        }
        assert!(!inspect(rig.path()).unwrap().unwrap().is_sound());
    }
    // While it is open, a reader is told too.
    rig.device(1).write_all_at(&sound.encode().unwrap(), RECORD_AT).unwrap();
    let file = File::open(rig.path()).unwrap();
    rig.device(1).write_all_at(&[0; 512], RECORD_AT).unwrap();
    let error = file.read_at(&mut [0; 50_000], 0).unwrap_err();
    assert!(error.to_string().contains(rig.devices[1].name()), "{error}");
}

/// What is removed while it is open keeps its bytes until that is over, and then the device is
/// free.
#[test]
fn a_removed_file_stays_as_long_as_it_is_open() {
    let Some(rig) = Rig::new() else { return };
    let (writer, reader) = (rig.open(), File::open(rig.path()).unwrap());
    writer.write_at(&[7; 50_000], 0).unwrap();
    remove(rig.path()).unwrap();
    writer.write_at(&[8; 50_000], 50_000).unwrap();
    drop(writer);
    let mut bytes = vec![0; 100_000];
    reader.read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes == [[7; 50_000], [8; 50_000]].concat());
    drop(reader);
    assert!(is_empty(&rig.device(0)).unwrap() && is_empty(&rig.device(1)).unwrap());
    let targets = rig.devices.iter().map(|device| device.path().to_owned()).collect();
    create(rig.path(), &StripePlan { targets, ..StripePlan::default() }).unwrap();
}

/// A device that is full is named with the first byte that is missing; nothing grows where a size
/// does not fit.
#[test]
fn a_full_device_is_named_with_the_first_byte_that_is_missing() {
    let Some(rig) = Rig::new() else { return };
    let (layout, file) = (rig.descriptor.layout, rig.open());
    let most = layout.size([8 << 20, 8 << 20]);
    for refused in [
        file.set_size(most + 1),
        file.allocate(0..most + 4097, true),
        file.allocate(most..most + 1, false),
    ] {
        let text = refused.unwrap_err().to_string();
        assert!(text.contains("No space left") && text.contains(rig.devices[0].name()), "{text}");
        assert_eq!(file.size().unwrap(), 0);
    }
    let bytes = Rng::new(5).bytes(most as usize + 50_000);
    let error = file.write_at(&bytes, 0).unwrap_err();
    assert_eq!((error.errno(), error.offset()), (Errno::NOSPC, Some(most)), "{error}");
    assert!(error.to_string().contains(rig.devices[0].name()), "{error}");
    drop(file);
    assert!(rig.contents() == bytes[..most as usize]);
}

/// A file that grows and is cut off, in every mode, and power cuts at every moment: what was synced
/// last is there, less where it was cut off since, and no byte that was not written.
#[test]
fn what_the_devices_were_given_is_what_was_synced() {
    let Some(rig) = Rig::new() else { return };
    let seed = Seed::new();
    let mut rng = seed.rng();
    for mode in
        [Mode::Direct, Mode::Concurrent, Mode::Uncached, Mode::Cached].into_iter().cycle().take(8)
    {
        let file = OpenOptions::new().read(true).write(true).mode(mode).open(rig.path()).unwrap();
        file.set_size(0).unwrap();
        let (mut model, mut durable) = (Vec::new(), 0);
        for step in 0..30 {
            match rng.range(0..6) {
                0 | 1 => {
                    let (gap, len) = (
                        rng.range_usize(0..2) * rng.range_usize(0..30_000),
                        rng.range_usize(1..40_000),
                    );
                    let bytes = rng.bytes(len);
                    model.resize(model.len() + gap, 0);
                    file.write_at(&bytes, model.len() as u64).unwrap();
                    model.extend(bytes);
                }
                2 => {
                    let size = rng.range_usize(0..model.len() + 1);
                    file.set_size(size as u64).unwrap();
                    model.truncate(size);
                    durable = durable.min(size);
                }
                3 => {
                    model.resize(model.len() + rng.range_usize(0..50_000), 0);
                    file.set_size(model.len() as u64).unwrap();
                }
                4 => {
                    file.sync_data().unwrap();
                    durable = model.len();
                }
                _ => {
                    let left = rig.after_a_power_cut();
                    // Cutting off makes what stays durable, at times.
                    let sound = (durable..=model.len()).contains(&left.len());
                    assert!(
                        sound,
                        "{mode:?}, step {step}: {} of {durable} to {}",
                        left.len(),
                        model.len()
                    );
                    let differs = left.iter().zip(&model).position(|(one, other)| one != other);
                    assert_eq!(
                        differs,
                        None,
                        "{mode:?}, step {step}: a wrong byte of {}",
                        left.len()
                    );
                }
            }
        }
        drop(file);
        assert!(rig.after_a_power_cut() == model && rig.contents() == model, "{mode:?}: closed");
    }
}
