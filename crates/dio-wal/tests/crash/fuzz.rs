//! Arbitrary bytes: whatever a directory holds, the reader of the format neither panics nor runs
//! endlessly, and every record that it returns was appended, unless its checksum was forged.

use std::collections::HashSet;

use dio_test::{Rng, Seed};
use dio_wal::format::{RECORD_HEADER_BYTES, RecordHeader, SEGMENT_HEADER_BYTES, segment_name};
use dio_wal::{Identity, Log, Lsn, Reader, WalError, salvage};

use crate::disk::Image;
use crate::history::{Found, Setting, read};
use crate::{Told, closed_log};

/// Reads an image in every way that the library offers.
fn read_every_way(setting: &Setting, image: &Image) -> Found {
    let mut found = Vec::new();
    let disk = setting.disk(image.clone(), 7);
    if let Ok(mut reader) = Reader::open_on(disk.storage(), Lsn(0)) {
        while let Ok(Some(record)) = reader.next() {
            found.push((record.lsn.0, record.data.to_vec()));
        }
        let _ = reader.check_end();
    }
    let _ = salvage::<WalError>(disk.storage(), |record| {
        found.push((record.lsn.0, record.data.to_vec()));
        Ok(())
    });
    if let Ok(log) = Log::open_on(disk.storage(), &setting.options()) {
        found.extend(read(&log).unwrap().1);
        let lsn = log.append(b"and on").unwrap();
        log.commit(lsn).unwrap();
    }
    found
}

fn segments(image: &Image) -> Vec<usize> {
    image.names.iter().filter(|(name, _)| name.ends_with(".wal")).map(|(_, file)| *file).collect()
}

/// Changes random bytes, sizes and names.
fn mutate(image: &mut Image, random: &mut Rng) {
    for _ in 0..random.range(1..6) {
        let file = *random.pick(&segments(image));
        let length = image.files[file].len();
        match random.range(0..8) {
            0 => image.files[file].truncate(random.range_usize(0..length + 1)),
            1 => image.files[file].resize(length + random.range_usize(0..5000), 0xee),
            2 if segments(image).len() > 1 => {
                let name = image
                    .names
                    .iter()
                    .find(|(_, other)| **other == file)
                    .map(|(name, _)| name.clone());
                image.names.remove(&name.unwrap());
            }
            3 => drop(
                image.names.insert(segment_name(random.next_u64() >> random.range(0..64)), file),
            ),
            4 if length > 0 => {
                let (at, bits) = (random.range_usize(0..length), random.range(0..8));
                image.files[file][at] ^= 1 << bits;
            }
            5 if length > 0 => {
                let at = random.range_usize(0..length);
                let to = (at + random.range_usize(0..2000)).min(length);
                random.fill(&mut image.files[file][at..to]);
            }
            6 if length > 0 => {
                let (at, from) =
                    (random.range_usize(0..length) & !7, random.range_usize(0..length) & !7);
                let count = random.range_usize(0..600).min(length - at.max(from));
                image.files[file].copy_within(from..from + count, at);
            }
            _ => {}
        }
    }
}

/// Calls `work` with logs of many settings that were closed successfully.
fn with_closed_logs(mut work: impl FnMut(&Setting, &Image, &Found, &mut Rng)) {
    let seed = Seed::new();
    for number in 0..120 {
        let _told = Told(number);
        let mut random = seed.stream(number);
        let setting = Setting::number(number, &mut random);
        let (image, _, appended) = closed_log(&setting, &mut random, 1);
        work(&setting, &image, &appended, &mut random);
    }
}

#[test]
fn mutated_logs_yield_only_what_was_appended() {
    with_closed_logs(|setting, image, appended, random| {
        // Truncated records are included: a segment that was reused may have a copy under its old
        // name that still holds some.
        let known: HashSet<&(u64, Vec<u8>)> = appended.iter().collect();
        assert!(read_every_way(setting, image).iter().all(|record| known.contains(record)));
        for _ in 0..20 {
            let mut mutated = image.clone();
            mutate(&mut mutated, random);
            for record in read_every_way(setting, &mutated) {
                assert!(
                    known.contains(&record),
                    "record {} of {} bytes was made up",
                    record.0,
                    record.1.len()
                );
            }
        }
    });
}

/// Checksums are corrected, so that absurd sizes and lengths get past the checks.
#[test]
fn forged_headers_do_no_harm() {
    with_closed_logs(|setting, image, _, random| {
        for _ in 0..20 {
            let mut forged = image.clone();
            let file = *random.pick(&segments(&forged));
            if random.bool(0.5) {
                forge_segment(&mut forged.files[file], random);
            } else {
                forge_record(&mut forged.files[file], setting.block as usize, random);
            }
            read_every_way(setting, &forged);
        }
    });
}

fn forge_segment(bytes: &mut [u8], random: &mut Rng) {
    let at = *random.pick(&[8, 12, 16, 20, 24, 40, 44, 48]);
    let value = random.next_u32_of_any_size();
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..60]);
    bytes[60..SEGMENT_HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
}

/// Changes a header at the start of a block, and gives it the checksum of the bytes that follow it.
fn forge_record(bytes: &mut [u8], block: usize, random: &mut Rng) {
    let identity = Identity(bytes[24..40].try_into().unwrap());
    let at = random.range_usize(1..bytes.len() / block) * block;
    let Some(mut header) = RecordHeader::decode(bytes[at..].first_chunk().unwrap()) else { return };
    match random.range(0..3) {
        0 => header.payload_bytes = random.next_u32_of_any_size(),
        1 => header.kind = dio_wal::format::RecordKind::Data,
        _ => header.payload_bytes = (bytes.len() - at - RECORD_HEADER_BYTES) as u32,
    }
    let payload = bytes
        .get(at + RECORD_HEADER_BYTES..at + RECORD_HEADER_BYTES + header.payload_bytes as usize)
        .unwrap_or(&[]);
    header.crc = header.checksum(crc32c::crc32c_append(identity.checksum_seed(), payload));
    bytes[at..at + RECORD_HEADER_BYTES].copy_from_slice(&header.encode());
}

trait AnySize {
    fn next_u32_of_any_size(&mut self) -> u32;
}

impl AnySize for Rng {
    fn next_u32_of_any_size(&mut self) -> u32 {
        (self.next_u64() >> 32 >> self.range(0..32)) as u32
    }
}

#[test]
fn noise_is_no_log() {
    let seed = Seed::new();
    let mut random = seed.rng();
    for number in 0..200 {
        let setting = Setting::number(number, &mut random);
        let mut image = Image::default();
        for segment in 0..3 {
            let length = random.range_usize(0..20_000);
            image.files.push(random.bytes(length));
            image.names.insert(segment_name(segment), segment as usize);
        }
        assert!(read_every_way(&setting, &image).is_empty());
    }
}
