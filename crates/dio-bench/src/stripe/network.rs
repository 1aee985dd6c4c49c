//! Directories of a network file system whose servers are in another network namespace of this
//! machine: SSHFS over a pair of virtual Ethernet devices, without encryption, with a connection
//! and a server for each directory.
//!
//! The benchmark is in a network namespace of its own (`unshare(1)`), and so are the servers.
//! Neither the machine's interfaces nor its routes are touched, and everything disappears with the
//! processes.

use std::io::Write;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use dio_common::processes;

use super::disks::READY;
use super::modelled::{Server, make};
use super::plan::StripeBenchPlan;
use crate::BenchError;
use crate::commands::Running;
use crate::data::Scratch;
use crate::study::run_for_stdout;
use crate::undo::Undo;

/// Paths of the server in Debian's package `openssh-sftp-server` and in other distributions.
const SFTP_SERVERS: [&str; 3] = [
    "/usr/lib/openssh/sftp-server",
    "/usr/libexec/openssh/sftp-server",
    "/usr/lib/ssh/sftp-server",
];

/// Addresses of the two ends of the connection, in a network that no other machine can reach (RFC
/// 5737, TEST-NET-1).
const HERE: &str = "192.0.2.1";
const THERE: &str = "192.0.2.2";

/// How long a mount may take to appear.
const PATIENCE: Duration = Duration::from_secs(20);

/// Each request waits for its server. Without these options a write would end when it is sent, and
/// reads would be read ahead.
const OPTIONS: &str = "sshfs_sync,no_readahead,dir_cache=no";

/// The reason why such mounts are not possible here, with the names of the missing packages.
pub(super) fn missing() -> Option<String> {
    let there = |program: &str| processes::program(program, &[]).is_some();
    let packages = [
        ("sshfs", there("sshfs")),
        ("openssh-sftp-server", sftp_server().is_some()),
        ("iproute2", there("ip")),
        ("util-linux", there("nsenter") && there("setpriv") && there("unshare")),
    ];
    let packages: Vec<&str> =
        packages.iter().filter(|(_, there)| !there).map(|(package, _)| *package).collect();
    (!packages.is_empty()).then(|| format!("not installed: {}", packages.join(", ")))
}

fn sftp_server() -> Option<&'static Path> {
    SFTP_SERVERS.iter().map(Path::new).find(|path| path.is_file())
}

/// Mounts of the network file system.
#[derive(Debug)]
pub(super) struct Network {
    /// One directory on each mount.
    pub(super) directories: Vec<PathBuf>,
    _mounts: Vec<Undo>,
    _clients: Vec<Running>,
    _server: Server,
    _scratch: Scratch,
}

impl Network {
    /// Sets up `count` mounts.
    pub(super) fn set_up(plan: &StripeBenchPlan, count: usize) -> Result<Network, BenchError> {
        let scratch = Scratch::new(&plan.directory)?;
        let mut command = Command::new("unshare");
        command.args(["--net", "--"]).arg(&plan.program).args(["bench", "stripe-server"]);
        let (server, port) = Server::start(&mut command)?;
        connect(server.id())?;
        let (mut directories, mut mounts, mut clients) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..count {
            let (source, at) =
                (scratch.path(&format!("source{number}")), scratch.path(&format!("mount{number}")));
            make(&source)?;
            make(&at)?;
            let mut command = Command::new("setpriv");
            command.args(["--pdeathsig", "KILL", "--", "sshfs", "-f", "-o"]);
            command.arg(format!("directport={port},{OPTIONS}"));
            command.arg(format!("{THERE}:{}", source.display())).arg(&at);
            let mut client = Running::start(command.stdin(Stdio::null()), "sshfs")?;
            mounts.push(Undo::unmounting(&at));
            wait_for_mount(&at, &mut client)?;
            clients.push(client);
            directories.push(at);
        }
        Ok(Network {
            directories,
            _mounts: mounts,
            _clients: clients,
            _server: server,
            _scratch: scratch,
        })
    }
}

/// Creates a pair of Ethernet devices, one end in this network namespace and one in the server's.
fn connect(server: u32) -> Result<(), BenchError> {
    let ip =
        |words: &str| run_for_stdout(Command::new("ip").args(words.split_whitespace())).map(drop);
    let theirs = |words: &str| {
        let net = format!("--net=/proc/{server}/ns/net");
        run_for_stdout(
            Command::new("nsenter").args([&net, "--", "ip"]).args(words.split_whitespace()),
        )
        .map(drop)
    };
    ip(&format!("link add dio-here type veth peer name dio-there netns {server}"))?;
    ip(&format!("address add {HERE}/30 dev dio-here"))?;
    ip("link set dio-here up")?;
    theirs(&format!("address add {THERE}/30 dev dio-there"))?;
    theirs("link set dio-there up")
}

fn wait_for_mount(at: &Path, client: &mut Running) -> Result<(), BenchError> {
    let begin = Instant::now();
    let is_there = || {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        mounts.lines().any(|line| line.split(' ').nth(1) == at.to_str())
    };
    while !is_there() {
        if client.ended().is_some() || begin.elapsed() > PATIENCE {
            return Err(BenchError::Asked(
                "sshfs did not mount what is served over the network".to_owned(),
            ));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Serves files to every client that connects, with an SFTP server for each connection, until
/// standard input ends. It asks for no password, so it must run in a network namespace of its own.
///
/// # Errors
/// [`BenchError`]: there is no SFTP server, or no socket can be opened.
pub fn serve() -> Result<(), BenchError> {
    let program =
        sftp_server().ok_or_else(|| BenchError::Asked("there is no sftp-server".to_owned()))?;
    let at = Path::new("0.0.0.0");
    let failed = |operation| BenchError::system(operation, at);
    let listener =
        TcpListener::bind((at.to_str().unwrap_or_default(), 0)).map_err(failed("listen at"))?;
    let port = listener.local_addr().map_err(failed("listen at"))?.port();
    println!("{READY} {port}");
    std::io::stdout().flush().map_err(failed("announce"))?;
    std::thread::spawn(move || {
        let mut servers = Vec::new();
        for connection in listener.incoming().flatten() {
            // Small answers must not be delayed to be sent together with others.
            let _ = connection.set_nodelay(true);
            let Ok(input) = connection.try_clone() else { continue };
            let mut command = Command::new(program);
            command
                .stdin(Stdio::from(OwnedFd::from(input)))
                .stdout(Stdio::from(OwnedFd::from(connection)));
            servers.extend(command.spawn());
        }
    });
    let _ = std::io::Read::read_to_end(&mut std::io::stdin(), &mut Vec::new());
    // The servers end when their connections close, which happens when the clients end.
    Ok(())
}
