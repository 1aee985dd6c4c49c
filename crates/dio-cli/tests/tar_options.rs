//! `dio tar` beside GNU tar: options that apply to the names behind them, lists, `TAR_OPTIONS`,
//! links that are followed, removals, few descriptors, and many patterns.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::gnu::links;
use dio_test::file_systems;

/// Status, output, messages, and every name that exists afterwards.
type Seen = (Option<i32>, String, String, String);

/// Runs a script in a new directory, in which `tar` is dio's or the system's.
fn run(script: &str, ours: bool) -> Seen {
    let dir = file_systems()[0].dir();
    let seen = shell(dir.path(), script, ours);
    let left = shell(dir.path(), "find . -printf '%p %y %l\\n' | sort", false).1;
    (seen.0, seen.1, seen.2, left)
}

fn shell(dir: &Path, script: &str, ours: bool) -> (Option<i32>, String, String) {
    let path = std::env::var("PATH").unwrap();
    let path = if ours { format!("{}:{path}", links(&["tar"]).display()) } else { path };
    let mut bash = Command::new("bash");
    bash.args(["-c", script])
        .current_dir(dir)
        .env("PATH", path)
        .env("LC_ALL", "C")
        .env("TZ", "UTC")
        .env_remove("TAPE");
    let output = bash.stdin(Stdio::null()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(" or 'tar --usage'", "");
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// Makes a small tree in which times are the same for both programs.
const TREE: &str = "mkdir -p dir/sub two; echo a > dir/a.a; echo b > dir/b.b; echo c > \
                    dir/sub/c.a; echo d > two/d.a; echo e > two/e.b; find . -exec touch -d \
                    @1600000000 {} +; ";

/// Gives files that are made beside that tree the same times.
const OLD: &str = "find . -exec touch -h -d @1600000000 {} +;";

#[track_caller]
fn same(script: &str) {
    let script = format!("{TREE}{script}");
    let [gnu, dio] = [false, true].map(|ours| run(&script, ours));
    assert_eq!(dio, gnu, "{script}");
}

const LIST: &str = "; R=$?; tar -tf a | sort; exit $R";

#[test]
fn what_is_left_out_concerns_the_names_behind() {
    for command in [
        "tar -cf a --sort=name dir --exclude '*.b'",
        "tar -cf a dir --exclude '*.b' two",
        "tar -cf a --exclude '*.a' dir --exclude '*.b' two",
        "tar -cf a dir --exclude-vcs --exclude-backups --exclude-caches --exclude-tag=x \
         --exclude-tag-under=y",
        "tar -cf a dir --exclude-tag=d.a two --exclude-tag=a.a",
        "tar -cf a --exclude-tag=a.a dir --exclude-tag-all=d.a two",
        "tar -cf a dir --null --no-unquote --verbatim-files-from",
        "tar -cf a dir -C two --anchored",
        "tar -cf a dir --no-recursion two --recursion dir",
        "tar -cf a --no-recursion dir; tar -rf a dir --exclude '*.b' two",
        "tar -cf a --no-recursion dir; tar -rf a dir --no-recursion two",
        "tar -cf a --no-recursion dir; tar -uf a dir two --exclude '*.b'",
        "tar -cf a dir two; tar -tf a dir --exclude '*.b'; tar -df a dir --exclude '*.b' two",
        "echo x > ex; tar -cf a dir -X ex",
    ] {
        same(&format!("{command}{LIST}"));
    }
}

#[test]
fn lists_are_read_as_by_gnu() {
    for command in [
        // Lists that include each other are read once; the rest is in the archive.
        "printf 'dir\\n-T F2\\n' > F1; printf 'two\\n-T F1\\n' > F2; tar -cf a -T F1",
        "printf 'dir\\n-T F1\\n' > F1; tar -cf a -T F1 -T F1 two",
        "printf 'dir\\n-T F2\\n' > F1; printf 'two\\n-T F1\\n' > F2; tar -cf a dir two; tar -tf a \
         -T F1",
        "printf 'dir\\n--foo\\ntwo\\n' > F1; tar -cf a -T F1",
        "printf '\\ndir\\n-C\\ntwo\\n' > F1; tar -cf a -T F1",
        "printf -- '-C dir --foo\\na.a\\n' > F1; tar -cf a -T F1",
        "printf -- \"-C 'dir\\n\" > F1; tar -cf a two; tar -tf a -T F1",
        "tar -cf a two; printf 'dir\\n' | tar -tf a -T - -T -",
        "tar -cf a two; tar -tf a -T nope",
        // With NULs, names are taken literally.
        "touch 'x\\ty'; printf 'x\\\\ty\\0-C\\0' > F1; touch -- -C; tar -cf a --null -T F1",
        "touch 'x\\ty'; printf 'x\\\\ty\\n' > F1; tar -cf a -T F1; tar -cf a --verbatim-files-from \
         -T F1",
        "touch 'x\\ty'; printf 'x\\\\ty\\n' > F1; tar -cf a --no-unquote -T F1; tar -cf a --null \
         --no-null -T F1",
        "printf -- '--null\\n-T F2\\n' > F1; printf 'dir\\0two' > F2; tar -cf a -T F1",
        // A list may be empty.
        "tar -cf a -T /dev/null; ls -l a | cut -d' ' -f5",
        "tar -cf a",
        "tar -cf a -C dir --exclude=x",
        "tar -cf a dir two; tar -tf a -T /dev/null",
    ] {
        same(&format!("{command}{LIST}"));
    }
}

#[test]
fn options_of_the_environment_come_first() {
    for (options, command) in [
        ("--exclude '*.b'", "tar -cf a dir"),
        ("-v", "tar cf a two"),
        ("  ", "tar -cf a dir"),
        ("--exclude=\\*.b --exclude=\"*\\x2ea\"", "tar -cf a dir two"),
        ("-C dir", "tar -cf a a.a"),
        ("-h --", "tar -cf a dir"),
        ("dir", "tar -cf a two"),
        ("-T list", "tar -cf a two"),
        ("'", "tar -cf a two"),
        ("--foo", "tar -cf a two"),
        ("-f", "tar -cf a two"),
        ("-f x", "tar -cf a two"),
        ("--strip-components=1 --one-top-level=top", "tar -cf a dir; tar -xf a"),
    ] {
        same(&format!(
            "export TAR_OPTIONS={}; {command}; R=$?; unset TAR_OPTIONS{LIST}",
            word(options)
        ));
    }
}

#[test]
fn options_may_follow_names_in_posix_too() {
    for command in
        ["tar -cf a dir -v two", "tar cf a --exclude '*.b' dir -v -- two", "tar -cf a two -- -v"]
    {
        same(&format!("export POSIXLY_CORRECT=1; {command}; R=$?; unset POSIXLY_CORRECT{LIST}"));
    }
}

fn word(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[test]
fn occurrences_are_of_members_that_are_named() {
    let archive = "tar -cf a dir dir two";
    for command in [
        "tar -cf b --occurrence dir",
        "tar -cf b --occurrence",
        "tar -rf a --occurrence dir",
        "tar -uf a --occurrence dir",
        "tar -Af a --occurrence a",
        "tar -tf a --occurrence",
        "tar -xf a --occurrence=2",
        "tar -tf a --occurrence=0 dir",
        "tar -tf a --occurrence=2x dir",
        "tar -tf a --occurrence=2 dir/a.a",
        "tar -tf a --occurrence dir/a.a two/d.a",
        "tar -df a --occurrence dir/a.a",
        "tar -tf a --occurrence dir --no-recursion",
        "tar -tf a --occurrence --no-recursion dir --recursion",
        "tar -tf a --occurrence=3 --wildcards '???' --no-recursion two",
    ] {
        same(&format!("{archive}; {command}"));
    }
}

/// The printed names are those of the extracted files.
#[test]
fn a_top_directory_is_shown_with_what_is_transformed() {
    for flags in [
        "--one-top-level",
        "--one-top-level=top --transform=s,dir,changed,",
        "--one-top-level=top --transform=s,^,x/, --strip-components=1",
        "--one-top-level=top --transform=s,^dir,top,",
        "--one-top-level=top --strip-components=1",
        "--strip-components=1 --transform=s,two,,",
        "--one-top-level=top/sub/",
        "--one-top-level=./top",
    ] {
        same(&format!(
            "tar -cf a.tar dir two; mkdir o; cd o; tar -xvf ../a.tar --show-transformed-names \
             {flags} | sort"
        ));
        same(&format!("tar -cf a.tar dir two; tar -tvf a.tar --show-transformed-names {flags}"));
    }
}

/// -d compares the extracted files with the transformed members, links too.
#[test]
fn links_are_compared_as_they_are_transformed() {
    for flags in ["--transform=s,^,x/,", "--transform='s,^,x/,S'"] {
        let make = "ln -s dir/a.a dir/to; ln dir/a.a dir/same; tar -cf a.tar dir; mkdir o; cd o";
        same(&format!(
            "{make}; tar -xf ../a.tar {flags}; tar -dvvf ../a.tar {flags} | grep -e link -e '->' \
             -e iffers"
        ));
    }
}

#[test]
fn links_are_followed_where_that_is_asked_for() {
    let scene = "echo new > f; mkdir d; chmod 711 d; echo n > d/f; touch -d @1000000000 d; tar -cf \
                 a f d; rm -r f d; mkdir real; echo old > real/target; ln -s real/target f; ln -s \
                 real d; touch -h -d @1 f; ";
    for flags in [
        "--overwrite -h",
        "-h",
        "",
        "--overwrite",
        "-U -h",
        "--recursive-unlink -h",
        "-k -h",
        "--skip-old-files -h",
        "--keep-directory-symlink",
        "--keep-newer-files -h",
        "--overwrite -hP",
    ] {
        same(&format!(
            "{scene} tar -xf a {flags}; R=$?; stat -c '%n %a %F' * real/*; cat real/target; exit $R"
        ));
    }
    let dangling = "echo new > f; tar -cf a f; rm f; ln -s to f; ";
    same(&format!("{dangling} tar -xf a --overwrite -h; R=$?; cat to; exit $R"));
    same("echo new > f; tar -cf a f; rm f; ln -s f f; tar -xf a --overwrite -h");
    same("echo new > f; tar -cf a f; rm f; ln -s dir f; tar -xf a --overwrite -h");
    // Links are never followed to the outside; an error is printed.
    let outside = format!(
        "{TREE} echo new > f; tar -cf a f; mkdir o; ln -s ../dir/a.a o/f; ln -s ../none o/g; \
                           tar -C o -xf a --overwrite -h; echo $?; cat dir/a.a; ls"
    );
    let (_, out, err, _) = run(&outside, true);
    assert_eq!(out, "2\na\na\ndir\nf\no\ntwo\n", "{err}");
    assert!(err.contains("tar: f: Cannot open: "), "{err}");
}

#[test]
fn a_directory_is_removed_by_whatever_name() {
    for command in [
        "tar --remove-files -cf a -C dir .",
        "tar --remove-files -cf a -C dir ./",
        "tar --remove-files -cf a -C dir . -C ../two .",
        "tar --remove-files -cf a dir/.",
        "tar --remove-files -cf a dir/./.",
        "tar --remove-files -cf a -C dir -C sub .",
        "tar --remove-files -cf a -C $PWD/dir .",
        "cd dir; tar --remove-files -cf ../a .",
        "ln -s dir l; tar --remove-files -cf a -C l .",
        "tar --remove-files -cf dir/a -C dir .",
    ] {
        same(&format!(
            "{command} 2> err; R=$?; [ $R != 2 ] || grep -c 'Cannot rmdir' err; rm err; exit $R"
        ));
    }
}

#[test]
fn dates_are_told_as_they_are_understood() {
    for command in [
        "tar -cf a --mtime=@77 dir/a.a",
        "tar -cvf a --mtime=@77 dir/a.a",
        "tar -cvvf a --mtime=@77.25 dir/a.a; tar -tvvf a",
        "tar -cvvf a --mtime=@77 --clamp-mtime dir/a.a --format=pax; tar -tvvf a",
        "tar -cvf a --mtime='1970-01-01 00:01:17' dir/a.a",
        "tar -cvf a --mtime=./dir/a.a dir/a.a",
        "tar -cvf a -N @77 dir/a.a",
        "tar -cvf a --newer-mtime=2020-01-01 dir/a.a; tar -tvf a",
        "tar -cf a dir/a.a; tar -tvf a -N @77; tar -tf a -N @77; tar -xvf a -N @77",
    ] {
        same(command);
    }
}

#[test]
fn what_has_no_place_in_the_oldest_format_is_told() {
    for flags in [
        "",
        "--ignore-failed-read",
        "--warning=no-file-ignored",
        "--warning=no-file-ignored --ignore-failed-read",
    ] {
        same(&format!("mkfifo dir/p; tar -cf a --format=v7 {flags} dir{LIST}"));
    }
    // A name may fill its whole field.
    let names = "n=$(printf 'n%.0s' {1..98}); touch $n ${n}n ${n}nn ${n}nnn; mkdir d; mkdir d/$n \
                 d/${n:2} d/${n:3} d/${n:4};";
    same(&format!(
        "{names} {OLD} tar -cf a --format=v7 --sort=name n* d; R=$?; md5sum < a; exit $R"
    ));
    same(&format!(
        "{names} ln -s ${{n}}n l; ln -s ${{n}}nn m; {OLD} tar -cf a --format=v7 l m; R=$?; md5sum \
         < a; exit $R"
    ));
    same(&format!(
        "{names} ln ${{n}}nn h; {OLD} tar -cf a --format=v7 ${{n}}nn h; R=$?; tar -tvf a; exit $R"
    ));
}

#[test]
fn a_tag_is_archived_whatever_is_excluded() {
    for command in [
        "tar -cf a --exclude-tag=a.a --exclude='*/*' dir",
        "tar -cf a --exclude-tag=sub --exclude='*/*' dir",
        "tar -cf a --exclude-tag-under=a.a --exclude='*/*' dir",
        "tar -cvf a --exclude-tag=a.a --exclude='*.a' dir two",
        "touch dir/x:y; tar -cvf a --exclude-tag=x:y dir",
        "tar -cvf a --exclude-tag-all=a.a --no-recursion dir two",
        "tar -cvf a --exclude-tag=a.a --exclude-tag-under=d.a --no-recursion dir two",
        // A link is followed only with -h.
        "ln -s a.a dir/l; tar -cf a --exclude-tag=l dir two",
        "ln -s a.a dir/l; tar -cf a -h --exclude-tag=l dir two",
        "ln -s nowhere dir/l; tar -cf a --exclude-tag-all=l dir two",
        "mkfifo dir/l; tar -cf a --exclude-tag=l dir two",
    ] {
        same(&format!("{command}{LIST}"));
    }
}

#[test]
fn what_cannot_be_made_is_told_as_by_gnu() {
    let links = "ln -s ../x dir/up; ln -s /x dir/root; ln -s x dir/plain; ln -s a..b dir/dots";
    let gone = "tar -cf a dir; rm -r dir; ln -s nowhere dir; R=0; for N in up root plain dots; do \
                tar -xf a dir/$N";
    same(&format!("{links}; {gone} || R=$?; done; exit $R"));
    same(&format!("{links}; {gone} -P || R=$?; done; exit $R"));
    for flags in ["--keep-newer-files", "-U", "-k", "--overwrite", "--recursive-unlink", ""] {
        same(&format!(
            "{links}; tar -cf a dir; rm -r dir; ln -s nowhere dir; tar -xf a dir/a.a dir/up \
             dir/plain {flags}"
        ));
        same(&format!(
            "{links}; tar -cf a dir; rm -r dir; echo > dir; tar -xf a dir/a.a dir/up dir/plain \
             dir/sub {flags}"
        ));
    }
    same(&format!(
        "{links}; tar -cf a dir; tar -xkf a; rm dir/dots; mkdir -p dir/dots/x; tar -xf a"
    ));
}

/// A link in the place of a member may also be part of the member's path: it is removed, and the
/// path is made again.
#[test]
fn a_link_that_leads_to_its_own_directory_makes_way() {
    let make = "mkdir -p t/b/b; echo x > t/b/b/f; echo y > t/b/a; ln -s a t/b/l; ln t/b/a t/b/h; \
                tar -cf a --sort=name t; rm -r t; mkdir t; ln -s . t/b";
    for flags in [
        "",
        "-U",
        "--recursive-unlink",
        "-k",
        "--skip-old-files",
        "--overwrite",
        "-h",
        "--overwrite -h",
        "--keep-directory-symlink",
    ] {
        for member in ["t/b/b", "t/b/b t/b/a", "t/b", "t"] {
            same(&format!("{make}; tar -xf a {flags} {member}"));
        }
    }
    let twice =
        "mkdir -p t/b/c; chmod 711 t/b/c; touch -d @1500000000 t/b/c; tar -cf a t/b t; rm -r t";
    same(&format!("{twice}; ln -s . t; tar -xf a; R=$?; stat -c '%n %a %Y' b/c t/b/c; exit $R"));
    same(&format!(
        "{twice}; mkdir -p t/b; ln -s nowhere t/b/c; tar -xf a --no-overwrite-dir; stat -c %a t/b/c"
    ));
    let files =
        "mkdir -p t/b; echo x > t/b/b; tar -cf a t; rm -r t; mkdir t; ln -s . t/b; echo old > t/x";
    same(&format!("{files}; tar -xf a t/b/b; cat t/b/b"));
    same(&format!("{files}; mv t u; ln -s u t; tar -xf a t/b/b; cat t/b/b"));
    same(
        "mkdir d; ln -s d d/loop; tar -cf a dir; rm -r dir; ln -s dir dir; tar -xf a dir/a.a -U; \
         tar -xf a dir/a.a --recursive-unlink",
    );
}

#[test]
fn directories_on_the_way_are_listed() {
    for flags in ["-xvvf", "-xvf", "-xf"] {
        same(&format!(
            "tar -cf a dir; tar --one-top-level=top/sub {flags} a dir/sub/c.a dir/a.a; stat -c %a \
             top"
        ));
        same(&format!(
            "tar -cf a dir; rm -r dir; umask 27; tar {flags} a dir/sub/c.a dir/a.a; stat -c %a \
             dir/sub"
        ));
        same(&format!(
            "mkdir -p 'q\\t/w'; echo > 'q\\t/w/f'; {OLD} tar -cf a 'q\\t'; rm -r q*; tar {flags} a \
             --full-time --wildcards '*f'"
        ));
    }
}

/// If two members are the same directory, the attributes of the inner one are set first.
#[test]
fn a_directory_that_a_link_in_it_leads_to_keeps_its_mode() {
    for (inner, link) in [("d/l", "."), ("d/s/l", ".."), ("d/s/t/l", "../..")] {
        let members = format!(
            "mkdir -p {inner}; chmod 700 {inner}; chmod 1777 d; touch -d @1500000000 {inner}; \
             touch -d @1400000000 d"
        );
        let scene =
            format!("{members}; tar -cf a d; rmdir {inner}; ln -s {link} {inner}; chmod 755 d");
        same(&format!("{scene}; tar -xf a --overwrite -h; stat -c '%a %Y' d"));
    }
    let beside =
        "mkdir d e; chmod 700 d; chmod 711 e; tar -cf a d e; tar -cf b e d; rmdir d; ln -s e d";
    same(&format!("{beside}; tar -xhf a; stat -c %a e; tar -xhf b; stat -c %a e"));
}

/// A deep tree with few descriptors: directories are closed and opened again, and files are read
/// with one descriptor.
#[test]
fn few_descriptors_are_enough() {
    let tree = "D=deep; for i in 1 2 3 4 5 6; do mkdir $D; echo $i > $D/a; head -c 100000 /dev/urandom > $D/m; echo z > $D/z; D=$D/d; done
        echo file > file; tar -cf deep.tar --transform=s,file,deep, file; mv deep.tar file
        mkdir $D; head -c 3000000 /dev/urandom > $D/large; truncate -s 3M deep/hole; echo x >> deep/hole; find deep -type d -exec touch -d @1 {} +";
    let dir = file_systems()[0].dir();
    let text = format!(
        "{tree}
        for F in '' '-S' '--hole-detection=raw' '--xattrs' '--remove-files'; do
            (ulimit -n 10; tar -cf a $F deep) || exit 1
            ( [ -d deep ] || {{ [ \"$F\" = --remove-files ] && mkdir rest && /bin/tar -xf a && rmdir rest; }} ) || exit 2
            /bin/tar -df a || exit 3
            mkdir o; (ulimit -n 10; tar -C o -xf a) || exit 4
            diff -r deep o/deep || exit 5
            (ulimit -n 10; tar -C o -df a) || exit 6
            (ulimit -n 10; cd o; tar -xf ../file --recursive-unlink; cat deep) || exit 7
            rm -r o
        done"
    );
    let (status, out, err) = shell(dir.path(), &text, true);
    assert_eq!((status, out.as_str(), err.as_str()), (Some(0), "file\n".repeat(5).as_str(), ""));
}

/// GNU tar takes 0.6 s for these patterns; one regular expression of all of them took over a
/// minute.
#[test]
fn many_patterns_take_no_time() {
    let dir = file_systems()[0].dir();
    set_up(dir.path(), "mkdir t; cd t; for i in $(seq 90); do echo > file$i; done");
    for form in ["dir{}/*.o", "name{}", "*.x{}", "?{}[ab]*"] {
        let patterns: String =
            (0..100_000).map(|number| form.replace("{}", &number.to_string()) + "\n").collect();
        fs::write(dir.path().join("patterns"), patterns + "file7*\n").unwrap();
        let began = Instant::now();
        let (status, _, err) = shell(dir.path(), "tar -cf a -X patterns t", true);
        assert_eq!((status, err.as_str()), (Some(0), ""));
        assert_eq!(shell(dir.path(), "tar -tf a | wc -l", false).1, "80\n", "{form}");
        // The limit allows for a build without optimisation and for other tests that run at the
        // same time.
        assert!(began.elapsed() < Duration::from_secs(30), "{form}: {:?}", began.elapsed());
    }
}

#[track_caller]
fn set_up(dir: &Path, script: &str) {
    let (status, _, err) = shell(dir, script, false);
    assert_eq!(status, Some(0), "{script}: {err}");
}
