//! What a mount is told: by the kernel, by whoever asks it, by who mounts, and by the table of
//! mounts.

use std::cell::OnceCell;

use dio_cli::commands::mount::options;
use dio_fuse::fuzz::Connection;

thread_local! {
    static CONNECTION: OnceCell<Connection> = const { OnceCell::new() };
}

/// Messages of the kernel: each is answered once at most, by an answer with its number and the
/// length that it says.
pub(super) fn fuse(input: &[u8]) {
    CONNECTION.with(|cell| cell.get_or_init(|| Connection::new().expect("there is a socket")).message(input));
}

/// Lines to the control socket: each has an answer of one line, in which is what was asked for or
/// why not.
pub(super) fn request(input: &[u8]) {
    for line in String::from_utf8_lossy(input).split('\n') {
        let change = |text: &str| {
            let changed = options::parse_change(text, &options::defaults().settings);
            changed.map(|_| ()).map_err(|error| error.to_string())
        };
        let answer = dio_mount::fuzz::answer(line, change);
        assert!(!answer.contains('\n'), "an answer is one line: {answer:?}");
        let value: serde_json::Value = serde_json::from_str(&answer).expect("an answer is JSON");
        assert!(value.get("ok").is_some() != value.get("error").is_some(), "{answer}");
    }
}

/// Answers of a server, which may be anybody's who mounts: the counters in them are shown in all
/// forms. A line feed divides an earlier answer from a later one.
pub(super) fn answer(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let mut snapshots = text.split('\n').filter_map(dio_mount::fuzz::snapshot);
    let (Some(first), second) = (snapshots.next(), snapshots.next()) else { return };
    dio_cli::fuzz::show(&first, None);
    second.iter().for_each(|second| {
        dio_cli::fuzz::show(second, Some(&first));
    });
}

/// Options of a mount: the settings in them are the same when they are read from their own text,
/// for a new mount and for one that is running.
pub(super) fn options(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Ok(given) = options::parse(text) else { return };
    let told = options::text_of(&given.settings);
    let again = options::parse(&told).unwrap_or_else(|error| panic!("{told:?}: {error}"));
    assert_eq!(options::text_of(&again.settings), told);
    let now = options::defaults().settings;
    let changed = options::parse_change(&told, &now).unwrap_or_else(|error| panic!("{told:?}: {error}"));
    assert_eq!(options::text_of(&changed), told);
}

/// Lines of `mountinfo`: the mount that holds a path holds it.
pub(super) fn table(input: &[u8]) {
    dio_mount::fuzz::mount_table(input);
}
