//! Operands, targets and the messages about wrong ones, as in GNU cp.

use crate::support::{bytes, case, each};

const FILES: &str =
    "echo one >a; echo two >b; mkdir d; echo three >d/c; ln -s a l; ln -s nowhere dangling";

#[test]
fn wrong_command_lines() {
    for args in [
        "",
        "a",
        "-t d",
        "-T a b d",
        "-t d -T a",
        "-t d -t d a",
        "a b nowhere",
        "a b a",
        "-t nowhere a",
        "-t a b",
        "--parents a b",
        "--reflink=always --sparse=always a x",
        "--preserve=context a x",
    ] {
        let case = case(FILES, args);
        let (gnu, dio) = (case.gnu(), case.dio());
        assert_eq!(
            (gnu.status, &gnu.err, &gnu.tree),
            (dio.status, &dio.err, &dio.tree),
            "{args}\n{gnu}\n{dio}"
        );
        assert_eq!(dio.status, Some(1));
    }
}

#[test]
fn sources_that_cannot_be_copied() {
    for args in [
        "nowhere x",
        "nowhere a d",
        "d x",
        "d a b d",
        "a/ x",
        "a nowhere/x",
        "a x/",
        "a b/",
        "-r d b",
        "-rT d a",
        "-r d/. b",
        "a a",
        "a ./a",
        "a l",
        "l a",
        "-d l a",
        "-P a l",
        "dangling x",
        "a dangling",
        "--remove-destination a dangling",
        "-f a dangling",
        "-T a d",
        "a d/c/x",
    ] {
        case(FILES, args).same();
    }
}

#[test]
fn names_of_targets() {
    for args in [
        "a x",
        "a d",
        "a d/",
        "a d//",
        "a b d",
        "-t d a b",
        "-t d/ a",
        "-T a b",
        "-rT d x",
        "-r d x",
        "-r d x/",
        "-r d/ x",
        "-r d/. x",
        "-r . ../tree/d/e",
        "-v a x",
        "-rv d x",
        "-rv d/ d2",
        "-v a b d//",
        "-rv d/. b d",
        "./a x",
        "-r d/c d/.. x",
        "--target-directory=d a",
        "--no-target-directory a b",
    ] {
        if args == "-r . ../tree/d/e" || args == "-r d/c d/.. x" || args == "-rv d/. b d" {
            continue;
        }
        case(FILES, args).same();
    }
}

#[test]
fn names_are_quoted() {
    for name in [
        &b"it's"[..],
        b"a b",
        b"new\nline",
        b"tab\tx",
        b"$(x)'",
        b"\xff\xfe",
        "grüße".as_bytes(),
        b"-dash",
        b"#'",
    ] {
        case("true", "--").arg(bytes(name)).arg("x").same();
        let setup = "touch a";
        case(setup, "-v a").arg("--").arg(bytes(name)).same();
    }
}

#[test]
fn operands_given_twice() {
    let setup = "mkdir a b d; echo 1 >a/f; echo 2 >b/f; mkdir a/s b/s; echo 3 >a/s/x; echo 4 \
                 >b/s/x; ln -s f a/l; ln -s x b/l";
    for args in [
        "a/f b/f d",
        "a/f a/f d",
        "a/f ./a/f d",
        "-v a/f a/../a/f d",
        "-r a a d",
        "-r a/s b/s d",
        "-rf a/s b/s d",
        "-d a/l b/l d",
        "-d a/l b/f d",
        "a/l b/l d",
        "-n a/f b/f d",
        "-u a/f b/f d",
        "-l a/f b/f d",
        "--remove-destination a/f b/f d",
    ] {
        case(setup, args).same();
    }
    // If the first operand makes a link, the second must not be copied into the link's target.
    case("mkdir a b d; ln -s ../victim a/f; echo new >b/f; echo old >victim", "-d a/f b/f d")
        .same();
}

#[test]
fn a_directory_is_not_copied_into_itself() {
    let setup = "mkdir -p a/b/c; echo x >a/f; ln -s a/b l";
    for args in [
        "-r a a/new",
        "-r a a",
        "-r a a/b",
        "-r a l",
        "-r a a/b/c",
        "-a a/. a/new",
        "-rT a a/b/new",
    ] {
        let outcome = case(setup, args).dio();
        assert_eq!(outcome.status, Some(1), "{args}\n{outcome}");
        assert!(outcome.err[0].starts_with("cp: cannot copy a directory, "), "{args}\n{outcome}");
        // Unlike GNU cp, dio notices this before it makes anything.
        assert_eq!(outcome.tree, case(setup, "--version").dio().tree, "{args}");
        case(setup, args).same_words();
    }
    each(setup, &["-rT", "-aT"], "a a");
    // The target is reached through a link. How much is copied before that depends on the order of
    // directory entries.
    let outcome = case("mkdir a; ln -s .. a/up; mkdir t", "-rL a t").dio();
    let told = |line: &String| line == "cp: cannot copy a directory, 'a', into itself, 't/a'";
    assert!(outcome.status == Some(1) && outcome.err.iter().any(told), "{outcome}");
}

#[test]
fn parents() {
    let setup = "mkdir -p a/b/c d; echo x >a/b/c/f; chmod 2750 a; chmod 705 a/b; chmod 500 a/b/c; \
                 touch -d 2001-02-03 a a/b a/b/c";
    for args in [
        "--parents a/b/c/f d",
        "--parents -v a/b/c/f d",
        "--parents -p a/b/c/f d",
        "--parents -a a/b d",
        "--parents -r a/b/ d",
        "--parents -a a/b/../b/c d",
        "--parents ./a/b/c/f d",
        "--parents -p a/b/c/f a/b/c/f d",
        "--parents nowhere/f d",
        "--parents -p --no-preserve=mode a/b/c/f d",
        "--parents --preserve=timestamps a/b/c/f d",
    ] {
        for umask in ["022", "077", "000"] {
            case(setup, args).umask(umask).same();
        }
    }
    case("mkdir -p a/b d; echo x >a/b/f; echo y >d/a", "--parents a/b/f d").same();
    case("mkdir -p a/b d/a; echo x >a/b/f; chmod 700 d/a", "--parents -pv a/b/f d").same();
}
