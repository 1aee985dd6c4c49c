//! Parses the lines of lists of digests.
//!
//! Three formats are accepted, as by GNU: tagged (`MD5 (name) = digest`, also as `openssl dgst`
//! writes it), reversed (`digest  name`, `digest *name`), and BSD's reversed format (`digest name`,
//! one blank).

use super::encode::{from_base64, from_hex};
use super::format::{Piece, unescaped};
use dio_digest::{Algorithm, DigestKind};
use serde::{Deserialize, Serialize};

/// The contents of a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ListLine {
    /// The kind of digest.
    pub(crate) kind: DigestKind,
    /// The value of the digest.
    pub(crate) digest: Vec<u8>,
    /// The name of the file.
    pub(crate) name: Vec<u8>,
    /// The part of the file that the digest is of, if it is not of the whole.
    pub(crate) piece: Option<Piece>,
}

/// Which lines are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Accept {
    /// The requested algorithms. If there are none, tagged lines of any algorithm are accepted, and
    /// no others.
    pub(crate) algorithms: Vec<Algorithm>,
    /// Whether lines are parsed as by `cksum`: digests may be in base64, one more blank may follow
    /// the tag, and a name may be empty.
    pub(crate) general: bool,
    /// Whether digests of pieces of files are accepted, which only `dio sum` writes.
    pub(crate) pieces: bool,
}

/// Parses the lines of one list.
pub(crate) struct ListReader<'a> {
    accept: &'a Accept,
    /// Whether reversed lines have one blank (BSD's) or two. The first such line decides, so that a
    /// list cannot make a file pass under a name that starts with a blank.
    one_blank: Option<bool>,
    /// The algorithm that messages name: the last one that a line named.
    current: Algorithm,
}

impl<'a> ListReader<'a> {
    /// Creates the reader of a new list.
    pub(crate) fn new(accept: &'a Accept) -> Self {
        let current = *accept.algorithms.first().unwrap_or(&Algorithm::Crc);
        Self { accept, one_blank: None, current }
    }

    /// Returns the tag for the message about a line that could not be parsed.
    pub(crate) fn tag(&self) -> &'static str {
        self.current.tag()
    }

    /// Parses `line`; `None` if it is improperly formatted. It has no line end, and is neither
    /// empty nor a comment.
    pub(crate) fn line(&mut self, line: &[u8]) -> Option<ListLine> {
        let blanks = line.iter().take_while(|&&byte| is_blank(byte)).count();
        let line = &line[blanks..];
        let (line, escaped) = match line.strip_prefix(b"\\") {
            Some(rest) => (rest, true),
            None => (line, false),
        };
        match self.tagged(line) {
            LineStart::Of(algorithm, rest) => self.tagged_line(algorithm, rest, escaped),
            LineStart::Refused => None,
            LineStart::None if self.accept.algorithms.is_empty() => None,
            LineStart::None => self.reversed_line(line, escaped),
        }
    }

    /// Returns the algorithm whose tag begins the line, if there is one.
    fn tagged<'l>(&mut self, line: &'l [u8]) -> LineStart<'l> {
        let known = |algorithm: &&Algorithm| line.starts_with(algorithm.tag().as_bytes());
        if !self.accept.algorithms.is_empty() {
            // The longest tag that fits counts, because CRC32C also starts with CRC.
            let found = self
                .accept
                .algorithms
                .iter()
                .filter(known)
                .max_by_key(|algorithm| algorithm.tag().len());
            return found.map_or(LineStart::None, |&algorithm| {
                LineStart::Of(algorithm, &line[algorithm.tag().len()..])
            });
        }
        let word = line
            .iter()
            .take_while(|&&byte| !is_blank(byte) && byte != b'-' && byte != b'(')
            .count();
        let (word, rest) = line.split_at(word);
        match Algorithm::ALL.into_iter().find(|algorithm| algorithm.tag().as_bytes() == word) {
            None => LineStart::None,
            Some(algorithm) if algorithm.is_number() => LineStart::Refused,
            Some(algorithm) => {
                self.current = algorithm;
                LineStart::Of(algorithm, rest)
            }
        }
    }

    /// Parses the rest of a line after its tag: `[-BITS] (name) = digest`, with or without most of
    /// the blanks.
    fn tagged_line(&self, algorithm: Algorithm, rest: &[u8], escaped: bool) -> Option<ListLine> {
        let (bytes, rest) = match rest.strip_prefix(b"-") {
            Some(rest) if algorithm.any_length() => {
                let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
                let bits: usize = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
                let fits = bits > 0 && bits % 8 == 0 && bits / 8 <= algorithm.most_bytes();
                (fits.then_some(bits / 8)?, &rest[digits..])
            }
            // GNU ends the tag of these algorithms at a blank, and then accepts another one.
            _ if self.is_loose(algorithm) => (
                algorithm.bytes(),
                rest.strip_prefix(b" ").or(rest.strip_prefix(b"\t")).unwrap_or(rest),
            ),
            _ => (algorithm.bytes(), rest),
        };
        let rest = rest.strip_prefix(b" ").unwrap_or(rest).strip_prefix(b"(")?;
        let end = rest.iter().rposition(|&byte| byte == b')')?;
        let name = if escaped { unescaped(&rest[..end])? } else { rest[..end].to_vec() };
        let (piece, behind) = self.piece(trim(&rest[end + 1..]))?;
        let digest = trim(behind.strip_prefix(b"=")?);
        // The tag of BLAKE3 does not contain the length.
        let bytes = if algorithm == Algorithm::Blake3 { self.length_of(digest)? } else { bytes };
        let kind = DigestKind { algorithm, bytes };
        Some(ListLine { kind, digest: self.value(kind, digest)?, name, piece })
    }

    /// Parses the piece behind a name, if there is one. Returns what follows it too.
    fn piece<'l>(&self, text: &'l [u8]) -> Option<(Option<Piece>, &'l [u8])> {
        if !(self.accept.pieces && text.starts_with(b"[")) {
            return Some((None, text));
        }
        let end = text.iter().position(|&byte| byte == b']')? + 1;
        Some((Some(Piece::parse(&text[..end])?), trim(&text[end..])))
    }

    /// Parses a line without a tag: `digest`, one blank, `*` or another blank, `name`.
    fn reversed_line(&mut self, line: &[u8], escaped: bool) -> Option<ListLine> {
        let end = line.iter().position(|&byte| is_blank(byte))?;
        let (digest, rest) = (&line[..end], &line[end + 1..]);
        let (kind, digest) = self.untagged_kind(digest)?;
        let name = self.reversed_name(rest, kind.algorithm)?;
        let name = if escaped { unescaped(name)? } else { name.to_vec() };
        Some(ListLine { kind, digest, name, piece: None })
    }

    /// Returns whether GNU parses lines of the algorithm by the rules of `cksum` and `b2sum`.
    fn is_loose(&self, algorithm: Algorithm) -> bool {
        self.accept.general || algorithm.any_length()
    }

    /// Returns the first of the requested algorithms that has an untagged digest of this length.
    fn untagged_kind(&self, text: &[u8]) -> Option<(DigestKind, Vec<u8>)> {
        let usual = self.accept.algorithms.iter().map(|&algorithm| DigestKind::from(algorithm));
        let any = self.accept.algorithms.iter().filter(|algorithm| algorithm.any_length());
        let any = any.map(|&algorithm| DigestKind { algorithm, bytes: text.len() / 2 });
        let fits = |kind: &DigestKind| (1..=kind.algorithm.most_bytes()).contains(&kind.bytes);
        usual.chain(any).filter(fits).find_map(|kind| Some((kind, self.value(kind, text)?)))
    }

    /// Returns the name behind the digest and one blank.
    fn reversed_name<'l>(&mut self, rest: &'l [u8], algorithm: Algorithm) -> Option<&'l [u8]> {
        match rest {
            // By the rules of `cksum` an empty name is valid, though no file has it.
            [] if !self.is_loose(algorithm) => None,
            [b' ' | b'*', name @ ..] if !name.is_empty() => {
                if *self.one_blank.get_or_insert(false) {
                    return Some(rest);
                }
                Some(name)
            }
            name => (*self.one_blank.get_or_insert(true)).then_some(name),
        }
    }

    /// Returns the number of bytes of the BLAKE3 digest in `text`.
    fn length_of(&self, text: &[u8]) -> Option<usize> {
        let bytes = from_hex(text).or_else(|| from_base64(text).filter(|_| self.accept.general))?;
        (1..=Algorithm::Blake3.most_bytes()).contains(&bytes.len()).then_some(bytes.len())
    }

    fn value(&self, kind: DigestKind, text: &[u8]) -> Option<Vec<u8>> {
        if text.len() == kind.bytes * 2
            && let Some(bytes) = from_hex(text)
        {
            return Some(bytes);
        }
        from_base64(text).filter(|bytes| self.accept.general && bytes.len() == kind.bytes)
    }
}

/// How a line starts.
enum LineStart<'l> {
    /// With the tag of an algorithm; the rest follows.
    Of(Algorithm, &'l [u8]),
    /// With the tag of an algorithm whose lines cannot be checked.
    Refused,
    /// Without a tag.
    None,
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// Returns `text` without its leading blanks.
fn trim(text: &[u8]) -> &[u8] {
    &text[text.iter().take_while(|&&byte| is_blank(byte)).count()..]
}

/// Returns `line` without its line end; `None` if it is a comment or empty.
pub(crate) fn contents(line: &[u8]) -> Option<&[u8]> {
    if line.starts_with(b"#") {
        return None;
    }
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    (!line.is_empty()).then_some(line)
}

#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz_list(text: &[u8]) -> usize {
    let mut sensible = 0;
    let all = [Vec::new(), vec![Algorithm::Sha256], vec![Algorithm::Blake3], vec![Algorithm::Crc]];
    for (algorithms, general) in all.into_iter().flat_map(|one| [(one.clone(), false), (one, true)])
    {
        let accept = Accept { algorithms, general, pieces: general };
        let mut reader = ListReader::new(&accept);
        for claim in text
            .split_inclusive(|byte| *byte == b'\n')
            .filter_map(contents)
            .filter_map(|it| reader.line(it))
        {
            assert_eq!(claim.digest.len(), claim.kind.bytes, "{claim:?}");
            assert!(!claim.name.contains(&b'\n') || text.contains(&b'\\'), "{claim:?}");
            sensible += 1;
        }
    }
    sensible
}

#[cfg(test)]
mod tests {
    use super::*;

    const MD5: &str = "764efa883dda1e11db47671c4a3bbd9e";

    fn read(algorithms: &[Algorithm], lines: &[&str]) -> Vec<Option<String>> {
        let accept = Accept { algorithms: algorithms.to_vec(), general: true, pieces: true };
        let mut reader = ListReader::new(&accept);
        let mut name = |line: &&str| {
            reader.line(line.as_bytes()).map(|claim| String::from_utf8(claim.name).unwrap())
        };
        lines.iter().map(&mut name).collect()
    }

    fn one(algorithms: &[Algorithm], line: String) -> Option<String> {
        read(algorithms, &[&line]).remove(0)
    }

    #[test]
    fn proper_lines() {
        for (line, name) in [
            (format!("{MD5}  a"), "a"),
            (format!("{MD5} *a"), "a"),
            (format!("{MD5} a b"), "a b"),
            (format!("{MD5}   a"), " a"),
            (format!("{MD5}  "), " "),
            (format!(" \t{}  a", MD5.to_uppercase()), "a"),
            (format!("\\{MD5}  a\\nb\\\\"), "a\nb\\"),
            (format!("MD5 (a) = {MD5}"), "a"),
            (format!("MD5(a)= {MD5}"), "a"),
            (format!("MD5 (a) (b) ={MD5}"), "a) (b"),
            (format!("\\MD5 (a\\n) = {MD5}"), "a\n"),
            ("MD5 (a) = dk76iD3aHhHbR2ccSju9ng==".into(), "a"),
            ("dk76iD3aHhHbR2ccSju9ng==  a".into(), "a"),
        ] {
            assert_eq!(one(&[Algorithm::Md5], line.clone()).as_deref(), Some(name), "{line}");
        }
    }

    #[test]
    fn improper_lines() {
        for line in [
            "garbage".to_owned(),
            MD5.to_owned(),
            format!("{MD5}0  a"),
            format!("{}  a", &MD5[1..]),
            format!("g{}  a", &MD5[1..]),
            format!("\\{MD5}  a\\x"),
            format!("\\{MD5}  a\\"),
            format!("MD5 (a) = {MD5}0"),
            format!("MD5 (a) = {MD5} "),
            format!("MD5 (a){MD5}"),
            format!("MD5-128 (a) = {MD5}"),
            format!("MD5 a) = {MD5}"),
            format!("SHA1 (a) = {MD5}"),
        ] {
            assert_eq!(one(&[Algorithm::Md5], line.clone()), None, "{line}");
        }
    }

    #[test]
    fn the_first_line_decides_between_one_blank_and_two() {
        let (one, two) = (format!("{MD5} a"), format!("{MD5}  a"));
        assert_eq!(read(&[Algorithm::Md5], &[&two, &one]), [Some("a".into()), None]);
        assert_eq!(read(&[Algorithm::Md5], &[&one, &two]), [Some("a".into()), Some(" a".into())]);
    }

    #[test]
    fn tagged_lines_name_their_algorithm() {
        let accept = Accept { algorithms: vec![], general: true, pieces: true };
        let mut reader = ListReader::new(&accept);
        assert_eq!(reader.tag(), "CRC");
        assert_eq!(reader.line(format!("{MD5}  a").as_bytes()), None);
        assert!(reader.line(b"BLAKE2b-8 (a) = ff").is_some());
        assert_eq!(reader.tag(), "BLAKE2b");
        for bad in [
            "BLAKE2b-7 (a) = ff",
            "BLAKE2b-8 (a) = ffff",
            "BLAKE2b-1024 (a) = ff",
            "BLAKE2b (a) = ff",
        ] {
            assert!(reader.line(bad.as_bytes()).is_none(), "{bad}");
        }
        assert!(reader.line(b"CRC (a) = 0000").is_none());
        assert_eq!(reader.line(b"CRC32C (a) = 01020304").unwrap().kind, Algorithm::Crc32c.into());
        assert_eq!(reader.line(b"BLAKE3 (a) = 0102").unwrap().kind.bytes, 2);
        assert!(reader.line(b"BLAKE3 (a) = ").is_none());
    }

    #[test]
    fn a_tagged_line_may_be_of_a_piece() {
        let mut accept = Accept { algorithms: vec![], general: true, pieces: true };
        let line = format!("MD5 (a) [b) [4+4/10] = {MD5}");
        let found = ListReader::new(&accept).line(line.as_bytes()).unwrap();
        assert_eq!((found.name, found.piece), (b"a) [b".to_vec(), Piece::parse(b"[4+4/10]")));
        let bad = format!("MD5 (a) [4+40/10] = {MD5}");
        assert_eq!(ListReader::new(&accept).line(bad.as_bytes()), None);
        accept.pieces = false;
        assert_eq!(ListReader::new(&accept).line(line.as_bytes()), None);
    }

    #[test]
    fn an_untagged_line_is_of_the_algorithm_with_its_length() {
        let accept = Accept {
            algorithms: vec![Algorithm::Blake2b, Algorithm::Md5, Algorithm::Sha1],
            general: true,
            pieces: true,
        };
        let mut reader = ListReader::new(&accept);
        let mut kind = |digits| {
            reader.line(format!("{}  a", "0".repeat(digits)).as_bytes()).map(|claim| claim.kind)
        };
        assert_eq!(kind(32), Some(Algorithm::Md5.into()));
        assert_eq!(kind(40), Some(Algorithm::Sha1.into()));
        assert_eq!(kind(128), Some(Algorithm::Blake2b.into()));
        assert_eq!(kind(6), Some(DigestKind { algorithm: Algorithm::Blake2b, bytes: 3 }));
        assert_eq!(kind(7), None);
        assert_eq!(kind(130), None);
    }

    #[test]
    fn line_ends_and_comments() {
        assert_eq!(contents(b"a\r\n"), Some(&b"a"[..]));
        assert_eq!(contents(b"a"), Some(&b"a"[..]));
        for nothing in [&b"# a\n"[..], b"\n", b"\r\n"] {
            assert_eq!(contents(nothing), None);
        }
    }
}
