//! Jobs under a real Slurm: a controller and one node of this machine, with a configuration, ports
//! and keys of their own. Slurm's processes are started as root.

mod common;

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use common::{MIB, assert_same};
use dio_test::{file_systems, is_root, random_file, run, until};

/// Slurm's daemons. They end when this is dropped.
struct Slurm {
    scratch: tempfile::TempDir,
    daemons: Vec<Child>,
}

impl Slurm {
    fn start() -> Slurm {
        let scratch = tempfile::tempdir().unwrap();
        let mut slurm = Slurm { scratch, daemons: Vec::new() };
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let (host, dir) = (host.trim(), slurm.scratch.path().display().to_string());
        let [controller, node] = free_ports();
        let configuration = format!(
            "ClusterName=test\nSlurmctldHost={host}(127.0.0.1)\nAuthType=auth/munge\n\
             AuthInfo=socket={dir}/munge\nCredType=cred/munge\nSlurmUser=root\n\
             SlurmctldPort={controller}\nSlurmdPort={node}\nStateSaveLocation={dir}/state\n\
             SlurmdSpoolDir={dir}/spool\nSlurmctldPidFile={dir}/slurmctld.pid\n\
             SlurmdPidFile={dir}/slurmd.pid\nProctrackType=proctrack/linuxproc\n\
             TaskPlugin=task/none\nSelectType=select/cons_tres\nSwitchType=switch/none\n\
             ReturnToService=2\nSlurmdParameters=config_overrides\nMpiDefault=pmix\nKillWait=5\n\
             NodeName={host} NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN\n\
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
            &[&["--foreground".into(), "--force".into()], &of_munge[..]].concat(),
        );
        until("munge listens", || slurm.scratch.path().join("munge").exists());
        slurm.daemon("slurmctld", &["-D".into()]);
        slurm.daemon("slurmd", &["-D".into()]);
        until("the node is idle", || {
            run(slurm.command("sinfo").args(["-h", "-o", "%T"])).stdout.trim() == "idle"
        });
        slurm
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(name);
        command.env("SLURM_CONF", self.scratch.path().join("slurm.conf"));
        command
    }

    fn daemon(&mut self, name: &str, args: &[String]) {
        let told = File::create(self.scratch.path().join(format!("{name}.told"))).unwrap();
        let mut command = self.command(&format!("/usr/sbin/{name}"));
        command.args(args).stdin(Stdio::null()).stdout(told.try_clone().unwrap()).stderr(told);
        self.daemons.push(command.spawn().unwrap());
    }

    /// A batch job of four ranks in `dir`, of which the result is that of `sbatch --wait`.
    fn batch(&self, dir: &Path, copy: &str) -> Child {
        let program = env!("CARGO_BIN_EXE_dio-mpi");
        let mut command = self.command("sbatch");
        command.args(["--wait", "--ntasks=4", "--output=told", "--open-mode=append"]);
        command.arg(format!("--wrap=srun {program} cp {copy}")).current_dir(dir);
        command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
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

#[test]
fn jobs_run_stop_by_a_signal_and_go_on() {
    if !is_root() {
        return dio_test::skip!("Slurm's daemons need root");
    }
    let slurm = Slurm::start();
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    for number in 0..40 {
        let below = dir.join(format!("from/d{number}"));
        fs::create_dir_all(&below).unwrap();
        for file in 0..20 {
            random_file(below.join(format!("f{file}")), 200_000, file);
        }
    }
    random_file(dir.join("from/large"), 100 * MIB, 1);
    let copied = run(slurm
        .command("srun")
        .args(["-n", "4", env!("CARGO_BIN_EXE_dio-mpi"), "cp", "-a", "from", "to"])
        .current_dir(dir));
    assert!(copied.status.success(), "{copied:?}");
    assert_same(dir, "from", "to");
    let copy = "-a --journal journal --limit 60M --receipt receipt from again";
    let mut job = slurm.batch(dir, copy);
    let told = || fs::read_to_string(dir.join("told")).unwrap_or_default();
    until("something is noted", || {
        let marks = |rank| dir.join(format!("journal/marks.{rank}")).metadata();
        (0..4).any(|rank| marks(rank).is_ok_and(|marks| marks.len() > 16))
    });
    let jobs = run(slurm.command("squeue").args(["-h", "-o", "%i"])).stdout;
    let stopped = run(slurm.command("scancel").args(["--signal=TERM", jobs.trim()]));
    assert!(stopped.status.success(), "{stopped:?}");
    assert_eq!(job.wait().unwrap().code(), Some(143), "{}", told());
    assert_eq!(told().matches("dio-mpi cp: interrupted").count(), 1, "{}", told());
    assert!(slurm.batch(dir, copy).wait().unwrap().success(), "{}", told());
    assert_same(dir, "from", "again");
    let receipt = fs::read_to_string(dir.join("receipt")).unwrap();
    let whole = 100 * MIB + 40 * 20 * 200_000;
    assert!(common::written(&receipt) < whole, "what was noted is not copied again");
}
