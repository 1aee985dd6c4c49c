//! fio, the judge of what the disk itself can do.

use serde_json::Value;

use crate::Result;
use crate::lab::Lab;
use crate::measure::measure;
use crate::rounds::Sample;

/// The command that reads `source` and writes as many bytes to `target`, both at once and direct; options before
/// the first name hold for both jobs. `fallocate` stays at fio's default: like dio, it allocates the target first.
pub(crate) fn mixed_script(source: &str, target: &str, size: &str) -> String {
    format!(
        "fio --output-format=json --ioengine=io_uring --direct=1 --bs=1M --iodepth=16 --size={size} \
         --name=read --rw=read --filename={source} --name=write --rw=write --end_fsync=1 --filename={target}"
    )
}

/// The command that reads `source` from one end to the other.
pub(crate) fn read_script(source: &str, size: &str) -> String {
    format!(
        "fio --output-format=json --ioengine=io_uring --direct=1 --bs=1M --iodepth=16 --size={size} \
         --name=read --rw=read --filename={source}"
    )
}

/// Runs [`read_script`] or [`mixed_script`]; the wall time is that of the slower job as fio itself counts it, without fio's start.
pub(crate) fn limit(lab: &Lab, script: &str) -> Result<Sample> {
    let finished = measure(&mut lab.shell(script))?;
    let report = json_of(&finished.stdout)?;
    let jobs = report["jobs"].as_array().ok_or("fio's report has no jobs")?;
    let millis = |job: &Value| job["job_runtime"].as_f64().or(job["read"]["runtime"].as_f64());
    let slowest = jobs.iter().filter_map(millis).fold(0.0, f64::max);
    if jobs.len() != script.matches("--name=").count() || slowest <= 0.0 {
        return Err("fio's report lacks a job or its run time".into());
    }
    let mut sample = finished.sample;
    sample.insert("wall_seconds", slowest / 1000.0);
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
