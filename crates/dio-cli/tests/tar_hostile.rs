//! Hostile archives: whatever they contain, nothing outside of the target directory is made,
//! changed or removed.
//!
//! Each archive is made by hand and extracted into a jail beside files that must stay unchanged,
//! including their change times. This is done with each way to treat existing files, by root and by
//! an ordinary user, and without `openat2`.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::archive::{Builder, strict};
use crate::support::{Scratch, is_root, snapshot};

/// A jail, and the files beside it.
pub(crate) struct Place {
    scratch: Scratch,
}

impl Place {
    pub(crate) fn new() -> Place {
        let scratch = Scratch::new();
        let place = Place { scratch };
        for dir in ["jail", "out", "out/dir"] {
            std::fs::create_dir(place.path(dir)).unwrap();
        }
        for file in ["out/file", "out/dir/inner"] {
            std::fs::write(place.path(file), format!("canary {file}")).unwrap();
        }
        symlink("file", place.path("out/link")).unwrap();
        std::fs::set_permissions(place.path("jail"), PermissionsExt::from_mode(0o777)).unwrap();
        // The extracting user has permission to change these files.
        for open in ["out", "out/dir", "out/file", "out/dir/inner"] {
            std::fs::set_permissions(place.path(open), PermissionsExt::from_mode(0o777)).unwrap();
        }
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    pub(crate) fn out(&self) -> String {
        self.path("out").to_str().unwrap().to_owned()
    }

    /// Extracts into the jail.
    pub(crate) fn extract(
        &self,
        program: &Path,
        archive: &[u8],
        options: &[&str],
        nobody: bool,
    ) -> Output {
        let file = self.path("archive.tar");
        std::fs::write(&file, archive).unwrap();
        let mut command = match nobody {
            true => Command::new("setpriv"),
            false => Command::new(program),
        };
        if nobody {
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program);
        }
        if program.ends_with("dio") {
            // Nothing needs to be durable here.
            command.args(["tar", "--mode=cached"]);
        }
        command.arg("-xf").arg(&file).arg("-C").arg(self.path("jail")).args(options);
        command.env("LC_ALL", "C").env("RUST_BACKTRACE", "0").stdin(Stdio::null());
        command.output().unwrap()
    }
}

/// Makes a hostile archive, given the path of the files outside.
type Make = fn(&str) -> Vec<u8>;

/// Names that lead outside by themselves.
const NAMES: &[(&str, Make)] = &[
    ("absolute", |out| {
        Builder::new().file(&format!("{out}/file"), "x").dir(&format!("{out}/dir/"), 0o700).end()
    }),
    ("dot dot", |_| {
        Builder::new().file("../out/file", "x").dir("../out/dir/", 0o700).file("../new", "x").end()
    }),
    ("dot dot inside", |_| {
        Builder::new().dir("a", 0o755).file("a/../../out/file", "x").symlink("a/../../l", "x").end()
    }),
    ("dot dot alone", |_| {
        Builder::new().dir("..", 0o700).dir("../", 0o700).file("..", "x").dir("a/..", 0o700).end()
    }),
    ("many slashes", |out| {
        Builder::new().file(&format!("//{out}//file"), "x").file("a//../..//out/file", "x").end()
    }),
    ("odd names", |_| {
        let long = "n".repeat(300);
        let deep = "d/".repeat(3000);
        let odd = ["", ".", "./", "/", "//", "./.", "...", "a/./b", "c//d", "e/", &long, &deep];
        let build =
            odd.iter().fold(Builder::new(), |build, name| build.file(name, "x").dir(name, 0o755));
        odd.iter()
            .fold(build, |build, name| build.symlink(name, "../out").hard_link(name, "../out/file"))
            .end()
    }),
    ("long names", |out| {
        let name = format!("{}../../out/file", "x/../".repeat(60));
        Builder::new().file(&name, "x").file(&format!("{out}/{}", "y".repeat(120)), "x").end()
    }),
    ("pax names", |out| {
        let (absolute, up) = (format!("{out}/file"), "../out/file");
        Builder::new()
            .pax(&[("path", absolute.as_bytes())])
            .file("innocent", "x")
            .pax(&[("path", up.as_bytes())])
            .file("innocent", "x")
            .pax(&[("path", b"nul\0/../../out/file"), ("linkpath", b"a\0b")])
            .file("innocent", "x")
            .pax(&[("linkpath", absolute.as_bytes())])
            .hard_link("h", "innocent")
            .pax(&[
                ("GNU.sparse.name", up.as_bytes()),
                ("GNU.sparse.major", b"1"),
                ("GNU.sparse.minor", b"0"),
            ])
            .file("innocent", "x")
            .end()
    }),
];

/// Links that lead outside, and members behind them.
const LINKS: &[(&str, Make)] = &[
    ("through an absolute link", |out| {
        let through = Builder::new()
            .symlink("s", out)
            .file("s/file", "x")
            .file("s/new", "x")
            .dir("s/dir", 0o700);
        through.dir("s/made/deep", 0o700).symlink("s/sl", "x").hard_link("s/hl", "s/file").end()
    }),
    ("through a relative link", |_| {
        let through = Builder::new()
            .symlink("s", "../out")
            .file("s/file", "x")
            .dir("s", 0o700)
            .file("s/new", "x");
        through.named(b'6', "s/fifo", "", 0o666, "").end()
    }),
    ("through a chain", |_| {
        let chain = Builder::new()
            .dir("d", 0o755)
            .symlink("d/up", "..")
            .symlink("d/up2", "up/..")
            .symlink("t", "d/up2");
        chain.file("t/out/file", "x").file("d/up/../out/file", "x").file("d/up2/out/new", "x").end()
    }),
    ("a link as the last part", |out| {
        let file = format!("{out}/file");
        Builder::new()
            .symlink("s", &file)
            .file("s", "x")
            .symlink("r", "../out/file")
            .file("r", "xyz")
            .end()
    }),
    ("a directory over a link", |out| {
        let dir = format!("{out}/dir");
        Builder::new()
            .symlink("s", &dir)
            .dir("s/", 0o700)
            .symlink("t", &dir)
            .dir("t/.", 0o700)
            .dir("t/x", 0o700)
            .end()
    }),
    ("a link over a directory", |out| {
        let dir = format!("{out}/dir");
        let over = Builder::new()
            .dir("d", 0o700)
            .symlink("d", &dir)
            .file("d/inner", "x")
            .file("d/new", "x");
        over.dir("e/f", 0o700)
            .symlink("e/f", &dir)
            .dir("e/f", 0o711)
            .dir("g", 0o700)
            .symlink("g", &dir)
            .end()
    }),
    ("a link over a full directory", |out| {
        let over =
            Builder::new().dir("d", 0o755).file("d/x", "x").symlink("d", out).file("d/file", "y");
        over.dir("d/dir", 0o700).end()
    }),
    ("hard links out", |out| {
        let (file, dir) = (format!("{out}/file"), format!("{out}/dir"));
        let links = Builder::new()
            .hard_link("a", &file)
            .file("a", "x")
            .hard_link("b", "../out/file")
            .file("b", "x");
        links
            .hard_link("c", &dir)
            .hard_link("d", "/")
            .hard_link("e", "..")
            .hard_link("f", ".")
            .hard_link("g", "")
            .end()
    }),
    ("hard links through links", |out| {
        let (file, dir) = (format!("{out}/file"), format!("{out}/dir"));
        let through = Builder::new()
            .symlink("s", out)
            .hard_link("h", "s/file")
            .file("h", "x")
            .symlink("f", &file);
        through
            .hard_link("g", "f")
            .file("g", "x")
            .symlink("t", &dir)
            .hard_link("i", "t/inner")
            .file("i", "y")
            .end()
    }),
    ("links of the kernel", |out| {
        let through = format!("r{out}/file");
        let links = Builder::new()
            .symlink("r", "/proc/self/root")
            .file(&through, "x")
            .symlink("c", "/proc/self/cwd");
        links
            .file("c/x", "x")
            .symlink("fd", "/proc/self/fd")
            .file("fd/0", "x")
            .file("fd/3", "x")
            .end()
    }),
    ("loops", |_| {
        let loops = Builder::new()
            .symlink("a", "b")
            .symlink("b", "a")
            .file("a/x", "x")
            .dir("a", 0o755)
            .file("a/y", "y");
        loops.symlink("l", "l").hard_link("m", "l").file("l", "z").symlink(".", "..").end()
    }),
    ("a link in the middle", |_| {
        let long = Builder::new().dir("d", 0o755).dir("d/e", 0o755).symlink("d/e/f", "../../..");
        long.file("d/e/f/out/file", "x")
            .dir("d/e/f/out/dir", 0o700)
            .hard_link("h", "d/e/f/out/file")
            .file("h", "x")
            .end()
    }),
    ("devices and pipes", |out| {
        let made = Builder::new()
            .named(b'6', "p", "", 0o666, "")
            .file("p", "x")
            .named(b'3', "n", "", 0o666, "");
        made.file("n/x", "x")
            .symlink("s", &format!("{out}/file"))
            .named(b'6', "s", "", 0o666, "")
            .end()
    }),
    ("files and directories in turn", |_| {
        let turns = Builder::new()
            .dir("d", 0o755)
            .file("d/x", "1")
            .file("d", "2")
            .file("d/y", "3")
            .file("f", "4");
        turns
            .file("f/g", "5")
            .dir("f", 0o755)
            .file("f/h", "6")
            .symlink("f/up", "../..")
            .file("f/up/out/file", "7")
            .end()
    }),
    ("links that were there", |_| {
        let through = Builder::new()
            .file("pre/file", "x")
            .dir("pre", 0o700)
            .file("pre/new", "x")
            .file("prefile", "x");
        through
            .dir("tree", 0o700)
            .file("tree", "x")
            .hard_link("h", "pre/file")
            .dir("tree/pre/dir", 0o700)
            .end()
    }),
];

/// Invalid sizes and maps.
const SIZES: &[(&str, Make)] = &[
    ("an endless file", |_| {
        Builder::new().header(b'0', b"huge", b"", 0o644, u64::MAX / 2).content(b"little").bytes
    }),
    ("a terabyte", |_| {
        Builder::new().header(b'0', b"huge", b"", 0o644, 1 << 40).content(&[1; 5000]).bytes
    }),
    ("a sparse exabyte", |_| {
        let records: &[(&str, &[u8])] = &[
            ("GNU.sparse.major", b"1"),
            ("GNU.sparse.minor", b"0"),
            ("GNU.sparse.name", b"huge"),
            ("GNU.sparse.realsize", b"9223372036854775807"),
        ];
        let map = b"1\n9223372036854775000\n600\n";
        let padded = [&map[..], &[0; 512][map.len()..], &[7; 600]].concat();
        Builder::new()
            .pax(records)
            .header(b'0', b"x", b"", 0o644, padded.len() as u64)
            .content(&padded)
            .end()
    }),
    ("a map that overlaps", |_| {
        let records: &[(&str, &[u8])] = &[
            ("GNU.sparse.size", b"2000"),
            ("GNU.sparse.numblocks", b"2"),
            ("GNU.sparse.map", b"0,1000,500,1000"),
        ];
        Builder::new().pax(records).header(b'0', b"x", b"", 0o644, 2000).content(&[7; 2000]).end()
    }),
];

const OPTIONS: &[&[&str]] = &[
    &[],
    &["--overwrite"],
    &["-U"],
    &["--recursive-unlink"],
    &["--keep-directory-symlink"],
    &["-p", "--xattrs", "--xattrs-include=*", "--acls", "--same-owner"],
    &["--strip-components=1"],
    &["--keep-newer-files", "--no-same-permissions"],
    &["--one-top-level=s"],
];

/// Extracts one archive and checks the files outside.
fn try_one(name: &str, make: Make, options: &[&str], nobody: bool) -> (Place, Output) {
    let place = Place::new();
    for (link, target) in [("pre", place.out()), ("prefile", format!("{}/file", place.out()))] {
        if name == "links that were there" {
            symlink(target, place.path("jail").join(link)).unwrap();
        }
    }
    if name == "links that were there" {
        std::fs::create_dir(place.path("jail/tree")).unwrap();
        symlink(place.out(), place.path("jail/tree/pre")).unwrap();
        std::fs::set_permissions(place.path("jail/tree"), PermissionsExt::from_mode(0o777))
            .unwrap();
    }
    let archive = make(&place.out());
    let dio = if nobody { place.scratch.dio() } else { PathBuf::from(env!("CARGO_BIN_EXE_dio")) };
    std::fs::write(place.path("archive.tar"), "").unwrap();
    let before = strict(&place.path("out"));
    let beside = beside(&place);
    let output = place.extract(&dio, &archive, options, nobody);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(
        !told.contains("panicked") && output.status.code().is_some(),
        "{name} {options:?}: {told}"
    );
    assert_eq!(before, strict(&place.path("out")), "{name} {options:?} nobody {nobody}: {told}");
    assert_eq!(beside, self::beside(&place), "{name} {options:?} nobody {nobody}: {told}");
    (place, output)
}

/// The names beside the jail.
fn beside(place: &Place) -> Vec<String> {
    let names = std::fs::read_dir(place.scratch.path()).unwrap();
    let mut names: Vec<String> =
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn try_all(set: &[(&str, Make)], nobody: bool) {
    for (name, make) in set {
        for options in OPTIONS {
            try_one(name, *make, options, nobody);
        }
    }
}

#[test]
fn names_do_not_lead_out() {
    try_all(NAMES, false);
}

#[test]
fn links_do_not_lead_out() {
    try_all(LINKS, false);
}

#[test]
fn ordinary_users_are_as_safe() {
    if !is_root() {
        return dio_test::skip!("another user can only be had by root");
    }
    for set in [NAMES, LINKS] {
        for (name, make) in set {
            try_one(name, *make, &[], true);
            try_one(name, *make, &["--overwrite", "-p"], true);
        }
    }
}

/// If the kernel or a container does not support `openat2`, dio resolves names step by step, with
/// the same result.
#[test]
fn names_are_as_safe_without_openat2() {
    const OPENAT2: i64 = 437;
    let outcome = |name: &str, make: Make| {
        let (place, output) = try_one(name, make, &["--keep-directory-symlink"], false);
        // Several threads write small files, so the order of their messages varies.
        let mut told: Vec<_> =
            output.stderr.split(|&byte| byte == b'\n').map(String::from_utf8_lossy).collect();
        told.sort();
        let inside = if name == "odd names" {
            String::new()
        } else {
            format!("{:#?}", snapshot(&place.path("jail")))
        };
        let text = format!("{:?} {inside} {told:?}", output.status.code());
        text.replace(&place.scratch.path().to_str().unwrap()[1..], "SCRATCH")
    };
    let all = || NAMES.iter().chain(LINKS);
    let with: Vec<String> = all().map(|(name, make)| outcome(name, *make)).collect();
    let tried = std::thread::spawn(move || {
        // For this thread and the processes that it starts.
        if dio_sys::refuse_system_call(OPENAT2, rustix::io::Errno::NOSYS).is_err() {
            return dio_test::skip!("the kernel has no filters of system calls");
        }
        for ((name, make), with) in all().zip(with) {
            assert_eq!(with, outcome(name, *make), "{name}");
        }
    });
    tried.join().unwrap();
}

/// Space is not allocated for impossible sizes, and invalid sizes and maps are refused.
#[test]
fn sizes_are_not_believed() {
    for (name, make) in SIZES {
        for options in [&[][..], &["--overwrite"], &["--mode=direct"]] {
            let (place, output) = try_one(name, *make, options, false);
            assert_eq!(output.status.code(), Some(2), "{name}: {output:?}");
            let blocks: u64 = std::fs::read_dir(place.path("jail"))
                .unwrap()
                .map(|e| e.unwrap().metadata().unwrap().blocks())
                .sum();
            assert!(blocks < 100, "{name}: {blocks} blocks");
        }
    }
}

/// Attributes of the system are not set unless they are asked for.
#[test]
fn attributes_of_the_system_are_not_set() {
    let capability: &[u8] = &[1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let place = Place::new();
    let records: &[(&str, &[u8])] = &[
        ("SCHILY.xattr.security.capability", capability),
        ("SCHILY.xattr.trusted.x", b"y"),
        ("SCHILY.xattr.user.x", b"y"),
    ];
    let archive = Builder::new().pax(records).file("f", "x").end();
    let dio = Path::new(env!("CARGO_BIN_EXE_dio"));
    assert!(place.extract(dio, &archive, &["--xattrs"], false).status.success());
    let mut names = vec![0; 4096];
    let length = rustix::fs::llistxattr(place.path("jail/f"), &mut names[..]).unwrap();
    let names = String::from_utf8_lossy(&names[..length]).into_owned();
    assert!(!names.contains("security.capability") && !names.contains("trusted.x"), "{names:?}");
}

/// An archive with harmless links is extracted as by GNU tar, including links that lead outside.
#[test]
fn honest_links_are_as_with_gnu() {
    let archive = Builder::new()
        .dir("d", 0o755)
        .symlink("abs", "/etc/passwd")
        .symlink("d/up", "../other")
        .symlink("dangling", "../nowhere")
        .dir("other", 0o755)
        .symlink("same", "other")
        .file("same/through", "x")
        .hard_link("same/again", "same/through")
        .hard_link("third", "other/through")
        .symlink("twice", "a")
        .hard_link("twice2", "twice")
        .end();
    let (ours, theirs) = (Place::new(), Place::new());
    let output = ours.extract(Path::new(env!("CARGO_BIN_EXE_dio")), &archive, &[], false);
    assert!(output.status.success(), "{output:?}");
    assert!(theirs.extract(Path::new("tar"), &archive, &[], false).status.success());
    // GNU tar does not restore the time of a directory in which it made such a link last; dio does.
    let plain = |place: &Place| {
        let tree = snapshot(&place.path("jail")).into_iter();
        let without_time = |what: String| {
            what.starts_with("dir")
                .then(|| what[..what.find(" mtime").unwrap_or(what.len())].to_owned())
        };
        tree.map(|(name, what)| (name, without_time(what.clone()).unwrap_or(what)))
            .collect::<Vec<_>>()
    };
    assert_eq!(plain(&ours), plain(&theirs));
}

/// Members that GNU tar refuses are refused with the same messages.
#[test]
fn refusals_are_those_of_gnu() {
    for (archive, words) in [
        (
            Builder::new().file("../x", "x").file("a/../b", "y").file("good", "z").end(),
            "../x: Member name contains '..'",
        ),
        (
            Builder::new().file("/abs", "x").file("/abs2", "y").end(),
            "Removing leading `/' from member names",
        ),
        (
            Builder::new().file("f", "x").hard_link("h", "none").end(),
            "h: Cannot hard link to 'none': No such file",
        ),
        (
            Builder::new().dir("d", 0o755).file("d/x", "").file("d", "x").end(),
            "d: Cannot open: File exists",
        ),
        (Builder::new().file("f", "x").file("f/x", "y").end(), "f/x: Cannot open: Not a directory"),
    ] {
        let (ours, theirs) = (Place::new(), Place::new());
        let dio = ours.extract(Path::new(env!("CARGO_BIN_EXE_dio")), &archive, &[], false);
        let gnu = theirs.extract(Path::new("tar"), &archive, &[], false);
        let said = String::from_utf8_lossy(&dio.stderr).replace("dio tar: ", "tar: ");
        assert!(said.contains(words), "{said}");
        assert_eq!(said, String::from_utf8_lossy(&gnu.stderr));
        assert_eq!(dio.status.code(), gnu.status.code());
        assert_eq!(snapshot(&ours.path("jail")), snapshot(&theirs.path("jail")));
    }
}

/// Archives with random damage. Some damaged headers get a correct checksum.
#[test]
fn mutated_archives_do_not_lead_out() {
    let seed = dio_test::Seed::new();
    let mut random = seed.stream(0);
    for round in 0..60 {
        let place = Place::new();
        let before = strict(&place.path("out"));
        let sets = [NAMES, LINKS];
        let (name, make) = *random.pick(random_set(&sets, round));
        let mut archive = make(&place.out());
        for _ in 0..random.range(1..8) {
            let block = random.range_usize(0..archive.len() / 512);
            let at = block * 512 + random.range_usize(0..512);
            archive[at] = *random.pick(b"\0/.01257xLKSgoutdir\xff ");
            if random.bool(0.8) {
                crate::archive::sign(&mut archive[block * 512..][..512]);
            }
        }
        let options = *random.pick(OPTIONS);
        let output = place.extract(Path::new(env!("CARGO_BIN_EXE_dio")), &archive, options, false);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(
            !told.contains("panicked") && output.status.code().is_some(),
            "round {round} of {name} {options:?}: {told}"
        );
        assert_eq!(
            before,
            strict(&place.path("out")),
            "round {round} of {name} {options:?}: {told}"
        );
    }
}

fn random_set<'a>(sets: &[&'a [(&'a str, Make)]], round: u64) -> &'a [(&'a str, Make)] {
    sets[round as usize % sets.len()]
}
