//! Where each byte of a striped file lies, and how many requests keep its objects busy. This module
//! does arithmetic only.

use std::ops::Range;

/// Smallest stripe, and alignment of every stripe, in bytes. The header of an object has this
/// length, and no file system is known to demand more for direct I/O, large blocks aside.
pub const STRIPE_BYTES_MIN: u64 = 4096;

/// Largest stripe, in bytes.
pub const STRIPE_BYTES_MAX: u64 = 1 << 40;

/// Most objects that a striped file may have.
pub const OBJECTS_MAX: usize = 256;

/// Largest offset at which the data of an object may begin, in bytes.
pub const DATA_START_MAX: u64 = 1 << 20;

/// Smallest offset at which the data of an object may begin, in bytes, in a file with a device
/// among its objects: behind the header and the block that records the length of the device's
/// object.
pub(crate) const DEVICE_DATA_START_MIN: u64 = 2 * STRIPE_BYTES_MIN;

/// Consecutive bytes of a striped file that lie in one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectExtent {
    /// Index of the object.
    pub object: usize,
    /// Offset of the first byte within the object, in bytes.
    pub offset: u64,
    /// Bytes that follow in this object before another object continues the file; at least one.
    pub len: u64,
}

/// How the bytes of a striped file are spread over its objects. The file is cut into stripes of
/// equal size, and the objects take turns: with *n* objects, stripe *i* goes to object *i* mod *n*.
/// An object holds its stripes one behind the other. A *row* is one stripe of every object.
///
/// Stripe *i* begins at byte *i* · `stripe` of the file, and at byte `start` + ⌊*i* / *n*⌋ ·
/// `stripe` of its object.
///
/// Example: 3 objects, `stripe` 4096, `start` 4096. Byte 20,000 of the file is byte 3616 of stripe
/// 4, because 4 · 4096 = 16,384. Stripe 4 belongs to object 4 mod 3 = 1 and is the second stripe
/// there (⌊4 / 3⌋ = 1). So the byte lies in object 1 at offset 4096 + 1 · 4096 + 3616 = 11,808. A
/// row has 3 · 4096 = 12,288 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    stripe: u64,
    objects: usize,
    start: u64,
}

impl Layout {
    /// A layout of stripes of `stripe` bytes over `objects` objects.
    ///
    /// # Errors
    /// What is wrong with the numbers, in words.
    pub fn new(stripe: u64, objects: usize) -> Result<Layout, &'static str> {
        // The data begin at a multiple of the largest power of two in the stripe size, so that
        // every stripe begins with a block, a page or a unit of a RAID.
        let start = (stripe & stripe.wrapping_neg()).min(DATA_START_MAX);
        Layout::checked(stripe, objects, start)
    }

    /// The same layout with room in each object for what devices need.
    pub(crate) fn for_devices(self) -> Layout {
        Layout { start: self.start.max(DEVICE_DATA_START_MIN), ..self }
    }

    /// A layout that was read from a descriptor or a header.
    pub(crate) fn checked(stripe: u64, objects: usize, start: u64) -> Result<Layout, &'static str> {
        match () {
            () if stripe == 0 || stripe % STRIPE_BYTES_MIN != 0 => {
                Err("the stripe size is no multiple of 4096 bytes")
            }
            () if stripe > STRIPE_BYTES_MAX => Err("the stripe size exceeds 1 TiB"),
            () if objects == 0 || objects > OBJECTS_MAX => {
                Err("the number of objects is not between 1 and 256")
            }
            () if start == 0 || start % STRIPE_BYTES_MIN != 0 || start > DATA_START_MAX => {
                Err("the data begin at a wrong place")
            }
            () => Ok(Layout { stripe, objects, start }),
        }
    }

    /// Bytes in a stripe.
    pub fn stripe(&self) -> u64 {
        self.stripe
    }

    /// Number of objects.
    pub fn objects(&self) -> usize {
        self.objects
    }

    /// Offset at which the data of each object begin, in bytes. The header lies before it.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Bytes in a row.
    pub fn row(&self) -> u64 {
        self.stripe * self.objects as u64
    }

    /// Finds a byte of the file, and how many bytes follow it in the same object.
    pub fn locate(&self, position: u64) -> ObjectExtent {
        if self.objects == 1 {
            // A single object holds the file in one piece.
            return ObjectExtent {
                object: 0,
                offset: self.start + position,
                len: u64::MAX - position,
            };
        }
        let (number, within) = (position / self.stripe, position % self.stripe);
        let (row, object) = (number / self.objects as u64, (number % self.objects as u64) as usize);
        ObjectExtent {
            object,
            offset: self.start + row * self.stripe + within,
            len: self.stripe - within,
        }
    }

    /// The byte of the file that lies at `offset` of an object. For an offset before the data, the
    /// first byte of the file that the object can hold.
    ///
    /// Example (see [`Layout`]): offset 11,808 of object 1 is 7712 bytes behind `start`: row 1,
    /// byte 3616 of its stripe. Row 1 begins at byte 12,288 of the file, and the stripe of object 1
    /// at 12,288 + 4096, so the byte is 12,288 + 4096 + 3616 = 20,000.
    pub fn position(&self, object: usize, offset: u64) -> u64 {
        let data = offset.saturating_sub(self.start);
        let (row, within) = (data / self.stripe, data % self.stripe);
        row.saturating_mul(self.row()).saturating_add(object as u64 * self.stripe + within)
    }

    /// Size of an object when the file has `size` bytes. It is also the offset in the object of the
    /// first byte from `size` on that the object can hold.
    ///
    /// Example (see [`Layout`]): a file of 20,000 bytes has one whole row and 7712 bytes of the
    /// next. Object 0 has 4096 of these, object 1 has 3616, object 2 none: the sizes are 12,288,
    /// 11,808 and 8192, headers included.
    pub fn object_size(&self, object: usize, size: u64) -> u64 {
        let (rows, rest) = (size / self.row(), size % self.row());
        self.start
            + rows * self.stripe
            + rest.saturating_sub(object as u64 * self.stripe).min(self.stripe)
    }

    /// The range of an object that holds its bytes of a range of the file.
    pub fn object_range(&self, object: usize, range: &Range<u64>) -> Range<u64> {
        self.object_size(object, range.start)..self.object_size(object, range.end)
    }

    /// The size of a file whose objects have these sizes: the first byte that an object lacks ends
    /// the file. Bytes that other objects hold behind it do not count.
    pub fn size(&self, sizes: impl IntoIterator<Item = u64>) -> u64 {
        let reached = |(object, size): (usize, u64)| self.position(object, size.max(self.start));
        sizes.into_iter().enumerate().map(reached).min().unwrap_or(0)
    }

    /// The rows of the file, whole, that hold the bytes of a range of an object.
    pub(crate) fn rows(&self, range: &Range<u64>) -> Range<u64> {
        let row = |data: u64| (data / self.stripe).saturating_mul(self.row());
        let start = range.start.saturating_sub(self.start);
        let end = range.end.saturating_sub(self.start);
        row(start)..row(end.saturating_add(self.stripe - 1))
    }
}

/// Requests in flight per object of a striped file: one that the disk works on, one that it does
/// next, and two more because the objects run ahead of each other and fall behind.
const REQUESTS_PER_OBJECT: usize = 4;

/// Requests of `block` bytes to keep in flight for a file of so many objects: `depth`, or, for a
/// striped file, as many more as keep all objects busy within `bytes_max` bytes.
pub(crate) fn depth_over(objects: usize, depth: usize, block: usize, bytes_max: usize) -> usize {
    let spread = if objects > 1 {
        objects.saturating_mul(REQUESTS_PER_OBJECT).min(bytes_max / block.max(1))
    } else {
        0
    };
    depth.max(spread)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The layout in its simplest form: the object and the offset of every byte of a file.
    fn model(stripe: u64, objects: usize, start: u64, size: u64) -> Vec<(usize, u64)> {
        let mut filled = vec![start; objects];
        (0..size)
            .map(|byte| {
                let object = (byte / stripe) as usize % objects;
                filled[object] += 1;
                (object, filled[object] - 1)
            })
            .collect()
    }

    proptest! {
        #[test]
        fn bytes_are_where_the_model_says(
            stripes in 1u64..4, objects in 1usize..6, size in 0u64..60_000
        ) {
            let layout = Layout::new(stripes * 4096, objects).unwrap();
            let model = model(layout.stripe(), objects, layout.start(), size);
            for (byte, (object, offset)) in model.iter().enumerate().step_by(97) {
                let extent = layout.locate(byte as u64);
                prop_assert_eq!((extent.object, extent.offset), (*object, *offset));
                prop_assert_eq!(layout.position(*object, *offset), byte as u64);
                let last = (byte as u64 + extent.len - 1).min(size - 1) as usize;
                prop_assert_eq!(model[last], (*object, *offset + (last - byte) as u64));
            }
            let object_sizes: Vec<u64> =
                (0..objects).map(|object| layout.object_size(object, size)).collect();
            for (object, share) in object_sizes.iter().enumerate() {
                let held = model.iter().filter(|(of, _)| *of == object).count() as u64;
                prop_assert_eq!(*share, layout.start() + held);
            }
            prop_assert_eq!(layout.size(object_sizes), size);
        }

        #[test]
        fn the_size_is_what_all_objects_reach(
            objects in 2usize..6,
            size in 0u64..100_000,
            surplus in 0u64..50_000,
            missing in 1u64..50_000,
            which in 0usize..6,
        ) {
            let layout = Layout::new(4096, objects).unwrap();
            let which = which % objects;
            let mut sizes: Vec<u64> =
                (0..objects).map(|object| layout.object_size(object, size)).collect();
            // Surplus bytes of an object do not count, unless this object is the one that ends the
            // file.
            let extent = layout.locate(size);
            sizes[which] += surplus;
            if which != extent.object || surplus == 0 {
                prop_assert_eq!(layout.size(sizes.clone()), size);
            } else {
                let longer = layout.size(sizes.clone());
                prop_assert!(longer > size && longer <= size + surplus.min(extent.len));
            }
            // An object that lacks bytes ends the file there.
            sizes[which] = layout.object_size(which, size).saturating_sub(missing);
            let shorter = layout.size(sizes.clone());
            prop_assert!(shorter <= size);
            if sizes[which] >= layout.start() && layout.object_size(which, size) > layout.start() {
                prop_assert_eq!(shorter, layout.position(which, sizes[which]));
                prop_assert!(shorter < size);
            }
        }

        #[test]
        fn large_offsets_do_not_wrap(
            position in 0u64..(1 << 62), objects in 1usize..200, shift in 12u32..41
        ) {
            let layout = Layout::new(1 << shift, objects).unwrap();
            let extent = layout.locate(position);
            prop_assert_eq!(layout.position(extent.object, extent.offset), position);
            prop_assert!(extent.len > 0);
            let range = layout.object_range(extent.object, &(position..position + 1));
            prop_assert_eq!(range, extent.offset..extent.offset + 1);
            let rows = layout.rows(&(extent.offset..extent.offset + 1));
            prop_assert!(rows.contains(&position) && rows.end - rows.start == layout.row());
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (stripe, objects) in
            [(0, 2), (4095, 2), (6000, 2), (2 << 40, 2), (4096, 0), (4096, 257)]
        {
            Layout::new(stripe, objects).unwrap_err();
        }
        assert_eq!(Layout::new(4096, 1).unwrap().start(), 4096);
        assert_eq!(Layout::new(3 << 20, 1).unwrap().start(), 1 << 20);
        assert_eq!(Layout::new(12_288, 1).unwrap().start(), 4096);
    }

    #[test]
    fn a_striped_file_has_four_requests_for_each_target_within_the_bound() {
        const MIB: usize = 1 << 20;
        let usual = |objects| depth_over(objects, 8, MIB, 64 * MIB);
        assert_eq!([1, 2, 4, 8, 16, 100].map(usual), [8, 8, 16, 32, 64, 64]);
        assert_eq!(depth_over(8, 8, MIB, 0), 8);
        assert_eq!(depth_over(8, 100, MIB, 64 * MIB), 100);
        assert_eq!(depth_over(8, 2, 16 * MIB, 64 * MIB), 4);
    }
}
