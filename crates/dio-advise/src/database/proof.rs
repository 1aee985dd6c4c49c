//! The database that a proof loads, and the advice that follows from it.

use super::facts::DatabaseFacts;
use super::files::FileClass;
use super::model::{DatabaseAdvice, DatabaseWay};
use crate::predict::{Advised, Confidence};

/// A way has to be so many times as fast as another one before it is advised instead.
const FASTER: f64 = 1.1;

/// A small database that stands for a real one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseProof {
    /// Bytes of its data.
    pub data: u64,
    /// Sizes of the server's own cache: as it is, and as advised.
    pub own_caches: Vec<u64>,
}

impl DatabaseFacts {
    /// The database that stands for this one on `memory` bytes: everything has the same part of the
    /// memory, but the data and the own cache have at least so many bytes.
    pub fn proof(
        &self,
        advice: &DatabaseAdvice,
        clients: u64,
        memory: u64,
        (data_min, own_min): (u64, u64),
    ) -> DatabaseProof {
        let part = memory as f64 / self.memory.max(1) as f64;
        let scaled = |bytes: u64| (bytes as f64 * part) as u64;
        let own = |bytes: u64| scaled(bytes).clamp(own_min, memory / 4 * 3) >> 20 << 20;
        let mut own_caches = vec![own(self.own_cache())];
        let advised = own(advice.memory.row(clients).own_cache);
        if !own_caches.contains(&advised) {
            own_caches.push(advised);
        }
        let data = scaled(self.bytes(FileClass::Data)).clamp(data_min, 8 * memory);
        DatabaseProof { data, own_caches }
    }

    /// Advice for so many clients by what was measured: ways with sizes of the own cache, and what
    /// these have reached, in transactions a second of `loaded_by` clients.
    pub fn prove(
        &self,
        clients: u64,
        reached: &[(Advised, u64, f64)],
        loaded_by: usize,
    ) -> DatabaseAdvice {
        let mut advice = self.advise(clients);
        let best_of = |is_it: &dyn Fn(Advised) -> bool| {
            let of = reached.iter().filter(|(way, ..)| is_it(*way));
            of.max_by(|one, other| one.2.total_cmp(&other.2)).copied()
        };
        let cached = best_of(&|way| way == Advised::Cached);
        let other = best_of(&|way| way != Advised::Cached);
        if let (Some((_, _, cached)), Some((way, _, tps))) = (cached, other) {
            let ratio = tps / cached.max(1e-9);
            let before = advice.verdict.way;
            let best = match ratio {
                ratio if ratio >= FASTER => way,
                ratio if ratio <= 1.0 / FASTER => Advised::Cached,
                // As fast: what leaves the page cache to others, if the server does it by itself.
                _ if before == Advised::Direct => Advised::Direct,
                _ => Advised::Cached,
            };
            advice = self.advise_by(clients, Some(best));
            advice.verdict.way = best;
            advice.verdict.confidence = Confidence::High;
            advice.verdict.why.push(format!(
                "measured on a small database: {} reaches {ratio:.2} times the transactions of \
                 the page cache",
                way.words()
            ));
            if best != before {
                advice.verdict.why.push(format!("what was expected: {}", before.words()));
            }
        }
        let way = |(way, own_cache, tps): &(Advised, u64, f64)| DatabaseWay {
            way: *way,
            own_cache: *own_cache,
            predicted_seconds: None,
            low: None,
            high: None,
            measured_seconds: (*tps > 0.0).then(|| loaded_by as f64 / tps),
            measured_tps: Some(*tps),
            cache_bytes: None,
            cpu_seconds: None,
        };
        advice.ways = reached.iter().map(way).collect();
        advice
    }
}
