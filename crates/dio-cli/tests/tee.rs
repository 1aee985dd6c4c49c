//! `tee` against the system's: every byte of output and message, the status, and every file that is
//! left behind must be the same.

use std::path::Path;

use crate::pass::{MIB, Seed, file_systems, run, same, same_on, text};

const MODES: &[&str] = &[
    "",
    "-p",
    "--output-error",
    "--output-error=warn",
    "--output-error=warn-nopipe",
    "--output-error=exit",
    "--output-error=exit-nopipe",
];

fn setup(dir: &Path) {
    std::fs::write(dir.join("f"), "one\ntwo").unwrap();
    std::fs::write(dir.join("old"), "old content, longer than the new one").unwrap();
    std::fs::write(dir.join("big"), vec![b'x'; 3 * MIB]).unwrap();
    std::fs::create_dir(dir.join("dir")).unwrap();
}

#[test]
fn contents_of_every_kind_arrive_on_every_file_system() {
    let seed = Seed::new();
    for fs in file_systems() {
        let mut rng = seed.rng();
        let sizes: &[usize] = match fs.name.as_str() {
            "host" => &[0, 1, 511, 4096, 4097, 65_537, MIB - 1, MIB, MIB + 1, 3 * MIB + 77],
            _ => &[4097, MIB - 1, MIB + 1, 3 * MIB + 77],
        };
        for &size in sizes {
            let bytes = if rng.bool(0.5) { rng.bytes(size) } else { text(&mut rng, size) };
            let fill = |dir: &Path| std::fs::write(dir.join("a"), &bytes).unwrap();
            let script =
                "tee o1 o2 <a >o3; tee <a o4 | cksum; dd if=a bs=7000 status=none | tee o5 o6 >o7
                          tee o8 </dev/null; (dd bs=3 count=1 of=/dev/null status=none
                          tee o9) <a >>o7
                          (printf xyz; tee -a o1 o10; printf abc) <a >o11; tee -a o1 o2 <a >>o3
                          tee <a >o12
                          (tee o13; echo end) <a >o14; tee o15 <a | tee o16 | tee o17 - >o18";
            same_on(&fs, &fill, script);
        }
    }
}

#[test]
fn grammar_and_words_are_those_of_gnu() {
    for options in [
        "-a old",
        "--append old",
        "--app -a old new",
        "old -a",
        "-ai old new",
        "-i old",
        "--ignore-interrupts old",
        "--ign old",
        "- old",
        "-- -a",
        "-z",
        "-h",
        "--nonsense old",
        "--append=3 old",
        "--output-error=w old",
        "--output-error=warn- old",
        "--output-error= old",
        "--output-error=exits old",
        "--output-error=exit-n -p old",
        "-p --output-error=exit nope/x old",
        "--output-error=exit -p nope/x old",
        "--output-error old",
        "'' old",
        "dir old nope/x 'no such/x' $'a\\nb/c'",
        "--output-error=exit dir old nope/x",
        "--output-error=exit-nopipe old nope/x new",
        "--output-error=warn dir nope/x old",
        "-p dir",
    ] {
        same(&setup, &format!("tee {options} <f"));
        same(&setup, &format!("LC_ALL=C tee {options} <f"));
    }
    for script in
        ["tee new <dir; echo $?", "tee <dir", "tee dir/new 1<f <f; echo $?", "tee -a old 1<f <f"]
    {
        same(&setup, script);
    }
}

#[test]
fn an_output_that_fails_does_not_stop_the_others() {
    for mode in MODES {
        for script in [
            "tee MODE new /dev/full other <f >/dev/full; echo $?",
            "tee MODE new /dev/full other <f; echo $?",
            "tee MODE /dev/full /dev/full <f >/dev/null; echo $?",
            "tee MODE /dev/full <big | tail -c 20; echo ${PIPESTATUS[@]}",
            // Whether the program before it gets SIGPIPE depends on timing.
            "dd if=big bs=100 count=5 status=none | tee MODE new nope/x >/dev/full; echo \
             ${PIPESTATUS[1]}",
        ] {
            same(&setup, &script.replace("MODE", mode));
        }
    }
}

/// The effect of a closed pipe depends on the mode. How much the files have got before it is
/// noticed may differ.
#[test]
fn a_closed_pipe_is_judged_by_the_mode() {
    for mode in MODES {
        for script in [
            "tee MODE new <big | head -c 10; echo ${PIPESTATUS[@]}",
            "tee MODE <big | head -c 10; echo ${PIPESTATUS[@]}",
            "mkfifo pipe; head -c 10 pipe >ten & tee MODE pipe new <big | cksum | head -c 0; echo \
             ${PIPESTATUS[0]}; wait; cat ten",
        ] {
            let script = script.replace("MODE", mode);
            let (gnu, dio) = (
                run(&file_systems()[0], &setup, &script, false),
                run(&file_systems()[0], &setup, &script, true),
            );
            assert_eq!(
                (gnu.status, &gnu.out, &gnu.err),
                (dio.status, &dio.out, &dio.err),
                "{script}"
            );
            if let Some(new) = dio.files.get(std::ffi::OsStr::new("new")) {
                assert!(new.iter().all(|b| *b == b'x'), "{script}: not what was read");
                let whole = gnu.files[std::ffi::OsStr::new("new")].len() == 3 * MIB;
                assert!(!whole || new.len() == 3 * MIB, "{script}: {} bytes", new.len());
            }
        }
    }
}

#[test]
fn one_file_may_have_many_names() {
    let seed = Seed::new();
    for fs in file_systems() {
        for size in [5, 8000, 2 * MIB + 3] {
            let bytes = seed.rng().bytes(size);
            let fill = |dir: &Path| {
                std::fs::write(dir.join("a"), &bytes).unwrap();
                std::fs::write(dir.join("f"), "one\ntwo").unwrap();
                std::fs::hard_link(dir.join("f"), dir.join("link")).unwrap();
            };
            for script in [
                "tee f f f <a | cksum",
                "tee f link <a >f",
                "tee o1 f o2 <a >>f",
                "tee o1 ./o1 o2 <a >o1",
                "tee f <f",
                "tee f f <f >>link",
                "tee /dev/stdout <a >o1",
                "tee /dev/null /dev/null <a >/dev/null",
            ] {
                same_on(&fs, &fill, script);
            }
        }
        // If the input takes more than one read, the order of data that is appended twice is not
        // determined.
        let fill = |dir: &Path| std::fs::write(dir.join("f"), "one\ntwo").unwrap();
        same_on(&fs, &fill, "echo more | tee -a f f; echo more | tee -a f f >>f");
    }
}
