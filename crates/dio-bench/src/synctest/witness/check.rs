//! The check after the power failure: is everything on the disk that the witness has kept?

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use dio::block::Pool;
use dio::quote::{named, quoted};
use dio_sys::{reopen, uninterrupted};
use rustix::fs::OFlags;
use serde::Serialize;

use super::block::{FoundBlock, HEADER, look, read_header};
use super::identity::WitnessIdentity;
use super::link::{Connection, Contact};
use super::place::same_place;
use super::protocol::WitnessSession;
use super::record::KeptSession;
use super::writer::{boot_id, first_block, host};
use crate::synctest::case::Method;
use crate::synctest::error::SyncError;

/// The source of the acknowledged number.
#[derive(Clone, Debug)]
pub enum NumberSource {
    /// The witness.
    Witness(Contact),
    /// A file that a witness has written.
    Record(PathBuf),
}

/// The most losses that are listed individually; beyond that only their number is reported.
const SHOWN: usize = 10;

/// One acknowledged block that is missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Loss {
    /// Its number.
    pub number: u64,
    /// Its offset in the file, in bytes.
    pub offset: u64,
    /// The contents found at this offset instead.
    pub found: String,
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WitnessCheck {
    /// The file.
    pub path: PathBuf,
    /// The session, in hexadecimal.
    pub session: String,
    /// The highest number that the disk acknowledged, according to the witness.
    pub acknowledged: u64,
    /// The first number that must be present; earlier blocks may have been overwritten.
    pub first: u64,
    /// Every number from `first` up to this one is present; less than `first` if `first` is
    /// missing.
    pub contiguous: u64,
    /// The highest number that is present, acknowledged or not; 0 if there is none.
    pub highest: u64,
    /// Count of numbers that were acknowledged but are missing or damaged.
    pub lost: u64,
    /// The first lost blocks.
    pub losses: Vec<Loss>,
    /// Whether this machine was rebooted since the blocks were written; `None` if that is unknown.
    /// Without a reboot the blocks may come from memory, and prove nothing.
    pub restarted: Option<bool>,
    /// Whether the file exists.
    pub file_found: bool,
}

impl WitnessCheck {
    /// Whether an acknowledged block is lost.
    pub fn lied(&self) -> bool {
        self.lost > 0
    }

    /// The result as text for a user.
    pub fn text(&self) -> String {
        let WitnessCheck { acknowledged, first, lost, .. } = self;
        let mut text = format!("{}, session {}\n", named(&self.path), self.session);
        let range = format!(
            "{acknowledged} writes were acknowledged; numbers {first} to {acknowledged} must be \
             there"
        );
        if !self.lied() {
            text.push_str(&format!("{range}, and are.\n"));
            text.push_str(match self.restarted {
                Some(true) => "If the disk itself was without power meanwhile, it kept its word.\n",
                Some(false) => {
                    "This machine was not started again since they were written: they may come \
                     from memory, and this proves nothing about the disk.\n"
                }
                None => {
                    "Whether this machine was started again since cannot be told: if not, this \
                     proves nothing.\n"
                }
            });
            return text;
        }
        text.push_str(&format!("THE DISK LIED: {range}, and {lost} of them are not.\n"));
        if !self.file_found {
            text.push_str("The file itself is not there: not even its name was kept.\n");
        }
        let contiguous =
            if self.contiguous < *first { "none".to_owned() } else { self.contiguous.to_string() };
        text.push_str(&format!(
            "Complete up to number: {contiguous}. Highest number that is there at all: {}.\n",
            if self.highest == 0 { "none".to_owned() } else { self.highest.to_string() }
        ));
        for Loss { number, offset, found } in &self.losses {
            text.push_str(&format!("  number {number}, at offset {offset}: {found}\n"));
        }
        if *lost > self.losses.len() as u64 {
            text.push_str(&format!("  and {} more\n", lost - self.losses.len() as u64));
        }
        text
    }
}

/// Reads the file and compares it with the acknowledged number.
///
/// `identity` selects the session if neither the file's header nor its name identifies it.
///
/// # Errors
/// [`SyncError`]: the file or the source cannot be read, or the check is not conclusive. The latter
/// holds if nothing was acknowledged, or if blocks are missing for another reason than loss:
/// another file system is mounted, or the name differs.
pub fn check(
    path: &Path,
    source: &NumberSource,
    identity: Option<WitnessIdentity>,
) -> Result<WitnessCheck, SyncError> {
    let file = open(path)?;
    let told = match &file {
        Some(file) => read_header(&read(file, path, 0, HEADER as usize)?),
        None => None,
    };
    let (acknowledged, session) =
        known(path, source, identity.or(told.as_ref().map(|session| session.identity)))?;
    match told {
        Some(told) if told.identity != session.identity => {
            return Err(SyncError::Asked(format!(
                "'{}' is of session {}, and not of {}",
                path.display(),
                told.identity,
                session.identity
            )));
        }
        Some(told) if told != session => {
            return Err(SyncError::Asked(format!(
                "'{}' and the witness do not agree about session {}: {} and {} slots",
                path.display(),
                told.identity,
                told.slots,
                session.slots
            )));
        }
        Some(_) => {}
        None => same_place(path, &session)?,
    }
    let durable = |method: &Method| method.name() == session.method && method.is_durable();
    if !Method::ALL.iter().any(durable) {
        return Err(SyncError::Asked(format!(
            "the blocks of session {} were written with {}, which makes nothing durable: nothing \
             is proved",
            session.identity, session.method
        )));
    }
    if acknowledged == 0 {
        return Err(SyncError::Asked(format!(
            "nothing was acknowledged in session {}: nothing is proved",
            session.identity
        )));
    }
    let file_found = file.is_some();
    let slots = match file {
        Some(file) => slots_of(file, path, &session)?,
        None => Vec::new(),
    };
    let boot = boot_id();
    let known = !boot.is_empty() && !session.boot.is_empty();
    let restarted = known.then(|| boot != session.boot || host() != session.host);
    Ok(WitnessCheck {
        path: path.to_owned(),
        restarted,
        file_found,
        ..compare(&session, acknowledged, &slots)
    })
}

/// Opens the file, if it exists.
fn open(path: &Path) -> Result<Option<File>, SyncError> {
    // Opening a pipe would block.
    let flags = OFlags::NONBLOCK.bits() as i32;
    let file = match File::options().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(SyncError::system("open", path)(error)),
    };
    let kind = file.metadata().map_err(SyncError::system("look at", path))?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        return Err(SyncError::Asked(format!("{} is no regular file", quoted(path))));
    }
    Ok(Some(file))
}

/// The acknowledged number and the session, from the source.
fn known(
    path: &Path,
    source: &NumberSource,
    identity: Option<WitnessIdentity>,
) -> Result<(u64, WitnessSession), SyncError> {
    match source {
        NumberSource::Record(record) => {
            let kept = KeptSession::read(record)?;
            match identity {
                Some(identity) if identity != kept.session.identity => {
                    Err(SyncError::Asked(format!(
                        "'{}' is of session {}, and '{}' of session {identity}",
                        record.display(),
                        kept.session.identity,
                        path.display()
                    )))
                }
                _ => Ok((kept.highest, kept.session)),
            }
        }
        NumberSource::Witness(contact) => {
            let mut connection = Connection::open(contact)?;
            if let Some(identity) = identity {
                return connection.session(identity);
            }
            // The file does not identify its session, but its name may.
            let absolute = std::path::absolute(path).map_err(SyncError::system("find", path))?;
            let absolute = absolute.to_string_lossy();
            let mut all = connection.list()?;
            all.retain(|(_, session)| session.path == absolute && session.host == host());
            match (all.pop(), all.is_empty()) {
                (Some(only), true) => Ok(only),
                (None, _) => Err(SyncError::Asked(format!(
                    "'{absolute}' has no header that can be read, and the witness knows of no \
                     session with this file on this machine: name the session by --session"
                ))),
                (Some(_), false) => Err(SyncError::Asked(format!(
                    "'{absolute}' has no header that can be read, and the witness knows of several \
                     sessions with this file: name one by --session"
                ))),
            }
        }
    }
}

/// Compares the contents of the slots with the required numbers.
fn compare(session: &WitnessSession, acknowledged: u64, slots: &[FoundBlock]) -> WitnessCheck {
    let first = (acknowledged + 1).saturating_sub(session.slots / 2).max(1);
    let place = |number: u64| (number - 1) % session.slots;
    let mut check = WitnessCheck {
        path: PathBuf::new(),
        session: session.identity.to_string(),
        acknowledged,
        first,
        contiguous: acknowledged,
        highest: 0,
        lost: 0,
        losses: Vec::new(),
        restarted: None,
        file_found: true,
    };
    for (slot, found) in slots.iter().enumerate() {
        if let FoundBlock::Number(number) = found
            && *number > 0
            && place(*number) == slot as u64
        {
            check.highest = check.highest.max(*number);
        }
    }
    for number in first..=acknowledged {
        let slot = place(number);
        let found = slots.get(slot as usize).copied().unwrap_or(FoundBlock::Nothing);
        if found == FoundBlock::Number(number) {
            continue;
        }
        if check.lost == 0 {
            check.contiguous = number - 1;
        }
        check.lost += 1;
        if check.losses.len() < SHOWN {
            let offset = first_block(session.size) + slot * session.size;
            let found = match found {
                FoundBlock::Number(other) if place(other) != slot => {
                    format!("{found}, which belongs elsewhere")
                }
                _ => found.to_string(),
            };
            check.losses.push(Loss { number, offset, found });
        }
    }
    check
}

/// The contents of every slot.
fn slots_of(
    file: File,
    path: &Path,
    session: &WitnessSession,
) -> Result<Vec<FoundBlock>, SyncError> {
    // Reads bypass the page cache if possible. If `O_DIRECT` needs a larger alignment than the
    // blocks have, it is refused, and the reads are buffered.
    let direct = reopen(&file, OFlags::RDONLY | OFlags::DIRECT | OFlags::NONBLOCK);
    let (size, start) = (session.size as usize, first_block(session.size));
    let chunk = size.max(1 << 20);
    let pool = Pool::new(chunk, 1).map_err(SyncError::system("map memory for", path))?;
    let mut block = pool.try_take().expect("nobody else takes from this pool");
    let mut direct = direct.ok().map(File::from);
    let mut slots = Vec::new();
    let mut at = start;
    let end = start + session.slots * session.size;
    while at < end {
        let length = chunk.min((end - at) as usize);
        let bytes = &mut block.bytes_mut()[..length];
        bytes.fill(0);
        let by_direct = direct.as_ref().map(|file| fill_from(file, bytes, at));
        let count = match by_direct {
            Some(Ok(count)) => count,
            _ => {
                direct = None;
                fill_from(&file, bytes, at).map_err(SyncError::at("read", path, at))?
            }
        };
        for (slot, part) in bytes.chunks(size).enumerate() {
            // Slots beyond the end of the file count as empty.
            let there = count.saturating_sub(slot * size).min(size);
            slots.push(look(&part[..there], size, session.identity));
        }
        at += length as u64;
    }
    let _ = dio::residency::evict(&file, 0..end);
    Ok(slots)
}

fn read(file: &File, path: &Path, at: u64, length: usize) -> Result<Vec<u8>, SyncError> {
    let mut bytes = vec![0; length];
    let count = fill_from(file, &mut bytes, at).map_err(SyncError::at("read", path, at))?;
    bytes.truncate(count);
    Ok(bytes)
}

/// Reads until `bytes` is full or the file ends.
fn fill_from(file: &File, bytes: &mut [u8], at: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < bytes.len() {
        match uninterrupted(|| file.read_at(&mut bytes[done..], at + done as u64)) {
            Ok(0) => break,
            Ok(count) => done += count,
            // A direct read of the rest of a short last block fails; the file ends there.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput && done > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::super::block::fill;
    use super::*;

    fn session(slots: u64) -> WitnessSession {
        let identity = WitnessIdentity([5; 16]);
        WitnessSession {
            identity,
            size: 4096,
            slots,
            boot: String::new(),
            host: String::new(),
            path: String::new(),
            file_system: String::new(),
            directory: 0,
            method: "fdatasync".to_owned(),
        }
    }

    /// A ring of eight slots after writing the numbers 1 to `written`.
    fn ring(written: u64) -> Vec<FoundBlock> {
        let mut slots = vec![FoundBlock::Nothing; 8];
        (1..=written)
            .for_each(|number| slots[((number - 1) % 8) as usize] = FoundBlock::Number(number));
        slots
    }

    #[test]
    fn a_pipe_is_refused_and_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let record = NumberSource::Record(path.clone());
        std::thread::spawn(move || tell.send(check(&path, &record, None).unwrap_err().to_string()));
        let why = told.recv_timeout(std::time::Duration::from_secs(30)).unwrap();
        assert!(why.contains("pipe' is no regular file"), "{why}");
    }

    /// Another process may replace the file while it is checked.
    #[test]
    fn what_was_looked_at_is_what_is_read() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let (path, session) = (directory.path().join("blocks"), session(2));
        let mut bytes = vec![0; first_block(session.size) as usize];
        for number in 1..=session.slots {
            let mut block = vec![0; session.size as usize];
            fill(&mut block, session.identity, number);
            bytes.append(&mut block);
        }
        std::fs::write(&path, bytes).unwrap();
        let file = open(&path).unwrap().unwrap();
        std::fs::rename(&path, directory.path().join("moved")).unwrap();
        std::fs::write(&path, vec![0; 1 << 20]).unwrap();
        assert_eq!(
            slots_of(file, &path, &session).unwrap(),
            [FoundBlock::Number(1), FoundBlock::Number(2)]
        );
    }

    #[test]
    fn everything_is_there_whatever_was_written_besides() {
        for acknowledged in 1..40 {
            // The writer is at most half a ring ahead, and its last write may be torn.
            for more in 0..=4 {
                let mut slots = ring(acknowledged + more);
                let check = compare(&session(8), acknowledged, &slots);
                assert_eq!(
                    (check.lost, check.contiguous),
                    (0, acknowledged),
                    "{acknowledged} {more}"
                );
                assert_eq!(check.highest, acknowledged + more);
                if more > 0 {
                    slots[((acknowledged + more - 1) % 8) as usize] = FoundBlock::Torn(0);
                    assert!(
                        !compare(&session(8), acknowledged, &slots).lied(),
                        "{acknowledged} {more}"
                    );
                }
            }
        }
    }

    #[test]
    fn what_is_missing_is_named_with_its_place_and_what_is_there_instead() {
        // 21 is acknowledged, so 18 to 21 must be present. The slot of 20 still holds the block of
        // the previous lap, and 21 is torn.
        let mut slots = ring(21);
        slots[3] = FoundBlock::Number(12);
        slots[4] = FoundBlock::Torn(21);
        let check = compare(&session(8), 21, &slots);
        assert_eq!((check.first, check.contiguous, check.highest, check.lost), (18, 19, 19, 2));
        let expected =
            [(20, 4096 + 3 * 4096, "the block of number 12"), (21, 4096 + 4 * 4096, "damaged")];
        for (loss, (number, offset, words)) in check.losses.iter().zip(expected) {
            assert_eq!((loss.number, loss.offset), (number, offset));
            assert!(loss.found.contains(words), "{loss:?}");
        }
        let text = check.text();
        assert!(text.contains("THE DISK LIED") && text.contains("and 2 of them are not"), "{text}");
        // A block in the slot of another.
        slots[3] = FoundBlock::Number(19);
        assert!(compare(&session(8), 21, &slots).losses[0].found.contains("belongs elsewhere"));
    }

    #[test]
    fn a_file_that_is_gone_lost_everything_and_long_lists_are_cut() {
        let check = compare(&session(100), 50, &[]);
        assert_eq!((check.first, check.contiguous, check.highest, check.lost), (1, 0, 0, 50));
        assert_eq!(check.losses.len(), SHOWN);
        assert!(check.text().contains("and 40 more"), "{}", check.text());
    }

    #[test]
    fn without_a_restart_nothing_is_claimed() {
        let mut check = compare(&session(8), 3, &ring(3));
        check.restarted = Some(false);
        assert!(check.text().contains("proves nothing"), "{}", check.text());
        check.restarted = Some(true);
        assert!(check.text().contains("kept its word"), "{}", check.text());
    }
}
