//! Jobs under a real Slurm: a controller and one node of this machine, or two nodes that are
//! machines of their own as far as one kernel has them, with a configuration, ports and keys of
//! their own. Slurm's processes are started as root.

mod common;

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use common::nodes::{HUB, NETWORK, Nodes, address};
use common::{MIB, assert_same};
use dio_test::{file_systems, is_root, random_file, run, until};

/// Slurm's daemons. They end when this is dropped.
struct Slurm {
    scratch: tempfile::TempDir,
    daemons: Vec<Child>,
    /// The machines that they are on, if these are not this one.
    nodes: Option<Nodes>,
}

impl Slurm {
    /// One node, which is this machine.
    fn start() -> Slurm {
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let (host, [controller, node]) = (host.trim(), free_ports());
        let mut slurm = Slurm::prepare(
            None,
            &format!(
                "SlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={controller}\nSlurmdPort={node}\n\
                 NodeName={host} NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN\n"
            ),
        );
        slurm.daemon("slurmctld", None, &["-D".into()]);
        fs::create_dir(slurm.scratch.path().join(format!("tmp.{host}"))).unwrap();
        slurm.daemon("slurmd", None, &["-D".into()]);
        slurm.wait_for_nodes();
        slurm
    }

    /// Nodes that are machines of their own; the controller is in their hub. `more` belongs to the
    /// configuration.
    fn start_on(nodes: Nodes, more: &str) -> Slurm {
        let count = nodes.nodes.len();
        let mut lines = format!("SlurmctldHost=hub({HUB})\n{more}");
        for number in 1..=count {
            lines += &format!(
                "NodeName=node{number} NodeAddr={} CPUs=4 State=UNKNOWN\n",
                address(number)
            );
        }
        let mut slurm = Slurm::prepare(Some(nodes), &lines);
        slurm.daemon("slurmctld", None, &["-D".into()]);
        for number in 1..=count {
            let name = format!("node{number}");
            // Both nodes make files of the same names there.
            fs::create_dir(slurm.scratch.path().join(format!("tmp.{name}"))).unwrap();
            slurm.start_node(number);
        }
        slurm.wait_for_nodes();
        slurm
    }

    /// Cuts the power of a node. What it keeps in memory is lost: its files for jobs that run.
    fn lose(&self, number: usize) {
        self.nodes.as_ref().unwrap().lose(number);
        let dir = self.scratch.path();
        fs::remove_dir_all(dir.join(format!("spool.node{number}"))).unwrap();
        fs::remove_dir_all(dir.join(format!("tmp.node{number}"))).unwrap();
        fs::create_dir(dir.join(format!("tmp.node{number}"))).unwrap();
    }

    fn start_node(&mut self, number: usize) {
        let args = ["-D".into(), "-N".into(), format!("node{number}")];
        self.daemon("slurmd", Some(number), &args);
    }

    /// Writes the configuration, to which `lines` belong, and starts what signs messages.
    fn prepare(nodes: Option<Nodes>, lines: &str) -> Slurm {
        let scratch = tempfile::tempdir().unwrap();
        let mut slurm = Slurm { scratch, daemons: Vec::new(), nodes };
        let dir = slurm.scratch.path().display().to_string();
        let configuration = format!(
            "ClusterName=test\nAuthType=auth/munge\n\
             AuthInfo=socket={dir}/munge\nCredType=cred/munge\nSlurmUser=root\n\
             StateSaveLocation={dir}/state\n\
             SlurmdSpoolDir={dir}/spool.%n\nSlurmctldPidFile={dir}/slurmctld.pid\n\
             SlurmdPidFile={dir}/slurmd.%n.pid\nProctrackType=proctrack/linuxproc\n\
             TaskPlugin=task/none\nSelectType=select/cons_tres\nSwitchType=switch/none\n\
             ReturnToService=2\nSlurmdParameters=config_overrides\nMpiDefault=pmix\nKillWait=5\n\
             TmpFS={dir}/tmp.%n\n{lines}\
             PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n"
        );
        fs::write(slurm.scratch.path().join("slurm.conf"), configuration).unwrap();
        fs::create_dir(slurm.scratch.path().join("state")).unwrap();
        random_file(slurm.scratch.path().join("key"), 1024, 1);
        run(Command::new("chmod").args(["400", &format!("{dir}/key")]));
        let of_munge =
            ["socket=munge", "key-file=key", "pid-file=pid", "log-file=log", "seed-file=seed"];
        let of_munge = of_munge.map(|option| {
            let (name, file) = option.split_once('=').unwrap();
            format!("--{name}={dir}/{file}")
        });
        slurm.daemon(
            "munged",
            None,
            &[&["--foreground".into(), "--force".into()], &of_munge[..]].concat(),
        );
        until("munge listens", || slurm.scratch.path().join("munge").exists());
        slurm
    }

    fn wait_for_nodes(&self) {
        until("the nodes are idle", || {
            run(self.command("sinfo").args(["-h", "-o", "%T"])).stdout.trim() == "idle"
        });
    }

    /// A command on the machine of the controller.
    fn command(&self, name: &str) -> Command {
        self.command_on(None, name)
    }

    /// A command on a node, which are counted from 1 on.
    fn command_on(&self, node: Option<usize>, name: &str) -> Command {
        let mut command = match (&self.nodes, node) {
            (None, _) => Command::new(name),
            (Some(nodes), None) => nodes.hub.command(name),
            (Some(nodes), Some(number)) => nodes.nodes[number - 1].command(name),
        };
        command.env("SLURM_CONF", self.scratch.path().join("slurm.conf"));
        if self.nodes.is_some() {
            command.env("OMPI_MCA_btl_tcp_if_include", NETWORK);
        }
        command
    }

    fn daemon(&mut self, name: &str, node: Option<usize>, args: &[String]) {
        let told = format!("{name}{}.told", node.unwrap_or(0));
        let told = File::create(self.scratch.path().join(told)).unwrap();
        let mut command = self.command_on(node, &format!("/usr/sbin/{name}"));
        command.args(args).stdin(Stdio::null()).stdout(told.try_clone().unwrap()).stderr(told);
        self.daemons.push(command.spawn().unwrap());
    }

    /// A batch job of four ranks in `dir`, of which the result is that of `sbatch --wait`.
    fn batch(&self, dir: &Path, options: &[&str], copy: &str) -> Child {
        let program = env!("CARGO_BIN_EXE_dio-mpi");
        let mut command = self.command("sbatch");
        command.args(["--wait", "--ntasks=4", "--output=told", "--open-mode=append"]);
        command.args(options).arg("--chdir").arg(dir);
        command.arg(format!("--wrap=srun {program} cp {copy}")).current_dir(dir);
        command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
    }

    /// Prints the end of what each daemon has said, and what the controller knows of jobs and of
    /// nodes.
    fn tell(&self) {
        for entry in fs::read_dir(self.scratch.path()).unwrap().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|extension| extension == "told") {
                let text = fs::read_to_string(&path).unwrap_or_default();
                let lines: Vec<_> = text.lines().rev().take(60).collect();
                println!("{}:", path.file_name().unwrap().display());
                lines.iter().rev().for_each(|line| println!("    {line}"));
            }
        }
        for what in ["jobs", "nodes"] {
            println!("{}", run(self.command("scontrol").args(["show", what])).stdout);
        }
    }

    /// Returns what `squeue` tells of all jobs in this format.
    fn queue(&self, format: &str) -> String {
        run(self.command("squeue").args(["-h", "-o", format])).stdout.trim().to_owned()
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.tell();
        }
        while let Some(mut daemon) = self.daemons.pop() {
            // It may have ended by itself.
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

fn free_ports() -> [u16; 2] {
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

/// Makes a tree of small files and a large one; returns its bytes.
fn make_tree(dir: &Path) -> u64 {
    for number in 0..40 {
        let below = dir.join(format!("from/d{number}"));
        fs::create_dir_all(&below).unwrap();
        for file in 0..20 {
            random_file(below.join(format!("f{file}")), 200_000, file);
        }
    }
    random_file(dir.join("from/large"), 100 * MIB, 1);
    100 * MIB + 40 * 20 * 200_000
}

/// Copies by `srun`, stops a batch job by a signal, and has it go on. All get these options.
fn check_jobs(slurm: &Slurm, dir: &Path, options: &[&str]) {
    let whole = make_tree(dir);
    let copied = run(slurm
        .command("srun")
        .args(["-n", "4", "--chdir"])
        .arg(dir)
        .args(options)
        .args([env!("CARGO_BIN_EXE_dio-mpi"), "cp", "-a", "--receipt=receipt", "from", "to"]));
    assert!(copied.status.success(), "{copied:?}");
    assert_same(dir, "from", "to");
    let copy = "-a --journal journal --limit 60M --receipt receipt from again";
    let mut job = slurm.batch(dir, options, copy);
    let told = || fs::read_to_string(dir.join("told")).unwrap_or_default();
    until("something is noted", || is_noted(dir));
    let stopped = run(slurm.command("scancel").args(["--signal=TERM", &slurm.queue("%i")]));
    assert!(stopped.status.success(), "{stopped:?}");
    assert_eq!(job.wait().unwrap().code(), Some(143), "{}", told());
    assert_eq!(told().matches("dio-mpi cp: interrupted").count(), 1, "{}", told());
    assert!(slurm.batch(dir, options, copy).wait().unwrap().success(), "{}", told());
    assert_same(dir, "from", "again");
    let receipt = fs::read_to_string(dir.join("receipt")).unwrap();
    assert!(common::written(&receipt) < whole, "what was noted is not copied again");
}

/// Whether a job in `dir` has noted something.
fn is_noted(dir: &Path) -> bool {
    let marks = |rank| dir.join(format!("journal/marks.{rank}")).metadata();
    (0..4).any(|rank| marks(rank).is_ok_and(|marks| marks.len() > 16))
}

#[test]
fn jobs_run_stop_by_a_signal_and_go_on() {
    if !is_root() {
        return dio_test::skip!("Slurm's daemons need root");
    }
    let scratch = file_systems()[0].dir();
    check_jobs(&Slurm::start(), scratch.path(), &[]);
}

#[test]
fn jobs_of_two_nodes_run_stop_by_a_signal_and_go_on() {
    let Some(nodes) = Nodes::start(2) else { return };
    let slurm = Slurm::start_on(nodes, "");
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    check_jobs(&slurm, dir, &["--nodes=2", "--ntasks-per-node=2"]);
    let receipt = fs::read_to_string(dir.join("receipt")).unwrap();
    let count = |host: &str| receipt.matches(&format!("\"host\": \"{host}\"")).count();
    assert_eq!([count("node1"), count("node2")], [2, 2]);
}

/// Slurm finds that nothing is heard of a node any more, ends the job, and queues it again.
#[test]
fn a_job_that_loses_a_node_is_queued_again_and_goes_on() {
    let Some(nodes) = Nodes::start(2) else { return };
    let mut slurm = Slurm::start_on(nodes, "SlurmdTimeout=5\nMessageTimeout=3\n");
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    let whole = make_tree(dir);
    let options = ["--nodes=2", "--ntasks-per-node=2", "--requeue"];
    let copy = "-a --journal journal --limit 60M --receipt receipt from to";
    let mut job = slurm.batch(dir, &options, copy);
    until("something is noted", || is_noted(dir));
    slurm.lose(2);
    until("the job is queued again", || slurm.queue("%T") == "PENDING");
    slurm.nodes.as_ref().unwrap().connect(2);
    slurm.start_node(2);
    slurm.wait_for_nodes();
    // Slurm would wait for two minutes before it starts the job again.
    let job_number = slurm.queue("%i");
    let words = ["update", &format!("JobId={job_number}"), "StartTime=now"];
    let started = run(slurm.command("scontrol").args(words));
    assert!(started.status.success(), "{started:?}");
    let told = || fs::read_to_string(dir.join("told")).unwrap_or_default();
    assert!(job.wait().unwrap().success(), "{}", told());
    assert_same(dir, "from", "to");
    let receipt = fs::read_to_string(dir.join("receipt")).unwrap();
    assert!(common::written(&receipt) < whole, "what was noted is not copied again");
}
