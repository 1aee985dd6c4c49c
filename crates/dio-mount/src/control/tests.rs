use parking_lot::Mutex;

use super::*;
use crate::stats::{Operation, Snapshot};

fn commands() -> Commands {
    let settings = Arc::new(Mutex::new("dio".to_owned()));
    let shown = Arc::clone(&settings);
    Commands {
        settings: Box::new(move || shown.lock().clone()),
        set: Box::new(move |text| match text {
            "bad" => Err("no \"such\"\noption".to_owned()),
            _ => {
                *settings.lock() = text.to_owned();
                Ok(())
            }
        }),
    }
}

fn ask(line: &str) -> serde_json::Value {
    let stats = Stats::new();
    drop(stats.begin(Operation::Rename));
    let text = answer(line, &stats, &commands());
    assert!(!text.contains('\n'), "an answer is one line: {text}");
    serde_json::from_str(&text).unwrap()
}

#[test]
fn each_request_has_its_answer() {
    let snapshot: Snapshot = serde_json::from_value(ask("\"snapshot\"")["ok"].take()).unwrap();
    assert_eq!(snapshot.operations["rename"].count, 1);
    assert_eq!(ask("\"settings\"")["ok"], "dio");
    assert_eq!(ask(r#"{"set":"cio=*.db"}"#)["ok"], "cio=*.db");
    assert_eq!(ask(r#"{"set":"bad"}"#)["error"], "no \"such\"\noption");
}

#[test]
fn nonsense_is_refused() {
    for nonsense in ["", "{", "snapshot", "\"stop\"", r#"{"set":7}"#, "null", "\u{fffd}"] {
        let answer = ask(nonsense);
        assert!(
            answer["error"].as_str().unwrap().starts_with("unknown request"),
            "{nonsense}: {answer}"
        );
    }
}
