//! Random trees, and random command lines of `tar` for them.

use dio_test::Rng;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::gnu::links;

/// Names with characters that are special in shells, patterns and lists.
pub(crate) const NAMES: [&str; 16] = [
    "a", "b", "b.o", "c d", "-e", "f*", "[g]", "h\\ti", "j\nk", "l:m", "~n", "o?", "\u{e9}",
    "back~", ".git", "Q",
];

/// Quotes a text as one word for the shell.
pub(crate) fn word(text: impl AsRef<str>) -> String {
    format!("'{}'", text.as_ref().replace('\'', "'\\''"))
}

/// A random tree below `t`.
#[derive(Default)]
pub(crate) struct Tree {
    /// Paths relative to the parent of `t`.
    pub(crate) names: Vec<String>,
    /// Some files have several names.
    pub(crate) hard_links: bool,
    /// Some symbolic links lead to directories that contain them.
    pub(crate) loops: bool,
}

/// Makes a tree.
pub(crate) fn tree(rng: &mut Rng, dir: &Path) -> Tree {
    let mut script = String::from("mkdir t; ");
    let (mut dirs, mut files, mut all) =
        (vec!["t".to_owned()], Vec::<String>::new(), vec!["t".to_owned()]);
    let (mut hard_links, mut loops) = (false, false);
    for number in 0..rng.range(3..25) {
        let base = rng.pick(&NAMES).to_string();
        let long =
            if rng.bool(0.05) { "n".repeat(rng.range_usize(80..200)) } else { String::new() };
        let path = format!("{}/{base}{long}", rng.pick(&dirs));
        if all.contains(&path) {
            continue;
        }
        let p = word(&path);
        match rng.range(0..14) {
            0..4 => {
                script +=
                    &format!("mkdir {p}; chmod {} {p};", rng.pick(&["755", "700", "1777", "711"]));
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
                script += &format!(
                    "truncate -s {size} {p}; echo data | dd of={p} bs=1 seek={at} conv=notrunc \
                     status=none;"
                );
                script +=
                    &format!("head -c {} /dev/zero | tr '\\0' x >> {p};", rng.range(0..70_000));
                files.push(path.clone());
            }
            8 => {
                script += &format!(
                    "mkdir {p}; echo 'Signature: 8a477f597d28d172789f06886806bc55' > \
                     {p}/CACHEDIR.TAG; echo x > {p}/x;"
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
    script += "find t -exec touch -h -d @1600000000 {} +; touch -d @1500000000.5 t; find t -type f \
               -exec cat {} + >/dev/null;ls -lR t >/dev/null; find t -type l -exec readlink {} + \
               >/dev/null;";
    set_up(dir, &script);
    Tree { names: all, hard_links, loops }
}

pub(crate) fn pattern(rng: &mut Rng, names: &[String]) -> String {
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
pub(crate) fn positional(rng: &mut Rng, names: &[String]) -> String {
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
        2 => {
            format!("--exclude-tag{}={}", rng.pick(&["", "-under", "-all"]), word(rng.pick(&NAMES)))
        }
        3 => "-X ex".into(),
        _ => rng.pick(&switches).to_string(),
    }
}

/// Writes lists of names for `-T`: `list`, and with NULs `list0`.
pub(crate) fn lists(rng: &mut Rng, dir: &Path, names: &[String]) {
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
    fs::write(dir.join("ex"), format!("{}\n{}\n", pattern(rng, names), pattern(rng, names)))
        .unwrap();
}

/// A random transformation of names.
pub(crate) fn transform(rng: &mut Rng) -> &'static str {
    let all = [
        "--transform='s,^t,u,'",
        "--transform='s/[aeiou]/<&>/g'",
        "--transform='s,/,/x/,S'",
        "--xform='s/.*/\\U&/'",
        "--transform='flags=rSH;s,b,B,'",
    ];
    all[rng.range_usize(0..all.len())]
}

/// Options of command lines that create archives.
const CREATING: [&str; 20] = [
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

/// A random command line that makes `$A`.
pub(crate) fn create(rng: &mut Rng, tree: &Tree) -> String {
    let names = &tree.names[..];
    let mut words = vec![format!("--format={}", rng.pick(&["gnu", "gnu", "ustar", "v7", "pax"]))];
    words.extend((0..rng.range(0..4)).map(|_| rng.pick(&CREATING).to_string()));
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
    if (words[0].ends_with("v7") || words[0].ends_with("ustar"))
        && names.iter().any(|name| name.len() > room)
    {
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

/// A random command line that reads `../a.tar`, which has hard links or none.
pub(crate) fn read(rng: &mut Rng, names: &[String], hard_links: bool) -> String {
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
    let all = [
        "-v",
        "--show-transformed-names",
        "--occurrence",
        "--occurrence=2",
        "--strip-components=1",
        "-i",
        "--no-seek",
    ];
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
            !["--strip", "--xform", "--transform", "--one-top"]
                .iter()
                .any(|flag| word.starts_with(flag))
        });
    }
    if words.iter().any(|word| word == "--skip-old-files") {
        // GNU tar 1.34 prints the names that it skips without escaping line feeds.
        words.retain(|word| word != "-v");
    }
    format!("tar {}", words.join(" "))
}

pub(crate) fn set_up(dir: &Path, script: &str) {
    let done = shell(dir, &format!("set -e; {script}"), false);
    assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Runs a script in `dir` in which `tar` is dio's or the system's.
pub(crate) fn shell(dir: &Path, script: &str, ours: bool) -> Output {
    let path = std::env::var("PATH").unwrap();
    let path = if ours { format!("{}:{path}", links(&["tar"]).display()) } else { path };
    let mut bash = Command::new("bash");
    bash.args(["-c", script])
        .current_dir(dir)
        .env("PATH", path)
        .env("LC_ALL", "C")
        .env("TZ", "UTC")
        .env_remove("TAPE");
    bash.env("RUST_BACKTRACE", "0").stdin(Stdio::null()).output().unwrap()
}
