//! What an attempt is about, and where that puts it. Pure.

use csi_proto::otlp::{AnyValue, KeyValue, Value};
use jiff::{SignedDuration, Timestamp};

use super::ids::{SpanId, TraceId, is_random_uuid, parse_traceparent};
use crate::text::Text;

/// Backends keep traces by time: what happens to an object later than this is a trace of its own.
const SHORT: SignedDuration = SignedDuration::from_hours(1);

/// What an attempt is about, for those who look for an object's trace.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The UID of the object.
    pub uid: Text,
    /// What is done about it, in as many attempts as that takes: the name of the span around them.
    pub work: &'static str,
    /// Where that span belongs.
    pub goal: Goal,
    /// Since when it is to be done; if nobody knows, since it was tried first.
    pub since: Option<Timestamp>,
    /// What was waited for before, and since when.
    pub waited: Option<(&'static str, Timestamp)>,
    /// Whether something is left to do.
    pub open: bool,
    /// What is known of the object.
    pub attributes: Vec<KeyValue>,
    /// The UIDs of objects whose traces have to do with it.
    pub links: Vec<Text>,
    /// The object's annotation [`TRACEPARENT`](Self::TRACEPARENT).
    pub annotation: Option<Text>,
}

/// The story of an object is over.
#[derive(Clone, Debug)]
pub struct Over {
    /// The object; the work is the name of its root.
    pub subject: Subject,
    /// The span from the end of the last work to now, which others do.
    pub last: &'static str,
    /// Why it ended badly, if it did.
    pub failure: Option<&'static str>,
}

/// Where the span of some work belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Goal {
    /// In the object's trace, below its root.
    Part,
    /// It is the root of the object's trace.
    Root,
    /// In a trace of its own, which is the same for the same goal, linked to the object's.
    Again(Text),
}

impl Subject {
    /// Annotation on objects: whose doing they are. Users write it, and so it is a link at most.
    pub const TRACEPARENT: &str = "tracing.k8s.io/traceparent";

    /// Of which nothing more is known.
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

    /// Due since then.
    #[must_use]
    pub fn since(self, since: Option<Timestamp>) -> Self {
        Self { since, ..self }
    }

    /// With these attributes, but for those that say nothing.
    #[must_use]
    pub fn with(mut self, attributes: &[(&str, &str)]) -> Self {
        let said = attributes.iter().filter(|(_, value)| !value.is_empty());
        let said = said.map(|(key, value)| text(key, value));
        self.attributes.extend(said);
        self
    }

    /// Linked to the trace of the object with this UID.
    #[must_use]
    pub fn linked(mut self, uid: Option<&str>) -> Self {
        self.links.extend(uid.map(Text::from));
        self
    }

    /// Linked to the claim of a volume, if the volume is called after it, as csi-provisioner's are.
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

/// Where an attempt belongs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Place {
    pub(super) trace: TraceId,
    /// The span of the work, unless this attempt is a trace of its own.
    pub(super) work: Option<SpanId>,
    /// What that is below.
    pub(super) root: Option<SpanId>,
    pub(super) links: Vec<(TraceId, SpanId)>,
}

impl Place {
    /// That of an attempt now, on something that is due since then.
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
