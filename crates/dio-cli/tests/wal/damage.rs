//! Random damage: the reports of `verify`, `dump`, `salvage`, `tail`, `archive` and of the
//! library's own recovery agree, no record is invented, and no detectable loss ends with status 0.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use dio_test::{Rng, Soak};
use dio_wal::format::segment_name;
use dio_wal::{Log, Options};
use serde_json::Value;

use super::{lines, record, wal};

/// Records by LSN.
type Records = BTreeMap<u64, Vec<u8>>;

/// A log and its expected contents.
struct Known {
    options: Options,
    /// All records that were ever appended.
    written: Records,
    /// The records that were committed and not truncated.
    expected: Records,
    /// The log ends with a mark.
    closed: bool,
    /// A copy of the directory that was made earlier.
    yesterday: PathBuf,
}

/// The damage that was done to a log.
struct Damage {
    words: String,
    /// The evidence may have gone with the records: the log may end earlier, and no tool can detect
    /// it.
    silent: bool,
}

fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        // Spare segments may appear and disappear at any time.
        if segments(from).contains(&entry.path()) {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

/// Makes a log with a random history in `dir/log`.
fn history(dir: &Path, rng: &mut Rng) -> Known {
    let (work, log_dir, yesterday) = (dir.join("work"), dir.join("log"), dir.join("yesterday"));
    let mut options = Options::new();
    let segment = *rng.pick(&[8 << 10, 16 << 10, 64 << 10]);
    options
        .segment(segment)
        .buffer(8 << 10)
        .block(512)
        .idle_mark(None)
        .spares(rng.range_usize(0..3));
    let mut known = Known {
        options,
        written: Records::new(),
        expected: Records::new(),
        closed: rng.bool(0.8),
        yesterday,
    };
    std::fs::create_dir(&work).unwrap();
    // The directory is empty until the snapshot is made.
    std::fs::create_dir(dir.join("log")).unwrap();
    let openings = rng.range(1..4);
    let snapshot = rng.range(0..openings);
    for opening in 0..openings {
        let log = Log::open(&work, &known.options).unwrap();
        for _ in 0..rng.range(1..40) {
            let bytes = record(rng.range(0..1000));
            let lsn = log.append(&bytes).unwrap();
            known.written.insert(lsn.0, bytes);
            if rng.bool(0.5) {
                log.commit(lsn).unwrap();
            }
            if rng.bool(0.03) {
                log.commit(lsn).unwrap();
                let lsns: Vec<u64> = known.written.keys().copied().collect();
                let start = dio_wal::Lsn(*rng.pick(&lsns));
                if start >= log.start() {
                    log.truncate_before(start).unwrap();
                }
            }
        }
        log.commit(dio_wal::Lsn(*known.written.keys().last().unwrap())).unwrap();
        known.expected =
            known.written.range(log.start().0..).map(|(lsn, data)| (*lsn, data.clone())).collect();
        if opening == snapshot {
            copy_dir(&work, &known.yesterday);
        }
        if opening + 1 == openings && !known.closed {
            copy_dir(&work, &log_dir);
        }
        log.close().unwrap();
    }
    if known.closed {
        copy_dir(&work, &log_dir);
    }
    known
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|end| end == "wal")).collect();
    files.sort();
    files
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

/// Damages a log in one way.
fn harm(log: &Path, known: &Known, rng: &mut Rng) -> Damage {
    let files = segments(log);
    let last = files.last().unwrap();
    let file = rng.pick(&files).clone();
    let told = |what: &str, silent| Damage { words: format!("{what} {}", name(&file)), silent };
    let mut bytes = std::fs::read(&file).unwrap();
    let damage = match rng.range(0..12) {
        0 => return told("nothing to", false),
        1..=3 if bytes.is_empty() => return told("nothing to the empty", false),
        1 | 2 => {
            for _ in 0..rng.range(1..4) {
                let at = rng.range_usize(0..bytes.len());
                bytes[at] ^= 1 << rng.range(0..8);
            }
            told("bits of", false)
        }
        3 => {
            let at = rng.range_usize(0..bytes.len()) & !511;
            let to = (at + 512 * rng.range_usize(1..9)).min(bytes.len());
            bytes[at..to].fill(0);
            told(&format!("zeros at {at} to {to} in"), true)
        }
        4 => {
            bytes.truncate(rng.range_usize(0..bytes.len()) & !if rng.bool(0.5) { 511 } else { 0 });
            told(&format!("only {} bytes of", bytes.len()), false)
        }
        5 => {
            bytes.resize(bytes.len() + rng.range_usize(1..5000), rng.range(0..256) as u8);
            told("more bytes behind", false)
        }
        6 => {
            std::fs::remove_file(&file).unwrap();
            return told("no", file == *last || files.first() == Some(&file));
        }
        11 => {
            // Segments from the middle, so that evidence is before the gap and behind it.
            let inner = &files[1.min(files.len() - 1)..];
            let gone: Vec<&PathBuf> = inner
                .iter()
                .skip(rng.range_usize(0..inner.len()))
                .take(rng.range_usize(1..5))
                .collect();
            gone.iter().for_each(|file| std::fs::remove_file(file).unwrap());
            let names: Vec<String> = gone.iter().map(|file| name(file)).collect();
            return Damage { words: format!("no {}", names.join(", ")), silent: true };
        }
        7 => {
            let other = rng.pick(&files).clone();
            let others = std::fs::read(&other).unwrap();
            std::fs::write(&other, &bytes).unwrap();
            bytes = others;
            told(&format!("exchanged with {}:", name(&other)), false)
        }
        8 => {
            let other = rng.pick(&files).clone();
            bytes = std::fs::read(&other).unwrap();
            told(&format!("a copy of {} as", name(&other)), false)
        }
        9 => {
            let number = *rng.pick(&[files.len() as u64, 1000, u64::MAX, u64::MAX >> 9]);
            std::fs::write(log.join(segment_name(number)), &bytes).unwrap();
            return told(&format!("a copy as segment {number:x} of"), false);
        }
        _ => {
            let old = known.yesterday.join(file.file_name().unwrap());
            let Ok(old) = std::fs::read(old) else { return told("nothing to", false) };
            bytes = old;
            told("yesterday's", true)
        }
    };
    std::fs::write(&file, bytes).unwrap();
    damage
}

fn unhex(digits: &str) -> Vec<u8> {
    (0..digits.len() / 2)
        .map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap())
        .collect()
}

/// The status of a command, and the records that it printed.
fn shown(words: &str, path: &Path) -> (i32, Records) {
    let output = wal(words, &[path]);
    let records = lines(&output).into_iter().filter(|line| line["type"] == "record");
    let each =
        records.map(|line| (line["lsn"].as_u64().unwrap(), unhex(line["data"].as_str().unwrap())));
    (output.status.code().unwrap(), each.collect())
}

/// The records that the library's recovery finds in a copy, or the error by which it refuses the
/// log.
fn recovered(log: &Path, to: &Path, options: &Options) -> Result<Records, String> {
    copy_dir(log, to);
    let log = Log::open(to, options).map_err(|error| error.to_string())?;
    let mut reader = log.reader(log.start()).unwrap();
    let mut records = Records::new();
    while let Some(record) = reader.next().unwrap() {
        records.insert(record.lsn.0, record.data.to_vec());
    }
    Ok(records)
}

/// Runs all commands on a log, and checks that their results agree.
fn judge(dir: &Path, known: &Known, damage: &Damage) {
    let log = dir.join("log");
    let verify = wal("verify --json", &[&log]);
    let verdict: Value = serde_json::from_str(&verify.stdout).unwrap_or_default();
    let status = verify.status.code().unwrap();
    let (dumped, records) = shown("dump --json --hex", &log);
    let dry = wal("salvage --dry-run --json", &[&log]);
    let salvage = wal("salvage --json", &[&log, &dir.join("new")]);
    assert_eq!(
        (status, status),
        (dumped, dry.status.code().unwrap()),
        "dump, salvage: {verify:?} {dry:?}"
    );
    assert_eq!(status, salvage.status.code().unwrap(), "{salvage:?}");
    let made_up = |from: &Records| {
        let other = from.iter().find(|(lsn, data)| known.written.get(*lsn) != Some(*data));
        assert!(other.is_none(), "made up: LSN {:?}", other.map(|(lsn, _)| lsn));
    };
    made_up(&records);
    let start = verdict["start"].as_u64().unwrap_or(0);
    let from_start = |from: &Records| -> Vec<Vec<u8>> {
        from.range(start..).map(|(_, data)| data.clone()).collect()
    };
    let (_, taken) = shown("dump --json --hex", &dir.join("new"));
    let (tailed, last) = shown("tail --json --hex -n 3", &log);
    made_up(&last);
    let salvaged: Value = serde_json::from_str(&dry.stdout).unwrap_or_default();
    let whole_from = salvaged["start"].as_u64().unwrap_or(0);
    let sound: Vec<&Vec<u8>> = records.range(whole_from..).map(|(_, data)| data).collect();
    assert_eq!(taken.values().collect::<Vec<_>>(), sound, "salvaged from {whole_from}: {dry:?}");
    let archived = archive(dir, &log, known, &made_up);
    let recovery = recovered(&log, &dir.join("copy"), &known.options);
    assert_eq!(
        status == 0,
        recovery.is_ok(),
        "recovery: {:?}, {verdict:#}",
        recovery.as_ref().map(Records::len)
    );
    if status != 0 {
        return;
    }
    assert_eq!((tailed, archived), (0, 0), "tail, archive");
    assert_eq!(taken.into_values().collect::<Vec<_>>(), from_start(&records), "salvaged");
    assert!(last.iter().rev().eq(records.iter().rev().take(3)), "tail -n 3");
    assert!(recovery.unwrap().into_values().eq(from_start(&records)), "recovered");
    let missing: Vec<u64> =
        known.expected.keys().filter(|lsn| !records.contains_key(lsn)).copied().collect();
    if let Some(first) = missing.first() {
        assert!(
            damage.silent || !known.closed,
            "{} records are missing, nobody says so",
            missing.len()
        );
        assert!(
            records.range(first..).next().is_none(),
            "LSN {first} is missing, not those behind it"
        );
        assert!(
            *first >= verdict["known_durable"].as_u64().unwrap(),
            "what was durable is missing"
        );
    }
}

/// Archives a log. The copies must be a log by themselves.
fn archive(dir: &Path, log: &Path, known: &Known, made_up: &impl Fn(&Records)) -> i32 {
    let to = dir.join("archive");
    std::fs::create_dir(&to).unwrap();
    let output = wal("archive --json", &[log, &to]);
    if !segments(&to).is_empty() {
        let (status, records) = shown("dump --json --hex", &to);
        made_up(&records);
        // Copies that begin behind the beginning of the log lack it, unless they reach a mark that
        // says that it was truncated.
        let whole = known.written.keys().next() == known.expected.keys().next();
        if output.status.code() == Some(0) && whole {
            assert_eq!(status, 0, "what was archived: {output:?}");
        }
    }
    output.status.code().unwrap()
}

/// Prints the damage when the case fails.
struct Told(Vec<String>);

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("damage: {}", self.0.join("; "));
        }
    }
}

#[test]
fn soak_damage_is_told_by_all_or_by_none() {
    let place = &dio_test::file_systems()[0];
    for seed in Soak::of(12) {
        let mut rng = seed.rng();
        let dir = place.dir();
        let known = history(dir.path(), &mut rng);
        let mut told = Told(Vec::new());
        let mut all = Damage { words: String::new(), silent: false };
        for _ in 0..*rng.pick(&[1, 1, 1, 2, 3]) {
            if segments(&dir.path().join("log")).is_empty() {
                break;
            }
            let damage = harm(&dir.path().join("log"), &known, &mut rng);
            all.silent |= damage.silent;
            told.0.push(damage.words);
        }
        if segments(&dir.path().join("log")).is_empty() {
            // Without segments there is no log, and opening one would make a new one.
            assert_ne!(wal("verify", &[&dir.path().join("log")]).status.code(), Some(0));
            continue;
        }
        judge(dir.path(), &known, &all);
    }
}
