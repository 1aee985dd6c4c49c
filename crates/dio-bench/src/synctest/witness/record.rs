//! The sessions that a witness keeps. A directory has one file `ID.session` for each session. The
//! file contains the session's `begin` line, and then a line `done N` for each highest number that
//! was kept, or `end N` if the writer ended the session. A last line without a line feed is one
//! that was being written when the witness lost power.
//!
//! A file that has grown long is replaced by a file with the `begin` line and the newest other
//! line.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use dio::quote::quoted;
use parking_lot::{Mutex, MutexGuard};
use rustix::fs::OFlags;

use super::identity::WitnessIdentity;
use super::protocol::{WitnessRequest, WitnessSession};
use super::session_file::{SessionFile, SessionLines, open_regular};
use crate::synctest::error::SyncError;

/// The most sessions that a witness keeps: each costs a descriptor.
const MOST: usize = 512;

/// The most sessions with numbers that one network may begin.
const PER_NETWORK_MAX: usize = 64;

/// How long a session is kept after its writer has ended it.
const ENDED_KEPT: Duration = Duration::from_secs(24 * 3600);

/// How long a session without a number is kept, since nothing can be proved of it. It is forgotten
/// earlier if room is needed.
const UNWRITTEN_KEPT: Duration = Duration::from_secs(3600);

/// One kept session.
#[derive(Debug)]
pub struct KeptSession {
    /// The description of the session, fixed at its beginning.
    pub session: WitnessSession,
    /// The highest number that the witness has kept durably.
    pub highest: u64,
    has_ended: bool,
    /// The time at which its last line was written.
    written: SystemTime,
    /// The network that began the session; unknown after a restart of the witness.
    network: Option<IpAddr>,
    /// The file, which stays open after a number was kept. If it is `None`, the next number
    /// replaces the file.
    file: Option<SessionFile>,
}

impl KeptSession {
    /// Reads the file of a session.
    ///
    /// # Errors
    /// [`SyncError::System`] when it cannot be read; [`SyncError::Asked`] when it is not a session,
    /// or not a regular file.
    pub fn read(path: &Path) -> Result<KeptSession, SyncError> {
        let none =
            || SyncError::Asked(format!("{} is no session that a witness has kept", quoted(path)));
        let open = open_regular(path, OFlags::empty()).map_err(SyncError::system("open", path))?;
        let (file, found) = open.ok_or_else(none)?;
        let mut lines = SessionLines::of(file);
        let mut next = || match lines.next() {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(none()),
            other => other.map_err(SyncError::system("read", path)),
        };
        let Some(WitnessRequest::Begin(session)) = next()? else { return Err(none()) };
        let (mut highest, mut has_ended) = (0, false);
        while let Some(line) = next()? {
            let (WitnessRequest::Done(number) | WitnessRequest::End(number)) = line else {
                return Err(none());
            };
            highest = highest.max(number);
            has_ended = matches!(line, WitnessRequest::End(_));
        }
        let written = found.modified().unwrap_or_else(|_| SystemTime::now());
        Ok(KeptSession { session, highest, has_ended, written, network: None, file: None })
    }

    /// Keeps a number durably. `ends` says that the writer ends the session with it. A number below
    /// the highest needs no write, since it is kept already.
    fn keep(&mut self, number: u64, ends: bool, path: &Path) -> io::Result<u64> {
        if number > self.highest || ends && !self.has_ended {
            let number = number.max(self.highest);
            let line = format!(
                "{}\n",
                if ends { WitnessRequest::End(number) } else { WitnessRequest::Done(number) }
            );
            // The file is taken out of `self` until everything is durable, so that nothing is ever
            // appended to the remains of a failed write.
            let file = match self.file.take().filter(|file| file.has_room(&line)) {
                Some(file) => file.append(&line)?,
                None => SessionFile::replace(path, &(first_line(&self.session) + &line))?,
            };
            self.file = Some(file);
            (self.highest, self.has_ended, self.written) = (number, ends, SystemTime::now());
        }
        Ok(self.highest)
    }

    /// Whether the session may be forgotten by its age.
    fn has_expired(&self) -> bool {
        let age = self.written.elapsed().unwrap_or_default();
        self.highest == 0 && age > UNWRITTEN_KEPT || self.has_ended && age > ENDED_KEPT
    }
}

/// A session in use by a connection. As long as this exists, the session is not forgotten.
#[derive(Debug)]
pub(super) struct HeldRecord(Arc<Mutex<KeptSession>>);

impl HeldRecord {
    pub(super) fn identity(&self) -> WitnessIdentity {
        self.0.lock().session.identity
    }

    /// The highest kept number.
    pub(super) fn highest(&self) -> u64 {
        self.0.lock().highest
    }
}

fn first_line(session: &WitnessSession) -> String {
    format!("{}\n", WitnessRequest::Begin(session.clone()))
}

/// All sessions of a witness.
#[derive(Debug)]
pub struct Records {
    directory: PathBuf,
    /// Files that were skipped, and why.
    passed_over: Vec<String>,
    /// Sessions whose file lacks even a complete first line, because the witness lost power. No
    /// writer has received an answer about such a session.
    unfinished: BTreeSet<WitnessIdentity>,
    sessions: Mutex<Sessions>,
}

type Sessions = BTreeMap<WitnessIdentity, Arc<Mutex<KeptSession>>>;

/// Whether a regular file contains no complete line.
fn has_no_line(path: &Path) -> bool {
    let open = open_regular(path, OFlags::NOFOLLOW);
    open.ok().flatten().is_some_and(|(file, _)| matches!(SessionLines::of(file).next(), Ok(None)))
}

impl Records {
    /// Reads the sessions in a directory, which is created if it does not exist. Files that have
    /// the name of a session but are not sessions are [skipped](Records::passed_over).
    ///
    /// # Errors
    /// [`SyncError::System`].
    pub fn open(directory: &Path) -> Result<Records, SyncError> {
        std::fs::create_dir_all(directory).map_err(SyncError::system("make", directory))?;
        let (mut sessions, mut passed_over, mut unfinished) =
            (BTreeMap::new(), Vec::new(), BTreeSet::new());
        for entry in std::fs::read_dir(directory).map_err(SyncError::system("list", directory))? {
            let path = entry.map_err(SyncError::system("list", directory))?.path();
            if path.extension().is_none_or(|end| end != "session") {
                continue;
            }
            let called =
                path.file_stem().and_then(|stem| stem.to_str()?.parse::<WitnessIdentity>().ok());
            match KeptSession::read(&path) {
                Ok(kept) if called == Some(kept.session.identity) => {
                    sessions.insert(kept.session.identity, Arc::new(Mutex::new(kept)));
                }
                Ok(kept) => {
                    passed_over.push(format!(
                        "{} is of session {}",
                        quoted(&path),
                        kept.session.identity
                    ));
                }
                Err(error) => {
                    passed_over.push(error.to_string());
                    unfinished.extend(called.filter(|_| has_no_line(&path)));
                }
            }
        }
        Ok(Records {
            directory: directory.to_owned(),
            passed_over,
            unfinished,
            sessions: Mutex::new(sessions),
        })
    }

    /// Files that have the name of a session but are not sessions, each with the reason.
    pub fn passed_over(&self) -> &[String] {
        &self.passed_over
    }

    fn path(&self, identity: WitnessIdentity) -> PathBuf {
        self.directory.join(format!("{identity}.session"))
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock()
    }

    /// Begins or continues a session for a connection from a network.
    ///
    /// # Errors
    /// The reason, as text for the client.
    pub(super) fn begin(
        &self,
        session: &WitnessSession,
        network: IpAddr,
    ) -> Result<HeldRecord, String> {
        let mut sessions = self.sessions();
        if let Some(kept) = sessions.get(&session.identity) {
            if kept.lock().session != *session {
                return Err("another session has this identity".to_owned());
            }
            return Ok(HeldRecord(Arc::clone(kept)));
        }
        self.make_room(&mut sessions, network)?;
        let path = self.path(session.identity);
        let again = self.unfinished.contains(&session.identity) && has_no_line(&path);
        let make = if again { SessionFile::replace } else { SessionFile::create };
        make(&path, &first_line(session))
            .map_err(|error| format!("cannot keep the session: {error}"))?;
        let (session, written) = (session.clone(), SystemTime::now());
        let kept = KeptSession {
            session,
            highest: 0,
            has_ended: false,
            written,
            network: Some(network),
            file: None,
        };
        let kept = Arc::new(Mutex::new(kept));
        sessions.insert(kept.lock().session.identity, Arc::clone(&kept));
        Ok(HeldRecord(kept))
    }

    /// Forgets expired sessions and, if there is no room, the oldest unused session without a
    /// number.
    fn make_room(&self, sessions: &mut Sessions, network: IpAddr) -> Result<(), String> {
        let mut unwritten = Vec::new();
        let mut of_network = 0;
        let mut expired = Vec::new();
        for (identity, kept) in sessions.iter() {
            let in_use = Arc::strong_count(kept) > 1;
            // A session that is being synced now is in use. This function does not wait for it.
            let Some(kept) = kept.try_lock() else { continue };
            if !in_use && kept.has_expired() {
                expired.push(*identity);
            } else if kept.highest > 0 {
                of_network += usize::from(kept.network == Some(network));
            } else if !in_use {
                unwritten.push((kept.written, *identity));
            }
        }
        if of_network >= PER_NETWORK_MAX {
            return Err(format!("{PER_NETWORK_MAX} sessions of one address are kept, and no more"));
        }
        let room = MOST.saturating_sub(sessions.len() - expired.len());
        unwritten.sort_unstable();
        expired.extend(
            unwritten.into_iter().take(1_usize.saturating_sub(room)).map(|(_, identity)| identity),
        );
        for identity in expired {
            sessions.remove(&identity);
            // If the removal fails, the next start of the witness reads the file again.
            let _ = std::fs::remove_file(self.path(identity));
        }
        if sessions.len() >= MOST {
            return Err(format!(
                "{MOST} sessions are kept, and no more: remove old files of the witness and start \
                 it again"
            ));
        }
        Ok(())
    }

    /// Keeps a number of a session that has begun. `ends` says that the writer ends the session
    /// with it. Returns the highest kept number.
    ///
    /// # Errors
    /// The reason, as text for the client.
    pub(super) fn keep(
        &self,
        session: &HeldRecord,
        number: u64,
        ends: bool,
    ) -> Result<u64, String> {
        // Only this session is locked, so that others need not wait for its sync.
        let mut kept = session.0.lock();
        let path = self.path(kept.session.identity);
        kept.keep(number, ends, &path).map_err(|error| format!("cannot keep it: {error}"))
    }

    /// A session and its highest kept number.
    pub fn find(&self, identity: WitnessIdentity) -> Option<(u64, WitnessSession)> {
        let kept = self.sessions().get(&identity).cloned()?;
        let kept = kept.lock();
        Some((kept.highest, kept.session.clone()))
    }

    /// The identities of all sessions.
    pub fn all(&self) -> Vec<WitnessIdentity> {
        self.sessions().keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write as _;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn session(byte: u8) -> WitnessSession {
        let identity = WitnessIdentity([byte; 16]);
        WitnessSession {
            identity,
            size: 512,
            slots: 8,
            boot: "b".into(),
            host: "h".into(),
            path: "/p q".into(),
            file_system: String::new(),
            directory: 1,
            method: "fsync".into(),
        }
    }

    #[test]
    fn what_is_kept_is_there_after_a_restart_whole_lines_only() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("made/here");
        let (one, two) = (session(1), session(2));
        {
            let records = Records::open(&place).unwrap();
            let (first, second) =
                (records.begin(&one, HERE).unwrap(), records.begin(&two, HERE).unwrap());
            assert_eq!((first.highest(), second.highest()), (0, 0));
            for (number, highest) in [(5, 5), (4, 5), (5, 5), (17, 17)] {
                assert_eq!(records.keep(&first, number, false), Ok(highest));
            }
            let other = WitnessSession { slots: 9, ..one.clone() };
            assert!(records.begin(&other, HERE).is_err());
        }
        // The witness lost power while it wrote a line.
        let path = place.join(format!("{}.session", one.identity));
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(b"done 1").unwrap();
        let records = Records::open(&place).unwrap();
        assert_eq!(records.all(), [one.identity, two.identity]);
        assert_eq!(records.find(one.identity), Some((17, one.clone())));
        assert_eq!(records.find(two.identity), Some((0, two)));
        let first = records.begin(&one, HERE).unwrap();
        assert_eq!((first.highest(), records.keep(&first, 18, false)), (17, Ok(18)));
        assert_eq!(KeptSession::read(&path).unwrap().highest, 18);
    }

    #[test]
    fn what_is_no_session_is_passed_over_and_one_without_a_line_begins_again() {
        let directory = tempfile::tempdir().unwrap();
        let (one, two) = (session(1), session(2));
        let name = |session: &WitnessSession| {
            directory.path().join(format!("{}.session", session.identity))
        };
        let line = WitnessRequest::Begin(two.clone()).to_string();
        std::fs::write(directory.path().join("x.session"), "nonsense\n").unwrap();
        std::fs::write(directory.path().join("y\u{1b}.session"), line.clone() + "\n").unwrap();
        std::fs::write(name(&one), "").unwrap();
        std::fs::write(name(&two), format!("{line}\ndone 7\n\0\0\0\n")).unwrap();
        std::fs::create_dir(directory.path().join("z.session")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, directory.path().join("p.session"), 0o600.into())
            .unwrap();
        let records = Records::open(directory.path()).unwrap();
        assert!(
            records.passed_over().len() == 6 && records.all().is_empty(),
            "{:?}",
            records.passed_over()
        );
        assert!(!records.passed_over().concat().contains('\u{1b}'));
        let first = records.begin(&one, HERE).unwrap();
        assert_eq!(records.keep(&first, 3, false), Ok(3));
        // A damaged file is not overwritten.
        assert!(records.begin(&two, HERE).unwrap_err().contains("exists"));
        assert_eq!(KeptSession::read(&name(&one)).unwrap().highest, 3);
    }

    /// Whenever the witness loses power, the file has the newest acknowledged number.
    #[test]
    fn the_file_of_many_numbers_stays_short_and_always_has_the_newest() {
        let directory = tempfile::tempdir().unwrap();
        let name = |end: &str| directory.path().join(format!("{}.{end}", session(1).identity));
        let (path, precious) = (name("session"), directory.path().join("precious"));
        std::fs::write(&precious, "precious").unwrap();
        std::os::unix::fs::symlink(&precious, name("new")).unwrap();
        let records = Records::open(directory.path()).unwrap();
        let held = records.begin(&session(1), HERE).unwrap();
        let (acknowledged, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        let longest = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Acquire) {
                    let least = acknowledged.load(Ordering::Acquire);
                    assert!(KeptSession::read(&path).unwrap().highest >= least);
                }
            });
            let mut longest = 0;
            for number in (u64::MAX - 4000)..u64::MAX {
                assert_eq!(records.keep(&held, number, false), Ok(number));
                acknowledged.store(number, Ordering::Release);
                longest = longest.max(path.metadata().unwrap().len());
            }
            is_over.store(true, Ordering::Release);
            longest
        });
        assert!((60 << 10..=64 << 10).contains(&longest), "{longest} bytes");
        assert_eq!(records.keep(&held, u64::MAX, true), Ok(u64::MAX));
        let kept = KeptSession::read(&path).unwrap();
        assert!(
            kept.session == session(1) && kept.highest == u64::MAX && kept.has_ended,
            "{kept:?}"
        );
        assert_eq!(std::fs::read(&precious).unwrap(), b"precious");
        assert!(!name("new").exists());
    }

    #[test]
    fn the_long_file_of_an_earlier_version_is_read_and_becomes_short() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(format!("{}.session", session(1).identity));
        let lines: String =
            (1..=100_000).map(|number| format!("{}\n", WitnessRequest::Done(number))).collect();
        std::fs::write(&path, format!("{}\n{lines}", WitnessRequest::Begin(session(1)))).unwrap();
        let records = Records::open(directory.path()).unwrap();
        let held = records.begin(&session(1), HERE).unwrap();
        assert_eq!((held.highest(), records.keep(&held, 100_001, false)), (100_000, Ok(100_001)));
        let expected =
            format!("{}\n{}\n", WitnessRequest::Begin(session(1)), WitnessRequest::Done(100_001));
        assert!(
            std::fs::read_to_string(&path).unwrap() == expected,
            "{} bytes",
            path.metadata().unwrap().len()
        );
    }

    /// A line of a session's file cannot be longer than a line of the protocol.
    #[test]
    fn a_file_with_an_endless_line_is_no_session() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(format!("{}.session", session(1).identity));
        for beginning in [String::new(), format!("{}\ndone 7\n", WitnessRequest::Begin(session(1)))]
        {
            std::fs::write(&path, beginning).unwrap();
            File::options().write(true).open(&path).unwrap().set_len(1 << 30).unwrap();
            let records = Records::open(directory.path()).unwrap();
            assert!(
                records.passed_over().len() == 1 && records.all().is_empty(),
                "{:?}",
                records.passed_over()
            );
            assert!(records.begin(&session(1), HERE).unwrap_err().contains("exists"));
        }
    }

    #[test]
    fn sessions_expire_that_ended_or_never_had_a_number() {
        let directory = tempfile::tempdir().unwrap();
        let all: Vec<WitnessSession> = (1..=4).map(session).collect();
        {
            let records = Records::open(directory.path()).unwrap();
            let held: Vec<HeldRecord> =
                all.iter().map(|session| records.begin(session, HERE).unwrap()).collect();
            records.keep(&held[0], 5, false).unwrap();
            // An end without a new number is kept too.
            records.keep(&held[0], 5, true).unwrap();
            records.keep(&held[1], 5, false).unwrap();
            records.keep(&held[3], 5, true).unwrap();
            records.keep(&held[3], 6, false).unwrap();
        }
        for session in &all {
            let file = File::options()
                .write(true)
                .open(directory.path().join(format!("{}.session", session.identity)));
            file.unwrap().set_modified(SystemTime::now() - 2 * ENDED_KEPT).unwrap();
        }
        let records = Records::open(directory.path()).unwrap();
        records.begin(&session(5), HERE).unwrap();
        let identities = [2, 4, 5].map(|byte| WitnessIdentity([byte; 16]));
        assert_eq!(records.all(), identities);
        assert_eq!(Records::open(directory.path()).unwrap().all(), identities);
    }

    #[test]
    fn room_is_made_by_forgetting_the_oldest_without_a_number_and_a_network_has_a_limit() {
        let directory = tempfile::tempdir().unwrap();
        let records = Records::open(directory.path()).unwrap();
        let numbered = |number: u128| WitnessSession {
            identity: WitnessIdentity(number.to_be_bytes()),
            ..session(0)
        };
        let held = records.begin(&numbered(0), HERE).unwrap();
        for number in 1..MOST as u128 + 40 {
            records.begin(&numbered(number), HERE).unwrap();
        }
        assert_eq!(records.all().len(), MOST);
        assert!(
            records.find(held.identity()).is_some() && records.find(numbered(1).identity).is_none()
        );
        for number in 1000..1000 + PER_NETWORK_MAX as u128 {
            let held = records.begin(&numbered(number), HERE).unwrap();
            records.keep(&held, 1, false).unwrap();
        }
        assert!(records.begin(&numbered(2000), HERE).unwrap_err().contains("of one address"));
        records.begin(&numbered(2000), IpAddr::from([10, 0, 0, 1])).unwrap();
    }
}
