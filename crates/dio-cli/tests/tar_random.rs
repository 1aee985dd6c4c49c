//! Random command lines of tar beside GNU tar must lead to the same archives, trees, lists,
//! messages and statuses. Randomly damaged archives must lead to an error message without a crash,
//! and nothing outside of the directory may change.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::gnu::links;
use crate::support::{is_root, snapshot};
use dio_test::{Rng, Soak, file_systems};

/// Runs a script in `dir` in which `tar` is dio's or the system's.
fn shell(dir: &Path, script: &str, ours: bool) -> Output {
    let path = std::env::var("PATH").unwrap();
    let path = if ours { format!("{}:{path}", links(&["tar"]).display()) } else { path };
    let mut bash = Command::new("bash");
    bash.args(["-c", script]).current_dir(dir).env("PATH", path).env("LC_ALL", "C").env("TZ", "UTC").env_remove("TAPE");
    bash.env("RUST_BACKTRACE", "0").stdin(Stdio::null()).output().unwrap()
}

/// The outcome of a run: status, output, and sorted messages, because threads print them in any
/// order.
type Seen = (Option<i32>, String, Vec<String>);

fn seen(output: &Output) -> Seen {
    let told = String::from_utf8_lossy(&output.stderr).replace(" or 'tar --usage'", "");
    let told = told.replace("gnu.tar", "archive").replace("dio.tar", "archive");
    // GNU tar prints an error for the member, and for some directories on its path that cannot be
    // made.
    let on_the_way = |line: &&str| !line.ends_with("Cannot mkdir: No such file or directory");
    let mut told: Vec<String> = told.lines().filter(on_the_way).map(str::to_owned).collect();
    told.sort();
    // How often GNU tar prints the same message depends on how often it tries.
    told.dedup();
    (output.status.code(), output.stdout.escape_ascii().to_string().replace("\\n", "\n"), told)
}

fn set_up(dir: &Path, script: &str) {
    let done = shell(dir, &format!("set -e; {script}"), false);
    assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Names with characters that are special in shells, patterns and lists.
const NAMES: [&str; 16] =
    ["a", "b", "b.o", "c d", "-e", "f*", "[g]", "h\\ti", "j\nk", "l:m", "~n", "o?", "\u{e9}", "back~", ".git", "Q"];

/// Quotes a text as one word for the shell.
fn word(text: impl AsRef<str>) -> String {
    format!("'{}'", text.as_ref().replace('\'', "'\\''"))
}

/// A random tree below `t`.
#[derive(Default)]
struct Tree {
    /// Paths relative to the parent of `t`.
    names: Vec<String>,
    /// Some files have several names.
    hard_links: bool,
    /// Some symbolic links lead to directories that contain them.
    loops: bool,
}

/// Makes a tree.
fn tree(rng: &mut Rng, dir: &Path) -> Tree {
    let mut script = String::from("mkdir t; ");
    let (mut dirs, mut files, mut all) = (vec!["t".to_owned()], Vec::<String>::new(), vec!["t".to_owned()]);
    let (mut hard_links, mut loops) = (false, false);
    for number in 0..rng.range(3..25) {
        let base = rng.pick(&NAMES).to_string();
        let long = if rng.bool(0.05) { "n".repeat(rng.range_usize(80..200)) } else { String::new() };
        let path = format!("{}/{base}{long}", rng.pick(&dirs));
        if all.contains(&path) {
            continue;
        }
        let p = word(&path);
        match rng.range(0..14) {
            0..4 => {
                script += &format!("mkdir {p}; chmod {} {p};", rng.pick(&["755", "700", "1777", "711"]));
                dirs.push(path.clone());
            }
            4 if !files.is_empty() => {
                hard_links = true;
                script += &format!("ln {} {p};", word(rng.pick(&files[..])));
            }
            5 => {
                let target = rng.pick(&["a", "../t", "nowhere", ".", "b.o"]);
                loops |= target.contains('.') && *target != "b.o";
                script += &format!("ln -s {} {p};", word(target));
            }
            6 => script += &format!("mkfifo {p};"),
            7 => {
                let (size, at) = (rng.range(10_000..3_000_000), rng.range(0..9000));
                script +=
                    &format!("truncate -s {size} {p}; echo data | dd of={p} bs=1 seek={at} conv=notrunc status=none;");
                script += &format!("head -c {} /dev/zero | tr '\\0' x >> {p};", rng.range(0..70_000));
                files.push(path.clone());
            }
            8 => {
                script += &format!(
                    "mkdir {p}; echo 'Signature: 8a477f597d28d172789f06886806bc55' > {p}/CACHEDIR.TAG; echo x > {p}/x;"
                )
            }
            _ => {
                let size = rng.pick(&[0, 1, 511, 512, 513, 10_240, 100_000, 1_100_000]);
                script += &format!(
                    "yes {number} | head -c {size} > {p}; chmod {} {p};",
                    rng.pick(&["644", "600", "755", "4711"])
                );
                files.push(path.clone());
            }
        }
        all.push(path);
    }
    // The tree is read, so that its access times do not change any more. All names get fixed times.
    script += "find t -exec touch -h -d @1600000000 {} +; touch -d @1500000000.5 t; find t -type f -exec cat {} + >/dev/null;\
               ls -lR t >/dev/null; find t -type l -exec readlink {} + >/dev/null;";
    set_up(dir, &script);
    Tree { names: all, hard_links, loops }
}

fn pattern(rng: &mut Rng, names: &[String]) -> String {
    let name = rng.pick(names);
    let last = name.rsplit('/').next().unwrap_or_default();
    match rng.range(0..9) {
        0 => name.clone(),
        1 => last.to_owned(),
        2 => format!("{}*", &last.chars().next().unwrap_or('x')),
        3 => "*.o".into(),
        4 => "t/*".into(),
        5 => "[a-c]*".into(),
        6 => "?".into(),
        7 => format!("*{}", last.to_uppercase()),
        _ => "*/*".into(),
    }
}

/// A flag that applies to the names behind it.
fn positional(rng: &mut Rng, names: &[String]) -> String {
    let switches = [
        "--anchored",
        "--no-anchored",
        "--wildcards",
        "--no-wildcards",
        "--wildcards-match-slash",
        "--no-wildcards-match-slash",
        "--ignore-case",
        "--no-ignore-case",
        "--recursion",
        "--no-recursion",
        "--unquote",
        "--no-unquote",
        "--null",
        "--no-null",
        "--verbatim-files-from",
        "--no-verbatim-files-from",
        "--exclude-vcs",
        "--exclude-backups",
        "--exclude-caches",
        "--exclude-caches-under",
        "--exclude-caches-all",
    ];
    match rng.range(0..6) {
        0..2 => format!("--exclude={}", word(pattern(rng, names))),
        2 => format!("--exclude-tag{}={}", rng.pick(&["", "-under", "-all"]), word(rng.pick(&NAMES))),
        3 => "-X ex".into(),
        _ => rng.pick(&switches).to_string(),
    }
}

/// Writes lists of names for `-T`: `list`, and with NULs `list0`.
fn lists(rng: &mut Rng, dir: &Path, names: &[String]) {
    let (mut lines, mut nuls) = (String::new(), String::new());
    for _ in 0..rng.range(0..6) {
        let line = match rng.range(0..8) {
            // Quotes are closed in the same line. GNU tar reports unclosed ones only after it has
            // archived the names before.
            0 => positional(rng, names).replace('\n', ""),
            1 => "-T list2".into(),
            2 => String::new(),
            3 => format!("--add-file={}", word(rng.pick(names))).replace('\n', ""),
            _ => rng.pick(names).clone(),
        };
        nuls += &format!("{}\0", rng.pick(names));
        lines += &format!("{line}\n");
    }
    fs::write(dir.join("list"), lines).unwrap();
    fs::write(dir.join("list0"), nuls).unwrap();
    fs::write(dir.join("list2"), format!("{}\n-T list\n", rng.pick(names))).unwrap();
    fs::write(dir.join("ex"), format!("{}\n{}\n", pattern(rng, names), pattern(rng, names))).unwrap();
}

/// A random transformation of names.
fn transform(rng: &mut Rng) -> &'static str {
    let all = [
        "--transform='s,^t,u,'",
        "--transform='s/[aeiou]/<&>/g'",
        "--transform='s,/,/x/,S'",
        "--xform='s/.*/\\U&/'",
        "--transform='flags=rSH;s,b,B,'",
    ];
    all[rng.range_usize(0..all.len())]
}

/// A random command line that makes `$A`.
fn create(rng: &mut Rng, tree: &Tree) -> String {
    let names = &tree.names[..];
    let flags = [
        "-v",
        "-vv",
        "-h",
        "--hard-dereference",
        "-S",
        // Maps of blocks of zeros end differently; the test of sparse files covers them.
        "--hole-detection=seek",
        "-b3",
        "-l",
        "--sort=name",
        "--one-file-system",
        "-P",
        "--owner=me:7",
        "--group=+8",
        "--numeric-owner",
        "--mtime=@77",
        "--show-transformed-names",
        "--ignore-failed-read",
        "--warning=no-xdev",
        "--occurrence",
        "--exclude='*.none'",
    ];
    let mut words = vec![format!("--format={}", rng.pick(&["gnu", "gnu", "ustar", "v7", "pax"]))];
    words.extend((0..rng.range(0..4)).map(|_| rng.pick(&flags).to_string()));
    // If a member does not fit into the oldest format, dio's message has the name in the archive,
    // and GNU tar's the name of the file.
    let plain = words[0].ends_with("v7");
    words.extend((!plain && rng.bool(0.2)).then(|| transform(rng).to_owned()));
    for _ in 0..rng.range(1..5) {
        match rng.range(0..10) {
            0..3 => words.push(positional(rng, names)),
            3 => words.push("-T list".into()),
            4 => words.push("--null -T list0 --no-null".into()),
            // With several -C, GNU tar prints a missing directory by its own name alone.
            5 if !words.iter().any(|word| word.starts_with("-C")) => words.push("-C t .".into()),
            6 => words.push(format!("--add-file={}", word(rng.pick(names)))),
            _ => words.push(word(rng.pick(names))),
        }
    }
    if rng.bool(0.05) {
        words.push("nope".into());
    }
    if rng.bool(0.5) {
        words.push("t".into());
    }
    // In these formats, GNU tar archives hard links to names that are too long, with targets that
    // are the beginnings of those names.
    let room = if words.iter().any(|word| word.contains("s/[aeiou]")) { 33 } else { 90 };
    if (words[0].ends_with("v7") || words[0].ends_with("ustar")) && names.iter().any(|name| name.len() > room) {
        words.push("--hard-dereference".into());
    }
    if tree.loops {
        // GNU tar follows the loop until the name is too long or its memory is used up.
        words.retain(|word| word != "-h");
    }
    // If a command line has two mistakes, either may be reported.
    if words.iter().any(|word| word.contains("-T list")) {
        words.retain(|word| word != "--occurrence");
    }
    if words[0].ends_with("v7") || words[0].ends_with("ustar") {
        words.retain(|word| word != "-S" && !word.starts_with("--hole-detection"));
    }
    if words[0].ends_with("pax") && words.iter().any(|word| word.contains("form=")) {
        // For a sparse file, GNU tar shows the name with its process ID instead of the transformed
        // name.
        words.retain(|word| word != "-S" && !word.starts_with("--hole-detection"));
    }
    // The treatment of the order of options by clap and getopt is compared too. Lists and names
    // keep their order.
    format!("tar -cf $A {}", words.join(" "))
}

/// Makes an archive of the same tree with both programs, and compares the outcomes. Returns GNU's
/// archive.
fn archives(dir: &Path, command: &str) -> Option<Vec<u8>> {
    let [gnu, dio] = [false, true].map(|ours| {
        let name = if ours { "dio.tar" } else { "gnu.tar" };
        let _ = fs::remove_file(dir.join(name));
        let seen = seen(&shell(dir, &format!("A={name}; {command}"), ours));
        (seen, fs::read(dir.join(name)).ok())
    });
    assert_eq!(dio.0, gnu.0, "{command}");
    if command.contains("pax") {
        // GNU tar puts its process ID into the names of extended headers, so the lists of the
        // archives are compared.
        let [own, theirs] =
            ["dio.tar", "gnu.tar"].map(|name| seen(&shell(dir, &format!("tar -tvvf {name} --full-time"), false)));
        assert_eq!(own, theirs, "{command}");
    } else {
        let differs = dio.1.iter().flatten().zip(gnu.1.iter().flatten()).position(|(one, other)| one != other);
        let lists = "diff <(tar -tvRf gnu.tar) <(tar -tvRf dio.tar); cmp -l gnu.tar dio.tar | head";
        assert!(dio.1 == gnu.1, "{command}: the archives differ at {differs:?}: {:?}", shell(dir, lists, false));
    }
    gnu.1
}

#[test]
fn soak_archives_are_those_of_gnu() {
    for seed in Soak::of(12) {
        let rng = &mut seed.rng();
        let dir = file_systems()[0].dir();
        let tree = tree(rng, dir.path());
        for _ in 0..3 {
            lists(rng, dir.path(), &tree.names);
            let command = create(rng, &tree);
            archives(dir.path(), &command);
            // Each program reads the other's archive.
            let read = "tar -tvvf $A --full-time; mkdir o; tar -C o -xf $A; tar -C o -df $A; rm -rf o";
            if command.contains("t/") || command.contains("-P") || rng.bool(0.5) {
                continue;
            }
            let [gnu, dio] = [("dio.tar", false), ("gnu.tar", true)]
                .map(|(name, ours)| seen(&shell(dir.path(), &format!("A={name}; {read}"), ours)));
            assert_eq!(dio, gnu, "{command}; {read}");
        }
    }
}

/// A random command line that reads `../a.tar`, which has hard links or none.
fn read(rng: &mut Rng, names: &[String], hard_links: bool) -> String {
    let operation = *rng.pick(&["-x", "-x", "-x", "-x", "-t", "-d"]);
    let extracting = [
        "-k",
        "--skip-old-files",
        "--keep-newer-files",
        "--overwrite",
        "--keep-directory-symlink",
        "--no-overwrite-dir",
        "--overwrite-dir",
        "-p",
        "--no-same-permissions",
        "-m",
        "--no-same-owner",
        "--numeric-owner",
        "-h",
        "-O",
        "--overwrite -h",
        "-h",
        "-U",
        "--recursive-unlink",
    ];
    let all =
        ["-v", "--show-transformed-names", "--occurrence", "--occurrence=2", "--strip-components=1", "-i", "--no-seek"];
    let mut words = vec![format!("{operation}f ../a.tar")];
    for _ in 0..rng.range(0..4) {
        let flags: &[&str] = if operation == "-x" && rng.bool(0.6) { &extracting } else { &all };
        // If two flags exclude each other, and one of them is given twice, either may be reported
        // first.
        let flag = rng.pick(flags).to_string();
        words.extend((flag == "-v" || !words.contains(&flag)).then_some(flag));
    }
    words.extend(rng.bool(0.15).then(|| transform(rng).to_owned()));
    // GNU tar looks for the first name of a hard link outside of the top directory.
    if operation == "-x" && !hard_links && rng.bool(0.1) {
        words.push("--one-top-level=top".into());
    }
    for _ in 0..rng.range(0..4) {
        match rng.range(0..6) {
            0..2 => words.push(positional(rng, names).replace("-X ex", "-X ../ex")),
            2 => words.push("-T ../list3".into()),
            3 => words.push(format!("--wildcards {}", word(pattern(rng, names)))),
            _ => words.push(word(rng.pick(names))),
        }
    }
    if words.iter().any(|word| word.starts_with("--occurrence")) {
        // GNU tar compares the names after their transformation when it checks whether all
        // occurrences were found.
        words.retain(|word| {
            !["--strip", "--xform", "--transform", "--one-top"].iter().any(|flag| word.starts_with(flag))
        });
    }
    if words.iter().any(|word| word == "--skip-old-files") {
        // GNU tar 1.34 prints the names that it skips without escaping line feeds.
        words.retain(|word| word != "-v");
    }
    format!("tar {}", words.join(" "))
}

/// A tree, without the times of directories, which GNU tar sets too early.
fn without_times(dir: &Path) -> Vec<(String, String)> {
    let plain =
        |what: String| if what.starts_with("dir") { what.split(" mtime").next().unwrap().to_owned() } else { what };
    snapshot(dir).into_iter().map(|(name, what)| (name, plain(what))).collect()
}

/// Makes files, directories and links in the places of members. None of them leads outside.
fn obstacles(rng: &mut Rng, names: &[String]) -> String {
    let mut script = String::new();
    for _ in 0..rng.range(0..5) {
        let name = word(rng.pick(names));
        let what = rng.pick(&["mkdir -p", "echo old >", "ln -s a", "ln -s nowhere", "ln -s .", "ln -s other"]);
        script += &format!("mkdir -p \"$(dirname -- {name})\"; [ -e {name} -o -L {name} ] || {what} {name};");
    }
    format!("{{ set +e; {script} mkdir -p other; find . -exec touch -h -d @1400000000 {{}} +; }} 2>/dev/null; true;")
}

#[test]
fn soak_archives_are_read_as_by_gnu() {
    if !is_root() {
        dio_test::skip!("owners are set by root");
        return;
    }
    for seed in Soak::of(12) {
        let rng = &mut seed.rng();
        let scratch = file_systems()[0].dir();
        let dir = scratch.path();
        let Tree { names, hard_links, .. } = tree(rng, dir);
        lists(rng, dir, &names);
        fs::write(dir.join("list3"), format!("{}\n{}\n", rng.pick(&names), rng.pick(&names))).unwrap();
        let twice = rng.bool(0.3).then(|| word(rng.pick(&names)));
        let first = twice.clone().unwrap_or_default();
        let make = format!("tar -cf a.tar --format={} {first} t", rng.pick(&["gnu", "pax", "v7"]));
        let _ = shell(dir, &make, false);
        for _ in 0..4 {
            let obstacles = obstacles(rng, &names);
            let mut command = read(rng, &names, hard_links || twice.is_some());
            // If GNU tar reaches a directory a second time by a link, the directory ends with the
            // mode that GNU tar remembers.
            let obstacles =
                if command.contains(" -h") { obstacles.replace("ln -s . ", "ln -s other ") } else { obstacles };
            if twice.is_some() {
                // A member that is a link to itself stays; GNU tar removes it first and then has
                // none. When GNU tar reaches a directory for the second time, it forgets
                // --no-overwrite-dir.
                for flag in [" -U", " --recursive-unlink", " --keep-newer-files", " --no-overwrite-dir"] {
                    command = command.replace(flag, "");
                }
            }
            let [gnu, dio] = [false, true].map(|ours| {
                let own = dir.join(if ours { "dio" } else { "gnu" });
                fs::create_dir(&own).unwrap();
                set_up(&own, &obstacles);
                let seen = seen(&shell(&own, &command, ours));
                let tree = without_times(&own);
                fs::remove_dir_all(&own).unwrap();
                (seen, tree)
            });
            assert_eq!(dio.0, gnu.0, "{make}; {obstacles} {command}");
            let differs = dio.1.iter().zip(&gnu.1).find(|(one, other)| one != other);
            assert!(dio.1 == gnu.1, "{make}; {obstacles} {command}: {differs:?}");
        }
    }
}

#[test]
fn soak_additions_are_those_of_gnu() {
    for seed in Soak::of(6) {
        let rng = &mut seed.rng();
        let dir = file_systems()[0].dir();
        let Tree { names, loops, .. } = tree(rng, dir.path());
        lists(rng, dir.path(), &names);
        set_up(dir.path(), "tar -cf other.tar t");
        let mut command = format!(
            "tar -cf $A --format={} -b {} --no-recursion t",
            rng.pick(&["gnu", "ustar", "v7"]),
            rng.pick(&[1, 3, 20])
        );
        // GNU tar skips a directory, with everything new in it, when the archive has entries below
        // it but not the directory itself.
        let tops: Vec<String> = names.iter().filter(|name| name.matches('/').count() <= 1).cloned().collect();
        let steps: Vec<u64> = (0..rng.range(1..4)).map(|_| rng.range(0..3)).collect();
        let appended = if steps.contains(&1) { &tops } else { &names };
        // The order determines which name of a file comes first, and no old format can hold a link
        // to a long name.
        let links = if names.iter().any(|name| name.len() > 90) { "--hard-dereference" } else { "" };
        for step in steps {
            let flags = rng.pick(&["", "-v", "-S", "--hard-dereference", "--no-recursion", "-h"]);
            let flags = if command.contains("gnu") && !(loops && *flags == "-h") { flags } else { "" };
            command += &match step {
                0 => format!("; tar -rf $A {flags} {} {}", word(rng.pick(&appended[..])), positional(rng, &names)),
                // GNU tar adds the entries of the named directories even without recursion, in an
                // order of its own.
                1 => format!("; touch -hcd @1700000000 -- {}; tar -uf $A {links} t", word(rng.pick(&names))),
                _ => "; tar -Af $A other.tar".to_owned(),
            };
        }
        // The times of the tree must be the same for both programs.
        let command =
            format!("find t -exec touch -h -d @1600000000 {{}} +; {{ {command}; }} >/dev/null 2>&1; tar -tf $A | sort");
        let [gnu, dio] = [("gnu.tar", false), ("dio.tar", true)].map(|(name, ours)| {
            let output = shell(dir.path(), &format!("A={name}; {command}"), ours);
            (seen(&output), seen(&shell(dir.path(), &format!("tar -tf {name} | sort"), false)))
        });
        assert_eq!(dio, gnu, "{command}");
    }
}

#[test]
fn soak_damage_is_told_and_nothing_else_touched() {
    for seed in Soak::of(10) {
        let rng = &mut seed.rng();
        let scratch = file_systems()[0].dir();
        let dir = scratch.path();
        let Tree { names, .. } = tree(rng, dir);
        let format = rng.pick(&["gnu", "pax", "ustar", "v7"]);
        let sparse = if matches!(*format, "gnu" | "pax") { "-S" } else { "" };
        let _ = shell(dir, &format!("tar -cf a.tar --format={format} {sparse} t"), false);
        let whole = fs::read(dir.join("a.tar")).unwrap();
        fs::create_dir(dir.join("outside")).unwrap();
        fs::write(dir.join("outside/file"), "kept").unwrap();
        for _ in 0..6 {
            let mut bytes = whole.clone();
            damage(rng, &mut bytes);
            fs::write(dir.join("b.tar"), &bytes).unwrap();
            let before = crate::archive::strict(&dir.join("outside"));
            fs::create_dir(dir.join("in")).unwrap();
            let flags = rng.pick(&["", "--overwrite", "-i", "-h", "-k", "--recursive-unlink", "-p", "--xattrs --acls"]);
            for command in [format!("tar -xf ../b.tar {flags}"), "tar -tvvf ../b.tar".into(), "tar -df ../b.tar".into()]
            {
                let command = format!("ulimit -v 4000000 -f 200000; timeout 60 {command}");
                let (status, _, told) = seen(&shell(&dir.join("in"), &command, true));
                assert!(matches!(status, Some(0..=2)), "{command}: {status:?} {told:?} {format} {names:?}");
                assert!(status != Some(2) || !told.is_empty(), "{command}: nothing is told, {format}");
                assert!(!told.iter().any(|line| line.contains("panicked")), "{command}: {told:?}");
            }
            assert_eq!(crate::archive::strict(&dir.join("outside")), before, "{flags} {format}");
            set_up(dir, "chmod -R u+rwx in; rm -rf in");
        }
    }
}

/// Damages an archive at a few offsets. Damaged headers get correct checksums again, because
/// otherwise only the checksum would be tested.
fn damage(rng: &mut Rng, bytes: &mut Vec<u8>) {
    for _ in 0..rng.range(1..6) {
        let blocks = bytes.len() / 512;
        let block = rng.range_usize(0..blocks.max(1)) * 512;
        let headers: Vec<usize> =
            (0..blocks).map(|at| at * 512).filter(|at| is_header(&bytes[*at..*at + 512])).collect();
        match rng.range(0..8) {
            0 => bytes.truncate(rng.range_usize(0..bytes.len()) + 1),
            1 => bytes[block..].iter_mut().take(512).for_each(|byte| *byte = 0),
            2 => {
                let at = rng.range_usize(0..bytes.len());
                bytes[at] ^= 1 << rng.range(0..8);
            }
            3 if !headers.is_empty() => {
                let (from, to) = (*rng.pick(&headers), *rng.pick(&headers));
                bytes.copy_within(from..from + 512, to);
            }
            _ if !headers.is_empty() => {
                let at = *rng.pick(&headers);
                let header = &mut bytes[at..at + 512];
                match rng.range(0..6) {
                    0 => header[156] = *rng.pick(b"0123456LKxgSVMD7\0Z"),
                    1 => header[..12].copy_from_slice(b"../outside/f"),
                    2 => header[157..167].copy_from_slice(b"../outside"),
                    3 => header[124..136].copy_from_slice(
                        rng.pick(&[
                            b"77777777777\0",
                            b"00000000001\0",
                            b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff",
                            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
                        ])
                        .as_slice(),
                    ),
                    4 => header[345] = b'/',
                    _ => {
                        let at = rng.range_usize(0..512);
                        header[at] = rng.range(0..256) as u8;
                    }
                }
                crate::archive::sign(header);
            }
            _ => {}
        }
        if bytes.len() < 512 {
            return;
        }
    }
}

fn is_header(block: &[u8]) -> bool {
    let text = std::str::from_utf8(&block[148..154]).unwrap_or_default();
    let sum: u32 =
        block.iter().enumerate().map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u32::from(*byte) }).sum();
    u32::from_str_radix(text.trim_matches(['\0', ' ']), 8) == Ok(sum) && block[0] != 0
}
