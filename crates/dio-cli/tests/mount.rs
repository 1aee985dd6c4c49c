//! Proves that `dio mount` mounts, serves and ends as users, mount(8) and service managers expect,
//! and that its messages say so. Other tests prove how files below a mount behave.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use dio_test::run;
use rustix::process::{Signal, kill_process};

use crate::mount_support::*;

#[test]
fn in_the_background_the_mount_answers_when_the_command_returns() {
    let Some(scene) = Scene::new() else { return };
    // Standard output and standard error end with the command; otherwise this would not return.
    good(&mut scene.mount("-o cio,threads=3"));
    assert_eq!(fs::read_to_string(scene.at.join("file")).unwrap(), "from the source\n");
    fs::write(scene.at.join("new"), "through the mount\n").unwrap();
    assert_ne!(scene.at.metadata().unwrap().dev(), scene.source.metadata().unwrap().dev());
    let findmnt =
        run(Command::new("findmnt").args(["-n", "-o", "SOURCE,FSTYPE,OPTIONS"]).arg(&scene.at));
    let shown: Vec<&str> = findmnt.stdout.split_whitespace().collect();
    assert_eq!(shown[..2], [scene.source.to_str().unwrap(), "fuse.dio"]);
    assert!(shown[2].contains("nosuid,nodev"), "{shown:?}");
    good(dio("umount", "").arg(&scene.at));
    assert!(!is_mounted(&scene.at));
    assert_eq!(fs::read_to_string(scene.source.join("new")).unwrap(), "through the mount\n");
}

#[test]
fn the_server_keeps_nothing_of_its_caller() {
    let Some(scene) = Scene::new() else { return };
    let script = r#"umask 077; cd "$1" && exec "$2" mount "$1" "$3" 9<"$1/file""#;
    let mut shell = Command::new("bash");
    shell
        .args(["-c", script, "bash"])
        .arg(&scene.source)
        .arg(env!("CARGO_BIN_EXE_dio"))
        .arg(&scene.at);
    good(&mut shell);
    let pid = server_of(&scene.at).as_raw_nonzero();
    let process = PathBuf::from(format!("/proc/{pid}"));
    assert_eq!(fs::read_link(process.join("cwd")).unwrap(), Path::new("/"));
    assert_eq!(fs::read_to_string(process.join("comm")).unwrap(), "dio\n");
    let status = fs::read_to_string(process.join("status")).unwrap();
    let umask = status.lines().find_map(|line| line.strip_prefix("Umask:")).unwrap();
    assert_eq!(umask.trim(), "0000");
    let stat = fs::read_to_string(process.join("stat")).unwrap();
    let session = stat.rsplit_once(") ").unwrap().1.split(' ').nth(3).unwrap();
    assert_eq!(session, pid.to_string(), "it leads a session of its own");
    for entry in fs::read_dir(process.join("fd")).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let to = fs::read_link(entry.path()).unwrap_or_default();
        assert_ne!(to, scene.source.join("file"), "descriptor {name} of the caller");
        assert!(
            !matches!(name.as_str(), "0" | "1" | "2") || to == Path::new("/dev/null"),
            "{name} -> {}",
            to.display()
        );
    }
    good(dio("umount", "").arg(&scene.at));
    until("the server ends", || has_ended(&process));
}

#[test]
fn in_the_foreground_signals_unmount() {
    let Some(scene) = Scene::new() else { return };
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut server = scene.foreground(&mut scene.mount("-f -v -o dio"));
        server.signal(signal);
        let output = server.take();
        assert!(output.status.success(), "{signal:?}: {output:?}");
        let told = format!(
            "dio mount: {} mounted on {}: mode=direct,",
            scene.source.display(),
            scene.at.display()
        );
        assert!(output.stdout.is_empty() && output.stderr.starts_with(&told), "{output:?}");
        assert_eq!(output.stderr.lines().count(), 1, "{output:?}");
        assert!(!is_mounted(&scene.at));
    }
}

/// The server uses as many descriptors as it may have. If these are too few, programs get an error,
/// and the log gets the reason, once.
#[test]
fn without_descriptors_left_programs_and_the_log_are_told() {
    let Some(scene) = Scene::new() else { return };
    let mut command = Command::new("sh");
    let mount = scene.mount("-f -o dio,threads=2");
    command
        .args(["-c", "ulimit -Sn 100; ulimit -Hn 200; exec \"$@\"", "sh"])
        .arg(mount.get_program());
    let mut server = scene.foreground(command.args(mount.get_args()).env("LC_ALL", "C.UTF-8"));
    let limits =
        fs::read_to_string(format!("/proc/{}/limits", server.pid().as_raw_nonzero())).unwrap();
    let limit = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    assert_eq!(limit.split_whitespace().collect::<Vec<_>>()[3..5], ["200", "200"]);
    for number in 0..300 {
        fs::write(scene.source.join(format!("f{number}")), "x").unwrap();
    }
    let open = |number: usize| File::open(scene.at.join(format!("f{number}")));
    let mut files = Vec::new();
    let error = (0..300)
        .find_map(|number| open(number).map(|file| files.push(file)).err())
        .expect("there is a limit");
    assert_eq!(error.raw_os_error(), Some(24), "EMFILE: {error}");
    assert!(files.len() >= 40, "only {}", files.len());
    assert!(open(299).is_err());
    files.clear();
    until("files can be opened again", || open(299).is_ok());
    server.signal(Signal::TERM);
    let output = server.take();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stderr.matches("may have 200 descriptors").count(), 1, "{output:?}");
}

#[test]
fn a_server_ends_well_when_others_unmount() {
    let Some(scene) = Scene::new() else { return };
    let mut server = scene.foreground(&mut scene.mount("-f"));
    good(Command::new("umount").arg(&scene.at));
    let output = server.take();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn a_busy_mount_stays_at_the_first_signal_and_is_detached_at_the_second() {
    let Some(scene) = Scene::new() else { return };
    let mut server = scene.foreground(&mut scene.mount("-f"));
    let mut file = File::open(scene.at.join("file")).unwrap();
    bad(dio("umount", "").arg(&scene.at), 32, &["dio umount: ", "target is busy", "dio umount -l"]);
    server.signal(Signal::TERM);
    let mut told = String::new();
    let stderr = server.0.as_mut().unwrap().stderr.as_mut().unwrap();
    let mut byte = [0];
    while !told.ends_with('\n') {
        stderr.read_exact(&mut byte).unwrap();
        told.push(char::from(byte[0]));
    }
    assert!(
        told.contains("target is busy: it stays mounted; a second signal detaches it"),
        "{told}"
    );
    assert!(is_mounted(&scene.at));
    assert_eq!(fs::read_to_string(scene.at.join("deep/file")).unwrap(), "from below\n");

    server.signal(Signal::TERM);
    until("it is detached", || !is_mounted(&scene.at));
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "from the source\n");
    assert!(!server.is_over(), "a file is open");
    drop(file);
    let output = server.take();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn one_more_signal_ends_a_server_whose_mount_is_detached_and_in_use() {
    let Some(scene) = Scene::new() else { return };
    let mut server = scene.foreground(&mut scene.mount("-f"));
    let mut file = File::options().append(true).open(scene.at.join("file")).unwrap();
    server.signal(Signal::TERM);
    // Both signals may be caught before the first is handled.
    std::thread::sleep(std::time::Duration::from_millis(100));
    server.signal(Signal::TERM);
    until("it is detached", || !is_mounted(&scene.at));
    assert!(!server.is_over(), "a file is open");
    server.signal(Signal::TERM);
    let output = server.take();
    assert!(output.stderr.contains("with one more signal at once"), "{output:?}");
    assert!(output.stderr.contains("what was not synced may be lost"), "{output:?}");
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&output.status),
        Some(15),
        "{output:?}"
    );
    // ENOTCONN, or another error of the kernel for a request whose server is just ending
    // (docs/mount.md).
    let error = file.write(b"x").unwrap_err().raw_os_error();
    assert!([Some(107), Some(103), Some(125)].contains(&error), "{error:?}");
}

#[test]
fn umount_detaches_what_is_in_use_if_told_to() {
    let Some(scene) = Scene::new() else { return };
    good(&mut scene.mount("-o cio"));
    let process = PathBuf::from(format!("/proc/{}", server_of(&scene.at).as_raw_nonzero()));
    let mut file = File::options().append(true).open(scene.at.join("file")).unwrap();
    good(dio("umount", "-l").arg(&scene.at));
    assert!(!is_mounted(&scene.at) && !has_ended(&process));
    file.write_all(b"still written\n").unwrap();
    file.sync_all().unwrap();
    drop(file);
    until("the server ends", || has_ended(&process));
    assert_eq!(
        fs::read_to_string(scene.source.join("file")).unwrap(),
        "from the source\nstill written\n"
    );
}

#[test]
fn a_mount_whose_server_was_killed_can_be_unmounted() {
    let Some(scene) = Scene::new() else { return };
    for unmount in ["dio umount", "umount"] {
        good(&mut scene.mount(""));
        kill_process(server_of(&scene.at), Signal::KILL).unwrap();
        until("the kernel knows", || {
            fs::metadata(&scene.at)
                .is_err_and(|error| error.raw_os_error() == Some(107 /* ENOTCONN */))
        });
        let cure = format!("dio umount {}", scene.at.display());
        bad(&mut scene.mount(""), 32, &["server is gone", &cure]);
        match unmount {
            "umount" => good(Command::new("umount").arg(&scene.at)),
            _ => good(dio("umount", "").arg(&scene.at)),
        }
        assert!(!is_mounted(&scene.at));
    }
    good(&mut scene.mount(""));
    good(dio("umount", "").arg(&scene.at));
}

#[test]
fn a_directory_can_be_mounted_over_itself_and_over_a_part_of_itself() {
    let Some(scene) = Scene::new() else { return };
    for (at, name) in [(&scene.source, "file"), (&scene.source.join("deep"), "file")] {
        let before = fs::read_to_string(at.join(name)).unwrap();
        good(dio("mount", "-o cio").args([at, at]));
        assert!(is_mounted(at));
        assert_eq!(fs::read_to_string(at.join(name)).unwrap(), before);
        fs::write(at.join("new"), at.to_str().unwrap()).unwrap();
        bad(dio("mount", "-o cio").args([at, at]), 32, &["already mounted on"]);
        good(dio("umount", "").arg(at));
        assert!(!is_mounted(at));
        assert_eq!(fs::read_to_string(at.join("new")).unwrap(), at.to_str().unwrap());
    }
}

#[test]
fn relative_names_and_links_are_followed_once() {
    let Some(scene) = Scene::new() else { return };
    std::os::unix::fs::symlink("at", scene.path("link")).unwrap();
    good(dio("mount", "").args(["source", "link"]).current_dir(scene.dir.path()));
    assert!(is_mounted(&scene.at));
    good(dio("umount", "").args(["./link"]).current_dir(scene.dir.path()));
    assert!(!is_mounted(&scene.at));
}

#[test]
fn errors_say_what_is_wrong_and_what_helps() {
    let Some(scene) = Scene::new() else { return };
    let (source, at) = (scene.source.to_str().unwrap(), scene.at.to_str().unwrap());
    let file = format!("{source}/file");
    let none = format!("{source}/none");
    for (command, status, words) in [
        (
            format!("mount {none} {at}"),
            32,
            vec!["dio mount: ", &none, "source directory does not exist"],
        ),
        (format!("mount {file} {at}"), 32, vec![&file, "source is not a directory"]),
        (format!("mount {source} {none}"), 32, vec![&none, "mount point does not exist"]),
        (format!("mount {source} {file}"), 32, vec![&file, "mount point is not a directory"]),
        (format!("mount {source} {source}/deep"), 32, vec!["lies below the source", "over itself"]),
        (format!("mount / {at}"), 32, vec!["lies below the source"]),
        (
            format!("mount -o cioo {source} {at}"),
            1,
            vec!["unknown option 'cioo'", "cio", "readahead_max="],
        ),
        (format!("mount -o lock=inode {source} {at}"), 1, vec!["'inode'", "range, file"]),
        (
            format!("mount --colour {source} {at}"),
            1,
            vec!["dio mount: unrecognized option '--colour'"],
        ),
        (format!("mount {source}"), 1, vec!["MOUNTPOINT is missing"]),
        ("mount".to_owned(), 1, vec!["Try 'dio mount --help'"]),
        (format!("umount {at}"), 32, vec!["dio umount: ", at, "not mounted"]),
        (format!("umount {none}"), 32, vec![&none, "not mounted"]),
        (
            "umount /proc".to_owned(),
            32,
            vec!["/proc: proc is mounted here, not dio", "use umount /proc"],
        ),
        ("umount".to_owned(), 1, vec!["Try 'dio umount --help'"]),
    ] {
        bad(Command::new(env!("CARGO_BIN_EXE_dio")).args(command.split(' ')), status, &words);
        assert!(!is_mounted(&scene.at), "{command}");
    }
}

#[test]
fn one_operand_that_fails_does_not_keep_the_others() {
    let Some(scene) = Scene::new() else { return };
    let second = scene.path("second");
    fs::create_dir(&second).unwrap();
    good(&mut scene.mount("-o ro"));
    good(dio("mount", "").args([&scene.source, &second]));
    bad(
        dio("umount", "").args([&scene.at, &scene.source, &second]),
        32,
        &[scene.source.to_str().unwrap()],
    );
    assert!(!is_mounted(&scene.at) && !is_mounted(&second));
}

#[test]
fn read_only_is_kept_by_the_kernel() {
    let Some(scene) = Scene::new() else { return };
    good(&mut scene.mount("-o ro,noexec"));
    let error = fs::write(scene.at.join("new"), "").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    assert_eq!(fs::read_to_string(scene.at.join("file")).unwrap(), "from the source\n");
}

#[test]
fn a_running_mount_can_become_read_only_and_writable_again() {
    let Some(scene) = Scene::new() else { return };
    good(&mut scene.mount("-o noexec"));
    let file = File::options().append(true).open(scene.at.join("file")).unwrap();
    bad(dio("mount", "-o remount,ro").arg(&scene.at), 32, &["busy"]);
    drop(file);
    good(dio("mount", "-o remount,ro,cached").arg(&scene.at));
    assert_eq!(
        fs::write(scene.at.join("new"), "").unwrap_err().kind(),
        std::io::ErrorKind::ReadOnlyFilesystem
    );
    good(Command::new("mount").args(["-i", "-o", "remount,rw"]).arg(&scene.at));
    fs::write(scene.at.join("new"), "").unwrap();
    good(dio("mount", "-o remount,exec").arg(&scene.at));
    let options = run(Command::new("findmnt").args(["-n", "-o", "OPTIONS"]).arg(&scene.at)).stdout;
    assert!(options.starts_with("rw,nosuid,nodev,") && !options.contains("noexec"), "{options}");
    good(dio("umount", "").arg(&scene.at));
}

#[test]
fn what_was_written_is_in_the_source_when_umount_returns() {
    let Some(scene) = Scene::new() else { return };
    good(&mut scene.mount("-o dio,write_behind=64M"));
    let name = scene.at.join("large");
    dio_test::random_file(&name, 24 << 20, 5);
    good(dio("umount", "").arg(&scene.at));
    dio_test::random_file(scene.path("same"), 24 << 20, 5);
    dio_test::same_bytes(scene.source.join("large"), scene.path("same"));
}

#[test]
fn what_changes_beside_the_mount_in_a_directory_that_was_read_is_seen() {
    let Some(scene) = Scene::new() else { return };
    fs::create_dir(scene.source.join("names")).unwrap();
    (0..300).for_each(|n| fs::write(scene.source.join(format!("names/{n}")), "").unwrap());
    good(&mut scene.mount("-o cio,remember=30"));
    let here = scene.at.join("names");
    let count = || fs::read_dir(&here).unwrap().count();
    // Nothing of a directory is cached before the directory is two seconds old. After that, the
    // first listing reads it and the second one caches it.
    std::thread::sleep(Duration::from_millis(2200));
    assert_eq!([count(), count(), count()], [300; 3]);
    let mut open = fs::read_dir(&here).unwrap();
    assert!(open.next().is_some());
    fs::write(scene.source.join("names/new"), "").unwrap();
    fs::remove_file(scene.source.join("names/7")).unwrap();
    fs::remove_file(scene.source.join("names/8")).unwrap();
    assert_eq!([count(), count()], [299; 2]);
    drop(open);
    std::thread::sleep(Duration::from_millis(2200));
    assert_eq!([count(), count()], [299; 2]);
    fs::write(here.join("through the mount"), "").unwrap();
    assert_eq!([count(), count()], [300; 2]);
    good(dio("umount", "").arg(&scene.at));
}

#[test]
fn a_service_manager_hears_when_it_is_ready_and_when_it_stops() {
    let Some(scene) = Scene::new() else { return };
    let path = scene.path("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let hear = || {
        let mut buffer = [0; 1024];
        let length = manager.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    };
    let mut server = scene.foreground(scene.mount("-f").env("NOTIFY_SOCKET", &path));
    let ready = hear();
    let pid = server.pid().as_raw_nonzero();
    assert!(ready.starts_with(&format!("READY=1\nMAINPID={pid}\nSTATUS=")), "{ready}");
    server.signal(Signal::TERM);
    assert_eq!(hear(), "STOPPING=1");
    assert!(server.take().status.success());
}

#[test]
fn a_running_mount_takes_other_settings() {
    let Some(scene) = Scene::new() else { return };
    good(&mut scene.mount("-o cio=*.ibd,limit=64M"));
    let changed = run(dio("mount", "-v -o remount,cached=*.ctl,write_behind=1M").arg(&scene.at));
    assert!(changed.status.success(), "{changed:?}");
    for option in ["mode=direct,", "cached=*.ctl,", "write_behind=1M,", "limit=64M"] {
        assert!(changed.stderr.contains(option), "`{option}` is not in {changed:?}");
    }
    assert!(!changed.stderr.contains("ibd"), "rules are replaced: {changed:?}");
    bad(dio("mount", "-o remount,cioo").arg(&scene.at), 1, &["unknown option 'cioo'"]);
    bad(
        dio("mount", "-o remount,threads=3").arg(&scene.at),
        1,
        &["'threads=3'", "unmount and mount again"],
    );
    bad(dio("mount", "-o remount,cio").arg(&scene.source), 32, &["not mounted"]);
    good(dio("umount", "").arg(&scene.at));
}
