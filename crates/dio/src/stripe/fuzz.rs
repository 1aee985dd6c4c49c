//! The texts of striped files for the fuzzer, which is in a crate of its own (`fuzz/`): decoders
//! that are private here, with what must hold of everything that they accept.

use super::format::{
    DEFAULT_LEN, DESCRIPTOR_LEN, DefaultText, Descriptor, FormatError, HEADER_LEN, Header,
    LengthRecord, RECORD_LEN, seal,
};
use super::stamp::{FoundState, STAMP_AT, Stamp, compare_stamps};
use crate::layout::Layout;

/// Reads `bytes` as each kind of text, as they are, and once more with the right checksum and
/// length for each kind, which chance does not find.
///
/// # Panics
/// When what is decoded is not what its own encoding gives, or breaks an invariant.
pub fn texts(bytes: &[u8]) {
    descriptor(bytes);
    object(bytes);
    others(bytes);
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let sealed = |len| seal(text.to_owned(), len).ok();
    sealed(DESCRIPTOR_LEN).iter().for_each(|bytes| descriptor(bytes));
    for len in [RECORD_LEN, HEADER_LEN, DEFAULT_LEN] {
        if let Some(bytes) = sealed(len) {
            object(&bytes);
            others(&bytes);
        }
    }
}

/// A text that begins as a descriptor is never taken for a plain file, and a decoded descriptor
/// encodes back to itself.
fn descriptor(bytes: &[u8]) {
    let decoded = Descriptor::decode(bytes);
    let is_foreign = decoded == Err(FormatError::Foreign);
    assert_eq!(
        !is_foreign,
        Descriptor::is_one(bytes),
        "the two rules for what a descriptor is: {decoded:?}"
    );
    let Ok(descriptor) = decoded else { return };
    layout(&descriptor.layout, bytes);
    match descriptor.encode() {
        Ok(again) => assert_eq!(Descriptor::decode(&again).as_ref(), Ok(&descriptor)),
        // The original may have had no comment, which takes the room of a name.
        Err(error) => assert_eq!(error, FormatError::TooLong),
    }
}

/// The head of an object: its header, and its stamp behind that.
fn object(bytes: &[u8]) {
    if let Ok(header) = Header::decode(bytes) {
        layout(&header.layout, bytes);
        let again = header.encode().expect("a header is short");
        let mut found = Header::decode(&again).expect("what was encoded can be decoded");
        // A long name is left out.
        found.name = found.name.or_else(|| header.name.clone());
        assert_eq!(found, header);
    }
    let stamps = [bytes, bytes.get(STAMP_AT as usize..).unwrap_or_default()].map(Stamp::decode);
    let seen: Vec<FoundState> = stamps
        .into_iter()
        .flatten()
        .chain(Stamp::within(bytes))
        .enumerate()
        .map(|(index, stamp)| FoundState {
            index,
            length: stamp.length,
            stamp: Some(Ok(stamp)),
            is_local: true,
        })
        .collect();
    for stamp in seen.iter().filter_map(FoundState::stamp) {
        let again = stamp.encode().expect("a stamp is short");
        assert_eq!(Stamp::decode(&again).as_ref(), Ok(stamp));
        // Whatever it finds, it compares numbers that anybody may have written.
        let _ = compare_stamps(stamp.id, &seen, &stamp.boot);
    }
}

/// The length of a device, and what a directory keeps for new files.
fn others(bytes: &[u8]) {
    if let Ok(record) = LengthRecord::decode(bytes) {
        let again = record.encode().expect("a record is short");
        assert_eq!(LengthRecord::decode(&again), Ok(record));
    }
    if let Ok(default) = DefaultText::decode(bytes) {
        match default.encode() {
            Ok(again) => assert_eq!(DefaultText::decode(&again), Ok(default)),
            // The original may have had bytes in its names that are written as three.
            Err(error) => assert_eq!(error, FormatError::TooLong),
        }
    }
}

/// A layout that was accepted knows where each byte is.
fn layout(layout: &Layout, bytes: &[u8]) {
    let position =
        bytes.iter().rev().take(64).fold(0u64, |sum, byte| sum.rotate_left(7) ^ u64::from(*byte))
            >> 2;
    let extent = layout.locate(position);
    assert!(extent.object < layout.objects() && extent.offset >= layout.start() && extent.len > 0);
    assert_eq!(layout.position(extent.object, extent.offset), position);
    let shares = (0..layout.objects()).map(|object| layout.object_size(object, position));
    assert_eq!(layout.size(shares), position);
}
