//! `dio probe --speed`: measures what requests cost by each way.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use dio_advise::machine_id;
use dio_advise::speed::{
    Extent, LoadTimes, Profile, Way, costs_of_rounds, evict, measure, measure_copy,
    measure_small_files, measure_start, measure_tool, measure_work, prepare,
};
use dio_common::memory::use_once;
use dio_common::processes;

use super::rows::file_system_name;
use crate::commands::run::{SERVER_NAME, own_program};
use crate::quote::quoted;
use crate::stop::Stop;

/// Disks are noisy, so each load runs so often, interleaved with all others.
const ROUNDS: usize = 3;

/// Tools that compute digests, and one that does not compute.
const DIGESTS: [&str; 7] =
    ["cat", "md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum"];

/// Memory that the loads of a way need, with the page cache, about.
const MEMORY: u64 = 1 << 30;

/// How long a load runs.
const LIMIT: Duration = Duration::from_millis(120);

/// What is measured: the usual loads, or smaller ones for a trial, once.
fn extent(part: u64) -> (Extent, usize) {
    let rounds = if part > 1 { 1 } else { ROUNDS };
    (Extent { limit: LIMIT / part as u32, part }, rounds)
}

/// About how long all takes, for who waits.
pub(in crate::commands) const ABOUT: &str = "about a minute";

/// Where the profile of a disk of this machine is kept. Machines may share the directory.
pub(in crate::commands) fn kept_path(device: u64) -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.filter(|path| path.is_absolute()).or_else(|| {
        let home = std::env::var_os("HOME").map(PathBuf::from)?;
        Some(home.join(".cache"))
    })?;
    let [major, minor] = [device >> 20, device & 0xf_ffff];
    Some(cache.join("dio").join(format!("speed-{}-{major}-{minor}.json", machine_id())))
}

/// The kernel's number of the file system of a path.
pub(in crate::commands) fn device_of(path: &Path) -> io::Result<u64> {
    let place = fs::File::open(path)?;
    let mount = dio::probe::Mount::of(&place)
        .ok_or_else(|| io::Error::other("/proc does not tell its file system"))?;
    Ok(u64::from(mount.device.0) << 20 | u64::from(mount.device.1))
}

/// Measures in a new directory within `dir`, which goes afterwards.
///
/// # Errors
/// A text that says what failed.
pub(in crate::commands) fn measured(dir: &Path, part: u64) -> Result<Profile, String> {
    // From here on: a signal that comes while the files are made must not leave them.
    let stop = Stop::on_signals();
    let scratch = tempfile::Builder::new().prefix("dio-probe-").tempdir_in(dir);
    let scratch = scratch.map_err(failed("cannot make a directory", dir))?;
    let rounds = all_rounds(scratch.path(), dir, part, stop);
    drop(scratch);
    stop.die_if_asked();
    profile(dir, &rounds?)
}

fn failed<'a>(what: &'a str, dir: &'a Path) -> impl Fn(io::Error) -> String + 'a {
    move |error| format!("{what} in {}: {}", quoted(dir), super::words(&error))
}

/// The times of each way, of each round, measured in a new directory within `dir`.
type Rounds = BTreeMap<Way, Vec<Vec<LoadTimes>>>;

fn all_rounds(place: &Path, dir: &Path, part: u64, stop: &Stop) -> Result<Rounds, String> {
    let (extent, count) = extent(part);
    let prepared = prepare(place, extent, &|| stop.asked());
    prepared.map_err(failed("cannot make files", dir))?;
    let mut rounds = Rounds::new();
    let mut left_out = Vec::new();
    for round in 0..count {
        for way in Way::ALL {
            evict(place, extent).map_err(failed("cannot empty the cache", dir))?;
            let done = one_way(place, way, part);
            // Ctrl-C ends the process of the loads, too.
            if stop.asked() {
                return Err("stopped".to_owned());
            }
            match done {
                Ok(times) => rounds.entry(way).or_default().push(times),
                // What cannot be mounted here is not advised either.
                Err(error) if way.mount_option().is_some() => {
                    if round == 0 {
                        left_out.push(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }
    if let Some(error) = left_out.first() {
        eprintln!("dio: not measured below a mount: {error}");
    }
    Ok(rounds)
}

fn profile(dir: &Path, rounds: &Rounds) -> Result<Profile, String> {
    let failed = |error: io::Error| format!("{}: {}", quoted(dir), super::words(&error));
    let report = dio::probe::probe(dir).map_err(|error| error.to_string())?;
    let disk = report.device.as_ref().map_or("an unknown disk", |device| device.name.as_str());
    let file_system = file_system_name(report.file_system, report.mount.as_ref());
    let measured = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_secs());
    let costs = rounds.iter().map(|(way, rounds)| (*way, costs_of_rounds(rounds)));
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
    Ok(Profile::new(
        measured,
        rustix::system::uname().release().to_string_lossy().into_owned(),
        (processors, dio_common::memory::usable(0)),
        format!("{disk}, {file_system}"),
        device_of(dir).map_err(failed)?,
        costs.collect(),
    ))
}

/// Runs all loads once by a way, in a process of their own.
fn one_way(place: &Path, way: Way, part: u64) -> Result<Vec<LoadTimes>, String> {
    let mut command = own_program();
    if let Some(option) = way.mount_option() {
        let program = std::env::current_exe().map_err(|error| super::words(&error))?;
        command.args(["run", "-o", option, "--dir"]).arg(place).arg("--").arg(program);
    }
    command.args(["probe", "--speed-loads", way_name(way)]);
    command.arg(format!("--speed-part={part}")).arg(place);
    let output = command.stdin(Stdio::null()).output().map_err(|error| super::words(&error))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(match said.trim().lines().last() {
            Some(last) => format!("{last} ({})", output.status),
            None => format!("its loads ended early: {}", output.status),
        });
    }
    let mut times: Vec<LoadTimes> =
        serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
    if let Some(option) = way.mount_option() {
        let mut command = own_program();
        command.args(["run", "-o", option, "--dir"]).arg(place).args(["--", "true"]);
        times.push(measure_start(command).map_err(|error| super::words(&error))?);
    }
    Ok(times)
}

fn way_name(way: Way) -> &'static str {
    if way == Way::Tool { "tool" } else { "calls" }
}

/// Runs the loads in this process, for [`one_way`]; prints their times.
pub(super) fn loads(way: &str, place: &Path, part: u64) -> Result<(), String> {
    let (extent, _) = extent(part);
    // Each way has memory that was used before.
    use_once(MEMORY / part);
    let times = match way {
        "tool" => measure_tool(place).and_then(|mut times| {
            let mut cp = own_program();
            cp.arg("cp");
            evict(place, extent)?;
            times.push(measure_copy(place, cp)?);
            let mut tar = own_program();
            tar.args(["tar", "-Pcf"]);
            evict(place, extent)?;
            times.push(measure_small_files(place, tar)?);
            times.extend(digests(place, extent)?);
            Ok(times)
        }),
        _ => measure(place, extent, &servers_of(place)),
    };
    let times = times.map_err(|error| super::words(&error))?;
    let text = serde_json::to_string(&times).map_err(|error| error.to_string())?;
    println!("{text}");
    Ok(())
}

/// Runs the tools whose work depends on the number of the bytes only, and not on what they are.
fn digests(place: &Path, extent: Extent) -> io::Result<Vec<LoadTimes>> {
    let one = |name: &&str| {
        // Each finds the file as the first one did.
        evict(place, extent)?;
        let mut tool = own_program();
        tool.arg(name);
        measure_work(place, name, tool)
    };
    DIGESTS.iter().map(one).collect()
}

/// The servers of a `dio run` of this directory.
fn servers_of(place: &Path) -> Vec<u32> {
    let is_server = |pid: &u32| {
        let line = processes::command_line(*pid);
        let place = place.as_os_str().as_encoded_bytes();
        line.get(1).is_some_and(|word| word == SERVER_NAME.as_bytes())
            && line[2..].iter().any(|word| word == place)
    };
    processes::ids().into_iter().flatten().filter(is_server).collect()
}

/// Keeps a profile where `dio advise` finds it.
pub(in crate::commands) fn keep(profile: &Profile) -> io::Result<Option<PathBuf>> {
    let Some(path) = kept_path(profile.device) else { return Ok(None) };
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    // Another run may read it at the same time.
    let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new("/")))?;
    file.write_all(text(profile)?.as_bytes())?;
    file.persist(&path)?;
    Ok(Some(path))
}

/// Writes a profile.
pub(in crate::commands) fn write(profile: &Profile, path: &Path) -> io::Result<()> {
    fs::write(path, text(profile)?)
}

fn text(profile: &Profile) -> io::Result<String> {
    Ok(serde_json::to_string_pretty(profile)? + "\n")
}
