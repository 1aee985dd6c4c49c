//! PostgreSQL checks durability: its postmaster is killed under load, and after recovery all
//! acknowledged transactions are there, their sums agree, and the checksums of all pages are right.

use std::path::Path;
use std::time::Duration;

use crate::judge_support::postgres::{Cluster, acknowledged, adds_up};
use crate::judge_support::{Stage, each_mode, succeeds};
use dio_test::{judge_fully, postgresql_programs, skip};

const CLIENTS: i64 = 4;

fn survives(stage: Stage, programs: &Path) {
    let seconds = if judge_fully() { 60 } else { 3 };
    let cluster = Cluster::create(&stage, programs);
    let mut postmaster = cluster.start();
    succeeds(
        &mut cluster.pgbench(&["-i", "-q", "-s", if judge_fully() { "10" } else { "1" }]),
        &stage.name,
    );
    let load = ["-n", "-c", "4", "-j", "2", "-T", "600"];
    let bench = cluster.pgbench(&load).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(seconds));
    // This process is the postmaster itself, not a shell around it.
    postmaster.0.kill().unwrap();
    postmaster.0.wait().unwrap();
    let report = bench.wait_with_output().unwrap();
    let told = acknowledged(&String::from_utf8_lossy(&report.stdout));
    assert!(told > 0, "{}: {}", stage.name, String::from_utf8_lossy(&report.stderr));

    let postmaster = cluster.start();
    adds_up(&cluster, told, CLIENTS);
    succeeds(&mut cluster.pgbench(&["-n", "-c", "2", "-t", "20"]), &stage.name);
    cluster.stop(postmaster);
    succeeds(
        cluster.program("pg_checksums").arg("--check").arg("-D").arg(&cluster.data),
        &stage.name,
    );
    let mut check = cluster.program("pg_checksums");
    let below = stage.unmount();
    succeeds(check.arg("--check").arg("-D").arg(below.source.join("data")), &below.name);
}

#[test]
fn everything_acknowledged_survives_a_killed_postmaster() {
    let Some(programs) = postgresql_programs() else {
        skip!("no PostgreSQL: cargo xtask setup");
        return;
    };
    each_mode(|stage| survives(stage, &programs));
}
