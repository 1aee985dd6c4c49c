//! The witness: listens, keeps what it is told, answers what it is asked.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::block::Identity;
use super::protocol::{GREETING, LONGEST, Reply, Request, Session};
use super::record::Records;
use crate::synctest::error::SyncError;
use crate::synctest::work::Asked;

/// Connections at a time.
const MOST: usize = 64;

/// How often a thread that waits looks whether it is to end.
const LOOK: Duration = Duration::from_millis(100);

/// A connection on which nothing has come for so long is given up: the power of its machine is gone.
const SILENCE: Duration = Duration::from_secs(60);

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
}

impl Server {
    /// Listens at an address, and keeps sessions in a directory.
    ///
    /// # Errors
    /// [`SyncError::Witness`] when the address cannot be had; those of [`Records::open`].
    pub fn bind(address: &str, directory: &Path) -> Result<Server, SyncError> {
        let records = Records::open(directory)?;
        let failed = |error: io::Error| SyncError::Witness {
            address: address.to_owned(),
            reason: format!("cannot listen: {}", dio::file::words_of(&error)),
        };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(Server { listener, records })
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
        let clients = Arc::new(AtomicUsize::new(0));
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
                if clients.fetch_add(1, Ordering::AcqRel) >= MOST {
                    clients.fetch_sub(1, Ordering::AcqRel);
                    tell(Event::Refused(from, format!("more than {MOST} connections")));
                    continue;
                }
                let count = Arc::clone(&clients);
                let serve = move || {
                    let mut client = Client { records: &self.records, stream, from, session: None, highest: 0 };
                    client.serve(tell, asked);
                    count.fetch_sub(1, Ordering::AcqRel);
                };
                if let Err(error) = std::thread::Builder::new().spawn_scoped(scope, serve) {
                    clients.fetch_sub(1, Ordering::AcqRel);
                    tell(Event::Refused(from, format!("cannot start a thread: {error}")));
                }
            }
        });
    }
}

struct Client<'a> {
    records: &'a Records,
    stream: TcpStream,
    from: SocketAddr,
    session: Option<Identity>,
    /// Of this connection, kept.
    highest: u64,
}

/// What a number of lines come to.
#[derive(Default)]
struct Heard {
    /// The highest number that was told.
    highest: Option<u64>,
    ended: bool,
    replies: String,
}

impl Client<'_> {
    fn serve(&mut self, tell: &(dyn Fn(Event) + Sync), asked: Asked<'_>) {
        let outcome = self.talk(tell, asked);
        if let Err(words) = outcome {
            // Whoever is gone does not hear it.
            let _ = self.stream.write_all(format!("{}\n", Reply::Error(words.clone())).as_bytes());
            tell(Event::Refused(self.from, words));
        }
        if let Some(identity) = self.session.take() {
            tell(Event::Lost(identity, self.highest));
        }
    }

    fn talk(&mut self, tell: &(dyn Fn(Event) + Sync), asked: Asked<'_>) -> Result<(), String> {
        let words = |error: io::Error| error.to_string();
        self.stream.set_nonblocking(false).map_err(words)?;
        self.stream.set_nodelay(true).map_err(words)?;
        self.stream.set_read_timeout(Some(LOOK)).map_err(words)?;
        self.stream.set_write_timeout(Some(SILENCE)).map_err(words)?;
        self.stream.write_all(format!("{GREETING}\n").as_bytes()).map_err(words)?;
        let mut pending: Vec<u8> = Vec::new();
        let mut buffer = [0; LONGEST];
        let mut heard_last = Instant::now();
        loop {
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
            self.answer(&lines, tell)?;
        }
    }

    /// Answers some whole lines. What was understood before one that is not is kept.
    fn answer(&mut self, lines: &[u8], tell: &(dyn Fn(Event) + Sync)) -> Result<(), String> {
        let mut heard = Heard::default();
        let mut outcome = Ok(());
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            outcome = self.hear(line, &mut heard, tell);
            if outcome.is_err() {
                break;
            }
        }
        let identity = self.session;
        if let (Some(identity), Some(number)) = (identity, heard.highest) {
            // One sync for all that was heard at once.
            self.highest = self.records.keep(identity, number)?;
            heard.replies.push_str(&format!("{}\n", Reply::Ok(self.highest)));
        }
        // Before whoever it is goes away for it.
        if let Some(identity) = identity.filter(|_| heard.ended) {
            tell(Event::Ended(identity, self.highest));
            self.session = None;
        }
        self.stream.write_all(heard.replies.as_bytes()).map_err(|error| error.to_string())?;
        outcome
    }

    fn hear(&mut self, line: &[u8], heard: &mut Heard, tell: &(dyn Fn(Event) + Sync)) -> Result<(), String> {
        let line = std::str::from_utf8(line).map_err(|_| "not understood".to_owned())?;
        let mut reply = |reply: Reply| heard.replies.push_str(&format!("{reply}\n"));
        match line.parse::<Request>()? {
            Request::Begin(_) if self.session.is_some() => return Err("the session has begun".to_owned()),
            Request::Begin(session) => {
                self.highest = self.records.begin(&session)?;
                self.session = Some(session.identity);
                reply(Reply::Ok(self.highest));
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
            Request::Ask(identity) => match self.records.find(identity) {
                Some((number, session)) => reply(Reply::Session(number, session)),
                None => reply(Reply::Error("no session of this identity is known".to_owned())),
            },
            Request::List => {
                self.records.all().into_iter().for_each(|(number, session)| reply(Reply::Session(number, session)));
                reply(Reply::End);
            }
        }
        Ok(())
    }
}
