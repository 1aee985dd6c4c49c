//! Targets that exist: they are replaced, kept, asked about or removed.

use crate::support::{case, each};

const KINDS: &str = "echo new >s; touch -d 2010-01-01 s
    mkdir dir; echo inner >dir/f
    echo old >f; touch -d 2005-01-01 f; echo newer >n; touch -d 2015-01-01 n
    echo ro >ro; chmod 444 ro
    ln -s f tofile; ln -s dir todir; ln -s nowhere dangling; ln -s loop loop
    mkfifo p; touch -d 2013-01-01 p; touch -h -d 2012-01-01 tofile todir dangling loop; ln f hard
    mkdir e";

const TARGETS: [&str; 9] = ["new", "f", "n", "ro", "tofile", "todir", "dangling", "loop", "e"];

#[test]
fn a_file_over_everything() {
    for options in [
        "",
        "-f",
        "-p",
        "-a",
        "-d",
        "--remove-destination",
        "-n",
        "-u",
        "-v",
        "-vf",
        "-T",
        "-fT",
        "-l",
        "-lf",
        "-uv",
    ] {
        for target in TARGETS {
            case(KINDS, &format!("{options} s {target}")).same();
        }
    }
}

#[test]
fn links_and_specials_over_everything() {
    for options in ["-d", "-a", "-P", "-rf", "-au"] {
        for source in ["tofile", "dangling", "p", "todir"] {
            for target in TARGETS.into_iter().filter(|target| *target != source) {
                if source == "p" && !options.contains(['a', 'r']) {
                    continue;
                }
                case(KINDS, &format!("{options} {source} {target}")).same();
            }
        }
    }
}

#[test]
fn directories_over_everything() {
    for options in ["-r", "-a", "-rf", "-rT", "-aT", "-r --remove-destination", "-rn", "-ru", "-rL"]
    {
        for target in TARGETS.into_iter().chain(["dir", "todir/"]) {
            let case = case(KINDS, &format!("{options} dir {target}"));
            // GNU cp notices this only after it has begun.
            let into_itself =
                !options.contains('T') && ["dir", "todir", "todir/"].contains(&target);
            if into_itself { case.same_words() } else { case.same() }
        }
    }
}

#[test]
fn the_same_file_by_another_name() {
    let setup =
        "echo x >a; ln a h; ln -s a l; ln -s a m; ln l k; mkdir d; ln -s ../a d/a; ln a d/h";
    let options = [
        "",
        "-f",
        "-d",
        "-a",
        "-p",
        "-l",
        "-lf",
        "-ld",
        "-n",
        "-u",
        "--remove-destination",
        "-d --remove-destination",
        "-r",
        "-rL",
    ];
    for pair in ["a a", "a h", "h a", "a l", "l a", "l m", "l k", "a d", "h d", "l d", "a d/h"] {
        each(setup, &options, pair);
    }
}

#[test]
fn questions() {
    let setup =
        "mkdir a b; for f in 1 2 3 4; do echo new$f >a/$f; echo old$f >b/$f; done; chmod 400 b/3";
    for (args, stdin) in [
        ("-i a/1 a/2 a/3 b", "y\nn\nyes\n"),
        ("-i a/1 a/2 b", ""),
        ("-iT a/1 b/1", "Y\n"),
        ("-iv a/1 a/2 b", "no\ny\n"),
        ("-ni a/1 b", "y\n"),
        ("-in a/1 b", "y\n"),
        ("-iu a/1 b", "y\n"),
        ("-i --remove-destination a/1 b", "y\n"),
    ] {
        case(setup, args).stdin(stdin).same();
    }
    // One file, since the order of several is that of their inodes, which no test decides.
    case("mkdir a b; echo new >a/1; echo old >b/1", "-ri a/. b").stdin("y\n").same();
    for args in ["-i a/3 b", "-if a/3 b", "-i --remove-destination a/3 b"] {
        let setup = format!("{setup}; chmod 777 . b; chmod 644 a/*");
        for stdin in ["y\n", "n\n"] {
            case(&setup, args).stdin(stdin).nobody().same();
        }
    }
}

#[test]
fn update_looks_at_nanoseconds() {
    let setup = "echo a >a; echo b >b; touch -d '2010-01-01 00:00:00.000000002' a; touch -d \
                 '2010-01-01 00:00:00.000000001' b";
    for args in ["-u a b", "-u b a", "-up a b", "-uv b a"] {
        case(setup, args).same();
    }
    let same = "echo a >a; echo bb >b; touch -d 2010-01-01 a b";
    each(same, &["-u", "-up", "-ua"], "a b");
    let tree = "mkdir -p s/x t/s/x; echo 1 >s/x/f; ln s/x/f s/x/g; touch -d 2001-01-01 s/x/f; echo \
                2 >t/s/x/f; echo 3 >t/s/x/g";
    // If links are not kept, each file is judged by itself. (GNU cp makes the second file a link to
    // the first.)
    each(tree, &["-au", "-auv"], "s t");
    let outcome = case(tree, "-ru s t").dio();
    assert!(outcome.tree["t/s/x/g"].contains("3\\n"), "{outcome}");
}

#[test]
fn targets_that_cannot_be_opened() {
    let setup = "chmod 777 .; echo new >s; echo old >ro; chmod 444 ro; mkdir -m 755 shut; echo x \
                 >shut/f; chmod 644 shut/f";
    for options in ["", "-f", "-vf", "--remove-destination", "-n", "-p"] {
        for target in ["ro", "shut/f", "shut/new", "new"] {
            case(setup, &format!("{options} s {target}")).nobody().same();
        }
    }
}

/// `--update=none` and `=all` came with coreutils 9.3; some systems have an older version.
#[test]
fn update_none_and_all() {
    let outcome = case(KINDS, "--update=none s f").dio();
    assert_eq!((outcome.status, &outcome.err), (Some(0), &vec![]));
    assert!(outcome.tree["f"].contains("old"));
    let outcome = case(KINDS, "-u --update=all s n").dio();
    assert!(outcome.tree["n"].contains("new\\n"), "{outcome}");
}
