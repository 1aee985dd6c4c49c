//! `dio tar -t`, `-r`, `-u` and `-A` against GNU tar: the output, the status, and the resulting
//! archives.

use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::gnu::links;
use dio_test::{TestFs, file_systems, skip};

/// A bash script in which `tar` is the system's or dio's; `gnutar` is always the system's.
fn bash(dir: &Path, script: &str, ours: bool) -> Command {
    let mut path = std::ffi::OsString::new();
    if ours {
        path.push(links(&["tar"]));
        path.push(":");
    }
    let system = std::env::var_os("PATH").unwrap();
    path.push(&system);
    let gnu =
        format!("gnutar() {{ PATH='{}' command tar \"$@\"; }}\n{script}", system.to_str().unwrap());
    let mut bash = Command::new("bash");
    bash.args(["-c", &gnu])
        .current_dir(dir)
        .env("PATH", path)
        .env("LC_ALL", "C")
        .env("TZ", "America/New_York");
    bash.env_remove("TAR_OPTIONS").env_remove("TAPE").stdin(Stdio::null());
    bash
}

fn run(dir: &Path, script: &str, ours: bool) -> Output {
    bash(dir, script, ours).output().unwrap()
}

fn show(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{:?}\n{}\n{}", output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// Removes the hint at `--usage`, which only GNU's argp has.
fn comparable(output: &Output) -> String {
    show(output).replace(" or 'tar --usage'", "")
}

fn assert_same(dir: &Path, script: &str) {
    let (gnu, dio) = (run(dir, script, false), run(dir, script, true));
    assert_eq!(comparable(&dio), comparable(&gnu), "{script}");
}

/// Makes a tree with all kinds of files, and archives of it in all formats.
fn archives(fs: &TestFs) -> tempfile::TempDir {
    let dir = fs.dir();
    let made = run(
        dir.path(),
        r"set -e
        mkdir -p t/d/e; echo hi > t/g; ln t/g t/hard; ln -s g t/soft; mkfifo t/pipe
        touch -d '2020-05-06 07:08:09.123456' t/f; touch -d 1960-01-01 t/old
        touch -d 2300-07-01 t/new
        touch t/$'a\nb' 't/x\y' 't/sp ace' t/q\'q t/é t/$(printf n%.0s {1..150})
        ln -s $(printf s%.0s {1..150}) t/long
        truncate -s 123456789012 t/sparse; echo x > t/exe; chmod 6644 t/exe; chmod 1777 t/d
        if [ $UID = 0 ]; then mknod t/chr c 1 3; mknod t/blk b 8 17; chown 12345:54321 t/g; fi
        for format in gnu pax oldgnu; do tar -S --format=$format --sort=name -cf $format.tar t; done
        tar -S --format=pax --numeric-owner --sort=name -cf numeric.tar t
        rm t/sparse
        for format in ustar v7; do tar --format=$format --sort=name -cf $format.tar t 2>/dev/null || true; done
        tar --format=gnu -V 'my label' -cf label.tar t/f
        tar --format=pax -V 'my label' -cf plabel.tar t/f
        head -c 2048 gnu.tar > cut.tar; head -c 1536 gnu.tar > clean.tar
        (head -c 1024 gnu.tar; head -c 512 /dev/zero; head -c 5120 /etc/passwd
        head -c 5120 /dev/zero) > lone.tar
        (head -c 1024 gnu.tar; yes | head -c 1024; tail -c +1025 gnu.tar) > torn.tar
        yes | head -c 2048 > nonsense.tar; : > empty.tar; printf x > one.tar
        cat gnu.tar gnu.tar > twice.tar",
        false,
    );
    assert!(made.status.success(), "{}", show(&made));
    dir
}

#[test]
fn lists_are_gnus_byte_for_byte() {
    let dir = archives(&file_systems()[0]);
    let all =
        "gnu pax oldgnu numeric ustar v7 label plabel cut clean lone torn nonsense empty one twice";
    for options in [
        "-tf",
        "-tvf",
        "-tvvf",
        "-tv --numeric-owner -f",
        "-tv --full-time -f",
        "-tv --utc -f",
        "-tv --full-time --utc -f",
        "-ti -vf",
        "-tv --acls -f",
        "-tv --xattrs -f",
        "-tv --acls --xattrs -f",
    ] {
        assert_same(
            dir.path(),
            &format!(
                "for name in {all}; do echo $name; tar {options} $name.tar; echo $?; done 2>&1"
            ),
        );
    }
    for options in ["-tRf", "-tRvf"] {
        let sound = "gnu pax oldgnu numeric ustar v7 label plabel clean lone";
        assert_same(
            dir.path(),
            &format!("for name in {sound}; do tar {options} $name.tar; echo $?; done 2>&1"),
        );
    }
}

#[test]
fn members_are_picked_as_gnu_picks_them() {
    let dir = archives(&file_systems()[0]);
    for options in [
        "-tf gnu.tar t/d",
        "-tf gnu.tar t/d t/nothing",
        "-tvf gnu.tar t/g t/f",
        "-tf gnu.tar --wildcards 't/*e'",
        "-tf gnu.tar --exclude=e --exclude='*n*'",
        "-tf gnu.tar --no-recursion t",
        "-tf - < gnu.tar",
        "-tvf gnu.tar nothing",
        "-tf twice.tar -i --occurrence=2 t/g",
        "-tf gnu.tar --strip-components=1 --show-transformed",
        "-tf gnu.tar --show-omitted-dirs t/g",
        "-tvf gnu.tar --index-file=index; cat index",
        "-tf nothing.tar",
    ] {
        assert_same(dir.path(), &format!("tar {options}"));
    }
    // GNU tar 1.34 shows that member alone, but its manual says that the list begins there.
    let from = run(dir.path(), "tar -tf gnu.tar -K \"t/q'q\" | head -n 2", true);
    assert_eq!(from.stdout, b"t/q'q\nt/soft\n", "{}", show(&from));
    let totals = "tar -t --totals -f gnu.tar 2>&1 >/dev/null | sed 's/, .*//'";
    assert_same(dir.path(), totals);
}

#[test]
fn attributes_are_listed() {
    let dir = file_systems()[0].dir();
    let made = run(
        dir.path(),
        "set -e; mkdir d; echo > d/f; echo > d/g; setfattr -n user.a -v 123 d/f; setfacl -m \
         u:root:r d/f; setfacl -d -m g:root:rx d; tar --acls --xattrs --sort=name -cf a.tar d",
        false,
    );
    if !made.status.success() {
        skip!("no attributes: {}", show(&made));
        return;
    }
    for options in [
        "-tvvf",
        "-tvv --acls -f",
        "-tvv --xattrs -f",
        "-tvv --acls --xattrs -f",
        "-tv --acls --xattrs -f",
    ] {
        assert_same(dir.path(), &format!("tar {options} a.tar"));
    }
}

/// Runs a script in two directories with the same contents, and compares the output and the
/// archives.
fn assert_same_archives(script: &str) {
    let fs = &file_systems()[0];
    let setup = "set -e
        mkdir -p d/e; for n in a b c e/f; do echo $n > d/$n; done; seq 20000 > d/large
        find d | xargs touch -d '2020-01-01 00:00:00'
        for format in gnu ustar; do tar --format=$format --sort=name -cf $format.tar d; done
        tar --format=pax --pax-option=delete=atime,delete=ctime --sort=name -cf pax.tar d
        tar -b1 -cf short.tar d/a d/b; head -c 2048 short.tar > unmarked.tar; : > empty.tar
        tar -cf other.tar d/a d/e
        tar -b1 -cf third.tar d/b; gzip -k third.tar
        touch -d '2020-01-01 00:00:00' *.tar";
    let mut left = Vec::new();
    for ours in [false, true] {
        let dir = fs.dir();
        let made = run(dir.path(), setup, false);
        assert!(made.status.success(), "{}", show(&made));
        let said = comparable(&run(dir.path(), script, ours));
        let mut files: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| path.extension().is_some_and(|extension| extension == "tar"));
        files.sort();
        let files: Vec<_> = files
            .iter()
            .map(|path| (path.file_name().unwrap().to_owned(), fs::read(path).unwrap()))
            .collect();
        left.push((said, files));
    }
    let (gnu, dio) = (&left[0], &left[1]);
    assert_eq!(dio.0, gnu.0, "{script}");
    for ((name, dio), (other, gnu)) in dio.1.iter().zip(&gnu.1) {
        assert_eq!(name, other, "{script}");
        let differs = dio.iter().zip(gnu).position(|(a, b)| a != b);
        assert!(
            dio == gnu,
            "{script}: {name:?}: {} bytes and {}, first different {differs:?}",
            dio.len(),
            gnu.len()
        );
    }
    assert_eq!(dio.1.len(), gnu.1.len(), "{script}");
}

#[test]
fn files_are_appended_as_gnu_appends_them() {
    for script in [
        "tar -rf gnu.tar d/a",
        "tar -rvf gnu.tar --sort=name d",
        "tar -rf ustar.tar d/b d/c",
        "tar -rvf short.tar d/large",
        "tar -rf unmarked.tar d/c; tar -tvf unmarked.tar; rm unmarked.tar",
        "tar -rf empty.tar d/c; tar -rf new.tar d/c",
        "tar -rf gnu.tar nothing; tar -tf gnu.tar",
        "tar -rf gnu.tar; tar -rf gnu.tar -b40 d/a",
        "tar -rf gnu.tar gnu.tar d/a 2>&1",
        "tar -rf - d/a; tar -uf - d/a; tar -Af - gnu.tar",
        "tar -rzf third.tar.gz d/a",
        "tar -rf third.tar.gz d/a",
    ] {
        assert_same_archives(script);
    }
}

#[test]
fn newer_files_are_added_as_gnu_adds_them() {
    for script in [
        "tar -uf gnu.tar d",
        "touch -d 2021-01-01 d/b; tar -uvf gnu.tar --sort=name d",
        "touch -d 2019-01-01 d/b; tar -uvf gnu.tar d/b",
        "echo new > d/z; touch -d 2021-01-01 d/z; mkdir d/y; touch -d 2021-01-01 d/y; tar -uvf \
         gnu.tar --sort=name d",
        "touch -d '2020-01-01 00:00:00.5' d/b; tar -uvf gnu.tar d/b",
        "tar -uvf empty.tar d/a",
    ] {
        assert_same_archives(script);
    }
}

#[test]
fn archives_are_concatenated() {
    let dir = file_systems()[0].dir();
    let script = "set -e; mkdir -p d/e s; seq 3000 > d/a; echo b > d/e/b; tar -cf one.tar d/a; tar -b1 -cf s/two.tar d/e
        gzip -k s/two.tar; tar --format=pax -cf three.tar d
        tar -Af one.tar -C s two.tar -C .. three.tar s/two.tar.gz
        for which in gnutar tar; do $which -tf one.tar; done
        mkdir out; gnutar -xf one.tar -C out; diff -r d out/d
        cp one.tar before; ! tar -Af one.tar nothing one.tar three.tar; cp three.tar last
        ! tar -Af last one.tar nonsense
        ! tar -Af one.tar s; gnutar -tf one.tar | tail -n 4 | head -n 1";
    let said = run(dir.path(), script, true);
    let two = "d/e/\nd/e/b\n";
    let all = format!("d/a\n{two}d/\nd/a\n{two}{two}");
    // The order of entries in a directory is not defined.
    let sorted = |text: &str| {
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert!(said.status.success(), "{}", show(&said));
    let listed = String::from_utf8(said.stdout.clone()).unwrap();
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(sorted(&lines[..9].join("\n")), sorted(&all), "{}", show(&said));
    assert_eq!(lines[..9], lines[9..18], "{}", show(&said));
    let err = String::from_utf8(said.stderr).unwrap();
    assert!(err.contains("tar: nothing: Cannot open: No such file or directory\n"), "{err}");
    assert!(err.contains("tar: one.tar: file is the archive; not dumped\n"), "{err}");
}

/// Waits until a condition holds.
fn wait_for(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Makes an archive with a few members, and a pipe on which tar waits when it reads names.
fn small_archive(dir: &Path) -> Vec<u8> {
    let made = run(
        dir,
        "set -e; mkdir d; seq 5000 > d/a; seq 9000 > d/b; tar -cf a.tar d; mkfifo names",
        false,
    );
    assert!(made.status.success(), "{}", show(&made));
    fs::read(dir.join("a.tar")).unwrap()
}

/// Starts a dio tar that appends a file much larger than the archive, and returns while it is
/// running.
fn append_much(dir: &Path, before: &[u8]) -> Child {
    let file = fs::File::create(dir.join("huge")).unwrap();
    // Holes are read as zeros and written as zeros.
    file.set_len(64 << 30).unwrap();
    let mut tar = bash(dir, "exec tar -rf a.tar huge", true);
    let child = tar.stderr(Stdio::piped()).process_group(0).spawn().unwrap();
    let grown = || fs::metadata(dir.join("a.tar")).unwrap().len() > before.len() as u64 + (8 << 20);
    wait_for("the archive grows", grown);
    child
}

#[test]
fn an_archive_survives_signals_and_death() {
    let fs = &file_systems()[0];
    for (signal, whole) in [("INT", true), ("TERM", true), ("KILL", false)] {
        let dir = fs.dir();
        let before = small_archive(dir.path());
        let mut child = append_much(dir.path(), &before);
        let kill = run(dir.path(), &format!("kill -{signal} {}", child.id()), false);
        assert!(kill.status.success());
        let status = child.wait().unwrap();
        assert!(status.signal().is_some(), "{signal}: {status:?}");
        if whole {
            assert!(fs::read(dir.path().join("a.tar")).unwrap() == before, "{signal}");
        } else {
            // Data behind the end mark is not part of the archive, and can be overwritten by
            // further members.
            let listed = run(dir.path(), "tar -tf a.tar 2>/dev/null | tr '\\n' ' '", false);
            assert_eq!(
                String::from_utf8_lossy(&listed.stdout).split(' ').count(),
                4,
                "{}",
                show(&listed)
            );
            let again = run(dir.path(), "tar -rf a.tar d/a && gnutar -tf a.tar | tail -n 1", true);
            assert_eq!(again.stdout, b"d/a\n", "{}", show(&again));
        }
    }
}

#[test]
fn an_archive_survives_what_goes_wrong() {
    let dir = file_systems()[0].dir();
    let before = small_archive(dir.path());
    fs::File::create(dir.path().join("huge")).unwrap().set_len(40 << 20).unwrap();
    let full = run(dir.path(), "trap '' XFSZ; ulimit -f 8192; tar -rf a.tar d/a huge", true);
    assert_eq!(full.status.code(), Some(2), "{}", show(&full));
    assert!(fs::read(dir.path().join("a.tar")).unwrap() == before, "{}", show(&full));
    // A file that is no archive is left unchanged.
    for (name, bytes) in [("text", b"just text\n".to_vec()), ("more", vec![b'x'; 3000])] {
        fs::write(dir.path().join(name), &bytes).unwrap();
        let refused = run(dir.path(), &format!("tar -rf {name} d/a"), true);
        assert_eq!(refused.status.code(), Some(2), "{}", show(&refused));
        assert!(
            show(&refused).contains("tar: This does not look like a tar archive\n"),
            "{}",
            show(&refused)
        );
        assert!(fs::read(dir.path().join(name)).unwrap() == bytes);
    }
    // So is an archive whose last member is cut off.
    fs::write(dir.path().join("cut"), &before[..1100]).unwrap();
    let refused = run(dir.path(), "tar -rf cut d/a", true);
    assert!(show(&refused).contains("tar: Unexpected EOF in archive\n"), "{}", show(&refused));
    assert!(fs::read(dir.path().join("cut")).unwrap() == before[..1100]);
}
