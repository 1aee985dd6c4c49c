//! Trees: links within them, links out of them, entries that may not be read, and other file
//! systems.

use std::os::unix::process::ExitStatusExt;

use crate::support::{Scratch, case, each, is_root, snapshot};

const TREE: &str =
    "mkdir -p t/a/b t/c out; echo 1 >t/f; echo 2 >t/a/f; echo 3 >t/a/b/f; echo away >out/f
    ln t/f t/hard; ln t/f t/a/hard; ln t/a/b/f t/c/hard; ln t/a/f outside
    ln -s f t/rel; ln -s ../f t/a/up; ln -s nowhere t/dangling; ln -s a t/dirlink
    ln -s ../out t/outlink
    ln t/rel t/rel2; mkfifo t/p; ln t/p t/p2
    touch -h -d '2003-04-05 06:07:08.123456789' t/rel t/dangling t/dirlink
    touch -d '2001-02-03 04:05:06.987654321' t/f t/a/f t/a/b/f t/p
    chmod 600 t/a/f; chmod 750 t/a; chmod 555 t/a/b; chmod 1777 t/c
    touch -d '2002-03-04 05:06:07.000000008' t/a/b t/a t/c t";

const OPTIONS: [&str; 17] = [
    "-r",
    "-R",
    "-a",
    "-rp",
    "-rd",
    "-rP",
    "-dr --preserve=links",
    "-r --preserve=all",
    "-a --no-preserve=links",
    "-a --no-preserve=mode",
    "-a --no-preserve=timestamps,ownership",
    "-rl",
    "-al",
    "-rv",
    "-av",
    "-rx",
    "-r --preserve=mode",
];

#[test]
fn whole_trees() {
    for umask in ["022", "077", "002", "000"] {
        for options in OPTIONS {
            case(TREE, &format!("{options} t new")).umask(umask).same();
        }
    }
}

#[test]
fn over_an_earlier_copy() {
    // Which name of an inode is written and which becomes a link to it depends on the order of
    // entries, and so does which directory changes. All get new times, which are not compared.
    let setup = format!(
        "{TREE}; mkdir old; cp -a t old/t; echo changed >old/t/f; chmod 700 old/t/a; \
         touch old/t/a/b old/t/a old/t/c old/t"
    );
    // With -al the outcome depends on the order of directory entries.
    let options: Vec<&str> = OPTIONS.into_iter().filter(|options| *options != "-al").collect();
    each(&setup, &options, "t old");
    each(&setup, &["-af", "-an", "-au", "-a --remove-destination", "-rfv"], "t old");
    each(&setup, &["-a", "-r"], "t/. old/t");
}

#[test]
fn links_followed() {
    let tree = format!("{TREE}; rm t/p t/p2");
    for options in ["-rL", "-aL", "-rLp", "-rH", "-aH", "-rL --preserve=links", "-RLv"] {
        case(&tree, &format!("{options} t new")).same();
        case(&format!("{tree}; rm t/dangling"), &format!("{options} t new")).same();
    }
    for options in ["-r", "-a", "-rH", "-aH", "-rL", "-rP", "-dr"] {
        for source in ["t/dirlink", "t/dirlink/", "t/rel", "t/outlink", "t/dangling"] {
            case(&tree, &format!("{options} {source} new")).same();
        }
        case(&tree, &format!("{options} t/rel t/f t/rel2 t/hard out")).same();
    }
    // A directory that is reached by two names is copied twice.
    case("mkdir -p t/d u; echo 1 >t/d/f; ln -s d t/e", "-rL t u").same();
    case("mkdir -p t/d; ln -s .. t/d/up; echo 1 >t/f", "-rL t new").same();
}

#[test]
fn links_across_operands() {
    for options in ["-a", "-d", "-p", "--preserve=links", "-l", "-rL --preserve=links"] {
        case(TREE, &format!("{options} t/f t/hard t/a/hard out")).same();
    }
    case(TREE, "-a t/a t/c outside out").same();
    case("echo x >a; ln a b; mkdir d; echo y >d/b", "--preserve=links a b d").same();
    case("echo x >a; ln a b; mkdir d; echo y >d/b", "-v --preserve=links a b d").same();
}

/// Entries that cannot be read are reported, and everything else is copied.
#[test]
fn the_rest_is_copied() {
    let setup = "chmod 777 .; mkdir -p t/shut t/blind t/ok; echo 1 >t/a; echo 2 >t/no; echo 3 >t/ok/f; echo 4 >t/z
        echo 5 >t/blind/f; chmod 000 t/shut t/no; chmod 311 t/blind";
    for options in ["-r", "-a", "-rp", "-rv"] {
        let case = case(setup, &format!("{options} t new")).nobody();
        if is_root() {
            let (gnu, dio) = (case.gnu(), case.dio());
            assert_eq!(
                (gnu.status, &gnu.err, &gnu.tree),
                (dio.status, &dio.err, &dio.tree),
                "{options}\n{gnu}\n{dio}"
            );
        }
    }
    case(setup, "t/a t/no t/z nowhere t/ok/f t/ok").nobody().same();
}

#[test]
fn directories_without_write_permission() {
    let setup = "chmod 777 .; mkdir -p t/ro/deeper; echo x >t/ro/f; echo y >t/ro/deeper/g; chmod \
                 555 t/ro/deeper t/ro; chmod 511 t";
    for options in ["-r", "-a", "-rp", "-r --preserve=mode", "-r --no-preserve=mode"] {
        let readable = format!("{setup}; chmod 555 t");
        for umask in ["022", "077", "700"] {
            case(&readable, &format!("{options} t new")).umask(umask).nobody().same();
        }
        case(setup, &format!("{options} t new")).nobody().same();
    }
}

#[test]
fn names_of_any_bytes() {
    let setup = "mkdir t; cd t; touch -- \"$(printf 'a\\nb')\" \"$(printf '\\377')\" ' ' '-r' '*' \
                 \"it's\"; echo x >'a b'";
    each(setup, &["-r", "-a", "-rv"], "t new");
}

/// The tree is deeper than the longest path, so only names relative to open directories reach its
/// end.
#[test]
fn deep_trees() {
    let scratch = Scratch::new();
    let setup = "mkdir top; cd top; i=0; while [ $i -lt 60 ]; do d=$(printf '%0200d' $i); mkdir \
                 $d; cd -P $d; i=$((i+1)); done; echo deep >f";
    let make = std::process::Command::new("bash")
        .args(["-ec", setup])
        .current_dir(scratch.path())
        .status();
    assert!(make.unwrap().success());
    let output = std::process::Command::new(scratch.dio())
        .args(["cp", "-a", "top", "copy"])
        .current_dir(scratch.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let count = |dir: &str| {
        let mut command = std::process::Command::new("find");
        let output = command
            .arg(dir)
            .args(["-printf", "%f %y %T@\\n"])
            .current_dir(scratch.path())
            .output()
            .unwrap();
        let listing = String::from_utf8_lossy(&output.stdout).into_owned();
        listing.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(count("top"), count("copy"));
    assert_eq!(count("top").len(), 61);
}

/// A copy works with few file descriptors: directories are closed and opened again, and large files
/// are copied with two descriptors. GNU cp needs even fewer.
#[test]
fn few_descriptors_are_enough() {
    let scratch = Scratch::new();
    let shell = |script: &str| {
        let mut bash = std::process::Command::new("bash");
        let output = bash
            .args(["-c", script])
            .env("DIO", scratch.dio())
            .current_dir(scratch.path())
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let tree = "set -e; D=t; for i in {1..14}; do
        mkdir $D; echo $i >$D/a; head -c 100000 /dev/urandom >$D/m; ln -s a $D/s; ln $D/a $D/z
        D=$D/d; done
        mkdir $D; head -c 3000000 /dev/urandom >$D/large; truncate -s 5M $D/hole; echo x >>$D/hole
        truncate -s 9M $D/hole
        yes | head -c 100000 >$D/zeros; head -c 500000 /dev/zero >>$D/zeros; echo end >>$D/zeros
        find t -type d -exec chmod 750 {} +; find t -exec touch -h -d @1000000000 {} +
        mkdir old new; cp -a t old; find old -name m -exec truncate -s 2M {} +";
    assert_eq!(shell(tree), (Some(0), String::new()));
    let deep = "t/d/d/d/d/d/d/d/d/d/d/d";
    for arguments in [
        "-r t new",
        "-a t new",
        "-rL t new",
        "-al t new",
        "-a t/. new/t",
        "-a --sparse=always t new",
        "-a --sparse=never t new",
        "-a t old new",
        &format!("-a --parents {deep} new"),
        &format!("-p --parents {deep}/a {deep}/m new"),
        "-aT t old/t",
        "-r t/. old/t",
    ] {
        for (dir, program) in [("theirs", "cp"), ("ours", "\"$DIO\" cp")] {
            let script = format!(
                "mkdir {dir} && cp -a --sparse=always t old new {dir} && cd {dir} && ulimit -n 10 \
                 && {program} {arguments}"
            );
            assert_eq!(shell(&script), (Some(0), String::new()), "{program} {arguments}");
        }
        let (gnu, dio) =
            (snapshot(&scratch.path().join("theirs")), snapshot(&scratch.path().join("ours")));
        for (name, what) in &gnu {
            assert_eq!(dio.get(name), Some(what), "{arguments}: {name}");
        }
        assert_eq!(gnu.len(), dio.len(), "{arguments}");
        let holes = "for D in theirs ours; do (cd $D; find . -name hole -printf '%p %b\\n' | sort) >$D.holes; done
            cmp theirs.holes ours.holes && rm -r theirs ours";
        assert_eq!(shell(holes), (Some(0), String::new()), "{arguments}");
    }
}

/// There are enough files that every worker has some. Links, times and modes must be the same as if
/// a single worker had copied all.
#[test]
fn many_files_in_parallel() {
    let scratch = Scratch::new();
    let root = scratch.path().join("s");
    for d in 0..40 {
        let dir = root.join(format!("d{}/e{d}", d % 7));
        std::fs::create_dir_all(&dir).unwrap();
        for f in 0..60 {
            std::fs::write(dir.join(format!("f{f}")), vec![b'x'; f * 97 % 9000]).unwrap();
        }
        std::fs::hard_link(dir.join("f7"), root.join(format!("d0/link{d}"))).unwrap();
        for other in 0..d {
            std::fs::hard_link(dir.join("f9"), root.join(format!("d{}/e{other}/of{d}", other % 7)))
                .unwrap();
        }
    }
    let times = std::process::Command::new("sh")
        .args(["-c", "find s -exec touch -h -d '2011-12-13 14:15:16.171819202' {} +; cp -a s gnu"])
        .current_dir(scratch.path())
        .status();
    assert!(times.unwrap().success());
    for round in 0..3 {
        let copy = format!("copy{round}");
        let output = std::process::Command::new(scratch.dio())
            .args(["cp", "-a", "s", &copy])
            .current_dir(scratch.path())
            .output()
            .unwrap();
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let (gnu, dio) =
            (snapshot(&scratch.path().join("gnu")), snapshot(&scratch.path().join(&copy)));
        for (name, what) in &gnu {
            assert_eq!(dio.get(name), Some(what), "{name}");
        }
        assert_eq!(gnu.len(), dio.len());
    }
}

/// While another process keeps exchanging directories of an existing target for links, no file may
/// be written outside the target.
#[test]
fn races_do_not_lead_out_of_an_existing_target() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = |name: &str| dir.path().join(name);
    for name in ["from/d/e", "to/from/d/e", "out"] {
        std::fs::create_dir_all(path(name)).unwrap();
    }
    for number in 0..400 {
        std::fs::write(path(&format!("from/d/{number}")), "x").unwrap();
        std::fs::write(path(&format!("from/d/e/{number}")), "x").unwrap();
    }
    std::os::unix::fs::symlink(path("out"), path("to/from/link")).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (d, link) = (path("to/from/d"), path("to/from/link"));
            while !done.load(Ordering::Relaxed) {
                let flags = rustix::fs::RenameFlags::EXCHANGE;
                let _ =
                    rustix::fs::renameat_with(rustix::fs::CWD, &d, rustix::fs::CWD, &link, flags);
            }
        });
        for options in [&["-r"][..], &["-r", "--atomic"], &["-a"]].iter().cycle().take(6) {
            let mut dio = std::process::Command::new(env!("CARGO_BIN_EXE_dio"));
            dio.arg("cp").args(*options).args([path("from"), path("to")]);
            let output = dio.output().unwrap();
            if output.status.signal().is_some() {
                done.store(true, Ordering::Relaxed);
                panic!("{output:?}");
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    let led_out: Vec<_> =
        std::fs::read_dir(path("out")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(led_out.is_empty(), "{} files, as {:?}", led_out.len(), led_out[0]);
}
