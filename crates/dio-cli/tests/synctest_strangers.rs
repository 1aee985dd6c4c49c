//! Proves that strangers who connect to a witness learn nothing, keep nobody out, use no memory,
//! and do not steer the terminal.

use crate::own::{MIB, json, number};
use crate::synctest_witness::{DIO, Witness, scratch, writer};
use rustix::process::Signal;
use std::fs::{self};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

#[test]
fn a_witness_that_does_not_come_back_ends_it_and_strangers_are_shown_the_door() {
    let (dir, kept) = (scratch(), scratch());
    let witness = Witness::start("127.0.0.1:0", kept.path());
    let path = dir.path().join("blocks");
    let running = writer(&mut Command::new(DIO), &witness, "--timeout 2", &path);
    witness.until_kept(5);

    for (words, answer) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "error not understood"),
        (b"done 7\n", "error the session has not begun"),
        (b"ask 00000000000000000000000000000000\n", "error no session"),
        (b"\xff\xfe\n", "error not understood"),
        (&[b'x'; 40_000], "error a line is too long"),
    ] {
        let mut stranger = TcpStream::connect(&witness.address).unwrap();
        // The witness may close the connection before it has read everything.
        let _ = stranger.write_all(words);
        let _ = stranger.shutdown(std::net::Shutdown::Write);
        let mut said = String::new();
        let _ = stranger.read_to_string(&mut said);
        let (greeting, rest) = said.split_once('\n').unwrap_or_default();
        // A connection that is closed with unread bytes is reset, and the last reply may be lost.
        assert!(rest.starts_with(answer) || words.len() > 16384, "{answer}: {said:?}");
        assert!(greeting == "dio-synctest 2" || words.len() > 16384, "{said:?}");
    }

    let address = witness.address.clone();
    drop(witness);
    let output = running.end();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stderr.contains(&format!("the witness {address}: ")), "{output:?}");
    // An existing file is not overwritten with a witness either.
    let witness = Witness::start("127.0.0.1:0", kept.path());
    let running = writer(&mut Command::new(DIO), &witness, "", &path);
    let output = running.end();
    assert!(output.status.code() == Some(1) && output.stderr.contains("exists"), "{output:?}");
}

/// The `begin` line of a writer, and its identity.
pub(crate) fn begin(number: usize) -> (String, String) {
    let (identity, path) = (format!("{number:032x}"), "/x".repeat(2000));
    (format!("begin {identity} 4096 8 boot host {path} uuid-0 2 fsync\n"), identity)
}

#[test]
fn whoever_asks_again_and_again_fills_no_memory_and_keeps_nobody_out() {
    let kept = scratch();
    let witness = Witness::start("127.0.0.1:0", kept.path());
    let mut greedy = TcpStream::connect(&witness.address).unwrap();
    greedy.write_all(begin(0).0.as_bytes()).unwrap();
    // Each session needs a connection of its own.
    for number in 1..=300 {
        let mut stream = TcpStream::connect(&witness.address).unwrap();
        let (line, _) = begin(number);
        stream.write_all(line.as_bytes()).unwrap();
        let mut answers = BufReader::new(stream).lines().map(Result::unwrap);
        assert_eq!(answers.nth(1).as_deref(), Some("ok 0"));
    }
    let resident = || {
        let text = fs::read_to_string(format!("/proc/{}/status", witness.child.id())).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    };
    let before = resident();
    greedy.write_all("list\n".repeat(3000).as_bytes()).unwrap();
    // The witness sends replies that are not read, until the buffers of the connection are full.
    std::thread::sleep(std::time::Duration::from_millis(500));
    let mut some = vec![0; 20 * MIB as usize];
    greedy.read_exact(&mut some).unwrap();
    let grown = resident() - before;
    assert!(grown < 4096, "{grown} KiB for one packet");
    // The pending replies neither keep the witness from ending nor block other connections.
    let mut other = TcpStream::connect(&witness.address).unwrap();
    other.write_all(format!("ask {}\n", begin(7).1).as_bytes()).unwrap();
    let answer = BufReader::new(other).lines().nth(1).unwrap().unwrap();
    assert!(answer.starts_with("session 0 "), "{answer}");
    drop(greedy);
}

#[test]
fn a_witness_with_a_secret_hears_only_those_who_know_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let (dir, kept) = (scratch(), scratch());
    let file = |name: &str, text: &str| {
        let path = kept.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (right, wrong) =
        (file("right", "of sixteen bytes or more\n"), file("wrong", "of sixteen bytes or less\n"));
    let place = kept.path().join("sessions");
    let witness = Witness::start_with("127.0.0.1:0", &place, &["--secret", &right]);
    for (flags, words) in [
        (String::new(), "it asks for a secret (--secret FILE)"),
        (format!("--secret {wrong}"), "that is not the secret"),
    ] {
        let output =
            writer(&mut Command::new(DIO), &witness, &flags, &dir.path().join("refused")).end();
        assert!(output.status.code() == Some(1) && output.stderr.contains(words), "{output:?}");
        assert!(!dir.path().join("refused").exists());
    }
    for line in ["list\n", "prove 00\n", &begin(1).0] {
        let mut stranger = TcpStream::connect(&witness.address).unwrap();
        stranger.write_all(line.as_bytes()).unwrap();
        let mut said = String::new();
        stranger.read_to_string(&mut said).unwrap();
        assert!(said.lines().nth(1).is_some_and(|line| line.starts_with("error ")), "{said:?}");
    }
    let path = dir.path().join("blocks");
    let running = writer(&mut Command::new(DIO), &witness, &format!("--secret {right}"), &path);
    witness.until_kept(5);
    running.signal(Signal::KILL);
    running.end();
    let (status, found, output) = witness.check(&["--secret", &right], &path);
    assert!(status == Some(0) && number(&found, "acknowledged") >= 5, "{output:?}");
}

/// Makes a file with a secret.
fn secret_in(directory: &Path) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let path = directory.join("secret");
    fs::write(&path, "of sixteen bytes or more\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A connection from 127.0.0.`last`.
fn connect_from(last: u8, address: &str) -> Option<TcpStream> {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).ok()?;
    bind(&socket, &std::net::SocketAddr::from(([127, 0, 0, last], 0))).ok()?;
    connect(&socket, &address.parse::<std::net::SocketAddr>().unwrap()).ok()?;
    Some(socket.into())
}

#[test]
fn strangers_do_not_keep_those_out_who_know_the_secret() {
    let (dir, kept) = (scratch(), scratch());
    let secret = secret_in(kept.path());
    let witness =
        Witness::start_with("127.0.0.1:0", &kept.path().join("sessions"), &["--secret", &secret]);
    let ended = std::sync::atomic::AtomicBool::new(false);
    let relaxed = std::sync::atomic::Ordering::Relaxed;
    std::thread::scope(|scope| {
        // A few addresses open as many connections as the witness accepts, and a new one for each
        // that it closes.
        scope.spawn(|| {
            let mut all: Vec<TcpStream> = Vec::new();
            while !ended.load(relaxed) {
                all.retain(|mut stream| match stream.read(&mut [0; 100]) {
                    Ok(count) => count > 0,
                    Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
                });
                let missing = 100 - all.len();
                for stream in (0..missing)
                    .filter_map(|number| connect_from(2 + number as u8 % 5, &witness.address))
                {
                    stream.set_nonblocking(true).unwrap();
                    all.push(stream);
                }
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        });
        std::thread::sleep(std::time::Duration::from_millis(300));
        let flags = format!("--timeout 5 --secret {secret} --seconds 2");
        let output =
            writer(&mut Command::new(DIO), &witness, &flags, &dir.path().join("blocks")).end();
        ended.store(true, relaxed);
        assert!(
            output.status.success() && number(&json(&output.stdout), "kept_by_witness") > 0,
            "{output:?}"
        );
    });
}

#[test]
fn a_stranger_has_the_time_to_prove_the_secret_and_no_more() {
    let kept = scratch();
    let secret = secret_in(kept.path());
    let witness =
        Witness::start_with("127.0.0.1:0", &kept.path().join("sessions"), &["--secret", &secret]);
    let begun = std::time::Instant::now();
    let (mut stranger, greeting) = witness.connect();
    assert_eq!(greeting.len(), 3, "{greeting:?}");
    // Sending single bytes does not extend the time limit.
    let mut other = stranger.try_clone().unwrap();
    std::thread::spawn(move || {
        while other.write_all(b"x").is_ok() {
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
    });
    let mut said = String::new();
    let _ = stranger.read_to_string(&mut said);
    assert!(begun.elapsed().as_secs() < 9, "{said:?}");
}

#[test]
fn what_a_stranger_names_does_not_steer_the_terminal_and_refusals_are_few_lines() {
    let kept = scratch();
    let witness = Witness::start("127.0.0.1:0", kept.path());
    let (mut stream, _) = witness.connect();
    let identity = "0".repeat(32);
    let line =
        format!("begin {identity} 4096 8 boot ho%1b%5b2Jst /a%0ab%1b%5b31m uuid-0 2 fs%1bync\n");
    stream.write_all(line.as_bytes()).unwrap();
    for number in 0..50 {
        let (mut stream, _) = witness.connect();
        stream.write_all(format!("ask \x1b[{number}m\n").as_bytes()).unwrap();
        let mut said = String::new();
        let _ = stream.read_to_string(&mut said);
        assert!(said.contains("no identity"), "{said:?}");
    }
    let said = witness.said(|text| text.contains("left out"));
    assert!(said.contains("'/a'$'\\n''b'$'\\033''[31m' on 'ho'$'\\033''[2Jst'"), "{said}");
    assert!(!said.contains('\x1b') && said.contains("\\033[0m"), "{said}");
    assert_eq!(said.lines().filter(|line| line.contains("no identity")).count(), 10, "{said}");
    assert!(said.contains("40 more lines about refusals are left out"), "{said}");
    // The terminal of a user who runs the check is not affected either.
    let output = dio_test::run(
        Command::new(DIO).args(["synctest", "--check", "--session", &identity]).args([
            "--witness",
            &witness.address,
            kept.path().join("none").to_str().unwrap(),
        ]),
    );
    assert!(output.status.code() == Some(1) && !output.stderr.contains('\x1b'), "{output:?}");
}
