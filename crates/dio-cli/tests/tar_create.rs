//! `dio tar -c` against the system's tar: the same command in the same tree must lead to the same
//! archive, messages and status.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::gnu::links;
use dio_test::{Seed, file_systems, random_file, skip};
use tempfile::TempDir;

/// A shell in `dir` in which `tar` is dio's or the system's.
pub(crate) fn shell(dir: &Path, script: &str, ours: bool) -> Command {
    let path = std::env::var("PATH").unwrap();
    let path = if ours { format!("{}:{path}", links(&["tar"]).display()) } else { path };
    let mut bash = Command::new("bash");
    bash.args(["-c", script])
        .current_dir(dir)
        .env("PATH", path)
        .env("LC_ALL", "C")
        .env_remove("TAPE");
    bash
}

/// The outcome of a command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) status: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

pub(crate) fn seen(dir: &Path, script: &str, ours: bool) -> Seen {
    let output = shell(dir, script, ours).stdin(Stdio::null()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    // dio has no --usage.
    let err = text(&output.stderr).replace(" or 'tar --usage'", "");
    Seen { status: output.status.code(), out: text(&output.stdout), err }
}

pub(crate) fn set_up(dir: &Path, script: &str) {
    let done = shell(dir, &format!("set -e; {script}"), false).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// A tree with files of every kind. All of it is read once, so that later reads do not change its
/// access times.
const TREE: &str = r#"
mkdir -p t/dir/sub t/none t/cache t/.git; echo a > t/a; echo b > t/dir/b
head -c 3000 /dev/urandom > t/dir/sub/c
: > t/empty; head -c 512 /dev/urandom > t/block; head -c 300000 /dev/urandom > t/mid
head -c 5000001 /dev/urandom > t/large; ln t/a t/hard; ln t/a t/dir/hard; ln -s a t/sym
ln -s nowhere t/broken
ln -s dir t/todir; ln t/sym t/symhard; mkfifo t/fifo; chmod 4751 t/dir/b; chmod 1777 t/none
truncate -s 6M t/hole; printf x | dd of=t/hole bs=1 seek=2000000 conv=notrunc status=none
truncate -s 70000 t/allhole
printf 'Signature: 8a477f597d28d172789f06886806bc55\n' > t/cache/CACHEDIR.TAG
echo cached > t/cache/x; echo g > t/.git/config; echo o > t/dir/x.o; echo '~' > 't/back~'
echo n > $'t/new\nline'; echo u > $'t/\xff\xfe'; echo s > 't/with space'; echo c > 't/co:lon\x'
L=$(printf 'n%.0s' {1..120}); echo l > t/$L; ln -s $L$L$L t/longlink; D=t
for i in 1 2 3 4; do D=$D/d$L; mkdir $D; done
echo deep > "$D/x$L"; ln "$D/x$L" t/deephard; touch -d @1600000000.123456789 t/a; touch -d @-5 t/block; touch -d @1 t/dir
for i in 1 2 3; do find t -type f -exec cat {} + > /dev/null
ls -lR t > /dev/null; find t -type l -exec readlink {} + > /dev/null; done
echo list-a > list; printf 't/a\nt/dir\n' > list; printf 't/a\0-C t\0t/dir/b\0' > list0
printf '*.o\nt/none\n\n' > ex
"#;

pub(crate) fn tree(parent: &Path) -> TempDir {
    let dir = tempfile::tempdir_in(parent).unwrap();
    set_up(dir.path(), TREE);
    dir
}

/// Runs the command with both tars; `$A` is the archive. The messages must be the same, but the
/// archives may differ: dio makes none if the command cannot succeed.
pub(crate) fn same_words(dir: &Path, command: &str) {
    let run = |ours| seen(dir, &format!("A=archive; {command}"), ours);
    let (theirs, own) = (run(false), run(true));
    assert_eq!(own, theirs, "{command}");
    let _ = fs::remove_file(dir.join("archive"));
}

/// Runs the command with both tars; `$A` is the archive. Everything must be the same.
pub(crate) fn same(dir: &Path, command: &str) {
    let run = |archive: &str, ours| {
        let seen = seen(dir, &format!("A={archive}; {command}"), ours);
        (seen, fs::read(dir.join(archive)).ok())
    };
    let (theirs, archive) = run("archive", false);
    let _ = fs::rename(dir.join("archive"), dir.join("theirs"));
    let (own, own_archive) = run("archive", true);
    assert_eq!(own, theirs, "{command}");
    let place = archive
        .iter()
        .flatten()
        .zip(own_archive.iter().flatten())
        .position(|(one, other)| one != other);
    let lengths = (archive.as_ref().map(Vec::len), own_archive.as_ref().map(Vec::len));
    assert!(
        archive == own_archive,
        "{command}: lengths {lengths:?}, the first difference at {place:?}"
    );
    let _ = fs::remove_file(dir.join("archive"));
    let _ = fs::remove_file(dir.join("theirs"));
}

#[test]
fn archives_of_all_formats_are_those_of_gnu() {
    for fs in file_systems() {
        let dir = tree(&fs.path);
        for format in ["gnu", "oldgnu", "ustar", "v7", "pax"] {
            let pax =
                if format == "pax" { "--pax-option=exthdr.name=%d/PaxHeaders/%f" } else { "" };
            // Only GNU tar gets that option: it would otherwise write its process ID, which dio
            // never does.
            let script = format!(
                "P='{pax}'; [ -L \"$(command -v tar)\" ] && P=; tar -cf $A --format={format} $P"
            );
            let names = match format {
                // For the oldest format, GNU tar treats names of exactly 100 bytes as long names,
                // and dio does not. Every tar reads both.
                "oldgnu" => "t/dir t/large t/longlink t/hole t/allhole t/fifo",
                // GNU tar reports that it does not dump the link, but dumps a part of it.
                "ustar" | "v7" => "--exclude=longlink t",
                _ => "t",
            };
            same(dir.path(), &format!("{script} {names}"));
            if format != "pax" {
                same(dir.path(), &format!("{script} -S {names}"));
                continue;
            }
            // GNU tar puts its process ID into the names of sparse files.
            let script = "tar -cf archive --format=pax -S t/hole t/allhole && mkdir out && \
                          PATH=/usr/bin:/bin tar -xf archive -C out && cmp t/hole out/t/hole && \
                          cmp t/allhole out/t/allhole && [ $(stat -c %s archive) -lt 30000 ]";
            assert_eq!(
                seen(dir.path(), script, true),
                Seen { status: Some(0), out: String::new(), err: String::new() }
            );
        }
    }
}

#[test]
fn names_and_directories_are_those_of_gnu() {
    let dir = tree(&file_systems()[0].path);
    for command in [
        "tar cf $A t",
        "tar cvf $A t",
        "tar c t > $A",
        "tar cv t > $A",
        "tar -cvf $A t/ ./t/dir// t/dir/../a",
        "tar -cvf $A t/dir/b -C t a -C dir b -C sub c",
        "tar -cf $A -C t .",
        "tar -cf $A -C t -C dir . ../a",
        "tar -cf $A $PWD/t/dir $PWD/t/a",
        "tar -cPf $A $PWD/t/dir ../${PWD##*/}/t/a",
        "tar -cvf $A t/a t/a t/dir t/dir",
        "tar -cf $A nope t/a also-nope",
        "tar -cf $A ''",
        "tar -cf $A t/a -C t",
        "tar -cf $A t/a --exclude=x",
        "tar -cvf $A --no-recursion t t/dir",
        "tar -cvf $A --no-recursion t --recursion t/dir",
        "tar -cvf $A -T list",
        "tar -cvf $A --null -T list0",
        "tar -cvf $A --add-file=t/a",
        "tar -cvf $A 't/co:lon\\x' $'t/new\\nline' 't/new\\nline'",
        "tar -cvf $A --sort=name t",
        "tar -cvf $A --sort=inode t",
        "tar -cvf $A t/sym t/fifo t/none t/empty",
        "tar -cvhf $A t/sym t/todir t/dir",
        "tar -chf $A t/broken",
        "tar -cf $A --hard-dereference t",
        "tar -clf $A t/a t/dir",
        "tar -cvf $A --index-file=index t/a; cat index",
        "printf 't/a\\n-C t\\ndir/b\\0empty\\0' | tar -cvf $A -T -",
        "tar -cf $A --ignore-failed-read t/a nope",
        "printf 'y\\nn\\n' | tar -cwf $A t/a t/dir/b",
        "tar -cf $A --old-archive --format=gnu t/a",
        "tar -cf $A --posix --format=ustar t/a",
        "tar -cf $A --format=gnu --old-archive t/a",
        "tar -cf $A -o --format=gnu t/a",
    ] {
        same(dir.path(), command);
    }
}

#[test]
fn names_are_transformed_as_by_gnu() {
    let dir = tree(&file_systems()[0].path);
    for flags in [
        "--transform=s,^t,u,",
        r"--xform='s/[aeiou]\+/<&>/g' -v",
        "--transform='s/(d)i(r)/\\2-\\1/xg;s,$,.end,' --show-transformed-names -v",
        "--transform='flags=r;s,a,A,' --transform='s/b/B/g'",
        "--transform='s,^,/abs/,S' -P",
        "--transform='s,^,/abs/,H'",
        r"--transform='s/.*/\U&/Rh'",
        r"--transform='s,.*/\(.\),\u\1,'",
        "--transform='s,a|ar|hard,x,xi'",
        "--transform='s/^[^/]*\\///'",
    ] {
        same(
            dir.path(),
            &format!(
                "tar -cf $A --exclude=longlink {flags} t/a t/dir t/hard t/sym t/deephard t/empty"
            ),
        );
        let script = "tar -cf list0 t/a t/dir t/hard t/sym t/symhard; mkdir o; tar -xf list0 -C o";
        same(dir.path(), &format!("{script} {flags}; ls -R o; readlink o/*/sym; rm -rf o"));
    }
}

#[test]
fn exclusion_is_that_of_gnu() {
    let dir = tree(&file_systems()[0].path);
    for command in [
        "tar -cvf $A --exclude='*.o' t",
        "tar -cvf $A --exclude=t/dir t",
        "tar -cvf $A --exclude=dir/ t",
        "tar -cvf $A --anchored --exclude=dir --exclude='t/[ab]' t",
        "tar -cvf $A --no-wildcards --exclude='*.o' --wildcards --exclude='emp?y' t",
        "tar -cvf $A --no-wildcards-match-slash --exclude='t/*c' t",
        "tar -cvf $A --exclude='t/*c' t",
        "tar -cvf $A --ignore-case --exclude='DIR' t",
        "tar -cvf $A --exclude='{a,b}' --exclude='[[:digit:]]*' --exclude='?' t",
        "tar -cvf $A -X ex t",
        "tar -cvf $A --exclude-vcs t",
        "tar -cvf $A --exclude-backups t",
        "tar -cvf $A --exclude-caches t",
        "tar -cvf $A --exclude-caches-under t",
        "tar -cvf $A --exclude-caches-all t",
        "tar -cvf $A --exclude-tag=b t",
        "tar -cvf $A --exclude-tag-all=b t",
        "tar -cvf $A --one-file-system t",
        "tar -cf $A --newer-mtime=@1500000000 t/a t/block",
        "tar -cvf $A -N ./t/a t/a t/block",
    ] {
        same(dir.path(), command);
    }
}

#[test]
fn attributes_and_records_are_those_of_gnu() {
    let dir = tree(&file_systems()[0].path);
    for command in [
        "tar -cf $A --owner=nobody --group=root t/dir",
        "tar -cf $A --owner=some:77 --group=+78 t/dir",
        "tar -cf $A --owner=0 --group=0 --numeric-owner t/dir",
        "tar -cf $A --owner='no such one' t/dir",
        "tar -cf $A --mtime=@77 t",
        "tar -cf $A --mtime=@1600000000 --clamp-mtime t",
        "tar -cf $A --mtime='2020-01-02 03:04:05 UTC' t",
        "tar -cf $A --mtime=./t/a t",
        "tar -cf $A -b1 t/a",
        "tar -cf $A -b 40 t/a t/dir",
        "tar --record-size=5K -cf $A t/a",
        "tar cbf 3 $A t/a",
        "tar -cf $A --warning=no-file-ignored t",
        "tar -cf $A --totals t/a 2>&1 | sed 's/, .*//'",
    ] {
        same(dir.path(), command);
    }
}

#[test]
fn wrong_command_lines_are_told_in_the_words_of_gnu() {
    let dir = tree(&file_systems()[0].path);
    fs::write(dir.path().join("kept"), "kept").unwrap();
    for command in [
        "tar -cf kept",
        "tar -cf kept -b0 t",
        "tar -cf kept -bx t",
        "tar -cf kept --format=foo t",
        "tar -cf kept --sort=foo t",
        "tar -cf kept --xattrs --format=gnu t",
        "tar -cf kept --warning=foo t",
        "tar -cf kept --clamp-mtime t",
        "tar cfb kept",
        "tar -cf kept --strip-components=x t",
        "tar -czjf kept t",
        "tar -cf kept -f other t",
        "tar -cf nodir/archive t",
        "tar -cf t t",
    ] {
        same(dir.path(), command);
    }
    for command in [
        "tar -cf $A -C nope t",
        "tar -cf $A -T nope",
        "tar -cf $A -X nope t",
        "tar -cf nodir/archive t",
    ] {
        same_words(dir.path(), command);
    }
    assert_eq!(fs::read(dir.path().join("kept")).unwrap(), b"kept");
    // These messages are dio's own, because dio does not have all of GNU tar's operations.
    for command in ["tar", "tar -ct", "tar -cf kept --mtime=foo t", "tar -cf kept -C nope t"] {
        assert_eq!(seen(dir.path(), command, true).status, Some(2), "{command}");
    }
    assert_eq!(seen(dir.path(), "tar -cf kept --no-such t", true).status, Some(64));
    assert_eq!(fs::read(dir.path().join("kept")).unwrap(), b"kept");
}

#[test]
fn attributes_of_file_systems_are_kept() {
    for fs in file_systems() {
        let dir = fs.dir();
        let script = "mkdir -p x/d; echo f > x/f; ln -s f x/l; setfattr -n user.b -v 2 x/f && \
                      setfattr -n user.a -v 1 x/f && setfattr -n user.bin -v 0x00ff0a x/d && \
                      setfacl -m u:1:r,g:3:w x/f && setfacl -d -m u:1:rx x/d";
        if !shell(dir.path(), script, false).stderr(Stdio::null()).status().unwrap().success() {
            skip!("{} has no attributes", fs.name);
            continue;
        }
        set_up(dir.path(), "for i in 1 2 3; do cat x/f; ls -lR x; readlink x/l; done > /dev/null");
        let pax = "P=--pax-option=exthdr.name=%d/PaxHeaders/%f; [ -L \"$(command -v tar)\" ] && P=";
        for flags in [
            "--xattrs",
            "--acls",
            "--xattrs --acls",
            "--xattrs --xattrs-exclude='user.b*'",
            "--xattrs-include='user.?'",
        ] {
            same(dir.path(), &format!("{pax}; tar -cf $A $P {flags} x"));
        }
    }
}

#[test]
fn compressed_archives_hold_the_same() {
    let dir = tree(&file_systems()[0].path);
    set_up(dir.path(), "tar -cf plain t");
    let programs = [
        ("-z", "gzip -dc"),
        ("--zstd", "zstd -dc"),
        ("-I gzip", "gzip -dc"),
        ("-j", "bzip2 -dc"),
        ("-J", "xz -dc"),
    ];
    for (flag, decompress) in programs {
        let script = format!(
            "tar -cf packed {flag} t && {decompress} packed | cmp - plain && tar -tf packed > \
             /dev/null"
        );
        let own = seen(
            dir.path(),
            &format!(
                "{decompress} < /dev/null >/dev/null 2>&1; [ $? != 127 ] || exit 77; {script}"
            ),
            true,
        );
        if own.status == Some(77) {
            skip!("{decompress} is not there");
            continue;
        }
        assert_eq!((own.status, own.err.as_str()), (Some(0), ""), "{flag}");
    }
    for (name, magic) in
        [("a.tgz", &b"\x1f\x8b"[..]), ("a.tar.zst", b"\x28\xb5\x2f\xfd"), ("a.tar", b"t/\0")]
    {
        let own = seen(dir.path(), &format!("tar -caf {name} t"), true);
        assert_eq!((own.status, own.err.as_str()), (Some(0), ""), "{name}");
        assert!(fs::read(dir.path().join(name)).unwrap().starts_with(magic), "{name}");
    }
    let failed = seen(
        dir.path(),
        "tar -cf packed -I 'sh -c \"cat > /dev/null; exit 3\"' t; tar -cf packed -I nope t",
        true,
    );
    assert_eq!(failed.status, Some(2));
}

#[test]
fn the_archive_does_not_hold_itself() {
    let dir = tree(&file_systems()[0].path);
    set_up(dir.path(), ": > t/archive");
    for command in ["tar -cvf t/archive t/dir t/archive", "tar -cv t/dir t/archive > t/archive"] {
        let (theirs, own) = (seen(dir.path(), command, false), seen(dir.path(), command, true));
        assert_eq!(own, theirs);
        assert!(own.err.contains("t/archive: file is the archive; not dumped"), "{own:?}");
    }
}

#[test]
fn trees_of_chance_are_archived_and_extracted_the_same() {
    let dir = file_systems()[0].dir();
    let seed = Seed::new();
    let mut rng = seed.rng();
    let mut dirs = vec![dir.path().join("t")];
    fs::create_dir(&dirs[0]).unwrap();
    let mut files: Vec<PathBuf> = Vec::new();
    for i in 0..300 {
        let within = dirs[rng.range_usize(0..dirs.len())].clone();
        let path = within.join(format!("{i}{}", "x".repeat(rng.range_usize(0..90))));
        match rng.range(0..10) {
            0 => {
                fs::create_dir(&path).unwrap();
                dirs.push(path);
            }
            1 if !files.is_empty() => {
                fs::hard_link(&files[rng.range_usize(0..files.len())], &path).unwrap()
            }
            2 => {
                std::os::unix::fs::symlink("target".repeat(rng.range_usize(1..40)), &path).unwrap()
            }
            _ => {
                let most = [1, 513, 5_000, 70_000, 200_000, 1_500_000][rng.range_usize(0..6)];
                let length = rng.range_usize(0..most);
                fs::write(&path, rng.bytes(length)).unwrap();
                files.push(path);
            }
        }
    }
    same(dir.path(), "tar -cvf $A t");
    let script = "tar -cf archive t && mkdir out && PATH=/usr/bin:/bin tar -xf archive -C out && \
                  diff -r --no-dereference t out/t";
    assert_eq!(seen(dir.path(), script, true).status, Some(0));
}

#[test]
fn what_changes_while_it_is_read_is_told() {
    let dir = file_systems()[0].dir();
    // Files of sysfs have a size of one page but hold less.
    let script = "tar -cf $A /sys/kernel/mm/transparent_hugepage/enabled";
    if Path::new("/sys/kernel/mm/transparent_hugepage/enabled").exists() {
        same(dir.path(), script);
    }
    // A file that grows while a full pipe blocks tar.
    random_file(dir.path().join("grows"), 40 << 20, 1);
    let mut tar = shell(dir.path(), "exec tar -c grows", true)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = tar.stdout.take().unwrap();
    out.read_exact(&mut [0; 512]).unwrap();
    let mut file = fs::OpenOptions::new().append(true).open(dir.path().join("grows")).unwrap();
    std::io::Write::write_all(&mut file, b"more").unwrap();
    let mut rest = Vec::new();
    out.read_to_end(&mut rest).unwrap();
    let done = tar.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&done.stderr), "tar: grows: file changed as we read it\n");
    assert_eq!(done.status.code(), Some(1));
    assert_eq!((rest.len() + 512) % 10240, 0);
    // A file that shrinks.
    let mut tar = shell(dir.path(), "exec tar -c grows", true)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = tar.stdout.take().unwrap();
    out.read_exact(&mut [0; 512]).unwrap();
    file.set_len(1000).unwrap();
    let mut rest = Vec::new();
    out.read_to_end(&mut rest).unwrap();
    let done = tar.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(
        told.starts_with("tar: grows: File shrank by ")
            && told.ends_with(" bytes; padding with zeros\n"),
        "{told}"
    );
    assert_eq!((done.status.code(), (rest.len() + 512) % 10240), (Some(1), 0));
}
