//! The connection to the witness: connects, sends numbers, and reconnects.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::identity::WitnessIdentity;
use super::protocol::{GREETING, Reply, WitnessRequest, WitnessSession};
use super::secret::Secret;
use crate::synctest::error::SyncError;
use crate::synctest::work::StopCheck;

/// The longest duration of one attempt to connect.
const ATTEMPT: Duration = Duration::from_secs(5);

/// The pause between two attempts to reach the witness.
const PAUSE: Duration = Duration::from_millis(200);

/// The address of a witness and the parameters of the connection.
#[derive(Clone, Debug)]
pub struct Contact {
    /// Host and port.
    pub address: String,
    /// How long the witness may be unreachable.
    pub timeout: Duration,
    /// The secret shared with the witness, if it requires one.
    pub secret: Option<Secret>,
}

/// A connection on which the witness has sent its greeting.
pub(crate) struct Connection {
    address: String,
    stream: TcpStream,
    lines: BufReader<TcpStream>,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// [`SyncError::Witness`].
    pub(crate) fn open(contact: &Contact) -> Result<Connection, SyncError> {
        let Contact { address, timeout, .. } = contact;
        let failed = |error: io::Error| trouble(address, dio::file::words_of(&error));
        let mut last = trouble(address, "the name has no address".to_owned());
        for place in address.to_socket_addrs().map_err(failed)? {
            match TcpStream::connect_timeout(&place, ATTEMPT.min(*timeout)) {
                Ok(stream) => return Connection::greet(contact, stream),
                Err(error) => last = failed(error),
            }
        }
        Err(last)
    }

    fn greet(contact: &Contact, stream: TcpStream) -> Result<Connection, SyncError> {
        let Contact { address, timeout, secret } = contact;
        let prepare = || {
            stream.set_nodelay(true)?;
            stream.set_write_timeout(Some(*timeout))?;
            stream.set_read_timeout(Some(*timeout))?;
            Ok(BufReader::new(stream.try_clone()?))
        };
        let lines = prepare().map_err(|error: io::Error| trouble(address, error.to_string()))?;
        let mut connection = Connection { address: address.clone(), stream, lines };
        let greeting = connection.line()?;
        let refused = |why: &str| Err(trouble(address, why.to_owned()));
        match (greeting.strip_prefix(GREETING), secret) {
            (Some(""), None) => Ok(connection),
            (Some(""), Some(_)) => refused("it asks for no secret: is it the right one?"),
            (Some(challenge), Some(secret)) if challenge.starts_with(' ') => {
                match connection
                    .ask(&WitnessRequest::Prove(secret.proof(challenge.trim_start())))?
                {
                    Reply::Ok(_) => Ok(connection),
                    _ => Err(connection.unexpected()),
                }
            }
            (Some(challenge), None) if challenge.starts_with(' ') => {
                refused("it asks for a secret (--secret FILE)")
            }
            _ => refused("who answers there is no witness of this version"),
        }
    }

    fn line(&mut self) -> Result<String, SyncError> {
        let mut line = String::new();
        // The length is limited, in case the peer is not a witness.
        let read =
            io::Read::take(&mut self.lines, super::protocol::LONGEST as u64).read_line(&mut line);
        match read {
            Ok(_) if line.ends_with('\n') => Ok(line.trim_end_matches('\n').to_owned()),
            Ok(_) => Err(trouble(&self.address, "the connection was closed".to_owned())),
            Err(error)
                if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) =>
            {
                Err(trouble(&self.address, "no answer".to_owned()))
            }
            Err(error) => Err(trouble(&self.address, dio::file::words_of(&error))),
        }
    }

    fn say(&mut self, request: &WitnessRequest) -> Result<(), SyncError> {
        let told = self.stream.write_all(format!("{request}\n").as_bytes());
        told.map_err(|error| trouble(&self.address, dio::file::words_of(&error)))
    }

    /// Sends a request, and waits for a reply of one line.
    ///
    /// # Errors
    /// [`SyncError::Witness`], also when the witness replies with an `error`.
    pub(crate) fn ask(&mut self, request: &WitnessRequest) -> Result<Reply, SyncError> {
        self.say(request)?;
        self.reply()
    }

    fn reply(&mut self) -> Result<Reply, SyncError> {
        match self.line()?.parse() {
            Ok(Reply::Error(words)) | Err(words) => Err(trouble(&self.address, words)),
            Ok(reply) => Ok(reply),
        }
    }

    /// All sessions, with the highest acknowledged number of each.
    ///
    /// # Errors
    /// [`SyncError::Witness`].
    pub(crate) fn list(&mut self) -> Result<Vec<(u64, WitnessSession)>, SyncError> {
        self.say(&WitnessRequest::List)?;
        let mut all = Vec::new();
        loop {
            match self.reply()? {
                Reply::Session(number, session) => all.push((number, session)),
                Reply::End => return Ok(all),
                Reply::Ok(_) | Reply::Error(_) => return Err(self.unexpected()),
            }
        }
    }

    /// The session with this identity, and its highest acknowledged number.
    ///
    /// # Errors
    /// [`SyncError::Witness`].
    pub(crate) fn session(
        &mut self,
        identity: WitnessIdentity,
    ) -> Result<(u64, WitnessSession), SyncError> {
        match self.ask(&WitnessRequest::Ask(identity))? {
            Reply::Session(number, session) => Ok((number, session)),
            _ => Err(self.unexpected()),
        }
    }

    fn unexpected(&self) -> SyncError {
        trouble(&self.address, "it answered something else than it was asked".to_owned())
    }
}

fn trouble(address: &str, reason: String) -> SyncError {
    SyncError::Witness { address: address.to_owned(), reason }
}

/// The state that the listening threads have received from the witness.
#[derive(Default)]
struct WitnessState {
    confirmed: u64,
    /// The highest number of a connection that is broken.
    broken: u64,
}

#[derive(Default)]
struct LinkState {
    heard: Mutex<WitnessState>,
    changed: Condvar,
}

impl LinkState {
    fn lock(&self) -> MutexGuard<'_, WitnessState> {
        self.heard.lock()
    }
}

/// The writer's side: sends numbers without waiting for answers, and reconnects by itself.
pub(crate) struct Link<'a> {
    contact: &'a Contact,
    session: &'a WitnessSession,
    asked: StopCheck<'a>,
    stream: TcpStream,
    /// The number of the current connection.
    number: u64,
    ear: Arc<LinkState>,
}

impl<'a> Link<'a> {
    /// Connects and begins the session.
    ///
    /// # Errors
    /// [`SyncError::Witness`].
    pub(crate) fn begin(
        contact: &'a Contact,
        session: &'a WitnessSession,
        asked: StopCheck<'a>,
    ) -> Result<Link<'a>, SyncError> {
        let ear = Arc::new(LinkState::default());
        let stream = connect(contact, session, &ear, 1)?;
        Ok(Link { contact, session, asked, stream, number: 1, ear })
    }

    /// The highest number that the witness has kept.
    pub(crate) fn confirmed(&self) -> u64 {
        self.ear.lock().confirmed
    }

    /// Sends a request, such as the message that everything up to a number is durable. Reconnects
    /// if the connection is broken.
    ///
    /// # Errors
    /// [`SyncError::Witness`] when the witness was unreachable for as long as the timeout.
    pub(crate) fn tell(&mut self, request: &WitnessRequest) -> Result<(), SyncError> {
        if self.ear.lock().broken < self.number && self.write(request).is_ok() {
            return Ok(());
        }
        self.again()?;
        self.write(request)
    }

    fn write(&mut self, request: &WitnessRequest) -> Result<(), SyncError> {
        let told = self.stream.write_all(format!("{request}\n").as_bytes());
        told.map_err(|error| trouble(&self.contact.address, dio::file::words_of(&error)))
    }

    fn again(&mut self) -> Result<(), SyncError> {
        // Ends the thread that listens on the old connection.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
        let start = Instant::now();
        loop {
            self.number += 1;
            match connect(self.contact, self.session, &self.ear, self.number) {
                Ok(stream) => {
                    self.stream = stream;
                    return Ok(());
                }
                Err(error) if start.elapsed() > self.contact.timeout || (self.asked)() => {
                    return Err(error);
                }
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }

    /// Waits until the witness has kept `number`. If the connection was lost, it sends `last`
    /// again.
    ///
    /// # Errors
    /// [`SyncError::Witness`] when that takes longer than the timeout.
    pub(crate) fn wait(&mut self, number: u64, last: &WitnessRequest) -> Result<(), SyncError> {
        let start = Instant::now();
        loop {
            let mut heard = self.ear.lock();
            if heard.confirmed >= number {
                return Ok(());
            }
            let broken = heard.broken >= self.number;
            if broken {
                drop(heard);
                self.again()?;
                self.write(last)?;
            } else {
                // The wait is short, because no event wakes this thread when the timeout is over.
                self.ear.changed.wait_for(&mut heard, Duration::from_millis(50));
            }
            if start.elapsed() > self.contact.timeout {
                let Contact { address, timeout, .. } = self.contact;
                return Err(trouble(
                    address,
                    format!("nothing kept for {} s", timeout.as_secs_f64()),
                ));
            }
        }
    }
}

impl Drop for Link<'_> {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

/// Connects, begins or continues the session, and starts a thread that listens until the connection
/// breaks.
fn connect(
    contact: &Contact,
    session: &WitnessSession,
    ear: &Arc<LinkState>,
    number: u64,
) -> Result<TcpStream, SyncError> {
    let address = &contact.address;
    let mut connection = Connection::open(contact)?;
    let Reply::Ok(kept) = connection.ask(&WitnessRequest::Begin(session.clone()))? else {
        return Err(connection.unexpected());
    };
    {
        let mut heard = ear.lock();
        heard.confirmed = heard.confirmed.max(kept);
    }
    let stream =
        connection.stream.try_clone().map_err(|error| trouble(address, error.to_string()))?;
    // The witness may be silent for long while the writer's disk is busy, so there is no read
    // timeout.
    stream.set_read_timeout(None).map_err(|error| trouble(address, error.to_string()))?;
    let ear = Arc::clone(ear);
    let listen = move || {
        while let Ok(Reply::Ok(kept)) = connection.reply() {
            let mut heard = ear.lock();
            heard.confirmed = heard.confirmed.max(kept);
            ear.changed.notify_all();
        }
        let mut heard = ear.lock();
        heard.broken = heard.broken.max(number);
        ear.changed.notify_all();
    };
    let thread = std::thread::Builder::new().name("witness".into()).spawn(listen);
    thread.map_err(|error| trouble(address, format!("cannot start a thread: {error}")))?;
    Ok(stream)
}
