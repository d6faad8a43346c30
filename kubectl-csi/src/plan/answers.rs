//! The questions to controllers about the objects on the path, and the answers that count.

use serde_json::Value;
use sidecar::why::Object;

use super::verdict::{State, Verdict};
use crate::model::Ref;

/// Objects that each controller is asked about.
const OBJECTS: usize = 6;
/// Answers of one port about one object: a process of several controllers has one for each of their keys.
const ANSWERS: usize = 8;

/// The answer of one controller about one object.
#[derive(Clone, Debug, PartialEq)]
pub struct Answered {
    /// `namespace/name` of the pod that was asked.
    pub pod: String,
    pub object: Ref,
    /// The answer, as `docs/why.md` describes it.
    pub answer: Value,
}

/// The objects of the path that controllers are asked about, with their paths; none if nothing is stuck.
#[must_use]
pub fn questions(verdict: &Verdict) -> Vec<(Ref, String)> {
    let mut questions: Vec<(Ref, String)> = Vec::new();
    if verdict.state == State::Fine || verdict.absent {
        return questions;
    }
    for step in &verdict.path {
        let known = questions.iter().any(|(object, _)| *object == step.object);
        let path = Object::path(step.object.kind.name(), &step.object.path());
        if let (false, Some(path)) = (known, path) {
            questions.push((step.object.clone(), path));
        }
    }
    questions.truncate(OBJECTS);
    questions
}

/// Whether a controller waits for its driver: it does not lead yet, and knows no objects.
fn waits_for_driver(answer: &Value) -> bool {
    let is = |path: &str, value: &str| answer.pointer(path).and_then(Value::as_str) == Some(value);
    is("/queue/state", "unsynced") && is("/driverLink/state", "away")
}

/// The answers that say something: from controllers that lead and know the object, or that wait for their driver. `body`
/// is the answer of `pod`; `None` if it is not that of a controller.
#[must_use]
pub fn answered(pod: &str, object: &Ref, body: &[u8]) -> Option<Vec<Answered>> {
    let whole: Value = serde_json::from_slice(body).ok()?;
    let answers = whole.get("answers")?.as_array()?;
    let says = |answer: &&Value| {
        let is = |field: &str| answer.get(field) == Some(&Value::Bool(true));
        (is("known") && is("leads")) || waits_for_driver(answer)
    };
    let told = answers.iter().filter(says).take(ANSWERS);
    let told = told.map(|answer| Answered {
        pod: pod.to_owned(),
        object: object.clone(),
        answer: answer.clone(),
    });
    Some(told.collect())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::model::Kind;
    use crate::plan::PathStep;

    fn at(kind: Kind, name: &str) -> Ref {
        Ref::new(kind, "shop", name)
    }

    fn verdict(state: State) -> Verdict {
        let step = |object: Ref| PathStep {
            depth: 0,
            object,
            says: String::new(),
            cause: None,
        };
        Verdict {
            subject: at(Kind::Pod, "db-0"),
            state,
            since: None,
            causes: Vec::new(),
            path: vec![
                step(at(Kind::Pod, "db-0")),
                step(at(Kind::Claim, "data")),
                step(at(Kind::Volume, "pvc-1")),
                step(at(Kind::Claim, "data")),
                step(at(Kind::Attachment, "csi-1")),
                step(at(Kind::Node, "worker-1")),
            ],
            last_words: None,
            unseen: Vec::new(),
            controllers: Vec::new(),
            absent: false,
            now: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn w_44_who_is_not_stuck_asks_nobody() {
        assert_eq!(questions(&verdict(State::Fine)), []);
        let asked = questions(&verdict(State::Stuck));
        let paths: Vec<_> = asked.iter().map(|(_, path)| &**path).collect();
        assert_eq!(
            paths,
            ["claims/shop/data", "volumes/pvc-1", "attachments/csi-1"]
        );
    }

    #[test]
    fn w_45_w_46_only_leaders_that_know_the_object_count() {
        let body = json!({
            "version": 7,
            "new": {"field": 1},
            "answers": [
                {"program": "csi-attacher", "known": true, "leads": true, "newer": [1]},
                {"program": "csi-attacher", "known": true, "leads": false},
                {"program": "csi-resizer", "known": false, "leads": true},
                3,
            ],
        });
        let object = at(Kind::Attachment, "csi-1");
        let told = answered("storage/ctl-0", &object, body.to_string().as_bytes()).unwrap();
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].answer["program"], "csi-attacher");
        assert_eq!(told[0].pod, "storage/ctl-0");
        for body in [
            &b""[..],
            b"404 page not found",
            b"{}",
            b"[]",
            b"{\"answers\": 1}",
        ] {
            assert_eq!(answered("storage/ctl-0", &object, body), None);
        }
        let none = answered("storage/ctl-0", &object, b"{\"answers\": []}");
        assert_eq!(none, Some(Vec::new()));
    }

    #[test]
    fn w_12_w_46_a_process_that_waits_for_its_driver_counts() {
        let away = json!({"state": "away", "since": "2026-11-28T14:32:10.000Z"});
        let up = json!({"state": "up"});
        for (state, link, counts) in [
            ("unsynced", &away, true),
            ("unsynced", &up, false),
            ("standby", &away, false),
        ] {
            let answer = json!({"known": false, "queue": {"state": state}, "driverLink": link});
            let body = json!({"answers": [answer]}).to_string();
            let told = answered("a/b", &at(Kind::Claim, "data"), body.as_bytes()).unwrap();
            assert_eq!(!told.is_empty(), counts, "{state} {link}");
        }
    }

    #[test]
    fn w_39_a_pod_has_eight_answers_about_an_object() {
        let answer = json!({"known": true, "leads": true});
        let body = json!({"answers": vec![answer; 5000]}).to_string();
        let told = answered("a/b", &at(Kind::Claim, "data"), body.as_bytes());
        assert_eq!(told.map(|told| told.len()), Some(8));
    }
}
