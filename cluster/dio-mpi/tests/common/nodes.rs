//! Machines of their own, as far as one kernel has them: processes with network namespaces, mounts
//! and host names, on a bridge.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use dio_test::run;

use super::keep_directory_of_jobs;

/// The address of the hub.
pub(crate) const HUB: &str = "10.77.0.254";

/// All addresses.
pub(crate) const NETWORK: &str = "10.77.0.0/24";

/// A process that ends with its value, and with the thread that started it.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn start(command: &mut Command) -> Running {
        Running(command.stdin(Stdio::null()).spawn().unwrap())
    }

    /// Has a command run in the namespaces of this process.
    pub(crate) fn enter(&self, command: &mut Command) {
        command.args(["nsenter", "--target", &self.0.id().to_string()]);
        command.args(["--mount", "--net", "--uts", "--"]);
    }

    /// A command that runs in the namespaces of this process, and ends with this thread.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = bound();
        self.enter(&mut command);
        command.arg(program);
        command
    }

    /// The processes that have its network, without itself.
    fn others(&self) -> Vec<i32> {
        let network = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).ok();
        let (this, own) = (self.0.id().to_string(), network(&self.0.id().to_string()));
        let names = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.file_name());
        let others = names.filter_map(|name| name.into_string().ok());
        let others = others.filter(|name| *name != this && network(name) == own);
        others.filter_map(|name| name.parse().ok()).collect()
    }

    fn ip(&self, words: &str) {
        let done = run(self.command("ip").args(words.split(' ')));
        assert!(done.status.success(), "ip {words}: {done:?}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A command that gets SIGKILL when the thread that started it ends.
pub(crate) fn bound() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]);
    command
}

/// Nodes, and a hub that connects them. Everything is in namespaces that end with their last
/// process, so nothing is left of it, however the test ends.
pub(crate) struct Nodes {
    pub(crate) nodes: Vec<Running>,
    pub(crate) hub: Running,
}

impl Nodes {
    /// Makes the hub `hub` and the nodes `node1`, `node2`, … `None`, with a message, if that cannot
    /// be.
    pub(crate) fn start(count: usize) -> Option<Nodes> {
        if !dio_test::is_root() {
            dio_test::skip!("namespaces and mounts need root");
            return None;
        }
        let hub = namespaces("hub")?;
        let nodes: Option<Vec<_>> =
            (1..=count).map(|number| namespaces(&format!("node{number}"))).collect();
        let nodes = nodes?;
        hub.ip("link add bridge type bridge");
        hub.ip(&format!("address add {HUB}/24 dev bridge"));
        hub.ip("link set bridge up");
        for (node, number) in nodes.iter().zip(1..) {
            let process = node.0.id();
            hub.ip(&format!("link add port{number} type veth peer name net0 netns {process}"));
            hub.ip(&format!("link set port{number} master bridge up"));
            node.ip(&format!("address add {}/24 dev net0", address(number)));
            node.ip("link set net0 up");
        }
        Some(Nodes { nodes, hub })
    }

    /// Cuts the power of a node, by its number from 1 on: nothing is heard of it any more, and its
    /// processes end.
    pub(crate) fn lose(&self, number: usize) {
        self.hub.ip(&format!("link set port{number} down"));
        for process in self.nodes[number - 1].others() {
            let process = rustix::process::Pid::from_raw(process).unwrap();
            // It may have ended by itself.
            let _ = rustix::process::kill_process(process, rustix::process::Signal::KILL);
        }
    }

    /// Connects a node again.
    pub(crate) fn connect(&self, number: usize) {
        self.hub.ip(&format!("link set port{number} up"));
    }
}

/// The address of a node, which are counted from 1 on.
pub(crate) fn address(number: usize) -> String {
    format!("10.77.0.{number}")
}

/// Starts a process with namespaces of its own, and this host name. It has its own shared memory:
/// ranks find each other there by the host's name and Slurm's number of the job, which nodes of
/// another test that runs at the same time have too.
fn namespaces(name: &str) -> Option<Running> {
    keep_directory_of_jobs(name);
    let mut command = bound();
    command.args(["unshare", "--net", "--uts", "--mount", "--propagation", "private", "--"]);
    command.args(["sh", "-ec"]);
    command.arg(format!(
        "echo {name} > /proc/sys/kernel/hostname; ip link set lo up; \
         mount -t tmpfs tmpfs /dev/shm; echo ready; exec sleep 3600"
    ));
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut running = Running::start(&mut command);
    let mut line = String::new();
    BufReader::new(running.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    if line != "ready\n" {
        dio_test::skip!("no namespaces can be made");
        return None;
    }
    Some(running)
}
