//! What the witness keeps: in a directory a file `ID.session` for each session, its `begin` line and then a line `done N` for
//! each highest number that was kept. A last line without its end was being written when the witness lost its own power.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::block::Identity;
use super::protocol::{Request, Session};
use crate::synctest::error::SyncError;

/// Sessions that a witness keeps at most: each costs a descriptor.
const MOST: usize = 512;

/// One session as it is kept.
#[derive(Debug)]
pub struct Kept {
    /// From its beginning.
    pub session: Session,
    /// The highest number that is durable here.
    pub highest: u64,
    file: Option<File>,
}

impl Kept {
    /// Reads the file of a session.
    ///
    /// # Errors
    /// [`SyncError::System`] when it cannot be read; [`SyncError::Asked`] when it is none.
    pub fn read(path: &Path) -> Result<Kept, SyncError> {
        let bytes = std::fs::read(path).map_err(SyncError::system("read", path))?;
        let none = || SyncError::Asked(format!("'{}' is no session that a witness has kept", path.display()));
        let text = String::from_utf8(bytes).map_err(|_| none())?;
        // The part behind the last line feed is a line that was not finished.
        let whole = text.rsplit_once('\n').ok_or_else(none)?.0;
        let mut lines = whole.lines().map(str::parse);
        let Some(Ok(Request::Begin(session))) = lines.next() else { return Err(none()) };
        let mut highest = 0;
        for line in lines {
            match line {
                Ok(Request::Done(number) | Request::End(number)) => highest = highest.max(number),
                _ => return Err(none()),
            }
        }
        Ok(Kept { session, highest, file: None })
    }

    /// Keeps a number durably; lower ones than before are kept already.
    fn keep(&mut self, number: u64, path: &Path) -> io::Result<u64> {
        if number > self.highest {
            if self.file.is_none() {
                self.file = Some(continued(path)?);
            }
            let file = self.file.as_mut().expect("just opened");
            // One write, so that a line is not mixed with anything.
            file.write_all(format!("{}\n", Request::Done(number)).as_bytes())?;
            file.sync_data()?;
            self.highest = number;
        }
        Ok(self.highest)
    }
}

/// The file of a session, open at its end, without a line that was not finished.
fn continued(path: &Path) -> io::Result<File> {
    let bytes = std::fs::read(path)?;
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let file = File::options().append(true).open(path)?;
    file.set_len(whole as u64)?;
    Ok(file)
}

/// All sessions of a witness.
#[derive(Debug)]
pub struct Records {
    directory: PathBuf,
    sessions: Mutex<BTreeMap<Identity, Arc<Mutex<Kept>>>>,
}

impl Records {
    /// Those in a directory, which is made if it is not there.
    ///
    /// # Errors
    /// [`SyncError::System`]; [`SyncError::Asked`] for a file with the name of a session that is none.
    pub fn open(directory: &Path) -> Result<Records, SyncError> {
        std::fs::create_dir_all(directory).map_err(SyncError::system("make", directory))?;
        let mut sessions = BTreeMap::new();
        for entry in std::fs::read_dir(directory).map_err(SyncError::system("list", directory))? {
            let path = entry.map_err(SyncError::system("list", directory))?.path();
            if path.extension().is_some_and(|end| end == "session") {
                let kept = Kept::read(&path)?;
                sessions.insert(kept.session.identity, Arc::new(Mutex::new(kept)));
            }
        }
        Ok(Records { directory: directory.to_owned(), sessions: Mutex::new(sessions) })
    }

    fn path(&self, identity: Identity) -> PathBuf {
        self.directory.join(format!("{identity}.session"))
    }

    fn sessions(&self) -> MutexGuard<'_, BTreeMap<Identity, Arc<Mutex<Kept>>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a session, or goes on with it; the highest number known.
    ///
    /// # Errors
    /// In words for whoever asked.
    pub fn begin(&self, session: &Session) -> Result<u64, String> {
        let mut sessions = self.sessions();
        if let Some(kept) = sessions.get(&session.identity) {
            let kept = lock(kept);
            if kept.session != *session {
                return Err("another session has this identity".to_owned());
            }
            return Ok(kept.highest);
        }
        if sessions.len() >= MOST {
            return Err(format!(
                "{MOST} sessions are kept, and no more: remove old files of the witness and start it again"
            ));
        }
        let path = self.path(session.identity);
        let make = || -> io::Result<()> {
            let mut file = File::options().write(true).create_new(true).open(&path)?;
            file.write_all(format!("{}\n", Request::Begin(session.clone())).as_bytes())?;
            file.sync_all()?;
            File::open(&self.directory)?.sync_all()
        };
        make().map_err(|error| format!("cannot keep the session: {error}"))?;
        let kept = Kept { session: session.clone(), highest: 0, file: None };
        sessions.insert(session.identity, Arc::new(Mutex::new(kept)));
        Ok(0)
    }

    /// Keeps a number of a session that has begun; the highest that is kept.
    ///
    /// # Errors
    /// In words for whoever asked.
    pub fn keep(&self, identity: Identity, number: u64) -> Result<u64, String> {
        // Others are not kept waiting while this one is synced.
        let kept = self.sessions().get(&identity).cloned().ok_or("the session has not begun")?;
        lock(&kept).keep(number, &self.path(identity)).map_err(|error| format!("cannot keep it: {error}"))
    }

    /// What is known of a session.
    pub fn find(&self, identity: Identity) -> Option<(u64, Session)> {
        let kept = self.sessions().get(&identity).cloned()?;
        let kept = lock(&kept);
        Some((kept.highest, kept.session.clone()))
    }

    /// The identities of all.
    pub fn all(&self) -> Vec<Identity> {
        self.sessions().keys().copied().collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(byte: u8) -> Session {
        let identity = Identity([byte; 16]);
        Session {
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
            assert_eq!((records.begin(&one), records.begin(&two)), (Ok(0), Ok(0)));
            for (number, highest) in [(5, 5), (4, 5), (5, 5), (17, 17)] {
                assert_eq!(records.keep(one.identity, number), Ok(highest));
            }
            assert!(records.keep(Identity([3; 16]), 1).is_err());
            let other = Session { slots: 9, ..one.clone() };
            assert!(records.begin(&other).is_err());
        }
        // The witness lost its power while it wrote a line.
        let path = place.join(format!("{}.session", one.identity));
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(b"done 1").unwrap();
        let records = Records::open(&place).unwrap();
        assert_eq!(records.all(), [one.identity, two.identity]);
        assert_eq!(records.find(one.identity), Some((17, one.clone())));
        assert_eq!(records.find(two.identity), Some((0, two)));
        assert_eq!((records.begin(&one), records.keep(one.identity, 18)), (Ok(17), Ok(18)));
        assert_eq!(Kept::read(&path).unwrap().highest, 18);
        std::fs::write(place.join("x.session"), "nonsense\n").unwrap();
        assert!(Records::open(&place).unwrap_err().to_string().contains("no session"));
    }
}
