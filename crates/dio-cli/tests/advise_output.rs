//! The files that `dio advise` is given: they are looked at before the command runs.

use std::fs;
use std::process::Output;

use crate::advise::{run, said};
use crate::advise_verdict::{json, scratch};
use crate::own::skip;

const COMMAND: &str = "cat src > copy; echo done > made";

#[test]
fn what_cannot_be_read_or_written_is_told_before_the_command_runs() {
    let Some(dir) = scratch() else { return skip!("commands cannot be watched here") };
    let at = dir.path();
    fs::write(at.join("src"), vec![b'x'; 1 << 20]).unwrap();
    fs::write(at.join("damaged"), "{}").unwrap();
    for (line, told) in [
        (&["--device", "absent"][..], "cannot read 'absent': No such file or directory"),
        (&["--device", "damaged"], "'damaged': "),
        (
            &["--device", "profile", "-o", "absent/verdict"],
            "cannot write 'absent/verdict': No such",
        ),
        (&["--device", "profile", "-o", "."], "cannot write '.': Is a directory"),
    ] {
        let output = run(at, &[&["advise"], line, &["--", "sh", "-c", COMMAND]].concat());
        assert_eq!(output.status.code(), Some(125), "{line:?}: {}", said(&output));
        assert!(said(&output).contains(told), "{line:?}: {}", said(&output));
        assert!(!at.join("made").exists(), "{line:?}");
    }
    let sizes = ["advise", "sizes", "-o", "absent/sizes", "sh", "-c", COMMAND];
    let output = run(at, &sizes);
    assert_eq!(output.status.code(), Some(125), "{}", said(&output));
    assert!(!at.join("made").exists());
}

#[test]
fn what_the_command_has_written_is_not_replaced() {
    let Some(dir) = scratch() else { return skip!("commands cannot be watched here") };
    let at = dir.path();
    fs::write(at.join("src"), vec![b'x'; 1 << 20]).unwrap();
    let advise = |command: &str| -> Output {
        let line = ["advise", "--json", "--device", "profile", "-o", "out", "--", "sh", "-c"];
        run(at, &[&line[..], &[command]].concat())
    };
    // Also one that was there before.
    for kept in ["cat src > out", "echo 1 >> out"] {
        let output = advise(&format!("{kept}; cat src > copy"));
        assert_eq!(output.status.code(), Some(125), "{}", said(&output));
        assert!(said(&output).contains("cannot write 'out': it was written meanwhile"));
        assert!(said(&output).contains("\"verdict\""), "it is not lost: {}", said(&output));
    }
    let expected = [&[b'x'; 1 << 20][..], b"1\n"].concat();
    assert!(fs::read(at.join("out")).unwrap() == expected);
    // One that the command leaves alone is.
    let output = advise("cat src > copy");
    assert!(output.status.success(), "{}", said(&output));
    assert!(json(&at.join("out"))["verdict"].is_object());
}
