//! The plan of a copy: all operands combined.

use std::ffi::OsString;

use super::flags::{Level, Set, conv, flag};
use super::operands::{Amount, Operands};
use crate::grammar::Refusal;

/// Size of a block in bytes if none is given.
const BLOCK: u64 = 512;

/// Maximum size of a record for conversions, in bytes. A record is assembled in memory.
const MOST_RECORD: u64 = 1 << 30;

/// An amount as whole blocks and the bytes after them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) records: u64,
    pub(super) bytes: u64,
}

impl Extent {
    fn of(amount: Amount, bytes: bool, block: u64) -> Extent {
        match amount.bytes || bytes {
            true => Extent { records: amount.value / block, bytes: amount.value % block },
            false => Extent { records: amount.value, bytes: 0 },
        }
    }

    /// Converts to bytes; `None` if the result is no valid offset.
    pub(super) fn offset(self, block: u64) -> Option<u64> {
        let bytes = u128::from(self.records) * u128::from(block) + u128::from(self.bytes);
        u64::try_from(bytes).ok().filter(|bytes| i64::try_from(*bytes).is_ok())
    }

    /// Returns whether the amount is zero.
    pub(super) fn is_none(self) -> bool {
        self == Extent::default()
    }
}

/// The plan of a copy.
#[derive(Clone, Debug)]
pub(super) struct DdPlan {
    pub(super) input: Option<OsString>,
    pub(super) output: Option<OsString>,
    pub(super) ibs: u64,
    pub(super) obs: u64,
    pub(super) cbs: u64,
    /// Each record read is written as one record: `bs=` is given and no conversion changes bytes.
    pub(super) single: bool,
    pub(super) count: Option<Extent>,
    pub(super) skip: Extent,
    pub(super) seek: Extent,
    pub(super) conv: Set,
    pub(super) iflag: Set,
    pub(super) oflag: Set,
    pub(super) level: Level,
}

impl DdPlan {
    /// Combines the operands.
    pub(super) fn of(given: Operands) -> Result<DdPlan, Refusal> {
        let single = given.bs.is_some() && !given.conv.any(conv::CHANGING);
        let ibs = given.bs.or(given.ibs).unwrap_or(BLOCK);
        let obs = given.bs.or(given.obs).unwrap_or(BLOCK);
        let mut conversions = given.conv;
        let cbs = given.cbs.unwrap_or(0);
        if cbs == 0 {
            conversions.remove(conv::BLOCK.and(conv::UNBLOCK));
        }
        check(conversions, given.iflag, given.oflag)?;
        if cbs > MOST_RECORD && conversions.any(conv::BLOCK.and(conv::UNBLOCK)) {
            let size = super::human::size(cbs, 1024);
            return Err(Refusal::plain(format!(
                "memory exhausted by conversion buffer of size {cbs} bytes ({size})"
            )));
        }
        let seek = Extent::of(given.seek, given.oflag.any(flag::SEEK_BYTES), obs);
        Ok(DdPlan {
            count: given
                .count
                .map(|count| Extent::of(count, given.iflag.any(flag::COUNT_BYTES), ibs)),
            skip: Extent::of(given.skip, given.iflag.any(flag::SKIP_BYTES), ibs),
            seek,
            input: given.input,
            output: given.output,
            ibs,
            obs,
            cbs,
            single,
            conv: conversions,
            iflag: given.iflag,
            oflag: given.oflag,
            level: given.level,
        })
    }

    /// The byte that fills a short block with `conv=sync`.
    pub(super) fn padding(&self) -> u8 {
        if self.conv.any(conv::BLOCK.and(conv::UNBLOCK)) { b' ' } else { 0 }
    }

    /// Maximum number of bytes to copy; `None` for all.
    pub(super) fn most_bytes(&self) -> Option<u64> {
        self.count.map(|count| count.offset(self.ibs).unwrap_or(u64::MAX))
    }

    /// Returns whether a short read causes a warning. It does if blocks are counted, because fewer
    /// bytes than requested are then copied or skipped, and for direct I/O.
    pub(super) fn warns_of_partial_reads(&self) -> bool {
        let counted =
            self.count.is_some_and(|count| count.records > 0 && count.records < i64::MAX as u64);
        let direct = self.iflag.any(flag::DIRECT) || self.oflag.any(flag::DIRECT);
        self.single
            && !self.iflag.any(flag::FULLBLOCK)
            && self.level != Level::None
            && (self.skip.records > 0 || counted || direct)
    }
}

/// Rejects symbols that exclude each other.
fn check(conversions: Set, iflag: Set, oflag: Set) -> Result<(), Refusal> {
    let both = |set: Set, one: Set, other: Set| set.any(one) && set.any(other);
    if conversions.count(conv::ASCII.and(conv::EBCDIC).and(conv::IBM)) > 1 {
        return Err(Refusal::plain("cannot combine any two of {ascii,ebcdic,ibm}"));
    }
    if both(conversions, conv::BLOCK, conv::UNBLOCK) {
        return Err(Refusal::plain("cannot combine block and unblock"));
    }
    if both(conversions, conv::LCASE, conv::UCASE) {
        return Err(Refusal::plain("cannot combine lcase and ucase"));
    }
    if both(conversions, conv::EXCL, conv::NOCREAT) {
        return Err(Refusal::plain("cannot combine excl and nocreat"));
    }
    if both(iflag, flag::DIRECT, flag::NOCACHE) || both(oflag, flag::DIRECT, flag::NOCACHE) {
        return Err(Refusal::plain("cannot combine direct and nocache"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::operands;
    use super::*;

    fn plan(line: &str) -> Result<DdPlan, Refusal> {
        DdPlan::of(
            operands::parse(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>())
                .unwrap(),
        )
    }

    #[test]
    fn bs_overrides_and_decides_whether_records_are_kept() {
        let one = plan("ibs=5 obs=7 bs=3").unwrap();
        assert_eq!((one.ibs, one.obs, one.single), (3, 3, true));
        let two = plan("ibs=512 obs=512").unwrap();
        assert_eq!((two.ibs, two.obs, two.single), (512, 512, false));
        assert!(!plan("bs=3 conv=swab").unwrap().single);
        assert!(!plan("bs=3 conv=block").unwrap().single);
        assert!(plan("bs=3 conv=sync,sparse,noerror").unwrap().single);
    }

    #[test]
    fn amounts_are_blocks_or_bytes() {
        let plan = plan("bs=5 count=12B skip=3 seek=11 oflag=seek_bytes").unwrap();
        assert_eq!(plan.count, Some(Extent { records: 2, bytes: 2 }));
        assert_eq!((plan.skip.offset(5), plan.seek.offset(5)), (Some(15), Some(11)));
        assert_eq!(Extent { records: i64::MAX as u64, bytes: 0 }.offset(2), None);
    }

    #[test]
    fn records_need_a_size() {
        assert!(!plan("conv=block,unblock").unwrap().conv.any(conv::BLOCK));
        assert!(plan("conv=ebcdic cbs=3").unwrap().conv.any(conv::BLOCK));
        assert_eq!(
            plan("conv=ascii,block cbs=3").unwrap_err().to_string(),
            "cannot combine block and unblock"
        );
        assert_eq!(plan("conv=sync,block cbs=3").unwrap().padding(), b' ');
        assert_eq!(plan("conv=sync,block").unwrap().padding(), 0);
    }
}
