//! fio, the judge of what the disk itself can do.

use serde_json::Value;

use crate::Result;
use crate::lab::Lab;
use crate::measure::measure;
use dio_bench::suite::Sample;

/// Bytes of a request, and how many are in flight in each direction.
pub(crate) type Shape = (&'static str, u32);

/// Shapes of which the fastest is the disk's limit: one alone would be the limit of that shape.
const SHAPES: [Shape; 6] = [("256k", 64), ("1M", 8), ("1M", 16), ("1M", 32), ("4M", 8), ("4M", 16)];

/// How many of them are measured in every round, after all were tried once.
const KEPT: usize = 2;

/// How long both directions of a copy are measured: the time of some 5 GiB.
const SECONDS: u64 = 3;

/// What the disk can do at best.
pub(crate) struct Ceiling<'a> {
    lab: &'a Lab,
    /// How many bytes each job of a script stands for.
    bytes: u64,
    /// Done before each run.
    prepare: Box<dyn Fn() -> Result<()> + 'a>,
    /// The fastest first.
    scripts: Vec<String>,
}

impl<'a> Ceiling<'a> {
    /// Tries every shape of a script once. `bytes` are read, and as many are written if the script
    /// writes.
    pub(crate) fn find(
        lab: &'a Lab,
        bytes: u64,
        script: impl Fn(Shape) -> String,
        prepare: impl Fn() -> Result<()> + 'a,
    ) -> Result<Ceiling<'a>> {
        let mut tried = Vec::new();
        for shape in SHAPES {
            let script = script(shape);
            prepare()?;
            let wall = limit(lab, &script, bytes)?.get("wall_seconds").copied().unwrap_or(f64::INFINITY);
            eprintln!("  the disk, {} × {}: {wall:.2} s{}", shape.0, shape.1, crate::pace::left());
            tried.push((wall, script));
        }
        tried.sort_by(|one, other| one.0.total_cmp(&other.0));
        let scripts = tried.into_iter().take(KEPT).map(|(_, script)| script).collect();
        Ok(Ceiling { lab, bytes, prepare: Box::new(prepare), scripts })
    }

    /// The fastest shape's command.
    pub(crate) fn command(&self) -> &str {
        self.scripts.first().map_or("", String::as_str)
    }

    /// The faster of those that were kept, now.
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

/// The command that reads `source` and writes `target`, both direct, again from the start as long
/// as the time is not over; options before the first name hold for both jobs. `fallocate` stays at
/// fio's default: like dio, it allocates the target first.
///
/// A job that has a size ends before the other one, which is alone from then on: `dio cp` was 11 %
/// faster than the slower of two such jobs.
pub(crate) fn mixed_script(source: &str, target: &str, size: &str, (block, depth): Shape) -> String {
    format!(
        "fio --output-format=json --ioengine=io_uring --direct=1 --bs={block} --iodepth={depth} --size={size} \
         --time_based --runtime={SECONDS} --name=read --rw=read --filename={source} \
         --name=write --rw=write --end_fsync=1 --filename={target}"
    )
}

/// The command that reads `source` from one end to the other.
pub(crate) fn read_script(source: &str, size: &str, (block, depth): Shape) -> String {
    format!(
        "fio --output-format=json --ioengine=io_uring --direct=1 --bs={block} --iodepth={depth} --size={size} \
         --name=read --rw=read --filename={source}"
    )
}

/// Runs [`read_script`] or [`mixed_script`]. The wall time is that of `bytes` for each job at the
/// sum of their rates, without fio's start.
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
    // What fio uses is its own start-up and statistics; a copy is not compared with that.
    sample.retain(|key, _| *key == "wall_seconds" || *key == "steal_seconds");
    Ok(sample)
}

/// The command that reads `streams` parts of a file at once, each from one end to the other.
pub(crate) fn streams_script(file: &str, streams: u64, part: &str) -> String {
    format!(
        "fio --output-format=json --name=streams --ioengine=io_uring --direct=1 --rw=read --bs=256k --iodepth=3 \
         --thread --group_reporting --numjobs={streams} --size={part} --offset_increment={part} --filename={file}"
    )
}

/// The wall time of [`streams_script`], as fio itself counts it, without its start.
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
        "fio --output-format=json --name=random --ioengine=io_uring --direct=1 --rw=randread --bs=4k \
         --iodepth={depth} --time_based --runtime={seconds} --filename={file}"
    )
}

/// Reads per second of [`random_script`].
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
