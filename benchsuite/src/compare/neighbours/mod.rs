//! Two users of one directory: measures the response times of an honest user beside a hostile one,
//! in the source itself and below `dio mount -o allow_other`.

mod aligned;
pub(crate) mod attack;
mod crowd;
pub(crate) mod honest;
mod scene;
pub(crate) mod users;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;

use super::mounted::{ComparedMount, Server, mount_point};
use crate::Result;
use crate::lab::Lab;
use crate::pace;
use crate::report;
use crate::rounds::{Rival, interleave};
use attack::Attack;
use crowd::{Crowd, as_user};
use dio_bench::suite::{ComparisonGroup, ComparisonReport, Contender, Goal, Host, Sample};
use dio_common::size::{GIB, exact as size_text};
use honest::{Honest, RequestOutcome};
use scene::UserDirectories;
use users::Users;

/// Default seconds of a run.
const SECONDS: u64 = 2;
/// Time between the beginning of the attack and the start of the honest user's process.
const SETTLING: Duration = Duration::from_millis(300);
/// Time of a run in addition to its seconds, for the estimate: mounting, starting and ending
/// processes, removing files.
const AROUND: Duration = Duration::from_secs(1);
/// The options of the mount.
const SERVER: Server = Server::Dio("allow_other");
/// Quantities that are compared with the first row.
const COMPARED: [&str; 2] = ["read_p99_nanoseconds", "create_p99_nanoseconds"];

#[derive(Clone, Copy)]
struct AttackCase {
    /// Whether both users work below the mount. Otherwise they work in its source, where fairness
    /// depends on the kernel alone.
    mounted: bool,
    /// The attack; `None` if the honest user is alone.
    attack: Option<Attack>,
}

impl AttackCase {
    fn name(self) -> String {
        let directory = if self.mounted { "mount" } else { "source" };
        format!("{directory}, {}", self.attack.map_or("alone".to_string(), Attack::name))
    }
}

/// Source and mount without an attack, then with each attack that concerns them.
fn rows(attacks: &[Attack]) -> Vec<AttackCase> {
    let all = [None].into_iter().chain(attacks.iter().copied().map(Some));
    let rows = all.flat_map(|attack| [false, true].map(|mounted| AttackCase { mounted, attack }));
    rows.filter(|row| row.mounted || row.attack.is_none_or(Attack::concerns_source)).collect()
}

struct Bench<'a> {
    lab: &'a Lab,
    users: &'a Users,
    scene: &'a UserDirectories,
    seconds: u64,
    /// The first error of the honest user, by the name of the row.
    first_errors: RefCell<BTreeMap<String, String>>,
}

impl Bench<'_> {
    /// The command as a reader would type it.
    fn shown(&self, row: AttackCase) -> String {
        let at = if row.mounted { "$DIR-mnt" } else { "$DIR" };
        let Users { honest, hostile, processes, .. } = self.users;
        let by = |user: &u32| {
            format!("setpriv --reuid={user} --regid={user} --clear-groups dio-benchsuite")
        };
        let mut text = if row.mounted { format!("{}; ", SERVER.shown()) } else { String::new() };
        if let Some(attack) = row.attack {
            let name = attack.name();
            if attack.has_holder() {
                text += &format!("{} hold $DIR/hostile {name} {processes} & ", by(hostile));
            }
            text += &format!(
                "for n in $(seq 0 {}); do {} hostile {at}/hostile {name} $n < /dev/null & done; ",
                processes - 1,
                by(hostile)
            );
        }
        text + &format!("{} honest {at}/honest --seconds {}", by(honest), self.seconds)
    }

    fn crowd(&self, row: AttackCase, at: &Path) -> Result<Option<Crowd>> {
        let Some(attack) = row.attack else { return Ok(None) };
        let hostile = |subcommand: &str, dir: &Path, number: u32| {
            let mut command =
                as_user(self.users.hostile, subcommand, &UserDirectories::hostile(dir));
            command.arg(attack.name()).arg(number.to_string());
            command
        };
        let holder =
            attack.has_holder().then(|| hostile("hold", &self.lab.dir, self.users.processes));
        let processes = (0..self.users.processes).map(|number| hostile("hostile", at, number));
        let crowd = Crowd::start(holder, processes)?;
        thread::sleep(SETTLING);
        Ok(Some(crowd))
    }

    fn run(&self, row: AttackCase) -> Result<Sample> {
        let begun = Instant::now();
        self.scene.renew()?;
        let mounted = row.mounted.then(|| ComparedMount::new(self.lab, SERVER)).transpose()?;
        let at = if mounted.is_some() { mount_point(self.lab) } else { self.lab.dir.clone() };
        // Processes must end before the mount that they use.
        let mut crowd = self.crowd(row, &at)?;
        let requests = |crowd: &Option<Crowd>| crowd.as_ref().map_or((0, 0), Crowd::requests);
        let ((done, failed), started) = (requests(&crowd), Instant::now());
        let mut command = as_user(self.users.honest, "honest", &UserDirectories::honest(&at));
        command.args(["--seconds", &self.seconds.to_string()]);
        let honest = Honest::start(command)?;
        let mut outcome = honest.outcome(self.seconds)?;
        let (time, (done_since, failed_since)) =
            (started.elapsed().as_secs_f64(), requests(&crowd));
        match &mut crowd {
            Some(crowd) => {
                crowd.still_attacks()?;
                outcome.sample.insert("hostile_per_second", (done_since - done) as f64 / time);
                outcome
                    .sample
                    .insert("hostile_errors_per_second", (failed_since - failed) as f64 / time);
            }
            None => outcome.undisturbed()?,
        }
        // The hostile user is ended first, since the honest one may be waiting for its locks.
        drop(crowd);
        drop(honest);
        drop(mounted);
        outcome.sample.insert("run_seconds", begun.elapsed().as_secs_f64());
        Ok(self.keep_error(row, outcome))
    }

    fn keep_error(&self, row: AttackCase, outcome: RequestOutcome) -> Sample {
        if let Some(error) = outcome.first_error {
            self.first_errors.borrow_mut().entry(row.name()).or_insert(error);
        }
        outcome.sample
    }
}

/// Sum of a quantity over all rounds.
fn sum(contender: &Contender, key: &str) -> f64 {
    contender.column(key).iter().sum()
}

/// Remarks below the table: rows in which the honest user made no progress or met errors.
fn remarks(group: &ComparisonGroup, first_errors: &BTreeMap<String, String>) -> Vec<String> {
    let mut remarks = Vec::new();
    for contender in &group.contenders {
        let (stuck, errors) = (sum(contender, "no_progress"), sum(contender, "errors"));
        if stuck > 0.0 {
            let rounds = contender.samples.len();
            remarks.push(format!(
                "NO PROGRESS: {}: in {stuck} of {rounds} rounds the honest user ended no turn.",
                contender.name
            ));
        }
        if errors > 0.0 {
            let first = first_errors.get(&contender.name).map_or("unknown", String::as_str);
            remarks.push(format!(
                "{}: {errors} errors of the honest user, one of them: {first}.",
                contender.name
            ));
        }
    }
    remarks
}

/// Targets: below the mount the honest user always makes progress and meets no error. `None` if a
/// row was left out.
fn goals(group: &ComparisonGroup) -> [Option<Goal>; 2] {
    let all = |key: &str| {
        let below =
            group.contenders.iter().filter(|contender| contender.name.starts_with("mount, "));
        group.skipped.is_empty().then(|| below.map(|contender| sum(contender, key)).sum::<f64>())
    };
    [
        Goal::at_most(
            "mount: runs in which the honest user made no progress",
            0.0,
            all("no_progress"),
        ),
        Goal::at_most("mount: errors of the honest user", 0.0, all("errors")),
    ]
}

/// The comparison `neighbours`.
pub(crate) fn compare(lab: &Lab, users: &Users) -> Result<ComparisonReport> {
    if users.honest == users.hostile {
        return Err("the honest and the hostile user must be two".into());
    }
    let (attacks, seconds) = (users.attacks(), lab.options.seconds.unwrap_or(SECONDS));
    let rows = rows(&attacks);
    pace::expect(
        "neighbours",
        (Duration::from_secs(seconds) + AROUND) * rows.len() as u32 * lab.options.runs,
    );
    let mut report = report::begin("neighbours", Host::of(&lab.dir)?, lab.programs(&[]))?;
    report.set("rounds", lab.options.runs);
    report.set("seconds", seconds);
    report.set("processes_of_the_hostile_user", users.processes);
    report.set("size_of_its_file", size_text(lab.options.size.unwrap_or(GIB)));
    let shared = lab.at(&lab.dir.join("neighbours"));
    let scene = UserDirectories::new(lab, &shared.dir, users, &attacks)?;
    let bench =
        Bench { lab: &shared, users, scene: &scene, seconds, first_errors: RefCell::default() };
    report.set("objects_of_the_wide_file", scene.objects());
    let entries = rows
        .iter()
        .map(|row| Rival::new(&row.name(), &bench.shown(*row), |_| bench.run(*row)))
        .collect();
    let group =
        interleave("an honest user beside a hostile one", entries, lab.options.runs as usize, &[]);
    let _ = fs::remove_dir(mount_point(&shared));
    let group = group?.against_first(&COMPARED);
    goals(&group).into_iter().for_each(|goal| report.goal(goal));
    remarks(&group, &bench.first_errors.borrow())
        .into_iter()
        .for_each(|remark| report.note(remark));
    for attack in attacks {
        let help =
            attack.to_possible_value().and_then(|value| value.get_help().map(ToString::to_string));
        report.note(format!("{}: {}.", attack.name(), help.unwrap_or_default()));
    }
    NOTES.iter().for_each(|note| report.note(*note));
    report.groups.push(group);
    Ok(report)
}

const NOTES: [&str; 3] = [
    "A turn of the honest user: a read of 4 KiB at random (O_DIRECT) of 64 MiB; a file made, 100 \
     bytes written to it, closed and removed (create); 1 ms of rest. p99 of fewer than a hundred \
     turns is their maximum.",
    "An operation that had not returned when the time was over counts with the time that it had \
     taken by then.",
    "The requests of the hostile user are those of all its processes. In `lease` and `lock` each \
     of them waits for what a process of the same user holds, so none may end.",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn group(rounds: &[(f64, f64)], skipped: &[&str]) -> ComparisonGroup {
        let sample = |(no_progress, errors): &(f64, f64)| {
            Sample::from([
                ("no_progress", *no_progress),
                ("errors", *errors),
                ("read_p99_nanoseconds", 1e6),
            ])
        };
        let still = vec![sample(&(0.0, 0.0)); rounds.len()];
        let contenders = vec![
            Contender::new("source, alone".into(), String::new(), still),
            Contender::new(
                "mount, create".into(),
                String::new(),
                rounds.iter().map(sample).collect(),
            ),
        ];
        let skipped = skipped.iter().map(|name| (name.to_string(), "why".to_string())).collect();
        ComparisonGroup::new("", contenders, skipped, &[])
    }

    #[test]
    fn each_attack_has_a_row_for_what_it_concerns() {
        let names: Vec<String> =
            rows(&[Attack::Stat, Attack::Lease]).into_iter().map(AttackCase::name).collect();
        assert_eq!(
            names,
            ["source, alone", "mount, alone", "source, stat", "mount, stat", "mount, lease"]
        );
        assert_eq!(Users::default().attacks().len(), Attack::value_variants().len());
    }

    #[test]
    fn a_row_without_progress_is_said_and_misses_the_goal() {
        let group = group(&[(0.0, 0.0), (1.0, 2.0), (1.0, 0.0)], &[]);
        let errors = BTreeMap::from([("mount, create".to_string(), "no room".to_string())]);
        let remarks = remarks(&group, &errors);
        assert_eq!(remarks.len(), 2, "{remarks:?}");
        assert!(
            remarks[0].starts_with("NO PROGRESS: mount, create: in 2 of 3 rounds"),
            "{remarks:?}"
        );
        assert!(remarks[1].contains("2 errors") && remarks[1].contains("no room"), "{remarks:?}");
        let [progress, errors] = goals(&group).map(|goal| goal.expect("measured"));
        assert_eq!((progress.measured, progress.reached), (2.0, false));
        assert_eq!((errors.measured, errors.reached), (2.0, false));
    }

    #[test]
    fn nothing_is_reached_where_a_row_was_left_out() {
        let reached =
            |group: &ComparisonGroup| goals(group).map(|goal| goal.map(|goal| goal.reached));
        assert_eq!(reached(&group(&[(0.0, 0.0)], &[])), [Some(true), Some(true)]);
        assert_eq!(reached(&group(&[(0.0, 0.0)], &["mount, lease"])), [None, None]);
        assert!(remarks(&group(&[(0.0, 0.0)], &[]), &BTreeMap::new()).is_empty());
    }
}
