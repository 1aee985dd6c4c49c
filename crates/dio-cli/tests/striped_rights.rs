//! Objects that a descriptor of another user names: root looks them up, makes and removes them with
//! that user's rights.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::mount_support;
use crate::striped_support::{dio, good, lines};
use dio_test::{Output, as_user, copy_program, file_systems, is_root, run};

/// The owner of the files; that user's ID and group ID.
const OWNER: &str = "nobody";
const OWNER_IDS: (u32, u32) = (65_534, 65_534);

const OUT_OF_REACH: &str = "out of reach for the owner";

/// A striped file that belongs to `OWNER`. Its second object is in `vault`, a directory that
/// belongs to root.
struct Scene {
    _scratch: Box<dyn std::any::Any>,
    dir: PathBuf,
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

impl Scene {
    fn new() -> Option<Scene> {
        if !is_root() {
            dio_test::skip!("only root can be two users");
            return None;
        }
        let scratch = file_systems()[0].dir();
        let scene = Scene { dir: scratch.path().to_owned(), _scratch: Box::new(scratch) };
        mode(&scene.dir, 0o755);
        copy_program(env!("CARGO_BIN_EXE_dio"), scene.path("dio"));
        for name in ["a", "vault/b", "theirs"] {
            fs::create_dir_all(scene.path(name)).unwrap();
            chown(scene.path(name), Some(OWNER_IDS.0), None).unwrap();
        }
        fs::write(scene.path("contents"), lines(300_000)).unwrap();
        scene.good(&["stripe", "set", "-t", "a,vault/b", "theirs/f"]);
        scene.good(&["cp", "contents", "theirs/f"]);
        Some(scene)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Denies every user but root access to the directory of the second object.
    fn close(&self) {
        mode(&self.path("vault"), 0o700);
    }

    /// Runs a dio command as the owner.
    fn owner(&self, args: &[&str]) -> Output {
        run(as_user(OWNER, self.path("dio")).args(args).current_dir(&self.dir))
    }

    #[track_caller]
    fn good(&self, args: &[&str]) -> Output {
        let output = self.owner(args);
        assert!(output.status.success(), "{args:?}: {output:?}");
        output
    }

    /// The number of objects.
    fn objects(&self) -> usize {
        ["a", "vault/b"].iter().map(|target| fs::read_dir(self.path(target)).unwrap().count()).sum()
    }

    /// Checks that a command is refused to root, and to the owner too.
    #[track_caller]
    fn refused(&self, args: &[&str]) {
        let roots = dio(&self.dir, args);
        assert_eq!(roots.status.code(), Some(1), "{args:?}: {roots:?}");
        assert!(roots.stderr.contains(OUT_OF_REACH), "{args:?}: {roots:?}");
        let own = self.owner(args);
        assert_eq!(own.status.code(), Some(1), "{args:?}: {own:?}");
        assert!(own.stderr.contains("ermission denied"), "{args:?}: {own:?}");
    }
}

#[test]
fn root_follows_the_file_of_another_user_where_that_user_may_go() {
    let Some(scene) = Scene::new() else { return };
    let dir = &scene.dir;
    assert_eq!(good(dir, &["cat", "theirs/f"]).stdout.as_bytes(), lines(300_000));
    good(dir, &["cp", "theirs/f", "copy"]);
    good(dir, &["cp", "contents", "theirs/f"]);
    good(dir, &["cp", "--atomic", "contents", "theirs/f"]);
    good(dir, &["stripe", "check", "theirs/f"]);
    good(dir, &["stripe", "check", "--record", "list", "theirs/f"]);
    good(dir, &["stripe", "migrate", "-t", "vault/b,a", "theirs/f"]);
    assert_eq!(scene.objects(), 2);
    for target in ["a", "vault/b"] {
        let object =
            fs::read_dir(scene.path(target)).unwrap().next().unwrap().unwrap().metadata().unwrap();
        assert_eq!((object.uid(), object.gid()), OWNER_IDS);
    }
    // The owner of an object may open it, whatever its mode is. So root can back up files that no
    // user may read.
    for target in ["a", "vault/b"] {
        mode(&fs::read_dir(scene.path(target)).unwrap().next().unwrap().unwrap().path(), 0);
    }
    mode(&scene.path("theirs/f"), 0);
    good(dir, &["cp", "theirs/f", "copy"]);
    dio_test::same_bytes(scene.path("contents"), scene.path("copy"));
    good(dir, &["stripe", "rm", "theirs/f"]);
    assert_eq!(scene.objects(), 0);
}

#[test]
fn a_descriptor_leads_root_nowhere_that_its_owner_may_not_go() {
    let Some(scene) = Scene::new() else { return };
    good(&scene.dir, &["stripe", "check", "--record", "list", "theirs/f"]);
    scene.close();
    for args in [
        &["cat", "theirs/f"][..],
        &["cp", "theirs/f", "copy"],
        &["cp", "contents", "theirs/f"],
        &["stripe", "check", "theirs/f"],
        &["stripe", "rm", "theirs/f"],
    ] {
        scene.refused(args);
    }
    let dir = &scene.dir;
    for args in [
        &["stripe", "adopt", "theirs/f"][..],
        &["stripe", "check", "--repair", "theirs/f"],
        &["stripe", "check", "--repair", "--force", "theirs/f"],
        &["stripe", "check", "--digests", "list", "theirs/f"],
        &["stripe", "migrate", "-t", "a", "theirs/f"],
        &["tar", "-cf", "archive", "theirs/f"],
        &["cp", "--atomic", "contents", "theirs/f"],
    ] {
        let output = dio(dir, args);
        assert!(
            !output.status.success() && output.stderr.contains(OUT_OF_REACH),
            "{args:?}: {output:?}"
        );
    }
    let probed = dio(dir, &["probe", "theirs/f"]);
    assert!(probed.stdout.contains(OUT_OF_REACH), "{probed:?}");
    let known = dio(dir, &["stripe", "orphans", "--heads", "theirs", "vault/b"]);
    assert!(
        !known.status.success() && known.stderr.contains("leads to another place"),
        "{known:?}"
    );
    // The objects stay where they were, even if the name of the file is removed.
    assert_eq!(scene.objects(), 2);
    assert!(!dio(dir, &["stripe", "rm", "--force", "theirs/f"]).status.success());
    assert_eq!(fs::read_dir(scene.path("vault/b")).unwrap().count(), 1);
}

/// A different answer for existing names would reveal to the owner which names exist.
#[test]
fn a_descriptor_does_not_tell_what_is_where_its_owner_may_not_go() {
    let Some(scene) = Scene::new() else { return };
    scene.close();
    let told = || dio(&scene.dir, &["cat", "theirs/f"]).stderr;
    let there = told();
    let object = fs::read_dir(scene.path("vault/b")).unwrap().next().unwrap().unwrap().path();
    fs::remove_file(object).unwrap();
    assert_eq!(told(), there);
}

#[test]
fn what_root_makes_in_the_name_of_another_is_made_with_that_users_rights() {
    let Some(scene) = Scene::new() else { return };
    let dir = &scene.dir;
    fs::create_dir(scene.path("roots")).unwrap();
    fs::write(scene.path("theirs/plain"), lines(1000)).unwrap();
    chown(scene.path("theirs/plain"), Some(OWNER_IDS.0), Some(OWNER_IDS.1)).unwrap();
    for target_mode in [0o700, 0o755] {
        mode(&scene.path("roots"), target_mode);
        for file in ["theirs/f", "theirs/plain"] {
            let output = dio(dir, &["stripe", "migrate", "-t", "a,roots", file]);
            assert_eq!(output.status.code(), Some(1), "{output:?}");
            for part in
                ["cannot stripe", "/roots/.dio-", "Permission denied", OUT_OF_REACH, "enter"]
            {
                assert!(output.stderr.contains(part), "{part}: {output:?}");
            }
            good(dir, &["cat", file]);
        }
        assert_eq!((fs::read_dir(scene.path("roots")).unwrap().count(), scene.objects()), (0, 2));
    }
    mode(&scene.path("roots"), 0o1777);
    good(dir, &["stripe", "migrate", "-t", "a,roots", "theirs/plain"]);
    assert_eq!(scene.good(&["cat", "theirs/plain"]).stdout.as_bytes(), lines(1000));
    scene.good(&["stripe", "rm", "theirs/plain"]);
}

/// The groups of the owner count. The group of the file does not: in a directory with the
/// set-group-id bit, a new file may get a group of which its owner is not a member.
#[test]
fn the_groups_are_those_of_the_owner() {
    let Some(scene) = Scene::new() else { return };
    chown(scene.path("vault"), None, Some(1)).unwrap();
    chown(scene.path("theirs/f"), None, Some(1)).unwrap();
    mode(&scene.path("vault"), 0o710);
    scene.refused(&["cat", "theirs/f"]);
    chown(scene.path("vault"), None, Some(OWNER_IDS.1)).unwrap();
    good(&scene.dir, &["cat", "theirs/f"]);
    scene.good(&["cat", "theirs/f"]);
    // Membership in a group may also cause a refusal.
    mode(&scene.path("vault"), 0o705);
    scene.refused(&["cat", "theirs/f"]);
}

#[test]
fn a_mount_leads_nobody_where_the_owner_may_not_go() {
    let (Some(scene), Some(mounted)) = (Scene::new(), mount_support::Scene::new()) else { return };
    mode(mounted.dir.path(), 0o755);
    mode(&mounted.source, 0o777);
    let file = mounted.source.join("f");
    let file = file.to_str().unwrap();
    scene.good(&["stripe", "set", "-t", "a,vault/b", file]);
    scene.good(&["cp", "contents", file]);
    let _server = mounted.foreground(&mut mounted.mount("-f -o cio,allow_other"));
    let below = mounted.at.join("f");
    let both = |script: &str| {
        let run_as = |mut command: Command| run(command.args(["-c", script]).env("F", &below));
        [run_as(as_user(OWNER, "bash")), run_as(Command::new("bash"))]
    };
    for output in both(
        "cat $F | md5sum; echo more >>$F; truncate -s -5 $F; stat $F >/dev/null && chmod 640 $F",
    ) {
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    }
    scene.close();
    for script in ["cat $F", "echo more >>$F", "rm $F", "truncate -s 5 $F", "mv $0 $F 2>&1; cat $F"]
    {
        for output in both(script) {
            assert!(
                !output.status.success() && output.stderr.contains("ermission denied"),
                "{script}: {output:?}"
            );
        }
    }
    assert_eq!(scene.objects(), 4);
    mode(&scene.path("vault"), 0o755);
    for output in both("cat $F >/dev/null") {
        assert!(output.status.success(), "{output:?}");
    }
    assert!(both("rm $F")[0].status.success());
    dio_test::until("the objects to go", || scene.objects() == 2);
}
