//! Input of a mount: messages of the kernel, requests to its control socket, its options, and the
//! table of mounts.

use std::cell::OnceCell;

use dio_cli::commands::mount::options;
use dio_fuse::fuzz::Connection;

thread_local! {
    static CONNECTION: OnceCell<Connection> = const { OnceCell::new() };
}

/// Messages of the kernel: each gets at most one reply, with the message's number and a correct
/// length.
pub(super) fn fuse(input: &[u8]) {
    CONNECTION.with(|cell| {
        cell.get_or_init(|| Connection::new().expect("there is a socket")).message(input)
    });
}

/// Lines to the control socket: each gets a reply of one line, which contains the requested data or
/// the reason for a refusal.
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

/// Replies of a server, which may belong to any user who mounts: their counters are shown in all
/// forms. A line feed separates an earlier reply from a later one.
pub(super) fn answer(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let mut snapshots = text.split('\n').filter_map(dio_mount::fuzz::snapshot);
    let (Some(first), second) = (snapshots.next(), snapshots.next()) else { return };
    dio_cli::fuzz::show(&first, None);
    second.iter().for_each(|second| {
        dio_cli::fuzz::show(second, Some(&first));
    });
}

/// Options of a mount: the settings are the same when they are parsed again from their own text,
/// for a new mount and for a running one.
pub(super) fn options(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Ok(given) = options::parse(text) else { return };
    let told = options::text_of(&given.settings);
    let again = options::parse(&told).unwrap_or_else(|error| panic!("{told:?}: {error}"));
    assert_eq!(options::text_of(&again.settings), told);
    let now = options::defaults().settings;
    let changed =
        options::parse_change(&told, &now).unwrap_or_else(|error| panic!("{told:?}: {error}"));
    assert_eq!(options::text_of(&changed), told);
}

/// Lines of `mountinfo`: the mount that is found for a path contains that path.
pub(super) fn table(input: &[u8]) {
    dio_mount::fuzz::mount_table(input);
}
