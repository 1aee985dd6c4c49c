//! The witness: listens, keeps what it is told, answers what it is asked.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::block::Identity;
use super::protocol::{GREETING, LONGEST, Reply, Request, Session};
use super::record::Records;
use super::secret::Secret;
use crate::synctest::error::SyncError;
use crate::synctest::work::Asked;

/// Connections at a time.
const MOST: usize = 64;

/// Connections of one address at a time.
const MOST_OF_ONE: usize = 16;

/// Bytes of answers that are put together before they are sent.
const BATCH: usize = 64 << 10;

/// How often a thread that waits looks whether it is to end.
const LOOK: Duration = Duration::from_millis(100);

/// A connection on which nothing has come for so long is given up: the power of its machine is gone.
const SILENCE: Duration = Duration::from_secs(60);

/// Whoever has not begun a session within this time makes room for others.
const STRANGER: Duration = Duration::from_secs(10);

/// Something that a person at the witness may want to see.
#[derive(Clone, Debug)]
pub enum Event {
    /// A session began or went on.
    Begun(SocketAddr, Session, u64),
    /// The writer stopped of its own accord.
    Ended(Identity, u64),
    /// A writer's connection is gone.
    Lost(Identity, u64),
    /// A connection was refused or closed, in words.
    Refused(SocketAddr, String),
}

/// A witness that listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    records: Records,
    secret: Option<Secret>,
}

impl Server {
    /// Listens at an address, and keeps sessions in a directory. With a `secret` only those are heard who
    /// know it.
    ///
    /// # Errors
    /// [`SyncError::Witness`] when the address cannot be had; those of [`Records::open`].
    pub fn bind(address: &str, directory: &Path, secret: Option<Secret>) -> Result<Server, SyncError> {
        let records = Records::open(directory)?;
        let failed = |error: io::Error| SyncError::Witness {
            address: address.to_owned(),
            reason: format!("cannot listen: {}", dio::file::words_of(&error)),
        };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(Server { listener, records, secret })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system's.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// What is kept.
    pub fn records(&self) -> &Records {
        &self.records
    }

    /// Serves until `asked` says that it is to end.
    pub fn run(&self, tell: &(dyn Fn(Event) + Sync), asked: Asked<'_>) {
        let callers = Callers::default();
        std::thread::scope(|scope| {
            while !asked() {
                let (stream, from) = match self.listener.accept() {
                    Ok(accepted) => accepted,
                    // None there, or one that is gone again, or no descriptors for the moment.
                    Err(_) => {
                        std::thread::sleep(LOOK / 4);
                        continue;
                    }
                };
                let caller = match callers.admit(from.ip()) {
                    Ok(caller) => caller,
                    Err(words) => {
                        tell(Event::Refused(from, words));
                        continue;
                    }
                };
                let serve = move || {
                    let mut client = Client::new(self, stream, from);
                    client.serve(tell, asked);
                    drop(caller);
                };
                if let Err(error) = std::thread::Builder::new().spawn_scoped(scope, serve) {
                    tell(Event::Refused(from, format!("cannot start a thread: {error}")));
                }
            }
        });
    }
}

/// How many connections each address has.
#[derive(Default)]
struct Callers(Mutex<BTreeMap<IpAddr, usize>>);

/// One of them; it is over when this is dropped.
struct Caller<'a>(&'a Callers, IpAddr);

impl Callers {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<IpAddr, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more, or why not.
    fn admit(&self, from: IpAddr) -> Result<Caller<'_>, String> {
        let mut all = self.lock();
        if all.values().sum::<usize>() >= MOST {
            return Err(format!("more than {MOST} connections"));
        }
        let own = all.entry(from).or_default();
        if *own >= MOST_OF_ONE {
            return Err(format!("more than {MOST_OF_ONE} connections of one address"));
        }
        *own += 1;
        Ok(Caller(self, from))
    }
}

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        let mut all = self.0.lock();
        match all.get_mut(&self.1) {
            Some(own) if *own > 1 => *own -= 1,
            _ => drop(all.remove(&self.1)),
        }
    }
}

struct Client<'a> {
    server: &'a Server,
    stream: TcpStream,
    from: SocketAddr,
    /// As long as it has not proved that it knows the secret: that, and the challenge that it was sent.
    unproved: Option<(&'a Secret, String)>,
    session: Option<Identity>,
    /// Of this connection, kept.
    highest: u64,
    since: Instant,
}

/// What a number of lines come to.
#[derive(Default)]
struct Heard {
    /// The highest number that was told.
    highest: Option<u64>,
    ended: bool,
    replies: String,
}

impl<'a> Client<'a> {
    fn new(server: &'a Server, stream: TcpStream, from: SocketAddr) -> Client<'a> {
        Client { server, stream, from, unproved: None, session: None, highest: 0, since: Instant::now() }
    }

    fn serve(&mut self, tell: &(dyn Fn(Event) + Sync), asked: Asked<'_>) {
        let outcome = self.talk(tell, asked);
        if let Err(words) = outcome {
            // Whoever is gone does not hear it.
            let _ = self.send(&format!("{}\n", Reply::Error(words.clone())), asked);
            tell(Event::Refused(self.from, words));
        }
        if let Some(identity) = self.session.take() {
            tell(Event::Lost(identity, self.highest));
        }
    }

    fn greet(&mut self, asked: Asked<'_>) -> Result<(), String> {
        let words = |error: io::Error| error.to_string();
        self.stream.set_nonblocking(false).map_err(words)?;
        self.stream.set_nodelay(true).map_err(words)?;
        self.stream.set_read_timeout(Some(LOOK)).map_err(words)?;
        self.stream.set_write_timeout(Some(LOOK)).map_err(words)?;
        let mut greeting = GREETING.to_owned();
        if let Some(secret) = &self.server.secret {
            let challenge = Identity::random().map_err(words)?.to_string();
            greeting = format!("{greeting} {challenge}");
            self.unproved = Some((secret, challenge));
        }
        self.send(&format!("{greeting}\n"), asked)
    }

    /// Sends all of it, to whoever takes it in time.
    fn send(&mut self, text: &str, asked: Asked<'_>) -> Result<(), String> {
        let (mut rest, start) = (text.as_bytes(), Instant::now());
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(0) => return Err("the connection is gone".to_owned()),
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    if asked() || start.elapsed() > SILENCE {
                        return Err("the answers are not taken".to_owned());
                    }
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }

    fn talk(&mut self, tell: &(dyn Fn(Event) + Sync), asked: Asked<'_>) -> Result<(), String> {
        self.greet(asked)?;
        let mut pending: Vec<u8> = Vec::new();
        let mut buffer = [0; LONGEST];
        let mut heard_last = Instant::now();
        loop {
            if self.session.is_none() && self.since.elapsed() > STRANGER {
                return Err(format!("no session has begun within {} s", STRANGER.as_secs()));
            }
            let count = match self.stream.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => count,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    if asked() || heard_last.elapsed() > SILENCE {
                        return Ok(());
                    }
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // Gone: what it said before was kept.
                Err(_) => return Ok(()),
            };
            heard_last = Instant::now();
            pending.extend_from_slice(&buffer[..count]);
            let whole = pending.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            let lines: Vec<u8> = pending.drain(..whole).collect();
            if pending.len() >= LONGEST {
                return Err("a line is too long".to_owned());
            }
            self.answer(&lines, tell, asked)?;
        }
    }

    /// Answers some whole lines. What was understood before one that is not is kept.
    fn answer(&mut self, lines: &[u8], tell: &(dyn Fn(Event) + Sync), asked: Asked<'_>) -> Result<(), String> {
        let mut heard = Heard::default();
        let mut outcome = Ok(());
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            outcome = self.hear(line, &mut heard, tell, asked);
            if outcome.is_err() {
                break;
            }
        }
        let identity = self.session;
        if let (Some(identity), Some(number)) = (identity, heard.highest) {
            // One sync for all that was heard at once.
            self.highest = self.server.records.keep(identity, number)?;
            heard.replies.push_str(&format!("{}\n", Reply::Ok(self.highest)));
        }
        // Before whoever it is goes away for it.
        if let Some(identity) = identity.filter(|_| heard.ended) {
            tell(Event::Ended(identity, self.highest));
            self.session = None;
            self.since = Instant::now();
        }
        self.send(&heard.replies, asked)?;
        outcome
    }

    /// Adds an answer, and sends what has come together where that is much.
    fn reply(&mut self, heard: &mut Heard, reply: &Reply, asked: Asked<'_>) -> Result<(), String> {
        heard.replies.push_str(&format!("{reply}\n"));
        if heard.replies.len() >= BATCH {
            self.send(&heard.replies, asked)?;
            heard.replies.clear();
        }
        Ok(())
    }

    fn hear(
        &mut self,
        line: &[u8],
        heard: &mut Heard,
        tell: &(dyn Fn(Event) + Sync),
        asked: Asked<'_>,
    ) -> Result<(), String> {
        let line = std::str::from_utf8(line).map_err(|_| "not understood".to_owned())?;
        let request = line.parse::<Request>()?;
        let records = &self.server.records;
        match request {
            Request::Prove(proof) => {
                let (secret, challenge) = self.unproved.as_ref().ok_or("no secret is asked for")?;
                if !secret.is_proved(challenge, &proof) {
                    return Err("that is not the secret".to_owned());
                }
                self.unproved = None;
                self.reply(heard, &Reply::Ok(0), asked)?;
            }
            _ if self.unproved.is_some() => return Err("the secret has to be proved first".to_owned()),
            Request::Begin(_) if self.session.is_some() => return Err("the session has begun".to_owned()),
            Request::Begin(session) => {
                self.highest = records.begin(&session)?;
                self.session = Some(session.identity);
                self.reply(heard, &Reply::Ok(self.highest), asked)?;
                tell(Event::Begun(self.from, session, self.highest));
            }
            Request::Done(_) | Request::End(_) if self.session.is_none() => {
                return Err("the session has not begun".to_owned());
            }
            Request::Done(number) => heard.highest = heard.highest.max(Some(number)),
            Request::End(number) => {
                heard.highest = heard.highest.max(Some(number));
                heard.ended = true;
            }
            Request::Ask(identity) => {
                let unknown = || Reply::Error("no session of this identity is known".to_owned());
                let found = records.find(identity).map_or_else(unknown, |(number, it)| Reply::Session(number, it));
                self.reply(heard, &found, asked)?;
            }
            Request::List => {
                // One at a time: whoever asks again and again fills no memory.
                for (number, session) in records.all().into_iter().filter_map(|identity| records.find(identity)) {
                    self.reply(heard, &Reply::Session(number, session), asked)?;
                }
                self.reply(heard, &Reply::End, asked)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_cannot_take_all_connections() {
        let callers = Callers::default();
        let (one, other) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([127, 0, 0, 2]));
        let mut all: Vec<_> = (0..MOST_OF_ONE).map(|_| callers.admit(one).unwrap()).collect();
        assert!(callers.admit(one).is_err_and(|words| words.contains("of one address")));
        all.extend(
            (2..=4)
                .flat_map(|last| (0..MOST_OF_ONE).map(move |_| last))
                .map(|last| callers.admit(IpAddr::from([127, 0, 0, last])).unwrap()),
        );
        assert_eq!(all.len(), MOST);
        assert!(callers.admit(IpAddr::from([127, 0, 0, 9])).is_err_and(|words| words == "more than 64 connections"));
        all.clear();
        drop(callers.admit(other).unwrap());
        assert!(callers.lock().is_empty());
    }
}
