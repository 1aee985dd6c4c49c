//! Descriptors, defaults and names that another user has made: they must not redirect the I/O of
//! any user.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::mount_support;
use crate::striped_support::{dio, good, lines, script};
use dio_test::{Output, as_user, copy_program, file_systems, is_root, run};

/// A user without rights here.
const OTHER: &str = "nobody";

/// Makes something under a name.
type Make = fn(&Path);

/// A directory that every user may enter, with a copy of the program, and two targets that belong
/// to `OTHER`.
struct Scene {
    _scratch: Box<dyn std::any::Any>,
    dir: PathBuf,
}

impl Scene {
    fn new(which: usize) -> Option<Scene> {
        if !is_root() {
            dio_test::skip!("only root can be two users");
            return None;
        }
        let scratch = file_systems()[which].dir();
        let dir = scratch.path().to_owned();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
        copy_program(env!("CARGO_BIN_EXE_dio"), dir.join("dio"));
        for name in ["a", "b", "theirs"] {
            fs::create_dir(dir.join(name)).unwrap();
            std::os::unix::fs::chown(dir.join(name), Some(65_534), None).unwrap();
        }
        fs::write(dir.join("contents"), lines(300_000)).unwrap();
        Some(Scene { _scratch: Box::new(scratch), dir })
    }

    /// Runs a dio command as the other user. It must succeed.
    #[track_caller]
    fn other(&self, args: &[&str]) -> Output {
        let output = run(as_user(OTHER, self.dir.join("dio")).args(args).current_dir(&self.dir));
        assert!(output.status.success(), "{args:?}: {output:?}");
        output
    }

    fn objects(&self) -> usize {
        ["a", "b"].iter().map(|target| fs::read_dir(self.dir.join(target)).unwrap().count()).sum()
    }

    fn is_striped(&self, name: &str) -> bool {
        fs::read(self.dir.join(name)).unwrap().starts_with(b"dio striped file")
    }
}

#[track_caller]
fn fails(dir: &Path, args: &[&str], why: &str) {
    let output = dio(dir, args);
    assert_eq!(output.status.code(), Some(1), "{args:?}: {output:?}");
    assert!(output.stderr.contains(why), "{args:?}: {output:?}");
}

#[test]
fn an_archive_does_not_say_where_its_files_go() {
    for (which, options) in
        ["-xf", "--overwrite -xf", "-kxf", "--overwrite -hxf"].iter().enumerate()
    {
        let scratch = file_systems()[which % file_systems().len()].dir();
        let dir = scratch.path();
        for name in ["a", "b", "from", "from/d", "to"] {
            fs::create_dir(dir.join(name)).unwrap();
        }
        good(dir, &["stripe", "set", "-t", "a,b", "from/d"]);
        fs::write(dir.join("from/d/f"), lines(200_000)).unwrap();
        fs::write(dir.join("from/d/large"), lines(9_000_000)).unwrap();
        // Members that come after the default, and members before it.
        let names = ["d", "d/f", "d/.dio-stripe", "d/large", "d/f", "d/large"];
        let made = run(Command::new("tar")
            .args(["--no-recursion", "-cf", "archive", "-C", "from"])
            .args(names)
            .current_dir(dir));
        assert!(made.status.success(), "{made:?}");
        let words: Vec<&str> = options.split(' ').collect();
        dio(dir, &[&["tar"], &words[..], &["archive", "-C", "to"]].concat());
        for name in ["f", "large"] {
            dio_test::same_bytes(dir.join("from/d").join(name), dir.join("to/d").join(name));
        }
        assert!(dir.join("to/d/.dio-stripe").exists());
        let objects: usize =
            ["a", "b"].iter().map(|it| fs::read_dir(dir.join(it)).unwrap().count()).sum();
        assert_eq!(objects, 0, "{options}");
    }
}

#[test]
fn a_default_of_somebody_else_is_told_and_not_followed() {
    for which in 0..file_systems().len() {
        let Some(scene) = Scene::new(which) else { return };
        scene.other(&["stripe", "set", "-t", "a,b", "theirs"]);
        fails(&scene.dir, &["cp", "contents", "theirs/root"], "belongs to user 65534");
        dio_test::same_bytes(scene.dir.join("contents"), scene.dir.join("theirs/root"));
        fails(&scene.dir, &["sort", "-o", "theirs/sorted", "contents"], "belongs to user 65534");
        assert_eq!(scene.objects(), 0);
        // For its owner, the default takes effect.
        scene.other(&["cp", "contents", "theirs/own"]);
        assert!(scene.is_striped("theirs/own"));
        assert_eq!(scene.objects(), 2);
        // A default that belongs to root takes effect for all users.
        good(&scene.dir, &["stripe", "rm", "theirs"]);
        good(&scene.dir, &["stripe", "set", "-t", "a,b", "theirs"]);
        scene.other(&["cp", "contents", "theirs/more"]);
        good(&scene.dir, &["cp", "contents", "theirs/roots"]);
        assert!(scene.is_striped("theirs/more") && scene.is_striped("theirs/roots"));
        fs::set_permissions(
            scene.dir.join("theirs/.dio-stripe"),
            fs::Permissions::from_mode(0o666),
        )
        .unwrap();
        fails(
            &scene.dir,
            &["cp", "contents", "theirs/last"],
            "others than its owner may write to it",
        );
    }
}

/// Root's copy of a default that another user has made belongs to root. It has no effect in the
/// directory to which it was copied.
#[test]
fn a_default_of_another_directory_is_told_and_not_followed() {
    for which in 0..file_systems().len() {
        let Some(scene) = Scene::new(which) else { return };
        let dir = &scene.dir;
        scene.other(&["stripe", "set", "-t", "a,b", "theirs"]);
        let copied = [
            ("own", "cp -r theirs own"),
            ("others", "command cp -r theirs others"),
            (
                "tar",
                "tar -cf archive theirs; mkdir tar; tar -xf archive --no-same-owner \
                 --strip-components=1 -C tar",
            ),
        ];
        for (name, text) in copied {
            let (_, status, errors) = script(dir, &format!("set -e; {text}"));
            assert_eq!(status, Some(0), "{}", String::from_utf8_lossy(&errors));
            let [file, sorted] = ["file", "sorted"].map(|file| format!("{name}/{file}"));
            fails(dir, &["cp", "contents", &file], "made for another directory");
            dio_test::same_bytes(dir.join("contents"), dir.join(&file));
            fails(dir, &["sort", "-o", &sorted, "contents"], "dio stripe set");
            let copy = fs::read(dir.join(name).join(".dio-stripe")).unwrap();
            assert!(
                copy == fs::read(dir.join("theirs/.dio-stripe")).unwrap(),
                "nobody has rewritten it"
            );
            assert_eq!(scene.objects(), 0, "{name}");
            // After it is set again, it is the directory's own, also after a rename.
            good(dir, &["stripe", "set", "-t", "a,b", name]);
            fs::rename(dir.join(name), dir.join("renamed")).unwrap();
            good(dir, &["cp", "contents", "renamed/file2"]);
            assert!(scene.is_striped("renamed/file2"));
            assert_eq!(scene.objects(), 2, "{name}");
            good(dir, &["stripe", "rm", "renamed/file2"]);
            fs::remove_dir_all(dir.join("renamed")).unwrap();
        }
    }
}

/// A forged default would use the old form, which does not name its directory.
#[test]
fn a_default_that_names_no_directory_is_told_and_not_followed() {
    let Some(scene) = Scene::new(0) else { return };
    let dir = &scene.dir;
    let old = include_bytes!("../../../fuzz/corpus/stripe/default");
    fs::write(dir.join("theirs/.dio-stripe"), old).unwrap();
    assert!(good(dir, &["stripe", "show", "theirs"]).stdout.contains("over 2 objects"));
    fails(
        dir,
        &["cp", "contents", "theirs/f"],
        "which does not say for which directory it was made",
    );
    dio_test::same_bytes(dir.join("contents"), dir.join("theirs/f"));
    fails(dir, &["cp", "contents", "theirs/g"], "'dio stripe set'");
    good(dir, &["stripe", "set", "-t", "a,b", "theirs"]);
    good(dir, &["cp", "contents", "theirs/striped"]);
    assert_eq!(scene.objects(), 2);
}

#[test]
fn what_is_no_file_is_no_default() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    fs::write(dir.join("contents"), lines(1000)).unwrap();
    let kinds: [(&str, Make); 4] = [
        ("pipe", |name| assert!(Command::new("mkfifo").arg(name).status().unwrap().success())),
        ("zeros", |name| symlink("/dev/zero", name).unwrap()),
        ("nothing", |name| symlink("/nowhere", name).unwrap()),
        ("directory", |name| fs::create_dir(name).unwrap()),
    ];
    for (kind, make) in kinds {
        fs::create_dir(dir.join(kind)).unwrap();
        make(&dir.join(kind).join(".dio-stripe"));
        let target = format!("{kind}/f");
        fails(dir, &["cp", "contents", &target], "no regular file");
        dio_test::same_bytes(dir.join("contents"), dir.join(&target));
        fails(dir, &["stripe", "show", kind], "no regular file");
    }
}

#[test]
fn a_file_that_others_may_write_leads_to_no_other_file() {
    let Some(scene) = Scene::new(0) else { return };
    let dir = &scene.dir;
    good(dir, &["stripe", "set", "-t", ".", "secret"]);
    good(dir, &["cp", "contents", "secret"]);
    fs::copy(dir.join("secret"), dir.join("log")).unwrap();
    let allow =
        |mode| fs::set_permissions(dir.join("log"), fs::Permissions::from_mode(mode)).unwrap();
    // Reading through a copy of one's own is permitted.
    allow(0o644);
    assert_eq!(good(dir, &["cat", "log"]).stdout.as_bytes(), lines(300_000));
    for mode in [0o666, 0o664] {
        allow(mode);
        fails(dir, &["cat", "log"], "others may write to this one");
    }
    // The original file may be writable for other users.
    fs::set_permissions(dir.join("secret"), fs::Permissions::from_mode(0o666)).unwrap();
    assert_eq!(good(dir, &["cat", "secret"]).stdout.as_bytes(), lines(300_000));
}

#[test]
fn a_descriptor_does_not_lead_to_objects_of_others() {
    let Some(scene) = Scene::new(0) else { return };
    let dir = &scene.dir;
    scene.other(&["stripe", "set", "-t", "a,b", "theirs/f"]);
    scene.other(&["cp", "contents", "theirs/f"]);
    // A user who copies the descriptor gets an error.
    fs::copy(dir.join("theirs/f"), dir.join("mine")).unwrap();
    fails(dir, &["cat", "mine"], "belongs to another user");
    fails(dir, &["stripe", "rm", "mine"], "belongs to another user");
    assert_eq!(scene.objects(), 2);
    // The same as an ordinary user.
    good(dir, &["stripe", "set", "-t", "a,b", "roots"]);
    good(dir, &["cp", "contents", "roots"]);
    fs::copy(dir.join("roots"), dir.join("theirs/roots")).unwrap();
    std::os::unix::fs::chown(dir.join("theirs/roots"), Some(65_534), None).unwrap();
    let output =
        run(as_user(OTHER, dir.join("dio")).args(["cat", "theirs/roots"]).current_dir(dir));
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stderr.contains("belongs to another user"), "{output:?}");
    // Reading a file with permission still works: its objects belong to the owner of the file.
    scene.other(&["cat", "roots"]);
    good(dir, &["cat", "theirs/f"]);
}

/// Opening a device can already have effects, such as rewinding a tape or starting a watchdog.
#[test]
fn nothing_but_objects_is_opened_in_their_place() {
    use rustix::fs::{FileType, Mode, inotify};
    let Some(scene) = Scene::new(0) else { return };
    let dir = &scene.dir;
    good(dir, &["stripe", "set", "-t", "a,b", "file"]);
    good(dir, &["cp", "contents", "file"]);
    let name = fs::read_dir(dir.join("b")).unwrap().next().unwrap().unwrap().path();
    fs::remove_file(&name).unwrap();
    let zero = rustix::fs::makedev(1, 5);
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &name,
        FileType::CharacterDevice,
        Mode::RUSR | Mode::WUSR,
        zero,
    )
    .unwrap();
    let watch =
        inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC).unwrap();
    inotify::add_watch(&watch, &name, inotify::WatchFlags::OPEN).unwrap();
    let mut buffer = [std::mem::MaybeUninit::uninit(); 512];
    let mut was_opened = || inotify::Reader::new(&watch, &mut buffer).next().is_ok();
    for words in [
        "cat file",
        "cp contents file",
        "stripe check file",
        "stripe check --repair file",
        "stripe check --repair --force file",
        "stripe adopt file",
        "stripe migrate -t a file",
        "stripe orphans b",
        "stripe rm file",
        "cp -r file copy",
        "probe file",
    ] {
        dio(dir, &words.split(' ').collect::<Vec<_>>());
        assert!(!was_opened(), "{words}");
    }
    assert!(name.exists() && dir.join("file").exists());
    fs::File::open(&name).unwrap();
    assert!(was_opened(), "nothing would be seen");
}

#[test]
fn an_object_that_others_may_read_is_told() {
    let Some(scene) = Scene::new(0) else { return };
    let dir = &scene.dir;
    good(dir, &["stripe", "set", "-t", "a,b", "f"]);
    good(dir, &["cp", "contents", "f"]);
    fs::set_permissions(dir.join("f"), fs::Permissions::from_mode(0o600)).unwrap();
    fails(dir, &["stripe", "check", "f"], "by others than the file");
    for target in ["a", "b"] {
        let object = fs::read_dir(dir.join(target)).unwrap().next().unwrap().unwrap().path();
        fs::set_permissions(object, fs::Permissions::from_mode(0o600)).unwrap();
    }
    good(dir, &["stripe", "check", "f"]);
    // The file is given to another owner.
    std::os::unix::fs::chown(dir.join("f"), Some(65_534), None).unwrap();
    fails(dir, &["stripe", "check", "f"], "belongs to another user");
}

#[test]
fn names_that_can_be_foreseen_lead_nowhere() {
    let Some(scene) = Scene::new(0) else { return };
    let dir = &scene.dir;
    fs::write(dir.join("precious"), "precious").unwrap();
    for name in ["theirs/.t.dio-resume", "theirs/.t.dio-resume-new", "theirs/list.part"] {
        symlink("../precious", dir.join(name)).unwrap();
    }
    fs::write(dir.join("large"), lines(9_000_000)).unwrap();
    good(dir, &["cp", "--resume", "--reflink=never", "--limit", "4M", "large", "theirs/t"]);
    dio_test::same_bytes(dir.join("large"), dir.join("theirs/t"));
    good(dir, &["stripe", "set", "-t", ".", "f"]);
    good(dir, &["stripe", "check", "--record", "theirs/list", "f"]);
    assert_eq!(fs::read_to_string(dir.join("precious")).unwrap(), "precious");
    assert!(!fs::symlink_metadata(dir.join("theirs/list")).unwrap().is_symlink());
    // A resume note that belongs to another user is ignored.
    let note = dir.join("theirs/.t.dio-resume");
    fs::write(&note, "{}").unwrap();
    std::os::unix::fs::chown(&note, Some(65_534), None).unwrap();
    good(dir, &["cp", "--resume", "--reflink=never", "large", "theirs/t"]);
    dio_test::same_bytes(dir.join("large"), dir.join("theirs/t"));
    assert!(!note.exists());
}

/// No user of a mount that is shared by all users can block a thread of its server.
#[test]
fn nobody_stops_the_server_of_a_shared_mount() {
    let Some(scene) = mount_support::Scene::new() else { return };
    let open_to_all =
        |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    [scene.dir.path(), &scene.source].into_iter().for_each(open_to_all);
    copy_program(env!("CARGO_BIN_EXE_dio"), scene.path("dio"));
    let _server = scene.foreground(&mut scene.mount("-f -o cio,allow_other"));
    let attack = |script: &str| {
        let mut command = as_user(OTHER, "timeout");
        command.args(["-s", "KILL", "30", "bash", "-c", script]).current_dir(scene.dir.path());
        run(command.env("PATH", std::env::var_os("PATH").unwrap()))
    };
    let answers = || {
        let output = run(Command::new("timeout")
            .args(["-s", "KILL", "30", "cat"])
            .arg(scene.at.join("deep/file")));
        assert_eq!(output.stdout, "from below\n", "{output:?}");
    };
    // Files in the place of a default must not be waited for, nor read endlessly.
    for (name, make) in
        [("pipe", "mkfifo"), ("zeros", "ln -s /dev/zero"), ("loop", "ln -s .dio-stripe")]
    {
        let script = format!(
            "set -e; mkdir at/{name}; {make} at/{name}/.dio-stripe
             for file in 1 2 3 4 5 6 7 8 9; do echo text >at/{name}/$file & done; wait; cat at/{name}/?"
        );
        let output = attack(&script);
        assert_eq!(
            (output.status.code(), output.stdout.as_str()),
            (Some(0), "text\n".repeat(9).as_str()),
            "{output:?}"
        );
        answers();
    }
    // The object of a file leads back into the mount, to the descriptor of the same file.
    let output = attack(
        "set -e; mkdir targets targets/d; ./dio stripe set -t targets/d source/f
         object=$(basename $(echo targets/d/.dio-*)); mv targets before; ln -s at targets
         mkdir at/d; cp source/f at/d/$object
         for time in 1 2 3 4 5 6 7 8 9; do { stat at/f; cat at/f; stat at/d/$object; } >/dev/null & done; wait",
    );
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(output.stderr.contains("deadlock"), "{output:?}");
    answers();
}

/// A user who opens many files with many objects gets half of the server's descriptors and no more.
#[test]
fn one_user_leaves_descriptors_to_the_others() {
    let Some(scene) = mount_support::Scene::new() else { return };
    let open_to_all =
        |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    [scene.dir.path(), &scene.source].into_iter().for_each(open_to_all);
    copy_program(env!("CARGO_BIN_EXE_dio"), scene.path("dio"));
    let server = scene.foreground(&mut scene.mount("-f -o cio,allow_other"));
    let limit = run(Command::new("prlimit")
        .args(["--nofile=1500:1500", "--pid"])
        .arg(server.pid().as_raw_nonzero().to_string()));
    assert!(limit.status.success(), "{limit:?}");
    let script = "set -e; mkdir targets; cd targets; mkdir $(seq 16); cd ..; mkdir source/d
        ./dio stripe set -t $(seq -s, -f targets/%g 16) source/d
        for file in $(seq 40); do echo text | ./dio tee source/d/$file >/dev/null; done
        exec python3 -c '
import errno, os, sys
held = []
try:
    for file in range(1, 41):
        held.append(os.open(f\"at/d/{file}\", os.O_RDWR))
except OSError as error:
    print(len(held), errno.errorcode[error.errno], flush=True)
sys.stdin.read()
while held:
    os.close(held.pop())
print(open(\"at/d/40\").read(), end=\"\", flush=True)
'";
    let mut command = as_user(OTHER, "bash");
    command
        .args(["-c", script])
        .current_dir(scene.dir.path())
        .env("PATH", std::env::var_os("PATH").unwrap());
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut greedy = command.spawn().unwrap();
    let mut told = std::io::BufReader::new(greedy.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut told, &mut line).unwrap();
    // Each file takes three descriptors for itself and three for each of its 16 objects. The limit
    // is half of three quarters of 1,500.
    assert_eq!(line, "11 ENFILE\n");
    let honest =
        run(as_user("daemon", "cat").arg(scene.at.join("d/40")).arg(scene.at.join("deep/file")));
    assert_eq!(
        (honest.status.code(), honest.stdout.as_str()),
        (Some(0), "text\nfrom below\n"),
        "{honest:?}"
    );
    drop(greedy.stdin.take());
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut told, &mut rest).unwrap();
    assert_eq!(rest, "text\n", "what was closed is there for others again");
    assert!(greedy.wait().unwrap().success());
}

/// The objects below each of two mounts lead to files of the other mount. Without a rule against
/// that, each server waits for the other until neither has a free thread.
#[test]
fn two_servers_do_not_wait_for_each_other() {
    let (Some(scene), Some(second)) = (mount_support::Scene::new(), mount_support::Scene::new())
    else {
        return;
    };
    let open_to_all =
        |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    for each in [&scene, &second] {
        [each.dir.path(), &each.source].into_iter().for_each(open_to_all);
    }
    copy_program(env!("CARGO_BIN_EXE_dio"), scene.path("dio"));
    let _servers =
        [&scene, &second].map(|each| each.foreground(&mut each.mount("-f -o cio,allow_other")));
    let other = second.at.display();
    // The object of `one` here leads to `two` there, whose object leads to `one` here again.
    let script = format!(
        "set -e; mkdir -p to-there/d to-here/d; ./dio stripe set -t to-there/d source/one
         ./dio stripe set -t to-here/d source/two
         first=$(basename $(echo to-there/d/.dio-*)); second=$(basename $(echo to-here/d/.dio-*))
         mv to-there before; mv to-here last; ln -s {other} to-there; ln -s at to-here
         mkdir {other}/d at/d; cp source/two {other}/d/$first; cp source/one at/d/$second
         for time in $(seq 99); do {{ stat at/one; cat at/one; stat {other}/d/$first; cat at/d/$second; }} >/dev/null & done; wait"
    );
    let mut command = as_user(OTHER, "timeout");
    command.args(["-s", "KILL", "60", "bash", "-c", &script]).current_dir(scene.dir.path());
    let output = run(command.env("PATH", std::env::var_os("PATH").unwrap()));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(output.stderr.contains("deadlock"), "{output:?}");
    for each in [&scene, &second] {
        let output = run(Command::new("timeout")
            .args(["-s", "KILL", "30", "cat"])
            .arg(each.at.join("deep/file")));
        assert_eq!(output.stdout, "from below\n", "{output:?}");
    }
}
