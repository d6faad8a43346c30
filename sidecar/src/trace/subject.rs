//! The object and the work of an attempt, and its place in a trace. Pure.

use csi_proto::otlp::{AnyValue, KeyValue, Value};
use jiff::{SignedDuration, Timestamp};

use super::ids::{SpanId, TraceId, is_random_uuid, parse_traceparent};
use crate::text::Text;

/// Backends store traces by time: work on an object later than this becomes a separate trace.
const SHORT: SignedDuration = SignedDuration::from_hours(1);

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
    /// The root of the object's trace.
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

    /// Adds a link to the claim of a volume, if the volume is named after it, as csi-provisioner's
    /// are.
    #[must_use]
    pub fn linked_to_claim_of(self, volume: &str) -> Self {
        let uid = volume.len().checked_sub(36).and_then(|at| volume.get(at..));
        self.linked(uid.filter(|uid| is_random_uuid(uid)))
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
        let object = TraceId::of(&subject.uid);
        let of_root = |trace: TraceId| (trace, trace.root());
        let links = subject.links.iter().map(|uid| of_root(TraceId::of(uid)));
        let annotated = { subject.annotation.as_deref() }.and_then(parse_traceparent);
        let mut links: Vec<_> = links.chain(annotated).collect();
        let is_late = due.is_some_and(|due| now.duration_since(due) > SHORT);
        let (trace, work, root) = match &subject.goal {
            Goal::Again(goal) => {
                links.push(of_root(object));
                let trace = TraceId::of_work(&subject.uid, subject.work, goal);
                (trace, Some(trace.root()), None)
            }
            Goal::Part | Goal::Root if is_late => {
                links.push(of_root(object));
                (TraceId::random(), None, None)
            }
            Goal::Part => (object, Some(object.span(subject.work)), Some(object.root())),
            Goal::Root => (object, Some(object.root()), None),
        };
        Self {
            trace,
            work,
            root,
            links,
        }
    }
}

#[cfg(test)]
mod tests;
