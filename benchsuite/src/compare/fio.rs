//! Runs fio to determine the limit of the disk itself.

use serde_json::Value;

use crate::Result;
use crate::lab::Lab;
use crate::measure::measure;
use dio_bench::suite::Sample;

/// The size of a request, and the number of requests in flight in each direction.
pub(crate) type Shape = (&'static str, u32);

/// Request shapes to try. The fastest one is the disk's limit; a single shape would show only the
/// limit of that shape.
const SHAPES: [Shape; 6] = [("256k", 64), ("1M", 8), ("1M", 16), ("1M", 32), ("4M", 8), ("4M", 16)];

/// Number of shapes that are measured in every round, after all were tried once.
const KEPT: usize = 2;

/// Seconds for measuring both directions of a copy: about as long as copying 5 GiB takes.
const SECONDS: u64 = 3;

/// The greatest speed of the disk.
pub(crate) struct DiskCeiling<'a> {
    lab: &'a Lab,
    /// Bytes that each job of a script stands for.
    bytes: u64,
    /// Runs before each measurement.
    prepare: Box<dyn Fn() -> Result<()> + 'a>,
    /// The kept scripts, the fastest first.
    scripts: Vec<String>,
}

impl<'a> DiskCeiling<'a> {
    /// Tries every shape of a script once. `bytes` are read, and the same amount is written if the
    /// script writes.
    pub(crate) fn find(
        lab: &'a Lab,
        bytes: u64,
        script: impl Fn(Shape) -> String,
        prepare: impl Fn() -> Result<()> + 'a,
    ) -> Result<DiskCeiling<'a>> {
        let mut tried = Vec::new();
        for shape in SHAPES {
            let script = script(shape);
            prepare()?;
            let wall =
                limit(lab, &script, bytes)?.get("wall_seconds").copied().unwrap_or(f64::INFINITY);
            eprintln!("  the disk, {} × {}: {wall:.2} s{}", shape.0, shape.1, crate::pace::left());
            tried.push((wall, script));
        }
        tried.sort_by(|one, other| one.0.total_cmp(&other.0));
        let scripts = tried.into_iter().take(KEPT).map(|(_, script)| script).collect();
        Ok(DiskCeiling { lab, bytes, prepare: Box::new(prepare), scripts })
    }

    /// The command of the fastest shape.
    pub(crate) fn command(&self) -> &str {
        self.scripts.first().map_or("", String::as_str)
    }

    /// Runs the kept scripts, and returns the result of the fastest.
    pub(crate) fn run(&self) -> Result<Sample> {
        let mut best: Option<Sample> = None;
        for script in &self.scripts {
            (self.prepare)()?;
            let found = limit(self.lab, script, self.bytes)?;
            if best.as_ref().is_none_or(|best| found["wall_seconds"] < best["wall_seconds"]) {
                best = Some(found);
            }
        }
        best.ok_or_else(|| "no shape of requests was tried".into())
    }
}

/// The command that reads `source` and writes `target`, both with direct I/O. Each job starts over
/// until the time is over. Options before the first name apply to both jobs. `fallocate` keeps
/// fio's default, which allocates the target first, as dio does.
///
/// A job of a fixed size would end before the other one, which would then have the disk alone:
/// `dio cp` was 11 % faster than the slower of two such jobs.
pub(crate) fn mixed_script(
    source: &str,
    target: &str,
    size: &str,
    (block, depth): Shape,
) -> String {
    format!(
        "fio --output-format=json --ioengine=io_uring --direct=1 --bs={block} --iodepth={depth} \
         --size={size} --time_based --runtime={SECONDS} --name=read --rw=read --filename={source} \
         --name=write --rw=write --end_fsync=1 --filename={target}"
    )
}

/// The command that reads `source` from front to back.
pub(crate) fn read_script(source: &str, size: &str, (block, depth): Shape) -> String {
    format!(
        "fio --output-format=json --ioengine=io_uring --direct=1 --bs={block} --iodepth={depth} \
         --size={size} --name=read --rw=read --filename={source}"
    )
}

/// Runs [`read_script`] or [`mixed_script`]. The resulting wall time is the time for `bytes` of
/// each job at the sum of their rates, without fio's start.
fn limit(lab: &Lab, script: &str, bytes: u64) -> Result<Sample> {
    let finished = measure(&mut lab.shell(script))?;
    let report = json_of(&finished.stdout)?;
    let jobs = report["jobs"].as_array().ok_or("fio's report has no jobs")?;
    let rate = |job: &Value| -> Option<f64> {
        let moved = job["read"]["io_bytes"].as_f64()? + job["write"]["io_bytes"].as_f64()?;
        let seconds = job["job_runtime"].as_f64()? / 1000.0;
        (seconds > 0.0).then(|| moved / seconds)
    };
    let rates: Vec<f64> = jobs.iter().filter_map(rate).collect();
    let total: f64 = rates.iter().sum();
    if rates.len() != script.matches("--name=").count() || total <= 0.0 {
        return Err("fio's report lacks a job or its run time".into());
    }
    let mut sample = finished.sample;
    sample.insert("wall_seconds", (bytes * rates.len() as u64) as f64 / total);
    // fio's CPU time goes into its own start and statistics, so it is not comparable with that of a
    // copy.
    sample.retain(|key, _| *key == "wall_seconds" || *key == "steal_seconds");
    Ok(sample)
}

/// The command that reads `streams` parts of a file at the same time, each from front to back.
pub(crate) fn streams_script(file: &str, streams: u64, part: &str) -> String {
    format!(
        "fio --output-format=json --name=streams --ioengine=io_uring --direct=1 --rw=read \
         --bs=256k --iodepth=3 --thread --group_reporting --numjobs={streams} --size={part} \
         --offset_increment={part} --filename={file}"
    )
}

/// Runs [`streams_script`]. The wall time is the one that fio reports, without its start.
pub(crate) fn streams(lab: &Lab, script: &str) -> Result<Sample> {
    let finished = measure(&mut lab.shell(script))?;
    let report = json_of(&finished.stdout)?;
    let millis = report["jobs"][0]["read"]["runtime"].as_f64().filter(|millis| *millis > 0.0);
    let wall = millis.ok_or("fio's report has no run time")? / 1000.0;
    Ok(Sample::from([("wall_seconds", wall)]))
}

/// The command for random reads of 4 KiB.
pub(crate) fn random_script(file: &str, depth: u32, seconds: u64) -> String {
    format!(
        "fio --output-format=json --name=random --ioengine=io_uring --direct=1 --rw=randread \
         --bs=4k --iodepth={depth} --time_based --runtime={seconds} --filename={file}"
    )
}

/// Runs [`random_script`]; returns the reads per second.
pub(crate) fn random(lab: &Lab, script: &str) -> Result<Sample> {
    let finished = measure(&mut lab.shell(script))?;
    let report = json_of(&finished.stdout)?;
    let iops = report["jobs"][0]["read"]["iops"].as_f64().ok_or("fio's report has no rate")?;
    let mut sample = finished.sample;
    sample.insert("iops", iops);
    Ok(sample)
}

/// fio may print notes before its JSON.
pub(super) fn json_of(text: &str) -> Result<Value> {
    let start = text.find('{').ok_or("fio printed no JSON")?;
    Ok(serde_json::from_str(&text[start..]).map_err(|e| format!("fio's report: {e}"))?)
}
