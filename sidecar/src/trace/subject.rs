//! The object and the work of an attempt, and its place in a trace. Pure.

use csi_proto::otlp::{AnyValue, KeyValue, Link, Value};
use jiff::{SignedDuration, Timestamp};

use super::ids::{SpanId, TraceId, is_random_uuid, parse_traceparent};
use crate::text::Text;

/// Backends store traces by time: work on an object later than this becomes a separate trace.
const SHORT: SignedDuration = SignedDuration::from_hours(1);

/// OpenTelemetry's default limit of links per span.
pub const MOST_LINKS: usize = 128;

/// The object and the work of an attempt, for users who look for an object's trace.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The UID of the object.
    pub uid: Text,
    /// The work on the object, in as many attempts as it takes: the name of the span around them.
    pub work: &'static str,
    /// The place of that span.
    pub goal: Goal,
    /// Since when the work is due; if unknown, since the first attempt.
    pub since: Option<Timestamp>,
    /// The name and start of a wait before the work.
    pub waited: Option<(&'static str, Timestamp)>,
    /// Whether work is left.
    pub open: bool,
    /// Attributes of the object.
    pub attributes: Vec<KeyValue>,
    /// The UID of the object in whose trace this object is shown, below its root; `None` for a trace of its own. Parts
    /// of a trace always belong to the object that the trace is named after.
    pub shown_in: Option<Text>,
    /// UIDs of objects with related traces.
    pub links: Vec<Text>,
    /// The object's annotation [`TRACEPARENT`](Self::TRACEPARENT).
    pub annotation: Option<Text>,
}

/// The end of an object's trace.
#[derive(Clone, Debug)]
pub struct Over {
    /// The object; its work is the name of the root span.
    pub subject: Subject,
    /// The name of the span from the end of the last work to now, in which others work.
    pub last: &'static str,
    /// Why it failed, if so.
    pub failure: Option<&'static str>,
}

/// The place of a work's span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Goal {
    /// In the object's trace, below its root.
    Part,
    /// The object's own span: the root of its trace, unless it is shown in another object's.
    Root,
    /// In a separate trace, which is the same for the same goal, linked to the object's.
    Again(Text),
}

impl Subject {
    /// Annotation on objects: the span that caused them. Users write it, so it becomes a link at
    /// most.
    pub const TRACEPARENT: &str = "tracing.k8s.io/traceparent";

    /// A subject with nothing but its object, work and goal.
    #[must_use]
    pub fn new(uid: impl Into<Text>, work: &'static str, goal: Goal) -> Self {
        Self {
            uid: uid.into(),
            work,
            goal,
            since: None,
            waited: None,
            open: false,
            attributes: Vec::new(),
            shown_in: None,
            links: Vec::new(),
            annotation: None,
        }
    }

    /// Sets since when the work is due.
    #[must_use]
    pub fn since(self, since: Option<Timestamp>) -> Self {
        Self { since, ..self }
    }

    /// Adds attributes, except empty ones.
    #[must_use]
    pub fn with(mut self, attributes: &[(&str, &str)]) -> Self {
        let said = attributes.iter().filter(|(_, value)| !value.is_empty());
        let said = said.map(|(key, value)| text(key, value));
        self.attributes.extend(said);
        self
    }

    /// Adds a link to the trace of the object with this UID.
    #[must_use]
    pub fn linked(mut self, uid: Option<&str>) -> Self {
        self.links.extend(uid.map(Text::from));
        self
    }

    /// Shows the object in the trace of the object with this UID, if there is one.
    #[must_use]
    pub fn shown_in(self, object: Option<&str>) -> Self {
        Self {
            shown_in: object.map(Text::from),
            ..self
        }
    }

    /// The object's own span, and its trace, whose id also decides on sampling.
    pub(super) fn object(&self) -> (TraceId, SpanId) {
        match &self.shown_in {
            None => root_of(&self.uid),
            Some(object) => {
                let trace = TraceId::of(object);
                (trace, trace.span(&self.uid))
            }
        }
    }
}

/// The UID of a volume's claim, if the volume is named after it, as csi-provisioner's are.
#[must_use]
pub fn claim_of(volume: &str) -> Option<&str> {
    let uid = volume.len().checked_sub(36).and_then(|at| volume.get(at..));
    uid.filter(|uid| is_random_uuid(uid))
}

fn root_of(uid: &str) -> (TraceId, SpanId) {
    let trace = TraceId::of(uid);
    (trace, trace.root())
}

/// Facts about an object that attempts find out.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    /// UIDs of objects with related traces.
    links: Vec<Text>,
    /// Whether the driver was called for a volume of an in-tree plugin.
    pub(super) migrated: bool,
}

impl Found {
    pub(super) fn link(&mut self, uid: &str) {
        let known = self.links.len() >= MOST_LINKS || self.links.iter().any(|one| **one == *uid);
        if !known && !uid.is_empty() {
            self.links.push(uid.into());
        }
    }

    /// Adds what another attempt has found.
    pub(super) fn add(&mut self, other: &Self) {
        for uid in &other.links {
            self.link(uid);
        }
        self.migrated |= other.migrated;
    }

    pub(super) fn attribute(&self) -> Option<KeyValue> {
        let migrated = || pair("csi.migrated", Value::Bool(true));
        self.migrated.then(migrated)
    }
}

pub(super) fn text(key: &str, value: &str) -> KeyValue {
    pair(key, Value::String(value.to_owned()))
}

pub(super) fn pair(key: &str, value: Value) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
    }
}

/// The place of an attempt in a trace.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Place {
    pub(super) trace: TraceId,
    /// The span of the work, unless this attempt is a trace of its own.
    pub(super) work: Option<SpanId>,
    /// The parent of the work's span.
    pub(super) root: Option<SpanId>,
    pub(super) links: Vec<(TraceId, SpanId)>,
}

impl Place {
    /// The place of an attempt made at `now` on something that has been due since `due`.
    pub(super) fn of(subject: &Subject, due: Option<Timestamp>, now: Timestamp) -> Self {
        let (object, span) = subject.object();
        // The annotation and the object itself come last, and need room.
        let links = subject.links.iter().take(MOST_LINKS - 2);
        let links = links.map(|uid| root_of(uid));
        let annotated = { subject.annotation.as_deref() }.and_then(parse_traceparent);
        let mut links: Vec<_> = links.chain(annotated).collect();
        let is_late = due.is_some_and(|due| now.duration_since(due) > SHORT);
        let (trace, work, root) = match &subject.goal {
            Goal::Again(goal) => {
                links.push((object, span));
                let trace = TraceId::of_work(&subject.uid, subject.work, goal);
                (trace, Some(trace.root()), None)
            }
            Goal::Part | Goal::Root if is_late => {
                links.push((object, span));
                (TraceId::random(), None, None)
            }
            Goal::Part => (object, Some(object.span(subject.work)), Some(span)),
            Goal::Root => {
                let root = subject.shown_in.is_some().then(|| object.root());
                (object, Some(span), root)
            }
        };
        Self {
            trace,
            work,
            root,
            links,
        }
    }

    /// The links of a span at this place, with those that attempts have found.
    pub(super) fn links(&self, found: &Found) -> Vec<Link> {
        let mut all = self.links.clone();
        for uid in &found.links {
            let root = root_of(uid);
            if !all.contains(&root) {
                all.push(root);
            }
        }
        let links = all.into_iter().take(MOST_LINKS);
        let links = links.map(|(trace, span)| Link {
            trace_id: trace.0.to_vec(),
            span_id: span.0.to_vec(),
        });
        links.collect()
    }
}

#[cfg(test)]
mod tests;
