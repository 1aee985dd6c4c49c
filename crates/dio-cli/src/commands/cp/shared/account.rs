//! The receipt of a job: the sums, and what each process did.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::queue::RunJobs;
use super::super::session::CopyRun;
use super::loans::Share;
use crate::receipt::JobReceipt;
use crate::tool::Destination;

/// What one process has done.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Account {
    /// Its receipt, as `dio cp` writes one.
    receipt: String,
    host: String,
    /// How long it had something to do.
    busy_seconds: f64,
    /// How often another process could not open what it was to do, so that this one did it.
    retries: u64,
    /// How many of its threads might work at the end; 0 if it was at rest.
    threads: usize,
    /// Bytes of the largest pieces of the large file that it has shared last; 0 if there was none.
    piece_bytes: u64,
    /// With `--verify`: bytes that it has read back, and those of them that it has written itself.
    verified: Option<(u64, u64)>,
}

impl Account {
    /// The account of this process at its end.
    pub(super) fn of(run: &CopyRun, share: &Share, durable: bool) -> Account {
        let (command, engine) = (run.options.command(), run.data.engine_name());
        let text = run.ledger.text(command, engine, durable);
        let receipt = text.ok().and_then(|(text, _)| String::from_utf8(text).ok());
        let host = rustix::system::uname();
        Account {
            receipt: receipt.unwrap_or_default(),
            host: host.nodename().to_string_lossy().into_owned(),
            busy_seconds: run.queue().busy().as_secs_f64(),
            retries: share.retries.load(Ordering::Relaxed),
            threads: share.threads.load(Ordering::Relaxed),
            piece_bytes: share.piece_bytes.load(Ordering::Relaxed),
            verified: run.options.transfer.verify.then(|| run.data.verified()),
        }
    }

    /// The receipt with the numbers that add up to those of the job.
    fn value(&self) -> Option<Value> {
        let mut value: Value = serde_json::from_str(&self.receipt).ok()?;
        value["retries"] = self.retries.into();
        if let Some((all, own)) = self.verified {
            value["bytes_verified"] = all.into();
            value["bytes_verified_by_writer"] = own.into();
        }
        Some(value)
    }
}

/// Writes one receipt: sums, the files of all processes, and what each process did.
pub(super) fn print(
    to: Destination,
    accounts: &[Option<&Account>],
    is_durable: bool,
) -> io::Result<()> {
    let (text, paths) = whole(accounts, is_durable).text()?;
    to.write(&text, paths.iter().map(PathBuf::as_path))
}

/// Makes the receipt of all accounts, given in the order of the processes.
fn whole(accounts: &[Option<&Account>], is_durable: bool) -> JobReceipt {
    let numbered = accounts.iter().enumerate();
    let (known, parts): (Vec<_>, Vec<Value>) = numbered
        .filter_map(|(rank, account)| {
            let (account, part) = account.and_then(|one| Some((one, one.value()?)))?;
            Some(((rank, account, rate(&part, account.busy_seconds)), part))
        })
        .unzip();
    let mut receipt = JobReceipt::of(parts, is_durable);
    let whole = receipt.whole_mut();
    let mut slowest: Option<(f64, usize)> = None;
    for ((rank, account, rate), of_rank) in
        known.into_iter().zip(whole["ranks"].as_array_mut().into_iter().flatten())
    {
        if let Some(rate) = rate.filter(|rate| slowest.is_none_or(|(least, _)| *rate < least)) {
            slowest = Some((rate, rank));
        }
        of_rank["rank"] = rank.into();
        of_rank["host"] = account.host.clone().into();
        of_rank["busy_seconds"] = account.busy_seconds.into();
        of_rank["bytes_per_second"] = rate.into();
        of_rank["threads"] = account.threads.into();
        of_rank["piece_bytes"] = Some(account.piece_bytes).filter(|bytes| *bytes > 0).into();
    }
    let seconds = whole["wall_seconds"].as_f64().unwrap_or(0.0);
    whole["bytes_per_second"] = rate(whole, seconds).into();
    whole["slowest_rank"] = slowest.map(|(_, rank)| rank).into();
    receipt
}

/// The bytes that were written in a second; none if nothing was.
fn rate(receipt: &Value, seconds: f64) -> Option<f64> {
    let bytes = receipt["bytes_written"].as_f64()?;
    (bytes > 0.0 && seconds > 0.0).then(|| (bytes / seconds).round())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(bytes: u64, busy_seconds: f64, wall_seconds: f64) -> Account {
        let receipt = format!(
            r#"{{"command":"cp","wall_seconds":{wall_seconds},"bytes_written":{bytes},
                 "files":[{{"path":"f{bytes}"}}]}}"#
        );
        let (host, verified) = (format!("h{bytes}"), Some((bytes, 1)));
        let (threads, piece_bytes) = (bytes as usize / 10, bytes / 100);
        Account { receipt, host, busy_seconds, retries: 2, threads, piece_bytes, verified }
    }

    #[test]
    fn numbers_add_up_and_the_slowest_rank_is_named() {
        let accounts = [account(100, 2.0, 4.0), account(90, 3.0, 5.0), account(0, 4.0, 4.0)];
        let listed: Vec<_> = accounts.iter().map(Some).collect();
        let mut receipt = whole(&listed, true);
        let rest = receipt.whole_mut().clone();
        for (key, value) in [
            ("bytes_written", 190.0),
            ("bytes_verified", 190.0),
            ("bytes_verified_by_writer", 3.0),
            ("retries", 6.0),
            ("wall_seconds", 5.0),
            ("bytes_per_second", 38.0),
            // The third one wrote nothing: it may have had directories to walk.
            ("slowest_rank", 1.0),
        ] {
            assert_eq!(rest[key].as_f64(), Some(value), "{key}");
        }
        let of = |key: &str| -> Vec<Value> {
            rest["ranks"].as_array().unwrap().iter().map(|rank| rank[key].clone()).collect()
        };
        assert_eq!(of("bytes_per_second"), [50.0.into(), 30.0.into(), Value::Null]);
        assert_eq!(of("busy_seconds"), [2.0, 3.0, 4.0].map(Value::from));
        assert_eq!(of("rank"), [0, 1, 2].map(Value::from));
        assert_eq!(of("threads"), [10, 9, 0].map(Value::from));
        assert_eq!(of("piece_bytes"), [1.into(), Value::Null, Value::Null]);
        assert_eq!(of("host"), ["h100", "h90", "h0"].map(Value::from));
        let (_, paths) = receipt.text().unwrap();
        assert_eq!(paths, ["f0", "f100", "f90"].map(PathBuf::from));
        assert!(rest.get("host").is_none() && rest.get("rank").is_none());
    }
}
