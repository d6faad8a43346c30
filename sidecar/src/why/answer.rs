//! The JSON of answers. Pure.
//!
//! Texts were redacted where they were noted; names are escaped here.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::attempt_log::{Attempt, Last, Step};
use super::explain::{EngineAnswer, OpenIntent, WorkAnswer, written};
use super::object::Object;
use crate::controller::reactor::Now;
use crate::queue::{KeyState, Stage};
use crate::redact::{plain, told};

/// Version of the form of answers.
pub const VERSION: u32 = 2;

/// Who holds a controller's lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leadership {
    /// This process works. Always so without leader election.
    pub leads: bool,
    /// `namespace/name` of the Lease; `None` without leader election.
    pub lease: Option<String>,
    /// The holder as last seen.
    pub holder: Option<String>,
    /// Since when it holds the Lease, as it says there.
    pub since: Option<String>,
}

/// A controller that answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Controller {
    /// Name of the program.
    pub program: &'static str,
    /// The driver's name; empty for a controller of all drivers.
    pub driver: String,
    /// Who leads.
    pub leadership: Leadership,
    /// Whether the driver can be asked, and since when.
    pub link: Option<(bool, Instant)>,
    /// The lists that it watches, and whether each is complete.
    pub synced: Vec<(&'static str, bool)>,
    /// Work has begun.
    pub has_begun: bool,
    /// Required permissions that it lacks, as rules.
    pub missing: Vec<String>,
}

impl Controller {
    fn json(&self, now: Now) -> Map<String, Value> {
        let synced: Map<_, _> = { self.synced.iter() }
            .map(|(kind, is_synced)| ((*kind).to_owned(), (*is_synced).into()))
            .collect();
        let Leadership {
            leads,
            lease,
            holder,
            since,
        } = &self.leadership;
        let shown = |text: &Option<String>| text.as_deref().map(plain);
        let mut json = Map::new();
        json.insert("program".to_owned(), self.program.into());
        json.insert("driver".to_owned(), plain(&self.driver).into());
        json.insert("leads".to_owned(), (*leads).into());
        json.insert("lease".to_owned(), shown(lease).into());
        json.insert("holder".to_owned(), shown(holder).into());
        json.insert("since".to_owned(), shown(since).into());
        json.insert("driverLink".to_owned(), link(self.link, now));
        json.insert("synced".to_owned(), synced.into());
        let missing: Vec<_> = self.missing.iter().map(|rule| plain(rule)).collect();
        json.insert("missing".to_owned(), missing.into());
        json
    }
}

/// The connection to the driver: whether the driver can be asked, and since when.
pub fn link(state: Option<(bool, Instant)>, now: Now) -> Value {
    let Some((is_up, since)) = state else {
        return Value::Null;
    };
    let state = if is_up { "up" } else { "away" };
    json!({"state": state, "since": now.write(since)})
}

/// Seconds, as Go writes durations of this length.
fn seconds(duration: Duration) -> String {
    format!("{:.3}s", duration.as_secs_f64())
}

/// State of a key, and until when it lasts if that is known.
fn state(
    key_state: Option<KeyState>,
    (waits, later): (bool, Option<Duration>),
    has_begun: bool,
    now: Now,
) -> (&'static str, Option<Instant>) {
    let later = later.filter(|later| !later.is_zero());
    let later = later.and_then(|later| now.instant.checked_add(later));
    let stage = key_state.map_or(Stage::Idle, |key_state| key_state.stage);
    match stage {
        Stage::Running(_) => ("running", None),
        Stage::Waiting(_) | Stage::Idle if !has_begun => ("unsynced", None),
        Stage::Waiting(_) => ("waiting", None),
        Stage::Backoff(until) | Stage::Later(until) if later.is_some() => {
            ("later", later.map(|later| later.max(until)))
        }
        Stage::Idle if later.is_some() => ("later", later),
        Stage::Backoff(until) if waits => ("parked", Some(until)),
        Stage::Idle if waits => ("parked", None),
        Stage::Backoff(until) => ("backoff", Some(until)),
        Stage::Later(until) => ("later", Some(until)),
        Stage::Idle => ("idle", None),
    }
}

fn queue(work: &WorkAnswer, has_begun: bool, now: Now) -> Value {
    let waits = !work.waits_for.is_empty();
    let has_begun = has_begun && !work.awaits_lists;
    let (state, until) = state(work.key_state, (waits, work.later), has_begun, now);
    let mut json = json!({
        "name": work.queue,
        "state": state,
        "until": until.map(|until| now.write(until)),
    });
    if let (Some(key_state), Some(fields)) = (work.key_state, json.as_object_mut()) {
        let since = key_state.stage.since();
        let oldest = Some(key_state.oldest_wait).filter(|wait| !wait.is_zero());
        let oldest = oldest.and_then(|wait| now.instant.checked_sub(wait));
        let more = json!({
            "since": since.map(|since| now.write(since)),
            "lane": key_state.lane,
            "failures": key_state.failures,
            "laneAhead": key_state.ahead,
            "laneRunning": key_state.running,
            "laneOldest": oldest.map(|oldest| now.write(oldest)),
        });
        fields.extend(more.as_object().cloned().unwrap_or_default());
    }
    json
}

fn step(step: &Step) -> Value {
    json!({"step": told(&step.name), "took": seconds(step.took), "code": step.code})
}

fn running(attempt: &Attempt, deadline: Option<Instant>, now: Now) -> Value {
    let current = attempt.current.as_ref();
    json!({
        "since": now.write(attempt.since),
        "step": current.map(|current| told(&current.name)),
        "stepSince": current.map(|current| now.write(current.since)),
        "deadline": deadline.map(|deadline| now.write(deadline)),
        "steps": attempt.steps.iter().map(step).collect::<Vec<_>>(),
    })
}

fn last(last: &Last) -> Value {
    json!({
        "ended": written(last.ended),
        "took": seconds(last.took),
        "failingSince": written(last.first),
        "step": last.step.as_deref().map(told),
        "code": last.code,
        "text": &*last.text,
        "steps": last.steps.iter().map(step).collect::<Vec<_>>(),
    })
}

fn next(work: &WorkAnswer) -> Value {
    match (&work.running, &work.next) {
        (Some(_), _) => Value::Null,
        (None, step) => {
            json!({"step": step.as_deref().map(told), "because": told(&work.because)})
        }
    }
}

fn work(
    controller: &Controller,
    told: &EngineAnswer,
    work: &WorkAnswer,
    now: Now,
) -> Map<String, Value> {
    let waits: Vec<_> = work.waits_for.iter().map(Object::json).collect();
    let shown = |attempt| running(attempt, work.deadline, now);
    let fields = json!({
        "subject": subject(&work.object, &told.uid),
        "known": told.is_known,
        "ours": told.not_ours.is_none(),
        "notOurs": told.not_ours.as_deref().map(plain),
        "work": work.what,
        "queue": queue(work, controller.has_begun, now),
        "running": work.running.as_ref().map(shown),
        "last": work.last.as_ref().map(last),
        "waitsFor": waits,
        "facts": escaped(&Value::Object(work.facts.clone())),
        "next": next(work),
    });
    fields.as_object().cloned().unwrap_or_default()
}

/// `value` with the control characters of its texts escaped.
fn escaped(value: &Value) -> Value {
    match value {
        Value::String(text) => plain(text).into(),
        Value::Array(values) => values.iter().map(escaped).collect(),
        Value::Object(fields) => {
            let fields = fields.iter();
            let fields = fields.map(|(name, value)| (name.clone(), escaped(value)));
            Value::Object(fields.collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

fn subject(object: &Object, uid: &str) -> Value {
    let mut json = object.json();
    if let Some(fields) = json.as_object_mut()
        && !uid.is_empty()
    {
        fields.insert("uid".to_owned(), plain(uid).into());
    }
    json
}

/// What one controller says about an object: one answer for each key of it. `Err` is the state of a controller without
/// an engine.
pub fn answers(
    controller: &Controller,
    object: &Object,
    told: Result<&EngineAnswer, &'static str>,
    now: Now,
) -> Vec<Value> {
    let base = controller.json(now);
    let with = |fields: Map<String, Value>| {
        let mut json = base.clone();
        json.extend(fields);
        Value::Object(json)
    };
    let told = match told {
        Ok(told) => told,
        Err(state) => {
            let fields = json!({
                "subject": object.json(),
                "known": false,
                "queue": {"state": state},
            });
            return vec![with(fields.as_object().cloned().unwrap_or_default())];
        }
    };
    if !told.work.is_empty() {
        let each = { told.work.iter() }.map(|one| with(work(controller, told, one, now)));
        return each.collect();
    }
    let has_begun = controller.has_begun && !told.awaits_lists;
    let fields = json!({
        "subject": subject(object, &told.uid),
        "known": told.is_known,
        "ours": told.is_known && told.not_ours.is_none(),
        "notOurs": told.not_ours.as_deref().map(plain),
        "queue": {"state": if has_begun { "idle" } else { "unsynced" }},
    });
    vec![with(fields.as_object().cloned().unwrap_or_default())]
}

/// The whole answer about an object. Whether anybody knows it, or may once it leads.
pub fn about(object: &Object, answers: Vec<Value>, now: Now) -> (bool, Value) {
    let knows = |answer: &Value| {
        answer.get("known") == Some(&Value::Bool(true))
            || answer.get("leads") == Some(&Value::Bool(false))
    };
    let is_known = answers.iter().any(knows);
    let json = json!({
        "version": VERSION,
        "now": written(now.timestamp),
        "subject": object.json(),
        "known": is_known,
        "answers": answers,
    });
    (is_known, json)
}

/// A key that is not idle, in the list of all.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Name of the program.
    pub program: &'static str,
    /// Work has begun.
    pub has_begun: bool,
    /// Since when the key is in this state, or fails.
    pub since: Option<Instant>,
    /// The key's work.
    pub work: WorkAnswer,
}

/// The keys of one engine that are not idle.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Busy {
    /// Number of keys by stage in the queues.
    pub stages: BTreeMap<&'static str, usize>,
    /// Number of keys by the code of their last failure.
    pub codes: BTreeMap<&'static str, usize>,
    /// Number of calls and requests under way, by name.
    pub under_way: BTreeMap<String, usize>,
    /// The keys that are busy longest.
    pub rows: Vec<(Option<Instant>, WorkAnswer)>,
}

/// All that is not idle, longest first, `most` at most.
pub fn list(
    controllers: &[(Controller, Option<Busy>)],
    mut rows: Vec<Row>,
    most: usize,
    now: Now,
) -> Value {
    rows.sort_by_key(|row| (row.since.is_none(), row.since));
    rows.truncate(most);
    let keys = rows.iter().map(|row| {
        let last = row.work.last.as_ref();
        json!({
            "program": row.program,
            "subject": row.work.object.json(),
            "since": row.since.map(|since| now.write(since)),
            "queue": queue(&row.work, row.has_begun, now),
            "code": last.map(|last| last.code),
            "text": last.map(|last| &*last.text),
        })
    });
    let controllers = controllers.iter().map(|(controller, busy)| {
        let mut json = controller.json(now);
        if let Some(busy) = busy {
            let totals = json!({"states": busy.stages, "codes": busy.codes});
            json.insert("totals".to_owned(), totals);
        }
        Value::Object(json)
    });
    json!({
        "version": VERSION,
        "now": written(now.timestamp),
        "controllers": controllers.collect::<Vec<_>>(),
        "keys": keys.collect::<Vec<_>>(),
    })
}

/// The open intents of the journal, `most` at most.
pub fn journal(intents: &[OpenIntent], most: usize, now: Now) -> Value {
    let shown = intents.iter().take(most).map(|intent| {
        json!({
            "claim": subject(&intent.claim, &intent.uid),
            "state": intent.state,
            "volume": plain(&intent.volume),
            "since": intent.since.map(|since| now.write(since)),
            "leases": intent.leases.iter().map(|lease| plain(lease)).collect::<Vec<_>>(),
        })
    });
    json!({
        "version": VERSION,
        "now": written(now.timestamp),
        "count": intents.len(),
        "intents": shown.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests;
