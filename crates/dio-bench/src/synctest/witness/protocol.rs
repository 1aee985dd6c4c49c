//! The protocol between a writer, or a checker, and the witness: lines of UTF-8 over TCP, each
//! ended by a line feed and no longer than [`LONGEST`] bytes. The witness sends [`GREETING`] first.
//! A witness with a secret adds a challenge, and accepts nothing before `prove`. Nothing is
//! encrypted, so the protocol is for networks in which nobody else can listen.
//!
//! | to the witness | answer | meaning |
//! |---|---|---|
//! | `prove PROOF` | `ok 0` | the writer proves that it has the secret ([`Secret`](super::Secret)) |
//! | `begin ID SIZE SLOTS BOOT HOST PATH FS DIR METHOD` | `ok N` | a session begins, or continues after a lost connection; N is its highest kept number |
//! | `done N` | `ok M` | the disk has acknowledged everything up to N; the witness has kept M ≥ N durably. One answer may be for several lines |
//! | `end N` | `ok N` | as `done`, and the writer stops |
//! | `ask ID` | `session N ID SIZE SLOTS BOOT HOST PATH FS DIR METHOD` | the session and its highest kept number |
//! | `list` | `session …` for each, then `end` | |
//! | anything else | `error WORDS` | and the connection is closed |
//!
//! ID is 32 hexadecimal digits; numbers are decimal. In BOOT, HOST, PATH, FS and METHOD every byte
//! except the ASCII letters, digits and `/ . _ -` is written as `%` and two hexadecimal digits. An
//! empty value is written as `%`.

use std::fmt;
use std::str::FromStr;

use super::identity::WitnessIdentity;

/// The first line of a witness.
pub const GREETING: &str = "dio-synctest 2";

/// Bytes of the longest line, including its end: a path has at most 4096 bytes, and each may take
/// three.
pub const LONGEST: usize = 16384;

/// The description of a session, fixed at its beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WitnessSession {
    /// Its identity.
    pub identity: WitnessIdentity,
    /// Bytes of a block.
    pub size: u64,
    /// Number of blocks of the ring.
    pub slots: u64,
    /// Identifies a boot of the writer's machine (`/proc/sys/kernel/random/boot_id`).
    pub boot: String,
    /// Name of the writer's machine.
    pub host: String,
    /// The absolute path of the file.
    pub path: String,
    /// The identity of its file system: the UUID, or another identifier; empty if there is none.
    pub file_system: String,
    /// Inode of its directory.
    pub directory: u64,
    /// Name of the method by which blocks are made durable.
    pub method: String,
}

/// A request to the witness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WitnessRequest {
    /// The writer proves that it has the secret.
    Prove(String),
    /// A session begins or continues.
    Begin(WitnessSession),
    /// The disk has acknowledged everything up to this number.
    Done(u64),
    /// As [`WitnessRequest::Done`], and the writer stops.
    End(u64),
    /// Asks for one session.
    Ask(WitnessIdentity),
    /// Asks for all sessions.
    List,
}

/// A reply of the witness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The witness has kept this number durably.
    Ok(u64),
    /// A session and its highest acknowledged number.
    Session(u64, WitnessSession),
    /// The end of a list.
    End,
    /// The reason of a refusal.
    Error(String),
}

impl WitnessSession {
    fn fields(&self) -> String {
        let WitnessSession {
            identity,
            size,
            slots,
            boot,
            host,
            path,
            file_system,
            directory,
            method,
        } = self;
        let (boot, host, path) = (escape(boot), escape(host), escape(path));
        let (file_system, method) = (escape(file_system), escape(method));
        format!("{identity} {size} {slots} {boot} {host} {path} {file_system} {directory} {method}")
    }

    fn read(fields: &[&str]) -> Result<WitnessSession, String> {
        let [identity, size, slots, boot, host, path, file_system, directory, method] = fields
        else {
            return Err("a session has nine fields".to_owned());
        };
        let session = WitnessSession {
            identity: identity.parse()?,
            size: number(size)?,
            slots: number(slots)?,
            boot: unescape(boot)?,
            host: unescape(host)?,
            path: unescape(path)?,
            file_system: unescape(file_system)?,
            directory: number(directory)?,
            method: unescape(method)?,
        };
        let size_fits = session.size.is_power_of_two() && (512..=1 << 20).contains(&session.size);
        if !size_fits || !(2..=1 << 40).contains(&session.slots) {
            return Err("no such size or number of slots".to_owned());
        }
        Ok(session)
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("'{}' is no number", escape(text)))
}

impl fmt::Display for WitnessRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WitnessRequest::Prove(proof) => write!(f, "prove {proof}"),
            WitnessRequest::Begin(session) => write!(f, "begin {}", session.fields()),
            WitnessRequest::Done(number) => write!(f, "done {number}"),
            WitnessRequest::End(number) => write!(f, "end {number}"),
            WitnessRequest::Ask(identity) => write!(f, "ask {identity}"),
            WitnessRequest::List => f.write_str("list"),
        }
    }
}

impl FromStr for WitnessRequest {
    type Err = String;

    fn from_str(line: &str) -> Result<WitnessRequest, String> {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["prove", proof] => Ok(WitnessRequest::Prove((*proof).to_owned())),
            ["begin", fields @ ..] => WitnessSession::read(fields).map(WitnessRequest::Begin),
            ["done", text] => number(text).map(WitnessRequest::Done),
            ["end", text] => number(text).map(WitnessRequest::End),
            ["ask", text] => text.parse().map(WitnessRequest::Ask),
            ["list"] => Ok(WitnessRequest::List),
            _ => Err("not understood".to_owned()),
        }
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reply::Ok(number) => write!(f, "ok {number}"),
            Reply::Session(number, session) => write!(f, "session {number} {}", session.fields()),
            Reply::End => f.write_str("end"),
            Reply::Error(words) => write!(f, "error {}", words.replace(['\n', '\r'], " ")),
        }
    }
}

impl FromStr for Reply {
    type Err = String;

    fn from_str(line: &str) -> Result<Reply, String> {
        if let Some(words) = line.strip_prefix("error ") {
            return Ok(Reply::Error(words.to_owned()));
        }
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["ok", text] => number(text).map(Reply::Ok),
            ["session", text, fields @ ..] => {
                Ok(Reply::Session(number(text)?, WitnessSession::read(fields)?))
            }
            ["end"] => Ok(Reply::End),
            _ => Err(format!("'{}' is no answer of a witness", escape(line))),
        }
    }
}

fn escape(text: &str) -> String {
    if text.is_empty() {
        return "%".to_owned();
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
    let each =
        |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02x}") };
    text.bytes().map(each).collect()
}

fn unescape(text: &str) -> Result<String, String> {
    let wrong = || "a word is not escaped as it should be".to_owned();
    if text == "%" {
        return Ok(String::new());
    }
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        bytes.push(*byte);
        if *byte == b'%' {
            let digits = after
                .get(..2)
                .and_then(|digits| std::str::from_utf8(digits).ok())
                .ok_or_else(wrong)?;
            let code = u8::from_str_radix(digits, 16).map_err(|_| wrong())?;
            *bytes.last_mut().expect("just pushed") = code;
            rest = &after[2..];
        }
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> WitnessSession {
        WitnessSession {
            identity: WitnessIdentity([0xab; 16]),
            size: 4096,
            slots: 1000,
            boot: String::new(),
            host: "db 1".into(),
            path: "/mnt/ä%\n".into(),
            file_system: "uuid-0a".into(),
            directory: 2,
            method: "rwf_dsync".into(),
        }
    }

    #[test]
    fn lines_come_back_as_what_they_were() {
        let identity = session().identity;
        for request in [
            WitnessRequest::Begin(session()),
            WitnessRequest::Done(0),
            WitnessRequest::End(u64::MAX),
            WitnessRequest::Ask(identity),
            WitnessRequest::List,
        ] {
            let line = request.to_string();
            assert!(!line.contains('\n') && line.len() < LONGEST, "{line}");
            assert_eq!(line.parse(), Ok(request));
        }
        for reply in [
            Reply::Ok(7),
            Reply::Session(9, session()),
            Reply::End,
            Reply::Error("no, never".into()),
        ] {
            assert_eq!(reply.to_string().parse(), Ok(reply));
        }
    }

    #[test]
    fn what_is_no_line_of_ours_is_refused() {
        let good = WitnessRequest::Begin(session()).to_string();
        for wrong in [
            "",
            " ",
            "done",
            "done -1",
            "done 1 2",
            "done 99999999999999999999",
            "begin",
            "ask 12",
            "GET / HTTP/1.1",
            &good.replace("4096", "4095"),
            &good.replace("4096", "256"),
            &good.replace(" 1000 ", " 1 "),
            &good.replace("%201", "%2"),
            &good.replace("%20", "%ff"),
            &format!("{good} more"),
        ] {
            assert!(wrong.parse::<WitnessRequest>().is_err(), "{wrong}");
        }
    }
}
