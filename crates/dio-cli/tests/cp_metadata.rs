//! Modes, owners, times, ACLs, extended attributes and special files.

use crate::support::{case, each, is_root};

/// Whether the test runs as root. If not, prints what is not tested.
fn needs_root(what: &str) -> bool {
    if !is_root() {
        eprintln!("SKIPPED (needs root): {what}");
    }
    is_root()
}

const PRESERVE: [&str; 14] = [
    "",
    "-p",
    "-a",
    "--preserve",
    "--preserve=mode",
    "--preserve=ownership",
    "--preserve=timestamps",
    "--preserve=xattr",
    "--preserve=all",
    "--preserve=mode,timestamps",
    "-p --no-preserve=mode",
    "-p --no-preserve=ownership",
    "--no-preserve=mode",
    "-a --no-preserve=xattr",
];

#[test]
fn modes_owners_and_times() {
    let setup = "chmod 777 .; for m in 0644 0600 0444 0755 4755 2755 1644 6711 0000 0666 0777; do echo $m >$m; chmod $m $m
        touch -d '2009-08-07 06:05:04.030201099' $m; done
        [ $(id -u) != 0 ] || chown 65534:12 4755 0600 0666; mkdir d e; echo old >e/0644
        echo old >e/4755; chmod 777 e/4755";
    let files = "0644 0600 0444 0755 4755 2755 1644 6711 0666 0777";
    for options in PRESERVE {
        for umask in ["022", "077", "000", "027"] {
            case(setup, &format!("{options} {files} d")).umask(umask).same();
        }
        case(setup, &format!("{options} {files} e")).same();
        case(&format!("{setup}; chmod 777 d e"), &format!("{options} {files} d")).nobody().same();
        case(
            &format!("{setup}; chmod 777 d; chown 65534 e/* e"),
            &format!("{options} 0644 4755 e"),
        )
        .nobody()
        .same();
    }
}

#[test]
fn directories_keep_theirs() {
    let setup = "mkdir -p t/a t/b; echo x >t/a/f; chmod 2755 t/a; chmod 1700 t/b; touch -d 2008-07-06 t/a t/b t
        [ $(id -u) != 0 ] || chown 7:8 t/a; mkdir -p g; chmod 2775 g; [ $(id -u) != 0 ] || chown :50 g";
    for options in PRESERVE {
        case(setup, &format!("-r {options} t new")).same();
        case(setup, &format!("-r {options} t new")).umask("077").same();
        // New files take the group of a set-group-id directory.
        case(setup, &format!("-r {options} t g")).same();
        case(setup, &format!("{options} t/a/f g")).same();
        case(
            &format!("{setup}; mkdir -p old/t/a; chmod 777 old/t/a"),
            &format!("-r {options} t old"),
        )
        .same();
    }
}

#[test]
fn extended_attributes() {
    let setup = "echo x >f; setfattr -n user.one -v 1 f; setfattr -n user.empty f; mkdir d; setfattr -n user.dir -v 2 d; cp -a f d/ro
        chmod 444 d/ro; setfattr -n user.long -v $(printf '%0600d' 7) d/ro; [ $(id -u) != 0 ] || setfattr -n trusted.x -v y f; chmod 777 .; echo old >old";
    for options in PRESERVE {
        case(setup, &format!("{options} f new")).same();
        case(setup, &format!("{options} f old")).same();
        case(setup, &format!("-r {options} d new")).same();
        case(setup, &format!("-r {options} d new")).nobody().same();
    }
}

#[test]
fn acls() {
    let setup = "chmod 777 .; echo x >f; setfacl -m u:7:rw,g:8:r f; echo y >plain; mkdir -p d/s; setfacl -m u:9:rwx d; setfacl -d -m u:10:rx d/s
        echo z >d/s/in; mkdir def; setfacl -d -m u:11:rwx,g::rx,o::- def; echo old >def/old; echo old >old; setfacl -m u:3:rw old; mkdir -p def/d";
    for options in PRESERVE {
        for umask in ["022", "077"] {
            for args in [
                "f new",
                "plain def",
                "f def",
                "plain old",
                "f old",
                "plain def/old",
                "-r d new",
                "-r d def",
                "-rT d def",
            ] {
                case(setup, &format!("{options} {args}")).umask(umask).same();
            }
        }
    }
}

#[test]
fn special_files() {
    if !needs_root("devices") {
        return;
    }
    let setup = "mkdir t; mkfifo -m 640 t/p; mknod t/null c 1 3; mknod -m 600 t/loop b 7 0; chown 4:5 t/p t/null; ln -s p t/l; chown -h 6:7 t/l
        touch -h -d 2004-01-01 t/p t/null t/l; mkdir -p old/t; echo x >old/t/p; echo x >old/t/null; setfacl -m u:7:rw t/p";
    for options in
        ["-r", "-a", "-rp", "-rd", "-a --no-preserve=mode", "-r --no-preserve=mode", "-rf"]
    {
        for umask in ["022", "077"] {
            case(setup, &format!("{options} t new")).umask(umask).same();
            case(setup, &format!("{options} t old")).umask(umask).same();
        }
    }
    each(setup, &["-r", "-a"], "t/p t/null t/l old");
    each(setup, &["", "-p"], "t/null new");
}

#[test]
fn access_times_are_kept() {
    let setup = "mkdir t; echo x >t/f; touch -a -d '2007-01-02 03:04:05.060708091' t/f; touch -m \
                 -d 2006-01-01 t/f";
    let scratch = crate::support::Scratch::new();
    let sh =
        std::process::Command::new("sh").args(["-ec", setup]).current_dir(scratch.path()).status();
    assert!(sh.unwrap().success());
    let cp = std::process::Command::new(scratch.dio())
        .args(["cp", "-a", "t", "new"])
        .current_dir(scratch.path())
        .status();
    assert!(cp.unwrap().success());
    use std::os::unix::fs::MetadataExt;
    let meta = std::fs::metadata(scratch.path().join("new/f")).unwrap();
    assert_eq!((meta.atime(), meta.atime_nsec()), (1_167_707_045, 60_708_091));
}
