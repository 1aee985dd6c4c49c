//! `dio sort` against the system's sort.

use std::path::PathBuf;
use std::sync::OnceLock;

use crate::sort_support::{Case, GNU, case, dio};
use dio_test::{Rng, Seed, file_systems};

/// Directories to run in: on all file systems of the tests, and in memory.
fn places() -> Vec<PathBuf> {
    let memory = Some(PathBuf::from("/dev/shm")).filter(|path| path.is_dir());
    file_systems().into_iter().map(|fs| fs.path).chain(memory).collect()
}

/// A random number in any notation.
fn number(rng: &mut Rng) -> Vec<u8> {
    let digits = |rng: &mut Rng, most: usize| -> String {
        (0..rng.range_usize(0..most)).map(|_| *rng.pick(&['0', '1', '2', '9', '5', '0'])).collect()
    };
    let sign = *rng.pick(&["", "", "-", "", "+", "--", " -", "- "]);
    let most = *rng.pick(&[3, 3, 6, 22, 80]);
    let whole = digits(rng, most);
    let text = match rng.range(0..12) {
        0 => "nan".to_owned(),
        1 => (*rng.pick(&["inf", "INFINITY", "NaN", "NAN(7)", "-nan", "infx"])).to_owned(),
        2 => format!(
            "0x{}",
            *rng.pick(&["1F", "a.8p3", "p", ".8p-16445", "1p16384", "ffffffffffffffffffff", ""])
        ),
        3 => format!(
            "{whole}e{}",
            *rng.pick(&["3", "-5", "+400", "-4951", "4932", "99999999999", ""])
        ),
        4 | 5 => format!("{whole}.{}", digits(rng, most)),
        6 => format!(".{whole}"),
        7 => format!(
            "{whole}{}",
            *rng.pick(&["K", "M", "k", "m", "G", "Ki", "T", "x", "P", "Y", "Z", "E", ".K"])
        ),
        _ => whole,
    };
    format!("{sign}{text}").into_bytes()
}

fn field(rng: &mut Rng) -> Vec<u8> {
    match rng.range(0..10) {
        0 | 1 => number(rng),
        2 => rng
            .pick(&["jan", "FEB", "mar", "Apr", "may", "June", "Dec", "ja", "octo", "nov x"])
            .as_bytes()
            .to_vec(),
        3 => {
            let names = [
                "a-1.2.tar.gz",
                "a-1.10.tar.gz",
                "a-1.2",
                "a1",
                "a01",
                "a10",
                "a~",
                "a.b~",
                ".",
                "..",
                ".a",
                "a.",
                "a.c.d",
                "v1.0~rc1",
                "v1.0",
                "1.2.3",
                "1.10.0",
                "a..b",
                "x_1",
                "x-1",
                "a.1b",
                "foo.c",
                "foo0.c",
                "foo.1",
            ];
            rng.pick(&names).as_bytes().to_vec()
        }
        4 => rng
            .pick(&["", "", "a", "A", "aa", "Aa", "a-b", "a_b", "AB", "b", "B"])
            .as_bytes()
            .to_vec(),
        5 => {
            let length = rng.range_usize(0..6);
            rng.bytes(length)
        }
        6 => "größe".as_bytes().to_vec(),
        7 => format!("{}", rng.range(0..20)).into_bytes(),
        8 => {
            let length = rng.range_usize(0..20);
            (0..length).map(|_| *rng.pick(b"ab")).collect()
        }
        _ => (0..rng.range_usize(0..12)).map(|_| b'A' + rng.range(0..58) as u8).collect(),
    }
}

/// Random lines that cover difficult cases.
fn text(rng: &mut Rng, terminator: u8) -> Vec<u8> {
    let lines = match rng.range(0..20) {
        0 => 0,
        1 => 1,
        2..16 => rng.range_usize(2..40),
        16..19 => rng.range_usize(40..1500),
        _ => rng.range_usize(5000..20_000),
    };
    let separators: &[&str] =
        [&[" ", "\t", "  ", " \t "][..], &[":"], &["\0"], &[" ", ":", "\n", "\0"]]
            [rng.range_usize(0..4)];
    let fields = rng.range_usize(1..5);
    let alike = rng.bool(0.3);
    let mut text = Vec::new();
    let mut earlier: Vec<Vec<u8>> = Vec::new();
    for _ in 0..lines {
        let again = alike && !earlier.is_empty() && rng.bool(0.5);
        let mut line = if again { rng.pick(&earlier).clone() } else { Vec::new() };
        if !again {
            for at in 0..rng.range_usize(0..fields + 1) {
                if at > 0 || rng.bool(0.1) {
                    line.extend_from_slice(rng.pick(separators).as_bytes());
                }
                line.extend(field(rng));
            }
            if rng.bool(0.002) {
                line.extend(std::iter::repeat_n(b'x', rng.range_usize(0..300_000)));
            }
            // These units may be unknown to the system's sort, if it is old.
            line.iter_mut()
                .filter(|byte| matches!(byte, b'R' | b'Q'))
                .for_each(|byte| *byte = b'x');
            line.retain(|byte| *byte != terminator);
            if alike {
                earlier.push(line.clone());
            }
        }
        text.extend(line);
        text.push(terminator);
    }
    if rng.bool(0.2) {
        text.pop();
    }
    text
}

fn letters(rng: &mut Rng) -> String {
    let mut letters = String::new();
    if rng.bool(0.5) {
        letters.push(*rng.pick(&['n', 'n', 'g', 'h', 'M', 'V', 'R', 'd', 'i']));
    }
    for letter in ['b', 'f', 'r', 'd', 'i', 'V'] {
        if rng.bool(if matches!(letter, 'b' | 'f' | 'r') { 0.2 } else { 0.03 }) {
            letters.push(letter);
        }
    }
    letters
}

fn key(rng: &mut Rng) -> String {
    let mut key = format!("-k{}", rng.range(1..5));
    if rng.bool(0.2) {
        key += &format!(".{}", rng.range(1..5));
    }
    key += &letters(rng);
    if rng.bool(0.7) {
        key += &format!(",{}", rng.range(1..5));
        if rng.bool(0.3) {
            key += &format!(".{}", rng.range(0..5));
        }
        if rng.bool(0.1) {
            key.push('b');
        }
    }
    key
}

/// Random flags that define the order.
fn order(rng: &mut Rng) -> Vec<String> {
    let mut args = vec!["--random-source=random".to_owned()];
    let globals = letters(rng);
    if !globals.is_empty() && rng.bool(0.6) {
        args.push(format!("-{globals}"));
    }
    for _ in 0..*rng.pick(&[0, 0, 1, 1, 2, 3]) {
        args.push(key(rng));
    }
    if rng.bool(0.05) {
        args.extend([
            format!("+{}", rng.range(0..3)),
            format!("-{}.{}{}", rng.range(0..4), rng.range(0..3), letters(rng)),
        ]);
    }
    let mut add = |chance: f64, flag: &str| {
        if rng.bool(chance) {
            args.push(flag.to_owned());
        }
    };
    add(0.3, "-t:");
    add(0.05, "-t\\0");
    add(0.2, "-s");
    add(0.2, "-u");
    add(0.1, "-r");
    args
}

/// Whether the system's sort takes all of `.a` for a suffix, as version 9.1 did. Versions before
/// and after it do not.
fn cuts_hidden_names() -> bool {
    static CUTS: OnceLock<bool> = OnceLock::new();
    *CUTS.get_or_init(|| case("-V").stdin(".a\n.0\n").run(GNU).out.starts_with(b".a"))
}

/// Replaces bytes of a text for which the order of the system's sort is not defined.
fn tame(text: &mut [u8], order: &[String]) {
    let has = |letter: char| order.iter().any(|arg| !arg.starts_with("--") && arg.contains(letter));
    for at in 0..text.len() {
        let before = at.checked_sub(1).map_or(b' ', |before| text[before]);
        // The order of NaNs depends on the contents of uninitialised memory.
        if has('g') && at > 1 && text[at - 2..=at].eq_ignore_ascii_case(b"nan") {
            text[at] = b'x';
        }
        // GNU sort takes the byte 128 for the separator of thousands in locales that have none.
        if (has('n') || has('h')) && text[at] == 0x80 {
            text[at] = b'x';
        }
        // In upper case, these are units that may be unknown to the system's sort, if it is old.
        if has('h') && has('f') && matches!(text[at], b'q' | b'r') {
            text[at] = b'x';
        }
        if has('V') && text[at] == b'.' && !before.is_ascii_alphanumeric() && cuts_hidden_names() {
            text[at] = b'x';
        }
    }
}

fn random_case(rng: &mut Rng) -> Case {
    let mut order = order(rng);
    if order.iter().any(|arg| arg.contains('V')) && cuts_hidden_names() {
        // No key may start with a period.
        order.retain(|arg| !arg.contains('.') && !arg.starts_with('+'));
    }
    let terminator = if rng.bool(0.2) { 0 } else { b'\n' };
    if terminator == 0 {
        order.push("-z".to_owned());
    }
    let mut case = case("").file("random", rng.bytes(16));
    let names = ["a", "b", "c"];
    let count = if rng.bool(0.6) { 1 } else { rng.range_usize(2..4) };
    for name in &names[..count] {
        let mut text = text(rng, terminator);
        tame(&mut text, &order);
        case = case.file(name, text);
    }
    let merge = rng.bool(0.15);
    if merge {
        for name in &names[..count] {
            let sorted = case.clone();
            let sorted =
                order.iter().fold(sorted, |case, arg| case.arg(arg)).arg(name).run(GNU).out;
            case.files
                .iter_mut()
                .filter(|(file, _)| file == name)
                .for_each(|(_, bytes)| *bytes = sorted.clone());
        }
        order.push("-m".to_owned());
    }
    case.args.extend(order.iter().map(Into::into));
    let mut add = |chance: f64, flag: &str| {
        if rng.bool(chance) {
            case.args.push(flag.into());
        }
    };
    if count == 1 {
        add(0.08, "-c");
        add(0.03, "-C");
    }
    let checks = case.args.iter().any(|arg| arg == "-c" || arg == "-C");
    let mut add = |chance: f64, flag: &str| {
        if !checks && rng.bool(chance) {
            case.args.push(flag.into());
        }
    };
    add(0.1, "-S1");
    add(0.1, "-S50K");
    add(0.1, "--parallel=3");
    add(0.1, "--parallel=1");
    add(0.1, "--batch-size=2");
    add(0.1, "-T.");
    add(0.1, "-oa");
    add(0.05, "-oout");
    if count == 1 && !case.args.iter().any(|arg| arg == "-oa") && rng.bool(0.3) {
        let (_, bytes) = case.files.pop().unwrap();
        let dash = rng.bool(0.5);
        case = case.stdin(bytes);
        if dash { case.arg("-") } else { case }
    } else {
        names[..count].iter().fold(case, |case, name| case.arg(name))
    }
    .locale(if rng.bool(0.3) { "C.UTF-8" } else { "C" })
}

#[test]
fn random_runs() {
    let seed = Seed::new();
    let mut rng = seed.rng();
    let places = places();
    for _ in 0..90 {
        let place = places[rng.range_usize(0..places.len())].clone();
        Case { place, ..random_case(&mut rng) }.same();
    }
}

#[test]
fn wrong_command_lines() {
    for line in include_str!("sort_support/wrong.txt").lines() {
        // Arguments are separated by bars, because some of them contain blanks.
        let mut wrong = case("").file("in", "b\na\n");
        wrong.args = line.split('|').map(Into::into).collect();
        wrong.same();
        wrong.locale("C.UTF-8").same();
    }
}

#[test]
fn bytes_that_are_no_text() {
    use std::os::unix::ffi::OsStrExt;
    let raw = std::ffi::OsStr::from_bytes;
    let input = b"x\xff2\ny\xff1\n\xff\n\n";
    case("-t").arg(raw(b"\xff")).arg("-k2").arg("in").file("in", input).same();
    case("-k").arg(raw(b"\xff")).same();
    case("-c").arg("in").file("in", b"b\n\xffa\n\0\x01\n").same();
    case("-z -t=").arg("-k2").arg("in").file("in", "a=2\0b=1\n\0c=\n0").same();
}

#[test]
fn names_come_from_a_file() {
    let files = |args: &str, list: &str| {
        case(args).file("a", "2\n1\n").file("b", "3\n0\n").file("list", list)
    };
    files("--files0-from=list", "a\0b\0").same();
    files("--files0-from=list", "a\0b").same();
    files("--files0-from=list -m", "b\0b\0b\0").same();
    for list in ["", "\0", "a\0\0b\0", "a\0nowhere\0"] {
        files("--files0-from=list", list).same();
        files("--files0-from=-", "").stdin(list).same();
    }
    files("--files0-from=-", "").stdin("a\0-\0").same();
    files("--files0-from=list", "a\0-\0").stdin("9\n").same();
    files("--files0-from=nowhere", "").same();
    files("--files0-from=.", "").same();
    files("--files0-from=list -c", "a\0b\0").same();
    files("--files0-from=list a", "a\0b\0").same();
}

#[test]
fn inputs_and_outputs_that_are_no_files() {
    let lines = "b\na\nc\n";
    for args in [
        "in nowhere",
        "nowhere in -o in",
        ".",
        "in .",
        "-m in .",
        "-c .",
        "-c nowhere",
        "-C nowhere",
        "-o . in",
        "-o nowhere/x in",
        "-o out in",
        "-o in in in",
        "-m -o in in in",
        "-o link in",
        "-o in link",
        "-m -o link in in",
        "-o dangling in",
        "-o hard in",
        "-m -o hard in in",
        "-o /dev/null in",
        "-o /dev/stdout in",
        "-o in -",
        "-",
        "- in -",
        "-c -",
        "-c",
        "-u -c dups",
        "-C in",
        "-mc in",
        "/dev/null",
        "-T nowhere in",
        "-o in -T nowhere nowhere",
        "--compress-program=nowhere in",
    ] {
        let run = case(args).file("in", lines).file("dups", "a\na\n").stdin("z\ny\n");
        run.setup("ln -s in link; ln -s new dangling; ln in hard").same();
    }
}

#[test]
fn lines_that_are_larger_than_buffers() {
    let long = |byte: u8, length: usize| -> Vec<u8> {
        let mut line = vec![byte; length];
        line.push(b'\n');
        line
    };
    let input = [
        long(b'b', 5_000_000),
        long(b'a', 3),
        long(b'a', 4_000_000),
        long(b'a', 4_000_001),
        long(b'c', 0),
    ]
    .concat();
    for args in [
        "in",
        "-r in",
        "-S1 in",
        "-S1 -T. -u in in",
        "-k1.4000000 in",
        "-c in",
        "-n in",
        "-f -s in",
        "-m in",
    ] {
        case(args).file("in", &input).same();
    }
    let alike: Vec<u8> = (0..40).flat_map(|line| long(b'x', 100_000 + line % 3)).collect();
    for args in ["in", "-r in", "-u in", "-S300K -T. in"] {
        case(args).file("in", &alike).same();
    }
}

#[test]
fn runs_that_are_merged_in_several_steps() {
    let mut rng = Seed::new().rng();
    let mut input: Vec<u8> = Vec::new();
    for _ in 0..8000 {
        input.extend(format!("{} {}\n", rng.range(0..500), rng.range(0..1_000_000_000)).bytes());
    }
    for args in [
        "-S1 -T.",
        "-S1 --batch-size=2",
        "-S100K -n -k1,1 -s",
        "-S100K -u -k1,1n",
        "-S1 -rk2,2n --parallel=3",
        "-S1 -R",
    ] {
        let random = rng.bytes(16);
        case(args)
            .arg("--random-source=random")
            .arg("in")
            .file("random", random)
            .file("in", &input)
            .same();
    }
    case("-S100K --compress-program=gzip in").file("in", &input).same();
}

#[test]
fn many_files_are_merged() {
    let mut rng = Seed::new().rng();
    let mut run = case("-m -n -T.");
    for at in 0..100 {
        let mut numbers: Vec<u64> = (0..rng.range(0..30)).map(|_| rng.range(0..50)).collect();
        numbers.sort_unstable();
        let text: String = numbers.iter().map(|number| format!("{number} from {at}\n")).collect();
        run = run.file(&format!("f{at}"), text).arg(format!("f{at}"));
    }
    run.same();
    run.clone().arg("-s").same();
    run.clone().arg("-u").same();
    run.clone().arg("--batch-size=3").same();
    run.arg("-s").arg("--batch-size=7").arg("-of50").same();
}

/// A random order depends only on the random source and the keys.
#[test]
fn an_order_at_random_is_the_same_for_the_same_source() {
    let input: String = (0..500).map(|line| format!("{} {}\n", line % 50, line)).collect();
    for locale in ["C", "POSIX", "C.UTF-8"] {
        for args in ["-R", "-R -u", "-k1,1R", "-k1,1R -k2,2nr", "-sRf", "-RV", "--sort=random -z"] {
            let run = case(args).file("source", "sixteen bytes and some more").file("in", &input);
            run.arg("--random-source=source").arg("in").locale(locale).same();
        }
    }
    // Without a source, equal keys are still together, in an order that differs from run to run.
    let run = case("-R -k1,1 in").file("in", &input);
    let (first, second) = (run.run(dio()).out, run.run(dio()).out);
    assert_ne!(first, second);
    let keys = |text: Vec<u8>| -> Vec<String> {
        let text = String::from_utf8(text).unwrap();
        text.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect()
    };
    let mut keys = keys(first);
    keys.dedup();
    assert_eq!(keys.len(), 50);
}
