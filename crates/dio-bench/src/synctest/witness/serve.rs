//! The witness: listens, keeps what it is told, answers what it is asked.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use dio_sys::uninterrupted;

use super::callers::{Full, Pool, Seat, network_of};
use super::identity::Identity;
use super::lines::Lines;
use super::protocol::{GREETING, LONGEST, Reply, Request, Session};
use super::record::{Held, Records};
use super::secret::Secret;
use crate::synctest::error::SyncError;
use crate::synctest::work::Asked;

/// Connections that are heard, at a time.
const HEARD_MAX: usize = 64;

/// Of these, connections of one network.
const HEARD_PER_NETWORK_MAX: usize = 16;

/// Connections of strangers at a time.
const STRANGERS_MAX: usize = 128;

/// Of these, connections of one network.
const STRANGERS_PER_NETWORK_MAX: usize = 32;

/// Threads at a time: of both pools, and of connections that were replaced and end.
const THREADS_MAX: usize = 2 * (HEARD_MAX + STRANGERS_MAX);

/// Lines about refusals in ten seconds, and lines about sessions.
const REFUSALS_MAX: u64 = 10;
const SESSION_LINES_MAX: u64 = 200;

/// Bytes of answers that are put together before they are sent.
const BATCH: usize = 64 << 10;

/// How often a thread that waits looks whether it is to end.
const LOOK: Duration = Duration::from_millis(100);

/// A connection on which nothing has come for so long is given up: the power of its machine is
/// gone.
const SILENCE: Duration = Duration::from_secs(60);

/// Whoever has not begun a session within this time makes room for others.
const STRANGER: Duration = Duration::from_secs(10);

/// Whoever has not proved within this time that the secret is known is not heard.
const PROOF: Duration = Duration::from_secs(5);

/// Something that a person at the witness may want to see.
#[derive(Clone, Debug)]
pub enum Event {
    /// A session began or went on.
    Begun(SocketAddr, Session, u64),
    /// The writer stopped of its own accord.
    Ended(Identity, u64),
    /// A writer's connection is gone.
    Lost(Identity, u64),
    /// A connection was refused or closed, in words. They may be the stranger's: escape them.
    Refused(SocketAddr, String),
    /// So many lines about refusals were left out.
    RefusalsLeftOut(u64),
    /// So many lines about sessions were left out.
    SessionsLeftOut(u64),
}

/// A witness that listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    records: Records,
    secret: Option<Secret>,
}

impl Server {
    /// Listens at an address, and keeps sessions in a directory. With a `secret` only those are
    /// heard who know it.
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
        let (refusals, sessions) = (Lines::new(REFUSALS_MAX), Lines::new(SESSION_LINES_MAX));
        let limited = |event: Event| {
            let lines = if matches!(event, Event::Refused(..)) { &refusals } else { &sessions };
            if lines.admit() {
                tell(event);
            }
        };
        let left_out = |now: bool| {
            refusals.left_out(now).map(Event::RefusalsLeftOut).into_iter().for_each(tell);
            sessions.left_out(now).map(Event::SessionsLeftOut).into_iter().for_each(tell);
        };
        let callers = Callers::default();
        std::thread::scope(|scope| {
            while !asked() {
                left_out(false);
                let (stream, from) = match self.listener.accept() {
                    Ok(accepted) => accepted,
                    // None there, or one that is gone again, or no descriptors for the moment.
                    Err(_) => {
                        std::thread::sleep(LOOK / 4);
                        continue;
                    }
                };
                if callers.threads.load(Ordering::Relaxed) >= THREADS_MAX {
                    limited(Event::Refused(from, format!("more than {THREADS_MAX} threads")));
                    continue;
                }
                let stream = Arc::new(stream);
                let seat = match seat(&callers.strangers, from, &stream) {
                    Ok(seat) => seat,
                    Err(words) => {
                        limited(Event::Refused(from, words));
                        continue;
                    }
                };
                let (callers, limited) = (&callers, &limited);
                callers.threads.fetch_add(1, Ordering::Relaxed);
                let serve = move || {
                    Client::new(self, stream, from, callers, seat).serve(limited, asked);
                    callers.threads.fetch_sub(1, Ordering::Relaxed);
                };
                if let Err(error) = std::thread::Builder::new().spawn_scoped(scope, serve) {
                    callers.threads.fetch_sub(1, Ordering::Relaxed);
                    limited(Event::Refused(from, format!("cannot start a thread: {error}")));
                }
            }
        });
        left_out(true);
    }
}

/// Everybody who is connected. A connection is a stranger's until the secret is proved or, where
/// there is none, until a session has begun.
struct Callers {
    strangers: Pool<Arc<TcpStream>>,
    heard: Pool<Arc<TcpStream>>,
    threads: AtomicUsize,
}

impl Default for Callers {
    fn default() -> Callers {
        Callers {
            strangers: Pool::new(STRANGERS_MAX, STRANGERS_PER_NETWORK_MAX, Full::Replace),
            heard: Pool::new(HEARD_MAX, HEARD_PER_NETWORK_MAX, Full::Refuse),
            threads: AtomicUsize::new(0),
        }
    }
}

/// A connection in a pool.
type Place<'a> = Seat<'a, Arc<TcpStream>>;

/// Puts a connection in a pool, and closes the one that it replaces.
fn seat<'a>(pool: &'a Pool<Arc<TcpStream>>, from: SocketAddr, stream: &Arc<TcpStream>) -> Result<Place<'a>, String> {
    let (seat, replaced) = pool.enter(from.ip(), Arc::clone(stream))?;
    if let Some(replaced) = replaced {
        // Its thread ends by itself.
        let _ = replaced.shutdown(Shutdown::Both);
    }
    Ok(seat)
}

struct Client<'a> {
    server: &'a Server,
    stream: Arc<TcpStream>,
    from: SocketAddr,
    callers: &'a Callers,
    seat: Place<'a>,
    is_stranger: bool,
    /// As long as it has not proved that it knows the secret: that, and the challenge that it was
    /// sent.
    unproved: Option<(&'a Secret, String)>,
    session: Option<Held>,
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
    fn new(
        server: &'a Server,
        stream: Arc<TcpStream>,
        from: SocketAddr,
        callers: &'a Callers,
        seat: Place<'a>,
    ) -> Client<'a> {
        let since = Instant::now();
        let (unproved, session) = (None, None);
        Client { server, stream, from, callers, seat, is_stranger: true, unproved, session, highest: 0, since }
    }

    /// Takes a connection out of the pool of strangers.
    fn is_heard(&mut self) -> Result<(), String> {
        if self.is_stranger {
            // The old seat is given up.
            self.seat = seat(&self.callers.heard, self.from, &self.stream)?;
            self.is_stranger = false;
        }
        Ok(())
    }

    fn serve(&mut self, tell: &(dyn Fn(Event) + Sync), asked: Asked<'_>) {
        let outcome = self.talk(tell, asked);
        if let Err(words) = outcome {
            // Whoever is gone does not hear it.
            let _ = self.send(&format!("{}\n", Reply::Error(words.clone())), asked);
            tell(Event::Refused(self.from, words));
        }
        if let Some(session) = self.session.take() {
            tell(Event::Lost(session.identity(), self.highest));
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
            match uninterrupted(|| (&*self.stream).write(rest)) {
                Ok(0) => return Err("the connection is gone".to_owned()),
                Ok(count) => rest = &rest[count..],
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
            if self.unproved.is_some() && self.since.elapsed() > PROOF {
                return Err(format!("the secret was not proved within {} s", PROOF.as_secs()));
            }
            if self.session.is_none() && self.since.elapsed() > STRANGER {
                return Err(format!("no session has begun within {} s", STRANGER.as_secs()));
            }
            let count = match uninterrupted(|| (&*self.stream).read(&mut buffer)) {
                Ok(0) => return Ok(()),
                Ok(count) => count,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    if asked() || heard_last.elapsed() > SILENCE {
                        return Ok(());
                    }
                    continue;
                }
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
        if let (Some(session), Some(number)) = (&self.session, heard.highest) {
            // One sync for all that was heard at once.
            self.highest = self.server.records.keep(session, number, heard.ended)?;
            heard.replies.push_str(&format!("{}\n", Reply::Ok(self.highest)));
        }
        // Before whoever it is goes away for it.
        if let Some(session) = self.session.take_if(|_| heard.ended) {
            tell(Event::Ended(session.identity(), self.highest));
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
                self.is_heard()?;
                (self.unproved, self.since) = (None, Instant::now());
                self.reply(heard, &Reply::Ok(0), asked)?;
            }
            _ if self.unproved.is_some() => return Err("the secret has to be proved first".to_owned()),
            Request::Begin(_) if self.session.is_some() => return Err("the session has begun".to_owned()),
            Request::Begin(session) => {
                self.is_heard()?;
                let held = records.begin(&session, network_of(self.from.ip()))?;
                self.highest = held.highest();
                self.session = Some(held);
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
