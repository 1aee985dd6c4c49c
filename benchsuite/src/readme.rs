//! The table of the newest records in README.md.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use crate::Result;
use crate::tool::home;

const BEGIN: &str = "<!-- newest runs: written by the program -->";
const END: &str = "<!-- end of newest runs -->";

/// Writes the table again between its marks.
pub(crate) fn update() -> Result<()> {
    let path = home().join("README.md");
    let text = fs::read_to_string(&path)?;
    let (before, rest) =
        text.split_once(BEGIN).ok_or("README.md has lost the mark where its table begins")?;
    let (_, after) =
        rest.split_once(END).ok_or("README.md has lost the mark where its table ends")?;
    let table = table(&newest()?);
    Ok(fs::write(path, format!("{before}{BEGIN}\n{table}{END}{after}"))?)
}

/// The newest record of each comparison, with the name of its file. Names begin with the date, so
/// the last one is the newest.
pub(crate) fn newest() -> Result<BTreeMap<String, (String, Value)>> {
    let mut names = Vec::new();
    let runs = home().join("runs");
    fs::create_dir_all(&runs)?;
    for entry in fs::read_dir(runs)? {
        names.extend(entry?.file_name().into_string().ok().filter(|name| name.ends_with(".json")));
    }
    names.sort();
    let mut found = BTreeMap::new();
    for name in names {
        let record: Value =
            serde_json::from_str(&fs::read_to_string(home().join("runs").join(&name))?)?;
        if let Some(comparison) = record["comparison"].as_str() {
            found.insert(
                comparison.to_string(),
                (name.trim_end_matches(".json").to_string(), record),
            );
        }
    }
    Ok(found)
}

fn table(records: &BTreeMap<String, (String, Value)>) -> String {
    if records.is_empty() {
        return "No run is recorded yet.\n".to_string();
    }
    let mut text =
        "| run | dio | goal | limit | measured | |\n|---|---|---|--:|--:|---|\n".to_string();
    for (comparison, (file, record)) in records {
        let run = format!(
            "[{comparison} {}](runs/{file}.md)",
            record["date"].as_str().unwrap_or_default()
        );
        let commit = record["commit"].as_str().unwrap_or_default();
        let goals = record["goals"].as_array().map_or(&[][..], Vec::as_slice);
        if goals.is_empty() {
            text.push_str(&format!("| {run} | {commit} | | | | no goal |\n"));
        }
        for (index, goal) in goals.iter().enumerate() {
            let lead = if index == 0 { format!("{run} | {commit}") } else { " | ".to_string() };
            let verdict = if goal["reached"] == true { "reached" } else { "**missed**" };
            let word = |key: &str| goal[key].as_str().unwrap_or_default().to_string();
            let number = |key: &str| goal[key].as_f64().unwrap_or(f64::NAN);
            text.push_str(&format!(
                "| {lead} | {} | {} {} | {:.3} | {verdict} |\n",
                word("goal"),
                word("bound"),
                number("limit"),
                number("measured")
            ));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::{newest, table};

    #[test]
    fn each_goal_has_a_row_and_its_verdict() {
        let goal = json!({
            "goal": "wall ÷ dd", "bound": "at most", "limit": 1.0, "measured": 1.25,
            "reached": false
        });
        let record =
            json!({"comparison": "copy", "date": "2000-01-01", "commit": "abc", "goals": [goal]});
        let text =
            table(&BTreeMap::from([("copy".to_string(), ("2000-01-01-copy".to_string(), record))]));
        let row = "| [copy 2000-01-01](runs/2000-01-01-copy.md) | abc | wall ÷ dd | at most 1 | \
                   1.250 | **missed** |";
        assert!(text.contains(row), "{text}");
        assert!(table(&BTreeMap::new()).contains("No run"));
    }

    #[test]
    fn every_record_here_can_be_read() {
        newest().expect("records are JSON");
    }
}
