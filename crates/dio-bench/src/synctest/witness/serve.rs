//! The witness: accepts connections, keeps numbers, and answers questions.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use dio_sys::uninterrupted;

use super::callers::{FullPool, Pool, PoolSeat, network_of};
use super::identity::WitnessIdentity;
use super::lines::LineCounter;
use super::protocol::{GREETING, LONGEST, Reply, WitnessRequest, WitnessSession};
use super::record::{HeldRecord, Records};
use super::secret::Secret;
use crate::synctest::error::SyncError;
use crate::synctest::work::StopCheck;

/// The most authenticated connections at a time.
const HEARD_MAX: usize = 64;

/// The most authenticated connections of one network.
const HEARD_PER_NETWORK_MAX: usize = 16;

/// The most unauthenticated connections at a time.
const STRANGERS_MAX: usize = 128;

/// The most unauthenticated connections of one network.
const STRANGERS_PER_NETWORK_MAX: usize = 32;

/// The most threads at a time: those of both pools, and those of replaced connections that are
/// about to end.
const THREADS_MAX: usize = 2 * (HEARD_MAX + STRANGERS_MAX);

/// The most lines about refusals in ten seconds, and the most lines about sessions.
const REFUSALS_MAX: u64 = 10;
const SESSION_LINES_MAX: u64 = 200;

/// Bytes of answers that are collected before they are sent.
const BATCH: usize = 64 << 10;

/// How often a waiting thread checks whether it has to end.
const LOOK: Duration = Duration::from_millis(100);

/// How long a connection may be silent. After that time the writer's machine is assumed to have
/// lost power.
const SILENCE: Duration = Duration::from_secs(60);

/// A connection that has had no session for this long is closed, to make room for others.
const STRANGER: Duration = Duration::from_secs(10);

/// How long a client may take to prove that it has the secret.
const PROOF: Duration = Duration::from_secs(5);

/// An event for the operator of the witness.
#[derive(Clone, Debug)]
pub enum Event {
    /// A session began or was continued.
    Begun(SocketAddr, WitnessSession, u64),
    /// The writer ended the session.
    Ended(WitnessIdentity, u64),
    /// A writer's connection broke.
    Lost(WitnessIdentity, u64),
    /// A connection was refused or closed, with the reason. The text may come from the remote side:
    /// escape it.
    Refused(SocketAddr, String),
    /// Number of lines about refusals that were left out.
    RefusalsLeftOut(u64),
    /// Number of lines about sessions that were left out.
    SessionsLeftOut(u64),
}

/// A listening witness.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    records: Records,
    secret: Option<Secret>,
}

impl Server {
    /// Listens at an address, and keeps sessions in a directory. With a `secret`, clients that do
    /// not have it are rejected.
    ///
    /// # Errors
    /// [`SyncError::Witness`] when this process cannot listen at the address; the errors of
    /// [`Records::open`].
    pub fn bind(
        address: &str,
        directory: &Path,
        secret: Option<Secret>,
    ) -> Result<Server, SyncError> {
        let records = Records::open(directory)?;
        let failed = |error: io::Error| SyncError::Witness {
            address: address.to_owned(),
            reason: format!("cannot listen: {}", dio::file::words_of(&error)),
        };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(Server { listener, records, secret })
    }

    /// The address that the witness listens at.
    ///
    /// # Errors
    /// Any error of `getsockname(2)`.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The kept sessions.
    pub fn records(&self) -> &Records {
        &self.records
    }

    /// Serves until `asked` returns true.
    pub fn run(&self, tell: &(dyn Fn(Event) + Sync), asked: StopCheck<'_>) {
        let (refusals, sessions) =
            (LineCounter::new(REFUSALS_MAX), LineCounter::new(SESSION_LINES_MAX));
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
                    // No connection is waiting, it has gone already, or there is no free descriptor
                    // now.
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
                    WitnessClient::new(self, stream, from, callers, seat).serve(limited, asked);
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

/// All connections. A connection is a stranger's until it has proved the secret or, if there is no
/// secret, until it has begun a session.
struct Callers {
    strangers: Pool<Arc<TcpStream>>,
    heard: Pool<Arc<TcpStream>>,
    threads: AtomicUsize,
}

impl Default for Callers {
    fn default() -> Callers {
        Callers {
            strangers: Pool::new(STRANGERS_MAX, STRANGERS_PER_NETWORK_MAX, FullPool::Replace),
            heard: Pool::new(HEARD_MAX, HEARD_PER_NETWORK_MAX, FullPool::Refuse),
            threads: AtomicUsize::new(0),
        }
    }
}

/// A connection in a pool.
type PooledConnection<'a> = PoolSeat<'a, Arc<TcpStream>>;

/// Adds a connection to a pool, and closes the connection that it replaces.
fn seat<'a>(
    pool: &'a Pool<Arc<TcpStream>>,
    from: SocketAddr,
    stream: &Arc<TcpStream>,
) -> Result<PooledConnection<'a>, String> {
    let (seat, replaced) = pool.enter(from.ip(), Arc::clone(stream))?;
    if let Some(replaced) = replaced {
        // The thread of the replaced connection notices that and ends.
        let _ = replaced.shutdown(Shutdown::Both);
    }
    Ok(seat)
}

struct WitnessClient<'a> {
    server: &'a Server,
    stream: Arc<TcpStream>,
    from: SocketAddr,
    callers: &'a Callers,
    seat: PooledConnection<'a>,
    is_stranger: bool,
    /// The secret and the challenge that was sent, until the client has proved that it has the
    /// secret.
    unproved: Option<(&'a Secret, String)>,
    session: Option<HeldRecord>,
    /// The highest number that this connection has sent and that is kept.
    highest: u64,
    since: Instant,
}

/// The combined result of several lines.
#[derive(Default)]
struct LinesResult {
    /// The highest received number.
    highest: Option<u64>,
    ended: bool,
    replies: String,
}

impl<'a> WitnessClient<'a> {
    fn new(
        server: &'a Server,
        stream: Arc<TcpStream>,
        from: SocketAddr,
        callers: &'a Callers,
        seat: PooledConnection<'a>,
    ) -> WitnessClient<'a> {
        let since = Instant::now();
        let (unproved, session) = (None, None);
        WitnessClient {
            server,
            stream,
            from,
            callers,
            seat,
            is_stranger: true,
            unproved,
            session,
            highest: 0,
            since,
        }
    }

    /// Moves a connection from the pool of strangers to the other pool.
    fn is_heard(&mut self) -> Result<(), String> {
        if self.is_stranger {
            // The assignment drops the old seat.
            self.seat = seat(&self.callers.heard, self.from, &self.stream)?;
            self.is_stranger = false;
        }
        Ok(())
    }

    fn serve(&mut self, tell: &(dyn Fn(Event) + Sync), asked: StopCheck<'_>) {
        let outcome = self.talk(tell, asked);
        if let Err(words) = outcome {
            // The client may be gone, so errors are ignored.
            let _ = self.send(&format!("{}\n", Reply::Error(words.clone())), asked);
            tell(Event::Refused(self.from, words));
        }
        if let Some(session) = self.session.take() {
            tell(Event::Lost(session.identity(), self.highest));
        }
    }

    fn greet(&mut self, asked: StopCheck<'_>) -> Result<(), String> {
        let words = |error: io::Error| error.to_string();
        self.stream.set_nonblocking(false).map_err(words)?;
        self.stream.set_nodelay(true).map_err(words)?;
        self.stream.set_read_timeout(Some(LOOK)).map_err(words)?;
        self.stream.set_write_timeout(Some(LOOK)).map_err(words)?;
        let mut greeting = GREETING.to_owned();
        if let Some(secret) = &self.server.secret {
            let challenge = WitnessIdentity::random().map_err(words)?.to_string();
            greeting = format!("{greeting} {challenge}");
            self.unproved = Some((secret, challenge));
        }
        self.send(&format!("{greeting}\n"), asked)
    }

    /// Sends all of `text`, or fails if the client does not receive it in time.
    fn send(&mut self, text: &str, asked: StopCheck<'_>) -> Result<(), String> {
        let (mut rest, start) = (text.as_bytes(), Instant::now());
        while !rest.is_empty() {
            match uninterrupted(|| (&*self.stream).write(rest)) {
                Ok(0) => return Err("the connection is gone".to_owned()),
                Ok(count) => rest = &rest[count..],
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    if asked() || start.elapsed() > SILENCE {
                        return Err("the answers are not taken".to_owned());
                    }
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }

    fn talk(&mut self, tell: &(dyn Fn(Event) + Sync), asked: StopCheck<'_>) -> Result<(), String> {
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
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    if asked() || heard_last.elapsed() > SILENCE {
                        return Ok(());
                    }
                    continue;
                }
                // The connection broke; everything that it sent before is kept.
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

    /// Answers some complete lines. If one line is invalid, the lines before it still count.
    fn answer(
        &mut self,
        lines: &[u8],
        tell: &(dyn Fn(Event) + Sync),
        asked: StopCheck<'_>,
    ) -> Result<(), String> {
        let mut heard = LinesResult::default();
        let mut outcome = Ok(());
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            outcome = self.hear(line, &mut heard, tell, asked);
            if outcome.is_err() {
                break;
            }
        }
        if let (Some(session), Some(number)) = (&self.session, heard.highest) {
            // All numbers that arrived together need a single sync.
            self.highest = self.server.records.keep(session, number, heard.ended)?;
            heard.replies.push_str(&format!("{}\n", Reply::Ok(self.highest)));
        }
        // The event is reported before the reply, since the client may disconnect at the reply.
        if let Some(session) = self.session.take_if(|_| heard.ended) {
            tell(Event::Ended(session.identity(), self.highest));
            self.since = Instant::now();
        }
        self.send(&heard.replies, asked)?;
        outcome
    }

    /// Adds an answer, and sends the collected answers if there are many.
    fn reply(
        &mut self,
        heard: &mut LinesResult,
        reply: &Reply,
        asked: StopCheck<'_>,
    ) -> Result<(), String> {
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
        heard: &mut LinesResult,
        tell: &(dyn Fn(Event) + Sync),
        asked: StopCheck<'_>,
    ) -> Result<(), String> {
        let line = std::str::from_utf8(line).map_err(|_| "not understood".to_owned())?;
        let request = line.parse::<WitnessRequest>()?;
        let records = &self.server.records;
        match request {
            WitnessRequest::Prove(proof) => {
                let (secret, challenge) = self.unproved.as_ref().ok_or("no secret is asked for")?;
                if !secret.is_proved(challenge, &proof) {
                    return Err("that is not the secret".to_owned());
                }
                self.is_heard()?;
                (self.unproved, self.since) = (None, Instant::now());
                self.reply(heard, &Reply::Ok(0), asked)?;
            }
            _ if self.unproved.is_some() => {
                return Err("the secret has to be proved first".to_owned());
            }
            WitnessRequest::Begin(_) if self.session.is_some() => {
                return Err("the session has begun".to_owned());
            }
            WitnessRequest::Begin(session) => {
                self.is_heard()?;
                let held = records.begin(&session, network_of(self.from.ip()))?;
                self.highest = held.highest();
                self.session = Some(held);
                self.reply(heard, &Reply::Ok(self.highest), asked)?;
                tell(Event::Begun(self.from, session, self.highest));
            }
            WitnessRequest::Done(_) | WitnessRequest::End(_) if self.session.is_none() => {
                return Err("the session has not begun".to_owned());
            }
            WitnessRequest::Done(number) => heard.highest = heard.highest.max(Some(number)),
            WitnessRequest::End(number) => {
                heard.highest = heard.highest.max(Some(number));
                heard.ended = true;
            }
            WitnessRequest::Ask(identity) => {
                let unknown = || Reply::Error("no session of this identity is known".to_owned());
                let found = records
                    .find(identity)
                    .map_or_else(unknown, |(number, it)| Reply::Session(number, it));
                self.reply(heard, &found, asked)?;
            }
            WitnessRequest::List => {
                // Sessions are sent one at a time, so that repeated requests do not fill memory.
                for (number, session) in
                    records.all().into_iter().filter_map(|identity| records.find(identity))
                {
                    self.reply(heard, &Reply::Session(number, session), asked)?;
                }
                self.reply(heard, &Reply::End, asked)?;
            }
        }
        Ok(())
    }
}
