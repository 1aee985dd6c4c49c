//! Maps of sparse files: the old GNU form, and three forms in PAX headers (0.0, 0.1, 1.0).

use super::number::decimal;
use super::{BLOCK, MAX_EXTENTS, number};

/// The reason for which a map is rejected.
pub(super) type MapError = String;

/// The records of an extended header that describe a sparse file.
#[derive(Default)]
pub(super) struct PaxSparse {
    /// The size of the file including holes.
    pub(super) size: Option<u64>,
    /// The name of the file. The header itself has a different name, for programs that do not
    /// support sparse files.
    pub(super) name: Option<Vec<u8>>,
    major: Option<u64>,
    minor: Option<u64>,
    /// In form 0.0, the offset that waits for its length.
    offset: Option<u64>,
    extents: Vec<(u64, u64)>,
    has_map: bool,
}

/// The form of a map.
pub(super) enum MapForm {
    /// The file is not sparse.
    None,
    /// The records contain the map.
    Here(Vec<(u64, u64)>),
    /// The map is at the start of the content.
    InContent,
}

impl PaxSparse {
    /// Handles a record. Returns `false` if the record is not about sparse files, or is invalid.
    pub(super) fn take(&mut self, keyword: &[u8], value: &[u8]) -> bool {
        let Some(keyword) = keyword.strip_prefix(b"GNU.sparse.") else { return false };
        let number = || decimal(value).filter(|number| i64::try_from(*number).is_ok());
        let into = |field: &mut Option<u64>| {
            *field = number();
            field.is_some()
        };
        match keyword {
            b"size" | b"realsize" => into(&mut self.size),
            b"major" => into(&mut self.major),
            b"minor" => into(&mut self.minor),
            b"name" => {
                self.name = Some(super::header::text(value).to_vec());
                true
            }
            b"numblocks" => {
                // The number itself is not used; the record only starts a new list.
                self.extents.clear();
                self.has_map = true;
                number().is_some()
            }
            b"offset" => {
                self.has_map = true;
                into(&mut self.offset)
            }
            b"numbytes" => match (self.offset.take(), number()) {
                (Some(offset), Some(length)) if self.extents.len() < MAX_EXTENTS => {
                    self.extents.push((offset, length));
                    true
                }
                _ => false,
            },
            b"map" => self.take_map(value),
            _ => false,
        }
    }

    /// Parses the map of form 0.1: `offset,length,offset,length…`.
    fn take_map(&mut self, value: &[u8]) -> bool {
        self.extents.clear();
        self.has_map = true;
        let mut numbers = value.split(|byte| *byte == b',');
        while let Some(offset) = numbers.next() {
            let (Some(offset), Some(length)) = (decimal(offset), numbers.next().and_then(decimal))
            else {
                return false;
            };
            if self.extents.len() >= MAX_EXTENTS {
                return false;
            }
            self.extents.push((offset, length));
        }
        true
    }

    /// Determines the form, and takes the map if the records contain it.
    pub(super) fn form(&mut self) -> Result<MapForm, MapError> {
        match (self.major, self.minor) {
            (Some(1), Some(0)) => Ok(MapForm::InContent),
            (Some(major), minor) if major > 0 => Err(format!(
                "Sparse files of version {major}.{} are not supported",
                minor.unwrap_or(0)
            )),
            _ if self.has_map => Ok(MapForm::Here(std::mem::take(&mut self.extents))),
            _ => Ok(MapForm::None),
        }
    }
}

/// Reads extents from the fields of an old GNU header; each extent is a pair of twelve-byte
/// numbers. Returns `Ok(false)` if the list ended.
pub(super) fn old_extents(fields: &[u8], extents: &mut Vec<(u64, u64)>) -> Result<bool, MapError> {
    for field in fields.chunks_exact(24) {
        if field[12] == 0 {
            return Ok(false);
        }
        let number =
            |field: &[u8]| number::parse(field).ok().and_then(|number| u64::try_from(number).ok());
        let (Some(offset), Some(length)) = (number(&field[..12]), number(&field[12..])) else {
            return Err("The map of a sparse file makes no sense".to_owned());
        };
        if extents.len() >= MAX_EXTENTS {
            return Err(too_many());
        }
        extents.push((offset, length));
    }
    Ok(true)
}

pub(super) fn too_many() -> MapError {
    format!("The map of a sparse file has more than {MAX_EXTENTS} extents")
}

/// The map of form 1.0, parsed block by block. It consists of decimal numbers, one on each line;
/// the first is the number of extents.
#[derive(Default)]
pub(super) struct MapLines {
    expected: Option<usize>,
    number: Vec<u8>,
    offset: Option<u64>,
    extents: Vec<(u64, u64)>,
}

impl MapLines {
    /// Parses a block. Returns the map once it is complete; the rest of the last block is padding.
    pub(super) fn take(
        &mut self,
        block: &[u8; BLOCK],
    ) -> Result<Option<Vec<(u64, u64)>>, MapError> {
        for byte in block {
            if *byte != b'\n' {
                self.number.push(*byte);
                if self.number.len() > 20 {
                    return Err("The map of a sparse file makes no sense".to_owned());
                }
                continue;
            }
            let number = decimal(&self.number).ok_or("The map of a sparse file makes no sense")?;
            self.number.clear();
            match self.expected {
                None => {
                    let count = usize::try_from(number).ok().filter(|count| *count <= MAX_EXTENTS);
                    self.expected = Some(count.ok_or_else(too_many)?);
                }
                Some(_) => match self.offset.take() {
                    None => self.offset = Some(number),
                    Some(offset) => self.extents.push((offset, number)),
                },
            }
            if self.expected == Some(self.extents.len()) {
                return Ok(Some(std::mem::take(&mut self.extents)));
            }
        }
        Ok(None)
    }
}

/// Checks a map against the sizes: the extents must be in order, not overlapping and within the
/// file, and their data must be as long as the data in the archive.
pub(super) fn check(extents: &[(u64, u64)], size: u64, stored: u64) -> Result<(), MapError> {
    let (mut end, mut data) = (0u64, 0u64);
    for &(offset, length) in extents {
        let next = offset.checked_add(length).filter(|next| *next <= size && offset >= end);
        end = next.ok_or_else(|| {
            format!(
                "The map of a sparse file of {size} bytes has {length} bytes at {offset}, beyond \
                 its end or overlapping"
            )
        })?;
        // This cannot overflow: the extents so far do not overlap and lie within `size`.
        data += length;
    }
    if data != stored {
        return Err(format!(
            "The map of a sparse file has {data} bytes of data, the archive {stored}"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_must_be_sound() {
        assert_eq!(check(&[(0, 10), (512, 88), (600, 0)], 600, 98), Ok(()));
        assert_eq!(check(&[], 600, 0), Ok(()));
        for (extents, size, stored) in [
            (&[(0u64, 10u64), (5, 10)][..], 100u64, 20u64),
            (&[(50, 10), (0, 10)], 100, 20),
            (&[(95, 10)], 100, 10),
            (&[(u64::MAX, 10)], 100, 10),
            (&[(0, 10)], 100, 11),
            (&[(0, 10)], 100, 9),
            (&[(101, 0)], 100, 0),
        ] {
            assert!(check(extents, size, stored).is_err(), "{extents:?} {size} {stored}");
        }
    }

    fn lines(text: &[u8]) -> Result<Option<Vec<(u64, u64)>>, MapError> {
        let mut lines = MapLines::default();
        for part in text.chunks(BLOCK) {
            let mut block = [0; BLOCK];
            block[..part.len()].copy_from_slice(part);
            if let Some(map) = lines.take(&block)? {
                return Ok(Some(map));
            }
        }
        Ok(None)
    }

    #[test]
    fn maps_of_lines_end_where_they_say() {
        assert_eq!(lines(b"0\n"), Ok(Some(vec![])));
        assert_eq!(lines(b"2\n0\n512\n1024\n1\n99\n"), Ok(Some(vec![(0, 512), (1024, 1)])));
        assert_eq!(lines(b"2\n0\n5\n"), Err("The map of a sparse file makes no sense".to_owned()));
        let many =
            format!("300\n{}", (0..300).map(|n| format!("{}\n1\n", n * 2)).collect::<String>());
        assert_eq!(lines(many.as_bytes()).unwrap().unwrap().len(), 300);
        assert!(lines(b"99999999999\n").is_err());
        assert!(lines(b"-1\n").is_err());
        assert!(lines(b"1\n\n").is_err());
    }
}
