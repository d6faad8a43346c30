//! Shows what controllers say about the objects on the path. Another program wrote their texts.

use jiff::Timestamp;
use serde_json::{Map, Value};
use sidecar::redact::{plain, words};

use super::human::{Style, wrapped};
use crate::plan::Answered;

/// Texts of an answer that programs get, and their paths in it. A hostile pod may have written them.
const TEXTS: &[(&str, &str)] = &[
    ("program", "/program"),
    ("driver", "/driver"),
    ("lease", "/lease"),
    ("holder", "/holder"),
    ("work", "/work"),
    ("state", "/queue/state"),
    ("until", "/queue/until"),
    ("step", "/running/step"),
    ("stepSince", "/running/stepSince"),
    ("deadline", "/running/deadline"),
    ("code", "/last/code"),
    ("text", "/last/text"),
    ("ended", "/last/ended"),
    ("failingSince", "/last/failingSince"),
    ("nextStep", "/next/step"),
    ("because", "/next/because"),
    ("notOurs", "/notOurs"),
    ("driverLink", "/driverLink/state"),
    ("driverLinkSince", "/driverLink/since"),
];

fn text<'a>(value: &'a Value, path: &str) -> Option<&'a str> {
    value
        .pointer(path)?
        .as_str()
        .filter(|text| !text.is_empty())
}

/// `kind name` of an object that is waited for.
fn named(object: &Value) -> Option<String> {
    let kind = text(object, "/kind")?;
    let name = match (text(object, "/namespace"), text(object, "/name")) {
        (Some(namespace), Some(name)) => format!(" {namespace}/{name}"),
        (None, Some(name)) => format!(" {name}"),
        (_, None) => String::new(),
    };
    Some(words(&format!("{kind}{name}")))
}

fn waits(answer: &Value) -> Vec<String> {
    let list = answer.get("waitsFor").and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .take(8)
        .filter_map(named)
        .collect()
}

/// The parts of an answer that programs read; fields of newer versions are left out.
fn one(answered: &Answered) -> Value {
    let answer = &answered.answer;
    let mut json = Map::new();
    json.insert("pod".to_owned(), plain(&answered.pod).into());
    json.insert("object".to_owned(), super::json::object(&answered.object));
    for (field, path) in TEXTS {
        json.insert((*field).to_owned(), text(answer, path).map(words).into());
    }
    for (field, path) in [
        ("failures", "/queue/failures"),
        ("laneAhead", "/queue/laneAhead"),
        ("laneRunning", "/queue/laneRunning"),
    ] {
        let number = answer.pointer(path).and_then(Value::as_u64);
        json.insert(field.to_owned(), number.into());
    }
    json.insert("waitsFor".to_owned(), waits(answer).into());
    Value::Object(json)
}

/// For programs.
pub(super) fn json(all: &[Answered]) -> Value {
    all.iter().map(one).collect()
}

/// The time of day of a timestamp.
fn clock(time: &str) -> String {
    match time.parse::<Timestamp>() {
        Ok(time) => time.strftime("%H:%M:%S UTC").to_string(),
        Err(_) => words(time),
    }
}

/// ` at 14:32:10 UTC`, or nothing without a time.
fn timed(answer: &Value, preposition: &str, path: &str) -> String {
    let time = text(answer, path).map(clock);
    time.map(|time| format!(" {preposition} {time}"))
        .unwrap_or_default()
}

fn is_away(answer: &Value) -> bool {
    text(answer, "/driverLink/state") == Some("away")
}

/// State of the key, in a sentence's words.
fn state(answer: &Value) -> String {
    let number = |path: &str| answer.pointer(path).and_then(Value::as_u64);
    let at = timed(answer, "at", "/queue/until");
    match text(answer, "/queue/state").unwrap_or_default() {
        "waiting" => match number("/queue/laneAhead").unwrap_or_default() {
            0 => "waits for a free worker".to_owned(),
            ahead => format!("waits for a free worker, {ahead} ahead of it"),
        },
        "running" => {
            let step = text(answer, "/running/step").unwrap_or("an attempt");
            let since = timed(answer, "since", "/running/stepSince");
            format!("{} is under way{since}", words(step))
        }
        "backoff" => format!("tries again{at}"),
        "later" => format!("is looked at again{at}"),
        "parked" => format!("waits for {}", joined(&waits(answer))),
        "unsynced" if is_away(answer) => {
            let since = timed(answer, "since", "/driverLink/since");
            format!("waits for its driver{since}")
        }
        "unsynced" => "does not know all objects yet: a list is not complete".to_owned(),
        "idle" => "has nothing to do".to_owned(),
        other => words(other),
    }
}

fn joined(list: &[String]) -> String {
    match list {
        [] => "an object".to_owned(),
        list => list.join(" or "),
    }
}

/// The last failure, in a sentence's words.
fn failure(answer: &Value) -> Option<String> {
    let said = text(answer, "/last/text")?;
    let failures = answer.pointer("/queue/failures").and_then(Value::as_u64);
    let times = match failures {
        Some(1) => " once".to_owned(),
        Some(failures) if failures > 1 => format!(" {failures} times"),
        _ => String::new(),
    };
    let step = text(answer, "/last/step").map(words);
    let step = step.map(|step| format!(" at {step}")).unwrap_or_default();
    Some(format!("failed{times}, last{step}: “{}”", words(said)))
}

fn sentence(answered: &Answered) -> String {
    let answer = &answered.answer;
    let program = text(answer, "/program").map_or_else(|| "A controller".to_owned(), words);
    let work = text(answer, "/work").map(|work| format!(", {}", words(work)));
    let mut sentence = format!(
        "{program} (pod {}) on {}{}: {}",
        plain(&answered.pod),
        plain(&answered.object.to_string()),
        work.unwrap_or_default(),
        match text(answer, "/notOurs") {
            Some(rule) => format!("not its own, {}", words(rule)),
            None => state(answer),
        }
    );
    if let Some(failure) = failure(answer) {
        sentence.push_str(&format!("; {failure}"));
    }
    if let (Some(step), Some(because)) = (text(answer, "/next/step"), text(answer, "/next/because"))
    {
        sentence.push_str(&format!("; next {} ({})", words(step), words(because)));
    }
    sentence
}

/// How much an answer tells people; of the answers about one object they get those that tell most.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Weight {
    /// The object is another controller's: the provisioner of each other driver says so of a claim.
    NotOurs,
    /// Nothing is due.
    Idle,
    /// Something is due, or has failed.
    Telling,
}

fn weight(answer: &Value) -> Weight {
    match text(answer, "/queue/state") {
        _ if text(answer, "/notOurs").is_some() => Weight::NotOurs,
        Some("idle") if text(answer, "/last/text").is_none() => Weight::Idle,
        _ => Weight::Telling,
    }
}

/// Whether no other answer about the same object tells more.
fn tells_most(answered: &Answered, all: &[Answered]) -> bool {
    let mut same = all.iter().filter(|one| one.object == answered.object);
    same.all(|one| weight(&one.answer) <= weight(&answered.answer))
}

/// For people.
pub(super) fn human(all: &[Answered], style: Style, text: &mut String) {
    if all.is_empty() {
        return;
    }
    text.push_str("What the controllers say\n");
    for answered in all.iter().filter(|one| tells_most(one, all)) {
        let line = wrapped(&sentence(answered), style.width, 4);
        text.push_str(&format!("  {line}\n"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::{Kind, Ref};

    fn answered(answer: Value) -> Answered {
        Answered {
            pod: "storage/ctl-0".to_owned(),
            object: Ref::new(Kind::Attachment, "", "csi-1"),
            answer,
        }
    }

    #[test]
    fn w_6_w_12_what_a_controller_says_is_one_sentence() {
        let base = json!({"program": "csi-attacher", "work": "attach"});
        for (queue, more, expected) in [
            (
                json!({"state": "backoff", "until": "2026-11-28T14:32:10.000Z", "failures": 7}),
                json!({
                    "last": {"step": "ControllerPublishVolume", "text": "rpc error: password=x"},
                    "next": {"step": "ControllerPublishVolume", "because": "wanted, and not attached"},
                }),
                "tries again at 14:32:10 UTC; failed 7 times, last at ControllerPublishVolume: “rpc error: password=***”; next ControllerPublishVolume (wanted, and not attached)",
            ),
            (
                json!({"state": "parked"}),
                json!({"waitsFor": [{"kind": "CSINode", "name": "worker-3"}]}),
                "waits for CSINode worker-3",
            ),
            (
                json!({"state": "waiting", "laneAhead": 412}),
                json!({}),
                "waits for a free worker, 412 ahead of it",
            ),
            (
                json!({"state": "running"}),
                json!({"running": {"step": "CreateVolume", "stepSince": "2026-11-28T14:32:10.000Z"}}),
                "CreateVolume is under way since 14:32:10 UTC",
            ),
            (json!({"state": "idle"}), json!({}), "has nothing to do"),
            (
                json!({"state": "later", "until": "2026-11-28T14:32:10.000Z"}),
                json!({}),
                "is looked at again at 14:32:10 UTC",
            ),
            (json!({"state": "later"}), json!({}), "is looked at again"),
            (
                json!({"state": "unsynced"}),
                json!({"driverLink": {"state": "away", "since": "2026-11-28T14:32:10.000Z"}}),
                "waits for its driver since 14:32:10 UTC",
            ),
            (
                json!({"state": "unsynced"}),
                json!({"driverLink": {"state": "up"}}),
                "does not know all objects yet: a list is not complete",
            ),
            (json!({"state": "a\u{1b}[2J"}), json!({}), "a\\x1b[2J"),
            (json!(3), json!({}), ""),
        ] {
            let mut answer = base.clone();
            answer["queue"] = queue;
            for (field, value) in more.as_object().unwrap() {
                answer[field] = value.clone();
            }
            let expected =
                format!("csi-attacher (pod storage/ctl-0) on attachment csi-1, attach: {expected}");
            assert_eq!(sentence(&answered(answer)), expected);
        }
    }

    #[test]
    fn w_39_w_45_programs_get_known_fields_alone() {
        let json = one(&answered(json!({
            "program": "csi-attacher",
            "newer": {"field": [1]},
            "queue": {"state": "backoff", "failures": 3, "laneAhead": "x"},
            "last": {"text": "token=abc \u{1b}[2J"},
            "waitsFor": [{"kind": "CSINode", "name": "worker-3"}, 7],
        })));
        assert_eq!(json["state"], "backoff");
        assert_eq!(
            (&json["failures"], &json["laneAhead"]),
            (&json!(3), &Value::Null)
        );
        assert_eq!(json["text"], "token=*** \\x1b[2J");
        assert_eq!(json["waitsFor"], json!(["CSINode worker-3"]));
        assert_eq!(json.get("newer"), None);
    }

    #[test]
    fn w_39_each_text_of_a_pod_is_cut_and_redacted() {
        let long = format!("token=planted {}", "x ".repeat(1 << 19));
        let answer = json!({
            "program": long, "driver": long, "lease": long, "holder": long, "work": long,
            "queue": {"state": long, "until": long},
            "waitsFor": [{"kind": long, "name": long}],
        });
        let told = answered(answer.clone());
        let mut parked = answer.clone();
        parked["queue"] = json!({"state": "parked"});
        let mut late = answer;
        late["queue"] = json!({"state": "later", "until": long});
        let sentences = [answered(parked), answered(late)].map(|one| sentence(&one));
        let texts = sentences.into_iter().chain([sentence(&told)]);
        for text in texts.chain([one(&told).to_string()]) {
            assert!(text.len() < 16 << 10, "{}", text.len());
            assert!(!text.contains("planted"), "{text}");
        }
    }

    #[test]
    fn people_get_the_answers_that_tell_most() {
        let not_ours =
            json!({"program": "other", "notOurs": "of driver b", "queue": {"state": "idle"}});
        let idle = json!({"program": "idle", "queue": {"state": "idle"}});
        let failed =
            json!({"program": "failed", "queue": {"state": "idle"}, "last": {"text": "x"}});
        let waits = json!({"program": "waits", "queue": {"state": "waiting"}});
        for (answers, shown) in [
            (
                vec![&not_ours, &idle, &waits, &failed],
                vec!["waits", "failed"],
            ),
            (vec![&not_ours, &idle], vec!["idle"]),
            (vec![&not_ours], vec!["other"]),
        ] {
            let all: Vec<_> = answers.iter().map(|one| answered((*one).clone())).collect();
            let mut text = String::new();
            human(&all, Style::default(), &mut text);
            let lines: Vec<_> = text.lines().skip(1).collect();
            assert_eq!(lines.len(), shown.len(), "{text}");
            for (line, program) in lines.iter().zip(shown) {
                assert!(line.trim().starts_with(program), "{text}");
            }
            assert_eq!(json(&all).as_array().unwrap().len(), answers.len());
        }
    }
}
