//! What `--why-endpoint` says about snapshots, group snapshots, their contents, and claims that they need.

use sidecar::controller::reactor::Now;
use sidecar::controller::request::OfKind;
use sidecar::why::{Explained, Explanation, Kind, Object, Work};

use super::{CLAIMS, CONTENTS, Controller, Failed, GROUP_CONTENTS, GROUPS, Informed, SNAPSHOTS};
use crate::model::Text;
use crate::plan::complaint::RequeueTrigger;
use crate::plan::in_flight::Key;
use crate::plan::operation::Operations;
use crate::plan::request;
use crate::plan::subject::Subject;

/// A known object: its UID, whether it is being deleted, whether it is ready, and the content that it is bound to.
struct Known(String, bool, Option<bool>, Option<Text>);

impl Explained for Controller {
    fn explain(
        &self,
        object: &Object,
        informers: Informed<'_>,
        _now: Now,
    ) -> Option<Explanation<Key>> {
        let name = Text::from(object.key().as_str());
        let (queue, key) = match object.kind {
            Kind::Snapshot => (SNAPSHOTS, Key::Snapshot(name)),
            Kind::Content => (CONTENTS, Key::Content(name)),
            Kind::Claim => (CLAIMS, Key::Claim(name)),
            Kind::GroupSnapshot => (GROUPS, Key::Group(name)),
            Kind::GroupContent => (GROUP_CONTENTS, Key::GroupContent(name)),
            Kind::Volume
            | Kind::Attachment
            | Kind::Class
            | Kind::AttributesClass
            | Kind::SnapshotClass
            | Kind::GroupSnapshotClass
            | Kind::Node
            | Kind::CsiNode
            | Kind::Grant
            | Kind::Driver
            | Kind::Nothing => return None,
        };
        let Some(Known(uid, deleting, ready, content)) = known(&key, informers) else {
            return Some(Explanation::unknown());
        };
        let because = match (&key, deleting, ready) {
            (_, true, _) => "being deleted",
            (Key::Claim(_), false, _) => "stays while a snapshot is made of it",
            (_, false, Some(true)) => "ready to use",
            (_, false, Some(false) | None) => "not ready to use",
        };
        let waits = self.in_flight.awaited(&key).iter().map(awaited);
        let waits: Vec<_> = waits.collect();
        let work = Work::new(queue, key, "reconcile", because).waiting_for(waits);
        let work = match &content {
            Some(content) => work.fact("content", &**content),
            None => work,
        };
        Some(Explanation::known(&uid, None).with(work))
    }

    fn object(&self, key: &Key, _informers: Informed<'_>) -> Object {
        named(&key.object())
    }

    fn fork(&self, key: &Key, informers: Informed<'_>) -> Self {
        let claim = match key {
            Key::Claim(key) => Some(key.clone()),
            Key::Snapshot(key) => informers.snapshot(key).and_then(|it| it.claim()),
            Key::Content(_) | Key::Group(_) | Key::GroupContent(_) => None,
        };
        Self {
            in_flight: self.in_flight.about(claim.as_ref()),
            operations: Operations::default(),
        }
    }

    fn text(failed: &Failed) -> String {
        format!("{}: {}", failed.what, failed.error)
    }
}

fn known(key: &Key, informers: Informed<'_>) -> Option<Known> {
    if let Key::Claim(key) = key {
        // Its UID is kept as bytes.
        let claim = informers.claim(key)?;
        return Some(Known(String::new(), claim.deleting, None, None));
    }
    let subject = Subject::cached(key, informers)?;
    let uid = subject.uid().to_string();
    if let Some(it) = subject.head() {
        return Some(Known(uid, it.deleting, it.ready, it.bound.cloned()));
    }
    let it = subject.content_head()?;
    Some(Known(uid, it.deleting, it.ready, None))
}

impl OfKind for request::Object {
    fn kind(&self) -> &'static str {
        named(self).kind.name()
    }
}

fn named(object: &request::Object) -> Object {
    use request::Object as Named;
    match object {
        Named::Snapshot(key) => Object::of(Kind::Snapshot, key),
        Named::Content(name) => Object::of(Kind::Content, name),
        Named::Claim(key) => Object::of(Kind::Claim, key),
        Named::Volume(name) => Object::of(Kind::Volume, name),
        Named::Group(key) => Object::of(Kind::GroupSnapshot, key),
        Named::GroupContent(name) => Object::of(Kind::GroupContent, name),
        Named::Claims(namespace, _) => Object {
            namespace: namespace.to_string(),
            ..Object::any(Kind::Claim)
        },
    }
}

fn awaited(trigger: &RequeueTrigger) -> Object {
    match trigger {
        RequeueTrigger::Class(name) => Object::of(Kind::SnapshotClass, name),
        RequeueTrigger::AnyClass => Object::any(Kind::SnapshotClass),
        RequeueTrigger::GroupClass(name) => Object::of(Kind::GroupSnapshotClass, name),
        RequeueTrigger::AnyGroupClass => Object::any(Kind::GroupSnapshotClass),
        RequeueTrigger::Object(object) => named(object),
    }
}
