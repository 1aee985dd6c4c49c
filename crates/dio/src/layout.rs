//! Where each byte of a striped file is, and how many requests keep its targets busy. Pure arithmetic.

use std::ops::Range;

/// Least alignment of a stripe, in bytes: that of the header of an object, and of all that direct I/O is known to demand
/// short of large blocks.
pub const LEAST_STRIPE: u64 = 4096;

/// Largest stripe, in bytes.
pub const MOST_STRIPE: u64 = 1 << 40;

/// Most objects of a file.
pub const MOST_OBJECTS: usize = 256;

/// Where the data of an object begins at most, in bytes.
pub const MOST_START: u64 = 1 << 20;

/// Where the data of objects begin at least where one of them is a device, in bytes: behind the header and a block for its length.
pub(crate) const DEVICE_START: u64 = 2 * LEAST_STRIPE;

/// Where a byte of a striped file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// In which of its objects.
    pub file: usize,
    /// At which offset there, in bytes.
    pub offset: u64,
    /// Bytes that follow there before another object has its turn, at least one.
    pub len: u64,
}

/// How a file is laid out over its objects: stripes of equal size, dealt to the objects in turn. Each object holds its
/// stripes one behind the other, so what is consecutive in an object is a stripe from each row of the file.
///
/// Object 0 of `objects` holds stripes 0, `objects`, 2 · `objects` …; stripe *n* begins at byte *n* · `stripe` of the file
/// and at byte `start` + ⌊*n* / `objects`⌋ · `stripe` of its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    stripe: u64,
    objects: usize,
    start: u64,
}

impl Layout {
    /// A layout of stripes of `stripe` bytes over so many objects.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn new(stripe: u64, objects: usize) -> Result<Layout, &'static str> {
        // As aligned as the stripes are, so that what begins a stripe begins a block, a page or a unit of a RAID.
        let start = (stripe & stripe.wrapping_neg()).min(MOST_START);
        Layout::checked(stripe, objects, start)
    }

    /// The same, with room in each object for what devices need.
    pub(crate) fn for_devices(self) -> Layout {
        Layout { start: self.start.max(DEVICE_START), ..self }
    }

    /// A layout that was kept.
    pub(crate) fn checked(stripe: u64, objects: usize, start: u64) -> Result<Layout, &'static str> {
        match () {
            () if stripe == 0 || stripe % LEAST_STRIPE != 0 => Err("the stripe size is no multiple of 4096 bytes"),
            () if stripe > MOST_STRIPE => Err("the stripe size exceeds 1 TiB"),
            () if objects == 0 || objects > MOST_OBJECTS => Err("the number of objects is not between 1 and 256"),
            () if start == 0 || start % LEAST_STRIPE != 0 || start > MOST_START => {
                Err("the data begin at a wrong place")
            }
            () => Ok(Layout { stripe, objects, start }),
        }
    }

    /// Bytes in a stripe.
    pub fn stripe(&self) -> u64 {
        self.stripe
    }

    /// How many objects there are.
    pub fn objects(&self) -> usize {
        self.objects
    }

    /// Where the data of each object begin, in bytes; the header is before.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Bytes in a stripe of every object together.
    pub fn row(&self) -> u64 {
        self.stripe * self.objects as u64
    }

    /// Where a byte of the file is.
    pub fn place(&self, position: u64) -> Place {
        if self.objects == 1 {
            // One piece, without borders.
            return Place { file: 0, offset: self.start + position, len: u64::MAX - position };
        }
        let (number, within) = (position / self.stripe, position % self.stripe);
        let (row, file) = (number / self.objects as u64, (number % self.objects as u64) as usize);
        Place { file, offset: self.start + row * self.stripe + within, len: self.stripe - within }
    }

    /// Which byte of the file is at an offset of an object; the first one that the object can hold, for an offset before
    /// its data.
    pub fn position(&self, object: usize, offset: u64) -> u64 {
        let data = offset.saturating_sub(self.start);
        let (row, within) = (data / self.stripe, data % self.stripe);
        row.saturating_mul(self.row()).saturating_add(object as u64 * self.stripe + within)
    }

    /// The size of an object of a file of `size` bytes. Also, where the bytes of the file from `size` on begin in the object.
    pub fn share(&self, object: usize, size: u64) -> u64 {
        let (rows, rest) = (size / self.row(), size % self.row());
        self.start + rows * self.stripe + rest.saturating_sub(object as u64 * self.stripe).min(self.stripe)
    }

    /// What an object holds of a range of the file.
    pub fn slice(&self, object: usize, range: &Range<u64>) -> Range<u64> {
        self.share(object, range.start)..self.share(object, range.end)
    }

    /// The size of a file whose objects have these sizes: all bytes before it are there, in whichever object.
    pub fn size(&self, sizes: impl IntoIterator<Item = u64>) -> u64 {
        let reached = |(object, size): (usize, u64)| self.position(object, size.max(self.start));
        sizes.into_iter().enumerate().map(reached).min().unwrap_or(0)
    }

    /// The whole rows of the file that hold what a range of an object holds.
    pub(crate) fn rows(&self, range: &Range<u64>) -> Range<u64> {
        let row = |data: u64| (data / self.stripe).saturating_mul(self.row());
        let start = range.start.saturating_sub(self.start);
        let end = range.end.saturating_sub(self.start);
        row(start)..row(end.saturating_add(self.stripe - 1))
    }
}

/// Requests in flight for each file that holds a part of a striped one: one that the disk works on, one that it has next, and as
/// many for what the others are behind or ahead.
const REQUESTS_PER_OBJECT: usize = 4;

/// Requests of `block` bytes to keep in flight for a file that so many hold: `depth`, or, of a striped one, as many as keep every
/// one of its targets busy, as far as `most` bytes go.
pub(crate) fn depth_over(objects: usize, depth: usize, block: usize, most: usize) -> usize {
    let spread = if objects > 1 { objects.saturating_mul(REQUESTS_PER_OBJECT).min(most / block.max(1)) } else { 0 };
    depth.max(spread)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The layout as anyone would write it down: for every byte of a file, the object and the offset.
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
        fn bytes_are_where_the_model_says(stripes in 1u64..4, objects in 1usize..6, size in 0u64..60_000) {
            let layout = Layout::new(stripes * 4096, objects).unwrap();
            let model = model(layout.stripe(), objects, layout.start(), size);
            for (byte, (object, offset)) in model.iter().enumerate().step_by(97) {
                let place = layout.place(byte as u64);
                prop_assert_eq!((place.file, place.offset), (*object, *offset));
                prop_assert_eq!(layout.position(*object, *offset), byte as u64);
                let last = (byte as u64 + place.len - 1).min(size - 1) as usize;
                prop_assert_eq!(model[last], (*object, *offset + (last - byte) as u64));
            }
            let shares: Vec<u64> = (0..objects).map(|object| layout.share(object, size)).collect();
            for (object, share) in shares.iter().enumerate() {
                let held = model.iter().filter(|(of, _)| *of == object).count() as u64;
                prop_assert_eq!(*share, layout.start() + held);
            }
            prop_assert_eq!(layout.size(shares), size);
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
            let mut sizes: Vec<u64> = (0..objects).map(|object| layout.share(object, size)).collect();
            // What one object holds beyond the others does not count, unless it is the one that they wait for.
            let place = layout.place(size);
            sizes[which] += surplus;
            if which != place.file || surplus == 0 {
                prop_assert_eq!(layout.size(sizes.clone()), size);
            } else {
                let longer = layout.size(sizes.clone());
                prop_assert!(longer > size && longer <= size + surplus.min(place.len));
            }
            // What one object lacks ends the file there.
            sizes[which] = layout.share(which, size).saturating_sub(missing);
            let shorter = layout.size(sizes.clone());
            prop_assert!(shorter <= size);
            if sizes[which] >= layout.start() && layout.share(which, size) > layout.start() {
                prop_assert_eq!(shorter, layout.position(which, sizes[which]));
                prop_assert!(shorter < size);
            }
        }

        #[test]
        fn large_offsets_do_not_wrap(position in 0u64..(1 << 62), objects in 1usize..200, shift in 12u32..41) {
            let layout = Layout::new(1 << shift, objects).unwrap();
            let place = layout.place(position);
            prop_assert_eq!(layout.position(place.file, place.offset), position);
            prop_assert!(place.len > 0);
            let range = layout.slice(place.file, &(position..position + 1));
            prop_assert_eq!(range, place.offset..place.offset + 1);
            let rows = layout.rows(&(place.offset..place.offset + 1));
            prop_assert!(rows.contains(&position) && rows.end - rows.start == layout.row());
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (stripe, objects) in [(0, 2), (4095, 2), (6000, 2), (2 << 40, 2), (4096, 0), (4096, 257)] {
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
