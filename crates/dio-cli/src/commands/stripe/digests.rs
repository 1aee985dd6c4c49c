//! Digests of the contents of objects, recorded while they are known to be good.
//!
//! The list has one line for each object: the file's identity, the object's number, the bytes of
//! the file that it holds, and their BLAKE3 digest.
//!
//! ```text
//! 0f…  1  4194304  af13…
//! ```

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

use dio::stripe::object::open_checked;
use dio::stripe::{ObjectState, StripeReport};
use dio::{FileError, OpenOptions};
use rustix::fs::OFlags;

/// Number of objects that are read at a time.
const READERS: usize = 8;

/// Size of one read, in bytes.
const PIECE: usize = 4 << 20;

/// The number of bytes and the digest of each object, by the file's identity and the object's
/// number.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Digests(HashMap<(String, usize), (u64, String)>);

/// The result of comparing the digest of an object.
pub(super) enum DigestComparison {
    Same,
    /// The object holds other bytes, or a different number of them.
    Other,
    /// No digest was recorded.
    Unknown,
    Unreadable(FileError),
}

impl Digests {
    /// Reads a list of digests.
    ///
    /// # Errors
    /// Errors of reading the file; `InvalidData` if it is no such list.
    pub(super) fn read(path: &Path) -> io::Result<Digests> {
        let text = fs::read_to_string(path)?;
        Digests::parse(&text)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "it is no list of digests"))
    }

    fn parse(text: &str) -> Option<Digests> {
        let lines: Option<HashMap<_, _>> = text.lines().map(parse).collect();
        lines.map(Digests)
    }

    /// Formats the list, sorted.
    fn text(&self) -> String {
        let mut lines: Vec<_> = self.0.iter().collect();
        lines.sort();
        let mut text = String::new();
        for ((id, index), (bytes, digest)) in lines {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{id}  {index}  {bytes}  {digest}");
        }
        text
    }

    /// Writes the list durably. An existing file of that name stays until the new one is complete.
    ///
    /// # Errors
    /// Errors of writing.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        crate::tool::target::own_file::replace_by(
            path,
            Path::new(&part),
            self.text().as_bytes(),
            0o666,
        )
    }

    /// Records the digests of a file's objects.
    pub(super) fn note(&mut self, report: &StripeReport, found: &[Result<String, FileError>]) {
        for (index, digest) in found.iter().enumerate() {
            if let Ok(digest) = digest {
                self.0.insert(
                    (report.descriptor.id.to_string(), index),
                    (held(report, index), digest.clone()),
                );
            }
        }
    }

    /// Compares the digests of a file's objects with the recorded ones.
    pub(super) fn judge(
        &self,
        report: &StripeReport,
        found: Vec<Result<String, FileError>>,
    ) -> Vec<DigestComparison> {
        let id = report.descriptor.id.to_string();
        let verdict = |(index, digest): (usize, Result<String, FileError>)| match digest {
            Err(error) => DigestComparison::Unreadable(error),
            Ok(digest) => match self.0.get(&(id.clone(), index)) {
                None => DigestComparison::Unknown,
                Some(recorded) if *recorded == (held(report, index), digest) => {
                    DigestComparison::Same
                }
                Some(_) => DigestComparison::Other,
            },
        };
        found.into_iter().enumerate().map(verdict).collect()
    }
}

#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz_digests(text: &str) -> Option<String> {
    let list = Digests::parse(text)?;
    let again = list.text();
    assert_eq!(Digests::parse(&again), Some(list));
    Some(again)
}

fn parse(line: &str) -> Option<((String, usize), (u64, String))> {
    let mut parts = line.split_ascii_whitespace();
    let (id, index) = (parts.next()?.to_owned(), parts.next()?.parse().ok()?);
    let value = (parts.next()?.parse().ok()?, parts.next()?.to_owned());
    parts.next().is_none().then_some(((id, index), value))
}

/// Number of bytes of the file that an object holds.
fn held(report: &StripeReport, index: usize) -> u64 {
    report.objects[index].share.saturating_sub(report.descriptor.layout.start())
}

/// Computes the digests of a file's objects, several of them at a time.
pub(super) fn of(report: &StripeReport) -> Vec<Result<String, FileError>> {
    let all: Vec<usize> = (0..report.objects.len()).collect();
    let mut digests = Vec::with_capacity(all.len());
    for some in all.chunks(READERS) {
        digests.extend(std::thread::scope(|scope| {
            let readers: Vec<_> =
                some.iter().map(|index| scope.spawn(|| of_object(report, *index))).collect();
            readers
                .into_iter()
                .map(|reader| reader.join().expect("a reader does not panic"))
                .collect::<Vec<_>>()
        }));
    }
    digests
}

fn of_object(report: &StripeReport, index: usize) -> Result<String, FileError> {
    let (descriptor, object) = (&report.descriptor, &report.objects[index]);
    let (mut at, end) = (descriptor.layout.start(), object.share);
    let found = open_checked(descriptor, index, report.owner, OFlags::RDONLY);
    let found = found
        .map_err(|(errno, what)| FileError::new("open", &object.path, errno).with_detail(what))?;
    let file = OpenOptions::new().read(true).adopt(found.into(), &object.path)?;
    let (mut hasher, mut piece) = (blake3::Hasher::new(), vec![0; PIECE]);
    while at < end {
        let most = (end - at).min(PIECE as u64) as usize;
        let count = file.read_at(&mut piece[..most], at)?;
        if count == 0 {
            break;
        }
        hasher.update(&piece[..count]);
        at += count as u64;
    }
    Ok(hasher.finalize().to_hex().to_string())
}

/// Whether every object is in a state that permits a digest.
pub(super) fn is_whole(report: &StripeReport) -> bool {
    report.objects.iter().all(|object| object.state == ObjectState::Sound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_back_and_other_text_is_none() {
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = dir.path().join("list");
        let digests = Digests([(("0f".to_owned(), 3), (17, "ab".to_owned()))].into());
        digests.write(&path).unwrap();
        assert_eq!(Digests::read(&path).unwrap(), digests);
        fs::write(&path, "some text\n").unwrap();
        assert_eq!(Digests::read(&path).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
