//! The verdict by what was measured.

use super::evidence;
use super::model::{Advised, Confidence, Prediction, Verdict, WayEstimate};
use super::verdict::{self, Candidate};

impl Prediction {
    /// Takes the time that each way took, in seconds, and judges again by these: what was measured
    /// counts more than what was expected. A way that could not be run has no time; if that is the
    /// way as it is, the verdict stays.
    pub fn prove(&mut self, seconds: &[Option<f64>]) {
        for (way, seconds) in self.ways.iter_mut().zip(seconds) {
            way.measured_seconds = *seconds;
        }
        let candidate = |one: &WayEstimate| Some(Candidate::measured(one, one.measured_seconds?));
        let candidates: Vec<_> = self.ways.iter().filter_map(candidate).collect();
        if candidates.first().is_none_or(|first| first.way != Advised::Cached) {
            return;
        }
        let way = match verdict::choose(&candidates, self.memory) {
            Advised::Cached if self.verdict.way == Advised::AlreadyDirect => self.verdict.way,
            way => way,
        };
        let measured = |one: &WayEstimate| one.measured_seconds.unwrap_or(f64::INFINITY);
        let mut why = evidence::reasons(way, &self.ways, measured);
        why.push(match self.verdict.way {
            before if before == way => "measured, as it was expected".to_owned(),
            before => format!("measured; what was expected: {}", before.words()),
        });
        let applied = self.ways.iter().find(|one| one.way == way);
        let apply = applied.map(|one| one.apply.clone()).unwrap_or_default();
        let measured = Verdict { way, confidence: Confidence::High, apply, why };
        self.expected = Some(std::mem::replace(&mut self.verdict, measured));
    }
}
