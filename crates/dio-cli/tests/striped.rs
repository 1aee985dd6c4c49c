//! Every tool on a striped file is compared with the same tool on a plain file: output, status and
//! contents, byte for byte.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::striped_support::{Pair, dio, good, lines, script};
use dio_test::file_systems;
use serde_json::Value;

/// Distributes scripts over all file systems: each script runs on one of them.
fn by_turns(size: usize, scripts: &[&str]) {
    let pairs: Vec<Pair> = file_systems().iter().map(|fs| Pair::on(fs, &lines(size))).collect();
    scripts.iter().zip(pairs.iter().cycle()).for_each(|(text, pair)| pair.same(text));
}

#[test]
fn every_tool_reads_a_striped_file_as_a_plain_one() {
    by_turns(
        700_000,
        &[
            "cat file",
            "cat -n file file | md5sum",
            "cat <file",
            "cksum file; md5sum file; sha256sum file; cksum -a sysv file",
            "md5sum file >sums; md5sum -c sums",
            "dd if=file bs=64K status=none",
            "dd if=file bs=1000 skip=17 count=33 status=none",
            "dd if=file iflag=skip_bytes,count_bytes skip=5001 count=100000 status=none | cat",
            "dd if=file ibs=777 obs=10000 conv=ucase status=none",
            "dd status=none <file",
            "tee copy <file | md5sum; cat copy",
            "split -b 100K file part.; cat part.* | md5sum",
            "split -n 3 file third.; cksum third.*",
            "split -l 1000 file lines.; cksum lines.*",
            "sort file",
            "sort -u -k2 file",
            "uniq -c file",
            "gzip -c file | gzip -d",
            "zstd -q -c file | zstd -d -c",
            "tar -cf - file | tar -xOf -",
            "tar -cf out.tar file; tar -df out.tar; tar -tf out.tar",
            "tar -Scf - file | tar -xOf -",
            "tar -czf - file | tar -xzOf -",
            "cp file copy; cat copy",
            "cp --verify file copy; cat copy",
            "cp --sparse=always file copy; cat copy",
            "cp -r . ../tree; cat ../tree/file; rm -r ../tree",
        ],
    );
}

#[test]
fn every_tool_writes_a_striped_file_as_a_plain_one() {
    by_turns(
        500_000,
        &[
            "cp ../contents file",
            "cp --verify ../contents file",
            "cp --mode direct ../contents file; cp --mode uncached ../contents file",
            "cp /etc/passwd file",
            "cp /dev/null file",
            "cat ../contents >|file.new; dd if=file.new of=file bs=64K status=none",
            "dd if=../contents of=file bs=100K status=none",
            "dd if=../contents of=file bs=1000 seek=333 conv=notrunc status=none",
            "dd if=../contents of=file bs=5000 seek=3 count=2 status=none",
            "dd if=/dev/zero of=file bs=4K seek=1000 count=0 status=none",
            "dd if=../contents of=file bs=64K oflag=append conv=notrunc status=none",
            "dd if=../contents of=file bs=64K conv=sparse,fsync status=none",
            "tee file <../contents | md5sum",
            "tee -a file <../contents | md5sum",
            "tee file file <../contents | wc -c",
            "cat ../contents >>file",
            "sort -o file ../contents",
            "sort -o file file",
            "uniq ../contents file",
            "tar -cf file -C .. contents; tar -rf file -C .. contents; tar -tf file; tar -xOf file",
            "cp ../contents file.c; split -b 10M --additional-suffix= file.c x; cp xaa file",
        ],
    );
}

#[test]
fn a_compressed_source_goes_with_all_of_its_objects() {
    let pair = Pair::on(&file_systems()[0], &lines(100_000));
    let objects = || fs::read_dir(pair.dir.join("a")).unwrap().count();
    let before = objects();
    for (pack, unpack, packed) in [("gzip", "gunzip", "file.gz"), ("zstd", "unzstd", "file.zst")] {
        let striped = pair.dir.join("striped");
        script(&striped, if pack == "zstd" { "zstd -q --rm file" } else { "gzip file" });
        assert!(objects() < before && !striped.join("file").exists());
        good(&striped, &[unpack, packed]);
        assert!(
            fs::read(striped.join("file")).unwrap() == fs::read(pair.dir.join("contents")).unwrap()
        );
        fs::remove_file(striped.join("file")).unwrap();
        pair.again();
    }
}

#[test]
fn stripes_are_set_shown_checked_and_removed() {
    for fs in file_systems() {
        let pair = Pair::on(&fs, &lines(500_000));
        let dir = &pair.dir;
        let shown = good(dir, &["stripe", "show", "--json", "striped/file"]);
        let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
        let size = fs::metadata(dir.join("contents")).unwrap().len();
        assert_eq!(shown[0]["bytes"], size);
        assert_eq!(
            (&shown[0]["stripe_bytes"], &shown[0]["stripe_count"]),
            (&(64 << 10).into(), &3.into())
        );
        let objects = shown[0]["objects"].as_array().unwrap();
        assert_eq!(
            objects.iter().map(|object| object["bytes"].as_u64().unwrap()).sum::<u64>(),
            size
        );
        let text = good(dir, &["stripe", "show", "striped/file"]).stdout;
        assert!(text.contains("stripes of 64 KiB over 3 objects"), "{text}");

        good(dir, &["stripe", "set", "-c", "5", "-t", "a", "-t", "b", "one", "two"]);
        let five: Value =
            serde_json::from_str(&good(dir, &["stripe", "show", "--json", "one", "two"]).stdout)
                .unwrap();
        assert_eq!(five[1]["objects"].as_array().unwrap().len(), 5);
        let object = PathBuf::from(five[1]["objects"][3]["path"].as_str().unwrap());
        fs::remove_file(&object).unwrap();
        let checked = dio(dir, &["stripe", "check", "one", "two"]);
        assert_eq!(checked.status.code(), Some(1));
        assert!(
            checked.stdout.contains("one: OK") && !checked.stdout.contains("two"),
            "{checked:?}"
        );
        assert!(
            checked.stderr.contains("is missing")
                && checked.stderr.contains(object.to_str().unwrap())
        );
        let refused = dio(dir, &["cat", "two"]);
        assert!(
            !refused.status.success() && refused.stderr.contains(object.to_str().unwrap()),
            "{refused:?}"
        );
        assert!(refused.stdout.is_empty());
        let removed = dio(dir, &["stripe", "rm", "one", "two", "striped/file"]);
        assert!(
            removed.status.code() == Some(1) && removed.stderr.contains(object.to_str().unwrap()),
            "{removed:?}"
        );
        assert!(dir.join("two").exists() && !dir.join("one").exists());
        assert_eq!(dio(dir, &["stripe", "rm", "--force", "two"]).status.code(), Some(1));
        good(dir, &["stripe", "orphans", "--rm", "--yes", "a", "b", "c"]);
        assert_eq!(
            ["a", "b", "c"].map(|name| fs::read_dir(dir.join(name)).unwrap().count()),
            [0; 3]
        );

        for wrong in [
            &["stripe", "show", "contents"][..],
            &["stripe", "rm", "contents"],
            &["stripe", "set", "-t", "a", "contents"],
            &["stripe", "set", "-t", "nowhere", "new"],
            &["stripe", "set", "-S", "5000", "-t", "a", "new"],
        ] {
            let output = dio(dir, wrong);
            assert_eq!(output.status.code(), Some(1), "{wrong:?}: {output:?}");
            assert!(output.stderr.starts_with("dio stripe: "), "{output:?}");
        }
        assert_eq!(dio(dir, &["stripe", "set", "new"]).status.code(), Some(2));
        assert!(!dir.join("new").exists());
    }
}

/// When a copy keeps owner, permissions and times, its objects get them too, so that the same users
/// may read the file and its objects.
#[test]
fn a_copy_with_all_attributes_gives_them_to_the_objects() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
    let pair = Pair::on(&file_systems()[0], &lines(50_000));
    let dir = &pair.dir;
    let source = dir.join("contents");
    fs::set_permissions(&source, fs::Permissions::from_mode(0o640)).unwrap();
    let other = rustix::process::geteuid().is_root();
    if other {
        chown(&source, Some(65_534), Some(65_534)).unwrap();
    }
    fs::File::options()
        .write(true)
        .open(&source)
        .unwrap()
        .set_modified(std::time::UNIX_EPOCH)
        .unwrap();
    good(dir, &["cp", "-p", "contents", "striped/file"]);
    for name in ["a", "b", "c"] {
        for object in fs::read_dir(dir.join(name)).unwrap() {
            let found = object.unwrap().metadata().unwrap();
            assert_eq!((found.mode() & 0o7777, found.mtime()), (0o640, 0));
            assert!(!other || found.uid() == 65_534);
        }
    }
    pair.same("md5sum file");
}

/// An atomic copy replaces a striped file by a new one with the same stripes; the old objects are
/// removed.
#[test]
fn an_atomic_copy_replaces_a_striped_file_by_one() {
    let pair = Pair::on(&file_systems()[0], &lines(100_000));
    let dir = &pair.dir;
    let before = dio::stripe::inspect(dir.join("striped/file")).unwrap().unwrap().descriptor;
    fs::write(dir.join("other"), lines(333_333)).unwrap();
    fs::write(dir.join("contents"), lines(333_333)).unwrap();
    good(dir, &["cp", "other", "plain/file"]);
    good(dir, &["cp", "--atomic", "other", "striped/file"]);
    pair.same("md5sum file");
    let after = dio::stripe::inspect(dir.join("striped/file")).unwrap().unwrap().descriptor;
    assert!(
        before.layout == after.layout && before.targets == after.targets && before.id != after.id
    );
    assert_eq!(["a", "b", "c"].map(|name| fs::read_dir(dir.join(name)).unwrap().count()), [1; 3]);
    assert_eq!(fs::read_dir(dir.join("striped")).unwrap().count(), 1);
    // A copy that fails because an object exists already leaves no file.
    good(dir, &["stripe", "set", "-t", "striped", "bad"]);
    let object = &dio::stripe::inspect(dir.join("bad")).unwrap().unwrap().objects[0].path;
    fs::write(object, lines(5000)).unwrap();
    assert_eq!(dio(dir, &["cp", "--atomic", "bad", "striped/file"]).status.code(), Some(1));
    fs::remove_file(object).unwrap();
    assert_eq!(["a", "b", "c"].map(|name| fs::read_dir(dir.join(name)).unwrap().count()), [1; 3]);
    pair.same("md5sum file");
}

/// Archives are extracted over striped files, and appended to in striped files, without harm to the
/// descriptor.
#[test]
fn archives_over_and_in_striped_files() {
    let pair = Pair::on(&file_systems()[0], &lines(100_000));
    let dir = &pair.dir;
    good(dir, &["tar", "-cf", "out.tar", "-C", "plain", "file"]);
    pair.same("tar --overwrite -xf ../out.tar; md5sum file");
    pair.same(
        "tar -cf file -C .. contents; tar -rf file -C .. contents; ! tar -rf file nowhere 2>&-; \
         tar -tf file",
    );
    let objects = || ["a", "b", "c"].map(|name| fs::read_dir(dir.join(name)).unwrap().count());
    assert_eq!(objects(), [1; 3]);
    good(dir, &["tar", "-xf", "out.tar", "-C", "striped"]);
    assert_eq!(objects(), [0; 3], "it was replaced");
    assert!(fs::read(dir.join("striped/file")).unwrap() == fs::read(dir.join("contents")).unwrap());
}

/// Programs append at the same time, in many small pieces and in few large ones: no byte is lost.
#[test]
fn who_append_at_the_same_time_overwrite_nothing() {
    for fs in file_systems() {
        let pair = Pair::on(&fs, b"start");
        let text = r#"
            for letter in a b c; do
                for n in $(seq 8); do head -c 20001 /dev/zero | tr '\0' $letter | tee -a file >/dev/null; done &
                head -c 4000007 /dev/zero | tr '\0' $letter >big.$letter; cat big.$letter >>file &
            done
            wait; rm big.*"#;
        let (_, status, told) = script(&pair.dir.join("striped"), text);
        assert_eq!((status, String::from_utf8_lossy(&told).as_ref()), (Some(0), ""), "{}", fs.name);
        good(&pair.dir, &["cp", "striped/file", "back"]);
        let found = fs::read(pair.dir.join("back")).unwrap();
        assert!(found.starts_with(b"start"));
        for letter in *b"abc" {
            let count = found.iter().skip(5).filter(|byte| **byte == letter).count();
            assert_eq!(count, 8 * 20_001 + 4_000_007, "{}: {}", fs.name, char::from(letter));
        }
        good(&pair.dir, &["stripe", "check", "striped/file"]);
    }
}

/// Every operation that removes or replaces the name of a striped file also removes its objects. A
/// copy of its descriptor is not accepted as a source for the file.
#[test]
fn what_is_removed_or_replaced_leaves_no_object() {
    let pair = Pair::on(&file_systems()[0], &lines(100_000));
    let (dir, striped) = (&pair.dir, pair.dir.join("striped"));
    let objects = || ["a", "b", "c"].map(|name| fs::read_dir(dir.join(name)).unwrap().count());
    fs::write(dir.join("other"), "other").unwrap();
    std::os::unix::fs::symlink("nowhere", dir.join("symlink")).unwrap();
    let mut ways = vec![
        "cp --remove-destination ../other file; cmp file ../other",
        "cp -lf ../other file; cmp file ../other",
        "cp -Pf ../symlink file; test $(readlink file) = nowhere",
        "cp -Rf ../symlink file; test $(readlink file) = nowhere",
        "ln ../other one; ln ../other two; rm ../made -rf; mkdir ../made; mv file ../made/two; cp \
         -d --preserve=links one two ../made; cmp ../made/two ../other; touch file",
        "mkdir in; mv file in; tar -cf ../out.tar --remove-files in; test ! -e in; tar -tf \
         ../out.tar",
    ];
    if !rustix::process::geteuid().is_root() {
        // Root can write to the file in spite of its permissions.
        ways.push("chmod 444 file; cp -f ../other file; cmp file ../other");
    }
    for way in ways {
        let (said, status, told) = script(&striped, &format!("set -e; {way}"));
        assert_eq!(
            status,
            Some(0),
            "{way}: {} {}",
            String::from_utf8_lossy(&said),
            String::from_utf8_lossy(&told)
        );
        assert_eq!(objects(), [0; 3], "{way}");
        pair.again();
    }
    fs::copy(striped.join("file"), striped.join("copy")).unwrap();
    for refused in ["--remove-destination", "--force", "--link", "--atomic"] {
        let output = dio(&striped, &["cp", refused, "copy", "file"]);
        assert!(
            output.status.code() == Some(1) && output.stderr.contains("are the same file"),
            "{refused}: {output:?}"
        );
    }
    assert_eq!(objects(), [1; 3]);
    pair.same("md5sum file");
}

/// The resident pages of a striped file are those of its objects.
#[test]
fn pages_of_all_objects_are_counted_and_dropped() {
    let systems = file_systems();
    let Some(system) = systems.iter().find(|fs| fs.name == "ext4") else { return };
    let pair = Pair::on(system, &lines(3_000_000));
    let dir = &pair.dir;
    good(dir, &["cat", "--mode", "cached", "striped/file"]);
    let shown = |more: &[&str]| -> Value {
        let args = [&["cache", "--json", "striped/file"][..], more].concat();
        serde_json::from_str(&good(dir, &args).stdout).unwrap()
    };
    let size = fs::metadata(dir.join("contents")).unwrap().len();
    let before = shown(&[]);
    assert!(before["files"][0]["resident_pages"].as_u64().unwrap() >= size / 4096, "{before}");
    assert!(before["files"][0]["bytes"].as_u64().unwrap() >= size);
    let after = shown(&["--evict"]);
    assert_eq!(after["files"][0]["resident_pages"], 0, "{after}");
}

/// Digests of objects detect damage that their headers do not show.
#[test]
fn digests_tell_changed_bytes_by_the_object() {
    let pair = Pair::on(&file_systems()[0], &lines(700_000));
    let dir = &pair.dir;
    good(dir, &["stripe", "check", "--record", "list", "striped/file"]);
    assert_eq!(fs::read_to_string(dir.join("list")).unwrap().lines().count(), 3);
    let checked = good(dir, &["stripe", "check", "--digests", "list", "striped/file"]);
    assert_eq!(checked.stdout, "striped/file: OK\n");
    let object = &dio::stripe::inspect(dir.join("striped/file")).unwrap().unwrap().objects[1].path;
    let changed = fs::OpenOptions::new().write(true).open(object).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&changed, b"~", 100_000).unwrap();
    good(dir, &["stripe", "check", "striped/file"]);
    let checked = dio(dir, &["stripe", "check", "--digests", "list", "striped/file"]);
    assert!(checked.status.code() == Some(1) && checked.stdout.is_empty(), "{checked:?}");
    let told =
        format!("object 1, '{}' does not hold the bytes that were recorded", object.display());
    assert!(checked.stderr.contains(&told) && checked.stderr.lines().count() == 1, "{checked:?}");
    fs::write(dir.join("list"), "").unwrap();
    let checked = dio(dir, &["stripe", "check", "--digests", "list", "striped/file"]);
    assert!(
        checked.status.code() == Some(1) && checked.stderr.contains("not in the list"),
        "{checked:?}"
    );
}

/// The creation of a striped file is killed at a random moment. Then the name is free, or is that
/// of the empty file or of the whole striped file; and all objects that are left are found.
#[test]
fn a_killed_creation_leaves_the_name_as_it_was_or_the_file() {
    let pair = Pair::on(&file_systems()[0], b"");
    let dir = &pair.dir;
    for round in 0..16u64 {
        let empty = round % 2 == 0;
        if empty {
            fs::write(dir.join("new"), "").unwrap();
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_dio"));
        let mut running =
            command.args(["stripe", "set", "-t", "a,b,c", "new"]).current_dir(dir).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_micros(400 * round * (1 + round / 4)));
        running.kill().unwrap();
        running.wait().unwrap();
        match fs::metadata(dir.join("new")) {
            Err(_) => assert!(!empty, "round {round}: the empty file is gone"),
            Ok(found) if found.len() == 0 => fs::remove_file(dir.join("new")).unwrap(),
            Ok(_) => {
                good(dir, &["stripe", "check", "new"]);
                good(dir, &["stripe", "rm", "new"]);
            }
        }
    }
    good(dir, &["stripe", "orphans", "--age", "0", "--heads", ".", "--rm", "--yes", "a", "b", "c"]);
    // The objects of the pair's own file.
    assert_eq!(["a", "b", "c"].map(|name| fs::read_dir(dir.join(name)).unwrap().count()), [1; 3]);
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = names.filter(|name| name.as_encoded_bytes().starts_with(b".dio-")).collect();
    assert!(left.is_empty(), "{left:?}");
    good(dir, &["stripe", "check", "striped/file"]);
}

#[test]
fn a_directory_gives_stripes_to_new_files() {
    for fs in file_systems() {
        let pair = Pair::on(&fs, &lines(300_000));
        let (dir, new) = (&pair.dir, pair.dir.join("new"));
        fs::create_dir(&new).unwrap();
        fs::write(new.join("old"), "old").unwrap();
        good(dir, &["stripe", "set", "-S", "8K", "-c", "3", "-t", "a,b", "new"]);
        let shown = good(dir, &["stripe", "show", "new"]).stdout;
        assert!(
            shown.contains("stripes of 8.0 KiB over 3 objects") || shown.contains("8 KiB over 3"),
            "{shown}"
        );
        let made = "cp ../contents copied; cp ../contents . ; tee teed <../contents >../out; cp ../contents old
            dd if=../contents of=written bs=64K status=none; sort -o sorted ../contents
            cp -r ../plain tree
            cp --atomic ../contents atomic; uniq ../contents unique; split -n 1 ../contents piece.
            cp ../contents packed; gzip packed; cp ../contents zpacked; zstd -q --rm zpacked
            tar -cf archive ../contents 2>&-
            tar -cf ../in.tar -C .. contents --transform s/contents/extracted/ 2>&- || tar -cf ../in.tar -C ../plain file
            tar -xf ../in.tar";
        let (_, status, told) = script(&new, made);
        assert_eq!((status, told), (Some(0), Vec::new()));
        for name in ["sorted", "unique", "packed.gz", "zpacked.zst", "archive"] {
            let report = dio::stripe::inspect(new.join(name)).unwrap();
            assert!(report.is_some_and(|report| report.is_sound() && !report.copy), "{name}");
        }
        good(&new, &["gunzip", "packed.gz"]);
        good(&new, &["unzstd", "-q", "--rm", "zpacked.zst"]);
        let extracted = if new.join("extracted").exists() { "extracted" } else { "file" };
        for name in [
            "copied", "contents", "teed", "written", "atomic", "piece.aa", "packed", "zpacked",
            extracted,
        ] {
            let report = dio::stripe::inspect(new.join(name)).unwrap();
            assert!(
                report.is_some_and(
                    |report| report.is_sound() && report.descriptor.layout.stripe() == 8192
                ),
                "{name}"
            );
            good(dir, &["cp", &format!("new/{name}"), "back"]);
            assert!(
                fs::read(dir.join("back")).unwrap() == fs::read(dir.join("contents")).unwrap(),
                "{name}"
            );
        }
        for name in ["old", "tree/file"] {
            assert!(
                fs::read(new.join(name)).unwrap() == fs::read(dir.join("contents")).unwrap(),
                "{name} is ordinary"
            );
        }
        good(dir, &["stripe", "rm", "new"]);
        good(dir, &["cp", "contents", "new/plain"]);
        assert!(dio::stripe::inspect(new.join("plain")).unwrap().is_none());
        assert_eq!(dio(dir, &["stripe", "show", "new"]).status.code(), Some(1));
    }
}
