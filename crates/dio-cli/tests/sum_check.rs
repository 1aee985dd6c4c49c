//! Lists are checked as by the system's tools: the same lines count, and the messages and the
//! status are the same.

use crate::sums::{Place, noise};

const MD5: &str = "764efa883dda1e11db47671c4a3bbd9e";

/// A directory with a file `a` that contains "hi\n", some other files, and lists of every kind.
fn lists() -> Place {
    let place = Place::new();
    place
        .write("a", "hi\n")
        .write("new\nline", "x\n")
        .write("back\\slash", "x")
        .write(" blank", "hi\n")
        .write("cr\r", "x");
    std::fs::create_dir(place.path().join("d")).unwrap();
    let run = |line: &str| {
        let shell =
            std::process::Command::new("sh").args(["-ec", line]).current_dir(place.path()).status();
        assert!(shell.unwrap().success(), "{line}");
    };
    run("md5sum a > good; md5sum --tag a > tagged; sha256sum a > good256; sed s/^7/0/ good > bad");
    run("cat bad bad bad good > several; sed 's/$/\\r/' good > crlf; printf %s \"$(cat good)\" > \
         unended");
    run("md5sum a new* back* ' blank' cr* > escaped; md5sum --tag a new* back* ' blank' cr* > \
         escapedtags");
    run("sed 's/^\\\\4/\\\\5/' escaped > escapedbad; tr a-f A-F < tagged | sed s/.A./\\(a\\)/ > \
         upper");
    run("{ md5sum a; sha256sum a; b2sum -l 64 a; cksum -a md5 a; cksum -a sha256 a; cksum -a sm3 a; cksum a
         b2sum --tag -l 128 a; sha384sum --tag a; sha512sum a; echo garbage; echo '# comment'; echo; } > mixed");
    run("{ cksum -a blake2b a; b2sum -l 24 a; cksum -a sm3 a; md5sum a; sum a; } > lengths");
    for (name, list) in [
        ("missing", format!("{MD5}  nope\n")),
        ("partly", format!("{MD5}  nope\n{MD5}  a\n")),
        ("missings", format!("{MD5}  nope\n{MD5}  no such\n{MD5}  no\tsuch\n")),
        ("star", format!("{MD5} *a\n")),
        ("one", format!("{MD5} a\n")),
        ("three", format!("{MD5}   blank\n{MD5}   a\n")),
        ("onetwo", format!("{MD5} a\n{MD5}  a\n")),
        ("twoone", format!("{MD5}  a\n{MD5} a\n")),
        ("leading", format!("  {MD5}  a\n\t {MD5}  a\n")),
        ("unescapable", format!("\\{MD5}  a\\x\n\\{MD5}  a\\\n{MD5}  a\\\n")),
        ("directory", format!("{MD5}  d\n")),
        ("stdin", format!("{MD5}  -\n")),
        ("openssl", format!("MD5(a)= {MD5}\n")),
        ("toolong", format!("MD5 (a) = {MD5}f\n{MD5}f  a\n")),
        ("tooshort", format!("MD5 (a) = {0}\n{0}  a\n", &MD5[2..])),
        (
            "loose",
            format!(
                "MD5 (a) ={MD5}\nMD5 (a)  = \t{MD5}\nMD5 (a) {MD5}\nMD5(a) = {MD5} \nMD5  (a) = \
                 {MD5}\nMD5\t (a) = {MD5}\nMD5 \t(a) = {MD5}\n"
            ),
        ),
        (
            "others",
            format!("SHA1 (a) = {MD5}\nBLAKE2b-7 (a) = {MD5}\nCRC (a) = {MD5}\nNOPE (a) = {MD5}\n"),
        ),
        (
            "bits",
            "BLAKE2b-8 (a) = zz\nBLAKE2b-520 (a) = 00\nBLAKE2b- (a) = 00\nBLAKE2b-8 (a) = 00\n"
                .to_owned(),
        ),
        ("nonames", format!("{MD5}\n{MD5} \n{MD5}  \nMD5 () = {MD5}\n")),
        ("nul", format!("{MD5}  a\0b\n")),
        ("comments", "# one\n#two\n\n".to_owned()),
        ("empty", String::new()),
        ("a list", format!("{MD5}  nope\nbad\n")),
    ] {
        place.write(name, list);
    }
    place
}

const LISTS: &str = "good tagged good256 bad several crlf unended escaped escapedtags escapedbad \
                     upper mixed lengths missing partly missings star one three onetwo twoone \
                     leading unescapable directory stdin openssl toolong tooshort loose others \
                     bits nonames comments empty nolist d";

#[test]
fn every_list_under_every_option() {
    let place = lists();
    for list in LISTS.split_whitespace() {
        for options in ["", "-w", "--quiet", "--status", "--strict", "--ignore-missing"] {
            place.same(&format!("md5sum -c {options} {list}"));
        }
        for command in [
            "sha256sum",
            "b2sum",
            "b2sum -l 64",
            "cksum",
            "cksum -a md5",
            "cksum -a sm3",
            "cksum -a blake2b",
        ] {
            place.same(&format!("{command} -w -c {list}"));
        }
    }
}

#[test]
fn options_in_combination() {
    let place = lists();
    for options in [
        "-w --status",
        "--status -w",
        "--quiet -w",
        "-w --quiet --status",
        "--strict --status",
        "--strict -w --ignore-missing",
        "--ignore-missing --status",
        "--ignore-missing --quiet --strict",
        "-cw",
    ] {
        for list in [
            "mixed",
            "partly",
            "missing",
            "several",
            "good",
            "empty",
            "bad good missing",
            "nolist good",
        ] {
            place.same(&format!("md5sum -c {options} {list}"));
        }
    }
}

#[test]
fn lists_and_files_on_standard_input() {
    let place = lists();
    let list = |name: &str| std::fs::read(place.path().join(name)).unwrap();
    for name in ["good", "mixed", "stdin", "empty", "partly", "missing"] {
        place.same_with("md5sum -c", &[], &list(name));
        place.same_with("md5sum -c -w -", &[], &list(name));
        place.same_with("md5sum -c --ignore-missing -", &[], &list(name));
    }
    place.same_with("md5sum -c stdin", &[], b"hi\n");
    place.same_with("md5sum -c", &[b"a list"], b"");
    place.same_with("md5sum -w -c", &[b"a list", b"mixed"], b"");
}

/// Results are printed in the order of the list, whichever file is read first.
#[test]
fn results_come_in_the_order_of_the_list() {
    let place = Place::new();
    for number in 0..60 {
        place.write(
            format!("f{number}"),
            noise(if number % 7 == 0 { 3 << 20 } else { number * 100 }),
        );
    }
    let names: Vec<String> = (0..60).map(|number| format!("f{number}")).collect();
    place.same(&format!("md5sum {}", names.join(" ")));
    let list = place.dio(&format!("md5sum {}", names.join(" "))).out;
    place.write("list", &list).write("f10", "changed").write("f21", "changed");
    std::fs::remove_file(place.path().join("f31")).unwrap();
    place.same("md5sum -c list");
    place.same("md5sum -c --quiet list");
}

#[test]
fn a_list_of_many_digests_is_checked_in_one_read_of_each_file() {
    let place = Place::new();
    place.write("a", noise(5 << 20)).write("b\n", "b");
    let list = place.dio("sum -a all --block 64K a");
    let (lines, numbers): (Vec<&str>, Vec<&str>) =
        list.text().lines().partition(|line| line.contains(" = "));
    assert_eq!((lines.len(), numbers.len()), (11, 4), "{list:?}");
    place.write("list", lines.join("\n"));
    let checked = place.dio("sum -c list --receipt receipt");
    assert_eq!((checked.status, checked.text()), (Some(0), &*"a: OK\n".repeat(11)), "{checked:?}");
    let receipt: serde_json::Value =
        serde_json::from_slice(&std::fs::read(place.path().join("receipt")).unwrap()).unwrap();
    let list_size = std::fs::metadata(place.path().join("list")).unwrap().len();
    assert_eq!(receipt["bytes_read"].as_u64(), Some((5 << 20) + list_size), "{receipt}");
    // Every digest detects the change.
    place.write("a", noise((5 << 20) + 1));
    let checked = place.dio("sum -c list");
    assert_eq!((checked.status, checked.text()), (Some(1), &*"a: FAILED\n".repeat(11)));
    assert_eq!(checked.errors(), "dio sum: WARNING: 11 computed checksums did NOT match\n");
}

#[test]
fn untagged_lines_of_several_digests_go_by_their_length() {
    let place = Place::new();
    place.write("a", "abc");
    let list = place.dio("sum -a md5,sha1,blake3 --untagged a");
    place.write("list", &list.out);
    let checked = place.dio("sum -a md5,sha1,blake3 -c list");
    assert_eq!((checked.status, checked.text()), (Some(0), "a: OK\na: OK\na: OK\n"), "{checked:?}");
    let without = place.dio("sum -c list");
    assert_eq!(without.status, Some(1));
    assert_eq!(without.errors(), "dio sum: list: no properly formatted checksum lines found\n");
}

#[test]
fn base64_is_checked_too() {
    let place = Place::new();
    place.write("a", "abc");
    for options in ["", "--untagged "] {
        let list = place.dio(&format!("cksum -a sha256 --base64 {options}a"));
        place.write("list", &list.out);
        let checked = place.dio("cksum -a sha256 -c list");
        assert_eq!((checked.status, checked.text()), (Some(0), "a: OK\n"), "{checked:?}");
    }
}

#[test]
fn lists_of_b3sum_of_any_length() {
    let place = Place::new();
    place.write("a", noise(3000));
    for options in ["", "-l 5 ", "-l 131 ", "--tag ", "--tag -l 7 "] {
        let list = place.dio(&format!("b3sum {options}a"));
        place.write("list", &list.out);
        let checked = place.dio("b3sum -c list");
        assert_eq!(
            (checked.status, checked.text()),
            (Some(0), "a: OK\n"),
            "{options} {list:?} {checked:?}"
        );
    }
}

/// The digest that the system computes of a part of a file.
fn system_digest(place: &Place, tool: &str, start: usize, length: usize) -> String {
    let line = format!("tail -c +{} large | head -c {length} | {tool}", start + 1);
    let mut shell = std::process::Command::new("sh");
    let ended = shell.args(["-c", &line]).current_dir(place.path()).output().unwrap();
    let text = String::from_utf8(ended.stdout).unwrap();
    text.split_once(' ').unwrap().0.to_owned()
}

#[test]
fn parts_have_lines_that_are_checked_by_themselves() {
    let place = Place::new();
    let mut bytes = noise(2_500_000);
    place.write("large", &bytes).write("small", "hi").write("empty", "");
    let list = place.dio("sum --parts=1M -a sha256,md5 large small empty");
    assert_eq!(list.status, Some(0), "{list:?}");
    let mut expected = String::new();
    for (start, length) in [(0, 1 << 20), (1 << 20, 1 << 20), (2 << 20, 2_500_000 - (2 << 20))] {
        for (tag, tool) in [("SHA256", "sha256sum"), ("MD5", "md5sum")] {
            let digest = system_digest(&place, tool, start, length);
            expected += &format!("{tag} (large) [{start}+{length}/2500000] = {digest}\n");
        }
    }
    let whole = place.dio("sum -a sha256,md5 small empty");
    assert_eq!(list.text(), expected + whole.text());
    place.write("list", &list.out);
    let checked = place.dio("sum -c list");
    assert_eq!(checked.status, Some(0), "{checked:?}");
    assert!(checked.text().starts_with("large [0+1048576/2500000]: OK\nlarge [0+1"), "{checked:?}");
    // GNU's tools say that they do not understand the lines of parts, and check the others.
    let gnu = place.gnu("sha256sum", &["-c".into(), "list".into()], b"");
    assert!(gnu.text() == "small: OK\nempty: OK\n", "{gnu:?}");
    assert!(gnu.errors().contains("lines are improperly formatted"), "{gnu:?}");
    place.same("sha256sum -c list");
    bytes[1 << 20] ^= 1;
    place.write("large", &bytes);
    let checked = place.dio("sum -c --quiet list");
    let failed = "large [1048576+1048576/2500000]: FAILED\n";
    assert_eq!((checked.status, checked.text()), (Some(1), failed.repeat(2).as_str()));
    bytes.push(0);
    place.write("large", &bytes);
    let checked = place.dio("sum -c list");
    assert_eq!(checked.text().matches("FAILED\n").count(), 6, "another size: {checked:?}");
}

#[test]
fn parts_need_lines_that_can_be_checked() {
    let place = Place::new();
    place.write("a", "abc");
    for line in ["--untagged a", "--raw a", "-a crc a", "-c a"] {
        let refused = place.dio(&format!("sum --parts=1M {line}"));
        assert_eq!(refused.status, Some(1), "{refused:?}");
        assert!(refused.errors().contains("--parts "), "{refused:?}");
    }
}
