use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use super::*;
use proptest::prelude::*;

fn example(targets: Vec<PathBuf>) -> Descriptor {
    let layout = Layout::new(1 << 20, targets.len()).unwrap();
    Descriptor {
        id: Id([7; 16]),
        layout,
        targets: targets.into_iter().map(StripeTarget::Directory).collect(),
    }
}

proptest! {
    #[test]
    fn what_was_kept_is_read_back(
        names in prop::collection::vec(prop::collection::vec(1u8.., 1..80), 1..20),
        id: [u8; 16],
        stripes in 1u64..1000,
    ) {
        let path = |name| PathBuf::from(OsString::from_vec([b"/".to_vec(), name].concat()));
        let some = |(index, name)| match index % 3 {
            1 => StripeTarget::Device(path(name)),
            _ => StripeTarget::Directory(path(name)),
        };
        let targets: Vec<_> = names.into_iter().enumerate().map(some).collect();
        let layout = Layout::new(stripes * 4096, targets.len()).unwrap().for_devices();
        let descriptor = Descriptor { id: Id(id), layout, targets };
        let bytes = descriptor.encode().unwrap();
        prop_assert_eq!(bytes.len() as u64, DESCRIPTOR_LEN);
        prop_assert!(Descriptor::is_one(&bytes));
        prop_assert_eq!(Descriptor::decode(&bytes).unwrap(), descriptor.clone());
        let head = DescriptorInode {
            inode: u64::MAX, born: i128::from(i64::MAX) * 1_000_000_000, volume: u64::MAX
        };
        let mut header = descriptor.header(descriptor.targets.len() - 1, head);
        header.name = Some(descriptor.targets[0].path().to_owned());
        header.owner = Some(u32::MAX);
        let bytes = header.encode().unwrap();
        prop_assert!(bytes[SECTOR_BYTES..].iter().all(|byte| *byte == b'\n'));
        let back = Header::decode(&bytes).unwrap();
        prop_assert!(back.name.is_some() || descriptor.targets[0].path().as_os_str().len() > 40);
        prop_assert_eq!(Header { name: header.name.clone(), ..back }, header);
    }

    #[test]
    fn no_changed_byte_goes_unnoticed(at in 0usize..DESCRIPTOR_LEN as usize, by in 1u8..) {
        let mut bytes = example(vec!["/mnt/a".into(), "/mnt/b".into()]).encode().unwrap();
        bytes[at] ^= by;
        prop_assert!(Descriptor::is_one(&bytes));
        prop_assert!(!matches!(Descriptor::decode(&bytes), Ok(_) | Err(FormatError::Foreign)));
    }
}

#[test]
fn a_descriptor_is_known_by_what_is_left_of_it() {
    let bytes = example(vec!["/mnt/a".into(), "/mnt/b".into()]).encode().unwrap();
    for lost in [0..16, 0..100, 100..300, 200..8171] {
        for byte in [0, b'x', b'\n'] {
            let mut bytes = bytes.clone();
            bytes[lost.clone()].fill(byte);
            assert!(Descriptor::is_one(&bytes), "{lost:?}");
        }
    }
    let text = "stripe 4096 of 3\nid of the file\nstart 5000\n".repeat(200);
    for other in
        [&b"hello"[..], &[0; 8171], &[b'\n'; 8171], text.as_bytes(), b"stripe 4096\nid 1\n"]
    {
        assert!(!Descriptor::is_one(other));
    }
}

#[test]
fn after_a_power_cut_the_durable_length_counts() {
    let record =
        LengthRecord { id: Id([7; 16]), durable: 8192, length: 20_000, boot: "one".into() };
    let back = LengthRecord::decode(&record.encode().unwrap()).unwrap();
    assert_eq!(back, record);
    assert_eq!(
        [back.length_in("one"), back.length_in("two"), back.length_in("")],
        [20_000, 8192, 8192]
    );
    let unknown = LengthRecord { boot: String::new(), ..record.clone() };
    let back = LengthRecord::decode(&unknown.encode().unwrap()).unwrap();
    assert_eq!([back.length_in("one"), back.length_in("")], [8192, 8192]);
    let bytes = record.encode().unwrap();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 4;
        assert!(LengthRecord::decode(&damaged).is_err(), "byte {at}");
    }
    assert_eq!(LengthRecord::decode(&[0xaa; 512]), Err(FormatError::Foreign));
}

#[test]
fn what_is_wrong_is_told_apart() {
    let bytes = example(vec!["/mnt/a".into()]).encode().unwrap();
    assert_eq!(Descriptor::decode(&bytes[..100]), Err(FormatError::Damaged));
    assert_eq!(Descriptor::decode(b"hello"), Err(FormatError::Foreign));
    assert_eq!(Header::decode(&bytes), Err(FormatError::Foreign));
    let newer = String::from_utf8(bytes).unwrap().replacen("file 1\n", "file 2\n", 1);
    assert_eq!(Descriptor::decode(newer.as_bytes()), Err(FormatError::Version("2".into())));
    let long = PathBuf::from(format!("/{}", "x".repeat(4000)));
    assert_eq!(example(vec![long.clone(), long]).encode(), Err(FormatError::TooLong));
    let relative = seal(
        format!("{DESCRIPTOR_MAGIC}1\nid {}\nstripe 4096\nstart 4096\ntarget a\n", Id([0; 16])),
        8171,
    );
    assert_eq!(Descriptor::decode(&relative.unwrap()), Err(FormatError::Senseless("a target")));
}
