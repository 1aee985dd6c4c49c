//! The clients: each runs transactions that read and write pages and end with a commit.

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use dio::block::Pool;
use hdrhistogram::Histogram;
use parking_lot::Mutex;

use super::OltpPlan;
use super::log::Log;
use super::page::{self, Versions};
use super::storage::{LOG, Storage};
use crate::BenchError;
use crate::data::Random;
use crate::study::run::histogram;
use crate::study::{Bucket, Response};

/// How often a waiting thread checks whether a client has failed.
const LOOK: Duration = Duration::from_millis(20);

/// Transactions and their response times in the steady state only, and the transactions in each
/// slot of the whole run.
#[derive(Debug)]
pub(super) struct ClientOutcome {
    pub(super) transactions: u64,
    pub(super) response: Response,
    pub(super) histogram: Vec<Bucket>,
    pub(super) log_writes: u64,
    pub(super) slots: Vec<u64>,
}

/// One run.
pub(super) struct Load<'a> {
    pub(super) plan: &'a OltpPlan,
    pub(super) storage: &'a Storage,
    pub(super) versions: &'a Versions,
    pub(super) seed: u64,
}

/// State that the clients of a run share.
struct SharedRun<'a> {
    load: &'a Load<'a>,
    log: Log<'a>,
    begin: Instant,
    over: AtomicBool,
    failure: Mutex<Option<String>>,
    /// Transactions that ended in each slot of the time series.
    slots: Vec<AtomicU64>,
}

impl Load<'_> {
    /// Runs all clients. The calling thread calls `steady` twice: at the beginning of the steady
    /// state and at its end.
    pub(super) fn run(
        &self,
        begin: Instant,
        mut steady: impl FnMut(),
    ) -> Result<ClientOutcome, BenchError> {
        let failed =
            |error: io::Error| BenchError::Asked(format!("cannot set up the clients: {error}"));
        let slots =
            (self.plan.total().as_secs_f64() / self.plan.every.as_secs_f64()).ceil() as usize + 1;
        let hall = SharedRun {
            load: self,
            log: Log::new(&self.storage.log, LOG).map_err(failed)?,
            begin,
            over: AtomicBool::new(false),
            failure: Mutex::new(None),
            slots: (0..slots).map(|_| AtomicU64::new(0)).collect(),
        };
        let mut all = histogram();
        let mut log_writes = [0; 2];
        let outcome: Result<(), io::Error> = thread::scope(|scope| {
            let mut clients = Vec::new();
            for number in 0..self.plan.clients {
                let hall = &hall;
                let client = thread::Builder::new().name(format!("client-{number}"));
                match client.spawn_scoped(scope, move || OltpClient::new(hall, number)?.run()) {
                    Ok(client) => clients.push(client),
                    Err(error) => {
                        hall.over.store(true, Ordering::Relaxed);
                        return Err(error);
                    }
                }
            }
            for (end, writes) in [self.plan.ramp_up, self.plan.ramp_up + self.plan.steady]
                .into_iter()
                .zip(&mut log_writes)
            {
                hall.wait(end);
                *writes = hall.log.writes();
                steady();
            }
            for client in clients {
                all += &client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            }
            Ok(())
        });
        if let Some(failure) = hall.failure.into_inner() {
            return Err(BenchError::Asked(failure));
        }
        outcome.map_err(failed)?;
        Ok(ClientOutcome {
            transactions: all.len(),
            response: Response::of(&all),
            histogram: Bucket::of(&all),
            log_writes: log_writes[1] - log_writes[0],
            slots: hall.slots.into_iter().map(AtomicU64::into_inner).collect(),
        })
    }
}

impl SharedRun<'_> {
    /// Waits until a time since the beginning of the run, or until a client fails.
    fn wait(&self, until: Duration) {
        while !self.over.load(Ordering::Relaxed) {
            let left = until.saturating_sub(self.begin.elapsed());
            if left.is_zero() {
                return;
            }
            thread::sleep(left.min(LOOK));
        }
    }

    fn fail(&self, text: String) {
        self.failure.lock().get_or_insert(text);
        self.over.store(true, Ordering::Relaxed);
    }
}

/// One client.
struct OltpClient<'a> {
    hall: &'a SharedRun<'a>,
    number: usize,
    random: Random,
    pool: Pool,
    response: Histogram<u64>,
}

impl<'a> OltpClient<'a> {
    fn new(hall: &'a SharedRun<'a>, number: usize) -> io::Result<OltpClient<'a>> {
        let seed = hall.load.seed.wrapping_mul(1009).wrapping_add(number as u64 + 1);
        let pool = Pool::new(hall.load.storage.page_bytes, 1)?;
        Ok(OltpClient { hall, number, random: Random::new(seed), pool, response: histogram() })
    }

    /// Runs one transaction after the other. Clients start one after the other during the ramp-up,
    /// and stop one after the other during the ramp-down.
    fn run(mut self) -> io::Result<Histogram<u64>> {
        let plan = self.hall.load.plan;
        let part = self.number as f64 / plan.clients as f64;
        let steady = plan.ramp_up..plan.ramp_up + plan.steady;
        let end = steady.end + plan.ramp_down.mul_f64(1.0 - part);
        self.hall.wait(plan.ramp_up.mul_f64(part));
        let mut before = self.hall.begin.elapsed();
        while before < end && !self.hall.over.load(Ordering::Relaxed) {
            if let Err(text) = self.transaction() {
                self.hall.fail(text);
                break;
            }
            let now = self.hall.begin.elapsed();
            if steady.contains(&now) {
                let nanos = u64::try_from((now - before).as_nanos()).unwrap_or(u64::MAX);
                self.response.saturating_record(nanos.max(1));
            }
            let slot = (now.as_secs_f64() / plan.every.as_secs_f64()) as usize;
            if let Some(slot) = self.hall.slots.get(slot) {
                slot.fetch_add(1, Ordering::Relaxed);
            }
            before = now;
        }
        Ok(self.response)
    }

    /// Runs one transaction: reads pages, changes and writes some of them, and commits. The locks
    /// of changed pages are held until the last page is done.
    fn transaction(&mut self) -> Result<(), String> {
        let Load { plan, storage, versions, .. } = *self.hall.load;
        // Pages are locked in the order of their numbers, so that no two transactions deadlock. The
        // first `plan.writes` pages that were drawn are changed.
        let mut pages: Vec<(u64, bool)> = (0..plan.reads.max(plan.writes))
            .map(|n| (self.random.below(versions.len()), n < plan.writes))
            .collect();
        pages.sort_unstable_by_key(|(page, changed)| (*page, !changed));
        pages.dedup_by_key(|(page, _)| *page);
        let mut changed = Vec::with_capacity(plan.writes);
        for (number, change) in pages {
            let mut block = self.pool.try_take().expect("one page is in hand at a time");
            let bytes = &mut block.bytes_mut()[..storage.page_bytes];
            let (file, at) = storage.find(number);
            let verb = |what: &str, why: &dyn std::fmt::Display| {
                format!("cannot {what} page {number} at {at}: {why}")
            };
            let read = |bytes: &mut [u8], version| {
                file.read_exact_at(bytes, at).map_err(|error| verb("read", &error))?;
                page::check(bytes, number, version)
                    .map_err(|damage| format!("page {number} at {at}: {damage}"))
            };
            if !change {
                let version = versions.shared(number);
                read(bytes, *version)?;
                continue;
            }
            let mut version = versions.alone(number);
            read(bytes, *version)?;
            page::change(bytes, number, *version + 1, &mut self.random);
            file.write_all_at(bytes, at).map_err(|error| verb("write", &error))?;
            *version += 1;
            changed.push(version);
        }
        drop(changed);
        self.hall.log.commit().map_err(|error| format!("cannot write the log: {error}"))
    }
}

/// Reads changed pages and compares them with what was written: all changed pages, or at most
/// `most` of them, drawn at random.
pub(super) fn verify(
    storage: &Storage,
    versions: &Versions,
    most: usize,
    seed: u64,
) -> Result<u64, String> {
    let mut changed = versions.changed();
    let mut random = Random::new(seed);
    // A partial shuffle: the first `count` pages of a random order.
    let count = changed.len().min(most);
    for place in 0..count {
        let other = place + random.below((changed.len() - place) as u64) as usize;
        changed.swap(place, other);
    }
    let pool = Pool::new(storage.page_bytes, 1).map_err(|error| error.to_string())?;
    let mut block = pool.try_take().expect("nobody else takes from this pool");
    for (number, version) in &changed[..count] {
        let (file, at) = storage.find(*number);
        let bytes = &mut block.bytes_mut()[..storage.page_bytes];
        file.read_exact_at(bytes, at)
            .map_err(|error| format!("cannot read page {number} at {at}: {error}"))?;
        page::check(bytes, *number, *version)
            .map_err(|damage| format!("afterwards, page {number} at {at}: {damage}"))?;
    }
    Ok(count as u64)
}
