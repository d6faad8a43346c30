//! Turns an event into a write: a new object, a higher count of an old one, or nothing.
//!
//! Pure, with the rules and numbers of client-go's correlator, so that a failing volume fills neither
//! etcd nor `kubectl describe`: each object has a budget, a repeated event raises a count, and many
//! events that differ only in their message are merged. client-go has no budget over all objects;
//! ours has.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::id::Id;
use super::recent::Recent;
use super::{Event, Source};
use crate::kube::rate::bucket::Bucket;
use crate::text::truncated;

/// Entries of each map, as in client-go.
const REMEMBERED: usize = 4096;

/// Budget of one object and severity: this many at once, then one in five minutes.
const OBJECT_BURST: u32 = 25;
const OBJECT_RATE: f64 = 1.0 / 300.0;

/// Up to this many messages of one reason within this time stay separate events.
const SIMILAR: usize = 10;
const SIMILAR_WITHIN: Duration = Duration::from_secs(600);

/// `metadata.name` may have 253 characters; the suffix has 17.
const NAME_LIMIT: usize = 253 - 17;

/// The limit of a note in the newer Event API.
const MESSAGE_LIMIT: usize = 1024;

/// A request to the API server.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Write {
    /// Creates an event.
    Create {
        /// The event's namespace.
        namespace: String,
        /// The event.
        body: Value,
    },
    /// Raises the count of an event.
    Count {
        /// The event's namespace.
        namespace: String,
        /// The event's name.
        name: String,
        /// A merge patch.
        patch: Value,
        /// Created if the server does not have the event (any more).
        body: Value,
    },
}

impl Write {
    /// The event's namespace.
    pub(super) fn namespace(&self) -> &str {
        let (Self::Create { namespace, .. } | Self::Count { namespace, .. }) = self;
        namespace
    }

    /// The event's namespace, by value.
    pub(super) fn into_namespace(self) -> String {
        let (Self::Create { namespace, .. } | Self::Count { namespace, .. }) = self;
        namespace
    }
}

/// Wall clock for the times that users read, monotonic time for budgets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    pub(super) wall: Timestamp,
    pub(super) instant: Instant,
}

/// The events written before, and the budgets.
#[derive(Debug)]
pub(super) struct Correlator {
    source: Source,
    budgets: Recent<Id, Bucket>,
    similar: Recent<Id, Similar>,
    written: Recent<Id, Written>,
    last_number: i128,
}

#[derive(Debug)]
struct Similar {
    messages: BTreeSet<Id>,
    last: Instant,
}

#[derive(Debug)]
struct Written {
    count: u32,
    /// Suffix of the event's name.
    number: i128,
    first: Timestamp,
}

impl Correlator {
    pub(super) fn new(source: Source) -> Self {
        Self {
            source,
            budgets: Recent::new(REMEMBERED),
            similar: Recent::new(REMEMBERED),
            written: Recent::new(REMEMBERED),
            last_number: 0,
        }
    }

    /// The write for `event`; `None` if a budget is spent.
    pub(super) fn take(&mut self, event: &Event, now: Now) -> Option<Write> {
        let about = &event.about;
        let object = [
            &*about.api_version,
            &about.kind,
            &about.namespace,
            &about.name,
            &about.uid,
            // Warnings have their own budget, however many normal events came before.
            event.severity.text(),
        ];
        let budget = self
            .budgets
            .entry(Id::of(&object), || Bucket::new(OBJECT_RATE, OBJECT_BURST));
        budget.take(now.instant).ok()?;

        let [version, kind, namespace, name, uid, severity] = object;
        let kind = [version, kind, namespace, name, uid, severity, event.reason];
        let mut message = cut(&event.message).to_owned();
        let id = if self.is_one_of_many(Id::of(&kind), &message, now.instant) {
            message = cut(&format!("(combined from similar events): {message}")).to_owned();
            Id::of(&kind)
        } else {
            let [version, kind, namespace, name, uid, severity, reason] = kind;
            Id::of(&[
                version, kind, namespace, name, uid, severity, reason, &message,
            ])
        };

        let fresh = self.number(now.wall);
        let written = self.written.entry(id, || Written {
            count: 0,
            number: fresh,
            first: now.wall,
        });
        let again = written.count > 0;
        written.count = written.count.saturating_add(1);
        let count = written.count;
        let name = name_of(&about.name, written.number);
        let (first, time) = (seconds(written.first), seconds(now.wall));

        let namespace = if about.namespace.is_empty() {
            "default"
        } else {
            &about.namespace
        };
        let namespace = namespace.to_owned();
        let patch = json!({"count": count, "lastTimestamp": time, "message": message});
        let metadata = json!({"namespace": namespace, "name": name});
        let body = self.body(event, &metadata, &first, &patch);
        if !again {
            return Some(Write::Create { namespace, body });
        }
        Some(Write::Count {
            namespace,
            name,
            patch,
            body,
        })
    }

    fn is_one_of_many(&mut self, kind: Id, message: &str, now: Instant) -> bool {
        let similar = self.similar.entry(kind, || Similar {
            messages: BTreeSet::new(),
            last: now,
        });
        if now.saturating_duration_since(similar.last) > SIMILAR_WITHIN {
            similar.messages.clear();
        }
        similar.last = now;
        similar.messages.insert(Id::of(&[message]));
        if similar.messages.len() < SIMILAR {
            return false;
        }
        similar.messages.pop_first();
        true
    }

    /// A number for the name of a new event, never the same twice.
    fn number(&mut self, wall: Timestamp) -> i128 {
        self.last_number = wall.as_nanosecond().max(self.last_number + 1);
        self.last_number
    }

    /// Builds an event; `latest` has the fields that a repetition changes.
    fn body(&self, event: &Event, metadata: &Value, first: &str, latest: &Value) -> Value {
        let about = &event.about;
        let some = |text: &String| (!text.is_empty()).then(|| text.clone());
        json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": metadata,
            "involvedObject": {
                "apiVersion": about.api_version, "kind": about.kind,
                "namespace": some(&about.namespace), "name": about.name, "uid": about.uid,
                "resourceVersion": some(&about.resource_version),
            },
            "type": event.severity.text(), "reason": event.reason,
            "message": latest.get("message"),
            "source": {"component": self.source.component, "host": self.source.host},
            "reportingComponent": self.source.component,
            "reportingInstance": self.source.host,
            "firstTimestamp": first, "lastTimestamp": latest.get("lastTimestamp"),
            "count": latest.get("count"),
        })
    }
}

/// The name of an event, in client-go's format.
fn name_of(object: &str, number: i128) -> String {
    let object = object.get(..NAME_LIMIT).unwrap_or(object);
    format!("{object}.{number:x}")
}

fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Cuts a message to the length that an event may hold.
pub(super) fn cut(message: &str) -> &str {
    truncated(message, MESSAGE_LIMIT)
}

#[cfg(test)]
mod tests;
