//! The leader of a crew that checks lists.

use std::collections::VecDeque;

use super::super::check::{self, ListEnd, Step, StepResult, compare};
use super::super::options::{CheckOptions, SumOptions};
use super::super::read::Helpers;
use super::jobs::{Answer, AnswerKind, Job, JobKind, is_stdin};
use crate::tool::{Crew, Tool};

/// How many steps may be under way or wait to be printed, for each job that may be under way.
const STEPS_PER_JOB: usize = 64;

/// Checks all lists; `None` if it was stopped.
pub(super) fn run(
    tool: &Tool,
    options: &SumOptions,
    how: &CheckOptions,
    crew: &dyn Crew<Job, Answer>,
) -> Option<()> {
    let mut is_stopped = false;
    for list in &options.files {
        let correct = check::list_by(tool, list, how, how.accept.general, |steps, session| {
            let mut under_way =
                UnderWay { tool, crew, results: VecDeque::new(), told: 0, given: 0 };
            let mut ended = false;
            loop {
                while !ended && under_way.has_room() {
                    match steps.step().map_err(|_| ListEnd::List)? {
                        Some(step) => under_way.begin(step),
                        None => ended = true,
                    }
                }
                while let Some(Some(_)) = under_way.results.front() {
                    let Some(Some(done)) = under_way.results.pop_front() else { break };
                    under_way.told += 1;
                    session.tell(done).map_err(ListEnd::Output)?;
                }
                if under_way.given == 0 && ended {
                    return Ok(());
                }
                if under_way.given > 0 && !under_way.wait() {
                    is_stopped = true;
                    return Err(ListEnd::Stopped);
                }
            }
        });
        if is_stopped {
            return None;
        }
        if !correct {
            tool.fail();
        }
    }
    Some(())
}

/// The steps that are under way.
struct UnderWay<'a> {
    tool: &'a Tool,
    crew: &'a dyn Crew<Job, Answer>,
    /// In the order of the list; `told` were before them.
    results: VecDeque<Option<StepResult>>,
    told: u64,
    /// How many jobs are under way.
    given: usize,
}

impl UnderWay<'_> {
    fn has_room(&self) -> bool {
        let jobs_max = self.crew.jobs_max();
        self.given < jobs_max && self.results.len() < jobs_max * STEPS_PER_JOB
    }

    fn begin(&mut self, step: Step) {
        let result = match step {
            Step::Improper(number, tag) => Some(StepResult::Improper(number, tag)),
            Step::Claims(lines) if is_stdin(&lines[0].name) => {
                let compared = compare(self.tool, &lines, &Helpers::new(1));
                Some(StepResult::Compared(lines, compared))
            }
            Step::Claims(lines) => {
                let number = self.told + self.results.len() as u64;
                self.crew.give(number, Job(JobKind::Lines(lines)));
                self.given += 1;
                None
            }
        };
        self.results.push_back(result);
    }

    /// Takes an answer; returns false if the command is to stop.
    fn wait(&mut self) -> bool {
        let Some((number, answer)) = self.crew.answer() else { return false };
        let AnswerKind::Lines(lines, compared) = answer.0 else {
            unreachable!("every job has one answer of its kind")
        };
        self.given -= 1;
        self.results[(number - self.told) as usize] = Some(StepResult::Compared(lines, compared));
        true
    }
}
