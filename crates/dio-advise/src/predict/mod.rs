//! Predicts how long a recorded command would take by other ways, and advises one.
//!
//! The requests of a trace run in simulated time (`simulate.rs`): each thread makes its requests
//! one after the other, with the pauses in which the command computed. How long a request takes by
//! a way comes from the costs of a profile (`timing.rs`), which were measured on the disk; where
//! the page cache is a part of the way, from what was used before (`facts.rs`, `reuse.rs`). The
//! model is first tried on the way that was recorded: how far it is off there is the least range
//! that a prediction has.

mod apply;
mod course;
mod evidence;
mod facts;
mod groups;
mod model;
mod proof;
mod reuse;
mod shell;
mod simulate;
mod text;
mod timing;
mod tool;
mod verdict;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::replay::plan::{self, PlanEnd};
use crate::replay::planned::Plan;
use crate::speed::{Cost, CostTable, Level, Operation, Profile, Way};
use crate::trace::{Call, TraceError};
use apply::Application;
use facts::History;
use groups::Group;
use shell::shell_line;
use simulate::simulate;
use timing::WayTiming;
use verdict::Candidate;

pub use course::{SizeCount, TimelineSlot};
pub use model::{
    Advised, CachePoint, ChangedNames, Confidence, Found, FoundFile, GroupAdvice, PredictError,
    Prediction, Verdict, WayEstimate,
};
pub use tool::{ToolRun, ToolSample};

/// The least range of a prediction, as a part of it: runs of the same command differ so far.
const RANGE_MIN: f64 = 0.05;

/// A group whose requests take less than this part of the command is left as it is.
const SMALL_PART: f64 = 0.02;

/// The ways of a mount.
const MOUNTED: [Way; 3] = [Way::Direct, Way::Concurrent, Way::Auto];

/// The requests of a recorded command.
#[derive(Debug)]
pub struct Workload {
    plan: Plan,
    end: PlanEnd,
    sample: Option<ToolSample>,
}

impl Workload {
    /// Reads a trace.
    ///
    /// # Errors
    /// See [`PredictError`].
    pub fn read(trace: impl Read) -> Result<Workload, PredictError> {
        let (plan, end) = plan::plan_with_looks(trace)?;
        if !plan.files.iter().any(|file| file.is_used) {
            return Err(PredictError::Empty);
        }
        Ok(Workload { plan, end, sample: None })
    }

    /// The damage of the trace, which was read up to there.
    pub fn damage(&self) -> Option<&TraceError> {
        self.end.damage.as_ref()
    }

    /// The tool of dio in place of the command, and the file that it reads most of, if how long it
    /// takes depends on what is in the file.
    pub fn input_of_tool(&self) -> Option<(&'static str, &Path)> {
        let (tool, input) = tool::input_of(&self.plan)?;
        Some((tool, Path::new(&self.plan.files[input as usize].path)))
    }

    /// Takes the time of the tool for a part of that file.
    pub fn set_sample(&mut self, sample: ToolSample) {
        self.sample = Some(sample);
    }

    /// The file system of the file of which the most bytes were moved, by the kernel's number, and
    /// the directory of that file; `None` if no file could go another way.
    pub fn place(&self) -> Option<(u64, PathBuf)> {
        let file = &self.plan.files[groups::busiest_file(&self.plan)? as usize];
        Some((file.device, Path::new(&file.path).parent()?.to_owned()))
    }

    /// The machine that it was recorded on, as [`machine_id`](crate::machine_id) has it; empty if
    /// that is not known.
    pub fn machine(&self) -> &str {
        &self.plan.machine
    }

    /// Predicts the times of the command from the costs of a profile.
    pub fn predict(&self, profile: &Profile) -> Prediction {
        let mut prediction = Predictor::new(&self.plan, profile).prediction(self.sample);
        if self.end.is_cut || self.end.damage.is_some() {
            prediction.missing.push("the trace ends before the command did".into());
        }
        prediction
    }
}

/// What is known when a prediction is made.
struct Predictor<'a> {
    plan: &'a Plan,
    profile: &'a Profile,
    /// The memory that the page cache may use, in bytes.
    memory: u64,
    tables: BTreeMap<Level, BTreeMap<Way, CostTable>>,
    history: History,
    groups: Vec<Group>,
    /// The recorded times are those of this disk.
    as_recorded: bool,
}

/// A way of each file, and what the command takes by these.
struct Trial {
    seconds: f64,
    /// By the fastest and by the slowest round of each cost.
    range: (f64, f64),
    cpu_seconds: f64,
    cache_bytes: u64,
    by_file: Vec<u64>,
}

impl<'a> Predictor<'a> {
    fn new(plan: &'a Plan, profile: &'a Profile) -> Predictor<'a> {
        let is_own = plan.machine == profile.machine;
        let memory = if is_own && plan.memory > 0 { plan.memory } else { profile.memory };
        let history = facts::history(plan, memory);
        let groups = groups::groups(plan, &history);
        let tool = tool::tool_of(&plan.command).unwrap_or_default();
        let tables = |level| {
            let of = |(way, costs): (&Way, &Vec<Cost>)| (*way, CostTable::new(costs, tool, level));
            (level, profile.ways.iter().map(of).collect())
        };
        let tables = [Level::Low, Level::Median, Level::High].map(tables).into_iter().collect();
        let mut data = groups.iter().flat_map(|group| &group.files);
        let as_recorded =
            is_own && data.all(|file| plan.files[*file as usize].device == profile.device);
        Predictor { plan, profile, memory, tables, history, groups, as_recorded }
    }

    /// Simulates the command with a way for each group.
    fn trial(&self, way_of: impl Fn(usize) -> Way, as_recorded: bool) -> Trial {
        let mut ways = vec![Way::Cached; self.plan.files.len()];
        for (number, group) in self.groups.iter().enumerate() {
            let files = group.files.iter().chain(&group.searched);
            files.for_each(|file| ways[*file as usize] = way_of(number));
        }
        let time_at = |level| {
            let tables = &self.tables[&level];
            let mut timing = WayTiming::new(&self.history, tables, &ways, as_recorded);
            let simulated = simulate(self.plan, &mut timing);
            (simulated, timing.cpu)
        };
        let (simulated, cpu) = time_at(Level::Median);
        // A mount is made and taken down once.
        let mounted = ways.iter().find(|way| way.mount_option().is_some());
        let start = mounted
            .and_then(|way| self.tables[&Level::Median].get(way)?.seconds(Operation::Start, 0));
        let start = start.unwrap_or(0.0);
        let seconds = |level| time_at(level).0.time as f64 / 1e9;
        Trial {
            seconds: start + simulated.time as f64 / 1e9,
            range: (start + seconds(Level::Low), start + seconds(Level::High)),
            cpu_seconds: cpu + self.plan.computed_seconds(),
            cache_bytes: self.cache_bytes(&ways),
            by_file: simulated.by_file,
        }
    }

    /// Bytes of the page cache that the files in the groups use.
    fn cache_bytes(&self, ways: &[Way]) -> u64 {
        let files = self.groups.iter().flat_map(|group| &group.files);
        let of = |file: &u32| self.history.files[*file as usize].cache_bytes(ways[*file as usize]);
        files.map(of).sum::<u64>().min(self.memory)
    }

    fn prediction(&self, sample: Option<ToolSample>) -> Prediction {
        let model = self.trial(|_| Way::Cached, false);
        let recorded = self.trial(|_| Way::Cached, true);
        let recorded_seconds = recorded.seconds;
        let model_ratio = model.seconds / recorded_seconds.max(1e-9);
        let as_is = if self.as_recorded { recorded } else { model };
        let is_measured = |way: &Way| self.profile.ways.contains_key(way);
        let mounted = MOUNTED.into_iter().filter(is_measured);
        let trials: Vec<(Way, Trial)> =
            mounted.map(|way| (way, self.trial(|_| way, self.as_recorded))).collect();
        let chosen = self.choose(&as_is, &trials, verdict::error_of(model_ratio));
        let mut estimates = vec![self.estimate(Advised::Cached, &as_is, model_ratio, &[])];
        if self.as_recorded {
            estimates[0].measured_seconds = Some(recorded_seconds);
        }
        for (way, trial) in &trials {
            let all = vec![*way; self.groups.len()];
            estimates.push(self.estimate((*way).into(), trial, model_ratio, &all));
        }
        let ways: Vec<Way> = chosen.iter().map(|way| way.unwrap_or(Way::Cached)).collect();
        let grouped = verdict::together(chosen.iter().flatten().copied());
        if grouped == Advised::Mixed {
            let mixed = self.trial(|group| ways[group], self.as_recorded);
            estimates.push(self.estimate(Advised::Mixed, &mixed, model_ratio, &ways));
        }
        let tables = &self.tables[&Level::Median];
        estimates.extend(tool::estimate(self.plan, &self.groups, tables, sample));
        let advised = self.advised(grouped, &estimates);
        let mut missing = evidence::missing(self.plan);
        let direct: u64 = self.groups.iter().map(|group| group.facts.direct).sum();
        if direct > 0 && !self.as_recorded {
            missing.push(format!(
                "{direct} requests are direct already: their times are recorded ones"
            ));
        }
        if self.history.is_cut {
            missing.push("it moves more than 4 TiB: what is read again later is not known".into());
        }
        let confidence = verdict::confidence(model_ratio);
        let verdict = self.verdict(advised, confidence, model_ratio, &estimates, &missing);
        Prediction {
            command: self.plan.command.clone(),
            recorded_seconds,
            groups: self.group_advice(&chosen),
            miss_ratios: evidence::miss_ratios(&self.history),
            sizes: course::sizes(self.plan),
            timeline: course::timeline(self.plan),
            profile: (self.profile.disk.clone(), self.profile.measured),
            verdict,
            expected: None,
            ways: estimates,
            model_ratio,
            missing,
            files: self.files(),
            changed_names: self.changed_names(),
            memory: self.memory,
        }
    }

    /// The way of the groups, or another one that is better for the whole command: a mount takes
    /// time to start, and there may be a tool.
    fn advised(&self, grouped: Advised, estimates: &[WayEstimate]) -> Advised {
        let of = |way| estimates.iter().find(|one| one.way == way);
        let ways = [Advised::Cached, Advised::Tool, grouped].into_iter().filter_map(of);
        let candidates: Vec<_> = ways.map(Candidate::expected).collect();
        verdict::choose(&candidates, self.memory)
    }

    /// Whether most of the bytes go past the page cache already.
    fn is_direct(&self) -> bool {
        let (mut direct, mut all) = (0, 0);
        for facts in self.groups.iter().map(|group| &group.facts) {
            let moved = u128::from(facts.read.bytes) + u128::from(facts.written.bytes);
            all += moved;
            direct += if facts.is_direct() { moved } else { 0 };
        }
        2 * direct > all
    }

    fn changed_names(&self) -> Vec<ChangedNames> {
        let all = self.plan.changed_names.iter();
        let of = |(&(directory, call), &count)| {
            let directory = self.plan.files[directory as usize].path.clone();
            ChangedNames { directory, call, count }
        };
        all.map(of).collect()
    }

    /// The files of the groups, and all others that were written to.
    fn files(&self) -> Vec<FoundFile> {
        let mut written: BTreeSet<u32> = BTreeSet::new();
        let mut emptied: BTreeSet<u32> = BTreeSet::new();
        let mut read_to = vec![0_u64; self.plan.files.len()];
        for request in self.plan.requests() {
            written.extend(request.written_file());
            emptied.extend(request.empties().then_some(request.file));
            if request.call.reads() && request.call != Call::Fault {
                let end = &mut read_to[request.file as usize];
                *end = (*end).max(request.offset.saturating_add(request.done));
            }
        }
        let mut all: BTreeSet<u32> = written.clone();
        all.extend(self.groups.iter().flat_map(|group| group.files.iter().copied()));
        let of = |number: u32| {
            let file = &self.plan.files[number as usize];
            let found = match () {
                () if file.is_made => Found::Absent,
                () if file.is_warm => Found::Warm,
                () => Found::Cold,
            };
            FoundFile {
                path: file.path.clone(),
                found,
                inode: file.inode,
                is_written: written.contains(&number),
                is_changed: written.contains(&number)
                    && !emptied.contains(&number)
                    && !file.is_made
                    && file.size > 0,
                size: file.size,
                read_to: read_to[number as usize].min(file.size),
            }
        };
        all.into_iter().map(of).collect()
    }

    fn estimate(
        &self,
        way: Advised,
        trial: &Trial,
        model_ratio: f64,
        chosen: &[Way],
    ) -> WayEstimate {
        let error = if way == Advised::Cached && self.as_recorded {
            RANGE_MIN
        } else {
            verdict::error_of(model_ratio).max(RANGE_MIN)
        };
        let (low, high) = trial.range;
        let Application { words, lines } =
            apply::application(way, (&self.plan.command, self.plan.attached), &self.groups, chosen);
        WayEstimate {
            way,
            predicted_seconds: trial.seconds,
            low: low.min(trial.seconds) / (1.0 + error),
            high: high.max(trial.seconds) * (1.0 + error),
            measured_seconds: None,
            cache_bytes: trial.cache_bytes,
            cpu_seconds: trial.cpu_seconds,
            line: words,
            apply: lines,
        }
    }

    /// The way of each group, by a model that is so far off; `None` for one that is too small to
    /// matter.
    fn choose(&self, as_is: &Trial, trials: &[(Way, Trial)], error: f64) -> Vec<Option<Way>> {
        let one = |group: &Group| {
            let spent = |trial: &Trial| {
                let files = group.files.iter().chain(&group.searched);
                let files = files.map(|file| trial.by_file[*file as usize]);
                files.map(|nanos| nanos as f64 / 1e9).sum::<f64>()
            };
            let of = |way: Way, trial: &Trial| {
                let seconds = (as_is.seconds - spent(as_is)).max(0.0) + spent(trial);
                let slowest =
                    trial.range.1 / trial.seconds.max(1e-9) * (1.0 + error.max(RANGE_MIN));
                let high = seconds * slowest.max(1.0);
                Candidate { way, seconds, high, cache_bytes: group.facts.cache_bytes(way) }
            };
            let is_small = spent(as_is) < SMALL_PART * as_is.seconds
                && group.facts.touched < verdict::worth(self.memory);
            if is_small {
                return None;
            }
            if group.facts.is_direct() {
                // No other way has fewer costs.
                return Some(Way::Cached);
            }
            let mut candidates = vec![of(Way::Cached, as_is)];
            candidates.extend(trials.iter().map(|(way, trial)| of(*way, trial)));
            Some(verdict::choose(&candidates, self.memory))
        };
        self.groups.iter().map(one).collect()
    }

    fn group_advice(&self, chosen: &[Option<Way>]) -> Vec<GroupAdvice> {
        let advice = |(group, way): (&Group, &Option<Way>)| GroupAdvice {
            files: group.name(),
            count: group.files.len() as u64,
            way: match way.unwrap_or(Way::Cached) {
                Way::Cached if group.facts.is_direct() => Advised::AlreadyDirect,
                way => way.into(),
            },
            is_large: way.is_some(),
            evidence: evidence::of(&group.facts),
        };
        self.groups.iter().zip(chosen).map(advice).collect()
    }

    fn verdict(
        &self,
        advised: Advised,
        confidence: Confidence,
        model_ratio: f64,
        estimates: &[WayEstimate],
        missing: &[String],
    ) -> Verdict {
        let of = |way| estimates.iter().find(|one| one.way == way);
        let seconds = |way| of(way).map(|one| one.predicted_seconds);
        let (as_is, then) = (seconds(Advised::Cached), seconds(advised));
        let gain = as_is.zip(then).map_or(1.0, |(as_is, then)| then / as_is.max(1e-9));
        // The model would have to be right about more than it is.
        let off = (1.0 + verdict::error_of(model_ratio)).max(2.0);
        let is_unsure = confidence == Confidence::Low && (1.0 / off..off).contains(&gain);
        if is_unsure && advised != Advised::Cached {
            let proof = format!("dio advise --prove -- {}", shell_line(&self.plan.command));
            return Verdict {
                way: Advised::CannotTell,
                confidence,
                // What ran already is not run again.
                apply: if self.plan.attached { Vec::new() } else { vec![proof] },
                why: evidence::unsure(missing),
            };
        }
        if advised == Advised::Cached && self.is_direct() {
            let why = vec!["its requests go past the page cache already".to_owned()];
            return Verdict { way: Advised::AlreadyDirect, confidence, apply: Vec::new(), why };
        }
        Verdict {
            way: advised,
            confidence,
            apply: of(advised).map(|one| one.apply.clone()).unwrap_or_default(),
            why: evidence::reasons(advised, estimates, |one| one.predicted_seconds),
        }
    }
}

#[cfg(test)]
mod tests;
