//! Ranks on machines of their own, as far as one kernel has them: each is in a network namespace
//! with a host name and mounts of its own, and mounts there by itself what one server gives. MPI
//! goes over the network too. The file systems are GlusterFS and SSHFS, whose clients need no help
//! of the kernel but FUSE.

mod common;

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use common::nodes::{HUB, NETWORK, Nodes, Running, address, bound};
use common::{MIB, of_ranks, signal, written};
use dio_test::{Output, file_systems, random_file, run, until};

const NODES: usize = 3;
const PORT: u16 = 24_007;

/// Where each node mounts what the server gives, below the scratch directory.
const SHARED: &str = "shared";
/// What the server gives.
const SERVED: &str = "served";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Gluster,
    Sshfs,
}

/// A server in the hub, and nodes that mount what it gives.
struct Cluster {
    kind: Kind,
    clients: Vec<Running>,
    _server: Running,
    nodes: Nodes,
    scratch: tempfile::TempDir,
}

impl Cluster {
    /// `None`, with a message, if there can be no such namespaces. With `space`, what is served is
    /// on a tmpfs with these options.
    fn start(kind: Kind, space: Option<&str>) -> Option<Cluster> {
        let nodes = Nodes::start(NODES)?;
        let scratch = file_systems()[0].dir();
        let dir = scratch.path();
        for name in [SHARED, SERVED] {
            fs::create_dir(dir.join(name)).unwrap();
        }
        if let Some(options) = space {
            let mut command = nodes.hub.command("mount");
            command.args(["-t", "tmpfs", "-o", options, "none"]).arg(dir.join(SERVED));
            let mounted = run(&mut command);
            assert!(mounted.status.success(), "{mounted:?}");
        }
        let server = match kind {
            Kind::Gluster => gluster_server(dir, &nodes.hub),
            Kind::Sshfs => sftp_server(dir, &nodes.hub),
        };
        let mut cluster = Cluster { kind, clients: Vec::new(), _server: server, nodes, scratch };
        cluster.prepare_launch();
        cluster.prepare_clients();
        for number in 0..NODES {
            cluster.mount(number);
        }
        Some(cluster)
    }

    fn dir(&self) -> &Path {
        self.scratch.path()
    }

    /// Writes what `mpirun` needs to start ranks in the nodes.
    fn prepare_launch(&self) {
        let mut agent = "#!/bin/sh\ncase $1 in\n".to_owned();
        let mut hosts = String::new();
        for (node, number) in self.nodes.nodes.iter().zip(1..) {
            agent += &format!("{}) process={};;\n", address(number), node.0.id());
            hosts += &format!("{} slots=1\n", address(number));
        }
        agent += "esac\nshift\n\
                  exec nsenter --target $process --mount --net --uts -- sh -c \"$*\"\n";
        fs::write(self.dir().join("agent"), agent).unwrap();
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(self.dir().join("agent"), mode).unwrap();
        fs::write(self.dir().join("hosts"), hosts).unwrap();
    }

    /// Writes what clients of GlusterFS read some time after their mount is there.
    fn prepare_clients(&self) {
        let volume = format!(
            "volume remote\ntype protocol/client\noption transport-type tcp\n\
             option remote-host {HUB}\noption remote-port 24007\n\
             option remote-subvolume threads\nend-volume\n\
             volume behind\ntype performance/write-behind\nsubvolumes remote\nend-volume\n"
        );
        fs::write(self.dir().join("client.vol"), volume).unwrap();
    }

    fn mount(&mut self, number: usize) {
        let node = &self.nodes.nodes[number];
        let told = File::create(self.dir().join(format!("client{number}.told"))).unwrap();
        let at = self.dir().join(SHARED);
        let mut command = bound();
        node.enter(&mut command);
        match self.kind {
            Kind::Gluster => {
                command.args(["glusterfs", "--no-daemon", "--acl", "-l", "/dev/stderr", "-f"]);
                command.arg(self.dir().join("client.vol")).arg(&at);
            }
            Kind::Sshfs => {
                let served = self.dir().join(SERVED);
                command.args(["sshfs", "-f", "-o", &format!("directport={PORT}")]);
                command.arg(format!("{HUB}:{}", served.display())).arg(&at);
            }
        }
        command.stdout(told.try_clone().unwrap()).stderr(told);
        self.clients.push(Running::start(&mut command));
        let table = format!("/proc/{}/mountinfo", node.0.id());
        let point = format!(" {} ", at.display());
        until("the server's directory is mounted", || {
            fs::read_to_string(&table).unwrap().contains(&point)
        });
    }

    /// `dio-mpi` with one rank in each node, in the order of the file `hosts`.
    fn mpirun(&self, words: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.nodes.hub.0.id().to_string(), "--net", "--uts", "--"]);
        command.args(["mpirun", "--allow-run-as-root", "--map-by", "node"]);
        command.args(["-n", &NODES.to_string(), "--hostfile", "hosts"]);
        command.arg("--wdir").arg(self.dir());
        let agent = self.dir().join("agent");
        for (name, value) in [
            ("plm_rsh_agent", agent.to_str().unwrap()),
            ("plm_rsh_no_tree_spawn", "1"),
            ("oob_tcp_if_include", NETWORK),
            ("btl_tcp_if_include", NETWORK),
            ("btl", "self,tcp"),
            ("pml", "ob1"),
        ] {
            command.args(["--mca", name, value]);
        }
        command.arg(env!("CARGO_BIN_EXE_dio-mpi")).args(words.split(' '));
        command.current_dir(self.dir()).stdin(Stdio::null());
        command
    }

    fn dio_mpi(&self, words: &str) -> Output {
        run(&mut self.mpirun(words))
    }

    /// Runs a script of the shell in the scratch directory, as a node sees it.
    fn sh(&self, number: usize, script: &str) -> Output {
        let mut command = self.nodes.nodes[number].command("sh");
        command.args(["-uc", "cd \"$0\" && eval \"$1\""]);
        run(command.arg(self.dir()).arg(script))
    }

    /// The processes of the ranks, in any node.
    fn ranks(&self) -> Vec<u32> {
        let of = |entry: fs::DirEntry| {
            let process = entry.file_name().to_str()?.parse().ok()?;
            let name = fs::read_to_string(entry.path().join("comm")).ok()?;
            let below = fs::read_link(entry.path().join("cwd")).ok()?;
            (name.trim() == "dio-mpi" && below == self.dir()).then_some(process)
        };
        fs::read_dir("/proc").unwrap().flatten().filter_map(of).collect()
    }

    /// Has diff and, of what all these file systems keep, rsync look for differences. Each node
    /// has to see the same.
    fn assert_same(&self, source: &str, target: &str) {
        let served = target.replace(SHARED, SERVED);
        let judged = run(Command::new("sh").current_dir(self.dir()).args([
            "-c",
            "diff -r --no-dereference \"$0\" \"$1\" && \
             rsync -rlpogtcOJ --dry-run --delete --itemize-changes \"$0/\" \"$1/\"",
            source,
            &served,
        ]));
        assert!(judged.status.success() && judged.stdout.is_empty(), "{judged:?}");
        // The clients of SSHFS are slow.
        let first = if self.kind == Kind::Sshfs { NODES - 1 } else { 0 };
        for number in first..NODES {
            let judged = self.sh(number, &format!("diff -r --no-dereference {source} {target}"));
            assert!(judged.status.success() && judged.stdout.is_empty(), "{number}: {judged:?}");
        }
    }
}

/// Waits until something in the hub listens on the port.
fn wait_for_server(hub: &Running) {
    let table = format!("/proc/{}/net/tcp", hub.0.id());
    let listening = format!("FE004D0A:{PORT:04X} 00000000:0000 0A");
    until("the server listens", || fs::read_to_string(&table).unwrap().contains(&listening));
}

/// A GlusterFS server of one disk. It needs no daemon that manages it.
fn gluster_server(dir: &Path, hub: &Running) -> Running {
    let volume = format!(
        "volume disk\ntype storage/posix\noption directory {}\nend-volume\n\
         volume locks\ntype features/locks\nsubvolumes disk\nend-volume\n\
         volume threads\ntype performance/io-threads\nsubvolumes locks\nend-volume\n\
         volume server\ntype protocol/server\noption transport-type tcp\n\
         option transport.socket.bind-address {HUB}\n\
         option transport.socket.listen-port {PORT}\noption auth.addr.threads.allow *\n\
         subvolumes threads\nend-volume\n",
        dir.join(SERVED).display()
    );
    fs::write(dir.join("server.vol"), volume).unwrap();
    let told = File::create(dir.join("server.told")).unwrap();
    let mut command = hub.command("glusterfsd");
    command.args(["--no-daemon", "-l", "/dev/stderr", "-f"]);
    command.arg(dir.join("server.vol")).stdout(told.try_clone().unwrap()).stderr(told);
    let server = Running::start(&mut command);
    wait_for_server(hub);
    server
}

/// The variable that has the test `serve` be a server.
const SERVE: &str = "DIO_SERVE_SFTP";

/// Serves the files of this machine by `sftp-server`, of which each connection gets one.
fn sftp_server(dir: &Path, hub: &Running) -> Running {
    let told = File::create(dir.join("server.told")).unwrap();
    let mut command = hub.command(std::env::current_exe().unwrap().to_str().unwrap());
    command.args(["--exact", "serve", "--nocapture"]);
    command.env(SERVE, "1").stdout(told.try_clone().unwrap()).stderr(told);
    let server = Running::start(&mut command);
    wait_for_server(hub);
    server
}

/// Is a server, in a process of its own.
#[test]
fn serve() {
    if std::env::var_os(SERVE).is_none() {
        return;
    }
    let listener = TcpListener::bind((HUB, PORT)).unwrap();
    for connection in listener.incoming() {
        let connection = OwnedFd::from(connection.unwrap());
        let mut command = bound();
        command.arg("/usr/lib/openssh/sftp-server").stdin(connection.try_clone().unwrap());
        let mut server = command.stdout(connection).spawn().unwrap();
        std::thread::spawn(move || server.wait());
    }
}

/// Makes a tree of many small files, and a large one.
fn make_tree(root: &Path) {
    for number in 0..500 {
        let dir = root.join(format!("d{}/e{}", number % 7, number % 3));
        fs::create_dir_all(&dir).unwrap();
        random_file(dir.join(format!("f{number}")), 101 * number, number);
    }
    random_file(root.join("large"), 80 * MIB + 77, 1000);
    random_file(root.join("d1/middle"), 3 * MIB, 1001);
    // On SSHFS the time of a link is set on what it leads to, which has to be there already.
    symlink(".", root.join("link")).unwrap();
    fs::create_dir(root.join("empty")).unwrap();
    fs::set_permissions(root.join("d2"), fs::Permissions::from_mode(0o750)).unwrap();
    let touched = run(Command::new("touch")
        .args(["-d", "2001-02-03 04:05:06"])
        .args(["large", "d2/e2/f2"].map(|name| root.join(name))));
    assert!(touched.status.success(), "{touched:?}");
}

const TREE_BYTES: u64 = 101 * 499 * 500 / 2 + 80 * MIB + 77 + 3 * MIB;

fn receipt(dir: &Path) -> String {
    fs::read_to_string(dir.join("receipt")).unwrap()
}

/// The hosts of a receipt, in the order of the ranks.
fn hosts(receipt: &str) -> Vec<String> {
    let whole: serde_json::Value = serde_json::from_str(receipt).unwrap();
    let ranks = whole["ranks"].as_array().unwrap().iter();
    ranks.map(|rank| rank["host"].as_str().unwrap().to_owned()).collect()
}

/// Whether a job has noted several files in a journal. Some of them are empty.
fn is_noted(journal: &Path) -> bool {
    let marks = |rank| journal.join(format!("marks.{rank}")).metadata();
    (0..NODES).any(|rank| marks(rank).is_ok_and(|marks| marks.len() > 400))
}

/// Copies with `--verify`; returns the receipt.
fn copy(cluster: &Cluster) -> String {
    let copied = cluster.dio_mpi("cp -a --verify --receipt receipt from shared/to");
    assert!(copied.status.success(), "{copied:?}");
    cluster.assert_same("from", "shared/to");
    let receipt = receipt(cluster.dir());
    assert_eq!(hosts(&receipt), ["node1", "node2", "node3"]);
    assert_eq!(written(&receipt), TREE_BYTES);
    assert_eq!(of_ranks(&receipt, "bytes_verified").iter().sum::<u64>(), TREE_BYTES);
    receipt
}

/// Kills all ranks of a copy once something is noted, and goes on. Returns how many bytes were
/// written then.
fn go_on_after_a_kill(cluster: &Cluster, journal: &str) -> u64 {
    let line =
        format!("cp -aT --journal {journal} --limit 30M --receipt receipt from shared/again");
    let mut command = cluster.mpirun(&line);
    let job = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("something is noted", || is_noted(&cluster.dir().join(journal.replace(SHARED, SERVED))));
    let ranks = cluster.ranks();
    assert_eq!(ranks.len(), NODES);
    ranks.iter().for_each(|rank| signal(*rank, rustix::process::Signal::KILL));
    let ended = job.wait_with_output().unwrap();
    assert!(!ended.status.success(), "{ended:?}");
    until("no rank is left", || cluster.ranks().is_empty());
    let rest = cluster.dio_mpi(&line);
    assert!(rest.status.success(), "{rest:?}");
    cluster.assert_same("from", "shared/again");
    let count = written(&receipt(cluster.dir()));
    let again = cluster.dio_mpi(&line);
    assert!(again.status.success(), "{again:?}");
    count
}

/// Changes the source, and has the copy become like it.
fn follow(cluster: &Cluster) {
    let changed = run(Command::new("sh").current_dir(cluster.dir()).args([
        "-ec",
        "rm -r from/d3 from/d0/e0/f0; echo new > from/d1/new; mkdir -p from/d9/deep; \
         printf x >> from/d2/e2/f2; mv from/d4 from/d9/moved; chmod 600 from/d5/e2/f5; \
         printf changed | dd of=from/large bs=1 seek=70000000 conv=notrunc status=none; \
         ln -sfn elsewhere from/link; touch -d '2002-02-02 02:02:02' from/d1",
    ]));
    assert!(changed.status.success(), "{changed:?}");
    let synced = cluster.dio_mpi("sync --delete from shared/to");
    assert!(synced.status.success(), "{synced:?}");
    cluster.assert_same("from", "shared/to");
    let again = cluster.dio_mpi("sync --delete -v --receipt receipt from shared/to");
    assert!(again.status.success() && !again.stdout.contains("->"), "{again:?}");
    assert_eq!(written(&receipt(cluster.dir())), 0);
}

/// Has all ranks compute digests, and compare two trees.
fn read(cluster: &Cluster) {
    let sums = cluster.dio_mpi("sum shared/to");
    let files = "find shared/to -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum --tag";
    let expected = cluster.sh(NODES - 1, files);
    assert!(sums.status.success() && expected.status.success(), "{sums:?} {expected:?}");
    assert!(sums.stdout == expected.stdout && sums.stdout.lines().count() > 300);
    let compared = cluster.dio_mpi("cmp from shared/to");
    assert!(compared.status.success() && compared.stdout.is_empty(), "{compared:?}");
}

#[test]
fn machines_share_copies_on_glusterfs() {
    let Some(cluster) = Cluster::start(Kind::Gluster, None) else { return };
    make_tree(&cluster.dir().join("from"));
    let receipt = copy(&cluster);
    let wrote = of_ranks(&receipt, "bytes_written");
    assert!(wrote.iter().all(|bytes| *bytes > 0), "{wrote:?}");
    assert_eq!(of_ranks(&receipt, "bytes_verified_by_writer"), [0; NODES], "{receipt}");
    let count = go_on_after_a_kill(&cluster, "shared/journal");
    assert!(count < TREE_BYTES, "{count}");
    follow(&cluster);
    read(&cluster);
}

#[test]
fn machines_copy_to_sshfs() {
    let Some(cluster) = Cluster::start(Kind::Sshfs, None) else { return };
    make_tree(&cluster.dir().join("from"));
    copy(&cluster);
}

#[test]
fn a_journal_is_locked_between_machines() {
    let Some(cluster) = Cluster::start(Kind::Gluster, None) else { return };
    make_tree(&cluster.dir().join("from"));
    // The first job must not end before the other one asks for its journal.
    let line = |limit| format!("cp -aT --journal shared/journal --limit {limit} from shared/to");
    let mut command = cluster.mpirun(&line("4M"));
    let job = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("something is noted", || is_noted(&cluster.dir().join("served/journal")));
    // The first rank of this job is in another node.
    let hosts = fs::read_to_string(cluster.dir().join("hosts")).unwrap();
    let hosts: String = hosts.lines().rev().map(|line| format!("{line}\n")).collect();
    fs::write(cluster.dir().join("hosts"), hosts).unwrap();
    let ranks = cluster.ranks();
    ranks.iter().for_each(|rank| signal(*rank, rustix::process::Signal::STOP));
    let refused = cluster.dio_mpi(&line("100M"));
    ranks.iter().for_each(|rank| signal(*rank, rustix::process::Signal::KILL));
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let told = "dio-mpi cp: 'shared/journal' is in use by another job: wait for its end\n";
    assert_eq!(refused.stderr.matches(told).count(), 1, "{refused:?}");
    let ended = job.wait_with_output().unwrap();
    assert!(!ended.status.success(), "{ended:?}");
    until("no rank is left", || cluster.ranks().is_empty());
    // The limit is of an attempt, and no other job.
    let rest = cluster.dio_mpi(&line("100M"));
    assert!(rest.status.success(), "{rest:?}");
    cluster.assert_same("from", "shared/to");
}

#[test]
fn a_server_that_runs_out_of_space_is_told() {
    for kind in [Kind::Sshfs, Kind::Gluster] {
        let Some(cluster) = Cluster::start(kind, Some("size=8M")) else { return };
        // Small files, of which each is written through a cache of the client.
        for number in 0..400 {
            let dir = cluster.dir().join(format!("from/d{}", number % 5));
            fs::create_dir_all(&dir).unwrap();
            random_file(dir.join(format!("f{number}")), 40_000, number);
        }
        let archive =
            run(Command::new("tar").args(["-cf", "all.tar", "from"]).current_dir(cluster.dir()));
        assert!(archive.status.success(), "{archive:?}");
        for (line, status) in [
            ("cp -aT from shared/to", 1),
            ("cp -aT --no-sync from shared/to", 1),
            ("tar -xf all.tar --mode=cached -C shared/to", 2),
            ("sync from shared/to", 1),
            ("tar -xf all.tar -C shared/to", 2),
        ] {
            let failed = cluster.dio_mpi(line);
            assert_eq!(failed.status.code(), Some(status), "{kind:?}: {line}: {failed:?}");
            let told = failed.stderr.lines().filter(|line| line.starts_with("dio-mpi"));
            assert!(told.count() > 0, "{failed:?}");
            let compared = cluster.sh(0, "diff -rq from shared/to");
            assert_eq!(compared.status.code(), Some(1), "not everything fits: {compared:?}");
        }
    }
}
