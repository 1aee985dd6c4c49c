//! Striped files below a mount: to every program they are ordinary files of their full size.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::mount_support::{Scene, until};
use dio_test::{MODES, Mounted, Rng, file_systems, run};
use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;

/// Runs a script that uses the system's own tools.
#[track_caller]
fn script(text: &str, source: &std::path::Path, at: &std::path::Path) -> String {
    let mut shell = Command::new("bash");
    let output = run(shell
        .args(["-ec", text])
        .env("S", source)
        .env("M", at)
        .env("DIO", env!("CARGO_BIN_EXE_dio")));
    assert!(output.status.success(), "{text}: {output:?}");
    output.stdout
}

/// Waits until these directories are empty: the kernel sends the release of a file to the server
/// after `close` has returned.
#[track_caller]
fn until_empty<const N: usize>(targets: [std::path::PathBuf; N]) {
    let left = || targets.iter().map(|target| fs::read_dir(target).unwrap().count()).sum::<usize>();
    until("objects to go", || left() == 0);
}

#[test]
fn tools_below_a_mount_leave_the_default_of_a_directory_to_the_server() {
    if Scene::new().is_none() {
        return;
    }
    let scratch = file_systems()[0].dir();
    let (dir, source) = (scratch.path(), scratch.path().join("source"));
    ["a", "b", "source"].iter().for_each(|name| fs::create_dir(dir.join(name)).unwrap());
    script(
        "cd $S/..; $DIO stripe set -S 64K -t a,b source; seq 100000 > bytes; gzip -k bytes",
        &source,
        &source,
    );
    let mounted = Mounted::new(env!("CARGO_BIN_EXE_dio"), &source, "cio");
    let text = "cd $S/..; $DIO cp bytes $M/copied; $DIO dd if=bytes of=$M/dd status=none; $DIO sort bytes -o $M/sorted
        $DIO tar -cf - bytes | $DIO tar -xf - -C $M; $DIO cp --atomic bytes $M/atomic
        $DIO gzip -dc bytes.gz > $M/shell
        for name in copied dd bytes atomic shell; do cmp bytes $M/$name
        cmp bytes <($DIO cat $S/$name); done
        for name in copied dd sorted bytes atomic shell; do $DIO stripe check -q $S/$name; done";
    script(text, &source, mounted.path());
    let set = Command::new(env!("CARGO_BIN_EXE_dio"))
        .args(["stripe", "set", "-t"])
        .arg(dir.join("a"))
        .arg(mounted.path().join("new"))
        .output()
        .unwrap();
    let said = String::from_utf8(set.stderr).unwrap();
    assert!(set.status.code() == Some(1) && said.contains("below a mount of dio"), "{said}");
    assert!(!source.join("new").exists());
}

#[test]
fn programs_see_striped_files_as_ordinary_ones() {
    if Scene::new().is_none() {
        return;
    }
    // In native mode, direct I/O would go to the source file itself.
    for mode in MODES.into_iter().chain(["cio,native"]) {
        let scratch = file_systems()[0].dir();
        let (dir, source) = (scratch.path(), scratch.path().join("source"));
        ["a", "b", "c", "source"].iter().for_each(|name| fs::create_dir(dir.join(name)).unwrap());
        let bytes = Rng::new(7).bytes(1_234_567);
        fs::write(dir.join("bytes"), &bytes).unwrap();
        let set = r#"cd $S/..; $DIO stripe set -S 64K -t a,b,c source/file source/new"#;
        script(set, &source, &source);
        let mounted = Mounted::new(env!("CARGO_BIN_EXE_dio"), &source, mode);
        let (at, file) = (mounted.path(), mounted.path().join("file"));
        assert_eq!(fs::metadata(&file).unwrap().len(), 0);
        script("cat $S/../bytes > $M/file; sync -d $M/file; cmp $M/file $S/../bytes", &source, at);
        assert_eq!(fs::metadata(&file).unwrap().len(), bytes.len() as u64);
        script("dd if=$M/file iflag=direct bs=64K status=none | cmp - $S/../bytes", &source, at);
        script(
            "dd if=$S/../bytes of=$M/file oflag=direct conv=notrunc bs=64K count=3 status=none",
            &source,
            at,
        );
        script("cmp $M/file $S/../bytes", &source, at);
        script("touch -d 2001-02-03 $M/file; chmod 640 $M/file", &source, at);
        assert_eq!(
            script(
                "stat -c '%a %.10y' $M/file; stat -c %a $S/../*/.dio-*.0 | sort -u",
                &source,
                at
            ),
            { "640 2001-02-03\n640\n644\n".to_owned() }
        );
        assert!(fs::metadata(&file).unwrap().blocks() * 512 >= bytes.len() as u64);
        script(
            "$DIO cp $S/file $S/../back; cmp $S/../back $S/../bytes; $DIO stripe check -q $S/file",
            &source,
            at,
        );
        let text = r#"cp $S/../bytes $M/new; cmp $M/new $M/file; ls -l $M/new | grep -q 1234567
            tail -c 1000 $M/file | cmp - <(tail -c 1000 $S/../bytes)
            echo more >> $M/new; truncate -s 1234000 $M/file; cp $M/file $M/plain
            cmp -n 1234000 $M/plain $S/../bytes
            dd if=$S/../bytes of=$M/file bs=1000 seek=2000 conv=notrunc status=none; stat -c %s $M/file"#;
        assert_eq!(script(text, &source, at), format!("{}\n", 2_000_000 + bytes.len()));
        let expected = [&bytes[..1_234_000], &[0; 766_000], &bytes].concat();
        assert!(fs::read(&file).unwrap() == expected, "{mode}");
        // Reads and writes of random parts, and reads as by a mapping.
        let open = File::options().read(true).write(true).open(&file).unwrap();
        open.write_all_at(&bytes[..100_001], 777_777).unwrap();
        let mut found = vec![0; 200_000];
        open.read_exact_at(&mut found, 700_000).unwrap();
        assert!(found[77_777..177_778] == bytes[..100_001], "{mode}");
        open.set_len(50_000).unwrap();
        let mut open = open;
        open.seek(SeekFrom::End(0)).unwrap();
        open.write_all(b"end").unwrap();
        open.sync_all().unwrap();
        assert_eq!(open.metadata().unwrap().len(), 50_003);
        // The open file remains usable. After its close, everything is gone.
        fs::remove_file(&file).unwrap();
        found.clear();
        open.seek(SeekFrom::Start(49_990)).unwrap();
        open.read_to_end(&mut found).unwrap();
        assert!(found == [&bytes[49_990..50_000], b"end"].concat(), "{mode}: {found:?}");
        drop(open);
        fs::rename(at.join("plain"), at.join("new")).unwrap();
        until_empty(["a", "b", "c"].map(|name| dir.join(name)));
        mounted.unmount();
    }
}

/// If an object is missing, opening the file fails; its name can still be listed, and removed.
#[test]
fn a_missing_object_is_an_error_of_opening() {
    let Some(_scene) = Scene::new() else { return };
    let scratch = file_systems()[0].dir();
    let (dir, source) = (scratch.path(), scratch.path().join("source"));
    ["a", "b", "source"].iter().for_each(|name| fs::create_dir(dir.join(name)).unwrap());
    script("cd $S/..; $DIO stripe set -t a,b source/file; rm b/.dio-*", &source, &source);
    let mounted = Mounted::new(env!("CARGO_BIN_EXE_dio"), &source, "dio");
    let file = mounted.path().join("file");
    assert!(file.metadata().is_ok());
    let error = File::options().read(true).write(true).open(&file).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{error}");
    // The target may only be temporarily away, so a removal removes either everything or nothing.
    fs::remove_file(&file).unwrap_err();
    assert_eq!(fs::read_dir(dir.join("a")).unwrap().count(), 1);
    mounted.unmount();
}

/// The objects are below the mount. The server accesses them directly and not through its own
/// mount, so it works however many of its threads are busy.
#[test]
fn objects_below_the_mount_are_reached_without_it() {
    let Some(_scene) = Scene::new() else { return };
    let scratch = file_systems()[0].dir();
    let (dir, source) = (scratch.path(), scratch.path().join("source"));
    ["source", "source/a", "source/b"]
        .iter()
        .for_each(|name| fs::create_dir_all(dir.join(name)).unwrap());
    let bytes = Rng::new(7).bytes(300_000);
    fs::write(dir.join("bytes"), &bytes).unwrap();
    script("cd $S; $DIO stripe set -S 64K -t a,b one two; $DIO cp ../bytes one", &source, &source);
    // The source is mounted over itself, so from then on names below it are names of the mount.
    let serve = ["mount", "-f", "-o", "cio", source.to_str().unwrap(), source.to_str().unwrap()];
    let mut server = Command::new(env!("CARGO_BIN_EXE_dio")).args(serve).spawn().unwrap();
    let mounted = || fs::metadata(source.join("one")).is_ok_and(|found| found.len() == 300_000);
    while !mounted() {
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert!(server.try_wait().unwrap().is_none());
    }
    let text = r#"for n in $(seq 40); do timeout 20 cmp $S/one $S/../bytes & done; wait
        timeout 20 cp $S/one $S/two; timeout 20 cmp $S/two $S/../bytes; timeout 20 rm $S/two
        timeout 20 $DIO stripe set -t $S/a,$S/b $S/a
        for n in $(seq 20); do timeout 20 cp $S/../bytes $S/a/new$n & done; wait
        for n in $(seq 20); do timeout 20 cmp $S/a/new$n $S/../bytes; done; ls -A $S/a $S/b | grep -c '^\.dio-.*\.[01]$'"#;
    let said = script(text, &source, &source);
    assert!(Command::new("umount").arg(&source).status().unwrap().success());
    assert!(server.wait().unwrap().success());
    assert_eq!(said, "42\n", "two objects of each file that is left");
    script(
        "for n in $(seq 20); do $DIO stripe check -q $S/a/new$n; $DIO stripe rm $S/a/new$n; done",
        &source,
        &source,
    );
}

/// Files that are made through the mount get the stripes that are set for their directory.
#[test]
fn files_made_through_a_mount_have_the_stripes_of_their_directory() {
    if Scene::new().is_none() {
        return;
    }
    for mode in MODES {
        let scratch = file_systems()[0].dir();
        let (dir, source) = (scratch.path(), scratch.path().join("source"));
        ["a", "b", "source", "source/dir"]
            .iter()
            .for_each(|name| fs::create_dir(dir.join(name)).unwrap());
        fs::write(dir.join("bytes"), Rng::new(7).bytes(300_000)).unwrap();
        script("cd $S/..; $DIO stripe set -S 64K -t a,b source/dir", &source, &source);
        let mounted = Mounted::new(env!("CARGO_BIN_EXE_dio"), &source, mode);
        // The check may report that the file is open for writing, because the server gets the
        // release of a file only after the program has continued.
        let text = r#"cp $S/../bytes $M/dir/one; cat $S/../bytes > $M/dir/two; touch $M/dir/three; cp $S/../bytes $M/plain
            cmp $M/dir/one $S/../bytes; cmp $M/dir/two $S/../bytes; ln $M/dir/one $M/dir/link
            mv $M/dir/one $M/dir/moved
            echo more >> $M/dir/moved
            $DIO stripe check -q $S/dir/two $S/dir/three $S/dir/moved >/dev/null; rm $M/dir/link
            ! $DIO stripe check -q $S/plain 2>/dev/null; cp -p $S/dir/two $S/dir/copy
            rm $M/dir/copy; cmp $M/dir/two $S/../bytes
            ( umask 077; set -C; echo text > $M/dir/private ); stat -c %a $M/dir/private; cat $M/dir/private"#;
        assert_eq!(script(text, &source, mounted.path()), "600\ntext\n", "{mode}");
        script("rm $M/dir/[a-z]*", &source, mounted.path());
        until_empty(["a", "b"].map(|name| dir.join(name)));
        mounted.unmount();
    }
}

/// A file whose name was removed, or was given to another file, remains an ordinary file for the
/// programs that have it open. Its bytes go when the last of them closes it.
#[test]
fn a_file_without_a_name_lasts_until_it_is_closed() {
    if Scene::new().is_none() {
        return;
    }
    for mode in MODES.into_iter().chain(["cio,native"]) {
        let scratch = file_systems()[0].dir();
        let (dir, source) = (scratch.path(), scratch.path().join("source"));
        ["a", "b", "source", "source/dir"]
            .iter()
            .for_each(|name| fs::create_dir(dir.join(name)).unwrap());
        script("cd $S/..; $DIO stripe set -S 64K -t a,b source/dir", &source, &source);
        let mounted = Mounted::new(env!("CARGO_BIN_EXE_dio"), &source, mode);
        let (path, plain) = (mounted.path().join("dir/file"), mounted.path().join("plain"));
        let bytes = Rng::new(7).bytes(300_000);
        let new =
            |path| File::options().read(true).write(true).create_new(true).open(path).unwrap();
        for replaced in [false, true] {
            let mut open = new(&path);
            if replaced {
                drop(new(&plain));
                fs::rename(&plain, &path).unwrap();
            } else {
                fs::remove_file(&path).unwrap();
            }
            open.write_all(&bytes).unwrap();
            let found = open.metadata().unwrap();
            assert_eq!((found.len(), found.nlink()), (300_000, 0), "{mode}");
            open.set_len(200_001).unwrap();
            assert_eq!(open.seek(SeekFrom::End(0)).unwrap(), 200_001, "{mode}");
            rustix::fs::fcntl_setfl(&open, OFlags::APPEND).unwrap();
            open.write_all(&bytes[200_001..]).unwrap();
            rustix::fs::fcntl_setfl(&open, OFlags::empty()).unwrap();
            rustix::fs::fallocate(&open, FallocateFlags::empty(), 300_000, 50_000).unwrap();
            open.sync_all().unwrap();
            assert_eq!(open.metadata().unwrap().len(), 350_000, "{mode}");
            let again = format!("/proc/self/fd/{}", open.as_raw_fd());
            let again = File::options()
                .read(true)
                .write(true)
                .custom_flags(OFlags::DSYNC.bits() as i32)
                .open(again)
                .unwrap();
            drop(open);
            again.write_all_at(b"more", 350_000).unwrap();
            let mut found = vec![1; 350_004];
            again.read_exact_at(&mut found, 0).unwrap();
            assert!(found == [&bytes[..], &[0; 50_000], b"more"].concat(), "{mode}");
            let objects = ["a", "b"].map(|name| fs::read_dir(dir.join(name)).unwrap().count());
            assert_eq!(objects, [1, 1], "{mode}: somebody has it open");
            drop(again);
            until_empty(["a", "b"].map(|name| dir.join(name)));
        }
        mounted.unmount();
    }
}

/// Programs append below the mount and beside it at the same time: no byte is lost.
#[test]
fn what_is_appended_below_and_beside_a_mount_is_all_there() {
    if Scene::new().is_none() {
        return;
    }
    for mode in MODES {
        let scratch = file_systems()[0].dir();
        let (dir, source) = (scratch.path(), scratch.path().join("source"));
        ["a", "b", "source"].iter().for_each(|name| fs::create_dir(dir.join(name)).unwrap());
        script("cd $S/..; $DIO stripe set -S 64K -t a,b source/file", &source, &source);
        let mounted = Mounted::new(env!("CARGO_BIN_EXE_dio"), &source, mode);
        let text = r#"
            some() { head -c 1000001 /dev/zero | tr '\0' $1; }
            some a | dd bs=7001 status=none >>$M/file & some b | dd bs=10000 status=none >>$M/file &
            some c | $DIO tee -a $S/file >/dev/null &
            for n in $(seq 10); do head -c 20001 /dev/zero | tr '\0' d | $DIO tee -a $S/file >/dev/null; done &
            wait; for letter in a b c d; do $DIO cat $S/file | tr -cd $letter | wc -c; done; stat -c %s $M/file"#;
        let said = script(text, &source, mounted.path());
        assert_eq!(
            said,
            format!("1000001\n1000001\n1000001\n200010\n{}\n", 3 * 1_000_001 + 200_010),
            "{mode}"
        );
        mounted.unmount();
    }
}

/// On a file system that other machines may share, opening a file truncates nothing: a writer on
/// another machine may be extending the file. An explicit repair truncates it.
#[test]
fn what_is_behind_the_end_stays_where_others_may_be_writing() {
    if Scene::new().is_none() {
        return;
    }
    let scratch = file_systems()[0].dir();
    let (dir, source) = (scratch.path(), scratch.path().join("source"));
    ["a", "b"].iter().for_each(|name| fs::create_dir_all(source.join(name)).unwrap());
    fs::write(dir.join("bytes"), Rng::new(7).bytes(50_000)).unwrap();
    let mounted = Mounted::new(env!("CARGO_BIN_EXE_dio"), &source, MODES[0]);
    let at = mounted.path();
    script("cd $S/..; $DIO stripe set -S 4K -t $M/a,$M/b file; $DIO cp bytes file", &source, at);
    // This is the state after an extension of which only one part has arrived.
    script("truncate -s +100000 $M/b/.dio-*", &source, at);
    let open = || {
        script(
            "cd $S/..; $DIO dd if=bytes of=file bs=4K count=1 conv=notrunc status=none",
            &source,
            at,
        )
    };
    let told = || script("cd $S/..; $DIO stripe check file", &source, at);
    open();
    assert!(told().contains("behind the end of the file"), "{}", told());
    let writer = dio::OpenOptions::new().write(true).open(dir.join("file")).unwrap();
    script(
        "cd $S/..; ! $DIO stripe check --repair file 2>said; grep -q 'open for writing' said",
        &source,
        at,
    );
    assert!(told().contains("behind the end of the file"), "{}", told());
    drop(writer);
    let repaired = script("cd $S/..; $DIO stripe check --repair file", &source, at);
    assert_eq!(repaired, "file: cut off at its end\nfile: OK\n");
    assert_eq!(told(), "file: OK\n");
    script("cd $S/..; $DIO cp file back; cmp back bytes", &source, at);
    script("cd $S/..; $DIO stripe rm file", &source, at);
    mounted.unmount();
}

/// The owner of a file may hold a lease on it (`fcntl(2)`), which the kernel breaks only after 45
/// seconds.
#[test]
fn a_lease_on_a_striped_file_keeps_nobody_waiting_who_looks_below_the_mount() {
    if Scene::new().is_none() {
        return;
    }
    let scratch = file_systems()[0].dir();
    let (dir, source) = (scratch.path(), scratch.path().join("source"));
    ["a", "b", "source"].iter().for_each(|name| fs::create_dir(dir.join(name)).unwrap());
    let set = r#"cd $S/..; for name in file other; do $DIO stripe set -t a,b source/$name; done
        for name in 1 2 3; do head -c 8171 /dev/zero > source/like$name; done"#;
    script(set, &source, &source);
    let mounted = Mounted::new(env!("CARGO_BIN_EXE_dio"), &source, MODES[0]);
    let at = mounted.path();
    let names = ["file", "like1", "like2", "like3"];
    let held: Vec<File> = names
        .iter()
        .map(|name| File::options().write(true).open(source.join(name)).unwrap())
        .collect();
    let take = |file: &File| dio_sys::take_lease(file.as_fd(), dio_sys::Lease::Everybody);
    if let Some(error) = held.iter().find_map(|file| dio_test::while_busy(|| take(file)).err()) {
        dio_test::skip!("no leases here: {error}");
        return;
    }
    for name in names {
        let begun = Instant::now();
        let error = fs::metadata(at.join(name)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::AGAIN.raw_os_error()), "{name}: {error}");
        assert!(begun.elapsed() < Duration::from_secs(3), "{name}: {:?}", begun.elapsed());
    }
    // One wait for the whole listing.
    let begun = Instant::now();
    assert_eq!(fs::read_dir(at).unwrap().map(Result::unwrap).count(), 5);
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    assert_eq!(fs::metadata(at.join("other")).unwrap().len(), 0);
    let removed = fs::remove_file(at.join("file")).unwrap_err();
    assert_eq!(removed.raw_os_error(), Some(Errno::AGAIN.raw_os_error()), "{removed}");
    drop(held);
    assert_eq!(fs::metadata(at.join("file")).unwrap().len(), 0);
    assert_eq!(fs::metadata(at.join("like1")).unwrap().len(), 8171);
    fs::remove_file(at.join("file")).unwrap();
    assert_eq!(fs::read_dir(dir.join("a")).unwrap().count(), 1);
}
