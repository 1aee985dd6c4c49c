//! Proves what `dio tar -c` promises beyond GNU's words: it ends well on full disks and signals,
//! removes only what it archived, leaves no page behind, and needs little memory.

use crate::tar_create::{same_words, seen, set_up, shell, tree};
use dio_test::{MemoryGroup, file_systems, random_file, resident_pages};
use std::fs;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

#[test]
fn closed_pipes_and_full_disks_end_it() {
    let dir = tree(&file_systems()[0].path);
    let closed =
        shell(dir.path(), "tar -c t | head -c 100 > /dev/null; echo ${PIPESTATUS[0]}", true)
            .output()
            .unwrap();
    assert_eq!((closed.stdout, closed.stderr), (b"141\n".to_vec(), Vec::new()));
    let full = seen(dir.path(), "tar -cf /dev/full t", true);
    assert_eq!(full.status, Some(2));
    assert!(
        full.err.starts_with("tar: /dev/full: Cannot write: No space left on device\n"),
        "{full:?}"
    );
    for flags in ["-czf", "-I cat -cf"] {
        let packed = seen(dir.path(), &format!("tar {flags} /dev/full t"), true);
        assert_eq!((packed.status, &packed.err), (Some(2), &full.err), "{flags}");
    }
    same_words(
        dir.path(),
        "tar -cf $A -I 'sh -c \"exit 3\"' t 2>&1 | tail -n 2; echo ${PIPESTATUS[0]}",
    );
}

#[test]
fn a_signal_takes_the_archive_away() {
    let dir = file_systems()[0].dir();
    set_up(dir.path(), "mkdir t; head -c 3000000 /dev/urandom > t/file");
    for flags in ["-cwf", "-cwzf", "-I cat -cwf"] {
        let mut tar = shell(dir.path(), &format!("exec tar {flags} archive t"), true);
        let mut tar = tar.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // tar waits for an answer.
        let mut question = [0; 8];
        tar.stdout.as_mut().unwrap().read_exact(&mut question).unwrap();
        assert_eq!(&question, b"add 't'?");
        assert!(dir.path().join("archive").exists());
        rustix::process::kill_process(
            rustix::process::Pid::from_child(&tar),
            rustix::process::Signal::INT,
        )
        .unwrap();
        std::io::Write::write_all(tar.stdin.as_mut().unwrap(), b"y\ny\n").unwrap();
        let status = tar.wait().unwrap();
        assert_eq!(status.signal(), Some(2), "{status:?}");
        assert!(!dir.path().join("archive").exists());
    }
    // The compressor gets the signal too, as from a terminal, and ends first.
    let mut tar =
        shell(dir.path(), "exec tar -cf archive -I 'sh -c \"kill -INT $PPID; exit 1\"' t", true);
    let status = tar.stderr(Stdio::null()).status().unwrap();
    assert_eq!(status.signal(), Some(2), "{status:?}");
    assert!(!dir.path().join("archive").exists());
}

#[test]
fn only_what_was_archived_is_removed() {
    let dir = file_systems()[0].dir();
    set_up(dir.path(), "echo a > a; echo b > b; echo c > c");
    let mut tar = shell(dir.path(), "exec tar -cwf archive --remove-files a b c", true);
    let mut tar =
        tar.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut answers, mut questions) = (tar.stdin.take().unwrap(), tar.stdout.take().unwrap());
    let mut asked = |question: &str| {
        let mut text = vec![0; question.len()];
        questions.read_exact(&mut text).unwrap();
        assert_eq!(String::from_utf8_lossy(&text), question);
        std::io::Write::write_all(&mut answers, b"y\n").unwrap();
    };
    asked("add 'a'?");
    asked("add 'b'?");
    // Both files are in the archive when the last question comes, which waits for its answer.
    let mut last = [0; 8];
    questions.read_exact(&mut last).unwrap();
    set_up(dir.path(), "echo more >> a; rm b");
    std::io::Write::write_all(&mut answers, b"y\n").unwrap();
    let done = tar.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&done.stderr), "tar: a: file changed as we read it\n");
    assert_eq!(done.status.code(), Some(1));
    assert_eq!(fs::read_to_string(dir.path().join("a")).unwrap(), "a\nmore\n");
    assert!(!dir.path().join("b").exists() && !dir.path().join("c").exists());
}

#[test]
fn more_directories_than_descriptors_are_removed() {
    let dir = file_systems()[0].dir();
    // One more directory has a path longer than the system accepts in one call.
    let script = "mkdir t && cd t && mkdir $(seq 300) && for i in $(seq 300); do echo $i > $i/f; done
                  n=$(printf 'n%.0s' {1..200}); for i in {1..25}; do mkdir $n; cd $n; done; echo deep > f";
    set_up(dir.path(), script);
    let own = seen(
        dir.path(),
        "ulimit -n 100; tar -cf archive --remove-files t; echo $?; ls; tar -tf archive | wc -l",
        true,
    );
    assert_eq!((own.out.as_str(), own.err.as_str()), ("0\narchive\n627\n", ""));
}

#[test]
fn files_are_removed_when_the_archive_is_complete() {
    let dir = tree(&file_systems()[0].path);
    set_up(dir.path(), "cp -a t keep; tar -cf theirs t/dir");
    let own = seen(
        dir.path(),
        "tar -cf archive --remove-files t/dir t/a && ! ls -d t/dir t/a 2> /dev/null && \
         PATH=/usr/bin:/bin tar -xf archive && diff -r t/dir keep/dir",
        true,
    );
    assert_eq!((own.status, own.err.as_str()), (Some(0), ""));
    let unwritten = seen(
        dir.path(),
        "tar -cf /dev/full --remove-files t/dir 2> /dev/null; ls t/dir | wc -l",
        true,
    );
    assert_eq!(unwritten.out.trim(), seen(dir.path(), "ls keep/dir | wc -l", true).out.trim());
}

#[test]
fn no_page_stays_in_the_cache() {
    for fs in file_systems().iter().filter(|fs| ["host", "ext4", "xfs"].contains(&fs.name.as_str()))
    {
        let dir = fs.dir();
        let t = dir.path().join("t");
        fs::create_dir(&t).unwrap();
        let sizes = [1, 700, 30_000, 65_536, 65_537, 900_000, 3_000_001];
        for (i, size) in sizes.into_iter().enumerate() {
            random_file(t.join(format!("{i}")), size, i as u64);
        }
        set_up(dir.path(), "sync t/*");
        for i in 0..sizes.len() {
            let file = fs::File::open(t.join(format!("{i}"))).unwrap();
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        }
        let own = seen(dir.path(), "tar -cf archive t --receipt=receipt; tar -czf packed t", true);
        assert_eq!((own.status, own.err.as_str()), (Some(0), ""));
        for (i, size) in sizes.iter().enumerate() {
            assert_eq!(resident_pages(t.join(format!("{i}"))), 0, "{} {size}", fs.name);
        }
        for archive in ["archive", "packed"] {
            assert_eq!(resident_pages(dir.path().join(archive)), 0, "{} {archive}", fs.name);
        }
        let receipt = fs::read_to_string(dir.path().join("receipt")).unwrap();
        let total: u64 = sizes.iter().sum();
        assert!(receipt.contains(&format!("\"bytes_read\": {total},")), "{receipt}");
    }
}

#[test]
fn memory_is_bounded() {
    let Some(group) = MemoryGroup::new(160 << 20) else { return };
    let dir = file_systems()[0].dir();
    fs::create_dir(dir.path().join("t")).unwrap();
    for i in 0..40 {
        random_file(dir.path().join(format!("t/{i}")), 1 << 20, i);
    }
    random_file(dir.path().join("t/large"), 300 << 20, 99);
    let script = format!(
        "echo $$ > {}; tar -cf archive t && tar -czf packed t/1 t/2 && PATH=/usr/bin:/bin tar -df \
         archive",
        group.procs().display()
    );
    let own = seen(dir.path(), &script, true);
    assert_eq!((own.status, own.err.as_str()), (Some(0), ""));
}
